//! Decides which link targets are allowed.

use std::fmt::Write;

use domain::citation::PassagePlace;

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
pub fn source_href(place: &PassagePlace) -> Option<String> {
    match place {
        PassagePlace::File { path, page, .. } => {
            let mut href = String::from(FILES);
            percent_encode(path.trim_start_matches('/'), b"-._~/", &mut href);
            if let Some(page) = page {
                // Writing to a string cannot fail.
                let _written = write!(href, "#page={page}");
            }
            Some(href)
        }
        PassagePlace::Web { url, .. } => allowed_address(url),
    }
}

/// Returns the address if a link may contain it: a web or mail scheme, in plain ASCII.
pub(crate) fn allowed_address(url: &str) -> Option<String> {
    let url = url.trim();
    let allowed = ["http://", "https://", "mailto:"].into_iter().any(|scheme| {
        url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            && url.len() > scheme.len()
    });
    if !allowed || url.len() > ADDRESS_MAX_BYTES {
        return None;
    }
    let mut out = String::with_capacity(url.len());
    percent_encode(url, b"-._~:/?#[]@!$&'()*+,;=%", &mut out);
    Some(out)
}

/// Returns the download of the workspace's file that an address within an answer names: `chart.png`, `/uploads/a.docx`. `None`
/// for one that names no file below the workspace, or might mean a site.
pub(crate) fn workspace_file_href(url: &str) -> Option<String> {
    let path = url.trim().split(['#', '?']).next().unwrap_or_default();
    if path.len() > ADDRESS_MAX_BYTES || path.starts_with("//") {
        return None;
    }
    let path = percent_decode(path)?;
    if path.contains('\\') || path.contains(char::is_control) {
        return None;
    }
    let is_rooted = path.starts_with(['/', '.']);
    let mut names = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()?),
            name => names.push(name),
        }
    }
    // The folder of the workspace in its machine.
    if path.starts_with("/workspace/") && names.first() == Some(&"workspace") {
        names.remove(0);
    }
    let (first, last) = (names.first()?, names.last()?);
    let extension =
        last.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, extension)| extension);
    let is_site = !is_rooted && if names.len() > 1 { first.contains('.') } else { is_site(last) };
    if first.contains(':') || is_site || extension.is_none() && *first != "uploads" {
        return None;
    }
    let mut href = String::from(FILES);
    percent_encode(&names.join("/"), b"-._~/", &mut href);
    Some(href)
}

/// Returns true for a name that more likely names a site than a file.
fn is_site(name: &str) -> bool {
    const DOMAINS: [&str; 12] = ["ai", "app", "at", "com", "cz", "de", "dev", "eu", "io", "net", "org", "sk"];
    name.starts_with("www.") || name.rsplit_once('.').is_some_and(|(_, last)| DOMAINS.contains(&last))
}

/// Decodes percent-encoding; `None` if the result is not text.
fn percent_decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = (first == b'%').then(|| after.get(..2)).flatten();
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let code = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &after[2..];
            }
            None => {
                out.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8(out).ok()
}

/// Appends the text and percent-encodes all bytes except letters, digits and the ones in `plain`.
fn percent_encode(text: &str, plain: &[u8], out: &mut String) {
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
    fn source_href_leads_to_file_page() {
        let file = |path: &str, page| PassagePlace::File {
            path: path.into(),
            page,
            lines: Some((1, 2)),
            page_name: None,
        };
        let href = |place: PassagePlace| source_href(&place).unwrap();
        assert_eq!(href(file("/uploads/lease.pdf", Some(3))), "/api/v1/files/uploads/lease.pdf#page=3");
        assert_eq!(
            href(file("/uploads/smlouva č. 1%#?\"<.pdf", None)),
            "/api/v1/files/uploads/smlouva%20%C4%8D.%201%25%23%3F%22%3C.pdf"
        );
    }

    #[test]
    fn allowed_address_accepts_harmless_only() {
        for url in ["https://example.org/a?b=c#d", "HTTP://example.org", "mailto:a@example.org"] {
            assert_eq!(allowed_address(url).as_deref(), Some(url));
        }
        assert_eq!(
            allowed_address("https://example.org/ž\"<").as_deref(),
            Some("https://example.org/%C5%BE%22%3C")
        );
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
            assert_eq!(allowed_address(url), None, "{url}");
        }
    }
}
