//! Formats response heads without the HTTP library.

use std::time::SystemTime;

use axum::http::response::Parts;
use axum::http::{HeaderValue, header};
use bytes::{Bytes, BytesMut};

/// The approximate size of a head.
const HEAD_BYTES: usize = 1024;

/// Formats the head of an HTTP/1.1 response, with its date. If it is the `last` one of its connection, the head says
/// so.
pub(crate) fn raw_head(parts: Parts, last: bool) -> Bytes {
    let mut head = BytesMut::with_capacity(HEAD_BYTES);
    head.extend_from_slice(b"HTTP/1.1 ");
    head.extend_from_slice(parts.status.as_str().as_bytes());
    head.extend_from_slice(b" ");
    head.extend_from_slice(parts.status.canonical_reason().unwrap_or_default().as_bytes());
    let mut headers = parts.headers;
    if last {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if let Ok(date) = httpdate::fmt_http_date(SystemTime::now()).try_into() {
        headers.entry(header::DATE).or_insert(date);
    }
    for (name, value) in &headers {
        for bytes in [&b"\r\n"[..], name.as_str().as_bytes(), b": ", value.as_bytes()] {
            head.extend_from_slice(bytes);
        }
    }
    head.extend_from_slice(b"\r\n\r\n");
    head.freeze()
}
