//! Delegated tasks: their steps, reservations and costs.

use domain::answer::LogEntry;
use domain::credits::{Balance, Credits, Shortage};
use domain::id::{AccountId, PostingId};
use domain::step::CallResult;
use store::turns::delegations::{self, Delegation};
use store::turns::{Fence, StepLog, TurnClaimOptions, TurnError};
use store::{conversations, turns};

use crate::fixture::{START, StoreEngine, StoreFixture, claim_options, done_answer, example_result};

on_every_engine!(
    delegation_is_paid_and_resumes,
    delegation_reservations_count_for_answer,
    complete_answer_releases_delegation_reservations,
    earlier_lease_cannot_write_delegation,
    delegations_of_answer_are_bounded,
    concurrent_delegations_are_bounded,
    concurrent_delegation_result_is_written_once,
    deleted_conversation_takes_its_delegations,
);

/// The writes of one answer's delegations.
struct Delegations<'a> {
    fixture: &'a StoreFixture,
    account: AccountId,
    fence: Fence,
}

impl Delegations<'_> {
    async fn begin_delegation(&self, call: &'static str) -> Result<Option<Delegation>, TurnError> {
        let fence = self.fence;
        self.fixture.store.write(move |tx| delegations::begin_delegation(tx, fence, call, 2)).await
    }

    async fn reserve_step(&self, call: &'static str, step: u32, greatest: u64) -> Result<(), TurnError> {
        let (fence, new) = (self.fence, self.fixture.new_reservation(step, greatest));
        self.fixture
            .store
            .write(move |tx| turns::reserve_step(tx, fence, StepLog::Delegation(call), &new))
            .await
    }

    async fn commit_step(&self, call: &'static str, number: u32, cost: u64) -> Result<(), TurnError> {
        let (fence, done) = (self.fence, self.fixture.step_done(number, cost));
        self.fixture
            .store
            .write(move |tx| turns::commit_step(tx, fence, StepLog::Delegation(call), &done))
            .await
    }

    async fn commit_result(
        &self,
        call: &'static str,
        number: u32,
        came: CallResult,
    ) -> Result<bool, TurnError> {
        let fence = self.fence;
        let write = move |tx: &mut dyn store::Sql| {
            turns::commit_result(tx, fence, StepLog::Delegation(call), number, &came, START)
        };
        self.fixture.store.write(write).await
    }

    async fn end_delegation(&self, call: &'static str) -> Result<(), TurnError> {
        let (fence, release) = (self.fence, PostingId::from_random(self.fixture.next_bits()));
        self.fixture.store.write(move |tx| delegations::end_delegation(tx, fence, call, release, START)).await
    }

    async fn read_balance(&self) -> (u64, u64) {
        let Balance { available: balance, reserved } = self.fixture.read_balance(self.account).await;
        (balance.0, reserved.0)
    }
}

/// Creates an answer whose first step is committed, for 3 of its 100 credits.
async fn start_answer(fixture: &StoreFixture) -> Delegations<'_> {
    let account = fixture.create_account(100).await;
    let (_, fence) = fixture.ask_and_claim(account).await;
    fixture.commit_step(fence, 0, 3).await.expect("the lease holds");
    Delegations { fixture, account, fence }
}

