//! Background jobs: enqueued in the transaction that makes them necessary, claimed by one process at a time, run until
//! they succeed or fail permanently.

use std::collections::HashSet;
use std::time::Duration;

use domain::id::{ConversationId, JobId, NodeId};
use domain::job::{Job, NextRun};
use domain::time::Timestamp;
use store::jobs::{self, ClaimedJob, JobClaimOptions, JobFence, NewJob};
use store::{Sql, StoreError, conversations};

use crate::fixture::{START, StoreEngine, StoreFixture, claiming_node, done_answer, run_sql};

on_every_engine!(
    enqueue_job_commits_with_its_transaction,
    recurring_job_exists_once,
    no_job_claimed_by_two_nodes,
    job_of_dead_holder_runs_again,
    failed_job_is_retried_then_listed,
    release_job_gives_it_back,
    clock_jump_stops_no_job,
    damaged_job_stops_no_other,
    job_of_later_version_is_left,
    deleted_conversation_removed_after_its_answer,
);

const LEASE: Duration = Duration::from_secs(60);

fn seconds_later(seconds: u64) -> Timestamp {
    START.saturating_add(Duration::from_secs(seconds))
}

fn other_node() -> NodeId {
    NodeId::from_random(2 << 40)
}

impl StoreFixture {
    fn new_job(&self, job: Job) -> NewJob {
        NewJob { id: JobId::from_random(self.next_bits()), job, account: None, run_at: START, now: START }
    }

    fn removal_job(&self) -> NewJob {
        self.new_job(Job::RemoveConversation(ConversationId::from_random(self.next_bits())))
    }

    async fn enqueue_job(&self, new: NewJob) -> bool {
        self.store.write(move |tx| jobs::enqueue_job(tx, &new)).await.expect("a write")
    }

    async fn claim_jobs(&self, node: NodeId, now: Timestamp) -> Vec<ClaimedJob> {
        let options = JobClaimOptions { node, now, lease: LEASE, limit: 10 };
        let due = self.store.read(move |tx| jobs::is_due(tx, now, LEASE)).await.expect("a read");
        let claimed = self.store.write(move |tx| jobs::claim_jobs(tx, &options)).await.expect("a claim");
        assert_eq!(due, !claimed.is_empty(), "due jobs can be claimed");
        claimed
    }

    async fn finish_job(&self, fence: JobFence, next: NextRun, error: Option<&'static str>) -> bool {
        self.store.write(move |tx| jobs::finish_job(tx, fence, next, error, START)).await.expect("a write")
    }
}

async fn enqueue_job_commits_with_its_transaction(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let new = fixture.removal_job();
    let undone = move |tx: &mut dyn Sql| {
        jobs::enqueue_job(tx, &new)?;
        Err::<(), _>(StoreError::Rule("undone"))
    };
    assert!(fixture.store.write(undone).await.is_err());
    assert_eq!(fixture.query_count("SELECT count(*) FROM jobs").await, 0);
    assert!(fixture.enqueue_job(new).await);
    assert!(!fixture.enqueue_job(new).await, "it is there");
    let [claimed] = &fixture.claim_jobs(claiming_node(), START).await[..] else { panic!("one is due") };
    assert_eq!((claimed.job, claimed.kind.as_str()), (Some(new.job), new.job.kind()));
    assert_eq!((claimed.attempts, claimed.due), (1, START));
    assert!(fixture.finish_job(claimed.fence, NextRun::Remove, None).await);
    assert_eq!(fixture.query_count("SELECT count(*) FROM jobs").await, 0);
}

async fn recurring_job_exists_once(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let recurring = |job| fixture.new_job(job);
    assert!(fixture.enqueue_job(recurring(Job::TrimAuditLog)).await);
    assert!(!fixture.enqueue_job(recurring(Job::TrimAuditLog)).await);
    assert!(fixture.enqueue_job(recurring(Job::RemoveStaleUploads)).await);
    let claimed = fixture.claim_jobs(claiming_node(), START).await;
    assert_eq!(claimed.len(), 2);
    assert!(!fixture.enqueue_job(recurring(Job::TrimAuditLog)).await, "nor is one that runs doubled");
    for one in claimed {
        assert!(fixture.finish_job(one.fence, NextRun::Rerun(seconds_later(3600)), None).await);
    }
    assert_eq!(fixture.claim_jobs(claiming_node(), seconds_later(3599)).await, []);
    let again = fixture.claim_jobs(claiming_node(), seconds_later(3600)).await;
    assert!(again.len() == 2 && again.iter().all(|one| one.attempts == 1 && one.due == seconds_later(3600)));
}

