//! Backups and their restore: one archive with a consistent snapshot of the database, and then the files.
//!
//! An archive is a `tar` compressed with `zstd`, so that common tools can read it:
//!
//! ```text
//! causerie-backup.json      the format, the version of the program, and the time
//! database/000000-version   the database in chunks (`store::DatabaseExporter`), in the same format for both engines
//! database/000001-accounts
//! workspaces/ACCOUNT/…      files, folders and links; sparse files in GNU format 1.0
//! seal.json                 the numbers of files and bytes, and the SHA-256 of everything before it
//! ```
//! The database comes first, so that the archive contains every file that it names, unless it was deleted in the
//! meantime. Files that change while they are read are stored as they were read; files that shrink are padded and
//! counted. A file that cannot be stored or restored is named, and does not affect others.

mod checksum;
mod entry;
mod exclusions;
mod extract;
mod output;
mod restore;
mod write;

use std::io;
use std::path::PathBuf;

use store::StoreError;

pub use exclusions::Exclusions;
pub use restore::{OpenAnswers, RestoreReport, interrupted_restore, restore_backup};
pub use write::{BackupReport, write_backup};

/// The version of the archive format. Version 1 had neither sparse files nor hard links.
const FORM: u32 = 2;
const HEAD: &str = "causerie-backup.json";
const SEAL: &str = "seal.json";
const DATABASE: &str = "database";
const WORKSPACES: &str = "workspaces";

/// The contents of a backup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The number of files, folders and links.
    pub files: u64,
    /// The size of the files' content, without holes.
    pub bytes: u64,
    /// The number of chunks of the database.
    pub chunks: u64,
    /// The number of files that shrank while they were read.
    pub changed: u64,
    /// The number of omitted files: pipes, sockets, devices, and unreadable files.
    pub left_out: u64,
}

/// The error of a backup or restore.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The destination of the backup exists.
    #[error("{} already exists, and a backup does not overwrite files: choose another path", .0.display())]
    Taken(PathBuf),
    /// The destination of the restore is not empty.
    #[error("{} is not empty, and a restore does not overwrite files: choose an empty folder", .0.display())]
    NotEmpty(PathBuf),
    /// An earlier restore left its folder, or is under way.
    #[error("{} is left from an interrupted restore, or one is still running: remove it if none is running", .0.display())]
    Interrupted(PathBuf),
    /// A path cannot be used.
    #[error("{}: {error}", path.display())]
    Place {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    /// The archive is invalid, truncated or modified.
    #[error("the backup is damaged: {0}")]
    Damaged(String),
    /// The archive was written by a later version of the program.
    #[error("the backup has format {0}, but this program reads only up to {FORM}: use a later version")]
    TooNew(u32),
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}
