//! Classifies errors of the server.

use std::error::Error;

use tokio_postgres::error::{DbError, SqlState};

use crate::error::StoreError;

#[derive(Debug)]
pub(crate) enum PgError {
    /// A conflict with another transaction. Running the same work again can succeed.
    Conflict(String),
    /// The connection is unusable.
    Lost(String),
    /// An error for the caller.
    Fatal(StoreError),
}

impl PgError {
    /// Creates the error for a connection that did not answer in time.
    pub(super) fn from_timeout() -> Self {
        Self::Lost("the server does not answer".to_owned())
    }

    /// Returns the error for the caller after the last attempt.
    pub(crate) fn into_error(self) -> StoreError {
        match self {
            Self::Conflict(reason) | Self::Lost(reason) => StoreError::Engine(reason),
            Self::Fatal(error) => error,
        }
    }
}

impl From<StoreError> for PgError {
    fn from(error: StoreError) -> Self {
        Self::Fatal(error)
    }
}

impl From<tokio_postgres::Error> for PgError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(error) => of_server(error),
            // Parameters are checked earlier, so any other error concerns the connection or its protocol.
            None => Self::Lost(format_error_chain(&error)),
        }
    }
}

fn of_server(error: &DbError) -> PgError {
    let code = error.code();
    let message = || format!("{} ({})", error.message(), code.code());
    if [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code) {
        return PgError::Conflict(message());
    }
    // Class 08 is connection errors; 57P0x is a server that shuts down, has crashed, starts, or ends an idle
    // session.
    if code.code().starts_with("08")
        || code.code().starts_with("57P0")
        || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
    {
        return PgError::Lost(message());
    }
    PgError::Fatal(match code.code() {
        "53100" => StoreError::Full,
        integrity if integrity.starts_with("23") => StoreError::Constraint(
            error.constraint().map_or_else(|| error.message().to_owned(), str::to_owned),
        ),
        _ => StoreError::Engine(message()),
    })
}

/// Formats an error with its causes. By itself it only names its kind.
pub(super) fn format_error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
