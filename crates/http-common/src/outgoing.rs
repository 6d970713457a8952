//! Response bodies: passed on piece by piece, each once the earlier ones were sent, and aborted when the
//! client stalls.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Extensions, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use tokio::time::{Instant, sleep_until};

use crate::budget::{BudgetExceeded, BudgetShare, Budgets};
use crate::events::BoxError;
use crate::flow_control::{BodyAborted, FlowControl};
use crate::holder::BudgetHolder;
use crate::limits::{OUTGOING_IN_FLIGHT_BYTES, OUTGOING_SMALL_BYTES};

/// Marks a response whose body is generated while it is sent or shared by all its readers. Only its data in
/// flight is counted, not its size.
#[derive(Debug, Clone, Copy)]
pub struct StreamedBody;

/// Shares of budgets that a response holds until it is sent.
#[derive(Debug, Clone, Default)]
pub struct HeldShares(Arc<Mutex<Vec<BudgetShare>>>);

impl HeldShares {
    /// Adds a share to these extensions.
    pub fn hold_share(extensions: &mut Extensions, share: BudgetShare) {
        let shares = extensions.get_or_insert_default::<Self>();
        shares.0.lock().unwrap_or_else(PoisonError::into_inner).push(share);
    }
}

/// Reserves the memory of a response to `holder` in the budget of bodies. The response to a change is always
/// allowed.
///
/// # Errors
/// [`BudgetExceeded`]; the response must not be sent.
pub fn account_for(
    response: &mut Response,
    budgets: &Budgets,
    holder: BudgetHolder,
    owed: bool,
) -> Result<(), BudgetExceeded> {
    let bodiless = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED];
    let size = response.body().size_hint().exact();
    if crate::is_event_stream(response)
        || bodiless.contains(&response.status())
        || size.is_some_and(|size| size <= OUTGOING_SMALL_BYTES)
    {
        return Ok(());
    }
    let in_flight = OUTGOING_IN_FLIGHT_BYTES as u64;
    let amount = match response.extensions().get::<StreamedBody>() {
        Some(StreamedBody) => size.unwrap_or(in_flight).min(in_flight),
        None => size.unwrap_or(in_flight),
    };
    let budget = match holder {
        BudgetHolder::Account(_) => &budgets.body_bytes,
        BudgetHolder::Address(_) => &budgets.stranger_bytes,
    };
    let share =
        if owed { budget.take_unchecked(holder, amount) } else { budget.take_share(holder, amount)? };
    HeldShares::hold_share(response.extensions_mut(), share);
    Ok(())
}

/// Detects whether a client takes the data that its connection holds, for connections that do not poll on.
#[derive(Debug)]
pub struct ReadProgress {
    began: Instant,
    /// The time of the last poll, in milliseconds since the body began.
    moved: AtomicU64,
    /// Set while the client is being waited for.
    waiting: AtomicBool,
}

impl Default for ReadProgress {
    fn default() -> Self {
        Self { began: Instant::now(), moved: AtomicU64::new(0), waiting: AtomicBool::new(false) }
    }
}

impl ReadProgress {
    /// Records a poll of the body; `waiting` if it returned data, which the client must take next.
    pub fn record_poll(&self, waiting: bool) {
        let since = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved.store(since, Ordering::Relaxed);
        self.waiting.store(waiting, Ordering::Relaxed);
    }

    /// Ready when the client has taken nothing for `timeout`.
    pub async fn wait_until_stalled(&self, timeout: Duration) {
        loop {
            let moved = Duration::from_millis(self.moved.load(Ordering::Relaxed));
            let waited = Instant::now().saturating_duration_since(self.began + moved);
            let left =
                if self.waiting.load(Ordering::Relaxed) { timeout.saturating_sub(waited) } else { timeout };
            if left.is_zero() {
                return;
            }
            sleep_until(Instant::now() + left).await;
        }
    }
}

/// A body that is passed on in small pieces, each once the earlier ones were sent. It fails when its client
/// stalls, and ends when all of it is sent.
pub struct Outgoing {
    /// `None` once it has ended.
    body: Option<Body>,
    size: SizeHint,
    rest: Bytes,
    piece_bytes: usize,
    flow_control: FlowControl,
}

