//! Tests the promises of a service with machines in its own process.

mod client_requests;
mod dropped_requests;
mod workspaces_marker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use control::DispatchLimits;
use control::access::VALIDITY_CHECK_INTERVAL;
use control::admin::{AdminError, KeyRestrictions};
use control::answers::{WAIT_MAX, WaitOutcome};
use control::conversations::{ConversationChange, ShownBranch};
use control::environment::Entropy;
use control::passwords::{Password, Standing};
use control::questions::{AskOutcome, AskRequest};
use control::{
    CauserieService, DiskReserveConfig, ErrorKind, PluginsConfig, Principal, PublicCode, ServiceConfig,
    ServiceEnvironment, UseCaseError,
};
use domain::answer::{AnswerEnding, ErrorCode};
use domain::catalog::builtin_jurisdictions;
use domain::credits::{Balance, Credits};
use domain::id::{ConversationId, MessageId, NodeId};
use domain::machine::{MachineStatus, Rules};
use domain::scope::{Permission, Scope};
use domain::time::{Clock, Timestamp};
use live::LiveAnswer;
use machine::simulated::Simulated;
use machine::{Driver, DriverError};
use models::{VendorConfig, VendorsConfig};
use store::turns::{self, TurnClaimOptions};
use store::{RowExt, Sql, SqlExt, Store, StoreError, credits};
use telemetry::trace::{SpanContext, SpanQueue, Tracer};
use tempfile::TempDir;
use workspace::Quota;

const EMAIL: &str = "ada@example.test";
/// The time after which a test counts as hung.
const PATIENCE: Duration = Duration::from_secs(30);
/// A time longer than the interval between lease renewals.
const A_WHILE_MICROS: i64 = 20_000_000;

/// A clock that a test advances.
#[derive(Default)]
struct ServiceClock(AtomicI64);

impl Clock for ServiceClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Relaxed))
    }
}

#[derive(Default)]
struct CountingEntropy(AtomicU64, AtomicBool);

impl Entropy for CountingEntropy {
    fn fill_random(&self, bytes: &mut [u8]) {
        assert!(!self.1.load(Ordering::Relaxed), "a fault, for the test");
        for byte in bytes.chunks_mut(8) {
            let count = self.0.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            byte.copy_from_slice(&count.to_be_bytes()[..byte.len()]);
        }
    }
}

struct ServiceStage {
    data: TempDir,
    driver: Simulated,
    clock: Arc<ServiceClock>,
    counter: Arc<CountingEntropy>,
    service: CauserieService,
    principal: Principal,
}

/// Creates a service with an account whose machine never gets an agent, so that questions stay in progress.
async fn start_stage() -> ServiceStage {
    stage_of(DispatchLimits::default()).await
}

async fn stage_of(limits: DispatchLimits) -> ServiceStage {
    stage_with(Simulated::new(|_| std::future::pending()), limits).await
}

async fn stage_with(driver: Simulated, limits: DispatchLimits) -> ServiceStage {
    let data = tempfile::tempdir().expect("a temporary folder");
    let clock = Arc::new(ServiceClock::default());
    let counter = Arc::new(CountingEntropy::default());
    let environment = ServiceEnvironment::new(clock.clone(), counter.clone());
    let service =
        CauserieService::start(service_config(&data, &driver, limits), environment).await.expect("a service");
    let until = Timestamp::from_micros(i64::MAX / 2);
    service.admin.create_account(EMAIL, Some(until), Credits(1000), None, true).await.expect("an account");
    let key = service.admin.create_key(EMAIL, "test", KeyRestrictions::default()).await.expect("a key").key;
    let principal = service.access.resolve_key(key.reveal()).await.expect("a caller");
    ServiceStage { data, driver, clock, counter, service, principal }
}

fn service_config(data: &TempDir, driver: &Simulated, limits: DispatchLimits) -> ServiceConfig {
    ServiceConfig {
        instructions: None,
        data: data.path().to_owned(),
        database: None,
        quota: Quota::default(),
        limits,
        rules: Rules { start_attempts_max: 1, ..Rules::default() },
        vendors: VendorsConfig::default(),
        jurisdictions: builtin_jurisdictions(),
        driver: Driver::Simulated(driver.clone()),
        plugins: PluginsConfig::default(),
        web: egress::WebConfig::default(),
        disk: DiskReserveConfig { free_min_bytes: 0, reserve_bytes: 0 },
        single_sign_on: None,
        host_checks: Some(Vec::new()),
        accept_empty_database: false,
    }
}

