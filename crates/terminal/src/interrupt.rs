//! Ctrl-C, counted.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::TerminalError;

/// Ctrl-C while a command runs. Without a handler, the process would end at once and the answer would continue.
pub(crate) struct Interrupts(Signal);

impl Interrupts {
    pub(crate) fn new() -> Result<Self, TerminalError> {
        Ok(Self(signal(SignalKind::interrupt())?))
    }

    /// Waits for the next one. Cancel safe.
    pub(crate) async fn next_interrupt(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}
