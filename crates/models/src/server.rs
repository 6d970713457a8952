//! A vendor's server: its address, key and connections.

use std::fmt;
use std::sync::{Arc, OnceLock};

use domain::outgoing::OutgoingConfig;
use domain::secret::Secret;
use domain::step::StepError;
use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};

use crate::client::Client;
use crate::format::Format;

/// An invalid configuration of a vendor. Contains no secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VendorError {
    /// The base URL is invalid, not HTTP, or has a user, query or fragment.
    #[error("the base URL is not a plain http or https address")]
    BaseUrl,
    /// A header cannot contain the key.
    #[error("the key contains invalid characters")]
    Key,
}

/// A vendor's server: its address, key and connections. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Server {
    base: Url,
    header: Option<(HeaderName, HeaderValue)>,
    key: Option<Secret>,
    client: Arc<OnceLock<Client>>,
    outgoing: OutgoingConfig,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("host", &self.base.host_str()).finish_non_exhaustive()
    }
}

impl Server {
    /// Creates the server at `base`. Completes its path for the format.
    pub(crate) fn new(format: Format, base: &str, key: Option<Secret>) -> Result<Self, VendorError> {
        let mut base = parse(base)?;
        let path = format.base_path(base.path());
        base.set_path(&path);
        let header = match &key {
            Some(key) => Some(format.key_header(key).ok_or(VendorError::Key)?),
            None => None,
        };
        Ok(Self { base, header, key, client: Arc::default(), outgoing: OutgoingConfig::default() })
    }

    /// Returns the server, connected as configured.
    pub(crate) fn through(self, outgoing: &OutgoingConfig) -> Self {
        Self { outgoing: outgoing.clone(), client: Arc::default(), ..self }
    }

    /// Returns true for the vendor's own server.
    pub(crate) fn is_own(&self, format: Format) -> bool {
        let host = self.base.host_str().unwrap_or("");
        let own = Url::parse(format.default_base_url()).ok();
        own.as_ref().and_then(Url::host_str) == Some(host) || host.ends_with(".openai.azure.com")
    }

    /// Returns the address. Addresses with a user or query are rejected, so it contains no key.
    pub(crate) fn base_url(&self) -> &str {
        self.base.as_str()
    }

    pub(crate) fn url(&self, path: &str, query: Option<&str>) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path()));
        url.set_query(query);
        url
    }

    pub(crate) fn key_header(&self) -> Option<(HeaderName, HeaderValue)> {
        self.header.clone()
    }

    /// Removes the key from a text.
    pub(crate) fn redact(&self, text: &str) -> String {
        self.key.as_ref().map_or_else(|| text.to_owned(), |key| key.redact(text))
    }

    /// Returns the HTTP client. It is created on first use, because loading the system's certificates is slow and only
    /// needed for TLS.
    pub(crate) fn client(&self) -> Result<&Client, StepError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = Client::new(&self.base, &self.outgoing)
            .map_err(|error| crate::error::rejected(format!("TLS setup failed: {error}")))?;
        Ok(self.client.get_or_init(|| client))
    }
}

/// Returns true when an address has this host.
pub(crate) fn is_at(base: &str, host: &str) -> bool {
    parse(base).is_ok_and(|base| base.host_str() == Some(host))
}

/// Returns true for the address of the vendor's own server.
pub(crate) fn is_own_address(format: Format, base: &str) -> bool {
    Server::new(format, base, None).is_ok_and(|server| server.is_own(format))
}

/// Parses an address and rejects parts that may contain secrets.
pub(crate) fn parse(base: &str) -> Result<Url, VendorError> {
    let base = Url::parse(base.trim()).map_err(|_| VendorError::BaseUrl)?;
    let plain = base.username().is_empty()
        && base.password().is_none()
        && base.query().is_none()
        && base.fragment().is_none();
    if !plain || !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
        return Err(VendorError::BaseUrl);
    }
    Ok(base)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::VendorConfig;

    fn base(url: &str) -> Result<String, VendorError> {
        Server::new(Format::ChatCompletions, url, None).map(|server| server.url("/models", None).to_string())
    }

    #[test]
    fn a_base_url_is_taken_however_it_is_written() {
        for (url, models) in [
            ("http://localhost:11434", "http://localhost:11434/v1/models"),
            ("http://localhost:11434/", "http://localhost:11434/v1/models"),
            ("http://localhost:11434/v1", "http://localhost:11434/v1/models"),
            (" http://localhost:11434/v1/ ", "http://localhost:11434/v1/models"),
            ("https://example.org/openai/v1//", "https://example.org/openai/v1/models"),
            ("https://example.org/v1/chat/completions", "https://example.org/v1/models"),
        ] {
            assert_eq!(base(url).as_deref(), Ok(models), "{url}");
        }
        for url in ["", "localhost:8080", "ftp://x", "http://u:p@x/", "http://x/?q", "http://x/#f", "/v1"] {
            assert_eq!(base(url), Err(VendorError::BaseUrl), "{url}");
        }
    }

    #[test]
    fn each_format_completes_the_address_as_its_own_programs_do() {
        let step = |format: Format, url: &str| {
            let (path, query) = format.step_path("m");
            Server::new(format, url, None).unwrap().url(&path, query).to_string()
        };
        for url in ["https://x.org", "https://x.org/", "https://x.org/v1", "https://x.org/v1/messages"] {
            assert_eq!(step(Format::Anthropic, url), "https://x.org/v1/messages", "{url}");
        }
        assert_eq!(step(Format::Anthropic, "https://x.org/proxy"), "https://x.org/proxy/v1/messages");
        for url in ["https://x.org/", "https://x.org/v1beta", "https://x.org/v1beta/models"] {
            let expected = "https://x.org/v1beta/models/m:streamGenerateContent?alt=sse";
            assert_eq!(step(Format::Gemini, url), expected, "{url}");
        }
        assert_eq!(step(Format::Responses, "https://x.org"), "https://x.org/v1/responses");
    }

    #[test]
    fn a_key_is_never_shown() {
        for format in Format::ALL {
            let config = VendorConfig { key: Some(Secret::new("sk-secret")), ..VendorConfig::default() };
            assert!(!format!("{config:?}").contains("sk-"));
            let server = Server::new(format, "https://example.org", config.key).unwrap();
            assert!(!format!("{server:?} {:?}", server.key_header()).contains("sk-"), "{format:?}");
            assert_eq!(server.redact("bad key sk-secret!"), "bad key [secret]!");
            let broken = Server::new(format, "https://x", Some(Secret::new("a\nb")));
            assert_eq!(broken.err(), Some(VendorError::Key));
        }
    }
}
