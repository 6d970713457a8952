//! Leases, and the writes under them.

use std::time::Duration;

use domain::answer::{AnswerEnding, LogEntry};
use domain::credits::{Balance, Credits, PostingKind, Shortage};
use domain::id::{AccountId, ConversationId, MessageId, NodeId, TraceId};
use domain::step::{ATTACHED_FILES, OutputBlock, Step, TokenUsage, WORKSPACE_INSTRUCTIONS};
use store::machines::{MachineRecordError, StoredDesiredState};
use store::questions::NewQuestion;
use store::turns::{
    AnswerCompletion, ClaimedTurn, EARLIER_EXCHANGES_MAX, EARLIER_WHOLE_MAX_BYTES, Fence, HeldLease,
    StepDone, StepLog, TurnClaimOptions, TurnError, TurnRecord,
};
use store::{StoreError, conversations, credits, machines, turns};

use crate::fixture::{
    LIMITS, START, StoreEngine, StoreFixture, claim_options, claiming_node, done_answer, example_result,
    example_step, run_sql,
};

on_every_engine!(
    claim_turns_in_order_and_share,
    answers_of_stopped_machine_stay_unclaimed,
    stopped_answers_claimed_despite_backlog,
    abandoned_queue_place_blocks_nobody,
    attempts_count_until_a_commit,
    expired_lease_can_be_claimed,
    earlier_lease_cannot_write,
    lease_is_renewed_and_released,
    commit_step_settles_and_releases_rest,
    commit_step_happens_once,
    call_has_one_result,
    attachments_are_read_before_first_step,
    step_has_one_summary,
    reservation_replaces_previous_one,
    answer_ends_once_and_holds_nothing,
    machine_with_waiting_answers_never_lapses,
    load_turn_includes_earlier_exchanges,
    loaded_exchanges_are_newest_and_bounded,
    damaged_earlier_log_leaves_its_text,
    find_trace_works_with_damaged_log,
);

async fn claim_with(fixture: &StoreFixture, options: TurnClaimOptions) -> Vec<ClaimedTurn> {
    fixture.store.write(move |tx| turns::claim_turns(tx, &options)).await.expect("a claim")
}

async fn claim_turns_in_order_and_share(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let (busy, calm) = (fixture.create_account(1000).await, fixture.create_account(1000).await);
    let mut asked = Vec::new();
    for (number, account) in [busy, busy, busy, busy, calm, busy, calm].into_iter().enumerate() {
        let now = START.saturating_add(Duration::from_secs(number as u64));
        let question = NewQuestion { now, ..fixture.new_question(account) };
        asked.push(fixture.ask_question(question).await.expect("there are credits").answer);
    }
    let answers =
        |claimed: Vec<ClaimedTurn>| claimed.into_iter().map(|one| one.fence.answer).collect::<Vec<_>>();
    let share = TurnClaimOptions { per_account_max: 2, limit: 3, ..claim_options() };
    assert_eq!(answers(claim_with(&fixture, share).await), [asked[0], asked[1], asked[4]]);
    assert_eq!(answers(claim_with(&fixture, share).await), [asked[6]], "the limit counts earlier claims");
    assert_eq!(answers(claim_with(&fixture, share).await), []);
    let fence = Fence { answer: asked[1], epoch: 1, node: claiming_node() };
    fixture.complete_answer(fence, done_answer(asked[1])).await.expect("the lease holds");
    assert_eq!(answers(claim_with(&fixture, share).await), [asked[2]]);
    let all = TurnClaimOptions { per_account_max: 100, limit: 256, ..claim_options() };
    assert_eq!(answers(claim_with(&fixture, all).await), [asked[3], asked[5]]);
    let open = fixture.store.read(|tx| turns::open_answers(tx)).await.expect("a read");
    assert_eq!(open, 6, "those taken up and those that wait");
}

