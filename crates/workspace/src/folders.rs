//! Creates folders, and deletes files and folders.

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, AtFlags, CWD, Dir, FileType, Mode};
use rustix::io::Errno;

use domain::id::AccountId;

use crate::account::{Workspace, Workspaces};
use crate::asked::AskedPath;
use crate::error::WorkspaceError;
use crate::jail::{FOLDER_FLAGS, FOLDER_MODE, OpenHome, entry_stat, file_type, off_thread, size_charged};
use crate::path::{NameError, WorkspacePath};
use crate::resumable::UNFINISHED_FOLDER;
use crate::spelling::equal_name;
use crate::tree::open_folder;
use crate::usage::{DiskUsage, ReservedSpace};

/// Limits the sweeps of a folder to which the machine keeps adding entries.
const SWEEPS_MAX: usize = 64;

/// Limits the entries that one call deletes.
const DELETED_MAX: u64 = 50_000_000;

/// The extent of a deletion.
#[derive(Debug, Clone, Copy)]
enum Extent {
    /// A folder without entries.
    EmptyFolder,
    /// An empty folder, or anything other than a folder.
    Entry,
    /// An entry with all that is in it.
    Tree,
}

impl Workspace {
    /// Creates a folder; its parent must exist. Its path is the meaning of the requested path by its rule.
    ///
    /// # Errors
    /// [`WorkspaceError::AlreadyExists`], [`WorkspaceError::NotFound`] for the parent, [`WorkspaceError::Outside`],
    /// [`WorkspaceError::InvalidName`], [`WorkspaceError::QuotaExceeded`], and errors of the file system.
    pub async fn create_folder(&self, asked: &AskedPath) -> Result<WorkspacePath, WorkspaceError> {
        let path = asked.meant_path()?.clone();
        self.usage().await?;
        let mut room = ReservedSpace::new(self.books.clone());
        self.reserve_space(&mut room, DiskUsage { bytes: 0, files: 1 }).await?;
        let workspace = self.clone();
        off_thread(move || {
            let home = workspace.open_home()?;
            let path = in_spelled_folder(&home, path);
            make_folder(&home, &path)?;
            room.commit_usage(DiskUsage::default());
            Ok(path)
        })
        .await
    }

    /// Deletes the entry at a path: a link itself, not its target; a non-empty folder only with `recursive`,
    /// without following links in it. Deleting the last file of a temporary upload also deletes its folder. A deletion
    /// that has started continues when this future is dropped.
    ///
    /// # Errors
    /// [`WorkspaceError::NotFound`], [`WorkspaceError::AmbiguousPath`], [`WorkspaceError::NotEmpty`],
    /// [`WorkspaceError::HomeFolder`], [`WorkspaceError::Outside`], [`WorkspaceError::Denied`], and errors of the file system.
    pub async fn delete_path(&self, asked: &AskedPath, recursive: bool) -> Result<(), WorkspaceError> {
        self.delete_extent(asked, if recursive { Extent::Tree } else { Extent::Entry }).await
    }

    /// Deletes an empty folder, and nothing else, even if its contents change meanwhile.
    ///
    /// # Errors
    /// Those of [`Self::delete_path`], and [`WorkspaceError::NotAFolder`].
    pub async fn delete_empty_folder(&self, asked: &AskedPath) -> Result<(), WorkspaceError> {
        self.delete_extent(asked, Extent::EmptyFolder).await
    }

    async fn delete_extent(&self, asked: &AskedPath, extent: Extent) -> Result<(), WorkspaceError> {
        let (workspace, asked) = (self.clone(), asked.clone());
        off_thread(move || {
            let home = workspace.open_home()?;
            let deleted = delete_and_measure(&home, &only_found(&home, &asked)?, extent);
            match &deleted {
                Ok(Some(usage)) => workspace.books.subtract_usage(*usage),
                Ok(None) | Err(_) => workspace.books.invalidate_count(),
            }
            deleted.map(drop)
        })
        .await
    }
}

