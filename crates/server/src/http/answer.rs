//! The response body of a connection, and its stall timeout.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::Response;
use http_common::limits::{OUTGOING_PIECE_BYTES, OUTGOING_SMALL_BYTES, OUTGOING_STREAM_PIECE_BYTES};
use http_common::{BudgetShare, HeldShares, Outgoing, ReadProgress, is_event_stream};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::rt::Executor;

use super::activity::ActiveRequest;
use super::unread;

tokio::task_local! {
    /// The state of an HTTP/2 stream.
    static STREAM: Arc<StreamState>;
}

/// The state of an HTTP/2 stream.
#[derive(Default)]
struct StreamState {
    /// The read progress of its client.
    progress: Arc<ReadProgress>,
    /// The unread rest of a body.
    unread: Mutex<Option<Incoming>>,
}

/// Has the rest of a request's body read after the response of this HTTP/2 stream. Dropped earlier, it would reset the stream,
/// and many clients then discard the response.
pub(super) fn discard_after_response(rest: Incoming) {
    // Outside of a stream it is dropped.
    let _ = STREAM.try_with(|stream| {
        *stream.unread.lock().unwrap_or_else(PoisonError::into_inner) = Some(rest);
    });
}

/// Runs the streams of HTTP/2, each until it is done or its client stalls. A connection does not poll a body
/// while the client's window is full, so a stalled client would otherwise go unnoticed.
#[derive(Clone)]
pub(super) struct Streams {
    /// The time after which a client that reads nothing is disconnected.
    pub(super) stall_timeout: Duration,
}

impl<F> Executor<F> for Streams
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let (state, timeout) = (Arc::<StreamState>::default(), self.stall_timeout);
        let watched = state.clone();
        tokio::spawn(STREAM.scope(state, async move {
            tokio::select! {
                _ = stream => {}
                // Dropping it resets the stream.
                () = watched.progress.wait_until_stalled(timeout) => return,
            }
            let rest = watched.unread.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(rest) = rest {
                // The rest of a body that is cut resets the stream.
                let _is_whole = unread::drain_body(rest).await;
            }
        }));
    }
}

/// The body of a response; its request is active until it is sent.
pub(super) struct TrackedResponseBody {
    body: Body,
    /// The read progress, over HTTP/2.
    progress: Option<Arc<ReadProgress>>,
    _under_way: ActiveRequest,
    _shares: ([Option<BudgetShare>; 2], Option<HeldShares>),
}

impl TrackedResponseBody {
    /// Sends `response` piece by piece, unless it is small or controls its own pace.
    pub(super) fn wrap_response(
        mut response: Response<Body>,
        of_request: [Option<BudgetShare>; 2],
        under_way: ActiveRequest,
        stall_timeout: Duration,
    ) -> Response<Self> {
        let shares = (of_request, response.extensions_mut().remove::<HeldShares>());
        let progress = STREAM.try_with(|stream| stream.progress.clone()).ok();
        let size = response.body().size_hint().exact();
        let as_it_is = is_event_stream(&response) || size.is_some_and(|size| size <= OUTGOING_SMALL_BYTES);
        response.map(|body| {
            let piece = if progress.is_some() { OUTGOING_STREAM_PIECE_BYTES } else { OUTGOING_PIECE_BYTES };
            let body = if as_it_is { body } else { Body::new(Outgoing::new(body, stall_timeout, piece)) };
            Self { body, progress, _under_way: under_way, _shares: shares }
        })
    }
}

impl HttpBody for TrackedResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if let Some(progress) = &self.progress {
            progress.record_poll(frame.is_ready());
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
