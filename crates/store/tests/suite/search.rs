//! Search of conversations by words, and the names of the keys that asked.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::answer::{Answer, AnswerEnding, LogEntry};
use domain::credits::Credits;
use domain::id::{AccountId, ConversationId};
use store::conversations::ConversationPatch;
use store::questions::{AskedThrough, NewQuestion};
use store::search::{self, BATCH_TEXT_BYTES, INDEXED_TOGETHER_MAX, Unindexed, UnindexedBatch};
use store::usage::KeyUsage;
use store::{conversations, usage};

use crate::fixture::{START, StoreEngine, StoreFixture, done_answer, example_step};

on_every_engine!(
    conversation_indexed_once_until_changed,
    find_conversations_by_prefix_within_account,
    frequent_words_are_found_like_rare,
    long_conversation_indexed_in_pieces,
    unindexed_batch_is_bounded,
    deleted_conversation_leaves_no_words,
    conversation_names_its_key,
    last_messages_readable_by_own_account,
);

async fn list_unindexed(fixture: &StoreFixture, account: AccountId) -> Vec<Unindexed> {
    unindexed_batch(fixture, account, 10).await.conversations
}

async fn unindexed_batch(fixture: &StoreFixture, account: AccountId, limit: u32) -> UnindexedBatch {
    fixture.store.read(move |tx| search::list_unindexed(tx, account, limit)).await.expect("a read")
}

async fn index_words(fixture: &StoreFixture, account: AccountId, one: Unindexed, words: &[&str]) {
    let words: BTreeSet<String> = words.iter().map(|word| (*word).to_owned()).collect();
    fixture
        .store
        .write(move |tx| search::index_conversation(tx, account, &one, &words))
        .await
        .expect("a write");
}

async fn find_by_words(fixture: &StoreFixture, account: AccountId, words: &[&str]) -> Vec<ConversationId> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    fixture
        .store
        .read(move |tx| search::find_conversations(tx, account, &words, 0, 10))
        .await
        .expect("a read")
}

async fn conversation_indexed_once_until_changed(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(1000).await;
    let (accepted, fence) = fixture.ask_and_claim(account).await;
    let conversation = accepted.conversation.id;
    let open = list_unindexed(&fixture, account).await.remove(0);
    assert_eq!((open.title.as_str(), open.texts.len(), open.exchanges), ("A title", 0, 0));
    assert_eq!(open.until, Some(START), "an answer in progress comes with its end");
    index_words(&fixture, account, open, &["title"]).await;
    assert_eq!(list_unindexed(&fixture, account).await, []);
    let log = [LogEntry::Step {
        number: 0,
        step: example_step(0).into(),
        instance: fixture.step_done(0, 0).instance,
    }];
    let answer = Answer::from_log(fence.answer, &[], &log, Some(AnswerEnding::Done));
    // Neither engine stores NUL.
    let text = answer.unmarked_text().replace('\0', " ");
    fixture.complete_answer(fence, answer).await.expect("the lease holds");
    let changed = list_unindexed(&fixture, account).await.remove(0);
    assert_eq!((changed.texts.len(), changed.texts[1].as_str(), changed.exchanges), (2, text.as_str(), 1));
    index_words(&fixture, account, changed, &["rent"]).await;
    assert_eq!(list_unindexed(&fixture, account).await, []);
    let renamed = ConversationPatch { title: Some("Another".to_owned()), pinned: None };
    fixture
        .store
        .write(move |tx| conversations::patch_conversation(tx, account, conversation, &renamed))
        .await
        .expect("it is there");
    let renamed = list_unindexed(&fixture, account).await.remove(0);
    assert_eq!((renamed.title.as_str(), renamed.texts.len(), renamed.exchanges), ("Another", 0, 1));
}

