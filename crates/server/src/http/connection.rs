//! Serves one connection: requests one after another, and the event streams between them.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, Method, Request, Response, StatusCode, Version, header};
use bytes::BytesMut;
use http_common::{
    BudgetHolder, BudgetShare, EventWriter, HeldShares, Peer, is_event_stream, is_file,
    normalize_for_counting, send_file,
};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::HttpService;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::server::TlsStream;

use super::activity::{ActiveRequest, ConnectionActivity};
use super::answer::{Streams, TrackedResponseBody, discard_after_response};
use super::idle::IdleClock;
use super::unread::{RequestBody, close_gently};
use super::wire::{BufferedConnection, PartialHead, count_lines};
use super::{BudgetedResponse, ConnectionLimits, Frontend, SHUTDOWN_TIMEOUT};
use crate::tls::ReloadableTls;

/// The buffer of a connection for incoming headers and outgoing bodies: larger than the bytes in flight of a reader, so
/// that a stall is noticed.
const BUFFER_BYTES: usize = 128 * 1024;
/// The maximum number of streams of one HTTP/2 connection.
const HTTP2_STREAMS_MAX: u32 = 100;
/// The HTTP/2 flow control windows of a stream and of a connection.
const HTTP2_STREAM_WINDOW_BYTES: u32 = 256 << 10;
const HTTP2_CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// The send buffer of a stream.
const HTTP2_SEND_BYTES: usize = 64 << 10;
/// The interval of HTTP/2 pings, and their timeout.
const HTTP2_PING_EVERY: Duration = Duration::from_secs(20);
const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(20);
/// A head with up to this many times the allowed headers is still read, and rejected with an error body; beyond that
/// the connection rejects it without a body.
const HEADERS_READ_TIMES: usize = 4;
/// The maximum number of headers that the HTTP library parses without extra memory.
const HEADERS_AT_ONCE: usize = 100;
const LINES_AT_ONCE: usize = HEADERS_AT_ONCE;
/// The HTTP/2 connection preface.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// State that all connections share.
pub(super) struct SharedConnectionState {
    /// Serves heads with few lines, as nearly all are: parsing more lines takes memory for each request.
    http1: http1::Builder,
    /// Serves connections that sent a head with many lines.
    http1_crowded: http1::Builder,
    http2: http2::Builder<Streams>,
    pub(super) front: Arc<Frontend>,
    pub(super) limits: ConnectionLimits,
}

/// The context of a connection.
#[derive(Clone)]
pub(super) struct ConnectionContext {
    pub(super) peer: Peer,
    /// The time since which it waits for a request.
    pub(super) idle: Arc<IdleClock>,
    /// True if the connection was accepted during shutdown: it is answered before it is closed.
    pub(super) late: bool,
}

/// A connection that was taken from the HTTP library, and the bytes that were read from it.
struct AcceptedConnection<C> {
    connection: C,
    early: Bytes,
    handover: Handover,
}

/// The reason why a connection is taken from the HTTP library.
enum Handover {
    Stream(Box<HandoverStream>),
    /// A head with very many lines is arriving.
    Crowded,
}

/// An event stream or a file, and whether it is the last response of its connection.
pub(super) struct HandoverStream {
    response: Response<Body>,
    last: bool,
    shares: ([Option<BudgetShare>; 2], Option<HeldShares>),
}

/// The transport of a connection.
trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Returns the socket if the bytes are not encrypted.
    fn plain_socket(&self) -> Option<&TcpStream>;
}

impl Transport for TcpStream {
    fn plain_socket(&self) -> Option<&TcpStream> {
        Some(self)
    }
}

impl Transport for TlsStream<TcpStream> {
    fn plain_socket(&self) -> Option<&TcpStream> {
        None
    }
}

