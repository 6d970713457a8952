//! The models: who answers a step, what they are called, and how they fare.
//!
//! A [`Provider`] streams one step. There is a module for each wire format that vendors speak, and the
//! built-in reader, which needs no vendor. Vendors' JSON is in no other crate. The [`Catalog`] knows which
//! models there are and gives the provider of each.
//!
//! A provider makes one attempt and tells what went wrong; whether and when to try again is the host's to
//! decide. Nothing here holds a key anywhere but in the header that carries it.

pub mod catalog;
pub mod chat_completions;
pub mod estimate;
pub mod health;
mod provider;
pub mod reader;
mod vendor;
mod wire;

pub use catalog::{Catalog, Model};
pub use health::Health;
pub use provider::{Discovered, Provider, StepStream};
pub use vendor::{Secret, VendorConfig, VendorError, VendorsConfig};
