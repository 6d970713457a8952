//! What files the workspace holds now.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The most files that are indexed; those beyond it, by path, are named as left out.
pub const FILES_MAX: usize = 20_000;
/// The most entries of folders that one walk looks at.
const ENTRIES_MAX: usize = 200_000;
/// How deep folders are followed.
const DEPTH_MAX: usize = 32;
/// The longest workspace path that is indexed, in bytes.
const PATH_MAX_BYTES: usize = 1_024;

/// A file as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The workspace path, starting with a slash.
    pub path: String,
    /// What changes when the file does.
    pub stamp: Stamp,
}

/// What changes when a file does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Its size in bytes.
    pub size: i64,
    /// When its content changed, in nanoseconds since 1970.
    pub modified_nanos: i64,
    /// When its content or attributes changed, in nanoseconds since 1970: no program sets this one.
    pub changed_nanos: i64,
    /// Its number in the file system.
    pub inode: i64,
}

/// What a walk found.
#[derive(Debug, Default)]
pub struct Walk {
    /// The files, by path.
    pub files: Vec<Found>,
    /// Whether there are more than the bounds allow.
    pub cut: bool,
}

/// The files under `root` that are neither hidden nor links nor too deep, in the order of their paths.
#[must_use]
pub fn walk(root: &Path) -> Walk {
    let mut walk = Walk::default();
    let mut entries_left = ENTRIES_MAX;
    let mut folders: Vec<(PathBuf, String, usize)> = vec![(root.to_owned(), String::new(), 0)];
    while let Some((folder, path, depth)) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let Some(left) = entries_left.checked_sub(1) else {
                walk.cut = true;
                break;
            };
            entries_left = left;
            let name = entry.file_name();
            // A name that is no UTF-8 can't be said in a citation; the other tools still reach the file.
            let Some(name) = name.to_str() else { continue };
            if name.starts_with('.') || path.len() + name.len() >= PATH_MAX_BYTES {
                continue;
            }
            let Ok(metadata) = entry.path().symlink_metadata() else { continue };
            let child = format!("{path}/{name}");
            if metadata.is_dir() {
                if depth + 1 < DEPTH_MAX {
                    folders.push((entry.path(), child, depth + 1));
                } else {
                    walk.cut = true;
                }
            } else if metadata.is_file() {
                walk.files.push(Found { path: child, stamp: stamp(&metadata) });
            }
        }
    }
    walk.files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    if walk.files.len() > FILES_MAX {
        walk.files.truncate(FILES_MAX);
        walk.cut = true;
    }
    walk
}

fn stamp(metadata: &std::fs::Metadata) -> Stamp {
    let nanos = |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
    Stamp {
        size: i64::try_from(metadata.size()).unwrap_or(i64::MAX),
        modified_nanos: nanos(metadata.mtime(), metadata.mtime_nsec()),
        changed_nanos: nanos(metadata.ctime(), metadata.ctime_nsec()),
        // The bits count, not the number: SQLite's integers are signed.
        inode: metadata.ino().cast_signed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_files_and_links_are_left_out() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("b/.git")).unwrap();
        for name in ["b/one.txt", "a.txt", ".secret", "b/.git/config"] {
            std::fs::write(root.path().join(name), "x").unwrap();
        }
        std::os::unix::fs::symlink("/etc", root.path().join("outside")).unwrap();
        std::os::unix::fs::symlink("a.txt", root.path().join("again.txt")).unwrap();
        let paths: Vec<String> = walk(root.path()).files.into_iter().map(|file| file.path).collect();
        assert_eq!(paths, ["/a.txt", "/b/one.txt"]);
    }
}
