//! Black-box tests of the documented interface, over HTTP.
//!
//! The harness uses its own HTTP/1.1 client and raw JSON, not the service's types.
//!
//! [`cases`] holds the tests that need only a key. `causerie-conformance` runs them against any deployment,
//! and `tests/interface` against the built binary, all cases concurrently on one service. `tests/suite` adds
//! tests that need operator commands, crashes, or a model whose output is controlled. All responses are
//! checked against the published schema: see [`schema`].
//!
//! The binary is `target/<profile>/causerie` beside the tests, or `CAUSERIE_BIN`.

pub mod address;
pub mod api;
pub mod cases;
pub mod connection;
pub mod drivers;
pub mod events;
pub mod fake_vendors;
pub mod http;
pub mod http2;
pub mod identity_provider;
pub mod large;
pub mod met;
pub mod operations;
pub mod poll;
pub mod run;
pub mod schema;
pub mod service;
pub mod site;
pub mod vendor;
pub mod webdriver;
mod wire;

pub use address::ServiceAddress;
pub use api::{Api, Expect};
pub use connection::RawConnection;
pub use events::{AnswerEvent, AnswerStream};
pub use fake_vendors::FakeVendors;
pub use http::{HttpRequest, HttpResponse};
pub use service::{DATABASE, ServiceOptions, TestAccount, TestAccountOptions, TestService, start_with_api};
pub use site::TestSite;
pub use vendor::{Say, ScriptedVendor};
pub use webdriver::{KeyboardKey, View, WebDriver};