async fn answers_of_stopped_machine_stay_unclaimed(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let (stopped, other) = (fixture.create_account(100).await, fixture.create_account(100).await);
    let waiting =
        fixture.ask_question(fixture.new_question(stopped)).await.expect("there are credits").answer;
    let set = async |desired| {
        let set = fixture.store.write(move |tx| machines::set_desired(tx, stopped, desired)).await;
        set.expect("it has one");
    };
    set(StoredDesiredState::Stopped).await;
    let (_, fence) = fixture.ask_and_claim(other).await;
    assert_ne!(fence.answer, waiting);
    assert_eq!(fixture.claim_turns().await, []);
    set(StoredDesiredState::Running).await;
    assert_eq!(fixture.claim_turns().await[0].fence.answer, waiting);
}

async fn stopped_answers_claimed_despite_backlog(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100).await;
    let mut asked = Vec::new();
    for _ in 0..3 {
        asked.push(fixture.ask_question(fixture.new_question(account)).await.expect("there are credits"));
    }
    let share = TurnClaimOptions { per_account_max: 1, ..claim_options() };
    let first = claim_with(&fixture, share).await[0].fence.answer;
    let queued = asked.iter().find(|one| one.answer != first).expect("one of the others");
    let claim_stopped = async || {
        let none = TurnClaimOptions { limit: 0, ..share };
        fixture.store.write(move |tx| turns::claim_stopped(tx, &none)).await.expect("a claim")
    };
    assert_eq!(claim_stopped().await, []);
    let id = queued.conversation.id;
    fixture.store.write(move |tx| conversations::request_stop(tx, account, id)).await.expect("it is there");
    let set = move |tx: &mut dyn store::Sql| machines::set_desired(tx, account, StoredDesiredState::Stopped);
    fixture.store.write(set).await.expect("it has one");
    let taken = claim_stopped().await;
    assert_eq!(taken.iter().map(|one| one.fence.answer).collect::<Vec<_>>(), [queued.answer]);
    assert!(taken[0].stop_requested);
    assert_eq!(claim_stopped().await, [], "it is leased");
    let open = fixture.store.read(|tx| turns::open_answers(tx)).await.expect("a read");
    let stopped = fixture.store.write(|tx| turns::request_all_stops(tx)).await.expect("they are there");
    assert_eq!(stopped, open, "all are stopped, leased ones, too");
    let rest = claim_stopped().await;
    assert!(!rest.is_empty() && rest.iter().all(|one| one.stop_requested), "{rest:?}");
}

async fn abandoned_queue_place_blocks_nobody(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100).await;
    let (accepted, fence) = fixture.ask_and_claim(account).await;
    fixture.complete_answer(fence, done_answer(accepted.answer)).await.expect("the lease holds");
    let waiting =
        fixture.ask_question(fixture.new_question(account)).await.expect("there are credits").answer;
    let damage = "INSERT INTO dispatch (answer_id, conversation_id, account_id, accepted_at, stop_requested)
        SELECT id, conversation_id, account_id, 0, 0 FROM answers WHERE completed_at IS NOT NULL";
    fixture.store.write(move |tx| run_sql(tx, damage)).await.expect("a row");
    let taken = fixture.claim_turns().await;
    assert_eq!(taken.iter().map(|one| one.fence.answer).collect::<Vec<_>>(), [waiting]);
    assert_eq!(fixture.query_count("SELECT count(*) FROM dispatch").await, 1);
}

