//! The host's connection to an agent: HTTP/2 over the machine's byte stream.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::id::InstanceId;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use protocol::hello::Hello;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::driver::ByteStream;

/// How much of one stream the agent may send before the host has taken it.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// How much of all streams together.
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// The largest frame.
const FRAME_MAX_BYTES: u32 = 16 * 1024;
/// The longest head of a response.
const HEADERS_MAX_BYTES: u32 = 16 * 1024;
/// What a stream's writes may hold back.
const SEND_BUFFER_BYTES: usize = 64 * 1024;
/// How often a quiet agent is asked for a sign of life, and how long it may take to give one.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the first exchange may take.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest hello.
const HELLO_MAX_BYTES: usize = 4096;

/// A body of a request to the agent.
pub type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// Why an agent could not be spoken with.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// There is no connection, or it broke.
    #[error("the connection to the agent failed: {0}")]
    Connection(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The agent did not answer in time.
    #[error("the agent did not answer in time")]
    Silent,
    /// What answers is no agent, or one of another version.
    #[error("the agent is not understood: {0}")]
    Foreign(String),
}

/// A connection to an agent that has said who it is. Clones share it; it closes with the last one.
#[derive(Debug, Clone)]
pub struct AgentLink {
    sender: SendRequest<Body>,
    instance: InstanceId,
    version: u32,
    closed: CancellationToken,
    _open: Arc<DropGuard>,
}

impl AgentLink {
    /// Opens a connection over `stream` and asks the agent who it is.
    ///
    /// # Errors
    /// See [`LinkError`].
    pub async fn open(stream: Box<dyn ByteStream>) -> Result<Self, LinkError> {
        timeout(HELLO_TIMEOUT, Self::greet(stream)).await.map_err(|_| LinkError::Silent)?
    }

    async fn greet(stream: Box<dyn ByteStream>) -> Result<Self, LinkError> {
        let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_frame_size(FRAME_MAX_BYTES)
            .max_header_list_size(HEADERS_MAX_BYTES)
            .max_send_buf_size(SEND_BUFFER_BYTES)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(broken)?;
        // Boxed here, because the compiler can't tell that the task below is `Send` otherwise.
        let connection: BoxFuture<'static, hyper::Result<()>> = Box::pin(connection);
        let (closed, abandoned) = (CancellationToken::new(), CancellationToken::new());
        let open = Arc::new(abandoned.clone().drop_guard());
        // The connection's own task: it ends with the stream, or when nobody holds the link any more.
        tokio::spawn({
            let closed = closed.clone().drop_guard();
            async move {
                if let Some(Err(error)) = abandoned.run_until_cancelled(connection).await {
                    tracing::debug!(%error, "the connection to an agent broke");
                }
                drop(closed);
            }
        });
        let (instance, version) = hello(&mut sender).await?;
        Ok(Self { sender, instance, version, closed, _open: open })
    }

    /// Sends a request. The URI needs a path only.
    ///
    /// # Errors
    /// [`LinkError::Connection`] when the connection is closed or breaks before the head of the response.
    pub async fn request(&self, request: Request<Body>) -> Result<Response<Incoming>, LinkError> {
        let mut sender = self.sender.clone();
        sender.ready().await.map_err(broken)?;
        sender.send_request(absolute(request)).await.map_err(broken)
    }

    /// The life of the agent at the other end.
    #[must_use]
    pub const fn instance(&self) -> InstanceId {
        self.instance
    }

    /// The version of the protocol that it speaks.
    #[must_use]
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// Waits until the connection is closed. Cancel safe.
    pub async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Whether the connection is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }
}

fn broken(error: hyper::Error) -> LinkError {
    LinkError::Connection(error.into())
}

/// HTTP/2 wants a scheme and an authority; there is only one agent at the other end.
fn absolute(mut request: Request<Body>) -> Request<Body> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    if let Ok(uri) = http::Uri::builder().scheme("http").authority("agent").path_and_query(path).build() {
        *request.uri_mut() = uri;
    }
    request
}

async fn hello(sender: &mut SendRequest<Body>) -> Result<(InstanceId, u32), LinkError> {
    let foreign = |reason: &str| LinkError::Foreign(reason.to_owned());
    let mut request = Request::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
    *request.uri_mut() = http::Uri::from_static("/hello");
    sender.ready().await.map_err(broken)?;
    let response = sender.send_request(absolute(request)).await.map_err(broken)?;
    if response.status() != StatusCode::OK {
        return Err(LinkError::Foreign(format!("its hello has status {}", response.status())));
    }
    let body =
        Limited::new(response.into_body(), HELLO_MAX_BYTES).collect().await.map_err(LinkError::Connection)?;
    let hello: Hello =
        serde_json::from_slice(&body.to_bytes()).map_err(|_| foreign("its hello has another form"))?;
    let oldest = protocol::VERSION.saturating_sub(1).max(1);
    if !(oldest..=protocol::VERSION).contains(&hello.version) {
        return Err(LinkError::Foreign(format!(
            "it speaks version {}, this service {oldest} to {}",
            hello.version,
            protocol::VERSION
        )));
    }
    let instance = hello.instance.parse().map_err(|_| foreign("its instance is no UUID"))?;
    Ok((instance, hello.version))
}
