//! Metrics of the interface: responses by operation and status, their durations, and open streams.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use telemetry::{Counter, FAST_BUCKETS, Gauge, Histogram};

use crate::operations::{OPERATIONS, Operation};

/// The statuses with counters of their own; 0 stands for all others.
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
    pub(crate) fn record(&self, operation: Option<&'static Operation>, status: StatusCode, took: Duration) {
        let row = operation
            .and_then(|operation| OPERATIONS.iter().position(|one| std::ptr::eq(one, operation)))
            .unwrap_or(NO_OPERATION);
        self.answered[row][column(status)].increment();
        self.took[row].observe_duration(took);
    }

    /// Counts a request that was answered before it reached the interface. Its duration is not recorded.
    pub fn refused(&self, status: StatusCode) {
        self.answered[NO_OPERATION][column(status)].increment();
    }

    /// Returns the number of responses by operation and status; `other` stands for what is not in the schema.
    pub fn requests(&self) -> impl Iterator<Item = (&'static str, String, u64)> {
        let rows = self.answered.iter().enumerate();
        rows.flat_map(|(row, columns)| {
            columns.iter().zip(STATUSES).map(move |(count, status)| {
                let status = if status == 0 { "other".to_owned() } else { status.to_string() };
                (name(row), status, count.get())
            })
        })
    }

    /// Returns the durations from a request to the beginning of its response, by operation.
    pub fn durations(&self) -> impl Iterator<Item = (&'static str, &Histogram)> {
        self.took.iter().enumerate().map(|(row, took)| (name(row), took))
    }
}

/// Returns the column of a status; the last one for a status without a counter.
fn column(status: StatusCode) -> usize {
    STATUSES.iter().position(|one| *one == status.as_u16()).unwrap_or(STATUSES.len() - 1)
}

fn name(row: usize) -> &'static str {
    OPERATIONS.get(row).map_or("other", |operation| operation.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn every_status_of_a_code_is_counted_apart() {
        for code in Code::ALL {
            assert!(STATUSES.contains(&code.on_the_wire().1.as_u16()), "{code:?}");
        }
    }

    #[test]
    fn a_request_is_counted_under_its_operation_and_status() {
        let metrics = ApiMetrics::default();
        metrics.record(Some(&OPERATIONS[0]), StatusCode::OK, Duration::from_millis(1));
        metrics.record(None, StatusCode::IM_A_TEAPOT, Duration::from_millis(1));
        let counted: Vec<_> = metrics.requests().filter(|(.., count)| *count > 0).collect();
        let wanted = [(OPERATIONS[0].id, "200".to_owned(), 1), ("other", "other".to_owned(), 1)];
        assert_eq!(counted, wanted);
        assert_eq!(metrics.durations().map(|(_, took)| took.count()).sum::<u64>(), 2);
    }
}
