//! Asking: accepted and rejected questions, and repeated requests.

use std::time::Duration;

use domain::credits::{Balance, Credits, PostingKind};
use domain::id::{AccountId, ConversationId, KeyId};
use store::questions::{AskRefused, AskResult, AskedThrough, Idempotency, NewQuestion, QuestionTarget};
use store::{StoreError, conversations, credits, questions};

use crate::fixture::{START, StoreEngine, StoreFixture, done_answer};

on_every_engine!(
    accepted_question_has_its_reservation,
    ask_question_reports_most_telling_refusal,
    follow_up_joins_its_conversation,
    repeated_request_finds_first_answer,
    refused_request_leaves_no_trace,
    question_texts_have_bounds,
);

fn conversation_of(question: &NewQuestion) -> ConversationId {
    match &question.target {
        QuestionTarget::New(new) => new.id,
        QuestionTarget::Existing(id) | QuestionTarget::BranchOf { conversation: id, .. } => *id,
        QuestionTarget::Version(version) => version.conversation,
    }
}

async fn accepted_question_has_its_reservation(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(25).await;
    let key = KeyId::from_random(fixture.next_bits());
    let question = NewQuestion { through: AskedThrough::Key(key), ..fixture.new_question(account) };
    let accepted = fixture.ask_question(question.clone()).await.expect("there are credits");
    assert_eq!((accepted.answer, accepted.ordinal, accepted.created_at), (question.answer, 0, START));
    assert_eq!(accepted.conversation.open_answer, Some(question.answer));
    assert_eq!(
        fixture.read_balance(account).await,
        Balance { available: Credits(15), reserved: Credits(10) }
    );
    let ledger =
        fixture.store.read(move |tx| credits::list_postings(tx, account, 0, 10)).await.expect("a read");
    let posted = ledger.iter().find(|posted| posted.id == question.posting).expect("it is posted");
    assert_eq!((posted.kind, posted.amount, posted.step), (PostingKind::Reserve, Credits(10), Some(0)));
    assert_eq!((posted.answer, posted.key), (Some(question.answer), Some(key)));
    assert_eq!(posted.model.as_deref(), Some("reader"));
    let id = conversation_of(&question);
    let summary =
        fixture.store.read(move |tx| conversations::read_conversation_summary(tx, account, id)).await;
    assert_eq!(summary.expect("it is there"), accepted.conversation);
}

async fn ask_question_reports_most_telling_refusal(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let (account, other) = (fixture.create_account(15).await, fixture.create_account(100).await);
    let unknown = AccountId::from_random(fixture.next_bits());
    assert!(matches!(fixture.ask_question(fixture.new_question(unknown)).await, Err(AskRefused::NotFound)));
    let (accepted, fence) = fixture.ask_and_claim(account).await;
    let conversation = accepted.conversation.id;
    let ask = |by, conversation| fixture.ask_question(fixture.follow_up(by, conversation));
    // The balance of 5 covers none of these, but other reasons take precedence.
    assert!(matches!(ask(account, conversation).await, Err(AskRefused::Busy)));
    let nowhere = ConversationId::from_random(fixture.next_bits());
    assert!(matches!(ask(account, nowhere).await, Err(AskRefused::NotFound)));
    assert!(matches!(ask(other, conversation).await, Err(AskRefused::NotFound)), "it is not the other's");
    let refused = fixture.ask_question(fixture.new_question(account)).await;
    assert!(
        matches!(refused, Err(AskRefused::Insufficient { needed: Credits(10), available: Credits(5) })),
        "{refused:?}"
    );
    fixture.commit_step(fence, 0, 9).await.expect("the lease holds");
    fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
    assert!(matches!(ask(account, conversation).await, Err(AskRefused::Insufficient { .. })));
    assert_eq!(fixture.read_balance(account).await, Balance { available: Credits(6), reserved: Credits(0) });
    assert_eq!(fixture.read_balance(other).await.available, Credits(100));
}

async fn follow_up_joins_its_conversation(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100).await;
    let (first, fence) = fixture.ask_and_claim(account).await;
    fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
    let later = START.saturating_add(Duration::from_secs(9));
    let question = NewQuestion { now: later, ..fixture.follow_up(account, first.conversation.id) };
    let answer = question.answer;
    let second = fixture.ask_question(question).await.expect("nothing is in progress");
    assert_eq!((second.ordinal, second.conversation.modified_at), (1, later));
    assert_eq!(second.conversation.created_at, START);
    assert_eq!(second.conversation.settings, first.conversation.settings);
    let id = first.conversation.id;
    let latest = fixture.store.read(move |tx| conversations::latest_answer(tx, account, id)).await;
    assert_eq!(latest.expect("there is one").id, answer);
}

