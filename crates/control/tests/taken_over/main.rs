//! Tests answers that end or continue without the process that began them: stopped, deleted, completed or claimed
//! elsewhere.

mod agent;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use control::DispatchLimits;
use control::admin::KeyRestrictions;
use control::environment::Entropy;
use control::questions::{AskOutcome, AskRequest};
use control::{
    CauserieService, CheckStatus, DiskReserveConfig, PluginsConfig, Principal, ServiceConfig,
    ServiceEnvironment,
};
use domain::answer::{Answer, AnswerEnding, ErrorCode};
use domain::catalog::builtin_jurisdictions;
use domain::credits::Credits;
use domain::id::{NodeId, PostingId};
use domain::machine::Rules;
use domain::time::{Clock, Timestamp};
use egress::{McpServerConfig, WebConfig};
use live::LiveAnswer;
use machine::Driver;
use machine::simulated::Simulated;
use models::{VendorConfig, VendorsConfig};
use store::turns::{self, AnswerCompletion, Fence, TurnClaimOptions};
use store::{RowExt, Sql, SqlExt, Store, conversations, credits, succession};
use tempfile::TempDir;
use workspace::Quota;

use crate::agent::{Sessions, guest_driver};

/// The time after which a test counts as hung.
const PATIENCE: Duration = Duration::from_secs(30);
/// A time longer than the interval between lease renewals.
const A_WHILE_MICROS: i64 = 20_000_000;
/// The credits of the account.
const CREDITS: u64 = 100_000;

#[derive(Default)]
struct TakeoverClock(AtomicI64);

impl Clock for TakeoverClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Relaxed))
    }
}

#[derive(Default)]
struct TakeoverEntropy(AtomicU64);

impl Entropy for TakeoverEntropy {
    fn fill_random(&self, bytes: &mut [u8]) {
        for byte in bytes.chunks_mut(8) {
            let count = self.0.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            byte.copy_from_slice(&count.to_be_bytes()[..byte.len()]);
        }
    }
}

/// Starts a model server: the first response calls a subagent, the second a tool, and all others never end.
fn start_vendor(asked: Arc<AtomicU64>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let asked = asked.clone();
            // Clients may disconnect at any time.
            std::thread::spawn(move || answer_request(stream, &asked));
        }
    });
    format!("http://{address}/v1")
}

fn answer_request(mut stream: TcpStream, asked: &AtomicU64) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.trim().is_empty() {
            break;
        }
    }
    reader.read_exact(&mut vec![0; length])?;
    if first.contains("/models") {
        let body = "{\"object\":\"list\",\"data\":[{\"id\":\"m\",\"object\":\"model\"}]}";
        return write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
    }
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")?;
    let call = match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Some(("agent", "{\\\"agent\\\":\\\"causerie:lawyer\\\",\\\"task\\\":\\\"Look\\\"}")),
        1 => Some(("shell", "{\\\"command\\\":\\\"true\\\"}")),
        _ => None,
    };
    if let Some((name, arguments)) = call {
        return write!(
            stream,
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"c\",\"function\":\
             {{\"name\":\"{name}\",\"arguments\":\"{arguments}\"}}}}]}},\"finish_reason\":\"tool_calls\"}}]}}\n\ndata: [DONE]\n\n"
        );
    }
    write!(stream, "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"Half\"}}}}]}}\n\n")?;
    // Waits until the client disconnects.
    std::io::copy(&mut reader, &mut std::io::sink()).map(|_| ())
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

/// A service with a model and a machine, and an account that has asked one question.
struct TakeoverStage {
    data: TempDir,
    sessions: Sessions,
    clock: Arc<TakeoverClock>,
    service: CauserieService,
    principal: Principal,
    live: Arc<LiveAnswer>,
    vendors: VendorsConfig,
    /// The number of requests to the model.
    asked: Arc<AtomicU64>,
}

/// Returns the configuration of a service without vendors, whose machines never answer.
fn base_config(data: &Path) -> ServiceConfig {
    ServiceConfig {
        instructions: None,
        data: data.to_owned(),
        database: None,
        quota: Quota::default(),
        limits: DispatchLimits::default(),
        rules: Rules::default(),
        vendors: VendorsConfig::default(),
        jurisdictions: builtin_jurisdictions(),
        driver: Driver::Simulated(Simulated::new(|_| std::future::pending())),
        plugins: PluginsConfig::default(),
        web: WebConfig::default(),
        disk: DiskReserveConfig { free_min_bytes: 0, reserve_bytes: 0 },
        single_sign_on: None,
        host_checks: Some(Vec::new()),
        accept_empty_database: false,
    }
}

