//! Reading, changing and deleting conversations.

use std::time::Duration;

use domain::answer::{
    Answer, AnswerEnding, AnswerFailure, AnswerSource, ContentPart, ErrorCode, LogEntry, PartContent,
    RevisionStamp,
};
use domain::citation::PassagePlace;
use domain::credits::{Balance, Credits};
use domain::id::{AccountId, ConversationId, PartId};
use store::conversations::{ConversationError, ConversationListPage, ConversationPatch, StoredMessage};
use store::questions::NewQuestion;
use store::turns::{ClaimedTurn, TurnError};
use store::{StoreError, accounts, conversations, credits, turns};

use crate::fixture::{
    START, StoreEngine, StoreFixture, claim_options, done_answer, example_result, example_step, run_sql,
};

on_every_engine!(
    list_conversations_pinned_first_then_latest,
    patch_changes_only_own_title,
    answer_in_progress_rebuilds_from_log,
    completed_answer_reads_as_it_ended,
    completed_answer_cost_is_listed,
    title_is_read_with_first_question,
    read_messages_lists_whole_history,
    stop_marks_answer_in_progress,
    delete_stops_answer_and_pays_it,
    deleted_rows_go_in_chunks,
    damaged_rows_are_named,
);

async fn list_page(
    fixture: &StoreFixture,
    account: AccountId,
    offset: u64,
    limit: u32,
) -> ConversationListPage {
    fixture
        .store
        .read(move |tx| conversations::list_conversations(tx, account, offset, limit))
        .await
        .expect("a read")
}

async fn delete_conversation(
    fixture: &StoreFixture,
    account: AccountId,
    id: ConversationId,
) -> Result<(), ConversationError> {
    fixture.store.write(move |tx| conversations::delete_conversation(tx, account, id, START)).await.map(drop)
}

async fn list_conversations_pinned_first_then_latest(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let (account, other) = (fixture.create_account(1000).await, fixture.create_account(1000).await);
    let mut ids = Vec::new();
    for number in 0..5 {
        let now = START.saturating_add(Duration::from_secs(number));
        let question = NewQuestion { now, ..fixture.new_question(account) };
        ids.push(fixture.ask_question(question).await.expect("there are credits").conversation.id);
    }
    fixture.ask_question(fixture.new_question(other)).await.expect("there are credits");
    let pinned = ids[1];
    let pin = ConversationPatch { pinned: Some(true), ..ConversationPatch::default() };
    fixture
        .store
        .write(move |tx| conversations::patch_conversation(tx, account, pinned, &pin))
        .await
        .expect("it is there");
    let whole = list_page(&fixture, account, 0, 50).await;
    let order: Vec<_> = whole.conversations.iter().map(|summary| summary.id).collect();
    assert_eq!(order, [ids[1], ids[4], ids[3], ids[2], ids[0]]);
    assert_eq!(whole.total, 5);
    assert_eq!(list_page(&fixture, account, 1, 2).await.conversations, whole.conversations[1..3]);
    assert_eq!(
        list_page(&fixture, account, 9, 2).await,
        ConversationListPage { conversations: Vec::new(), total: 5 }
    );
    delete_conversation(&fixture, account, ids[3]).await.expect("it is there");
    assert_eq!(list_page(&fixture, account, 2, 2).await.conversations[0].id, ids[2]);
    assert_eq!(list_page(&fixture, account, 0, 1).await.total, 4);
    let stored = fixture.store.read(move |tx| accounts::find_account(tx, account)).await.expect("a read");
    assert_eq!(stored.expect("it is there").conversations, 4);
}

async fn completed_answer_cost_is_listed(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let (account, other) = (fixture.create_account(1000).await, fixture.create_account(1000).await);
    let (accepted, fence) = fixture.ask_and_claim(account).await;
    let (id, answer) = (accepted.conversation.id, accepted.answer);
    let cost = |by| fixture.store.read(move |tx| conversations::answer_cost(tx, by, id, answer));
    assert_eq!(cost(account).await.expect("a read"), None, "it is in progress");
    fixture.complete_answer(fence, done_answer(answer)).await.expect("the lease holds");
    let left = fixture.read_balance(account).await.available;
    assert_eq!(cost(account).await.expect("a read"), Some(Credits(1000 - left.0)));
    assert!(matches!(cost(other).await, Err(ConversationError::NotFound)));
}

