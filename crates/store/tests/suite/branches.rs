//! Versions of exchanges, and the branch that is shown.

use domain::id::{AccountId, ConversationId, MessageId};
use store::conversations::{self, BranchPosition, ShowRefused, StoredMessage, Versions};
use store::questions::{AskRefused, NewExchangeVersion, NewQuestion, QuestionTarget, VERSIONS_MAX};
use store::turns::Fence;
use store::{Sql, turns};

use crate::fixture::{StoreEngine, StoreFixture, done_answer};

on_every_engine!(
    version_shows_instead_of_its_original,
    show_branch_returns_it_as_left,
    turn_sees_exchanges_of_its_branch,
    answered_branch_stays_shown,
    question_follows_branch_of_its_page,
    question_uses_model_of_its_branch,
    versions_have_bounds_and_owners,
    switching_branches_keeps_one_line,
);

/// A conversation that is asked and answered step by step.
struct Talk {
    fixture: StoreFixture,
    account: AccountId,
    id: ConversationId,
}

impl Talk {
    /// Begins a conversation and returns its first answer.
    async fn begin_talk(engine: StoreEngine, text: &str) -> (Self, MessageId) {
        let fixture = StoreFixture::new(engine);
        let account = fixture.create_account(1_000_000).await;
        let asked = fixture
            .ask_question(NewQuestion { text: text.to_owned(), ..fixture.new_question(account) })
            .await;
        let asked = asked.expect("there are credits");
        let talk = Self { fixture, account, id: asked.conversation.id };
        talk.answer_open_question().await;
        (talk, asked.answer)
    }

    async fn open_question(&self, target: QuestionTarget, text: &str) -> Result<MessageId, AskRefused> {
        let model = self.model_of(&target).await;
        self.open_with(target, text, &model).await
    }

    async fn open_with(
        &self,
        target: QuestionTarget,
        text: &str,
        model: &str,
    ) -> Result<MessageId, AskRefused> {
        let question = NewQuestion {
            target,
            text: text.to_owned(),
            model: model.to_owned(),
            ..self.fixture.new_question(self.account)
        };
        self.fixture.ask_question(question).await.map(|accepted| accepted.answer)
    }

    async fn is_shown(&self, answer: MessageId) -> bool {
        let (account, id) = (self.account, self.id);
        let read = move |tx: &mut dyn Sql| conversations::is_shown(tx, account, id, answer);
        self.fixture.store.read(read).await.expect("a read")
    }

    /// Returns the model of the branch that a question follows.
    async fn model_of(&self, target: &QuestionTarget) -> String {
        let (account, id) = (self.account, self.id);
        let QuestionTarget::BranchOf { answer, .. } = *target else {
            if matches!(target, QuestionTarget::Version(_)) {
                return "other".to_owned();
            }
            let summary = self
                .fixture
                .store
                .read(move |tx| conversations::read_conversation_summary(tx, account, id))
                .await;
            return summary.expect("it exists").model;
        };
        let model = move |tx: &mut dyn Sql| conversations::model_of_branch(tx, account, id, answer);
        self.fixture.store.read(model).await.expect("a read").expect("it exists")
    }

    /// Answers the open question.
    async fn answer_open_question(&self) {
        let fence = self.claim_answer().await;
        self.fixture.commit_step(fence, 0, 1).await.expect("the lease holds");
        self.fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
    }

    async fn claim_answer(&self) -> Fence {
        self.fixture.claim_turns().await.remove(0).fence
    }

    async fn ask_and_answer(&self, target: QuestionTarget, text: &str) -> MessageId {
        let answer = self.open_question(target, text).await.expect("it is accepted");
        self.answer_open_question().await;
        answer
    }

    async fn ask_next(&self, text: &str) -> MessageId {
        self.ask_and_answer(QuestionTarget::Existing(self.id), text).await
    }

