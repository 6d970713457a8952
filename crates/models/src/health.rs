//! How a model has fared lately.

use std::collections::VecDeque;
use std::time::Duration;

use domain::catalog::ModelStatus;
use domain::time::Timestamp;

/// How many calls are remembered.
const CALLS_MAX: usize = 20;
/// How long a call counts.
const CALL_COUNTS_FOR: Duration = Duration::from_secs(300);
/// How long a probe counts.
const PROBE_COUNTS_FOR: Duration = Duration::from_secs(600);
/// How many calls must have failed, one after the other, for a model to be down.
const DOWN_AFTER: usize = 3;

/// What the last calls of one model met. Calls count before probes, newer ones before older ones.
#[derive(Debug, Clone, Default)]
pub struct Health {
    calls: VecDeque<(Timestamp, bool)>,
    probe: Option<(Timestamp, bool)>,
}

impl Health {
    /// A call ended: whether the model answered.
    pub fn record(&mut self, answered: bool, now: Timestamp) {
        if self.calls.len() == CALLS_MAX {
            self.calls.pop_front();
        }
        self.calls.push_back((now, answered));
    }

    /// A probe ended: whether the server answered and has the model.
    pub fn record_probe(&mut self, answered: bool, now: Timestamp) {
        self.probe = Some((now, answered));
    }

    /// How it stands at `now`.
    #[must_use]
    pub fn status(&self, now: Timestamp) -> ModelStatus {
        let lately: Vec<bool> = self
            .calls
            .iter()
            .filter(|(at, _)| now.since(*at) <= CALL_COUNTS_FOR)
            .map(|(_, answered)| *answered)
            .collect();
        if lately.is_empty() {
            return match self.probe {
                Some((at, answered)) if now.since(at) <= PROBE_COUNTS_FOR => {
                    if answered {
                        ModelStatus::Up
                    } else {
                        ModelStatus::Down
                    }
                }
                _ => ModelStatus::Unknown,
            };
        }
        let failed_last = lately.iter().rev().take_while(|answered| !**answered).count();
        let failed = lately.iter().filter(|answered| !**answered).count();
        if failed_last >= DOWN_AFTER {
            ModelStatus::Down
        } else if failed_last > 0 || failed * 5 >= lately.len() {
            ModelStatus::Degraded
        } else {
            ModelStatus::Up
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn calls_decide_and_are_forgotten() {
        let mut health = Health::default();
        assert_eq!(health.status(at(0)), ModelStatus::Unknown);
        health.record(true, at(1));
        assert_eq!(health.status(at(2)), ModelStatus::Up);
        health.record(false, at(2));
        assert_eq!(health.status(at(2)), ModelStatus::Degraded);
        health.record(false, at(3));
        health.record(false, at(4));
        assert_eq!(health.status(at(4)), ModelStatus::Down);
        health.record(true, at(5));
        assert_eq!(health.status(at(5)), ModelStatus::Degraded, "three of five failed");
        for second in 6..30 {
            health.record(true, at(second));
        }
        assert_eq!(health.status(at(30)), ModelStatus::Up);
        assert_eq!(health.status(at(30 + 301)), ModelStatus::Unknown);
    }

    #[test]
    fn a_probe_counts_while_nothing_is_called() {
        let mut health = Health::default();
        health.record_probe(false, at(1));
        assert_eq!(health.status(at(2)), ModelStatus::Down);
        health.record_probe(true, at(3));
        assert_eq!(health.status(at(4)), ModelStatus::Up);
        assert_eq!(health.status(at(700)), ModelStatus::Unknown);
        health.record(false, at(700));
        assert_eq!(health.status(at(700)), ModelStatus::Degraded);
    }
}
