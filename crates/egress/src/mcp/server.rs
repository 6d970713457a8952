//! One server: its tool list and its calls.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::citation::PassagePlace;
use reqwest::Url;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use ::mcp::{HEADER_MISMATCH, McpTool, PAGES_MAX, SkippedTool, ToolList, offered_name};

use super::exchange::{
    CALL_TIMEOUT, Endpoint, ExchangeFailure, Headers, McpRequest, no_protocol, server_unavailable_error,
};
use super::session::McpSessions;
use super::session_close::SessionCloser;
use super::{McpError, McpOutput, McpServerConfig, mirror};
use crate::circuit_breaker::CircuitBreaker;
use crate::connections::OutgoingConnections;

/// The timeout of negotiating a session and listing the tools.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// The default time that a tool list stays fresh, and the bounds of the time that a server specifies.
const LIST_FRESH: Duration = Duration::from_mins(5);
const LIST_FRESH_MIN: Duration = Duration::from_secs(10);
const LIST_FRESH_MAX: Duration = Duration::from_hours(1);
/// The number of concurrent calls per server.
const CALLS_MAX: usize = 16;

/// A server that the operator grants.
#[derive(Debug)]
pub(super) struct HttpMcpServer {
    config: McpServerConfig,
    endpoint: Endpoint,
    sessions: McpSessions,
    list: Mutex<Option<CachedToolList>>,
    /// The tools that the last list had to skip, which were logged.
    skipped: Mutex<Vec<SkippedTool>>,
    /// Serializes listing: one task lists the tools, others wait for its result.
    listing: Semaphore,
    calls: Semaphore,
    rest: CircuitBreaker,
}

/// The tools of a server and their expiry.
#[derive(Debug, Clone)]
struct CachedToolList {
    tools: Arc<[McpTool]>,
    fresh_until: Instant,
}

