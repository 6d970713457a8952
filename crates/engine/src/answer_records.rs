//! The store of answers, with everything that a write to it takes.

use std::sync::Arc;

use domain::time::Timestamp;
use store::turns::{self, Fence, TurnError};
use store::{Sql, Store};

use super::background_tasks::BackgroundTasks;
use super::environment::ServiceEnvironment;
use super::metrics::AnswerMetrics;

/// Records the progress of answers, in the store and in metrics. Cheap to clone.
#[derive(Clone)]
pub(super) struct AnswerRecords {
    pub(super) store: Store,
    pub(super) environment: ServiceEnvironment,
    pub(super) metrics: Arc<AnswerMetrics>,
    /// The shutdown ends the wait for an unreachable database.
    pub(super) tasks: BackgroundTasks,
}

impl AnswerRecords {
    pub(super) fn now(&self) -> Timestamp {
        self.environment.now()
    }

    /// Releases the lease for another attempt.
    pub(super) async fn give_back(&self, fence: Fence) {
        self.release_lease(fence, turns::release_lease).await;
    }

    /// As [`Self::give_back`]; the attempt does not count.
    pub(super) async fn put_back(&self, fence: Fence) {
        self.release_lease(fence, turns::put_back).await;
    }

    async fn release_lease(&self, fence: Fence, how: fn(&mut dyn Sql, Fence) -> Result<(), TurnError>) {
        match self.store.write(move |tx| how(tx, fence)).await {
            // It was completed, deleted or released before.
            Ok(()) | Err(TurnError::Fenced) => {}
            Err(error) => tracing::warn!(answer = %fence.answer, %error, "lease release failed"),
        }
    }
}
