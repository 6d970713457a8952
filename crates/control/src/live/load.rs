//! How far readers lag behind, and so how long each rests between two states.
//!
//! On an idle service a reader is told of each change at once. When the processors can't keep up, changes wait to be
//! told, and telling each reader of each would make all of them wait longer: then every reader rests a little after
//! each state, so that one state stands for several changes. How long follows from the lag itself, up and down.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The lag up to which nobody rests: what timers and the scheduler take on an idle machine.
const USUAL: Duration = Duration::from_millis(3);
/// How much longer than the lag beyond that a reader rests.
const FACTOR: u32 = 4;
/// The longest rest: a reader still sees the answer flow.
pub(crate) const REST_MAX: Duration = Duration::from_millis(40);
/// How much of a growing answer one reader is sent in a second, before it is compressed.
const STATES_BYTES_PER_SECOND: f64 = 2.5e6;
/// Rests shorter than this are no use: timers are no finer.
const REST_MIN: Duration = Duration::from_millis(2);
/// One of so many parts of the mean is a new measurement's.
const WEIGHT: u64 = 64;

/// The lag of all readers of this process: a mean in which the newest count most.
#[derive(Debug, Default)]
pub(crate) struct Load(AtomicU64);

impl Load {
    /// Something was told, or was woken, so much later than it could have been.
    pub(crate) fn note(&self, late: Duration) {
        let late = u64::try_from(late.as_micros()).unwrap_or(u64::MAX).min(1_000_000);
        let mean = self.0.load(Ordering::Relaxed);
        // Two at once may lose one of their measurements, which is no loss.
        self.0.store(mean - mean / WEIGHT + late / WEIGHT, Ordering::Relaxed);
    }

    /// How long a reader rests after a state of so many bytes: one of a long answer repeats much for the sake of little.
    pub(crate) fn rest_after(&self, bytes: usize) -> Duration {
        let sent = Duration::from_secs_f64(bytes as f64 / STATES_BYTES_PER_SECOND);
        let sent = if sent < REST_MIN { Duration::ZERO } else { sent };
        self.rest().max(sent).min(REST_MAX)
    }

    /// How long each rests for the sake of all.
    fn rest(&self) -> Duration {
        let mean = Duration::from_micros(self.0.load(Ordering::Relaxed));
        (mean.saturating_sub(USUAL) * FACTOR).min(REST_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_rest_only_while_they_lag() {
        let load = Load::default();
        for _ in 0..1000 {
            load.note(Duration::from_millis(2));
        }
        assert_eq!(load.rest(), Duration::ZERO);
        for _ in 0..1000 {
            load.note(Duration::from_millis(8));
        }
        assert!((Duration::from_millis(15)..REST_MAX).contains(&load.rest()), "{:?}", load.rest());
        for _ in 0..1000 {
            load.note(Duration::from_secs(100));
        }
        assert_eq!(load.rest(), REST_MAX);
        for _ in 0..1000 {
            load.note(Duration::ZERO);
        }
        assert_eq!(load.rest(), Duration::ZERO);
    }

    #[test]
    fn a_long_answer_is_told_less_often_than_a_short_one() {
        let load = Load::default();
        assert_eq!(load.rest_after(4_000), Duration::ZERO);
        assert_eq!(load.rest_after(50_000), Duration::from_millis(20));
        assert_eq!(load.rest_after(100_000_000), REST_MAX);
    }
}
