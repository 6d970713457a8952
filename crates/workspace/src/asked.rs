//! Resolves the paths of requests, which may be written in several ways.

use percent_encoding::percent_decode;

use crate::error::WorkspaceError;
use crate::jail::OpenHome;
use crate::path::{WorkspacePath, WorkspacePathError};

/// A requested path that can be read in several ways; it means the entry that exists.
///
/// Readers take the first candidate that exists. Creation uses the meaning of the path by its rule, and deletion
/// rejects a path if two candidates exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedPath {
    /// The path by the rule of its constructor.
    meant: Result<WorkspacePath, WorkspacePathError>,
    candidates: Vec<WorkspacePath>,
}

impl AskedPath {
    /// Parses the raw, undecoded text of a URL after `/api/v1/files` or `/api/v1/directories`. It means the text
    /// decoded once; an invalid `%` is literal. The next candidate is the text as written, which comes first if
    /// decoding turns a name into `..` or `.`. Listings show a path that is not UTF-8 percent-encoded, and a client
    /// encodes it again: so the last candidate is decoded twice, if that is not UTF-8 or has control characters.
    #[must_use]
    pub fn from_url(raw: &str) -> Self {
        let once = decode_percent(raw.as_bytes());
        let meant = WorkspacePath::parse(&once);
        let (plain, written) = (meant.clone().ok(), WorkspacePath::parse(raw).ok());
        let twice = shown_encoded(decode_percent(&once));
        match (meant, twice) {
            (Err(WorkspacePathError::TooLong), Some(twice)) => twice.into(),
            (meant, twice) if count_dots(&once) > count_dots(raw.as_bytes()) => {
                Self::new(meant, [written, plain, twice])
            }
            (meant, twice) => Self::new(meant, [plain, written, twice]),
        }
    }

    /// Parses a field of a body (`destination`, `filePaths`). It means the text as written. The other candidate is the text
    /// decoded once, if that is not UTF-8 or has control characters, because listings and sources show such names percent-encoded. A text that is too long as
    /// written must be decoded.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let meant = WorkspacePath::parse(text);
        let once = shown_encoded(decode_percent(text.as_bytes()));
        match (meant, once) {
            (Err(WorkspacePathError::TooLong), Some(once)) => once.into(),
            (meant, once) => Self::new(meant.clone(), [meant.ok(), once]),
        }
    }

    /// Returns the meaning of the path by its rule, the only one for creation.
    ///
    /// # Errors
    /// [`WorkspacePathError`].
    pub fn meant_path(&self) -> Result<&WorkspacePath, WorkspacePathError> {
        self.meant.as_ref().map_err(|error| *error)
    }

    /// Returns the candidates in the order in which readers try them.
    pub fn candidates(&self) -> impl Iterator<Item = &WorkspacePath> {
        self.candidates.iter()
    }

    /// Returns the result of `open` for the first candidate that exists.
    pub(crate) fn first_found<T>(
        &self,
        home: &OpenHome,
        mut open: impl FnMut(&WorkspacePath) -> Result<T, WorkspaceError>,
    ) -> Result<T, WorkspaceError> {
        for path in &self.candidates {
            match open(path) {
                Err(WorkspaceError::NotFound) => {}
                done => return done,
            }
        }
        match self.find_by_normal_form(home) {
            Some(path) => open(&path),
            None => Err(self.not_found()),
        }
    }

    /// If no candidate exists, returns the entry whose names equal those of a candidate in another normal form.
    pub(crate) fn find_by_normal_form(&self, home: &OpenHome) -> Option<WorkspacePath> {
        self.candidates.iter().find_map(|path| home.find_by_normal_form(path))
    }

    /// Returns the error if no candidate exists.
    pub(crate) fn not_found(&self) -> WorkspaceError {
        self.meant_path().err().map_or(WorkspaceError::NotFound, WorkspaceError::from)
    }

    fn new(
        meant: Result<WorkspacePath, WorkspacePathError>,
        candidates: impl IntoIterator<Item = Option<WorkspacePath>>,
    ) -> Self {
        let mut distinct = Vec::new();
        for candidate in candidates.into_iter().flatten() {
            if !distinct.contains(&candidate) {
                distinct.push(candidate);
            }
        }
        Self { meant, candidates: distinct }
    }
}

impl From<WorkspacePath> for AskedPath {
    fn from(path: WorkspacePath) -> Self {
        Self { meant: Ok(path.clone()), candidates: vec![path] }
    }
}

/// Returns the path if it is valid and shown percent-encoded: not UTF-8, or with characters that do not fit on a line.
fn shown_encoded(path: Vec<u8>) -> Option<WorkspacePath> {
    let is_encoded = str::from_utf8(&path).map_or(true, |path| path.contains(is_odd));
    Some(path).filter(|_| is_encoded).and_then(|path| WorkspacePath::parse(path).ok())
}

