//! Answers that this process cannot work on and leaves to another one, or to a later version of this program.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::excerpt::Excerpt;
use domain::id::MessageId;
use domain::time::Timestamp;

/// The pause before a left answer is checked again: as long as it has waited, within these bounds.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The time for which an answer waits for its agent. An agent that is being replaced, or that another process has, is there
/// by then.
pub(super) const AGENT_WAIT_MAX: Duration = Duration::from_secs(10 * 60);

/// The reason why an answer is left.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeaveReason {
    /// No agent has this full name.
    NoAgent(String),
    /// A later version of this program has written its step log.
    LaterVersion,
}

impl fmt::Display for LeaveReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAgent(name) => write!(
                f,
                "its agent {} is missing: add its plugin again, or the answer fails after {} minutes",
                Excerpt(name),
                AGENT_WAIT_MAX.as_secs() / 60
            ),
            Self::LaterVersion => f.write_str(
                "a later version of this program has worked on it: run that version or a later one",
            ),
        }
    }
}

/// The answers that are left, until one of them is worked on again or ends.
#[derive(Debug, Default)]
pub(super) struct LeftAnswers(Mutex<HashMap<MessageId, LeftAnswer>>);

#[derive(Debug)]
struct LeftAnswer {
    since: Timestamp,
    reason: LeaveReason,
}

impl LeftAnswers {
    /// Remembers that the answer is left, and logs it once for each reason. Returns the time since it was first left.
    pub(super) fn add_answer(&self, answer: MessageId, reason: LeaveReason, now: Timestamp) -> Duration {
        let mut answers = self.lock_answers();
        let since = answers.get(&answer).map_or(now, |left| left.since);
        if answers.get(&answer).is_none_or(|left| left.reason != reason) {
            tracing::warn!(%answer, %reason, "answer left");
        }
        answers.insert(answer, LeftAnswer { since, reason });
        now.duration_since(since)
    }

    /// Removes an answer that is not left any more.
    pub(super) fn remove_answer(&self, answer: MessageId) {
        self.lock_answers().remove(&answer);
    }

    /// Returns the pause before the answer is checked again.
    pub(super) fn retry_pause(&self, answer: MessageId, now: Timestamp) -> Duration {
        let waited =
            self.lock_answers().get(&answer).map(|left| now.duration_since(left.since)).unwrap_or_default();
        waited.clamp(PAUSE_MIN, PAUSE_MAX)
    }

    /// Returns the number of answers that are left for each reason.
    pub(super) fn count_by_reason(&self) -> BTreeMap<LeaveReason, usize> {
        let mut counts = BTreeMap::new();
        for left in self.lock_answers().values() {
            *counts.entry(left.reason.clone()).or_insert(0) += 1;
        }
        counts
    }

    fn lock_answers(&self) -> MutexGuard<'_, HashMap<MessageId, LeftAnswer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn left_answers_pause_grows() {
        let (left, answer, begun) =
            (LeftAnswers::default(), MessageId::from_random(1), Timestamp::from_micros(0));
        let at = |seconds| begun.saturating_add(Duration::from_secs(seconds));
        let gone = || LeaveReason::NoAgent("tax:adviser".to_owned());
        for (seconds, pause) in [(0, 1), (5, 5), (100, 30), (6000, 30)] {
            assert_eq!(left.add_answer(answer, gone(), at(seconds)), Duration::from_secs(seconds));
            assert_eq!(left.retry_pause(answer, at(seconds)), Duration::from_secs(pause));
        }
        assert_eq!(left.count_by_reason(), BTreeMap::from([(gone(), 1)]));
        left.remove_answer(answer);
        assert_eq!(left.add_answer(answer, gone(), at(7000)), Duration::ZERO, "it was worked on meanwhile");
    }
}