async fn attempts_count_until_a_commit(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100).await;
    let (_, first) = fixture.ask_and_claim(account).await;
    let put_back = |fence| fixture.store.write(move |tx| turns::put_back(tx, fence));
    let release = |fence| fixture.store.write(move |tx| turns::release_lease(tx, fence));
    let later = TurnClaimOptions { now: START.saturating_add(Duration::from_secs(5)), ..claim_options() };
    release(first).await.expect("the lease holds");
    let again = claim_with(&fixture, later).await[0];
    assert_eq!((again.attempts, again.attempts_since), (2, START));
    put_back(again.fence).await.expect("the lease holds");
    assert!(matches!(put_back(again.fence).await, Err(TurnError::Fenced)));
    let again = fixture.claim_turns().await[0];
    assert_eq!((again.attempts, again.fence.epoch), (2, 3), "it was put back, and no attempt");
    assert!(matches!(put_back(first).await, Err(TurnError::Fenced)));
    fixture.commit_step(again.fence, 0, 1).await.expect("the lease holds");
    release(again.fence).await.expect("the lease holds");
    let again = claim_with(&fixture, later).await[0];
    assert_eq!((again.attempts, again.attempts_since), (1, later.now), "they are counted anew");
    release(again.fence).await.expect("the lease holds");
    let again = fixture.claim_turns().await[0].fence;
    let result = example_result("call-0");
    fixture
        .store
        .write(move |tx| turns::commit_result(tx, again, StepLog::Answer, 0, &result, START))
        .await
        .expect("the lease holds");
    release(again).await.expect("the lease holds");
    assert_eq!(fixture.claim_turns().await[0].attempts, 1, "a result is progress, too");
}

async fn machine_with_waiting_answers_never_lapses(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100).await;
    let other = fixture.create_account(100).await;
    let store = &fixture.store;
    let desired = async || {
        let machine = store.read(move |tx| machines::find_machine(tx, account)).await.expect("a read");
        machine.expect("it has one").desired
    };
    let lapse = async |account| store.write(move |tx| machines::clear_start_request(tx, account)).await;
    let stranger = AccountId::from_random(fixture.next_bits());
    assert!(matches!(lapse(stranger).await, Err(MachineRecordError::NotFound)));
    store.write(move |tx| machines::request_start(tx, stranger)).await.expect("nothing to want");
    store.write(move |tx| machines::request_start(tx, account)).await.expect("has one");
    fixture.ask_question(fixture.new_question(other)).await.expect("there are credits");
    assert_eq!(desired().await, StoredDesiredState::Running);
    assert!(lapse(account).await.expect("has one"), "others' answers do not count");
    assert_eq!(desired().await, StoredDesiredState::Stopped);
    store.write(move |tx| machines::request_start(tx, account)).await.expect("has one");
    let (accepted, fence) = fixture.ask_and_claim(account).await;
    assert!(!lapse(account).await.expect("has one"), "an answer waits for it");
    assert_eq!(desired().await, StoredDesiredState::Running);
    fixture.complete_answer(fence, done_answer(accepted.answer)).await.expect("the lease holds");
    assert!(lapse(account).await.expect("has one"));
    assert_eq!(desired().await, StoredDesiredState::Stopped);
}

async fn expired_lease_can_be_claimed(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100).await;
    let (accepted, first) = fixture.ask_and_claim(account).await;
    let other = NodeId::from_random(2);
    let early = TurnClaimOptions {
        node: other,
        now: START.saturating_add(Duration::from_secs(9)),
        ..claim_options()
    };
    assert_eq!(claim_with(&fixture, early).await, []);
    let until = START.saturating_add(Duration::from_secs(99));
    let late =
        TurnClaimOptions { now: START.saturating_add(Duration::from_secs(10)), lease_until: until, ..early };
    let taken = claim_with(&fixture, late).await;
    let fence = Fence { answer: first.answer, epoch: first.epoch + 1, node: other };
    let conversation = accepted.conversation.id;
    assert_eq!(
        taken,
        [ClaimedTurn {
            fence,
            conversation,
            account,
            attempts: 2,
            attempts_since: START,
            stop_requested: false,
            pause_over: false,
        }]
    );
    fixture.commit_step(fence, 0, 1).await.expect("the lease holds");
    assert!(matches!(fixture.commit_step(first, 1, 1).await, Err(TurnError::Fenced)));
    fixture.store.write(move |tx| turns::release_lease(tx, fence)).await.expect("the lease holds");
    assert_eq!(claim_with(&fixture, late).await[0].attempts, 1, "a committed step is progress");
}

