//! The configuration of the collector that traces are exported to.

use std::fmt;

use axum::http::HeaderMap;

/// A collector of traces.
#[derive(Clone)]
pub struct TraceCollector {
    /// The base URL.
    pub endpoint: String,
    /// Additional headers for the collector, usually with a secret.
    pub headers: HeaderMap,
    /// The name of this service in traces.
    pub service_name: String,
}

impl fmt::Debug for TraceCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceCollector").field("service_name", &self.service_name).finish_non_exhaustive()
    }
}
