//! The HTTP client of one vendor's server.
//!
//! Connects directly through a [`ConnectionPool`], or through `reqwest` when the settings or the environment (`HTTPS_PROXY` and so on)
//! have a proxy for the server.

use std::error::Error;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use domain::outgoing::{OutgoingConfig, ProxyChoice};
use http_body_util::Full;
use hyper::body::Body;
use hyper::{Method, Request, Uri};
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Certificate, NoProxy, Proxy, StatusCode, Url, redirect};
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;

use crate::connection::{
    CONNECT_TIMEOUT, ConnectionPool, HttpExchange, IDLE_MAX, IDLE_TIMEOUT, VendorConnectionError,
};
use crate::decoder::STREAM_MAX_BYTES;
use crate::inflate::Inflate;

const USER_AGENT: &str = concat!("causerie/", env!("CARGO_PKG_VERSION"));

type BoxError = Box<dyn Error + Send + Sync>;

/// Sends requests to one server. Follows no redirects.
#[derive(Clone)]
pub(crate) enum VendorHttpClient {
    Direct(ConnectionPool),
    Proxied(reqwest::Client),
}

/// A response whose head has arrived. Dropping it before the end of its body closes its connection.
pub(crate) struct VendorHttpResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: ResponseBody,
    /// Set when the body is compressed, though that was not asked for.
    inflate: Option<Inflate>,
}

enum ResponseBody {
    Direct(Box<HttpExchange>),
    Proxied(Box<reqwest::Body>),
}

impl VendorHttpClient {
    /// Creates a client for the server at `base`. Loads the system's certificates only for TLS.
    pub(crate) fn new(base: &Url, outgoing: &OutgoingConfig) -> Result<Self, BoxError> {
        let encrypted = base.scheme() == "https";
        let uri: Uri = base.as_str().parse()?;
        if proxy_matcher(&outgoing.proxy).intercept(&uri).is_some() {
            return Ok(Self::Proxied(
                proxied_client(encrypted, outgoing).map_err(reqwest::Error::without_url)?,
            ));
        }
        Ok(Self::Direct(ConnectionPool::new(if encrypted {
            Some(tls_config(&outgoing.authorities)?)
        } else {
            None
        })))
    }

    /// Sends a request and waits for the head of the response. An empty `body` is omitted.
    pub(crate) async fn send_request(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<VendorHttpResponse, VendorConnectionError> {
        match self {
            Self::Direct(pool) => {
                let invalid = |error: BoxError| VendorConnectionError::Connect(error);
                let uri: Uri = url.as_str().parse().map_err(|error| invalid(Box::new(error)))?;
                let request = direct_request(method, &uri, headers, body).map_err(invalid)?;
                let (head, exchange) = pool.send_request(&uri, request).await?.into_parts();
                let body = ResponseBody::Direct(Box::new(exchange));
                Ok(VendorHttpResponse::new(head.status, head.headers, body))
            }
            Self::Proxied(client) => {
                let sending = client.request(method, url.clone()).headers(headers).body(body).send();
                let response: hyper::Response<reqwest::Body> = sending.await?.into();
                let (head, body) = response.into_parts();
                let body = ResponseBody::Proxied(Box::new(body));
                Ok(VendorHttpResponse::new(head.status, head.headers, body))
            }
        }
    }
}

impl VendorHttpResponse {
    fn new(status: StatusCode, headers: HeaderMap, body: ResponseBody) -> Self {
        let encoding = headers.get(header::CONTENT_ENCODING).and_then(|encoding| encoding.to_str().ok());
        let inflate = encoding.and_then(Inflate::for_encoding);
        Self { status, headers, body, inflate }
    }