async fn earlier_lease_cannot_write(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100).await;
    let (_, fence) = fixture.ask_and_claim(account).await;
    fixture.commit_step(fence, 0, 1).await.expect("the lease holds");
    let known = example_result("call-0");
    fixture
        .store
        .write(move |tx| turns::commit_result(tx, fence, StepLog::Answer, 0, &known, START))
        .await
        .expect("the lease holds");
    let before = fixture.read_balance(account).await;
    let stale = [
        Fence { epoch: fence.epoch - 1, ..fence },
        Fence { epoch: fence.epoch + 1, ..fence },
        Fence { node: NodeId::from_random(2), ..fence },
        Fence { answer: MessageId::from_random(3), ..fence },
    ];
    for stale in stale {
        assert!(matches!(fixture.reserve_step(stale, 1, 5).await, Err(TurnError::Fenced)));
        // Also a reservation that would change nothing.
        assert!(matches!(fixture.reserve_step(stale, 1, 0).await, Err(TurnError::Fenced)));
        assert!(matches!(fixture.commit_step(stale, 0, 0).await, Err(TurnError::Fenced)));
        assert!(matches!(fixture.commit_step(stale, 1, 0).await, Err(TurnError::Fenced)));
        let result = example_result("call-0");
        let refused = fixture
            .store
            .write(move |tx| turns::commit_result(tx, stale, StepLog::Answer, 0, &result, START))
            .await;
        assert!(matches!(refused, Err(TurnError::Fenced)));
        assert!(matches!(
            fixture.complete_answer(stale, done_answer(stale.answer)).await,
            Err(TurnError::Fenced)
        ));
        let refused = fixture.store.write(move |tx| turns::release_lease(tx, stale)).await;
        assert!(matches!(refused, Err(TurnError::Fenced)));
    }
    assert_eq!(fixture.read_balance(account).await, before);
    assert_eq!(fixture.query_count("SELECT count(*) FROM log").await, 2);
}

async fn lease_is_renewed_and_released(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100).await;
    let (_, fence) = fixture.ask_and_claim(account).await;
    let (stopped, second) = fixture.ask_and_claim(account).await;
    let id = stopped.conversation.id;
    fixture.store.write(move |tx| conversations::request_stop(tx, account, id)).await.expect("it is there");
    let until = START.saturating_add(Duration::from_secs(60));
    let held = fixture
        .store
        .write(move |tx| turns::renew_leases(tx, claiming_node(), until))
        .await
        .expect("a write");
    let expected =
        [HeldLease { fence, stop_requested: false }, HeldLease { fence: second, stop_requested: true }];
    assert!(held.len() == 2 && expected.iter().all(|one| held.contains(one)));
    let later = TurnClaimOptions { now: START.saturating_add(Duration::from_secs(59)), ..claim_options() };
    assert_eq!(claim_with(&fixture, later).await, []);
    fixture.store.write(move |tx| turns::release_lease(tx, second)).await.expect("the lease holds");
    let again = claim_with(&fixture, later).await;
    assert_eq!(again[0].fence, Fence { epoch: 2, ..second });
    assert!(again[0].stop_requested);
    let other = NodeId::from_random(2);
    let none = fixture.store.write(move |tx| turns::renew_leases(tx, other, until)).await.expect("a write");
    assert_eq!(none, []);
}

