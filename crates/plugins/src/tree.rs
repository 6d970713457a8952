//! The folder that plugins are read from: one on disk, which is untrusted, or the built-in one.
//!
//! Paths are relative to the tree's root, with slashes, without `.` and `..`. On disk, a link is followed only to a
//! target below the root; anything but files and folders is ignored. Concurrent changes of the operator's own
//! folder are not guarded against; the next scan reads it again.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The maximum depth of folders below a skill.
pub(crate) const DEPTH_MAX: usize = 8;
/// The maximum number of entries per folder.
const ENTRIES_MAX: usize = 2000;

/// A folder with plugins.
#[derive(Debug, Clone)]
pub(crate) enum PluginTree {
    /// A folder on disk; the path is canonical.
    Disk(PathBuf),
    /// The files embedded in the program.
    Embedded(&'static [Embedded]),
}

/// An embedded file: path, content, and whether it is executable.
pub(crate) type Embedded = (&'static str, &'static [u8], bool);

/// A file of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeFile {
    pub(crate) path: String,
    /// The size in bytes.
    pub(crate) size: u64,
    /// True if the file is executable.
    pub(crate) executable: bool,
}

/// The reason why a part of a tree is not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TreeError {
    #[error("it does not exist")]
    Missing,
    #[error("it is a link to a place outside the folder")]
    Outside,
    #[error("it is longer than {0} bytes")]
    TooLong(u64),
    #[error("it is not UTF-8 text")]
    NotText,
    #[error("it contains more than {0} files or folders")]
    TooMany(usize),
    #[error("its folders are nested deeper than {DEPTH_MAX}")]
    TooDeep,
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl PluginTree {
    /// Opens the folder at `path`.
    pub(crate) fn open_folder(path: &Path) -> Result<Self, TreeError> {
        let root = path.canonicalize()?;
        if !root.is_dir() {
            return Err(TreeError::Missing);
        }
        Ok(Self::Disk(root))
    }

    /// Returns the tree that is rooted at a folder of this one: nothing outside of it is read.
    pub(crate) fn subtree_at(&self, path: &str) -> Result<Self, TreeError> {
        match self {
            Self::Disk(root) => Self::open_folder(&resolve_within(root, path)?.0),
            Self::Embedded(_) => Ok(self.clone()),
        }
    }

    /// Returns true if the folder of a path has an entry with its name, of any kind and with any target.
    pub(crate) fn has_entry(&self, path: &str) -> bool {
        match self {
            Self::Disk(root) => fs::symlink_metadata(root.join(path)).is_ok(),
            Self::Embedded(_) => self.is_file(path) || self.is_folder(path),
        }
    }

    /// Returns the reason why a path cannot be reached, if there is one.
    pub(crate) fn find_problem(&self, path: &str) -> Option<TreeError> {
        match self {
            Self::Disk(root) => resolve_within(root, path).err(),
            Self::Embedded(_) => (!self.has_entry(path)).then_some(TreeError::Missing),
        }
    }

    /// Returns the name of the root folder.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Disk(root) => root.file_name().and_then(|name| name.to_str()).unwrap_or_default(),
            Self::Embedded(_) => "",
        }
    }

    /// Formats a path for the operator.
    pub(crate) fn display_path(&self, path: &str) -> String {
        match self {
            Self::Disk(root) => root.join(path).display().to_string(),
            Self::Embedded(_) => format!("(built in)/{path}"),
        }
    }

    pub(crate) fn is_file(&self, path: &str) -> bool {
        match self {
            Self::Disk(root) => resolve_within(root, path).is_ok_and(|(_, metadata)| metadata.is_file()),
            Self::Embedded(files) => files.iter().any(|(name, ..)| *name == path),
        }
    }

    pub(crate) fn is_folder(&self, path: &str) -> bool {
        match self {
            Self::Disk(root) => resolve_within(root, path).is_ok_and(|(_, metadata)| metadata.is_dir()),
            Self::Embedded(files) => files.iter().any(|(name, ..)| strip_folder(name, path).is_some()),
        }
    }

    /// Lists the names in a folder, sorted, without hidden ones.
    pub(crate) fn list_names(&self, path: &str) -> Result<Vec<String>, TreeError> {
        let mut names: Vec<String> = Vec::new();
        match self {
            Self::Disk(root) => {
                for entry in fs::read_dir(resolve_within(root, path)?.0)? {
                    // A name that is not UTF-8 cannot be referenced either.
                    if let Ok(name) = entry?.file_name().into_string() {
                        names.push(name);
                    }
                    if names.len() > ENTRIES_MAX {
                        return Err(TreeError::TooMany(ENTRIES_MAX));
                    }
                }
            }
            Self::Embedded(files) => {
                let inside = files.iter().filter_map(|(name, ..)| strip_folder(name, path));
                names.extend(inside.filter_map(|rest| rest.split('/').next()).map(str::to_owned));
            }
        }
        names.retain(|name| !name.starts_with('.'));
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Lists the files below a folder, sorted by path; reports unreachable ones to `skipped`.
    pub(crate) fn list_files(
        &self,
        folder: &str,
        files_max: usize,
        skipped: &mut dyn FnMut(&str, TreeError),
    ) -> Result<Vec<TreeFile>, TreeError> {
        let mut found = Vec::new();
        let mut left = vec![(folder.to_owned(), 0)];
        let mut looked_at = 0;
        while let Some((folder, depth)) = left.pop() {
            if depth > DEPTH_MAX {
                return Err(TreeError::TooDeep);
            }
            for name in self.list_names(&folder)? {
                looked_at += 1;
                if looked_at > files_max {
                    return Err(TreeError::TooMany(files_max));
                }
                let path = join_path(&folder, &name);
                match self.visit_path(&path) {
                    Ok(TreeNode::Folder) => left.push((path, depth + 1)),
                    Ok(TreeNode::File(file)) => found.push(file),
                    Ok(TreeNode::Other) => {}
                    Err(error) => skipped(&path, error),
                }
            }
        }
        found.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(found)
    }

    /// Reads a whole file.
    pub(crate) fn read_bytes(&self, path: &str, bytes_max: u64) -> Result<Vec<u8>, TreeError> {
        match self {
            Self::Embedded(files) => {
                let file = files.iter().find(|(name, ..)| *name == path);
                file.map(|(_, content, _)| content.to_vec()).ok_or(TreeError::Missing)
            }
            Self::Disk(root) => {
                let (place, metadata) = resolve_within(root, path)?;
                // Reading a pipe would block.
                if !metadata.is_file() {
                    return Err(TreeError::Missing);
                }
                let mut bytes = Vec::new();
                File::open(place)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
                if bytes.len() as u64 > bytes_max {
                    return Err(TreeError::TooLong(bytes_max));
                }
                Ok(bytes)
            }
        }
    }

    /// Reads a whole text file.
    pub(crate) fn read_text(&self, path: &str, bytes_max: u64) -> Result<String, TreeError> {
        let bytes = self.read_bytes(path, bytes_max)?;
        if bytes.contains(&0) {
            return Err(TreeError::NotText);
        }
        String::from_utf8(bytes).map_err(|_| TreeError::NotText)
    }

    /// Reads a whole text file. Returns true as the second value if it is not UTF-8 and was read as Latin-1.
    pub(crate) fn any_text(&self, path: &str, bytes_max: u64) -> Result<(String, bool), TreeError> {
        let bytes = self.read_bytes(path, bytes_max)?;
        if bytes.contains(&0) {
            return Err(TreeError::NotText);
        }
        Ok(match String::from_utf8(bytes) {
            Ok(text) => (text, false),
            Err(error) => (error.into_bytes().into_iter().map(char::from).collect(), true),
        })
    }

    fn visit_path(&self, path: &str) -> Result<TreeNode, TreeError> {
        match self {
            Self::Disk(root) => {
                let (_, metadata) = resolve_within(root, path)?;
                let executable = metadata.permissions().mode() & 0o100 != 0;
                Ok(if metadata.is_dir() {
                    TreeNode::Folder
                } else if metadata.is_file() {
                    TreeNode::File(TreeFile { path: path.to_owned(), size: metadata.len(), executable })
                } else {
                    TreeNode::Other
                })
            }
            Self::Embedded(files) => Ok(match files.iter().find(|(name, ..)| *name == path) {
                Some((_, content, executable)) => TreeNode::File(TreeFile {
                    path: path.to_owned(),
                    size: content.len() as u64,
                    executable: *executable,
                }),
                None => TreeNode::Folder,
            }),
        }
    }

    /// Reports the path and metadata of each file below the root for change detection: at most `entries_max`.
    pub(crate) fn visit_metadata(&self, entries_max: usize, mark: &mut dyn FnMut(&Path, &Metadata)) {
        let Self::Disk(root) = self else { return };
        let mut left = vec![(root.clone(), 0)];
        let mut seen = 0;
        while let Some((folder, depth)) = left.pop() {
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                seen += 1;
                if seen > entries_max {
                    return;
                }
                let path = entry.path();
                let name = entry.file_name();
                let hidden = name.as_encoded_bytes().starts_with(b".") && name != ".claude-plugin";
                let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
                mark(&path, &metadata);
                // A link's own metadata does not change with its target; a folder behind a link is not entered.
                if let Some(target) = metadata.is_symlink().then(|| fs::metadata(&path).ok()).flatten() {
                    mark(&path, &target);
                }
                if metadata.is_dir() && !hidden && depth < 2 * DEPTH_MAX {
                    left.push((path, depth + 1));
                }
            }
        }
    }
}