async fn title_is_read_with_first_question(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let (account, other) = (fixture.create_account(1000).await, fixture.create_account(1000).await);
    let question = fixture.new_question(account);
    let first = Some(("A title".to_owned(), question.text.clone()));
    let id = fixture.ask_question(question).await.expect("there are credits").conversation.id;
    let both = |by| fixture.store.read(move |tx| conversations::title_and_first_question(tx, by, id));
    assert_eq!(both(account).await.expect("a read"), first);
    assert_eq!(both(other).await.expect("a read"), None);
    for by in [other, account] {
        let set = fixture.store.write(move |tx| conversations::set_title(tx, by, id, "Another"));
        set.await.expect("a write");
        let title = both(account).await.expect("a read").expect("it is there").0;
        assert_eq!(title == "Another", by == account, "{title}");
    }
}

async fn patch_changes_only_own_title(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let (account, other) = (fixture.create_account(100).await, fixture.create_account(100).await);
    let id =
        fixture.ask_question(fixture.new_question(account)).await.expect("there are credits").conversation.id;
    let titled = |by, title: &str| {
        let patch = ConversationPatch { title: Some(title.to_owned()), pinned: None };
        fixture.store.write(move |tx| conversations::patch_conversation(tx, by, id, &patch))
    };
    let longest = "ž".repeat(domain::limits::TITLE_MAX_CHARS);
    let summary = titled(account, &longest).await.expect("it is there");
    assert_eq!((summary.title, summary.pinned, summary.modified_at), (longest.clone(), false, START));
    assert!(matches!(titled(other, "mine").await, Err(ConversationError::NotFound)));
    let refused = titled(account, &format!("{longest}ž")).await;
    assert!(matches!(refused, Err(ConversationError::Store(StoreError::Constraint(_)))));
}

async fn answer_in_progress_rebuilds_from_log(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100).await;
    let (accepted, fence) = fixture.ask_and_claim(account).await;
    let id = accepted.conversation.id;
    let read = || fixture.store.read(move |tx| conversations::find_answer(tx, account, id, fence.answer));
    let began = read().await.expect("it is there");
    let mut empty = Answer::new(fence.answer, &["/uploads/lease.pdf".to_owned()]);
    empty.stamp = RevisionStamp { epoch: 1, revision: 0 };
    assert_eq!((began.text.as_str(), began.completed_at), ("", None));
    assert_eq!(began.answer, empty);
    fixture.commit_step(fence, 0, 1).await.expect("the lease holds");
    let log = [LogEntry::Step {
        number: 0,
        step: example_step(0).into(),
        instance: fixture.step_done(0, 0).instance,
    }];
    let expected = Answer::from_log(fence.answer, &["/uploads/lease.pdf".to_owned()], &log, None);
    let now = read().await.expect("it is there");
    assert_eq!(now.text, expected.unmarked_text());
    assert_eq!(now.answer.parts, expected.parts);
}

async fn completed_answer_reads_as_it_ended(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let (account, other) = (fixture.create_account(100).await, fixture.create_account(100).await);
    let (accepted, fence) = fixture.ask_and_claim(account).await;
    let id = accepted.conversation.id;
    let log = [
        LogEntry::Step {
            number: 0,
            step: example_step(0).into(),
            instance: fixture.step_done(0, 0).instance,
        },
        LogEntry::Result { number: 0, result: example_result("call-0").into() },
    ];
    let error = AnswerFailure { code: ErrorCode::TooManySteps, message: "too\0many".to_owned() };
    let mut answer =
        Answer::from_log(fence.answer, &["/a".to_owned()], &log, Some(AnswerEnding::Failed(error.clone())));
    answer.stamp = RevisionStamp { epoch: 1, revision: 41 };
    let body = PartContent::Text("It is so [1].".to_owned());
    answer.parts.push(ContentPart { id: PartId::from_random(7), step: Some(0), body });
    let place = PassagePlace::File { path: "/a".to_owned(), page: None, lines: None, page_name: None };
    let answer = answer
        .with_sources([(AnswerSource { number: 1, place }, 0)])
        .with_passages([(1, "so it is".into()), (2, "not cited".into())]);
    fixture.complete_answer(fence, answer.clone()).await.expect("the lease holds");
    let read = |by| fixture.store.read(move |tx| conversations::find_answer(tx, by, id, fence.answer));
    let read_again = read(account).await.expect("it is there");
    let ending = AnswerEnding::Failed(AnswerFailure { message: "too many".to_owned(), ..error });
    assert_eq!(read_again.answer.ending, Some(ending), "NUL is replaced");
    assert_eq!(read_again.answer.parts, answer.parts);
    assert_eq!(
        (read_again.answer.passage_text(1), read_again.answer.passage_text(2)),
        (Some("so it is"), None)
    );
    assert_eq!((read_again.answer.stamp, &read_again.answer.sources), (answer.stamp, &answer.sources));
    assert_eq!(read_again.completed_at, Some(START.saturating_add(Duration::from_secs(1))));
    assert_eq!(read_again.text, answer.unmarked_text().replace('\0', " "));
    assert!(matches!(read(other).await, Err(ConversationError::NotFound)));
    let summary =
        fixture.store.read(move |tx| conversations::read_conversation_summary(tx, account, id)).await;
    let summary = summary.expect("it is there");
    assert_eq!(
        (summary.open_answer, summary.modified_at),
        (None, START.saturating_add(Duration::from_secs(1)))
    );
}

