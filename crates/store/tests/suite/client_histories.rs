//! Histories of clients, and the conversations that they continue.

use std::sync::Arc;

use domain::id::{AccountId, MessageId};
use store::client_histories::{
    self, ClientExchange, HistoryHash, HistoryLookup, HistoryPlace, ImportedExchange, PlaceLookup,
};
use store::conversations::{self, StoredMessage};
use store::questions::{Accepted, NewExchangeVersion, NewQuestion, QuestionTarget};
use store::{Sql, turns};

use crate::fixture::{START, StoreEngine, StoreFixture, done_answer};

on_every_engine!(
    history_finds_tip_and_inner_place,
    same_questions_find_only_conversation,
    imported_exchanges_precede_question,
    repeated_request_is_found,
    abandoned_answer_is_stopped,
    deleted_conversation_is_not_found,
    lookup_notices_question_asked_meanwhile,
);

const fn hash(byte: u8) -> HistoryHash {
    [byte; 32]
}

fn client_exchange(name: Option<&str>, users: u8) -> ClientExchange {
    ClientExchange {
        name: name.map(str::to_owned),
        users_hash: hash(users),
        request_hash: hash(users + 100),
        imported: Arc::default(),
        lookup: None,
    }
}

fn lookup_of(name: Option<&str>, hashes: Option<(u8, u8)>) -> PlaceLookup {
    PlaceLookup::History(HistoryLookup {
        name: name.map(str::to_owned),
        is_name_unique: true,
        hashes: hashes.map(|(after, users)| (hash(after), hash(users))),
    })
}

struct ClientStage {
    fixture: StoreFixture,
    account: AccountId,
}

impl ClientStage {
    async fn new(engine: StoreEngine) -> Self {
        let fixture = StoreFixture::new(engine);
        let account = fixture.create_account(1_000_000).await;
        Self { fixture, account }
    }

    /// Asks and answers a question; its history after the answer has the hash `after`.
    async fn exchange(&self, target: Option<QuestionTarget>, client: ClientExchange, after: u8) -> Accepted {
        let mut question = self.fixture.new_question(self.account);
        question.client = Some(client);
        if let Some(target) = target {
            question.target = target;
        }
        let accepted = self.fixture.ask_question(question).await.expect("it is accepted");
        let fence = self.fixture.claim_turns().await.remove(0).fence;
        self.fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
        let (account, answer) = (self.account, accepted.answer);
        let record =
            move |tx: &mut dyn Sql| client_histories::record_sent_answer(tx, account, answer, &hash(after));
        self.fixture.store.write(record).await.expect("a write");
        accepted
    }

    async fn find(&self, name: Option<&str>, hashes: Option<(u8, u8)>) -> Option<HistoryPlace> {
        let (account, lookup) = (self.account, lookup_of(name, hashes));
        let find = move |tx: &mut dyn Sql| client_histories::find_place(tx, account, &lookup);
        self.fixture.store.read(find).await.expect("a read")
    }
}

async fn history_finds_tip_and_inner_place(engine: StoreEngine) {
    let stage = ClientStage::new(engine).await;
    let first = stage.exchange(None, client_exchange(None, 1), 11).await;
    let conversation = first.conversation.id;
    let after = |answer: MessageId| Some(HistoryPlace::After { conversation, answer });
    let instead = |answer: MessageId| Some(HistoryPlace::Instead { conversation, answer });
    assert_eq!(stage.find(None, Some((11, 99))).await, after(first.answer));
    let next = Some(QuestionTarget::Existing(conversation));
    let second = stage.exchange(next, client_exchange(None, 2), 12).await;
    assert_eq!(stage.find(None, Some((12, 99))).await, after(second.answer));
    assert_eq!(stage.find(None, Some((11, 99))).await, instead(second.answer));
    // Another version of the second exchange is a place of its own.
    let version = NewExchangeVersion { conversation, of: second.answer, settings: Vec::new() };
    let third = stage.exchange(Some(QuestionTarget::Version(version)), client_exchange(None, 3), 13).await;
    assert_eq!(stage.find(None, Some((12, 99))).await, after(second.answer));
    assert_eq!(stage.find(None, Some((13, 99))).await, after(third.answer));
    assert_eq!(stage.find(None, Some((11, 99))).await, instead(third.answer));
    assert_eq!(stage.find(None, Some((98, 99))).await, None);
    assert_eq!(stage.find(None, None).await, None);
}