fn ask_request() -> AskRequest {
    AskRequest { input: "Why?".to_owned(), ..AskRequest::default() }
}

/// Polls until the condition returns a value.
async fn poll_until<T>(mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let found = tokio::time::timeout(PATIENCE, async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::task::yield_now().await;
        }
    });
    found.await.expect("it comes about in time")
}

async fn ask_question(service: &CauserieService, principal: &Principal) -> Arc<LiveAnswer> {
    match service.questions.ask_question(principal, ask_request()).await.expect("it is accepted") {
        AskOutcome::Accepted { live, .. } => live,
        AskOutcome::Replayed { .. } => unreachable!("it is asked once"),
    }
}

/// Stops the machine once the turn works, so that nothing changes the answer until it is started again.
async fn until_no_turn_works(service: &CauserieService, principal: &Principal) {
    poll_until(async || (service.turn_count() == 1).then_some(())).await;
    service.vm.stop_machine(principal).await.expect("a machine");
    poll_until(async || (service.turn_count() == 0).then_some(())).await;
}

/// Waits for the end of the answer and returns it.
async fn await_ending(live: &LiveAnswer) -> AnswerEnding {
    let mut progress = live.progress();
    let over = tokio::time::timeout(PATIENCE, progress.wait_for(|progress| progress.ended)).await;
    over.expect("it ends in time").expect("it is told");
    live.snapshot().ending.clone().expect("it has ended")
}

async fn read_balance(store: &Store, principal: &Principal) -> Balance {
    let account = principal.account();
    store.read(move |tx| credits::find_balance(tx, account)).await.expect("a read").expect("an account")
}

async fn stop_answer(service: &CauserieService, principal: &Principal, conversation: ConversationId) {
    service.conversations.stop_answer(principal, conversation).await.expect("it is there");
}

/// The machine is removed while the answer waits for it, as when the account is being deleted.
#[tokio::test]
async fn answer_without_machine_ends_at_once() {
    let ServiceStage { data, driver, clock, service, principal, .. } = start_stage().await;
    driver.hold_starts();
    ask_question(&service, &principal).await;
    service.shutdown().await;
    let store = Store::open(&data.path().join("causerie.db")).expect("the database");
    store.write(|tx| tx.execute("DELETE FROM machines", &[])).await.expect("it is removed");
    clock.0.fetch_add(A_WHILE_MICROS, Ordering::Relaxed);
    let environment = ServiceEnvironment::new(
        clock,
        Arc::new(CountingEntropy(AtomicU64::new(1 << 32), AtomicBool::new(false))),
    );
    let config = service_config(&data, &driver, DispatchLimits::default());
    let service = CauserieService::start(config, environment).await.expect("a service");
    // The clock does not advance, so no lease of this service expires.
    poll_until(async || {
        let open = store.read(|tx| turns::open_answers(tx)).await.expect("a read");
        (open == 0).then_some(())
    })
    .await;
    service.shutdown().await;
}

/// A service that starts later must also answer the question, so it must know that the machine is wanted.
#[tokio::test]
async fn accepted_question_requests_machine() {
    let ServiceStage { data, service, principal, .. } = start_stage().await;
    let store = Store::open(&data.path().join("causerie.db")).expect("the database");
    let refusing =
        "CREATE TRIGGER refusing BEFORE UPDATE OF desired ON machines BEGIN SELECT RAISE(FAIL, 'no'); END";
    store.write(move |tx| tx.execute(refusing, &[])).await.expect("a trigger");
    assert!(service.questions.ask_question(&principal, ask_request()).await.is_err());
    let page = service.conversations.list_conversations(&principal, 0, 1).await.expect("a list");
    assert_eq!(page.total, 0);
    service.shutdown().await;
}