    fn version_target(&self, of: MessageId) -> QuestionTarget {
        let settings = vec![("reasoningEffort".to_owned(), "HIGH".to_owned())];
        QuestionTarget::Version(NewExchangeVersion { conversation: self.id, of, settings })
    }

    async fn show_branch(&self, answer: MessageId) -> Result<BranchPosition, ShowRefused> {
        let (account, id) = (self.account, self.id);
        self.fixture.store.write(move |tx| conversations::show_branch(tx, account, id, answer)).await
    }

    /// Returns the questions that are shown, with the models that answered them.
    async fn shown_questions(&self) -> Vec<(String, String)> {
        let (account, id) = (self.account, self.id);
        let read = move |tx: &mut dyn Sql| conversations::read_messages(tx, account, id, 0, 50);
        let messages = self.fixture.store.read(read).await.expect("a read");
        let mut line = Vec::new();
        for (at, pair) in messages.chunks(2).enumerate() {
            let [StoredMessage::Question(question), StoredMessage::Answer(answer)] = pair else {
                panic!("{pair:?}")
            };
            assert_eq!((question.ordinal as usize, answer.ordinal as usize), (at, at));
            line.push((question.text.clone(), answer.model.clone()));
        }
        let latest = move |tx: &mut dyn Sql| conversations::latest_answer(tx, account, id);
        let latest = self.fixture.store.read(latest).await.expect("there is one");
        let Some(StoredMessage::Answer(last)) = messages.last() else { panic!("no answer") };
        assert_eq!(latest.id, last.id, "streams begin with the end of what is shown");
        line
    }

    async fn shown_texts(&self) -> Vec<String> {
        let texts: Vec<String> = self.shown_questions().await.into_iter().map(|(text, _)| text).collect();
        assert_eq!(self.shown_to(self.account).await as usize, texts.len());
        texts
    }

    async fn shown_to(&self, account: AccountId) -> u32 {
        let id = self.id;
        let read = move |tx: &mut dyn Sql| conversations::shown_branch(tx, account, id);
        self.fixture.store.read(read).await.expect("a read").map_or(0, |branch| branch.exchanges)
    }

    async fn list_versions(&self) -> Vec<Versions> {
        let (account, id) = (self.account, self.id);
        let read = move |tx: &mut dyn Sql| conversations::list_versions(tx, account, id, 0, 50);
        self.fixture.store.read(read).await.expect("a read")
    }
}

async fn version_shows_instead_of_its_original(engine: StoreEngine) {
    let (talk, first) = Talk::begin_talk(engine, "one").await;
    let second = talk.ask_next("two").await;
    talk.ask_next("three").await;
    assert_eq!(talk.list_versions().await, []);
    let edited = talk.ask_and_answer(talk.version_target(second), "two, edited").await;
    let line = talk.shown_questions().await;
    let expected = [("one", "reader"), ("two, edited", "other")];
    assert_eq!(line, expected.map(|(text, model)| (text.to_owned(), model.to_owned())));
    let versions = Versions { position: 1, number: 2, count: 2, previous: Some(second), next: None };
    assert_eq!(talk.list_versions().await, [versions]);
    let (account, id) = (talk.account, talk.id);
    let summary =
        talk.fixture.store.read(move |tx| conversations::read_conversation_summary(tx, account, id)).await;
    let summary = summary.expect("it is there");
    assert_eq!(summary.model, "other", "it goes on with the model of the version");
    assert_eq!(summary.settings, [("reasoningEffort".to_owned(), "HIGH".to_owned())]);
    // The hidden answers still exist.
    for answer in [first, second, edited] {
        let read = move |tx: &mut dyn Sql| conversations::find_answer(tx, account, id, answer);
        assert_eq!(talk.fixture.store.read(read).await.expect("it is kept").id, answer);
    }
    let asked = move |tx: &mut dyn Sql| conversations::asked_exchange(tx, account, id, second);
    let asked = talk.fixture.store.read(asked).await.expect("it is kept");
    assert_eq!((asked.text.as_str(), asked.model.as_str()), ("two", "reader"));
}

