//! The loops of the threads: one job, one transaction.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::time::timeout;
use tracing::{debug, warn};

use super::connection::{Begin, PgConnection};
use super::error::PgError;
use super::health::ServerHealth;
use super::transaction::{ANSWER_WAIT_MAX, Transaction, TxEnd, TxError};
use super::value::SentStatement;
use crate::error::StoreError;
use crate::job::{Job, TxOutcome};
use crate::queue::Queue;
use crate::sql::{Result, RowExt, Value};

/// How often a job runs again because of other transactions.
const CONFLICT_RETRIES_MAX: u32 = 20;
/// How often a job runs again because its connection broke.
const CONNECTION_LOSSES_MAX: u32 = 5;
/// The longest pause after a conflict.
const CONFLICT_PAUSE_MAX: Duration = Duration::from_millis(64);
/// How long a lost commit is asked after. The server itself undoes what is left of it before that.
const SETTLE_MAX: Duration = Duration::from_secs(30);

/// How long a commit that is under way is waited for once the store is to end early.
const COMMIT_AFTER_ABORT_MAX: Duration = Duration::from_secs(2);

/// Asks after the number in a row of `commits`. As it writes, it waits for a transaction that has that row.
const SETTLE: &str = "INSERT INTO commits (id, number, at) VALUES ($1, 0, now())
    ON CONFLICT (id) DO UPDATE SET number = commits.number RETURNING number";

/// A thread's connection, or the lack of one.
pub(crate) struct Worker {
    runtime: Runtime,
    reach: Arc<ServerHealth>,
    link: Option<PgConnection>,
    /// Its row in `commits`, which no other thread of any process has.
    row: String,
    /// The number of its last transaction that wrote.
    number: i64,
}

/// What became of a job's run.
enum JobRun {
    /// It is to be answered.
    Done,
    Conflict(String),
    Lost(String),
}

