//! Connections: accepts and serves them within limits, and closes them when they are idle or the service shuts down.

mod activity;
mod answer;
mod connection;
mod idle;
mod unread;
mod wire;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use api::{ApiError, Code, DirectCall, DirectResponse};
use axum::Router;
use axum::body::{Body, HttpBody};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, header};
use axum::response::IntoResponse;
use http_common::{
    Budget, BudgetBounds, BudgetHolder, BudgetShare, Peer, RateLimiter, ResponseCompression,
    normalize_for_counting,
};
use telemetry::trace::Tracer;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tower::ServiceExt;

use self::connection::{ConnectionContext, SharedConnectionState};
use self::idle::IdleConnections;
use self::unread::{RequestBody, close_gently};
use crate::limits::ConnectionLimits;
use crate::metrics::METRICS;
use crate::requests::{self, RequestIds, RequestLine, X_REQUEST_ID};
use crate::tls::ReloadableTls;
use crate::traces;

/// The time for requests in progress at shutdown, and for a connection that is closed.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after the kernel has run out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The wait for a place after which further connections without a request are closed.
const PLACE_WAIT: Duration = Duration::from_millis(250);
/// The connections beyond the limit of their address that are closed gently at one time; others are closed at once.
const GENTLE_CLOSES_MAX: usize = 128;
/// The response to a connection beyond the limit of its address.
const TOO_MANY_CONNECTIONS: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Accepts and serves connections.
pub struct HttpServer {
    listener: TcpListener,
    tls: Option<ReloadableTls>,
    shared: Arc<SharedConnectionState>,
    /// Connections of each address.
    addresses: Arc<Budget>,
    idle: Arc<IdleConnections>,
}

/// The router and the layers around every route.
pub struct Frontend {
    /// The routes.
    pub router: Router,
    /// Answers frequent requests without the routers.
    pub direct: api::Direct,
    /// Generates request ids.
    pub ids: RequestIds,
    /// Creates the spans of requests.
    pub tracer: Tracer,
    /// The rate limiter and the budgets.
    pub guard: Arc<RateLimiter>,
    /// Counts the requests that never reach the interface.
    pub metrics: Arc<api::ApiMetrics>,
    /// Cancelled at shutdown, after which no further requests are accepted.
    pub ending: api::ApiShutdown,
}

impl HttpServer {
    /// Creates a server of the connections to `listener`.
    #[must_use]
    pub fn new(
        listener: TcpListener,
        tls: Option<ReloadableTls>,
        front: Frontend,
        limits: ConnectionLimits,
    ) -> Self {
        let each = limits.connections_per_address as u64;
        let addresses = Budget::new(BudgetBounds { each, all: u64::MAX });
        Self {
            listener,
            tls,
            shared: Arc::new(SharedConnectionState::new(front, limits)),
            addresses,
            idle: Arc::new(IdleConnections::new()),
        }
    }

    /// Serves until the shutdown. Then requests in progress have some time to finish, and new connections get 503.
    pub async fn serve_until_shutdown(self) {
        let ending = self.shared.front.ending.0.clone();
        let (mut early, mut late) = (JoinSet::new(), JoinSet::new());
        ending.run_until_cancelled(self.accept_into(&mut early, false)).await;
        let drained = async { while early.join_next().await.is_some() {} };
        tokio::select! {
            () = self.accept_into(&mut late, true) => {}
            _ = timeout(SHUTDOWN_TIMEOUT, drained) => {}
        }
        // The remaining connections are not waited for.
        early.shutdown().await;
        late.shutdown().await;
    }