/// Sets up the stage. The counter of requests to the model starts at `asked`: see [`answer`].
async fn start_stage(asked: u64, web: WebConfig) -> TakeoverStage {
    let (sessions, clock) = (Sessions::default(), Arc::new(TakeoverClock::default()));
    let asked = Arc::new(AtomicU64::new(asked));
    let data = tempfile::tempdir().expect("a temporary folder");
    let openai = VendorConfig { base_url: Some(start_vendor(asked.clone())), ..VendorConfig::default() };
    let vendors = VendorsConfig { openai: Some(openai), ..VendorsConfig::default() };
    let config = ServiceConfig {
        vendors: vendors.clone(),
        driver: guest_driver(&sessions),
        web,
        ..base_config(data.path())
    };
    let environment = ServiceEnvironment::new(clock.clone(), Arc::new(TakeoverEntropy::default()));
    let service = CauserieService::start(config, environment).await.expect("a service");
    let until_day = Timestamp::from_micros(i64::MAX / 2);
    let (email, credits) = ("ada@example.test", Credits(CREDITS));
    service.admin.create_account(email, Some(until_day), credits, None, true).await.expect("an account");
    let key = service.admin.create_key(email, "test", KeyRestrictions::default()).await.expect("a key").key;
    let principal = service.access.resolve_key(key.reveal()).await.expect("a caller");
    // The vendor may not have listed the model yet.
    let live = poll_until(async || ask_question(&service, &principal).await).await;
    TakeoverStage { data, sessions, clock, service, principal, live, vendors, asked }
}

async fn ask_question(service: &CauserieService, principal: &Principal) -> Option<Arc<LiveAnswer>> {
    let asking =
        AskRequest { input: "Why?".to_owned(), model: Some("m".to_owned()), ..AskRequest::default() };
    match service.questions.ask_question(principal, asking).await.ok()? {
        AskOutcome::Accepted { live, .. } => Some(live),
        AskOutcome::Replayed { .. } => unreachable!("it is asked once"),
    }
}

/// Waits for the end of the answer and returns it.
async fn await_ending(live: &LiveAnswer) -> AnswerEnding {
    poll_until(async || live.snapshot().ending.clone()).await
}

/// Waits until the model has begun to answer.
async fn await_half(live: &LiveAnswer) {
    poll_until(async || (live.snapshot().text.to_string() == "Half").then_some(())).await;
}

/// Returns the available credits once nothing is reserved.
async fn settled_balance(store: &Store, principal: &Principal) -> u64 {
    let account = principal.account();
    poll_until(async || {
        let balance = store.read(move |tx| credits::find_balance(tx, account)).await.expect("a read");
        balance.filter(|balance| balance.reserved == Credits(0)).map(|balance| balance.available.0)
    })
    .await
}

/// A deletion must not make answers free of charge.
#[tokio::test]
async fn deleted_answer_costs_like_stopped() {
    let TakeoverStage { data, service, principal, live, .. } = start_stage(2, WebConfig::default()).await;
    let store = Store::open(&data.path().join("causerie.db")).expect("the database");
    await_half(&live).await;
    service.conversations.stop_answer(&principal, live.meta().conversation).await.expect("it is there");
    assert_eq!(await_ending(&live).await, AnswerEnding::Stopped);
    let stopped = CREDITS - settled_balance(&store, &principal).await;
    assert!(stopped > 0, "what was said is paid for");
    let live = ask_question(&service, &principal).await.expect("it is accepted");
    await_half(&live).await;
    let meta = live.meta().clone();
    service.conversations.delete_conversation(&principal, meta.conversation).await.expect("it is there");
    assert_eq!(live.snapshot().ending, Some(AnswerEnding::Stopped), "its readers are told at once");
    assert!(
        service.answers.find_answer(&principal, meta.conversation, meta.answer).await.is_err(),
        "it is gone"
    );
    assert_eq!(CREDITS - settled_balance(&store, &principal).await, 2 * stopped);
    poll_until(async || (service.turn_count() == 0).then_some(())).await;
    assert!(
        service.answers.find_answer(&principal, meta.conversation, meta.answer).await.is_err(),
        "it stays gone"
    );
    service.shutdown().await;
}