#[tokio::test]
async fn password_opens_own_account_only() {
    let ServiceStage { service, data: _data, .. } = start_stage().await;
    let password = |text: &str| Password::parse(text).expect("a password");
    let (admin, passwords) = (&service.admin, &service.passwords);
    let other = Some(password("another horse"));
    admin.create_account("bob@example.test", None, Credits(0), other, false).await.expect("an account");
    let opens = async |email: &str, typed: &str| {
        let found = passwords
            .verify_password(email, password(typed), Standing::Stranger)
            .await
            .expect("it is compared");
        found.map(|verified| verified.account.email)
    };
    assert_eq!(opens(EMAIL, "correct horse").await, None, "who has no password cannot come in by one");
    admin.set_password(EMAIL, password("correct horse")).await.expect("it is kept");
    assert_eq!(opens("ADA@example.test", "correct horse").await.as_deref(), Some(EMAIL));
    assert_eq!(opens(EMAIL, "another horse").await, None);
    assert_eq!(opens("bob@example.test", "another horse").await.as_deref(), Some("bob@example.test"));
    for _ in 0..2 {
        assert_eq!(opens("nobody@example.test", "correct horse").await, None);
    }
    admin.set_password(EMAIL, password("a third horse")).await.expect("it is kept");
    assert_eq!(opens(EMAIL, "correct horse").await, None, "the one before is gone");
    assert_eq!(opens(EMAIL, "a third horse").await.as_deref(), Some(EMAIL));
    let refused = admin.set_password("nobody@example.test", password("correct horse")).await;
    assert!(matches!(refused, Err(AdminError::NoSuchAccount(_))));
    service.shutdown().await;
}

#[tokio::test]
async fn jurisdictions_count_once() {
    let ServiceStage { service, principal, data: _data, .. } = start_stage().await;
    let czech = service.catalogs.list_jurisdictions(&principal).expect("it may see them")[0].id.clone();
    let asking = AskRequest { jurisdictions: vec![czech.clone(); 100_000], ..ask_request() };
    service.questions.ask_question(&principal, asking).await.expect("it is accepted");
    let page = service.conversations.list_conversations(&principal, 0, 1).await.expect("a list");
    assert_eq!(page.conversations[0].jurisdictions, [czech]);
    service.shutdown().await;
}

/// The failure of an earlier start must not end the new answer.
#[tokio::test]
async fn question_restarts_given_up_machine() {
    let ServiceStage { driver, service, principal, data: _data, .. } = start_stage().await;
    let ask = async || ask_question(&service, &principal).await;
    driver.fail_next_start(DriverError::Refused("for the test".to_owned()));
    await_ending(&*ask().await).await;
    driver.hold_starts();
    for _ in 0..20 {
        let live = ask().await;
        poll_until(async || (service.turn_count() > 0).then_some(())).await;
        let status = service.vm.machine_status(&principal).await.expect("a machine");
        assert_eq!((status, live.snapshot().ending.clone()), (MachineStatus::Starting, None));
    }
    service.shutdown().await;
}

/// A lease of this node without a turn is one that could not be released.
#[tokio::test]
async fn unworked_lease_is_released() {
    let limits = DispatchLimits { turns: 0, ..DispatchLimits::default() };
    let ServiceStage { data, clock, service, principal, .. } = stage_of(limits).await;
    service.questions.ask_question(&principal, ask_request()).await.expect("it is accepted");
    let store = Store::open(&data.path().join("causerie.db")).expect("the database");
    let serving = |tx: &mut dyn Sql| tx.query_one("SELECT process_id FROM serving", &[], |row| row.get_id(0));
    let node: NodeId = store.read(serving).await.expect("a read").expect("one serves");
    let claim = async || {
        let now = clock.now();
        let lease_until = now.saturating_add(Duration::from_secs(3600));
        let terms = TurnClaimOptions { node, now, lease_until, per_account_max: 1, limit: 1 };
        store.write(move |tx| turns::claim_turns(tx, &terms)).await.expect("a look at the store").len()
    };
    assert_eq!(claim().await, 1);
    assert_eq!(claim().await, 0, "it is leased");
    clock.0.fetch_add(A_WHILE_MICROS, Ordering::Relaxed);
    service
        .questions
        .ask_question(&principal, ask_request())
        .await
        .expect("it is accepted, and dispatch looks");
    poll_until(async || (claim().await == 1).then_some(())).await;
    service.shutdown().await;
}

