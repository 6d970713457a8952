//! Limits on the head of a request.

use axum::http::{HeaderMap, Uri};

use crate::limits::{HEADERS_MAX_BYTES, TARGET_MAX_BYTES};

/// The bytes of a header line besides name and value: colon, space and line end.
const LINE_BYTES: usize = 4;

/// The part of a request's head that exceeds its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadTooLarge {
    /// The complete head (431). Connections accept larger ones, so that this response can be sent.
    Head,
    /// The target (414).
    Target,
}

/// Checks the limits on the head.
#[must_use]
pub fn oversize(uri: &Uri, headers: &HeaderMap) -> Option<HeadTooLarge> {
    let target = uri.path_and_query().map_or(0, |target| target.as_str().len());
    let headers = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + LINE_BYTES);
    if target + headers.sum::<usize>() > HEADERS_MAX_BYTES {
        return Some(HeadTooLarge::Head);
    }
    (target > TARGET_MAX_BYTES).then_some(HeadTooLarge::Target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_targets_have_bounds() {
        let look = |target: usize, header: usize| {
            let request = axum::http::Request::builder().uri(format!("/{}", "x".repeat(target - 1)));
            let request = request.header("x", "y".repeat(header)).body(()).unwrap();
            oversize(request.uri(), request.headers())
        };
        assert_eq!(look(TARGET_MAX_BYTES, 0), None);
        assert_eq!(look(TARGET_MAX_BYTES + 1, 0), Some(HeadTooLarge::Target));
        assert_eq!(look(1000, HEADERS_MAX_BYTES - 1000 - 1 - LINE_BYTES), None);
        assert_eq!(look(1000, HEADERS_MAX_BYTES - 1000 - LINE_BYTES), Some(HeadTooLarge::Head));
    }
}
