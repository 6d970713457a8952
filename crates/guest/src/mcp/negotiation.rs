//! How a server begins: which revision of the protocol both sides speak.
//!
//! ```text
//!   server/discover --+--> a stateless revision: nothing more is needed
//!                     +--> an error, or silence: initialize, notifications/initialized
//!                     +--> the server ends: it is started anew, and begins with initialize
//! ```

use std::time::Duration;

use ::mcp::{Answer, DISCOVER, HANDSHAKE_REVISIONS, Lifecycle, PIPES_REVISION};
use serde_json::Value;
use tokio::time::timeout;

use super::connection::{Connection, Timeouts, Unanswered};
use super::server::{START_TIMEOUT, TELL_TIMEOUT};

/// How long a server may take to say its revisions before a handshake is tried: some of older ones pass over what
/// they do not know. One that is slow to begin is still heard when it refuses the handshake.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
const OTHER_VERSION: &str = "it speaks another version of the protocol";

/// What a server and the client agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Agreement {
    pub(super) is_stateless: bool,
    pub(super) has_tools: bool,
    /// Whether changes of the list of tools have to be subscribed to.
    pub(super) subscribes: bool,
}

/// Why nothing was agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The server ended when it was asked for its revisions.
    EndedByProbe,
    /// The server ended.
    Ended,
    /// Something else.
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

/// Begins with a server: with a handshake at once where `shakes_hands`, else after it was asked for its revisions.
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

/// What the answer to [`DISCOVER`] agrees on; `None` when a handshake is needed.
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
    let begun = connection.request("initialize", ::mcp::initialize(), Timeouts::of(START_TIMEOUT)).await;
    let about = match begun {
        Ok(Answer::Result(about)) => about,
        Ok(Answer::Error(error)) => return Err(Refusal::Other(error.message)),
        Err(Unanswered::Late) => return Err(other("it does not begin")),
        Err(Unanswered::NotSent | Unanswered::Ended) => return Err(Refusal::Ended),
    };
    let version = about.get("protocolVersion").and_then(Value::as_str).unwrap_or("");
    if !HANDSHAKE_REVISIONS.contains(&version) && version != PIPES_REVISION {
        return Err(other(OTHER_VERSION));
    }
    let initialized = ::mcp::notification("notifications/initialized", &Value::Null);
    if !connection.notify(initialized, TELL_TIMEOUT).await {
        return Err(other("it does not read what it is told"));
    }
    let has_tools = about.pointer("/capabilities/tools").is_some_and(|tools| !tools.is_null());
    Ok(Agreement { is_stateless: false, has_tools, subscribes: false })
}