/// An answer with damaged data must end with an error, not be retried for ever.
#[tokio::test]
async fn damaged_log_ends_answer_free() {
    let none = DispatchLimits { turns: 0, ..DispatchLimits::default() };
    let ServiceStage { data, driver, clock, service, principal, .. } = stage_of(none).await;
    let trace = Some(SpanContext { trace: 7, span: 8 });
    let AskOutcome::Accepted { live, .. } = service
        .questions
        .ask_question(&principal, AskRequest { trace, ..ask_request() })
        .await
        .expect("it is accepted")
    else {
        unreachable!("it is asked once")
    };
    let answer = live.meta().clone();
    service.shutdown().await;
    let store = Store::open(&data.path().join("causerie.db")).expect("the database");
    let damage = "INSERT INTO log (answer_id, entry, step, epoch, created_at, body) SELECT id, 0, 0, 0, 0, '{' FROM answers";
    store.write(move |tx| tx.execute(damage, &[])).await.expect("damage");
    assert!(read_balance(&store, &principal).await.reserved > Credits(0));
    let spans = SpanQueue::new(1);
    let again = async |limits, first_id: u64| {
        let counter = CountingEntropy(AtomicU64::new(first_id << 32), AtomicBool::new(false));
        let environment =
            ServiceEnvironment::new(clock.clone(), Arc::new(counter)).with_tracer(Tracer::new(spans.clone()));
        CauserieService::start(service_config(&data, &driver, limits), environment).await.expect("a service")
    };
    let service = again(none, 1).await;
    let find = async |service: &CauserieService| {
        let found = service.answers.find_answer(&principal, answer.conversation, answer.answer).await;
        found.expect("what stands can be read").snapshot().ending.clone()
    };
    assert_eq!(find(&service).await, None, "nobody has looked after it yet");
    service.shutdown().await;
    let service = again(DispatchLimits::default(), 2).await;
    let ending = poll_until(async || find(&service).await).await;
    assert!(matches!(ending, AnswerEnding::Failed(error) if error.code == ErrorCode::Internal));
    assert_eq!(
        read_balance(&store, &principal).await,
        Balance { available: Credits(1000), reserved: Credits(0) }
    );
    poll_until(async || (service.turn_count() == 0).then_some(())).await;
    let recorded = spans.take_finished(100);
    let whole = recorded.iter().find(|span| span.name == "answer").unwrap_or_else(|| panic!("{recorded:?}"));
    assert!(whole.failed && whole.context.trace == 7, "{whole:?}");
    assert!(
        recorded.iter().any(|span| span.name == "work on answer" && span.parent == Some(whole.context.span)),
        "{recorded:?}"
    );
    service.shutdown().await;
}

/// Simulates a defect of the service itself.
#[tokio::test]
async fn panicked_turn_is_retried() {
    let ServiceStage { counter, service, principal, data: _data, .. } = start_stage().await;
    let live = ask_question(&service, &principal).await;
    poll_until(async || (service.turn_count() == 1).then_some(())).await;
    counter.1.store(true, Ordering::Relaxed);
    stop_answer(&service, &principal, live.meta().conversation).await;
    poll_until(async || (service.turn_count() == 0).then_some(())).await;
    counter.1.store(false, Ordering::Relaxed);
    assert_eq!(await_ending(&live).await, AnswerEnding::Stopped);
    service.shutdown().await;
}

/// Answers of stopped machines must not take the places of others.
#[tokio::test]
async fn stopped_machine_answers_wait_and_resume() {
    let ServiceStage { service, principal, driver, data: _data, .. } = start_stage().await;
    driver.hold_starts();
    let live = ask_question(&service, &principal).await;
    poll_until(async || (service.turn_count() == 1).then_some(())).await;
    service.vm.stop_machine(&principal).await.expect("a machine");
    poll_until(async || (service.turn_count() == 0).then_some(())).await;
    assert_eq!(live.snapshot().ending, None);
    service.vm.start_machine(&principal).await.expect("a machine");
    poll_until(async || (service.turn_count() == 1).then_some(())).await;
    stop_answer(&service, &principal, live.meta().conversation).await;
    assert_eq!(await_ending(&live).await, AnswerEnding::Stopped);
    service.shutdown().await;
}

