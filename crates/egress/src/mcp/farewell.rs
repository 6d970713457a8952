//! What is said to servers when nobody waits for them any more: calls that are cancelled, sessions that are let go.

use reqwest::RequestBuilder;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::exchange::TELL_TIMEOUT;

/// How many are on their way at once; more are not said.
const FAREWELLS_MAX: usize = 64;

/// Farewells on their way. Each takes seconds at most, whether or not the server listens.
#[derive(Debug, Clone, Default)]
pub(super) struct Farewells(TaskTracker);

impl Farewells {
    /// Sends it without anybody's waiting.
    pub(super) fn say(&self, request: Option<RequestBuilder>) {
        let (Some(request), Ok(runtime)) = (request, Handle::try_current()) else { return };
        if self.0.len() < FAREWELLS_MAX {
            // What became of it concerns nobody.
            self.0.spawn_on(async { _ = timeout(TELL_TIMEOUT, request.send()).await }, &runtime);
        }
    }

    /// Waits for those on their way.
    pub(super) async fn over(&self) {
        self.0.close();
        let _in_time = timeout(TELL_TIMEOUT, self.0.wait()).await;
    }
}

/// A request that is not answered yet. Dropped so, the server is told.
pub(super) struct Unanswered<'a> {
    farewells: &'a Farewells,
    message: Option<RequestBuilder>,
}

impl<'a> Unanswered<'a> {
    pub(super) fn new(farewells: &'a Farewells) -> Self {
        Self { farewells, message: None }
    }

    /// What the server is told.
    pub(super) fn tell(&mut self, message: Option<RequestBuilder>) {
        self.message = message;
    }

    /// The server is done with it, or never began.
    pub(super) fn answered(&mut self) {
        self.message = None;
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.farewells.say(self.message.take());
    }
}
