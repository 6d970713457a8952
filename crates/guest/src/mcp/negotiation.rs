//! Negotiates the protocol revision with a server.
//!
//! ```text
//!   server/discover --+--> a stateless revision: ready
//!                     +--> an error, or a timeout: initialize, notifications/initialized
//!                     +--> the server exits: it is restarted with initialize
//! ```

use std::time::Duration;

use ::mcp::{Answer, DISCOVER, HANDSHAKE_REVISIONS, Lifecycle, PIPES_REVISION};
use serde_json::Value;
use tokio::time::timeout;

use super::connection::{Connection, Timeouts, Unanswered};
use super::server::{START_TIMEOUT, TELL_TIMEOUT};

/// The timeout of the discovery before a handshake is tried: some servers of older revisions ignore unknown
/// requests. A slow server is still heard if it rejects the handshake.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
const OTHER_VERSION: &str = "it speaks another version of the protocol";

/// The outcome of the negotiation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Agreement {
    pub(super) is_stateless: bool,
    pub(super) has_tools: bool,
    /// True if changes of the tool list require a subscription.
    pub(super) subscribes: bool,
}

/// The reason why the negotiation failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The server exited on the discovery request.
    EndedByProbe,
    /// The server exited.
    Ended,
    /// Any other reason.
    Other(String),
}

impl Refusal {
    pub(super) fn reason(self, connection: &Connection) -> String {
        match self {
            Self::EndedByProbe | Self::Ended => {
                connection.ended().map_or_else(|| "it ended".to_owned(), |ended| ended.why)
            }
            Self::Other(why) => why,
        }
    }
}

/// Negotiates with a server: with a handshake right away if `shakes_hands`, otherwise with a discovery first.
pub(super) async fn negotiate(connection: &Connection, shakes_hands: bool) -> Result<Agreement, Refusal> {
    if shakes_hands {
        return handshake(connection).await;
    }
    let discovered = connection.request(DISCOVER, ::mcp::discover(), Timeouts::of(START_TIMEOUT));
    tokio::pin!(discovered);
    match timeout(PROBE_TIMEOUT, &mut discovered).await {
        Ok(Ok(answer)) => match agreed(connection, &answer)? {
            Some(agreement) => Ok(agreement),
            None => handshake(connection).await,
        },
        Ok(Err(Unanswered::Ended | Unanswered::NotSent)) => Err(Refusal::EndedByProbe),
        Ok(Err(Unanswered::Late)) => handshake(connection).await,
        Err(_) => match handshake(connection).await {
            Ok(agreement) => Ok(agreement),
            Err(refusal) => match timeout(Duration::ZERO, discovered).await {
                Ok(Ok(answer)) => agreed(connection, &answer)?.ok_or(refusal),
                Ok(Err(_)) | Err(_) => Err(refusal),
            },
        },
    }
}

/// Evaluates the answer to [`DISCOVER`]; `None` if a handshake is required.
fn agreed(connection: &Connection, answer: &Answer) -> Result<Option<Agreement>, Refusal> {
    match ::mcp::lifecycle(answer) {
        Some(Lifecycle::Stateless { revision, has_tools, notifies }) => {
            connection.set_revision(revision);
            Ok(Some(Agreement { is_stateless: true, has_tools, subscribes: notifies }))
        }
        Some(Lifecycle::Handshake) => Ok(None),
        None => Err(Refusal::Other(OTHER_VERSION.to_owned())),
    }
}

async fn handshake(connection: &Connection) -> Result<Agreement, Refusal> {
    let other = |why: &str| Refusal::Other(why.to_owned());
    let reply = connection.request("initialize", ::mcp::initialize(), Timeouts::of(START_TIMEOUT)).await;
    let about = match reply {
        Ok(Answer::Result(about)) => about,
        Ok(Answer::Error(error)) => return Err(Refusal::Other(error.message)),
        Err(Unanswered::Late) => return Err(other("it does not start")),
        Err(Unanswered::NotSent | Unanswered::Ended) => return Err(Refusal::Ended),
    };
    let version = about.get("protocolVersion").and_then(Value::as_str).unwrap_or("");
    if !HANDSHAKE_REVISIONS.contains(&version) && version != PIPES_REVISION {
        return Err(other(OTHER_VERSION));
    }
    let initialized = ::mcp::notification("notifications/initialized", &Value::Null);
    if !connection.notify(initialized, TELL_TIMEOUT).await {
        return Err(other("it does not read its input"));
    }
    let has_tools = about.pointer("/capabilities/tools").is_some_and(|tools| !tools.is_null());
    Ok(Agreement { is_stateless: false, has_tools, subscribes: false })
}