    /// Accepts connections and serves each in a separate task.
    async fn accept_into(&self, serving: &mut JoinSet<()>, late: bool) {
        let places = Arc::new(Semaphore::new(self.shared.limits.connections_max));
        let gentle_closes = Arc::new(Semaphore::new(GENTLE_CLOSES_MAX));
        loop {
            let accepted = loop {
                tokio::select! {
                    accepted = self.listener.accept() => break accepted,
                    // Completed tasks are removed.
                    Some(_) = serving.join_next() => {}
                }
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "accept failed");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let address = normalize_for_counting(peer.ip());
            let held = if self.shared.front.guard.is_trusted_proxy(peer.ip()) {
                None
            } else if let Ok(held) = self.addresses.take_share(BudgetHolder::Address(address), 1) {
                Some(held)
            } else {
                // TLS clients could not read a plain response.
                if let (None, Ok(place)) = (&self.tls, gentle_closes.clone().try_acquire_owned()) {
                    serving.spawn(async move {
                        refuse_connection(stream).await;
                        drop(place);
                    });
                }
                continue;
            };
            // A connection is accepted before it has a place, so that others are closed only if needed.
            let Some(place) = self.acquire_connection_permit(&places).await else { return };
            let entry = self.idle.add_connection();
            let guest = ConnectionContext { peer: Peer(peer.ip()), idle: entry.clock.clone(), late };
            let (shared, tls) = (self.shared.clone(), self.tls.clone());
            serving.spawn(async move {
                shared.serve_connection(stream, tls, guest).await;
                drop((place, held, entry));
            });
        }
    }

    /// Waits for a free place, and frees places by closing the connections that have waited longest for a request.
    async fn acquire_connection_permit(&self, places: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        loop {
            if let Ok(place) = places.clone().try_acquire_owned() {
                return Some(place);
            }
            let closed = self.idle.close_longest();
            tracing::debug!(closed, "all connections are taken; closed those without a request");
            if let Ok(place) = timeout(PLACE_WAIT, places.clone().acquire_owned()).await {
                return place.ok();
            }
        }
    }
}

/// Refuses a connection without reading its requests.
async fn refuse_connection(mut stream: TcpStream) {
    let _ = timeout(SHUTDOWN_TIMEOUT, stream.write_all(TOO_MANY_CONNECTIONS)).await;
    close_gently(stream).await;
}

/// A response with the request's shares of budgets until it is sent.
pub(super) struct BudgetedResponse {
    response: Response<Body>,
    shares: [Option<BudgetShare>; 2],
}

impl From<Response<Body>> for BudgetedResponse {
    fn from(response: Response<Body>) -> Self {
        Self { response, shares: [None, None] }
    }
}

