//! The loops of the worker threads: one job, one transaction.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::time::timeout;
use tracing::{debug, warn};

use super::connection::{Begin, PgConnection};
use super::error::PgError;
use super::health::ServerHealth;
use super::transaction::{ANSWER_WAIT_MAX, PgTransaction, TxEnd, TxError};
use super::value::SentStatement;
use crate::error::StoreError;
use crate::job::{StoreJob, TxOutcome};
use crate::queue::Queue;
use crate::sql::{Result, RowExt, SqlValue};

/// The maximum number of reruns of a job because of conflicts with other transactions.
const CONFLICT_RETRIES_MAX: u32 = 20;
/// The maximum number of reruns of a job because of lost connections.
const CONNECTION_LOSSES_MAX: u32 = 5;
/// The longest pause after a conflict.
const CONFLICT_PAUSE_MAX: Duration = Duration::from_millis(64);
/// The longest time to determine the outcome of a lost commit. The server undoes the rest of the transaction
/// before that.
const SETTLE_MAX: Duration = Duration::from_secs(30);

/// The longest wait for a commit in progress after an abort.
const COMMIT_AFTER_ABORT_MAX: Duration = Duration::from_secs(2);

/// Reads the number in a row of `commits`. As a write, it waits for a transaction that holds the row.
const SETTLE: &str = "INSERT INTO commits (id, number, at) VALUES ($1, 0, now())
    ON CONFLICT (id) DO UPDATE SET number = commits.number RETURNING number";

/// A worker thread with its connection, if any.
pub(crate) struct Worker {
    runtime: Runtime,
    reach: Arc<ServerHealth>,
    link: Option<PgConnection>,
    /// Its row in `commits`, which belongs to this thread alone.
    row: String,
    /// The number of its last writing transaction.
    number: i64,
}

/// The result of one run of a job.
enum JobRun {
    /// The job can be answered.
    Done,
    Conflict(String),
    Lost(String),
}

