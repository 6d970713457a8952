//! Path confinement. Every lookup starts at the descriptor of the home folder, and the kernel keeps it beneath.
//!
//! `openat2` with `RESOLVE_BENEATH` resolves and opens a path in one system call, so nothing can be swapped between a
//! check and its use. Operations on an entry use its name in an open folder.

use std::ffi::CString;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Uid};
use rustix::io::Errno;

use crate::error::WorkspaceError;
use crate::path::WorkspacePath;
use crate::tree::open_folder;

/// The kernel gives up on a look-up when something on the way is moved at that moment; so often it is tried.
const LOOKUP_ATTEMPTS_MAX: usize = 128;

/// The unit in which `stat` tells what a file takes on the disk.
const STAT_BLOCK_BYTES: u64 = 512;

/// The rounding of file sizes by file systems, and the space for their block maps.
const ROUNDING_MAX_BYTES: u64 = 16 * 1024;

/// Permissions of files that the service makes.
pub(crate) const FILE_MODE: Mode = Mode::from_raw_mode(0o644);

/// Permissions of folders that the service makes.
pub(crate) const FOLDER_MODE: Mode = Mode::from_raw_mode(0o755);

/// Flags of a folder that is opened to be read or to be synchronised.
pub(crate) const FOLDER_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// An account's home folder, open.
#[derive(Debug)]
pub(crate) struct Home {
    fd: OwnedFd,
}

impl Home {
    /// Opens the folder of this name in the folder of all accounts.
    ///
    /// It belongs to the service. A machine that takes its owner's permissions away locks nobody out: they are given
    /// back.
    pub(crate) fn open(root: BorrowedFd<'_>, name: &str) -> Result<Self, WorkspaceError> {
        let name = CString::new(name).map_err(|_| WorkspaceError::NotFound)?;
        let fd = open_folder(root, &name)?;
        let mode = Mode::from_raw_mode(fs::fstat(&fd)?.st_mode);
        // A service that is root gets in all the same; what runs in the machine, as two users, does not.
        if mode & FOLDER_MODE != FOLDER_MODE {
            // One that belongs to somebody else is theirs to open.
            let _ = fs::fchmod(&fd, FOLDER_MODE);
        }
        Ok(Self { fd })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Opens what is at the path, following links that stay inside.
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

    /// Opens a folder; tells one that is missing from something else in its place.
    pub(crate) fn open_folder(&self, path: &WorkspacePath) -> Result<OwnedFd, WorkspaceError> {
        match self.open_beneath(path, FOLDER_FLAGS) {
            Err(Errno::NOTDIR) => {
                self.open_beneath(path, OFlags::PATH)?;
                Err(WorkspaceError::NotAFolder)
            }
            done => Ok(done?),
        }
    }

    /// Opens a folder in a folder that is open, making it when it is missing. A link is not followed. Permissions that
    /// its owner lacks are given back.
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

    /// Opens a folder that was just made and gives it its owner and permissions, whatever the umask is.
    pub(crate) fn adopt_folder(
        &self,
        parent: BorrowedFd<'_>,
        name: &[u8],
    ) -> Result<OwnedFd, WorkspaceError> {
        let fd = fs::openat(parent, name, FOLDER_FLAGS | OFlags::NOFOLLOW, Mode::empty())?;
        self.adopt(fd.as_fd(), FOLDER_MODE)?;
        Ok(fd)
    }

    /// Gives what is open to the home's owner, with these permissions.
    pub(crate) fn adopt(&self, fd: BorrowedFd<'_>, mode: Mode) -> Result<(), WorkspaceError> {
        if let Some((uid, gid)) = self.owner()? {
            fs::fchown(fd, Some(uid), Some(gid))?;
        }
        Ok(fs::fchmod(fd, mode)?)
    }

    /// Returns the owner of the home if it is not the service's own user. Only root can give files away; tools run as
    /// that user.
    fn owner(&self) -> Result<Option<(Uid, Gid)>, Errno> {
        let ours = rustix::process::geteuid();
        if !ours.is_root() {
            return Ok(None);
        }
        let stat = fs::fstat(&self.fd)?;
        Ok((stat.st_uid != ours.as_raw()).then(|| (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid))))
    }
}

/// Opens what is at the path in the home folder of this name, in one call, if the kernel has all of the way at hand and
/// no link is on it: one without links and `..` leads nowhere else. Never waits for a disk.
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

/// The type in what `stat` tells.
pub(crate) fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// The size in what `stat` tells, in bytes.
pub(crate) fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// Returns the disk usage of a file in bytes, as `stat` reports it; holes count as nothing.
pub(crate) fn size_on_disk(stat: &Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(STAT_BLOCK_BYTES)
}

/// Returns the size that a file is charged with: its size without holes, and space allocated beyond its end.
pub(crate) fn size_charged(stat: &Stat) -> u64 {
    let (size, disk) = (size(stat), size_on_disk(stat));
    if disk > size && disk - size <= ROUNDING_MAX_BYTES { size } else { disk }
}

/// Returns the size that a folder is charged with, besides its contents: long names, also those of deleted files.
pub(crate) fn folder_size_charged(stat: &Stat) -> u64 {
    size_on_disk(stat).saturating_sub(ROUNDING_MAX_BYTES)
}

/// Does work that may block, off the threads that serve requests. It goes on when nobody waits any more.
pub(crate) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, WorkspaceError> + Send + 'static,
) -> Result<T, WorkspaceError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(stopped) => Err(WorkspaceError::Io(std::io::Error::other(stopped))),
    }
}
