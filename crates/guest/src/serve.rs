//! The agent's port: an HTTP/2 server on the stream that the machine's driver gives.
//!
//! `GET /hello` says who answers; `POST /turn` carries one turn, both sides streaming lines (see
//! [`protocol::turn`]); `POST /tools` tells the tools of MCP servers (see [`protocol::mcp`]). Only the host can reach it: the listening socket is inherited and has no path here.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use domain::id::InstanceId;
use domain::turn::{HostFrame, LinkStamp};
use futures_util::StreamExt;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use protocol::hello::Hello;
use protocol::mcp::{ASKED_MAX_BYTES, ToolsAsked, ToolsTold};
use protocol::turn::{HOST_FRAME_MAX_BYTES, Lines, read_host_line};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::tools::Limits;
use crate::turns::{Input, Turns};

/// Lines that wait for the host on one link.
const LINES_WAITING_MAX: usize = 256;
/// How much of a stream may be under way before the receiver has taken it.
const WINDOW_BYTES: u32 = 256 * 1024;

/// The agent of one life of a machine.
#[derive(Clone)]
pub struct Agent {
    instance: InstanceId,
    turns: Arc<Turns>,
    limits: Arc<Limits>,
}

impl Agent {
    /// An agent whose tools keep to `limits`.
    #[must_use]
    pub fn new(instance: InstanceId, limits: Limits) -> Self {
        let limits = Arc::new(limits);
        Self { instance, turns: Arc::new(Turns::new(limits.clone())), limits }
    }

    /// The routes of the port.
    pub fn router(self) -> Router {
        Router::new()
            .route("/hello", get(hello))
            .route("/turn", post(turn))
            .route("/tools", post(tools))
            .with_state(self)
    }

    /// Serves one connection until the host hangs up. Turns live on without it.
    pub async fn serve<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = TowerToHyperService::new(self.router());
        let mut server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        server.initial_stream_window_size(WINDOW_BYTES).initial_connection_window_size(4 * WINDOW_BYTES);
        server.max_concurrent_streams(1024);
        // A connection that breaks is the host's to make again.
        let _ = server.serve_connection(TokioIo::new(stream), service).await;
    }
}

async fn hello(State(agent): State<Agent>) -> Json<Hello> {
    Json(Hello { version: protocol::VERSION, instance: agent.instance.to_string() })
}

/// Tells the tools of the MCP servers that plugins bring.
async fn tools(State(agent): State<Agent>, body: Bytes) -> Response {
    if body.len() > ASKED_MAX_BYTES {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    }
    let Ok(asked) = serde_json::from_slice::<ToolsAsked>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    match &agent.limits.servers {
        Some(servers) => Json(servers.tell(&asked, &agent.limits).await).into_response(),
        None => Json(ToolsTold::default()).into_response(),
    }
}

/// Opens a link to a turn: the first line tells which.
async fn turn(State(agent): State<Agent>, body: Body) -> Response {
    let mut frames = Frames { body, lines: Lines::of_at_most(HOST_FRAME_MAX_BYTES) };
    let Some(HostFrame::Open(open)) = frames.next().await else {
        return (StatusCode::BAD_REQUEST, "a turn begins with open").into_response();
    };
    let (answer, link) = (open.answer, open.link);
    let (lines, waiting) = mpsc::channel::<Bytes>(LINES_WAITING_MAX);
    let inputs = agent.turns.of(answer);
    let first = Input::Frame { link, frame: HostFrame::Open(open), lines: Some(lines) };
    if inputs.send(first).await.is_err() {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    tokio::spawn(pass_on(frames, link, inputs));
    Body::from_stream(ReceiverStream::new(waiting).map(Ok::<_, Infallible>)).into_response()
}

async fn pass_on(mut frames: Frames, link: LinkStamp, inputs: mpsc::Sender<Input>) {
    while let Some(frame) = frames.next().await {
        if inputs.send(Input::Frame { link, frame, lines: None }).await.is_err() {
            return;
        }
    }
}

struct Frames {
    body: Body,
    lines: Lines,
}

impl Frames {
    /// The next frame; `None` when the host has hung up or does not keep to the protocol.
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
