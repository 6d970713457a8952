//! The exclusive lock, connections over a network, and concurrent migrations.

use std::sync::Arc;
use std::time::Duration;

use domain::id::NodeId;
use domain::job::Job;
use store::jobs::{self, NewJob};
use store::turns::{self, TurnError};
use store::{Options, RowExt, SchemaVersion, Sql, SqlExt, Store, StoreError, serving, succession};
use test_support::postgres::Server;

use crate::fixture::{Engine, Fixture, START, claim_options, node};

on_every_engine!(
    it_is_ready_while_it_answers,
    it_takes_writes_until_it_is_closed,
    an_abort_cancels_long_statements,
    many_at_once_make_the_tables_once,
    a_service_that_begins_frees_what_every_other_held,
    a_process_that_no_longer_serves_claims_nothing,
    a_database_keeps_the_identity_that_it_was_given,
);

fn process(number: u128) -> NodeId {
    NodeId::from_random(number)
}

async fn begin(fixture: &Fixture, process: NodeId) -> succession::Succession {
    let folder = NodeId::from_random(process.bits() << 8);
    fixture.store.write(move |tx| succession::begin(tx, process, folder)).await.expect("a write")
}

/// Enqueues a job that is due.
async fn enqueue(fixture: &Fixture) {
    let id = domain::id::JobId::from_random(fixture.bits());
    let new = NewJob { id, job: Job::TrimAuditLog, account: None, run_at: START, now: START };
    fixture.store.write(move |tx| jobs::enqueue(tx, &new)).await.expect("a write");
}

async fn claim_jobs(fixture: &Fixture, node: NodeId) -> Vec<jobs::ClaimedJob> {
    let options = jobs::ClaimOptions { node, now: START, lease: Duration::from_secs(60), limit: 10 };
    fixture.store.write(move |tx| jobs::claim(tx, &options)).await.expect("a claim")
}

async fn a_service_that_begins_frees_what_every_other_held(engine: Engine) {
    let fixture = Fixture::new(engine);
    let account = fixture.account(100).await;
    assert_eq!(begin(&fixture, node()).await.folder_before, None, "nobody served before");
    enqueue(&fixture).await;
    let (_, fence) = fixture.turn(account).await;
    let job = claim_jobs(&fixture, node()).await.remove(0).fence;
    let begun = begin(&fixture, process(2)).await;
    assert_eq!((begun.answers, begun.jobs), (1, 1));
    assert_eq!(begun.folder_before, Some(NodeId::from_random(node().bits() << 8)));
    // The earlier process was only frozen. The clock has not moved, so that its leases would hold still.
    assert!(matches!(fixture.commit_step(fence, 0, 1).await, Err(TurnError::Fenced)));
    assert!(matches!(fixture.reserve(fence, 0, 5).await, Err(TurnError::Fenced)));
    let renewed = fixture.store.write(move |tx| turns::renew(tx, node(), START)).await.expect("a write");
    assert_eq!(renewed, []);
    assert!(!fixture.store.write(move |tx| jobs::renew(tx, job, START)).await.expect("a write"));
    let options = turns::ClaimOptions { node: process(2), ..claim_options() };
    let claimed = fixture.store.write(move |tx| turns::claim(tx, &options)).await.expect("a claim");
    let again = claimed[0].fence;
    assert_eq!(again, turns::Fence { epoch: fence.epoch + 1, node: process(2), ..fence });
    assert!(matches!(fixture.commit_step(fence, 0, 1).await, Err(TurnError::Fenced)));
    fixture.commit_step(again, 0, 1).await.expect("the lease holds");
    let [claimed] = &claim_jobs(&fixture, process(2)).await[..] else { panic!("it is free") };
    assert_eq!(claimed.fence.epoch, job.epoch + 1);
}

