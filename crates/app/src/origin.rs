//! Refuses changes that other sites send in the visitor's name (cross-site request forgery).
//!
//! A browser says where a form comes from: in `Sec-Fetch-Site` over HTTPS and to its own host, in `Origin` always. A request
//! that changes something and says neither is refused, because no browser sends one. Cookies are `SameSite` besides.

use axum::http::{HeaderMap, Method, Uri, header};

/// The header in which browsers relate the page to the target of its request.
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// Returns true if the request may be carried out: it changes nothing, or comes from a page of this host.
pub(crate) fn is_own(method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
    if matches!(*method, Method::GET | Method::HEAD) {
        return true;
    }
    if let Some(site) = headers.get(SEC_FETCH_SITE) {
        return site == "same-origin" || site == "none";
    }
    // Over HTTP/2 the host is part of the target.
    let named = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = uri.authority().map(|authority| authority.as_str()).or(named);
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let Some((_, origin)) = origin.and_then(|origin| origin.split_once("://")) else { return false };
    host.is_some_and(|host| host.eq_ignore_ascii_case(origin))
}

/// Returns true if the page that sent the request was loaded over HTTPS, as far as the request says so.
pub(crate) fn is_https(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text("origin").starts_with("https://")
        || text("x-forwarded-proto").eq_ignore_ascii_case("https")
        || text("forwarded").to_ascii_lowercase().contains("proto=https")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(headers: &[(&'static str, &'static str)]) -> bool {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")));
        is_own(&Method::POST, &Uri::from_static("/ask"), &HeaderMap::from_iter(headers))
    }

    #[test]
    fn only_pages_of_this_host_change_something() {
        let host = ("host", "causerie.example:8080");
        assert!(post(&[host, ("origin", "https://causerie.example:8080")]));
        assert!(post(&[host, ("sec-fetch-site", "same-origin"), ("origin", "null")]));
        for foreign in [
            ("origin", "https://evil.example"),
            ("origin", "https://causerie.example"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("referer", "https://causerie.example:8080/"),
        ] {
            assert!(!post(&[host, foreign]), "{foreign:?}");
        }
        let both = [host, ("origin", "https://causerie.example:8080"), ("sec-fetch-site", "cross-site")];
        assert!(!post(&both), "the more exact one decides");
        assert!(!post(&[("origin", "https://causerie.example")]));
        assert!(is_own(&Method::GET, &Uri::from_static("/"), &HeaderMap::new()));
    }
}
