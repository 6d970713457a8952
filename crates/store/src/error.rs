//! What can go wrong below an operation: the engine, the disk, a damaged row.

/// A failure that is no refusal: nobody asked for anything wrong. But for [`StoreError::Uncertain`], the
/// operation did not happen.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no room left for the database.
    #[error("the database is full")]
    Full,
    /// The disk, the file or the engine failed.
    #[error("the database failed: {0}")]
    Engine(String),
    /// The database server could not be reached for longer than the store waits.
    #[error("the database is not reachable: {0}")]
    Unreachable(String),
    /// The connection to the database server broke while it committed, and whether it did could not be found
    /// out. The operation may have happened.
    #[error("whether the database committed is unknown: {0}")]
    Uncertain(String),
    /// Another process serves the database.
    #[error("another service works with this database")]
    Taken,
    /// Something is where a database is to be restored.
    #[error("there is a database already, and a restore replaces nothing")]
    NotEmpty,
    /// A constraint of the schema was broken. Operations ask before they write, so this tells of a value
    /// that the edge should have refused, or of a mistake in here.
    #[error("the constraint {0} was broken")]
    Constraint(String),
    /// A value breaks a rule that the caller has to keep.
    #[error("a rule was broken: {0}")]
    Rule(&'static str),
    /// A statement was run, or the work was called done, after another statement of it had failed.
    #[error("the transaction had failed before")]
    Poisoned,
    /// The transaction ended before its work was done.
    #[error("the transaction was lost")]
    TransactionLost,
    /// The work panicked.
    #[error("the work on the database panicked")]
    Panicked,
    /// The store is closed, or is being closed.
    #[error("the store is closed")]
    Closed,
    /// What is stored can't be read.
    #[error("{place} is damaged: {reason}")]
    Damaged {
        /// The table and the row.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The database was written by a later version of this program.
    #[error(
        "a later version of this program wrote the database: its tables have version {found}, and this program knows \
         none after {known}; run that program, or a later one"
    )]
    TooNew {
        /// The newest migration in the database.
        found: i64,
        /// The newest migration that this program knows.
        known: i64,
    },
}

impl StoreError {
    /// Whether it may go by itself: the database cannot be reached just now, or the store is being closed.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Uncertain(_) | Self::Closed)
    }

    /// The error of a row of `table` that can't be read.
    pub(crate) fn damaged(table: &str, row: impl std::fmt::Display, reason: impl std::fmt::Display) -> Self {
        Self::Damaged { place: format!("{table} {row}"), reason: reason.to_string() }
    }
}
