//! The guarantees of transactions when statements, work or concurrent transactions fail.

use std::sync::Mutex;
use std::sync::mpsc::channel;

use domain::credits::Credits;
use domain::id::{AccountId, PostingId};
use store::questions::{AskRefused, AskResult, NewQuestion};
use store::{Sql, SqlExt, StoreError, StoreOptions, accounts, credits, questions};
use tokio::task::JoinHandle;

use crate::fixture::{START, StoreEngine, StoreFixture, run_sql};

on_every_engine!(
    failed_statement_poisons_transaction,
    wrong_typed_values_are_rejected,
    panicking_work_is_undone_alone,
    failed_commit_hits_only_its_cause,
    ended_transaction_hits_only_its_own,
    read_work_cannot_write,
    closed_store_reports_closed,
    store_reopens_as_it_was,
    newer_database_is_left_alone,
);

type Outcome<T> = JoinHandle<Result<T, StoreError>>;

/// Blocks the writer until the returned sender is used or dropped, so that later writes queue up.
async fn hold_writer(fixture: &StoreFixture) -> (std::sync::mpsc::Sender<()>, Outcome<()>) {
    let (go, gate) = channel::<()>();
    let (began, begun) = channel::<()>();
    let gate = Mutex::new(gate);
    let store = fixture.store.clone();
    let held = tokio::spawn(async move {
        store
            .write(move |_| {
                began.send(()).ok();
                gate.lock().expect("nobody panics with it").recv().ok();
                Ok::<_, StoreError>(())
            })
            .await
    });
    tokio::task::spawn_blocking(move || begun.recv().expect("the writer begins"))
        .await
        .expect("it does not panic");
    (go, held)
}

/// Queues a write and returns once it is queued, so that tasks begin in the order of these calls.
async fn enqueue_write<T, F>(fixture: &StoreFixture, work: F) -> Outcome<T>
where
    F: Fn(&mut dyn Sql) -> Result<T, StoreError> + Send + 'static,
    T: Send + 'static,
{
    let store = fixture.store.clone();
    let (polled, queued) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        let mut write = Box::pin(store.write(work));
        // The first poll puts the work into the queue, which has room.
        let early = std::future::poll_fn(|context| {
            std::task::Poll::Ready(match write.as_mut().poll(context) {
                std::task::Poll::Ready(outcome) => Some(outcome),
                std::task::Poll::Pending => None,
            })
        })
        .await;
        polled.send(()).ok();
        match early {
            Some(outcome) => outcome,
            None => write.await,
        }
    });
    queued.await.expect("the write is queued");
    task
}

fn grant_work(
    fixture: &StoreFixture,
    account: AccountId,
    amount: u64,
) -> impl Fn(&mut dyn Sql) -> Result<(), StoreError> + use<> {
    let posting = PostingId::from_random(fixture.next_bits());
    move |tx| match credits::grant_credits(tx, account, posting, Credits(amount), START) {
        Ok(_) => Ok(()),
        Err(credits::GrantError::Store(error)) => Err(error),
        Err(credits::GrantError::NotFound) => Err(StoreError::Rule("there is no such account")),
    }
}

async fn await_outcome<T>(task: Outcome<T>) -> Result<T, StoreError> {
    task.await.expect("the task does not panic")
}

async fn failed_statement_poisons_transaction(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(1).await;
    let change = grant_work(&fixture, account, 5);
    let spoilt = fixture
        .store
        .write(move |tx| {
            change(tx)?;
            assert!(run_sql(tx, "INSERT INTO counters (name, next) VALUES ('machine', 0)").is_err());
            assert!(matches!(run_sql(tx, "DELETE FROM audit"), Err(StoreError::Poisoned)));
            Ok::<_, StoreError>(())
        })
        .await;
    assert!(matches!(spoilt, Err(StoreError::Poisoned)), "although the work returned Ok");
    assert_eq!(fixture.read_balance(account).await.available, Credits(1));
}

