//! Walks a folder tree of any depth by descriptors. Keeps few folders open and follows no links.
//!
//! A process in a machine can remove permissions, nest folders deeper than `PATH_MAX`, and move folders during a walk.
//! The service owns all files of a workspace, so it restores the permissions that it needs.

use std::ffi::{CStr, CString};
use std::os::fd::AsRawFd;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// The number of nested folders that stay open; below them only the deepest one is.
const OPEN_MAX: usize = 64;

/// The permissions that the owner needs to read and change a folder.
const FOLDER_NEEDS: Mode = Mode::RWXU;

/// The permission that the owner needs to read a file.
const FILE_NEEDS: Mode = Mode::RUSR;

/// Flags of a folder that is opened to be read or to be synchronised.
pub(crate) const FOLDER_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Flags for opening a file for reading, without waiting for a pipe or device.
pub(crate) const FILE_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// An entry of a walk.
#[derive(Debug)]
pub(crate) struct TreeEntry {
    /// Its name in [`TreeWalk::current_folder`], until the walk continues.
    pub(crate) name: CString,
    /// The type that the folder reports.
    pub(crate) kind: FileType,
    /// The number of folders of the walk above it, from 1.
    pub(crate) depth: usize,
}

/// A walk. Yields the entries of the folder that was entered last, then continues in its parent.
#[derive(Debug)]
pub(crate) struct TreeWalk {
    levels: Vec<WalkLevel>,
}

#[derive(Debug)]
struct WalkLevel {
    /// Closed while a deeply nested subfolder is walked.
    dir: Option<Dir>,
    id: (u64, u64),
    /// The position at which a reopened folder continues.
    resume: i64,
}

impl TreeWalk {
    /// Starts a walk in an open folder.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(crate) fn new(top: OwnedFd) -> Result<Self, Errno> {
        Ok(Self { levels: vec![WalkLevel::new(top)?] })
    }

    /// Returns the folder of the last entry.
    pub(crate) fn current_folder(&self) -> Result<BorrowedFd<'_>, Errno> {
        self.levels.last().and_then(|level| level.dir.as_ref()).ok_or(Errno::BADF)?.fd()
    }

    /// Returns the next entry. After an error the walk skips the rest of the folder that caused it: [`Errno::STALE`]
    /// when folders were moved during the walk.
    pub(crate) fn next(&mut self) -> Option<Result<TreeEntry, Errno>> {
        loop {
            let depth = self.levels.len();
            let level = self.levels.last_mut()?;
            match level.dir.as_mut().and_then(Dir::read) {
                Some(Ok(entry)) => {
                    level.resume = entry.offset();
                    if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                        continue;
                    }
                    let name = entry.file_name().to_owned();
                    return Some(Ok(TreeEntry { name, kind: entry.file_type(), depth }));
                }
                Some(Err(errno)) => {
                    let left = self.leave_folder();
                    return Some(Err(left.err().unwrap_or(errno)));
                }
                None => {
                    if let Err(moved) = self.leave_folder() {
                        return Some(Err(moved));
                    }
                }
            }
        }
    }

    /// Enters a subfolder, whose entries come next. Returns its `stat` result.
    ///
    /// # Errors
    /// Errors of the file system; the walk then continues with the next entry.
    pub(crate) fn enter_folder(&mut self, name: &CStr) -> Result<Stat, Errno> {
        let folder = open_folder(self.current_folder()?, name)?;
        let stat = fs::fstat(&folder)?;
        let level = WalkLevel::new(folder)?;
        if self.levels.len() >= OPEN_MAX
            && let Some(above) = self.levels.last_mut()
        {
            above.dir = None;
        }
        self.levels.push(level);
        Ok(stat)
    }

    fn leave_folder(&mut self) -> Result<(), Errno> {
        let left = self.levels.pop();
        let Some(above) = self.levels.last_mut() else { return Ok(()) };
        if above.dir.is_some() {
            return Ok(());
        }
        above.dir = left.and_then(|left| above.reopen_parent(left.dir?.fd().ok()?).ok());
        if above.dir.is_some() {
            return Ok(());
        }
        while self.levels.last().is_some_and(|level| level.dir.is_none()) {
            self.levels.pop();
        }
        Err(Errno::STALE)
    }
}

impl WalkLevel {
    fn new(folder: OwnedFd) -> Result<Self, Errno> {
        let stat = fs::fstat(&folder)?;
        Ok(Self { dir: Some(Dir::new(folder)?), id: (stat.st_dev, stat.st_ino), resume: 0 })
    }

    /// Reopens a parent folder, unless the subfolder has moved to another parent.
    fn reopen_parent(&self, below: BorrowedFd<'_>) -> Result<Dir, Errno> {
        let folder = fs::openat(below, c"..", FOLDER_FLAGS, Mode::empty())?;
        let stat = fs::fstat(&folder)?;
        if (stat.st_dev, stat.st_ino) != self.id {
            return Err(Errno::STALE);
        }
        let mut dir = Dir::new(folder)?;
        dir.seek(self.resume)?;
        Ok(dir)
    }
}

/// Opens a subfolder for reading and lookup. Permanently restores the owner's permissions for that.
pub(crate) fn open_folder(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = FOLDER_FLAGS | OFlags::NOFOLLOW;
    match fs::openat(parent, name, flags, Mode::empty()) {
        // Permission to read does not imply permission to look up entries.
        Ok(folder) => match fs::openat(&folder, c".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::ACCESS) => {
                grant_permissions(&folder, &fs::fstat(&folder)?, FOLDER_NEEDS)?;
                Ok(folder)
            }
            _ => Ok(folder),
        },
        Err(Errno::ACCESS) => {
            let at = open_path(parent, name)?;
            let stat = fs::fstat(&at)?;
            if file_type(&stat) != FileType::Directory {
                return Err(Errno::NOTDIR);
            }
            grant_permissions(&at, &stat, FOLDER_NEEDS)?;
            fs::openat(&at, c".", flags, Mode::empty())
        }
        Err(other) => Err(other),
    }
}

/// Opens an entry for reading that `open_path` looked up: never a link, nor a replacement. Temporarily restores the
/// owner's permission for that.
///
/// # Errors
/// [`Errno::WOULDBLOCK`] while a process holds a lease on it; the process is notified.
pub(crate) fn open_file(at: &OwnedFd, stat: &Stat) -> Result<OwnedFd, Errno> {
    let path = format!("/proc/self/fd/{}", at.as_raw_fd());
    let open = || fs::openat(CWD, &path, FILE_FLAGS | OFlags::CLOEXEC, Mode::empty());
    match open() {
        Err(Errno::ACCESS) => {
            grant_permissions(at, stat, FILE_NEEDS)?;
            let opened = open();
            let _ = fs::chmodat(CWD, &path, permission_bits(stat), fs::AtFlags::empty());
            opened
        }
        done => done,
    }
}

/// Opens an entry of an open folder with `O_PATH`.
pub(crate) fn open_path(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    fs::openat(parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

fn grant_permissions(at: &impl AsFd, stat: &Stat, needs: Mode) -> Result<(), Errno> {
    // The permissions of a descriptor with `O_PATH` can only be changed through this path.
    let path = format!("/proc/self/fd/{}", at.as_fd().as_raw_fd());
    fs::chmodat(CWD, path, permission_bits(stat) | needs, fs::AtFlags::empty())
}

fn permission_bits(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode & 0o7777)
}

/// Returns the type in a `stat` result.
pub(crate) fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}
