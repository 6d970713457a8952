//! The JSON encoding of `domain` values in the database. Documents carry a version, `v`. An unknown version
//! or a damaged document is an error that names its row.

mod answer;
mod log;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::StoreError;
use crate::sql::Result;

pub(crate) use answer::{read_answer, write_answer};
pub(crate) use log::{read_result, read_step, write_result, write_step};

/// The current version, and so far the only one that can be read.
const VERSION: u32 = 1;

/// Encodes a list of texts, or of pairs of texts, as JSON.
pub(crate) fn write<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| StoreError::Engine(error.to_string()))
}

/// Decodes the output of [`write`]. Errors name `table` and `row`.
pub(crate) fn read<T: DeserializeOwned>(json: &str, table: &str, row: &str) -> Result<T> {
    serde_json::from_str(json).map_err(|error| StoreError::damaged(table, row, error))
}

/// Rejects documents of later versions.
fn known(version: u32) -> Result<(), String> {
    if version == VERSION { Ok(()) } else { Err(format!("version {version} is unknown")) }
}