async fn show_branch_returns_it_as_left(engine: StoreEngine) {
    let (talk, first) = Talk::begin_talk(engine, "a").await;
    let b = talk.ask_next("b").await;
    let c = talk.ask_next("c").await;
    let c2 = talk.ask_and_answer(talk.version_target(c), "c2").await;
    let b2 = talk.ask_and_answer(talk.version_target(b), "b2").await;
    talk.ask_next("d").await;
    assert_eq!(talk.shown_texts().await, ["a", "b2", "d"]);
    assert_eq!(
        talk.show_branch(b).await.expect("nothing is open"),
        BranchPosition { position: 1, exchanges: 3, is_other: true }
    );
    assert_eq!(talk.shown_texts().await, ["a", "b", "c2"], "the version that was shown last");
    let (account, id) = (talk.account, talk.id);
    let summary =
        talk.fixture.store.read(move |tx| conversations::read_conversation_summary(tx, account, id)).await;
    assert_eq!(summary.expect("it is there").model, "other", "the model of the branch's end");
    talk.show_branch(c).await.expect("nothing is open");
    assert_eq!(talk.shown_texts().await, ["a", "b", "c"]);
    let summary =
        talk.fixture.store.read(move |tx| conversations::read_conversation_summary(tx, account, id)).await;
    assert_eq!(summary.expect("it is there").model, "reader");
    talk.show_branch(b2).await.expect("nothing is open");
    assert_eq!(talk.shown_texts().await, ["a", "b2", "d"]);
    // Straight to a version of a version.
    talk.show_branch(c2).await.expect("nothing is open");
    assert_eq!(talk.shown_texts().await, ["a", "b", "c2"]);
    let both = [
        Versions { position: 1, number: 1, count: 2, previous: None, next: Some(b2) },
        Versions { position: 2, number: 2, count: 2, previous: Some(c), next: None },
    ];
    assert_eq!(talk.list_versions().await, both);
    // Another beginning.
    let a2 = talk.ask_and_answer(talk.version_target(first), "a2").await;
    assert_eq!(talk.shown_texts().await, ["a2"]);
    talk.show_branch(first).await.expect("nothing is open");
    assert_eq!(talk.shown_texts().await, ["a", "b", "c2"]);
    assert_eq!(
        talk.show_branch(a2).await.expect("nothing is open"),
        BranchPosition { position: 0, exchanges: 1, is_other: true }
    );
}

async fn turn_sees_exchanges_of_its_branch(engine: StoreEngine) {
    let (talk, _) = Talk::begin_talk(engine, "a").await;
    let b = talk.ask_next("b").await;
    talk.ask_next("c").await;
    talk.open_question(talk.version_target(b), "b2").await.expect("nothing is open");
    let fence = talk.claim_answer().await;
    let load = async |fence: Fence| {
        let turn = talk.fixture.store.read(move |tx| turns::load_turn(tx, fence.answer)).await;
        turn.expect("a read").expect("it is in progress")
    };
    let turn = load(fence).await;
    assert_eq!((turn.question.as_str(), turn.ordinal, turn.earlier_left_out), ("b2", 1, 0));
    assert_eq!(turn.model, "other");
    assert_eq!(turn.settings, [("reasoningEffort".to_owned(), "HIGH".to_owned())]);
    let questions: Vec<_> = turn.earlier.iter().map(|earlier| earlier.question.as_str()).collect();
    assert_eq!(questions, ["a"]);
    assert!(turn.earlier.iter().all(|earlier| !earlier.log.is_empty()), "with their logs");
    talk.fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
    talk.open_question(QuestionTarget::Existing(talk.id), "d").await.expect("nothing is open");
    let turn = load(talk.claim_answer().await).await;
    let questions: Vec<_> = turn.earlier.iter().map(|earlier| earlier.question.as_str()).collect();
    assert_eq!(questions, ["a", "b2"]);
}

