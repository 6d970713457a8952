//! Versions of exchanges, and the branch that is shown.

use domain::id::{AccountId, ConversationId, MessageId};
use store::conversations::{self, Message, ShowRefused, Shown, Versions};
use store::questions::{AskRefused, NewQuestion, NewVersion, Target, VERSIONS_MAX};
use store::turns::Fence;
use store::{Sql, turns};

use crate::fixture::{Engine, Fixture, done};

on_every_engine!(
    a_version_is_shown_instead_of_what_it_replaces,
    branches_are_returned_to_as_they_were_left,
    a_turn_sees_the_exchanges_of_its_branch,
    a_branch_stays_while_it_is_answered,
    a_question_follows_the_branch_of_its_page,
    a_question_is_agreed_for_the_model_of_its_branch,
    versions_have_bounds_and_owners,
    switching_between_many_branches_keeps_one_line,
);

/// A conversation that is asked and answered step by step.
struct Talk {
    fixture: Fixture,
    account: AccountId,
    id: ConversationId,
}

impl Talk {
    /// Begins a conversation and returns its first answer.
    async fn begin(engine: Engine, text: &str) -> (Self, MessageId) {
        let fixture = Fixture::new(engine);
        let account = fixture.account(1_000_000).await;
        let asked = fixture.ask(NewQuestion { text: text.to_owned(), ..fixture.question(account) }).await;
        let asked = asked.expect("there are credits");
        let talk = Self { fixture, account, id: asked.conversation.id };
        talk.answer().await;
        (talk, asked.answer)
    }

    async fn open(&self, target: Target, text: &str) -> Result<MessageId, AskRefused> {
        let model = self.model_of(&target).await;
        self.open_with(target, text, &model).await
    }

    async fn open_with(&self, target: Target, text: &str, model: &str) -> Result<MessageId, AskRefused> {
        let question = NewQuestion {
            target,
            text: text.to_owned(),
            model: model.to_owned(),
            ..self.fixture.question(self.account)
        };
        self.fixture.ask(question).await.map(|accepted| accepted.answer)
    }

    async fn is_shown(&self, answer: MessageId) -> bool {
        let (account, id) = (self.account, self.id);
        let read = move |tx: &mut dyn Sql| conversations::is_shown(tx, account, id, answer);
        self.fixture.store.read(read).await.expect("a read")
    }

    /// Returns the model of the branch that a question follows.
    async fn model_of(&self, target: &Target) -> String {
        let (account, id) = (self.account, self.id);
        let Target::BranchOf { answer, .. } = *target else {
            if matches!(target, Target::Version(_)) {
                return "other".to_owned();
            }
            let summary = self.fixture.store.read(move |tx| conversations::summary(tx, account, id)).await;
            return summary.expect("it exists").model;
        };
        let model = move |tx: &mut dyn Sql| conversations::model_of_branch(tx, account, id, answer);
        self.fixture.store.read(model).await.expect("a read").expect("it exists")
    }

    /// Answers the open question.
    async fn answer(&self) {
        let fence = self.claim().await;
        self.fixture.commit_step(fence, 0, 1).await.expect("the lease holds");
        self.fixture.complete(fence, done(fence.answer)).await.expect("the lease holds");
    }

    async fn claim(&self) -> Fence {
        self.fixture.claim().await.remove(0).fence
    }

    async fn ask(&self, target: Target, text: &str) -> MessageId {
        let answer = self.open(target, text).await.expect("it is accepted");
        self.answer().await;
        answer
    }

    async fn next(&self, text: &str) -> MessageId {
        self.ask(Target::Existing(self.id), text).await
    }

    fn version(&self, of: MessageId) -> Target {
        let settings = vec![("reasoningEffort".to_owned(), "HIGH".to_owned())];
        Target::Version(NewVersion { conversation: self.id, of, settings })
    }

    async fn show(&self, answer: MessageId) -> Result<Shown, ShowRefused> {
        let (account, id) = (self.account, self.id);
        self.fixture.store.write(move |tx| conversations::show(tx, account, id, answer)).await
    }

