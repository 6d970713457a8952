//! Models: providers of steps, the catalog and health.
//!
//! A [`StepProvider`] streams one step: of a vendor, or of the built-in reader (crate [`reader`]), which needs none. Each
//! wire format of vendors has a module. No other crate contains vendors' JSON. The [`Catalog`] lists the models and
//! resolves their providers.
//!
//! An [`EmbeddingModel`] returns vectors of texts, for semantic search.
//!
//! A provider makes one attempt and reports errors; the caller decides on retries. A key appears only in the
//! header that carries it.
//!
//! # Where to look
//!
//! - A server's requests and responses: the module of its format, chosen by `dialect.rs`; shared parts: `vendor.rs`,
//!   `attempt.rs`, `replay.rs`, `output.rs`, `error.rs`; connections: `client.rs`, `connection.rs`.
//! - Odd JSON: `lenient.rs`; lists of models: `listing.rs`; health: `probe.rs`, stored in `catalog.rs`.
//! - Prices: `catalog.rs`. Vectors: `embeddings.rs`; their credits are in `engine` and `store`.

mod adaptation;
mod anthropic;
mod attempt;
pub mod catalog;
mod chat_completions;
mod cited;
mod client;
mod config;
mod configured;
mod connection;
mod decoder;
mod dialect;
mod embeddings;
mod error;
pub mod estimate;
mod finish;
mod format;
mod gemini;
pub mod health;
mod inflate;
mod known;
mod lenient;
mod listing;
mod names;
mod options;
mod output;
mod pause;
mod plain_options;
mod probe;
mod provider;
mod redaction;
mod refusal;
mod replay;
mod responses;
mod schema;
mod server;
mod sse;
mod surrogates;
mod vendor;

pub use attempt::{
    FIRST_BYTE_TIMEOUT, FIRST_BYTE_TIMEOUT_ELSEWHERE, STALL_TIMEOUT, STEP_TIMEOUT, StepStream, StepTimeouts,
    USAGE_TIMEOUT,
};
pub use catalog::{Catalog, CatalogModel};
pub use config::{EmbeddingsConfig, VendorConfig, VendorConfigError, VendorsConfig};
pub use configured::{CONFIGURED_MAX, ModelConfig};
pub use decoder::{STREAM_MAX_BYTES, StepDecoder};
pub use domain::secret::Secret;
pub use embeddings::{EmbeddedTexts, EmbeddingModel, EmbeddingsError};
pub use format::WireFormat;
pub use health::Health;
pub use listing::Discovered;
pub use options::RequestOptions;
pub use output::StreamProgress;
pub use plain_options::{PlainOptions, ResponseFormat, ToolChoice};
pub use probe::{ProbeError, VendorHealth};
pub use provider::StepProvider;
pub use server::VendorError;
pub use vendor::{MODELS_MAX, MODELS_TIMEOUT, VendorClient};
