//! Throttling of readers, by the number of answers that grow at once.
//!
//! While few answers grow, readers get each change at once. While many grow, sending each change would take
//! too much of the processors from reading the models' output; readers then pause after each state, so that
//! one state covers several changes. All readers of an answer share its states, so their number does not
//! matter.

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::time::Instant;

/// The number of states that each processor can create and send per second besides its other work.
const STATES_PER_SECOND: f64 = 8_000.0;
/// The longest pause. Readers still see the answer flow.
pub(crate) const REST_MAX: Duration = Duration::from_millis(40);
/// The bytes of a growing answer that a reader is sent per second, before compression.
const STATES_BYTES_PER_SECOND: f64 = 2.5e6;
/// Shorter pauses are skipped, because timers are not that precise.
const REST_MIN: Duration = Duration::from_millis(2);
/// An answer counts as growing if a state of it was sent within this time.
const WINDOW: Duration = Duration::from_millis(100);
/// The bits of a window's count; the higher bits are the window's number.
const COUNT: u64 = u32::MAX as u64;

/// Counts the growing answers of this process.
#[derive(Debug)]
pub(crate) struct Throttle {
    began: Instant,
    states_per_second: f64,
    /// The number of the current window, and the answers counted in it.
    present: AtomicU64,
    /// The number of answers in the previous window.
    before: AtomicU64,
}

/// The window in which a state of an answer was last sent.
#[derive(Debug, Default)]
pub(crate) struct LastSent(AtomicU64);

impl Default for Throttle {
    fn default() -> Self {
        Self::new(available_parallelism().map_or(1, NonZero::get))
    }
}

impl Throttle {
    fn new(processors: usize) -> Self {
        Self {
            began: Instant::now(),
            states_per_second: STATES_PER_SECOND * processors as f64,
            present: AtomicU64::new(0),
            before: AtomicU64::new(0),
        }
    }

    /// Records a sent state of `bytes` bytes and returns the pause of its reader. States of long answers
    /// repeat much text, so their readers pause longer.
    pub(crate) fn rest_after(&self, last_sent: &LastSent, bytes: usize) -> Duration {
        let growing = self.count_growing(last_sent) as f64;
        let seconds = (growing / self.states_per_second).max(bytes as f64 / STATES_BYTES_PER_SECOND);
        let rest = Duration::from_secs_f64(seconds);
        if rest < REST_MIN { Duration::ZERO } else { rest.min(REST_MAX) }
    }

    /// Returns the number of growing answers including this one. Concurrent calls may lose a count, which is
    /// acceptable.
    fn count_growing(&self, last_sent: &LastSent) -> u64 {
        // Windows count from 1, because 0 marks an answer without a sent state.
        let window = 1 + (self.began.elapsed().as_millis() / WINDOW.as_millis()) as u64;
        let present = self.present.load(Ordering::Relaxed);
        let counted = present & COUNT;
        if present >> 32 != window {
            let follows = (present >> 32) + 1 == window;
            self.before.store(if follows { counted } else { 0 }, Ordering::Relaxed);
            self.present.store(window << 32, Ordering::Relaxed);
        }
        if last_sent.0.swap(window, Ordering::Relaxed) != window {
            self.present.fetch_add(1, Ordering::Relaxed);
        }
        (self.present.load(Ordering::Relaxed) & COUNT).max(self.before.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    /// Returns the pause after a short state of each answer was sent.
    fn rest_after_all(load: &Throttle, answers: &[LastSent]) -> Duration {
        answers.iter().map(|last_sent| load.rest_after(last_sent, 100)).last().unwrap_or_default()
    }

    fn sent_states(count: usize) -> Vec<LastSent> {
        (0..count).map(|_| LastSent::default()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn rest_only_while_many_answers_grow() {
        let load = Throttle::new(2);
        assert_eq!(rest_after_all(&load, &sent_states(31)), Duration::ZERO);
        let many = sent_states(129);
        assert_eq!(rest_after_all(&load, &many), Duration::from_millis(10));
        advance(WINDOW).await;
        assert_eq!(rest_after_all(&load, &many[..1]), Duration::from_millis(10), "as in the window before");
        advance(WINDOW).await;
        assert_eq!(rest_after_all(&load, &many[..1]), Duration::ZERO);
        assert_eq!(rest_after_all(&load, &sent_states(100_000)), REST_MAX);
        advance(3 * WINDOW).await;
        assert_eq!(rest_after_all(&load, &many[..1]), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn single_answer_readers_do_not_rest() {
        let (load, answer) = (Throttle::new(1), LastSent::default());
        for _ in 0..10_000 {
            assert_eq!(load.rest_after(&answer, 100), Duration::ZERO);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn long_answer_sent_less_often() {
        let (load, answer) = (Throttle::new(1), LastSent::default());
        assert_eq!(load.rest_after(&answer, 4_000), Duration::ZERO);
        assert_eq!(load.rest_after(&answer, 50_000), Duration::from_millis(20));
        assert_eq!(load.rest_after(&answer, 100_000_000), REST_MAX);
    }
}
