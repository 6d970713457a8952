//! What is said to servers when nobody waits for them any more: calls that are cancelled, sessions that are let go.

use reqwest::RequestBuilder;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::exchange::TELL_TIMEOUT;

/// How many are on their way at once; more are not said.
const CLOSES_MAX: usize = 64;

/// Farewells on their way. Each takes seconds at most, whether or not the server listens.
#[derive(Debug, Clone, Default)]
pub(super) struct SessionCloser(TaskTracker);

impl SessionCloser {
    /// Sends it without anybody's waiting.
    pub(super) fn close(&self, request: Option<RequestBuilder>) {
        let (Some(request), Ok(runtime)) = (request, Handle::try_current()) else { return };
        if self.0.len() < CLOSES_MAX {
            // What became of it concerns nobody.
            self.0.spawn_on(async { _ = timeout(TELL_TIMEOUT, request.send()).await }, &runtime);
        }
    }

    /// Waits for those on their way.
    pub(super) async fn wait(&self) {
        self.0.close();
        let _in_time = timeout(TELL_TIMEOUT, self.0.wait()).await;
    }
}

/// A request that is not answered yet. Dropped so, the server is told.
pub(super) struct PendingRequest<'a> {
    farewells: &'a SessionCloser,
    message: Option<RequestBuilder>,
}

impl<'a> PendingRequest<'a> {
    pub(super) fn new(farewells: &'a SessionCloser) -> Self {
        Self { farewells, message: None }
    }

    /// What the server is told.
    pub(super) fn cancel_with(&mut self, message: Option<RequestBuilder>) {
        self.message = message;
    }

    /// The server is done with it, or never began.
    pub(super) fn done(&mut self) {
        self.message = None;
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        self.farewells.close(self.message.take());
    }
}
