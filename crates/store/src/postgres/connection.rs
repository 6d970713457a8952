//! One connection and the statements that were prepared on it.

use std::collections::HashMap;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use futures_util::future::{join, join_all, join3};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow, Statement};

use super::address::{Address, CONNECT_TIMEOUT};
use super::error::{PgError, reason};
use super::value::{Bound, SentStatement, bind};
use crate::error::StoreError;
use crate::sql::{Result, Row, Value};

/// How long the end of a session may take.
const FAREWELL_MAX: Duration = Duration::from_secs(1);
/// The oldest server: it is the oldest that is still looked after, with room to spare.
const VERSION_MIN: i64 = 130_000;

/// The bounds of a session: a lock is waited for 10 s, a statement runs 60 s, and a transaction whose client
/// fell silent is undone after 10 s. A server that answers before it has written is asked not to.
const SESSION: &str = "SET lock_timeout = '10s'; SET statement_timeout = '60s';
    SET idle_in_transaction_session_timeout = '10s'; SET jit = off;
    SELECT set_config('synchronous_commit',
        CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END,
        false);
    SELECT current_setting('server_version_num'), current_setting('server_encoding')";

/// The transaction that a first statement begins.
#[derive(Debug, Clone, Copy)]
pub(super) enum Begin<'a> {
    /// One that reads.
    Read,
    /// One that writes, and leaves this number in this row of `commits`.
    Write { row: &'a str, number: i64 },
}

/// Leaves the number of a transaction.
const LEAVE_NUMBER: &str = "INSERT INTO commits (id, number, at) VALUES ($1, $2, now())
    ON CONFLICT (id) DO UPDATE SET number = $2, at = now()";

/// An open connection.
pub(crate) struct PgConnection {
    client: Client,
    driver: JoinHandle<()>,
    statements: HashMap<&'static str, Statement>,
    /// Since when the server keeps the plans of the statements.
    pub(super) planned: Instant,
}

impl PgConnection {
    /// Connects and sets the session up.
    pub(crate) async fn open(address: &Address) -> Result<Self, PgError> {
        let connecting = timeout(CONNECT_TIMEOUT * 2, address.connect());
        let (client, connection) = connecting.await.map_err(|_| PgError::silent())??;
        let driver = tokio::spawn(async move {
            // The statements on their way are told of it, too.
            if let Err(error) = connection.await {
                tracing::debug!(error = reason(&error), "database connection closed");
            }
        });
        let answers = timeout(CONNECT_TIMEOUT, client.simple_query(SESSION));
        check_server(&answers.await.map_err(|_| PgError::silent())??)?;
        Ok(Self { client, driver, statements: HashMap::new(), planned: Instant::now() })
    }

    /// What the tables are made with.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Runs several statements without parameters.
    pub(super) async fn batch(&self, sql: &str) -> Result<(), PgError> {
        Ok(self.client.batch_execute(sql).await?)
    }

    /// Runs several statements without parameters and returns the first column of the last row as text.
    pub(super) async fn ask(&self, sql: &str) -> Result<Option<String>, PgError> {
        let answers = self.client.simple_query(sql).await?;
        Ok(last_row(&answers).and_then(|row| row.get(0)).map(str::to_owned))
    }

    /// Runs one statement, after what was sent before it and, if the transaction is not begun, what begins it, hands
    /// over the rows and says how many it changed or returned. All of it is on its way before the first answer is
    /// waited for.
    pub(super) async fn run(
        &mut self,
        begin: Option<Begin<'_>>,
        sent: &[SentStatement],
        sql: &'static str,
        params: &[Value<'_>],
        row: &mut dyn FnMut(&dyn Row) -> Result<()>,
    ) -> Result<u64, PgError> {
        let statement = self.prepare(sql).await?;
        let bound = bind(statement.params(), params)?;
        let earlier = self.prepare_sent(sent).await?;
        let leave = match begin {
            Some(Begin::Write { .. }) => Some(self.prepare(LEAVE_NUMBER).await?),
            Some(Begin::Read) | None => None,
        };
        let begun = self.begin(begin, leave.as_ref());
        // These are polled in their order for the first time, which is when they are sent.
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

    /// Commits, after what was sent before it.
    pub(super) async fn commit(&mut self, sent: &[SentStatement]) -> Result<(), PgError> {
        let earlier = self.prepare_sent(sent).await?;
        let (earlier, committed) = join(self.send_all(earlier), self.client.batch_execute("COMMIT")).await;
        // Had one of them failed, the server would have made a rollback of it.
        earlier?;
        Ok(committed?)
    }

    async fn begin(&self, begin: Option<Begin<'_>>, leave: Option<&Statement>) -> Result<(), PgError> {
        match (begin, leave) {
            (None, _) => {}
            (Some(Begin::Write { row, number }), Some(leave)) => {
                let params: [&(dyn ToSql + Sync); 2] = [&row, &number];
                let begun = self.client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED");
                let (begun, left) = join(begun, self.client.execute(leave, &params)).await;
                begun?;
                left?;
            }
            (Some(_), _) => self.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?,
        }
        Ok(())
    }

    async fn prepare_sent<'s>(
        &mut self,
        sent: &'s [SentStatement],
    ) -> Result<Vec<(Statement, Vec<Bound<'s>>)>, PgError> {
        let mut prepared = Vec::with_capacity(sent.len());
        for one in sent {
            let statement = self.prepare(one.sql).await?;
            let bound = one.bind(statement.params())?;
            prepared.push((statement, bound));
        }
        Ok(prepared)
    }

    async fn send_all(&self, prepared: Vec<(Statement, Vec<Bound<'_>>)>) -> Result<(), PgError> {
        let running = prepared.iter().map(|(statement, bound)| self.client.execute_raw(statement, bound));
        for outcome in join_all(running).await {
            outcome?;
        }
        Ok(())
    }

    async fn prepare(&mut self, sql: &'static str) -> Result<Statement, PgError> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        if ends_transaction(sql) {
            return Err(PgError::Told(StoreError::TransactionLost));
        }
        let statement = self.client.prepare(sql).await?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    /// Ends the session.
    pub(crate) async fn close(self) {
        drop(self.statements);
        drop(self.client);
        drop(timeout(FAREWELL_MAX, self.driver).await);
    }
}

/// Whether the statement would begin or end a transaction, which is the store's part alone.
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
        return Err(StoreError::Engine("the database server has to be PostgreSQL 13 or later".to_owned()));
    }
    if encoding != "UTF8" {
        return Err(StoreError::Engine(format!("the database's encoding has to be UTF8, not {encoding}")));
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
