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

use crate::budget::{BudgetExceeded, BudgetShare};
use crate::limits::{REFUSED_BODY_MAX_BYTES, REFUSED_BODY_TIMEOUT};

/// The reason why a JSON body was rejected.
#[derive(Debug, thiserror::Error)]
pub enum JsonBodyError {
    /// The body is too large (413).
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// The body is not JSON, or does not have the required form (400).
    #[error("the body cannot be read: {0}")]
    Malformed(#[source] serde_json::Error),
    /// The body did not arrive in time (408).
    #[error("the body did not arrive in time")]
    TooSlow,
    /// The connection broke, so no response can be sent.
    #[error("the connection closed before the body ended")]
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
/// [`JsonBodyError`]. The connection handles the rest of the body.
pub async fn limited_json_body<T: DeserializeOwned>(
    request: Request,
    bytes_max: usize,
    within: Duration,
    held: &mut BudgetShare,
) -> Result<T, JsonBodyError> {
    let bytes = limited_body(request, bytes_max, within, held).await?;
    serde_json::from_slice(&bytes).map_err(JsonBodyError::Malformed)
}

/// Reads the body of a request as [`limited_json_body`] does, without parsing it. A byte order mark is left out.
///
/// # Errors
/// [`JsonBodyError`], except that the body is malformed.
pub async fn limited_body(
    request: Request,
    bytes_max: usize,
    within: Duration,
    held: &mut BudgetShare,
) -> Result<Bytes, JsonBodyError> {
    let is_asked_first = expects_continue(request.headers());
    let body = request.into_body();
    if body.size_hint().lower() > bytes_max as u64 {
        if !is_asked_first {
            discard_body(&mut body.into_data_stream()).await;
        }
        return Err(JsonBodyError::TooLarge(bytes_max));
    }
    let read = timeout(within, read_limited(body, bytes_max, held)).await;
    let bytes = read.map_err(|_| JsonBodyError::TooSlow)??;
    Ok(if bytes.starts_with(BYTE_ORDER_MARK) { bytes.slice(BYTE_ORDER_MARK.len()..) } else { bytes })
}

/// Returns true if the client sends its body only after an interim response.
fn expects_continue(headers: &HeaderMap) -> bool {
    headers.get(header::EXPECT).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

async fn read_limited(body: Body, bytes_max: usize, held: &mut BudgetShare) -> Result<Bytes, JsonBodyError> {
    let mut chunks = body.into_data_stream();
    let mut gathered = BytesMut::new();
    let mut only = Bytes::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(JsonBodyError::Broken)?;
        if gathered.len() + only.len() + chunk.len() > bytes_max {
            drop(chunk);
            discard_body(&mut chunks).await;
            return Err(JsonBodyError::TooLarge(bytes_max));
        }
        if let Err(spent) = held.grow_by(chunk.len() as u64) {
            drop((chunk, gathered, only));
            discard_body(&mut chunks).await;
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
pub(crate) async fn discard_body<E>(chunks: &mut (impl Stream<Item = Result<Bytes, E>> + Unpin)) {
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
    #[error("no data arrived in time")]
    Idle,
    #[error("more data arrived than the buffer holds")]
    TooMuch,
    #[error("the connection closed before the body ended")]
    Broken(#[source] axum::Error),
}

/// The bytes that may still be pulled; the parser sets it for each step.
#[derive(Debug, Clone)]
pub(crate) struct PullAllowance(Arc<AtomicU64>);

impl PullAllowance {
    pub(crate) fn set_bytes(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }
}

/// A body as a stream with an idle timeout. A parser that pulls everything it can gets one piece at a time, within
/// its allowance.
pub(crate) struct Incoming {
    chunks: BodyDataStream,
    timeout: Duration,
    idle: Pin<Box<Sleep>>,
    allowance: PullAllowance,
    gave: bool,
}

impl Incoming {
    /// Creates the stream of a body. Some data must arrive within each `timeout`.
    pub(crate) fn new(body: Body, timeout: Duration) -> Self {
        Self {
            chunks: body.into_data_stream(),
            timeout,
            idle: Box::pin(sleep(timeout)),
            allowance: PullAllowance(Arc::new(AtomicU64::new(u64::MAX))),
            gave: false,
        }
    }

    pub(crate) fn allowance(&self) -> PullAllowance {
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
                self.allowance.set_bytes(left.saturating_sub(chunk.len() as u64));
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
    use crate::holder::{BudgetBounds, BudgetHolder};
    use axum::http::HeaderValue;
    use futures_util::stream;
    use http_body::{Frame, SizeHint};

    /// Returns a share for the body of a test.
    fn test_share(bytes: u64) -> BudgetShare {
        let address = BudgetHolder::Address([192, 0, 2, 1].into());
        Budget::new(BudgetBounds { each: bytes, all: bytes }).empty_share(address)
    }

    const WITHIN: Duration = Duration::from_secs(30);

    fn chunked_request(chunks: &[&'static str]) -> Request {
        let chunks: Vec<_> = chunks.iter().map(|chunk| Ok::<_, std::io::Error>(*chunk)).collect();
        Request::new(Body::from_stream(stream::iter(chunks)))
    }

    /// A body of a declared size whose sender waits for `100 Continue` and sends nothing.
    struct DeclaredBody {
        bytes: u64,
        asked: Arc<AtomicU64>,
    }

    impl HttpBody for DeclaredBody {
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
    async fn declared_too_large_body_not_requested() {
        for (bytes, expects, times_asked) in [(9, true, 0), (9, false, 1), (8, true, 1)] {
            let asked = Arc::new(AtomicU64::new(0));
            let mut request = Request::new(Body::new(DeclaredBody { bytes, asked: asked.clone() }));
            if expects {
                request.headers_mut().insert(header::EXPECT, HeaderValue::from_static("100-Continue"));
            }
            let read = limited_json_body::<Vec<u8>>(request, 8, WITHIN, &mut test_share(9)).await;
            assert_eq!(matches!(read, Err(JsonBodyError::TooLarge(8))), bytes > 8, "{read:?}");
            assert_eq!(asked.load(Ordering::Relaxed), times_asked, "{bytes} bytes, {expects}");
        }
    }

    #[tokio::test]
    async fn limited_json_body_reads_any_chunks() {
        for request in [
            chunked_request(&["[1,2", ",3]"]),
            chunked_request(&["[1,2,3]"]),
            Request::new(Body::from(" [1,2,3]\n")),
        ] {
            assert_eq!(
                limited_json_body::<Vec<u8>>(request, 9, WITHIN, &mut test_share(9)).await.unwrap(),
                [1, 2, 3]
            );
        }
    }

    #[tokio::test]
    async fn limited_json_body_skips_bom() {
        let read =
            limited_json_body::<Vec<u8>>(chunked_request(&["\u{feff}[1,2]"]), 9, WITHIN, &mut test_share(9))
                .await;
        assert_eq!(read.unwrap(), [1, 2]);
        let twice = limited_json_body::<Vec<u8>>(
            chunked_request(&["\u{feff}\u{feff}1"]),
            9,
            WITHIN,
            &mut test_share(9),
        )
        .await;
        assert!(matches!(twice, Err(JsonBodyError::Malformed(_))));
    }

    #[tokio::test]
    async fn limited_json_body_distinguishes_rejections() {
        let read = async |request: Request| {
            limited_json_body::<Vec<u8>>(request, 8, WITHIN, &mut test_share(9)).await
        };
        assert!(matches!(read(chunked_request(&["[1,2", ",3,4]"])).await, Err(JsonBodyError::TooLarge(8))));
        assert!(matches!(read(chunked_request(&["[1,2"])).await, Err(JsonBodyError::Malformed(_))));
        assert!(matches!(read(Request::new(Body::empty())).await, Err(JsonBodyError::Malformed(_))));
        let broken = stream::iter([Ok("["), Err(std::io::Error::other("gone"))]);
        assert!(matches!(read(Request::new(Body::from_stream(broken))).await, Err(JsonBodyError::Broken(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn limited_json_body_times_out() {
        let silent = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        let read = limited_json_body::<Vec<u8>>(Request::new(silent), 8, WITHIN, &mut test_share(9)).await;
        assert!(matches!(read, Err(JsonBodyError::TooSlow)));
        let silent = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        assert!(matches!(Incoming::new(silent, WITHIN).next().await, Some(Err(IncomingError::Idle))));
    }

    #[tokio::test]
    async fn limited_json_body_respects_budget() {
        let request = || chunked_request(&["[1,", "2,", "3]"]);
        let mut share = test_share(6);
        let read = limited_json_body::<Vec<u8>>(request(), 100, WITHIN, &mut share).await;
        assert!(matches!(read, Err(JsonBodyError::Spent(BudgetExceeded::Own))), "{read:?}");
        let mut share = test_share(7);
        assert_eq!(
            limited_json_body::<Vec<u8>>(request(), 100, WITHIN, &mut share).await.unwrap(),
            [1, 2, 3]
        );
    }
}
