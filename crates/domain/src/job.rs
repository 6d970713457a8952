//! Background jobs: their kinds and schedules. A job is stored beside the data that it concerns, in the
//! transaction that makes it necessary, and runs at least once. Therefore jobs must be idempotent.
//!
//! ```text
//!            claim               success, recurring
//!   waiting ───────> running ────────────────────────> waiting for its next run
//!      ^                │  └───success, once──────────> removed
//!      │    failure,    │
//!      └────backoff─────┤
//!      └──lease over────┤      attempts used up
//!                       └─────────────────────────────> failed: kept for the operator
//! ```
//! A recurring job never fails permanently: after its last attempt it waits for its next run.

use std::time::Duration;

use crate::id::{AccountId, ConversationId};
use crate::time::Timestamp;

/// The wait after the first failure; doubled by each further one.
const BACKOFF: Duration = Duration::from_secs(2);
/// The longest wait after a failure.
const BACKOFF_MAX: Duration = Duration::from_secs(15 * 60);
/// The maximum number of attempts before a job fails permanently: with the waits in between, about two hours.
pub const ATTEMPTS_MAX: u32 = 16;
/// The longest interval of a recurring job, and so the longest wait of any job. A later time was written by a
/// wrong clock.
pub const INTERVAL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Job {
    /// Removes the rows of a deleted conversation.
    RemoveConversation(ConversationId),
    /// Removes all that belongs to a deleted account.
    RemoveAccount(AccountId),
    /// Removes idempotency keys after 24 hours.
    RemoveIdempotencyKeys,
    /// Removes entries of the audit log after 400 days.
    TrimAuditLog,
    /// Removes files that interrupted uploads left.
    RemoveStaleUploads,
    /// Removes failed jobs after 90 days.
    RemoveFailedJobs,
}

impl Job {
    pub const RECURRING: [Self; 4] =
        [Self::RemoveIdempotencyKeys, Self::TrimAuditLog, Self::RemoveStaleUploads, Self::RemoveFailedJobs];

    /// The names of all kinds.
    pub const KINDS: [&'static str; 6] = [
        Self::REMOVE_CONVERSATION,
        Self::REMOVE_ACCOUNT,
        Self::RemoveIdempotencyKeys.kind(),
        Self::TrimAuditLog.kind(),
        Self::RemoveStaleUploads.kind(),
        Self::RemoveFailedJobs.kind(),
    ];
    /// The name of [`Job::RemoveConversation`].
    pub const REMOVE_CONVERSATION: &'static str = "remove_conversation";
    /// The name of [`Job::RemoveAccount`].
    pub const REMOVE_ACCOUNT: &'static str = "remove_account";
    /// The label for all kinds that this version does not know.
    pub const UNKNOWN: &'static str = "unknown";

    /// Returns the kind's name, which is stored and used as a label in metrics and logs.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::RemoveConversation(_) => Self::REMOVE_CONVERSATION,
            Self::RemoveAccount(_) => Self::REMOVE_ACCOUNT,
            Self::RemoveIdempotencyKeys => "remove_idempotency_keys",
            Self::TrimAuditLog => "trim_audit_log",
            Self::RemoveStaleUploads => "remove_stale_uploads",
            Self::RemoveFailedJobs => "remove_failed_jobs",
        }
    }

    /// Returns the name if it is one of [`Job::KINDS`], otherwise [`Job::UNKNOWN`].
    #[must_use]
    pub fn known_kind(name: &str) -> &'static str {
        Self::KINDS.into_iter().find(|kind| *kind == name).unwrap_or(Self::UNKNOWN)
    }

    /// Returns the interval of a recurring job, at most [`INTERVAL_MAX`]; `None` for other jobs.
    #[must_use]
    pub const fn interval(self) -> Option<Duration> {
        match self {
            Self::RemoveConversation(_) | Self::RemoveAccount(_) => None,
            Self::RemoveIdempotencyKeys => Some(Duration::from_secs(60)),
            Self::TrimAuditLog | Self::RemoveStaleUploads => Some(Duration::from_secs(60 * 60)),
            Self::RemoveFailedJobs => Some(INTERVAL_MAX),
        }
    }
}

/// The next state of a job after a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextRun {
    Remove,
    /// It runs again at this time, with its attempts reset.
    Rerun(Timestamp),
    /// It is retried at this time.
    Retry(Timestamp),
    /// It is stored as failed.
    Fail,
}

/// Returns the next state of a job that succeeded after it was due at `due`. `None` is a job of an unknown
/// kind.
#[must_use]
pub fn after_success(job: Option<Job>, due: Timestamp, now: Timestamp) -> NextRun {
    match job.and_then(Job::interval) {
        Some(interval) => NextRun::Rerun(next_run(due, now, interval)),
        None => NextRun::Remove,
    }
}

/// Returns the next state of a job whose `attempts`th consecutive attempt failed. `random` spreads the
/// retries of many jobs.
#[must_use]
pub fn after_failure(
    job: Option<Job>,
    attempts: u32,
    due: Timestamp,
    now: Timestamp,
    random: u64,
) -> NextRun {
    let is_last = attempts >= ATTEMPTS_MAX;
    match job.and_then(Job::interval) {
        Some(interval) if is_last => NextRun::Rerun(next_run(due, now, interval)),
        None if is_last => NextRun::Fail,
        // Retries of a recurring job are at least as frequent as its runs.
        Some(interval) => NextRun::Retry(now.saturating_add(backoff_delay(attempts, random).min(interval))),
        None => NextRun::Retry(now.saturating_add(backoff_delay(attempts, random))),
    }
}

