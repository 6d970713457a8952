//! One connection and its prepared statements.

use std::collections::HashMap;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use futures_util::future::{join, join_all, join3};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow, Statement};

use super::address::{CONNECT_TIMEOUT, PgAddress};
use super::error::{PgError, format_error_chain};
use super::value::{PgParam, SentStatement, bind_params};
use crate::error::StoreError;
use crate::sql::{Result, SqlRow, SqlValue};

/// The time limit for closing a session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The oldest supported server version. Every version that still gets updates is newer.
const VERSION_MIN: i64 = 130_000;

/// Limits of a session: 10 s for a lock, 60 s for a statement, 10 s for an idle transaction. Also requires
/// durable commits.
const SESSION: &str = "SET lock_timeout = '10s'; SET statement_timeout = '60s';
    SET idle_in_transaction_session_timeout = '10s'; SET jit = off;
    SELECT set_config('synchronous_commit',
        CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END,
        false);
    SELECT current_setting('server_version_num'), current_setting('server_encoding')";

/// The transaction that the first statement begins.
#[derive(Debug, Clone, Copy)]
pub(super) enum Begin<'a> {
    Read,
    /// A writing transaction, which stores `number` in the row `row` of `commits`.
    Write {
        row: &'a str,
        number: i64,
    },
}

/// Stores the number of a transaction.
const LEAVE_NUMBER: &str = "INSERT INTO commits (id, number, at) VALUES ($1, $2, now())
    ON CONFLICT (id) DO UPDATE SET number = $2, at = now()";

pub(crate) struct PgConnection {
    client: Client,
    driver: JoinHandle<()>,
    statements: HashMap<&'static str, Statement>,
    /// The time since which the server has cached the plans of the statements.
    pub(super) planned: Instant,
}

impl PgConnection {
    /// Connects and configures the session.
    pub(crate) async fn open_session(address: &PgAddress) -> Result<Self, PgError> {
        let connecting = timeout(CONNECT_TIMEOUT * 2, address.connect_client());
        let (client, connection) = connecting.await.map_err(|_| PgError::from_timeout())??;
        let driver = tokio::spawn(async move {
            // The pending statements get this error, too.
            if let Err(error) = connection.await {
                tracing::debug!(error = format_error_chain(&error), "database connection closed");
            }
        });
        let answers = timeout(CONNECT_TIMEOUT, client.simple_query(SESSION));
        check_server(&answers.await.map_err(|_| PgError::from_timeout())??)?;
        Ok(Self { client, driver, statements: HashMap::new(), planned: Instant::now() })
    }

    /// Returns the client, for schema changes.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Runs several statements without parameters.
    pub(super) async fn run_batch(&self, sql: &str) -> Result<(), PgError> {
        Ok(self.client.batch_execute(sql).await?)
    }

    /// Runs several statements without parameters and returns the first column of the last row as text.
    pub(super) async fn query_text(&self, sql: &str) -> Result<Option<String>, PgError> {
        let answers = self.client.simple_query(sql).await?;
        Ok(last_row(&answers).and_then(|row| row.get(0)).map(str::to_owned))
    }