impl Outgoing {
    /// Passes on `body` in pieces of `piece_bytes`, with this timeout for a stalled client.
    #[must_use]
    pub fn new(body: Body, timeout: Duration, piece_bytes: usize) -> Self {
        let size = body.size_hint();
        let flow_control = FlowControl::new(timeout, OUTGOING_IN_FLIGHT_BYTES);
        Self { body: Some(body), size, rest: Bytes::new(), piece_bytes, flow_control }
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Frame<Bytes>>, BoxError>> {
        loop {
            if !self.rest.is_empty() {
                ready!(self.flow_control.poll_room(context))?;
                let length = self.rest.len().min(self.piece_bytes);
                let piece = self.rest.split_to(length);
                return Poll::Ready(Ok(Some(Frame::data(self.flow_control.wrap_piece(piece)))));
            }
            let Some(body) = &mut self.body else {
                // The body stays open until all of it is sent.
                ready!(self.flow_control.poll_sent(context))?;
                return Poll::Ready(Ok(None));
            };
            // Waits for room before more data is generated.
            ready!(self.flow_control.poll_room(context))?;
            match ready!(Pin::new(body).poll_frame(context)) {
                None => self.body = None,
                Some(frame) => match frame?.into_data() {
                    Ok(data) => self.rest = data,
                    Err(frame) => return Poll::Ready(Ok(Some(frame))),
                },
            }
        }
    }
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let piece = ready!(self.poll_piece(context));
        if piece.is_err() {
            (self.body, self.rest) = (None, Bytes::new());
        }
        Poll::Ready(piece.transpose())
    }

    fn is_end_stream(&self) -> bool {
        false
    }

    fn size_hint(&self) -> SizeHint {
        self.size
    }
}

/// A body that is aborted by an event, which is checked before each piece.
pub struct Until {
    body: Body,
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Until {
    /// Creates a body that is aborted when `end` completes.
    #[must_use]
    pub fn new(body: Body, end: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { body, end: Box::pin(end) }
    }
}

impl http_body::Body for Until {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.end.as_mut().poll(context).is_ready() {
            self.body = Body::empty();
            self.end = Box::pin(std::future::ready(()));
            return Poll::Ready(Some(Err(BodyAborted.into())));
        }
        Pin::new(&mut self.body).poll_frame(context).map(|frame| frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use futures_util::FutureExt;
    use http_body_util::BodyExt;

    const TIMEOUT: Duration = Duration::from_secs(60);
    const PIECE: usize = 16 << 10;

    #[tokio::test(start_paused = true)]
    async fn outgoing_bounds_data_disconnects_stalled() {
        let whole: Bytes = vec![7; 1 << 20].into();
        let mut body = Outgoing::new(Body::from(whole.clone()), TIMEOUT, PIECE);
        assert_eq!(http_body::Body::size_hint(&body).exact(), Some(1 << 20));
        let mut taken = BytesMut::new();
        let mut held = Vec::new();
        while let Some(frame) = body.frame().now_or_never() {
            held.push(frame.expect("more").expect("no error").into_data().expect("data"));
        }
        let in_flight: usize = held.iter().map(Bytes::len).sum();
        assert_eq!(in_flight, OUTGOING_IN_FLIGHT_BYTES);
        held.drain(..).for_each(|piece| taken.extend_from_slice(&piece));
        while taken.len() < whole.len() {
            let piece = body.frame().await.expect("more").expect("no error").into_data().expect("data");
            assert!(piece.len() <= PIECE);
            taken.extend_from_slice(&piece);
        }
        assert_eq!(taken, whole);
        assert!(body.frame().await.is_none());

        let mut body = Outgoing::new(Body::from(whole), TIMEOUT, PIECE);
        let began = Instant::now();
        let mut held = Vec::new();
        let failed = loop {
            match body.frame().await.expect("it does not end") {
                Ok(frame) => held.push(frame),
                Err(error) => break error,
            }
        };
        assert!(failed.downcast_ref::<crate::Stalled>().is_some(), "{failed}");
        assert_eq!(began.elapsed(), TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn read_progress_waits_only_with_data() {
        let progress = ReadProgress::default();
        assert!(progress.wait_until_stalled(TIMEOUT).now_or_never().is_none());
        progress.record_poll(false);
        assert!(
            tokio::time::timeout(10 * TIMEOUT, progress.wait_until_stalled(TIMEOUT)).await.is_err(),
            "it has nothing"
        );
        progress.record_poll(true);
        let began = Instant::now();
        progress.wait_until_stalled(TIMEOUT).await;
        assert_eq!(began.elapsed(), TIMEOUT);
    }

    #[tokio::test]
    async fn outgoing_body_aborts_on_end() {
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let (send, pieces) = tokio::sync::mpsc::channel::<Result<Bytes, BoxError>>(1);
        let pieces =
            futures_util::stream::unfold(pieces, async |mut pieces| Some((pieces.recv().await?, pieces)));
        let mut body = Until::new(Body::from_stream(pieces), async { drop(ended.await) });
        send.send(Ok(Bytes::from_static(b"a"))).await.expect("it is read");
        assert!(body.frame().await.expect("a frame").is_ok());
        assert!(body.frame().now_or_never().is_none());
        end.send(()).expect("it is waited for");
        assert!(body.frame().await.expect("a frame").is_err());
        assert!(body.frame().await.is_none_or(|frame| frame.is_err()));
    }
}
