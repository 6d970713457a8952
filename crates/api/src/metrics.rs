//! Metrics of the interface: responses by operation and status, their durations, and open streams.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use telemetry::{Counter, FAST_BUCKETS, Gauge, Histogram};

use crate::operations::{OPERATIONS, Operation};

/// The statuses with separate counters; 0 counts all others.
const STATUSES: [u16; 21] =
    [200, 201, 202, 204, 206, 304, 400, 401, 403, 404, 405, 408, 409, 413, 414, 416, 429, 431, 500, 503, 0];
/// The row of requests without an operation.
const NO_OPERATION: usize = OPERATIONS.len();

/// The metrics of the interface.
#[derive(Debug)]
pub struct ApiMetrics {
    answered: [[Counter; STATUSES.len()]; NO_OPERATION + 1],
    took: [Histogram; NO_OPERATION + 1],
    /// The number of open streams of one answer.
    pub answer_streams: Arc<Gauge>,
    /// The number of open streams of a conversation.
    pub chat_streams: Arc<Gauge>,
}

impl Default for ApiMetrics {
    fn default() -> Self {
        Self {
            answered: Default::default(),
            took: std::array::from_fn(|_| Histogram::new(FAST_BUCKETS)),
            answer_streams: Arc::default(),
            chat_streams: Arc::default(),
        }
    }
}

impl ApiMetrics {
    pub(crate) fn record_response(
        &self,
        operation: Option<&'static Operation>,
        status: StatusCode,
        took: Duration,
    ) {
        let row = operation
            .and_then(|operation| OPERATIONS.iter().position(|one| std::ptr::eq(one, operation)))
            .unwrap_or(NO_OPERATION);
        self.answered[row][status_column(status)].increment();
        self.took[row].observe_duration(took);
    }

    /// Counts a request that was answered before it reached the interface. Its duration is not recorded.
    pub fn record_refusal(&self, status: StatusCode) {
        self.answered[NO_OPERATION][status_column(status)].increment();
    }

    /// Returns the number of responses by operation and status; `other` counts requests that are not in the schema.
    pub fn request_counts(&self) -> impl Iterator<Item = (&'static str, String, u64)> {
        let rows = self.answered.iter().enumerate();
        rows.flat_map(|(row, columns)| {
            columns.iter().zip(STATUSES).map(move |(count, status)| {
                let status = if status == 0 { "other".to_owned() } else { status.to_string() };
                (operation_name(row), status, count.get())
            })
        })
    }

    /// Returns the durations from a request to the beginning of its response, by operation.
    pub fn request_durations(&self) -> impl Iterator<Item = (&'static str, &Histogram)> {
        self.took.iter().enumerate().map(|(row, took)| (operation_name(row), took))
    }
}

/// Returns the column of a status; the last one for a status without a counter.
fn status_column(status: StatusCode) -> usize {
    STATUSES.iter().position(|one| *one == status.as_u16()).unwrap_or(STATUSES.len() - 1)
}

fn operation_name(row: usize) -> &'static str {
    OPERATIONS.get(row).map_or("other", |operation| operation.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn status_column_exists_per_code_status() {
        for code in Code::all() {
            assert!(STATUSES.contains(&code.on_the_wire().1.as_u16()), "{code:?}");
        }
    }

    #[test]
    fn record_response_counts_operation_status() {
        let metrics = ApiMetrics::default();
        metrics.record_response(Some(&OPERATIONS[0]), StatusCode::OK, Duration::from_millis(1));
        metrics.record_response(None, StatusCode::IM_A_TEAPOT, Duration::from_millis(1));
        let counted: Vec<_> = metrics.request_counts().filter(|(.., count)| *count > 0).collect();
        let wanted = [(OPERATIONS[0].id, "200".to_owned(), 1), ("other", "other".to_owned(), 1)];
        assert_eq!(counted, wanted);
        assert_eq!(metrics.request_durations().map(|(_, took)| took.count()).sum::<u64>(), 2);
    }
}
