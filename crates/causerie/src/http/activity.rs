//! The activity of a connection, shared by the tasks that serve it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::connection::Stream;

/// The activity of a connection.
#[derive(Default)]
pub(super) struct Activity {
    /// The number of requests that have begun.
    pub(super) begun: AtomicU64,
    /// The number of requests whose responses have not ended.
    pub(super) under_way: AtomicUsize,
    /// An event stream for which the connection is to be taken.
    stream: Mutex<Option<Stream>>,
    /// True while bytes of an earlier response wait to be written.
    pub(super) clogged: AtomicBool,
    /// True once a head has arrived with more lines than the connection is configured for.
    pub(super) crowded: AtomicBool,
}

impl Activity {
    pub(super) fn offer(&self, stream: Stream) {
        *self.stream.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
    }

    /// Takes the event stream, once everything before it is written.
    pub(super) fn take(&self) -> Option<Stream> {
        if self.clogged.load(Ordering::Relaxed) {
            return None;
        }
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Counts a request as active until it is dropped.
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