/// The service shuts down between the deletion and its consequences.
#[tokio::test]
async fn answer_deleted_at_shutdown_ends_next() {
    let TakeoverStage { data, service, principal, live, .. } = start_stage(2, WebConfig::default()).await;
    let store = Store::open(&data.path().join("causerie.db")).expect("the database");
    await_half(&live).await;
    let (account, conversation) = (principal.account(), live.meta().conversation);
    // Bypasses the service, which notices it only by its next poll.
    let delete = move |tx: &mut dyn Sql| {
        conversations::delete_conversation(tx, account, conversation, Timestamp::from_micros(1))
    };
    store.write(delete).await.expect("it is there");
    service.shutdown().await;
    let config = base_config(data.path());
    let environment = ServiceEnvironment::new(
        Arc::new(TakeoverClock::default()),
        Arc::new(TakeoverEntropy(AtomicU64::new(1 << 32))),
    );
    let service = CauserieService::start(config, environment).await.expect("a service");
    settled_balance(&store, &principal).await;
    let open = store.read(|tx| turns::open_answers(tx));
    assert_eq!(open.await.expect("a read"), 0);
    let rows = "SELECT (SELECT count(*) FROM answers) + (SELECT count(*) FROM conversations)";
    let gone = async {
        loop {
            let left = store.read(move |tx| tx.query_one(rows, &[], |row| row.get_int(0))).await;
            if left.expect("a read") == Some(0) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("a job removes all of it");
    service.shutdown().await;
}

/// A lease of a killed process is an attempt without progress, no matter what killed it. So a service that is killed
/// again and again must not fail its answers, unless that continues for a while.
#[tokio::test]
async fn answer_fails_after_many_kills() {
    let stage = start_stage(2, WebConfig::default()).await;
    let answer = stage.live.meta().answer;
    await_half(&stage.live).await;
    stage.service.shutdown().await;
    let store = Store::open(&stage.data.path().join("causerie.db")).expect("the database");
    let (node, now) = (NodeId::from_random(7), stage.clock.now());
    let options = TurnClaimOptions {
        node,
        now,
        lease_until: now.saturating_add(PATIENCE),
        per_account_max: 1,
        limit: 1,
    };
    let restart = async || {
        store.write(move |tx| succession::begin_succession(tx, node, node)).await.expect("a restart")
    };
    restart().await;
    for _ in 0..20 {
        let claimed = store.write(move |tx| turns::claim_turns(tx, &options)).await.expect("a claim");
        assert_eq!(claimed.iter().map(|one| one.fence.answer).collect::<Vec<_>>(), [answer]);
        restart().await;
    }
    let asked_before = stage.asked.load(Ordering::SeqCst);
    let service = start_next(&stage, 1 << 32).await;
    poll_until(async || (stage.asked.load(Ordering::SeqCst) > asked_before).then_some(())).await;
    service.shutdown().await;
    let open = async || store.read(|tx| turns::open_answers(tx)).await.expect("a read");
    assert_eq!(open().await, 1, "it goes on");
    stage.clock.0.fetch_add(60_000_000, Ordering::Relaxed);
    let service = start_next(&stage, 2 << 32).await;
    poll_until(async || (open().await == 0).then_some(())).await;
    service.shutdown().await;
}

/// Waits until `/readyz` would report an answer that is left for this reason.
async fn await_left(service: &CauserieService, reason: &str) {
    poll_until(async || {
        let checks = service.run_checks().await;
        let check = checks.into_iter().find(|check| check.name == "answers").expect("a check");
        (check.status == CheckStatus::Warn && check.reason.contains(reason)).then_some(())
    })
    .await;
}

/// Starts a service on the data folder whose identifiers begin at `entropy`.
async fn start_next(stage: &TakeoverStage, entropy: u64) -> CauserieService {
    let config = ServiceConfig {
        vendors: stage.vendors.clone(),
        driver: guest_driver(&stage.sessions),
        ..base_config(stage.data.path())
    };
    let environment =
        ServiceEnvironment::new(stage.clock.clone(), Arc::new(TakeoverEntropy(AtomicU64::new(entropy))));
    CauserieService::start(config, environment).await.expect("a service")
}

#[tokio::test]
async fn answer_waits_for_missing_agent() {
    let stage = start_stage(2, WebConfig::default()).await;
    await_half(&stage.live).await;
    stage.service.shutdown().await;
    let store = Store::open(&stage.data.path().join("causerie.db")).expect("the database");
    let change = async |sql: &'static str| {
        store.write(move |tx| tx.execute(sql, &[])).await.expect("a write");
    };
    change("UPDATE questions SET agent = 'tax:adviser'").await;
    let asked = stage.asked.load(Ordering::SeqCst);
    let service = start_next(&stage, 1 << 32).await;
    await_left(&service, "tax:adviser").await;
    change("UPDATE questions SET agent = NULL").await;
    poll_until(async || (stage.asked.load(Ordering::SeqCst) > asked).then_some(())).await;
    service.shutdown().await;
    change("UPDATE questions SET agent = 'tax:adviser'").await;
    let service = start_next(&stage, 2 << 32).await;
    await_left(&service, "tax:adviser").await;
    stage.clock.0.fetch_add(600_000_000, Ordering::Relaxed);
    let meta = stage.live.meta();
    let failed = poll_until(async || {
        let found = service.answers.find_answer(&stage.principal, meta.conversation, meta.answer).await;
        found.expect("it is there").snapshot().ending.clone()
    });
    let AnswerEnding::Failed(error) = failed.await else { panic!("it failed") };
    assert_eq!(error.code, ErrorCode::AgentUnavailable);
    assert!(
        service
            .run_checks()
            .await
            .iter()
            .all(|check| check.name != "answers" || check.status == CheckStatus::Pass)
    );
    service.shutdown().await;
}

#[tokio::test]
async fn later_version_answer_is_left() {
    let stage = start_stage(1, WebConfig::default()).await;
    poll_until(async || {
        let runs = stage.sessions.lock().expect("whole").iter().any(|session| session.runs == 1);
        runs.then_some(())
    })
    .await;
    stage.service.shutdown().await;
    let store = Store::open(&stage.data.path().join("causerie.db")).expect("the database");
    let version = async |sql: &'static str| {
        assert!(store.write(move |tx| tx.execute(sql, &[])).await.expect("a write") > 0);
    };
    version("UPDATE log SET body = replace(body, '\"v\":1', '\"v\":2')").await;
    let service = start_next(&stage, 1 << 32).await;
    await_left(&service, "a later version").await;
    // The time and the number of checks do not matter.
    stage.clock.0.fetch_add(100_000_000_000, Ordering::Relaxed);
    await_left(&service, "a later version").await;
    let open = store.read(|tx| turns::open_answers(tx)).await.expect("a read");
    assert_eq!(open, 1);
    version("UPDATE log SET body = replace(body, '\"v\":2', '\"v\":1')").await;
    let asked = stage.asked.load(Ordering::SeqCst);
    poll_until(async || {
        let runs = stage.sessions.lock().expect("whole").len() > 1;
        (runs || stage.asked.load(Ordering::SeqCst) > asked).then_some(())
    })
    .await;
    service.shutdown().await;
}