async fn repeated_request_finds_first_answer(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let (account, other) = (fixture.create_account(100).await, fixture.create_account(100).await);
    let keyed = |by, hash: u8, after: u64| NewQuestion {
        idempotency: Some(Idempotency { key: "once".to_owned(), body_hash: [hash; 32] }),
        now: START.saturating_add(Duration::from_secs(after)),
        ..fixture.new_question(by)
    };
    let ask = |question: NewQuestion| fixture.store.write(move |tx| questions::ask_question(tx, &question));
    let first = keyed(account, 1, 0);
    let (id, answer) = (conversation_of(&first), first.answer);
    assert!(matches!(ask(first).await, Ok(AskResult::Accepted(_))));
    let replayed = ask(keyed(account, 1, 86_399)).await.expect("it was asked before");
    assert_eq!(replayed, AskResult::Replayed { conversation: id, answer });
    assert!(matches!(ask(keyed(account, 2, 1)).await, Err(AskRefused::Mismatch)));
    let look = |by, hash: u8, after: u64| {
        let idempotency = Idempotency { key: "once".to_owned(), body_hash: [hash; 32] };
        let now = START.saturating_add(Duration::from_secs(after));
        fixture.store.read(move |tx| questions::find_accepted_question(tx, by, &idempotency, now))
    };
    assert_eq!(look(account, 1, 86_399).await.expect("it was asked before"), Some((id, answer)));
    assert!(matches!(look(account, 2, 1).await, Err(AskRefused::Mismatch)));
    assert_eq!(look(account, 2, 86_400).await.expect("a day has passed"), None);
    assert_eq!(look(other, 1, 1).await.expect("another's"), None);
    assert!(
        matches!(ask(keyed(other, 2, 1)).await, Ok(AskResult::Accepted(_))),
        "a key is the account's own"
    );
    assert_eq!(fixture.read_balance(account).await.reserved, Credits(10));
    fixture
        .store
        .write(move |tx| conversations::delete_conversation(tx, account, id, START))
        .await
        .expect("it is there");
    assert!(matches!(ask(keyed(account, 1, 1)).await, Err(AskRefused::Gone)));
    assert!(matches!(look(account, 1, 1).await, Err(AskRefused::Gone)));
    assert!(matches!(ask(keyed(account, 1, 86_400)).await, Ok(AskResult::Accepted(_))), "a day has passed");
    let now = START.saturating_add(Duration::from_secs(86_402));
    let swept = fixture.store.write(move |tx| questions::sweep_idempotency(tx, now, 10)).await;
    assert_eq!(swept.expect("a write"), 1, "the other account's is too old, this one's is new");
}

async fn refused_request_leaves_no_trace(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(15).await;
    let first = fixture.ask_question(fixture.new_question(account)).await.expect("there are credits");
    let keyed = NewQuestion {
        idempotency: Some(Idempotency { key: "k".to_owned(), body_hash: [0; 32] }),
        reserve: Credits(1),
        ..fixture.follow_up(account, first.conversation.id)
    };
    assert!(matches!(fixture.ask_question(keyed.clone()).await, Err(AskRefused::Busy)));
    assert_eq!(fixture.query_count("SELECT count(*) FROM idempotency").await, 0);
    assert_eq!(fixture.query_count("SELECT count(*) FROM questions").await, 1);
    assert_eq!(fixture.query_count("SELECT exchanges FROM conversations").await, 1);
    assert_eq!(fixture.read_balance(account).await, Balance { available: Credits(5), reserved: Credits(10) });
}

async fn question_texts_have_bounds(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100).await;
    let text = |text: String| NewQuestion { text, ..fixture.new_question(account) };
    let longest = "a".repeat(domain::limits::QUESTION_MAX_BYTES);
    fixture.ask_question(text(longest.clone())).await.expect("it fits");
    let refused = fixture.ask_question(text(longest + "a")).await;
    assert!(matches!(refused, Err(AskRefused::Store(StoreError::Constraint(_)))));
    let refused = fixture.ask_question(text("a\0b".to_owned())).await;
    assert!(matches!(refused, Err(AskRefused::Store(StoreError::Rule(_)))));
    assert_eq!(fixture.query_count("SELECT count(*) FROM conversations").await, 1);
}
