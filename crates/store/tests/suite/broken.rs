//! Lost connections and killed servers: every acknowledged write is there, exactly once, and nothing else is.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use domain::credits::Credits;
use domain::id::{AccountId, PostingId};
use store::{Store, StoreError, StoreOptions, conversations, credits, questions};

use crate::fixture::{START, StoreEngine, StoreFixture};
use test_support::postgres::PostgresServer;

/// A fault that is injected into a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProxyFault {
    /// The connection breaks before the server receives anything.
    AtBegin,
    /// The connection breaks before the server receives the commit.
    BeforeCommit,
    /// The server commits, but its response is lost.
    AfterCommit,
    /// The client's side breaks; the server receives the commit only while the client queries its outcome.
    CommitComesLate,
    /// The client's side breaks; the server waits for a commit that never arrives while the client queries
    /// its outcome.
    CommitNeverComes,
    /// The server commits, but its response is lost and the server stays unreachable.
    AfterCommitForGood,
}

/// A proxy before the server's socket that breaks connections on demand.
struct FaultyProxy {
    folder: tempfile::TempDir,
    cuts: Arc<Mutex<VecDeque<ProxyFault>>>,
}

impl FaultyProxy {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join(".s.PGSQL.5432");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let cuts = Arc::new(Mutex::new(VecDeque::new()));
        let wanted = Arc::clone(&cuts);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, wanted) = (client.expect("a connection"), Arc::clone(&wanted));
                let socket = socket.clone();
                thread::spawn(move || forward_with_faults(client, &wanted, &socket));
            }
        });
        Self { folder, cuts }
    }

    /// Returns the URL of the database `direct` through the proxy.
    fn proxied_url(&self, direct: &str) -> String {
        let server = test_support::postgres::shared_server().socket_folder().display().to_string();
        direct.replace(&server, &self.folder.path().display().to_string())
    }
}

/// Forwards the client's bytes to the server and injects faults.
fn forward_with_faults(mut client: UnixStream, cuts: &Mutex<VecDeque<ProxyFault>>, socket: &Path) {
    let mut server =
        UnixStream::connect(test_support::postgres::shared_server().socket_folder().join(".s.PGSQL.5432"))
            .expect("the server runs");
    let swallow = Arc::new(AtomicBool::new(false));
    carry_back(&server, &client, &swallow);
    let mut buffer = vec![0; 1 << 20];
    while let Ok(length @ 1..) = client.read(&mut buffer) {
        let sent = &buffer[..length];
        let cut = next_cut(sent, cuts);
        match cut {
            None => {}
            Some(ProxyFault::AtBegin | ProxyFault::BeforeCommit) => {
                shut_socket(&server);
                shut_socket(&client);
                return;
            }
            Some(ProxyFault::AfterCommit) => swallow.store(true, Ordering::SeqCst),
            Some(ProxyFault::AfterCommitForGood) => {
                std::fs::remove_file(socket).expect("it is there");
                swallow.store(true, Ordering::SeqCst);
            }
            Some(ProxyFault::CommitComesLate | ProxyFault::CommitNeverComes) => {
                shut_socket(&client);
                wait_until_outcome_is_queried();
                if cut == Some(ProxyFault::CommitComesLate) {
                    server.write_all(sent).expect("the server listens");
                }
                server.shutdown(Shutdown::Write).expect("it is open");
                return;
            }
        }
        if server.write_all(sent).is_err() {
            break;
        }
    }
    shut_socket(&server);
}

fn next_cut(sent: &[u8], cuts: &Mutex<VecDeque<ProxyFault>>) -> Option<ProxyFault> {
    let contains = |words: &[u8]| sent.windows(words.len()).any(|window| window == words);
    let mut cuts = cuts.lock().expect("nobody panics with it");
    let here = match cuts.front()? {
        ProxyFault::AtBegin => contains(b"BEGIN ISOLATION LEVEL READ COMMITTED"),
        _ => contains(b"COMMIT\0"),
    };
    if here { cuts.pop_front() } else { None }
}

/// Forwards the server's bytes to the client. When `swallow` is set, drops them and closes both sides.
fn carry_back(server: &UnixStream, client: &UnixStream, swallow: &Arc<AtomicBool>) {
    let mut server = server.try_clone().expect("another handle");
    let mut client = client.try_clone().expect("another handle");
    let swallow = Arc::clone(swallow);
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        while let Ok(length @ 1..) = server.read(&mut buffer) {
            if swallow.load(Ordering::SeqCst) || client.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        shut_socket(&server);
        shut_socket(&client);
    });
}

fn shut_socket(stream: &UnixStream) {
    // Fails if it is already closed.
    stream.shutdown(Shutdown::Both).ok();
}

/// Waits until a session waits for the row of an open transaction.
fn wait_until_outcome_is_queried() {
    let asking = "SELECT count(*) FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND query LIKE '%SET number = commits.number%'";
    while test_support::postgres::shared_server().run_sql(asking).trim() == "0" {}
}

