//! Headers whose value is a list.

use axum::http::{HeaderMap, HeaderName};

/// Returns the list of a header, which clients and intermediaries may divide into several lines (RFC 9110, section 5.3);
/// the empty string without the header. Leaves out lines that are not ASCII.
#[must_use]
pub fn list_header(headers: &HeaderMap, name: &HeaderName) -> String {
    let lines: Vec<&str> = headers.get_all(name).iter().filter_map(|line| line.to_str().ok()).collect();
    lines.join(",")
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use axum::http::header::ACCEPT_LANGUAGE;

    use super::*;

    #[test]
    fn list_header_joins_lines_in_order() {
        let mut headers = HeaderMap::new();
        assert_eq!(list_header(&headers, &ACCEPT_LANGUAGE), "");
        for line in [&b"de, fr;q=0.5"[..], b"\xff", b"sk"] {
            headers.append(ACCEPT_LANGUAGE, HeaderValue::from_bytes(line).expect("a value"));
        }
        assert_eq!(list_header(&headers, &ACCEPT_LANGUAGE), "de, fr;q=0.5,sk");
    }
}
