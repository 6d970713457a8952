//! URLs of pages.

use std::fmt;

use reqwest::Url;

/// The longest URL, in bytes.
pub const URL_MAX_BYTES: usize = 2048;

/// A canonical URL of a page: http or https, with a host, without user and fragment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WebUrl(Url);

impl WebUrl {
    /// Parses a URL. A host in an unusual notation (decimal, octal, hexadecimal) is normalized to the address that it
    /// denotes. Returns `None` if the text is not the URL of a page.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.len() > URL_MAX_BYTES || text.chars().any(crate::text::is_hidden) {
            return None;
        }
        Self::from_url(Url::parse(text).ok()?)
    }

    /// Resolves a reference found on the page at this URL.
    pub(crate) fn resolve_reference(&self, reference: &str) -> Option<Self> {
        let reference = reference.trim();
        if reference.len() > URL_MAX_BYTES || reference.chars().any(crate::text::is_hidden) {
            return None;
        }
        Self::from_url(self.0.join(reference).ok()?)
    }

    fn from_url(mut url: Url) -> Option<Self> {
        url.set_fragment(None);
        let clean = url.username().is_empty() && url.password().is_none();
        if !clean || !matches!(url.scheme(), "http" | "https") || url.as_str().len() > URL_MAX_BYTES {
            return None;
        }
        // A trailing dot denotes the same host.
        let host = url.host_str()?;
        if let Some(bare) = host.strip_suffix('.') {
            let bare = bare.to_owned();
            url.set_host(Some(&bare)).ok()?;
        }
        // Resolvers ignore additional dots, so such a name would denote the same host as another one.
        let whole = url.host_str()?.split('.').all(|label| !label.is_empty());
        whole.then_some(Self(url))
    }

    /// Returns the URL as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Returns the host: a name in lower case, or an IP address.
    #[must_use]
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or("")
    }

    pub(crate) fn as_url(&self) -> &Url {
        &self.0
    }
}

impl fmt::Display for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_to_string(text: &str) -> Option<String> {
        WebUrl::parse(text).map(|url| url.to_string())
    }

    #[test]
    fn an_address_has_one_spelling() {
        for (text, url) in [
            (" https://Example.ORG ", "https://example.org/"),
            ("https://example.org:443/a#b", "https://example.org/a"),
            ("http://example.org./a", "http://example.org/a"),
            ("https://cs.wikipedia.org/wiki/Občan", "https://cs.wikipedia.org/wiki/Ob%C4%8Dan"),
            ("https://háček.cz/", "https://xn--hek-ela4t.cz/"),
            ("http://2130706433/", "http://127.0.0.1/"),
            ("http://0x7f.1/", "http://127.0.0.1/"),
            ("http://0177.0.0.1./", "http://127.0.0.1/"),
            ("http://１２７.0.0.1/", "http://127.0.0.1/"),
            ("http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
        ] {
            assert_eq!(parse_to_string(text).as_deref(), Some(url), "{text}");
        }
    }

    #[test]
    fn parse_rejects_urls_of_no_page() {
        for text in [
            "",
            "example.org",
            "ftp://example.org/",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "data:text/html,x",
            "https://user@example.org/",
            "https://user:word@example.org/",
            "https://:@/",
            "http:///",
            "http://localhost../",
            "http://example..org/",
            "http://.example.org/",
            "https://exa mple.org/",
            "https://example.org/\u{202e}gpj",
        ] {
            assert_eq!(parse_to_string(text), None, "{text}");
        }
        assert_eq!(parse_to_string(&format!("https://example.org/{}", "a".repeat(URL_MAX_BYTES))), None);
    }

    #[test]
    fn resolve_reference_starts_from_page() {
        let page = WebUrl::parse("https://example.org/a/b?c").expect("an address");
        let join = |reference| page.resolve_reference(reference).map(|url| url.to_string());
        assert_eq!(join("../d").as_deref(), Some("https://example.org/d"));
        assert_eq!(join("//other.example/x").as_deref(), Some("https://other.example/x"));
        assert_eq!(join("mailto:a@example.org"), None);
    }
}