async fn wrong_typed_values_are_rejected(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    for text in ["a\0b", "a"] {
        let counter = "INSERT INTO counters (name, next) VALUES ($1, -1)";
        let refused = fixture.store.write(move |tx| tx.execute(counter, &[text.into()])).await;
        match refused {
            Err(StoreError::Rule(_)) if text.len() > 1 => {}
            Err(StoreError::Constraint(name)) => {
                assert!(name.contains("counters_next_check") || name.contains("next"), "{name}")
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(fixture.query_count("SELECT count(*) FROM counters").await, 1);
}

async fn panicking_work_is_undone_alone(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(1).await;
    let (go, held) = hold_writer(&fixture).await;
    let before = enqueue_write(&fixture, grant_work(&fixture, account, 10)).await;
    let change = grant_work(&fixture, account, 100);
    let panics = enqueue_write(&fixture, move |tx| {
        change(tx)?;
        if tx.query_one("SELECT 1 FROM accounts", &[], |_| Ok(()))?.is_some() {
            panic!("injected panic");
        }
        Ok(())
    })
    .await;
    let after = enqueue_write(&fixture, grant_work(&fixture, account, 1000)).await;
    drop(go);
    await_outcome(held).await.expect("it did nothing");
    await_outcome(before).await.expect("it is innocent");
    assert!(matches!(await_outcome(panics).await, Err(StoreError::Panicked)));
    await_outcome(after).await.expect("it is innocent");
    assert_eq!(fixture.read_balance(account).await.available, Credits(1011));
}

async fn failed_commit_hits_only_its_cause(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(1).await;
    let (go, held) = hold_writer(&fixture).await;
    let before = enqueue_write(&fixture, grant_work(&fixture, account, 10)).await;
    // A user without an account; the foreign key is checked at the commit.
    let fault = enqueue_write(&fixture, move |tx| {
        match engine {
            StoreEngine::Sqlite => run_sql(tx, "PRAGMA defer_foreign_keys = ON")?,
            StoreEngine::Postgres => run_sql(
                tx,
                "ALTER TABLE users ALTER CONSTRAINT users_account_id_fkey DEFERRABLE INITIALLY DEFERRED",
            )?,
        }
        run_sql(
            tx,
            "INSERT INTO users (id, account_id, role, email, email_key, created_at) VALUES
                ('00000000-0000-4000-8000-000000000000', 'nobody', 'owner', 'x', 'x', 0)",
        )
    })
    .await;
    let after = enqueue_write(&fixture, grant_work(&fixture, account, 1000)).await;
    drop(go);
    await_outcome(held).await.expect("it did nothing");
    await_outcome(before).await.expect("it is innocent");
    assert!(matches!(await_outcome(fault).await, Err(StoreError::Constraint(_))));
    await_outcome(after).await.expect("it is innocent");
    assert_eq!(fixture.read_balance(account).await.available, Credits(1011));
    assert_eq!(fixture.query_count("SELECT count(*) FROM users").await, 1);
}

async fn ended_transaction_hits_only_its_own(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(1).await;
    let (go, held) = hold_writer(&fixture).await;
    let before = enqueue_write(&fixture, grant_work(&fixture, account, 10)).await;
    let fault = enqueue_write(&fixture, |tx| run_sql(tx, "ROLLBACK")).await;
    let after = enqueue_write(&fixture, grant_work(&fixture, account, 1000)).await;
    drop(go);
    await_outcome(held).await.expect("it did nothing");
    await_outcome(before).await.expect("it is innocent");
    assert!(matches!(await_outcome(fault).await, Err(StoreError::TransactionLost)));
    await_outcome(after).await.expect("it is innocent");
    assert_eq!(fixture.read_balance(account).await.available, Credits(1011));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_full_disk_is_reported() {
    let fixture = StoreFixture::with_options(
        StoreEngine::Sqlite,
        StoreOptions { size_max_bytes: Some((1024 + 216) * 1024), ..StoreOptions::default() },
    );
    let account = fixture.create_account(100_000).await;
    let (go, held) = hold_writer(&fixture).await;
    let mut tasks = Vec::new();
    for number in 0..40 {
        let size = if number % 2 == 0 { 100_000 } else { 100 };
        let question = NewQuestion { text: "x".repeat(size), ..fixture.new_question(account) };
        let answer = question.answer;
        let task = enqueue_write(&fixture, move |tx| match questions::ask_question(tx, &question) {
            Ok(asked) => Ok(matches!(asked, AskResult::Accepted(_))),
            Err(AskRefused::Store(error)) => Err(error),
            Err(other) => panic!("no other reason: {other}"),
        })
        .await;
        tasks.push((answer, size, task));
    }
    // A write that needs no room succeeds in the same group.
    let licence = enqueue_write(&fixture, move |tx| match accounts::set_licence(tx, account, None) {
        Ok(()) => Ok(()),
        Err(error) => panic!("there is room for it: {error}"),
    })
    .await;
    drop(go);
    await_outcome(held).await.expect("it did nothing");
    await_outcome(licence).await.expect("it needs no room");
    let (mut accepted, mut full, mut small) = (0, 0, 0);
    for (answer, size, task) in tasks {
        let outcome_of_write = await_outcome(task).await;
        let there = fixture
            .store
            .read(move |tx| tx.query_one("SELECT 1 FROM answers WHERE id = $1", &[answer.into()], |_| Ok(())))
            .await
            .expect("a read");
        match outcome_of_write {
            Ok(_) => {
                assert!(there.is_some());
                accepted += 1;
                small += u64::from(size == 100);
            }
            Err(error) => {
                assert!(matches!(error, StoreError::Full), "{error}");
                assert!(there.is_none());
                full += 1;
            }
        }
    }
    assert!(accepted > small && full > 0, "some of the large ones fit, some do not: {accepted}, {full}");
    assert_eq!(small, 20, "a large one that does not fit leaves room for small ones");
    assert_eq!(fixture.read_balance(account).await.reserved, Credits(10 * accepted));
}

async fn read_work_cannot_write(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(1).await;
    assert!(fixture.store.read(grant_work(&fixture, account, 5)).await.is_err());
    assert_eq!(fixture.read_balance(account).await.available, Credits(1));
}

async fn closed_store_reports_closed(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(1).await;
    let (go, held) = hold_writer(&fixture).await;
    let begun = enqueue_write(&fixture, grant_work(&fixture, account, 5)).await;
    let store = fixture.store.clone();
    let closing = tokio::spawn(async move { store.close().await });
    drop(go);
    closing.await.expect("it does not panic");
    await_outcome(held).await.expect("running work is finished");
    await_outcome(begun).await.expect("running work is finished");
    assert!(matches!(fixture.store.write(grant_work(&fixture, account, 5)).await, Err(StoreError::Closed)));
    let read = fixture.store.read(move |tx| credits::find_balance(tx, account)).await;
    assert!(matches!(read, Err(StoreError::Closed)));
    let log = fixture.folder.path().join("store.db-wal");
    assert_eq!(std::fs::metadata(log).map_or(0, |log| log.len()), 0, "nothing is left beside the database");
}

async fn store_reopens_as_it_was(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(7).await;
    // Two concurrent stores, and a third after they are closed.
    let beside = fixture.open_second_store().expect("the tables are there");
    let seen = beside.read(move |tx| credits::find_balance(tx, account)).await.expect("a read");
    assert_eq!(seen.expect("it is there").available, Credits(7));
    beside.close().await;
    fixture.store.close().await;
    let again = fixture.open_second_store().expect("the tables are there");
    let seen = again.read(move |tx| credits::find_balance(tx, account)).await.expect("a read");
    assert_eq!(seen.expect("it is there").available, Credits(7));
    if matches!(engine, StoreEngine::Sqlite) {
        let file = std::fs::metadata(fixture.folder.path().join("store.db")).expect("a file");
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&file.permissions()) & 0o777, 0o600);
    }
}

async fn newer_database_is_left_alone(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    fixture
        .store
        .write(|tx| run_sql(tx, "INSERT INTO migrations (version) VALUES (99)"))
        .await
        .expect("a write");
    fixture.store.close().await;
    let refused = fixture.open_second_store().err();
    assert!(matches!(refused, Some(StoreError::TooNew { found: 99, .. })), "{refused:?}");
}