impl HttpMcpServer {
    pub(super) fn new(
        config: McpServerConfig,
        url: Url,
        headers: Headers,
        connections: OutgoingConnections,
        closer: SessionCloser,
    ) -> Self {
        Self {
            config,
            endpoint: Endpoint::new(url, headers, connections, closer),
            sessions: McpSessions::default(),
            list: Mutex::default(),
            skipped: Mutex::default(),
            listing: Semaphore::new(1),
            calls: Semaphore::new(CALLS_MAX),
            rest: CircuitBreaker::default(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.config.name
    }

    pub(super) fn is_repeatable(&self, tool: &str) -> bool {
        self.config.read_only.iter().any(|original| offered_name(self.name(), original) == tool)
    }

    /// Returns the granted tools.
    pub(super) async fn list_tools(&self) -> Result<Arc<[McpTool]>, McpError> {
        let _turn = self.listing.acquire().await.map_err(|_| server_unavailable_error("it is closed"))?;
        if let Some(list) = self.fresh_tools() {
            return Ok(list);
        }
        self.check_not_paused()?;
        // Discarded with the announcement of its change, because the caller may go before the new list is there.
        *lock_ignoring_poison(&self.list) = None;
        self.endpoint.list_changed.store(false, Ordering::SeqCst);
        let listed = timeout(LIST_TIMEOUT, self.fetch_tool_list()).await;
        match listed.unwrap_or_else(|_| Err(server_unavailable_error("timeout"))) {
            Ok(list) => {
                self.rest.record_success();
                let tools = list.tools.clone();
                *lock_ignoring_poison(&self.list) = Some(list);
                Ok(tools)
            }
            Err(error) => {
                tracing::warn!(server = self.name(), %error, "MCP tool discovery failed");
                self.rest.record_failure(requested_pause(&error));
                // Listing executes nothing.
                Err(match error {
                    McpError::Cut { reason } => McpError::Unavailable { reason, retry_after: None },
                    other => other,
                })
            }
        }
    }

    fn fresh_tools(&self) -> Option<Arc<[McpTool]>> {
        let list = lock_ignoring_poison(&self.list);
        let CachedToolList { tools, fresh_until } = list.as_ref()?;
        let holds = Instant::now() < *fresh_until && !self.endpoint.list_changed.load(Ordering::SeqCst);
        holds.then(|| tools.clone())
    }

    async fn fetch_tool_list(&self) -> Result<CachedToolList, McpError> {
        let mut listed = ToolList::default();
        let mut cursor: Option<String> = None;
        let mut fresh = LIST_FRESH_MAX;
        let mut is_said = false;
        for _ in 0..PAGES_MAX {
            if !self.sessions.get_or_negotiate(&self.endpoint).await?.has_tools {
                break;
            }
            let params = cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
            let page = self
                .send_request(McpRequest::new("tools/list", params))
                .await
                .map_err(|failure| self.to_mcp_error(failure))?;
            if let Some(time) = ::mcp::time_to_live(&page) {
                (fresh, is_said) = (fresh.min(time), true);
            }
            cursor = ::mcp::tools_of_page(self.name(), &page, |tool| self.is_granted(tool), &mut listed)
                .map_err(|::mcp::NoPage| no_protocol())?;
            if cursor.is_none() {
                break;
            }
        }
        if self.sessions.get_or_negotiate(&self.endpoint).await?.is_stateless {
            // A tool must not be offered if the headers that it requires cannot be built.
            listed.skip_if(|tool| {
                mirror::mirrored_argument_headers(&tool_schema(tool), None)
                    .err()
                    .map(|error| error.to_string())
            });
        }
        let ToolList { tools, skipped } = listed;
        for SkippedTool { name, reason } in self.record_skipped(skipped) {
            tracing::warn!(server = self.name(), tool = name, reason, "MCP tool skipped");
        }
        let fresh = if is_said { fresh.max(LIST_FRESH_MIN) } else { LIST_FRESH };
        Ok(CachedToolList { tools: tools.into(), fresh_until: Instant::now() + fresh })
    }

    /// Records the skipped tools and returns those that the list before did not have, so that each is logged once.
    fn record_skipped(&self, skipped: Vec<SkippedTool>) -> Vec<SkippedTool> {
        let before = std::mem::replace(&mut *lock_ignoring_poison(&self.skipped), skipped.clone());
        skipped.into_iter().filter(|tool| !before.contains(tool)).collect()
    }

    fn is_granted(&self, tool: &str) -> bool {
        self.config.tools.as_ref().is_none_or(|granted| granted.iter().any(|one| one == tool))
    }

    /// Calls the tool that is offered under this name.
    pub(super) async fn call_tool(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<McpOutput, McpError> {
        let mut called = self.call_once(tool, &arguments).await?;
        // The call was rejected and not executed: the schema's header annotations changed since it was listed.
        if matches!(&called, Err(ExchangeFailure::Refused(error)) if error.code == HEADER_MISMATCH) {
            self.endpoint.list_changed.store(true, Ordering::SeqCst);
            called = self.call_once(tool, &arguments).await?;
        }
        let called = called.map_err(|failure| self.to_mcp_error(failure));
        match &called {
            Ok(_) | Err(McpError::Failed { .. }) => self.rest.record_success(),
            Err(McpError::Unavailable { .. } | McpError::Cut { .. }) => {
                self.rest.record_failure(called.as_ref().err().and_then(requested_pause))
            }
            Err(McpError::Rejected { .. } | McpError::UnknownTool | McpError::Arguments) => {}
        }
        // The call was executed although its result is malformed.
        let strange = || McpError::Failed { message: "its response violates the protocol".to_owned() };
        let mut output = ::mcp::parse_output(&called?, None).ok_or_else(strange)?;
        output.text = self.endpoint.redact_secrets(&output.text);
        for passage in &mut output.passages {
            passage.text = self.endpoint.redact_secrets(&passage.text);
            if let PassagePlace::Web { url, title } = &mut passage.place {
                (*url, *title) = (self.endpoint.redact_secrets(url), self.endpoint.redact_secrets(title));
            }
        }
        Ok(output)
    }

    /// Sends a call once a slot is free. The outer error means that it was not sent.
    async fn call_once(
        &self,
        tool: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Result<Value, ExchangeFailure>, McpError> {
        let tools = self.list_tools().await?;
        let tool = tools.iter().find(|one| one.spec.name == tool).ok_or(McpError::UnknownTool)?;
        self.check_not_paused()?;
        let waited = timeout(CALL_TIMEOUT, self.calls.acquire()).await;
        let Ok(Ok(_turn)) = waited else { return Err(server_unavailable_error("too many concurrent calls")) };
        let params = json!({ "name": tool.original, "arguments": arguments });
        // A wrongly annotated tool is not listed, unless the server's revision has no such headers.
        let mirrored = mirror::mirrored_argument_headers(&tool_schema(tool), params.get("arguments"))
            .unwrap_or_default();
        Ok(self.send_request(McpRequest { method: "tools/call", params, mirrored }).await)
    }

    fn check_not_paused(&self) -> Result<(), McpError> {
        self.rest.remaining_pause().map_or(Ok(()), |left| {
            let reason = "it failed recently and is paused".to_owned();
            Err(McpError::Unavailable { reason, retry_after: Some(left) })
        })
    }

    /// Sends a request within a session; repeats it once in a new session if that has expired.
    async fn send_request(&self, request: McpRequest<'_>) -> Result<Value, ExchangeFailure> {
        for _ in 0..2 {
            let session = self.sessions.get_or_negotiate(&self.endpoint).await?;
            match self.endpoint.exchange_request(Some(&session), &request).await {
                Ok((answer, _)) => return Ok(self.endpoint.answer_to_result(answer)?),
                Err(ExchangeFailure::Expired) => self.sessions.expire_session(&session),
                Err(ExchangeFailure::Refused(error)) if error.code == ::mcp::UNSUPPORTED_REVISION => {
                    self.sessions.expire_session(&session);
                }
                Err(failure) => return Err(failure),
            }
        }
        Err(server_unavailable_error("its sessions expire immediately").into())
    }

    /// Converts a failure to an error for the caller.
    fn to_mcp_error(&self, failure: ExchangeFailure) -> McpError {
        match failure {
            ExchangeFailure::Error(error) => error,
            ExchangeFailure::Refused(error) => {
                McpError::Failed { message: self.endpoint.redact_secrets(&error.message) }
            }
            ExchangeFailure::Expired => server_unavailable_error("its sessions expire immediately"),
        }
    }

    pub(super) async fn close_session(&self) {
        self.sessions.close_session(&self.endpoint).await;
    }
}

/// Parses the schema of a tool, which was validated when it was listed.
fn tool_schema(tool: &McpTool) -> Value {
    serde_json::from_str(&tool.spec.schema).unwrap_or_default()
}

/// Returns the pause that a server requested.
fn requested_pause(error: &McpError) -> Option<Duration> {
    match error {
        McpError::Unavailable { retry_after, .. } => *retry_after,
        _ => None,
    }
}

fn lock_ignoring_poison<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