    /// Runs one statement after `sent` and, if necessary, the beginning of the transaction. Passes each row
    /// to the caller and returns the number of changed or returned rows. All statements are pipelined: they
    /// are sent before the first response arrives.
    pub(super) async fn run_statement(
        &mut self,
        begin: Option<Begin<'_>>,
        sent: &[SentStatement],
        sql: &'static str,
        params: &[SqlValue<'_>],
        row: &mut dyn FnMut(&dyn SqlRow) -> Result<()>,
    ) -> Result<u64, PgError> {
        let statement = self.prepare_statement(sql).await?;
        let bound = bind_params(statement.params(), params)?;
        let earlier = self.prepare_sent(sent).await?;
        let leave = match begin {
            Some(Begin::Write { .. }) => Some(self.prepare_statement(LEAVE_NUMBER).await?),
            Some(Begin::Read) | None => None,
        };
        let begun = self.begin_transaction(begin, leave.as_ref());
        // The futures are first polled, and therefore sent, in this order.
        let (begun, earlier, rows) =
            join3(begun, self.send_all(earlier), self.client.query_raw(&statement, bound)).await;
        begun?;
        earlier?;
        let mut rows = pin!(rows?);
        while let Some(next) = rows.try_next().await? {
            row(&next)?;
        }
        Ok(rows.rows_affected().unwrap_or(0))
    }

    /// Commits after running `sent`.
    pub(super) async fn commit_transaction(&mut self, sent: &[SentStatement]) -> Result<(), PgError> {
        let earlier = self.prepare_sent(sent).await?;
        let (earlier, committed) = join(self.send_all(earlier), self.client.batch_execute("COMMIT")).await;
        // After a failed statement the server would turn the commit into a rollback.
        earlier?;
        Ok(committed?)
    }

    async fn begin_transaction(
        &self,
        begin: Option<Begin<'_>>,
        leave: Option<&Statement>,
    ) -> Result<(), PgError> {
        match (begin, leave) {
            (None, _) => {}
            (Some(Begin::Write { row, number }), Some(leave)) => {
                let params: [&(dyn ToSql + Sync); 2] = [&row, &number];
                let begun = self.client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED");
                let (begun, left) = join(begun, self.client.execute(leave, &params)).await;
                begun?;
                left?;
            }
            (Some(_), _) => self.run_batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?,
        }
        Ok(())
    }

    async fn prepare_sent<'s>(
        &mut self,
        sent: &'s [SentStatement],
    ) -> Result<Vec<(Statement, Vec<PgParam<'s>>)>, PgError> {
        let mut prepared = Vec::with_capacity(sent.len());
        for one in sent {
            let statement = self.prepare_statement(one.sql).await?;
            let bound = one.bind_own_params(statement.params())?;
            prepared.push((statement, bound));
        }
        Ok(prepared)
    }

    async fn send_all(&self, prepared: Vec<(Statement, Vec<PgParam<'_>>)>) -> Result<(), PgError> {
        let running = prepared.iter().map(|(statement, bound)| self.client.execute_raw(statement, bound));
        for outcome in join_all(running).await {
            outcome?;
        }
        Ok(())
    }

    async fn prepare_statement(&mut self, sql: &'static str) -> Result<Statement, PgError> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        if ends_transaction(sql) {
            return Err(PgError::Fatal(StoreError::TransactionLost));
        }
        let statement = self.client.prepare(sql).await?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    pub(crate) async fn close_session(self) {
        drop(self.statements);
        drop(self.client);
        drop(timeout(CLOSE_TIMEOUT, self.driver).await);
    }
}

/// Returns `true` for statements that begin or end a transaction. Only the store may do that.
fn ends_transaction(sql: &str) -> bool {
    let first = sql.split_ascii_whitespace().next().unwrap_or_default();
    ["BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "PREPARE"]
        .iter()
        .any(|word| first.trim_end_matches(';').eq_ignore_ascii_case(word))
}

fn last_row(answers: &[SimpleQueryMessage]) -> Option<&SimpleQueryRow> {
    answers.iter().rev().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    })
}

fn check_server(answers: &[SimpleQueryMessage]) -> Result<(), StoreError> {
    let row = last_row(answers);
    let version = row.and_then(|row| row.get(0)).and_then(|version| version.parse::<i64>().ok());
    let encoding = row.and_then(|row| row.get(1)).unwrap_or_default();
    if version.is_none_or(|version| version < VERSION_MIN) {
        return Err(StoreError::Engine(
            "the database server is too old: use PostgreSQL 13 or later".to_owned(),
        ));
    }
    if encoding != "UTF8" {
        return Err(StoreError::Engine(format!("the encoding of the database is {encoding}: use UTF8")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_store_ends_transactions() {
        for sql in ["COMMIT", " rollback;", "BEGIN READ ONLY", "End"] {
            assert!(ends_transaction(sql), "{sql}");
        }
        assert!(!ends_transaction("SELECT 'COMMIT'"));
    }
}
