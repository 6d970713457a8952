//! Schedules background jobs: one task claims due jobs from the store and runs them here. [`domain::job`] has the
//! rules, [`store::jobs`] the table, [`run`] the work of each kind.
//!
//! Work that outlives a process, or that concerns the data of all processes, is a job. These loops belong to one process
//! and are not jobs:
//! - leases of answers and their renewal (`engine::dispatch`), the exclusive lock on the database (`store`);
//! - the supervision of machines (`machine`), the removal of those without an account (`orphans`), the end of answers
//!   with readers here (`engine::settle`);
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
use domain::job::{self, Job, Next};
use machine::Machines;
use store::jobs::{self, ClaimOptions, ClaimedJob, JobFence, NewJob};
use store::{Store, StoreError};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use workspace::Workspaces;

use crate::Environment;

pub use metrics::{JobCounts, JobKindMetrics, JobMetrics};

/// The most jobs that run here at once.
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
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    environment: Environment,
    workspaces: Workspaces,
    machines: Machines,
    node: NodeId,
    wake: Notify,
    metrics: JobMetrics,
}

/// The outcome of a run.
enum Ended {
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
    pub(crate) async fn begin(
        store: &Store,
        environment: &Environment,
        workspaces: &Workspaces,
        machines: &Machines,
        node: NodeId,
    ) -> Result<Self, StoreError> {
        let (wake, metrics) = (Notify::new(), JobMetrics::default());
        let shared = Shared {
            store: store.clone(),
            environment: environment.clone(),
            workspaces: workspaces.clone(),
            machines: machines.clone(),
            node,
            wake,
            metrics,
        };
        let this = Self { shared: Arc::new(shared) };
        this.plan().await?;
        this.log_unknown().await?;
        Ok(this)
    }

    /// Polls the store at once, because a job was written.
    pub(crate) fn wake(&self) {
        self.shared.wake.notify_one();
    }

    /// Returns the metrics of jobs in this process.
    pub(crate) fn metrics(&self) -> &JobMetrics {
        &self.shared.metrics
    }

