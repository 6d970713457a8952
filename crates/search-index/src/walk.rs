//! Lists the files of the workspace.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The maximum number of indexed files; the result reports when the workspace has more.
pub const FILES_MAX: usize = 20_000;
/// The maximum number of folder entries per walk.
const ENTRIES_MAX: usize = 200_000;
/// The maximum folder depth.
const DEPTH_MAX: usize = 32;
/// The longest workspace path that is indexed, in bytes.
const PATH_MAX_BYTES: usize = 1_024;

/// A file in its current state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFile {
    /// The workspace path, starting with a slash.
    pub path: String,
    pub stamp: FileStamp,
    /// True if the file or one of its folders is hidden; such files are found only if they are named.
    pub hidden: bool,
}

/// Detects changes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
    /// The size in bytes.
    pub size: i64,
    /// The modification time, in nanoseconds since 1970.
    pub modified_nanos: i64,
    /// The time of the last change of content or attributes, in nanoseconds since 1970; programs cannot set it.
    pub changed_nanos: i64,
    pub inode: i64,
}

/// The outcome of a walk.
#[derive(Debug, Default)]
pub struct WorkspaceWalk {
    /// The files, sorted by path.
    pub files: Vec<FoundFile>,
    /// True if a bound was exceeded.
    pub cut: bool,
}

/// Lists the files under `root` that are neither hidden nor links nor too deep, and those at or below `named` even
/// if these paths are hidden. Sorted by path.
#[must_use]
pub fn walk_workspace(root: &Path, named: &[String]) -> WorkspaceWalk {
    let mut walk = WorkspaceWalk::default();
    let mut entries_left = ENTRIES_MAX;
    walk_folder(root.to_owned(), String::new(), false, &mut entries_left, &mut walk);
    let hidden = named.iter().filter(|path| is_hidden(path)).filter_map(|path| {
        let place = root.join(path.trim_start_matches('/'));
        (!passes_link(root, path)).then(|| (place, path.clone()))
    });
    for (place, path) in hidden {
        match place.symlink_metadata() {
            Ok(metadata) if metadata.is_file() => {
                walk.files.push(FoundFile { path, stamp: file_stamp(&metadata), hidden: true });
            }
            Ok(metadata) if metadata.is_dir() => walk_folder(place, path, true, &mut entries_left, &mut walk),
            Ok(_) | Err(_) => {}
        }
    }
    walk.files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    walk.files.dedup_by(|one, other| one.path == other.path);
    if walk.files.len() > FILES_MAX {
        // Named files are not displaced by files that sort before them.
        let mut room = [FILES_MAX; 2];
        walk.files.retain(|file| {
            let room = &mut room[usize::from(file.hidden)];
            let retained = *room > 0;
            *room = room.saturating_sub(1);
            retained
        });
        walk.cut = true;
    }
    walk
}

/// Returns true if the path or one of its folders is hidden.
#[must_use]
pub(super) fn is_hidden(path: &str) -> bool {
    path.split('/').any(|name| name.starts_with('.'))
}

/// Returns true if a component of the path is a link.
fn passes_link(root: &Path, path: &str) -> bool {
    let mut place = root.to_owned();
    path.split('/').filter(|name| !name.is_empty()).any(|name| {
        place.push(name);
        place.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink())
    })
}

/// Adds the files below a folder.
fn walk_folder(
    root: PathBuf,
    path: String,
    hidden: bool,
    entries_left: &mut usize,
    walk: &mut WorkspaceWalk,
) {
    let mut folders: Vec<(PathBuf, String, usize)> = vec![(root, path, 0)];
    while let Some((folder, path, depth)) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let Some(left) = entries_left.checked_sub(1) else {
                walk.cut = true;
                break;
            };
            *entries_left = left;
            let name = entry.file_name();
            // A name that is not UTF-8 cannot appear in a citation; the other tools can still access the file.
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
                walk.files.push(FoundFile { path: child, stamp: file_stamp(&metadata), hidden });
            }
        }
    }
}

/// Returns the change stamp of a file.
pub fn file_stamp(metadata: &std::fs::Metadata) -> FileStamp {
    let nanos = |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
    FileStamp {
        size: i64::try_from(metadata.size()).unwrap_or(i64::MAX),
        modified_nanos: nanos(metadata.mtime(), metadata.mtime_nsec()),
        changed_nanos: nanos(metadata.ctime(), metadata.ctime_nsec()),
        // Reinterprets the bits, because SQLite's integers are signed.
        inode: metadata.ino().cast_signed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walk_workspace_skips_hidden_and_links() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("b/.git")).unwrap();
        for name in ["b/one.txt", "a.txt", ".secret", "b/.git/config"] {
            std::fs::write(root.path().join(name), "x").unwrap();
        }
        std::os::unix::fs::symlink("/etc", root.path().join("outside")).unwrap();
        std::os::unix::fs::symlink("a.txt", root.path().join("again.txt")).unwrap();
        let paths = |named: &[&str]| {
            let named: Vec<String> = named.iter().map(|&path| path.to_owned()).collect();
            walk_workspace(root.path(), &named).files.into_iter().map(|file| file.path).collect::<Vec<_>>()
        };
        assert_eq!(paths(&[]), ["/a.txt", "/b/one.txt"]);
        assert_eq!(paths(&["/b"]), ["/a.txt", "/b/one.txt"]);
        assert_eq!(paths(&["/b/.git"]), ["/a.txt", "/b/.git/config", "/b/one.txt"]);
        assert_eq!(
            paths(&["/.secret", "/.none", "/outside/.pwd.lock"]),
            ["/.secret", "/a.txt", "/b/one.txt"]
        );
    }
}
