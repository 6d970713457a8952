//! The agent's server: HTTP/2 on the stream that the machine's driver provides.
//!
//! `GET /hello` identifies the instance; `POST /session` runs the calls of one answer and streams lines in both
//! directions (see [`protocol::session`]); `POST /tools` lists the tools of MCP servers (see [`protocol::mcp`]);
//! `POST /index` reports the states of documents, and `POST /index/changed` schedules the reading of some (see
//! [`protocol::index`]); `POST /preview` and `POST /preview/page` show documents to their owner (see
//! [`protocol::preview`]); the other paths below `/index` exchange vectors (see [`protocol::embedding`]). Only the
//! host can connect: the listening socket is inherited and has no path in the machine.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use domain::id::{InstanceId, MessageId};
use domain::turn::{HostFrame, SessionStamp};
use futures_util::StreamExt;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use protocol::embedding::{EMBEDDED_PATH, QUERY_PATH, UNEMBEDDED_PATH, VECTORS_MAX_BYTES};
use protocol::hello::Hello;
use protocol::index::{CHANGED_MAX, CHANGED_PATH, INDEX_PATH, IndexChanged, IndexRequest, WAIT_SECONDS};
use protocol::mcp::{REQUEST_MAX_BYTES, ToolsReply, ToolsRequest};
use protocol::preview::{PAGE_PATH, PREVIEW_PATH};
use protocol::session::{HOST_FRAME_MAX_BYTES, LineReader, SESSION_PATH, read_host_line};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::ReceiverStream;

use crate::calls::MachineCalls;
use crate::mcp::McpServers;
use crate::tools::{self, ToolLimits, keep_index};

/// The number of lines that may wait for the host in one session.
const LINES_WAITING_MAX: usize = 256;
/// The HTTP/2 flow-control window of a stream and of a connection, in bytes.
const WINDOW_BYTES: u32 = 256 * 1024;
/// The time in which the answer to the hello leaves the machine.
const INDEXES_AFTER: Duration = Duration::from_millis(50);

/// The server of one instance of a machine.
#[derive(Clone)]
pub struct Guest {
    instance: InstanceId,
    calls: Arc<MachineCalls>,
    limits: Arc<ToolLimits>,
    servers: Option<McpServers>,
    /// Notified when the host has said hello.
    greeted: Arc<Notify>,
}

impl Guest {
    /// Creates a server whose tools are bound by `limits`.
    #[must_use]
    pub fn new(instance: InstanceId, limits: ToolLimits, servers: Option<McpServers>) -> Self {
        let limits = Arc::new(limits);
        let calls = Arc::new(MachineCalls::new(limits.clone(), servers.clone()));
        Self { instance, calls, limits, servers, greeted: Arc::default() }
    }

    /// Keeps the index of the workspace's documents up to date, soon after the host has said hello: until then the machine
    /// is busy starting. Ends only if the machine has no index.
    pub async fn keep_index(self) {
        self.greeted.notified().await;
        tokio::time::sleep(INDEXES_AFTER).await;
        keep_index(self.limits).await;
    }

    pub fn router(self) -> Router {
        Router::new()
            .route("/hello", get(report_version))
            .route(SESSION_PATH, post(open_session))
            .route("/tools", post(list_mcp_tools))
            .route(INDEX_PATH, post(report_index))
            .route(CHANGED_PATH, post(touch_changed_files))
            .route(PREVIEW_PATH, post(preview_document))
            .route(PAGE_PATH, post(draw_page))
            .route(UNEMBEDDED_PATH, post(list_unembedded))
            .route(EMBEDDED_PATH, post(store_embeddings))
            .route(QUERY_PATH, post(query_vector))
            .with_state(self)
    }

    /// Serves one connection until the host closes it. Calls continue after it is closed.
    pub async fn serve_connection<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = TowerToHyperService::new(self.router());
        let mut server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        server.initial_stream_window_size(WINDOW_BYTES).initial_connection_window_size(4 * WINDOW_BYTES);
        server.max_concurrent_streams(1024);
        // The host reconnects after a broken connection.
        let _ = server.serve_connection(TokioIo::new(stream), service).await;
    }
}

async fn report_version(State(guest): State<Guest>) -> Json<Hello> {
    guest.greeted.notify_one();
    Json(Hello { version: protocol::VERSION, instance: guest.instance.to_string() })
}

/// Lists the tools of plugins' MCP servers.
async fn list_mcp_tools(State(guest): State<Guest>, body: Bytes) -> Response {
    if body.len() > REQUEST_MAX_BYTES {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    }
    let Ok(request) = serde_json::from_slice::<ToolsRequest>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    match &guest.servers {
        Some(servers) => Json(servers.list_tools(&request, &guest.limits).await).into_response(),
        None => Json(ToolsReply::default()).into_response(),
    }
}

