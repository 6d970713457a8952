//! Delegated tasks: their steps, reservations and costs.

use domain::answer::LogEntry;
use domain::credits::{Balance, Credits, Shortage};
use domain::id::{AccountId, PostingId};
use domain::step::CallResult;
use store::turns::delegations::{self, Delegation};
use store::turns::{ClaimOptions, Fence, Log, TurnError};
use store::{conversations, turns};

use crate::fixture::{Engine, Fixture, START, claim_options, done, result};

on_every_engine!(
    a_delegation_is_paid_by_its_answer_and_goes_on_where_it_was_cut,
    the_reservations_of_delegations_are_part_of_the_answers,
    completing_an_answer_releases_the_reservations_of_its_delegations,
    a_delegation_can_not_be_written_under_an_earlier_lease,
    an_answer_has_only_so_many_delegations,
    of_delegations_at_once_only_so_many_begin,
    a_result_of_a_delegation_that_comes_twice_at_once_is_written_once,
    a_deleted_conversation_takes_its_delegations_along,
);

/// The writes of one answer's delegations.
struct Delegations<'a> {
    fixture: &'a Fixture,
    account: AccountId,
    fence: Fence,
}

impl Delegations<'_> {
    async fn begin(&self, call: &'static str) -> Result<Option<Delegation>, TurnError> {
        let fence = self.fence;
        self.fixture.store.write(move |tx| delegations::begin(tx, fence, call, 2)).await
    }

    async fn reserve(&self, call: &'static str, step: u32, greatest: u64) -> Result<(), TurnError> {
        let (fence, new) = (self.fence, self.fixture.reservation(step, greatest));
        self.fixture.store.write(move |tx| turns::reserve(tx, fence, Log::Delegation(call), &new)).await
    }

    async fn commit(&self, call: &'static str, number: u32, cost: u64) -> Result<(), TurnError> {
        let (fence, done) = (self.fence, self.fixture.step_done(number, cost));
        self.fixture.store.write(move |tx| turns::commit_step(tx, fence, Log::Delegation(call), &done)).await
    }

    async fn result(&self, call: &'static str, number: u32, came: CallResult) -> Result<bool, TurnError> {
        let fence = self.fence;
        let write = move |tx: &mut dyn store::Sql| {
            turns::commit_result(tx, fence, Log::Delegation(call), number, &came, START)
        };
        self.fixture.store.write(write).await
    }

    async fn end(&self, call: &'static str) -> Result<(), TurnError> {
        let (fence, release) = (self.fence, PostingId::from_random(self.fixture.bits()));
        self.fixture.store.write(move |tx| delegations::end(tx, fence, call, release, START)).await
    }

    async fn balance(&self) -> (u64, u64) {
        let Balance { available: balance, reserved } = self.fixture.balance(self.account).await;
        (balance.0, reserved.0)
    }
}

/// Creates an answer whose first step is committed, for 3 of its 100 credits.
async fn begun(fixture: &Fixture) -> Delegations<'_> {
    let account = fixture.account(100).await;
    let (_, fence) = fixture.turn(account).await;
    fixture.commit_step(fence, 0, 3).await.expect("the lease holds");
    Delegations { fixture, account, fence }
}

