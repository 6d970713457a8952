//! Refuses requests of pages of other sites.
//!
//! A page can make a name of its own lead to this host (DNS rebinding). The name in `Origin` and in `Host` is then the
//! same, so it is believed only over TLS, where the certificate proves it; an address and `localhost` need no proof.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};
use http_common::{Peer, RateLimiter};

/// The rules by which the origin of a request is judged.
#[derive(Clone)]
pub(crate) struct OriginRules {
    /// True if the service itself speaks TLS.
    pub(crate) tls: bool,
    /// Knows the trusted proxies.
    pub(crate) guard: Arc<RateLimiter>,
}

impl OriginRules {
    /// Returns true if no page sent the request, or a page of this host.
    pub(crate) fn permits(&self, request: &Request) -> bool {
        let headers = request.headers();
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let Some(origin) = origins.next() else { return true };
        let peer = request.extensions().get::<Peer>();
        let is_proxied = peer.is_some_and(|Peer(address)| self.guard.is_trusted_proxy(*address));
        let forwarded = headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https");
        let is_secure = self.tls || is_proxied && forwarded;
        origins.next().is_none()
            && origin.to_str().is_ok_and(|origin| is_own_origin(origin, request.uri(), headers, is_secure))
    }
}

fn is_own_origin(origin: &str, uri: &Uri, headers: &HeaderMap, is_secure: bool) -> bool {
    let Some((_, origin)) = origin.split_once("://") else { return false };
    let named = headers.get(header::HOST).and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
    let Some(host) = uri.authority().cloned().or(named) else { return false };
    let name = host.host().trim_start_matches('[').trim_end_matches(']');
    let is_fixed = name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok();
    host.as_str().eq_ignore_ascii_case(origin) && (is_secure || is_fixed)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn is_own(origin: &str, host: &'static str, is_secure: bool) -> bool {
        let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]);
        is_own_origin(origin, &Uri::from_static("/mcp"), &headers, is_secure)
    }

    #[test]
    fn foreign_origins_are_refused() {
        assert!(is_own("http://127.0.0.1:8080", "127.0.0.1:8080", false));
        assert!(is_own("http://[::1]:8080", "[::1]:8080", false));
        assert!(is_own("http://localhost:8080", "localhost:8080", false));
        assert!(is_own("https://causerie.example", "causerie.example", true));
        for (origin, host) in [
            ("http://evil.example", "evil.example"),
            ("http://evil.example", "127.0.0.1:8080"),
            ("http://127.0.0.1:9000", "127.0.0.1:8080"),
            ("null", "127.0.0.1:8080"),
        ] {
            assert!(!is_own(origin, host, false), "{origin} {host}");
        }
        assert!(!is_own("https://evil.example", "causerie.example", true));
    }
}
