//! The options of a store.

use std::time::Duration;

/// The configuration of a store.
#[derive(Debug, Clone, Copy, Default)]
pub struct StoreOptions {
    /// The maximum size of a SQLite database; the disk's size if `None`. Beyond it writes fail with
    /// [`StoreError::Full`](crate::StoreError::Full). PostgreSQL limits its own size.
    pub size_max_bytes: Option<u64>,
    /// The number of connections that write to PostgreSQL; half that number read. Each is opened when it is first
    /// needed.
    pub writers: Option<usize>,
    /// The time for which callers wait for an unreachable PostgreSQL server, from the first failure on; ten seconds
    /// if `None`.
    pub outage_patience: Option<Duration>,
    /// The time for which a PostgreSQL server keeps the plan of a statement, which depends on the sizes of tables;
    /// ten seconds if `None`.
    pub plans_kept: Option<Duration>,
    /// The disk space that is preallocated beyond the end of each file of a SQLite database, so that small writes
    /// succeed on a full disk; none if 0.
    pub slack_bytes: u64,
}
