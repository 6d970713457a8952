//! Backups: the database as it stands at one moment, then the files, in one archive; and back again.
//!
//! An archive is a `tar` in `zstd`, so that anybody can look into it:
//!
//! ```text
//! causerie-backup.json      the form, and who wrote it when
//! database/000000-version   the database, a chunk after the other (`store::Exporter`): the same from either engine
//! database/000001-accounts
//! workspaces/ACCOUNT/…      files, folders and links; files with holes in GNU's sparse form 1.0
//! seal.json                 how much there is, and the SHA-256 of all before it
//! ```
//! The database comes first: so whatever it names is among the files, unless it was deleted meanwhile. Files that
//! change while they are read are kept as they were read; those that shrink are filled up and counted. A file that
//! cannot be kept, or put back, is named and keeps no other from being so.

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
pub use restore::{RestoreReport, restore};
pub use write::{BackupReport, write};

/// The form that is written. The first had neither files with holes nor files with several names.
const FORM: u32 = 2;
const HEAD: &str = "causerie-backup.json";
const SEAL: &str = "seal.json";
const DATABASE: &str = "database";
const WORKSPACES: &str = "workspaces";

/// What a backup holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Files, folders and links.
    pub files: u64,
    /// What is in the files, without their holes.
    pub bytes: u64,
    /// Chunks of the database.
    pub chunks: u64,
    /// Files that shrank while they were read.
    pub changed: u64,
    /// What was left out: pipes, sockets and devices, and what could not be read.
    pub left_out: u64,
}

/// Why there is no backup, or nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// Something is where the backup would go.
    #[error("{} is there already, and a backup replaces nothing", .0.display())]
    Taken(PathBuf),
    /// Something is where the data would go.
    #[error("{} is not empty, and a restore replaces nothing", .0.display())]
    NotEmpty(PathBuf),
    /// A place cannot be used.
    #[error("{}: {error}", path.display())]
    Place {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The archive is not one, is cut or was changed.
    #[error("the backup is damaged: {0}")]
    Damaged(String),
    /// A later version of the program wrote it.
    #[error("the backup has form {0}, this program knows {FORM}")]
    TooNew(u32),
    /// Reading or writing failed on the way.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
