//! Answers that this process cannot work on and leaves to another one, or to a later version of this program.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::excerpt::Excerpt;
use domain::id::MessageId;
use domain::time::Timestamp;

/// The pause before a left answer is looked at again: as long as it has waited, within these bounds.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The time for which an answer waits for its agent. An agent that is being replaced, or that another process has, is there
/// by then.
pub(super) const AGENT_WAIT_MAX: Duration = Duration::from_secs(10 * 60);

/// The reason why an answer is left.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeaveReason {
    /// There is no agent of this full name.
    NoAgent(String),
    /// A later version of this program has written its step log.
    LaterVersion,
}

impl fmt::Display for LeaveReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAgent(name) => write!(
                f,
                "its agent {} is not there: add its plugin again, or the answer ends after {} minutes",
                Excerpt(name),
                AGENT_WAIT_MAX.as_secs() / 60
            ),
            Self::LaterVersion => f.write_str(
                "a later version of this program has worked on it: run that version, or a later one",
            ),
        }
    }
}

/// The answers that are left, until one of them is worked on again or ends.
#[derive(Debug, Default)]
pub(super) struct LeftAnswers(Mutex<HashMap<MessageId, Left>>);

#[derive(Debug)]
struct Left {
    since: Timestamp,
    reason: LeaveReason,
}

impl LeftAnswers {
    /// Remembers that the answer is left, and logs it once for each reason. Returns the time since it was first left.
    pub(super) fn add(&self, answer: MessageId, reason: LeaveReason, now: Timestamp) -> Duration {
        let mut answers = self.answers();
        let since = answers.get(&answer).map_or(now, |left| left.since);
        if answers.get(&answer).is_none_or(|left| left.reason != reason) {
            tracing::warn!(%answer, %reason, "answer left");
        }
        answers.insert(answer, Left { since, reason });
        now.since(since)
    }

    /// Forgets an answer that is left no longer.
    pub(super) fn remove(&self, answer: MessageId) {
        self.answers().remove(&answer);
    }

    /// Returns the pause before the answer is looked at again.
    pub(super) fn pause(&self, answer: MessageId, now: Timestamp) -> Duration {
        let waited = self.answers().get(&answer).map(|left| now.since(left.since)).unwrap_or_default();
        waited.clamp(PAUSE_MIN, PAUSE_MAX)
    }

    /// Returns the number of answers that are left for each reason.
    pub(super) fn count(&self) -> BTreeMap<LeaveReason, usize> {
        let mut counts = BTreeMap::new();
        for left in self.answers().values() {
            *counts.entry(left.reason.clone()).or_insert(0) += 1;
        }
        counts
    }

    fn answers(&self) -> MutexGuard<'_, HashMap<MessageId, Left>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn left_answers_are_looked_at_ever_more_rarely() {
        let (left, answer, begun) =
            (LeftAnswers::default(), MessageId::from_random(1), Timestamp::from_micros(0));
        let at = |seconds| begun.plus(Duration::from_secs(seconds));
        let gone = || LeaveReason::NoAgent("tax:adviser".to_owned());
        for (seconds, pause) in [(0, 1), (5, 5), (100, 30), (6000, 30)] {
            assert_eq!(left.add(answer, gone(), at(seconds)), Duration::from_secs(seconds));
            assert_eq!(left.pause(answer, at(seconds)), Duration::from_secs(pause));
        }
        assert_eq!(left.count(), BTreeMap::from([(gone(), 1)]));
        left.remove(answer);
        assert_eq!(left.add(answer, gone(), at(7000)), Duration::ZERO, "it was worked on meanwhile");
    }
}
