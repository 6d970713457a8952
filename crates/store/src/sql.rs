//! The trait that every operation is written against, once for both engines.
//!
//! Statements use `$1`, `$2`, … in any order, and each parameter must be given. They stay within the dialect
//! that SQLite and PostgreSQL share: `ON CONFLICT`, `RETURNING`, partial indexes, no implicit casts.
//! Identifiers are UUIDs in text, times microseconds, flags 0 or 1.

use std::str::FromStr;

use domain::credits::Credits;
use domain::id::{
    AccountId, ConversationId, InstanceId, JobId, KeyId, MessageId, NodeId, PartId, PostingId, SessionId,
    TraceId, UserId,
};
use domain::time::Timestamp;

use crate::error::StoreError;

/// The result of the functions of this module.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// A parameter of a statement.
#[derive(Debug, Clone, Copy)]
pub enum SqlValue<'a> {
    Null,
    /// A number, a time or a flag.
    Int(i64),
    /// Text without NUL, which both engines reject.
    Text(&'a str),
    Blob(&'a [u8]),
    /// An identifier, bound as its text.
    Id(u128),
}

/// A row of a result. Columns count from 0.
pub trait SqlRow {
    /// Returns the number in a column, `None` for NULL.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if the column holds something else.
    fn opt_int(&self, column: usize) -> Result<Option<i64>>;
    /// Returns the text in a column, `None` for NULL.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if the column holds something else.
    fn opt_text(&self, column: usize) -> Result<Option<&str>>;
    /// Returns the bytes in a column, `None` for NULL.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if the column holds something else.
    fn opt_blob(&self, column: usize) -> Result<Option<&[u8]>>;
}

/// The end of a query that locks its rows and skips rows locked by other transactions. Ignored by an engine
/// with a single writer.
pub(crate) const SKIP_LOCKED: &str = " FOR UPDATE SKIP LOCKED";

/// A transaction. After a failed statement all further ones fail.
pub trait Sql {
    /// Runs a statement without result rows and returns the number of changed rows.
    ///
    /// # Errors
    /// [`StoreError`] of the engine.
    fn execute(&mut self, sql: &'static str, params: &[SqlValue<'_>]) -> Result<u64>;
    /// Runs a statement to its end and passes each result row to `row`. In a writing transaction, a query may
    /// end with `FOR UPDATE SKIP LOCKED`.
    ///
    /// # Errors
    /// [`StoreError`] of the engine, or the error of `row`, which ends the statement.
    fn query_each(
        &mut self,
        sql: &'static str,
        params: &[SqlValue<'_>],
        row: &mut dyn FnMut(&dyn SqlRow) -> Result<()>,
    ) -> Result<()>;
    /// Runs a statement whose result is not needed. An engine may run it together with the next one; if it
    /// fails, that statement or the whole transaction fails.
    ///
    /// # Errors
    /// [`StoreError`] of the engine.
    fn send_statement(&mut self, sql: &'static str, params: &[SqlValue<'_>]) -> Result<()>;
    /// Locks the rows of `SELECT … FOR UPDATE` until the transaction ends. Values that are read afterwards
    /// stay valid until then. Does nothing with a single writer.
    ///
    /// # Errors
    /// [`StoreError`] of the engine.
    fn lock_rows(&mut self, sql: &'static str, params: &[SqlValue<'_>]) -> Result<()>;
}

