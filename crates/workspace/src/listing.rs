//! Lists one level of a folder, and looks up the entry at a path.

use std::collections::VecDeque;

use domain::time::Timestamp;
use rustix::fd::AsFd;
use rustix::fs::{Dir, FileType, OFlags, Stat, fstat};
use rustix::io::Errno;

use crate::account::Workspace;
use crate::asked::AskedPath;
use crate::download::{UNKNOWN_MIME, guess_mime_type, modification_time};
use crate::error::WorkspaceError;
use crate::jail::{OpenHome, entry_stat, file_type, off_thread, stat_size};
use crate::path::{WorkspacePath, format_path_bytes};

/// Limits the entries of a listing; larger folders are rejected.
pub const ENTRIES_MAX: usize = 100_000;

/// The type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkspaceEntryKind {
    File,
    Folder,
    /// A symbolic link, with any target.
    Link,
    /// A pipe, a socket or a device.
    Other,
}

/// An entry of a listing (section 2.6 of the interface).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListingEntry {
    /// The name as shown.
    pub name: String,
    pub path: WorkspacePath,
    pub kind: WorkspaceEntryKind,
    /// The size of a file in bytes, 0 for other kinds.
    pub size: u64,
    /// The time of its last change.
    pub modified: Timestamp,
    /// By the file's name, or `inode/directory`, `inode/symlink`, `application/octet-stream`.
    pub mime: &'static str,
}

/// A listing of one folder level: folders first, then by name, without hidden entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceListing {
    /// The candidate path that exists.
    pub path: WorkspacePath,
    /// The entries. Consumed from the front, so that writing them needs no second copy.
    pub entries: VecDeque<ListingEntry>,
}

/// An existing entry, with links resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundEntry {
    /// The candidate path that exists.
    pub path: WorkspacePath,
    /// The type of the entry; never a link.
    pub kind: WorkspaceEntryKind,
    /// The size of a file in bytes, 0 for other kinds.
    pub size: u64,
}

impl Workspace {
    /// Lists one level of a folder, at most [`ENTRIES_MAX`] entries.
    ///
    /// # Errors
    /// [`WorkspaceError::NotFound`], [`WorkspaceError::NotAFolder`], [`WorkspaceError::Outside`],
    /// [`WorkspaceError::TooManyEntries`], and errors of the file system.
    pub async fn list_folder(&self, asked: &AskedPath) -> Result<WorkspaceListing, WorkspaceError> {
        let (workspace, asked) = (self.clone(), asked.clone());
        off_thread(move || {
            let home = workspace.open_home()?;
            asked.first_found(&home, |path| read_folder_entries(&home, path, ENTRIES_MAX))
        })
        .await
    }

    /// Looks up the entry at a path, as for a file that is attached to a question.
    ///
    /// # Errors
    /// [`WorkspaceError::NotFound`], [`WorkspaceError::Outside`], and errors of the file system.
    pub async fn find_entry(&self, asked: &AskedPath) -> Result<FoundEntry, WorkspaceError> {
        let (workspace, asked) = (self.clone(), asked.clone());
        off_thread(move || {
            let home = workspace.open_home()?;
            asked.first_found(&home, |path| {
                let (kind, size) = kind_and_size(&fstat(home.open_beneath(path, OFlags::PATH)?)?);
                Ok(FoundEntry { path: path.clone(), kind, size })
            })
        })
        .await
    }
}

fn read_folder_entries(
    home: &OpenHome,
    path: &WorkspacePath,
    entries_max: usize,
) -> Result<WorkspaceListing, WorkspaceError> {
    let folder = home.open_folder(path)?;
    let mut entries = Vec::new();
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name.first() == Some(&b'.') {
            continue;
        }
        if entries.len() == entries_max {
            return Err(WorkspaceError::TooManyEntries(entries_max));
        }
        match entry_stat(folder.as_fd(), name) {
            Ok(stat) => entries.push(ListingEntry::new(path, name, &stat)),
            // It was removed while the folder was read.
            Err(Errno::NOENT) => {}
            Err(other) => return Err(other.into()),
        }
    }
    sort_entries(&mut entries);
    Ok(WorkspaceListing { path: path.clone(), entries: entries.into() })
}

/// Sorts entries: folders first, then by name.
pub(crate) fn sort_entries(entries: &mut [ListingEntry]) {
    entries.sort_unstable_by(|one, other| {
        let order = |entry: &ListingEntry| entry.kind != WorkspaceEntryKind::Folder;
        order(one).cmp(&order(other)).then_with(|| one.path.cmp(&other.path))
    });
}

impl ListingEntry {
    pub(crate) fn new(folder: &WorkspacePath, name: &[u8], stat: &Stat) -> Self {
        let (kind, size) = kind_and_size(stat);
        let mime = match kind {
            WorkspaceEntryKind::File => guess_mime_type(name),
            WorkspaceEntryKind::Folder => "inode/directory",
            WorkspaceEntryKind::Link => "inode/symlink",
            WorkspaceEntryKind::Other => UNKNOWN_MIME,
        };
        Self {
            name: format_path_bytes(name),
            path: folder.join_name(name),
            kind,
            size,
            modified: modification_time(stat),
            mime,
        }
    }
}

fn kind_and_size(stat: &Stat) -> (WorkspaceEntryKind, u64) {
    match file_type(stat) {
        FileType::RegularFile => (WorkspaceEntryKind::File, stat_size(stat)),
        FileType::Directory => (WorkspaceEntryKind::Folder, 0),
        FileType::Symlink => (WorkspaceEntryKind::Link, 0),
        _ => (WorkspaceEntryKind::Other, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, open};

    #[test]
    fn list_too_large_folder_is_refused() {
        let root = tempfile::tempdir().unwrap();
        for name in ["home/a", "home/b", "home/c"] {
            std::fs::create_dir_all(root.path().join(name)).unwrap();
        }
        let fd = open(root.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
        let home = OpenHome::open_under(fd.as_fd(), "home").unwrap();
        assert_eq!(read_folder_entries(&home, &WorkspacePath::home(), 3).unwrap().entries.len(), 3);
        let refused = read_folder_entries(&home, &WorkspacePath::home(), 2);
        assert!(matches!(refused, Err(WorkspaceError::TooManyEntries(2))));
    }
}
