//! The options of a store.

use std::time::Duration;

/// What an operator can choose.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// How large a SQLite database may grow; the disk's size when `None`. Beyond it writes fail with
    /// [`StoreError::Full`](crate::StoreError::Full). PostgreSQL sees to its own size.
    pub size_max_bytes: Option<u64>,
    /// How many connections write to PostgreSQL; half as many read. Each is made when it is first needed.
    pub writers: Option<usize>,
    /// How long callers wait for a PostgreSQL server that can't be reached, from the first failure on; ten
    /// seconds when `None`.
    pub outage_patience: Option<Duration>,
    /// How long a PostgreSQL server keeps the plan of a statement, which goes by the sizes that tables had; ten
    /// seconds when `None`.
    pub plans_kept: Option<Duration>,
    /// Room on the disk that a SQLite database's files are given beyond their ends, each so much, so that small
    /// writes succeed on a full disk; none when 0.
    pub slack_bytes: u64,
}
