//! Parses paths and names from requests into types that cannot leave the workspace.
//!
//! This check decides the status of a request. The kernel enforces the boundary (see `jail`).

use std::fmt;

/// The kernel's limit of a path, without its closing NUL.
pub const PATH_MAX_BYTES: usize = 4095;

/// The file systems' limit of a name.
pub const NAME_MAX_BYTES: usize = 255;

/// The number of hexadecimal digits in a generated name.
pub(crate) const FRESH_DIGITS: usize = 32;

/// The prefix of the hidden names of uploads in progress, in the home folder.
pub(crate) const STAGING_PREFIX: &str = ".upload-";

/// The error of an invalid workspace path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WorkspacePathError {
    /// Its `..` components lead above the home folder, counted from left to right.
    #[error("the path points outside the workspace")]
    Outside,
    #[error("the path contains NUL")]
    Nul,
    #[error("the path is longer than {PATH_MAX_BYTES} bytes")]
    TooLong,
}

/// The error of an invalid file name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing is left after the folders are removed.
    #[error("the file name is missing")]
    Missing,
    /// `.`, `..`, a name with NUL, or a reserved name.
    #[error("the file name is not allowed")]
    NotAllowed,
    /// The name exceeds the limit of file systems.
    #[error("the file name is longer than {NAME_MAX_BYTES} bytes")]
    TooLong,
}

/// A path in a workspace, relative to the account's home folder.
///
/// Contains the components joined by single slashes, without a leading one; empty for the home folder itself. It has no
/// `.`, `..`, empty component or NUL, and need not be UTF-8. [`fmt::Display`] adds a leading slash; it percent-encodes
/// bytes that are not UTF-8, and then also `%`, so that decoding once restores the bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkspacePath(Vec<u8>);

impl WorkspacePath {
    /// Returns the home folder, shown as `/`.
    #[must_use]
    pub const fn home() -> Self {
        Self(Vec::new())
    }

    /// Returns the default folder of uploads: `/uploads`.
    #[must_use]
    pub fn uploads_folder() -> Self {
        Self(b"uploads".to_vec())
    }

    /// Returns the folder of temporary uploads, each in its own subfolder: `/uploads/.tmp`.
    pub(crate) fn temporary_uploads() -> Self {
        Self(b"uploads/.tmp".to_vec())
    }

    /// Parses a path. Ignores leading, trailing and repeated slashes, drops `.`, and lets `..` remove the preceding
    /// component, whether or not that exists.
    ///
    /// # Errors
    /// [`WorkspacePathError`]; existence is not checked.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self, WorkspacePathError> {
        let text = text.as_ref();
        if text.contains(&0) {
            return Err(WorkspacePathError::Nul);
        }
        let mut components: Vec<&[u8]> = Vec::new();
        for component in text.split(|byte| *byte == b'/') {
            match component {
                b"" | b"." => {}
                b".." => {
                    components.pop().ok_or(WorkspacePathError::Outside)?;
                }
                name => components.push(name),
            }
        }
        let joined = components.join(&b'/');
        if joined.len() > PATH_MAX_BYTES { Err(WorkspacePathError::TooLong) } else { Ok(Self(joined)) }
    }

    /// Returns true for the home folder itself.
    #[must_use]
    pub fn is_home(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the bytes without a leading slash, as the kernel expects them relative to the home folder.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the parent folder and the name; `None` for the home folder.
    #[must_use]
    pub fn split_name(&self) -> Option<(Self, &[u8])> {
        if self.is_home() {
            return None;
        }
        Some(match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (Self(self.0[..at].to_vec()), &self.0[at + 1..]),
            None => (Self::home(), &self.0),
        })
    }

    /// Returns the path of an entry with this name in the folder.
    #[must_use]
    pub fn in_folder(&self, name: &FileName) -> Self {
        self.join_name(name.as_bytes())
    }

    /// Appends a name. It is one component: from a folder or a [`FileName`].
    pub(crate) fn join_name(&self, name: &[u8]) -> Self {
        let mut joined = Vec::with_capacity(self.0.len() + 1 + name.len());
        joined.extend_from_slice(&self.0);
        if !joined.is_empty() {
            joined.push(b'/');
        }
        joined.extend_from_slice(name);
        Self(joined)
    }

    /// Returns the folder of a temporary upload, if this is a file in one.
    pub(crate) fn temporary_folder(&self) -> Option<(Self, &[u8])> {
        let (folder, _) = self.split_name()?;
        folder.split_name()?.0.eq(&Self::temporary_uploads()).then_some(())?;
        let id = &self.0[Self::temporary_uploads().0.len() + 1..folder.0.len()];
        Some((Self::temporary_uploads(), id))
    }
}

impl fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("/")?;
        f.write_str(&format_path_bytes(&self.0))
    }
}