/// Reports the states of documents, once they differ from the states that the host has seen.
async fn report_index(State(guest): State<Guest>, body: Bytes) -> Response {
    let Some(library) = &guest.limits.library else { return StatusCode::NOT_FOUND.into_response() };
    let request: IndexRequest = match parse_body(&body, protocol::index::REQUEST_MAX_BYTES) {
        Ok(request) => request,
        Err(status) => return status.into_response(),
    };
    Json(library.report_states(request.seen, Duration::from_secs(WAIT_SECONDS)).await).into_response()
}

/// Schedules the reading of files that the host has changed.
async fn touch_changed_files(State(guest): State<Guest>, body: Bytes) -> StatusCode {
    let Some(library) = &guest.limits.library else { return StatusCode::NOT_FOUND };
    let changed: IndexChanged = match parse_body(&body, protocol::index::REQUEST_MAX_BYTES) {
        Ok(changed) => changed,
        Err(status) => return status,
    };
    library.touch_files(changed.paths.into_iter().take(CHANGED_MAX));
    StatusCode::NO_CONTENT
}

/// Returns the text of a document.
async fn preview_document(State(guest): State<Guest>, body: Bytes) -> Response {
    match parse_body(&body, protocol::preview::REQUEST_MAX_BYTES) {
        Ok(request) => Json(tools::preview_document(request, &guest.limits).await).into_response(),
        Err(status) => status.into_response(),
    }
}

/// Returns a page as a PNG.
async fn draw_page(State(guest): State<Guest>, body: Bytes) -> Response {
    let request = match parse_body(&body, protocol::preview::REQUEST_MAX_BYTES) {
        Ok(request) => request,
        Err(status) => return status.into_response(),
    };
    match tools::draw_in_worker(request, &guest.limits).await {
        Some(png) => png.into_response(),
        None => StatusCode::UNPROCESSABLE_ENTITY.into_response(),
    }
}

/// Returns passages that have no vector.
async fn list_unembedded(State(guest): State<Guest>, body: Bytes) -> Response {
    let Some(library) = &guest.limits.library else { return StatusCode::NOT_FOUND.into_response() };
    let asked = match parse_body(&body, VECTORS_MAX_BYTES) {
        Ok(asked) => asked,
        Err(status) => return status.into_response(),
    };
    match library.list_unembedded(asked).await {
        Ok(passages) => Json(passages).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Stores vectors of passages.
async fn store_embeddings(State(guest): State<Guest>, body: Bytes) -> Response {
    let Some(library) = &guest.limits.library else { return StatusCode::NOT_FOUND.into_response() };
    let vectors = match parse_body(&body, VECTORS_MAX_BYTES) {
        Ok(vectors) => vectors,
        Err(status) => return status.into_response(),
    };
    match library.store_embeddings(vectors).await {
        Ok(reply) => Json(reply).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Keeps the vector of a query for the search that follows.
async fn query_vector(State(guest): State<Guest>, body: Bytes) -> StatusCode {
    let Some(library) = &guest.limits.library else { return StatusCode::NOT_FOUND };
    match parse_body(&body, VECTORS_MAX_BYTES) {
        Ok(vector) => library.query_vector(vector),
        Err(status) => return status,
    }
    StatusCode::NO_CONTENT
}

/// Reads the body of a request of at most `max_bytes`.
fn parse_body<T: DeserializeOwned>(body: &[u8], max_bytes: usize) -> Result<T, StatusCode> {
    if body.len() > max_bytes {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    serde_json::from_slice(body).map_err(|_| StatusCode::BAD_REQUEST)
}

/// Opens the session named by the first line.
async fn open_session(State(guest): State<Guest>, body: Body) -> Response {
    let mut frames = HostFrameReader { body, lines: LineReader::of_at_most(HOST_FRAME_MAX_BYTES) };
    let Some(HostFrame::Open(open)) = frames.next_frame().await else {
        return (StatusCode::BAD_REQUEST, "session must begin with an `open` frame").into_response();
    };
    let (answer, stamp) = (open.answer, open.stamp);
    let (lines, waiting) = mpsc::channel::<Bytes>(LINES_WAITING_MAX);
    guest.calls.open_session(open, lines);
    tokio::spawn(receive_frames(guest.calls, frames, answer, stamp));
    Body::from_stream(ReceiverStream::new(waiting).map(Ok::<_, Infallible>)).into_response()
}

async fn receive_frames(
    calls: Arc<MachineCalls>,
    mut frames: HostFrameReader,
    answer: MessageId,
    stamp: SessionStamp,
) {
    while let Some(frame) = frames.next_frame().await {
        calls.receive_frame(answer, stamp, frame);
    }
    calls.close_session(answer, stamp);
}

struct HostFrameReader {
    body: Body,
    lines: LineReader,
}

impl HostFrameReader {
    /// Returns the next frame, or `None` when the host closed the session or violated the protocol.
    async fn next_frame(&mut self) -> Option<HostFrame> {
        use http_body_util::BodyExt;
        loop {
            if let Some(line) = self.lines.next_line().ok()? {
                return read_host_line(&line).ok();
            }
            let frame = self.body.frame().await?.ok()?;
            if let Ok(bytes) = frame.into_data() {
                self.lines.push(&bytes);
            }
        }
    }
}