impl Workspaces {
    /// Removes the account's home folder with all files, and its unfinished uploads, if there are any. Its machine must be stopped. A removal that was
    /// interrupted continues with the next call.
    ///
    /// # Errors
    /// Errors of the file system.
    pub async fn remove_account(&self, account: AccountId) -> Result<(), WorkspaceError> {
        let workspaces = self.clone();
        let removing = off_thread(move || {
            let name = account.to_string();
            match fs::openat(workspaces.root_fd(), UNFINISHED_FOLDER, FOLDER_FLAGS, Mode::empty()) {
                Ok(uploads) => remove_tree(uploads.as_fd(), name.as_bytes())?,
                Err(Errno::NOENT) => {}
                Err(other) => return Err(other.into()),
            }
            remove_tree(workspaces.root_fd(), name.as_bytes())
        });
        removing.await?;
        self.forget_usage(account);
        Ok(())
    }
}

/// Deletes an entry with all its contents, if it exists.
fn remove_tree(parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), WorkspaceError> {
    match delete_tree(parent, name) {
        Ok(()) => Ok(fs::fsync(parent)?),
        Err(WorkspaceError::NotFound) => Ok(()),
        Err(error) => Err(error),
    }
}

fn make_folder(home: &OpenHome, path: &WorkspacePath) -> Result<(), WorkspaceError> {
    let Some((parent, name)) = path.split_name() else { return Err(WorkspaceError::AlreadyExists) };
    let parent = home.open_beneath(&parent, FOLDER_FLAGS)?;
    if entry_stat(parent.as_fd(), name).is_err() && equal_name(parent.as_fd(), name).is_some() {
        return Err(WorkspaceError::AlreadyExists);
    }
    match fs::mkdirat(&parent, name, FOLDER_MODE) {
        Err(Errno::NAMETOOLONG) => return Err(NameError::TooLong.into()),
        done => done?,
    }
    home.adopt_folder(parent.as_fd(), name)?;
    Ok(fs::fsync(&parent)?)
}

/// Returns the path in the intended folder, if the path writes folder names in another normal form.
fn in_spelled_folder(home: &OpenHome, path: WorkspacePath) -> WorkspacePath {
    let parts = path.split_name();
    let spelled = parts.and_then(|(folder, name)| Some(home.find_by_normal_form(&folder)?.join_name(name)));
    spelled.unwrap_or(path)
}

/// Returns the only candidate that exists, or whose lookup fails with another error; an error if there is not exactly
/// one.
pub(crate) fn only_found(home: &OpenHome, asked: &AskedPath) -> Result<WorkspacePath, WorkspaceError> {
    let is_there = |path: &&WorkspacePath| !matches!(look_up(home, path), Err(WorkspaceError::NotFound));
    let mut found = asked.candidates().filter(is_there);
    let Some(path) = found.next() else {
        return asked.find_by_normal_form(home).ok_or_else(|| asked.not_found());
    };
    match found.next() {
        Some(_) => Err(WorkspaceError::AmbiguousPath),
        None => Ok(path.clone()),
    }
}

fn look_up(home: &OpenHome, path: &WorkspacePath) -> Result<(), WorkspaceError> {
    if let Some((folder, name)) = path.split_name() {
        entry_stat(home.open_beneath(&folder, FOLDER_FLAGS)?.as_fd(), name)?;
    }
    Ok(())
}