    /// Runs due jobs until `shutdown`, which interrupts running jobs and releases their leases.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let mut running = JoinSet::new();
        let mut looked = self.shared.environment.now();
        loop {
            let now = self.shared.environment.now();
            if now < looked {
                tracing::warn!(?looked, ?now, "the clock was set back: jobs are planned again");
                self.replan().await;
            }
            looked = now;
            match self.claim(RUNNING_MAX.saturating_sub(running.len())).await {
                Ok(claimed) => {
                    for job in claimed {
                        running.spawn(self.clone().run_one(job, shutdown.clone()));
                    }
                }
                Err(error) => tracing::warn!(%error, "jobs could not be claimed"),
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
    async fn plan(&self) -> Result<(), StoreError> {
        let now = self.shared.environment.now();
        let missing = Job::RECURRING.map(|job| {
            let id = JobId::made_at(now, self.shared.environment.bits());
            NewJob { id, job, account: None, run_at: now, now }
        });
        let plan = move |tx: &mut dyn store::Sql| {
            for new in &missing {
                jobs::enqueue(tx, new)?;
            }
            jobs::bring_forward(tx, now).map(drop)
        };
        self.shared.store.write(plan).await
    }

    /// Logs that jobs of a later version wait. They are left to it.
    async fn log_unknown(&self) -> Result<(), StoreError> {
        let counted = self.shared.store.read(|tx| jobs::counts(tx)).await?;
        for unknown in counted.iter().filter(|jobs| Job::known_kind(&jobs.kind) == Job::UNKNOWN) {
            let (kind, waiting) = (&unknown.kind, unknown.waiting);
            tracing::warn!(kind, waiting, "jobs of an unknown kind are left: a later version must run them");
        }
        Ok(())
    }

    async fn replan(&self) {
        if let Err(error) = self.plan().await {
            tracing::warn!(%error, "recurring jobs could not be planned");
        }
    }

    /// Claims up to `room` jobs. Reads first, because usually no job is due.
    async fn claim(&self, room: usize) -> Result<Vec<ClaimedJob>, StoreError> {
        let now = self.shared.environment.now();
        let store = &self.shared.store;
        if room == 0 || !store.read(move |tx| jobs::is_due(tx, now, LEASE)).await? {
            return Ok(Vec::new());
        }
        let limit = u32::try_from(room).unwrap_or(u32::MAX);
        let options = ClaimOptions { node: self.shared.node, now, lease: LEASE, limit };
        store.write(move |tx| jobs::claim(tx, &options)).await
    }

    async fn run_one(self, claimed: ClaimedJob, shutdown: CancellationToken) {
        let (fence, began) = (claimed.fence, Instant::now());
        let ended = if job::may_run(claimed.attempts) {
            shutdown.run_until_cancelled(self.attempt(&claimed)).await
        } else {
            Some(Ended::Done(Err("the process ended during each attempt".to_owned())))
        };
        let id = fence.id;
        match ended {
            Some(Ended::Done(outcome)) => self.finish(&claimed, outcome, began.elapsed()).await,
            Some(Ended::LeaseLost) => {
                tracing::warn!(kind = claimed.kind, job = %id, "a job was claimed elsewhere while it ran here");
            }
            None => {
                if let Err(error) = self.shared.store.write(move |tx| jobs::release(tx, fence)).await {
                    tracing::warn!(job = %id, %error, "a job could not be given back");
                }
            }
        }
    }

    /// Runs the job and renews its lease meanwhile.
    async fn attempt(&self, claimed: &ClaimedJob) -> Ended {
        let fence = claimed.fence;
        let work = async {
            let Some(job) = claimed.job else {
                return Err("its row is damaged".to_owned());
            };
            let Shared { store, environment, workspaces, machines, .. } = &*self.shared;
            let place = run::Place { store, workspaces, machines, now: environment.now() };
            let run = timeout(RUN_MAX, run::run(job, &place));
            run.await.unwrap_or_else(|_| Err(format!("it takes longer than {RUN_MAX:?}")))
        };
        tokio::select! {
            outcome = work => Ended::Done(outcome),
            () = self.keep_lease(fence) => Ended::LeaseLost,
        }
    }

    /// Renews the lease repeatedly. Returns when it is lost.
    async fn keep_lease(&self, fence: JobFence) {
        loop {
            sleep(RENEW_EVERY).await;
            let until = self.shared.environment.now().plus(LEASE);
            match self.shared.store.write(move |tx| jobs::renew(tx, fence, until)).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!(job = %fence.id, %error, "the lease of a job could not be renewed")
                }
            }
        }
    }

    async fn finish(&self, claimed: &ClaimedJob, outcome: Result<(), String>, took: Duration) {
        let now = self.shared.environment.now();
        let next = match &outcome {
            Ok(()) => job::after_success(claimed.job, claimed.due, now),
            Err(_) => {
                let random = u64::from_be_bytes(self.shared.environment.bytes());
                job::after_failure(claimed.job, claimed.attempts, claimed.due, now, random)
            }
        };
        let (fence, error) = (claimed.fence, outcome.err());
        let (id, kind, attempts) = (fence.id, claimed.kind.as_str(), claimed.attempts);
        match (&error, next) {
            (None, _) => tracing::debug!(kind, job = %id, ?took, "job done"),
            (Some(error), Next::Retry(at)) => {
                tracing::warn!(kind, job = %id, attempts, error, retry_at = %at, "job failed; it is tried again");
            }
            (Some(error), _) => tracing::error!(kind, job = %id, attempts, error, "job failed for good"),
        }
        self.shared.metrics.ended(kind, error.is_some(), next, took);
        let finish = move |tx: &mut dyn store::Sql| jobs::finish(tx, fence, next, error.as_deref(), now);
        match self.shared.store.write(finish).await {
            Ok(true) => {}
            Ok(false) => tracing::warn!(kind, job = %id, "a job was claimed elsewhere while it ran here"),
            // The lease expires, and the job runs again.
            Err(error) => tracing::warn!(kind, job = %id, %error, "the end of a job could not be stored"),
        }
    }
}

/// Logs the panic of a job. Its lease stays until it expires, and the attempt counts.
fn tell_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a job panicked");
    }
}

#[cfg(test)]
mod tests;
