//! The limit of a request's target. The connection limits the whole head.

use axum::http::Uri;

use crate::limits::TARGET_MAX_BYTES;

/// Returns true if path and query are longer than [`TARGET_MAX_BYTES`] (414).
#[must_use]
pub fn is_target_too_long(uri: &Uri) -> bool {
    uri.path_and_query().is_some_and(|target| target.as_str().len() > TARGET_MAX_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_a_bound() {
        let is_too_long = |length: usize| {
            let request = axum::http::Request::builder().uri(format!("/{}", "x".repeat(length - 1)));
            is_target_too_long(request.body(()).unwrap().uri())
        };
        assert!(!is_too_long(TARGET_MAX_BYTES));
        assert!(is_too_long(TARGET_MAX_BYTES + 1));
    }
}
