//! Figures of the store: how long callers wait, and how many writes share a commit.

use telemetry::{Histogram, QUICK, SIZES};

/// Counts what the store does.
#[derive(Debug)]
pub struct Figures {
    /// From a caller's wish to read to its answer, the wait in the queue included.
    pub reads: Histogram,
    /// The same of writes, which are answered when they are durable.
    pub writes: Histogram,
    /// How many writes were committed together; PostgreSQL sees to that itself, and nothing is recorded.
    pub group: Histogram,
}

impl Default for Figures {
    fn default() -> Self {
        Self { reads: Histogram::new(QUICK), writes: Histogram::new(QUICK), group: Histogram::new(SIZES) }
    }
}

/// How many callers wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// To read.
    pub reads: usize,
    /// To write.
    pub writes: usize,
}
