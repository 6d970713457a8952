//! Sends cancellations and session ends to servers in the background.

use std::time::Duration;

use reqwest::RequestBuilder;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

/// The timeout of a notification.
pub(super) const TELL_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum number of concurrent messages; further ones are dropped.
const CLOSES_MAX: usize = 64;

/// Messages in transit. Each takes a few seconds at most, even if the server does not respond.
#[derive(Debug, Clone, Default)]
pub(super) struct SessionCloser(TaskTracker);

impl SessionCloser {
    /// Sends a message in the background.
    pub(super) fn send_in_background(&self, request: Option<RequestBuilder>) {
        let (Some(request), Ok(runtime)) = (request, Handle::try_current()) else { return };
        if self.0.len() < CLOSES_MAX {
            // The result does not matter.
            self.0.spawn_on(async { _ = timeout(TELL_TIMEOUT, request.send()).await }, &runtime);
        }
    }

    /// Waits for all messages in transit.
    pub(super) async fn wait_for_all(&self) {
        self.0.close();
        let _in_time = timeout(TELL_TIMEOUT, self.0.wait()).await;
    }
}

/// A request without an answer. Dropping it sends a cancellation.
pub(super) struct PendingRequest<'a> {
    closer: &'a SessionCloser,
    message: Option<RequestBuilder>,
}

impl<'a> PendingRequest<'a> {
    pub(super) fn new(closer: &'a SessionCloser) -> Self {
        Self { closer, message: None }
    }

    /// Sets the cancellation message.
    pub(super) fn cancel_with(&mut self, message: Option<RequestBuilder>) {
        self.message = message;
    }

    /// Marks the request as completed or not started, so that no cancellation is sent.
    pub(super) fn mark_done(&mut self) {
        self.message = None;
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        self.closer.send_in_background(self.message.take());
    }
}