/// The answer waits for a free place, or its machine is stopped.
#[tokio::test]
async fn waiting_answer_stops_at_once() {
    let limits = DispatchLimits { turns: 1, ..DispatchLimits::default() };
    let ServiceStage { data, service, principal, driver, .. } = stage_of(limits).await;
    driver.hold_starts();
    let first = ask_question(&service, &principal).await;
    poll_until(async || (service.turn_count() == 1).then_some(())).await;
    let second = ask_question(&service, &principal).await;
    stop_answer(&service, &principal, second.meta().conversation).await;
    assert_eq!(await_ending(&second).await, AnswerEnding::Stopped);
    assert_eq!(second.snapshot().text.to_string(), "");
    service.vm.stop_machine(&principal).await.expect("a machine");
    poll_until(async || (service.turn_count() == 0).then_some(())).await;
    stop_answer(&service, &principal, first.meta().conversation).await;
    assert_eq!(await_ending(&first).await, AnswerEnding::Stopped);
    let store = Store::open(&data.path().join("causerie.db")).expect("the database");
    let back = Balance { available: Credits(1000), reserved: Credits(0) };
    assert_eq!(read_balance(&store, &principal).await, back, "nothing was said");
    service.shutdown().await;
}

#[tokio::test]
async fn missing_account_folder_is_created() {
    let ServiceStage { data, driver, clock, counter, service, principal } = start_stage().await;
    let until = Some(Timestamp::from_micros(i64::MAX / 2));
    let other = service.admin.create_account("b@example.test", until, Credits(0), None, false).await;
    let other = other.expect("an account").id;
    let key = service
        .admin
        .create_key("b@example.test", "test", KeyRestrictions::default())
        .await
        .expect("a key")
        .key;
    service.shutdown().await;
    drop(service);
    let folder = |account: domain::id::AccountId| data.path().join("workspaces").join(account.to_string());
    for account in [principal.account(), other] {
        std::fs::remove_dir_all(folder(account)).expect("it is there");
    }
    let environment = ServiceEnvironment::new(clock, counter);
    let service =
        CauserieService::start(service_config(&data, &driver, DispatchLimits::default()), environment).await;
    let service = service.expect("a service");
    assert!(folder(principal.account()).join("uploads").is_dir(), "at the start, as it has a machine");
    let principal = service.access.resolve_key(key.reveal()).await.expect("a caller");
    assert_eq!(principal.account(), other);
    assert!(folder(other).join("uploads").is_dir(), "when it is first used");
    service.shutdown().await;
}

#[tokio::test]
async fn empty_database_beside_workspaces_refused() {
    let ServiceStage { data, driver, clock, counter, service, .. } = start_stage().await;
    service.shutdown().await;
    drop(service);
    let database = data.path().join("causerie.db");
    std::fs::remove_file(&database).expect("it is there");
    let environment = ServiceEnvironment::new(clock, counter);
    let begin = async |accepts: bool| {
        let config = ServiceConfig {
            accept_empty_database: accepts,
            ..service_config(&data, &driver, DispatchLimits::default())
        };
        CauserieService::start(config, environment.clone()).await
    };
    let refused = begin(false).await.err().expect("it is refused");
    assert!(refused.to_string().contains("the data folder has 1 workspaces"), "{refused}");
    assert!(!database.exists(), "nothing is in the way of a restore");
    Store::open(&database).expect("a database").close().await;
    assert!(begin(false).await.is_err(), "one without accounts is no other");
    begin(true).await.expect("as was asked for").shutdown().await;
}

fn error_code<T>(result: Result<T, UseCaseError>) -> Option<(ErrorKind, PublicCode)> {
    result.err().map(|error| (error.kind(), error.code()))
}

