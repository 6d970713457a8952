//! Errors of workspaces, and their mapping from `errno`.

use std::io;

use rustix::io::Errno;

use crate::path::{NameError, WorkspacePathError};

/// The limit that leaves no space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SpaceShortage {
    #[error("the workspace is full: its files may have {0} bytes together")]
    Bytes(u64),
    #[error("the workspace is full: it may have {0} files and folders")]
    Files(u64),
    /// The file alone exceeds the quota.
    #[error("the file is larger than the workspace may be: {0} bytes")]
    FileTooLarge(u64),
    /// The disk of the service, which the accounts share.
    #[error("the disk of the service has too little free space")]
    Disk,
}

/// An error of a workspace operation. Sections 4.3 and 7 of the interface define the statuses.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The path leaves the home folder, by `..` or by a symbolic link that leads out or is absolute (403).
    #[error("the path points outside the workspace")]
    Outside,
    /// The path is invalid: it has a NUL or is too long (400).
    #[error("{0}")]
    InvalidPath(WorkspacePathError),
    /// The file name is invalid (400).
    #[error("{0}")]
    InvalidName(#[from] NameError),
    /// Nothing exists at the path (404).
    #[error("there is nothing at the path")]
    NotFound,
    /// A folder exists where a file is expected (400).
    #[error("the path leads to a folder")]
    IsFolder,
    /// Something other than a folder exists where a folder is expected (400).
    #[error("the path does not lead to a folder")]
    NotAFolder,
    /// A pipe, socket or device exists where a file is expected (400).
    #[error("the path leads to something other than a file")]
    NotAFile,
    /// A folder cannot be created or replaced because something exists (409).
    #[error("the path already exists")]
    AlreadyExists,
    /// A folder is to be moved into itself or into one of its subfolders (400).
    #[error("a folder cannot be moved into itself: choose another folder")]
    IntoItself,
    /// The path of a deletion matches one entry as written, and another one decoded (409).
    #[error(
        "the path is ambiguous: one entry matches it as written, another one decoded; percent-encode every byte of \
         the one that is meant"
    )]
    AmbiguousPath,
    /// A folder to be deleted is not empty (409).
    #[error("the folder is not empty")]
    NotEmpty,
    /// The home folder cannot be deleted (403).
    #[error("the home folder cannot be deleted")]
    HomeFolder,
    /// The file system denies the service access, because of the machine's changes (403).
    #[error("permission denied in the workspace")]
    Denied,
    /// A program in the machine holds a lease on the file (409).
    #[error("a program in the machine holds a lease on the file; try again later")]
    Leased,
    /// The uploaded file has no content (400).
    #[error("the file is empty")]
    Empty,
    /// The operation would exceed the account's quota or the disk's minimum of free space (409).
    #[error("{0}")]
    QuotaExceeded(SpaceShortage),
    /// The folder has more entries than a listing may contain (409).
    #[error("the folder has more than {0} entries")]
    TooManyEntries(usize),
    /// The content of an upload ended early; nothing is stored.
    #[error("the upload was interrupted")]
    Interrupted(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The file system failed (500).
    #[error("the file system failed")]
    Io(#[source] io::Error),
}

impl From<WorkspacePathError> for WorkspaceError {
    fn from(error: WorkspacePathError) -> Self {
        match error {
            WorkspacePathError::Outside => Self::Outside,
            WorkspacePathError::Nul | WorkspacePathError::TooLong => Self::InvalidPath(error),
        }
    }
}

impl From<Errno> for WorkspaceError {
    fn from(errno: Errno) -> Self {
        match errno {
            // RESOLVE_BENEATH reports EXDEV for every escape.
            Errno::XDEV => Self::Outside,
            // An invalid name, a file in place of a parent folder, or a cycle of links.
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG => Self::NotFound,
            Errno::ISDIR => Self::IsFolder,
            Errno::NXIO => Self::NotAFile,
            Errno::EXIST => Self::AlreadyExists,
            Errno::NOTEMPTY => Self::NotEmpty,
            Errno::ACCESS | Errno::PERM => Self::Denied,
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Self::QuotaExceeded(SpaceShortage::Disk),
            other => Self::Io(other.into()),
        }
    }
}

impl From<io::Error> for WorkspaceError {
    fn from(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(errno) => Self::from(errno),
            None => Self::Io(error),
        }
    }
}
