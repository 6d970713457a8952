//! Project quotas bound what an account takes on disk. Few test hosts have a file system with them, so they are tried in
//! a guest: User Mode Linux boots on a disk of its own, with this host's files as its read-only root.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

/// The time after which the guest is killed.
const BOOT_TIMEOUT_SECONDS: &str = "120";
const DISK_BYTES: u64 = 64 << 20;

#[test]
fn the_kernel_bounds_what_an_account_takes_on_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("disk.img");
    File::create(&disk).expect("an image").set_len(DISK_BYTES).expect("an image");
    let made = Command::new("mkfs.ext4")
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .args(["-q", "-F", "-O", "quota,project", "-E", "quotatype=prjquota"])
        .arg(&disk)
        .status();
    assert!(made.expect("mkfs.ext4 of e2fsprogs").success(), "a file system");
    let tests = std::env::current_exe().expect("a program");
    let guest = tests.parent().and_then(Path::parent).expect("a folder").join("examples/quota_guest");
    let mut kernel = Command::new("timeout");
    kernel.args([
        "--signal=KILL",
        BOOT_TIMEOUT_SECONDS,
        "linux.uml",
        "mem=128M",
        "rootfstype=hostfs",
        "ro",
        "quiet",
    ]);
    kernel.args(["con=null", "con0=fd:0,fd:1", "ssl=null"]);
    kernel.arg(format!("uml_dir={}", folder.path().join("uml").display()));
    kernel.arg(format!("ubd0={}", disk.display()));
    kernel.arg(format!("init={}", guest.display())).arg("--").arg(folder.path());
    let output = kernel.stdin(Stdio::null()).output().expect("timeout of coreutils");
    let outcome = fs::read_to_string(folder.path().join("outcome")).unwrap_or_default();
    let console = String::from_utf8_lossy(&output.stdout);
    assert_eq!(outcome, "passed", "{console}{}", String::from_utf8_lossy(&output.stderr));
}