async fn delegation_is_paid_and_resumes(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let delegations = start_answer(&fixture).await;
    let fresh = delegations.begin_delegation("a").await.expect("the lease holds").expect("there is room");
    assert!(fresh.log.is_empty());
    delegations.reserve_step("a", 0, 20).await.expect("there are credits");
    assert_eq!(delegations.read_balance().await, (77, 20));
    delegations.commit_step("a", 0, 5).await.expect("the lease holds");
    assert_eq!(delegations.read_balance().await, (92, 0));
    assert!(matches!(delegations.commit_step("a", 0, 0).await, Err(TurnError::StepCommitted)));
    assert!(delegations.commit_result("a", 0, example_result("c")).await.expect("the lease holds"));
    assert!(
        !delegations.commit_result("a", 0, example_result("c")).await.expect("the lease holds"),
        "a call has one result"
    );
    assert!(
        delegations.commit_result("a", 1, example_result("d")).await.is_err(),
        "its step is not committed"
    );
    let cut = delegations.begin_delegation("a").await.expect("the lease holds").expect("it was begun");
    assert!(matches!(cut.log[..], [LogEntry::Step { number: 0, .. }, LogEntry::Result { number: 0, .. }]));
    assert_eq!(cut.bill.settled, Credits(5));
    assert!(cut.bill.used.input_tokens > 0, "{:?}", cut.bill);
    // The answer's own log, cost and results are separate.
    let answer = delegations.fence.answer;
    let turn = fixture
        .store
        .read(move |tx| turns::load_turn(tx, answer))
        .await
        .expect("a read")
        .expect("it is open");
    assert_eq!((turn.log.len(), turn.bill.settled), (1, Credits(3)));
    let (account, conversation) = (delegations.account, turn.conversation);
    let read =
        fixture.store.read(move |tx| conversations::find_answer(tx, account, conversation, answer)).await;
    let own = read.expect("it is there").answer.parts;
    let rebuilt = domain::answer::Answer::from_log(answer, &turn.attachments, &turn.log, None);
    assert_eq!(own, rebuilt.parts, "nor do its readers");
    let fence = delegations.fence;
    let own = fixture
        .store
        .write(move |tx| turns::commit_result(tx, fence, StepLog::Answer, 0, &example_result("c"), START))
        .await;
    assert!(own.expect("the lease holds"));
    fixture.complete_answer(fence, done_answer(answer)).await.expect("the lease holds");
    assert_eq!(delegations.read_balance().await, (92, 0));
}

async fn delegation_reservations_count_for_answer(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let delegations = start_answer(&fixture).await;
    for call in ["a", "b"] {
        delegations.begin_delegation(call).await.expect("the lease holds").expect("there is room");
    }
    delegations.reserve_step("a", 0, 40).await.expect("there are credits");
    delegations.reserve_step("b", 0, 50).await.expect("there are credits");
    assert_eq!(delegations.read_balance().await, (7, 90));
    let short = delegations.reserve_step("b", 0, 58).await;
    assert!(matches!(short, Err(TurnError::Short(Shortage::Balance))), "{short:?}");
    assert_eq!(delegations.read_balance().await, (7, 90), "the reservation is unchanged");
    let postings = fixture.query_count("SELECT count(*) FROM postings").await;
    delegations.reserve_step("b", 0, 50).await.expect("it is held");
    assert_eq!(
        fixture.query_count("SELECT count(*) FROM postings").await,
        postings,
        "an equal reservation is not repeated"
    );
    delegations.reserve_step("b", 0, 10).await.expect("it is less");
    assert_eq!(delegations.read_balance().await, (47, 50));
    delegations.commit_step("a", 0, 40).await.expect("the lease holds");
    assert_eq!(delegations.read_balance().await, (47, 10));
    delegations.end_delegation("b").await.expect("the lease holds");
    delegations.end_delegation("b").await.expect("nothing is reserved");
    assert_eq!(delegations.read_balance().await, (57, 0));
}

async fn complete_answer_releases_delegation_reservations(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let delegations = start_answer(&fixture).await;
    delegations.begin_delegation("a").await.expect("the lease holds").expect("there is room");
    delegations.reserve_step("a", 0, 40).await.expect("there are credits");
    fixture
        .complete_answer(delegations.fence, done_answer(delegations.fence.answer))
        .await
        .expect("the lease holds");
    assert_eq!(delegations.read_balance().await, (97, 0));
    assert_eq!(fixture.query_count("SELECT count(*) FROM delegations").await, 0);
    assert!(matches!(delegations.reserve_step("a", 0, 1).await, Err(TurnError::Fenced)));
}

