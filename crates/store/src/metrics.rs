//! Metrics of the store: waiting times of callers, and the sizes of group commits.

use telemetry::{FAST_BUCKETS, Histogram, SIZE_BUCKETS};

#[derive(Debug)]
pub struct StoreMetrics {
    /// Durations of reads in seconds, including the time in the queue.
    pub reads: Histogram,
    /// Durations of writes in seconds, until they are durable and including the time in the queue.
    pub writes: Histogram,
    /// The number of writes per commit. PostgreSQL groups commits itself, so nothing is recorded there.
    pub group: Histogram,
}

impl Default for StoreMetrics {
    fn default() -> Self {
        Self {
            reads: Histogram::new(FAST_BUCKETS),
            writes: Histogram::new(FAST_BUCKETS),
            group: Histogram::new(SIZE_BUCKETS),
        }
    }
}

/// The number of waiting callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueDepths {
    pub reads: usize,
    pub writes: usize,
}
