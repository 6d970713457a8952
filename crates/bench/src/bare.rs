//! Baseline servers for comparison; this program runs them as child processes.
//!
//! `hello` answers with a word. `proxy` forwards a vendor's stream. `fan` sends one growing state to any number of
//! readers.
//! `commit` answers once the request is on disk, with group commit.

use std::convert::Infallible;
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use bytes::Bytes;
use futures_util::stream;
use hyper_util::rt::TokioIo;
use test_support::port::ReservedPort;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};

use crate::BenchResult;
use crate::process::CpuPlacement;
use crate::service::wait_until_responding;

/// Limits the callers that wait for the disk at the same time.
const COMMITS_WAITING_MAX: usize = 1024;

/// A running baseline server, killed on drop.
#[derive(Debug)]
pub(crate) struct Bare {
    pub(crate) address: SocketAddr,
    /// The time from its start to its first answer.
    pub(crate) started_in: Duration,
    child: Child,
    _port: ReservedPort,
}

impl Bare {
    /// Runs this program again as that server, and waits until it answers.
    pub(crate) fn start_role(place: CpuPlacement, role: &str, arguments: &[&str]) -> BenchResult<Self> {
        let port = ReservedPort::reserve();
        let address = port.address();
        let began = Instant::now();
        let mut command = place.build_command(std::env::current_exe()?);
        command.arg(role).arg(address.to_string()).args(arguments).stdin(Stdio::null());
        let mut child = command.spawn()?;
        let started_in = wait_until_responding(address, "/", began, &mut child)?;
        Ok(Self { address, started_in, child, _port: port })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // It may have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the server with this name, if any, until it is killed.
pub(crate) fn run_role(role: &str, arguments: &[String]) -> BenchResult<bool> {
    let argument = |at: usize| arguments.get(at).map(String::as_str).unwrap_or_default();
    let hello = Router::new().route("/", get(async || "hello"));
    let router = async || -> BenchResult<Option<Router>> {
        Ok(match role {
            "hello" => Some(hello),
            "proxy" => {
                let vendor: SocketAddr = argument(1).parse()?;
                Some(hello.route("/stream", post(proxy_stream).with_state(vendor)))
            }
            "fan" => {
                let fan = Fan {
                    count: argument(1).parse()?,
                    every: argument(2).parse()?,
                    newest: watch::Sender::default(),
                };
                fan.newest.send_replace(fan.state_event(0));
                let fan: &'static Fan = Box::leak(Box::new(fan));
                Some(
                    hello
                        .route("/events", get(stream_states).with_state(fan))
                        .route("/go", post(start_fan_out).with_state(fan)),
                )
            }
            "commit" => {
                let (sender, waiting) = mpsc::channel(COMMITS_WAITING_MAX);
                let file = PathBuf::from(argument(1));
                std::thread::spawn(move || write_groups(&file, waiting));
                Some(hello.route("/", post(commit_body).with_state(sender)))
            }
            _ => None,
        })
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let Some(router) = router().await? else { return Ok(false) };
        let listener = TcpListener::bind(argument(0)).await?.tap_io(|stream| {
            // A token must be sent at once.
            let _later = stream.set_nodelay(true);
        });
        axum::serve(listener, router).await?;
        Ok(true)
    })
}

/// Forwards a request for a stream to the vendor, and streams the response back.
async fn proxy_stream(State(vendor): State<SocketAddr>, body: Body) -> Result<Response, StatusCode> {
    let broken = |_| StatusCode::BAD_GATEWAY;
    let stream = TcpStream::connect(vendor).await.map_err(|_| StatusCode::BAD_GATEWAY)?;
    stream.set_nodelay(true).map_err(|_| StatusCode::BAD_GATEWAY)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    tokio::spawn(connection);
    let mut request = Request::new(body);
    *request.method_mut() = axum::http::Method::POST;
    *request.uri_mut() = axum::http::Uri::from_static("/v1/chat/completions");
    let headers = request.headers_mut();
    headers.insert(header::HOST, HeaderValue::from_static("vendor"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let response = sender.send_request(request).await.map_err(broken)?;
    Ok(response.map(Body::new))
}

/// A growing state that is sent to all readers.
struct Fan {
    count: u32,
    every: u64,
    newest: watch::Sender<Bytes>,
}

impl Fan {
    /// Returns the state after this number of tokens, in the structure and size of the service's states.
    fn state_event(&self, tokens: u32) -> Bytes {
        let text: String = (0..tokens).map(|number| format!("t{number} ")).collect();
        let event = if tokens == self.count { "completed" } else { "message" };
        Bytes::from(format!(
            "event: {event}\ndata: {{\"id\":\"{0}\",\"chatId\":\"{0}\",\"status\":\"in_progress\",\"text\":\"{text}\",\
             \"parts\":[{{\"partId\":\"{0}\",\"type\":\"TEXT\",\"content\":\"<p>{text}</p>\",\"citations\":[]}}]}}\n\n",
            "00000000-0000-4000-8000-000000000000"
        ))
    }
}

async fn stream_states(State(fan): State<&'static Fan>) -> Response {
    let mut newest = fan.newest.subscribe();
    newest.mark_changed();
    let frames = stream::unfold((newest, false), async |(mut newest, ended)| {
        if ended || newest.changed().await.is_err() {
            return None;
        }
        let frame = newest.borrow_and_update().clone();
        let ended = frame.starts_with(b"event: completed");
        Some((Ok::<_, Infallible>(frame), (newest, ended)))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(frames)).into_response()
}

async fn start_fan_out(State(fan): State<&'static Fan>) {
    tokio::spawn(async {
        let mut ticks = tokio::time::interval(Duration::from_millis(fan.every));
        for tokens in 1..=fan.count {
            ticks.tick().await;
            fan.newest.send_replace(fan.state_event(tokens));
        }
    });
}

type Commit = (Bytes, oneshot::Sender<()>);

async fn commit_body(State(sender): State<mpsc::Sender<Commit>>, body: Bytes) -> StatusCode {
    let (done, durable) = oneshot::channel();
    if sender.send((body, done)).await.is_err() || durable.await.is_err() {
        return StatusCode::INTERNAL_SERVER_ERROR;
    }
    StatusCode::ACCEPTED
}

/// Appends the waiting requests as one group, and answers when it is on disk. Ends when that fails, or at the end.
fn write_groups(file: &std::path::Path, mut waiting: mpsc::Receiver<Commit>) {
    let Ok(mut file) = File::options().create(true).append(true).open(file) else { return };
    let mut group = Vec::new();
    while waiting.blocking_recv_many(&mut group, COMMITS_WAITING_MAX) > 0 {
        let bytes: Vec<u8> = group.iter().flat_map(|(body, _)| body.iter().copied()).collect();
        if file.write_all(&bytes).and_then(|()| file.sync_data()).is_err() {
            return;
        }
        for (_, done) in group.drain(..) {
            // The caller may have disconnected.
            let _ = done.send(());
        }
    }
}
