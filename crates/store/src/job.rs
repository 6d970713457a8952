//! One caller's work on its way to a thread of the engine and back.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;

use crate::error::StoreError;
use crate::sql::Sql;

/// The fate of a transaction's changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TxOutcome {
    Keep,
    /// Undo them: the work failed or was rejected.
    Undo,
}

/// Work with its types erased. It may run several times; only the last outcome is sent.
pub(crate) trait StoreJob: Send {
    /// Runs the work and stores the outcome.
    fn run_work(&mut self, tx: &mut dyn Sql) -> TxOutcome;
    /// Replaces the outcome by an error of the engine.
    fn fail_with(&mut self, error: StoreError);
    /// Sends the outcome. Ignores a caller that no longer waits.
    fn send_outcome(self: Box<Self>);
}

/// The work of one call of `Store::read` or `Store::write`.
pub(crate) struct JobCall<F, T, E> {
    work: F,
    outcome: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

impl<F, T, E> JobCall<F, T, E> {
    /// Creates a job and the receiver of its outcome.
    pub(crate) fn new(work: F) -> (Self, oneshot::Receiver<Result<T, E>>) {
        let (reply, outcome) = oneshot::channel();
        (Self { work, outcome: None, reply }, outcome)
    }
}

impl<F, T, E> StoreJob for JobCall<F, T, E>
where
    F: Fn(&mut dyn Sql) -> Result<T, E> + Send,
    T: Send,
    E: From<StoreError> + Send,
{
    fn run_work(&mut self, tx: &mut dyn Sql) -> TxOutcome {
        // The state of a panicked run is discarded: its changes are undone and its outcome is replaced.
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.work)(tx)))
            .unwrap_or_else(|_| Err(StoreError::Panicked.into()));
        let verdict = if outcome.is_ok() { TxOutcome::Keep } else { TxOutcome::Undo };
        self.outcome = Some(outcome);
        verdict
    }

    fn fail_with(&mut self, error: StoreError) {
        self.outcome = Some(Err(error.into()));
    }

    fn send_outcome(self: Box<Self>) {
        let outcome = self.outcome.unwrap_or_else(|| Err(StoreError::Closed.into()));
        drop(self.reply.send(outcome));
    }
}