impl Worker {
    /// A thread's part of `reach`, whose row in `commits` will be `row`. It connects when it has work.
    pub(crate) fn new(reach: Arc<ServerHealth>, row: String) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| StoreError::Engine(error.to_string()))?;
        Ok(Self { runtime, reach, link: None, row, number: 0 })
    }

    /// Runs the job until there is something to answer.
    fn write(&mut self, job: &mut dyn Job) {
        self.persist(job, Self::write_once);
    }

    fn persist(&mut self, job: &mut dyn Job, once: fn(&mut Self, &mut dyn Job) -> JobRun) {
        let (mut conflicts, mut losses) = (0, 0);
        loop {
            if self.reach.abort.is_told() {
                return job.fail(StoreError::Closed);
            }
            match once(self, job) {
                JobRun::Done => return,
                JobRun::Conflict(reason) if conflicts < CONFLICT_RETRIES_MAX => {
                    debug!(reason, "a transaction runs again");
                    thread::sleep(Duration::from_millis(1 << conflicts.min(6)).min(CONFLICT_PAUSE_MAX));
                    conflicts += 1;
                }
                JobRun::Lost(reason) if losses < CONNECTION_LOSSES_MAX => {
                    debug!(reason, "a transaction runs again on another connection");
                    self.link = None;
                    losses += 1;
                }
                JobRun::Conflict(reason) => return job.fail(StoreError::Engine(reason)),
                JobRun::Lost(reason) => {
                    self.link = None;
                    return job.fail(StoreError::Unreachable(reason));
                }
            }
        }
    }

    fn write_once(&mut self, job: &mut dyn Job) -> JobRun {
        if let Err(error) = self.connect() {
            job.fail(error);
            return JobRun::Done;
        }
        let Some(link) = &mut self.link else { return JobRun::Lost("no connection".to_owned()) };
        self.number += 1;
        let begin = Begin::Write { row: &self.row, number: self.number };
        let mut tx = Transaction::new(&self.runtime, link, &self.reach, begin);
        let verdict = job.run(&mut tx);
        let TxEnd { begun, sent, trouble } = tx.end();
        match (trouble, verdict) {
            (Some(TxError::Lost(reason)), _) => JobRun::Lost(reason),
            (Some(TxError::Conflict(reason)), _) => {
                self.roll_back();
                JobRun::Conflict(reason)
            }
            (Some(TxError::Told), TxOutcome::Keep) => {
                job.fail(StoreError::Poisoned);
                self.roll_back();
                JobRun::Done
            }
            (None, TxOutcome::Keep) if begun => self.commit(job, &sent),
            (None | Some(TxError::Told), _) => {
                if begun {
                    self.roll_back();
                }
                JobRun::Done
            }
        }
    }

    fn read_once(&mut self, job: &mut dyn Job) -> JobRun {
        if let Err(error) = self.connect() {
            job.fail(error);
            return JobRun::Done;
        }
        let Some(link) = &mut self.link else { return JobRun::Lost("no connection".to_owned()) };
        let mut tx = Transaction::new(&self.runtime, link, &self.reach, Begin::Read);
        let verdict = job.run(&mut tx);
        match tx.end().trouble {
            Some(TxError::Lost(reason)) => JobRun::Lost(reason),
            Some(TxError::Conflict(reason)) => {
                self.roll_back();
                JobRun::Conflict(reason)
            }
            Some(TxError::Told) if verdict == TxOutcome::Keep => {
                job.fail(StoreError::Poisoned);
                JobRun::Done
            }
            Some(TxError::Told) | None => JobRun::Done,
        }
    }

    fn commit(&mut self, job: &mut dyn Job, sent: &[SentStatement]) -> JobRun {
        let Some(link) = &mut self.link else { return JobRun::Lost("no connection".to_owned()) };
        let committed = self.runtime.block_on(async {
            let running = timeout(ANSWER_WAIT_MAX, link.commit(sent));
            tokio::select! {
                done = running => done.unwrap_or_else(|_| Err(PgError::silent())),
                () = async {
                    self.reach.abort.told().await;
                    tokio::time::sleep(COMMIT_AFTER_ABORT_MAX).await;
                } => {
                    let reason = "the store was closed meanwhile".to_owned();
                    Err(PgError::Told(StoreError::Uncertain(reason)))
                }
            }
        });
        match committed {
            Ok(()) => JobRun::Done,
            Err(PgError::Conflict(reason)) => {
                self.roll_back();
                JobRun::Conflict(reason)
            }
            Err(PgError::Told(error)) => {
                // The server has undone it, unless the commit was not even sent.
                self.roll_back();
                job.fail(error);
                JobRun::Done
            }
            Err(PgError::Lost(reason)) => {
                warn!(reason, "database connection lost during commit");
                self.link = None;
                match self.was_committed() {
                    Ok(true) => JobRun::Done,
                    Ok(false) => JobRun::Lost(reason),
                    Err(error) => {
                        job.fail(error);
                        JobRun::Done
                    }
                }
            }
        }
    }

    /// Whether the last transaction left its number.
    fn was_committed(&mut self) -> Result<bool> {
        let deadline = Instant::now() + SETTLE_MAX;
        loop {
            self.connect().map_err(|error| StoreError::Uncertain(error.to_string()))?;
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
        let Some(link) = &mut self.link else { return Err(PgError::silent()) };
        let (row, mut left) = ([Value::Text(&self.row)], 0);
        self.runtime.block_on(async {
            let mut read = |row: &dyn crate::sql::Row| {
                left = row.int(0)?;
                Ok(())
            };
            tokio::select! {
                asked = timeout(ANSWER_WAIT_MAX, link.run(None, &[], SETTLE, &row, &mut read)) => {
                    asked.unwrap_or_else(|_| Err(PgError::silent()))
                }
                () = self.reach.abort.told() => Err(PgError::silent()),
            }
        })?;
        Ok(left)
    }

    /// Sees to a connection, with patience.
    fn connect(&mut self) -> Result<()> {
        self.forget_old_plans();
        if self.link.is_some() {
            return Ok(());
        }
        if let Some(reason) = self.reach.give_up_reason() {
            return Err(StoreError::Unreachable(reason));
        }
        // It ends: each pause is longer than the one before, and patience has an end.
        for attempt in 0.. {
            let opened = self.runtime.block_on(async {
                tokio::select! {
                    opened = PgConnection::open(&self.reach.address) => opened,
                    () = self.reach.abort.told() => Err(PgError::Told(StoreError::Closed)),
                }
            });
            if self.reach.abort.is_told() {
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

    /// Has the server plan anew what it planned a while ago. No transaction is open.
    fn forget_old_plans(&mut self) {
        if self.link.as_ref().is_none_or(|link| link.planned.elapsed() < self.reach.plans_kept) {
            return;
        }
        let forgotten = self.batch("DISCARD PLANS");
        match (&mut self.link, forgotten) {
            (Some(link), Ok(())) => link.planned = Instant::now(),
            (_, Err(_)) => self.link = None,
            (None, Ok(())) => {}
        }
    }

    fn roll_back(&mut self) {
        if let Err(fault) = self.batch("ROLLBACK") {
            debug!(error = %fault.into_error(), "rollback failed");
            self.link = None;
        }
    }

    fn batch(&mut self, sql: &str) -> Result<(), PgError> {
        let Some(link) = &self.link else { return Ok(()) };
        self.runtime.block_on(async {
            tokio::select! {
                done = timeout(ANSWER_WAIT_MAX, link.batch(sql)) => done.unwrap_or_else(|_| Err(PgError::silent())),
                () = self.reach.abort.told() => Err(PgError::silent()),
            }
        })
    }

    fn close(&mut self) {
        if let Some(link) = self.link.take() {
            self.runtime.block_on(link.close());
        }
    }
}

/// Writes until the queue is closed and empty.
pub(crate) fn write_loop(mut worker: Worker, queue: &Queue<Box<dyn Job>>) {
    while let Some(mut job) = queue.take() {
        worker.write(job.as_mut());
        job.answer();
    }
    worker.close();
}

/// Reads until the queue is closed and empty. Each job sees the database as it stood at one moment.
pub(crate) fn read_loop(mut worker: Worker, queue: &Queue<Box<dyn Job>>) {
    while let Some(mut job) = queue.take() {
        worker.persist(job.as_mut(), Worker::read_once);
        job.answer();
        // Nobody waits for that.
        worker.roll_back();
    }
    worker.close();
}
