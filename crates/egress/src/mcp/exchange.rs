//! Exchanges requests and answers with one server over streamable HTTP; answers arrive as JSON or in an event
//! stream, within bounds.
//!
//! Revisions with a handshake have sessions, resumable streams and cancellation notifications. In stateless
//! revisions each request is independent: closing its stream cancels it, and a broken stream is lost.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{RequestBuilder, Response, StatusCode, Url};
use serde_json::Value;
use tokio::time::timeout;

use ::mcp::{McpMessage, REPLIES_MAX, RpcError, RpcResponse};

use super::session_close::{PendingRequest, SessionCloser, TELL_TIMEOUT};
use super::sse::McpSseParser;
use super::{McpError, mirror};
use crate::Secret;
use crate::connections::{self, OutgoingConnections};

/// The timeout of a call.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_mins(2);
/// The maximum response of one exchange, in bytes.
const ANSWER_MAX_BYTES: usize = 4 * 1024 * 1024;
/// The longest body of a rejection that is read, in bytes; of a longer one only the status is used.
const REFUSAL_MAX_BYTES: usize = 64 * 1024;
/// The maximum number of times that a broken stream is resumed.
const RESUMES_MAX: usize = 3;
/// The maximum delay before a stream is resumed, and the default delay.
const RESUME_WAIT_MAX: Duration = Duration::from_secs(5);
const RESUME_WAIT: Duration = Duration::from_secs(1);
/// The longest id of a session or of an event, in bytes.
pub(super) const ID_MAX_BYTES: usize = 1024;

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// Headers set by the operator, each with the secret that must be redacted.
pub(super) type Headers = Vec<(HeaderName, HeaderValue, Secret)>;

/// The endpoint of a server.
#[derive(Debug)]
pub(super) struct Endpoint {
    url: Url,
    headers: Headers,
    connections: OutgoingConnections,
    numbers: AtomicU64,
    /// True if the server has announced a change of its tool list.
    pub(super) list_changed: AtomicBool,
    pub(super) closer: SessionCloser,
}

/// The result of negotiating with a server.
#[derive(Debug, PartialEq)]
pub(super) struct McpSession {
    /// The session id, if the server assigned one.
    pub(super) id: Option<HeaderValue>,
    pub(super) revision: &'static str,
    /// True if each request is independent, without a session.
    pub(super) is_stateless: bool,
    pub(super) has_tools: bool,
}

/// The reason why an exchange ended without an answer.
#[derive(Debug)]
pub(super) enum ExchangeFailure {
    /// The session is unknown to the server, or the server does not speak its revision; the request was not
    /// executed.
    Expired,
    /// The server rejected a request of a stateless revision with this error and did not execute it.
    Refused(RpcError),
    /// An error for the caller. Nothing was executed, unless it is [`McpError::Cut`].
    Error(McpError),
}

impl From<McpError> for ExchangeFailure {
    fn from(error: McpError) -> Self {
        Self::Error(error)
    }
}

#[derive(Debug)]
pub(super) struct McpRequest<'a> {
    pub(super) method: &'a str,
    pub(super) params: Value,
    /// Additional headers of the request, in stateless revisions.
    pub(super) mirrored: HeaderMap,
}

impl<'a> McpRequest<'a> {
    pub(super) fn new(method: &'a str, params: Value) -> Self {
        Self { method, params, mirrored: HeaderMap::new() }
    }
}

impl Endpoint {
    pub(super) fn new(
        url: Url,
        headers: Headers,
        connections: OutgoingConnections,
        closer: SessionCloser,
    ) -> Self {
        Self {
            url,
            headers,
            connections,
            numbers: AtomicU64::new(1),
            list_changed: AtomicBool::new(false),
            closer,
        }
    }

