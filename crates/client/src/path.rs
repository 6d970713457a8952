//! Workspace paths in URLs.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// All characters except the ones that a path may contain unencoded.
const WRITTEN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The same set without the percent sign, for a path that is already encoded.
const SHOWN: &AsciiSet = &WRITTEN.remove(b'%');

/// Encodes the path for `/api/v1/files`, with a leading slash. The service shows names that are not UTF-8
/// with their bytes percent-encoded; such a path is used unchanged.
///
/// Libraries resolve `..` in URLs, which would lead to another operation. A path with `..` is sent as one segment, so
/// that the service resolves it and rejects a path outside.
pub(crate) fn in_url(path: &str) -> String {
    let set = if percent_decode_str(path).decode_utf8().is_ok() { WRITTEN } else { SHOWN };
    let path = utf8_percent_encode(path.trim_start_matches('/'), set).to_string();
    match path.split('/').any(is_dots) {
        true => format!("/{}{ENCODED_SLASH}", path.replace('/', ENCODED_SLASH)),
        false => format!("/{path}"),
    }
}

/// Encodes an identifier as a segment of a path, with a leading slash.
pub(crate) fn encode_segment(identifier: &str) -> String {
    let segment = utf8_percent_encode(identifier, WRITTEN).to_string().replace('/', ENCODED_SLASH);
    let end = if is_dots(&segment) { ENCODED_SLASH } else { "" };
    format!("/{segment}{end}")
}

const ENCODED_SLASH: &str = "%2F";

fn is_dots(segment: &str) -> bool {
    matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_survives_its_url() {
        for (path, url) in [
            ("/uploads/brief.pdf", "/uploads/brief.pdf"),
            ("uploads/a b.txt", "/uploads/a%20b.txt"),
            ("/á/100 %.txt", "/%C3%A1/100%20%25.txt"),
            ("/what?#.txt", "/what%3F%23.txt"),
            ("/a%20b", "/a%2520b"),
            ("/caf%E9 1", "/caf%E9%201"),
            ("", "/"),
            ("a/..b/.c", "/a/..b/.c"),
        ] {
            assert_eq!(in_url(path), url, "{path}");
        }
    }

    #[test]
    fn paths_never_leave_their_operation() {
        let resolved =
            |url: &str| reqwest::Url::parse(&format!("http://host/api/v1/files{url}")).expect("a URL");
        for path in ["..", "../vm/stop", "a/../../chats/1", "./b", "caf%E9/%2e%2E/x", "/.."] {
            let url = resolved(&in_url(path));
            assert!(url.path().starts_with("/api/v1/files/") && url.path().contains("%2F"), "{path}: {url}");
        }
        for (identifier, path) in [("..", "/..%2F"), ("a/stop", "/a%2Fstop"), ("0190c8a0", "/0190c8a0")] {
            assert_eq!(encode_segment(identifier), path);
            assert_eq!(resolved(&encode_segment(identifier)).path(), format!("/api/v1/files{path}"));
        }
    }
}
