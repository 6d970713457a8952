//! Reads request bodies within limits of size and time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::budget::{BudgetExceeded, Share};
use crate::limits::{REFUSED_BODY_MAX_BYTES, REFUSED_BODY_TIMEOUT};

/// The reason why a JSON body was rejected.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The body is too large (413).
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// The body is not JSON, or does not have the required form (400).
    #[error("the body cannot be read: {0}")]
    Malformed(#[source] serde_json::Error),
    /// The body did not arrive in time (408).
    #[error("the body did not come in time")]
    TooSlow,
    /// The connection broke, so there is no response.
    #[error("the body broke off")]
    Broken(#[source] axum::Error),
    /// The budget for bodies is used up (429, 503).
    #[error(transparent)]
    Spent(#[from] BudgetExceeded),
}

/// The mark that editors of Windows write before a text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads the body of a request as JSON, regardless of its type: at most this many bytes, and within this time. Charges
/// the body to `held`. A client that waits for `100 Continue` is not asked for a body that it declares to be larger.
///
/// # Errors
/// [`BodyError`]. The connection handles the rest of the body.
pub async fn limited_json_body<T: DeserializeOwned>(
    request: Request,
    bytes_max: usize,
    within: Duration,
    held: &mut Share,
) -> Result<T, BodyError> {
    let is_asked_first = expects_continue(request.headers());
    let body = request.into_body();
    if body.size_hint().lower() > bytes_max as u64 {
        if !is_asked_first {
            discard(&mut body.into_data_stream()).await;
        }
        return Err(BodyError::TooLarge(bytes_max));
    }
    let read = timeout(within, limited(body, bytes_max, held)).await;
    let bytes = read.map_err(|_| BodyError::TooSlow)??;
    serde_json::from_slice(bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes))
        .map_err(BodyError::Malformed)
}

/// Returns true if the client sends its body only after an interim response.
fn expects_continue(headers: &HeaderMap) -> bool {
    headers.get(header::EXPECT).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

async fn limited(body: Body, bytes_max: usize, held: &mut Share) -> Result<Bytes, BodyError> {
    let mut chunks = body.into_data_stream();
    let mut gathered = BytesMut::new();
    let mut only = Bytes::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(BodyError::Broken)?;
        if gathered.len() + only.len() + chunk.len() > bytes_max {
            drop(chunk);
            discard(&mut chunks).await;
            return Err(BodyError::TooLarge(bytes_max));
        }
        if let Err(spent) = held.grow(chunk.len() as u64) {
            drop((chunk, gathered, only));
            discard(&mut chunks).await;
            return Err(spent.into());
        }
        // Most bodies consist of one piece, which is not copied.
        if only.is_empty() && gathered.is_empty() {
            only = chunk;
        } else {
            gathered.extend_from_slice(&std::mem::take(&mut only));
            gathered.extend_from_slice(&chunk);
        }
    }
    Ok(if gathered.is_empty() { only } else { gathered.freeze() })
}

/// Reads and discards a limited part of the body, so that a client that is still sending can read the rejection, and
/// the connection can be reused.
pub(crate) async fn discard<E>(chunks: &mut (impl Stream<Item = Result<Bytes, E>> + Unpin)) {
    let _ = timeout(REFUSED_BODY_TIMEOUT, async {
        let mut left = REFUSED_BODY_MAX_BYTES;
        while let Some(Ok(chunk)) = chunks.next().await {
            match left.checked_sub(chunk.len()) {
                Some(less) => left = less,
                None => return,
            }
        }
    })
    .await;
}

/// The reason why a streamed body ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IncomingError {
    #[error("nothing came for too long")]
    Idle,
    #[error("more came than was to be held")]
    TooMuch,
    #[error("the body broke off")]
    Broken(#[source] axum::Error),
}

/// The bytes that may still be pulled; the parser sets it for each step.
#[derive(Debug, Clone)]
pub(crate) struct Allowance(Arc<AtomicU64>);

impl Allowance {
    pub(crate) fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }
}

/// A body as a stream with an idle timeout. A parser that pulls everything it can gets one piece at a time, within
/// its allowance.
pub(crate) struct Incoming {
    chunks: BodyDataStream,
    timeout: Duration,
    idle: Pin<Box<Sleep>>,
    allowance: Allowance,
    gave: bool,
}

impl Incoming {
    /// Creates the stream of a body, of which some data must arrive within each `timeout`.
    pub(crate) fn new(body: Body, timeout: Duration) -> Self {
        Self {
            chunks: body.into_data_stream(),
            timeout,
            idle: Box::pin(sleep(timeout)),
            allowance: Allowance(Arc::new(AtomicU64::new(u64::MAX))),
            gave: false,
        }
    }

    pub(crate) fn allowance(&self) -> Allowance {
        self.allowance.clone()
    }
}

