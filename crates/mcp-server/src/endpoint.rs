//! `POST /mcp`: reads the messages of a body, serves them and writes the response.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use control::Principal;
use domain::excerpt::Excerpt;
use futures_util::future::join_all;
use http_common::limits::JSON_BODY_MAX_BYTES;
use http_common::{BudgetHolder, BudgetShare, RateLimiter, limited_json_body};
use mcp::{DISCOVER, META, META_SERVER, RESOURCE_NOT_FOUND, TASKS_EXTENSION};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use telemetry::trace::SpanContext;
use tokio::time::Instant;

use crate::era::{Era, check_stateless, handshake_era, is_stateless, negotiate_revision};
use crate::error::{McpError, McpResult, supported_revisions};
use crate::message::{ClientMessage, MessageBody, RefusedMessage, RpcRequest, parse_message};
use crate::output::ToolOutput;
use crate::request_id::RequestId;
use crate::resources::{list_resources, list_templates, read_resource};
use crate::running_calls::CallName;
use crate::service::{CallContext, McpService};
use crate::tasks;
use crate::tools::{ToolReply, call_tool, list_tools};

/// The time after which a body has arrived slowly.
const SLOW_BODY: Duration = Duration::from_secs(1);
/// The time for which a client may keep what does not change without a new version, and lists, in milliseconds.
const ABOUT_TTL_MS: u64 = 3_600_000;
const TOOLS_TTL_MS: u64 = 300_000;
/// Tells the model of the client what the server is for.
const INSTRUCTIONS: &str = "Causerie answers questions about the documents in a workspace, with sources. Ask with \
    `ask`; while its status is in_progress, call `wait`. Give the sources of an answer to the user. Files come \
    into the workspace by `upload_file`.";

/// The facts about an HTTP request that its messages share.
struct RequestFacts {
    principal: Principal,
    headers: HeaderMap,
    address: Option<IpAddr>,
    trace: Option<SpanContext>,
}

/// The reply to a request.
enum Reply {
    Result(Value),
    /// A response that is streamed.
    Stream(Response),
}

/// Serves the messages of a body.
pub(crate) async fn receive_messages(
    State(service): State<McpService>,
    State(guard): State<Arc<RateLimiter>>,
    Extension(principal): Extension<Principal>,
    trace: Option<Extension<SpanContext>>,
    request: Request,
) -> Response {
    let address = guard.request_address(request.extensions(), request.headers());
    let (headers, trace) = (request.headers().clone(), trace.map(|Extension(trace)| trace));
    let facts = RequestFacts { principal, headers, address, trace };
    match read_body(&service, &facts.principal, request).await {
        Ok((MessageBody::One(raw), _held)) => serve_message(&service, &facts, &raw).await,
        Ok((MessageBody::Batch(raws), _held)) => serve_batch(&service, &facts, &raws).await,
        Err(error) => error.into_response_to(None),
    }
}

/// Answers another method of HTTP.
pub(crate) async fn refuse_method() -> Response {
    McpError::only_post().into_response_to(None)
}

/// Reads a body. Fails if the key was revoked while it arrived.
async fn read_body(
    service: &McpService,
    principal: &Principal,
    request: Request,
) -> McpResult<(MessageBody, BudgetShare)> {
    let is_compressed = |coding: &&HeaderValue| !coding.as_bytes().eq_ignore_ascii_case(b"identity");
    if let Some(coding) = request.headers().get(header::CONTENT_ENCODING).filter(is_compressed) {
        let coding = String::from_utf8_lossy(coding.as_bytes());
        return Err(McpError::invalid_request(format_args!(
            "compressed bodies are not supported (Content-Encoding: {}): send the body uncompressed",
            Excerpt(&coding)
        )));
    }
    let began = Instant::now();
    let mut held = service.budgets.body_bytes.empty_share(BudgetHolder::Account(principal.account()));
    let read = limited_json_body(request, JSON_BODY_MAX_BYTES, service.body_timeout, &mut held);
    let raw: Box<RawValue> = read.await?;
    if began.elapsed() >= SLOW_BODY && !service.access.is_still_valid(principal).await {
        return Err(McpError::invalid_key());
    }
    Ok((MessageBody::parse(raw)?, held))
}

