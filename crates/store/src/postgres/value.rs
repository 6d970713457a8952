//! Encodes parameters and decodes columns in PostgreSQL's binary format.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::error::StoreError;
use crate::sql::{Result, SqlRow, SqlValue, id_text};

/// A statement that runs together with the next one.
pub(super) struct SentStatement {
    pub(super) sql: &'static str,
    params: Vec<OwnedValue>,
}

enum OwnedValue {
    Null,
    Int(i64),
    Text(String),
    Blob(Vec<u8>),
    Id(u128),
}

impl SentStatement {
    pub(super) fn new(sql: &'static str, params: &[SqlValue<'_>]) -> Self {
        let keep = |value: &SqlValue<'_>| match *value {
            SqlValue::Null => OwnedValue::Null,
            SqlValue::Int(number) => OwnedValue::Int(number),
            SqlValue::Text(text) => OwnedValue::Text(text.to_owned()),
            SqlValue::Blob(bytes) => OwnedValue::Blob(bytes.to_vec()),
            SqlValue::Id(bits) => OwnedValue::Id(bits),
        };
        Self { sql, params: params.iter().map(keep).collect() }
    }

    /// Binds its parameters with the checks of [`bind_params`].
    pub(super) fn bind_own_params(&self, types: &[Type]) -> Result<Vec<PgParam<'_>>> {
        if types.len() != self.params.len() {
            return Err(COUNT);
        }
        fn borrow_value(owned: &OwnedValue) -> SqlValue<'_> {
            match *owned {
                OwnedValue::Null => SqlValue::Null,
                OwnedValue::Int(number) => SqlValue::Int(number),
                OwnedValue::Text(ref text) => SqlValue::Text(text),
                OwnedValue::Blob(ref bytes) => SqlValue::Blob(bytes),
                OwnedValue::Id(bits) => SqlValue::Id(bits),
            }
        }
        types.iter().zip(&self.params).map(|(wanted, owned)| bind_one(wanted, borrow_value(owned))).collect()
    }
}

const COUNT: StoreError = StoreError::Rule("wrong number of statement parameters");

/// A parameter that matches its type.
#[derive(Debug)]
pub(super) struct PgParam<'a>(SqlValue<'a>);

/// Checks the parameters against the types of the statement.
pub(super) fn bind_params<'a>(types: &[Type], params: &[SqlValue<'a>]) -> Result<Vec<PgParam<'a>>> {
    if types.len() != params.len() {
        return Err(COUNT);
    }
    types.iter().zip(params).map(|(wanted, value)| bind_one(wanted, *value)).collect()
}

fn bind_one<'a>(wanted: &Type, value: SqlValue<'a>) -> Result<PgParam<'a>> {
    let fits = match value {
        SqlValue::Null => true,
        SqlValue::Int(number) => match *wanted {
            Type::INT8 => true,
            Type::INT4 => i32::try_from(number).is_ok(),
            _ => false,
        },
        SqlValue::Text(text) if text.contains('\0') => {
            return Err(StoreError::Rule("text must not contain NUL"));
        }
        SqlValue::Text(_) | SqlValue::Id(_) => *wanted == Type::TEXT,
        SqlValue::Blob(_) => *wanted == Type::BYTEA,
    };
    if fits {
        Ok(PgParam(value))
    } else {
        Err(StoreError::Rule("a parameter has another type than its column"))
    }
}

impl ToSql for PgParam<'_> {
    fn to_sql(&self, wanted: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self.0 {
            SqlValue::Null => return Ok(IsNull::Yes),
            SqlValue::Int(number) if *wanted == Type::INT4 => out.put_i32(i32::try_from(number)?),
            SqlValue::Int(number) => out.put_i64(number),
            SqlValue::Text(text) => out.put_slice(text.as_bytes()),
            SqlValue::Blob(bytes) => out.put_slice(bytes),
            SqlValue::Id(bits) => out.put_slice(&id_text(bits)),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// An integer of any width.
struct AnyWidthInt(i64);

impl<'a> FromSql<'a> for AnyWidthInt {
    fn from_sql(held: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        match *held {
            Type::INT2 => i16::from_sql(held, raw).map(i64::from),
            Type::INT4 => i32::from_sql(held, raw).map(i64::from),
            _ => i64::from_sql(held, raw),
        }
        .map(Self)
    }

    fn accepts(held: &Type) -> bool {
        [Type::INT2, Type::INT4, Type::INT8].contains(held)
    }
}

impl SqlRow for tokio_postgres::Row {
    fn opt_int(&self, column: usize) -> Result<Option<i64>> {
        let number: Option<AnyWidthInt> =
            self.try_get(column).map_err(|_| column_error(column, "no number"))?;
        Ok(number.map(|number| number.0))
    }

    fn opt_text(&self, column: usize) -> Result<Option<&str>> {
        self.try_get(column).map_err(|_| column_error(column, "no text"))
    }

    fn opt_blob(&self, column: usize) -> Result<Option<&[u8]>> {
        self.try_get(column).map_err(|_| column_error(column, "no bytes"))
    }
}

fn column_error(column: usize, reason: &str) -> StoreError {
    StoreError::damaged_row("column", column, reason)
}
