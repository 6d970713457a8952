//! The time at which a process was last certain to hold the exclusive lock on its database.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The last moment at which the lock was certainly held, in nanoseconds since the host was booted.
#[derive(Debug, Default)]
pub(crate) struct Confirmation(AtomicU64);

impl Confirmation {
    /// Returns the time since the host was booted, including suspended time.
    pub(crate) fn time_since_boot() -> Duration {
        Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
    }

    pub(crate) fn confirm_at(&self, at: Duration) {
        self.0.store(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn last_confirmation(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}