async fn answered_branch_stays_shown(engine: StoreEngine) {
    let (talk, first) = Talk::begin_talk(engine, "a").await;
    let b = talk.ask_next("b").await;
    let b2 = talk.open_question(talk.version_target(b), "b2").await.expect("nothing is open");
    let before = talk.fixture.read_balance(talk.account).await;
    assert!(matches!(talk.show_branch(b).await, Err(ShowRefused::Busy)));
    for target in [
        talk.version_target(first),
        talk.version_target(b),
        QuestionTarget::Existing(talk.id),
        QuestionTarget::BranchOf { conversation: talk.id, answer: b },
    ] {
        assert!(matches!(talk.open_question(target, "x").await, Err(AskRefused::Busy)));
    }
    assert_eq!(
        talk.show_branch(b2).await.expect("it is shown already"),
        BranchPosition { position: 1, exchanges: 2, is_other: false }
    );
    assert_eq!(talk.shown_texts().await, ["a", "b2"], "a refused question changes nothing");
    assert_eq!(talk.fixture.read_balance(talk.account).await, before);
    talk.answer_open_question().await;
    talk.show_branch(b).await.expect("nothing is open");
}

async fn question_follows_branch_of_its_page(engine: StoreEngine) {
    let (talk, _) = Talk::begin_talk(engine, "a").await;
    let b = talk.ask_next("b").await;
    talk.ask_and_answer(talk.version_target(b), "b2").await;
    // A page that was opened before the other version.
    talk.ask_and_answer(QuestionTarget::BranchOf { conversation: talk.id, answer: b }, "c").await;
    assert_eq!(talk.shown_texts().await, ["a", "b", "c"]);
    // A page that was opened before the last question.
    talk.ask_and_answer(QuestionTarget::BranchOf { conversation: talk.id, answer: b }, "d").await;
    assert_eq!(talk.shown_texts().await, ["a", "b", "c", "d"]);
    // A program does not know about branches.
    talk.ask_next("e").await;
    assert_eq!(talk.shown_texts().await, ["a", "b", "c", "d", "e"]);
}

async fn question_uses_model_of_its_branch(engine: StoreEngine) {
    let (talk, first) = Talk::begin_talk(engine, "a").await;
    let b = talk.ask_next("b").await;
    let b2 = talk.ask_and_answer(talk.version_target(b), "b2").await;
    let branch_of = |answer| QuestionTarget::BranchOf { conversation: talk.id, answer };
    for (answer, model) in [(first, "other"), (b2, "other"), (b, "reader")] {
        assert_eq!(talk.model_of(&branch_of(answer)).await, model);
    }
    let before = talk.fixture.read_balance(talk.account).await;
    for (target, wrong, right) in
        [(branch_of(b), "other", "reader"), (QuestionTarget::Existing(talk.id), "reader", "other")]
    {
        let refused = talk.open_with(target, "x", wrong).await;
        assert!(matches!(&refused, Err(AskRefused::OtherModel(model)) if model == right), "{refused:?}");
    }
    assert_eq!(talk.shown_texts().await, ["a", "b2"], "a refused question changes nothing");
    assert_eq!(talk.fixture.read_balance(talk.account).await, before);
    talk.ask_and_answer(branch_of(b), "c").await;
    assert_eq!(talk.shown_texts().await, ["a", "b", "c"]);
    assert_eq!(talk.model_of(&branch_of(first)).await, "reader");
    for (answer, expected) in [(first, true), (b, true), (b2, false)] {
        assert_eq!(talk.is_shown(answer).await, expected);
    }
    let none = MessageId::from_random(4711);
    assert!(!talk.is_shown(none).await);
    let (account, id) = (talk.account, talk.id);
    let unknown =
        talk.fixture.store.read(move |tx| conversations::model_of_branch(tx, account, id, none)).await;
    assert_eq!(unknown.expect("a read"), None);
}

