//! Creates, removes and copies folders of the workspace with their contents.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use client::{Client, FolderEntry};

use crate::answer::Printer;
use crate::download::{WORKSPACE_MARK, download_file};
use crate::{ServiceConnection, TerminalError, check_uploadable};

/// Bounds how deep folders are copied.
const DEPTH_MAX: usize = 64;
/// Bounds the files and folders of one copy.
const ENTRIES_MAX: usize = 100_000;
const NOT_FOUND: u16 = 404;
const CONFLICT: u16 = 409;

/// Creates folders of the workspace. With `parents`, creates missing parents and accepts existing folders;
/// otherwise each parent must exist.
///
/// # Errors
/// [`TerminalError`]. The folders before the failed one are created.
pub async fn make_folders(
    connection: &ServiceConnection,
    folders: &[String],
    parents: bool,
) -> Result<(), TerminalError> {
    let client = connection.open_client()?;
    for folder in folders {
        let folder = folder.strip_prefix(WORKSPACE_MARK).unwrap_or(folder);
        if parents {
            let mut path = String::new();
            for name in folder.split('/').filter(|name| !name.is_empty()) {
                path = format!("{path}/{name}");
                make_folder(&client, &path).await?;
            }
        } else {
            client.create_folder(folder).await?;
        }
    }
    Ok(())
}

/// Removes files and empty folders of the workspace, or with `recursive` folders with their contents.
///
/// # Errors
/// [`TerminalError`]. The files before the failed one are removed.
pub async fn remove_files(
    connection: &ServiceConnection,
    files: &[String],
    recursive: bool,
) -> Result<(), TerminalError> {
    let client = connection.open_client()?;
    for file in files {
        let file = file.strip_prefix(WORKSPACE_MARK).unwrap_or(file);
        if file.trim_matches('/').is_empty() {
            return Err(TerminalError::Usage(
                "the workspace itself cannot be removed: name files or folders in it".to_owned(),
            ));
        }
        client.delete_file(file, recursive).await?;
    }
    Ok(())
}

