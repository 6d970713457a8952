//! The loops of the threads: groups of jobs for the writer, one at a time for readers.

use std::time::Duration;

use rusqlite::Connection;
use telemetry::Histogram;
use tracing::warn;

use super::connection::engine;
use super::preallocation::PreallocatedSpace;
use super::transaction::Transaction;
use crate::abort::Abort;
use crate::error::StoreError;
use crate::job::{Job, TxOutcome};
use crate::queue::Queue;
use crate::sql::Result;

/// How many jobs share one commit at most.
const BATCH_MAX: usize = 256;
/// How long the writer waits for as many jobs as it had the last time. Callers that were just answered together
/// often come back together; without this the first of them would be committed alone, and the others after it.
/// Far less than a commit takes, and a lone caller is never waited with.
const GROUP_COMMIT_DELAY: Duration = Duration::from_micros(500);

/// Writes until the queue is closed and empty, then folds the write-ahead log into the database. `group` is told how
/// many were committed together.
pub(crate) fn write_loop(
    connection: &Connection,
    queue: &Queue<Box<dyn Job>>,
    told: &Abort,
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
        if jobs.len() > 1 && (told.is_told() || !committed_together(connection, &mut jobs)) {
            for job in &mut jobs {
                run_alone(connection, told, job.as_mut());
            }
        } else if let [job] = jobs.as_mut_slice() {
            run_alone(connection, told, job.as_mut());
        }
        for job in jobs {
            job.answer();
        }
        if let Some(slack) = &mut slack {
            slack.keep();
        }
    }
    if let Err(error) = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())) {
        warn!(%error, "write-ahead log not checkpointed at close");
    }
}

/// Reads until the queue is closed and empty. Each job sees the database as it stood at one moment.
pub(crate) fn read_loop(connection: &Connection, queue: &Queue<Box<dyn Job>>, told: &Abort) {
    while let Some(mut job) = queue.take() {
        match begin(connection, "BEGIN DEFERRED") {
            _ if told.is_told() => job.fail(StoreError::Closed),
            Ok(()) => {
                run(connection, job.as_mut());
                roll_back(connection);
            }
            Err(error) => job.fail(error),
        }
        job.answer();
    }
}

/// Whether the jobs ran and were committed as one. If not, nothing of them is left.
fn committed_together(connection: &Connection, jobs: &mut [Box<dyn Job>]) -> bool {
    let done = match all_or_none(connection, jobs) {
        Ok(false) => together(connection, jobs),
        done => done.map(drop),
    };
    done.inspect_err(|error| {
        warn!(%error, jobs = jobs.len(), "group commit failed; retrying writes one by one");
        roll_back(connection);
    })
    .is_ok()
}

/// Runs the jobs without a savepoint for each, which is a quarter of what writing costs. That can't be gone on
/// with when one is to be undone that has changed something: `false`, and nothing is committed.
fn all_or_none(connection: &Connection, jobs: &mut [Box<dyn Job>]) -> Result<bool> {
    begin(connection, "BEGIN IMMEDIATE")?;
    for job in jobs {
        let before = connection.total_changes();
        let verdict = run(connection, job.as_mut());
        if connection.is_autocommit() {
            return Err(StoreError::TransactionLost);
        }
        if verdict == TxOutcome::Undo && connection.total_changes() != before {
            return Ok(false);
        }
    }
    statement(connection, "COMMIT").map(|()| true)
}

/// Runs the jobs so that each can be undone without the others.
fn together(connection: &Connection, jobs: &mut [Box<dyn Job>]) -> Result<()> {
    begin(connection, "BEGIN IMMEDIATE")?;
    for job in jobs {
        statement(connection, "SAVEPOINT job")?;
        let verdict = run(connection, job.as_mut());
        if connection.is_autocommit() {
            return Err(StoreError::TransactionLost);
        }
        if verdict == TxOutcome::Undo {
            statement(connection, "ROLLBACK TO job")?;
        }
        statement(connection, "RELEASE job")?;
    }
    statement(connection, "COMMIT")
}

fn run_alone(connection: &Connection, told: &Abort, job: &mut dyn Job) {
    if told.is_told() {
        return job.fail(StoreError::Closed);
    }
    if let Err(error) = alone(connection, job) {
        job.fail(error);
    }
    roll_back(connection);
}

fn alone(connection: &Connection, job: &mut dyn Job) -> Result<()> {
    begin(connection, "BEGIN IMMEDIATE")?;
    match run(connection, job) {
        TxOutcome::Undo => Ok(()),
        TxOutcome::Keep if connection.is_autocommit() => Err(StoreError::TransactionLost),
        TxOutcome::Keep => statement(connection, "COMMIT"),
    }
}

fn run(connection: &Connection, job: &mut dyn Job) -> TxOutcome {
    let mut tx = Transaction::new(connection);
    let verdict = job.run(&mut tx);
    if verdict == TxOutcome::Keep && tx.failed() {
        job.fail(StoreError::Poisoned);
        return TxOutcome::Undo;
    }
    verdict
}

/// Begins, after whatever a broken transaction may have left.
fn begin(connection: &Connection, sql: &str) -> Result<()> {
    roll_back(connection);
    statement(connection, sql)
}

fn roll_back(connection: &Connection) {
    if connection.is_autocommit() {
        return;
    }
    if let Err(error) = statement(connection, "ROLLBACK") {
        warn!(%error, "rollback failed");
    }
}

fn statement(connection: &Connection, sql: &str) -> Result<()> {
    connection.prepare_cached(sql).and_then(|mut statement| statement.raw_execute()).map(drop).map_err(engine)
}
