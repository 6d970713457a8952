//! Project quotas bound the disk space of an account. Few test hosts have a file system with them, so they are tried in
//! a guest: User Mode Linux boots on a separate disk, with this host's files as its read-only root.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use test_support::drivers::{self, DriverTrial};

/// The time after which the guest is killed.
const BOOT_TIMEOUT_SECONDS: &str = "120";
const DISK_BYTES: u64 = 64 << 20;
/// Debian's kernel of User Mode Linux, which has ext4 and its quotas.
const KERNEL: &str = "linux.uml";
/// Where Debian installs it.
const PLACE: &str = "/usr/bin/linux.uml";

#[test]
fn project_quota_bounds_account_disk() {
    if !drivers::can_run(&DriverTrial {
        driver: KERNEL,
        by: "quota-guest",
        program: boot_command,
        outcome: check_boot_output,
    }) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("disk.img");
    File::create(&disk).expect("an image").set_len(DISK_BYTES).expect("an image");
    let made = Command::new("mkfs.ext4")
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .args(["-q", "-F", "-O", "quota,project", "-E", "quotatype=prjquota"])
        .arg(&disk)
        .status();
    assert!(made.expect("mkfs.ext4 of e2fsprogs").success(), "a file system");
    let mut kernel = guest_command(folder.path());
    kernel.arg(format!("ubd0={}", disk.display())).arg("--").arg(folder.path());
    let output = kernel.stdin(Stdio::null()).output().expect("timeout of coreutils");
    let outcome = fs::read_to_string(folder.path().join("outcome")).unwrap_or_default();
    let console = String::from_utf8_lossy(&output.stdout);
    assert_eq!(outcome, "passed", "{console}{}", String::from_utf8_lossy(&output.stderr));
}

/// The kernel with the guest as its first process.
fn guest_command(folder: &Path) -> Command {
    let tests = std::env::current_exe().expect("a program");
    let guest = tests.parent().and_then(Path::parent).expect("a folder").join("examples/quota_guest");
    let mut kernel = Command::new("timeout");
    kernel.args([
        "--signal=KILL",
        BOOT_TIMEOUT_SECONDS,
        KERNEL,
        "mem=128M",
        "rootfstype=hostfs",
        "ro",
        "quiet",
    ]);
    kernel.args(["con=null", "con0=fd:0,fd:1", "ssl=null"]);
    kernel.arg(format!("uml_dir={}", folder.join("uml").display()));
    kernel.arg(format!("init={}", guest.display()));
    kernel
}

/// Boots without a disk, so that the guest ends at once.
fn boot_command(_: &str, folder: &Path) -> Result<Command, String> {
    if !Path::new(PLACE).exists() {
        return Err(format!("there is no {PLACE} (Debian package user-mode-linux)"));
    }
    let mut kernel = guest_command(folder);
    // A later trial detects changes of the kernel.
    kernel.arg("--").arg(folder).env("KERNEL", PLACE);
    Ok(kernel)
}

fn check_boot_output(output: &Output) -> Result<(), String> {
    let console = String::from_utf8_lossy(&output.stdout);
    let panic = console.lines().find(|line| line.contains("Kernel panic"));
    match panic {
        None if output.status.success() => Ok(()),
        None => Err(format!("the kernel ended with {}", output.status)),
        Some(line) => Err(line.to_owned()),
    }
}