async fn serve_message(service: &McpService, facts: &RequestFacts, raw: &RawValue) -> Response {
    let request = match parse_message(raw) {
        Ok(ClientMessage::Request(request)) => request,
        Ok(ClientMessage::Notification { method, params }) => {
            let cancelled = params.cancelled_request().filter(|_| method == mcp::CANCELLED);
            if let Some(id) = cancelled {
                let (key, address) = (facts.principal.key_id(), facts.address);
                service.running.cancel_call(&CallName { key, address, id });
            }
            return StatusCode::ACCEPTED.into_response();
        }
        Ok(ClientMessage::Response) => return StatusCode::ACCEPTED.into_response(),
        Err(RefusedMessage { id, error }) => return error.into_response_to(id.as_ref()),
    };
    let (id, stateless) = (request.id.clone(), is_stateless(&facts.headers, &request.params));
    match serve_request(service, facts, request, true).await {
        Ok(Reply::Result(message)) => json_response(&message),
        Ok(Reply::Stream(response)) => response,
        Err(error) if stateless => error.into_response_to(Some(&id)),
        // In these revisions an error is the response to a request as well as a result.
        Err(error) => json_response(&error.to_message(Some(&id))),
    }
}

/// Serves the messages of a batch at the same time. Its responses are not streamed.
async fn serve_batch(service: &McpService, facts: &RequestFacts, raws: &[Box<RawValue>]) -> Response {
    let serve = async |raw: &RawValue| match parse_message(raw) {
        Ok(ClientMessage::Request(request)) => {
            let id = request.id.clone();
            match serve_request(service, facts, request, false).await {
                Ok(Reply::Result(message)) => Some(message),
                Ok(Reply::Stream(_)) => None,
                Err(error) => Some(error.to_message(Some(&id))),
            }
        }
        Ok(ClientMessage::Notification { .. } | ClientMessage::Response) => None,
        Err(RefusedMessage { id, error }) => Some(error.to_message(id.as_ref())),
    };
    let replies = Box::pin(join_all(raws.iter().map(|raw| serve(raw)))).await;
    let replies: Vec<Value> = replies.into_iter().flatten().collect();
    if replies.is_empty() { StatusCode::ACCEPTED.into_response() } else { json_response(&replies.into()) }
}

async fn serve_request(
    service: &McpService,
    facts: &RequestFacts,
    request: RpcRequest,
    may_stream: bool,
) -> McpResult<Reply> {
    let era = if is_stateless(&facts.headers, &request.params) {
        check_stateless(&facts.headers, &request)?
    } else {
        handshake_era(&facts.headers)
    };
    let call = CallContext {
        principal: facts.principal.clone(),
        era,
        id: request.id.clone(),
        progress_token: request.params.progress_token(),
        accepts_events: may_stream && accepts_events(&facts.headers),
        address: facts.address,
        trace: facts.trace,
    };
    let params = &request.params;
    let result = match request.method.as_str() {
        "initialize" if !era.is_stateless() => {
            about_server(era, negotiate_revision(params.protocol_version.as_deref()))
        }
        "ping" if !era.is_stateless() => json!({}),
        DISCOVER if era.is_stateless() => with_ttl(about_server(era, ""), ABOUT_TTL_MS),
        "tools/list" => with_ttl(list_tools(call.principal.scope()), TOOLS_TTL_MS),
        "tools/call" => {
            let called =
                call_tool(service, &call, params.name.as_deref(), params.arguments.as_deref()).await?;
            match reply_of_tool(service, &call, called).await? {
                Reply::Result(result) => result,
                streamed @ Reply::Stream(_) => return Ok(streamed),
            }
        }
        "resources/list" => with_ttl(list_resources(service, &call, params.cursor.as_deref()).await?, 0),
        "resources/templates/list" => with_ttl(list_templates(), ABOUT_TTL_MS),
        "resources/read" => {
            let uri = params.uri.as_deref().ok_or_else(|| McpError::invalid_params("uri is missing"))?;
            let read = Box::pin(read_resource(service, &call, uri)).await;
            let read = read.map_err(|error| match era {
                Era::Handshake { .. } if error.is_about_params() => error.with_code(RESOURCE_NOT_FOUND),
                Era::Handshake { .. } | Era::Stateless { .. } => error,
            });
            with_ttl(read?, 0)
        }
        "tasks/get" if era.is_stateless() => {
            tasks::get_task(service, &call, params.task_id.as_deref()).await?
        }
        "tasks/update" if era.is_stateless() => {
            tasks::update_task(service, &call, params.task_id.as_deref()).await?
        }
        "tasks/cancel" if era.is_stateless() => {
            tasks::cancel_task(service, &call, params.task_id.as_deref()).await?
        }
        other => return Err(McpError::no_such_method(other)),
    };
    Ok(Reply::Result(result_message(&call, result)))
}