async fn a_delegation_is_paid_by_its_answer_and_goes_on_where_it_was_cut(engine: Engine) {
    let fixture = Fixture::new(engine);
    let delegations = begun(&fixture).await;
    let fresh = delegations.begin("a").await.expect("the lease holds").expect("there is room");
    assert!(fresh.log.is_empty());
    delegations.reserve("a", 0, 20).await.expect("there are credits");
    assert_eq!(delegations.balance().await, (77, 20));
    delegations.commit("a", 0, 5).await.expect("the lease holds");
    assert_eq!(delegations.balance().await, (92, 0));
    assert!(matches!(delegations.commit("a", 0, 0).await, Err(TurnError::StepCommitted)));
    assert!(delegations.result("a", 0, result("c")).await.expect("the lease holds"));
    assert!(
        !delegations.result("a", 0, result("c")).await.expect("the lease holds"),
        "a call has one result"
    );
    assert!(delegations.result("a", 1, result("d")).await.is_err(), "its step is not committed");
    let cut = delegations.begin("a").await.expect("the lease holds").expect("it was begun");
    assert!(matches!(cut.log[..], [LogEntry::Step { number: 0, .. }, LogEntry::Result { number: 0, .. }]));
    assert_eq!(cut.bill.settled, Credits(5));
    assert!(cut.bill.used.input_tokens > 0, "{:?}", cut.bill);
    // The answer's own log, cost and results are separate.
    let answer = delegations.fence.answer;
    let turn =
        fixture.store.read(move |tx| turns::load(tx, answer)).await.expect("a read").expect("it is open");
    assert_eq!((turn.log.len(), turn.bill.settled), (1, Credits(3)));
    let (account, conversation) = (delegations.account, turn.conversation);
    let read = fixture.store.read(move |tx| conversations::answer(tx, account, conversation, answer)).await;
    let own = read.expect("it is there").answer.parts;
    let rebuilt = domain::answer::Answer::rebuild(answer, &turn.attachments, &turn.log, None);
    assert_eq!(own, rebuilt.parts, "nor do its readers");
    let fence = delegations.fence;
    let own = fixture
        .store
        .write(move |tx| turns::commit_result(tx, fence, Log::Answer, 0, &result("c"), START))
        .await;
    assert!(own.expect("the lease holds"));
    fixture.complete(fence, done(answer)).await.expect("the lease holds");
    assert_eq!(delegations.balance().await, (92, 0));
}

async fn the_reservations_of_delegations_are_part_of_the_answers(engine: Engine) {
    let fixture = Fixture::new(engine);
    let delegations = begun(&fixture).await;
    for call in ["a", "b"] {
        delegations.begin(call).await.expect("the lease holds").expect("there is room");
    }
    delegations.reserve("a", 0, 40).await.expect("there are credits");
    delegations.reserve("b", 0, 50).await.expect("there are credits");
    assert_eq!(delegations.balance().await, (7, 90));
    let short = delegations.reserve("b", 0, 58).await;
    assert!(matches!(short, Err(TurnError::Short(Shortage::Balance))), "{short:?}");
    assert_eq!(delegations.balance().await, (7, 90), "the reservation is unchanged");
    let postings = fixture.count("SELECT count(*) FROM postings").await;
    delegations.reserve("b", 0, 50).await.expect("it is held");
    assert_eq!(
        fixture.count("SELECT count(*) FROM postings").await,
        postings,
        "an equal reservation is not repeated"
    );
    delegations.reserve("b", 0, 10).await.expect("it is less");
    assert_eq!(delegations.balance().await, (47, 50));
    delegations.commit("a", 0, 40).await.expect("the lease holds");
    assert_eq!(delegations.balance().await, (47, 10));
    delegations.end("b").await.expect("the lease holds");
    delegations.end("b").await.expect("nothing is reserved");
    assert_eq!(delegations.balance().await, (57, 0));
}

async fn completing_an_answer_releases_the_reservations_of_its_delegations(engine: Engine) {
    let fixture = Fixture::new(engine);
    let delegations = begun(&fixture).await;
    delegations.begin("a").await.expect("the lease holds").expect("there is room");
    delegations.reserve("a", 0, 40).await.expect("there are credits");
    fixture.complete(delegations.fence, done(delegations.fence.answer)).await.expect("the lease holds");
    assert_eq!(delegations.balance().await, (97, 0));
    assert_eq!(fixture.count("SELECT count(*) FROM delegations").await, 0);
    assert!(matches!(delegations.reserve("a", 0, 1).await, Err(TurnError::Fenced)));
}

