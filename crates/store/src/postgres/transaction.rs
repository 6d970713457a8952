//! A transaction of one connection, as operations see it.

use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::connection::{Begin, PgConnection};
use super::error::PgError;
use super::health::ServerHealth;
use super::value::SentStatement;
use crate::error::StoreError;
use crate::sql::{Result, Row, Sql, Value};

/// How long an answer is waited for: longer than the server lets any statement run.
pub(super) const ANSWER_WAIT_MAX: Duration = Duration::from_secs(75);

/// A transaction that begins with its first statement.
pub(super) struct Transaction<'l> {
    runtime: &'l Runtime,
    link: &'l mut PgConnection,
    reach: &'l ServerHealth,
    /// How to begin, until it is begun.
    begin: Option<Begin<'l>>,
    /// What runs together with the next statement, or with the commit.
    sent: Vec<SentStatement>,
    trouble: Option<TxError>,
}

/// How many statements are sent together at most.
const SENT_MAX: usize = 16;

/// What a transaction has come to.
pub(super) struct TxEnd {
    /// Whether it is open on the server.
    pub(super) begun: bool,
    /// What has still to be run.
    pub(super) sent: Vec<SentStatement>,
    pub(super) trouble: Option<TxError>,
}

/// What went wrong in a transaction.
#[derive(Debug)]
pub(super) enum TxError {
    /// Another transaction was in the way.
    Conflict(String),
    /// The connection broke.
    Lost(String),
    /// The work was told.
    Told,
}

impl<'l> Transaction<'l> {
    pub(super) fn new(
        runtime: &'l Runtime,
        link: &'l mut PgConnection,
        reach: &'l ServerHealth,
        begin: Begin<'l>,
    ) -> Self {
        Self { runtime, link, reach, begin: Some(begin), sent: Vec::new(), trouble: None }
    }

    /// What the transaction has come to.
    pub(super) fn end(self) -> TxEnd {
        TxEnd { begun: self.begin.is_none(), sent: self.sent, trouble: self.trouble }
    }

    /// Runs one statement, unless one has failed before.
    fn guarded(
        &mut self,
        sql: &'static str,
        params: &[Value<'_>],
        row: &mut dyn FnMut(&dyn Row) -> Result<()>,
    ) -> Result<u64> {
        if self.trouble.is_some() {
            return Err(StoreError::Poisoned);
        }
        let begin = self.begin.take();
        let sent = std::mem::take(&mut self.sent);
        let link = &mut *self.link;
        let outcome = self.runtime.block_on(async {
            let running = timeout(ANSWER_WAIT_MAX, link.run(begin, &sent, sql, params, row));
            tokio::select! {
                done = running => return done.unwrap_or_else(|_| Err(PgError::silent())),
                () = self.reach.abort.told() => {}
            }
            self.reach.address.cancel(link.client()).await;
            Err(PgError::Told(StoreError::Closed))
        });
        let fault = match outcome {
            Ok(changed) => return Ok(changed),
            Err(fault) => fault,
        };
        Err(match fault {
            PgError::Conflict(reason) => {
                self.trouble = Some(TxError::Conflict(reason));
                StoreError::TransactionLost
            }
            PgError::Lost(reason) => {
                self.trouble = Some(TxError::Lost(reason));
                StoreError::TransactionLost
            }
            PgError::Told(error) => {
                self.trouble = Some(TxError::Told);
                error
            }
        })
    }
}

impl Sql for Transaction<'_> {
    fn execute(&mut self, sql: &'static str, params: &[Value<'_>]) -> Result<u64> {
        self.guarded(sql, params, &mut |_| Ok(()))
    }

    fn each(
        &mut self,
        sql: &'static str,
        params: &[Value<'_>],
        row: &mut dyn FnMut(&dyn Row) -> Result<()>,
    ) -> Result<()> {
        self.guarded(sql, params, row).map(drop)
    }

    fn send(&mut self, sql: &'static str, params: &[Value<'_>]) -> Result<()> {
        if self.begin.is_some() {
            return self.execute(sql, params).map(drop);
        }
        self.lock(sql, params)
    }

    /// What it locks is only looked at by the statements after it.
    fn lock(&mut self, sql: &'static str, params: &[Value<'_>]) -> Result<()> {
        if self.trouble.is_some() {
            return Err(StoreError::Poisoned);
        }
        if self.sent.len() >= SENT_MAX {
            return self.execute(sql, params).map(drop);
        }
        self.sent.push(SentStatement::new(sql, params));
        Ok(())
    }
}
