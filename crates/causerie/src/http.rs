//! Connections: accepted, served within bounds, and let go when they are idle or the service ends.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use api::{ApiError, Code};
use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Request, Response, StatusCode};
use axum::response::IntoResponse;
use edge::limits::{HEADERS_MAX_BYTES, HEADERS_TIMEOUT, JSON_BODY_TIMEOUT};
use edge::{Compression, Peer};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use measure::trace::Tracer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::metrics::METRICS;
use crate::requests::{self, Line, RequestIds, X_REQUEST_ID};
use crate::tls::Tls;
use crate::traces;

/// What a connection holds of headers that come in and of bodies that go out; more than a reader has in flight,
/// so that its stalling is noticed.
const CONNECTION_BUFFER_BYTES: usize = 256 * 1024;
/// Streams of one HTTP/2 connection.
const HTTP2_STREAMS_MAX: u32 = 1000;
/// A head that has so many times the headers that it may have is still read, and refused with a body that says so;
/// beyond that the connection refuses it by itself, without one.
const HEADERS_READ_TIMES: usize = 4;
/// How long requests under way may take when the service ends, and how long a connection that is let go.
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
    /// Within this the headers must have come in, and before them the handshake of TLS.
    pub(crate) header_timeout: Duration,
    /// Within this a JSON body must have come in.
    pub(crate) body_timeout: Duration,
    /// A connection on which nothing was asked for this long is let go.
    pub(crate) idle_timeout: Duration,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            connections_max: 10_000,
            headers_max: 100,
            header_bytes_max: HEADERS_MAX_BYTES,
            header_timeout: HEADERS_TIMEOUT,
            body_timeout: JSON_BODY_TIMEOUT,
            idle_timeout: Duration::from_secs(60),
        }
    }
}

/// Accepts and serves connections.
pub(crate) struct Server {
    listener: TcpListener,
    tls: Option<Tls>,
    shared: Shared,
}

/// What answers requests, and what is done to each whatever its route.
pub(crate) struct Front {
    /// The routes.
    pub(crate) router: Router,
    /// Names of requests.
    pub(crate) ids: RequestIds,
    /// Their spans.
    pub(crate) tracer: Tracer,
    /// Where requests are counted that never reach the interface.
    pub(crate) figures: Arc<api::Figures>,
    /// Cancelled when requests under way are to be the last ones.
    pub(crate) ending: api::Ending,
}

/// What all connections share.
#[derive(Clone)]
struct Shared {
    builder: Arc<Builder<TokioExecutor>>,
    front: Arc<Front>,
    limits: Connections,
    /// No more is waited for.
    over: CancellationToken,
}

impl Server {
    /// Serves what comes on `listener`, until the front is told to end.
    pub(crate) fn new(listener: TcpListener, tls: Option<Tls>, front: Front, limits: Connections) -> Self {
        let builder = Arc::new(builder(&limits));
        let shared = Shared { builder, front: Arc::new(front), limits, over: CancellationToken::new() };
        Self { listener, tls, shared }
    }

    /// Serves until the service is told to end; then requests under way are finished, for a while, and who comes
    /// meanwhile is told to come again.
    pub(crate) async fn run(self) {
        let (early, late) = (TaskTracker::new(), TaskTracker::new());
        let ending = self.shared.front.ending.0.clone();
        let accepting = async {
            let places = Arc::new(Semaphore::new(self.shared.limits.connections_max));
            loop {
                let Ok(place) = places.clone().acquire_owned().await else { return };
                let (stream, peer) = match self.listener.accept().await {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        tracing::warn!(%error, "a connection was not accepted");
                        sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                };
                let was_ending = ending.is_cancelled();
                let tracker = if was_ending { &late } else { &early };
                let tls = self.tls.clone();
                let shared = self.shared.clone();
                tracker.spawn(shared.connection(stream, Peer(peer.ip()), tls, place, was_ending));
            }
        };
        let drained = async {
            ending.cancelled().await;
            early.close();
            let _ = timeout(FAREWELL, early.wait()).await;
        };
        tokio::select! {
            () = accepting => {}
            () = drained => {}
        }
        self.shared.over.cancel();
        late.close();
        early.wait().await;
        late.wait().await;
    }
}

fn builder(limits: &Connections) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_headers(HEADERS_READ_TIMES * limits.headers_max)
        .max_buf_size(CONNECTION_BUFFER_BYTES.max(2 * limits.header_bytes_max))
        .half_close(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX))
        .max_concurrent_streams(HTTP2_STREAMS_MAX);
    builder
}

impl Shared {
    async fn connection(
        self,
        stream: TcpStream,
        peer: Peer,
        tls: Option<Tls>,
        place: OwnedSemaphorePermit,
        late: bool,
    ) {
        // Small frames of a stream go out at once.
        let _ = stream.set_nodelay(true);
        let over = self.over.clone();
        let served = async {
            match tls {
                None => self.serve(stream, peer, late).await,
                Some(tls) => {
                    let handshake = timeout(self.limits.header_timeout, tls.acceptor().accept(stream)).await;
                    // What is wrong with a handshake is its client's to see.
                    if let Ok(Ok(stream)) = handshake {
                        self.serve(stream, peer, late).await;
                    }
                }
            }
        };
        over.run_until_cancelled(served).await;
        drop(place);
    }