/// Typed ways to run statements.
pub trait SqlExt: Sql {
    /// Returns the first row of the statement, if any.
    ///
    /// # Errors
    /// [`StoreError`] of the engine or of `read`.
    fn query_one<T>(
        &mut self,
        sql: &'static str,
        params: &[SqlValue<'_>],
        read: impl Fn(&dyn SqlRow) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut found = None;
        self.query_each(sql, params, &mut |row| {
            if found.is_none() {
                found = Some(read(row)?);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns all rows of the statement, which must bound their number itself.
    ///
    /// # Errors
    /// [`StoreError`] of the engine or of `read`.
    fn query_all<T>(
        &mut self,
        sql: &'static str,
        params: &[SqlValue<'_>],
        read: impl Fn(&dyn SqlRow) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut found = Vec::new();
        self.query_each(sql, params, &mut |row| {
            found.push(read(row)?);
            Ok(())
        })?;
        Ok(found)
    }
}

impl<S: Sql + ?Sized> SqlExt for S {}

/// Typed ways to read columns.
pub trait RowExt: SqlRow {
    /// Reads a number.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] for NULL or another type.
    fn get_int(&self, column: usize) -> Result<i64> {
        self.opt_int(column)?.ok_or_else(|| empty_column_error(column))
    }

    /// Reads a non-negative number.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] for any other value.
    fn get_count(&self, column: usize) -> Result<u64> {
        u64::try_from(self.get_int(column)?).map_err(|error| StoreError::damaged_row("column", column, error))
    }

    /// Reads a non-negative number of 32 bits.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] for any other value.
    fn get_u32(&self, column: usize) -> Result<u32> {
        u32::try_from(self.get_int(column)?).map_err(|error| StoreError::damaged_row("column", column, error))
    }

    /// Reads a flag.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] for NULL or another type.
    fn get_flag(&self, column: usize) -> Result<bool> {
        Ok(self.get_int(column)? != 0)
    }

    /// Reads a text.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] for NULL or another type.
    fn get_text(&self, column: usize) -> Result<&str> {
        self.opt_text(column)?.ok_or_else(|| empty_column_error(column))
    }

    /// Reads a time.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] for NULL or another type.
    fn get_time(&self, column: usize) -> Result<Timestamp> {
        self.get_int(column).map(Timestamp::from_micros)
    }

    /// Reads a time, `None` for NULL.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] for another type.
    fn opt_time(&self, column: usize) -> Result<Option<Timestamp>> {
        Ok(self.opt_int(column)?.map(Timestamp::from_micros))
    }

    /// Reads an amount of credits.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] for any other value.
    fn get_credits(&self, column: usize) -> Result<Credits> {
        self.get_count(column).map(Credits)
    }

    /// Reads an identifier.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] for any other value.
    fn get_id<I: FromStr>(&self, column: usize) -> Result<I> {
        self.opt_id(column)?.ok_or_else(|| empty_column_error(column))
    }

    /// Reads an identifier, `None` for NULL.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] for any other value.
    fn opt_id<I: FromStr>(&self, column: usize) -> Result<Option<I>> {
        let Some(text) = self.opt_text(column)? else { return Ok(None) };
        text.parse().map(Some).map_err(|_| StoreError::damaged_row("identifier", text, "not a UUID"))
    }
}

impl<R: SqlRow + ?Sized> RowExt for R {}

fn empty_column_error(column: usize) -> StoreError {
    StoreError::damaged_row("column", column, "is empty")
}

/// Converts a number to the engines' type.
///
/// # Errors
/// [`StoreError::Rule`] if it exceeds 2⁶³ - 1.
pub(crate) fn stored_int(number: u64) -> Result<i64> {
    i64::try_from(number).map_err(|_| StoreError::Rule("a number is too large to be stored"))
}

/// Converts a length to the engines' type.
pub(crate) fn len(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

macro_rules! ids {
    ($($name:ident),+ $(,)?) => {$(
        impl From<$name> for SqlValue<'_> {
            fn from(id: $name) -> Self {
                Self::Id(id.bits())
            }
        }
    )+};
}

ids!(
    AccountId,
    UserId,
    KeyId,
    ConversationId,
    MessageId,
    PartId,
    PostingId,
    SessionId,
    InstanceId,
    NodeId,
    JobId,
    TraceId
);

impl From<i64> for SqlValue<'_> {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<u32> for SqlValue<'_> {
    fn from(number: u32) -> Self {
        Self::Int(i64::from(number))
    }
}

impl From<bool> for SqlValue<'_> {
    fn from(flag: bool) -> Self {
        Self::Int(i64::from(flag))
    }
}

impl From<Timestamp> for SqlValue<'_> {
    fn from(at: Timestamp) -> Self {
        Self::Int(at.micros())
    }
}

impl<'a> From<&'a str> for SqlValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for SqlValue<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a [u8; 32]> for SqlValue<'a> {
    fn from(bytes: &'a [u8; 32]) -> Self {
        Self::Blob(bytes)
    }
}

impl<'a, T: Into<SqlValue<'a>>> From<Option<T>> for SqlValue<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// Builds the parameters of a statement.
macro_rules! params {
    ($($value:expr),* $(,)?) => { &[$($crate::sql::SqlValue::from($value)),*] };
}
pub(crate) use params;

/// Formats an identifier as text: `8-4-4-4-12` lower-case digits.
pub(crate) fn id_text(bits: u128) -> [u8; 36] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = [b'-'; 36];
    let mut rest = bits;
    for (at, slot) in out.iter_mut().enumerate().rev() {
        if !matches!(at, 8 | 13 | 18 | 23) {
            *slot = DIGITS[(rest & 0xf) as usize];
            rest >>= 4;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_param_binds_as_text() {
        for bits in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978] {
            let id = AccountId::from_random(bits);
            assert_eq!(id_text(id.bits()), id.to_string().as_bytes());
        }
    }
}
