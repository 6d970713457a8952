//! Black-box tests of the documented interface, over HTTP, for any deployment.
//!
//! [`cases`] holds the tests, which need only a key; `causerie-conformance` runs them. They use a separate HTTP/1.1 client
//! and raw JSON, and no crate of the service.

pub mod address;
pub mod api;
pub mod cases;
pub mod connection;
pub mod events;
pub mod http;
pub mod large;
pub mod met;
pub mod operations;
pub mod poll;
pub mod run;
mod wire;

pub use address::ServiceAddress;
pub use api::{Api, Expect};
pub use connection::RawConnection;
pub use events::{AnswerEvent, AnswerStream};
pub use http::{HttpRequest, HttpResponse};
