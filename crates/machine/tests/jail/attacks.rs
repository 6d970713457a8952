//! What tools could do to the host with files, and take from everybody else on it.

use std::os::unix::fs::MetadataExt;

use crate::site::{Site, as_agent, as_tools};

/// Every way to make a file or to change its mode.
const WAYS: [&str; 14] = [
    "open",
    "openat",
    "openat2",
    "creat",
    "mknod",
    "mknodat",
    "chmod",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "tmpfile_open",
    "tmpfile_openat",
    "tmpfile_openat2",
    "acl",
];

#[tokio::test]
async fn no_program_of_a_machine_runs_as_another_user_on_the_host() {
    let site = Site::new();
    let (_machine, link) = site.start().await;
    let workspace = site.folder.path().join("workspace");
    for way in WAYS {
        let command = format!("umask 0; /agent attack {way}");
        for (user, outcome) in
            [("tools", as_tools(&link, &command).await), ("agent", as_agent(&link, &command).await)]
        {
            assert!(outcome.starts_with("refused"), "{way} as {user}: {outcome}");
        }
    }
    for entry in std::fs::read_dir(&workspace).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().mode();
        assert_eq!(mode & 0o6000, 0, "{:?} has the mode {mode:o}", entry.file_name());
    }
    // What programs do every day still works.
    let usual = "umask 022; echo x > a && cp -a a b && mkdir -p d/e && mv b d/e/ && ln d/e/b c && ln -s a l && \
                 chmod 750 a && install -m 755 a i && tar -cf t.tar a d && tar -xf t.tar -C d && stat -c %a a i";
    assert_eq!(as_tools(&link, usual).await, "750\n755");
}
