//! A store for each test, and short ways to fill it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::account::Role;
use domain::answer::{Answer, Ending};
use domain::catalog::ModelLimits;
use domain::citation::{Citation, Place};
use domain::credits::{Balance, Credits, Price};
use domain::id::{AccountId, ConversationId, InstanceId, KeyId, MessageId, NodeId};
use domain::key::KeyFingerprint;
use domain::scope::Scope;
use domain::step::{Block, Call, CallResult, Step, StepOutcome, StopReason, Usage};
use domain::time::Timestamp;
use store::accounts::NewAccount;
use store::keys::NewKey;
use store::questions::{Accepted, AskRefused, AskResult, AskedThrough, NewConversation, NewQuestion, Target};
use store::turns::{ClaimOptions, ClaimedTurn, Completion, Fence, Log, Reserve, StepDone, TurnError};
use store::{
    Options, RowExt, Sql, SqlExt, Store, StoreError, credits, keys, machines, questions, turns, usage,
};

/// The engines that the suite runs on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
}

/// A store with generators of identifiers and times.
pub(crate) struct Fixture {
    pub(crate) store: Store,
    pub(crate) url: String,
    pub(crate) folder: tempfile::TempDir,
    ids: Arc<AtomicU64>,
}

/// The price and token limits of every question's model.
pub(crate) const LIMITS: ModelLimits = ModelLimits {
    price: Price { base_millis: 1000, input_millis: 20, output_millis: 3 },
    context_tokens: 8000,
    output_max_tokens: 900,
};
/// The time at which tests begin.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);
/// The node that claims answers, in tests with a single one.
pub(crate) fn node() -> NodeId {
    NodeId::from_random(1 << 40)
}

impl Fixture {
    pub(crate) fn new(engine: Engine) -> Self {
        Self::with(engine, Options::default())
    }

