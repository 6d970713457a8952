//! The exclusive lock, connections over a network, and concurrent migrations.

use std::sync::Arc;
use std::time::Duration;

use domain::id::NodeId;
use domain::job::Job;
use store::jobs::{self, NewJob};
use store::turns::{self, TurnError};
use store::{RowExt, SchemaVersion, Sql, SqlExt, Store, StoreError, StoreOptions, serving, succession};
use test_support::postgres::PostgresServer;

use crate::fixture::{START, StoreEngine, StoreFixture, claim_options, claiming_node};

on_every_engine!(
    store_is_ready_while_answering,
    store_takes_writes_until_closed,
    abort_cancels_long_statements,
    concurrent_opens_create_tables_once,
    begin_succession_frees_all_leases,
    replaced_process_claims_nothing,
    database_keeps_its_identity,
);

fn process_id(number: u128) -> NodeId {
    NodeId::from_random(number)
}

async fn begin_succession(fixture: &StoreFixture, process: NodeId) -> succession::Succession {
    let folder = NodeId::from_random(process.bits() << 8);
    fixture.store.write(move |tx| succession::begin_succession(tx, process, folder)).await.expect("a write")
}

/// Enqueues a job that is due.
async fn enqueue_due_job(fixture: &StoreFixture) {
    let id = domain::id::JobId::from_random(fixture.next_bits());
    let new = NewJob { id, job: Job::TrimAuditLog, account: None, run_at: START, now: START };
    fixture.store.write(move |tx| jobs::enqueue_job(tx, &new)).await.expect("a write");
}

async fn claim_jobs(fixture: &StoreFixture, node: NodeId) -> Vec<jobs::ClaimedJob> {
    let options = jobs::JobClaimOptions { node, now: START, lease: Duration::from_secs(60), limit: 10 };
    fixture.store.write(move |tx| jobs::claim_jobs(tx, &options)).await.expect("a claim")
}

async fn begin_succession_frees_all_leases(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100).await;
    assert_eq!(begin_succession(&fixture, claiming_node()).await.folder_before, None, "nobody served before");
    enqueue_due_job(&fixture).await;
    let (_, fence) = fixture.ask_and_claim(account).await;
    let job = claim_jobs(&fixture, claiming_node()).await.remove(0).fence;
    let begun = begin_succession(&fixture, process_id(2)).await;
    assert_eq!((begun.answers, begun.jobs), (1, 1));
    assert_eq!(begun.folder_before, Some(NodeId::from_random(claiming_node().bits() << 8)));
    // The earlier process was only frozen. The clock has not moved, so its leases would still be valid.
    assert!(matches!(fixture.commit_step(fence, 0, 1).await, Err(TurnError::Fenced)));
    assert!(matches!(fixture.reserve_step(fence, 0, 5).await, Err(TurnError::Fenced)));
    let renewed = fixture
        .store
        .write(move |tx| turns::renew_leases(tx, claiming_node(), START))
        .await
        .expect("a write");
    assert_eq!(renewed, []);
    assert!(!fixture.store.write(move |tx| jobs::renew_job_lease(tx, job, START)).await.expect("a write"));
    let options = turns::TurnClaimOptions { node: process_id(2), ..claim_options() };
    let claimed = fixture.store.write(move |tx| turns::claim_turns(tx, &options)).await.expect("a claim");
    let again = claimed[0].fence;
    assert_eq!(again, turns::Fence { epoch: fence.epoch + 1, node: process_id(2), ..fence });
    assert!(matches!(fixture.commit_step(fence, 0, 1).await, Err(TurnError::Fenced)));
    fixture.commit_step(again, 0, 1).await.expect("the lease holds");
    let [claimed] = &claim_jobs(&fixture, process_id(2)).await[..] else { panic!("it is free") };
    assert_eq!(claimed.fence.epoch, job.epoch + 1);
}

async fn replaced_process_claims_nothing(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100).await;
    begin_succession(&fixture, claiming_node()).await;
    begin_succession(&fixture, process_id(2)).await;
    enqueue_due_job(&fixture).await;
    let asked = fixture.ask_question(fixture.new_question(account)).await.expect("it is accepted");
    assert_eq!(fixture.claim_turns().await, []);
    assert_eq!(claim_jobs(&fixture, claiming_node()).await, []);
    let conversation = asked.conversation.id;
    let stop = move |tx: &mut dyn Sql| store::conversations::request_stop(tx, account, conversation);
    fixture.store.write(stop).await.expect("it is there");
    let options = claim_options();
    let stopped = fixture.store.write(move |tx| turns::claim_stopped(tx, &options)).await;
    assert_eq!(stopped.expect("a claim"), []);
    let options = turns::TurnClaimOptions { node: process_id(2), ..options };
    let stopped = fixture.store.write(move |tx| turns::claim_stopped(tx, &options)).await;
    assert_eq!(stopped.expect("a claim").len(), 1);
    assert_eq!(claim_jobs(&fixture, process_id(2)).await.len(), 1);
}