    /// Sends one request and returns its answer with the response headers. Dropping the future cancels the request
    /// at the server.
    pub(super) async fn exchange_request(
        &self,
        session: Option<&McpSession>,
        request: &McpRequest<'_>,
    ) -> Result<(RpcResponse, HeaderMap), ExchangeFailure> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let mut head = self.request_headers(session);
        let mut unanswered = PendingRequest::new(&self.closer);
        let body = match session {
            Some(session) if session.is_stateless => {
                head.extend(mirror::mirrored_request_headers(request.method, &request.params));
                head.extend(request.mirrored.clone());
                let params = ::mcp::with_revision(request.params.clone(), session.revision);
                ::mcp::encode_request(number, request.method, &params)
            }
            Some(session) => {
                // Dropping the future cancels the request. Requests that begin a session are never cancelled.
                let head = self.request_headers(Some(session));
                unanswered.cancel_with(self.build_message_request(
                    head,
                    ::mcp::encode_cancellation(number, "the caller no longer waits"),
                ));
                ::mcp::encode_request(number, request.method, &request.params)
            }
            None => ::mcp::encode_request(number, request.method, &request.params),
        };
        let answered = timeout(CALL_TIMEOUT, async {
            let response = self.post_message(session, head, body).await?;
            let headers = response.headers().clone();
            Ok((self.read_answer(session, response, number).await?, headers))
        });
        match answered.await {
            Ok(Ok(answered)) => {
                unanswered.mark_done();
                Ok(answered)
            }
            // A broken connection cancels nothing: the call may still run.
            Ok(Err(failure @ ExchangeFailure::Error(McpError::Cut { .. }))) => Err(failure),
            Ok(Err(failure)) => {
                unanswered.mark_done();
                Err(failure)
            }
            Err(_) => Err(cut_error("timeout").into()),
        }
    }

    /// Converts an answer to its result.
    pub(super) fn answer_to_result(&self, answer: RpcResponse) -> Result<Value, McpError> {
        match answer {
            RpcResponse::Result(result) => Ok(result),
            RpcResponse::Error(error) => {
                Err(McpError::Failed { message: self.redact_secrets(&error.message) })
            }
        }
    }

    /// Builds the HTTP request of a message.
    fn build_message_request(&self, head: HeaderMap, body: String) -> Option<RequestBuilder> {
        let request = self.connections.http_client().ok()?.post(self.url.clone()).headers(head);
        let request = request.header(CONTENT_TYPE, "application/json");
        Some(request.header(ACCEPT, "application/json, text/event-stream").body(body))
    }

    /// Builds the request that ends a session, if it has an id.
    pub(super) fn build_end_request(&self, session: &McpSession) -> Option<RequestBuilder> {
        session.id.as_ref()?;
        let client = self.connections.http_client().ok()?;
        Some(client.delete(self.url.clone()).headers(self.request_headers(Some(session))))
    }

    /// Sends a message and checks the status of the response; reads the body only if it explains a rejection.
    async fn post_message(
        &self,
        session: Option<&McpSession>,
        head: HeaderMap,
        body: String,
    ) -> Result<Response, ExchangeFailure> {
        self.connections
            .http_client()
            .map_err(|error| server_unavailable_error(&connections::transport_error_reason(error)))?;
        let request = self
            .build_message_request(head, body)
            .ok_or_else(|| server_unavailable_error("the request cannot be built"))?;
        let response = request.send().await.map_err(|error| {
            // Without a connection nothing was sent.
            let sent = !error.is_connect();
            let reason = connections::transport_error_reason(error);
            if sent { cut_error(&reason) } else { server_unavailable_error(&reason) }
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if status == StatusCode::NOT_FOUND && session.is_some_and(|session| session.id.is_some()) {
            return Err(ExchangeFailure::Expired);
        }
        let retry_after = connections::retry_after(response.headers());
        let reason = status.to_string();
        Err(match status.as_u16() {
            429 | 503 => McpError::Unavailable { reason, retry_after }.into(),
            // The request may have been executed partly.
            408 | 500..=599 => McpError::Cut { reason }.into(),
            400 | 402 | 404..=499 if session.is_some_and(|session| session.is_stateless) => {
                classify_rejection(response).await
            }
            _ => McpError::Rejected { reason }.into(),
        })
    }

    fn request_headers(&self, session: Option<&McpSession>) -> HeaderMap {
        let mut head = HeaderMap::new();
        for (name, value, _) in &self.headers {
            head.insert(name.clone(), value.clone());
        }
        if let Some(session) = session {
            head.insert(VERSION, HeaderValue::from_static(session.revision));
            if let Some(id) = &session.id {
                head.insert(SESSION, id.clone());
            }
        }
        head
    }

    /// Reads the answer to the request with this number, in either form.
    async fn read_answer(
        &self,
        session: Option<&McpSession>,
        response: Response,
        number: u64,
    ) -> Result<RpcResponse, ExchangeFailure> {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
        if kind.to_ascii_lowercase().starts_with("text/event-stream") {
            return Ok(self.read_streamed_answer(session, response, number).await?);
        }
        let body =
            connections::read_response_body(response, ANSWER_MAX_BYTES).await.map_err(
                |error| match error {
                    connections::ResponseBodyError::TooLarge => {
                        McpError::Failed { message: "its response is too large".to_owned() }
                    }
                    connections::ResponseBodyError::Cut => cut_error("connection lost"),
                },
            )?;
        let answers = ::mcp::parse_messages(&body).into_iter().find_map(|message| match message {
            McpMessage::Answer(of, answer) if of == number => Some(answer),
            McpMessage::Answer(..) | McpMessage::Request(..) | McpMessage::Notification(..) => None,
        });
        Ok(answers.ok_or_else(|| cut_error("its response violates the protocol"))?)
    }

    /// Reads the answer from an event stream and resumes the stream if it breaks and the server supports that.
    async fn read_streamed_answer(
        &self,
        session: Option<&McpSession>,
        first: Response,
        number: u64,
    ) -> Result<RpcResponse, McpError> {
        let mut left = ANSWER_MAX_BYTES;
        let mut replies = REPLIES_MAX;
        let mut last: Option<String> = None;
        let mut wait = RESUME_WAIT;
        let mut response = first;
        for _ in 0..=RESUMES_MAX {
            let mut events = McpSseParser::default();
            while let Ok(Some(piece)) = response.chunk().await {
                left = left
                    .checked_sub(piece.len())
                    .ok_or_else(|| McpError::Failed { message: "its response is too large".to_owned() })?;
                for event in events.parse_chunk(&piece) {
                    wait = event.retry.unwrap_or(wait).min(RESUME_WAIT_MAX);
                    last = event.id.filter(|id| !id.is_empty() && id.len() <= ID_MAX_BYTES).or(last);
                    for message in ::mcp::parse_messages(event.data.as_bytes()) {
                        if let Some(answer) =
                            self.handle_message(session, message, number, &mut replies).await
                        {
                            return Ok(answer);
                        }
                    }
                }
            }
            let resumes = session.is_none_or(|session| !session.is_stateless);
            let Some(last) = last.as_ref().filter(|_| resumes) else { break };
            tokio::time::sleep(wait).await;
            let Some(next) = self.resume_stream(session, last).await else { break };
            response = next;
        }
        Err(cut_error("the stream ended before the answer"))
    }

    /// Handles a message of a stream. Returns the answer, if the message is that.
    async fn handle_message(
        &self,
        session: Option<&McpSession>,
        message: McpMessage,
        number: u64,
        replies: &mut usize,
    ) -> Option<RpcResponse> {
        match message {
            McpMessage::Answer(of, answer) => return (of == number).then_some(answer),
            McpMessage::Notification(notification) => {
                if notification.method == ::mcp::LIST_CHANGED {
                    self.list_changed.store(true, Ordering::SeqCst);
                }
            }
            McpMessage::Request(id, method) => {
                // In stateless revisions servers may not send requests, and get no replies.
                let session = session.filter(|session| !session.is_stateless);
                if let (Some(session), Some(left)) = (session, replies.checked_sub(1)) {
                    *replies = left;
                    let _sent = self.send_notification(session, &::mcp::encode_reply(&id, &method)).await;
                }
            }
        }
        None
    }

    async fn resume_stream(&self, session: Option<&McpSession>, last: &str) -> Option<Response> {
        let client = self.connections.http_client().ok()?;
        let request = client
            .get(self.url.clone())
            .headers(self.request_headers(session))
            .header(ACCEPT, "text/event-stream")
            .header(LAST_EVENT, HeaderValue::from_str(last).ok()?);
        let response = request.send().await.ok()?;
        response.status().is_success().then_some(response)
    }

    /// Sends a message without waiting for an answer.
    pub(super) async fn send_notification(
        &self,
        session: &McpSession,
        message: &str,
    ) -> Result<(), McpError> {
        let sent = timeout(
            TELL_TIMEOUT,
            self.post_message(Some(session), self.request_headers(Some(session)), message.to_owned()),
        )
        .await;
        match sent {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(ExchangeFailure::Error(McpError::Cut { reason }))) => {
                Err(server_unavailable_error(&reason))
            }
            Ok(Err(ExchangeFailure::Error(error))) => Err(error),
            Ok(Err(ExchangeFailure::Expired | ExchangeFailure::Refused(_))) => {
                Err(server_unavailable_error("its sessions expire immediately"))
            }
            Err(_) => Err(server_unavailable_error("timeout")),
        }
    }

    /// Redacts the operator's secrets in a server's message.
    pub(super) fn redact_secrets(&self, words: &str) -> String {
        self.headers.iter().fold(words.to_owned(), |words, (.., secret)| secret.redact(&words))
    }
}

