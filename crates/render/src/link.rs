//! Decides which link targets are allowed.

use std::fmt::Write;

use domain::citation::Place;

/// The download path of workspace files (section 4.3 of the interface).
pub(crate) const FILES: &str = "/api/v1/files/";
/// Longer addresses are not linked.
const ADDRESS_MAX_BYTES: usize = 2048;

/// Returns the identifier of a citation: `citationId` on the wire and `data-citation` in the HTML.
#[must_use]
pub fn citation_id(number: u32) -> String {
    format!("c{number}")
}

/// Returns the link to a source: the download of a file, at its page, or the web page. `None` when the address is not
/// allowed.
#[must_use]
pub fn href(place: &Place) -> Option<String> {
    match place {
        Place::File { path, page, .. } => {
            let mut href = String::from(FILES);
            encode(path.trim_start_matches('/'), b"-._~/", &mut href);
            if let Some(page) = page {
                // Writing to a string cannot fail.
                let _written = write!(href, "#page={page}");
            }
            Some(href)
        }
        Place::Web { url, .. } => address(url),
    }
}

/// Returns the address if a link may contain it: a web or mail scheme, in plain ASCII.
pub(crate) fn address(url: &str) -> Option<String> {
    let url = url.trim();
    let allowed = ["http://", "https://", "mailto:"].into_iter().any(|scheme| {
        url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            && url.len() > scheme.len()
    });
    if !allowed || url.len() > ADDRESS_MAX_BYTES {
        return None;
    }
    let mut out = String::with_capacity(url.len());
    encode(url, b"-._~:/?#[]@!$&'()*+,;=%", &mut out);
    Some(out)
}

/// Appends the text and percent-encodes all bytes except letters, digits and those in `plain`.
fn encode(text: &str, plain: &[u8], out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || plain.contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _written = write!(out, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_leads_to_its_download_and_page() {
        let file =
            |path: &str, page| Place::File { path: path.into(), page, lines: Some((1, 2)), page_name: None };
        let href = |place: Place| href(&place).unwrap();
        assert_eq!(href(file("/uploads/lease.pdf", Some(3))), "/api/v1/files/uploads/lease.pdf#page=3");
        assert_eq!(
            href(file("/uploads/smlouva č. 1%#?\"<.pdf", None)),
            "/api/v1/files/uploads/smlouva%20%C4%8D.%201%25%23%3F%22%3C.pdf"
        );
    }

    #[test]
    fn only_addresses_that_are_harmless_are_addresses() {
        for url in ["https://example.org/a?b=c#d", "HTTP://example.org", "mailto:a@example.org"] {
            assert_eq!(address(url).as_deref(), Some(url));
        }
        assert_eq!(address("https://example.org/ž\"<").as_deref(), Some("https://example.org/%C5%BE%22%3C"));
        for url in [
            "javascript:alert(1)",
            "data:text/html,x",
            "/api/v1/vm",
            "//example.org",
            "vbscript:x",
            "https://",
            "",
            "file:///etc",
            "java\nscript:x",
            "ahttps://x",
        ] {
            assert_eq!(address(url), None, "{url}");
        }
    }
}