async fn find_conversations_by_prefix_within_account(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let (account, other) = (fixture.create_account(1000).await, fixture.create_account(1000).await);
    let mut ids = Vec::new();
    for (seconds, words) in [(1, ["najemne", "byt"]), (2, ["najem", "dum"]), (3, ["naj", "byt"])] {
        let question = NewQuestion {
            now: START.saturating_add(Duration::from_secs(seconds)),
            ..fixture.new_question(account)
        };
        ids.push(fixture.ask_question(question).await.expect("there are credits").conversation.id);
        let newest = list_unindexed(&fixture, account).await.remove(0);
        index_words(&fixture, account, newest, &words).await;
    }
    fixture.ask_question(fixture.new_question(other)).await.expect("there are credits");
    let theirs = list_unindexed(&fixture, other).await.remove(0);
    index_words(&fixture, account, theirs.clone(), &["najem"]).await;
    assert_eq!(list_unindexed(&fixture, other).await, [theirs], "another account indexes nothing of it");
    assert_eq!(find_by_words(&fixture, account, &["najem"]).await, [ids[1], ids[0]], "last changed first");
    assert_eq!(find_by_words(&fixture, account, &["byt"]).await, [ids[2], ids[0]]);
    assert_eq!(find_by_words(&fixture, account, &["byt", "najem"]).await, [ids[0]], "it has both");
    assert_eq!(find_by_words(&fixture, account, &["n", "na", "naj", "b"]).await, [ids[2], ids[0]]);
    assert_eq!(
        find_by_words(&fixture, account, &["b", "n", "n", "n", "none"]).await,
        [ids[2], ids[0]],
        "four count"
    );
    for nothing in [&["najemnedum"][..], &["byt", "dum"], &[]] {
        assert_eq!(find_by_words(&fixture, account, nothing).await, []);
    }
    assert_eq!(find_by_words(&fixture, other, &["naj"]).await, []);
    let words = ["naj".to_owned()];
    let second = fixture.store.read(move |tx| search::find_conversations(tx, account, &words, 1, 1)).await;
    assert_eq!(second.expect("a read"), [ids[1]]);
}

async fn frequent_words_are_found_like_rare(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(1000).await;
    // More words than a rare one has rows.
    let many: Vec<String> = (0..=search::RARE_ROWS_MAX).map(|number| format!("w{number}")).collect();
    let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
    many.push("v0");
    let mut ids = Vec::new();
    for (seconds, words) in [(1, &many[..]), (2, &["w0", "rare"][..]), (3, &["other"][..]), (4, &["w1"][..])]
    {
        let question = NewQuestion {
            now: START.saturating_add(Duration::from_secs(seconds)),
            ..fixture.new_question(account)
        };
        ids.push(fixture.ask_question(question).await.expect("there are credits").conversation.id);
        let newest = list_unindexed(&fixture, account).await.remove(0);
        index_words(&fixture, account, newest, words).await;
    }
    let (first, second, fourth) = (ids[0], ids[1], ids[3]);
    assert_eq!(find_by_words(&fixture, account, &["w"]).await, [fourth, second, first], "last changed first");
    assert_eq!(find_by_words(&fixture, account, &["w", "w"]).await, [fourth, second, first]);
    assert_eq!(find_by_words(&fixture, account, &["w", "rare"]).await, [second], "the rare one is looked up");
    assert_eq!(find_by_words(&fixture, account, &["w", "v"]).await, [first]);
    assert_eq!(find_by_words(&fixture, account, &["w", "none"]).await, []);
    let words = ["w".to_owned()];
    let page = fixture.store.read(move |tx| search::find_conversations(tx, account, &words, 1, 1)).await;
    assert_eq!(page.expect("a read"), [second]);
}

async fn long_conversation_indexed_in_pieces(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100_000).await;
    let (accepted, fence) = fixture.ask_and_claim(account).await;
    fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
    for _ in 0..INDEXED_TOGETHER_MAX {
        let follow_up = fixture.follow_up(account, accepted.conversation.id);
        fixture.ask_question(follow_up).await.expect("nothing is in progress");
        let fence = fixture.claim_turns().await.remove(0).fence;
        fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
    }
    let first = list_unindexed(&fixture, account).await.remove(0);
    assert_eq!((first.exchanges, first.until), (INDEXED_TOGETHER_MAX, None));
    index_words(&fixture, account, first, &["first"]).await;
    let rest = list_unindexed(&fixture, account).await.remove(0);
    assert_eq!((rest.exchanges, rest.texts.len()), (INDEXED_TOGETHER_MAX + 1, 2));
    index_words(&fixture, account, rest, &["rest"]).await;
    assert_eq!(list_unindexed(&fixture, account).await, []);
    assert_eq!(find_by_words(&fixture, account, &["first", "rest"]).await, [accepted.conversation.id]);
}

