//! Search of conversations by words, and the names of the keys through which they came.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::answer::{Answer, Ending, LogEntry};
use domain::credits::Credits;
use domain::id::{AccountId, ConversationId};
use store::conversations::ConversationPatch;
use store::questions::{AskedThrough, NewQuestion};
use store::search::{self, BATCH_TEXT_BYTES, Batch, INDEXED_TOGETHER_MAX, Unindexed};
use store::usage::KeyUsage;
use store::{conversations, usage};

use crate::fixture::{Engine, Fixture, START, done, step};

on_every_engine!(
    a_conversation_is_indexed_once_until_it_changes,
    words_are_found_by_their_beginning_within_the_account,
    frequent_words_are_found_as_rare_ones_are,
    a_long_conversation_is_indexed_in_pieces,
    a_batch_is_bounded_in_conversations_and_bytes,
    a_deleted_conversation_leaves_no_words,
    a_conversation_names_the_key_through_which_it_came,
    the_last_messages_are_read_by_their_account_alone,
);

async fn unindexed(fixture: &Fixture, account: AccountId) -> Vec<Unindexed> {
    batch(fixture, account, 10).await.conversations
}

async fn batch(fixture: &Fixture, account: AccountId, limit: u32) -> Batch {
    fixture.store.read(move |tx| search::unindexed(tx, account, limit)).await.expect("a read")
}

async fn index(fixture: &Fixture, account: AccountId, one: Unindexed, words: &[&str]) {
    let words: BTreeSet<String> = words.iter().map(|word| (*word).to_owned()).collect();
    fixture.store.write(move |tx| search::index(tx, account, &one, &words)).await.expect("a write");
}

async fn find(fixture: &Fixture, account: AccountId, words: &[&str]) -> Vec<ConversationId> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    fixture.store.read(move |tx| search::find(tx, account, &words, 0, 10)).await.expect("a read")
}

async fn a_conversation_is_indexed_once_until_it_changes(engine: Engine) {
    let fixture = Fixture::new(engine);
    let account = fixture.account(1000).await;
    let (accepted, fence) = fixture.turn(account).await;
    let conversation = accepted.conversation.id;
    let open = unindexed(&fixture, account).await.remove(0);
    assert_eq!((open.title.as_str(), open.texts.len(), open.exchanges), ("A title", 0, 0));
    assert_eq!(open.until, Some(START), "an answer in progress comes with its end");
    index(&fixture, account, open, &["title"]).await;
    assert_eq!(unindexed(&fixture, account).await, []);
    let log =
        [LogEntry::Step { number: 0, step: step(0).into(), instance: fixture.step_done(0, 0).instance }];
    let answer = Answer::rebuild(fence.answer, &[], &log, Some(Ending::Done));
    // Neither engine stores NUL.
    let text = answer.text().replace('\0', " ");
    fixture.complete(fence, answer).await.expect("the lease holds");
    let changed = unindexed(&fixture, account).await.remove(0);
    assert_eq!((changed.texts.len(), changed.texts[1].as_str(), changed.exchanges), (2, text.as_str(), 1));
    index(&fixture, account, changed, &["rent"]).await;
    assert_eq!(unindexed(&fixture, account).await, []);
    let renamed = ConversationPatch { title: Some("Another".to_owned()), pinned: None };
    fixture
        .store
        .write(move |tx| conversations::patch(tx, account, conversation, &renamed))
        .await
        .expect("it is there");
    let renamed = unindexed(&fixture, account).await.remove(0);
    assert_eq!((renamed.title.as_str(), renamed.texts.len(), renamed.exchanges), ("Another", 0, 1));
}

