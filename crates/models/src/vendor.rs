//! Which vendors there are, and how their servers are reached.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use domain::step::StepError;
use reqwest::header::HeaderValue;
use reqwest::{Client, Url, redirect};

/// How long a connection may take to be made.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection without use is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// How many connections without use are kept for each server.
const IDLE_MAX: usize = 64;

/// A key that no log and no error shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps the key.
    #[must_use]
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    /// `Authorization: Bearer …`; `None` when the key cannot stand in a header.
    pub(crate) fn bearer(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", self.0)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// The text without the key, should a server have repeated it.
    pub(crate) fn redact(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, "[key]") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[key]")
    }
}

/// How a vendor is reached.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VendorConfig {
    /// The key, where the server wants one.
    pub key: Option<Secret>,
    /// Where the server is; the vendor's own when absent.
    pub base_url: Option<String>,
}

/// The vendors that are configured, and what holds of their models.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VendorsConfig {
    /// OpenAI, or a server that speaks its protocol.
    pub openai: Option<VendorConfig>,
    /// The model that answers questions which name none; the catalog chooses when absent.
    pub default_model: Option<String>,
    /// What models cost; [`crate::catalog::DEFAULT_PRICE`] when absent.
    pub price: Option<domain::credits::Price>,
    /// The most tokens that one step may write; [`crate::catalog::OUTPUT_MAX_TOKENS`] when absent.
    pub output_max_tokens: Option<u32>,
}

/// A vendor's configuration cannot be used. Says nothing of its secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VendorError {
    /// The base URL is none, or not of HTTP, or carries a user, a query or a fragment.
    #[error("the base URL is not a plain http or https address")]
    BaseUrl,
    /// The key has characters that no header can carry.
    #[error("the key has characters that no key has")]
    Key,
}

/// A vendor's server: its address, key and connections. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Server {
    base: Url,
    bearer: Option<HeaderValue>,
    key: Option<Secret>,
    client: Arc<OnceLock<Client>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("host", &self.base.host_str()).finish_non_exhaustive()
    }
}

impl Server {
    /// The server at `base`, whose path is `/v1` where it has none.
    pub(crate) fn new(base: &str, key: Option<Secret>) -> Result<Self, VendorError> {
        let mut base = Url::parse(base.trim()).map_err(|_| VendorError::BaseUrl)?;
        let plain = base.username().is_empty()
            && base.password().is_none()
            && base.query().is_none()
            && base.fragment().is_none();
        if !plain || !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(VendorError::BaseUrl);
        }
        let path = base.path().trim_end_matches('/');
        let path = path.strip_suffix("/chat/completions").unwrap_or(path);
        let path = if path.is_empty() { "/v1".to_owned() } else { path.to_owned() };
        base.set_path(&path);
        let bearer = match &key {
            Some(key) => Some(key.bearer().ok_or(VendorError::Key)?),
            None => None,
        };
        Ok(Self { base, bearer, key, client: Arc::default() })
    }

    pub(crate) fn host(&self) -> &str {
        self.base.host_str().unwrap_or("")
    }

    pub(crate) fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path()));
        url
    }

    pub(crate) fn bearer(&self) -> Option<&HeaderValue> {
        self.bearer.as_ref()
    }

    /// A text of the server's without the key.
    pub(crate) fn redact(&self, text: &str) -> String {
        self.key.as_ref().map_or_else(|| text.to_owned(), |key| key.redact(text))
    }

    /// The connections, made when they are first needed: reading the system's certificates takes a while,
    /// and a server that is spoken to in clear text needs none.
    pub(crate) fn client(&self) -> Result<&Client, StepError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = build(self.base.scheme() == "https").map_err(|error| StepError::Rejected {
            reason: format!("no TLS connections can be made here: {}", error.without_url()),
        })?;
        Ok(self.client.get_or_init(|| client))
    }
}

fn build(encrypted: bool) -> Result<Client, reqwest::Error> {
    // Whoever installed a provider first has installed this one: the build has no other.
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder()
        .user_agent(concat!("causerie/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(IDLE_MAX)
        .http1_only()
        .tcp_nodelay(true)
        .referer(false);
    if encrypted { builder.https_only(true).build() } else { builder.tls_certs_only([]).build() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(url: &str) -> Result<String, VendorError> {
        Server::new(url, None).map(|server| server.url("/models").to_string())
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
    fn a_key_is_never_shown() {
        let config = VendorConfig { key: Some(Secret::new("sk-secret")), base_url: None };
        assert!(!format!("{config:?}").contains("secret"));
        let server = Server::new("https://example.org", config.key).unwrap();
        assert!(!format!("{server:?} {:?}", server.bearer()).contains("secret"));
        assert_eq!(server.redact("bad key sk-secret!"), "bad key [key]!");
        assert_eq!(Server::new("https://x", Some(Secret::new("a\nb"))).err(), Some(VendorError::Key));
    }

    #[test]
    fn both_kinds_of_connection_can_be_made() {
        assert!(build(false).is_ok());
        assert!(build(true).is_ok());
    }
}