    pub(crate) fn with(engine: Engine, options: Options) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let url = match engine {
            Engine::Sqlite => format!("sqlite:{}", folder.path().join("store.db").display()),
            Engine::Postgres => test_support::postgres::shared().new_database(),
        };
        Self { folder, ..Self::at(url, options) }
    }

    /// Opens an existing database.
    pub(crate) fn at(url: String, options: Options) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let store = Store::connect_with(&url, options).expect("a new store");
        Self { store, url, folder, ids: Arc::new(AtomicU64::new(1)) }
    }

    /// Opens another store on the same database.
    pub(crate) fn beside(&self) -> Result<Store, StoreError> {
        Store::connect(&self.url)
    }

    /// Returns bits that are unique within this fixture.
    pub(crate) fn bits(&self) -> u128 {
        u128::from(self.ids.fetch_add(1, Ordering::Relaxed))
    }

    /// Creates an account with a licence for a day, a machine and `grant` credits.
    pub(crate) async fn account(&self, grant: u64) -> AccountId {
        let new = self.new_account(grant);
        let account = new.account;
        self.store.write(move |tx| store::accounts::create(tx, &new)).await.expect("a new account");
        account
    }

    pub(crate) fn new_account(&self, grant: u64) -> NewAccount {
        let account = AccountId::from_random(self.bits());
        NewAccount {
            account,
            user: domain::id::UserId::from_random(self.bits()),
            role: Role::Owner,
            email: format!("{account}@example.org"),
            licence_until: Some(START.plus(Duration::from_secs(86_400))),
            grant: Credits(grant),
            posting: domain::id::PostingId::from_random(self.bits()),
            machine: true,
            now: START,
        }
    }

    /// Creates a question that reserves 10 credits, for a new conversation.
    pub(crate) fn question(&self, account: AccountId) -> NewQuestion {
        let conversation = NewConversation {
            id: ConversationId::from_random(self.bits()),
            title: "A title".to_owned(),
            settings: vec![("reasoningEffort".to_owned(), "LOW".to_owned())],
            jurisdictions: vec!["CZ".to_owned()],
            web_search: true,
        };
        NewQuestion {
            model: "reader".to_owned(),
            goes_on: None,
            model_limits: LIMITS,
            account,
            user: None,
            through: AskedThrough::Service,
            trace: None,
            target: Target::New(conversation),
            question: MessageId::from_random(self.bits()),
            answer: MessageId::from_random(self.bits()),
            text: "What is the rent?".to_owned(),
            attachments: vec!["/uploads/lease.pdf".to_owned()],
            agent: None,
            skills: Vec::new(),
            reserve: Credits(10),
            posting: domain::id::PostingId::from_random(self.bits()),
            idempotency: None,
            now: START,
        }
    }

    /// Creates a question for an existing conversation.
    pub(crate) fn follow_up(&self, account: AccountId, conversation: ConversationId) -> NewQuestion {
        NewQuestion { target: Target::Existing(conversation), ..self.question(account) }
    }

    pub(crate) async fn ask(&self, question: NewQuestion) -> Result<Accepted, AskRefused> {
        let accept = move |tx: &mut dyn Sql| {
            let asked = questions::ask(tx, &question)?;
            machines::request_start(tx, question.account)?;
            Ok::<_, AskRefused>(asked)
        };
        match self.store.write(accept).await? {
            AskResult::Accepted(accepted) => Ok(accepted),
            AskResult::Replayed { .. } => panic!("the question was never asked before"),
        }
    }

    pub(crate) async fn balance(&self, account: AccountId) -> Balance {
        let (balance, audited) = self
            .store
            .read(move |tx| {
                Ok::<_, StoreError>((
                    credits::balance(tx, account)?,
                    credits::recomputed_balance(tx, account)?,
                ))
            })
            .await
            .expect("a purse");
        assert_eq!(balance, Some(audited), "the postings add up to the purse");
        self.assert_usage(account).await;
        audited
    }

    /// Requires that the sums of days are those of the ledger.
    pub(crate) async fn assert_usage(&self, account: AccountId) {
        let since = Timestamp::from_micros(0);
        let kept = self.store.read(move |tx| usage::of_days(tx, account, since)).await.expect("a read");
        let ledger = self.store.read(move |tx| usage::by_day_and_model(tx, account, since)).await;
        let ledger = ledger.expect("a read");
        assert_eq!(kept, ledger, "the days add up to the ledger");
        let keys = self.store.read(move |tx| usage::by_key(tx, account, since)).await.expect("a read");
        let by_key: u64 = keys.iter().map(|used| used.credits.0).sum();
        let by_day: u64 = ledger.0.iter().map(|row| row.credits.0).sum();
        assert_eq!(by_key, by_day, "so do the keys");
    }

    pub(crate) async fn claim(&self) -> Vec<ClaimedTurn> {
        let options = claim_options();
        self.store.write(move |tx| turns::claim(tx, &options)).await.expect("a claim")
    }

    /// Asks a question and claims its answer.
    pub(crate) async fn turn(&self, account: AccountId) -> (Accepted, Fence) {
        let accepted = self.ask(self.question(account)).await.expect("it is accepted");
        let claimed = self.claim().await;
        let own = claimed.iter().find(|claimed| claimed.fence.answer == accepted.answer);
        (accepted, own.expect("it is taken up").fence)
    }

    pub(crate) async fn reserve(&self, fence: Fence, step: u32, greatest: u64) -> Result<(), TurnError> {
        let new = self.reservation(step, greatest);
        self.store.write(move |tx| turns::reserve(tx, fence, Log::Answer, &new)).await
    }

    pub(crate) fn reservation(&self, step: u32, greatest: u64) -> Reserve {
        Reserve {
            summary: false,
            step,
            greatest: Credits(greatest),
            model: "reader".to_owned(),
            release: domain::id::PostingId::from_random(self.bits()),
            reserve: domain::id::PostingId::from_random(self.bits()),
            now: START,
        }
    }

    /// Creates a key with all permissions and the given spending limit.
    pub(crate) async fn key(&self, account: AccountId, spending_limit: Option<u64>) -> KeyId {
        let id = KeyId::from_random(self.bits());
        let mut fingerprint = [0; 32];
        fingerprint[..16].copy_from_slice(&id.bits().to_be_bytes());
        let new = NewKey {
            id,
            account,
            user: None,
            name: "a tool".to_owned(),
            fingerprint: KeyFingerprint(fingerprint),
            expires_at: None,
            scope: Scope::ALL,
            spending_limit: spending_limit.map(Credits),
            now: START,
        };
        self.store.write(move |tx| keys::create(tx, &new)).await.expect("the licence holds");
        id
    }

    /// Returns the credits that a key with a spending limit has spent.
    pub(crate) async fn spent(&self, account: AccountId, key: KeyId) -> Credits {
        let listed = self.store.read(move |tx| keys::list(tx, account)).await.expect("a read");
        let spending = listed.iter().find(|one| one.id == key).and_then(|one| one.spending);
        spending.expect("it has a limit").spent
    }

    pub(crate) async fn commit_step(&self, fence: Fence, number: u32, cost: u64) -> Result<(), TurnError> {
        let done = self.step_done(number, cost);
        self.store.write(move |tx| turns::commit_step(tx, fence, Log::Answer, &done)).await
    }

    pub(crate) fn step_done(&self, number: u32, cost: u64) -> StepDone {
        StepDone {
            summary: None,
            number,
            step: Arc::new(step(number)),
            instance: InstanceId::from_random(77),
            cost: Credits(cost),
            model: "reader".to_owned(),
            settle: domain::id::PostingId::from_random(self.bits()),
            release: domain::id::PostingId::from_random(self.bits()),
            now: START,
        }
    }

    pub(crate) async fn complete(&self, fence: Fence, answer: Answer) -> Result<(), TurnError> {
        let completion = self.completion(answer);
        self.store.write(move |tx| turns::complete(tx, fence, &completion)).await
    }

    pub(crate) fn completion(&self, answer: Answer) -> Completion {
        let text = answer.text();
        let release = domain::id::PostingId::from_random(self.bits());
        Completion { answer, text, release, now: START.plus(Duration::from_secs(1)) }
    }

    /// Returns the result of a statement such as `SELECT count(*) FROM log`.
    pub(crate) async fn count(&self, sql: &'static str) -> i64 {
        let counted = self.store.read(move |tx| tx.one(sql, &[], |row| row.int(0))).await;
        counted.expect("it can be counted").expect("there is a count")
    }
}

