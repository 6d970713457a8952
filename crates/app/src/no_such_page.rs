//! The page for an unknown path, for visitors with a browser.

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};

use crate::language::PageLanguage;
use crate::texts::Texts;
use crate::{error, headers, paths};

/// The path of the interface, which programs use.
const INTERFACE: &str = "/api";

/// Creates the page for a request with an unknown path; `None` if a browser does not request a page, or if the
/// path belongs to the API.
#[must_use]
pub fn no_such_page(method: &Method, path: &str, requested: &HeaderMap) -> Option<Response> {
    let below = path.strip_prefix(INTERFACE);
    let is_interface = below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let shown = matches!(*method, Method::GET | Method::HEAD) && accepts_html(requested);
    if is_interface || !shown {
        return None;
    }
    let texts = Texts(PageLanguage::from_headers(requested));
    let mut response = error::error_page(texts, StatusCode::NOT_FOUND, &texts.get("error-not-found"));
    headers::add_security_headers(response.headers_mut());
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept, Accept-Language, Cookie"));
    Some(response)
}

/// Redirects a browser from a path with a trailing slash to the path without it, as `/files/` to `/files`;
/// `None` for other requests.
#[must_use]
pub fn without_slash(method: &Method, path: &str, requested: &HeaderMap) -> Option<Response> {
    let shorter = path.trim_end_matches('/');
    let is_interface = shorter == INTERFACE || shorter.starts_with("/api/");
    let shown = matches!(*method, Method::GET | Method::HEAD) && accepts_html(requested);
    if shorter.len() == path.len() || is_interface || !shown {
        return None;
    }
    // A path that could be taken as another host is not followed.
    Some(Redirect::permanent(paths::own_address(shorter)?).into_response())
}

/// Returns true if `Accept` names HTML, as every browser's header does. Wildcards are sent by programs and do
/// not count.
fn accepts_html(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|range| {
        let mut parts = range.split(';').map(str::trim);
        parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("text/html"))
            && !parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_page(method: &Method, path: &str, accept: &'static str) -> bool {
        let accept = HeaderValue::from_static(accept);
        no_such_page(method, path, &HeaderMap::from_iter([(header::ACCEPT, accept)])).is_some()
    }

    #[test]
    fn no_such_page_only_for_browsers() {
        const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        for path in ["/x", "/apix", "/a/b", "/v2"] {
            assert!(
                is_page(&Method::GET, path, BROWSER) && is_page(&Method::HEAD, path, "Text/HTML"),
                "{path}"
            );
            assert!(!is_page(&Method::POST, path, BROWSER), "{path}");
            for accept in ["*/*", "application/json", "", "text/*", "text/html;q=0, */*"] {
                assert!(!is_page(&Method::GET, path, accept), "{path} {accept}");
            }
        }
        let led = |path: &str| {
            let accept = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(BROWSER))]);
            let response = without_slash(&Method::GET, path, &accept)?;
            response.headers().get(header::LOCATION)?.to_str().map(str::to_owned).ok()
        };
        for (path, to) in [("/files/", "/files"), ("/docs//", "/docs"), ("/files/a%20b/", "/files/a%20b")] {
            assert_eq!(led(path).as_deref(), Some(to));
        }
        for path in ["/", "//", "/files", "/api/", "/api/v1/", "//x.test/", "/\\x.test/"] {
            assert_eq!(led(path), None, "{path}");
        }
        for path in ["/api", "/api/", "/api/v1/x", "/api/v2"] {
            assert!(!is_page(&Method::GET, path, BROWSER), "{path}");
        }
    }
}