impl Frontend {
    /// Answers a request under its id, and writes its log line.
    async fn answer_request(
        &self,
        mut request: Request<RequestBody>,
        peer: Peer,
        bounds: (usize, usize),
    ) -> BudgetedResponse {
        let span = traces::begin_request_span(&self.tracer, &mut request);
        let begun = Instant::now();
        let id = self.ids.client_or_new_id(request.headers());
        // Monitoring can observe the shutdown.
        let ending = self.ending.0.is_cancelled() && request.uri().path() != METRICS;
        let is_unclear = is_unclear(&request);
        let is_openai = openai_api::is_own_path(request.uri().path());
        let refused = if is_unclear {
            Some(transfer_coding_error())
        } else {
            head_too_large_error(bounds, &request).filter(|_| !ending)
        };
        // The futures are large, so they stay in place while the layers around them run.
        let mut answered = if let Some(call) = self.direct_call(&request, ending || refused.is_some()) {
            let (head, _) = request.into_parts();
            let answering = pin!(self.respond_directly(call, &head, peer));
            let answering = api::catch_panic(ending, &self.metrics, answering);
            let answered = requests::with_request_id(id.clone(), answering).await;
            self.log_request(&id, &head.method, &head.uri, &answered, begun);
            answered
        } else {
            let (method, uri) = (request.method().clone(), request.uri().clone());
            let answering = Box::pin(self.respond_via_router(request, peer, refused));
            let answering = api::catch_panic(ending, &self.metrics, answering);
            let answered = requests::with_request_id(id.clone(), answering).await;
            self.log_request(&id, &method, &uri, &answered, begun);
            if let Some(span) = span {
                traces::end_request_span(span, method.as_str(), &answered.response);
            }
            answered
        };
        if is_openai {
            openai_api::translate_refusal(&mut answered.response);
        }
        let headers = answered.response.headers_mut();
        add_safety_headers(headers);
        if is_unclear {
            // The end of the request is ambiguous, so no further request is read from the connection.
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        headers.insert(X_REQUEST_ID, id);
        answered
    }

    fn log_request(
        &self,
        id: &HeaderValue,
        method: &Method,
        uri: &Uri,
        answered: &BudgetedResponse,
        begun: Instant,
    ) {
        RequestLine { id, method, uri, status: answered.response.status(), took: begun.elapsed() }.log();
    }

    /// Returns the call if the request is answered without the router.
    fn direct_call(&self, request: &Request<RequestBody>, refused: bool) -> Option<DirectCall> {
        if refused || !request.body().is_end_stream() {
            return None;
        }
        api::recognize_direct_call(request)
    }

    async fn respond_directly(&self, call: DirectCall, head: &Parts, peer: Peer) -> BudgetedResponse {
        let address = self.guard.counting_address(peer, &head.headers);
        let DirectResponse { response, holder, shares } = self.direct.answer_call(call, head, address).await;
        let compression = ResponseCompression::negotiate(&head.method, &head.headers);
        let holder = holder.unwrap_or(BudgetHolder::Address(address));
        BudgetedResponse { response: self.finish_response(response, holder, false, compression), shares }
    }

    async fn respond_via_router(
        &self,
        request: Request<RequestBody>,
        peer: Peer,
        refused: Option<ApiError>,
    ) -> BudgetedResponse {
        if let Some(refused) = refused {
            let response = refused.into_response();
            self.metrics.record_refusal(response.status());
            return response.into();
        }
        // An empty body needs no allocation.
        let body = |body: RequestBody| if body.is_end_stream() { Body::empty() } else { Body::new(body) };
        let mut request = request.map(body);
        let compression = ResponseCompression::negotiate(request.method(), request.headers());
        // The response to a change must be sent in any case.
        let owed = !matches!(*request.method(), Method::GET | Method::HEAD);
        request.extensions_mut().insert(peer);
        let address = self.guard.counting_address(peer, request.headers());
        let Ok(response) = self.router.clone().oneshot(request).await;
        let holder = response.extensions().get().copied().unwrap_or(BudgetHolder::Address(address));
        self.finish_response(response, holder, owed, compression).into()
    }

    /// Charges a response to its holder and compresses it.
    fn finish_response(
        &self,
        mut response: Response<Body>,
        holder: BudgetHolder,
        owed: bool,
        compression: ResponseCompression,
    ) -> Response<Body> {
        if let Err(spent) = http_common::account_for(&mut response, &self.guard.budgets, holder, owed) {
            response = ApiError::from(spent).into_response();
        }
        compression.apply_to(response, &self.guard.budgets.compressed, holder)
    }
}

/// Returns the error for a head with too many headers or bytes.
fn head_too_large_error<B>(
    (headers_max, bytes_max): (usize, usize),
    request: &Request<B>,
) -> Option<ApiError> {
    let refused = |what: String| {
        ApiError::new(Code::HeadTooLarge, format!("the request line and headers are longer than {what}"))
    };
    if request.headers().len() > headers_max {
        return Some(refused(format!("{headers_max} lines")));
    }
    (header_bytes(request) > bytes_max).then(|| refused(format!("{bytes_max} bytes")))
}

/// Returns true if the body framing of a request is ambiguous: a transfer coding other than one `chunked`.
fn is_unclear<B>(request: &Request<B>) -> bool {
    let values = request.headers().get_all(header::TRANSFER_ENCODING);
    let mut codings = values.iter().flat_map(|value| value.to_str().unwrap_or("?").split(',')).map(str::trim);
    codings.next().is_some_and(|only| !only.eq_ignore_ascii_case("chunked") || codings.next().is_some())
}

/// Returns the error for such a request.
fn transfer_coding_error() -> ApiError {
    ApiError::bad_request("unsupported Transfer-Encoding: use chunked once")
}

/// Prevents caches from storing a response without permission, and browsers from guessing its type.
fn add_safety_headers(headers: &mut HeaderMap) {
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.entry(header::X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
}

/// Returns the size of the request line and the headers as sent, without separators.
fn header_bytes<B>(request: &Request<B>) -> usize {
    let line =
        request.method().as_str().len() + request.uri().path_and_query().map_or(0, |uri| uri.as_str().len());
    let headers = request.headers().iter();
    line + headers.map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>()
}
