//! Errors of workspaces, and their mapping from `errno`.

use std::io;

use rustix::io::Errno;

use crate::path::{NameError, PathError};

/// Why an operation on a workspace was not done. Sections 4.3 and 7 of the interface give each its status.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The path leaves the home folder, by `..` or by a symbolic link that leads out or is absolute (403).
    #[error("the path points outside the workspace")]
    Outside,
    /// The text is no path: NUL, or longer than any path (400).
    #[error("{0}")]
    InvalidPath(PathError),
    /// The text is no name of a file (400).
    #[error("{0}")]
    InvalidName(#[from] NameError),
    /// Nothing is there (404).
    #[error("there is nothing at the path")]
    NotFound,
    /// A file was wanted and a folder is there (400).
    #[error("the path leads to a folder")]
    IsFolder,
    /// A folder was wanted and something else is there (400).
    #[error("the path does not lead to a folder")]
    NotAFolder,
    /// A file was wanted and a pipe, socket or device is there (400).
    #[error("the path leads to something that is not a file")]
    NotAFile,
    /// A folder cannot be made or replaced because something is there (409).
    #[error("the path is taken already")]
    AlreadyExists,
    /// A folder that is to go holds something (409).
    #[error("the folder is not empty")]
    NotEmpty,
    /// The home folder cannot be deleted (403).
    #[error("the home folder cannot be deleted")]
    HomeFolder,
    /// The file system refuses the service; the machine made it so (403).
    #[error("the workspace does not permit this")]
    Denied,
    /// A program in the machine holds a lease on the file and does not give it up yet (409).
    #[error("a program in the machine holds a lease on the file; try again later")]
    Leased,
    /// The uploaded file has no content (400).
    #[error("the file is empty")]
    Empty,
    /// The account's quota, or the disk's floor of free space, would be passed (409).
    #[error("the workspace is full")]
    QuotaExceeded,
    /// The folder holds more than can be listed at once (409).
    #[error("the folder has more than {0} entries")]
    TooManyEntries(usize),
    /// The content of an upload broke off; nothing of it is left.
    #[error("the upload broke off")]
    Interrupted(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The file system failed (500).
    #[error("the file system failed")]
    Io(#[source] io::Error),
}

impl From<PathError> for WorkspaceError {
    fn from(error: PathError) -> Self {
        match error {
            PathError::Outside => Self::Outside,
            PathError::Nul | PathError::TooLong => Self::InvalidPath(error),
        }
    }
}

impl From<Errno> for WorkspaceError {
    fn from(errno: Errno) -> Self {
        match errno {
            // RESOLVE_BENEATH answers EXDEV for every way out.
            Errno::XDEV => Self::Outside,
            // A name that no file system takes, a file in place of a folder on the way, a circle of links.
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG => Self::NotFound,
            Errno::ISDIR => Self::IsFolder,
            Errno::NXIO => Self::NotAFile,
            Errno::EXIST => Self::AlreadyExists,
            Errno::NOTEMPTY => Self::NotEmpty,
            Errno::ACCESS | Errno::PERM => Self::Denied,
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Self::QuotaExceeded,
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
