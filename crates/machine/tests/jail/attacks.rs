//! Tests the effects of tools' files on the host, and the exhaustion of resources.

use std::os::unix::fs::MetadataExt;

use machine::{Enforcement, LimitsKind};

use crate::site::{DriverKind, JailSite, as_agent, as_tools};

on_all_drivers!(
    no_program_of_a_machine_runs_as_another_user_on_the_host,
    memory_that_belongs_to_no_process_is_bounded,
    what_the_kernel_holds_for_sockets_is_counted,
    watches_of_files_are_bounded_for_the_machine,
);

/// Every way to create a file or to change its mode.
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

async fn no_program_of_a_machine_runs_as_another_user_on_the_host(kind: DriverKind) {
    let site = JailSite::new(kind);
    let (_machine, link) = site.start_machine().await;
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
    // The usual operations of programs still work.
    let usual = "umask 022; echo x > a && cp -a a b && mkdir -p d/e && mv b d/e/ && ln d/e/b c && ln -s a l && \
                 chmod 750 a && install -m 755 a i && tar -cf t.tar a d && tar -xf t.tar -C d && stat -c %a a i";
    assert_eq!(as_tools(&link, usual).await, "750\n755");
}

/// Returns the command of an attack that the kernel kills first when memory runs out, as the agent does for each tool.
fn first_to_be_killed(way: &str) -> String {
    format!("(echo 1000 > /proc/self/oom_score_adj; exec /agent attack {way}); true")
}

/// Allocates memory that no process holds, twice the machine's limit: a control group makes the kernel kill the
/// process, otherwise the allocation fails.
async fn memory_that_belongs_to_no_process_is_bounded(kind: DriverKind) {
    let site = JailSite::new(kind);
    let (_machine, link) = site.start_machine().await;
    let counted = kind != DriverKind::Sandbox || site.sandbox.limits_kind() != LimitsKind::Rlimit;
    // An emulated processor fills its memory slowly.
    let ways: &[&str] =
        if kind == DriverKind::Qemu { &["memfd", "shared"] } else { &["memfd", "shm", "shared", "zero"] };
    for way in ways {
        let outcome = as_tools(&link, &first_to_be_killed(way)).await;
        assert!(!outcome.contains("got"), "{way}: {outcome}");
        if !counted || *way == "shm" {
            assert!(outcome.starts_with("refused"), "{way}: {outcome}");
        }
        assert_eq!(as_tools(&link, "echo still here").await, "still here", "after {way}");
    }
    // The usual uses of the device still work.
    assert_eq!(as_tools(&link, "head -c 10 /dev/zero | od -An -tx1 | tr -d ' \\n'").await, "0".repeat(20));
    // Shared memory is released with its processes: all of it is available again.
    let most = "head -c 12m /dev/zero > /dev/shm/x && stat -c %s /dev/shm/x && rm /dev/shm/x";
    assert_eq!(as_tools(&link, most).await, (12 << 20).to_string());
}

/// The kernel buffers the data of sockets. A control group that counts it makes the kernel kill the process;
/// otherwise the agent does, which these machines lack.
async fn what_the_kernel_holds_for_sockets_is_counted(kind: DriverKind) {
    let site = JailSite::new(kind);
    if kind == DriverKind::Sandbox && site.sandbox.limits_kind() == LimitsKind::Rlimit {
        return;
    }
    let (_machine, link) = site.start_machine().await;
    let outcome = as_tools(&link, &first_to_be_killed("sockets")).await;
    // A separate kernel takes it from the machine's memory, where it may fit.
    assert!(kind != DriverKind::Sandbox || !outcome.contains("got"), "{outcome}");
    assert_eq!(as_tools(&link, "echo still here").await, "still here");
}

async fn watches_of_files_are_bounded_for_the_machine(kind: DriverKind) {
    let site = JailSite::new(kind);
    let (_machine, link) = site.start_machine().await;
    let seen =
        as_tools(&link, "cat /proc/sys/user/max_inotify_instances /proc/sys/user/max_inotify_watches").await;
    assert_eq!(seen, "64\n16384");
}

/// The operator learns which limits the kernel does not enforce here, and why.
#[test]
fn the_report_names_every_limit() {
    let site = JailSite::new(DriverKind::Sandbox);
    let report = site.sandbox.limits_report();
    let names: Vec<_> = report.iter().map(|status| status.limit).collect();
    let expected = "memory kernel_memory processes cpu disk_bytes disk_files file_size temporary_files \
                    epoll_watches inotify_watches ipc";
    assert_eq!(names.join(" "), expected.split_whitespace().collect::<Vec<_>>().join(" "));
    let of = |name| report.iter().find(|status| status.limit == name).unwrap();
    let counted = site.sandbox.limits_kind() != LimitsKind::Rlimit;
    let expected = if counted { Enforcement::Kernel } else { Enforcement::Watch };
    assert_eq!(of("memory").enforced_by, expected);
    let own = rustix::process::geteuid().is_root();
    assert_eq!(of("epoll_watches").enforced_by == Enforcement::Kernel, own);
    assert!(report.iter().all(|status| !status.detail.is_empty()));
}
