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
    fn fill(&self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.0.fetch_add(1, Ordering::Relaxed).to_be_bytes()[7];
        }
    }
}

/// A separate store with the scheduler of one node.
struct Stage {
    store: Store,
    clock: Arc<HandSet>,
    jobs: Jobs,
    folder: TempDir,
}

impl Stage {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(&folder.path().join("store.db")).expect("a store");
        let clock = Arc::new(HandSet(AtomicI64::new(START)));
        let jobs = scheduler(&store, &clock, &folder).await;
        Self { store, clock, jobs, folder }
    }

    fn run(&self) -> (JoinHandle<()>, CancellationToken) {
        let shutdown = CancellationToken::new();
        (tokio::spawn(self.jobs.clone().run(shutdown.clone())), shutdown)
    }

    async fn enqueue(&self, id: u128) -> JobId {
        let (id, job) = (JobId::from_random(id), Job::RemoveConversation(ConversationId::from_random(id)));
        let now = Timestamp::from_micros(START);
        let new = NewJob { id, job, account: None, run_at: now, now };
        self.store.write(move |tx| jobs::enqueue(tx, &new)).await.expect("a write");
        id
    }

    async fn change(&self, sql: &'static str) {
        self.store.write(move |tx| tx.execute(sql, &[])).await.expect("a write");
    }

    async fn count(&self, sql: &'static str) -> i64 {
        let counted = self.store.read(move |tx| tx.one(sql, &[], |row| row.int(0))).await;
        counted.expect("a read").expect("a count")
    }

    /// Waits until the statement returns this count.
    async fn until(&self, sql: &'static str, wanted: i64) {
        let waited = async {
            while self.count(sql).await != wanted {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, waited).await.expect(sql);
    }
}

async fn scheduler(store: &Store, clock: &Arc<HandSet>, folder: &TempDir) -> Jobs {
    let environment = Environment::new(clock.clone(), Arc::new(Counting(AtomicI64::new(1))));
    let workspaces = Workspaces::new(folder.path().join("workspaces"), Quota::default()).expect("a folder");
    let records = StoreMachineRecords { store: store.clone(), workspaces: workspaces.clone(), marker: None };
    let driver = Driver::Simulated(Simulated::new(|_| std::future::pending()));
    let machines = Machines::new(driver, Arc::new(records), Rules::default());
    let begun = Jobs::begin(store, &environment, &workspaces, &machines, NodeId::from_random(1)).await;
    begun.expect("the store is there")
}

const RECURRING_WAITING: &str = "SELECT count(*) FROM jobs WHERE unique_key IS NOT NULL AND node_id IS NULL AND attempts = 0 AND run_at > 1800000000000000";

#[tokio::test]
async fn what_is_written_runs_and_what_recurs_waits_for_its_next_run() {
    let stage = Stage::new().await;
    stage.enqueue(7).await;
    let (running, shutdown) = stage.run();
    stage.until("SELECT count(*) FROM jobs WHERE unique_key IS NULL", 0).await;
    stage.until(RECURRING_WAITING, 4).await;
    stage.enqueue(8).await;
    stage.jobs.wake();
    stage.until("SELECT count(*) FROM jobs WHERE unique_key IS NULL", 0).await;
    shutdown.cancel();
    running.await.expect("it ends without a panic");
    let done = stage.jobs.metrics().kinds().iter().map(|metrics| metrics.done.get()).sum::<u64>();
    assert_eq!(done, 6);
    // The next process finds the recurring jobs in the store.
    scheduler(&stage.store, &stage.clock, &stage.folder).await;
    assert_eq!(stage.count(RECURRING_WAITING).await, 4);
}

#[tokio::test]
async fn a_run_that_fails_is_tried_again_later_and_one_that_kills_the_process_is_given_up() {
    let stage = Stage::new().await;
    let (damaged, poison) = (stage.enqueue(7).await, stage.enqueue(8).await);
    stage
        .change(
            "UPDATE jobs SET payload = '?' WHERE id = (SELECT min(id) FROM jobs WHERE unique_key IS NULL)",
        )
        .await;
    stage
        .change(
            "UPDATE jobs SET attempts = 16 WHERE id = (SELECT max(id) FROM jobs WHERE unique_key IS NULL)",
        )
        .await;
    assert!(damaged < poison);
    let (running, shutdown) = stage.run();
    stage.until("SELECT count(*) FROM jobs WHERE payload = '?' AND last_error IS NOT NULL", 1).await;
    stage.until("SELECT count(*) FROM jobs WHERE failed_at IS NOT NULL", 1).await;
    shutdown.cancel();
    running.await.expect("it ends without a panic");
    let waiting =
        "SELECT count(*) FROM jobs WHERE payload = '?' AND attempts = 1 AND run_at > 1800000000000000";
    assert_eq!(stage.count(waiting).await, 1);
    let failed = stage.store.read(|tx| jobs::list_failed(tx, 10)).await.expect("a read");
    assert_eq!((failed.len(), failed[0].id), (1, poison));
    assert_eq!(failed[0].error, "the process ended during each attempt");
}

#[tokio::test]
async fn a_clock_that_is_set_back_puts_nothing_off() {
    let stage = Stage::new().await;
    stage.clock.0.store(START + 30 * DAY, Ordering::Relaxed);
    let (running, shutdown) = stage.run();
    stage.until(RECURRING_WAITING, 4).await;
    stage.clock.0.store(START, Ordering::Relaxed);
    stage.jobs.wake();
    let soon = "SELECT count(*) FROM jobs WHERE unique_key IS NOT NULL AND node_id IS NULL
        AND run_at <= 1800000000000000 + 86400000000";
    stage.until(soon, 4).await;
    shutdown.cancel();
    running.await.expect("it ends without a panic");
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_while_it_holds_and_its_loss_ends_the_run() {
    let stage = Stage::new().await;
    let options = ClaimOptions {
        node: NodeId::from_random(1),
        now: Timestamp::from_micros(START),
        lease: LEASE,
        limit: 1,
    };
    let claimed = stage.store.write(move |tx| jobs::claim(tx, &options)).await.expect("a claim");
    let fence = claimed[0].fence;
    let mut renewal = std::pin::pin!(stage.jobs.keep_lease(fence));
    stage.clock.0.store(START + DAY, Ordering::Relaxed);
    let renewed = async {
        let until = "SELECT count(*) FROM jobs WHERE lease_until = 1800000000000000 + 86400000000 + 60000000";
        while stage.count(until).await != 1 {}
    };
    let goes_on = tokio::select! {
        () = &mut renewal => false,
        () = renewed => true,
    };
    assert!(goes_on);
    stage.change("UPDATE jobs SET epoch = epoch + 1").await;
    renewal.await;
}
