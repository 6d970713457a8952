//! What a stranger who has read only the interface expects of the service, driven over HTTP.
//!
//! The harness starts the built binary on a folder of its own, gives it a model server whose words a test
//! holds back and releases, and speaks plain HTTP/1.1 and raw JSON to it. It knows none of the service's
//! types. The tests are in `tests/suite`, a file a subject; `operations` lists what they must cover.
//!
//! The binary is `target/<profile>/causerie` beside the tests, or what `CAUSERIE_BIN` names. With
//! `CAUSERIE_BASE_URL` (plain http) and `CAUSERIE_API_KEY` the tests that need no operator's command run against
//! that service, one at a time (`-j 1`), with an account that is theirs: it is emptied before each test.

pub mod api;
pub mod events;
pub mod http;
pub mod operations;
pub mod poll;
pub mod service;
pub mod standin;
pub mod vendor;

pub use api::{Api, Expect, caller};
pub use events::{Event, Events};
pub use http::{Request, Response};
pub use service::{Account, DATABASE, NewAccount, Options, Service};
pub use standin::Standin;
pub use vendor::{Say, Vendor};
