//! Metrics of the jobs that ran in this process.

use std::time::Duration;

use domain::job::{Job, NextRun};
use telemetry::{Counter, Histogram, SLOW_BUCKETS};

/// Counts runs of jobs by kind.
#[derive(Debug)]
pub struct JobMetrics {
    kinds: Vec<JobKindMetrics>,
}

/// The number of jobs of a kind, in all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobKindTotals {
    /// The name of the kind.
    pub kind: &'static str,
    /// Jobs that wait for their time or for a process.
    pub waiting: u64,
    pub running: u64,
    pub failed: u64,
}

impl JobKindTotals {
    /// Groups counts by the kinds that this version knows, and all others together: a later version may have written
    /// other names.
    pub(crate) fn by_known_kind(counted: &[store::jobs::JobKindCounts]) -> Vec<Self> {
        let mut known: Vec<Self> = Vec::new();
        for found in counted {
            let kind = Job::known_kind(&found.kind);
            let at = known.iter().position(|counts| counts.kind == kind).unwrap_or_else(|| {
                known.push(Self { kind, waiting: 0, running: 0, failed: 0 });
                known.len() - 1
            });
            known[at].waiting += found.waiting;
            known[at].running += found.running;
            known[at].failed += found.failed;
        }
        known
    }
}

/// Counts runs of one kind of job.
#[derive(Debug)]
pub struct JobKindMetrics {
    /// The name of the kind.
    pub kind: &'static str,
    pub done: Counter,
    /// Runs that failed and will be retried.
    pub retried: Counter,
    /// Runs that failed permanently, or, for recurring jobs, until the next scheduled time.
    pub failed: Counter,
    /// The durations of runs.
    pub took: Histogram,
}

impl Default for JobMetrics {
    fn default() -> Self {
        let metrics = |kind| JobKindMetrics {
            kind,
            done: Counter::default(),
            retried: Counter::default(),
            failed: Counter::default(),
            took: Histogram::new(SLOW_BUCKETS),
        };
        Self { kinds: Job::KINDS.into_iter().chain([Job::UNKNOWN]).map(metrics).collect() }
    }
}

impl JobMetrics {
    /// Returns the metrics of each kind.
    #[must_use]
    pub fn kinds(&self) -> &[JobKindMetrics] {
        &self.kinds
    }

    pub(super) fn record_run(&self, kind: &str, is_failed: bool, next: NextRun, took: Duration) {
        let kind = Job::known_kind(kind);
        let Some(metrics) = self.kinds.iter().find(|metrics| metrics.kind == kind) else { return };
        match (is_failed, next) {
            (false, _) => metrics.done.increment(),
            (true, NextRun::Retry(_)) => metrics.retried.increment(),
            (true, NextRun::Rerun(_) | NextRun::Remove | NextRun::Fail) => metrics.failed.increment(),
        }
        metrics.took.observe_duration(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_job_kinds_counted_together() {
        let counts = |kind: &str, waiting, failed| store::jobs::JobKindCounts {
            kind: kind.to_owned(),
            waiting,
            running: 1,
            failed,
        };
        let known = JobKindTotals::by_known_kind(&[
            counts("dance", 1, 2),
            counts("sing", 3, 4),
            counts("trim_audit_log", 5, 6),
        ]);
        let rest = JobKindTotals { kind: Job::UNKNOWN, waiting: 4, running: 2, failed: 6 };
        assert_eq!(
            known,
            [rest, JobKindTotals { kind: "trim_audit_log", waiting: 5, running: 1, failed: 6 }]
        );
    }

    #[test]
    fn runs_are_counted_by_outcome() {
        let (metrics, at) = (JobMetrics::default(), domain::time::Timestamp::from_micros(1));
        let took = Duration::from_millis(1);
        metrics.record_run("trim_audit_log", false, NextRun::Rerun(at), took);
        metrics.record_run("trim_audit_log", true, NextRun::Retry(at), took);
        metrics.record_run("trim_audit_log", true, NextRun::Rerun(at), took);
        metrics.record_run("dance", true, NextRun::Fail, took);
        let of = |kind| metrics.kinds().iter().find(|metrics| metrics.kind == kind).expect("it is known");
        let counted = |kind| (of(kind).done.get(), of(kind).retried.get(), of(kind).failed.get());
        assert_eq!(counted("trim_audit_log"), (1, 1, 1));
        assert_eq!((counted(Job::UNKNOWN), of(Job::UNKNOWN).took.count()), ((0, 0, 1), 1));
    }
}
