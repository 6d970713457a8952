//! Errors of the client.

use std::path::PathBuf;
use std::time::Duration;

/// An error of a call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The service rejected the call (section 7 of the interface). Code and message are empty for 401, which
    /// has no body.
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
    #[error("{}", unreachable(.0))]
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
    #[error("the service sent a response that this client cannot read")]
    Form(#[source] serde_json::Error),
    /// The base address is not an `http` or `https` URL.
    #[error("invalid address {0:?}: use an http or https URL such as http://127.0.0.1:8080")]
    Address(String),
    /// The key contains invalid characters.
    #[error("the key contains invalid characters: use letters, digits and hyphens")]
    Key,
    /// A file of certificates without any.
    #[error("the file contains no certificate: use PEM format")]
    Certificates,
    /// The response exceeds a limit of this client.
    #[error("the response exceeds the limit of {limit_bytes} bytes")]
    TooLong {
        /// The exceeded limit.
        limit_bytes: usize,
    },
    /// The stream was lost and could not be resumed.
    #[error("the stream was lost and could not be resumed in {attempts} attempts")]
    StreamLost {
        /// The number of attempts in a row.
        attempts: u32,
    },
}

impl Error {
    /// Returns the HTTP status of a rejected call.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Returns the code of a rejected call; empty for 401.
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
            Self::File { .. }
            | Self::Form(_)
            | Self::Address(_)
            | Self::Key
            | Self::Certificates
            | Self::TooLong { .. } => false,
        }
    }
}

/// Names the service that could not be reached, by its address without the path.
fn unreachable(error: &reqwest::Error) -> String {
    match error.url() {
        Some(url) => format!("the service at {} could not be reached", url.origin().ascii_serialization()),
        None => "the service could not be reached".to_owned(),
    }
}

fn refusal(status: u16, code: &str, message: &str) -> String {
    match (status, message.is_empty()) {
        (401, true) => {
            "the key is missing, wrong, revoked or expired, or the account has no licence (401)".to_owned()
        }
        (300..=399, true) => format!("the service's address redirects ({status}): use the new address"),
        (_, true) => format!("the service refused the request ({status})"),
        (_, false) => format!("{message} ({status} {code})"),
    }
}
