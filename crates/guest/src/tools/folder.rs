//! Walks the workspace within bounds, without following links.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, statat};

use super::jail::Jail;

/// The maximum number of entries per walk.
pub(crate) const ENTRIES_MAX: usize = 100_000;

/// An entry of the workspace.
#[derive(Debug, Clone)]
pub(crate) struct FolderEntry {
    /// The path relative to the workspace.
    pub(crate) path: PathBuf,
    pub(crate) kind: FileType,
    /// The length in bytes.
    pub(crate) size: u64,
}

/// The completeness of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Walked {
    All,
    /// The limit of entries or of time was reached.
    Part,
}

/// Visits everything beneath a folder until `visit` returns `false`. Skips folders that cannot be read.
pub(crate) fn walk_folders(
    jail: &Jail,
    from: &Path,
    until: Instant,
    mut visit: impl FnMut(FolderEntry) -> bool,
) -> Walked {
    let mut waiting = vec![from.to_owned()];
    let mut seen = 0;
    while let Some(folder) = waiting.pop() {
        let mut folders = Vec::new();
        let read = visit_entries(jail, &folder, |entry| {
            seen += 1;
            if seen > ENTRIES_MAX || Instant::now() > until {
                return false;
            }
            if entry.kind == FileType::Directory {
                folders.push(entry.path.clone());
            }
            visit(entry)
        });
        if !read {
            return Walked::Part;
        }
        folders.sort_unstable_by(|one, other| other.cmp(one));
        waiting.append(&mut folders);
    }
    Walked::All
}

/// Visits the entries of one folder. Returns `false` if `visit` ended the walk.
fn visit_entries(jail: &Jail, folder: &Path, mut visit: impl FnMut(FolderEntry) -> bool) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let Ok(opened) = jail.open_at(folder, flags, Mode::empty()) else { return true };
    let Ok(reader) = Dir::read_from(&opened) else { return true };
    for found in reader {
        let Ok(found) = found else { return true };
        let name = OsStr::from_bytes(found.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let Ok(stat) = statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let entry = FolderEntry {
            path: if folder == Path::new(".") { PathBuf::from(name) } else { folder.join(name) },
            kind: FileType::from_raw_mode(stat.st_mode),
            size: u64::try_from(stat.st_size).unwrap_or(0),
        };
        if !visit(entry) {
            return false;
        }
    }
    true
}

/// Returns the entries of one folder, at most [`ENTRIES_MAX`].
pub(crate) fn folder_entries(jail: &Jail, folder: &Path) -> (Vec<FolderEntry>, Walked) {
    let mut found = Vec::new();
    let all = visit_entries(jail, folder, |entry| {
        found.push(entry);
        found.len() < ENTRIES_MAX
    });
    (found, if all { Walked::All } else { Walked::Part })
}
