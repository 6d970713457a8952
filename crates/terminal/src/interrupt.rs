//! Ctrl-C, counted.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::Error;

/// Ctrl-C while a command runs. Without one, the process would end at once and the answer would go on.
pub(crate) struct Interrupts(Signal);

impl Interrupts {
    pub(crate) fn new() -> Result<Self, Error> {
        Ok(Self(signal(SignalKind::interrupt())?))
    }

    /// Waits for the next one. Cancel safe.
    pub(crate) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}