/// Returns `true` if a job may run after its `attempts`th consecutive claim. Attempts of a job that crashes
/// its process count as well, although no failure was reported.
#[must_use]
pub const fn may_run(attempts: u32) -> bool {
    attempts <= ATTEMPTS_MAX
}

/// Returns the next run of a recurring job: one interval after it was due, so that runs do not drift. Missed
/// runs are skipped, and the next run is at most one interval away even if the clock was changed.
fn next_run(due: Timestamp, now: Timestamp, interval: Duration) -> Timestamp {
    let (next, latest) = (due.saturating_add(interval), now.saturating_add(interval));
    if next > now && next <= latest { next } else { latest }
}

/// Returns the wait after the `attempts`th consecutive failure, between half of the doubled wait and all of
/// it.
fn backoff_delay(attempts: u32, random: u64) -> Duration {
    let doublings = attempts.saturating_sub(1);
    let whole = BACKOFF.saturating_mul(2_u32.saturating_pow(doublings)).min(BACKOFF_MAX);
    whole.mul_f64(0.5 + 0.5 * (random >> 11) as f64 / (1_u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

    fn one_time_job() -> Job {
        Job::RemoveConversation(ConversationId::from_random(1))
    }

    fn minutes_after(count: i64) -> Timestamp {
        Timestamp::from_micros(NOW.micros() + count * 60_000_000)
    }

    #[test]
    fn recurring_job_keeps_its_rhythm() {
        assert_eq!(after_success(Some(one_time_job()), NOW, NOW), NextRun::Remove);
        assert_eq!(after_success(None, NOW, NOW), NextRun::Remove);
        let hourly = |due| after_success(Some(Job::TrimAuditLog), due, NOW);
        assert_eq!(hourly(minutes_after(-5)), NextRun::Rerun(minutes_after(55)));
        assert_eq!(
            hourly(minutes_after(-500)),
            NextRun::Rerun(minutes_after(60)),
            "missed runs are not made up for"
        );
        assert_eq!(hourly(minutes_after(500)), NextRun::Rerun(minutes_after(60)), "the clock was set back");
    }

    #[test]
    fn job_attempts_are_bounded() {
        let random = u64::MAX;
        let after = |job, attempts| after_failure(Some(job), attempts, NOW, NOW, random);
        assert_eq!(after(one_time_job(), ATTEMPTS_MAX), NextRun::Fail);
        assert_eq!(after_failure(None, ATTEMPTS_MAX, NOW, NOW, random), NextRun::Fail);
        assert!(matches!(after(one_time_job(), ATTEMPTS_MAX - 1), NextRun::Retry(_)));
        assert_eq!(after(Job::TrimAuditLog, ATTEMPTS_MAX), NextRun::Rerun(minutes_after(60)));
        assert!(may_run(ATTEMPTS_MAX) && !may_run(ATTEMPTS_MAX + 1));
    }

    #[test]
    fn the_attempts_take_two_hours_together() {
        let waits: Duration = (1..ATTEMPTS_MAX).map(|attempts| backoff_delay(attempts, u64::MAX)).sum();
        assert!((6000..8000).contains(&waits.as_secs()), "{waits:?}");
    }

    #[test]
    fn job_kinds_have_unique_names() {
        let mut kinds: Vec<_> = Job::RECURRING.iter().map(|job| job.kind()).collect();
        kinds.push(one_time_job().kind());
        kinds.push(Job::RemoveAccount(AccountId::from_random(1)).kind());
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), Job::RECURRING.len() + 2);
        assert!(Job::KINDS.iter().all(|kind| kinds.contains(kind) && Job::known_kind(kind) == *kind));
        assert_eq!(Job::known_kind("of_a_later_version"), Job::UNKNOWN);
        assert!(Job::RECURRING.iter().all(|job| job.interval().is_some_and(|every| every <= INTERVAL_MAX)));
        assert_eq!(one_time_job().interval(), None);
    }

    proptest! {
        #[test]
        fn waits_are_bounded_for_any_clock(
            attempts in 1_u32.., due in any::<i64>(), now in -(1_i64 << 60)..1 << 60, random: u64
        ) {
            let (due, now) = (Timestamp::from_micros(due), Timestamp::from_micros(now));
            for job in Job::RECURRING.into_iter().chain([one_time_job()]) {
                for next in [after_success(Some(job), due, now), after_failure(Some(job), attempts, due, now, random)] {
                    if let NextRun::Rerun(at) | NextRun::Retry(at) = next {
                        prop_assert!(at > now && at <= now.saturating_add(INTERVAL_MAX), "{job:?} {next:?}");
                    }
                }
            }
        }

        #[test]
        fn the_backoff_grows_and_is_spread(attempts in 1_u32..40, random: u64) {
            let whole = backoff_delay(attempts, u64::MAX);
            let wait = backoff_delay(attempts, random);
            prop_assert!(wait <= whole && wait >= whole / 2 && whole <= BACKOFF_MAX, "{wait:?} {whole:?}");
            prop_assert!(backoff_delay(attempts + 1, random) >= wait);
        }
    }
}