/// Formats a name or path: unchanged when it is UTF-8, otherwise with the other bytes and `%` percent-encoded.
pub(crate) fn format_path_bytes(bytes: &[u8]) -> String {
    if let Ok(text) = str::from_utf8(bytes) {
        return text.to_owned();
    }
    let mut text = String::with_capacity(bytes.len() * 2);
    for chunk in bytes.utf8_chunks() {
        text.push_str(&chunk.valid().replace('%', "%25"));
        for byte in chunk.invalid() {
            text.push_str(percent_encoding::percent_encode_byte(*byte));
        }
    }
    text
}

/// The longest extension that is kept after a number, with its dot, in bytes.
const EXTENSION_MAX_BYTES: usize = 16;

/// The name of an uploaded file: one component, at most 255 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileName(Vec<u8>);

impl FileName {
    /// Parses an upload's file name. Removes folders, separated by `/`, or also by `\` in a path of Windows; those in a web
    /// address after other words become `_`.
    ///
    /// # Errors
    /// [`NameError`].
    pub fn from_upload(text: impl AsRef<[u8]>) -> Result<Self, NameError> {
        let text = text.as_ref();
        let of_windows = is_windows_path(text);
        let is_separator = |byte: &u8| *byte == b'/' || of_windows && *byte == b'\\';
        let (folders_and_name, address) = text.split_at(address_in_name(text).unwrap_or(text.len()));
        let mut name = folders_and_name.rsplit(is_separator).next().unwrap_or_default().to_vec();
        name.extend(address.iter().map(|byte| if matches!(byte, b'/' | b'\\') { b'_' } else { *byte }));
        match &*name {
            b"" => Err(NameError::Missing),
            b"." | b".." => Err(NameError::NotAllowed),
            name if name.contains(&0) || is_staging(name) => Err(NameError::NotAllowed),
            name if name.len() > NAME_MAX_BYTES => Err(NameError::TooLong),
            _ => Ok(Self(name)),
        }
    }

    /// Returns the name with a number before its extension: `offer (2).pdf`; the name itself for the number 1. Shortens a
    /// long name at the number.
    #[must_use]
    pub fn with_number(&self, number: u32) -> Self {
        if number <= 1 {
            return self.clone();
        }
        let dot = self.0.iter().rposition(|byte| *byte == b'.');
        let dot = dot.filter(|dot| {
            let extension = &self.0[dot + 1..];
            *dot > 0
                && extension.len() < EXTENSION_MAX_BYTES
                && extension.iter().all(u8::is_ascii_alphanumeric)
        });
        let (stem, extension) = self.0.split_at(dot.unwrap_or(self.0.len()));
        let number = format!(" ({number})");
        let mut end = stem.len().min(NAME_MAX_BYTES - number.len() - extension.len());
        // Not inside a letter of UTF-8.
        while end < stem.len() && end > 0 && stem[end] & 0xc0 == 0x80 {
            end -= 1;
        }
        Self([&stem[..end], number.as_bytes(), extension].concat())
    }

    /// Returns the name in the form that entries of a folder have.
    pub(crate) const fn of_entry(name: Vec<u8>) -> Self {
        Self(name)
    }

    /// Returns the bytes of the name.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_path_bytes(&self.0))
    }
}

/// Returns true for a path that begins like a Windows path: `C:\`, `\`, `.\` or `..\`. Elsewhere a name may contain
/// `\`.
fn is_windows_path(text: &[u8]) -> bool {
    let path = match text {
        [drive, b':', path @ ..] if drive.is_ascii_alphabetic() => path,
        path => path.strip_prefix(b"..").or_else(|| path.strip_prefix(b".")).unwrap_or(path),
    };
    path.first() == Some(&b'\\')
}

/// Returns the position of a web address that is only a part of a name, not the whole name or in a folder.
fn address_in_name(text: &[u8]) -> Option<usize> {
    let scheme_end = text.windows(3).position(|window| window == b"://")?;
    let scheme = text[..scheme_end].iter().rev().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let start = scheme_end - scheme;
    let is_in_name = scheme > 0 && start > 0 && !matches!(text[start - 1], b'/' | b'\\');
    is_in_name.then_some(start)
}

