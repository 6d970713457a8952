//! Tests the jail as an ordinary user, and the errors for one without subordinate ids.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use machine::UmlKernel;
use test_support::drivers::{self, EXPECTED, FOLDER};

use crate::site::probe_agent_path;

const UID: u32 = 47_113;

/// Runs tests of this program as an ordinary user, in a mount namespace in which that user exists with these
/// subordinate ids. The drivers that this user can run are tried again; the `expected` ones must run.
fn as_ordinary_user(subordinate: &str, expected: &str, tests: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::copy(std::env::current_exe().unwrap(), path("tests")).unwrap();
    fs::copy(probe_agent_path(), path("probe_agent")).unwrap();
    let kernel = copy_named_kernel(folder.path())
        .map_or_else(String::new, |kernel| format!("CAUSERIE_MACHINE_KERNEL={}", kernel.display()));
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    fs::write(path("passwd"), format!("{passwd}ordinary:x:{UID}:{UID}::/:/bin/sh\n")).unwrap();
    fs::write(path("ids"), subordinate).unwrap();
    fs::create_dir(path("tmp")).unwrap();
    fs::set_permissions(path("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
    let script = format!(
        "set -e; cd {folder}; mount --bind passwd /etc/passwd; touch /etc/subuid /etc/subgid; \
         mount --bind ids /etc/subuid; mount --bind ids /etc/subgid; \
         exec setpriv --reuid {UID} --regid {UID} --clear-groups --inh-caps=-all \
         env TMPDIR={folder}/tmp PROBE_AGENT={folder}/probe_agent {FOLDER}={folder}/tmp/drivers {kernel} \
         {folder}/tests --test-threads 2 \"$@\"",
        folder = folder.path().display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh"]).args(tests).env(EXPECTED, expected);
    let output = command.output().unwrap();
    drivers::adopt_records(&path("tmp/drivers"), "an ordinary user's ");
    output
}

/// Copies the kernel that is named, with its libraries, from a folder that the user may not reach. Returns its new path.
fn copy_named_kernel(folder: &Path) -> Option<PathBuf> {
    let named = std::env::var_os("CAUSERIE_MACHINE_KERNEL").map(PathBuf::from)?;
    let kernel = UmlKernel::find_all(Some(&named)).pop()?;
    let copied = folder.join("kernel");
    fs::create_dir(&copied).unwrap();
    fs::copy(kernel.program(), copied.join("linux")).unwrap();
    if let Ok(libraries) = fs::read_dir(kernel.program().with_file_name("libraries")) {
        fs::create_dir(copied.join("libraries")).unwrap();
        for library in libraries {
            let library = library.unwrap();
            fs::copy(library.path(), copied.join("libraries").join(library.file_name())).unwrap();
        }
    }
    Some(copied.join("linux"))
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The other tests already run as an ordinary user in that case.
#[test]
fn jail_holds_for_ordinary_user() {
    if is_root() {
        let output = as_ordinary_user(
            &format!("{UID}:1700000000:65536\n"),
            &std::env::var(EXPECTED).unwrap_or_default(),
            &["attacks::", "escape::", "life::", "--skip", "qemu::"],
        );
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("51 passed"), "{text}");
    }
}

#[test]
fn missing_subordinate_ids_are_reported() {
    if is_root() {
        let output = as_ordinary_user("", "sandbox", &["life::sandbox::a_host_is_tried_for_real"]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success());
        assert!(text.contains("user ordinary has no subordinate ids in /etc/subuid"), "{text}");
        assert!(text.contains("usermod --add-subuids"), "{text}");
    }
}

/// Another user with the same ids could kill machines.
#[test]
fn shared_subordinate_ids_are_reported() {
    if is_root() {
        let ids = format!("somebody:1700000000:65536\n{UID}:1700000000:65536\n");
        let output = as_ordinary_user(&ids, "sandbox", &["life::sandbox::a_host_is_tried_for_real"]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success());
        assert!(text.contains("overlap 1700000000-1700065535 of user somebody"), "{text}");
        assert!(text.contains("usermod --del-subuids 1700000000-1700065535 --add-subuids"), "{text}");
    }
}
