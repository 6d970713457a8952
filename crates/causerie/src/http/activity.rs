//! The activity of a connection, shared by the tasks that serve it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::connection::Stream;

/// The activity of a connection.
#[derive(Default)]
pub(super) struct Activity {
    /// Requests that have begun.
    pub(super) begun: AtomicU64,
    /// Requests whose answers have not ended.
    pub(super) under_way: AtomicUsize,
    /// An event stream for which the connection is to be taken.
    stream: Mutex<Option<Stream>>,
    /// True while bytes of an earlier response wait to be written.
    pub(super) clogged: AtomicBool,
    /// True once a head has come that has more lines than the connection was prepared for.
    pub(super) crowded: AtomicBool,
}

impl Activity {
    pub(super) fn offer(&self, stream: Stream) {
        *self.stream.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
    }

    /// The event stream, once everything before it is written.
    pub(super) fn take(&self) -> Option<Stream> {
        if self.clogged.load(Ordering::Relaxed) {
            return None;
        }
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A request that is under way as long as this is there.
pub(super) struct ActiveRequest(pub(super) Arc<Activity>);

impl ActiveRequest {
    pub(super) fn new(activity: Arc<Activity>) -> Self {
        activity.begun.fetch_add(1, Ordering::Relaxed);
        activity.under_way.fetch_add(1, Ordering::Relaxed);
        Self(activity)
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}
