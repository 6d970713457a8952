//! The ids in the paths of requests.

use axum::extract::Request;

/// Returns the id behind this beginning of a request's path. Ids have no characters that are encoded in paths.
pub(crate) fn id_after<'a>(request: &'a Request, beginning: &str) -> &'a str {
    nth_after(request, beginning, 0)
}

/// Returns the segment with this number behind the beginning of a request's path.
pub(crate) fn nth_after<'a>(request: &'a Request, beginning: &str, number: usize) -> &'a str {
    let rest = request.uri().path().strip_prefix(beginning).unwrap_or_default();
    rest.split('/').nth(number).unwrap_or_default()
}