async fn commit_step_settles_and_releases_rest(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100).await;
    let (_, fence) = fixture.ask_and_claim(account).await;
    fixture.reserve_step(fence, 0, 30).await.expect("there are credits");
    assert_eq!(
        fixture.read_balance(account).await,
        Balance { available: Credits(70), reserved: Credits(30) }
    );
    fixture.commit_step(fence, 0, 3).await.expect("the lease holds");
    assert_eq!(fixture.read_balance(account).await, Balance { available: Credits(97), reserved: Credits(0) });
    let free = fixture.commit_step(fence, 1, 1).await;
    assert!(matches!(free, Err(TurnError::Store(StoreError::Rule(_)))), "nothing is reserved for it");
    fixture.commit_step(fence, 1, 0).await.expect("it costs nothing");
    let turn = fixture.store.read(move |tx| turns::load_turn(tx, fence.answer)).await.expect("a read");
    let turn = turn.expect("it is in progress");
    let used = TokenUsage { input_tokens: 200, output_tokens: 14, estimated: true, ..TokenUsage::default() };
    assert_eq!((turn.bill.settled, turn.bill.used, turn.outstanding), (Credits(3), used, Credits(0)));
    let ledger =
        fixture.store.read(move |tx| credits::list_postings(tx, account, 0, 100)).await.expect("a read");
    let settled: Vec<_> = ledger.iter().filter(|posted| posted.kind == PostingKind::Settle).collect();
    assert_eq!(settled.len(), 2, "a step that costs nothing is also in the ledger");
    for posted in settled {
        let number = posted.step.expect("a step has a number");
        assert_eq!(posted.usage, Some(example_step(number).usage));
        assert_eq!((posted.answer, posted.model.as_deref()), (Some(fence.answer), Some("reader")));
    }
}

async fn commit_step_happens_once(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100).await;
    let (_, first) = fixture.ask_and_claim(account).await;
    fixture.commit_step(first, 0, 1).await.expect("the lease holds");
    fixture.store.write(move |tx| turns::release_lease(tx, first)).await.expect("the lease holds");
    let second = fixture.claim_turns().await[0].fence;
    assert!(matches!(fixture.commit_step(second, 0, 0).await, Err(TurnError::StepCommitted)));
    fixture.commit_step(second, 1, 0).await.expect("no step of this number was committed");
    assert!(matches!(fixture.commit_step(second, 1, 0).await, Err(TurnError::StepCommitted)));
    assert_eq!(fixture.read_balance(account).await, Balance { available: Credits(99), reserved: Credits(0) });
    assert_eq!(fixture.query_count("SELECT count(*) FROM log").await, 2);
}

async fn call_has_one_result(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100).await;
    let (_, fence) = fixture.ask_and_claim(account).await;
    let commit = |number, result: domain::step::CallResult| {
        fixture
            .store
            .write(move |tx| turns::commit_result(tx, fence, StepLog::Answer, number, &result, START))
    };
    let early = commit(0, example_result("call-0")).await;
    assert!(matches!(early, Err(TurnError::Store(StoreError::Rule(_)))), "no step has called it");
    fixture.commit_step(fence, 0, 1).await.expect("the lease holds");
    assert!(commit(0, example_result("call-0")).await.expect("the lease holds"));
    let mut other = example_result("call-0");
    other.text = "something else".to_owned();
    assert!(!commit(0, other).await.expect("the lease holds"));
    let turn = fixture.store.read(move |tx| turns::load_turn(tx, fence.answer)).await.expect("a read");
    let instance = fixture.step_done(0, 0).instance;
    let log = [
        LogEntry::Step { number: 0, step: example_step(0).into(), instance },
        LogEntry::Result { number: 0, result: example_result("call-0").into() },
    ];
    assert_eq!(turn.expect("it is in progress").log, log);
}

