//! Schedules background jobs: one task claims due jobs from the store and runs them here. [`domain::job`] has the
//! rules, [`store::jobs`] the table, [`run`] the work of each kind.
//!
//! Work that outlives a process, or that concerns the data of all processes, is a job. These loops belong to one process
//! and are not jobs:
//! - leases of answers and their renewal (`engine::dispatch`), the exclusive lock on the database (`store`);
//! - the supervision of machines (`machine`), the removal of machines without an account (`orphans`), the end of
//!   answers with readers here (`engine::settle`);
//! - the vendors' models and health, the folders of plugins (`service`, `catalogs`);
//! - the indexing of a history that is searched (`history`);
//! - the deadline of the machines (`machine_lease`), the marker of the workspaces (`workspaces_marker`);
//! - the disk of the data folder and its reserve (`disk_guard`, `disk_reserve`), the preallocation of SQLite's files (`store`);
//! - the release of memory to the system and the export of traces (`causerie`).

mod metrics;
mod run;

use std::sync::Arc;
use std::time::Duration;

use domain::id::{JobId, NodeId};
use domain::job::{self, Job, NextRun};
use machine::Machines;
use store::jobs::{self, ClaimedJob, JobClaimOptions, JobFence, NewJob};
use store::{Store, StoreError};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use workspace::Workspaces;

use crate::ServiceEnvironment;

pub use metrics::{JobKindMetrics, JobKindTotals, JobMetrics};

/// The maximum number of jobs that run here at once.
const RUNNING_MAX: usize = 4;
/// The interval between polls of the store without a notification.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// The duration of a lease, and the interval between renewals.
const LEASE: Duration = Duration::from_secs(60);
const RENEW_EVERY: Duration = Duration::from_secs(15);
/// The longest run. A run that is cut keeps its progress, and the next attempt continues it.
const RUN_MAX: Duration = Duration::from_secs(30 * 60);

/// Runs background jobs. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Jobs {
    shared: Arc<JobsShared>,
}

struct JobsShared {
    store: Store,
    environment: ServiceEnvironment,
    workspaces: Workspaces,
    machines: Machines,
    node: NodeId,
    wake: Notify,
    metrics: JobMetrics,
}

/// The outcome of a run.
enum JobRunOutcome {
    /// The run ended, with an error if it failed.
    Done(Result<(), String>),
    /// The lease expired, and another process has claimed the job.
    LeaseLost,
}

