//! The HTTP server: it listens, accepts connections within limits, speaks TLS, and answers by the routes that it is given.
//!
//! # Where to look
//!
//! - Connections and shutdown: `http`; the listening socket: `listener.rs`; limits of connections: `limits.rs`; TLS: `tls.rs`.
//! - The log: `log.rs`; the log line of a request: `requests.rs`; spans of requests: `traces.rs`; their export: `otlp.rs`.
//! - Files, upload forms, event streams, compression and rate limits: crate `http-common`.
//! - `/healthz` and `/readyz`: `monitoring.rs`; `/metrics`: `metrics.rs`.

mod collector;
mod http;
mod limits;
mod listener;
pub mod log;
mod metrics;
mod monitoring;
#[cfg(feature = "otlp")]
mod otlp;
mod requests;
mod tls;
mod traces;

pub use collector::TraceCollector;
pub use http::{Frontend, HttpServer};
pub use limits::ConnectionLimits;
pub use listener::bind_listener;
pub use metrics::MetricSources;
pub use monitoring::{answer_unknown_path, monitoring_router};
pub use requests::{LogFields, RequestIds};
pub use tls::{ReloadableTls, TlsError, TlsFiles};
pub use traces::{EXPORTS_TRACES, Traces};
