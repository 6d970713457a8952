//! End-to-end tests of the built service: over HTTP, in a browser, and by its commands.
//!
//! They call the service by the client of [`conformance`], with raw JSON and none of its types. `tests/interface` runs the
//! cases of that crate, all concurrently on one service. `tests/suite` adds what needs operator commands, crashes, or a
//! model whose output is controlled. The responses of both are checked against the published schema: see [`schema`].
//!
//! The binary is `target/<profile>/causerie` beside the tests, or `CAUSERIE_BIN`.

pub mod coverage;
pub mod crawl;
pub mod drivers;
pub mod fake_vendors;
pub mod http2;
pub mod identity_provider;
pub mod schema;
pub mod service;
pub mod webdriver;

pub use conformance::{
    AnswerEvent, AnswerStream, Api, Expect, HttpRequest, HttpResponse, RawConnection, api, cases, connection,
    events, http, large, met, operations, poll, run,
};
pub use fake_vendors::FakeVendors;
pub use service::{
    DATABASE, ServiceOptions, TestAccount, TestAccountOptions, TestService, built_program, service_binary,
    start_with_api,
};
pub use test_support::scripted_site::ScriptedSite;
pub use test_support::scripted_vendor::{self, Say, ScriptedVendor};
pub use webdriver::{KeyboardKey, View, WebDriver};
