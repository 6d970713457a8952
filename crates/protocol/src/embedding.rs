//! The vectors of passages and queries, for search by meaning.
//!
//! The agent has no network, so the host drives: `POST /index/unembedded` requests passages without a vector, `POST
//! /index/embedded` returns their vectors, `POST /index/query` sends the vector of a query before its search runs. All
//! three are repeatable. The host treats replies as untrusted. Agents of earlier releases do not support these paths and
//! search by words alone.

use domain::embedding::DIMENSION_MAX;
use serde::{Deserialize, Serialize};

/// The path of requests for passages without a vector.
pub const UNEMBEDDED_PATH: &str = "/index/unembedded";
/// The path of vectors of passages.
pub const EMBEDDED_PATH: &str = "/index/embedded";
/// The path of vectors of queries.
pub const QUERY_PATH: &str = "/index/query";
/// The maximum number of passages of one request.
pub const BATCH_MAX: usize = 64;
/// The longest text of a passage with its heading, in bytes.
pub const EMBEDDED_TEXT_MAX_BYTES: usize = 4 * 1024;
/// The longest query, in bytes.
pub const QUERY_MAX_BYTES: usize = 4 * 1024;
/// The longest message of the host: a batch of vectors, each component with sign and comma.
pub const VECTORS_MAX_BYTES: usize = BATCH_MAX * (DIMENSION_MAX * 5 + 256) + 1024;
/// The longest reply of the agent: a batch of passages, escaped.
pub const PASSAGES_MAX_BYTES: usize = BATCH_MAX * (EMBEDDED_TEXT_MAX_BYTES * 6 + 256) + 1024;

/// A request for passages that have no vector of this model. Vectors of another model are dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnembeddedRequest {
    /// The model's name, at most [`domain::embedding::MODEL_MAX_BYTES`].
    pub model: String,
    /// Only passages with a greater id.
    pub after: i64,
    /// The number of passages, at most [`BATCH_MAX`].
    pub limit: u32,
}

/// Passages without a vector, by id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unembedded {
    pub passages: Vec<UnembeddedPassage>,
    /// True if the limit of vectors is reached: no passage gets another one.
    #[serde(default)]
    pub full: bool,
}

/// A passage without a vector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnembeddedPassage {
    pub id: i64,
    /// Identifies the content. The host sends it back unchanged.
    pub digest: u64,
    /// The text with its heading, at most [`EMBEDDED_TEXT_MAX_BYTES`].
    pub text: String,
}

/// The vectors of passages. Vectors of passages that have changed since are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddedPassages {
    /// As in the [`UnembeddedRequest`].
    pub model: String,
    pub vectors: Vec<PassageVector>,
}

/// The vector of a passage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassageVector {
    pub id: i64,
    pub digest: u64,
    /// See [`domain::embedding::quantize`]. Empty for a passage that the model rejects, so that it is not requested
    /// again.
    pub components: Vec<i8>,
}

/// The number of vectors that were stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddedReply {
    pub stored: u32,
}

/// The vector of a query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryVector {
    pub model: String,
    /// The query exactly as the search has it, at most [`QUERY_MAX_BYTES`].
    pub query: String,
    /// See [`domain::embedding::quantize`].
    pub components: Vec<i8>,
}