/// The claim options of the single node.
pub(crate) fn claim_options() -> ClaimOptions {
    ClaimOptions {
        node: node(),
        now: START,
        lease_until: START.plus(Duration::from_secs(10)),
        per_account_max: 100,
        limit: 256,
    }
}

/// Creates a completed answer without text.
pub(crate) fn done(id: MessageId) -> Answer {
    Answer::rebuild(id, &[], &[], Some(Ending::Done))
}

/// Creates a step with a text and the tool call `call-<number>`.
pub(crate) fn step(number: u32) -> Step {
    let call = Call {
        id: format!("call-{number}"),
        tool: "search".to_owned(),
        arguments: "{\"q\":\"rent\"}".to_owned(),
        purpose: domain::step::Purpose::Tool,
    };
    Step {
        blocks: vec![Block::Text(format!("Step {number} \u{2028}\0 [1].")), Block::Call(call)],
        cited: vec![Citation {
            block: 0,
            at: 6,
            number: 900 + number,
            place: Place::Web { url: "https://example.org/".to_owned(), title: "A \0 page".to_owned() },
            quote: String::new(),
        }],
        notes: Vec::new(),
        stop: StopReason::Calls,
        usage: Usage { input_tokens: 100, output_tokens: 7, estimated: number == 1, ..Usage::default() },
    }
}

pub(crate) fn result(call: &str) -> CallResult {
    CallResult {
        images: Vec::new(),
        call: call.to_owned(),
        tool: "search".to_owned(),
        outcome: StepOutcome::Done,
        text: "found".to_owned(),
        passages: Vec::new(),
        written: vec!["/notes.md".to_owned()],
        unread: Vec::new(),
    }
}

/// Runs a statement without result rows.
pub(crate) fn run(tx: &mut dyn Sql, sql: &'static str) -> Result<(), StoreError> {
    tx.execute(sql, &[]).map(drop)
}
