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

use ::mcp::{Answer, DISCOVER, HANDSHAKE_REVISIONS, Lifecycle, STATELESS_REVISIONS};

use super::McpError;
use super::exchange::{Endpoint, Failure, ID_MAX_BYTES, Request, SESSION, Session, TELL_TIMEOUT, rejected};

/// The timeout of the discovery before a handshake is tried: some servers of older revisions never answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// The session with a server.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    current: Mutex<Option<Arc<Session>>>,
    /// Held by the one caller that negotiates.
    negotiation: tokio::sync::Mutex<()>,
    /// True if the last negotiation used a handshake, so that discovery is skipped.
    shakes_hands: AtomicBool,
}

impl Sessions {
    /// Returns the session and negotiates one if necessary. Callers must set a timeout.
    pub(super) async fn get(&self, endpoint: &Endpoint) -> Result<Arc<Session>, McpError> {
        if let Some(session) = self.current().clone() {
            return Ok(session);
        }
        let _negotiates = self.negotiation.lock().await;
        if let Some(session) = self.current().clone() {
            return Ok(session);
        }
        let session = if self.shakes_hands.load(Ordering::SeqCst) {
            None
        } else {
            discover(endpoint).await.map_err(of_begin)?
        };
        let session = match session {
            Some(session) => session,
            None => {
                let result = handshake(endpoint).await;
                self.shakes_hands.store(result.is_ok(), Ordering::SeqCst);
                result?
            }
        };
        let session = Arc::new(session);
        *self.current() = Some(session.clone());
        Ok(session)
    }

    /// Drops a session that the server no longer knows.
    pub(super) fn expire(&self, session: &Arc<Session>) {
        let mut current = self.current();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, session)) {
            *current = None;
        }
    }

    /// Ends the session.
    pub(super) async fn close(&self, endpoint: &Endpoint) {
        let session = self.current().take();
        if let Some(request) = session.and_then(|session| endpoint.ending(&session)) {
            // Servers need not support ending a session.
            let _ended = timeout(TELL_TIMEOUT, request.send()).await;
        }
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Option<Arc<Session>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks a server for its revisions; `None` if it requires a handshake.
async fn discover(endpoint: &Endpoint) -> Result<Option<Session>, Failure> {
    let probe = Session { id: None, revision: STATELESS_REVISIONS[0], is_stateless: true, has_tools: false };
    let request = Request::new(DISCOVER, serde_json::json!({}));
    let answer = match timeout(PROBE_TIMEOUT, endpoint.exchange(Some(&probe), &request)).await {
        Ok(Ok((answer, _))) => answer,
        Ok(Err(Failure::Refused(error))) => Answer::Error(error),
        // Without a connection, or if the server rejects the service, a handshake would fail, too.
        Ok(Err(failure @ Failure::Error(McpError::Unavailable { .. } | McpError::Rejected { .. }))) => {
            return Err(failure);
        }
        Ok(Err(_)) | Err(_) => return Ok(None),
    };
    match ::mcp::lifecycle(&answer) {
        Some(Lifecycle::Stateless { revision, has_tools, notifies: _ }) => {
            Ok(Some(Session { id: None, revision, is_stateless: true, has_tools }))
        }
        Some(Lifecycle::Handshake) => Ok(None),
        None => Err(other_version().into()),
    }
}

async fn handshake(endpoint: &Endpoint) -> Result<Session, McpError> {
    let request = Request::new("initialize", ::mcp::initialize());
    let (answer, headers) = endpoint.exchange(None, &request).await.map_err(of_begin)?;
    let answer = endpoint.result(answer)?;
    let version = answer.get("protocolVersion").and_then(Value::as_str).unwrap_or("");
    let revision = HANDSHAKE_REVISIONS.into_iter().find(|revision| *revision == version);
    let revision = revision.ok_or_else(other_version)?;
    let id = headers.get(SESSION).filter(|id| id.len() <= ID_MAX_BYTES).cloned().map(|mut id| {
        id.set_sensitive(true);
        id
    });
    let has_tools = answer.pointer("/capabilities/tools").is_some_and(|tools| !tools.is_null());
    let session = Session { id, revision, is_stateless: false, has_tools };
    let sent =
        endpoint.notify(&session, &::mcp::notification("notifications/initialized", &Value::Null)).await;
    if let Err(error) = sent {
        // The session will not be used.
        endpoint.closer.close(endpoint.ending(&session));
        return Err(error);
    }
    Ok(session)
}

/// Converts a failure of the negotiation, which executes nothing.
fn of_begin(failure: Failure) -> McpError {
    match failure {
        Failure::Error(McpError::Cut { reason }) => McpError::Unavailable { reason, retry_after: None },
        Failure::Error(error) => error,
        Failure::Expired | Failure::Refused(_) => rejected("no MCP server at this URL"),
    }
}

fn other_version() -> McpError {
    rejected("it speaks another version of the protocol")
}
