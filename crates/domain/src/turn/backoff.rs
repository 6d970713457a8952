//! The pauses between attempts at a step.

use std::time::Duration;

/// The maximum number of attempts at one step before the answer fails.
pub const ATTEMPTS_MAX: u32 = 6;
/// The longest wait that a server may request.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
/// The maximum number of attempts that are repeated because the server stopped in the middle of the answer.
pub const STALLS_MAX: u32 = 1;
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(20);

/// Returns the wait after the failed attempt `attempt` (from 0), or `None` after the last attempt.
/// It doubles each time; `jitter` (any number) spreads it over its upper half, so that many answers do not
/// retry at once.
#[must_use]
pub fn pause_after(attempt: u32, retry_after: Option<Duration>, jitter: u64) -> Option<Duration> {
    if attempt + 1 >= ATTEMPTS_MAX {
        return None;
    }
    let whole = FIRST.saturating_mul(1 << attempt.min(10)).min(LONGEST);
    let half = whole / 2;
    let spread = half.mul_f64((jitter % 1024) as f64 / 1024.0);
    let own = half + spread;
    Some(retry_after.map_or(own, |asked| asked.min(RETRY_AFTER_MAX).max(own)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_are_bounded_and_end() {
        let waits: Vec<_> = (0..10).map_while(|attempt| pause_after(attempt, None, 1023)).collect();
        assert_eq!(waits.len(), ATTEMPTS_MAX as usize - 1);
        assert!(waits.is_sorted());
        assert!(waits.iter().all(|wait| *wait <= LONGEST));
        assert_eq!(pause_after(0, Some(Duration::from_secs(7)), 0), Some(Duration::from_secs(7)));
        assert_eq!(pause_after(0, Some(Duration::from_secs(7000)), 0), Some(RETRY_AFTER_MAX));
    }
}