async fn no_job_claimed_by_two_nodes(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    for _ in 0..40 {
        assert!(fixture.enqueue_job(fixture.removal_job()).await);
    }
    let beside = fixture.open_second_store().expect("it can be opened beside");
    let mut taken = Vec::new();
    // A claim that finds all rows locked returns nothing and is repeated.
    for round in 0..40 {
        let mut tasks = Vec::new();
        for number in 0..8 {
            let node = NodeId::from_random(number);
            let options = JobClaimOptions { node, now: START, lease: LEASE, limit: 2 };
            let store = if number % 2 == 0 { fixture.store.clone() } else { beside.clone() };
            tasks.push(tokio::spawn(
                async move { store.write(move |tx| jobs::claim_jobs(tx, &options)).await },
            ));
        }
        for task in tasks {
            taken.extend(task.await.expect("it does not panic").expect("a claim"));
        }
        if taken.len() == 40 {
            assert!(round < 39);
            break;
        }
    }
    let jobs: HashSet<_> = taken.iter().map(|claimed| claimed.fence.id).collect();
    assert_eq!((taken.len(), jobs.len()), (40, 40));
    assert!(taken.iter().all(|claimed| claimed.fence.epoch == 1));
}

async fn job_of_dead_holder_runs_again(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    fixture.enqueue_job(fixture.removal_job()).await;
    let dead = fixture.claim_jobs(claiming_node(), START).await[0].fence;
    assert_eq!(fixture.claim_jobs(other_node(), seconds_later(59)).await, [], "the lease holds");
    let until = seconds_later(100);
    assert!(fixture.store.write(move |tx| jobs::renew_job_lease(tx, dead, until)).await.expect("a write"));
    assert_eq!(fixture.claim_jobs(other_node(), seconds_later(99)).await, [], "it was renewed");
    let [second] = &fixture.claim_jobs(other_node(), seconds_later(100)).await[..] else {
        panic!("it is free")
    };
    assert_eq!((second.fence.epoch, second.attempts), (2, 2), "a run without a report counts");
    for next in [NextRun::Remove, NextRun::Rerun(START), NextRun::Retry(START), NextRun::Fail] {
        assert!(!fixture.finish_job(dead, next, Some("late")).await, "{next:?}");
    }
    assert!(!fixture.store.write(move |tx| jobs::renew_job_lease(tx, dead, until)).await.expect("a write"));
    assert!(!fixture.store.write(move |tx| jobs::release_job(tx, dead)).await.expect("a write"));
    assert!(fixture.finish_job(second.fence, NextRun::Remove, None).await);
}

async fn failed_job_is_retried_then_listed(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(0).await;
    let new = NewJob { account: Some(account), ..fixture.removal_job() };
    fixture.enqueue_job(new).await;
    let first = fixture.claim_jobs(claiming_node(), START).await[0].fence;
    assert!(fixture.finish_job(first, NextRun::Retry(seconds_later(10)), Some("no \0 disk")).await);
    assert_eq!(fixture.claim_jobs(claiming_node(), seconds_later(9)).await, []);
    let second = fixture.claim_jobs(claiming_node(), seconds_later(10)).await.remove(0);
    assert_eq!(second.attempts, 2);
    assert!(fixture.finish_job(second.fence, NextRun::Fail, Some("no disk at all")).await);
    assert_eq!(
        fixture.claim_jobs(claiming_node(), seconds_later(1_000_000)).await,
        [],
        "it is not tried any more"
    );
    let [failed] = &fixture.store.read(|tx| jobs::list_failed(tx, 10)).await.expect("a read")[..] else {
        panic!("the job is stored as failed")
    };
    assert_eq!((failed.id, failed.account, failed.attempts), (new.id, Some(account), 2));
    assert_eq!((failed.error.as_str(), failed.failed_at), ("no disk at all", START));
    let counted = fixture.store.read(|tx| jobs::count_jobs(tx)).await.expect("a read");
    let [counts] = &counted[..] else { panic!("{counted:?}") };
    assert_eq!((counts.waiting, counts.running, counts.failed), (0, 0, 1));
    let retry = move |tx: &mut dyn Sql| jobs::retry_failed(tx, new.id, seconds_later(20));
    assert!(fixture.store.write(retry).await.expect("a write"));
    assert!(!fixture.store.write(retry).await.expect("a write"), "it waits already");
    let third = fixture.claim_jobs(claiming_node(), seconds_later(20)).await.remove(0);
    assert_eq!(third.attempts, 1);
    assert!(fixture.finish_job(third.fence, NextRun::Fail, Some("again")).await);
    let remove = |before| fixture.store.write(move |tx| jobs::remove_failed(tx, before, 10));
    assert_eq!(remove(START).await.expect("a write"), 0);
    assert_eq!(remove(seconds_later(1)).await.expect("a write"), 1);
}

async fn release_job_gives_it_back(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    fixture.enqueue_job(fixture.removal_job()).await;
    let held = fixture.claim_jobs(claiming_node(), START).await[0].fence;
    assert!(fixture.store.write(move |tx| jobs::release_job(tx, held)).await.expect("a write"));
    assert!(!fixture.store.write(move |tx| jobs::release_job(tx, held)).await.expect("a write"));
    let again = fixture.claim_jobs(other_node(), START).await.remove(0);
    assert_eq!((again.fence.epoch, again.attempts), (2, 1), "the interrupted attempt does not count");
}

