//! A vendor's server: its address, key and connections.

use std::fmt;
use std::sync::{Arc, OnceLock};

use domain::outgoing::OutgoingConfig;
use domain::secret::Secret;
use domain::step::StepError;
use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};

use crate::client::VendorHttpClient;
use crate::format::WireFormat;

/// An invalid configuration of a vendor. Contains no secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VendorError {
    /// The base URL is invalid, not HTTP, or has a user, query or fragment.
    #[error("invalid base URL: use http or https, without user, query or fragment")]
    BaseUrl,
    /// A header cannot contain the key.
    #[error("the key contains invalid characters")]
    Key,
}

/// A vendor's server: its address, key and connections. Cheap to clone.
#[derive(Clone)]
pub(crate) struct VendorServer {
    base: Url,
    header: Option<(HeaderName, HeaderValue)>,
    key: Option<Secret>,
    client: Arc<OnceLock<VendorHttpClient>>,
    outgoing: OutgoingConfig,
}

impl fmt::Debug for VendorServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("host", &self.base.host_str()).finish_non_exhaustive()
    }
}

impl VendorServer {
    /// Creates the server at `base`. Completes its path for the format.
    pub(crate) fn new(format: WireFormat, base: &str, key: Option<Secret>) -> Result<Self, VendorError> {
        let mut base = parse_base_url(base)?;
        let path = format.base_path(base.path());
        base.set_path(&path);
        let header = match &key {
            Some(key) => Some(format.key_header(key).ok_or(VendorError::Key)?),
            None => None,
        };
        Ok(Self { base, header, key, client: Arc::default(), outgoing: OutgoingConfig::default() })
    }

    /// Returns the server, connected as configured.
    pub(crate) fn with_outgoing(self, outgoing: &OutgoingConfig) -> Self {
        Self { outgoing: outgoing.clone(), client: Arc::default(), ..self }
    }

    /// Returns true for the vendor's own server.
    pub(crate) fn is_own(&self, format: WireFormat) -> bool {
        let host = self.base.host_str().unwrap_or("");
        let own = Url::parse(format.default_base_url()).ok();
        own.as_ref().and_then(Url::host_str) == Some(host) || host.ends_with(".openai.azure.com")
    }

    /// Returns the address. Addresses with a user or query are rejected, so it contains no key.
    pub(crate) fn base_url(&self) -> &str {
        self.base.as_str()
    }

    pub(crate) fn request_url(&self, path: &str, query: Option<&str>) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path()));
        url.set_query(query);
        url
    }

    pub(crate) fn key_header(&self) -> Option<(HeaderName, HeaderValue)> {
        self.header.clone()
    }

    /// Removes the key from a text.
    pub(crate) fn redact_key(&self, text: &str) -> String {
        self.key.as_ref().map_or_else(|| text.to_owned(), |key| key.redact(text))
    }

    /// Returns the HTTP client. It is created on first use, because loading the system's certificates is slow and only
    /// needed for TLS.
    pub(crate) fn http_client(&self) -> Result<&VendorHttpClient, StepError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = VendorHttpClient::new(&self.base, &self.outgoing)
            .map_err(|error| crate::error::rejected_step(format!("TLS setup failed: {error}")))?;
        Ok(self.client.get_or_init(|| client))
    }
}

/// Returns true when an address has this host.
pub(crate) fn is_at(base: &str, host: &str) -> bool {
    parse_base_url(base).is_ok_and(|base| base.host_str() == Some(host))
}

/// Returns true for the address of the vendor's own server.
pub(crate) fn is_own_address(format: WireFormat, base: &str) -> bool {
    VendorServer::new(format, base, None).is_ok_and(|server| server.is_own(format))
}

/// Parses an address and rejects parts that may contain secrets.
pub(crate) fn parse_base_url(base: &str) -> Result<Url, VendorError> {
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

    fn models_url(url: &str) -> Result<String, VendorError> {
        VendorServer::new(WireFormat::ChatCompletions, url, None)
            .map(|server| server.request_url("/models", None).to_string())
    }

    #[test]
    fn base_url_accepts_any_notation() {
        for (url, models) in [
            ("http://localhost:11434", "http://localhost:11434/v1/models"),
            ("http://localhost:11434/", "http://localhost:11434/v1/models"),
            ("http://localhost:11434/v1", "http://localhost:11434/v1/models"),
            (" http://localhost:11434/v1/ ", "http://localhost:11434/v1/models"),
            ("https://example.org/openai/v1//", "https://example.org/openai/v1/models"),
            ("https://example.org/v1/chat/completions", "https://example.org/v1/models"),
        ] {
            assert_eq!(models_url(url).as_deref(), Ok(models), "{url}");
        }
        for url in ["", "localhost:8080", "ftp://x", "http://u:p@x/", "http://x/?q", "http://x/#f", "/v1"] {
            assert_eq!(models_url(url), Err(VendorError::BaseUrl), "{url}");
        }
    }

    #[test]
    fn request_url_completed_by_format() {
        let step = |format: WireFormat, url: &str| {
            let (path, query) = format.step_path("m");
            VendorServer::new(format, url, None).unwrap().request_url(&path, query).to_string()
        };
        for url in ["https://x.org", "https://x.org/", "https://x.org/v1", "https://x.org/v1/messages"] {
            assert_eq!(step(WireFormat::Anthropic, url), "https://x.org/v1/messages", "{url}");
        }
        assert_eq!(step(WireFormat::Anthropic, "https://x.org/proxy"), "https://x.org/proxy/v1/messages");
        for url in ["https://x.org/", "https://x.org/v1beta", "https://x.org/v1beta/models"] {
            let expected = "https://x.org/v1beta/models/m:streamGenerateContent?alt=sse";
            assert_eq!(step(WireFormat::Gemini, url), expected, "{url}");
        }
        assert_eq!(step(WireFormat::Responses, "https://x.org"), "https://x.org/v1/responses");
    }

    #[test]
    fn a_key_is_never_shown() {
        for format in WireFormat::ALL {
            let config = VendorConfig { key: Some(Secret::new("sk-secret")), ..VendorConfig::default() };
            assert!(!format!("{config:?}").contains("sk-"));
            let server = VendorServer::new(format, "https://example.org", config.key).unwrap();
            assert!(!format!("{server:?} {:?}", server.key_header()).contains("sk-"), "{format:?}");
            assert_eq!(server.redact_key("bad key sk-secret!"), "bad key [secret]!");
            let broken = VendorServer::new(format, "https://x", Some(Secret::new("a\nb")));
            assert_eq!(broken.err(), Some(VendorError::Key));
        }
    }
}