async fn attachments_are_read_before_first_step(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100).await;
    let (_, fence) = fixture.ask_and_claim(account).await;
    let mut attached = example_result("attached");
    attached.tool = ATTACHED_FILES.to_owned();
    let commit = |result: domain::step::CallResult| {
        fixture.store.write(move |tx| turns::commit_result(tx, fence, StepLog::Answer, 0, &result, START))
    };
    assert!(commit(attached.clone()).await.expect("the lease holds"));
    assert!(!commit(attached.clone()).await.expect("the lease holds"), "once");
    let mut instructions = example_result(WORKSPACE_INSTRUCTIONS);
    instructions.tool = WORKSPACE_INSTRUCTIONS.to_owned();
    assert!(commit(instructions.clone()).await.expect("the lease holds"));
    fixture.commit_step(fence, 0, 1).await.expect("the lease holds");
    let turn = fixture.store.read(move |tx| turns::load_turn(tx, fence.answer)).await.expect("a read");
    let log = turn.expect("it is in progress").log;
    assert!(
        matches!(
            &log[..],
            [LogEntry::Result { result, .. }, LogEntry::Result { result: second, .. }, LogEntry::Step { number: 0, .. }]
                if **result == attached && **second == instructions
        ),
        "{log:?}"
    );
}

async fn step_has_one_summary(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100).await;
    let (_, fence) = fixture.ask_and_claim(account).await;
    fixture.reserve_step(fence, 0, 10).await.expect("there are credits");
    fixture.commit_step(fence, 0, 2).await.expect("the lease holds");
    let sum_up = |kept, cost| {
        let done = StepDone { summary: Some(kept), ..fixture.step_done(1, cost) };
        fixture.store.write(move |tx| turns::commit_step(tx, fence, StepLog::Answer, &done))
    };
    fixture.reserve_step(fence, 1, 10).await.expect("there are credits");
    sum_up(3, 4).await.expect("the lease holds");
    fixture.reserve_step(fence, 1, 10).await.expect("there are credits");
    assert!(matches!(sum_up(1, 4).await, Err(TurnError::StepCommitted)), "it has one");
    fixture.commit_step(fence, 1, 1).await.expect("the step itself is not committed yet");
    assert!(matches!(fixture.commit_step(fence, 1, 1).await, Err(TurnError::StepCommitted)));
    let turn = fixture.store.read(move |tx| turns::load_turn(tx, fence.answer)).await.expect("a read");
    let log = turn.expect("it is in progress").log;
    let [_, LogEntry::Summary { number: 1, kept: 3, .. }, LogEntry::Step { number: 1, .. }] = &log[..] else {
        panic!("{log:?}")
    };
    let (used, _) = fixture
        .store
        .read(move |tx| store::usage::by_day_and_model(tx, account, START))
        .await
        .expect("a read");
    assert_eq!((used[0].steps, used[0].summaries, used[0].credits), (3, (1, Credits(4)), Credits(7)));
}

async fn reservation_replaces_previous_one(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(40).await;
    let (_, fence) = fixture.ask_and_claim(account).await;
    fixture.reserve_step(fence, 0, 10).await.expect("it is held already");
    assert_eq!(fixture.query_count("SELECT count(*) FROM postings").await, 2);
    fixture.reserve_step(fence, 0, 40).await.expect("the earlier reservation counts");
    assert_eq!(fixture.read_balance(account).await, Balance { available: Credits(0), reserved: Credits(40) });
    assert!(matches!(fixture.reserve_step(fence, 0, 41).await, Err(TurnError::Short(Shortage::Balance))));
    assert_eq!(fixture.read_balance(account).await, Balance { available: Credits(0), reserved: Credits(40) });
    fixture.reserve_step(fence, 0, 0).await.expect("it gives back");
    assert_eq!(fixture.read_balance(account).await, Balance { available: Credits(40), reserved: Credits(0) });
}

