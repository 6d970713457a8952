//! What a stranger who has read only the interface expects of the service, driven over HTTP.
//!
//! The harness speaks HTTP/1.1 byte by byte and raw JSON. It knows none of the service's types.
//!
//! [`cases`] holds what can be seen with a key alone; `causerie-conformance` runs that against any deployment, and
//! `tests/interface` against the built binary, all cases side by side on one service. `tests/suite` adds what takes
//! an operator's command, a crash, or a model whose words are held back and released. What was met on the wire is
//! held against the published schema: see [`schema`].
//!
//! The binary is `target/<profile>/causerie` beside the tests, or what `CAUSERIE_BIN` names.

pub mod address;
pub mod api;
pub mod cases;
pub mod connection;
pub mod events;
pub mod fake_vendors;
pub mod http;
pub mod http2;
pub mod large;
pub mod met;
pub mod operations;
pub mod poll;
pub mod run;
pub mod schema;
pub mod service;
pub mod site;
pub mod vendor;
mod wire;

pub use address::Address;
pub use api::{Api, Expect};
pub use connection::Connection;
pub use events::{Event, Events};
pub use fake_vendors::FakeVendors;
pub use http::{Request, Response};
pub use service::{Account, DATABASE, NewAccount, Options, Service, caller};
pub use site::Site;
pub use vendor::{Say, Vendor};