/// Deletes an entry and returns the freed space if it is known.
fn delete_and_measure(
    home: &OpenHome,
    path: &WorkspacePath,
    extent: Extent,
) -> Result<Option<DiskUsage>, WorkspaceError> {
    let Some((folder, name)) = path.split_name() else { return Err(WorkspaceError::HomeFolder) };
    let parent = home.open_beneath(&folder, FOLDER_FLAGS)?;
    let stat = entry_stat(parent.as_fd(), name)?;
    let freed = match file_type(&stat) {
        FileType::Directory => match fs::unlinkat(&parent, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) if matches!(extent, Extent::Tree) => {
                delete_tree(parent.as_fd(), name)?;
                None
            }
            done => done.map(|()| Some(DiskUsage { bytes: 0, files: 1 }))?,
        },
        _ if matches!(extent, Extent::EmptyFolder) => return Err(WorkspaceError::NotAFolder),
        kind => {
            fs::unlinkat(&parent, name, AtFlags::empty())?;
            let bytes = if kind == FileType::RegularFile { size_charged(&stat) } else { 0 };
            Some(DiskUsage { bytes, files: 1 })
        }
    };
    if let Some((all, id)) = path.temporary_folder()
        && let Ok(all) = home.open_beneath(&all, FOLDER_FLAGS)
        && fs::unlinkat(&all, id, AtFlags::REMOVEDIR).is_ok()
    {
        return Ok(freed.map(|freed| DiskUsage { files: freed.files + 1, ..freed }));
    }
    Ok(freed)
}

/// Deletes a folder and its contents, by descriptors alone.
///
/// Moves nested folders to the top folder before emptying them, so that any depth needs only two open folders and no
/// recursion. Even if entries are swapped concurrently, it deletes only entries of folders that it opened without
/// following links.
fn delete_tree(parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), WorkspaceError> {
    let mut tree = DeletionTree { top: open_entry(parent, name)?, lifted: 0, deleted: 0 };
    for _ in 0..SWEEPS_MAX {
        while tree.sweep_top()? {}
        match fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            // Something else has the name now; the requested entry does not exist any more.
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
            Err(other) => return Err(other.into()),
        }
    }
    Err(WorkspaceError::NotEmpty)
}

struct DeletionTree {
    top: OwnedFd,
    lifted: u64,
    deleted: u64,
}

impl DeletionTree {
    /// Processes the top folder once. Returns true if it had entries.
    fn sweep_top(&mut self) -> Result<bool, WorkspaceError> {
        let mut held = false;
        let top = self.top.as_fd().try_clone_to_owned()?;
        for entry in Dir::read_from(&top)? {
            let entry = entry?;
            let name = entry.file_name().to_owned();
            if is_dots(&name) {
                continue;
            }
            held = true;
            if self.delete_entry(top.as_fd(), &name, entry.file_type())? {
                continue;
            }
            match open_entry(top.as_fd(), name.to_bytes()) {
                Ok(folder) => self.empty_folder(&folder)?,
                // Gone or replaced: the next sweep handles it.
                Err(WorkspaceError::NotFound) => {}
                Err(other) => return Err(other),
            }
            self.delete_entry(top.as_fd(), &name, FileType::Directory)?;
        }
        Ok(held)
    }

