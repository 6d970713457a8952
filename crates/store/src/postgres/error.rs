//! What an error of the server means for the work.

use std::error::Error;

use tokio_postgres::error::{DbError, SqlState};

use crate::error::StoreError;

/// What went wrong with a statement.
#[derive(Debug)]
pub(crate) enum PgError {
    /// Another transaction was in the way: the same work can succeed if it runs again.
    Conflict(String),
    /// The connection is of no use any more.
    Lost(String),
    /// The caller has to be told.
    Told(StoreError),
}

impl PgError {
    /// The connection did not answer in time.
    pub(super) fn silent() -> Self {
        Self::Lost("the server does not answer".to_owned())
    }

    /// The error to tell when nothing more is tried.
    pub(crate) fn into_error(self) -> StoreError {
        match self {
            Self::Conflict(reason) | Self::Lost(reason) => StoreError::Engine(reason),
            Self::Told(error) => error,
        }
    }
}

impl From<StoreError> for PgError {
    fn from(error: StoreError) -> Self {
        Self::Told(error)
    }
}

impl From<tokio_postgres::Error> for PgError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(told) => of_server(told),
            // What is bound is checked before, so all else is the connection or the protocol on it.
            None => Self::Lost(reason(&error)),
        }
    }
}

fn of_server(error: &DbError) -> PgError {
    let code = error.code();
    let told = || format!("{} ({})", error.message(), code.code());
    if [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code) {
        return PgError::Conflict(told());
    }
    // Class 08 are connections, 57P0x a server that shuts down, has crashed, starts or ends an idle session.
    if code.code().starts_with("08")
        || code.code().starts_with("57P0")
        || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
    {
        return PgError::Lost(told());
    }
    PgError::Told(match code.code() {
        "53100" => StoreError::Full,
        integrity if integrity.starts_with("23") => StoreError::Constraint(
            error.constraint().map_or_else(|| error.message().to_owned(), str::to_owned),
        ),
        _ => StoreError::Engine(told()),
    })
}

/// The error with its causes: by itself it only says which kind it is.
pub(super) fn reason(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
