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
mod configured;
mod connection;
mod decoder;
mod error;
pub mod estimate;
mod format;
mod gemini;
pub mod health;
mod known;
mod lenient;
mod names;
mod output;
mod probe;
mod provider;
pub mod reader;
mod replay;
mod responses;
mod server;
mod vendor;
mod wire;

pub use attempt::{MODELS_MAX, MODELS_TIMEOUT, STALL_TIMEOUT, STEP_TIMEOUT, Timeouts, USAGE_TIMEOUT, Vendor};
pub use catalog::{Catalog, Model};
pub use configured::{CONFIGURED_MAX, ModelConfig};
pub use decoder::{Decoder, Next, STREAM_MAX_BYTES};
pub use domain::secret::Secret;
pub use format::Format;
pub use health::Health;
pub use probe::{ProbeError, VendorHealth};
pub use provider::{Discovered, Provider, StepStream};
pub use vendor::{Options, VendorConfig, VendorConfigError, VendorError, VendorsConfig};