/// Returns true for characters that machines show encoded: they break the line or change the direction of a text.
fn is_odd(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}'
        )
}

/// Returns the number of components that are `.` or `..`.
fn count_dots(path: &[u8]) -> usize {
    path.split(|byte| *byte == b'/').filter(|component| matches!(*component, b"." | b"..")).count()
}

fn decode_percent(text: &[u8]) -> Vec<u8> {
    percent_decode(text).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::path::PATH_MAX_BYTES;

    #[test]
    fn encoded_dots_climb_like_others() {
        assert_eq!(AskedPath::from_url("/%2e%2e/x").meant_path(), Err(WorkspacePathError::Outside));
        assert_eq!(AskedPath::from_url("/..%2fx").meant_path(), Err(WorkspacePathError::Outside));
        assert_eq!(AskedPath::from_url("/a%00b").meant_path(), Err(WorkspacePathError::Nul));
    }

    #[test]
    fn a_url_is_decoded_once() {
        let tried = |raw: &str| -> Vec<String> {
            AskedPath::from_url(raw).candidates().map(ToString::to_string).collect()
        };
        assert_eq!(tried("/a%20b"), ["/a b", "/a%20b"]);
        assert_eq!(tried("/a%2520b"), ["/a%20b", "/a%2520b"]);
        assert_eq!(tried("/100%"), ["/100%"]);
        assert_eq!(tried("/5%zz"), ["/5%zz"]);
        assert_eq!(tried("/p\u{159}\u{ed}loha"), ["/p\u{159}\u{ed}loha"]);
        assert_eq!(tried("/a%2Fb/../../c"), ["/c"]);
        assert_eq!(tried("/a/%2e%2e"), ["/a/%2e%2e", "/"]);
        assert_eq!(tried("/%2e%2e/x"), ["/%2e%2e/x"]);
    }

    #[test]
    fn asked_path_decodes_to_shown_names() {
        let tried = |text: &str| AskedPath::from_text(text).candidates().cloned().collect::<Vec<_>>();
        assert_eq!(tried("/a%20b"), [WorkspacePath::parse("/a%20b").unwrap()]);
        assert_eq!(tried("/a%0Ab").last(), Some(&WorkspacePath::parse("/a\nb").unwrap()));
        let of_source: Vec<_> = AskedPath::from_url("/a%250Ab").candidates().cloned().collect();
        assert!(of_source.contains(&WorkspacePath::parse("/a\nb").unwrap()));
        assert_eq!(tried("/a%FF").last(), Some(&WorkspacePath::parse(b"/a\xff").unwrap()));
    }

    #[test]
    fn overlong_shown_path_is_found() {
        let path = WorkspacePath::parse([b'/', 0xff].repeat(1000)).unwrap();
        let shown = path.to_string();
        assert!(shown.len() <= PATH_MAX_BYTES);
        let longer = WorkspacePath::parse([b'/', 0xff].repeat(1500)).unwrap();
        assert!(longer.to_string().len() > PATH_MAX_BYTES);
        for path in [path, longer] {
            let asked = AskedPath::from_text(&path.to_string());
            assert!(asked.candidates().any(|candidate| *candidate == path));
        }
        assert_eq!(AskedPath::from_text(&"a/".repeat(3000)).meant_path(), Err(WorkspacePathError::TooLong));
    }

    #[test]
    fn listed_name_found_plain_and_encoded() {
        let path = WorkspacePath::parse(b"/100% of\xff/%41\xfe \xc5\x99").unwrap();
        let shown = path.to_string();
        let encoded =
            percent_encoding::utf8_percent_encode(&shown, percent_encoding::NON_ALPHANUMERIC).to_string();
        for raw in [shown, encoded] {
            let asked = AskedPath::from_url(&raw);
            assert!(asked.candidates().any(|candidate| *candidate == path), "{raw}");
        }
        let long = WorkspacePath::parse([b'/', 0xff].repeat(1_100)).unwrap().to_string();
        let encoded = long.replace('%', "%25");
        assert!(AskedPath::from_url(&encoded).candidates().any(|path| path.to_string() == long));
        assert!(AskedPath::from_url("/%252e%252e%25ff/%252e%252e/%252e%252e/x").meant_path().is_ok());
    }

    proptest! {
        #[test]
        fn what_is_shown_leads_back(bytes in prop::collection::vec(any::<u8>(), 0..30)) {
            if let Ok(path) = WorkspacePath::parse(&bytes) {
                let shown = path.to_string();
                for asked in [AskedPath::from_url(&shown), AskedPath::from_text(&shown)] {
                    prop_assert!(asked.candidates().any(|tried| *tried == path));
                }
            }
        }
    }
}
