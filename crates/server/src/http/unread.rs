//! Request bodies that the handler does not read to the end, because the request was refused or needs no body.
//!
//! A client that writes its whole request before it reads would get a reset instead of the response if the
//! connection were closed early. So its remaining data is read and dropped, for a bounded time and amount,
//! while the response is sent.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::http::{HeaderMap, header};
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// The maximum number of bytes of a request that are read after its response.
const UNREAD_MAX_BYTES: usize = 256 << 20;
/// The time for which they are read.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The time without data after which no more is expected.
const UNREAD_IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum number of clients whose remaining data is read at once; each holds a buffer of its connection.
/// Further clients are cut off.
static UNREAD_AT_ONCE: Semaphore = Semaphore::const_new(32);
/// The size of the buffer for data that is dropped after an unreadable head.
const DROPPED_AT_ONCE_BYTES: usize = 16 << 10;

/// The body of a request. If its reader drops it before its end, the rest goes to the connection.
pub(super) struct RequestBody {
    /// `None` once it has ended.
    body: Option<Incoming>,
    rest: Option<Arc<UnreadBody>>,
    /// True while a client waits for `100 Continue` that was not sent: then it sends nothing.
    is_unasked: bool,
}

/// The rest of a request's body.
#[derive(Default)]
pub(super) struct UnreadBody(Mutex<Option<Incoming>>);

impl UnreadBody {
    /// Takes the rest of the body, if its reader has dropped it.
    pub(super) fn take_rest(&self) -> Option<Incoming> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl RequestBody {
    /// Returns the body for its reader, and a handle of its rest unless it is empty.
    pub(super) fn lend_body(body: Incoming, headers: &HeaderMap) -> (Self, Option<Arc<UnreadBody>>) {
        if body.is_end_stream() {
            return (Self { body: Some(body), rest: None, is_unasked: false }, None);
        }
        let rest = Arc::<UnreadBody>::default();
        let expected = headers.get(header::EXPECT);
        let is_unasked = expected.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
        (Self { body: Some(body), rest: Some(rest.clone()), is_unasked }, Some(rest))
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let (Some(body), Some(rest)) = (self.body.take(), &self.rest)
            && !self.is_unasked
            && !body.is_end_stream()
        {
            *rest.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
        }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.is_unasked = false;
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

/// Reads and drops the rest of a body, within the bounds. Returns false if it was cut there.
pub(super) async fn drain_body(mut body: Incoming) -> bool {
    let Ok(_place) = UNREAD_AT_ONCE.try_acquire() else { return false };
    let mut left = UNREAD_MAX_BYTES;
    let reading = async {
        loop {
            let next = poll_fn(|context| Pin::new(&mut body).poll_frame(context));
            let Ok(next) = timeout(UNREAD_IDLE_TIMEOUT, next).await else { return false };
            let Some(Ok(frame)) = next else { return true };
            match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
                Some(less) => left = less,
                None => return false,
            }
        }
    };
    // Later data meets a closed connection or stream.
    timeout(UNREAD_TIMEOUT, reading).await.unwrap_or(false)
}

/// Ends a connection whose client may still send: closes the sending side, then reads and drops within the bounds.
pub(super) async fn close_gently<C: AsyncRead + AsyncWrite + Unpin>(mut connection: C) {
    let _ = timeout(UNREAD_IDLE_TIMEOUT, connection.shutdown()).await;
    let Ok(_place) = UNREAD_AT_ONCE.try_acquire() else { return };
    let mut left = UNREAD_MAX_BYTES;
    let reading = async {
        let mut dropped = vec![0; DROPPED_AT_ONCE_BYTES];
        loop {
            match timeout(UNREAD_IDLE_TIMEOUT, connection.read(&mut dropped)).await {
                Ok(Ok(read)) if read > 0 && read <= left => left -= read,
                _ => return,
            }
        }
    };
    let _ = timeout(UNREAD_TIMEOUT, reading).await;
}
