//! Lists one level of a folder, and looks up the entry at a path.

use std::collections::VecDeque;

use domain::time::Timestamp;
use rustix::fd::AsFd;
use rustix::fs::{Dir, FileType, OFlags, Stat, fstat};
use rustix::io::Errno;

use crate::account::Workspace;
use crate::asked::AskedPath;
use crate::download::{UNKNOWN_MIME, mime, modified};
use crate::error::WorkspaceError;
use crate::jail::{Home, entry_stat, file_type, off_thread, size};
use crate::path::{WorkspacePath, shown};

/// Limits the entries of a listing; larger folders are rejected.
pub const ENTRIES_MAX: usize = 100_000;

/// The type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Folder,
    /// A symbolic link, whatever its target.
    Link,
    /// A pipe, a socket or a device.
    Other,
}

/// An entry of a listing (section 2.6 of the interface).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name as shown.
    pub name: String,
    pub path: WorkspacePath,
    pub kind: EntryKind,
    /// The size of a file in bytes, 0 for other kinds.
    pub size: u64,
    /// The time of its last change.
    pub modified: Timestamp,
    /// By the file's name, or `inode/directory`, `inode/symlink`, `application/octet-stream`.
    pub mime: &'static str,
}

/// A listing of one folder level: folders first, then by name, without hidden entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The candidate path that exists.
    pub path: WorkspacePath,
    /// The entries. Consumed from the front, so that writing them needs no second copy.
    pub entries: VecDeque<Entry>,
}

/// An existing entry, with links resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The candidate path that exists.
    pub path: WorkspacePath,
    /// The type of the entry; never a link.
    pub kind: EntryKind,
    /// The size of a file in bytes, 0 for other kinds.
    pub size: u64,
}

impl Workspace {
    /// Lists one level of a folder, at most [`ENTRIES_MAX`] entries.
    ///
    /// # Errors
    /// [`WorkspaceError::NotFound`], [`WorkspaceError::NotAFolder`], [`WorkspaceError::Outside`],
    /// [`WorkspaceError::TooManyEntries`], and errors of the file system.
    pub async fn list(&self, asked: &AskedPath) -> Result<Listing, WorkspaceError> {
        let (workspace, asked) = (self.clone(), asked.clone());
        off_thread(move || {
            let home = workspace.home()?;
            asked.first_found(&home, |path| list(&home, path, ENTRIES_MAX))
        })
        .await
    }

    /// Looks up the entry at a path, as for a file that is attached to a question.
    ///
    /// # Errors
    /// [`WorkspaceError::NotFound`], [`WorkspaceError::Outside`], and errors of the file system.
    pub async fn find(&self, asked: &AskedPath) -> Result<Found, WorkspaceError> {
        let (workspace, asked) = (self.clone(), asked.clone());
        off_thread(move || {
            let home = workspace.home()?;
            asked.first_found(&home, |path| {
                let (kind, size) = kind_and_size(&fstat(home.open_beneath(path, OFlags::PATH)?)?);
                Ok(Found { path: path.clone(), kind, size })
            })
        })
        .await
    }
}

fn list(home: &Home, path: &WorkspacePath, entries_max: usize) -> Result<Listing, WorkspaceError> {
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
            Ok(stat) => entries.push(Entry::new(path, name, &stat)),
            // It was removed while the folder was read.
            Err(Errno::NOENT) => {}
            Err(other) => return Err(other.into()),
        }
    }
    sort(&mut entries);
    Ok(Listing { path: path.clone(), entries: entries.into() })
}

/// Sorts entries: folders first, then by name.
pub(crate) fn sort(entries: &mut [Entry]) {
    entries.sort_unstable_by(|one, other| {
        let order = |entry: &Entry| entry.kind != EntryKind::Folder;
        order(one).cmp(&order(other)).then_with(|| one.path.cmp(&other.path))
    });
}

impl Entry {
    pub(crate) fn new(folder: &WorkspacePath, name: &[u8], stat: &Stat) -> Self {
        let (kind, size) = kind_and_size(stat);
        let mime = match kind {
            EntryKind::File => mime(name),
            EntryKind::Folder => "inode/directory",
            EntryKind::Link => "inode/symlink",
            EntryKind::Other => UNKNOWN_MIME,
        };
        Self { name: shown(name), path: folder.join(name), kind, size, modified: modified(stat), mime }
    }
}

fn kind_and_size(stat: &Stat) -> (EntryKind, u64) {
    match file_type(stat) {
        FileType::RegularFile => (EntryKind::File, size(stat)),
        FileType::Directory => (EntryKind::Folder, 0),
        FileType::Symlink => (EntryKind::Link, 0),
        _ => (EntryKind::Other, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, open};

    #[test]
    fn a_folder_that_is_too_large_is_refused() {
        let root = tempfile::tempdir().unwrap();
        for name in ["home/a", "home/b", "home/c"] {
            std::fs::create_dir_all(root.path().join(name)).unwrap();
        }
        let fd = open(root.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
        let home = Home::open(fd.as_fd(), "home").unwrap();
        assert_eq!(list(&home, &WorkspacePath::home(), 3).unwrap().entries.len(), 3);
        let refused = list(&home, &WorkspacePath::home(), 2);
        assert!(matches!(refused, Err(WorkspaceError::TooManyEntries(2))));
    }
}
