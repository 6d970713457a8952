//! A transaction on one connection.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ToSql};

use super::connection::engine;
use crate::error::StoreError;
use crate::sql::{Result, Row, SKIP_LOCKED, Sql, Value, id_text};

/// The open transaction, or the open savepoint in it.
pub(crate) struct Transaction<'c> {
    connection: &'c Connection,
    failed: bool,
}

impl<'c> Transaction<'c> {
    pub(crate) fn new(connection: &'c Connection) -> Self {
        Self { connection, failed: false }
    }

    /// Returns `true` if a statement has failed, even if the work ignored the error.
    pub(super) fn failed(&self) -> bool {
        self.failed
    }

    fn prepare(&self, sql: &str, params: &[Value<'_>]) -> Result<CachedStatement<'c>> {
        let mut statement = self.connection.prepare_cached(sql).map_err(engine)?;
        bind(&mut statement, params)?;
        Ok(statement)
    }

    /// Runs one statement, unless an earlier one failed.
    fn guarded<T>(&mut self, run: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        if self.failed {
            return Err(StoreError::Poisoned);
        }
        let outcome = run(self);
        self.failed = outcome.is_err();
        outcome
    }
}

impl Sql for Transaction<'_> {
    fn execute(&mut self, sql: &'static str, params: &[Value<'_>]) -> Result<u64> {
        self.guarded(|tx| {
            let changed = tx.prepare(sql, params)?.raw_execute().map_err(engine)?;
            Ok(changed as u64)
        })
    }

    fn each(
        &mut self,
        sql: &'static str,
        params: &[Value<'_>],
        read: &mut dyn FnMut(&dyn Row) -> Result<()>,
    ) -> Result<()> {
        let sql = sql.strip_suffix(SKIP_LOCKED).unwrap_or(sql);
        self.guarded(|tx| {
            let mut statement = tx.prepare(sql, params)?;
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next().map_err(engine)? {
                read(row)?;
            }
            Ok(())
        })
    }

    fn send(&mut self, sql: &'static str, params: &[Value<'_>]) -> Result<()> {
        self.execute(sql, params).map(drop)
    }

    /// Nothing to lock: there is one writer.
    fn lock(&mut self, _: &'static str, _: &[Value<'_>]) -> Result<()> {
        self.guarded(|_| Ok(()))
    }
}

/// Binds by name: SQLite numbers `$2` by its first position in the statement, not by its digits.
fn bind(statement: &mut CachedStatement<'_>, params: &[Value<'_>]) -> Result<()> {
    let count = statement.parameter_count();
    if count != params.len() {
        return Err(StoreError::Rule("a statement needs exactly its parameters"));
    }
    for at in 1..=count {
        let value = statement
            .parameter_name(at)
            .and_then(|name| name.strip_prefix('$')?.parse::<usize>().ok())
            .and_then(|number| params.get(number.checked_sub(1)?))
            .ok_or(StoreError::Rule("parameters must be named $1, $2 and so on"))?;
        if let Value::Text(text) = value
            && text.contains('\0')
        {
            return Err(StoreError::Rule("text must not contain NUL"));
        }
        match value {
            Value::Id(bits) => statement.raw_bind_parameter(at, Bound(ValueRef::Text(&id_text(*bits)))),
            Value::Null => statement.raw_bind_parameter(at, Bound(ValueRef::Null)),
            Value::Int(number) => statement.raw_bind_parameter(at, Bound(ValueRef::Integer(*number))),
            Value::Text(text) => statement.raw_bind_parameter(at, Bound(ValueRef::Text(text.as_bytes()))),
            Value::Blob(bytes) => statement.raw_bind_parameter(at, Bound(ValueRef::Blob(bytes))),
        }
        .map_err(engine)?;
    }
    Ok(())
}

struct Bound<'a>(ValueRef<'a>);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(self.0))
    }
}

impl Row for rusqlite::Row<'_> {
    fn opt_int(&self, column: usize) -> Result<Option<i64>> {
        match self.get_ref(column).map_err(engine)? {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(number) => Ok(Some(number)),
            ValueRef::Real(_) | ValueRef::Text(_) | ValueRef::Blob(_) => Err(wrong(column, "no number")),
        }
    }

    fn opt_text(&self, column: usize) -> Result<Option<&str>> {
        match self.get_ref(column).map_err(engine)? {
            ValueRef::Null => Ok(None),
            ValueRef::Text(bytes) => {
                std::str::from_utf8(bytes).map(Some).map_err(|_| wrong(column, "no UTF-8"))
            }
            ValueRef::Real(_) | ValueRef::Integer(_) | ValueRef::Blob(_) => Err(wrong(column, "no text")),
        }
    }

    fn opt_blob(&self, column: usize) -> Result<Option<&[u8]>> {
        match self.get_ref(column).map_err(engine)? {
            ValueRef::Null => Ok(None),
            ValueRef::Blob(bytes) => Ok(Some(bytes)),
            ValueRef::Real(_) | ValueRef::Integer(_) | ValueRef::Text(_) => Err(wrong(column, "no bytes")),
        }
    }
}

fn wrong(column: usize, reason: &str) -> StoreError {
    StoreError::damaged("column", column, reason)
}
