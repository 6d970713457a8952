//! Negotiates the protocol revision with a server.
//!
//! ```text
//!            server/discover
//!   (none) --+--------------------------> stateless: no session
//!      ^     +--> rejection, timeout --> initialize, initialized --> session
//!      |                                                                 |
//!      +------ 404: expired; 4xx: the server speaks another revision -----+   once per request, which was not run
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use ::mcp::{DISCOVER, HANDSHAKE_REVISIONS, Lifecycle, RpcResponse, STATELESS_REVISIONS};

use super::McpError;
use super::exchange::{
    Endpoint, ExchangeFailure, ID_MAX_BYTES, McpRequest, McpSession, SESSION, rejected_error,
};
use super::session_close::TELL_TIMEOUT;

/// The timeout of the discovery before a handshake is tried: some servers of older revisions never answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// The session with a server.
#[derive(Debug, Default)]
pub(super) struct McpSessions {
    current: Mutex<Option<Arc<McpSession>>>,
    /// Held by the one caller that negotiates.
    negotiation: tokio::sync::Mutex<()>,
    /// True if the last negotiation used a handshake, so that discovery is skipped.
    shakes_hands: AtomicBool,
}

impl McpSessions {
    /// Returns the session and negotiates one if necessary. Callers must set a timeout.
    pub(super) async fn get_or_negotiate(&self, endpoint: &Endpoint) -> Result<Arc<McpSession>, McpError> {
        if let Some(session) = self.lock_current().clone() {
            return Ok(session);
        }
        let _negotiates = self.negotiation.lock().await;
        if let Some(session) = self.lock_current().clone() {
            return Ok(session);
        }
        let session = if self.shakes_hands.load(Ordering::SeqCst) {
            None
        } else {
            discover_revision(endpoint).await.map_err(of_begin)?
        };
        let session = match session {
            Some(session) => session,
            None => {
                let result = initialize_session(endpoint).await;
                self.shakes_hands.store(result.is_ok(), Ordering::SeqCst);
                result?
            }
        };
        let session = Arc::new(session);
        *self.lock_current() = Some(session.clone());
        Ok(session)
    }

    /// Drops a session that the server no longer knows.
    pub(super) fn expire_session(&self, session: &Arc<McpSession>) {
        let mut current = self.lock_current();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, session)) {
            *current = None;
        }
    }

    pub(super) async fn close_session(&self, endpoint: &Endpoint) {
        let session = self.lock_current().take();
        if let Some(request) = session.and_then(|session| endpoint.build_end_request(&session)) {
            // Servers need not support ending a session.
            let _ended = timeout(TELL_TIMEOUT, request.send()).await;
        }
    }

    fn lock_current(&self) -> std::sync::MutexGuard<'_, Option<Arc<McpSession>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks a server for its revisions; `None` if it requires a handshake.
async fn discover_revision(endpoint: &Endpoint) -> Result<Option<McpSession>, ExchangeFailure> {
    let probe =
        McpSession { id: None, revision: STATELESS_REVISIONS[0], is_stateless: true, has_tools: false };
    let request = McpRequest::new(DISCOVER, serde_json::json!({}));
    let answer = match timeout(PROBE_TIMEOUT, endpoint.exchange_request(Some(&probe), &request)).await {
        Ok(Ok((answer, _))) => answer,
        Ok(Err(ExchangeFailure::Refused(error))) => RpcResponse::Error(error),
        // Without a connection, or if the server rejects the service, a handshake would fail as well.
        Ok(Err(
            failure @ ExchangeFailure::Error(McpError::Unavailable { .. } | McpError::Rejected { .. }),
        )) => {
            return Err(failure);
        }
        Ok(Err(_)) | Err(_) => return Ok(None),
    };
    match ::mcp::parse_lifecycle(&answer) {
        Some(Lifecycle::Stateless { revision, has_tools, notifies: _ }) => {
            Ok(Some(McpSession { id: None, revision, is_stateless: true, has_tools }))
        }
        Some(Lifecycle::Handshake) => Ok(None),
        None => Err(other_version().into()),
    }
}

async fn initialize_session(endpoint: &Endpoint) -> Result<McpSession, McpError> {
    let request = McpRequest::new("initialize", ::mcp::initialize_params());
    let (answer, headers) = endpoint.exchange_request(None, &request).await.map_err(of_begin)?;
    let answer = endpoint.answer_to_result(answer)?;
    let version = answer.get("protocolVersion").and_then(Value::as_str).unwrap_or("");
    let revision = HANDSHAKE_REVISIONS.into_iter().find(|revision| *revision == version);
    let revision = revision.ok_or_else(other_version)?;
    let id = headers.get(SESSION).filter(|id| id.len() <= ID_MAX_BYTES).cloned().map(|mut id| {
        id.set_sensitive(true);
        id
    });
    let has_tools = answer.pointer("/capabilities/tools").is_some_and(|tools| !tools.is_null());
    let session = McpSession { id, revision, is_stateless: false, has_tools };
    let sent = endpoint
        .send_notification(&session, &::mcp::encode_notification("notifications/initialized", &Value::Null))
        .await;
    if let Err(error) = sent {
        // The session will not be used.
        endpoint.closer.send_in_background(endpoint.build_end_request(&session));
        return Err(error);
    }
    Ok(session)
}

/// Converts a failure of the negotiation, which executes nothing.
fn of_begin(failure: ExchangeFailure) -> McpError {
    match failure {
        ExchangeFailure::Error(McpError::Cut { reason }) => {
            McpError::Unavailable { reason, retry_after: None }
        }
        ExchangeFailure::Error(error) => error,
        ExchangeFailure::Expired | ExchangeFailure::Refused(_) => rejected_error("no MCP server at this URL"),
    }
}

fn other_version() -> McpError {
    rejected_error("it speaks another version of the protocol")
}