/// Classifies the rejection of a stateless request. A server that speaks the revision uses its error codes; any
/// other rejection means that it does not speak the revision, and the negotiation is repeated.
async fn classify_rejection(response: Response) -> ExchangeFailure {
    const METHOD_NOT_FOUND: i64 = -32601;
    const INVALID_PARAMS: i64 = -32602;
    let body = connections::read_response_body(response, REFUSAL_MAX_BYTES).await.unwrap_or_default();
    match ::mcp::parse_refusal(&body) {
        Some(error) if error.is_specified() => ExchangeFailure::Refused(error),
        Some(error) if matches!(error.code, METHOD_NOT_FOUND | INVALID_PARAMS) => {
            ExchangeFailure::Refused(error)
        }
        Some(_) | None => ExchangeFailure::Expired,
    }
}

pub(super) fn server_unavailable_error(reason: &str) -> McpError {
    McpError::Unavailable { reason: reason.to_owned(), retry_after: None }
}

pub(super) fn rejected_error(reason: &str) -> McpError {
    McpError::Rejected { reason: reason.to_owned() }
}

pub(super) fn cut_error(reason: &str) -> McpError {
    McpError::Cut { reason: reason.to_owned() }
}

pub(super) fn no_protocol() -> McpError {
    rejected_error("its response violates the protocol")
}