async fn database_keeps_its_identity(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
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
async fn lock_taken_meanwhile_is_lost() {
    let server = PostgresServer::start_separate();
    let fixture = StoreFixture::open_at(server.new_database(), StoreOptions::default());
    let lock = fixture.store.lock_exclusively(Duration::ZERO, process_id(1)).await.expect("nobody has it");
    begin_succession(&fixture, process_id(1)).await;
    // The other one has started and ended while the first could not reach the server.
    begin_succession(&fixture, process_id(2)).await;
    server.kill_and_start();
    tokio::time::timeout(Duration::from_secs(60), lock.wait_until_lost())
        .await
        .expect("the loss is reported");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lock_confirmed_while_server_answers() {
    let server = PostgresServer::start_separate();
    let fixture = StoreFixture::open_at(server.new_database(), StoreOptions::default());
    let lock = fixture.store.lock_exclusively(Duration::ZERO, process_id(1)).await.expect("nobody has it");
    let first = lock.confirmed_at().expect("others may take it");
    let confirmed = async {
        while lock.confirmed_at() <= Some(first) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), confirmed).await.expect("it is confirmed again");
    let file = StoreFixture::new(StoreEngine::Sqlite);
    let lock = file.store.lock_exclusively(Duration::ZERO, process_id(1)).await.expect("nobody has it");
    assert_eq!(lock.confirmed_at(), None, "nobody else can take it");
}

async fn store_is_ready_while_answering(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    assert!(fixture.store.is_ready(Duration::from_secs(30)).await);
    fixture.store.close().await;
    assert!(!fixture.store.is_ready(Duration::from_secs(30)).await);
}

async fn store_takes_writes_until_closed(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
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

async fn abort_cancels_long_statements(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let beside = fixture.open_second_store().expect("it can be opened beside");
    let long = match engine {
        StoreEngine::Sqlite => {
            "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000000)
             SELECT count(*) FROM n"
        }
        StoreEngine::Postgres => "SELECT 1 /* an early end */ FROM pg_sleep(55)",
    };
    let begun = Arc::new(tokio::sync::Semaphore::new(0));
    let run = |writes: bool| {
        let (store, begun) = (fixture.store.clone(), begun.clone());
        let work = move |tx: &mut dyn Sql| {
            begun.add_permits(1);
            tx.query_one(long, &[], |row| row.opt_int(0)).map(drop)
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
        let later = fixture.store.read(|tx| tx.query_one("SELECT 1", &[], |row| row.get_int(0))).await;
        assert!(matches!(later, Err(StoreError::Closed)), "{later:?}");
        fixture.store.close().await;
    };
    let closing = fixture.store.clone();
    // Closing repeats the interrupts of SQLite's statements.
    tokio::time::timeout(EARLY, async { tokio::join!(ending, closing.close()) })
        .await
        .expect("it ends early");
    if matches!(engine, StoreEngine::Postgres) {
        let counted = async || {
            let running = beside.read(|tx| tx.query_one(RUNNING, &[], |row| row.get_int(0))).await;
            running.expect("it can be counted")
        };
        let ended = async { while counted().await != Some(0) {} };
        tokio::time::timeout(EARLY, ended).await.expect("the server has cancelled the statement");
    }
    beside.close().await;
}

async fn concurrent_opens_create_tables_once(engine: StoreEngine) {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let url = match engine {
        StoreEngine::Sqlite => format!("sqlite:{}", folder.path().join("store.db").display()),
        StoreEngine::Postgres => test_support::postgres::shared_server().new_database(),
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
        let count = store
            .read(move |tx| tx.query_one(applied, &[], |row| row.get_int(0)))
            .await
            .expect("it can be read");
        let twice = "SELECT count(*) FROM counters WHERE name = 'machine'";
        let made = store
            .read(move |tx| tx.query_one(twice, &[], |row| row.get_int(0)))
            .await
            .expect("it can be read");
        assert!(count >= Some(1) && made == Some(1), "{count:?} migrations made {made:?} counters");
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_serves_a_database() {
    let fixture = StoreFixture::new(StoreEngine::Postgres);
    let beside = fixture.open_second_store().expect("it can be opened beside");
    let first = fixture.store.lock_exclusively(Duration::ZERO, process_id(1)).await.expect("nobody has it");
    let refused = beside.lock_exclusively(Duration::ZERO, process_id(2)).await;
    assert!(matches!(refused, Err(StoreError::Taken)), "{refused:?}");
    let other = StoreFixture::new(StoreEngine::Postgres);
    other
        .store
        .lock_exclusively(Duration::ZERO, process_id(1))
        .await
        .expect("another database is another matter");
    let waiting =
        tokio::spawn(async move { beside.lock_exclusively(Duration::from_secs(30), process_id(2)).await });
    drop(first);
    waiting.await.expect("no panic").expect("it was given up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_process_fails_no_statement() {
    let server = PostgresServer::start_separate();
    let fixture = StoreFixture::open_at(server.new_database(), StoreOptions::default());
    let beside = fixture.open_second_store().expect("it can be opened beside");
    let _held = fixture.store.lock_exclusively(Duration::ZERO, process_id(1)).await.expect("nobody has it");
    let failed = || server.run_sql("SELECT sum(xact_rollback) FROM pg_stat_database").trim().to_owned();
    let before = failed();
    let refused = beside.lock_exclusively(Duration::from_secs(2), process_id(2)).await;
    assert!(matches!(refused, Err(StoreError::Taken)), "{refused:?}");
    // Each rollback would be an error in the server's log.
    assert_eq!(failed(), before, "transactions were rolled back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lock_reacquired_after_server_crash() {
    let server = PostgresServer::start_separate();
    let fixture = StoreFixture::open_at(server.new_database(), StoreOptions::default());
    let lock = fixture.store.lock_exclusively(Duration::ZERO, process_id(1)).await.expect("nobody has it");
    server.kill_and_start();
    let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1129268051";
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while server.run_sql(held).trim() != "1" {
        assert!(std::time::Instant::now() < deadline, "it is not held again");
    }
    assert!(fixture.store.is_ready(Duration::from_secs(30)).await);
    drop(lock);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schema_version_read_changes_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("causerie.db");
    std::fs::write(&file, "").expect("an empty database");
    let server = PostgresServer::start_separate();
    let url = server.new_database();
    for url in [None, Some(url.as_str())] {
        for found in [0, 0] {
            assert_eq!(Store::read_schema_version(&file, url).expect("it is read").found, found, "{url:?}");
        }
        let store = url.map_or_else(|| Store::open(&file), Store::connect).expect("it is migrated");
        let SchemaVersion { found, known } = Store::read_schema_version(&file, url).expect("it is read");
        assert!(found == known && known > 0, "{url:?}");
        store.close().await;
    }
    assert!(Store::read_schema_version(&folder.path().join("none.db"), None).is_err(), "none is created");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lock_taken_by_other_is_lost() {
    let server = PostgresServer::start_separate();
    let fixture = StoreFixture::open_at(server.new_database(), StoreOptions::default());
    let beside = fixture.open_second_store().expect("it can be opened beside");
    let first = fixture.store.lock_exclusively(Duration::ZERO, process_id(1)).await.expect("nobody has it");
    let mut waiting =
        tokio::spawn(async move { beside.lock_exclusively(Duration::from_secs(60), process_id(2)).await });
    let end_session = "SELECT pg_terminate_backend(pid) FROM pg_locks
        WHERE locktype = 'advisory' AND classid = 1129268051 AND granted";
    let taken = loop {
        server.run_sql(end_session);
        // The first one may be faster.
        if let Ok(taken) = tokio::time::timeout(Duration::from_secs(5), &mut waiting).await {
            break taken.expect("no panic").expect("it was given up");
        }
    };
    tokio::time::timeout(Duration::from_secs(20), first.wait_until_lost())
        .await
        .expect("the loss is reported");
    drop(taken);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_secrecy_follows_sslmode() {
    let server = PostgresServer::start_with_tls();
    let port = server.tls_port().expect("it listens");
    let (own, other) = (server.authority_certificate(), server.socket_folder().join("server.pem"));
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
        assert!(store.is_ready(Duration::from_secs(30)).await, "{parameters}");
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
