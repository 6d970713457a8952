//! A store for each test, and short ways to fill it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::account::AccountRole;
use domain::answer::{Answer, AnswerEnding};
use domain::catalog::ModelLimits;
use domain::citation::{NumberedCitation, PassagePlace};
use domain::credits::{Balance, Credits, Price};
use domain::id::{AccountId, ConversationId, InstanceId, KeyId, MessageId, NodeId};
use domain::key::KeyFingerprint;
use domain::scope::Scope;
use domain::step::{CallResult, OutputBlock, Step, StepCall, StepOutcome, StopReason, TokenUsage};
use domain::time::Timestamp;
use store::accounts::NewAccount;
use store::keys::NewKey;
use store::questions::{
    Accepted, AskRefused, AskResult, AskedThrough, NewConversation, NewQuestion, QuestionTarget,
};
use store::turns::{
    AnswerCompletion, ClaimedTurn, Fence, Reserve, StepDone, StepLog, TurnClaimOptions, TurnError,
};
use store::{
    RowExt, Sql, SqlExt, Store, StoreError, StoreOptions, credits, keys, machines, questions, turns, usage,
};

/// The engines that the suite runs on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StoreEngine {
    Sqlite,
    Postgres,
}

/// A store with generators of identifiers and times.
pub(crate) struct StoreFixture {
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
pub(crate) fn claiming_node() -> NodeId {
    NodeId::from_random(1 << 40)
}

impl StoreFixture {
    pub(crate) fn new(engine: StoreEngine) -> Self {
        Self::with_options(engine, StoreOptions::default())
    }

    pub(crate) fn with_options(engine: StoreEngine, options: StoreOptions) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let url = match engine {
            StoreEngine::Sqlite => format!("sqlite:{}", folder.path().join("store.db").display()),
            StoreEngine::Postgres => test_support::postgres::shared_server().new_database(),
        };
        Self { folder, ..Self::open_at(url, options) }
    }