    /// Returns the questions that are shown, with the models that answered them.
    async fn line(&self) -> Vec<(String, String)> {
        let (account, id) = (self.account, self.id);
        let read = move |tx: &mut dyn Sql| conversations::messages(tx, account, id, 0, 50);
        let messages = self.fixture.store.read(read).await.expect("a read");
        let mut line = Vec::new();
        for (at, pair) in messages.chunks(2).enumerate() {
            let [Message::Question(question), Message::Answer(answer)] = pair else { panic!("{pair:?}") };
            assert_eq!((question.ordinal as usize, answer.ordinal as usize), (at, at));
            line.push((question.text.clone(), answer.model.clone()));
        }
        let latest = move |tx: &mut dyn Sql| conversations::latest_answer(tx, account, id);
        let latest = self.fixture.store.read(latest).await.expect("there is one");
        let Some(Message::Answer(last)) = messages.last() else { panic!("no answer") };
        assert_eq!(latest.id, last.id, "streams begin with the end of what is shown");
        line
    }

    async fn texts(&self) -> Vec<String> {
        let texts: Vec<String> = self.line().await.into_iter().map(|(text, _)| text).collect();
        assert_eq!(self.shown_to(self.account).await as usize, texts.len());
        texts
    }

    async fn shown_to(&self, account: AccountId) -> u32 {
        let id = self.id;
        let read = move |tx: &mut dyn Sql| conversations::shown_branch(tx, account, id);
        self.fixture.store.read(read).await.expect("a read").map_or(0, |branch| branch.exchanges)
    }

    async fn versions(&self) -> Vec<Versions> {
        let (account, id) = (self.account, self.id);
        let read = move |tx: &mut dyn Sql| conversations::versions(tx, account, id, 0, 50);
        self.fixture.store.read(read).await.expect("a read")
    }
}

async fn a_version_is_shown_instead_of_what_it_replaces(engine: Engine) {
    let (talk, first) = Talk::begin(engine, "one").await;
    let second = talk.next("two").await;
    talk.next("three").await;
    assert_eq!(talk.versions().await, []);
    let edited = talk.ask(talk.version(second), "two, edited").await;
    let line = talk.line().await;
    let expected = [("one", "reader"), ("two, edited", "other")];
    assert_eq!(line, expected.map(|(text, model)| (text.to_owned(), model.to_owned())));
    let versions = Versions { position: 1, number: 2, count: 2, previous: Some(second), next: None };
    assert_eq!(talk.versions().await, [versions]);
    let (account, id) = (talk.account, talk.id);
    let summary = talk.fixture.store.read(move |tx| conversations::summary(tx, account, id)).await;
    let summary = summary.expect("it is there");
    assert_eq!(summary.model, "other", "it goes on with the model of the version");
    assert_eq!(summary.settings, [("reasoningEffort".to_owned(), "HIGH".to_owned())]);
    // What is hidden is still there.
    for answer in [first, second, edited] {
        let read = move |tx: &mut dyn Sql| conversations::answer(tx, account, id, answer);
        assert_eq!(talk.fixture.store.read(read).await.expect("it is kept").id, answer);
    }
    let asked = move |tx: &mut dyn Sql| conversations::asked_exchange(tx, account, id, second);
    let asked = talk.fixture.store.read(asked).await.expect("it is kept");
    assert_eq!((asked.text.as_str(), asked.model.as_str()), ("two", "reader"));
}

async fn branches_are_returned_to_as_they_were_left(engine: Engine) {
    let (talk, first) = Talk::begin(engine, "a").await;
    let b = talk.next("b").await;
    let c = talk.next("c").await;
    let c2 = talk.ask(talk.version(c), "c2").await;
    let b2 = talk.ask(talk.version(b), "b2").await;
    talk.next("d").await;
    assert_eq!(talk.texts().await, ["a", "b2", "d"]);
    assert_eq!(
        talk.show(b).await.expect("nothing is open"),
        Shown { position: 1, exchanges: 3, is_other: true }
    );
    assert_eq!(talk.texts().await, ["a", "b", "c2"], "the version that was shown last");
    let (account, id) = (talk.account, talk.id);
    let summary = talk.fixture.store.read(move |tx| conversations::summary(tx, account, id)).await;
    assert_eq!(summary.expect("it is there").model, "other", "the model of the branch's end");
    talk.show(c).await.expect("nothing is open");
    assert_eq!(talk.texts().await, ["a", "b", "c"]);
    let summary = talk.fixture.store.read(move |tx| conversations::summary(tx, account, id)).await;
    assert_eq!(summary.expect("it is there").model, "reader");
    talk.show(b2).await.expect("nothing is open");
    assert_eq!(talk.texts().await, ["a", "b2", "d"]);
    // Straight to a version of a version.
    talk.show(c2).await.expect("nothing is open");
    assert_eq!(talk.texts().await, ["a", "b", "c2"]);
    let both = [
        Versions { position: 1, number: 1, count: 2, previous: None, next: Some(b2) },
        Versions { position: 2, number: 2, count: 2, previous: Some(c), next: None },
    ];
    assert_eq!(talk.versions().await, both);
    // Another beginning.
    let a2 = talk.ask(talk.version(first), "a2").await;
    assert_eq!(talk.texts().await, ["a2"]);
    talk.show(first).await.expect("nothing is open");
    assert_eq!(talk.texts().await, ["a", "b", "c2"]);
    assert_eq!(
        talk.show(a2).await.expect("nothing is open"),
        Shown { position: 0, exchanges: 1, is_other: true }
    );
}