async fn unindexed_batch_is_bounded(engine: StoreEngine) {
    /// The characters of a text that are indexed.
    const TEXT: usize = 65_536;
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100_000).await;
    for _ in 0..2 {
        let (_, fence) = fixture.ask_and_claim(account).await;
        fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
    }
    let one = unindexed_batch(&fixture, account, 1).await;
    assert_eq!((one.conversations.len(), one.more), (1, true));
    let both = unindexed_batch(&fixture, account, 2).await;
    assert_eq!((both.conversations.len(), both.more), (2, false));
    let account = fixture.create_account(100_000).await;
    for _ in 0..2 {
        let mut question = NewQuestion { text: "x".repeat(TEXT), ..fixture.new_question(account) };
        for _ in 0..BATCH_TEXT_BYTES / TEXT {
            let conversation =
                fixture.ask_question(question).await.expect("there are credits").conversation.id;
            let fence = fixture.claim_turns().await.remove(0).fence;
            fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
            question = NewQuestion { text: "x".repeat(TEXT), ..fixture.follow_up(account, conversation) };
        }
    }
    for more in [true, false] {
        let long = unindexed_batch(&fixture, account, 10).await;
        assert_eq!((long.conversations.len(), long.more), (1, more), "its texts fill a batch");
        index_words(&fixture, account, long.conversations[0].clone(), &["x"]).await;
    }
}

async fn deleted_conversation_leaves_no_words(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(1000).await;
    let (accepted, fence) = fixture.ask_and_claim(account).await;
    fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
    let (id, one) = (accepted.conversation.id, list_unindexed(&fixture, account).await.remove(0));
    index_words(&fixture, account, one.clone(), &["one", "two", "three"]).await;
    let deleted =
        fixture.store.write(move |tx| conversations::delete_conversation(tx, account, id, START)).await;
    deleted.expect("it is there");
    index_words(&fixture, account, one, &["late"]).await;
    assert_eq!(find_by_words(&fixture, account, &["late"]).await, [], "nothing is added to it");
    while fixture
        .store
        .write(move |tx| conversations::remove_conversation_rows(tx, id, 2))
        .await
        .expect("it is removed")
        == 2
    {}
    assert_eq!(fixture.query_count("SELECT count(*) FROM search_words").await, 0);
}

async fn conversation_names_its_key(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let (account, other) = (fixture.create_account(1000).await, fixture.create_account(1000).await);
    let key = fixture.create_key(account, None).await;
    let question = NewQuestion { through: AskedThrough::Key(key), ..fixture.new_question(account) };
    let id = fixture.ask_question(question).await.expect("there are credits").conversation.id;
    let fence = fixture.claim_turns().await.remove(0).fence;
    fixture.reserve_step(fence, 0, 5).await.expect("there are credits");
    fixture.commit_step(fence, 0, 3).await.expect("the lease holds");
    let name = |by| fixture.store.read(move |tx| conversations::key_name(tx, by, id));
    let named = name(account).await.expect("a read").expect("it came through a key");
    assert_eq!(name(other).await.expect("a read"), None);
    let used = fixture.store.read(move |tx| usage::by_key(tx, account, START)).await.expect("a read");
    assert_eq!(used, [KeyUsage { key: Some(key), name: Some(named), steps: 1, credits: Credits(3) }]);
    assert_eq!(fixture.store.read(move |tx| usage::by_key(tx, other, START)).await.expect("a read"), []);
}

async fn last_messages_readable_by_own_account(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let (account, other) = (fixture.create_account(1000).await, fixture.create_account(1000).await);
    let (accepted, fence) = fixture.ask_and_claim(account).await;
    let conversation = accepted.conversation.id;
    let last = async |by: AccountId| {
        fixture.store.read(move |tx| search::last_texts(tx, by, conversation)).await.expect("a read")
    };
    assert_eq!(last(account).await, Vec::<String>::new(), "an answer in progress has no text yet");
    let log = [LogEntry::Step {
        number: 0,
        step: example_step(0).into(),
        instance: fixture.step_done(0, 0).instance,
    }];
    let answer = Answer::from_log(fence.answer, &[], &log, Some(AnswerEnding::Done));
    let text: String = answer.unmarked_text().replace('\0', " ").chars().take(8192).collect();
    fixture.complete_answer(fence, answer).await.expect("the lease holds");
    let found = last(account).await;
    assert_eq!((found.len(), found[0].as_str()), (2, text.as_str()), "the answer, then its question");
    assert_eq!(last(other).await, Vec::<String>::new());
}
