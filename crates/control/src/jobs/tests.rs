use std::sync::atomic::{AtomicI64, Ordering};

use domain::id::ConversationId;
use domain::machine::Rules;
use domain::time::{Clock, Timestamp};
use machine::Driver;
use machine::simulated::Simulated;
use store::{RowExt, SqlExt};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use workspace::Quota;

use super::*;
use crate::vm::StoreMachineRecords;
use engine::environment::Entropy;

const PATIENCE: Duration = Duration::from_secs(30);
/// The time at which tests begin.
const START: i64 = 1_800_000_000_000_000;
const DAY: i64 = 24 * 60 * 60 * 1_000_000;

struct HandSet(AtomicI64);

impl Clock for HandSet {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Relaxed))
    }
}

struct Counting(AtomicI64);

impl Entropy for Counting {
    fn fill_random(&self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.0.fetch_add(1, Ordering::Relaxed).to_be_bytes()[7];
        }
    }
}

/// A separate store with the scheduler of one node.
struct JobsStage {
    store: Store,
    clock: Arc<HandSet>,
    jobs: Jobs,
    folder: TempDir,
}

impl JobsStage {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(&folder.path().join("store.db")).expect("a store");
        let clock = Arc::new(HandSet(AtomicI64::new(START)));
        let jobs = new_scheduler(&store, &clock, &folder).await;
        Self { store, clock, jobs, folder }
    }

    fn spawn_jobs(&self) -> (JoinHandle<()>, CancellationToken) {
        let shutdown = CancellationToken::new();
        (tokio::spawn(self.jobs.clone().run_due(shutdown.clone())), shutdown)
    }

    async fn enqueue_job(&self, id: u128) -> JobId {
        let (id, job) = (JobId::from_random(id), Job::RemoveConversation(ConversationId::from_random(id)));
        let now = Timestamp::from_micros(START);
        let new = NewJob { id, job, account: None, run_at: now, now };
        self.store.write(move |tx| jobs::enqueue_job(tx, &new)).await.expect("a write");
        id
    }

    async fn execute_sql(&self, sql: &'static str) {
        self.store.write(move |tx| tx.execute(sql, &[])).await.expect("a write");
    }

    async fn count_rows(&self, sql: &'static str) -> i64 {
        let counted = self.store.read(move |tx| tx.query_one(sql, &[], |row| row.get_int(0))).await;
        counted.expect("a read").expect("a count")
    }

    /// Waits until the statement returns this count.
    async fn wait_for_count(&self, sql: &'static str, wanted: i64) {
        let waited = async {
            while self.count_rows(sql).await != wanted {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, waited).await.expect(sql);
    }
}

async fn new_scheduler(store: &Store, clock: &Arc<HandSet>, folder: &TempDir) -> Jobs {
    let environment = ServiceEnvironment::new(clock.clone(), Arc::new(Counting(AtomicI64::new(1))));
    let workspaces = Workspaces::new(folder.path().join("workspaces"), Quota::default()).expect("a folder");
    let records = StoreMachineRecords { store: store.clone(), workspaces: workspaces.clone(), marker: None };
    let driver = Driver::Simulated(Simulated::new(|_| std::future::pending()));
    let machines = Machines::new(driver, Arc::new(records), Rules::default());
    let begun =
        Jobs::with_recurring(store, &environment, &workspaces, &machines, NodeId::from_random(1)).await;
    begun.expect("the store is there")
}

const RECURRING_WAITING: &str = "SELECT count(*) FROM jobs WHERE unique_key IS NOT NULL AND node_id IS NULL AND attempts = 0 AND run_at > 1800000000000000";

