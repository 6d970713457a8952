//! The files of accounts: sections 2.5 to 2.7 and 4.3 of the interface.
//!
//! A [`WorkspacePath`] cannot leave the home folder, and the kernel keeps every lookup beneath it. Files are streamed
//! in both directions and are never in memory whole. Machines write into workspaces as well as clients, so links,
//! pipes, names and sizes are untrusted input.

mod account;
mod asked;
mod download;
mod error;
mod folders;
mod jail;
mod listing;
mod moves;
mod path;
mod resumable;
mod search;
mod spelling;
mod tree;
mod upload;
mod usage;
mod walk;

pub use account::{DATABASE_MARKER, Workspace, Workspaces};
pub use asked::AskedPath;
pub use download::{FileStream, FileTransfer, OpenFile};
pub use error::{SpaceShortage, WorkspaceError};
pub use folders::remove_folder;
pub use listing::{ENTRIES_MAX, FoundEntry, ListingEntry, WorkspaceEntryKind, WorkspaceListing};
pub use path::{FileName, NAME_MAX_BYTES, NameError, PATH_MAX_BYTES, WorkspacePath, WorkspacePathError};
pub use resumable::{AnnouncedUpload, AppendOutcome, BegunUpload, UNFINISHED_IDLE_MAX, UNFINISHED_MAX};
pub use search::{FOUND_MAX, FoundEntries};
pub use upload::{Destination, PlacedUpload, SameName, StagedUpload, Staging};
pub use usage::{DiskUsage, Quota};
pub use walk::{BackupContent, WorkspaceEntry, WorkspaceFile};