impl Stream for Incoming {
    type Item = Result<Bytes, IncomingError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if std::mem::take(&mut self.gave) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let left = self.allowance.0.load(Ordering::Relaxed);
        if left == 0 {
            return Poll::Ready(Some(Err(IncomingError::TooMuch)));
        }
        match self.chunks.poll_next_unpin(context) {
            Poll::Ready(Some(Ok(chunk))) => {
                self.gave = true;
                self.allowance.set(left.saturating_sub(chunk.len() as u64));
                let until = Instant::now() + self.timeout;
                self.idle.as_mut().reset(until);
                Poll::Ready(Some(Ok(chunk)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(IncomingError::Broken(error)))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => self.idle.as_mut().poll(context).map(|()| Some(Err(IncomingError::Idle))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::holder::{Bounds, Holder};
    use axum::http::HeaderValue;
    use futures_util::stream;
    use http_body::{Frame, SizeHint};

    /// Returns a share for the body of a test.
    fn held(bytes: u64) -> Share {
        let address = Holder::Address([192, 0, 2, 1].into());
        Budget::new(Bounds { each: bytes, all: bytes }).empty_share(address)
    }

    const WITHIN: Duration = Duration::from_secs(30);

    fn chunked(chunks: &[&'static str]) -> Request {
        let chunks: Vec<_> = chunks.iter().map(|chunk| Ok::<_, std::io::Error>(*chunk)).collect();
        Request::new(Body::from_stream(stream::iter(chunks)))
    }

    /// A body of a declared size, of which a sender that waits to be asked sends nothing.
    struct Declared {
        bytes: u64,
        asked: Arc<AtomicU64>,
    }

    impl HttpBody for Declared {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            Poll::Ready(None)
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.bytes)
        }
    }

    #[tokio::test]
    async fn a_body_that_is_declared_too_large_is_not_asked_for() {
        for (bytes, expects, times_asked) in [(9, true, 0), (9, false, 1), (8, true, 1)] {
            let asked = Arc::new(AtomicU64::new(0));
            let mut request = Request::new(Body::new(Declared { bytes, asked: asked.clone() }));
            if expects {
                request.headers_mut().insert(header::EXPECT, HeaderValue::from_static("100-Continue"));
            }
            let read = limited_json_body::<Vec<u8>>(request, 8, WITHIN, &mut held(9)).await;
            assert_eq!(matches!(read, Err(BodyError::TooLarge(8))), bytes > 8, "{read:?}");
            assert_eq!(asked.load(Ordering::Relaxed), times_asked, "{bytes} bytes, {expects}");
        }
    }

    #[tokio::test]
    async fn json_is_read_however_it_is_cut() {
        for request in
            [chunked(&["[1,2", ",3]"]), chunked(&["[1,2,3]"]), Request::new(Body::from(" [1,2,3]\n"))]
        {
            assert_eq!(
                limited_json_body::<Vec<u8>>(request, 9, WITHIN, &mut held(9)).await.unwrap(),
                [1, 2, 3]
            );
        }
    }

    #[tokio::test]
    async fn json_behind_a_byte_order_mark_is_read() {
        let read = limited_json_body::<Vec<u8>>(chunked(&["\u{feff}[1,2]"]), 9, WITHIN, &mut held(9)).await;
        assert_eq!(read.unwrap(), [1, 2]);
        let twice =
            limited_json_body::<Vec<u8>>(chunked(&["\u{feff}\u{feff}1"]), 9, WITHIN, &mut held(9)).await;
        assert!(matches!(twice, Err(BodyError::Malformed(_))));
    }

    #[tokio::test]
    async fn what_is_too_large_or_malformed_is_told_apart() {
        let read =
            async |request: Request| limited_json_body::<Vec<u8>>(request, 8, WITHIN, &mut held(9)).await;
        assert!(matches!(read(chunked(&["[1,2", ",3,4]"])).await, Err(BodyError::TooLarge(8))));
        assert!(matches!(read(chunked(&["[1,2"])).await, Err(BodyError::Malformed(_))));
        assert!(matches!(read(Request::new(Body::empty())).await, Err(BodyError::Malformed(_))));
        let broken = stream::iter([Ok("["), Err(std::io::Error::other("gone"))]);
        assert!(matches!(read(Request::new(Body::from_stream(broken))).await, Err(BodyError::Broken(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_comes_is_given_up() {
        let silent = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        let read = limited_json_body::<Vec<u8>>(Request::new(silent), 8, WITHIN, &mut held(9)).await;
        assert!(matches!(read, Err(BodyError::TooSlow)));
        let silent = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        assert!(matches!(Incoming::new(silent, WITHIN).next().await, Some(Err(IncomingError::Idle))));
    }

    #[tokio::test]
    async fn no_more_is_held_than_there_is_room_for() {
        let request = || chunked(&["[1,", "2,", "3]"]);
        let mut share = held(6);
        let read = limited_json_body::<Vec<u8>>(request(), 100, WITHIN, &mut share).await;
        assert!(matches!(read, Err(BodyError::Spent(BudgetExceeded::Own))), "{read:?}");
        let mut share = held(7);
        assert_eq!(
            limited_json_body::<Vec<u8>>(request(), 100, WITHIN, &mut share).await.unwrap(),
            [1, 2, 3]
        );
    }
}
