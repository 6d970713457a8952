//! The origin of a request, with which links to the application begin.

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};
use http_common::Peer;
use std::sync::Arc;

use http_common::RateLimiter;

/// The rules by which the origin is determined.
pub(crate) struct OriginRules {
    /// True if the service itself speaks TLS.
    pub(crate) tls: bool,
    /// Knows the trusted proxies.
    pub(crate) guard: Arc<RateLimiter>,
}

impl OriginRules {
    /// Returns the origin of a request: `https://host`. Empty if the request names no host.
    pub(crate) fn origin_of(&self, uri: &Uri, headers: &HeaderMap, peer: Option<Peer>) -> String {
        let named = headers.get(header::HOST).and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
        let Some(host) = uri.authority().cloned().or(named) else { return String::new() };
        let is_proxied = peer.is_some_and(|Peer(address)| self.guard.is_trusted_proxy(address));
        let forwarded = headers.get("x-forwarded-proto").and_then(|scheme| scheme.to_str().ok());
        let is_secure = self.tls || is_proxied && forwarded == Some("https");
        let scheme = if is_secure { "https" } else { "http" };
        format!("{scheme}://{}", host.as_str().rsplit('@').next().unwrap_or_default())
    }
}