async fn a_process_that_no_longer_serves_claims_nothing(engine: Engine) {
    let fixture = Fixture::new(engine);
    let account = fixture.account(100).await;
    begin(&fixture, node()).await;
    begin(&fixture, process(2)).await;
    enqueue(&fixture).await;
    let asked = fixture.ask(fixture.question(account)).await.expect("it is accepted");
    assert_eq!(fixture.claim().await, []);
    assert_eq!(claim_jobs(&fixture, node()).await, []);
    let conversation = asked.conversation.id;
    let stop = move |tx: &mut dyn Sql| store::conversations::request_stop(tx, account, conversation);
    fixture.store.write(stop).await.expect("it is there");
    let options = claim_options();
    let stopped = fixture.store.write(move |tx| turns::claim_stopped(tx, &options)).await;
    assert_eq!(stopped.expect("a claim"), []);
    let options = turns::ClaimOptions { node: process(2), ..options };
    let stopped = fixture.store.write(move |tx| turns::claim_stopped(tx, &options)).await;
    assert_eq!(stopped.expect("a claim").len(), 1);
    assert_eq!(claim_jobs(&fixture, process(2)).await.len(), 1);
}

async fn a_database_keeps_the_identity_that_it_was_given(engine: Engine) {
    let fixture = Fixture::new(engine);
    let found = fixture.store.read(|tx| serving::database_id(tx)).await.expect("a read");
    assert_eq!(found, None);
    for id in [1, 2] {
        let name = move |tx: &mut dyn Sql| serving::name_database(tx, NodeId::from_random(id));
        assert_eq!(fixture.store.write(name).await.expect("a write"), NodeId::from_random(1));
    }
    let found = fixture.store.read(|tx| serving::database_id(tx)).await.expect("a read");
    assert_eq!(found, Some(NodeId::from_random(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_another_process_had_meanwhile_is_lost() {
    let server = Server::own();
    let fixture = Fixture::at(server.new_database(), Options::default());
    let lock = fixture.store.lock_exclusively(Duration::ZERO, process(1)).await.expect("nobody has it");
    begin(&fixture, process(1)).await;
    // The other one has come and gone while the first could not reach the server.
    begin(&fixture, process(2)).await;
    server.kill_and_start();
    tokio::time::timeout(Duration::from_secs(60), lock.lost()).await.expect("the loss is reported");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_confirmed_while_the_server_answers() {
    let server = Server::own();
    let fixture = Fixture::at(server.new_database(), Options::default());
    let lock = fixture.store.lock_exclusively(Duration::ZERO, process(1)).await.expect("nobody has it");
    let first = lock.confirmed_at().expect("others may take it");
    let confirmed = async {
        while lock.confirmed_at() <= Some(first) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), confirmed).await.expect("it is confirmed again");
    let file = Fixture::new(Engine::Sqlite);
    let lock = file.store.lock_exclusively(Duration::ZERO, process(1)).await.expect("nobody has it");
    assert_eq!(lock.confirmed_at(), None, "nobody else can take it");
}

async fn it_is_ready_while_it_answers(engine: Engine) {
    let fixture = Fixture::new(engine);
    assert!(fixture.store.ready(Duration::from_secs(30)).await);
    fixture.store.close().await;
    assert!(!fixture.store.ready(Duration::from_secs(30)).await);
}

async fn it_takes_writes_until_it_is_closed(engine: Engine) {
    let fixture = Fixture::new(engine);
    let max_wait = Duration::from_secs(30);
    fixture.store.check_writable(max_wait).await.expect("it takes writes");
    fixture.store.close().await;
    assert!(matches!(fixture.store.check_writable(max_wait).await, Err(StoreError::Closed)));
}

/// Far shorter than the statement, far longer than its cancellation.
const EARLY: Duration = Duration::from_secs(25);
/// Counts the server's sessions that run the statement of the test below.
const RUNNING: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE state = 'active' AND query LIKE '%an early end%' AND pid <> pg_backend_pid()";

async fn an_abort_cancels_long_statements(engine: Engine) {
    let fixture = Fixture::new(engine);
    let beside = fixture.beside().expect("it can be opened beside");
    let long = match engine {
        Engine::Sqlite => {
            "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000000)
             SELECT count(*) FROM n"
        }
        Engine::Postgres => "SELECT 1 /* an early end */ FROM pg_sleep(55)",
    };
    let begun = Arc::new(tokio::sync::Semaphore::new(0));
    let run = |writes: bool| {
        let (store, begun) = (fixture.store.clone(), begun.clone());
        let work = move |tx: &mut dyn Sql| {
            begun.add_permits(1);
            tx.one(long, &[], |row| row.opt_int(0)).map(drop)
        };
        tokio::spawn(async move { if writes { store.write(work).await } else { store.read(work).await } })
    };
    let (reading, writing) = (run(false), run(true));
    begun.acquire_many(2).await.expect("it is open").forget();
    let ending = async {
        fixture.store.abort();
        for ended in [reading.await, writing.await] {
            let ended = ended.expect("it does not panic");
            assert!(matches!(ended, Err(StoreError::Closed)), "{ended:?}");
        }
        let later = fixture.store.read(|tx| tx.one("SELECT 1", &[], |row| row.int(0))).await;
        assert!(matches!(later, Err(StoreError::Closed)), "{later:?}");
        fixture.store.close().await;
    };
    let closing = fixture.store.clone();
    // Closing repeats the interrupts of SQLite's statements.
    tokio::time::timeout(EARLY, async { tokio::join!(ending, closing.close()) })
        .await
        .expect("it ends early");
    if matches!(engine, Engine::Postgres) {
        let counted = async || {
            let running = beside.read(|tx| tx.one(RUNNING, &[], |row| row.int(0))).await;
            running.expect("it can be counted")
        };
        let ended = async { while counted().await != Some(0) {} };
        tokio::time::timeout(EARLY, ended).await.expect("the server has cancelled the statement");
    }
    beside.close().await;
}

async fn many_at_once_make_the_tables_once(engine: Engine) {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let url = match engine {
        Engine::Sqlite => format!("sqlite:{}", folder.path().join("store.db").display()),
        Engine::Postgres => test_support::postgres::shared().new_database(),
    };
    let opening: Vec<_> = (0..8)
        .map(|_| {
            let url = url.clone();
            std::thread::spawn(move || Store::connect(&url))
        })
        .collect();
    for opened in opening {
        let store = opened.join().expect("no panic").expect("each opens it");
        let applied = "SELECT count(*) FROM migrations";
        let count =
            store.read(move |tx| tx.one(applied, &[], |row| row.int(0))).await.expect("it can be read");
        let twice = "SELECT count(*) FROM counters WHERE name = 'machine'";
        let made = store.read(move |tx| tx.one(twice, &[], |row| row.int(0))).await.expect("it can be read");
        assert!(count >= Some(1) && made == Some(1), "{count:?} migrations made {made:?} counters");
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_at_a_time_serves_a_database() {
    let fixture = Fixture::new(Engine::Postgres);
    let beside = fixture.beside().expect("it can be opened beside");
    let first = fixture.store.lock_exclusively(Duration::ZERO, process(1)).await.expect("nobody has it");
    let refused = beside.lock_exclusively(Duration::ZERO, process(2)).await;
    assert!(matches!(refused, Err(StoreError::Taken)), "{refused:?}");
    let other = Fixture::new(Engine::Postgres);
    other
        .store
        .lock_exclusively(Duration::ZERO, process(1))
        .await
        .expect("another database is another matter");
    let waiting =
        tokio::spawn(async move { beside.lock_exclusively(Duration::from_secs(30), process(2)).await });
    drop(first);
    waiting.await.expect("no panic").expect("it was given up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_another_process_fails_no_statement() {
    let server = Server::own();
    let fixture = Fixture::at(server.new_database(), Options::default());
    let beside = fixture.beside().expect("it can be opened beside");
    let _held = fixture.store.lock_exclusively(Duration::ZERO, process(1)).await.expect("nobody has it");
    let failed = || server.sql("SELECT sum(xact_rollback) FROM pg_stat_database").trim().to_owned();
    let before = failed();
    let refused = beside.lock_exclusively(Duration::from_secs(2), process(2)).await;
    assert!(matches!(refused, Err(StoreError::Taken)), "{refused:?}");
    // Each rollback would be an error in the server's log.
    assert_eq!(failed(), before, "transactions were rolled back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_is_reacquired_after_a_crash_of_the_server() {
    let server = Server::own();
    let fixture = Fixture::at(server.new_database(), Options::default());
    let lock = fixture.store.lock_exclusively(Duration::ZERO, process(1)).await.expect("nobody has it");
    server.kill_and_start();
    let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1129268051";
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while server.sql(held).trim() != "1" {
        assert!(std::time::Instant::now() < deadline, "it is not held again");
    }
    assert!(fixture.store.ready(Duration::from_secs(30)).await);
    drop(lock);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_version_of_a_schema_is_read_without_a_change() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("causerie.db");
    std::fs::write(&file, "").expect("an empty database");
    let server = Server::own();
    let url = server.new_database();
    for url in [None, Some(url.as_str())] {
        for found in [0, 0] {
            assert_eq!(Store::schema(&file, url).expect("it is read").found, found, "{url:?}");
        }
        let store = url.map_or_else(|| Store::open(&file), Store::connect).expect("it is migrated");
        let SchemaVersion { found, known } = Store::schema(&file, url).expect("it is read");
        assert!(found == known && known > 0, "{url:?}");
        store.close().await;
    }
    assert!(Store::schema(&folder.path().join("none.db"), None).is_err(), "none is created");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_another_process_has_taken_is_lost_at_once() {
    let server = Server::own();
    let fixture = Fixture::at(server.new_database(), Options::default());
    let beside = fixture.beside().expect("it can be opened beside");
    let first = fixture.store.lock_exclusively(Duration::ZERO, process(1)).await.expect("nobody has it");
    let mut waiting =
        tokio::spawn(async move { beside.lock_exclusively(Duration::from_secs(60), process(2)).await });
    let end_session = "SELECT pg_terminate_backend(pid) FROM pg_locks
        WHERE locktype = 'advisory' AND classid = 1129268051 AND granted";
    let taken = loop {
        server.sql(end_session);
        // The first one may be faster.
        if let Ok(taken) = tokio::time::timeout(Duration::from_secs(5), &mut waiting).await {
            break taken.expect("no panic").expect("it was given up");
        }
    };
    tokio::time::timeout(Duration::from_secs(20), first.lost()).await.expect("the loss is reported");
    drop(taken);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_a_network_it_is_as_secret_as_asked() {
    let server = Server::secret();
    let port = server.port().expect("it listens");
    let (own, other) = (server.authority(), server.folder().join("server.pem"));
    let connect = |host: &str, parameters: String| {
        Store::connect(&format!("postgres://store@{host}:{port}/postgres?{parameters}"))
    };
    let by = |file: &std::path::Path| format!("sslrootcert={}", file.display());
    for (host, parameters) in [
        ("127.0.0.1", "sslmode=prefer".to_owned()),
        ("127.0.0.1", "sslmode=require".to_owned()),
        ("127.0.0.1", format!("sslmode=verify-ca&{}", by(&own))),
        ("127.0.0.1", format!("{}&sslmode=require", by(&own))),
        ("localhost", format!("sslmode=verify-full&{}", by(&own))),
    ] {
        let store =
            connect(host, parameters.clone()).unwrap_or_else(|error| unreachable!("{parameters}: {error}"));
        assert!(store.ready(Duration::from_secs(30)).await, "{parameters}");
        store.close().await;
    }
    for (host, parameters) in [
        ("127.0.0.1", "sslmode=disable".to_owned()),
        ("127.0.0.1", format!("sslmode=verify-full&{}", by(&own))),
        ("localhost", "sslmode=verify-full".to_owned()),
        ("localhost", format!("sslmode=require&{}", by(&other))),
    ] {
        assert!(connect(host, parameters.clone()).is_err(), "{parameters}");
    }
}