async fn same_questions_find_only_conversation(engine: StoreEngine) {
    let stage = ClientStage::new(engine).await;
    let one = stage.exchange(None, client_exchange(Some("one"), 1), 11).await;
    let after = |accepted: &Accepted| {
        Some(HistoryPlace::After { conversation: accepted.conversation.id, answer: accepted.answer })
    };
    // The answer was edited.
    assert_eq!(stage.find(None, Some((50, 1))).await, after(&one));
    let two = stage.exchange(None, client_exchange(Some("two"), 1), 11).await;
    assert_eq!(stage.find(None, Some((50, 1))).await, None, "two conversations have these questions");
    assert_eq!(stage.find(Some("one"), Some((50, 1))).await, after(&one));
    assert_eq!(stage.find(Some("one"), Some((11, 1))).await, after(&one));
    assert_eq!(stage.find(Some("two"), Some((11, 1))).await, after(&two));
    assert_eq!(stage.find(Some("three"), Some((11, 1))).await, None, "the name is of neither");
    // Without a history, the name finds the first question.
    let instead = HistoryPlace::Instead { conversation: two.conversation.id, answer: two.answer };
    assert_eq!(stage.find(Some("two"), None).await, Some(instead));
}

async fn imported_exchanges_precede_question(engine: StoreEngine) {
    let stage = ClientStage::new(engine).await;
    let (fixture, account) = (&stage.fixture, stage.account);
    let imported = |number: u8| ImportedExchange {
        question: MessageId::from_random(fixture.next_bits()),
        answer: MessageId::from_random(fixture.next_bits()),
        text: format!("question {number}"),
        reply: format!("answer {number}"),
        users_hash: hash(number),
        after_hash: hash(number + 10),
    };
    let imported = Arc::new(vec![imported(1), imported(2)]);
    let first = imported[0].answer;
    let client = ClientExchange { imported, ..client_exchange(None, 3) };
    let question = NewQuestion {
        client: Some(client),
        instructions: Some("Be brief.".to_owned()),
        ..fixture.new_question(account)
    };
    let balance = fixture.read_balance(account).await;
    let accepted = fixture.ask_question(question).await.expect("it is accepted");
    let conversation = accepted.conversation.id;
    let read = move |tx: &mut dyn Sql| conversations::read_conversation(tx, account, conversation);
    let messages = fixture.store.read(read).await.expect("a read").messages;
    let texts: Vec<String> = messages
        .iter()
        .map(|message| match message {
            StoredMessage::Question(question) => question.text.clone(),
            StoredMessage::Answer(answer) => answer.text.clone(),
        })
        .collect();
    let wanted = ["question 1", "answer 1", "question 2", "answer 2", "What is the rent?", ""];
    assert_eq!(texts, wanted);
    let fence = fixture.claim_turns().await.remove(0).fence;
    assert_eq!(fence.answer, accepted.answer, "imported answers are not dispatched");
    let turn = fixture.store.read(move |tx| turns::load_turn(tx, fence.answer)).await.expect("a read");
    let turn = turn.expect("it is open");
    assert_eq!(turn.instructions.as_deref(), Some("Be brief."));
    assert_eq!(turn.earlier.len(), 2);
    assert_eq!(turn.earlier[1].log.len(), 1, "the answer is in the context");
    fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
    assert_eq!(fixture.read_balance(account).await, balance, "imported exchanges cost nothing");
    let bill = move |tx: &mut dyn Sql| conversations::answer_bill(tx, account, conversation, first);
    assert_eq!(fixture.store.read(bill).await.expect("a read"), domain::credits::AnswerCost::default());
    // An imported exchange is a place, too.
    let place = stage.find(None, Some((11, 99))).await;
    assert!(matches!(place, Some(HistoryPlace::Instead { .. })), "{place:?}");
}