#[tokio::test]
async fn dropped_deletion_is_completed() {
    let TakeoverStage { data, service, principal, live, .. } = start_stage(2, WebConfig::default()).await;
    await_half(&live).await;
    let meta = live.meta().clone();
    let mut deleting = Box::pin(service.conversations.delete_conversation(&principal, meta.conversation));
    assert!(futures_util::poll!(&mut deleting).is_pending());
    drop(deleting);
    assert_eq!(await_ending(&live).await, AnswerEnding::Stopped);
    assert!(live.progress().borrow().deleted, "nobody waits for another answer");
    assert!(service.answers.find_answer(&principal, meta.conversation, meta.answer).await.is_err());
    poll_until(async || (service.turn_count() == 0).then_some(())).await;
    drop(data);
    service.shutdown().await;
}

#[tokio::test]
async fn dropped_stop_is_completed() {
    let TakeoverStage { service, principal, live, data: _data, .. } =
        start_stage(2, WebConfig::default()).await;
    await_half(&live).await;
    let mut stopping = Box::pin(service.conversations.stop_answer(&principal, live.meta().conversation));
    assert!(futures_util::poll!(&mut stopping).is_pending());
    drop(stopping);
    // The clock does not advance, so that no lease renewal reveals it.
    assert_eq!(await_ending(&live).await, AnswerEnding::Stopped);
    service.shutdown().await;
}

