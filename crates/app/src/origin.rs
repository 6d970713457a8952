//! Refuses changes that other sites send in the visitor's name (cross-site request forgery).
//!
//! A browser states the source of a form: in `Sec-Fetch-Site` over HTTPS and to localhost, and always in
//! `Origin`. A changing request with neither header is refused, because no browser sends one. Cookies are
//! `SameSite` as well.

use axum::http::{HeaderMap, Method, Uri, header};

/// The header in which browsers relate the page to the target of its request.
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// Returns true if the request is allowed: it changes nothing, or comes from a page of this host.
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

/// Returns the origin of the page that sent the request, such as `https://causerie.example`; that of a service on this machine
/// if the request names none that can be pasted into a program.
pub(crate) fn request_origin(headers: &HeaderMap) -> String {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let scheme = if is_https(headers) { "https" } else { "http" };
    let named = text(header::ORIGIN).and_then(|origin| Some(origin.split_once("://")?.1));
    let is_plain = |host: &&str| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte))
    };
    let host = named.or_else(|| text(header::HOST)).filter(is_plain).unwrap_or("127.0.0.1:8080");
    format!("{scheme}://{host}")
}

/// Returns true if the request states that its page was loaded over HTTPS.
pub(crate) fn is_https(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text("origin").starts_with("https://")
        || text("x-forwarded-proto").eq_ignore_ascii_case("https")
        || text("forwarded").to_ascii_lowercase().contains("proto=https")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_own_post(headers: &[(&'static str, &'static str)]) -> bool {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")));
        is_own(&Method::POST, &Uri::from_static("/ask"), &HeaderMap::from_iter(headers))
    }

    #[test]
    fn is_own_accepts_only_same_host() {
        let host = ("host", "causerie.example:8080");
        assert!(is_own_post(&[host, ("origin", "https://causerie.example:8080")]));
        assert!(is_own_post(&[host, ("sec-fetch-site", "same-origin"), ("origin", "null")]));
        for foreign in [
            ("origin", "https://evil.example"),
            ("origin", "https://causerie.example"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("referer", "https://causerie.example:8080/"),
        ] {
            assert!(!is_own_post(&[host, foreign]), "{foreign:?}");
        }
        let both = [host, ("origin", "https://causerie.example:8080"), ("sec-fetch-site", "cross-site")];
        assert!(!is_own_post(&both), "the more exact one decides");
        assert!(!is_own_post(&[("origin", "https://causerie.example")]));
        assert!(is_own(&Method::GET, &Uri::from_static("/"), &HeaderMap::new()));
    }

    #[test]
    fn request_origin_is_safe_to_paste() {
        let named = |headers: &[(&'static str, &'static str)]| {
            let headers = headers
                .iter()
                .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")));
            request_origin(&HeaderMap::from_iter(headers))
        };
        assert_eq!(named(&[("origin", "https://a.example"), ("host", "b.example")]), "https://a.example");
        assert_eq!(named(&[("origin", "null"), ("host", "[::1]:8080")]), "http://[::1]:8080");
        assert_eq!(named(&[("host", "a.example"), ("x-forwarded-proto", "https")]), "https://a.example");
        for hostile in ["$(reboot)", "a\"; reboot #", "a b", ""] {
            assert_eq!(named(&[("host", hostile)]), "http://127.0.0.1:8080");
        }
    }
}