/// The use cases check permissions themselves, so that no face can forget it.
#[tokio::test]
async fn every_use_case_wants_its_permission() {
    let ServiceStage { service, principal, data: _data, .. } = start_stage().await;
    let live = ask_question(&service, &principal).await;
    let (chat, message) = (live.meta().conversation, live.meta().answer);
    let key = async |scope: &[Permission]| {
        let restrictions = KeyRestrictions {
            scope: Scope::from_permissions(scope).expect("some"),
            ..KeyRestrictions::default()
        };
        let key = service.admin.create_key(EMAIL, "narrow", restrictions).await.expect("a key").key;
        service.access.resolve_key(key.reveal()).await.expect("it is valid")
    };
    let refused = Some((ErrorKind::Forbidden, PublicCode::KeyScope));
    let (files, reader) = (key(&[Permission::Files]).await, key(&[Permission::Read]).await);
    assert_eq!(error_code(service.conversations.list_conversations(&files, 0, 1).await), refused);
    assert_eq!(error_code(service.conversations.find_summary(&files, chat).await), refused);
    assert_eq!(error_code(service.conversations.shown_messages(&files, chat, 0).await), refused);
    assert_eq!(error_code(service.conversations.shown_branch(&files, chat).await), refused);
    let branch = ShownBranch { last: message, exchanges: 1 };
    assert_eq!(error_code(service.conversations.messages_of(&files, chat, branch, 0).await), refused);
    assert_eq!(error_code(service.answers.find_answer(&files, chat, message).await), refused);
    assert_eq!(error_code(service.answers.follow_answer(&files, chat, message).await), refused);
    assert_eq!(error_code(service.answers.follow_conversation(&files, chat).await), refused);
    assert_eq!(error_code(service.catalogs.list_skills(&files).await), refused);
    assert_eq!(error_code(service.catalogs.list_agents(&files)), refused);
    assert_eq!(error_code(service.catalogs.list_models(&files)), refused);
    assert_eq!(error_code(service.catalogs.list_jurisdictions(&files)), refused);
    assert_eq!(error_code(service.questions.ask_question(&reader, ask_request()).await), refused);
    assert_eq!(error_code(service.answers.find_replayed(&reader, chat, message).await), refused);
    assert_eq!(error_code(service.answers.find_by_id(&files, message).await), refused);
    assert_eq!(
        error_code(
            service.conversations.update_conversation(&reader, chat, ConversationChange::default()).await
        ),
        refused
    );
    assert_eq!(error_code(service.conversations.stop_answer(&reader, chat).await), refused);
    assert_eq!(error_code(service.conversations.delete_conversation(&reader, chat).await), refused);
    assert_eq!(error_code(service.vm.start_machine(&reader).await), refused);
    assert_eq!(error_code(service.vm.stop_machine(&reader).await), refused);
    assert_eq!(error_code(service.files.workspace_of(&reader)), refused);
    assert!(service.vm.machine_status(&files).await.is_ok() && service.files.workspace_of(&files).is_ok());
    assert!(service.answers.find_answer(&reader, chat, message).await.is_ok());
    service.shutdown().await;
}

#[tokio::test]
async fn messages_of_checks_shown_branch() {
    let ServiceStage { service, principal, data: _data, .. } = start_stage().await;
    let live = ask_question(&service, &principal).await;
    until_no_turn_works(&service, &principal).await;
    let (chat, message) = (live.meta().conversation, live.meta().answer);
    let conversations = &service.conversations;
    let branch = conversations.shown_branch(&principal, chat).await.expect("it exists");
    assert_eq!(branch, ShownBranch { last: message, exchanges: 1 });
    let messages = conversations.messages_of(&principal, chat, branch, 0).await.expect("it is shown");
    assert_eq!((messages.messages.len(), messages.full), (2, false));
    let before = ShownBranch { exchanges: 0, ..branch };
    let none = conversations.messages_of(&principal, chat, before, 0).await.expect("it is shown");
    assert_eq!(none.messages, [], "what was added since is left out");
    let other = ShownBranch { last: MessageId::from_random(4711), exchanges: 1 };
    let refused = Some((ErrorKind::Conflict, PublicCode::ConversationBusy));
    assert_eq!(error_code(conversations.messages_of(&principal, chat, other, 0).await), refused);
    let (shown, first) = conversations.shown_messages(&principal, chat, 0).await.expect("it exists");
    assert_eq!((shown, first), (branch, messages), "read together, they belong together");
    let (shown, rest) = conversations.shown_messages(&principal, chat, 1).await.expect("it exists");
    assert_eq!((shown, rest.messages), (branch, Vec::new()));
    let nowhere = conversations.shown_messages(&principal, ConversationId::from_random(4711), 0).await;
    assert_eq!(error_code(nowhere), Some((ErrorKind::NotFound, PublicCode::NotFound)));
}