async fn read_messages_lists_whole_history(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let (account, other) = (fixture.create_account(1_000_000).await, fixture.create_account(100).await);
    let (first, fence) = fixture.ask_and_claim(account).await;
    fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
    let id = first.conversation.id;
    for number in 1..=120 {
        let question = NewQuestion { text: number.to_string(), ..fixture.follow_up(account, id) };
        fixture.ask_question(question).await.expect("nothing is in progress");
        let fence = fixture.claim_turns().await.remove(0).fence;
        fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
    }
    let detail = fixture.store.read(move |tx| conversations::read_conversation(tx, account, id)).await;
    let mut messages = detail.expect("it is there").messages;
    let page = conversations::EXCHANGES_PAGE_MAX;
    assert_eq!(messages.len(), 2 * page as usize);
    for from in [page, 2 * page] {
        let more =
            fixture.store.read(move |tx| conversations::read_messages(tx, account, id, from, u32::MAX));
        messages.extend(more.await.expect("a read"));
    }
    assert_eq!(messages.len(), 242);
    for (at, message) in messages.iter().enumerate() {
        let (ordinal, is_question) = (u32::try_from(at / 2).expect("small"), at % 2 == 0);
        match message {
            StoredMessage::Question(question) => {
                assert!(is_question && question.ordinal == ordinal);
                assert!(ordinal == 0 || question.text == ordinal.to_string());
            }
            StoredMessage::Answer(answer) => assert!(!is_question && answer.ordinal == ordinal),
        }
    }
    let some = fixture.store.read(move |tx| conversations::read_messages(tx, account, id, 119, 50)).await;
    assert_eq!(some.expect("a read"), messages[238..]);
    let none = fixture.store.read(move |tx| conversations::read_messages(tx, other, id, 0, 50)).await;
    assert_eq!(none.expect("a read"), []);
    let none = fixture.store.read(move |tx| conversations::read_conversation(tx, other, id)).await;
    assert!(matches!(none, Err(ConversationError::NotFound)));
}

async fn stop_marks_answer_in_progress(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let (account, other) = (fixture.create_account(100).await, fixture.create_account(100).await);
    let (accepted, fence) = fixture.ask_and_claim(account).await;
    let id = accepted.conversation.id;
    let stop = |by| fixture.store.write(move |tx| conversations::request_stop(tx, by, id));
    assert!(matches!(stop(other).await, Err(ConversationError::NotFound)));
    let stopped = async || {
        let turn = fixture.store.read(move |tx| turns::load_turn(tx, fence.answer)).await.expect("a read");
        turn.map(|turn| turn.stop_requested)
    };
    assert_eq!(stopped().await, Some(false));
    let summary = stop(account).await.expect("it is there");
    assert_eq!(summary.open_answer, Some(fence.answer));
    assert_eq!(stopped().await, Some(true));
    fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
    assert_eq!(stopped().await, None);
    assert_eq!(stop(account).await.expect("it is there").open_answer, None);
}