async fn words_are_found_by_their_beginning_within_the_account(engine: Engine) {
    let fixture = Fixture::new(engine);
    let (account, other) = (fixture.account(1000).await, fixture.account(1000).await);
    let mut ids = Vec::new();
    for (seconds, words) in [(1, ["najemne", "byt"]), (2, ["najem", "dum"]), (3, ["naj", "byt"])] {
        let question =
            NewQuestion { now: START.plus(Duration::from_secs(seconds)), ..fixture.question(account) };
        ids.push(fixture.ask(question).await.expect("there are credits").conversation.id);
        let newest = unindexed(&fixture, account).await.remove(0);
        index(&fixture, account, newest, &words).await;
    }
    fixture.ask(fixture.question(other)).await.expect("there are credits");
    let theirs = unindexed(&fixture, other).await.remove(0);
    index(&fixture, account, theirs.clone(), &["najem"]).await;
    assert_eq!(unindexed(&fixture, other).await, [theirs], "another account indexes nothing of it");
    assert_eq!(find(&fixture, account, &["najem"]).await, [ids[1], ids[0]], "last changed first");
    assert_eq!(find(&fixture, account, &["byt"]).await, [ids[2], ids[0]]);
    assert_eq!(find(&fixture, account, &["byt", "najem"]).await, [ids[0]], "it has both");
    assert_eq!(find(&fixture, account, &["n", "na", "naj", "b"]).await, [ids[2], ids[0]]);
    assert_eq!(find(&fixture, account, &["b", "n", "n", "n", "none"]).await, [ids[2], ids[0]], "four count");
    for nothing in [&["najemnedum"][..], &["byt", "dum"], &[]] {
        assert_eq!(find(&fixture, account, nothing).await, []);
    }
    assert_eq!(find(&fixture, other, &["naj"]).await, []);
    let words = ["naj".to_owned()];
    let second = fixture.store.read(move |tx| search::find(tx, account, &words, 1, 1)).await;
    assert_eq!(second.expect("a read"), [ids[1]]);
}

async fn frequent_words_are_found_as_rare_ones_are(engine: Engine) {
    let fixture = Fixture::new(engine);
    let account = fixture.account(1000).await;
    // More words than a rare one has rows.
    let many: Vec<String> = (0..=search::RARE_ROWS_MAX).map(|number| format!("w{number}")).collect();
    let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
    many.push("v0");
    let mut ids = Vec::new();
    for (seconds, words) in [(1, &many[..]), (2, &["w0", "rare"][..]), (3, &["other"][..]), (4, &["w1"][..])]
    {
        let question =
            NewQuestion { now: START.plus(Duration::from_secs(seconds)), ..fixture.question(account) };
        ids.push(fixture.ask(question).await.expect("there are credits").conversation.id);
        let newest = unindexed(&fixture, account).await.remove(0);
        index(&fixture, account, newest, words).await;
    }
    let (first, second, fourth) = (ids[0], ids[1], ids[3]);
    assert_eq!(find(&fixture, account, &["w"]).await, [fourth, second, first], "last changed first");
    assert_eq!(find(&fixture, account, &["w", "w"]).await, [fourth, second, first]);
    assert_eq!(find(&fixture, account, &["w", "rare"]).await, [second], "the rare one is looked up");
    assert_eq!(find(&fixture, account, &["w", "v"]).await, [first]);
    assert_eq!(find(&fixture, account, &["w", "none"]).await, []);
    let words = ["w".to_owned()];
    let page = fixture.store.read(move |tx| search::find(tx, account, &words, 1, 1)).await;
    assert_eq!(page.expect("a read"), [second]);
}

async fn a_long_conversation_is_indexed_in_pieces(engine: Engine) {
    let fixture = Fixture::new(engine);
    let account = fixture.account(100_000).await;
    let (accepted, fence) = fixture.turn(account).await;
    fixture.complete(fence, done(fence.answer)).await.expect("the lease holds");
    for _ in 0..INDEXED_TOGETHER_MAX {
        let follow_up = fixture.follow_up(account, accepted.conversation.id);
        fixture.ask(follow_up).await.expect("nothing is in progress");
        let fence = fixture.claim().await.remove(0).fence;
        fixture.complete(fence, done(fence.answer)).await.expect("the lease holds");
    }
    let first = unindexed(&fixture, account).await.remove(0);
    assert_eq!((first.exchanges, first.until), (INDEXED_TOGETHER_MAX, None));
    index(&fixture, account, first, &["first"]).await;
    let rest = unindexed(&fixture, account).await.remove(0);
    assert_eq!((rest.exchanges, rest.texts.len()), (INDEXED_TOGETHER_MAX + 1, 2));
    index(&fixture, account, rest, &["rest"]).await;
    assert_eq!(unindexed(&fixture, account).await, []);
    assert_eq!(find(&fixture, account, &["first", "rest"]).await, [accepted.conversation.id]);
}

