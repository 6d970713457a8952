//! Project quotas: limits by the kernel on the disk space of an account's folders, for all writers.
//!
//! Files inherit the project of their folder. A machine cannot change it: the kernel refuses this outside of the
//! initial user namespace, and so does the seccomp filter. Needs root, and ext4 or XFS mounted with `prjquota`.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Dir, FileType, Mode, OFlags};

use super::sys::{self, FileProject};

/// The first project id; each account has two ids, one for its workspace and one for its index.
const PROJECTS_FROM: u32 = 0x4300_0000;
/// The depth below which folders keep their project when a tree is assigned.
const DEPTH_MAX: usize = 64;
/// The flag `FS_XFLAG_PROJINHERIT`: new entries of the folder inherit its project.
const INHERIT: u32 = 0x200;

/// The disk quota of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskQuota {
    /// Bytes, rounded up to 1 KiB.
    pub bytes_max: u64,
    pub files_max: u64,
}

/// Returns the reason why the file system of the folder enforces no project quotas; `None` if it does.
#[must_use]
pub fn missing_disk_quota(folder: &Path) -> Option<String> {
    let enforced = || -> io::Result<bool> { sys::enforces_project_quotas(open_folder(folder)?.as_fd()) };
    match enforced() {
        Ok(true) => None,
        Ok(false) => Some("the file system is not mounted with prjquota".to_owned()),
        Err(error) => Some(format!("the file system has no project quotas ({error})")),
    }
}

/// Limits the workspace and the index of the account with this number. Blocks; the first call visits all their files.
///
/// # Errors
/// Returns errors of the kernel; the quota may then apply to some of the folders only.
pub fn bound_disk(ordinal: u32, workspace: &Path, index: &Path, quota: DiskQuota) -> io::Result<()> {
    for (folder, project) in [(workspace, 2 * ordinal), (index, 2 * ordinal + 1)] {
        let (folder, project) = (open_folder(folder)?, PROJECTS_FROM + project);
        sys::limit_project(folder.as_fd(), project, quota.bytes_max, quota.files_max)?;
        let FileProject { flags, project: before } = sys::file_project(folder.as_fd())?;
        if before != project || flags & INHERIT == 0 {
            assign_below(&folder, project, DEPTH_MAX)?;
            // Set last, so that an interrupted walk is repeated.
            sys::set_file_project(folder.as_fd(), FileProject { flags: flags | INHERIT, project })?;
        }
    }
    Ok(())
}

/// Assigns everything below a folder to the project. Skips entries that disappear, and entries other than files
/// and folders.
fn assign_below(folder: &OwnedFd, project: u32, depth_left: usize) -> io::Result<()> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_folder = entry.file_type() == FileType::Directory;
        if name == c"." || name == c".." || !(is_folder || entry.file_type() == FileType::RegularFile) {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(opened) = rustix::fs::openat(folder, name, flags, Mode::empty()) else { continue };
        let current = sys::file_project(opened.as_fd())?.flags;
        let flags = if is_folder { current | INHERIT } else { current };
        sys::set_file_project(opened.as_fd(), FileProject { flags, project })?;
        if is_folder && depth_left > 0 {
            assign_below(&opened, project, depth_left - 1)?;
        }
    }
    Ok(())
}

fn open_folder(folder: &Path) -> io::Result<OwnedFd> {
    Ok(fs::File::open(folder)?.into())
}