    /// Serves one connection until it ends, or has nothing to do for too long.
    async fn serve(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: Peer,
        late: bool,
    ) {
        let activity = Arc::new(Activity::default());
        let service = {
            let (front, activity) = (self.front.clone(), activity.clone());
            let bounds = (self.limits.headers_max, self.limits.header_bytes_max);
            hyper::service::service_fn(move |request| {
                let (front, under_way) = (front.clone(), UnderWay::new(activity.clone()));
                async move {
                    let response = front.answer(request, peer, bounds).await;
                    Ok::<_, Infallible>(response.map(|body| Answer { body, _under_way: under_way }))
                }
            })
        };
        let mut connection = pin!(self.builder.serve_connection(TokioIo::new(stream), service));
        let ending = &self.front.ending.0;
        // Who comes to an ending service is answered before being let go.
        let (mut leaving, mut seen) = (late, 0);
        let mut look = pin!(sleep(self.limits.header_timeout));
        loop {
            tokio::select! {
                // What breaks a connection is its client's to see.
                ended = connection.as_mut() => {
                    if let Some(status) = ended.err().and_then(|error| refused(error.as_ref())) {
                        self.front.figures.refused(status);
                    }
                    return;
                }
                () = ending.cancelled(), if !leaving => {
                    leaving = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = look.as_mut() => {
                    let begun = activity.begun.load(Ordering::Relaxed);
                    if activity.under_way.load(Ordering::Relaxed) > 0 || begun != seen {
                        seen = begun;
                        look.as_mut().reset(Instant::now() + self.limits.idle_timeout);
                        continue;
                    }
                    connection.as_mut().graceful_shutdown();
                    // One that does not take its leave is cut.
                    let _ = timeout(FAREWELL, connection.as_mut()).await;
                    return;
                }
            }
        }
    }
}

/// What happens on a connection.
#[derive(Default)]
struct Activity {
    /// Requests that have begun.
    begun: AtomicU64,
    /// Requests whose answers have not ended.
    under_way: AtomicUsize,
}

/// A request that is under way as long as this is there.
struct UnderWay(Arc<Activity>);

impl UnderWay {
    fn new(activity: Arc<Activity>) -> Self {
        activity.begun.fetch_add(1, Ordering::Relaxed);
        activity.under_way.fetch_add(1, Ordering::Relaxed);
        Self(activity)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Front {
    /// Answers a request under its name, with a line of the log.
    async fn answer(
        &self,
        mut request: Request<Incoming>,
        peer: Peer,
        bounds: (usize, usize),
    ) -> Response<Body> {
        let span = traces::begin(&self.tracer, &mut request);
        let begun = Instant::now();
        let id = self.ids.of(request.headers());
        let (method, uri) = (request.method().clone(), request.uri().clone());
        // Who watches the service sees it end.
        let ending = self.ending.0.is_cancelled() && uri.path() != METRICS;
        let answered = self.answered(request, peer, bounds);
        let mut response = requests::under(id.clone(), api::shield(ending, &self.figures, answered)).await;
        Line { id: &id, method: &method, uri: &uri, status: response.status(), took: begun.elapsed() }.log();
        if let Some(span) = span {
            traces::end(span, method.as_str(), &response);
        }
        response.headers_mut().insert(X_REQUEST_ID, id);
        response
    }

    async fn answered(
        &self,
        request: Request<Incoming>,
        peer: Peer,
        bounds: (usize, usize),
    ) -> Response<Body> {
        if let Some(refused) = beyond(bounds, &request) {
            let response = refused.into_response();
            self.figures.refused(response.status());
            return response;
        }
        // An empty body needs no memory of its own.
        let body = |body: Incoming| if body.is_end_stream() { Body::empty() } else { Body::new(body) };
        let mut request = request.map(body);
        let compression = Compression::asked(&request);
        request.extensions_mut().insert(peer);
        let Ok(response) = self.router.clone().oneshot(request).await;
        compression.of(response)
    }
}

/// The status with which the connection itself refused what is no request.
fn refused(error: &(dyn std::error::Error + 'static)) -> Option<StatusCode> {
    let error = error.downcast_ref::<hyper::Error>()?;
    if !error.is_parse() || error.is_parse_version_h2() {
        return None;
    }
    Some(if !error.is_parse_too_large() {
        StatusCode::BAD_REQUEST
    } else if error.to_string().contains("URI too long") {
        // Nothing but its words tells it from the other.
        StatusCode::URI_TOO_LONG
    } else {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
    })
}

/// How a head is refused that has more headers, or more bytes, than it may.
fn beyond<B>((headers_max, bytes_max): (usize, usize), request: &Request<B>) -> Option<ApiError> {
    let refused = |what: String| {
        ApiError::new(Code::HeadTooLarge, format!("the request's line and headers are more than {what}"))
    };
    if request.headers().len() > headers_max {
        return Some(refused(format!("{headers_max} lines")));
    }
    (header_bytes(request) > bytes_max).then(|| refused(format!("{bytes_max} bytes")))
}

/// The request line and the headers as they were sent, but for what stands between them.
fn header_bytes<B>(request: &Request<B>) -> usize {
    let line =
        request.method().as_str().len() + request.uri().path_and_query().map_or(0, |uri| uri.as_str().len());
    let headers = request.headers().iter();
    line + headers.map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>()
}

/// The body of an answer; its request is under way until it has gone.
struct Answer {
    body: Body,
    _under_way: UnderWay,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
