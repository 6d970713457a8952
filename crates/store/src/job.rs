//! One caller's work on its way to an engine's thread and back.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;

use crate::error::StoreError;
use crate::sql::Sql;

/// What is to become of the changes that a piece of work made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TxOutcome {
    /// They are to be committed.
    Keep,
    /// It refused or failed: they are to be undone.
    Undo,
}

/// Work whose types are forgotten. It may run several times; only the last outcome is answered.
pub(crate) trait Job: Send {
    /// Runs the work and keeps the outcome.
    fn run(&mut self, tx: &mut dyn Sql) -> TxOutcome;
    /// Replaces the outcome: the engine knows better.
    fn fail(&mut self, error: StoreError);
    /// Sends the outcome. A caller that went away is no error.
    fn answer(self: Box<Self>);
}

/// The work of one call of `Store::read` or `Store::write`.
pub(crate) struct JobCall<F, T, E> {
    work: F,
    outcome: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

impl<F, T, E> JobCall<F, T, E> {
    /// The work and where its outcome will arrive.
    pub(crate) fn new(work: F) -> (Self, oneshot::Receiver<Result<T, E>>) {
        let (reply, outcome) = oneshot::channel();
        (Self { work, outcome: None, reply }, outcome)
    }
}

impl<F, T, E> Job for JobCall<F, T, E>
where
    F: Fn(&mut dyn Sql) -> Result<T, E> + Send,
    T: Send,
    E: From<StoreError> + Send,
{
    fn run(&mut self, tx: &mut dyn Sql) -> TxOutcome {
        // Nothing of a panicked run is looked at again: its changes are undone and its outcome is replaced.
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.work)(tx)))
            .unwrap_or_else(|_| Err(StoreError::Panicked.into()));
        let verdict = if outcome.is_ok() { TxOutcome::Keep } else { TxOutcome::Undo };
        self.outcome = Some(outcome);
        verdict
    }

    fn fail(&mut self, error: StoreError) {
        self.outcome = Some(Err(error.into()));
    }

    fn answer(self: Box<Self>) {
        let outcome = self.outcome.unwrap_or_else(|| Err(StoreError::Closed.into()));
        drop(self.reply.send(outcome));
    }
}
