//! Errors of the client.

use std::path::PathBuf;
use std::time::Duration;

/// Why a call came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The service refused (section 7 of the interface): its status, and the code and message of the body.
    /// Both are empty for 401, which has no body.
    #[error("{}", refusal(*.status, .code, .message))]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The code for programs.
        code: String,
        /// The message for people.
        message: String,
        /// The delay before a retry, as the service requests it.
        retry_after: Option<Duration>,
    },
    /// The service could not be reached, or the exchange broke.
    #[error("the service could not be reached")]
    Transport(#[source] reqwest::Error),
    /// A local file could not be read or written.
    #[error("{}", .path.display())]
    File {
        /// The local file.
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// A response that does not match the interface.
    #[error("the service answered in an unknown form")]
    Form(#[source] serde_json::Error),
    /// The base address is no `http` or `https` address.
    #[error("{0:?} is no http or https address")]
    Address(String),
    /// The key holds characters that no key has.
    #[error("the key holds characters that no key has")]
    Key,
    /// The service sent more than this client takes at once.
    #[error("the service sent more than {limit_bytes} bytes at once")]
    TooLong {
        /// The bound that was passed.
        limit_bytes: usize,
    },
    /// The stream was lost and could not be taken up again.
    #[error("the stream was lost and not found again in {attempts} attempts")]
    StreamLost {
        /// The number of attempts in a row.
        attempts: u32,
    },
}

impl Error {
    /// The HTTP status, when the service answered with a refusal.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// The code of a refusal; empty for 401.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { code, .. } => Some(code),
            _ => None,
        }
    }

    /// Returns true if a retry of the same call may succeed.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Refused { status, .. } => *status == 429 || *status >= 500,
            Self::Transport(_) | Self::StreamLost { .. } => true,
            Self::File { .. } | Self::Form(_) | Self::Address(_) | Self::Key | Self::TooLong { .. } => false,
        }
    }
}

fn refusal(status: u16, code: &str, message: &str) -> String {
    match (status, message.is_empty()) {
        (401, true) => "the key is missing, wrong, revoked or without a licence (401)".to_owned(),
        (_, true) => format!("the service refused ({status})"),
        (_, false) => format!("{message} ({status} {code})"),
    }
}