/// Creates a folder of the workspace that may exist.
pub(crate) async fn make_folder(client: &Client, folder: &str) -> Result<(), TerminalError> {
    match client.create_folder(folder).await {
        Ok(_) | Err(client::Error::Refused { status: CONFLICT, .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the entries of a folder of the workspace; `None` if it is a file.
pub(crate) async fn list_folder(
    client: &Client,
    path: &str,
) -> Result<Option<Vec<FolderEntry>>, TerminalError> {
    match client.list_folder(path).await {
        Ok(listing) => Ok(Some(listing.entries)),
        // A missing file counts as well: the download reports it.
        Err(client::Error::Refused { status: 400 | NOT_FOUND | CONFLICT, .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The entries to upload: folders, which are created first, and files with their folders.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct UploadPlan {
    pub(crate) folders: Vec<String>,
    pub(crate) files: Vec<(PathBuf, String)>,
    /// The skipped entries, in words.
    pub(crate) skipped: Vec<String>,
}

impl UploadPlan {
    /// Plans the upload of files, and of folders if `recursive`.
    pub(crate) fn for_files(files: &[&Path], folder: &str, recursive: bool) -> Result<Self, TerminalError> {
        let mut plan = Self::default();
        for file in files {
            if recursive && file.is_dir() {
                plan.add_folder(file, folder, 0)?;
            } else {
                check_uploadable(file)?;
                plan.files.push((file.to_path_buf(), folder.to_owned()));
            }
        }
        Ok(plan)
    }

    fn add_folder(&mut self, folder: &Path, into: &str, depth: usize) -> Result<(), TerminalError> {
        let unreadable = |source| TerminalError::LocalFile { path: folder.to_owned(), source };
        // `.` has a name only once it is resolved.
        let resolved = fs::canonicalize(folder).map_err(unreadable)?;
        let Some(name) = resolved.file_name().and_then(|name| name.to_str()) else {
            return Err(TerminalError::Usage(format!(
                "the name of {} is not UTF-8: rename it",
                folder.display()
            )));
        };
        if depth >= DEPTH_MAX || self.files.len() + self.folders.len() >= ENTRIES_MAX {
            let limit = format!("at most {DEPTH_MAX} folders deep and {ENTRIES_MAX} files at once");
            return Err(TerminalError::Usage(format!(
                "{} is too large: copy parts of it, {limit}",
                folder.display()
            )));
        }
        let target = format!("{}/{name}", into.trim_end_matches('/'));
        self.folders.push(target.clone());
        let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries: Vec<PathBuf> =
            entries.map_err(unreadable)?.into_iter().map(|entry| entry.path()).collect();
        entries.sort();
        for path in entries {
            let is_link = path.is_symlink();
            if is_link {
                self.skipped.push(format!("{} is a link; left out", path.display()));
            } else if path.is_dir() {
                self.add_folder(&path, &target, depth + 1)?;
            } else {
                match check_uploadable(&path) {
                    Ok(()) => self.files.push((path, target.clone())),
                    Err(TerminalError::Usage(reason)) => self.skipped.push(format!("{reason}; left out")),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

/// Downloads a folder of the workspace with its contents into a local one, which may exist.
pub(crate) async fn download_folder(
    client: &Client,
    entries: Vec<FolderEntry>,
    target: &Path,
    printer: &mut Printer<io::Stdout, io::Stderr>,
) -> Result<(), TerminalError> {
    let mut count = 0;
    let mut waiting = vec![(entries, target.to_owned(), 0)];
    while let Some((entries, target, depth)) = waiting.pop() {
        match fs::create_dir(&target) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !target.is_dir() => {
                return Err(TerminalError::LocalFile { path: target, source: error });
            }
            _ => {}
        }
        for entry in entries {
            count += 1;
            if depth >= DEPTH_MAX || count > ENTRIES_MAX {
                let limit = format!("at most {DEPTH_MAX} folders deep and {ENTRIES_MAX} files at once");
                return Err(TerminalError::Usage(format!(
                    "{} is too large: copy parts of it, {limit}",
                    entry.path
                )));
            }
            let Some(path) = local_path(&target, &entry.name) else {
                printer.print_note(&format!("{} has a name that is invalid here; left out", entry.path))?;
                continue;
            };
            match entry.kind.as_str() {
                "FILE" => download_file(client, &entry.path, &path, printer).await?,
                "DIRECTORY" => {
                    let entries = client.list_folder(&entry.path).await?.entries;
                    waiting.push((entries, path, depth + 1));
                }
                _ => printer.print_note(&format!("{} is not a regular file; left out", entry.path))?,
            }
        }
    }
    Ok(())
}

/// Returns the place of an entry in a local folder; `None` for a name that leads elsewhere.
fn local_path(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut components = Path::new(name).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(only)), None) if only == name => Some(folder.join(name)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_upload_includes_its_contents() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("case");
        fs::create_dir_all(folder.join("annexes/empty")).unwrap();
        fs::write(folder.join("lease.txt"), "rent").unwrap();
        fs::write(folder.join("annexes/a.txt"), "keys").unwrap();
        fs::write(folder.join("annexes/none.txt"), "").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.join("link")).unwrap();
        let plan = UploadPlan::for_files(&[&folder], "/uploads", true).unwrap();
        assert_eq!(plan.folders, ["/uploads/case", "/uploads/case/annexes", "/uploads/case/annexes/empty"]);
        let files = [
            (folder.join("annexes/a.txt"), "/uploads/case/annexes".to_owned()),
            (folder.join("lease.txt"), "/uploads/case".to_owned()),
        ];
        assert_eq!(plan.files, files);
        assert_eq!(plan.skipped.len(), 2, "{:?}", plan.skipped);
        let refused = UploadPlan::for_files(&[&folder], "/", false).unwrap_err();
        assert!(refused.message().contains("is a folder"), "{}", refused.message());
    }

    #[test]
    fn a_name_leads_nowhere_else() {
        let folder = Path::new("/home/ada");
        assert_eq!(local_path(folder, "a b.txt"), Some(folder.join("a b.txt")));
        for name in ["..", ".", "", "a/b", "/etc/passwd", "../x", "a/"] {
            assert_eq!(local_path(folder, name), None, "{name}");
        }
    }
}
