//! Finds entries whose names are written in another Unicode normal form: macOS uploads names decomposed, and people and models write them
//! composed.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::Dir;
use unicode_normalization::UnicodeNormalization;

use crate::jail::{FOLDER_FLAGS, OpenHome, entry_stat};
use crate::listing::ENTRIES_MAX;
use crate::path::WorkspacePath;

impl OpenHome {
    /// Returns the path of the entry that a path means if none matches it exactly: in each folder the exact name, else
    /// the only one that is equal in composed form. Returns `None` without such an entry, or if the path is exact.
    pub(crate) fn find_by_normal_form(&self, path: &WorkspacePath) -> Option<WorkspacePath> {
        if path.as_bytes().is_ascii() {
            return None;
        }
        let mut found = WorkspacePath::home();
        for name in path.as_bytes().split(|byte| *byte == b'/') {
            let folder = self.open_beneath(&found, FOLDER_FLAGS).ok()?;
            found = match entry_stat(folder.as_fd(), name) {
                Ok(_) => found.join_name(name),
                Err(_) => found.join_name(&equal_name(folder.as_fd(), name)?),
            };
        }
        (found != *path).then_some(found)
    }
}

/// Returns the only name in a folder that equals this one in composed form; `None` if several do or too many would have
/// to be compared.
pub(crate) fn equal_name(folder: BorrowedFd<'_>, name: &[u8]) -> Option<Vec<u8>> {
    let composed = compose_name(name)?;
    let mut found = None;
    for (number, entry) in Dir::read_from(folder).ok()?.enumerate() {
        let entry = entry.ok().filter(|_| number <= ENTRIES_MAX)?;
        let other = entry.file_name().to_bytes();
        if other != name && compose_name(other).is_some_and(|other| other == composed) {
            if found.is_some() {
                return None;
            }
            found = Some(other.to_vec());
        }
    }
    found
}

/// Returns the name under which an entry is created in a folder: the existing name of the entry that it replaces, if
/// that has another form.
pub(crate) fn name_in(folder: BorrowedFd<'_>, name: &[u8]) -> Vec<u8> {
    match entry_stat(folder, name) {
        Ok(_) => name.to_vec(),
        Err(_) => equal_name(folder, name).unwrap_or_else(|| name.to_vec()),
    }
}

/// Returns a name in composed form; `None` if it has only one form.
fn compose_name(name: &[u8]) -> Option<String> {
    let name = str::from_utf8(name).ok().filter(|name| !name.is_ascii())?;
    Some(name.nfc().collect())
}

#[cfg(test)]
mod tests {
    use rustix::fs::{Mode, OFlags, open};

    use super::*;

    fn create_home(entries: &[&str]) -> (tempfile::TempDir, OpenHome) {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("home")).unwrap();
        for entry in entries {
            let path = root.path().join("home").join(entry);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, *entry).unwrap();
        }
        let fd = open(root.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
        let home = OpenHome::open_under(fd.as_fd(), "home").unwrap();
        (root, home)
    }

    fn resolve_text(home: &OpenHome, path: &str) -> Option<String> {
        home.find_by_normal_form(&WorkspacePath::parse(path).unwrap()).map(|path| path.to_string())
    }

    #[test]
    fn only_entry_of_form_is_meant() {
        let (_root, home) =
            create_home(&["a\u{301}/c\u{30c}.txt", "\u{e9}.txt", "e\u{301}.txt", "x.txt", "\u{e1}b"]);
        assert_eq!(resolve_text(&home, "/\u{e1}/\u{10d}.txt").as_deref(), Some("/a\u{301}/c\u{30c}.txt"));
        assert_eq!(resolve_text(&home, "/a\u{301}b").as_deref(), Some("/\u{e1}b"), "the other way round");
        assert_eq!(resolve_text(&home, "/a\u{301}/c\u{30c}.txt"), None, "it is exact");
        assert_eq!(resolve_text(&home, "/\u{e1}/\u{17e}.txt"), None, "there is none");
        assert_eq!(resolve_text(&home, "/x.txt"), None);
        assert_eq!(resolve_text(&home, "/\u{e9}.txt"), None, "the exact one of two counts");
    }

    #[test]
    fn ambiguous_forms_mean_no_entry() {
        // Three spellings of one name.
        let (_root, home) = create_home(&["\u{1e69}.txt", "s\u{323}\u{307}.txt"]);
        assert_eq!(resolve_text(&home, "/s\u{307}\u{323}.txt"), None);
    }
}