    /// Opens an existing database.
    pub(crate) fn open_at(url: String, options: StoreOptions) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let store = Store::connect_with(&url, options).expect("a new store");
        Self { store, url, folder, ids: Arc::new(AtomicU64::new(1)) }
    }

    /// Opens another store on the same database.
    pub(crate) fn open_second_store(&self) -> Result<Store, StoreError> {
        Store::connect(&self.url)
    }

    /// Returns bits that are unique within this fixture.
    pub(crate) fn next_bits(&self) -> u128 {
        u128::from(self.ids.fetch_add(1, Ordering::Relaxed))
    }

    /// Creates an account with a licence for a day, a machine and `grant` credits.
    pub(crate) async fn create_account(&self, grant: u64) -> AccountId {
        let new = self.new_account(grant);
        let account = new.account;
        self.store.write(move |tx| store::accounts::create_account(tx, &new)).await.expect("a new account");
        account
    }

    pub(crate) fn new_account(&self, grant: u64) -> NewAccount {
        let account = AccountId::from_random(self.next_bits());
        NewAccount {
            account,
            user: domain::id::UserId::from_random(self.next_bits()),
            role: AccountRole::Owner,
            email: format!("{account}@example.org"),
            licence_until: Some(START.saturating_add(Duration::from_secs(86_400))),
            grant: Credits(grant),
            posting: domain::id::PostingId::from_random(self.next_bits()),
            machine: true,
            now: START,
        }
    }

    /// Creates a question that reserves 10 credits, for a new conversation.
    pub(crate) fn new_question(&self, account: AccountId) -> NewQuestion {
        let conversation = NewConversation {
            id: ConversationId::from_random(self.next_bits()),
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
            target: QuestionTarget::New(conversation),
            question: MessageId::from_random(self.next_bits()),
            answer: MessageId::from_random(self.next_bits()),
            text: "What is the rent?".to_owned(),
            attachments: vec!["/uploads/lease.pdf".to_owned()],
            instructions: None,
            functions: Vec::new(),
            asks_user: false,
            client: None,
            agent: None,
            skills: Vec::new(),
            reserve: Credits(10),
            posting: domain::id::PostingId::from_random(self.next_bits()),
            idempotency: None,
            now: START,
        }
    }

    /// Creates a question for an existing conversation.
    pub(crate) fn follow_up(&self, account: AccountId, conversation: ConversationId) -> NewQuestion {
        NewQuestion { target: QuestionTarget::Existing(conversation), ..self.new_question(account) }
    }

    pub(crate) async fn ask_question(&self, question: NewQuestion) -> Result<Accepted, AskRefused> {
        let accept = move |tx: &mut dyn Sql| {
            let asked = questions::ask_question(tx, &question)?;
            machines::request_start(tx, question.account)?;
            Ok::<_, AskRefused>(asked)
        };
        match self.store.write(accept).await? {
            AskResult::Accepted(accepted) => Ok(accepted),
            AskResult::Replayed { .. } => panic!("the question was never asked before"),
        }
    }

    pub(crate) async fn read_balance(&self, account: AccountId) -> Balance {
        let (balance, audited) = self
            .store
            .read(move |tx| {
                Ok::<_, StoreError>((
                    credits::find_balance(tx, account)?,
                    credits::recomputed_balance(tx, account)?,
                ))
            })
            .await
            .expect("a purse");
        assert_eq!(balance, Some(audited), "the postings add up to the purse");
        self.assert_usage(account).await;
        audited
    }

    /// Requires that the sums of days match the ledger.
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

    pub(crate) async fn claim_turns(&self) -> Vec<ClaimedTurn> {
        let options = claim_options();
        self.store.write(move |tx| turns::claim_turns(tx, &options)).await.expect("a claim")
    }

    /// Asks a question and claims its answer.
    pub(crate) async fn ask_and_claim(&self, account: AccountId) -> (Accepted, Fence) {
        let accepted = self.ask_question(self.new_question(account)).await.expect("it is accepted");
        let claimed = self.claim_turns().await;
        let own = claimed.iter().find(|claimed| claimed.fence.answer == accepted.answer);
        (accepted, own.expect("it is taken up").fence)
    }

    pub(crate) async fn reserve_step(&self, fence: Fence, step: u32, greatest: u64) -> Result<(), TurnError> {
        let new = self.new_reservation(step, greatest);
        self.store.write(move |tx| turns::reserve_step(tx, fence, StepLog::Answer, &new)).await
    }

    pub(crate) fn new_reservation(&self, step: u32, greatest: u64) -> Reserve {
        Reserve {
            summary: false,
            step,
            greatest: Credits(greatest),
            model: "reader".to_owned(),
            release: domain::id::PostingId::from_random(self.next_bits()),
            reserve: domain::id::PostingId::from_random(self.next_bits()),
            now: START,
        }
    }

    /// Creates a key with all permissions and the given spending limit.
    pub(crate) async fn create_key(&self, account: AccountId, spending_limit: Option<u64>) -> KeyId {
        let id = KeyId::from_random(self.next_bits());
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
        self.store.write(move |tx| keys::create_key(tx, &new)).await.expect("the licence holds");
        id
    }

    /// Returns the credits that a key with a spending limit has spent.
    pub(crate) async fn spent_by_key(&self, account: AccountId, key: KeyId) -> Credits {
        let listed = self.store.read(move |tx| keys::list_keys(tx, account)).await.expect("a read");
        let spending = listed.iter().find(|one| one.id == key).and_then(|one| one.spending);
        spending.expect("it has a limit").spent
    }

    pub(crate) async fn commit_step(&self, fence: Fence, number: u32, cost: u64) -> Result<(), TurnError> {
        let done = self.step_done(number, cost);
        self.store.write(move |tx| turns::commit_step(tx, fence, StepLog::Answer, &done)).await
    }

    pub(crate) fn step_done(&self, number: u32, cost: u64) -> StepDone {
        StepDone {
            summary: None,
            number,
            step: Arc::new(example_step(number)),
            instance: InstanceId::from_random(77),
            cost: Credits(cost),
            model: "reader".to_owned(),
            settle: domain::id::PostingId::from_random(self.next_bits()),
            release: domain::id::PostingId::from_random(self.next_bits()),
            now: START,
        }
    }

    pub(crate) async fn complete_answer(&self, fence: Fence, answer: Answer) -> Result<(), TurnError> {
        let completion = self.new_completion(answer);
        self.store.write(move |tx| turns::complete_answer(tx, fence, &completion)).await
    }

    pub(crate) fn new_completion(&self, answer: Answer) -> AnswerCompletion {
        let text = answer.unmarked_text();
        let release = domain::id::PostingId::from_random(self.next_bits());
        AnswerCompletion { answer, text, release, now: START.saturating_add(Duration::from_secs(1)) }
    }

    /// Returns the result of a statement such as `SELECT count(*) FROM log`.
    pub(crate) async fn query_count(&self, sql: &'static str) -> i64 {
        let counted = self.store.read(move |tx| tx.query_one(sql, &[], |row| row.get_int(0))).await;
        counted.expect("it can be counted").expect("there is a count")
    }
}

/// The claim options of the single node.
pub(crate) fn claim_options() -> TurnClaimOptions {
    TurnClaimOptions {
        node: claiming_node(),
        now: START,
        lease_until: START.saturating_add(Duration::from_secs(10)),
        per_account_max: 100,
        limit: 256,
    }
}

/// Creates a completed answer without text.
pub(crate) fn done_answer(id: MessageId) -> Answer {
    Answer::from_log(id, &[], &[], Some(AnswerEnding::Done))
}

/// Creates a step with a text and the tool call `call-<number>`.
pub(crate) fn example_step(number: u32) -> Step {
    let call = StepCall {
        id: format!("call-{number}"),
        tool: "search".to_owned(),
        arguments: "{\"q\":\"rent\"}".to_owned(),
        purpose: domain::step::Purpose::Tool,
    };
    Step {
        blocks: vec![OutputBlock::Text(format!("Step {number} \u{2028}\0 [1].")), OutputBlock::Call(call)],
        cited: vec![NumberedCitation {
            block: 0,
            at: 6,
            number: 900 + number,
            place: PassagePlace::Web {
                url: "https://example.org/".to_owned(),
                title: "A \0 page".to_owned(),
            },
            quote: String::new(),
        }],
        notes: Vec::new(),
        awaited: Vec::new(),
        stop: StopReason::Calls,
        usage: TokenUsage {
            input_tokens: 100,
            output_tokens: 7,
            estimated: number == 1,
            ..TokenUsage::default()
        },
    }
}

pub(crate) fn example_result(call: &str) -> CallResult {
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
pub(crate) fn run_sql(tx: &mut dyn Sql, sql: &'static str) -> Result<(), StoreError> {
    tx.execute(sql, &[]).map(drop)
}
