//! Parses paths written by models and formats paths in results.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use protocol::tool::WORKSPACE;

/// The longest accepted path, in bytes.
const PATH_MAX_BYTES: usize = 4096;

/// The reason why a path is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WorkspacePathError {
    #[error("{0} is outside the workspace")]
    Outside(String),
    #[error("the path is longer than {PATH_MAX_BYTES} bytes or contains a zero byte")]
    Malformed,
}

/// Returns the path relative to the workspace; `.` is the workspace itself. `/a`, `a` and `/workspace/a` are the
/// same. `..` is allowed, but a path that climbs above the workspace is rejected before anything is opened.
pub(crate) fn parse_path(text: &str) -> Result<PathBuf, WorkspacePathError> {
    if text.len() > PATH_MAX_BYTES || text.contains('\0') {
        return Err(WorkspacePathError::Malformed);
    }
    let inner = text.strip_prefix(WORKSPACE).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let mut depth = 0_usize;
    let mut out = PathBuf::new();
    for name in inner.unwrap_or(text).split('/') {
        match name {
            "" | "." => {}
            ".." => {
                depth = depth.checked_sub(1).ok_or_else(|| WorkspacePathError::Outside(plain_line(text)))?;
                out.push(name);
            }
            _ => {
                depth += 1;
                out.push(name);
            }
        }
    }
    if out.as_os_str().is_empty() {
        out.push(".");
    }
    Ok(out)
}

/// Decodes the percent-encoding of [`display_path`]. Returns `None` if nothing is encoded.
pub(crate) fn decode_path(path: &Path) -> Option<PathBuf> {
    let bytes = path.as_os_str().as_bytes();
    if !bytes.contains(&b'%') {
        return None;
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let code = bytes.get(at + 1..at + 3).filter(|_| *byte == b'%');
        let code = code.and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if byte != b'/' && byte != 0 => {
                out.push(byte);
                at += 3;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    Some(PathBuf::from(OsString::from_vec(out)))
}

/// Formats a relative path as a workspace path: `/a/b`. Control characters and invalid UTF-8 are percent-encoded,
/// so that a name fits on one line and can be passed back.
pub(crate) fn display_path(path: &Path) -> String {
    let mut out = String::new();
    for component in path.components() {
        if let std::path::Component::Normal(name) = component {
            out.push('/');
            out.push_str(&shown_name(name.as_bytes()));
        }
    }
    if out.is_empty() { "/".to_owned() } else { out }
}

/// Formats one name in the same way.
pub(crate) fn shown_name(name: &[u8]) -> String {
    let mut out = String::new();
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_odd(c) {
                let mut buffer = [0; 4];
                c.encode_utf8(&mut buffer).bytes().for_each(|byte| out.push_str(&format!("%{byte:02X}")));
            } else {
                out.push(c);
            }
        }
        chunk.invalid().iter().for_each(|byte| out.push_str(&format!("%{byte:02X}")));
    }
    out
}

/// Returns true for characters that break the line or change the reading direction of a text.
fn is_odd(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

/// Formats untrusted text for a message: on one line and bounded.
pub(crate) fn plain_line(text: &str) -> String {
    const PLAIN_MAX_CHARS: usize = 300;
    text.chars().take(PLAIN_MAX_CHARS).map(|c| if is_odd(c) { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_means_the_same() {
        for text in ["/uploads/x", "uploads/x", "/workspace/uploads/x", "//uploads//./x/"] {
            assert_eq!(parse_path(text).unwrap(), Path::new("uploads/x"), "{text}");
        }
        assert_eq!(parse_path("/workspace").unwrap(), Path::new("."));
        assert_eq!(parse_path("/workspaces/a").unwrap(), Path::new("workspaces/a"));
        assert_eq!(parse_path("a/../b").unwrap(), Path::new("a/../b"));
    }

    #[test]
    fn climbing_is_refused() {
        for text in ["..", "/../etc/passwd", "a/../../b", "/workspace/../etc"] {
            assert!(matches!(parse_path(text), Err(WorkspacePathError::Outside(_))), "{text}");
        }
        assert_eq!(parse_path("a\0b"), Err(WorkspacePathError::Malformed));
    }

    #[test]
    fn display_path_odd_names_round_trip() {
        let name = PathBuf::from(OsString::from_vec(b"a\nb\xff\x1b[2J\xe2\x80\xae".to_vec()));
        let text = display_path(&name);
        assert_eq!(text, "/a%0Ab%FF%1B[2J%E2%80%AE");
        assert_eq!(decode_path(&parse_path(&text).unwrap()).unwrap(), name);
        assert_eq!(decode_path(Path::new("100%/x")), Some(PathBuf::from("100%/x")));
    }
}
