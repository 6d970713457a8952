//! The rest of a server that failed: for a while it is not asked again, longer with each failure.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The rest after the first failure; each further one doubles it.
const FIRST: Duration = Duration::from_secs(2);
/// The longest rest that nobody asked for.
const LONGEST: Duration = Duration::from_mins(5);

/// How a server has fared lately.
#[derive(Debug, Default)]
pub(crate) struct CircuitBreaker(Mutex<BreakerState>);

#[derive(Debug, Default)]
struct BreakerState {
    failures: u32,
    until: Option<Instant>,
}

impl CircuitBreaker {
    /// How long it is still left alone; `None` when it may be asked.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        let until = self.state().until?;
        until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    /// It answered.
    pub(crate) fn record_success(&self) {
        *self.state() = BreakerState::default();
    }

    /// It failed, and perhaps said when to come again.
    pub(crate) fn record_failure(&self, retry_after: Option<Duration>) {
        let mut state = self.state();
        let own = FIRST.saturating_mul(1 << state.failures.min(16)).min(LONGEST);
        state.failures = state.failures.saturating_add(1);
        state.until = Some(Instant::now() + retry_after.unwrap_or(own));
    }

    fn state(&self) -> std::sync::MutexGuard<'_, BreakerState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_failure_doubles_the_rest_and_an_answer_ends_it() {
        let rest = CircuitBreaker::default();
        assert_eq!(rest.remaining(), None);
        rest.record_failure(None);
        assert_eq!(rest.remaining(), Some(FIRST));
        tokio::time::advance(FIRST).await;
        assert_eq!(rest.remaining(), None);
        rest.record_failure(None);
        assert_eq!(rest.remaining(), Some(FIRST * 2));
        for _ in 0..40 {
            rest.record_failure(None);
        }
        assert_eq!(rest.remaining(), Some(LONGEST));
        rest.record_failure(Some(Duration::from_secs(1)));
        assert_eq!(rest.remaining(), Some(Duration::from_secs(1)), "what the server says counts");
        rest.record_success();
        assert_eq!(rest.remaining(), None);
    }
}
