//! The JSON in which values of `domain` are stored. Documents carry a version, `v`; one that is unknown, or a
//! document that is damaged, is an error that names its row.

mod answer;
mod log;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::StoreError;
use crate::sql::Result;

pub(crate) use answer::{read_answer, write_answer};
pub(crate) use log::{read_result, read_step, write_result, write_step};

/// The version that is written, and the only one so far that is read.
const VERSION: u32 = 1;

/// A list of texts, or of pairs of them, as JSON.
pub(crate) fn write<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| StoreError::Engine(error.to_string()))
}

/// What [`write`] wrote into the row of `table`.
pub(crate) fn read<T: DeserializeOwned>(json: &str, table: &str, row: &str) -> Result<T> {
    serde_json::from_str(json).map_err(|error| StoreError::damaged(table, row, error))
}

/// Refuses what a later version wrote.
fn known(version: u32) -> Result<(), String> {
    if version == VERSION { Ok(()) } else { Err(format!("version {version} is unknown")) }
}
