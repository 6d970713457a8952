//! The first process of a guest whose kernel has project quotas: sets them on a separate file system, tries to exceed them
//! as another user, and leaves the outcome in a file. `tests/project_quota.rs` boots it.

use std::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use machine::{DiskQuota, bound_disk, missing_disk_quota};
use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, finit_module, reboot};

/// The owner of files that a machine's tools write.
const TOOLS: u32 = 4711;
const MIB: u64 = 1 << 20;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() {
    // The host's folder, after arguments that the kernel does not know.
    let folder = std::env::args().nth(1).unwrap_or_default();
    let told = match std::panic::catch_unwind(|| run_quota_checks(&folder)) {
        Ok(Ok(())) => "passed".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it panicked".to_owned(),
    };
    if fs::write("/tmp/outcome", &told).is_err() {
        let _ = writeln!(std::io::stderr(), "{told}; {:?}", std::env::args());
    }
    let _ = reboot(RebootCommand::PowerOff);
}

fn run_quota_checks(folder: &str) -> Outcome {
    mount("none", "/tmp", "hostfs", MountFlags::empty(), std::ffi::CString::new(folder)?.as_c_str())?;
    mount("proc", "/proc", "proc", MountFlags::empty(), c"")?;
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    for module in ["quota_tree", "quota_v2"] {
        let path = format!("/usr/lib/uml/modules/{}/kernel/fs/quota/{module}.ko", release.trim());
        finit_module(File::open(path)?, c"", 0)?;
    }
    let disk = Path::new("/tmp/disk");
    fs::create_dir(disk)?;
    mount("/dev/ubda", disk, "ext4", MountFlags::empty(), c"")?;
    ensure_holds(missing_disk_quota(disk).is_some(), "a file system without prjquota is reported")?;
    rustix::mount::unmount(disk, rustix::mount::UnmountFlags::empty())?;
    mount("/dev/ubda", disk, "ext4", MountFlags::empty(), c"prjquota")?;
    ensure_holds(missing_disk_quota(disk).is_none(), "one with prjquota is found")?;
    check_quotas(disk)
}

fn check_quotas(disk: &Path) -> Outcome {
    let [workspace, index, other] = ["workspace", "index", "other"].map(|name| disk.join(name));
    for folder in [&workspace, &index, &other] {
        fs::create_dir(folder)?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777))?;
    }
    // Existing files count too.
    fs::create_dir_all(workspace.join("old/deep"))?;
    fs::write(workspace.join("old/deep/file"), vec![1; MIB as usize])?;
    for path in ["old/deep/file", "old/deep"] {
        chown(workspace.join(path), Some(TOOLS), Some(TOOLS))?;
    }
    let quota = |mebibytes, files_max| DiskQuota { bytes_max: mebibytes * MIB, files_max };
    bound_disk(5, &workspace, &index, quota(4, 50))?;
    bound_disk(6, &other, &other, quota(4, 50))?;

    fill_file(&workspace.join("big"), 8)?;
    let taken = (fs::metadata(workspace.join("big"))?.blocks() * 512).div_ceil(MIB);
    ensure_holds((2..=3).contains(&taken), &format!("3 MiB were left, and {taken} were written"))?;
    // Subfolders and existing files are bounded, too.
    ensure_holds(
        !can_write(&workspace.join("old/deep/more"), 1)?,
        "nothing more fits into a folder that was there",
    )?;
    ensure_holds(can_write(&index.join("own"), 3)?, "the index has a separate bound")?;
    ensure_holds(can_write(&other.join("own"), 3)?, "and so has another account")?;

    bound_disk(5, &workspace, &index, quota(16, 50))?;
    ensure_holds(can_write(&workspace.join("old/deep/more"), 1)?, "a larger quota holds at once")?;
    let many = "i=0; while [ $i -lt 200 ] && : > \"$0/n$i\"; do i=$((i+1)); done";
    as_tools(many, &workspace)?;
    let count = fs::read_dir(&workspace)?.count();
    ensure_holds((40..=50).contains(&count), &format!("{count} files of at most 50"))
}

/// Writes until the disk is full, at most the given number of MiB.
fn fill_file(file: &Path, mebibytes: u64) -> Outcome<bool> {
    as_tools(&format!("head -c {} /dev/zero > \"$0\"", mebibytes * MIB), file)
}

fn can_write(file: &Path, mebibytes: u64) -> Outcome<bool> {
    Ok(fill_file(file, mebibytes)? && fs::metadata(file)?.len() == mebibytes * MIB)
}

fn as_tools(script: &str, argument: &Path) -> Outcome<bool> {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(script).arg(argument).uid(TOOLS).gid(TOOLS);
    Ok(command.status()?.success())
}

fn ensure_holds(holds: bool, what: &str) -> Outcome {
    if holds { Ok(()) } else { Err(what.into()) }
}