async fn clock_jump_stops_no_job(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let day = 24 * 60 * 60;
    fixture.enqueue_job(fixture.removal_job()).await;
    // The clock was a week ahead when the job was claimed by a process that then died.
    fixture.claim_jobs(claiming_node(), seconds_later(7 * day)).await;
    let second = fixture.claim_jobs(other_node(), START).await.remove(0);
    assert_eq!(second.fence.epoch, 2, "no lease granted by now could last that long");
    assert_eq!(
        fixture.claim_jobs(claiming_node(), seconds_later(1)).await,
        [],
        "one that was granted now holds"
    );
    // The clock leaps forward during the run: another process claims the job, and the first cannot end it.
    let third = fixture.claim_jobs(claiming_node(), seconds_later(day)).await.remove(0);
    assert!(!fixture.finish_job(second.fence, NextRun::Remove, None).await);
    // A clock that was ahead postponed its retry.
    assert!(fixture.finish_job(third.fence, NextRun::Retry(seconds_later(7 * day)), Some("no disk")).await);
    assert_eq!(fixture.claim_jobs(claiming_node(), seconds_later(day)).await, []);
    let forward = |now| fixture.store.write(move |tx| jobs::bring_forward(tx, now));
    assert_eq!(forward(seconds_later(6 * day)).await.expect("a write"), 0, "so long it may wait");
    assert_eq!(forward(START).await.expect("a write"), 1);
    assert_eq!(fixture.claim_jobs(claiming_node(), START).await.len(), 1);
}

async fn damaged_job_stops_no_other(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    fixture.enqueue_job(fixture.removal_job()).await;
    let known = fixture.removal_job();
    fixture.enqueue_job(known).await;
    let damage =
        |tx: &mut dyn Sql| run_sql(tx, "UPDATE jobs SET payload = '?' WHERE id = (SELECT min(id) FROM jobs)");
    fixture.store.write(damage).await.expect("a write");
    let claimed = fixture.claim_jobs(claiming_node(), START).await;
    let jobs: Vec<_> = claimed.iter().map(|claimed| claimed.job).collect();
    assert_eq!(jobs, [None, Some(known.job)], "{claimed:?}");
}

async fn job_of_later_version_is_left(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    fixture.enqueue_job(fixture.removal_job()).await;
    let later_kind = |tx: &mut dyn Sql| run_sql(tx, "UPDATE jobs SET kind = 'dance'");
    fixture.store.write(later_kind).await.expect("a write");
    assert_eq!(fixture.claim_jobs(claiming_node(), START).await, [], "nobody here can run it");
    let known = fixture.removal_job();
    fixture.enqueue_job(known).await;
    let claimed = fixture.claim_jobs(claiming_node(), START).await;
    assert_eq!(claimed.iter().map(|claimed| claimed.job).collect::<Vec<_>>(), [Some(known.job)]);
    let untouched =
        "SELECT count(*) FROM jobs WHERE kind = 'dance' AND attempts = 0 AND epoch = 0 AND node_id IS NULL";
    assert_eq!(fixture.query_count(untouched).await, 1);
}

async fn deleted_conversation_removed_after_its_answer(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100).await;
    let (first, fence) = fixture.ask_and_claim(account).await;
    let (second, ended) = fixture.ask_and_claim(account).await;
    fixture.complete_answer(ended, done_answer(ended.answer)).await.expect("the lease holds");
    assert_eq!(fixture.query_count("SELECT count(*) FROM jobs").await, 0, "nothing is to be removed");
    for conversation in [first.conversation.id, second.conversation.id] {
        let delete =
            move |tx: &mut dyn Sql| conversations::delete_conversation(tx, account, conversation, START);
        fixture.store.write(delete).await.expect("it is there");
    }
    let [job] = &fixture.claim_jobs(claiming_node(), START).await[..] else {
        panic!("one is answered still")
    };
    assert_eq!(job.job, Some(Job::RemoveConversation(second.conversation.id)));
    fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
    let [job] = &fixture.claim_jobs(claiming_node(), seconds_later(1)).await[..] else {
        panic!("now it is not")
    };
    assert_eq!(job.job, Some(Job::RemoveConversation(first.conversation.id)));
    for conversation in [first.conversation.id, second.conversation.id] {
        let remove = move |tx: &mut dyn Sql| conversations::remove_conversation_rows(tx, conversation, 100);
        assert!(fixture.store.write(remove).await.expect("a write") > 0);
        assert_eq!(fixture.store.write(remove).await.expect("a write"), 0, "it may run again");
    }
    assert_eq!(fixture.query_count("SELECT count(*) FROM conversations").await, 0);
}
