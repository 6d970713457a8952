//! Attached files that could not be read, and the sentence that reports them in an answer.
//!
//! The machine reports a reason from a closed set, never free text. So the only untrusted text that enters an answer
//! this way is the name of a file that the user attached.

use std::fmt::Write;

/// The most unread files of one result.
pub const UNREAD_MAX: usize = 100;
/// The most files that an answer names; the rest are counted.
const NAMED_MAX: usize = 20;
/// The longest name that an answer shows, in characters.
const NAME_MAX_CHARS: usize = 120;

/// A file that could not be read completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadFile {
    /// The workspace path.
    pub path: String,
    pub reason: UnreadReason,
}

/// The reasons why a file could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnreadReason {
    /// It needs a password.
    Encrypted,
    /// It contains no text, for example a scan.
    NoText,
    /// Its format is not supported.
    UnknownForm,
    /// It exceeds the size limit, possibly only when unpacked.
    TooLarge,
    /// It is malformed.
    Broken,
    /// Reading it took longer than allowed.
    TooSlow,
    /// Reading it took more memory than allowed.
    TooMuchMemory,
    /// It is an image, and the model reads text only.
    Image,
    /// It no longer exists, or is outside of the workspace.
    Missing,
    /// The index does not contain all of it yet.
    Indexing,
    /// Its beginning was read; it is longer than what is read of a document.
    Long,
    /// Some of its pages are images without recognized text.
    ScannedPages,
}

impl UnreadReason {
    /// Every reason.
    pub const ALL: [Self; 12] = [
        Self::Encrypted,
        Self::NoText,
        Self::UnknownForm,
        Self::TooLarge,
        Self::Broken,
        Self::TooSlow,
        Self::TooMuchMemory,
        Self::Image,
        Self::Missing,
        Self::Indexing,
        Self::Long,
        Self::ScannedPages,
    ];

    /// Returns the code for programs, in lower snake case.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Encrypted => "encrypted",
            Self::NoText => "no_text",
            Self::UnknownForm => "unknown_form",
            Self::TooLarge => "too_large",
            Self::Broken => "broken",
            Self::TooSlow => "too_slow",
            Self::TooMuchMemory => "too_much_memory",
            Self::Image => "image",
            Self::Missing => "missing",
            Self::Indexing => "indexing",
            Self::Long => "long",
            Self::ScannedPages => "scanned_pages",
        }
    }

    /// Returns the reason with this code.
    #[must_use]
    pub fn of_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.code() == code)
    }

    /// Returns the reason for people, as the end of a sentence about the file.
    #[must_use]
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::Encrypted => "could not be read: it is encrypted and needs a password",
            Self::NoText => {
                "could not be read: it holds no text, such as a scan whose text was not recognized"
            }
            Self::UnknownForm => "could not be read: its format is not supported",
            Self::TooLarge => "could not be read: it is too large",
            Self::Broken => "could not be read: the file is damaged",
            Self::TooSlow => "could not be read whole: reading it takes too long",
            Self::TooMuchMemory => "could not be read: reading it takes too much memory",
            Self::Image => "could not be read: it is an image, and this model reads text only",
            Self::Missing => "could not be read: it is not in the workspace any more",
            Self::Indexing => {
                "was not searched to its end: it is still being indexed, so ask again in a while"
            }
            Self::Long => "was read only in part: it is longer than what is read of a document",
            Self::ScannedPages => {
                "was read only in part: some of its pages are scans whose text was not recognized"
            }
        }
    }
}

/// Returns the paragraph of Markdown that lists the files with reasons; `None` if there are none.
#[must_use]
pub fn unread_files_note(files: &[UnreadFile]) -> Option<String> {
    let mut out = match files {
        [] => return None,
        [file] => return Some(format!("The attached file {} {}.", name(&file.path), file.reason.phrase())),
        _ => "Not all attached files could be read:\n".to_owned(),
    };
    for file in files.iter().take(NAMED_MAX) {
        let _ = write!(out, "\n- {} {}.", name(&file.path), file.reason.phrase());
    }
    if files.len() > NAMED_MAX {
        let _ = write!(out, "\n- {} more.", files.len() - NAMED_MAX);
    }
    Some(out)
}

/// Formats the file's name as code, so that its characters have no meaning in Markdown.
fn name(path: &str) -> String {
    let name = path.rsplit('/').find(|name| !name.is_empty()).unwrap_or(path);
    let is_odd = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let shown: String = name.chars().take(NAME_MAX_CHARS).map(|c| if is_odd(c) { ' ' } else { c }).collect();
    let longest = shown.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if longest > 0 || shown.trim().is_empty() { " " } else { "" };
    format!("{fence}{space}{shown}{space}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, reason: UnreadReason) -> UnreadFile {
        UnreadFile { path: path.to_owned(), reason }
    }

    #[test]
    fn each_file_is_named_with_its_reason() {
        assert_eq!(unread_files_note(&[]), None);
        assert_eq!(
            unread_files_note(&[file("/uploads/.tmp/4f/a_b.pdf", UnreadReason::Encrypted)]).as_deref(),
            Some("The attached file `a_b.pdf` could not be read: it is encrypted and needs a password.")
        );
        let many: Vec<_> = (0..30).map(|n| file(&format!("/{n}.pdf"), UnreadReason::Indexing)).collect();
        let note = unread_files_note(&many).expect("a note");
        assert!(note.contains("\n- `19.pdf` was not searched to its end") && !note.contains("`20.pdf`"));
        assert!(note.ends_with("\n- 10 more."), "{note}");
    }

    #[test]
    fn names_mean_nothing_in_markdown() {
        assert_eq!(name("/a/x`` [1](javascript:x)\n# b"), "``` x`` [1](javascript:x) # b ```");
        assert_eq!(name("/"), "`/`");
    }

    #[test]
    fn codes_are_read_back() {
        for reason in UnreadReason::ALL {
            assert_eq!(UnreadReason::of_code(reason.code()), Some(reason));
        }
        assert_eq!(UnreadReason::of_code("other"), None);
    }
}
