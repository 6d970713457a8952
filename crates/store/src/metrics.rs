//! Metrics of the store: how long callers wait, and how many writes share a commit.

use telemetry::{FAST_BUCKETS, Histogram, SIZE_BUCKETS};

/// Counts what the store does.
#[derive(Debug)]
pub struct StoreMetrics {
    /// From a caller's wish to read to its answer, the wait in the queue included.
    pub reads: Histogram,
    /// The same of writes, which are answered when they are durable.
    pub writes: Histogram,
    /// How many writes were committed together; PostgreSQL sees to that itself, and nothing is recorded.
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

/// How many callers wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueDepths {
    /// To read.
    pub reads: usize,
    /// To write.
    pub writes: usize,
}
