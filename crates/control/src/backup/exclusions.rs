//! Lists the files that a backup or restore omitted, with the reasons.

use std::ffi::OsString;
use std::path::{Component, Path};

use serde::Serialize;

/// The maximum number of omitted files that are named, in total and per account, so that one account cannot hide the
/// others. All are counted.
const NAMED_MAX: usize = 1_000;
const NAMED_OF_ACCOUNT_MAX: usize = 10;

/// The maximum length of a reported path, in characters.
const PATH_MAX_CHARS: usize = 1_024;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exclusions {
    /// The path, starting with the account's folder. Long paths are truncated, bytes that are not UTF-8 are replaced,
    /// and control characters are escaped.
    pub path: String,
    pub reason: String,
}

/// The omitted files so far.
#[derive(Debug, Default)]
pub(super) struct ExclusionList {
    pub(super) count: u64,
    pub(super) named: Vec<Exclusions>,
    account: OsString,
    of_account: usize,
}

impl ExclusionList {
    /// Adds a path, whose first component is its account.
    pub(super) fn add_path(&mut self, path: &Path, reason: impl Into<String>) {
        self.count += 1;
        let account = path.components().next().map(Component::as_os_str).unwrap_or_default();
        if account != self.account {
            (self.account, self.of_account) = (account.to_owned(), 0);
        }
        self.of_account += 1;
        if self.of_account <= NAMED_OF_ACCOUNT_MAX && self.named.len() < NAMED_MAX {
            let path = escape_path(&path.to_string_lossy());
            self.named.push(Exclusions { path, reason: reason.into() });
        }
    }
}

/// Escapes a path for terminals and logs, because a machine chose it.
fn escape_path(path: &str) -> String {
    let mut shown = String::new();
    for character in path.chars().take(PATH_MAX_CHARS) {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_path_neutralizes_control_characters() {
        let mut list = ExclusionList::default();
        list.add_path(Path::new("account/\u{1b}[2Jžluť\n"), "it is a pipe");
        assert_eq!(list.named[0].path, "account/\\u{1b}[2Jžluť\\n");
        list.add_path(Path::new(&"x".repeat(10 * PATH_MAX_CHARS)), "it is a pipe");
        assert_eq!(list.named[1].path.len(), PATH_MAX_CHARS);
    }

    #[test]
    fn exclusions_bounded_per_account() {
        let mut list = ExclusionList::default();
        for n in 0..50 {
            list.add_path(Path::new(&format!("loud/{n}")), "it is a pipe");
        }
        list.add_path(Path::new("quiet/file"), "it is a socket");
        assert_eq!((list.count, list.named.len()), (51, NAMED_OF_ACCOUNT_MAX + 1));
        assert_eq!(list.named.last().map(|last| last.path.as_str()), Some("quiet/file"));
    }
}
