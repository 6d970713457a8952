//! Names what is not in a backup, or was not restored from it, and why.

use std::ffi::OsString;
use std::path::{Component, Path};

use serde::Serialize;

/// So many are named, and so many of one account, so that no account's hide those of the others. All are counted.
const NAMED_MAX: usize = 1_000;
const NAMED_OF_ACCOUNT_MAX: usize = 10;

/// The most of a path that is told, in characters.
const PATH_MAX_CHARS: usize = 1_024;

/// Something that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exclusions {
    /// Where it is, from the folder of all accounts on; cut when it is long, not exact when it is not UTF-8.
    /// Control characters are escaped.
    pub path: String,
    /// Why it was left out.
    pub reason: String,
}

/// What was left out so far.
#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) count: u64,
    pub(super) named: Vec<Exclusions>,
    account: OsString,
    of_account: usize,
}

impl List {
    /// Adds what is at this path, whose first part is its account.
    pub(super) fn add(&mut self, path: &Path, reason: impl Into<String>) {
        self.count += 1;
        let account = path.components().next().map(Component::as_os_str).unwrap_or_default();
        if account != self.account {
            (self.account, self.of_account) = (account.to_owned(), 0);
        }
        self.of_account += 1;
        if self.of_account <= NAMED_OF_ACCOUNT_MAX && self.named.len() < NAMED_MAX {
            let path = printable(&path.to_string_lossy());
            self.named.push(Exclusions { path, reason: reason.into() });
        }
    }
}

/// A path that goes to terminals and logs: a machine chose it.
fn printable(path: &str) -> String {
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
    fn a_name_does_nothing_to_a_terminal() {
        let mut list = List::default();
        list.add(Path::new("account/\u{1b}[2Jžluť\n"), "it is a pipe");
        assert_eq!(list.named[0].path, "account/\\u{1b}[2Jžluť\\n");
        list.add(Path::new(&"x".repeat(10 * PATH_MAX_CHARS)), "it is a pipe");
        assert_eq!(list.named[1].path.len(), PATH_MAX_CHARS);
    }

    #[test]
    fn no_account_hides_what_another_leaves_out() {
        let mut list = List::default();
        for n in 0..50 {
            list.add(Path::new(&format!("loud/{n}")), "it is a pipe");
        }
        list.add(Path::new("quiet/file"), "it is a socket");
        assert_eq!((list.count, list.named.len()), (51, NAMED_OF_ACCOUNT_MAX + 1));
        assert_eq!(list.named.last().map(|last| last.path.as_str()), Some("quiet/file"));
    }
}
