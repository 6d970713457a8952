//! The account's files: sections 2.5 to 2.7 and 4.3 of the interface.
//!
//! A [`WorkspacePath`] cannot climb out by counting, and every look-up is kept beneath the home folder by
//! the kernel. Files come in and go out as streams; none is ever held in memory whole. What lies in a
//! workspace was put there by the account's machine as much as by its clients, so links, pipes, names and
//! sizes are all taken for hostile.

mod account;
mod download;
mod error;
mod everything;
mod folders;
mod jail;
mod listing;
mod path;
mod tree;
mod upload;
mod usage;

pub use account::{Workspace, Workspaces};
pub use download::{FileStream, OpenFile};
pub use error::WorkspaceError;
pub use everything::{Content, Kept, KeptFile};
pub use folders::remove_folder;
pub use listing::{ENTRIES_MAX, Entry, EntryKind, Found, Listing};
pub use path::{AskedPath, FileName, NAME_MAX_BYTES, NameError, PATH_MAX_BYTES, PathError, WorkspacePath};
pub use upload::{Destination, Staged, Staging, Uploaded};
pub use usage::{Quota, Usage};