async fn reply_of_tool(service: &McpService, call: &CallContext, reply: ToolReply) -> McpResult<Reply> {
    let wait = match reply {
        ToolReply::Output(output) => return Ok(Reply::Result(output.into_result(call.era))),
        ToolReply::Wait(wait) => wait,
    };
    let has_ended = wait.live.progress().borrow().ended;
    if wait.owns_answer && call.era.has_tasks() && !has_ended {
        return Ok(Reply::Result(tasks::created_task(service, &wait.live)));
    }
    if call.accepts_events && !has_ended && !wait.max_wait.is_zero() {
        let encode =
            |call: &CallContext, output: ToolOutput| result_message(call, output.into_result(call.era));
        return Ok(Reply::Stream(wait.stream(service.clone(), call.clone(), encode)));
    }
    let output = Box::pin(wait.wait(service, call)).await.ok_or_else(McpError::invalid_key)?;
    Ok(Reply::Result(output.into_result(call.era)))
}

/// Describes the server, in the form of the revision.
fn about_server(era: Era, revision: &str) -> Value {
    match era {
        Era::Stateless { .. } => json!({
            "supportedVersions": supported_revisions(),
            "capabilities": { "tools": {}, "resources": {}, "extensions": { TASKS_EXTENSION: {} } },
            "instructions": INSTRUCTIONS,
        }),
        Era::Handshake { .. } => json!({
            "protocolVersion": revision,
            "capabilities": { "tools": {}, "resources": {} },
            "serverInfo": server_info(),
            "instructions": INSTRUCTIONS,
        }),
    }
}

fn server_info() -> Value {
    json!({ "name": "causerie", "title": "Causerie", "version": env!("CARGO_PKG_VERSION") })
}

/// Adds the time for which a client may keep a result. It depends on the key.
fn with_ttl(mut result: Value, ttl_ms: u64) -> Value {
    result["ttlMs"] = ttl_ms.into();
    result["cacheScope"] = "private".into();
    result
}

/// Returns the message with a result.
fn result_message(call: &CallContext, mut result: Value) -> Value {
    match call.era {
        Era::Stateless { .. } => {
            if result.get("resultType").is_none() {
                result["resultType"] = "complete".into();
            }
            result[META] = json!({ META_SERVER: server_info() });
        }
        Era::Handshake { .. } => {
            if let Some(fields) = result.as_object_mut() {
                fields.remove("ttlMs");
                fields.remove("cacheScope");
            }
        }
    }
    message_with(&call.id, result)
}

fn message_with(id: &RequestId, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.to_value(), "result": result })
}

/// Returns true if the client names streams of events among what it accepts.
fn accepts_events(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds =
        values.flat_map(|value| value.split(',')).map(|kind| kind.split(';').next().unwrap_or(kind));
    kinds.any(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
}

fn json_response(message: &Value) -> Response {
    let content_type = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    ([content_type], message.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_events_needs_its_name() {
        let of = |accept: &'static str| {
            accepts_events(&HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]))
        };
        assert!(of("application/json, text/event-stream") && of("Text/Event-Stream;q=0.5"));
        assert!(!of("application/json") && !of("*/*") && !accepts_events(&HeaderMap::new()));
    }

    #[test]
    fn initialize_offers_no_tasks() {
        let about = about_server(Era::Handshake { revision: "2025-03-26" }, "2025-11-25");
        assert_eq!(about["protocolVersion"], "2025-11-25");
        assert!(about["capabilities"].get("extensions").is_none());
        let about = about_server(Era::Stateless { has_tasks: false }, "");
        assert_eq!(about["capabilities"]["extensions"][TASKS_EXTENSION], json!({}));
    }
}