async fn earlier_lease_cannot_write_delegation(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let delegations = start_answer(&fixture).await;
    delegations.begin_delegation("a").await.expect("the lease holds").expect("there is room");
    delegations.reserve_step("a", 0, 40).await.expect("there are credits");
    let late = TurnClaimOptions { now: claim_options().lease_until, ..claim_options() };
    let claimed = fixture.store.write(move |tx| turns::claim_turns(tx, &late)).await.expect("a claim");
    assert_eq!(claimed[0].fence.answer, delegations.fence.answer);
    assert!(matches!(delegations.begin_delegation("a").await, Err(TurnError::Fenced)));
    assert!(matches!(delegations.reserve_step("a", 0, 1).await, Err(TurnError::Fenced)));
    assert!(matches!(delegations.commit_step("a", 0, 1).await, Err(TurnError::Fenced)));
    assert!(matches!(delegations.commit_result("a", 0, example_result("c")).await, Err(TurnError::Fenced)));
    assert!(matches!(delegations.end_delegation("a").await, Err(TurnError::Fenced)));
    let next = Delegations { fence: claimed[0].fence, ..delegations };
    next.commit_step("a", 0, 4).await.expect("the lease holds");
    assert_eq!(next.read_balance().await, (93, 0));
}

async fn delegations_of_answer_are_bounded(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let delegations = start_answer(&fixture).await;
    for call in ["a", "b"] {
        delegations.begin_delegation(call).await.expect("the lease holds").expect("there is room");
    }
    assert!(delegations.begin_delegation("c").await.expect("the lease holds").is_none());
    assert!(
        delegations.begin_delegation("a").await.expect("the lease holds").is_some(),
        "that one was begun"
    );
}

async fn concurrent_delegations_are_bounded(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let fence = start_answer(&fixture).await.fence;
    let tasks: Vec<_> = (0..8)
        .map(|call| {
            let store = fixture.store.clone();
            let begin =
                move |tx: &mut dyn store::Sql| delegations::begin_delegation(tx, fence, &call.to_string(), 2);
            tokio::spawn(async move { store.write(begin).await })
        })
        .collect();
    let mut count = 0;
    for task in tasks {
        let delegation = task.await.expect("it does not panic").expect("the lease holds");
        count += usize::from(delegation.is_some());
    }
    assert_eq!(count, 2);
}

async fn deleted_conversation_takes_its_delegations(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100).await;
    let (accepted, fence) = fixture.ask_and_claim(account).await;
    fixture.commit_step(fence, 0, 3).await.expect("the lease holds");
    let delegations = Delegations { fixture: &fixture, account, fence };
    delegations.begin_delegation("a").await.expect("the lease holds").expect("there is room");
    delegations.reserve_step("a", 0, 40).await.expect("there are credits");
    let conversation = accepted.conversation.id;
    let deleted = fixture
        .store
        .write(move |tx| conversations::delete_conversation(tx, account, conversation, START))
        .await;
    deleted.expect("it is there");
    fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
    assert_eq!(delegations.read_balance().await, (97, 0), "the reservations are released");
    while fixture
        .store
        .write(move |tx| conversations::remove_conversation_rows(tx, conversation, 2))
        .await
        .expect("a removal")
        > 0
    {}
    assert_eq!(fixture.query_count("SELECT count(*) FROM delegations").await, 0);
}

async fn concurrent_delegation_result_is_written_once(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let delegations = start_answer(&fixture).await;
    delegations.begin_delegation("a").await.expect("the lease holds").expect("there is room");
    delegations.commit_step("a", 0, 0).await.expect("the lease holds");
    let mut tasks = Vec::new();
    for _ in 0..16 {
        let (store, fence) = (fixture.store.clone(), delegations.fence);
        tasks.push(tokio::spawn(async move {
            let write = move |tx: &mut dyn store::Sql| {
                turns::commit_result(tx, fence, StepLog::Delegation("a"), 0, &example_result("c"), START)
            };
            store.write(write).await
        }));
    }
    let mut written = 0;
    for task in tasks {
        written += i32::from(task.await.expect("it does not panic").expect("the lease holds"));
    }
    assert_eq!(written, 1);
}