impl Worker {
    /// Creates a worker for the row `row` of `commits`. It connects when it has work.
    pub(crate) fn new(reach: Arc<ServerHealth>, row: String) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| StoreError::Engine(error.to_string()))?;
        Ok(Self { runtime, reach, link: None, row, number: 0 })
    }

    /// Runs the job until it can be answered.
    fn run_write(&mut self, job: &mut dyn StoreJob) {
        self.retry_until_done(job, Self::write_once);
    }

    fn retry_until_done(&mut self, job: &mut dyn StoreJob, once: fn(&mut Self, &mut dyn StoreJob) -> JobRun) {
        let (mut conflicts, mut losses) = (0, 0);
        loop {
            if self.reach.abort.is_aborted() {
                return job.fail_with(StoreError::Closed);
            }
            match once(self, job) {
                JobRun::Done => return,
                JobRun::Conflict(reason) if conflicts < CONFLICT_RETRIES_MAX => {
                    debug!(reason, "retrying transaction after conflict");
                    thread::sleep(Duration::from_millis(1 << conflicts.min(6)).min(CONFLICT_PAUSE_MAX));
                    conflicts += 1;
                }
                JobRun::Lost(reason) if losses < CONNECTION_LOSSES_MAX => {
                    debug!(reason, "retrying transaction on a new connection");
                    self.link = None;
                    losses += 1;
                }
                JobRun::Conflict(reason) => return job.fail_with(StoreError::Engine(reason)),
                JobRun::Lost(reason) => {
                    self.link = None;
                    return job.fail_with(StoreError::Unreachable(reason));
                }
            }
        }
    }

    fn write_once(&mut self, job: &mut dyn StoreJob) -> JobRun {
        if let Err(error) = self.ensure_connection() {
            job.fail_with(error);
            return JobRun::Done;
        }
        let Some(link) = &mut self.link else { return JobRun::Lost("no connection".to_owned()) };
        self.number += 1;
        let begin = Begin::Write { row: &self.row, number: self.number };
        let mut tx = PgTransaction::new(&self.runtime, link, &self.reach, begin);
        let verdict = job.run_work(&mut tx);
        let TxEnd { begun, sent, error } = tx.into_tx_end();
        match (error, verdict) {
            (Some(TxError::Lost(reason)), _) => JobRun::Lost(reason),
            (Some(TxError::Conflict(reason)), _) => {
                self.roll_back();
                JobRun::Conflict(reason)
            }
            (Some(TxError::Failed), TxOutcome::Keep) => {
                job.fail_with(StoreError::Poisoned);
                self.roll_back();
                JobRun::Done
            }
            (None, TxOutcome::Keep) if begun => self.commit_job(job, &sent),
            (None | Some(TxError::Failed), _) => {
                if begun {
                    self.roll_back();
                }
                JobRun::Done
            }
        }
    }

    fn read_once(&mut self, job: &mut dyn StoreJob) -> JobRun {
        if let Err(error) = self.ensure_connection() {
            job.fail_with(error);
            return JobRun::Done;
        }
        let Some(link) = &mut self.link else { return JobRun::Lost("no connection".to_owned()) };
        let mut tx = PgTransaction::new(&self.runtime, link, &self.reach, Begin::Read);
        let verdict = job.run_work(&mut tx);
        match tx.into_tx_end().error {
            Some(TxError::Lost(reason)) => JobRun::Lost(reason),
            Some(TxError::Conflict(reason)) => {
                self.roll_back();
                JobRun::Conflict(reason)
            }
            Some(TxError::Failed) if verdict == TxOutcome::Keep => {
                job.fail_with(StoreError::Poisoned);
                JobRun::Done
            }
            Some(TxError::Failed) | None => JobRun::Done,
        }
    }

    fn commit_job(&mut self, job: &mut dyn StoreJob, sent: &[SentStatement]) -> JobRun {
        let Some(link) = &mut self.link else { return JobRun::Lost("no connection".to_owned()) };
        let committed = self.runtime.block_on(async {
            let running = timeout(ANSWER_WAIT_MAX, link.commit_transaction(sent));
            tokio::select! {
                done = running => done.unwrap_or_else(|_| Err(PgError::from_timeout())),
                () = async {
                    self.reach.abort.wait_for_abort().await;
                    tokio::time::sleep(COMMIT_AFTER_ABORT_MAX).await;
                } => {
                    let reason = "the store was closed".to_owned();
                    Err(PgError::Fatal(StoreError::Uncertain(reason)))
                }
            }
        });
        match committed {
            Ok(()) => JobRun::Done,
            Err(PgError::Conflict(reason)) => {
                self.roll_back();
                JobRun::Conflict(reason)
            }
            Err(PgError::Fatal(error)) => {
                // The server has rolled it back, unless the commit was not even sent.
                self.roll_back();
                job.fail_with(error);
                JobRun::Done
            }
            Err(PgError::Lost(reason)) => {
                warn!(reason, "database connection lost during commit");
                self.link = None;
                match self.was_committed() {
                    Ok(true) => JobRun::Done,
                    Ok(false) => JobRun::Lost(reason),
                    Err(error) => {
                        job.fail_with(error);
                        JobRun::Done
                    }
                }
            }
        }
    }

    /// Returns `true` if the last transaction stored its number.
    fn was_committed(&mut self) -> Result<bool> {
        let deadline = Instant::now() + SETTLE_MAX;
        loop {
            self.ensure_connection().map_err(|error| StoreError::Uncertain(error.to_string()))?;
            let asked = self.left_number();
            match asked {
                Ok(left) => return Ok(left == self.number),
                Err(fault) => {
                    self.link = None;
                    if Instant::now() >= deadline {
                        return Err(StoreError::Uncertain(fault.into_error().to_string()));
                    }
                }
            }
        }
    }

    fn left_number(&mut self) -> Result<i64, PgError> {
        let Some(link) = &mut self.link else { return Err(PgError::from_timeout()) };
        let (row, mut left) = ([SqlValue::Text(&self.row)], 0);
        self.runtime.block_on(async {
            let mut read = |row: &dyn crate::sql::SqlRow| {
                left = row.get_int(0)?;
                Ok(())
            };
            tokio::select! {
                asked = timeout(ANSWER_WAIT_MAX, link.run_statement(None, &[], SETTLE, &row, &mut read)) => {
                    asked.unwrap_or_else(|_| Err(PgError::from_timeout()))
                }
                () = self.reach.abort.wait_for_abort() => Err(PgError::from_timeout()),
            }
        })?;
        Ok(left)
    }

    /// Ensures a connection, retrying during an outage.
    fn ensure_connection(&mut self) -> Result<()> {
        self.discard_old_plans();
        if self.link.is_some() {
            return Ok(());
        }
        if let Some(reason) = self.reach.give_up_reason() {
            return Err(StoreError::Unreachable(reason));
        }
        // The loop ends: pauses grow, and the outage has a maximum.
        for attempt in 0.. {
            let opened = self.runtime.block_on(async {
                tokio::select! {
                    opened = PgConnection::open_session(&self.reach.address) => opened,
                    () = self.reach.abort.wait_for_abort() => Err(PgError::Fatal(StoreError::Closed)),
                }
            });
            if self.reach.abort.is_aborted() {
                return Err(StoreError::Closed);
            }
            match opened {
                Ok(link) => {
                    self.reach.record_success();
                    self.link = Some(link);
                    break;
                }
                Err(fault) => {
                    let reason = fault.into_error().to_string();
                    match self.reach.record_failure(attempt, reason.clone()) {
                        Some(pause) => thread::sleep(pause),
                        None => return Err(StoreError::Unreachable(reason)),
                    }
                }
            }
        }
        Ok(())
    }

    /// Discards plans that exceed their lifetime. No transaction may be open.
    fn discard_old_plans(&mut self) {
        if self.link.as_ref().is_none_or(|link| link.planned.elapsed() < self.reach.plan_cache_ttl) {
            return;
        }
        let forgotten = self.run_batch("DISCARD PLANS");
        match (&mut self.link, forgotten) {
            (Some(link), Ok(())) => link.planned = Instant::now(),
            (_, Err(_)) => self.link = None,
            (None, Ok(())) => {}
        }
    }

    fn roll_back(&mut self) {
        if let Err(fault) = self.run_batch("ROLLBACK") {
            debug!(error = %fault.into_error(), "rollback failed");
            self.link = None;
        }
    }

    fn run_batch(&mut self, sql: &str) -> Result<(), PgError> {
        let Some(link) = &self.link else { return Ok(()) };
        self.runtime.block_on(async {
            tokio::select! {
                done = timeout(ANSWER_WAIT_MAX, link.run_batch(sql)) => done.unwrap_or_else(|_| Err(PgError::from_timeout())),
                () = self.reach.abort.wait_for_abort() => Err(PgError::from_timeout()),
            }
        })
    }

    fn close_connection(&mut self) {
        if let Some(link) = self.link.take() {
            self.runtime.block_on(link.close_session());
        }
    }
}

/// Runs writes until the queue is closed and empty.
pub(crate) fn write_loop(mut worker: Worker, queue: &Queue<Box<dyn StoreJob>>) {
    while let Some(mut job) = queue.take_next() {
        worker.run_write(job.as_mut());
        job.send_outcome();
    }
    worker.close_connection();
}

/// Runs reads until the queue is closed and empty. Each job sees a snapshot of the database.
pub(crate) fn read_loop(mut worker: Worker, queue: &Queue<Box<dyn StoreJob>>) {
    while let Some(mut job) = queue.take_next() {
        worker.retry_until_done(job.as_mut(), Worker::read_once);
        job.send_outcome();
        // The response is already sent.
        worker.roll_back();
    }
    worker.close_connection();
}
