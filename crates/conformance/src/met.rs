//! The responses that this process has received, for comparison with the published schema.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// A response, reduced to the fields in the schema.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Met {
    pub method: String,
    /// The target's path, without the query.
    pub path: String,
    pub status: u16,
    /// The code of an error.
    pub code: Option<String>,
}

static MET: Mutex<BTreeSet<Met>> = Mutex::new(BTreeSet::new());

pub(crate) fn record_response(method: &str, target: &str, status: u16, body: Option<&[u8]>) {
    let path = target.split('?').next().unwrap_or_default().to_owned();
    let error = body.filter(|_| status >= 400).and_then(|body| serde_json::from_slice::<Value>(body).ok());
    let code = error.and_then(|error| error["code"].as_str().map(str::to_owned));
    let met = Met { method: method.to_owned(), path, status, code };
    MET.lock().unwrap_or_else(PoisonError::into_inner).insert(met);
}

/// Returns all responses recorded so far.
#[must_use]
pub fn recorded_responses() -> Vec<Met> {
    MET.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
}
