//! The health of a model, from its recent calls and probes.
//!
//! ```text
//!                    a call or a probe answered
//!      UNKNOWN ------------------------------------> UP <------------------------+
//!      ^  |  |                       a call failed    |                          |
//!      |  |  +--------------------> DEGRADED <--------+                          |
//!      |  |                         |      ^  ^                                  |
//!      |  | a probe failed     three failed |  | a call answered, or a later     | calls answer, and few
//!      |  |                   one after the |  | probe                           | of the last failed
//!      |  v                       other     |  |                                 |
//!      | DOWN <-----------------------------+  +-- DOWN                DEGRADED -+
//!      |
//!      +-- when all that was seen is long past
//! ```
//!
//! Health is only displayed: calls still go to a model that is down, which is how it recovers.

use std::collections::VecDeque;
use std::time::Duration;

use domain::catalog::ModelStatus;
use domain::time::Timestamp;

/// Limits the recent calls.
const CALLS_MAX: usize = 20;
/// Calls expire after this time.
const CALL_COUNTS_FOR: Duration = Duration::from_secs(300);
/// Probes expire after this time, which is longer than their interval.
const PROBE_COUNTS_FOR: Duration = Duration::from_secs(600);
/// A model is down after this many consecutive failed calls.
const DOWN_AFTER: usize = 3;
/// A model is degraded when one of this many calls fails.
const FAILED_AT_MOST_ONE_OF: usize = 5;

/// The recent calls of one model, and the last probe of its server.
#[derive(Debug, Clone, Default)]
pub struct Health {
    calls: VecDeque<(Timestamp, bool)>,
    probe: Option<(Timestamp, bool)>,
}

impl Health {
    /// Records the outcome of a call.
    pub fn record_call(&mut self, answered: bool, now: Timestamp) {
        if self.calls.len() == CALLS_MAX {
            self.calls.pop_front();
        }
        self.calls.push_back((now, answered));
    }

    /// Records a probe: whether the server answered and has the model.
    pub fn record_probe(&mut self, answered: bool, now: Timestamp) {
        self.probe = Some((now, answered));
    }

    /// Returns the health at `now`. Calls weigh more than probes, which request no answer; but a failed probe after the
    /// last call means that the server is down, and a successful one that it may have recovered.
    #[must_use]
    pub fn status_at(&self, now: Timestamp) -> ModelStatus {
        let counts = |(at, _): &&(Timestamp, bool), time| now.duration_since(*at) <= time;
        let calls: Vec<_> = self.calls.iter().filter(|call| counts(call, CALL_COUNTS_FOR)).collect();
        let probe = self.probe.as_ref().filter(|probe| counts(probe, PROBE_COUNTS_FOR));
        let since = probe.filter(|(at, _)| self.calls.back().is_none_or(|(last, _)| at > last));
        let called = by_calls(calls.iter().map(|(_, answered)| *answered));
        match (called, since.map(|(_, answered)| *answered)) {
            (_, Some(false)) => ModelStatus::Down,
            (ModelStatus::Unknown, Some(true)) => ModelStatus::Up,
            (ModelStatus::Down, Some(true)) => ModelStatus::Degraded,
            (ModelStatus::Up | ModelStatus::Degraded, Some(true)) | (_, None) => called,
        }
    }
}

/// Rates calls, oldest first.
fn by_calls(calls: impl DoubleEndedIterator<Item = bool> + Clone) -> ModelStatus {
    let failed_last = calls.clone().rev().take_while(|answered| !answered).count();
    let (count, failed) =
        calls.fold((0, 0), |(count, failed), answered| (count + 1, failed + usize::from(!answered)));
    if count == 0 {
        ModelStatus::Unknown
    } else if failed_last >= DOWN_AFTER {
        ModelStatus::Down
    } else if failed_last > 0 || failed * FAILED_AT_MOST_ONE_OF >= count {
        ModelStatus::Degraded
    } else {
        ModelStatus::Up
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ModelStatus::{Degraded, Down, Unknown, Up};

    fn at_seconds(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    /// Replays one letter per second: successful or failed calls (`a`, `f`), successful or failed probes (`A`, `F`),
    /// nothing.
    fn status_after(seen: &str, idle: i64) -> ModelStatus {
        let mut health = Health::default();
        let mut second = 0;
        for what in seen.chars() {
            second += 1;
            match what {
                'a' | 'f' => health.record_call(what == 'a', at_seconds(second)),
                'A' | 'F' => health.record_probe(what == 'A', at_seconds(second)),
                _ => {}
            }
        }
        health.status_at(at_seconds(second + idle))
    }

    #[test]
    fn every_transition() {
        for (seen, idle, status) in [
            ("", 0, Unknown),
            // From the beginning.
            ("a", 0, Up),
            ("A", 0, Up),
            ("f", 0, Degraded),
            ("F", 0, Down),
            // From up.
            ("aaaaaa", 0, Up),
            ("aaaaaaf", 0, Degraded),
            ("aaaaaafff", 0, Down),
            ("aF", 0, Down),
            ("AF", 0, Down),
            // From degraded.
            ("aaaaaafa", 0, Up),
            ("aafa", 0, Degraded),
            ("aff", 0, Degraded),
            ("afff", 0, Down),
            ("afF", 0, Down),
            ("afA", 0, Degraded),
            ("faaaa", 0, Degraded),
            ("faaaaa", 0, Up),
            // From down.
            ("fffa", 0, Degraded),
            ("fffA", 0, Degraded),
            ("fffAf", 0, Down),
            ("fffAa", 0, Degraded),
            ("fffaaaaaaaaaaaa", 0, Degraded),
            ("fffaaaaaaaaaaaaa", 0, Up),
            ("FA", 0, Up),
            ("Fa", 0, Up),
            ("aFA", 0, Up),
            ("ffff", 0, Down),
            // A probe before the last call does not count.
            ("Ff", 0, Degraded),
            ("Afff", 0, Down),
        ] {
            assert_eq!(status_after(seen, idle), status, "{seen:?} and {idle} s");
        }
    }

    #[test]
    fn what_is_long_past_is_forgotten() {
        for (seen, idle, status) in [
            ("a", 300, Up),
            ("a", 301, Unknown),
            ("fff", 298, Down),
            ("fff", 301, Unknown),
            ("A", 600, Up),
            ("A", 601, Unknown),
            ("F", 600, Down),
            ("F", 601, Unknown),
            ("fffA", 299, Degraded),
            // The failures have expired, the probe has not.
            ("fffA", 301, Up),
            // A probe from before a call does not count again.
            ("Afff", 301, Unknown),
            ("Faaa", 301, Unknown),
        ] {
            assert_eq!(status_after(seen, idle), status, "{seen:?} and {idle} s");
        }
    }

    #[test]
    fn record_call_keeps_last_calls() {
        assert_eq!(status_after(&format!("{}{}", "f".repeat(100), "a".repeat(20)), 0), Up);
        let mut health = Health::default();
        (0..1000).for_each(|second| health.record_call(second % 2 == 0, at_seconds(second)));
        assert_eq!(health.calls.len(), CALLS_MAX);
    }
}
