//! Workspace paths in URLs.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// All characters except those that a path may contain unencoded.
const WRITTEN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The same set without the percent sign, for a path that is already encoded.
const SHOWN: &AsciiSet = &WRITTEN.remove(b'%');

/// Encodes the path for `/api/v1/files`, with a leading slash. The service shows names that are not UTF-8
/// with their bytes percent-encoded; such a path is used unchanged.
pub(crate) fn in_url(path: &str) -> String {
    let set = if percent_decode_str(path).decode_utf8().is_ok() { WRITTEN } else { SHOWN };
    let path = path.trim_start_matches('/');
    format!("/{}", utf8_percent_encode(path, set))
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
        ] {
            assert_eq!(in_url(path), url, "{path}");
        }
    }
}
