//! Ending early: what runs is cancelled, what waits is refused.

use std::sync::{Mutex, PoisonError};

use rusqlite::InterruptHandle;
use tokio::sync::watch;

/// Tells the threads of a store to end what they do.
pub(crate) struct Abort {
    told: watch::Sender<bool>,
    /// SQLite's connections. Those to a server look at `told` themselves.
    statements: Mutex<Vec<InterruptHandle>>,
}

impl Abort {
    pub(crate) fn new() -> Self {
        Self { told: watch::Sender::new(false), statements: Mutex::default() }
    }

    /// Statements of this connection are interrupted.
    pub(crate) fn watch(&self, statements: InterruptHandle) {
        self.statements.lock().unwrap_or_else(PoisonError::into_inner).push(statements);
    }

    /// Tells all. Said again, it also interrupts what had not begun to run.
    pub(crate) fn tell(&self) {
        self.told.send_replace(true);
        for statements in self.statements.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            statements.interrupt();
        }
    }

    pub(crate) fn is_told(&self) -> bool {
        *self.told.borrow()
    }

    /// Waits until it is told. Cancel safe.
    #[cfg(feature = "postgres")]
    pub(crate) async fn told(&self) {
        // It is not dropped while somebody waits.
        let _ = self.told.subscribe().wait_for(|told| *told).await;
    }
}