/// Grants 5 credits through `store`, and returns how often the work ran.
async fn grant_through(
    fixture: &StoreFixture,
    store: &Store,
    account: AccountId,
) -> (Result<(), StoreError>, u32) {
    let posting = PostingId::from_random(fixture.next_bits());
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let granted = store
        .write(move |tx| {
            counted.fetch_add(1, Ordering::SeqCst);
            match credits::grant_credits(tx, account, posting, Credits(5), START) {
                Ok(_) => Ok(()),
                Err(credits::GrantError::Store(error)) => Err(error),
                Err(credits::GrantError::NotFound) => Err(StoreError::Rule("there is no such account")),
            }
        })
        .await;
    (granted, runs.load(Ordering::SeqCst))
}

/// Injects `cut` into the first transaction of a thread, and into a later one.
async fn check_fault(cut: ProxyFault, expected_runs: u32) {
    let fixture = StoreFixture::new(StoreEngine::Postgres);
    let account = fixture.create_account(0).await;
    let proxy = FaultyProxy::new();
    let options = StoreOptions { writers: Some(1), ..StoreOptions::default() };
    let store = Store::connect_with(&proxy.proxied_url(&fixture.url), options).expect("the same database");
    for total in [5, 10] {
        proxy.cuts.lock().expect("nobody panics with it").push_back(cut);
        let (granted, runs) = grant_through(&fixture, &store, account).await;
        granted.expect("it is settled");
        assert_eq!(runs, expected_runs);
        assert_eq!(fixture.read_balance(account).await.available, Credits(total), "once");
    }
    assert!(proxy.cuts.lock().expect("nobody panics with it").is_empty(), "it happened");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_lost_transaction_runs_again() {
    check_fault(ProxyFault::AtBegin, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_lost_commit_runs_again() {
    check_fault(ProxyFault::BeforeCommit, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_lost_response_commits_once() {
    check_fault(ProxyFault::AfterCommit, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_late_commit_is_awaited() {
    check_fault(ProxyFault::CommitComesLate, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_absent_commit_runs_again() {
    check_fault(ProxyFault::CommitNeverComes, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_unknown_outcome_is_uncertain() {
    let fixture = StoreFixture::new(StoreEngine::Postgres);
    let account = fixture.create_account(0).await;
    let proxy = FaultyProxy::new();
    let max_wait = Some(Duration::from_millis(100));
    let options = StoreOptions { writers: Some(1), outage_patience: max_wait, ..StoreOptions::default() };
    let store = Store::connect_with(&proxy.proxied_url(&fixture.url), options).expect("the same database");
    proxy.cuts.lock().expect("nobody panics with it").push_back(ProxyFault::AfterCommitForGood);
    let (granted, _) = grant_through(&fixture, &store, account).await;
    assert!(matches!(granted, Err(StoreError::Uncertain(_))), "{granted:?}");
    let (granted, runs) = grant_through(&fixture, &store, account).await;
    assert!(matches!(granted, Err(StoreError::Unreachable(_))), "{granted:?}");
    assert_eq!(runs, 0, "it surely did not happen");
    assert_eq!(fixture.read_balance(account).await.available, Credits(5));
}

/// The number of tasks that ask while their server is killed.
const ASKERS: usize = 16;
/// The number of accepted questions between two kills.
const BETWEEN_KILLS: usize = 20;

#[test]
fn postgres_killed_server_loses_nothing() {
    let server = PostgresServer::start_separate();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let fixture = Arc::new(StoreFixture::open_at(server.new_database(), StoreOptions::default()));
    let account = runtime.block_on(fixture.create_account(1_000_000_000));
    let (accepted, acceptances) = mpsc::channel();
    let enough = Arc::new(AtomicBool::new(false));
    let mut askers = Vec::new();
    for _ in 0..ASKERS {
        askers.push(runtime.spawn(ask_until(
            Arc::clone(&fixture),
            account,
            accepted.clone(),
            Arc::clone(&enough),
        )));
    }
    drop(accepted);
    let mut there = Vec::new();
    for whole in [false, false, false, true, false, true] {
        there.extend(acceptances.iter().take(BETWEEN_KILLS));
        if whole { server.kill_and_start() } else { server.kill_one_connection() }
    }
    there.extend(acceptances.iter().take(BETWEEN_KILLS));
    enough.store(true, Ordering::SeqCst);
    there.extend(acceptances.iter());
    runtime.block_on(async {
        for asker in askers {
            asker.await.expect("each of its questions was accepted");
        }
        let count = there.len() as u64;
        for accepted in there {
            let (conversation, answer) = (accepted.conversation.id, accepted.answer);
            let found = fixture
                .store
                .read(move |tx| conversations::find_answer(tx, account, conversation, answer))
                .await;
            assert!(found.is_ok(), "{answer} was acknowledged and is lost");
        }
        let page = fixture
            .store
            .read(move |tx| conversations::list_conversations(tx, account, 0, 1))
            .await
            .expect("a page");
        assert_eq!(page.total, count, "only acknowledged questions are stored");
        assert_eq!(fixture.read_balance(account).await.reserved, Credits(10 * count));
    });
}

async fn ask_until(
    fixture: Arc<StoreFixture>,
    account: AccountId,
    accepted: mpsc::Sender<questions::Accepted>,
    enough: Arc<AtomicBool>,
) {
    while !enough.load(Ordering::SeqCst) {
        let asked = fixture.ask_question(fixture.new_question(account)).await;
        accepted.send(asked.expect("the question is accepted despite the kills")).expect("the test listens");
    }
}
