//! A transaction on one connection.

use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::connection::{Begin, PgConnection};
use super::error::PgError;
use super::health::ServerHealth;
use super::value::SentStatement;
use crate::error::StoreError;
use crate::sql::{Result, Sql, SqlRow, SqlValue};

/// The longest wait for a response, above the server's statement timeout.
pub(super) const ANSWER_WAIT_MAX: Duration = Duration::from_secs(75);

/// A transaction that begins with its first statement.
pub(super) struct PgTransaction<'l> {
    runtime: &'l Runtime,
    link: &'l mut PgConnection,
    reach: &'l ServerHealth,
    /// The beginning, until it is sent.
    begin: Option<Begin<'l>>,
    /// Statements that run together with the next one or with the commit.
    sent: Vec<SentStatement>,
    error: Option<TxError>,
}

/// The maximum number of statements that are sent together.
const SENT_MAX: usize = 16;

/// The state of a transaction when its work ends.
pub(super) struct TxEnd {
    /// The transaction is open on the server.
    pub(super) begun: bool,
    /// Statements that still have to run.
    pub(super) sent: Vec<SentStatement>,
    pub(super) error: Option<TxError>,
}

/// The kind of a transaction's error.
#[derive(Debug)]
pub(super) enum TxError {
    /// A conflict with another transaction.
    Conflict(String),
    Lost(String),
    /// The statement failed; the work received the error.
    Failed,
}

impl<'l> PgTransaction<'l> {
    pub(super) fn new(
        runtime: &'l Runtime,
        link: &'l mut PgConnection,
        reach: &'l ServerHealth,
        begin: Begin<'l>,
    ) -> Self {
        Self { runtime, link, reach, begin: Some(begin), sent: Vec::new(), error: None }
    }

    /// Ends the use of the transaction and returns its state.
    pub(super) fn into_tx_end(self) -> TxEnd {
        TxEnd { begun: self.begin.is_none(), sent: self.sent, error: self.error }
    }

    /// Runs one statement, unless an earlier one failed.
    fn run_unless_failed(
        &mut self,
        sql: &'static str,
        params: &[SqlValue<'_>],
        row: &mut dyn FnMut(&dyn SqlRow) -> Result<()>,
    ) -> Result<u64> {
        if self.error.is_some() {
            return Err(StoreError::Poisoned);
        }
        let begin = self.begin.take();
        let sent = std::mem::take(&mut self.sent);
        let link = &mut *self.link;
        let outcome = self.runtime.block_on(async {
            let running = timeout(ANSWER_WAIT_MAX, link.run_statement(begin, &sent, sql, params, row));
            tokio::select! {
                done = running => return done.unwrap_or_else(|_| Err(PgError::from_timeout())),
                () = self.reach.abort.wait_for_abort() => {}
            }
            self.reach.address.cancel_statement(link.client()).await;
            Err(PgError::Fatal(StoreError::Closed))
        });
        let fault = match outcome {
            Ok(changed) => return Ok(changed),
            Err(fault) => fault,
        };
        Err(match fault {
            PgError::Conflict(reason) => {
                self.error = Some(TxError::Conflict(reason));
                StoreError::TransactionLost
            }
            PgError::Lost(reason) => {
                self.error = Some(TxError::Lost(reason));
                StoreError::TransactionLost
            }
            PgError::Fatal(error) => {
                self.error = Some(TxError::Failed);
                error
            }
        })
    }
}

impl Sql for PgTransaction<'_> {
    fn execute(&mut self, sql: &'static str, params: &[SqlValue<'_>]) -> Result<u64> {
        self.run_unless_failed(sql, params, &mut |_| Ok(()))
    }

    fn query_each(
        &mut self,
        sql: &'static str,
        params: &[SqlValue<'_>],
        row: &mut dyn FnMut(&dyn SqlRow) -> Result<()>,
    ) -> Result<()> {
        self.run_unless_failed(sql, params, row).map(drop)
    }

    fn send_statement(&mut self, sql: &'static str, params: &[SqlValue<'_>]) -> Result<()> {
        if self.begin.is_some() {
            return self.execute(sql, params).map(drop);
        }
        self.lock_rows(sql, params)
    }

    /// Later statements fetch the rows; this one only locks them.
    fn lock_rows(&mut self, sql: &'static str, params: &[SqlValue<'_>]) -> Result<()> {
        if self.error.is_some() {
            return Err(StoreError::Poisoned);
        }
        if self.sent.len() >= SENT_MAX {
            return self.execute(sql, params).map(drop);
        }
        self.sent.push(SentStatement::new(sql, params));
        Ok(())
    }
}
