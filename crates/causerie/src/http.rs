//! Connections: accepted, served within bounds, and let go when the service ends.

use std::time::Duration;

use axum::Router;
use edge::limits::{HEADERS_MAX_BYTES, HEADERS_TIMEOUT};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// What a connection holds of headers that come in and of bodies that go out; more than a reader has in flight,
/// so that its stalling is noticed.
const CONNECTION_BUFFER_BYTES: usize = 256 * 1024;
/// Streams of one HTTP/2 connection.
const HTTP2_STREAMS_MAX: u32 = 1000;
/// How long requests under way may take when the service ends.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long to wait when the kernel has no more descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What connections may hold and send.
#[derive(Debug, Clone)]
pub(crate) struct Connections {
    /// Connections at once; others wait to be accepted.
    pub(crate) connections_max: usize,
    /// Header lines of a request.
    pub(crate) headers_max: usize,
    /// Bytes of the request line and all headers.
    pub(crate) header_bytes_max: usize,
    /// Within this the headers must have come in.
    pub(crate) header_timeout: Duration,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            connections_max: 10_000,
            headers_max: 100,
            header_bytes_max: HEADERS_MAX_BYTES,
            header_timeout: HEADERS_TIMEOUT,
        }
    }
}

/// Serves until `ending`; then requests under way are finished, for a while.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Connections,
    ending: CancellationToken,
) {
    let mut server = Builder::new(TokioExecutor::new());
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_headers(limits.headers_max)
        .max_buf_size(CONNECTION_BUFFER_BYTES)
        .half_close(true);
    server
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX))
        .max_concurrent_streams(HTTP2_STREAMS_MAX);
    let open = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ending.cancelled() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Small frames of a stream go out at once.
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(router.clone());
        let connection = server.serve_connection(TokioIo::new(stream), service).into_owned();
        let connection = open.watch(connection);
        tokio::spawn(async move {
            // What breaks a connection is its client's to see.
            let _ = connection.await;
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(FAREWELL, open.shutdown()).await;
}