impl Jobs {
    /// Plans the recurring jobs.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn with_recurring(
        store: &Store,
        environment: &ServiceEnvironment,
        workspaces: &Workspaces,
        machines: &Machines,
        node: NodeId,
    ) -> Result<Self, StoreError> {
        let (wake, metrics) = (Notify::new(), JobMetrics::default());
        let shared = JobsShared {
            store: store.clone(),
            environment: environment.clone(),
            workspaces: workspaces.clone(),
            machines: machines.clone(),
            node,
            wake,
            metrics,
        };
        let this = Self { shared: Arc::new(shared) };
        this.plan_recurring().await?;
        this.log_unknown().await?;
        Ok(this)
    }

    /// Polls the store at once, because a job was written.
    pub(crate) fn wake_up(&self) {
        self.shared.wake.notify_one();
    }

    /// Returns the metrics of jobs in this process.
    pub(crate) fn metrics(&self) -> &JobMetrics {
        &self.shared.metrics
    }

    /// Runs due jobs until `shutdown`, which interrupts running jobs and releases their leases.
    pub(crate) async fn run_due(self, shutdown: CancellationToken) {
        let mut running = JoinSet::new();
        let mut looked = self.shared.environment.now();
        loop {
            let now = self.shared.environment.now();
            if now < looked {
                tracing::warn!(?looked, ?now, "clock set back: rescheduling jobs");
                self.replan().await;
            }
            looked = now;
            match self.claim_jobs(RUNNING_MAX.saturating_sub(running.len())).await {
                Ok(claimed) => {
                    for job in claimed {
                        running.spawn(self.clone().run_one(job, shutdown.clone()));
                    }
                }
                Err(error) => tracing::warn!(%error, "job claim failed"),
            }
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = self.shared.wake.notified() => {}
                Some(ended) = running.join_next(), if !running.is_empty() => tell_panic(ended),
                () = sleep(CHECK_INTERVAL) => {}
            }
        }
        while let Some(ended) = running.join_next().await {
            tell_panic(ended);
        }
    }

    /// Writes missing recurring jobs, and brings jobs forward that a wrong clock scheduled too late.
    async fn plan_recurring(&self) -> Result<(), StoreError> {
        let now = self.shared.environment.now();
        let missing = Job::RECURRING.map(|job| {
            let id = JobId::made_at(now, self.shared.environment.random_bits());
            NewJob { id, job, account: None, run_at: now, now }
        });
        let plan = move |tx: &mut dyn store::Sql| {
            for new in &missing {
                jobs::enqueue_job(tx, new)?;
            }
            jobs::bring_forward(tx, now).map(drop)
        };
        self.shared.store.write(plan).await
    }

    /// Logs that jobs of a later version wait. Only that version runs them.
    async fn log_unknown(&self) -> Result<(), StoreError> {
        let counted = self.shared.store.read(|tx| jobs::count_jobs(tx)).await?;
        for unknown in counted.iter().filter(|jobs| Job::known_kind(&jobs.kind) == Job::UNKNOWN) {
            let (kind, waiting) = (&unknown.kind, unknown.waiting);
            tracing::warn!(kind, waiting, "jobs of an unknown kind skipped: run a later version");
        }
        Ok(())
    }

    async fn replan(&self) {
        if let Err(error) = self.plan_recurring().await {
            tracing::warn!(%error, "recurring job scheduling failed");
        }
    }

    /// Claims up to `room` jobs. Reads first, because usually no job is due.
    async fn claim_jobs(&self, room: usize) -> Result<Vec<ClaimedJob>, StoreError> {
        let now = self.shared.environment.now();
        let store = &self.shared.store;
        if room == 0 || !store.read(move |tx| jobs::is_due(tx, now, LEASE)).await? {
            return Ok(Vec::new());
        }
        let limit = u32::try_from(room).unwrap_or(u32::MAX);
        let options = JobClaimOptions { node: self.shared.node, now, lease: LEASE, limit };
        store.write(move |tx| jobs::claim_jobs(tx, &options)).await
    }

    async fn run_one(self, claimed: ClaimedJob, shutdown: CancellationToken) {
        let (fence, began) = (claimed.fence, Instant::now());
        let ended = if job::may_run(claimed.attempts) {
            shutdown.run_until_cancelled(self.attempt_job(&claimed)).await
        } else {
            Some(JobRunOutcome::Done(Err("the process ended during every attempt".to_owned())))
        };
        let id = fence.id;
        match ended {
            Some(JobRunOutcome::Done(outcome)) => self.finish_job(&claimed, outcome, began.elapsed()).await,
            Some(JobRunOutcome::LeaseLost) => {
                tracing::warn!(kind = claimed.kind, job = %id, "job lease lost: claimed by another process");
            }
            None => {
                if let Err(error) = self.shared.store.write(move |tx| jobs::release_job(tx, fence)).await {
                    tracing::warn!(job = %id, %error, "job release failed");
                }
            }
        }
    }

    /// Runs the job and renews its lease meanwhile.
    async fn attempt_job(&self, claimed: &ClaimedJob) -> JobRunOutcome {
        let fence = claimed.fence;
        let work = async {
            let Some(job) = claimed.job else {
                return Err("its row is damaged".to_owned());
            };
            let JobsShared { store, environment, workspaces, machines, .. } = &*self.shared;
            let place = run::JobContext { store, workspaces, machines, now: environment.now() };
            let run = timeout(RUN_MAX, run::run_job(job, &place));
            run.await.unwrap_or_else(|_| Err(format!("it took longer than {RUN_MAX:?}")))
        };
        tokio::select! {
            outcome = work => JobRunOutcome::Done(outcome),
            () = self.keep_lease(fence) => JobRunOutcome::LeaseLost,
        }
    }

    /// Renews the lease repeatedly. Returns when it is lost.
    async fn keep_lease(&self, fence: JobFence) {
        loop {
            sleep(RENEW_EVERY).await;
            let until = self.shared.environment.now().saturating_add(LEASE);
            match self.shared.store.write(move |tx| jobs::renew_job_lease(tx, fence, until)).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!(job = %fence.id, %error, "job lease renewal failed")
                }
            }
        }
    }

    async fn finish_job(&self, claimed: &ClaimedJob, outcome: Result<(), String>, took: Duration) {
        let now = self.shared.environment.now();
        let next = match &outcome {
            Ok(()) => job::after_success(claimed.job, claimed.due, now),
            Err(_) => {
                let random = u64::from_be_bytes(self.shared.environment.random_bytes());
                job::after_failure(claimed.job, claimed.attempts, claimed.due, now, random)
            }
        };
        let (fence, error) = (claimed.fence, outcome.err());
        let (id, kind, attempts) = (fence.id, claimed.kind.as_str(), claimed.attempts);
        match (&error, next) {
            (None, _) => tracing::debug!(kind, job = %id, ?took, "job done"),
            (Some(error), NextRun::Retry(at)) => {
                tracing::warn!(kind, job = %id, attempts, error, retry_at = %at, "job failed: retrying later");
            }
            (Some(error), _) => tracing::error!(kind, job = %id, attempts, error, "job failed permanently"),
        }
        self.shared.metrics.record_run(kind, error.is_some(), next, took);
        let finish = move |tx: &mut dyn store::Sql| jobs::finish_job(tx, fence, next, error.as_deref(), now);
        match self.shared.store.write(finish).await {
            Ok(true) => {}
            Ok(false) => tracing::warn!(kind, job = %id, "job lease lost: claimed by another process"),
            // The lease expires, and the job runs again.
            Err(error) => tracing::warn!(kind, job = %id, %error, "job completion not stored"),
        }
    }
}

/// Logs the panic of a job. Its lease stays until it expires, and the attempt counts.
fn tell_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "job panicked");
    }
}

#[cfg(test)]
mod tests;