impl SharedConnectionState {
    pub(super) fn new(front: Frontend, limits: ConnectionLimits) -> Self {
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_timeout)
            .max_buf_size(BUFFER_BYTES.max(2 * limits.header_bytes_max))
            .half_close(true);
        let mut http1_crowded = http1.clone();
        http1_crowded.max_headers(HEADERS_READ_TIMES * limits.headers_max);
        let mut http2 = http2::Builder::new(Streams { stall_timeout: limits.stall_timeout });
        http2
            .timer(TokioTimer::new())
            // Larger heads than allowed, so that the refusal is ours: the library resets the stream.
            .max_header_list_size(u32::try_from(2 * limits.header_bytes_max).unwrap_or(u32::MAX))
            .max_concurrent_streams(HTTP2_STREAMS_MAX)
            .initial_stream_window_size(HTTP2_STREAM_WINDOW_BYTES)
            .initial_connection_window_size(HTTP2_CONNECTION_WINDOW_BYTES)
            .max_send_buf_size(HTTP2_SEND_BYTES)
            .keep_alive_interval(HTTP2_PING_EVERY)
            .keep_alive_timeout(HTTP2_PING_TIMEOUT);
        Self { http1, http1_crowded, http2, front: Arc::new(front), limits }
    }

    /// Serves a connection until it ends, is idle for too long, or is closed for others.
    pub(super) async fn serve_connection(
        &self,
        connection: TcpStream,
        tls: Option<ReloadableTls>,
        guest: ConnectionContext,
    ) {
        // Small frames of a stream are sent at once.
        let _ = connection.set_nodelay(true);
        let idle = guest.idle.clone();
        let serving = async {
            match tls {
                None => self.serve_plain(connection, guest).await,
                Some(tls) => Box::pin(self.serve_secret(connection, &tls, guest)).await,
            }
        };
        tokio::select! {
            () = serving => {}
            () = idle.wait_until_closed() => {}
        }
    }

    async fn serve_plain(&self, mut connection: TcpStream, guest: ConnectionContext) {
        match self.within_header_timeout(&guest, read_preface(&mut connection)).await {
            Some(Ok((true, early))) => Box::pin(self.serve_http2(connection, early, guest)).await,
            Some(Ok((false, early))) => self.serve_http1(connection, early, guest).await,
            // The client sent nothing, or has disconnected.
            Some(Err(_)) | None => {}
        }
    }

    async fn serve_secret(&self, connection: TcpStream, tls: &ReloadableTls, guest: ConnectionContext) {
        // Errors of a handshake concern only its client.
        let Some(Ok(connection)) =
            self.within_header_timeout(&guest, tls.acceptor().accept(connection)).await
        else {
            return;
        };
        if connection.get_ref().1.alpn_protocol() == Some(b"h2") {
            self.serve_http2(connection, Bytes::new(), guest).await;
        } else {
            self.serve_http1(connection, Bytes::new(), guest).await;
        }
    }

    /// Waits for the beginning of a connection, until the service shuts down or a late connection times out.
    async fn within_header_timeout<T>(
        &self,
        guest: &ConnectionContext,
        beginning: impl Future<Output = T>,
    ) -> Option<T> {
        tokio::select! {
            begun = timeout(self.limits.header_timeout, beginning) => begun.ok(),
            () = self.front.ending.0.cancelled(), if !guest.late => None,
        }
    }

    async fn serve_http2(&self, connection: impl Transport, early: Bytes, guest: ConnectionContext) {
        let activity = Arc::new(ConnectionActivity::with_idle_clock(guest.idle.clone()));
        let wire = BufferedConnection::new(
            connection,
            early,
            activity.clone(),
            self.limits.stall_timeout,
            false,
            self.new_partial_head(&guest, usize::MAX),
        );
        let http =
            self.http2.serve_connection(TokioIo::new(wire), self.request_service(&activity, &guest, false));
        self.drive_connection(pin!(http), &activity, &guest).await;
    }

    /// Serves requests. Takes the connection from the HTTP library while an event stream or a file is written to it.
    async fn serve_http1<C: Transport>(
        &self,
        mut connection: C,
        mut early: Bytes,
        mut guest: ConnectionContext,
    ) {
        // The library's own limit would reject what the operator allows.
        let mut crowded = self.limits.headers_max > HEADERS_AT_ONCE;
        loop {
            crowded |= count_lines(&early) > LINES_AT_ONCE;
            // Boxed, so that its memory is free during a stream.
            let requests = Box::pin(self.serve_requests(connection, early, &guest, crowded));
            let Some(AcceptedConnection { connection: taken, early: read, handover }) = requests.await else {
                return;
            };
            let stream = match handover {
                Handover::Stream(stream) => *stream,
                Handover::Crowded => {
                    crowded = true;
                    (connection, early) = (taken, read);
                    continue;
                }
            };
            // The stream holds its shares of budgets until it has ended.
            let HandoverStream { response, last, shares: _shares } = stream;
            guest.idle.mark_busy();
            // A broken connection concerns only its client.
            let (mut back, read) = if is_event_stream(&response) {
                let Ok(written) = EventWriter::new(taken, read, response, last).await else { return };
                written
            } else {
                let Some(socket) = taken.plain_socket() else { return };
                let Ok(()) = send_file(socket, response, last, self.limits.stall_timeout).await else {
                    return;
                };
                (taken, read)
            };
            if last {
                let _ = timeout(SHUTDOWN_TIMEOUT, back.shutdown()).await;
                return;
            }
            guest.idle.mark_idle();
            (connection, early, guest.late) = (back, read, false);
        }
    }

    async fn serve_requests<C: Transport>(
        &self,
        connection: C,
        early: Bytes,
        guest: &ConnectionContext,
        crowded: bool,
    ) -> Option<AcceptedConnection<C>> {
        let plain = connection.plain_socket().is_some();
        let activity = Arc::new(ConnectionActivity::with_idle_clock(guest.idle.clone()));
        let wire = BufferedConnection::new(
            connection,
            early,
            activity.clone(),
            self.limits.stall_timeout,
            true,
            self.new_partial_head(guest, if crowded { usize::MAX } else { LINES_AT_ONCE }),
        );
        let http1 = if crowded { &self.http1_crowded } else { &self.http1 };
        let mut http =
            http1.serve_connection(TokioIo::new(wire), self.request_service(&activity, guest, plain));
        let handover = self.drive_connection(Pin::new(&mut http), &activity, guest).await;
        let parts = http.into_parts();
        let Some(handover) = handover else {
            if activity.is_refused.load(Ordering::Relaxed) {
                Box::pin(close_gently(parts.io.into_inner().into_parts().0)).await;
            }
            return None;
        };
        let (connection, early) = parts.io.into_inner().into_parts();
        let early = if early.is_empty() { parts.read_buf } else { [parts.read_buf, early].concat().into() };
        Some(AcceptedConnection { connection, early, handover })
    }

    fn new_partial_head(&self, guest: &ConnectionContext, lines_max: usize) -> PartialHead {
        let holder = BudgetHolder::Address(normalize_for_counting(guest.peer.0));
        PartialHead::new(self.front.guard.budgets.heads.clone(), holder, lines_max)
    }

    fn request_service(
        &self,
        activity: &Arc<ConnectionActivity>,
        guest: &ConnectionContext,
        plain: bool,
    ) -> impl HttpService<Incoming, ResBody = TrackedResponseBody, Error = Infallible, Future: Send> + use<>
    {
        let (front, activity, peer) = (self.front.clone(), activity.clone(), guest.peer);
        let bounds = (self.limits.headers_max, self.limits.header_bytes_max);
        let stall_timeout = self.limits.stall_timeout;
        hyper::service::service_fn(move |request: Request<Incoming>| {
            let (front, under_way) = (front.clone(), ActiveRequest::new(activity.clone()));
            let may_be_taken = request.version() == Version::HTTP_11
                && *request.method() == Method::GET
                && request.body().is_end_stream();
            let last = says_close(request.headers());
            let is_http2 = request.version() == Version::HTTP_2;
            let (head, body) = request.into_parts();
            let (body, rest) = RequestBody::lend_body(body, &head.headers);
            let request = Request::from_parts(head, body);
            async move {
                let BudgetedResponse { mut response, shares: of_request } =
                    front.answer_request(request, peer, bounds).await;
                if may_be_taken && (is_event_stream(&response) || plain && is_file(&response)) {
                    let shares = (of_request, response.extensions_mut().remove::<HeldShares>());
                    under_way.0.offer_stream(HandoverStream { response, last, shares });
                    // The connection is taken from here, so this future never completes.
                    return std::future::pending().await;
                }
                match rest.and_then(|rest| rest.take_rest()) {
                    Some(rest) if is_http2 => discard_after_response(rest),
                    Some(rest) => under_way.0.discard_rest(rest),
                    None => {}
                }
                Ok::<_, Infallible>(TrackedResponseBody::wrap_response(
                    response,
                    of_request,
                    under_way,
                    stall_timeout,
                ))
            }
        })
    }

    /// Serves requests until the connection ends, is closed, or is taken over by a stream.
    async fn drive_connection(
        &self,
        mut http: Pin<&mut impl GracefulConnection<Error = hyper::Error>>,
        activity: &ConnectionActivity,
        guest: &ConnectionContext,
    ) -> Option<Handover> {
        let ending = &self.front.ending.0;
        let (mut leaving, mut seen) = (guest.late, 0);
        let mut look = pin!(sleep(self.limits.header_timeout));
        loop {
            let turn = poll_fn(|context| {
                let polled = http.as_mut().poll(context);
                activity.poll_discard(context);
                match polled {
                    Poll::Ready(ended) => Poll::Ready(Err(ended)),
                    Poll::Pending if activity.crowded.load(Ordering::Relaxed) => {
                        Poll::Ready(Ok(Handover::Crowded))
                    }
                    Poll::Pending => activity
                        .take_stream()
                        .map_or(Poll::Pending, |stream| Poll::Ready(Ok(Handover::Stream(Box::new(stream))))),
                }
            });
            tokio::select! {
                turn = turn => match turn {
                    Ok(handover) => return Some(handover),
                    Err(ended) => {
                        if let Some(status) = ended.err().and_then(|error| rejection_status(&error)) {
                            activity.is_refused.store(true, Ordering::Relaxed);
                            self.front.metrics.record_refusal(status);
                        }
                        return None;
                    }
                },
                () = ending.cancelled(), if !leaving => {
                    leaving = true;
                    http.as_mut().graceful_shutdown();
                }
                () = look.as_mut() => {
                    let begun = activity.begun.load(Ordering::Relaxed);
                    if activity.under_way.load(Ordering::Relaxed) > 0 || begun != seen {
                        seen = begun;
                        look.as_mut().reset(Instant::now() + self.limits.idle_timeout);
                        continue;
                    }
                    http.as_mut().graceful_shutdown();
                    // A connection that does not close in time is dropped.
                    let _ = timeout(SHUTDOWN_TIMEOUT, http.as_mut()).await;
                    return None;
                }
            }
        }
    }
}

/// Reads enough to distinguish HTTP/2 from HTTP/1, and returns it.
async fn read_preface(connection: &mut TcpStream) -> io::Result<(bool, Bytes)> {
    let mut read = BytesMut::new();
    loop {
        if connection.read_buf(&mut read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let length = read.len().min(HTTP2_PREFACE.len());
        let is_http2 = read[..length] == HTTP2_PREFACE[..length];
        if !is_http2 || length == HTTP2_PREFACE.len() {
            return Ok((is_http2, read.freeze()));
        }
    }
}

/// Returns true if the client sent `Connection: close`.
fn says_close(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case("close"))
}

/// Returns the status with which the HTTP library rejected an invalid request.
fn rejection_status(error: &hyper::Error) -> Option<StatusCode> {
    if !error.is_parse() || error.is_parse_version_h2() {
        return None;
    }
    Some(if !error.is_parse_too_large() {
        StatusCode::BAD_REQUEST
    } else if error.to_string().contains("URI too long") {
        // Only the error's text distinguishes it from the other one.
        StatusCode::URI_TOO_LONG
    } else {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
    })
}