async fn a_delegation_can_not_be_written_under_an_earlier_lease(engine: Engine) {
    let fixture = Fixture::new(engine);
    let delegations = begun(&fixture).await;
    delegations.begin("a").await.expect("the lease holds").expect("there is room");
    delegations.reserve("a", 0, 40).await.expect("there are credits");
    let late = ClaimOptions { now: claim_options().lease_until, ..claim_options() };
    let claimed = fixture.store.write(move |tx| turns::claim(tx, &late)).await.expect("a claim");
    assert_eq!(claimed[0].fence.answer, delegations.fence.answer);
    assert!(matches!(delegations.begin("a").await, Err(TurnError::Fenced)));
    assert!(matches!(delegations.reserve("a", 0, 1).await, Err(TurnError::Fenced)));
    assert!(matches!(delegations.commit("a", 0, 1).await, Err(TurnError::Fenced)));
    assert!(matches!(delegations.result("a", 0, result("c")).await, Err(TurnError::Fenced)));
    assert!(matches!(delegations.end("a").await, Err(TurnError::Fenced)));
    let next = Delegations { fence: claimed[0].fence, ..delegations };
    next.commit("a", 0, 4).await.expect("the lease holds");
    assert_eq!(next.balance().await, (93, 0));
}

async fn an_answer_has_only_so_many_delegations(engine: Engine) {
    let fixture = Fixture::new(engine);
    let delegations = begun(&fixture).await;
    for call in ["a", "b"] {
        delegations.begin(call).await.expect("the lease holds").expect("there is room");
    }
    assert!(delegations.begin("c").await.expect("the lease holds").is_none());
    assert!(delegations.begin("a").await.expect("the lease holds").is_some(), "that one was begun");
}

async fn of_delegations_at_once_only_so_many_begin(engine: Engine) {
    let fixture = Fixture::new(engine);
    let fence = begun(&fixture).await.fence;
    let tasks: Vec<_> = (0..8)
        .map(|call| {
            let store = fixture.store.clone();
            let begin = move |tx: &mut dyn store::Sql| delegations::begin(tx, fence, &call.to_string(), 2);
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

async fn a_deleted_conversation_takes_its_delegations_along(engine: Engine) {
    let fixture = Fixture::new(engine);
    let account = fixture.account(100).await;
    let (accepted, fence) = fixture.turn(account).await;
    fixture.commit_step(fence, 0, 3).await.expect("the lease holds");
    let delegations = Delegations { fixture: &fixture, account, fence };
    delegations.begin("a").await.expect("the lease holds").expect("there is room");
    delegations.reserve("a", 0, 40).await.expect("there are credits");
    let conversation = accepted.conversation.id;
    let deleted =
        fixture.store.write(move |tx| conversations::delete(tx, account, conversation, START)).await;
    deleted.expect("it is there");
    fixture.complete(fence, done(fence.answer)).await.expect("the lease holds");
    assert_eq!(delegations.balance().await, (97, 0), "the reservations are released");
    while fixture.store.write(move |tx| conversations::remove(tx, conversation, 2)).await.expect("a removal")
        > 0
    {}
    assert_eq!(fixture.count("SELECT count(*) FROM delegations").await, 0);
}

async fn a_result_of_a_delegation_that_comes_twice_at_once_is_written_once(engine: Engine) {
    let fixture = Fixture::new(engine);
    let delegations = begun(&fixture).await;
    delegations.begin("a").await.expect("the lease holds").expect("there is room");
    delegations.commit("a", 0, 0).await.expect("the lease holds");
    let mut tasks = Vec::new();
    for _ in 0..16 {
        let (store, fence) = (fixture.store.clone(), delegations.fence);
        tasks.push(tokio::spawn(async move {
            let write = move |tx: &mut dyn store::Sql| {
                turns::commit_result(tx, fence, Log::Delegation("a"), 0, &result("c"), START)
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