async fn a_turn_sees_the_exchanges_of_its_branch(engine: Engine) {
    let (talk, _) = Talk::begin(engine, "a").await;
    let b = talk.next("b").await;
    talk.next("c").await;
    talk.open(talk.version(b), "b2").await.expect("nothing is open");
    let fence = talk.claim().await;
    let load = async |fence: Fence| {
        let turn = talk.fixture.store.read(move |tx| turns::load(tx, fence.answer)).await;
        turn.expect("a read").expect("it is in progress")
    };
    let turn = load(fence).await;
    assert_eq!((turn.question.as_str(), turn.ordinal, turn.earlier_left_out), ("b2", 1, 0));
    assert_eq!(turn.model, "other");
    assert_eq!(turn.settings, [("reasoningEffort".to_owned(), "HIGH".to_owned())]);
    let questions: Vec<_> = turn.earlier.iter().map(|earlier| earlier.question.as_str()).collect();
    assert_eq!(questions, ["a"]);
    assert!(turn.earlier.iter().all(|earlier| !earlier.log.is_empty()), "with their logs");
    talk.fixture.complete(fence, done(fence.answer)).await.expect("the lease holds");
    talk.open(Target::Existing(talk.id), "d").await.expect("nothing is open");
    let turn = load(talk.claim().await).await;
    let questions: Vec<_> = turn.earlier.iter().map(|earlier| earlier.question.as_str()).collect();
    assert_eq!(questions, ["a", "b2"]);
}

async fn a_branch_stays_while_it_is_answered(engine: Engine) {
    let (talk, first) = Talk::begin(engine, "a").await;
    let b = talk.next("b").await;
    let b2 = talk.open(talk.version(b), "b2").await.expect("nothing is open");
    let before = talk.fixture.balance(talk.account).await;
    assert!(matches!(talk.show(b).await, Err(ShowRefused::Busy)));
    for target in [
        talk.version(first),
        talk.version(b),
        Target::Existing(talk.id),
        Target::BranchOf { conversation: talk.id, answer: b },
    ] {
        assert!(matches!(talk.open(target, "x").await, Err(AskRefused::Busy)));
    }
    assert_eq!(
        talk.show(b2).await.expect("it is shown already"),
        Shown { position: 1, exchanges: 2, is_other: false }
    );
    assert_eq!(talk.texts().await, ["a", "b2"], "a refused question changes nothing");
    assert_eq!(talk.fixture.balance(talk.account).await, before);
    talk.answer().await;
    talk.show(b).await.expect("nothing is open");
}

async fn a_question_follows_the_branch_of_its_page(engine: Engine) {
    let (talk, _) = Talk::begin(engine, "a").await;
    let b = talk.next("b").await;
    talk.ask(talk.version(b), "b2").await;
    // A page that was opened before the other version.
    talk.ask(Target::BranchOf { conversation: talk.id, answer: b }, "c").await;
    assert_eq!(talk.texts().await, ["a", "b", "c"]);
    // A page that was opened before the last question.
    talk.ask(Target::BranchOf { conversation: talk.id, answer: b }, "d").await;
    assert_eq!(talk.texts().await, ["a", "b", "c", "d"]);
    // A program knows no branches.
    talk.next("e").await;
    assert_eq!(talk.texts().await, ["a", "b", "c", "d", "e"]);
}