/// Returns true for the name of an upload in progress.
pub(crate) fn is_staging(name: &[u8]) -> bool {
    name.strip_prefix(STAGING_PREFIX.as_bytes())
        .is_some_and(|rest| rest.len() == FRESH_DIGITS && rest.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse_to_text(text: &str) -> Result<String, WorkspacePathError> {
        WorkspacePath::parse(text).map(|path| path.to_string())
    }

    #[test]
    fn slashes_and_dots_make_no_difference() {
        for text in ["/uploads/a.pdf", "uploads/a.pdf", "//uploads///a.pdf/", "./uploads/x/.././a.pdf"] {
            assert_eq!(parse_to_text(text), Ok("/uploads/a.pdf".to_owned()));
        }
        for text in ["", "/", "//", ".", "a/.."] {
            assert_eq!(parse_to_text(text), Ok("/".to_owned()));
        }
    }

    #[test]
    fn climbing_is_outside_wherever_it_happens() {
        for text in ["..", "/../etc/passwd", "a/../../a", "nothing/here/../../../x"] {
            assert_eq!(parse_to_text(text), Err(WorkspacePathError::Outside));
        }
        assert_eq!(parse_to_text(&"a/".repeat(3000)), Err(WorkspacePathError::TooLong));
    }

    #[test]
    fn numbered_name_keeps_extension_and_fits() {
        let numbered =
            |name: &str, number| FileName::from_upload(name).unwrap().with_number(number).to_string();
        assert_eq!(numbered("offer.pdf", 1), "offer.pdf");
        assert_eq!(numbered("offer.pdf", 2), "offer (2).pdf");
        assert_eq!(numbered("notes", 12), "notes (12)");
        assert_eq!(numbered(".env", 2), ".env (2)");
        assert_eq!(numbered("report of 3. March and more", 2), "report of 3. March and more (2)");
        let long = numbered(&format!("{}.pdf", "ž".repeat(125)), 2);
        assert_eq!(long, format!("{}.pdf", "ž".repeat(123) + " (2)"));
    }

    #[test]
    fn names_lose_their_folders() {
        let name = |text: &str| FileName::from_upload(text).map(|name| name.to_string());
        assert_eq!(name("C:\\fakepath\\a.pdf"), Ok("a.pdf".to_owned()));
        assert_eq!(name("..\\..\\a.pdf"), Ok("a.pdf".to_owned()));
        assert_eq!(name("\\\\host\\share/a.pdf"), Ok("a.pdf".to_owned()));
        assert_eq!(name("back\\slash.txt"), Ok("back\\slash.txt".to_owned()));
        assert_eq!(name("in/back\\slash.txt"), Ok("back\\slash.txt".to_owned()));
        assert_eq!(name("../../etc/passwd"), Ok("passwd".to_owned()));
        assert_eq!(name("a/"), Err(NameError::Missing));
        assert_eq!(name(""), Err(NameError::Missing));
        assert_eq!(name("x/.."), Err(NameError::NotAllowed));
        assert_eq!(name("a\0"), Err(NameError::NotAllowed));
        assert_eq!(name(&format!(".upload-{}", "0".repeat(32))), Err(NameError::NotAllowed));
        assert_eq!(name(&"x".repeat(256)), Err(NameError::TooLong));
        assert!(name(&"x".repeat(255)).is_ok());
    }

    #[test]
    fn names_keep_web_addresses() {
        for (uploaded, kept) in [
            ("Report from https://example.org/page", "Report from https:__example.org_page"),
            ("C:\\docs\\Rent (http://example.org/).pdf", "Rent (http:__example.org_).pdf"),
            ("/tmp/Byt https://example.org/a/../b", "Byt https:__example.org_a_.._b"),
            ("https://example.org/files/lease.pdf", "lease.pdf"),
            ("x/https://example.org/lease.pdf", "lease.pdf"),
            ("a ://b", "b"),
        ] {
            let name = FileName::from_upload(uploaded).map(|name| name.to_string());
            assert_eq!(name.as_deref(), Ok(kept), "{uploaded}");
        }
    }

    #[test]
    fn a_temporary_file_knows_its_folder() {
        let folder =
            |text: &str| WorkspacePath::parse(text).unwrap().temporary_folder().map(|(_, id)| id.to_vec());
        assert_eq!(folder("/uploads/.tmp/1a/x"), Some(b"1a".to_vec()));
        assert_eq!(folder("/uploads/.tmp/1a"), None);
        assert_eq!(folder("/uploads/.tmp/1a/b/x"), None);
        assert_eq!(folder("/other/.tmp/1a/x"), None);
    }

    proptest! {
        #[test]
        fn parsed_path_never_climbs(text in prop::collection::vec(
            prop_oneof![Just(b'.'), Just(b'/'), Just(b'%'), Just(b'2'), Just(b'e'), any::<u8>()], 0..40
        )) {
            if let Ok(path) = WorkspacePath::parse(&text) {
                for component in path.as_bytes().split(|byte| *byte == b'/') {
                    prop_assert!(path.is_home() || !matches!(component, b"" | b"." | b".."));
                }
                prop_assert!(!path.as_bytes().contains(&0));
                prop_assert_eq!(WorkspacePath::parse(path.as_bytes()), Ok(path));
            }
        }

        #[test]
        fn a_name_is_one_component(text in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(name) = FileName::from_upload(&text) {
                let path = WorkspacePath::uploads_folder().join_name(name.as_bytes());
                prop_assert_eq!(WorkspacePath::parse(path.as_bytes()), Ok(path.clone()));
                prop_assert_eq!(path.split_name(), Some((WorkspacePath::uploads_folder(), name.as_bytes())));
            }
        }
    }
}
