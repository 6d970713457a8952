//! Answers that wait for replies from outside.

use std::time::Duration;

use domain::answer::{Answer, AnswerEnding};
use domain::credits::Credits;
use domain::id::{AccountId, InstanceId};
use domain::pause::{CallReply, GivenReply, LastPause};
use domain::step::{AwaitedCall, ReplyKind, ToolSpec};
use domain::time::Timestamp;
use store::questions::Accepted;
use store::turns::{
    ClaimedTurn, Fence, NewPause, NewReply, ReplyOutcome, ReplyRefused, StepDone, StepLog, TurnClaimOptions,
    TurnError, TurnRecord,
};
use store::{Sql, StoreError, conversations, machines, turns};

use crate::fixture::{START, StoreEngine, StoreFixture, claim_options, done_answer};

on_every_engine!(
    paused_answer_waits_for_each_reply,
    first_reply_counts_and_repeats,
    stopped_answer_takes_no_reply,
    overdue_answer_is_claimed_to_end,
    paused_answer_needs_no_machine,
    earlier_lease_cannot_pause,
    concurrent_replies_count_once,
    deleted_conversation_takes_its_calls,
    functions_of_question_are_kept,
);

const DEADLINE: Timestamp = Timestamp::from_micros(START.micros() + 60_000_000);

/// An answer that is paused after its first step, which called `call-0`.
struct PausedAnswer<'a> {
    fixture: &'a StoreFixture,
    account: AccountId,
    accepted: Accepted,
    fence: Fence,
}

impl PausedAnswer<'_> {
    async fn claim_at(&self, now: Timestamp) -> Vec<ClaimedTurn> {
        let options = TurnClaimOptions {
            now,
            lease_until: now.saturating_add(Duration::from_secs(30)),
            ..claim_options()
        };
        let claim = move |tx: &mut dyn Sql| {
            let mut claimed = turns::claim_stopped(tx, &options)?;
            claimed.extend(turns::claim_turns(tx, &options)?);
            Ok::<_, StoreError>(claimed)
        };
        self.fixture.store.write(claim).await.expect("a claim")
    }

    fn new_reply(&self, call: &str, reply: CallReply) -> NewReply {
        NewReply {
            account: self.account,
            conversation: self.accepted.conversation.id,
            answer: self.accepted.answer,
            call: call.to_owned(),
            reply,
            now: START,
        }
    }

    async fn give(&self, new: NewReply) -> Result<ReplyOutcome, ReplyRefused> {
        self.fixture.store.write(move |tx| turns::give_reply(tx, &new)).await
    }

    async fn load(&self) -> TurnRecord {
        let answer = self.accepted.answer;
        let loaded = self.fixture.store.read(move |tx| turns::load_turn(tx, answer)).await;
        loaded.expect("a read").expect("it is open")
    }

    async fn pending(&self) -> Vec<(String, ReplyKind, Timestamp)> {
        let (account, conversation, answer) =
            (self.account, self.accepted.conversation.id, self.accepted.answer);
        let find = move |tx: &mut dyn Sql| conversations::find_answer(tx, account, conversation, answer);
        let found = self.fixture.store.read(find).await.expect("it is there");
        let pending = found.answer.pending.into_iter();
        pending.map(|pending| (pending.call.id, pending.kind, pending.deadline)).collect()
    }
}

fn text_reply(text: &str) -> CallReply {
    CallReply::Output { text: text.to_owned(), failed: false }
}

/// Creates a pause whose calls are those of [`step_with_calls`].
fn new_pause() -> NewPause {
    let calls = awaited_calls();
    NewPause { number: 0, calls, deadline: DEADLINE, now: START }
}

fn awaited_calls() -> Vec<AwaitedCall> {
    let kinds = [("call-0", ReplyKind::Function), ("call-1", ReplyKind::Approval)];
    kinds.map(|(call, kind)| AwaitedCall { call: call.to_owned(), kind }).into()
}

/// Creates a step with two calls that await replies.
fn step_with_calls(fixture: &StoreFixture) -> StepDone {
    let (done, other) = (fixture.step_done(0, 3), fixture.step_done(1, 0));
    let mut step = (*done.step).clone();
    step.blocks.extend(other.step.blocks.clone());
    step.awaited = awaited_calls();
    StepDone { step: step.into(), ..done }
}

async fn pause_answer(fixture: &StoreFixture) -> PausedAnswer<'_> {
    let account = fixture.create_account(100).await;
    let (accepted, fence) = fixture.ask_and_claim(account).await;
    let done = step_with_calls(fixture);
    let write = move |tx: &mut dyn Sql| turns::commit_step(tx, fence, StepLog::Answer, &done);
    fixture.store.write(write).await.expect("the lease holds");
    fixture
        .store
        .write(move |tx| turns::pause_answer(tx, fence, &new_pause()))
        .await
        .expect("the lease holds");
    PausedAnswer { fixture, account, accepted, fence }
}

