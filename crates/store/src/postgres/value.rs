//! Encodes parameters and decodes columns in PostgreSQL's binary format.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::error::StoreError;
use crate::sql::{Result, Row, Value, id_text};

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
    pub(super) fn new(sql: &'static str, params: &[Value<'_>]) -> Self {
        let keep = |value: &Value<'_>| match *value {
            Value::Null => OwnedValue::Null,
            Value::Int(number) => OwnedValue::Int(number),
            Value::Text(text) => OwnedValue::Text(text.to_owned()),
            Value::Blob(bytes) => OwnedValue::Blob(bytes.to_vec()),
            Value::Id(bits) => OwnedValue::Id(bits),
        };
        Self { sql, params: params.iter().map(keep).collect() }
    }

    /// Binds its parameters with the checks of [`bind`].
    pub(super) fn bind(&self, types: &[Type]) -> Result<Vec<Bound<'_>>> {
        if types.len() != self.params.len() {
            return Err(COUNT);
        }
        fn lend(owned: &OwnedValue) -> Value<'_> {
            match *owned {
                OwnedValue::Null => Value::Null,
                OwnedValue::Int(number) => Value::Int(number),
                OwnedValue::Text(ref text) => Value::Text(text),
                OwnedValue::Blob(ref bytes) => Value::Blob(bytes),
                OwnedValue::Id(bits) => Value::Id(bits),
            }
        }
        types.iter().zip(&self.params).map(|(wanted, owned)| bind_one(wanted, lend(owned))).collect()
    }
}

const COUNT: StoreError = StoreError::Rule("a statement needs exactly its parameters");

/// A parameter that matches its type.
#[derive(Debug)]
pub(super) struct Bound<'a>(Value<'a>);

/// Checks the parameters against the types of the statement.
pub(super) fn bind<'a>(types: &[Type], params: &[Value<'a>]) -> Result<Vec<Bound<'a>>> {
    if types.len() != params.len() {
        return Err(COUNT);
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
        Value::Text(text) if text.contains('\0') => {
            return Err(StoreError::Rule("text must not contain NUL"));
        }
        Value::Text(_) | Value::Id(_) => *wanted == Type::TEXT,
        Value::Blob(_) => *wanted == Type::BYTEA,
    };
    if fits {
        Ok(Bound(value))
    } else {
        Err(StoreError::Rule("a parameter must have the type of its column"))
    }
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

/// An integer of any width.
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