    /// Polls the next chunk of the body; `None` at its end.
    pub(crate) fn poll_chunk(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, VendorConnectionError>> {
        let chunk = ready!(self.poll_raw(context))?;
        Poll::Ready(match (&mut self.inflate, chunk) {
            (Some(inflate), Some(chunk)) => {
                let inflated = inflate.inflate_bytes(&chunk, STREAM_MAX_BYTES);
                inflated.map(|bytes| Some(Bytes::from(bytes))).ok_or(VendorConnectionError::Unreadable)
            }
            (_, chunk) => Ok(chunk),
        })
    }

    fn poll_raw(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, VendorConnectionError>> {
        match &mut self.body {
            ResponseBody::Direct(exchange) => {
                exchange.poll_chunk(context).map_err(VendorConnectionError::Broken)
            }
            ResponseBody::Proxied(body) => loop {
                match ready!(Pin::new(&mut **body).poll_frame(context)).transpose()? {
                    None => return Poll::Ready(Ok(None)),
                    Some(frame) => {
                        if let Ok(chunk) = frame.into_data() {
                            return Poll::Ready(Ok(Some(chunk)));
                        }
                    }
                }
            },
        }
    }

    /// Reads the whole body. Returns `None` when it is longer than `max_bytes`.
    pub(crate) async fn read_body(
        &mut self,
        max_bytes: usize,
    ) -> Result<Option<Vec<u8>>, VendorConnectionError> {
        let mut body = Vec::new();
        while let Some(chunk) = poll_fn(|context| self.poll_chunk(context)).await? {
            if body.len() + chunk.len() > max_bytes {
                return Ok(None);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Some(body))
    }
}

/// Builds a request for a direct connection.
fn direct_request(
    method: Method,
    uri: &Uri,
    headers: HeaderMap,
    body: Vec<u8>,
) -> Result<Request<Full<Bytes>>, BoxError> {
    let mut request = Request::new(Full::new(Bytes::from(body)));
    *request.method_mut() = method;
    *request.uri_mut() = uri.path_and_query().map_or("/", |path| path.as_str()).parse()?;
    *request.headers_mut() = headers;
    let host = uri.authority().map_or("", |authority| authority.as_str());
    let set: [(HeaderName, HeaderValue); 2] = [
        (header::HOST, HeaderValue::try_from(host)?),
        (header::USER_AGENT, HeaderValue::from_static(USER_AGENT)),
    ];
    request.headers_mut().extend(set);
    if !request.headers().contains_key(header::ACCEPT) {
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("*/*"));
    }
    Ok(request)
}

/// Returns the matcher that decides which servers are behind a proxy.
fn proxy_matcher(proxy: &ProxyChoice) -> Matcher {
    match proxy {
        ProxyChoice::Environment => Matcher::from_system(),
        ProxyChoice::Off => Matcher::builder().build(),
        ProxyChoice::Server { url, except } => {
            Matcher::builder().all(url.expose().to_owned()).no(except.clone()).build()
        }
    }
}

/// Configures TLS with the system's trust store and further authorities.
fn tls_config(authorities: &[Vec<u8>]) -> Result<ClientConfig, BoxError> {
    let provider = std::sync::Arc::new(ring::default_provider());
    let authorities = authorities.iter().cloned().map(CertificateDer::from);
    let verifier = rustls_platform_verifier::Verifier::new_with_extra_roots(authorities, provider.clone())?;
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let trusting = config.dangerous().with_custom_certificate_verifier(std::sync::Arc::new(verifier));
    Ok(trusting.with_no_client_auth())
}

/// Builds a client for a server behind a proxy.
fn proxied_client(encrypted: bool, outgoing: &OutgoingConfig) -> Result<reqwest::Client, reqwest::Error> {
    // An earlier installation is fine: the build has only this provider.
    let _installed_before = ring::default_provider().install_default();
    let builder = reqwest::Client::builder()
        .user_agent(USER_AGENT)
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(IDLE_MAX)
        .http1_only()
        .tcp_nodelay(true)
        .referer(false);
    let builder = match &outgoing.proxy {
        // The builder reads the variables itself.
        ProxyChoice::Environment => builder,
        ProxyChoice::Off => builder.no_proxy(),
        ProxyChoice::Server { url, except } => {
            builder.proxy(Proxy::all(url.expose())?.no_proxy(NoProxy::from_string(except)))
        }
    };
    if !encrypted {
        return builder.tls_certs_only([]).build();
    }
    let authorities = outgoing.authorities.iter().map(|authority| Certificate::from_der(authority));
    let authorities = authorities.collect::<Result<Vec<_>, _>>()?;
    let builder = if authorities.is_empty() { builder } else { builder.tls_certs_merge(authorities) };
    builder.https_only(true).build()
}

#[cfg(test)]
mod tests {
    use domain::secret::Secret;

    use super::*;

    #[test]
    fn direct_and_proxied_clients_build() {
        for encrypted in [false, true] {
            assert!(proxied_client(encrypted, &OutgoingConfig::default()).is_ok());
        }
        assert!(tls_config(&[]).is_ok());
    }

    #[test]
    fn proxy_matcher_follows_setting() {
        let is_proxied = |proxy: &ProxyChoice, url: &str| {
            let outgoing = OutgoingConfig { proxy: proxy.clone(), ..OutgoingConfig::default() };
            let client =
                VendorHttpClient::new(&Url::parse(url).expect("a URL"), &outgoing).expect("a client");
            matches!(client, VendorHttpClient::Proxied(_))
        };
        let proxy = ProxyChoice::Server {
            url: Secret::new("http://proxy.test:3128"),
            except: "localhost,127.0.0.0/8,inside.test".to_owned(),
        };
        assert!(
            is_proxied(&proxy, "https://api.example.test/v1") && is_proxied(&proxy, "http://192.0.2.1/v1")
        );
        for direct in ["http://127.0.0.1:11434/v1", "http://localhost/v1", "https://models.inside.test/v1"] {
            assert!(!is_proxied(&proxy, direct), "{direct}");
        }
        assert!(!is_proxied(&ProxyChoice::Off, "https://api.example.test/v1"));
    }
}
