//! The loops of the threads: the writer runs groups of jobs, readers run single jobs.

use std::time::Duration;

use rusqlite::Connection;
use telemetry::Histogram;
use tracing::warn;

use super::connection::engine_error;
use super::preallocation::PreallocatedSpace;
use super::transaction::SqliteTransaction;
use crate::abort::Abort;
use crate::error::StoreError;
use crate::job::{StoreJob, TxOutcome};
use crate::queue::Queue;
use crate::sql::Result;

/// The maximum number of jobs per commit.
const BATCH_MAX: usize = 256;
/// The maximum wait of the writer for a group of the same size as the previous one. Callers that were answered
/// together often return together; without the wait, the first would be committed alone. It is far shorter
/// than a commit, and a single caller never waits.
const GROUP_COMMIT_DELAY: Duration = Duration::from_micros(500);

/// Runs writes until the queue is closed and empty, then checkpoints the write-ahead log. Records the size of
/// each group in `group`.
pub(crate) fn write_loop(
    connection: &Connection,
    queue: &Queue<Box<dyn StoreJob>>,
    abort: &Abort,
    group: &Histogram,
    mut slack: Option<PreallocatedSpace>,
) {
    let mut last = 1;
    loop {
        let mut jobs = queue.take_group(last, GROUP_COMMIT_DELAY, BATCH_MAX);
        if jobs.is_empty() {
            break;
        }
        last = jobs.len();
        group.observe(last as f64);
        if jobs.len() > 1 && (abort.is_aborted() || !committed_together(connection, &mut jobs)) {
            for job in &mut jobs {
                run_alone(connection, abort, job.as_mut());
            }
        } else if let [job] = jobs.as_mut_slice() {
            run_alone(connection, abort, job.as_mut());
        }
        for job in jobs {
            job.send_outcome();
        }
        if let Some(slack) = &mut slack {
            slack.allocate_missing();
        }
    }
    if let Err(error) = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())) {
        warn!(%error, "write-ahead log not checkpointed at close");
    }
}

/// Runs reads until the queue is closed and empty. Each job sees a snapshot of the database.
pub(crate) fn read_loop(connection: &Connection, queue: &Queue<Box<dyn StoreJob>>, abort: &Abort) {
    while let Some(mut job) = queue.take_next() {
        match begin_transaction(connection, "BEGIN DEFERRED") {
            _ if abort.is_aborted() => job.fail_with(StoreError::Closed),
            Ok(()) => {
                run_job(connection, job.as_mut());
                roll_back(connection);
            }
            Err(error) => job.fail_with(error),
        }
        job.send_outcome();
    }
}

/// Runs the jobs in one transaction and returns whether it was committed. If not, it was rolled back.
fn committed_together(connection: &Connection, jobs: &mut [Box<dyn StoreJob>]) -> bool {
    let done = match all_or_none(connection, jobs) {
        Ok(false) => run_group(connection, jobs),
        done => done.map(drop),
    };
    done.inspect_err(|error| {
        warn!(%error, jobs = jobs.len(), "group commit failed; retrying writes one by one");
        roll_back(connection);
    })
    .is_ok()
}

/// Runs the jobs without savepoints, which would cost a quarter of the time. Returns `false`, and commits
/// nothing, if a job that changed something must be undone.
fn all_or_none(connection: &Connection, jobs: &mut [Box<dyn StoreJob>]) -> Result<bool> {
    begin_transaction(connection, "BEGIN IMMEDIATE")?;
    for job in jobs {
        let before = connection.total_changes();
        let verdict = run_job(connection, job.as_mut());
        if connection.is_autocommit() {
            return Err(StoreError::TransactionLost);
        }
        if verdict == TxOutcome::Undo && connection.total_changes() != before {
            return Ok(false);
        }
    }
    run_statement(connection, "COMMIT").map(|()| true)
}

/// Runs each job in a savepoint, so that it can be undone alone.
fn run_group(connection: &Connection, jobs: &mut [Box<dyn StoreJob>]) -> Result<()> {
    begin_transaction(connection, "BEGIN IMMEDIATE")?;
    for job in jobs {
        run_statement(connection, "SAVEPOINT job")?;
        let verdict = run_job(connection, job.as_mut());
        if connection.is_autocommit() {
            return Err(StoreError::TransactionLost);
        }
        if verdict == TxOutcome::Undo {
            run_statement(connection, "ROLLBACK TO job")?;
        }
        run_statement(connection, "RELEASE job")?;
    }
    run_statement(connection, "COMMIT")
}

fn run_alone(connection: &Connection, abort: &Abort, job: &mut dyn StoreJob) {
    if abort.is_aborted() {
        return job.fail_with(StoreError::Closed);
    }
    if let Err(error) = run_single(connection, job) {
        job.fail_with(error);
    }
    roll_back(connection);
}

fn run_single(connection: &Connection, job: &mut dyn StoreJob) -> Result<()> {
    begin_transaction(connection, "BEGIN IMMEDIATE")?;
    match run_job(connection, job) {
        TxOutcome::Undo => Ok(()),
        TxOutcome::Keep if connection.is_autocommit() => Err(StoreError::TransactionLost),
        TxOutcome::Keep => run_statement(connection, "COMMIT"),
    }
}

fn run_job(connection: &Connection, job: &mut dyn StoreJob) -> TxOutcome {
    let mut tx = SqliteTransaction::new(connection);
    let verdict = job.run_work(&mut tx);
    if verdict == TxOutcome::Keep && tx.has_failed() {
        job.fail_with(StoreError::Poisoned);
        return TxOutcome::Undo;
    }
    verdict
}

/// Begins a transaction after rolling back a broken one, if any.
fn begin_transaction(connection: &Connection, sql: &str) -> Result<()> {
    roll_back(connection);
    run_statement(connection, sql)
}

fn roll_back(connection: &Connection) {
    if connection.is_autocommit() {
        return;
    }
    if let Err(error) = run_statement(connection, "ROLLBACK") {
        warn!(%error, "rollback failed");
    }
}

fn run_statement(connection: &Connection, sql: &str) -> Result<()> {
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.raw_execute())
        .map(drop)
        .map_err(engine_error)
}
