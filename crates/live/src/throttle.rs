//! How many answers grow at once, and so how long their readers rest between two states.
//!
//! When few answers grow, readers are told of each change at once. When many do, telling each change would leave too
//! little of the processors for reading what the models write: then readers rest a little after each state, so that one
//! state stands for several changes. Readers of the same answer share its states: how many they are does not matter.

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::time::Instant;

/// How many different states each processor has time to make and tell in a second, besides all else.
const STATES_PER_SECOND: f64 = 8_000.0;
/// The longest rest: a reader still sees the answer flow.
pub(crate) const REST_MAX: Duration = Duration::from_millis(40);
/// How much of a growing answer one reader is sent in a second, before it is compressed.
const STATES_BYTES_PER_SECOND: f64 = 2.5e6;
/// Rests shorter than this are no use: timers are no finer.
const REST_MIN: Duration = Duration::from_millis(2);
/// An answer grows when a state of it was told within so long.
const WINDOW: Duration = Duration::from_millis(100);
/// The bits of a window's count; those above are its number.
const COUNT: u64 = u32::MAX as u64;

/// The answers of this process that grow.
#[derive(Debug)]
pub(crate) struct Throttle {
    began: Instant,
    states_per_second: f64,
    /// The number of the present window, and how many answers were told in it.
    present: AtomicU64,
    /// How many were in the one before.
    before: AtomicU64,
}

/// The window in which a state of an answer was told last.
#[derive(Debug, Default)]
pub(crate) struct Told(AtomicU64);

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

    /// Takes note of a state that is told, and says how long its reader rests. One of a long answer repeats much for
    /// the sake of little, so that it rests longer.
    pub(crate) fn rest_after(&self, told: &Told, bytes: usize) -> Duration {
        let growing = self.growing(told) as f64;
        let seconds = (growing / self.states_per_second).max(bytes as f64 / STATES_BYTES_PER_SECOND);
        let rest = Duration::from_secs_f64(seconds);
        if rest < REST_MIN { Duration::ZERO } else { rest.min(REST_MAX) }
    }

    /// How many answers grow, this one among them. Two at once may lose one of their counts, which is no loss.
    fn growing(&self, told: &Told) -> u64 {
        // The first one's number is not that of an answer which was never told.
        let window = 1 + (self.began.elapsed().as_millis() / WINDOW.as_millis()) as u64;
        let present = self.present.load(Ordering::Relaxed);
        let counted = present & COUNT;
        if present >> 32 != window {
            let follows = (present >> 32) + 1 == window;
            self.before.store(if follows { counted } else { 0 }, Ordering::Relaxed);
            self.present.store(window << 32, Ordering::Relaxed);
        }
        if told.0.swap(window, Ordering::Relaxed) != window {
            self.present.fetch_add(1, Ordering::Relaxed);
        }
        (self.present.load(Ordering::Relaxed) & COUNT).max(self.before.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    /// The rest after each of so many answers was told a short state.
    fn rest(load: &Throttle, answers: &[Told]) -> Duration {
        answers.iter().map(|told| load.rest_after(told, 100)).last().unwrap_or_default()
    }

    fn answers(count: usize) -> Vec<Told> {
        (0..count).map(|_| Told::default()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn readers_rest_only_while_many_answers_grow() {
        let load = Throttle::new(2);
        assert_eq!(rest(&load, &answers(31)), Duration::ZERO);
        let many = answers(129);
        assert_eq!(rest(&load, &many), Duration::from_millis(10));
        advance(WINDOW).await;
        assert_eq!(rest(&load, &many[..1]), Duration::from_millis(10), "as in the window before");
        advance(WINDOW).await;
        assert_eq!(rest(&load, &many[..1]), Duration::ZERO);
        assert_eq!(rest(&load, &answers(100_000)), REST_MAX);
        advance(3 * WINDOW).await;
        assert_eq!(rest(&load, &many[..1]), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn many_readers_of_one_answer_do_not_rest() {
        let (load, answer) = (Throttle::new(1), Told::default());
        for _ in 0..10_000 {
            assert_eq!(load.rest_after(&answer, 100), Duration::ZERO);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_answer_is_told_less_often_than_a_short_one() {
        let (load, answer) = (Throttle::new(1), Told::default());
        assert_eq!(load.rest_after(&answer, 4_000), Duration::ZERO);
        assert_eq!(load.rest_after(&answer, 50_000), Duration::from_millis(20));
        assert_eq!(load.rest_after(&answer, 100_000_000), REST_MAX);
    }
}