#[tokio::test]
async fn enqueued_job_runs_recurring_waits() {
    let stage = JobsStage::new().await;
    stage.enqueue_job(7).await;
    let (running, shutdown) = stage.spawn_jobs();
    stage.wait_for_count("SELECT count(*) FROM jobs WHERE unique_key IS NULL", 0).await;
    stage.wait_for_count(RECURRING_WAITING, 4).await;
    stage.enqueue_job(8).await;
    stage.jobs.wake_up();
    stage.wait_for_count("SELECT count(*) FROM jobs WHERE unique_key IS NULL", 0).await;
    shutdown.cancel();
    running.await.expect("it ends without a panic");
    let done = stage.jobs.metrics().kinds().iter().map(|metrics| metrics.done.get()).sum::<u64>();
    assert_eq!(done, 6);
    // The next process finds the recurring jobs in the store.
    new_scheduler(&stage.store, &stage.clock, &stage.folder).await;
    assert_eq!(stage.count_rows(RECURRING_WAITING).await, 4);
}

#[tokio::test]
async fn failed_job_retried_fatal_given_up() {
    let stage = JobsStage::new().await;
    let (damaged, poison) = (stage.enqueue_job(7).await, stage.enqueue_job(8).await);
    stage
        .execute_sql(
            "UPDATE jobs SET payload = '?' WHERE id = (SELECT min(id) FROM jobs WHERE unique_key IS NULL)",
        )
        .await;
    stage
        .execute_sql(
            "UPDATE jobs SET attempts = 16 WHERE id = (SELECT max(id) FROM jobs WHERE unique_key IS NULL)",
        )
        .await;
    assert!(damaged < poison);
    let (running, shutdown) = stage.spawn_jobs();
    stage.wait_for_count("SELECT count(*) FROM jobs WHERE payload = '?' AND last_error IS NOT NULL", 1).await;
    stage.wait_for_count("SELECT count(*) FROM jobs WHERE failed_at IS NOT NULL", 1).await;
    shutdown.cancel();
    running.await.expect("it ends without a panic");
    let waiting =
        "SELECT count(*) FROM jobs WHERE payload = '?' AND attempts = 1 AND run_at > 1800000000000000";
    assert_eq!(stage.count_rows(waiting).await, 1);
    let failed = stage.store.read(|tx| jobs::list_failed(tx, 10)).await.expect("a read");
    assert_eq!((failed.len(), failed[0].id), (1, poison));
    assert_eq!(failed[0].error, "the process ended during every attempt");
}

#[tokio::test]
async fn clock_set_back_delays_no_job() {
    let stage = JobsStage::new().await;
    stage.clock.0.store(START + 30 * DAY, Ordering::Relaxed);
    let (running, shutdown) = stage.spawn_jobs();
    stage.wait_for_count(RECURRING_WAITING, 4).await;
    stage.clock.0.store(START, Ordering::Relaxed);
    stage.jobs.wake_up();
    let soon = "SELECT count(*) FROM jobs WHERE unique_key IS NOT NULL AND node_id IS NULL
        AND run_at <= 1800000000000000 + 86400000000";
    stage.wait_for_count(soon, 4).await;
    shutdown.cancel();
    running.await.expect("it ends without a panic");
}

#[tokio::test(start_paused = true)]
async fn lost_job_lease_ends_run() {
    let stage = JobsStage::new().await;
    let options = JobClaimOptions {
        node: NodeId::from_random(1),
        now: Timestamp::from_micros(START),
        lease: LEASE,
        limit: 1,
    };
    let claimed = stage.store.write(move |tx| jobs::claim_jobs(tx, &options)).await.expect("a claim");
    let fence = claimed[0].fence;
    let mut renewal = std::pin::pin!(stage.jobs.keep_lease(fence));
    stage.clock.0.store(START + DAY, Ordering::Relaxed);
    let renewed = async {
        let until = "SELECT count(*) FROM jobs WHERE lease_until = 1800000000000000 + 86400000000 + 60000000";
        while stage.count_rows(until).await != 1 {}
    };
    let goes_on = tokio::select! {
        () = &mut renewal => false,
        () = renewed => true,
    };
    assert!(goes_on);
    stage.execute_sql("UPDATE jobs SET epoch = epoch + 1").await;
    renewal.await;
}
