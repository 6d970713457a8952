//! A transaction on one connection.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ToSql};

use super::connection::engine_error;
use crate::error::StoreError;
use crate::sql::{Result, SKIP_LOCKED, Sql, SqlRow, SqlValue, id_text};

/// The open transaction, or the open savepoint in it.
pub(crate) struct SqliteTransaction<'c> {
    connection: &'c Connection,
    failed: bool,
}

impl<'c> SqliteTransaction<'c> {
    pub(crate) fn new(connection: &'c Connection) -> Self {
        Self { connection, failed: false }
    }

    /// Returns `true` if a statement has failed, even if the work ignored the error.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    fn prepare_statement(&self, sql: &str, params: &[SqlValue<'_>]) -> Result<CachedStatement<'c>> {
        let mut statement = self.connection.prepare_cached(sql).map_err(engine_error)?;
        bind_params(&mut statement, params)?;
        Ok(statement)
    }

    /// Runs one statement, unless an earlier one failed.
    fn run_unless_failed<T>(&mut self, run: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        if self.failed {
            return Err(StoreError::Poisoned);
        }
        let outcome = run(self);
        self.failed = outcome.is_err();
        outcome
    }
}

impl Sql for SqliteTransaction<'_> {
    fn execute(&mut self, sql: &'static str, params: &[SqlValue<'_>]) -> Result<u64> {
        self.run_unless_failed(|tx| {
            let changed = tx.prepare_statement(sql, params)?.raw_execute().map_err(engine_error)?;
            Ok(changed as u64)
        })
    }

    fn query_each(
        &mut self,
        sql: &'static str,
        params: &[SqlValue<'_>],
        read: &mut dyn FnMut(&dyn SqlRow) -> Result<()>,
    ) -> Result<()> {
        let sql = sql.strip_suffix(SKIP_LOCKED).unwrap_or(sql);
        self.run_unless_failed(|tx| {
            let mut statement = tx.prepare_statement(sql, params)?;
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next().map_err(engine_error)? {
                read(row)?;
            }
            Ok(())
        })
    }

    fn send_statement(&mut self, sql: &'static str, params: &[SqlValue<'_>]) -> Result<()> {
        self.execute(sql, params).map(drop)
    }

    /// Nothing to lock: there is one writer.
    fn lock_rows(&mut self, _: &'static str, _: &[SqlValue<'_>]) -> Result<()> {
        self.run_unless_failed(|_| Ok(()))
    }
}

/// Binds by name: SQLite numbers `$2` by its first position in the statement, not by its digits.
fn bind_params(statement: &mut CachedStatement<'_>, params: &[SqlValue<'_>]) -> Result<()> {
    let count = statement.parameter_count();
    if count != params.len() {
        return Err(StoreError::Rule("wrong number of statement parameters"));
    }
    for at in 1..=count {
        let value = statement
            .parameter_name(at)
            .and_then(|name| name.strip_prefix('$')?.parse::<usize>().ok())
            .and_then(|number| params.get(number.checked_sub(1)?))
            .ok_or(StoreError::Rule("parameters must be named $1, $2 and so on"))?;
        if let SqlValue::Text(text) = value
            && text.contains('\0')
        {
            return Err(StoreError::Rule("text must not contain NUL"));
        }
        match value {
            SqlValue::Id(bits) => {
                statement.raw_bind_parameter(at, SqliteParam(ValueRef::Text(&id_text(*bits))))
            }
            SqlValue::Null => statement.raw_bind_parameter(at, SqliteParam(ValueRef::Null)),
            SqlValue::Int(number) => {
                statement.raw_bind_parameter(at, SqliteParam(ValueRef::Integer(*number)))
            }
            SqlValue::Text(text) => {
                statement.raw_bind_parameter(at, SqliteParam(ValueRef::Text(text.as_bytes())))
            }
            SqlValue::Blob(bytes) => statement.raw_bind_parameter(at, SqliteParam(ValueRef::Blob(bytes))),
        }
        .map_err(engine_error)?;
    }
    Ok(())
}

struct SqliteParam<'a>(ValueRef<'a>);

impl ToSql for SqliteParam<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(self.0))
    }
}

impl SqlRow for rusqlite::Row<'_> {
    fn opt_int(&self, column: usize) -> Result<Option<i64>> {
        match self.get_ref(column).map_err(engine_error)? {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(number) => Ok(Some(number)),
            ValueRef::Real(_) | ValueRef::Text(_) | ValueRef::Blob(_) => {
                Err(column_error(column, "no number"))
            }
        }
    }

    fn opt_text(&self, column: usize) -> Result<Option<&str>> {
        match self.get_ref(column).map_err(engine_error)? {
            ValueRef::Null => Ok(None),
            ValueRef::Text(bytes) => {
                std::str::from_utf8(bytes).map(Some).map_err(|_| column_error(column, "no UTF-8"))
            }
            ValueRef::Real(_) | ValueRef::Integer(_) | ValueRef::Blob(_) => {
                Err(column_error(column, "no text"))
            }
        }
    }

    fn opt_blob(&self, column: usize) -> Result<Option<&[u8]>> {
        match self.get_ref(column).map_err(engine_error)? {
            ValueRef::Null => Ok(None),
            ValueRef::Blob(bytes) => Ok(Some(bytes)),
            ValueRef::Real(_) | ValueRef::Integer(_) | ValueRef::Text(_) => {
                Err(column_error(column, "no bytes"))
            }
        }
    }
}

fn column_error(column: usize, reason: &str) -> StoreError {
    StoreError::damaged_row("column", column, reason)
}