async fn a_batch_is_bounded_in_conversations_and_bytes(engine: Engine) {
    /// The characters of a text that are indexed.
    const TEXT: usize = 65_536;
    let fixture = Fixture::new(engine);
    let account = fixture.account(100_000).await;
    for _ in 0..2 {
        let (_, fence) = fixture.turn(account).await;
        fixture.complete(fence, done(fence.answer)).await.expect("the lease holds");
    }
    let one = batch(&fixture, account, 1).await;
    assert_eq!((one.conversations.len(), one.more), (1, true));
    let both = batch(&fixture, account, 2).await;
    assert_eq!((both.conversations.len(), both.more), (2, false));
    let account = fixture.account(100_000).await;
    for _ in 0..2 {
        let mut question = NewQuestion { text: "x".repeat(TEXT), ..fixture.question(account) };
        for _ in 0..BATCH_TEXT_BYTES / TEXT {
            let conversation = fixture.ask(question).await.expect("there are credits").conversation.id;
            let fence = fixture.claim().await.remove(0).fence;
            fixture.complete(fence, done(fence.answer)).await.expect("the lease holds");
            question = NewQuestion { text: "x".repeat(TEXT), ..fixture.follow_up(account, conversation) };
        }
    }
    for more in [true, false] {
        let long = batch(&fixture, account, 10).await;
        assert_eq!((long.conversations.len(), long.more), (1, more), "its texts fill a batch");
        index(&fixture, account, long.conversations[0].clone(), &["x"]).await;
    }
}

async fn a_deleted_conversation_leaves_no_words(engine: Engine) {
    let fixture = Fixture::new(engine);
    let account = fixture.account(1000).await;
    let (accepted, fence) = fixture.turn(account).await;
    fixture.complete(fence, done(fence.answer)).await.expect("the lease holds");
    let (id, one) = (accepted.conversation.id, unindexed(&fixture, account).await.remove(0));
    index(&fixture, account, one.clone(), &["one", "two", "three"]).await;
    let deleted = fixture.store.write(move |tx| conversations::delete(tx, account, id, START)).await;
    deleted.expect("it is there");
    index(&fixture, account, one, &["late"]).await;
    assert_eq!(find(&fixture, account, &["late"]).await, [], "nothing is added to it");
    while fixture.store.write(move |tx| conversations::remove(tx, id, 2)).await.expect("it is removed") == 2 {
    }
    assert_eq!(fixture.count("SELECT count(*) FROM search_words").await, 0);
}

async fn a_conversation_names_the_key_through_which_it_came(engine: Engine) {
    let fixture = Fixture::new(engine);
    let (account, other) = (fixture.account(1000).await, fixture.account(1000).await);
    let key = fixture.key(account, None).await;
    let question = NewQuestion { through: AskedThrough::Key(key), ..fixture.question(account) };
    let id = fixture.ask(question).await.expect("there are credits").conversation.id;
    let fence = fixture.claim().await.remove(0).fence;
    fixture.reserve(fence, 0, 5).await.expect("there are credits");
    fixture.commit_step(fence, 0, 3).await.expect("the lease holds");
    let name = |by| fixture.store.read(move |tx| conversations::key_name(tx, by, id));
    let named = name(account).await.expect("a read").expect("it came through a key");
    assert_eq!(name(other).await.expect("a read"), None);
    let used = fixture.store.read(move |tx| usage::by_key(tx, account, START)).await.expect("a read");
    assert_eq!(used, [KeyUsage { key: Some(key), name: Some(named), steps: 1, credits: Credits(3) }]);
    assert_eq!(fixture.store.read(move |tx| usage::by_key(tx, other, START)).await.expect("a read"), []);
}

async fn the_last_messages_are_read_by_their_account_alone(engine: Engine) {
    let fixture = Fixture::new(engine);
    let (account, other) = (fixture.account(1000).await, fixture.account(1000).await);
    let (accepted, fence) = fixture.turn(account).await;
    let conversation = accepted.conversation.id;
    let last = async |by: AccountId| {
        fixture.store.read(move |tx| search::last_texts(tx, by, conversation)).await.expect("a read")
    };
    assert_eq!(last(account).await, Vec::<String>::new(), "an answer in progress has no text yet");
    let log =
        [LogEntry::Step { number: 0, step: step(0).into(), instance: fixture.step_done(0, 0).instance }];
    let answer = Answer::rebuild(fence.answer, &[], &log, Some(Ending::Done));
    let text: String = answer.text().replace('\0', " ").chars().take(8192).collect();
    fixture.complete(fence, answer).await.expect("the lease holds");
    let found = last(account).await;
    assert_eq!((found.len(), found[0].as_str()), (2, text.as_str()), "the answer, then its question");
    assert_eq!(last(other).await, Vec::<String>::new());
}
