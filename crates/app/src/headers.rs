//! Headers of every page.

use std::sync::LazyLock;

use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue};

use crate::assets;

/// The security policy: only the application's style, script, pictures and streams, and no framing.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self' {}; img-src 'self'; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        assets::style_source()
    );
    HeaderValue::try_from(policy).expect("a policy of plain ASCII is a header")
});

const HEADERS: [(HeaderName, &str); 6] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    // With `no-referrer`, browsers would also hide the origin of forms.
    (header::REFERRER_POLICY, "same-origin"),
    // Before a person follows a link in an answer, not even its host name is looked up.
    (HeaderName::from_static("x-dns-prefetch-control"), "off"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Adds the headers. A response's own policy, such as that of a download, remains.
pub(crate) fn add_security_headers(headers: &mut HeaderMap) {
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert_with(|| POLICY.clone());
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}
