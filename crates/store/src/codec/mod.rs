//! The JSON encoding of `domain` values in the database. Documents carry a version, `v`. A later version and a
//! damaged document are errors that name its row.

mod answer;
mod awaited;
mod log;

use std::fmt::Display;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::sql::Result;

pub(crate) use answer::{read_answer, write_answer};
pub(crate) use awaited::{read_functions, read_reply, write_functions, write_reply};
pub(crate) use log::{read_result, read_step, write_result, write_step};

/// The current version, and so far the only one that can be read.
const VERSION: u32 = 1;

/// Encodes a list of texts, or of pairs of texts, as JSON.
pub(crate) fn encode_json<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| StoreError::Engine(error.to_string()))
}

/// Decodes the output of [`encode_json`]. Errors name `table` and `row`.
pub(crate) fn decode_json<T: DeserializeOwned>(json: &str, table: &str, row: &str) -> Result<T> {
    serde_json::from_str(json).map_err(|error| StoreError::damaged_row(table, row, error))
}

/// The version of a document, without its other fields.
#[derive(Deserialize)]
struct Versioned {
    v: u32,
}

/// Decodes a document with a version. Errors name `table` and `row`.
///
/// # Errors
/// [`StoreError::Newer`] for a document of a later version, otherwise [`StoreError::Damaged`].
fn read_versioned<'a, T: Deserialize<'a>>(
    json: &'a str,
    table: &str,
    row: impl Display,
    version: impl Fn(&T) -> u32,
) -> Result<T> {
    let decoded = serde_json::from_str::<T>(json);
    let found = match &decoded {
        Ok(document) => version(document),
        // A later version may have fields and words that this one does not know.
        Err(_) => serde_json::from_str::<Versioned>(json).map_or(VERSION, |document| document.v),
    };
    match decoded {
        _ if found > VERSION => Err(StoreError::Newer { place: format!("{table} {row}") }),
        Ok(_) if found < VERSION => {
            Err(StoreError::damaged_row(table, row, format!("version {found} is unknown")))
        }
        Ok(document) => Ok(document),
        Err(error) => Err(StoreError::damaged_row(table, row, error)),
    }
}
