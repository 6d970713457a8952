//! Early shutdown of a store: cancels running statements and rejects waiting jobs.

use std::sync::{Mutex, PoisonError};

use rusqlite::InterruptHandle;
use tokio::sync::watch;

/// Signals the threads of a store to stop.
pub(crate) struct Abort {
    aborted: watch::Sender<bool>,
    /// SQLite's connections. The threads of a server's connections wait on `aborted` themselves.
    statements: Mutex<Vec<InterruptHandle>>,
}

impl Abort {
    pub(crate) fn new() -> Self {
        Self { aborted: watch::Sender::new(false), statements: Mutex::default() }
    }

    /// Registers a connection whose statements an abort interrupts.
    pub(crate) fn register_connection(&self, statements: InterruptHandle) {
        self.statements.lock().unwrap_or_else(PoisonError::into_inner).push(statements);
    }

    /// Aborts. A repeated call also interrupts statements that began after the last one.
    pub(crate) fn abort(&self) {
        self.aborted.send_replace(true);
        for statements in self.statements.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            statements.interrupt();
        }
    }

    pub(crate) fn is_aborted(&self) -> bool {
        *self.aborted.borrow()
    }

    /// Waits until the store is aborted. Cancel safe.
    #[cfg(feature = "postgres")]
    pub(crate) async fn wait_for_abort(&self) {
        // `self` owns the sender, so it outlives this call.
        let _ = self.aborted.subscribe().wait_for(|aborted| *aborted).await;
    }
}
