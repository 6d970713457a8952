//! The host's connection to a machine's guest: HTTP/2 over the machine's byte stream.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::id::InstanceId;
use domain::image::ImageKind;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use protocol::embedding::{
    EMBEDDED_PATH, EMBEDDED_TEXT_MAX_BYTES, EmbeddedPassages, EmbeddedReply, PASSAGES_MAX_BYTES, QUERY_PATH,
    QueryVector, UNEMBEDDED_PATH, Unembedded, UnembeddedRequest,
};
use protocol::hello::Hello;
use protocol::index::{
    CHANGED_PATH, INDEX_PATH, IndexChanged, IndexReport, IndexRequest, REPORT_MAX_BYTES, WAIT_SECONDS,
};
use protocol::mcp::{REPLY_MAX_BYTES, ToolsReply, ToolsRequest};
use protocol::preview::{
    DocumentPreview, PAGE_PATH, PICTURE_MAX_BYTES, PICTURE_PIXELS_MAX, PICTURE_SIDE_MAX, PREVIEW_MAX_BYTES,
    PREVIEW_PATH, PageRequest, PreviewRequest,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::contract::ByteStream;

/// The flow control window of one stream: the bytes that the guest may send before the host has read them.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// The flow control window of the connection.
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
const FRAME_MAX_BYTES: u32 = 16 * 1024;
/// The longest head of a response.
const HEADERS_MAX_BYTES: u32 = 16 * 1024;
/// The send buffer of a stream.
const SEND_BUFFER_BYTES: usize = 64 * 1024;
/// The interval between pings of an idle guest, and the timeout of the response. A kernel on an emulated processor whose
/// memory is used up takes half a minute, a whole minute on a busy host, until it kills a process; meanwhile nothing
/// answers.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(120);
/// The timeout of the first exchange.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of a report of documents beyond the time for which the guest waits, and of a report of changes.
const INDEX_TIMEOUT: Duration = Duration::from_secs(20);
/// The timeout of a preview: above the timeout of the guest's worker.
const PREVIEW_TIMEOUT: Duration = Duration::from_secs(15);
/// The longest reply to vectors of passages.
const EMBEDDED_REPLY_MAX_BYTES: usize = 1024;
const HELLO_MAX_BYTES: usize = 4096;

/// The body of a request to the guest.
pub type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// The reason why a guest could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum GuestConnectionError {
    /// The connection is missing or broke.
    #[error("connection to the guest failed: {0}")]
    Connection(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The guest did not answer in time.
    #[error("the guest did not answer in time")]
    Silent,
    /// The peer is not a guest, or speaks an unknown version.
    #[error("unusable guest: {0}")]
    Foreign(String),
    /// The guest does not support the request: it is of an earlier release, or has no index.
    #[error("the guest does not support {0}")]
    Unsupported(&'static str),
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
    /// See [`GuestConnectionError`].
    pub async fn connect_over_stream(stream: Box<dyn ByteStream>) -> Result<Self, GuestConnectionError> {
        timeout(HELLO_TIMEOUT, Self::open_http2(stream)).await.map_err(|_| GuestConnectionError::Silent)?
    }

    async fn open_http2(stream: Box<dyn ByteStream>) -> Result<Self, GuestConnectionError> {
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
            .map_err(connection_error)?;
        // Boxed here, because the compiler otherwise cannot prove that the task below is `Send`.
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
        let (instance, version) = request_hello(&mut sender).await?;
        Ok(Self { sender, instance, version, closed, _open: open })
    }

    /// Sends a request. The URI needs a path only.
    ///
    /// # Errors
    /// [`GuestConnectionError::SimulatedConnection`] when the connection is closed or breaks before the head of the response.
    pub async fn send_request(
        &self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, GuestConnectionError> {
        let mut sender = self.sender.clone();
        sender.ready().await.map_err(connection_error)?;
        sender.send_request(with_absolute_uri(request)).await.map_err(connection_error)
    }

    /// Asks the guest for the tools of the MCP servers in the machine.
    ///
    /// # Errors
    /// See [`GuestConnectionError`].
    pub async fn list_tools(&self, asked: &ToolsRequest) -> Result<ToolsReply, GuestConnectionError> {
        let body = self.post_json("/tools", asked, REPLY_MAX_BYTES).await?;
        parse_json(&body)
    }

    /// Asks the guest for the states of the workspace's documents. It answers when they differ from the seen revision, or
    /// after [`WAIT_SECONDS`].
    ///
    /// # Errors
    /// See [`GuestConnectionError`]; [`GuestConnectionError::Unsupported`] for a guest without an index.
    pub async fn index_report(&self, asked: &IndexRequest) -> Result<IndexReport, GuestConnectionError> {
        let time = Duration::from_secs(WAIT_SECONDS) + INDEX_TIMEOUT;
        let body = timeout(time, self.post_json(INDEX_PATH, asked, REPORT_MAX_BYTES)).await;
        parse_json(&body.map_err(|_| GuestConnectionError::Silent)??)
    }

    /// Notifies the guest of changed files.
    ///
    /// # Errors
    /// See [`GuestConnectionError`]; [`GuestConnectionError::Unsupported`] for a guest without an index.
    pub async fn index_changed(&self, changed: &IndexChanged) -> Result<(), GuestConnectionError> {
        let done = timeout(INDEX_TIMEOUT, self.post_json(CHANGED_PATH, changed, 0)).await;
        done.map_err(|_| GuestConnectionError::Silent)?.map(drop)
    }

    /// Asks the guest for passages without a vector of this model.
    ///
    /// # Errors
    /// See [`GuestConnectionError`]; [`GuestConnectionError::Unsupported`] for a guest that keeps no vectors,
    /// [`GuestConnectionError::Foreign`] for a reply beyond the limits of [`protocol::embedding`].
    pub async fn list_unembedded(
        &self,
        asked: &UnembeddedRequest,
    ) -> Result<Unembedded, GuestConnectionError> {
        let body = timeout(INDEX_TIMEOUT, self.post_json(UNEMBEDDED_PATH, asked, PASSAGES_MAX_BYTES)).await;
        let reply: Unembedded = parse_json(&body.map_err(|_| GuestConnectionError::Silent)??)?;
        let ids = std::iter::once(asked.after).chain(reply.passages.iter().map(|passage| passage.id));
        let fits = reply.passages.len() <= asked.limit as usize
            && reply
                .passages
                .iter()
                .all(|passage| (1..=EMBEDDED_TEXT_MAX_BYTES).contains(&passage.text.len()))
            && ids.is_sorted_by(|one, next| one < next);
        if fits {
            Ok(reply)
        } else {
            Err(GuestConnectionError::Foreign("its passages are out of bounds".to_owned()))
        }
    }

    /// Sends vectors of passages to the guest, and returns the number that it stored.
    ///
    /// # Errors
    /// Like [`Self::list_unembedded`].
    pub async fn store_embeddings(
        &self,
        vectors: &EmbeddedPassages,
    ) -> Result<EmbeddedReply, GuestConnectionError> {
        let body =
            timeout(INDEX_TIMEOUT, self.post_json(EMBEDDED_PATH, vectors, EMBEDDED_REPLY_MAX_BYTES)).await;
        parse_json(&body.map_err(|_| GuestConnectionError::Silent)??)
    }

    /// Sends the vector of a query to the guest, for later searches.
    ///
    /// # Errors
    /// Like [`Self::list_unembedded`].
    pub async fn query_vector(&self, vector: &QueryVector) -> Result<(), GuestConnectionError> {
        let done = timeout(INDEX_TIMEOUT, self.post_json(QUERY_PATH, vector, 0)).await;
        done.map_err(|_| GuestConnectionError::Silent)?.map(drop)
    }

    /// Requests the text of a document from the guest.
    ///
    /// # Errors
    /// See [`GuestConnectionError`]; [`GuestConnectionError::Unsupported`] for a guest that shows no documents,
    /// [`GuestConnectionError::Foreign`] for a reply beyond the limits of [`protocol::preview`].
    pub async fn request_preview(
        &self,
        asked: &PreviewRequest,
    ) -> Result<DocumentPreview, GuestConnectionError> {
        let body = timeout(PREVIEW_TIMEOUT, self.post_json(PREVIEW_PATH, asked, PREVIEW_MAX_BYTES)).await;
        let reply: DocumentPreview = parse_json(&body.map_err(|_| GuestConnectionError::Silent)??)?;
        if reply.is_within_limits(asked.first_page) {
            Ok(reply)
        } else {
            Err(GuestConnectionError::Foreign("its preview is out of bounds".to_owned()))
        }
    }

    /// Asks the guest for a picture of a page: a PNG or JPEG within the limits of [`protocol::preview`].
    ///
    /// # Errors
    /// See [`GuestConnectionError`]; [`GuestConnectionError::Foreign`] if the page cannot be drawn, and for anything else.
    pub async fn page_picture(&self, asked: &PageRequest) -> Result<Bytes, GuestConnectionError> {
        let body = timeout(PREVIEW_TIMEOUT, self.post_json(PAGE_PATH, asked, PICTURE_MAX_BYTES)).await;
        let picture = body.map_err(|_| GuestConnectionError::Silent)??;
        if is_picture(&picture) {
            Ok(picture)
        } else {
            Err(GuestConnectionError::Foreign(
                "its picture is not a PNG or JPEG within the limits".to_owned(),
            ))
        }
    }

    async fn post_json(
        &self,
        path: &'static str,
        asked: &impl Serialize,
        reply_max_bytes: usize,
    ) -> Result<Bytes, GuestConnectionError> {
        let foreign = |error: serde_json::Error| GuestConnectionError::Foreign(error.to_string());
        let body = Full::new(serde_json::to_vec(asked).map_err(foreign)?.into());
        let body = body.map_err(|never| match never {}).boxed_unsync();
        let request = Request::post(path).body(body).expect("a fixed path is a request");
        let response = self.send_request(request).await?;
        if response.status() == StatusCode::NOT_FOUND {
            return Err(GuestConnectionError::Unsupported(path));
        }
        if !response.status().is_success() {
            let status = response.status();
            return Err(GuestConnectionError::Foreign(format!("its reply of {path} has status {status}")));
        }
        let body = Limited::new(response.into_body(), reply_max_bytes).collect().await;
        Ok(body.map_err(GuestConnectionError::Connection)?.to_bytes())
    }

    /// Returns the instance of the machine at the other end.
    #[must_use]
    pub const fn instance(&self) -> InstanceId {
        self.instance
    }

    /// Returns the version of the protocol that it speaks.
    #[must_use]
    pub const fn protocol_version(&self) -> u32 {
        self.version
    }

    /// Waits until the connection is closed. Cancel safe.
    pub async fn wait_until_closed(&self) {
        self.closed.cancelled().await;
    }

    /// Returns true if the connection is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }
}

/// Returns true for a PNG or JPEG whose header has sides within the limits.
fn is_picture(picture: &[u8]) -> bool {
    let kind = ImageKind::from_bytes(picture).filter(|kind| matches!(kind, ImageKind::Png | ImageKind::Jpeg));
    let sides = kind.and_then(|kind| kind.dimensions(picture));
    sides.is_some_and(|(width, height)| {
        let is_side = |side: u32| (1..=PICTURE_SIDE_MAX).contains(&side);
        is_side(width) && is_side(height) && u64::from(width) * u64::from(height) <= PICTURE_PIXELS_MAX
    })
}

fn parse_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, GuestConnectionError> {
    serde_json::from_slice(body).map_err(|error| GuestConnectionError::Foreign(error.to_string()))
}

fn connection_error(error: hyper::Error) -> GuestConnectionError {
    GuestConnectionError::Connection(error.into())
}

/// Adds the scheme and the authority that HTTP/2 requires; there is only one guest at the other end.
fn with_absolute_uri(mut request: Request<Body>) -> Request<Body> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    if let Ok(uri) = http::Uri::builder().scheme("http").authority("guest").path_and_query(path).build() {
        *request.uri_mut() = uri;
    }
    request
}

async fn request_hello(sender: &mut SendRequest<Body>) -> Result<(InstanceId, u32), GuestConnectionError> {
    let foreign = |reason: &str| GuestConnectionError::Foreign(reason.to_owned());
    let mut request = Request::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
    *request.uri_mut() = http::Uri::from_static("/hello");
    sender.ready().await.map_err(connection_error)?;
    let response = sender.send_request(with_absolute_uri(request)).await.map_err(connection_error)?;
    if response.status() != StatusCode::OK {
        return Err(GuestConnectionError::Foreign(format!("its hello has status {}", response.status())));
    }
    let body = Limited::new(response.into_body(), HELLO_MAX_BYTES)
        .collect()
        .await
        .map_err(GuestConnectionError::Connection)?;
    let hello: Hello =
        serde_json::from_slice(&body.to_bytes()).map_err(|_| foreign("its hello is malformed"))?;
    let oldest = protocol::VERSION.saturating_sub(1).max(1);
    if !(oldest..=protocol::VERSION).contains(&hello.version) {
        return Err(GuestConnectionError::Foreign(format!(
            "it speaks version {}, this service {oldest} to {}",
            hello.version,
            protocol::VERSION
        )));
    }
    let instance = hello.instance.parse().map_err(|_| foreign("its instance is not a UUID"))?;
    Ok((instance, hello.version))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The beginning of a PNG with these sides.
    fn png_header(width: u32, height: u32) -> Vec<u8> {
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        png.extend(width.to_be_bytes());
        png.extend(height.to_be_bytes());
        png.extend([8, 6, 0, 0, 0]);
        png
    }

    #[test]
    fn is_picture_accepts_bounded_png_jpeg() {
        assert!(is_picture(&png_header(1240, 1754)));
        assert!(is_picture(b"\xff\xd8\xff\xc0\0\x0b\x08\x06\xda\x04\xd8\x03"));
        assert!(!is_picture(b"\xff\xd8\xff\xc0\0\x0b\x08\xff\xff\x04\xd8\x03"), "too high");
        for wrong in [
            png_header(0, 1),
            png_header(PICTURE_SIDE_MAX + 1, 1),
            png_header(5000, 5000),
            png_header(1, 1)[..12].to_vec(),
        ] {
            assert!(!is_picture(&wrong));
        }
        for wrong in [&b"<svg onload=alert(1)>"[..], b"\xff\xd8\xff\xe0", b"GIF89a\x01\0\x01\0", b""] {
            assert!(!is_picture(wrong));
        }
    }
}
