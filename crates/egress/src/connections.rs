//! Connects to servers and reads their responses within bounds.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use domain::outgoing::{OutgoingConfig, ProxyChoice};
use domain::retry_after;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Certificate, Client, ClientBuilder, NoProxy, Proxy, Response, Url, redirect};

use crate::ConfigError;

/// The `User-Agent` of outbound requests.
pub const USER_AGENT: &str = concat!("causerie/", env!("CARGO_PKG_VERSION"));
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The idle timeout of pooled connections.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum number of idle connections per server.
const IDLE_MAX: usize = 4;

/// The HTTP client for servers that the operator configured, created on first use, because loading the system's
/// certificates takes time. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutgoingConnections {
    client: Arc<OnceLock<Client>>,
    outgoing: OutgoingConfig,
}

impl OutgoingConnections {
    /// Creates connections as configured.
    pub(crate) fn from_config(outgoing: &OutgoingConfig) -> Self {
        Self { client: Arc::default(), outgoing: outgoing.clone() }
    }

    /// Returns the client and creates it if necessary.
    pub(crate) fn http_client(&self) -> Result<&Client, reqwest::Error> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = build_client(&self.outgoing)?;
        Ok(self.client.get_or_init(|| client))
    }
}

/// Creates a client that uses this proxy and trusts these authorities in addition to the system's.
fn build_client(outgoing: &OutgoingConfig) -> Result<Client, reqwest::Error> {
    let builder = match &outgoing.proxy {
        // The builder reads the variables itself.
        ProxyChoice::Environment => client_builder(),
        ProxyChoice::Off => client_builder().no_proxy(),
        ProxyChoice::Server { url, except } => {
            client_builder().proxy(Proxy::all(url.expose())?.no_proxy(NoProxy::from_string(except)))
        }
    };
    let authorities = outgoing.authorities.iter().map(|authority| Certificate::from_der(authority));
    let authorities = authorities.collect::<Result<Vec<_>, _>>()?;
    if authorities.is_empty() { builder.build() } else { builder.tls_certs_merge(authorities).build() }
}

/// Creates the common configuration of all clients: no redirects, no retries, no decompression, and no information
/// about the service beyond its name.
pub(crate) fn client_builder() -> ClientBuilder {
    // An error means that a provider is installed already; the build contains only this one.
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

/// Parses the base URL of a server and removes trailing slashes of its path.
///
/// # Errors
/// [`ConfigError::BaseUrl`], naming `what`.
pub(crate) fn base_url(text: &str, what: &str) -> Result<Url, ConfigError> {
    let mut url = plain_url(text, what)?;
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(url)
}

/// Parses the URL of a server as configured: http or https, without user, query or fragment.
///
/// # Errors
/// [`ConfigError::BaseUrl`], naming `what`.
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

/// Appends a path to a base URL.
pub(crate) fn append_path(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
    url
}

/// The reason why a body could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseBodyError {
    /// The body exceeds the limit.
    TooLarge,
    /// The connection closed before the end of the body.
    Cut,
}

/// Reads a body of at most `max_bytes`. Cancel safe.
pub(crate) async fn read_response_body(
    mut response: Response,
    max_bytes: usize,
) -> Result<Vec<u8>, ResponseBodyError> {
    if response.content_length().is_some_and(|length| length > max_bytes as u64) {
        return Err(ResponseBodyError::TooLarge);
    }
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|_| ResponseBodyError::Cut)? {
        if bytes.len() + piece.len() > max_bytes {
            return Err(ResponseBodyError::TooLarge);
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// Returns the delay from `Retry-After`.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    retry_after::parse_retry_after(headers.get(RETRY_AFTER)?.to_str().ok()?, SystemTime::now())
}

/// Describes a transport error without the URL, which may contain the user's data.
pub(crate) fn transport_error_reason(error: reqwest::Error) -> String {
    let what = if error.is_timeout() {
        "timeout"
    } else if error.is_connect() {
        "connection failed"
    } else {
        "connection lost"
    };
    tracing::debug!(error = %error.without_url(), "outbound request failed");
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
            assert_eq!(append_path(&base, "/search").as_str(), url);
        }
        for text in ["", "localhost:8080", "ftp://x", "http://u:p@x/", "http://x/?q", "http://x/#f", "/v1"] {
            assert!(base_url(text, "it").is_err(), "{text}");
        }
    }

    #[test]
    fn the_connections_can_be_made() {
        assert!(OutgoingConnections::default().http_client().is_ok());
    }
}
