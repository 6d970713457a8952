//! Metrics of the jobs that ran here.

use std::time::Duration;

use domain::job::{Job, Next};
use telemetry::{Counter, Histogram, SLOW};

/// Counts runs of jobs by kind.
#[derive(Debug)]
pub struct JobFigures {
    kinds: Vec<KindFigures>,
}

/// How many jobs of a kind there are, wherever they wait or run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobCounts {
    /// The kind's name.
    pub kind: &'static str,
    /// Jobs that wait for their time or for a process.
    pub waiting: u64,
    /// Jobs that run.
    pub running: u64,
    /// Jobs that were given up.
    pub failed: u64,
}

impl JobCounts {
    /// Counts by the kinds that this version knows, and the rest together: names in the database may be of a later one.
    pub(crate) fn by_known_kind(counted: &[store::jobs::JobCounts]) -> Vec<Self> {
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
pub struct KindFigures {
    /// The kind's name.
    pub kind: &'static str,
    /// Runs that succeeded.
    pub done: Counter,
    /// Runs that failed and are tried again.
    pub retried: Counter,
    /// Runs that failed for good; of recurring jobs those that wait for their next time.
    pub failed: Counter,
    /// How long runs took.
    pub took: Histogram,
}

impl Default for JobFigures {
    fn default() -> Self {
        let figures = |kind| KindFigures {
            kind,
            done: Counter::default(),
            retried: Counter::default(),
            failed: Counter::default(),
            took: Histogram::new(SLOW),
        };
        Self { kinds: Job::KINDS.into_iter().chain([Job::UNKNOWN]).map(figures).collect() }
    }
}

impl JobFigures {
    /// Each kind.
    #[must_use]
    pub fn kinds(&self) -> &[KindFigures] {
        &self.kinds
    }

    pub(super) fn ended(&self, kind: &str, is_failed: bool, next: Next, took: Duration) {
        let kind = Job::known_kind(kind);
        let Some(figures) = self.kinds.iter().find(|figures| figures.kind == kind) else { return };
        match (is_failed, next) {
            (false, _) => figures.done.increment(),
            (true, Next::Retry(_)) => figures.retried.increment(),
            (true, Next::Rerun(_) | Next::Remove | Next::Fail) => figures.failed.increment(),
        }
        figures.took.took(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_a_later_version_are_counted_together() {
        let counts = |kind: &str, waiting, failed| store::jobs::JobCounts {
            kind: kind.to_owned(),
            waiting,
            running: 1,
            failed,
        };
        let known = JobCounts::by_known_kind(&[
            counts("dance", 1, 2),
            counts("sing", 3, 4),
            counts("trim_audit_log", 5, 6),
        ]);
        let rest = JobCounts { kind: Job::UNKNOWN, waiting: 4, running: 2, failed: 6 };
        assert_eq!(known, [rest, JobCounts { kind: "trim_audit_log", waiting: 5, running: 1, failed: 6 }]);
    }

    #[test]
    fn runs_are_counted_by_outcome() {
        let (figures, at) = (JobFigures::default(), domain::time::Timestamp::from_micros(1));
        let took = Duration::from_millis(1);
        figures.ended("trim_audit_log", false, Next::Rerun(at), took);
        figures.ended("trim_audit_log", true, Next::Retry(at), took);
        figures.ended("trim_audit_log", true, Next::Rerun(at), took);
        figures.ended("dance", true, Next::Fail, took);
        let of = |kind| figures.kinds().iter().find(|figures| figures.kind == kind).expect("it is known");
        let counted = |kind| (of(kind).done.get(), of(kind).retried.get(), of(kind).failed.get());
        assert_eq!(counted("trim_audit_log"), (1, 1, 1));
        assert_eq!((counted(Job::UNKNOWN), of(Job::UNKNOWN).took.count()), ((0, 0, 1), 1));
    }
}
