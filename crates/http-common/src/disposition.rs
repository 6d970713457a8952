//! `Content-Disposition` of downloads (RFC 6266) and of form parts (RFC 7578).

use axum::http::HeaderValue;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, utf8_percent_encode};

/// The characters of an extended value that RFC 8187 requires to be encoded.
const EXTENDED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// Creates the header of a download with this name, in UTF-8 and in ASCII for old clients. Accepts any name.
#[must_use]
pub fn attachment_header(name: &str) -> HeaderValue {
    let plain = |c: char| if c == ' ' || c.is_ascii_graphic() && !"\"\\%".contains(c) { c } else { '_' };
    let ascii: String = name.chars().map(plain).collect();
    let encoded = utf8_percent_encode(name, EXTENDED);
    HeaderValue::try_from(format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{encoded}"))
        .unwrap_or_else(|_| HeaderValue::from_static("attachment"))
}

/// Returns the name of a form part, as bytes.
pub(crate) fn field_name(header: &[u8]) -> Option<Vec<u8>> {
    let found = parse_parameters(header).into_iter().find(|(key, _)| key.eq_ignore_ascii_case(b"name"));
    found.map(|(_, value)| value)
}

/// Returns the file name of a form part, as bytes. `filename*` takes precedence over `filename`, in which browsers write a
/// quote as `%22`, and leave `%` as it is.
pub(crate) fn file_name(header: &[u8]) -> Option<Vec<u8>> {
    let parameters = parse_parameters(header);
    let find = |name: &[u8]| {
        parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    };
    find(b"filename*")
        .and_then(|value| decode_extended(value))
        .or_else(|| find(b"filename").map(|name| restore_quotes(name)))
}

/// Puts quotes where a browser wrote `%22`.
fn restore_quotes(name: &[u8]) -> Vec<u8> {
    let mut found = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some(byte) = rest.first() {
        let quote = rest.strip_prefix(b"%22");
        found.push(quote.map_or(*byte, |_| b'"'));
        rest = quote.unwrap_or(&rest[1..]);
    }
    found
}

/// Parses `charset'language'percent-encoded`.
fn decode_extended(value: &[u8]) -> Option<Vec<u8>> {
    let mut fields = value.splitn(3, |byte| *byte == b'\'');
    let (charset, _language, encoded) = (fields.next()?, fields.next()?, fields.next()?);
    let bytes: Vec<u8> = percent_decode(encoded).collect();
    if charset.eq_ignore_ascii_case(b"iso-8859-1") {
        return Some(bytes.iter().map(|byte| char::from(*byte)).collect::<String>().into_bytes());
    }
    charset.eq_ignore_ascii_case(b"utf-8").then_some(bytes)
}

/// Parses the parameters after the first semicolon. In quotes a backslash escapes only a quote or another
/// backslash, because some clients send full Windows paths.
fn parse_parameters(header: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    let mut rest = header.iter().position(|byte| *byte == b';').map_or(&b""[..], |at| &header[at + 1..]);
    while let Some(equals) = rest.iter().position(|byte| *byte == b'=') {
        let name = rest[..equals].trim_ascii().to_vec();
        rest = rest[equals + 1..].trim_ascii_start();
        let mut value = Vec::new();
        if let Some(quoted) = rest.strip_prefix(b"\"") {
            let mut at = 0;
            while let Some(byte) = quoted.get(at).filter(|byte| **byte != b'"') {
                let hidden = matches!((byte, quoted.get(at + 1)), (b'\\', Some(b'"' | b'\\')));
                at += usize::from(hidden);
                value.push(quoted[at]);
                at += 1;
            }
            rest = &quoted[at..];
        }
        let end = rest.iter().position(|byte| *byte == b';').unwrap_or(rest.len());
        if value.is_empty() {
            value = rest[..end].trim_ascii().to_vec();
            if value == b"\"" {
                value.clear();
            }
        }
        found.push((name, value));
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attachment_header_encodes_utf8_name() {
        assert_eq!(
            attachment_header("Nájemní \"smlouva\".pdf"),
            "attachment; filename=\"N_jemn_ _smlouva_.pdf\"; \
             filename*=UTF-8''N%C3%A1jemn%C3%AD%20%22smlouva%22.pdf"
        );
    }

    #[test]
    fn names_come_in_all_forms() {
        let name = |header: &str| file_name(header.as_bytes()).map(|name| String::from_utf8(name).unwrap());
        for (header, expected) in [
            ("form-data; name=\"file\"; filename=\"a b.pdf\"", Some("a b.pdf")),
            ("form-data; filename=a.pdf; name=file", Some("a.pdf")),
            ("form-data; name=\"a;filename=x\"; FileName = \"č;\\\"=.pdf\"", Some("č;\"=.pdf")),
            ("form-data; name=file; filename=\"C:\\docs\\a.pdf\"", Some("C:\\docs\\a.pdf")),
            ("form-data; filename=\"x\"; filename*=utf-8''%C4%8D.pdf", Some("č.pdf")),
            ("form-data; filename*=ISO-8859-1'en'%e9", Some("é")),
            ("form-data; filename=\"\"", Some("")),
            ("form-data; filename=\"a %22b%22 100%25.pdf\"", Some("a \"b\" 100%25.pdf")),
            ("form-data; name=\"file\"", None),
            ("form-data", None),
        ] {
            assert_eq!(name(header).as_deref(), expected, "{header}");
        }
    }

    #[test]
    fn field_name_ignores_file_name() {
        for header in [
            "form-data; name=\"file\"; filename=\"x\"",
            "form-data; filename=\"x; name=other\"; name=\"file\"",
            "form-data; filename=\"\\\"; name=\\\"other\"; NAME = file",
        ] {
            assert_eq!(field_name(header.as_bytes()).as_deref(), Some(&b"file"[..]), "{header}");
        }
        assert_eq!(field_name(b"form-data; filename=\"x\""), None);
    }

    proptest! {
        #[test]
        fn attachment_header_round_trips_any_name(name in any::<String>()) {
            let header = attachment_header(&name);
            prop_assert_eq!(file_name(header.as_bytes()), Some(name.into_bytes()));
        }

        #[test]
        fn any_header_is_read(header in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = file_name(&header);
            let _ = file_name(&[b"form-data; filename=\"", &header[..]].concat());
        }
    }
}
