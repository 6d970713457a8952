//! The agent's server: HTTP/2 on the stream that the machine's driver provides.
//!
//! `GET /hello` identifies the instance; `POST /session` runs the calls of one answer and streams lines in both
//! directions (see [`protocol::session`]); `POST /tools` lists the tools of MCP servers (see [`protocol::mcp`]);
//! `POST /index` reports the states of documents, and `POST /index/changed` has some read (see [`protocol::index`]).
//! Only the host can connect: the listening socket is inherited and has no path in the machine.

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
use protocol::hello::Hello;
use protocol::index::{CHANGED_MAX, CHANGED_PATH, INDEX_PATH, IndexChanged, IndexRequest, WAIT_SECONDS};
use protocol::mcp::{REQUEST_MAX_BYTES, ToolsReply, ToolsRequest};
use protocol::session::{HOST_FRAME_MAX_BYTES, LineReader, SESSION_PATH, read_host_line};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::calls::Calls;
use crate::mcp::Servers;
use crate::tools::{Limits, keep_index};

/// The number of lines that may wait for the host in one session.
const LINES_WAITING_MAX: usize = 256;
/// The HTTP/2 flow-control window of a stream and of a connection, in bytes.
const WINDOW_BYTES: u32 = 256 * 1024;

/// The server of one instance of a machine.
#[derive(Clone)]
pub struct Guest {
    instance: InstanceId,
    calls: Arc<Calls>,
    limits: Arc<Limits>,
    servers: Option<Servers>,
}

impl Guest {
    /// Creates a server whose tools are bound by `limits`.
    #[must_use]
    pub fn new(instance: InstanceId, limits: Limits, servers: Option<Servers>) -> Self {
        let limits = Arc::new(limits);
        let calls = Arc::new(Calls::new(limits.clone(), servers.clone()));
        Self { instance, calls, limits, servers }
    }

    /// Keeps the index of the workspace's documents up to date. Ends only if there is none.
    pub async fn keep_index(self) {
        keep_index(self.limits).await;
    }

    /// Returns the routes.
    pub fn router(self) -> Router {
        Router::new()
            .route("/hello", get(hello))
            .route(SESSION_PATH, post(session))
            .route("/tools", post(tools))
            .route(INDEX_PATH, post(index))
            .route(CHANGED_PATH, post(changed))
            .with_state(self)
    }

    /// Serves one connection until the host closes it. Calls continue after it is closed.
    pub async fn serve<S>(self, stream: S)
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

async fn hello(State(guest): State<Guest>) -> Json<Hello> {
    Json(Hello { version: protocol::VERSION, instance: guest.instance.to_string() })
}

/// Lists the tools of plugins' MCP servers.
async fn tools(State(guest): State<Guest>, body: Bytes) -> Response {
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

/// Reports the states of documents, once they differ from those that the host has seen.
async fn index(State(guest): State<Guest>, body: Bytes) -> Response {
    let Some(library) = &guest.limits.library else { return StatusCode::NOT_FOUND.into_response() };
    if body.len() > protocol::index::REQUEST_MAX_BYTES {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    }
    let Ok(request) = serde_json::from_slice::<IndexRequest>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    Json(library.report(request.seen, Duration::from_secs(WAIT_SECONDS)).await).into_response()
}

/// Has files read that the host has changed.
async fn changed(State(guest): State<Guest>, body: Bytes) -> StatusCode {
    let Some(library) = &guest.limits.library else { return StatusCode::NOT_FOUND };
    if body.len() > protocol::index::REQUEST_MAX_BYTES {
        return StatusCode::PAYLOAD_TOO_LARGE;
    }
    let Ok(changed) = serde_json::from_slice::<IndexChanged>(&body) else { return StatusCode::BAD_REQUEST };
    library.touch(changed.paths.into_iter().take(CHANGED_MAX));
    StatusCode::NO_CONTENT
}

/// Opens the session named by the first line.
async fn session(State(guest): State<Guest>, body: Body) -> Response {
    let mut frames = Frames { body, lines: LineReader::of_at_most(HOST_FRAME_MAX_BYTES) };
    let Some(HostFrame::Open(open)) = frames.next().await else {
        return (StatusCode::BAD_REQUEST, "a session begins with open").into_response();
    };
    let (answer, stamp) = (open.answer, open.stamp);
    let (lines, waiting) = mpsc::channel::<Bytes>(LINES_WAITING_MAX);
    guest.calls.open(open, lines);
    tokio::spawn(receive(guest.calls, frames, answer, stamp));
    Body::from_stream(ReceiverStream::new(waiting).map(Ok::<_, Infallible>)).into_response()
}

async fn receive(calls: Arc<Calls>, mut frames: Frames, answer: MessageId, stamp: SessionStamp) {
    while let Some(frame) = frames.next().await {
        calls.receive(answer, stamp, frame);
    }
    calls.close(answer, stamp);
}

struct Frames {
    body: Body,
    lines: LineReader,
}

impl Frames {
    /// Returns the next frame, or `None` when the host closed the session or violated the protocol.
    async fn next(&mut self) -> Option<HostFrame> {
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