async fn paused_answer_waits_for_each_reply(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let paused = pause_answer(&fixture).await;
    let balance = fixture.read_balance(paused.account).await;
    assert_eq!((balance.available, balance.reserved), (Credits(97), Credits(0)), "it holds no credits");
    assert_eq!(paused.claim_at(START).await, [], "nothing is to be done");
    let both = [
        ("call-0".to_owned(), ReplyKind::Function, DEADLINE),
        ("call-1".to_owned(), ReplyKind::Approval, DEADLINE),
    ];
    assert_eq!(paused.pending().await, both);
    let given = paused.give(paused.new_reply("call-1", CallReply::Approved)).await;
    assert_eq!(given.expect("it waits for that"), ReplyOutcome::Waits);
    assert_eq!(paused.pending().await, both[..1]);
    assert_eq!(paused.claim_at(START).await, [], "one call has no reply yet");
    let given = paused.give(paused.new_reply("call-0", text_reply("21 \0 degrees"))).await;
    assert_eq!(given.expect("it waits for that"), ReplyOutcome::Resumes);
    let claimed = paused.claim_at(START).await;
    assert_eq!((claimed.len(), claimed[0].attempts, claimed[0].pause_over), (1, 1, false));
    assert_eq!(claimed[0].fence.epoch, paused.fence.epoch + 1);
    let turn = paused.load().await;
    assert_eq!(turn.pause.last, Some(LastPause { step: 0, instance: None }));
    let replies = [("call-0", text_reply("21 \0 degrees")), ("call-1", CallReply::Approved)];
    let replies = replies.map(|(call, reply)| GivenReply { call: call.to_owned(), reply });
    assert_eq!(turn.pause.replies, replies);
    assert!(paused.pending().await.is_empty());
    let (fence, instance) = (claimed[0].fence, InstanceId::from_random(7));
    fixture.store.write(move |tx| turns::name_instance(tx, fence, instance)).await.expect("the lease holds");
    assert_eq!(paused.load().await.pause.last, Some(LastPause { step: 0, instance: Some(instance) }));
}

async fn first_reply_counts_and_repeats(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let paused = pause_answer(&fixture).await;
    let give = |call: &str, reply| paused.give(paused.new_reply(call, reply));
    assert_eq!(give("call-0", text_reply("a")).await.expect("it waits"), ReplyOutcome::Waits);
    assert_eq!(give("call-0", text_reply("a")).await.expect("it is equal"), ReplyOutcome::Repeated);
    assert!(matches!(give("call-0", text_reply("b")).await, Err(ReplyRefused::Different)));
    assert!(matches!(give("call-2", text_reply("a")).await, Err(ReplyRefused::NotFound)));
    assert!(matches!(give("call-1", text_reply("a")).await, Err(ReplyRefused::Unfit(ReplyKind::Approval))));
    let other = fixture.create_account(10).await;
    let foreign = NewReply { account: other, ..paused.new_reply("call-1", CallReply::Approved) };
    assert!(matches!(paused.give(foreign).await, Err(ReplyRefused::NotFound)));
    let refused = CallReply::Refused { reason: "no".to_owned() };
    assert_eq!(give("call-1", refused.clone()).await.expect("it waits"), ReplyOutcome::Resumes);
    let fence = paused.claim_at(START).await[0].fence;
    assert_eq!(give("call-1", refused.clone()).await.expect("it is equal"), ReplyOutcome::Repeated);
    fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
    assert_eq!(give("call-1", refused).await.expect("also later"), ReplyOutcome::Repeated);
    assert!(matches!(give("call-1", CallReply::Approved).await, Err(ReplyRefused::Different)));
}

async fn stopped_answer_takes_no_reply(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let paused = pause_answer(&fixture).await;
    let (account, conversation) = (paused.account, paused.accepted.conversation.id);
    let stop = move |tx: &mut dyn Sql| conversations::request_stop(tx, account, conversation);
    fixture.store.write(stop).await.expect("it is there");
    let late = paused.give(paused.new_reply("call-0", text_reply("a"))).await;
    assert!(matches!(late, Err(ReplyRefused::Closed)), "{late:?}");
    let [ClaimedTurn { fence, stop_requested: true, .. }] = paused.claim_at(START).await[..] else {
        panic!("a stop needs no reply")
    };
    let stopped = Answer::from_log(fence.answer, &[], &[], Some(AnswerEnding::Stopped));
    fixture.complete_answer(fence, stopped).await.expect("the lease holds");
    let late = paused.give(paused.new_reply("call-0", text_reply("a"))).await;
    assert!(matches!(late, Err(ReplyRefused::Closed)), "{late:?}");
    assert!(paused.pending().await.is_empty());
}

