//! Failures below an operation: of the engine, the disk, or a damaged row.

/// A failure that the request did not cause. Except for [`StoreError::Uncertain`], the operation did not
/// happen.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk or the size limit of the database is full.
    #[error("the database is full")]
    Full,
    /// The file is not a database, or a damaged one.
    #[error("the database is damaged: {0}")]
    NotADatabase(String),
    #[error("the database failed: {0}")]
    Engine(String),
    /// The database server was unreachable for longer than the store waits.
    #[error("database unreachable: {0}")]
    Unreachable(String),
    /// The connection to the database server broke during a commit, and its outcome could not be determined.
    /// The operation may have happened.
    #[error("the outcome of a commit is unknown: {0}")]
    Uncertain(String),
    #[error("another service uses this database: stop it first")]
    Taken,
    /// The target of a restore is not empty.
    #[error("the database is not empty, and a restore does not overwrite data: use an empty one")]
    NotEmpty,
    /// A constraint of the schema was violated. Operations check before they write, so the API should have
    /// rejected the value, or this crate has a bug.
    #[error("constraint {0} violated")]
    Constraint(String),
    /// An argument violates a rule of the operation.
    #[error("invalid operation: {0}")]
    Rule(&'static str),
    /// A statement or a commit followed a failed statement.
    #[error("the transaction has already failed")]
    Poisoned,
    /// The transaction ended before its work was complete.
    #[error("the transaction ended before its work was complete")]
    TransactionLost,
    #[error("a database operation panicked")]
    Panicked,
    /// The store is closed or closing.
    #[error("the store is closed")]
    Closed,
    /// A stored value cannot be decoded.
    #[error("{place} is damaged: {reason}")]
    Damaged {
        /// The table and the row.
        place: String,
        reason: String,
    },
    /// A stored value has a form of a later version.
    #[error("{place} was written by a later version of this program: run that version or a later one")]
    Newer {
        /// The table and the row.
        place: String,
    },
    #[error(
        "a later version of this program wrote the database: its tables have version {found}, and this program knows \
         only up to {known}: run that version or a later one"
    )]
    TooNew { found: i64, known: i64 },
}

impl StoreError {
    /// Returns `true` for errors that may pass by themselves: the database is unreachable, or the store is
    /// closing.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Uncertain(_) | Self::Closed)
    }

    /// Creates the error of a row of `table` that cannot be decoded.
    pub(crate) fn damaged_row(
        table: &str,
        row: impl std::fmt::Display,
        reason: impl std::fmt::Display,
    ) -> Self {
        Self::Damaged { place: format!("{table} {row}"), reason: reason.to_string() }
    }
}
