//! How servers are reached, and how their answers are read within bounds.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use domain::retry_after;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Client, ClientBuilder, Response, Url, redirect};

use crate::ConfigError;

/// How the service calls itself to servers.
pub const USER_AGENT: &str = concat!("causerie/", env!("CARGO_PKG_VERSION"));
/// How long a connection may take to be made.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection without use is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// How many connections without use are kept for each server.
const IDLE_MAX: usize = 4;

/// The connections to servers that the operator named, made when they are first needed: reading the system's
/// certificates takes a while. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connections(Arc<OnceLock<Client>>);

impl Connections {
    /// The client.
    pub(crate) fn client(&self) -> Result<&Client, reqwest::Error> {
        if let Some(client) = self.0.get() {
            return Ok(client);
        }
        let client = builder().build()?;
        Ok(self.0.get_or_init(|| client))
    }
}

/// What all clients have in common: they follow nothing, try nothing again, decode nothing, and tell no more of the
/// service than its name.
pub(crate) fn builder() -> ClientBuilder {
    // Whoever installed a provider first has installed this one: the build has no other.
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .user_agent(USER_AGENT)
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(IDLE_MAX)
        .http1_only()
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
        .referer(false)
}

/// The address below which a server is: a plain one, whose path ends without a slash.
///
/// # Errors
/// [`ConfigError::BaseUrl`], of `what`.
pub(crate) fn base_url(text: &str, what: &str) -> Result<Url, ConfigError> {
    let mut url = plain_url(text, what)?;
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(url)
}

/// The address of a server as an operator writes it: http or https, without user, query or fragment.
///
/// # Errors
/// [`ConfigError::BaseUrl`], of `what`.
pub(crate) fn plain_url(text: &str, what: &str) -> Result<Url, ConfigError> {
    let wrong = || ConfigError::BaseUrl { what: what.to_owned() };
    let url = Url::parse(text.trim()).map_err(|_| wrong())?;
    let plain = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if !plain || !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong());
    }
    Ok(url)
}

/// An address below another.
pub(crate) fn below(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
    url
}

/// Why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// It is longer than it may be.
    TooLarge,
    /// It ended before its end.
    Cut,
}

/// A body of at most `max_bytes`. Cancel safe.
pub(crate) async fn body(mut response: Response, max_bytes: usize) -> Result<Vec<u8>, BodyError> {
    if response.content_length().is_some_and(|length| length > max_bytes as u64) {
        return Err(BodyError::TooLarge);
    }
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|_| BodyError::Cut)? {
        if bytes.len() + piece.len() > max_bytes {
            return Err(BodyError::TooLarge);
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// When the server wants to be asked again.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    retry_after::parse(headers.get(RETRY_AFTER)?.to_str().ok()?, SystemTime::now())
}

/// Why no answer came, without the address, which may carry what the user asked.
pub(crate) fn reason(error: reqwest::Error) -> String {
    let what = if error.is_timeout() {
        "it took too long"
    } else if error.is_connect() {
        "no connection could be made"
    } else {
        "the connection broke"
    };
    tracing::debug!(error = %error.without_url(), "no answer came");
    what.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_address_is_plain() {
        for (text, url) in [
            ("http://localhost:8888", "http://localhost:8888/search"),
            (" https://example.org/searx/ ", "https://example.org/searx/search"),
        ] {
            let base = base_url(text, "it").expect("a plain address");
            assert_eq!(below(&base, "/search").as_str(), url);
        }
        for text in ["", "localhost:8080", "ftp://x", "http://u:p@x/", "http://x/?q", "http://x/#f", "/v1"] {
            assert!(base_url(text, "it").is_err(), "{text}");
        }
    }

    #[test]
    fn the_connections_can_be_made() {
        assert!(Connections::default().client().is_ok());
    }
}