async fn a_question_is_agreed_for_the_model_of_its_branch(engine: Engine) {
    let (talk, first) = Talk::begin(engine, "a").await;
    let b = talk.next("b").await;
    let b2 = talk.ask(talk.version(b), "b2").await;
    let branch_of = |answer| Target::BranchOf { conversation: talk.id, answer };
    for (answer, model) in [(first, "other"), (b2, "other"), (b, "reader")] {
        assert_eq!(talk.model_of(&branch_of(answer)).await, model);
    }
    let before = talk.fixture.balance(talk.account).await;
    for (target, wrong, right) in
        [(branch_of(b), "other", "reader"), (Target::Existing(talk.id), "reader", "other")]
    {
        let refused = talk.open_with(target, "x", wrong).await;
        assert!(matches!(&refused, Err(AskRefused::OtherModel(model)) if model == right), "{refused:?}");
    }
    assert_eq!(talk.texts().await, ["a", "b2"], "a refused question changes nothing");
    assert_eq!(talk.fixture.balance(talk.account).await, before);
    talk.ask(branch_of(b), "c").await;
    assert_eq!(talk.texts().await, ["a", "b", "c"]);
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

async fn versions_have_bounds_and_owners(engine: Engine) {
    let (talk, first) = Talk::begin(engine, "a").await;
    let other = talk.fixture.account(1_000).await;
    let (account, id) = (talk.account, talk.id);
    let foreign = talk.fixture.store.write(move |tx| conversations::show(tx, other, id, first)).await;
    assert!(matches!(foreign, Err(ShowRefused::NotFound)));
    let foreign = NewQuestion { target: talk.version(first), ..talk.fixture.question(other) };
    assert!(matches!(talk.fixture.ask(foreign).await, Err(AskRefused::NotFound)));
    let none = MessageId::from_random(4711);
    assert!(matches!(talk.show(none).await, Err(ShowRefused::NotFound)));
    assert!(matches!(talk.open(talk.version(none), "x").await, Err(AskRefused::NotFound)));
    let theirs = talk.fixture.store.read(move |tx| conversations::versions(tx, other, id, 0, 50)).await;
    assert_eq!(theirs.expect("a read"), []);
    assert_eq!(talk.shown_to(other).await, 0);
    for _ in 1..VERSIONS_MAX {
        talk.open(talk.version(first), "a").await.expect("there is room");
        let fence = talk.claim().await;
        talk.fixture.complete(fence, done(fence.answer)).await.expect("the lease holds");
    }
    let refused = talk.open(talk.version(first), "a").await;
    assert!(matches!(refused, Err(AskRefused::TooManyVersions)), "{refused:?}");
    assert_eq!(talk.versions().await[0].count, VERSIONS_MAX);
    // They go with their conversation.
    let delete = move |tx: &mut dyn Sql| conversations::delete(tx, account, id, crate::fixture::START);
    talk.fixture.store.write(delete).await.expect("it is there");
    while talk.fixture.store.write(move |tx| conversations::remove(tx, id, 50)).await.expect("a write") > 0 {}
    assert_eq!(talk.fixture.count("SELECT count(*) FROM questions").await, 0);
}

async fn switching_between_many_branches_keeps_one_line(engine: Engine) {
    let (talk, first) = Talk::begin(engine, "0").await;
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
            0 => answers.push(talk.ask(talk.version(of), &number.to_string()).await),
            1 => answers.push(talk.next(&number.to_string()).await),
            _ => drop(talk.show(of).await.expect("nothing is open")),
        }
        let line = talk.texts().await;
        assert_eq!(
            line.len(),
            talk.fixture.count("SELECT count(*) FROM questions WHERE shown = 1").await as usize
        );
        let broken = "SELECT count(*) FROM questions q WHERE q.shown = 1 AND (q.chosen = 0 OR q.parent >= 0
            AND NOT EXISTS (SELECT 1 FROM questions p WHERE p.ordinal = q.parent AND p.shown = 1
                AND p.depth = q.depth - 1))";
        assert_eq!(talk.fixture.count(broken).await, 0, "each follows its parent");
        let without = "SELECT count(DISTINCT parent) FROM questions WHERE parent NOT IN
            (SELECT parent FROM questions WHERE chosen = 1)";
        assert_eq!(talk.fixture.count(without).await, 0, "each parent has a chosen child");
    }
}