    /// Deletes the entries of a folder, and moves non-empty folders to the top folder.
    fn empty_folder(&mut self, folder: &OwnedFd) -> Result<(), WorkspaceError> {
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if is_dots(name) || self.delete_entry(folder.as_fd(), name, entry.file_type())? {
                continue;
            }
            self.lift_folder(folder, name)?;
        }
        Ok(())
    }

    fn lift_folder(&mut self, folder: &OwnedFd, name: &CStr) -> Result<(), WorkspaceError> {
        for _ in 0..SWEEPS_MAX {
            self.lifted += 1;
            let lifted = format!(".deleted-{:x}", self.lifted);
            // This may replace an empty folder, which was to be deleted as well.
            match fs::renameat(folder, name, &self.top, lifted) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
                Err(Errno::ACCESS) => drop(open_entry(folder.as_fd(), name.to_bytes())?),
                Err(other) => return Err(other.into()),
            }
        }
        Err(WorkspaceError::NotEmpty)
    }

    /// Deletes an entry unless it is a non-empty folder. Returns true if it does not exist any more.
    fn delete_entry(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &CStr,
        kind: FileType,
    ) -> Result<bool, WorkspaceError> {
        self.deleted += 1;
        if self.deleted > DELETED_MAX {
            return Err(WorkspaceError::NotEmpty);
        }
        let first = if kind == FileType::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        let second = AtFlags::REMOVEDIR.difference(first);
        for flags in [first, second] {
            match fs::unlinkat(folder, name, flags) {
                Ok(()) | Err(Errno::NOENT) => return Ok(true),
                Err(Errno::NOTEMPTY | Errno::EXIST) => return Ok(false),
                // The entry's kind has changed.
                Err(Errno::ISDIR | Errno::NOTDIR) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Ok(false)
    }
}

/// Removes a folder of the service with its contents, at any depth, without following links. Blocks.
///
/// # Errors
/// Errors of the file system. A missing folder is not an error.
pub fn remove_folder(path: &Path) -> std::io::Result<()> {
    let failed = |error| match error {
        WorkspaceError::Io(error) => error,
        other => std::io::Error::other(other),
    };
    let (parent, name) = path.parent().zip(path.file_name()).ok_or(Errno::INVAL)?;
    let parent = fs::openat(CWD, parent, FOLDER_FLAGS, Mode::empty())?;
    match delete_tree(parent.as_fd(), name.as_bytes()) {
        Err(WorkspaceError::NotFound) => Ok(()),
        done => done.map_err(failed),
    }
}

fn open_entry(folder: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, WorkspaceError> {
    let entry = open_folder(folder, &CString::new(name).map_err(|_| WorkspaceError::NotFound)?)?;
    let mode = Mode::from_raw_mode(fs::fstat(&entry)?.st_mode);
    // A folder that its owner may not change can be neither emptied nor moved.
    if mode & Mode::RWXU != Mode::RWXU {
        fs::fchmod(&entry, mode | Mode::RWXU)?;
    }
    Ok(entry)
}

fn is_dots(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn open_test_folder(path: &Path) -> OwnedFd {
        fs::open(path, FOLDER_FLAGS, Mode::empty()).unwrap()
    }

    #[test]
    fn a_tree_of_any_depth_goes() {
        let root = tempfile::tempdir().unwrap();
        let top = root.path().join("top");
        std::fs::create_dir(&top).unwrap();
        let mut at = open_test_folder(&top);
        // Far deeper than any path can name, and wide in some places.
        for depth in 0..3000 {
            if depth % 500 == 0 {
                for name in ["a", "b", ".deleted-1"] {
                    fs::mkdirat(&at, name, Mode::RWXU).unwrap();
                    fs::mkdirat(&at, format!("{name}/in"), Mode::RWXU).unwrap();
                }
            }
            fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = fs::openat(&at, "d", FOLDER_FLAGS, Mode::empty()).unwrap();
        }
        delete_tree(open_test_folder(root.path()).as_fd(), b"top").unwrap();
        assert!(!top.exists());
    }

    #[test]
    fn delete_tree_follows_no_links() {
        let root = tempfile::tempdir().unwrap();
        let (top, kept) = (root.path().join("top"), root.path().join("kept"));
        std::fs::create_dir_all(top.join("in")).unwrap();
        std::fs::create_dir(&kept).unwrap();
        std::fs::write(kept.join("file"), "x").unwrap();
        std::os::unix::fs::symlink(&kept, top.join("in/link")).unwrap();
        std::os::unix::fs::symlink("../../kept", top.join("in/relative")).unwrap();
        delete_tree(open_test_folder(root.path()).as_fd(), b"top").unwrap();
        assert!(!top.exists());
        assert!(kept.join("file").exists());
    }

    #[test]
    fn folder_swapped_for_link_stays_closed() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("kept")).unwrap();
        std::os::unix::fs::symlink("kept", root.path().join("link")).unwrap();
        let root = open_test_folder(root.path());
        assert!(matches!(open_entry(root.as_fd(), b"link"), Err(WorkspaceError::NotFound)));
        assert!(open_entry(root.as_fd(), b"kept").is_ok());
    }
}
