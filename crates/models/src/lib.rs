//! The models: who answers a step, what they are called, and how they fare.
//!
//! A [`Provider`] streams one step. There is a module for each wire format that vendors speak, and the
//! built-in reader, which needs no vendor. Vendors' JSON is in no other crate. The [`Catalog`] knows which
//! models there are and gives the provider of each.
//!
//! A provider makes one attempt and tells what went wrong; whether and when to try again is the host's to
//! decide. Nothing here holds a key anywhere but in the header that carries it.

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
mod error;
pub mod estimate;
mod format;
mod gemini;
pub mod health;
mod known;
mod lenient;
mod listing;
mod names;
mod options;
mod output;
mod probe;
mod provider;
pub mod reader;
mod replay;
mod responses;
mod server;
mod sse;
mod vendor;

pub use attempt::{STALL_TIMEOUT, STEP_TIMEOUT, StepStream, Timeouts, USAGE_TIMEOUT};
pub use catalog::{Catalog, Model};
pub use config::{VendorConfig, VendorConfigError, VendorsConfig};
pub use configured::{CONFIGURED_MAX, ModelConfig};
pub use decoder::{Decoder, STREAM_MAX_BYTES};
pub use domain::secret::Secret;
pub use format::Format;
pub use health::Health;
pub use listing::Discovered;
pub use options::Options;
pub use output::Next;
pub use probe::{ProbeError, VendorHealth};
pub use provider::Provider;
pub use server::VendorError;
pub use vendor::{MODELS_MAX, MODELS_TIMEOUT, Vendor};