enum TreeNode {
    Folder,
    File(TreeFile),
    Other,
}

/// Resolves a path below the root, including links, and returns its metadata.
fn resolve_within(root: &Path, path: &str) -> Result<(PathBuf, Metadata), TreeError> {
    let missing = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => TreeError::Missing,
        _ => TreeError::Io(error),
    };
    let place = root.join(path).canonicalize().map_err(missing)?;
    if !place.starts_with(root) {
        return Err(TreeError::Outside);
    }
    let metadata = fs::metadata(&place).map_err(missing)?;
    Ok((place, metadata))
}

/// Returns the part of `name` below the folder `path`.
fn strip_folder<'a>(name: &'a str, path: &str) -> Option<&'a str> {
    if path.is_empty() {
        return Some(name);
    }
    name.strip_prefix(path)?.strip_prefix('/')
}

/// Joins a folder and a name.
pub(crate) fn join_path(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// Normalizes a path from a plugin's file (`./skills/x/`); `None` if it is absolute or contains `..`.
pub(crate) fn normalize_path(written: &str) -> Option<String> {
    if written.starts_with('/') || written.contains('\0') || written.contains('\\') {
        return None;
    }
    let names: Vec<&str> = written.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    (!names.contains(&"..")).then(|| names.join("/"))
}

/// Returns values that change whenever a file changes: its time to the nanosecond, its size, its inode.
pub(crate) fn mark_of(metadata: &Metadata) -> [u64; 5] {
    [
        metadata.mtime().cast_unsigned(),
        metadata.mtime_nsec().cast_unsigned(),
        metadata.ctime_nsec().cast_unsigned() ^ metadata.ctime().cast_unsigned(),
        metadata.len(),
        metadata.ino(),
    ]
}