async fn answer_ends_once_and_holds_nothing(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(40).await;
    let (accepted, fence) = fixture.ask_and_claim(account).await;
    let unended = domain::answer::Answer::new(fence.answer, &[]);
    let refused = fixture.complete_answer(fence, unended).await;
    assert!(matches!(refused, Err(TurnError::Store(StoreError::Rule(_)))));
    let completion = fixture.new_completion(done_answer(fence.answer));
    let again = completion.clone();
    fixture
        .store
        .write(move |tx| turns::complete_answer(tx, fence, &completion))
        .await
        .expect("the lease holds");
    assert_eq!(fixture.read_balance(account).await, Balance { available: Credits(40), reserved: Credits(0) });
    let refused = fixture.store.write(move |tx| turns::complete_answer(tx, fence, &again)).await;
    assert!(matches!(refused, Err(TurnError::Fenced)));
    assert_eq!(fixture.store.read(move |tx| turns::load_turn(tx, fence.answer)).await.expect("a read"), None);
    let question = fixture.follow_up(account, accepted.conversation.id);
    fixture.ask_question(question).await.expect("the conversation is free again");
}

async fn load_turn_includes_earlier_exchanges(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(1000).await;
    let (accepted, fence) = fixture.ask_and_claim(account).await;
    fixture.commit_step(fence, 0, 1).await.expect("the lease holds");
    let one = example_result("call-0");
    fixture
        .store
        .write(move |tx| turns::commit_result(tx, fence, StepLog::Answer, 0, &one, START))
        .await
        .expect("the lease holds");
    let mut stopped = done_answer(fence.answer);
    stopped.ending = Some(AnswerEnding::Stopped);
    fixture.complete_answer(fence, stopped).await.expect("the lease holds");
    let id = accepted.conversation.id;
    let question = NewQuestion {
        text: "And the deposit?".to_owned(),
        attachments: Vec::new(),
        agent: Some("law:clerk".to_owned()),
        skills: vec!["law:read".to_owned()],
        ..fixture.follow_up(account, id)
    };
    let answer = fixture.ask_question(question).await.expect("nothing is in progress").answer;
    let turn = fixture.store.read(move |tx| turns::load_turn(tx, answer)).await.expect("a read");
    let turn = turn.expect("it is in progress");
    assert_eq!((turn.account, turn.conversation, turn.ordinal, turn.epoch), (account, id, 1, 0));
    assert_eq!((turn.question.as_str(), turn.attachments.len()), ("And the deposit?", 0));
    assert_eq!(
        (turn.agent.as_deref(), turn.skills.as_slice()),
        (Some("law:clerk"), ["law:read".to_owned()].as_slice())
    );
    assert_eq!((turn.model.as_str(), turn.web_search), ("reader", true));
    assert_eq!((turn.outstanding, turn.bill.settled, turn.log.len()), (Credits(10), Credits(0), 0));
    assert_eq!((turn.earlier.len(), turn.earlier_left_out), (1, 0));
    assert_eq!(turn.model_limits, Some(LIMITS));
    let earlier = &turn.earlier[0];
    assert_eq!(earlier.question, "What is the rent?");
    assert_eq!(earlier.log.len(), 2);
    assert_eq!(earlier.attachments, ["/uploads/lease.pdf"]);
    assert!(!turn.deleted);
    fixture
        .store
        .write(move |tx| conversations::delete_conversation(tx, account, id, START))
        .await
        .expect("it is there");
    let turn = fixture.store.read(move |tx| turns::load_turn(tx, answer)).await.expect("a read");
    assert!(turn.is_some_and(|turn| turn.deleted && turn.stop_requested), "it is to be stopped");
}

/// Creates an exchange whose only step has this text, which is also the text of the answer.
async fn add_exchange(fixture: &StoreFixture, question: NewQuestion, texts: &str) -> ConversationId {
    let conversation = fixture.ask_question(question).await.expect("nothing is in progress").conversation.id;
    let fence = fixture.claim_turns().await[0].fence;
    let mut done_step = fixture.step_done(0, 1);
    let step = Step { blocks: vec![OutputBlock::Text(texts.to_owned())], ..example_step(0) };
    done_step.step = step.into();
    fixture
        .store
        .write(move |tx| turns::commit_step(tx, fence, StepLog::Answer, &done_step))
        .await
        .expect("the lease holds");
    let completion =
        AnswerCompletion { text: texts.to_owned(), ..fixture.new_completion(done_answer(fence.answer)) };
    fixture
        .store
        .write(move |tx| turns::complete_answer(tx, fence, &completion))
        .await
        .expect("the lease holds");
    conversation
}