/// Revoking a key ends the wait for an answer, which is then not shown.
#[tokio::test]
async fn wait_ends_by_answer_time_key() {
    let ServiceStage { data, driver, service, principal, .. } = start_stage().await;
    let live = ask_question(&service, &principal).await;
    until_no_turn_works(&service, &principal).await;
    let wait = |max_wait| service.answers.wait_for_end(&principal, &live, max_wait, std::future::pending());
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    assert_eq!(wait(Duration::MAX).await, WaitOutcome::Show);
    assert!(begun.elapsed() >= WAIT_MAX && begun.elapsed() < WAIT_MAX + PATIENCE, "{:?}", begun.elapsed());
    // The store uses real time.
    tokio::time::resume();
    let ended = service.answers.wait_for_end(&principal, &live, WAIT_MAX, std::future::ready(()));
    assert_eq!(ended.await, WaitOutcome::Show);
    service.admin.revoke_key(principal.key_id().expect("a key")).await.expect("it is there");
    let begun = tokio::time::Instant::now();
    assert_eq!(wait(WAIT_MAX).await, WaitOutcome::Revoked);
    assert!(
        begun.elapsed() >= VALIDITY_CHECK_INTERVAL && begun.elapsed() < WAIT_MAX,
        "{:?}",
        begun.elapsed()
    );
    service.shutdown().await;
    drop((data, driver));
}

/// A model that no vendor has is an invalid request; one that an unreachable vendor may have is temporary.
#[tokio::test]
async fn unknown_model_invalid_unless_vendor_away() {
    let ServiceStage { service, principal, data: _data, .. } = start_stage().await;
    let unknown = AskRequest { model: Some("no-such-model".to_owned()), ..ask_request() };
    let refused = service.questions.ask_question(&principal, unknown.clone()).await;
    assert_eq!(error_code(refused), Some((ErrorKind::Invalid, PublicCode::UnknownModel)));
    service.shutdown().await;
    // No server listens on this port.
    let away = VendorConfig { base_url: Some("http://127.0.0.1:1".to_owned()), ..VendorConfig::default() };
    let driver = Simulated::new(|_| std::future::pending());
    let data = tempfile::tempdir().expect("a temporary folder");
    let vendors = VendorsConfig { openai: Some(away), ..VendorsConfig::default() };
    let config = ServiceConfig { vendors, ..service_config(&data, &driver, DispatchLimits::default()) };
    let environment =
        ServiceEnvironment::new(Arc::new(ServiceClock::default()), Arc::new(CountingEntropy::default()));
    let service = CauserieService::start(config, environment).await.expect("a service");
    let until = Timestamp::from_micros(i64::MAX / 2);
    service.admin.create_account(EMAIL, Some(until), Credits(1000), None, true).await.expect("an account");
    let key = service.admin.create_key(EMAIL, "test", KeyRestrictions::default()).await.expect("a key").key;
    let principal = service.access.resolve_key(key.reveal()).await.expect("it is valid");
    let refused = service.questions.ask_question(&principal, unknown).await;
    assert_eq!(error_code(refused), Some((ErrorKind::Conflict, PublicCode::ModelUnavailable)));
    service.shutdown().await;
}

/// A search waits for the conversations that changed last; a task indexes the others.
#[tokio::test]
async fn search_does_not_wait_for_indexing() {
    const CONVERSATIONS: usize = 50;
    let ServiceStage { service, principal, data: _data, .. } = start_stage().await;
    for number in 0..CONVERSATIONS {
        let asking = AskRequest { input: format!("Flat {number}"), ..ask_request() };
        service.questions.ask_question(&principal, asking).await.expect("it is accepted");
    }
    let page = service.history.history_page(&principal, "flat", 0, CONVERSATIONS).await.expect("a page");
    assert!(page.is_indexing && !page.entries.is_empty(), "{page:?}");
    let page = poll_until(async || {
        let page = service.history.history_page(&principal, "flat", 0, CONVERSATIONS).await.expect("a page");
        (!page.is_indexing).then_some(page)
    });
    assert_eq!(page.await.entries.len(), CONVERSATIONS);
    service.shutdown().await;
}
