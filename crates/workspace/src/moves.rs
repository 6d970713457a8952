//! Moves and renames files and folders. Nothing is ever replaced.

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{self, AtFlags, FileType, RenameFlags};
use rustix::io::Errno;

use crate::account::Workspace;
use crate::asked::AskedPath;
use crate::error::WorkspaceError;
use crate::folders::only_found;
use crate::jail::{FOLDER_FLAGS, OpenHome, entry_stat, file_type, off_thread};
use crate::path::{FileName, NameError, WorkspacePath};
use crate::spelling::equal_name;
use crate::usage::DiskUsage;

impl Workspace {
    /// Moves the entry at a path into a folder, there under `name`, or under its own name if that is `None`. A link is moved itself,
    /// not its target. Moving the last file of a temporary upload deletes its folder. Returns the new path. A move that
    /// has started continues when this future is dropped.
    ///
    /// # Errors
    /// [`WorkspaceError::NotFound`], [`WorkspaceError::AmbiguousPath`], [`WorkspaceError::HomeFolder`],
    /// [`WorkspaceError::AlreadyExists`], [`WorkspaceError::IntoItself`], [`WorkspaceError::InvalidName`],
    /// [`WorkspaceError::NotAFolder`], [`WorkspaceError::Outside`], and errors of the file system.
    pub async fn move_entry(
        &self,
        asked: &AskedPath,
        folder: &AskedPath,
        name: Option<&FileName>,
    ) -> Result<WorkspacePath, WorkspaceError> {
        let (workspace, asked, folder, name) = (self.clone(), asked.clone(), folder.clone(), name.cloned());
        off_thread(move || {
            let home = workspace.open_home()?;
            let from = only_found(&home, &asked)?;
            let (to, is_folder_gone) = move_now(&home, &from, &folder, name.as_ref())?;
            if is_folder_gone {
                workspace.books.subtract_usage(DiskUsage { bytes: 0, files: 1 });
            }
            Ok(to)
        })
        .await
    }
}

/// Moves an entry. Returns its new path, and whether the folder of a temporary upload was deleted.
fn move_now(
    home: &OpenHome,
    from: &WorkspacePath,
    folder: &AskedPath,
    name: Option<&FileName>,
) -> Result<(WorkspacePath, bool), WorkspaceError> {
    let Some((parent, own_name)) = from.split_name() else { return Err(WorkspaceError::HomeFolder) };
    let name = name.map_or(own_name, FileName::as_bytes);
    let (folder, target) = folder.first_found(home, |path| Ok((path.clone(), home.open_folder(path)?)))?;
    let to = folder.join_name(name);
    if to == *from {
        return Ok((to, false));
    }
    if to == WorkspacePath::temporary_uploads() {
        return Err(NameError::NotAllowed.into()); // in the way of all temporary uploads
    }
    if is_within(&folder, from) {
        return Err(WorkspaceError::IntoItself);
    }
    let source = home.open_beneath(&parent, FOLDER_FLAGS)?;
    let kind = file_type(&entry_stat(source.as_fd(), own_name)?);
    // A name in another normal form counts as the same name, except for the renamed entry itself.
    let equal = equal_name(target.as_fd(), name).filter(|equal| folder != parent || equal != own_name);
    if entry_stat(target.as_fd(), name).is_ok() || equal.is_some() {
        return Err(WorkspaceError::AlreadyExists);
    }
    match rename_entry(source.as_fd(), own_name, target.as_fd(), name, kind) {
        Err(Errno::INVAL) if kind == FileType::Directory => return Err(WorkspaceError::IntoItself),
        Err(Errno::NAMETOOLONG) => return Err(NameError::TooLong.into()),
        Err(Errno::NOTEMPTY) => return Err(WorkspaceError::AlreadyExists),
        done => done?,
    }
    fs::fsync(&target)?;
    fs::fsync(&source)?;
    let is_folder_gone = from.temporary_folder().is_some_and(|(all, id)| {
        let all = home.open_beneath(&all, FOLDER_FLAGS);
        all.is_ok_and(|all| fs::unlinkat(&all, id, AtFlags::REMOVEDIR).is_ok())
    });
    Ok((to, is_folder_gone))
}

/// Renames an entry, unless the new name is taken by the time of the call.
fn rename_entry(
    source: BorrowedFd<'_>,
    own_name: &[u8],
    target: BorrowedFd<'_>,
    name: &[u8],
    kind: FileType,
) -> Result<(), Errno> {
    match fs::renameat_with(source, own_name, target, name, RenameFlags::NOREPLACE) {
        // Not every file system supports it. A hard link never replaces an entry, and renaming a folder replaces only
        // an empty one.
        Err(Errno::INVAL) if kind == FileType::Directory => fs::renameat(source, own_name, target, name),
        Err(Errno::INVAL) => {
            fs::linkat(source, own_name, target, name, AtFlags::empty())?;
            fs::unlinkat(source, own_name, AtFlags::empty())
        }
        done => done,
    }
}

/// Returns true if a path leads to this entry or to an entry in it.
fn is_within(path: &WorkspacePath, entry: &WorkspacePath) -> bool {
    let rest = path.as_bytes().strip_prefix(entry.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}