/// The outcome of the commit that ended the answer is unknown.
#[tokio::test]
async fn readers_notified_of_foreign_end() {
    let TakeoverStage { data, clock, service, principal, live, .. } =
        start_stage(2, WebConfig::default()).await;
    await_half(&live).await;
    let store = Store::open(&data.path().join("causerie.db")).expect("the database");
    let holder = |tx: &mut dyn Sql| tx.query_one("SELECT node_id FROM dispatch", &[], |row| row.get_id(0));
    let node: NodeId = store.read(holder).await.expect("a read").expect("it is leased");
    let fence = Fence { answer: live.meta().answer, epoch: 1, node };
    let last = AnswerCompletion {
        answer: Answer::from_log(fence.answer, &[], &[], Some(AnswerEnding::Done)),
        text: String::new(),
        release: PostingId::from_random(7),
        now: Timestamp::from_micros(1),
    };
    store.write(move |tx| turns::complete_answer(tx, fence, &last)).await.expect("the lease holds");
    clock.0.fetch_add(A_WHILE_MICROS, Ordering::Relaxed);
    service.vm.start_machine(&principal).await.expect("dispatch looks");
    assert_eq!(await_ending(&live).await, AnswerEnding::Done);
    service.shutdown().await;
}

/// Starts a tool server that accepts calls and never responds.
fn silent_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        let mut open = Vec::new();
        open.extend(listener.incoming().flatten());
    });
    format!("http://{address}/mcp")
}

/// Listing the tools of a slow server takes up to ten seconds.
#[tokio::test]
async fn stop_does_not_await_tool_lists() {
    let url = silent_server();
    let mcp = vec![McpServerConfig {
        name: "slow".to_owned(),
        url,
        headers: Vec::new(),
        tools: None,
        read_only: Vec::new(),
    }];
    let TakeoverStage { service, principal, live, data: _data, .. } =
        start_stage(2, WebConfig { mcp, ..WebConfig::default() }).await;
    poll_until(async || (service.turn_count() == 1).then_some(())).await;
    let begun = std::time::Instant::now();
    service.conversations.stop_answer(&principal, live.meta().conversation).await.expect("it is there");
    assert_eq!(await_ending(&live).await, AnswerEnding::Stopped);
    assert!(begun.elapsed() < Duration::from_secs(8), "it waited for the list: {:?}", begun.elapsed());
    service.shutdown().await;
}

#[tokio::test]
async fn takeover_keeps_calls_running() {
    let TakeoverStage { data, sessions, clock, service, live, .. } =
        start_stage(0, WebConfig::default()).await;
    let answer = live.meta().answer;
    let one = || match sessions.lock().expect("whole").as_slice() {
        [session] => Some(session.clone()),
        _ => None,
    };
    let begun = poll_until(async || one().filter(|session| session.runs == 1)).await;
    assert!(begun.answer.is_some_and(|id| id != answer), "the subagent's call runs: {begun:?}");
    // Another node holds the lease from now on.
    let store = Store::open(&data.path().join("causerie.db")).expect("the database");
    let other = "UPDATE dispatch SET node_id = '00000000-0000-4000-8000-000000000001'";
    store.write(move |tx| tx.execute(other, &[])).await.expect("another lease");
    clock.0.fetch_add(A_WHILE_MICROS, Ordering::Relaxed);
    let over = poll_until(async || one().filter(|session| session.over)).await;
    assert_eq!(over.cancels, 0, "the next lease needs the result");
    assert!(live.snapshot().ending.is_none(), "nor do its readers see an end");
    poll_until(async || (service.turn_count() == 0).then_some(())).await;
    service.shutdown().await;
}

#[tokio::test]
async fn stop_cancels_running_call() {
    let TakeoverStage { data: _data, sessions, service, principal, live, .. } =
        start_stage(1, WebConfig::default()).await;
    let one = || sessions.lock().expect("whole").first().cloned();
    poll_until(async || one().filter(|session| session.runs == 1)).await;
    service.conversations.stop_answer(&principal, live.meta().conversation).await.expect("it is there");
    assert_eq!(await_ending(&live).await, AnswerEnding::Stopped);
    let over = poll_until(async || one().filter(|session| session.over)).await;
    assert_eq!(over.cancels, 1);
    service.shutdown().await;
}
