//! The host's connection to a machine's guest: HTTP/2 over the machine's byte stream.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::id::InstanceId;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use protocol::hello::Hello;
use protocol::index::{
    CHANGED_PATH, INDEX_PATH, IndexChanged, IndexReport, IndexRequest, REPORT_MAX_BYTES, WAIT_SECONDS,
};
use protocol::mcp::{REPLY_MAX_BYTES, ToolsReply, ToolsRequest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::contract::ByteStream;

/// The flow control window of one stream: the bytes that the guest may send before the host has read them.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// The flow control window of the connection.
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// The largest frame.
const FRAME_MAX_BYTES: u32 = 16 * 1024;
/// The longest head of a response.
const HEADERS_MAX_BYTES: u32 = 16 * 1024;
/// The send buffer of a stream.
const SEND_BUFFER_BYTES: usize = 64 * 1024;
/// The interval between pings of an idle guest, and the timeout of the response.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// The timeout of the first exchange.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of a report of documents beyond the time for which the guest waits, and of a report of changes.
const INDEX_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest hello.
const HELLO_MAX_BYTES: usize = 4096;

/// The body of a request to the guest.
pub type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// The reason why a guest could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// There is no connection, or it broke.
    #[error("connection to the guest failed: {0}")]
    Connection(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The guest did not answer in time.
    #[error("the guest did not answer in time")]
    Silent,
    /// The peer is not a guest, or speaks an unknown version.
    #[error("unknown guest: {0}")]
    Foreign(String),
}

/// A connection to a guest that has identified itself. Clones share it; it closes with the last one.
#[derive(Debug, Clone)]
pub struct GuestConnection {
    sender: SendRequest<Body>,
    instance: InstanceId,
    version: u32,
    closed: CancellationToken,
    _open: Arc<DropGuard>,
}

impl GuestConnection {
    /// Opens a connection over `stream` and asks the guest to identify itself.
    ///
    /// # Errors
    /// See [`ConnectionError`].
    pub async fn open(stream: Box<dyn ByteStream>) -> Result<Self, ConnectionError> {
        timeout(HELLO_TIMEOUT, Self::greet(stream)).await.map_err(|_| ConnectionError::Silent)?
    }

    async fn greet(stream: Box<dyn ByteStream>) -> Result<Self, ConnectionError> {
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
        // Boxed here, because the compiler cannot prove otherwise that the task below is `Send`.
        let connection: BoxFuture<'static, hyper::Result<()>> = Box::pin(connection);
        let (closed, abandoned) = (CancellationToken::new(), CancellationToken::new());
        let open = Arc::new(abandoned.clone().drop_guard());
        // The task of the connection ends with the stream, or when the last clone of the connection is dropped.
        tokio::spawn({
            let closed = closed.clone().drop_guard();
            async move {
                if let Some(Err(error)) = abandoned.run_until_cancelled(connection).await {
                    tracing::debug!(%error, "connection to a guest failed");
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
    /// [`ConnectionError::Connection`] when the connection is closed or breaks before the head of the response.
    pub async fn request(&self, request: Request<Body>) -> Result<Response<Incoming>, ConnectionError> {
        let mut sender = self.sender.clone();
        sender.ready().await.map_err(broken)?;
        sender.send_request(absolute(request)).await.map_err(broken)
    }

    /// Asks the guest for the tools of the MCP servers in the machine.
    ///
    /// # Errors
    /// See [`ConnectionError`].
    pub async fn list_tools(&self, asked: &ToolsRequest) -> Result<ToolsReply, ConnectionError> {
        let body = self.post("/tools", asked, REPLY_MAX_BYTES).await?;
        json(&body)
    }

    /// Asks the guest for the states of the workspace's documents. It answers when they differ from the seen revision, or
    /// after [`WAIT_SECONDS`].
    ///
    /// # Errors
    /// See [`ConnectionError`]; [`ConnectionError::Foreign`] of a guest without an index.
    pub async fn index_report(&self, asked: &IndexRequest) -> Result<IndexReport, ConnectionError> {
        let time = Duration::from_secs(WAIT_SECONDS) + INDEX_TIMEOUT;
        let body = timeout(time, self.post(INDEX_PATH, asked, REPORT_MAX_BYTES)).await;
        json(&body.map_err(|_| ConnectionError::Silent)??)
    }

    /// Tells the guest which files were changed.
    ///
    /// # Errors
    /// See [`ConnectionError`]; [`ConnectionError::Foreign`] of a guest without an index.
    pub async fn index_changed(&self, changed: &IndexChanged) -> Result<(), ConnectionError> {
        let done = timeout(INDEX_TIMEOUT, self.post(CHANGED_PATH, changed, 0)).await;
        done.map_err(|_| ConnectionError::Silent)?.map(drop)
    }

    async fn post(
        &self,
        path: &'static str,
        asked: &impl Serialize,
        reply_max_bytes: usize,
    ) -> Result<Bytes, ConnectionError> {
        let foreign = |error: serde_json::Error| ConnectionError::Foreign(error.to_string());
        let body = Full::new(serde_json::to_vec(asked).map_err(foreign)?.into());
        let body = body.map_err(|never| match never {}).boxed_unsync();
        let request = Request::post(path).body(body).expect("a fixed path is a request");
        let response = self.request(request).await?;
        if !response.status().is_success() {
            let status = response.status();
            return Err(ConnectionError::Foreign(format!("its reply of {path} has status {status}")));
        }
        let body = Limited::new(response.into_body(), reply_max_bytes).collect().await;
        Ok(body.map_err(ConnectionError::Connection)?.to_bytes())
    }

    /// Returns the instance of the machine at the other end.
    #[must_use]
    pub const fn instance(&self) -> InstanceId {
        self.instance
    }

    /// Returns the version of the protocol that it speaks.
    #[must_use]
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// Waits until the connection is closed. Cancel safe.
    pub async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Returns true if the connection is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }
}

fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, ConnectionError> {
    serde_json::from_slice(body).map_err(|error| ConnectionError::Foreign(error.to_string()))
}

fn broken(error: hyper::Error) -> ConnectionError {
    ConnectionError::Connection(error.into())
}

/// Adds the scheme and the authority that HTTP/2 requires; there is only one guest at the other end.
fn absolute(mut request: Request<Body>) -> Request<Body> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    if let Ok(uri) = http::Uri::builder().scheme("http").authority("guest").path_and_query(path).build() {
        *request.uri_mut() = uri;
    }
    request
}

async fn hello(sender: &mut SendRequest<Body>) -> Result<(InstanceId, u32), ConnectionError> {
    let foreign = |reason: &str| ConnectionError::Foreign(reason.to_owned());
    let mut request = Request::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
    *request.uri_mut() = http::Uri::from_static("/hello");
    sender.ready().await.map_err(broken)?;
    let response = sender.send_request(absolute(request)).await.map_err(broken)?;
    if response.status() != StatusCode::OK {
        return Err(ConnectionError::Foreign(format!("its hello has status {}", response.status())));
    }
    let body = Limited::new(response.into_body(), HELLO_MAX_BYTES)
        .collect()
        .await
        .map_err(ConnectionError::Connection)?;
    let hello: Hello =
        serde_json::from_slice(&body.to_bytes()).map_err(|_| foreign("its hello has another form"))?;
    let oldest = protocol::VERSION.saturating_sub(1).max(1);
    if !(oldest..=protocol::VERSION).contains(&hello.version) {
        return Err(ConnectionError::Foreign(format!(
            "it speaks version {}, this service {oldest} to {}",
            hello.version,
            protocol::VERSION
        )));
    }
    let instance = hello.instance.parse().map_err(|_| foreign("its instance is no UUID"))?;
    Ok((instance, hello.version))
}
