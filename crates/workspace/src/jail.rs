//! Path confinement. Every lookup starts at the descriptor of the home folder, and the kernel keeps it beneath.
//!
//! `openat2` with `RESOLVE_BENEATH` resolves and opens a path in one system call, so nothing can be swapped between a
//! check and its use. Operations on an entry use its name in an open folder.

use std::ffi::CString;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, AtFlags, Gid, Mode, OFlags, ResolveFlags, Stat, Uid};
use rustix::io::Errno;

use crate::error::WorkspaceError;
use crate::path::WorkspacePath;
use crate::tree::open_folder;
pub(crate) use crate::tree::{FOLDER_FLAGS, file_type};

/// Limits the retries of a lookup that the kernel aborts because a component was moved.
const LOOKUP_ATTEMPTS_MAX: usize = 128;

/// The unit of disk usage in `stat`.
const STAT_BLOCK_BYTES: u64 = 512;

/// The rounding of file sizes by file systems, and the space for their block maps.
const ROUNDING_MAX_BYTES: u64 = 16 * 1024;

/// Permissions of files that the service creates.
pub(crate) const FILE_MODE: Mode = Mode::from_raw_mode(0o644);

/// Permissions of folders that the service creates.
pub(crate) const FOLDER_MODE: Mode = Mode::from_raw_mode(0o755);

/// An open home folder.
#[derive(Debug)]
pub(crate) struct OpenHome {
    fd: OwnedFd,
}

impl OpenHome {
    /// Opens the folder of this name in the folder of all accounts.
    ///
    /// The service owns it. Restores the owner's permissions if a machine removed them.
    pub(crate) fn open_under(root: BorrowedFd<'_>, name: &str) -> Result<Self, WorkspaceError> {
        let name = CString::new(name).map_err(|_| WorkspaceError::NotFound)?;
        let fd = open_folder(root, &name)?;
        let mode = Mode::from_raw_mode(fs::fstat(&fd)?.st_mode);
        // Root does not need them, but the two users in the machine do.
        if mode & FOLDER_MODE != FOLDER_MODE {
            // A folder of another owner is left alone.
            let _ = fs::fchmod(&fd, FOLDER_MODE);
        }
        Ok(Self { fd })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Opens a path and follows links within the home folder.
    pub(crate) fn open_beneath(&self, path: &WorkspacePath, flags: OFlags) -> Result<OwnedFd, Errno> {
        let bytes = if path.is_home() { b"." } else { path.as_bytes() };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::CLOEXEC;
        let mut last = Errno::AGAIN;
        for _ in 0..LOOKUP_ATTEMPTS_MAX {
            match fs::openat2(&self.fd, bytes, flags, Mode::empty(), resolve) {
                Err(again @ (Errno::AGAIN | Errno::INTR)) => last = again,
                done => return done,
            }
        }
        Err(last)
    }

    /// Opens a folder. Distinguishes a missing folder from another kind of entry.
    pub(crate) fn open_folder(&self, path: &WorkspacePath) -> Result<OwnedFd, WorkspaceError> {
        match self.open_beneath(path, FOLDER_FLAGS) {
            Err(Errno::NOTDIR) => {
                self.open_beneath(path, OFlags::PATH)?;
                Err(WorkspaceError::NotAFolder)
            }
            done => Ok(done?),
        }
    }

    /// Opens a subfolder, or creates it. Does not follow links. Restores the owner's permissions.
    pub(crate) fn open_or_make(
        &self,
        parent: BorrowedFd<'_>,
        name: &[u8],
    ) -> Result<OwnedFd, WorkspaceError> {
        match fs::mkdirat(parent, name, FOLDER_MODE) {
            Ok(()) => self.adopt_folder(parent, name),
            Err(Errno::EXIST) => {
                let name = CString::new(name).map_err(|_| WorkspaceError::NotAFolder)?;
                match open_folder(parent, &name) {
                    Err(Errno::NOTDIR | Errno::LOOP) => Err(WorkspaceError::NotAFolder),
                    opened => Ok(opened?),
                }
            }
            Err(other) => Err(other.into()),
        }
    }

    /// Opens a new folder and sets its owner and permissions, independent of the umask.
    pub(crate) fn adopt_folder(
        &self,
        parent: BorrowedFd<'_>,
        name: &[u8],
    ) -> Result<OwnedFd, WorkspaceError> {
        let fd = fs::openat(parent, name, FOLDER_FLAGS | OFlags::NOFOLLOW, Mode::empty())?;
        self.set_owner_and_mode(fd.as_fd(), FOLDER_MODE)?;
        Ok(fd)
    }

    /// Sets the owner to the home's and the permissions.
    pub(crate) fn set_owner_and_mode(&self, fd: BorrowedFd<'_>, mode: Mode) -> Result<(), WorkspaceError> {
        if let Some((uid, gid)) = self.home_owner()? {
            fs::fchown(fd, Some(uid), Some(gid))?;
        }
        Ok(fs::fchmod(fd, mode)?)
    }

    /// Returns the owner of the home if it is not the service's own user. Only root can give files away; tools run as
    /// that user.
    fn home_owner(&self) -> Result<Option<(Uid, Gid)>, Errno> {
        let ours = rustix::process::geteuid();
        if !ours.is_root() {
            return Ok(None);
        }
        let stat = fs::fstat(&self.fd)?;
        Ok((stat.st_uid != ours.as_raw()).then(|| (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid))))
    }
}

/// Opens a path below the home folder of this name in one call, if the whole lookup is cached and has no link: a path
/// without links and `..` cannot escape. Never waits for a disk.
pub(crate) fn open_at_hand(
    root: BorrowedFd<'_>,
    home: &str,
    path: &WorkspacePath,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let whole = [home.as_bytes(), path.as_bytes()].join(&b'/');
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::CACHED;
    fs::openat2(root, whole, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// Stats an entry of an open folder without following links.
pub(crate) fn entry_stat(parent: BorrowedFd<'_>, name: &[u8]) -> Result<Stat, Errno> {
    fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Returns the size in bytes in a `stat` result.
pub(crate) fn stat_size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// Returns the disk usage of a file in bytes, as `stat` reports it; holes count as nothing.
pub(crate) fn size_on_disk(stat: &Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(STAT_BLOCK_BYTES)
}

/// Returns the size that a file is charged with: its size without holes, and space allocated beyond its end.
pub(crate) fn size_charged(stat: &Stat) -> u64 {
    let (size, disk) = (stat_size(stat), size_on_disk(stat));
    if disk > size && disk - size <= ROUNDING_MAX_BYTES { size } else { disk }
}

/// Returns the size that a folder is charged with, besides its contents: long names, including names of deleted files.
pub(crate) fn folder_size_charged(stat: &Stat) -> u64 {
    size_on_disk(stat).saturating_sub(ROUNDING_MAX_BYTES)
}

/// Runs blocking work off the request threads. It continues when this future is dropped.
pub(crate) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, WorkspaceError> + Send + 'static,
) -> Result<T, WorkspaceError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(stopped) => Err(WorkspaceError::Io(std::io::Error::other(stopped))),
    }
}