async fn delete_stops_answer_and_pays_it(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let (account, other) = (fixture.create_account(100).await, fixture.create_account(100).await);
    let (accepted, fence) = fixture.ask_and_claim(account).await;
    let id = accepted.conversation.id;
    fixture.commit_step(fence, 0, 4).await.expect("the lease holds");
    fixture.reserve_step(fence, 1, 30).await.expect("there are credits");
    assert_eq!(
        fixture.read_balance(account).await,
        Balance { available: Credits(66), reserved: Credits(30) }
    );
    assert!(matches!(delete_conversation(&fixture, other, id).await, Err(ConversationError::NotFound)));
    let place = |by| {
        let answer = fence.answer;
        fixture.store.read(move |tx| conversations::conversation_of_answer(tx, by, answer))
    };
    assert_eq!(place(account).await.expect("a read"), Some(id));
    assert_eq!(place(other).await.expect("a read"), None);
    delete_conversation(&fixture, account, id).await.expect("it is there");
    assert_eq!(place(account).await.expect("a read"), None);
    assert!(matches!(delete_conversation(&fixture, account, id).await, Err(ConversationError::NotFound)));
    let gone = fixture.store.read(move |tx| conversations::find_answer(tx, account, id, fence.answer)).await;
    assert!(matches!(gone, Err(ConversationError::NotFound)));
    let gone = fixture.store.read(move |tx| conversations::latest_answer(tx, account, id)).await;
    assert!(matches!(gone, Err(ConversationError::NotFound)));
    let remove = || fixture.store.write(move |tx| conversations::remove_conversation_rows(tx, id, 100));
    assert!(matches!(remove().await, Err(StoreError::Rule(_))), "it is not settled yet");
    // The holder has ended; the next claim sees the requested stop.
    fixture.store.write(move |tx| turns::release_lease(tx, fence)).await.expect("the lease holds");
    let claimed =
        fixture.store.write(|tx| turns::claim_stopped(tx, &claim_options())).await.expect("a claim");
    let [ClaimedTurn { fence, stop_requested: true, .. }] = claimed[..] else { panic!("{claimed:?}") };
    let turn = fixture.store.read(move |tx| turns::load_turn(tx, fence.answer)).await.expect("a read");
    assert!(turn.is_some_and(|turn| turn.deleted && turn.stop_requested));
    fixture.commit_step(fence, 1, 7).await.expect("the step is paid for");
    fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
    assert!(matches!(
        fixture.complete_answer(fence, done_answer(fence.answer)).await,
        Err(TurnError::Fenced)
    ));
    assert_eq!(fixture.claim_turns().await, []);
    while remove().await.expect("a write") > 0 {}
    assert_eq!(fixture.query_count("SELECT count(*) FROM conversations").await, 0);
    assert_eq!(fixture.read_balance(account).await, Balance { available: Credits(89), reserved: Credits(0) });
    let ledger =
        fixture.store.read(move |tx| credits::list_postings(tx, account, 0, 100)).await.expect("a read");
    assert_eq!(ledger.iter().filter(|posted| posted.conversation == Some(id)).count(), 6);
}

async fn deleted_rows_go_in_chunks(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(1000).await;
    let mut deleted = Vec::new();
    for _ in 0..3 {
        let (accepted, fence) = fixture.ask_and_claim(account).await;
        deleted.push(accepted.conversation.id);
        for number in 0..4 {
            fixture.commit_step(fence, number, 0).await.expect("the lease holds");
        }
        delete_conversation(&fixture, account, accepted.conversation.id).await.expect("it is there");
        fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
    }
    let other =
        fixture.ask_question(fixture.new_question(account)).await.expect("there are credits").conversation.id;
    let rows = "SELECT (SELECT count(*) FROM log) + (SELECT count(*) FROM questions)
        + (SELECT count(*) FROM answers) + (SELECT count(*) FROM conversations)";
    // Per conversation: four log entries, a question, an answer, the conversation.
    let mut left = fixture.query_count(rows).await;
    assert_eq!(left, 3 * 7 + 3);
    let mut removals = 0;
    for conversation in deleted {
        loop {
            let removed = fixture
                .store
                .write(move |tx| conversations::remove_conversation_rows(tx, conversation, 5))
                .await;
            let removed = i64::try_from(removed.expect("a write")).expect("small");
            assert!(removed <= 5);
            left -= removed;
            assert_eq!(fixture.query_count(rows).await, left);
            if removed == 0 {
                break;
            }
            removals += 1;
        }
    }
    assert_eq!((left, removals), (3, 6));
    let refused = fixture.store.write(move |tx| conversations::remove_conversation_rows(tx, other, 5)).await;
    assert!(matches!(refused, Err(StoreError::Rule(_))), "it is not deleted: {refused:?}");
    assert_eq!(list_page(&fixture, account, 0, 10).await.conversations[0].id, other);
}

async fn damaged_rows_are_named(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100).await;
    let (accepted, fence) = fixture.ask_and_claim(account).await;
    fixture.commit_step(fence, 0, 0).await.expect("the lease holds");
    let id = accepted.conversation.id;
    fixture.store.write(|tx| run_sql(tx, "UPDATE log SET body = '{\"v\":9}'")).await.expect("a write");
    let damaged = fixture.store.read(move |tx| turns::load_turn(tx, fence.answer)).await;
    let message = damaged.expect_err("the log can't be read").to_string();
    assert!(message.contains(&fence.answer.to_string()) && message.contains("step 0"), "{message}");
    fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
    fixture.store.write(|tx| run_sql(tx, "UPDATE answers SET body = '[]'")).await.expect("a write");
    let damaged =
        fixture.store.read(move |tx| conversations::find_answer(tx, account, id, fence.answer)).await;
    let message = damaged.expect_err("the answer can't be read").to_string();
    assert!(message.contains(&fence.answer.to_string()), "{message}");
    fixture.store.write(|tx| run_sql(tx, "UPDATE conversations SET settings = '7'")).await.expect("a write");
    let damaged = fixture.store.read(move |tx| conversations::list_conversations(tx, account, 0, 10)).await;
    assert!(damaged.expect_err("the settings can't be read").to_string().contains(&id.to_string()));
}