async fn overdue_answer_is_claimed_to_end(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let paused = pause_answer(&fixture).await;
    let account = paused.account;
    let stop =
        move |tx: &mut dyn Sql| machines::set_desired(tx, account, machines::StoredDesiredState::Stopped);
    fixture.store.write(stop).await.expect("a machine");
    let before = Timestamp::from_micros(DEADLINE.micros() - 1);
    assert_eq!(paused.claim_at(before).await, [], "it has time left");
    let late = NewReply { now: DEADLINE, ..paused.new_reply("call-0", text_reply("a")) };
    assert!(matches!(paused.give(late).await, Err(ReplyRefused::Closed)));
    let claimed = paused.claim_at(DEADLINE).await;
    assert!(matches!(claimed[..], [ClaimedTurn { pause_over: true, .. }]), "without a machine: {claimed:?}");
    assert_eq!(paused.claim_at(DEADLINE).await, [], "it is leased");
    let later = DEADLINE.saturating_add(Duration::from_secs(60));
    let again = paused.claim_at(later).await;
    assert!(matches!(again[..], [ClaimedTurn { pause_over: true, .. }]), "after a crash, too: {again:?}");
    let fence = again[0].fence;
    fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
    assert_eq!(fixture.query_count("SELECT count(*) FROM dispatch").await, 0);
}

async fn paused_answer_needs_no_machine(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let paused = pause_answer(&fixture).await;
    let account = paused.account;
    let clear = move |tx: &mut dyn Sql| machines::clear_start_request(tx, account);
    assert!(fixture.store.write(clear).await.expect("a machine"), "no answer waits for it");
    for (call, reply) in [("call-0", text_reply("a")), ("call-1", CallReply::Approved)] {
        paused.give(paused.new_reply(call, reply)).await.expect("it waits");
    }
    assert_eq!(paused.claim_at(START).await, [], "the machine is to be stopped");
    fixture.store.write(move |tx| machines::request_start(tx, account)).await.expect("a machine");
    assert_eq!(paused.claim_at(START).await.len(), 1);
    assert!(!fixture.store.write(clear).await.expect("a machine"), "it is worked on");
}

async fn earlier_lease_cannot_pause(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let paused = pause_answer(&fixture).await;
    let fence = paused.fence;
    let again = fixture.store.write(move |tx| turns::pause_answer(tx, fence, &new_pause())).await;
    assert!(matches!(again, Err(TurnError::Fenced)), "the lease is released: {again:?}");
    let instance = InstanceId::from_random(1);
    let named = fixture.store.write(move |tx| turns::name_instance(tx, fence, instance)).await;
    assert!(matches!(named, Err(TurnError::Fenced)), "{named:?}");
    assert!(matches!(fixture.commit_step(fence, 1, 0).await, Err(TurnError::Fenced)));
}

async fn concurrent_replies_count_once(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let paused = pause_answer(&fixture).await;
    let replies = (0..8).map(|number| {
        let (call, reply) = match number % 4 {
            0 => ("call-1", CallReply::Approved),
            other => ("call-0", text_reply(&other.to_string())),
        };
        let (store, new) = (fixture.store.clone(), paused.new_reply(call, reply));
        tokio::spawn(async move { store.write(move |tx| turns::give_reply(tx, &new)).await })
    });
    let mut given = Vec::new();
    for task in replies.collect::<Vec<_>>() {
        given.push(task.await.expect("no panic"));
    }
    let count = |wanted: ReplyOutcome| {
        given.iter().filter(|one| matches!(one, Ok(found) if *found == wanted)).count()
    };
    assert_eq!((count(ReplyOutcome::Resumes), count(ReplyOutcome::Waits)), (1, 1), "{given:?}");
    assert_eq!(count(ReplyOutcome::Repeated), 2, "{given:?}");
    assert_eq!(
        given.iter().filter(|one| matches!(one, Err(ReplyRefused::Different))).count(),
        4,
        "{given:?}"
    );
    assert_eq!(paused.claim_at(START).await.len(), 1);
}

async fn deleted_conversation_takes_its_calls(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let paused = pause_answer(&fixture).await;
    let (account, conversation) = (paused.account, paused.accepted.conversation.id);
    let delete = move |tx: &mut dyn Sql| conversations::delete_conversation(tx, account, conversation, START);
    fixture.store.write(delete).await.expect("it is there");
    let late = paused.give(paused.new_reply("call-0", text_reply("a"))).await;
    assert!(matches!(late, Err(ReplyRefused::NotFound)), "{late:?}");
    let fence = paused.claim_at(START).await[0].fence;
    fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
    let remove = move |tx: &mut dyn Sql| conversations::remove_conversation_rows(tx, conversation, 100);
    fixture.store.write(remove).await.expect("nothing holds it");
    assert_eq!(fixture.query_count("SELECT count(*) FROM awaited_calls").await, 0);
}

async fn functions_of_question_are_kept(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100).await;
    let (name, description, schema) = ("get_weather".to_owned(), "Ř".to_owned(), "{}".to_owned());
    let functions = vec![ToolSpec { name, description, schema }];
    let mut question = fixture.new_question(account);
    (question.functions, question.asks_user) = (functions.clone(), true);
    let answer = fixture.ask_question(question).await.expect("it is accepted").answer;
    let turn = fixture
        .store
        .read(move |tx| turns::load_turn(tx, answer))
        .await
        .expect("a read")
        .expect("it is open");
    assert_eq!((turn.functions, turn.asks_user, turn.pause), (functions, true, Default::default()));
}
