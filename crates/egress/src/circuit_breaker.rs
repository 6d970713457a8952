//! Pauses requests to a server after a failure; the pause grows with each consecutive failure.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The pause after the first failure; doubles with each consecutive one.
const FIRST: Duration = Duration::from_secs(2);
/// The maximum pause, unless the server requests a longer one.
const LONGEST: Duration = Duration::from_mins(5);

/// The recent failures of a server.
#[derive(Debug, Default)]
pub(crate) struct CircuitBreaker(Mutex<BreakerState>);

#[derive(Debug, Default)]
struct BreakerState {
    failures: u32,
    until: Option<Instant>,
}

impl CircuitBreaker {
    /// Returns the remaining pause; `None` if requests are allowed.
    pub(crate) fn remaining_pause(&self) -> Option<Duration> {
        let until = self.lock_state().until?;
        until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    pub(crate) fn record_success(&self) {
        *self.lock_state() = BreakerState::default();
    }

    /// Starts a pause: as long as the server requested, but at least the first one.
    pub(crate) fn record_failure(&self, retry_after: Option<Duration>) {
        let mut state = self.lock_state();
        let own = FIRST.saturating_mul(1 << state.failures.min(16)).min(LONGEST);
        state.failures = state.failures.saturating_add(1);
        state.until = Some(Instant::now() + retry_after.map_or(own, |asked| asked.max(FIRST)));
    }

    fn lock_state(&self) -> std::sync::MutexGuard<'_, BreakerState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn circuit_breaker_doubles_pause_until_success() {
        let rest = CircuitBreaker::default();
        assert_eq!(rest.remaining_pause(), None);
        rest.record_failure(None);
        assert_eq!(rest.remaining_pause(), Some(FIRST));
        tokio::time::advance(FIRST).await;
        assert_eq!(rest.remaining_pause(), None);
        rest.record_failure(None);
        assert_eq!(rest.remaining_pause(), Some(FIRST * 2));
        for _ in 0..40 {
            rest.record_failure(None);
        }
        assert_eq!(rest.remaining_pause(), Some(LONGEST));
        rest.record_failure(Some(Duration::from_secs(5)));
        assert_eq!(rest.remaining_pause(), Some(Duration::from_secs(5)), "what the server says counts");
        rest.record_failure(Some(Duration::ZERO));
        assert_eq!(rest.remaining_pause(), Some(FIRST), "no server is asked without a pause");
        rest.record_success();
        assert_eq!(rest.remaining_pause(), None);
    }
}