async fn versions_have_bounds_and_owners(engine: StoreEngine) {
    let (talk, first) = Talk::begin_talk(engine, "a").await;
    let other = talk.fixture.create_account(1_000).await;
    let (account, id) = (talk.account, talk.id);
    let foreign = talk.fixture.store.write(move |tx| conversations::show_branch(tx, other, id, first)).await;
    assert!(matches!(foreign, Err(ShowRefused::NotFound)));
    let foreign = NewQuestion { target: talk.version_target(first), ..talk.fixture.new_question(other) };
    assert!(matches!(talk.fixture.ask_question(foreign).await, Err(AskRefused::NotFound)));
    let none = MessageId::from_random(4711);
    assert!(matches!(talk.show_branch(none).await, Err(ShowRefused::NotFound)));
    assert!(matches!(talk.open_question(talk.version_target(none), "x").await, Err(AskRefused::NotFound)));
    let theirs = talk.fixture.store.read(move |tx| conversations::list_versions(tx, other, id, 0, 50)).await;
    assert_eq!(theirs.expect("a read"), []);
    assert_eq!(talk.shown_to(other).await, 0);
    for _ in 1..VERSIONS_MAX {
        talk.open_question(talk.version_target(first), "a").await.expect("there is room");
        let fence = talk.claim_answer().await;
        talk.fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
    }
    let refused = talk.open_question(talk.version_target(first), "a").await;
    assert!(matches!(refused, Err(AskRefused::TooManyVersions)), "{refused:?}");
    assert_eq!(talk.list_versions().await[0].count, VERSIONS_MAX);
    // They are removed with their conversation.
    let delete =
        move |tx: &mut dyn Sql| conversations::delete_conversation(tx, account, id, crate::fixture::START);
    talk.fixture.store.write(delete).await.expect("it is there");
    while talk
        .fixture
        .store
        .write(move |tx| conversations::remove_conversation_rows(tx, id, 50))
        .await
        .expect("a write")
        > 0
    {}
    assert_eq!(talk.fixture.query_count("SELECT count(*) FROM questions").await, 0);
}

async fn switching_branches_keeps_one_line(engine: StoreEngine) {
    let (talk, first) = Talk::begin_talk(engine, "0").await;
    let mut answers = vec![first];
    // Any order will do, as long as it is the same each time.
    let mut choice = 7_usize;
    let mut pick = |count: usize| {
        choice = (choice * 1_103_515_245 + 12_345) % 2_147_483_648;
        choice % count
    };
    for number in 1..60 {
        let of = answers[pick(answers.len())];
        match pick(3) {
            0 => answers.push(talk.ask_and_answer(talk.version_target(of), &number.to_string()).await),
            1 => answers.push(talk.ask_next(&number.to_string()).await),
            _ => drop(talk.show_branch(of).await.expect("nothing is open")),
        }
        let line = talk.shown_texts().await;
        assert_eq!(
            line.len(),
            talk.fixture.query_count("SELECT count(*) FROM questions WHERE shown = 1").await as usize
        );
        let broken = "SELECT count(*) FROM questions q WHERE q.shown = 1 AND (q.chosen = 0 OR q.parent >= 0
            AND NOT EXISTS (SELECT 1 FROM questions p WHERE p.ordinal = q.parent AND p.shown = 1
                AND p.depth = q.depth - 1))";
        assert_eq!(talk.fixture.query_count(broken).await, 0, "each follows its parent");
        let without = "SELECT count(DISTINCT parent) FROM questions WHERE parent NOT IN
            (SELECT parent FROM questions WHERE chosen = 1)";
        assert_eq!(talk.fixture.query_count(without).await, 0, "each parent has a chosen child");
    }
}
