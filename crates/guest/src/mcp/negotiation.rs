//! Negotiates the protocol revision with a server.
//!
//! ```text
//!   server/discover --+--> a stateless revision: ready
//!                     +--> an error, or a timeout: initialize, notifications/initialized
//!                     +--> the server exits: it is restarted with initialize
//! ```

use std::time::Duration;

use ::mcp::{DISCOVER, HANDSHAKE_REVISIONS, Lifecycle, PIPES_REVISION, RpcResponse};
use serde_json::Value;
use tokio::time::timeout;

use super::connection::{AnswerTimeouts, McpConnection, Unanswered};
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
pub(super) enum NegotiationError {
    /// The server exited on the discovery request.
    EndedByProbe,
    Ended,
    Other(String),
}

impl NegotiationError {
    pub(super) fn into_reason(self, connection: &McpConnection) -> String {
        match self {
            Self::EndedByProbe | Self::Ended => {
                connection.connection_end().map_or_else(|| "it ended".to_owned(), |ended| ended.why)
            }
            Self::Other(why) => why,
        }
    }
}

/// Negotiates with a server: with a handshake right away if `shakes_hands`, otherwise with a discovery first.
pub(super) async fn negotiate_protocol(
    connection: &McpConnection,
    shakes_hands: bool,
) -> Result<Agreement, NegotiationError> {
    if shakes_hands {
        return run_handshake(connection).await;
    }
    let discovered = connection.send_request(
        DISCOVER,
        ::mcp::discover_params(),
        AnswerTimeouts::from_duration(START_TIMEOUT),
    );
    tokio::pin!(discovered);
    match timeout(PROBE_TIMEOUT, &mut discovered).await {
        Ok(Ok(answer)) => match evaluate_discovery(connection, &answer)? {
            Some(agreement) => Ok(agreement),
            None => run_handshake(connection).await,
        },
        Ok(Err(Unanswered::Ended | Unanswered::NotSent)) => Err(NegotiationError::EndedByProbe),
        Ok(Err(Unanswered::Late)) => run_handshake(connection).await,
        Err(_) => match run_handshake(connection).await {
            Ok(agreement) => Ok(agreement),
            Err(refusal) => match timeout(Duration::ZERO, discovered).await {
                Ok(Ok(answer)) => evaluate_discovery(connection, &answer)?.ok_or(refusal),
                Ok(Err(_)) | Err(_) => Err(refusal),
            },
        },
    }
}

/// Evaluates the answer to [`DISCOVER`]; `None` if a handshake is required.
fn evaluate_discovery(
    connection: &McpConnection,
    answer: &RpcResponse,
) -> Result<Option<Agreement>, NegotiationError> {
    match ::mcp::parse_lifecycle(answer) {
        Some(Lifecycle::Stateless { revision, has_tools, notifies }) => {
            connection.set_revision(revision);
            Ok(Some(Agreement { is_stateless: true, has_tools, subscribes: notifies }))
        }
        Some(Lifecycle::Handshake) => Ok(None),
        None => Err(NegotiationError::Other(OTHER_VERSION.to_owned())),
    }
}

async fn run_handshake(connection: &McpConnection) -> Result<Agreement, NegotiationError> {
    let other = |why: &str| NegotiationError::Other(why.to_owned());
    let reply = connection
        .send_request("initialize", ::mcp::initialize_params(), AnswerTimeouts::from_duration(START_TIMEOUT))
        .await;
    let about = match reply {
        Ok(RpcResponse::Result(about)) => about,
        Ok(RpcResponse::Error(error)) => return Err(NegotiationError::Other(error.message)),
        Err(Unanswered::Late) => return Err(other("it does not start")),
        Err(Unanswered::NotSent | Unanswered::Ended) => return Err(NegotiationError::Ended),
    };
    let version = about.get("protocolVersion").and_then(Value::as_str).unwrap_or("");
    if !HANDSHAKE_REVISIONS.contains(&version) && version != PIPES_REVISION {
        return Err(other(OTHER_VERSION));
    }
    let initialized = ::mcp::encode_notification("notifications/initialized", &Value::Null);
    if !connection.send_notification(initialized, TELL_TIMEOUT).await {
        return Err(other("it does not read its input"));
    }
    let has_tools = about.pointer("/capabilities/tools").is_some_and(|tools| !tools.is_null());
    Ok(Agreement { is_stateless: false, has_tools, subscribes: false })
}