/// Returns the texts of the earlier exchanges' steps.
fn step_texts(turn: &TurnRecord) -> Vec<String> {
    let texts = turn.earlier.iter().map(|exchange| {
        let steps = exchange.log.iter().filter_map(|entry| match entry {
            LogEntry::Step { step, .. } => Some(step.blocks.iter()),
            LogEntry::Result { .. } | LogEntry::Summary { .. } => None,
        });
        let texts = steps.flatten().filter_map(|block| match block {
            OutputBlock::Text(text) => Some(text.as_str()),
            OutputBlock::Reasoning(_) | OutputBlock::Call(_) | OutputBlock::Opaque { .. } => None,
        });
        texts.collect()
    });
    texts.collect()
}

async fn loaded_exchanges_are_newest_and_bounded(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(10_000).await;
    let conversation = add_exchange(&fixture, fixture.new_question(account), "the oldest").await;
    let whole = usize::try_from(EARLIER_WHOLE_MAX_BYTES).expect("it is small");
    for text in ["a small one".to_owned(), "x".repeat(whole), "y".repeat(whole / 2), "z".repeat(whole / 3)] {
        add_exchange(&fixture, fixture.follow_up(account, conversation), &text).await;
    }
    let load = async || {
        let open =
            fixture.ask_question(fixture.follow_up(account, conversation)).await.expect("it is free").answer;
        let turn = fixture.store.read(move |tx| turns::load_turn(tx, open)).await.expect("a read");
        let fence = fixture.claim_turns().await[0].fence;
        fixture.complete_answer(fence, done_answer(open)).await.expect("the lease holds");
        turn.expect("it is in progress")
    };
    let turn = load().await;
    let lengths: Vec<usize> = step_texts(&turn).iter().map(String::len).collect();
    assert_eq!(lengths[..2], [10, 11], "small ones are read whole also before a long one");
    assert!(lengths[2] < 20_000 && turn.earlier[2].log.len() == 1, "the beginning of its text");
    assert_eq!(lengths[3..], [whole / 2, whole / 3]);
    for _ in 0..EARLIER_EXCHANGES_MAX {
        load().await;
    }
    let turn = load().await;
    assert_eq!(turn.earlier.len(), EARLIER_EXCHANGES_MAX as usize);
    assert_eq!(turn.earlier_left_out, turn.ordinal - EARLIER_EXCHANGES_MAX);
}

async fn damaged_earlier_log_leaves_its_text(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(1000).await;
    let conversation = add_exchange(&fixture, fixture.new_question(account), "the rent is due").await;
    fixture.store.write(|tx| run_sql(tx, "UPDATE log SET body = '{'")).await.expect("damage");
    let answer =
        fixture.ask_question(fixture.follow_up(account, conversation)).await.expect("it is free").answer;
    let turn = fixture.store.read(move |tx| turns::load_turn(tx, answer)).await.expect("a read");
    assert_eq!(step_texts(&turn.expect("it is in progress")), ["the rent is due"]);
}

async fn find_trace_works_with_damaged_log(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100).await;
    let traced = NewQuestion { trace: Some(TraceId::from_bits(7)), ..fixture.new_question(account) };
    let plain = fixture.new_question(account);
    for (question, trace) in [(traced, Some(TraceId::from_bits(7))), (plain, None)] {
        let answer = question.answer;
        fixture.ask_question(question).await.expect("it is accepted");
        let found = fixture.store.read(move |tx| turns::find_trace(tx, answer)).await.expect("a read");
        assert_eq!(found, Some((trace, START)));
    }
    let nobody = MessageId::from_random(1);
    assert_eq!(fixture.store.read(move |tx| turns::find_trace(tx, nobody)).await.expect("a read"), None);
}