async fn repeated_request_is_found(engine: StoreEngine) {
    let stage = ClientStage::new(engine).await;
    let asked = stage.exchange(None, client_exchange(None, 1), 11).await;
    let (account, before) = (stage.account, domain::time::Timestamp::from_micros(START.micros() - 1));
    let find = |request: u8, since| {
        let find = move |tx: &mut dyn Sql| client_histories::find_request(tx, account, &hash(request), since);
        stage.fixture.store.read(find)
    };
    let found = Some((asked.conversation.id, asked.answer));
    assert_eq!(find(101, before).await.expect("a read"), found);
    assert_eq!(find(101, START).await.expect("a read"), None, "it is too old");
    assert_eq!(find(102, before).await.expect("a read"), None);
}

async fn abandoned_answer_is_stopped(engine: StoreEngine) {
    let stage = ClientStage::new(engine).await;
    let (fixture, account) = (&stage.fixture, stage.account);
    let accepted = fixture.ask_question(fixture.new_question(account)).await.expect("it is accepted");
    let stranger = fixture.create_account(0).await;
    let stop = |account: AccountId| {
        let answer = accepted.answer;
        fixture.store.write(move |tx| conversations::request_answer_stop(tx, account, answer))
    };
    assert!(!stop(stranger).await.expect("a write"));
    assert!(stop(account).await.expect("a write"));
    let claimed = fixture.claim_turns().await.remove(0);
    assert!(claimed.stop_requested);
    fixture.complete_answer(claimed.fence, done_answer(accepted.answer)).await.expect("the lease holds");
    assert!(!stop(account).await.expect("a write"), "it is completed");
}

async fn deleted_conversation_is_not_found(engine: StoreEngine) {
    let stage = ClientStage::new(engine).await;
    let asked = stage.exchange(None, client_exchange(Some("one"), 1), 11).await;
    let (account, conversation) = (stage.account, asked.conversation.id);
    let delete = move |tx: &mut dyn Sql| conversations::delete_conversation(tx, account, conversation, START);
    stage.fixture.store.write(delete).await.expect("it exists");
    assert_eq!(stage.find(Some("one"), Some((11, 1))).await, None);
    assert_eq!(stage.find(Some("one"), None).await, None);
    let remove = move |tx: &mut dyn Sql| conversations::remove_conversation_rows(tx, conversation, 500);
    stage.fixture.store.write(remove).await.expect("it is deleted");
    assert_eq!(stage.fixture.query_count("SELECT count(*) FROM client_exchanges").await, 0);
}

async fn lookup_notices_question_asked_meanwhile(engine: StoreEngine) {
    let stage = ClientStage::new(engine).await;
    let account = stage.account;
    let is_still = |lookup: &PlaceLookup, expected: Option<HistoryPlace>| {
        let lookup = lookup.clone();
        let check = move |tx: &mut dyn Sql| client_histories::is_still_place(tx, account, &lookup, expected);
        stage.fixture.store.write(check)
    };
    let named = lookup_of(Some("one"), None);
    assert!(is_still(&named, None).await.expect("a write"));
    let first = stage.exchange(None, client_exchange(Some("one"), 1), 11).await;
    let (conversation, answer) = (first.conversation.id, first.answer);
    assert!(!is_still(&named, None).await.expect("a write"), "the name has a conversation now");
    assert!(is_still(&named, Some(HistoryPlace::Instead { conversation, answer })).await.expect("a write"));
    let after = PlaceLookup::Answer { conversation, answer };
    let tip = Some(HistoryPlace::After { conversation, answer });
    assert!(is_still(&after, tip).await.expect("a write"));
    let next = Some(QuestionTarget::Existing(conversation));
    let second = stage.exchange(next, client_exchange(Some("one"), 2), 12).await;
    assert!(!is_still(&after, tip).await.expect("a write"), "it is not the last answer any more");
    let instead = Some(HistoryPlace::Instead { conversation, answer: second.answer });
    assert!(is_still(&after, instead).await.expect("a write"));
    let unknown = PlaceLookup::Answer { conversation, answer: MessageId::from_random(9) };
    assert!(is_still(&unknown, None).await.expect("a write"));
}
