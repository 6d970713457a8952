//! Finds files and folders by words of their names.

use std::collections::VecDeque;

use rustix::fd::AsFd;
use rustix::fs::Dir;
use rustix::io::Errno;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::account::Workspace;
use crate::asked::AskedPath;
use crate::error::WorkspaceError;
use crate::jail::{FOLDER_FLAGS, OpenHome, entry_stat, off_thread};
use crate::listing::{ENTRIES_MAX, ListingEntry, WorkspaceEntryKind, WorkspaceListing, sort_entries};
use crate::path::{WorkspacePath, format_path_bytes};

/// The maximum number of entries that a search finds.
pub const FOUND_MAX: usize = 1000;

/// The entries that a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundEntries {
    /// The searched folder, and the entries found in it and below.
    pub listing: WorkspaceListing,
    /// True if there may be more: more than [`FOUND_MAX`] have the words, the folder has more than [`ENTRIES_MAX`] entries, or a
    /// folder below it cannot be read.
    pub is_cut: bool,
}

impl Workspace {
    /// Finds entries in a folder and its subfolders whose names have all these words, regardless of case and
    /// diacritics. Hidden entries are left out, and links are not followed.
    ///
    /// # Errors
    /// [`WorkspaceError::NotFound`], [`WorkspaceError::NotAFolder`], [`WorkspaceError::Outside`], and errors of the file
    /// system for the folder itself.
    pub async fn search_entries(
        &self,
        asked: &AskedPath,
        words: &str,
    ) -> Result<FoundEntries, WorkspaceError> {
        let (workspace, asked) = (self.clone(), asked.clone());
        let words: Vec<_> = words.split_whitespace().map(fold_text).collect();
        off_thread(move || {
            let home = workspace.open_home()?;
            asked.first_found(&home, |path| find_matching_entries(&home, path, &words))
        })
        .await
    }
}

fn find_matching_entries(
    home: &OpenHome,
    path: &WorkspacePath,
    words: &[String],
) -> Result<FoundEntries, WorkspaceError> {
    let mut folders = VecDeque::from([path.clone()]);
    let mut found = Vec::new();
    let (mut seen, mut is_full, mut has_skipped) = (0, false, false);
    while let Some(folder) = folders.pop_front().filter(|_| !is_full) {
        let opened = match home.open_beneath(&folder, FOLDER_FLAGS) {
            Ok(opened) => opened,
            Err(_) if folder == *path => home.open_folder(path)?,
            // It was moved meanwhile, or its machine closed it.
            Err(errno) => {
                has_skipped |= errno != Errno::NOENT;
                continue;
            }
        };
        let entries = match Dir::read_from(&opened) {
            Err(errno) if folder == *path => return Err(errno.into()),
            // The names can be read only by those who may also look them up.
            Err(_) => {
                has_skipped = true;
                continue;
            }
            Ok(entries) => entries,
        };
        for entry in entries {
            let entry = match entry {
                Err(errno) if folder == *path => return Err(errno.into()),
                Err(_) => {
                    has_skipped = true;
                    break;
                }
                Ok(entry) => entry,
            };
            let name = entry.file_name().to_bytes();
            if name.first() == Some(&b'.') {
                continue;
            }
            seen += 1;
            is_full = seen > ENTRIES_MAX || found.len() >= FOUND_MAX;
            if is_full {
                break;
            }
            let Ok(stat) = entry_stat(opened.as_fd(), name) else { continue };
            let entry = ListingEntry::new(&folder, name, &stat);
            if entry.kind == WorkspaceEntryKind::Folder {
                folders.push_back(entry.path.clone());
            }
            let folded = fold_text(&format_path_bytes(name));
            if words.iter().all(|word| folded.contains(word.as_str())) {
                found.push(entry);
            }
        }
    }
    sort_entries(&mut found);
    Ok(FoundEntries {
        listing: WorkspaceListing { path: path.clone(), entries: found.into() },
        is_cut: is_full || has_skipped,
    })
}

/// Returns a text in lower case without diacritics.
fn fold_text(text: &str) -> String {
    text.nfd().filter(|letter| !is_combining_mark(*letter)).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fold_drops_case_and_diacritics() {
        assert_eq!(fold_text("Žluťoučký KŮŇ.PDF"), "zlutoucky kun.pdf");
        assert_eq!(fold_text("a\u{301}"), fold_text("\u{c1}"));
    }
}
