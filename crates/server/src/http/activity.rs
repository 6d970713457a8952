//! The activity of a connection, shared by the tasks that serve it.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use hyper::body::Incoming;

use super::connection::HandoverStream;
use super::idle::IdleClock;
use super::unread;

/// Reads and discards the rest of a request that was already answered.
type Discard = Pin<Box<dyn Future<Output = bool> + Send>>;

/// The activity of a connection.
#[derive(Default)]
pub(super) struct ConnectionActivity {
    /// The number of requests that have begun.
    pub(super) begun: AtomicU64,
    /// The number of requests with unfinished responses.
    pub(super) under_way: AtomicUsize,
    /// An event stream that is to take over the connection.
    stream: Mutex<Option<HandoverStream>>,
    /// True while bytes of an earlier response wait to be written.
    pub(super) clogged: AtomicBool,
    /// True once a head has arrived with more lines than the connection is configured for.
    pub(super) crowded: AtomicBool,
    /// True once the HTTP library has refused a head; no more data is read then.
    pub(super) is_refused: AtomicBool,
    /// The unread rest of a body, over HTTP/1.1.
    unread: Mutex<Option<Discard>>,
    /// The time since which the connection waits for a request.
    pub(super) idle: Arc<IdleClock>,
}

impl ConnectionActivity {
    pub(super) fn with_idle_clock(idle: Arc<IdleClock>) -> Self {
        Self { idle, ..Self::default() }
    }

    /// Has the rest of an answered request read. It counts as active until its end.
    pub(super) fn discard_rest(&self, rest: Incoming) {
        self.begin_request();
        let discard: Discard = Box::pin(unread::drain_body(rest));
        let earlier = self.unread.lock().unwrap_or_else(PoisonError::into_inner).replace(discard);
        // The previous body was read to its end, otherwise this request could not have been read.
        if earlier.is_some() {
            self.end_request();
        }
    }

    /// Reads the rest of an answered request. A body that exceeds the bounds stays active, so that its bytes
    /// are not parsed as a head.
    pub(super) fn poll_discard(&self, context: &mut Context<'_>) {
        let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        let polled = unread.as_mut().map_or(Poll::Pending, |discard| discard.as_mut().poll(context));
        if let Poll::Ready(is_whole) = polled {
            *unread = None;
            if is_whole {
                self.end_request();
            }
        }
    }

    fn begin_request(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        self.idle.mark_busy();
    }

    fn end_request(&self) {
        if self.under_way.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.idle.mark_idle();
        }
    }

    pub(super) fn offer_stream(&self, stream: HandoverStream) {
        *self.stream.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
    }

    /// Takes the event stream, once everything before it is written.
    pub(super) fn take_stream(&self) -> Option<HandoverStream> {
        if self.clogged.load(Ordering::Relaxed) {
            return None;
        }
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Counts a request as active until it is dropped.
pub(super) struct ActiveRequest(pub(super) Arc<ConnectionActivity>);

impl ActiveRequest {
    pub(super) fn new(activity: Arc<ConnectionActivity>) -> Self {
        activity.begun.fetch_add(1, Ordering::Relaxed);
        activity.begin_request();
        Self(activity)
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.end_request();
    }
}
