//! The limits of connections.

use std::time::Duration;

use http_common::limits::{HEADERS_MAX_BYTES, HEADERS_TIMEOUT, JSON_BODY_TIMEOUT, STALL_TIMEOUT};

/// The limits of connections.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// The maximum number of connections; others wait to be accepted.
    pub connections_max: usize,
    /// The maximum number of header lines of a request.
    pub headers_max: usize,
    /// The maximum number of bytes of the request line and all headers.
    pub header_bytes_max: usize,
    /// The timeout of the TLS handshake and of the headers.
    pub header_timeout: Duration,
    /// The timeout of a JSON body.
    pub body_timeout: Duration,
    /// The time after which a connection without requests is closed.
    pub idle_timeout: Duration,
    /// The time after which a body that makes no progress is aborted.
    pub stall_timeout: Duration,
    /// The maximum number of connections of one address.
    pub connections_per_address: usize,
    /// The maximum number of unsent bytes that the kernel buffers for a connection (`TCP_NOTSENT_LOWAT`).
    pub unsent_max_bytes: u32,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections_max: 10_000,
            headers_max: 100,
            header_bytes_max: HEADERS_MAX_BYTES,
            header_timeout: HEADERS_TIMEOUT,
            body_timeout: JSON_BODY_TIMEOUT,
            idle_timeout: Duration::from_secs(60),
            stall_timeout: STALL_TIMEOUT,
            connections_per_address: 8_000,
            unsent_max_bytes: 128 << 10,
        }
    }
}
