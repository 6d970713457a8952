//! Parameters and columns in the server's binary form.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::error::StoreError;
use crate::sql::{Result, Row, Value, id_text};

/// A parameter that fits its type.
#[derive(Debug)]
pub(super) struct Bound<'a>(Value<'a>);

/// The parameters of a statement, each looked at against what the statement wants.
pub(super) fn bind<'a>(types: &[Type], params: &'a [Value<'a>]) -> Result<Vec<Bound<'a>>> {
    if types.len() != params.len() {
        return Err(StoreError::Rule("a statement is given each of its parameters"));
    }
    types.iter().zip(params).map(|(wanted, value)| bind_one(wanted, *value)).collect()
}

fn bind_one<'a>(wanted: &Type, value: Value<'a>) -> Result<Bound<'a>> {
    let fits = match value {
        Value::Null => true,
        Value::Int(number) => match *wanted {
            Type::INT8 => true,
            Type::INT4 => i32::try_from(number).is_ok(),
            _ => false,
        },
        Value::Text(text) if text.contains('\0') => return Err(StoreError::Rule("no text holds NUL")),
        Value::Text(_) | Value::Id(_) => *wanted == Type::TEXT,
        Value::Blob(_) => *wanted == Type::BYTEA,
    };
    if fits { Ok(Bound(value)) } else { Err(StoreError::Rule("a parameter has the type of its column")) }
}

impl ToSql for Bound<'_> {
    fn to_sql(&self, wanted: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self.0 {
            Value::Null => return Ok(IsNull::Yes),
            Value::Int(number) if *wanted == Type::INT4 => out.put_i32(i32::try_from(number)?),
            Value::Int(number) => out.put_i64(number),
            Value::Text(text) => out.put_slice(text.as_bytes()),
            Value::Blob(bytes) => out.put_slice(bytes),
            Value::Id(bits) => out.put_slice(&id_text(bits)),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// A whole number of whatever width.
struct Number(i64);

impl<'a> FromSql<'a> for Number {
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

impl Row for tokio_postgres::Row {
    fn opt_int(&self, column: usize) -> Result<Option<i64>> {
        let number: Option<Number> = self.try_get(column).map_err(|_| wrong(column, "no number"))?;
        Ok(number.map(|number| number.0))
    }

    fn opt_text(&self, column: usize) -> Result<Option<&str>> {
        self.try_get(column).map_err(|_| wrong(column, "no text"))
    }

    fn opt_blob(&self, column: usize) -> Result<Option<&[u8]>> {
        self.try_get(column).map_err(|_| wrong(column, "no bytes"))
    }
}

fn wrong(column: usize, reason: &str) -> StoreError {
    StoreError::damaged("column", column, reason)
}
