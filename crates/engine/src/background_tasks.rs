//! Tasks that outlive the request or the turn that began them.

use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Supervises tasks until the service ends: [`Self::shutdown`] waits for all of them. Cheap to clone; clones supervise
/// the same tasks.
#[derive(Debug, Clone, Default)]
pub struct BackgroundTasks {
    tracker: TaskTracker,
    ending: CancellationToken,
}

impl BackgroundTasks {
    /// Runs `work` to its end even if the caller is dropped.
    ///
    /// # Errors
    /// When it panics.
    pub async fn see_through<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, JoinError> {
        self.tracker.spawn(work).await
    }

    /// Runs `work` in the background until it is done or the service ends.
    pub fn spawn_until_shutdown(&self, work: impl Future<Output = ()> + Send + 'static) {
        let ending = self.ending.clone();
        self.tracker.spawn(async move { ending.run_until_cancelled(work).await });
    }

    /// Runs `work` in the background to its end, which must come soon after the shutdown begins.
    pub(super) fn spawn_to_end(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn(work);
    }

    /// Runs `work` until it is done, or returns `None` when the service ends first.
    pub(super) async fn run_until_shutdown<F: Future>(&self, work: F) -> Option<F::Output> {
        self.ending.run_until_cancelled(work).await
    }

    /// Waits until the service ends. Cancel safe.
    pub(super) async fn wait_for_shutdown(&self) {
        self.ending.cancelled().await;
    }

    /// Ends the tasks that run until the shutdown, and waits for all tasks.
    pub async fn shutdown(&self) {
        self.ending.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn work_survives_its_dropped_caller() {
        let tasks = BackgroundTasks::default();
        let (release, released) = oneshot::channel::<()>();
        let (finish, finished) = oneshot::channel();
        let caller = tasks.see_through(async move {
            let _ = released.await;
            let _ = finish.send(());
        });
        assert!(caller.now_or_never().is_none(), "it waits, and is dropped");
        let shutdown = tasks.shutdown();
        tokio::pin!(shutdown);
        assert!(shutdown.as_mut().now_or_never().is_none(), "the shutdown waits for it");
        release.send(()).expect("it still runs");
        shutdown.await;
        finished.await.expect("it ran to its end");
    }

    #[tokio::test]
    async fn shutdown_ends_work_that_would_go_on() {
        let tasks = BackgroundTasks::default();
        tasks.spawn_until_shutdown(std::future::pending());
        tasks.shutdown().await;
        assert_eq!(tasks.run_until_shutdown(std::future::pending::<()>()).await, None);
    }

    #[tokio::test]
    async fn panic_is_reported_to_its_caller() {
        let tasks = BackgroundTasks::default();
        let outcome: Result<(), _> = tasks.see_through(async { panic!("a defect") }).await;
        assert!(outcome.is_err_and(|error| error.is_panic()));
    }
}
