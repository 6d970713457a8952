//! MCP servers for tests over streamable HTTP, with some tools and every fault:
//!
//! - `/mcp/json` answers with JSON, `/mcp/sse` with event streams; `/mcp/locked` requires `Authorization: Bearer
//!   mcp-secret-token`; `/mcp/down` returns 503, `/mcp/old` uses an unknown version, `/mcp/odd` lists invalid tools.
//!   `/mcp/notes` has only the tool `note`, which appends its `text` as a line to the file in the header `X-Diary`.
//! - These use revisions with a handshake. So do `/mcp/first` (only 2025-03-26, answers in batches), `/mcp/silent` (a
//!   request before `initialize` gets no answer) and `/mcp/crashing` (it gets status 500). `/mcp/stateless` and
//!   `/mcp/stateless-sse` use only 2026-07-28, `/mcp/both` that and earlier ones, `/mcp/future` an unknown revision;
//!   `/mcp/replaced` uses 2026-07-28 until its tool `replace` is called, then earlier ones.
//! - Tools: `echo`, `note.add` (which has an effect), `fail`, `error`, `kinds`, `expire` (ends all sessions), and `cut`,
//!   `resume`, `ask`, `huge`, `stall`, which cause faults in streams.

use std::collections::HashSet;
use std::convert::Infallible;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use crate::web::FakeWeb;

mod stateless;

const VERSIONS: [&str; 3] = ["2025-06-18", "2025-11-25", "2025-03-26"];

#[derive(Debug, Default)]
struct FakeMcpSessions {
    known: HashSet<String>,
    begun: usize,
    /// The server `replaced` has switched to revisions with a handshake.
    replaced: bool,
}

struct FakeMcpServers {
    web: Arc<FakeWeb>,
    sessions: Mutex<FakeMcpSessions>,
}

pub(crate) fn mcp_routes(web: Arc<FakeWeb>) -> Router {
    let servers = Arc::new(FakeMcpServers { web, sessions: Mutex::default() });
    Router::new().route("/mcp/{mode}", any(serve_mcp)).with_state(servers)
}

async fn serve_mcp(
    State(servers): State<Arc<FakeMcpServers>>,
    Path(mode): Path<String>,
    method: axum::http::Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let message: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    servers.web.note_request(
        "mcp",
        json!({ "mode": mode, "http": method.as_str(), "message": message }),
        &headers,
    );
    match mode.as_str() {
        "down" => return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "7")]).into_response(),
        "locked" if header_text(&headers, "authorization") != "Bearer mcp-secret-token" => {
            return StatusCode::UNAUTHORIZED.into_response();
        }
        _ => {}
    }
    if servers.is_stateless(&mode, &message) {
        return servers.serve_stateless(&mode, &method, &headers, &message);
    }
    match method.as_str() {
        "POST" => servers.answer_post(&mode, &headers, &message),
        "GET" => servers.resume_stream(&headers),
        "DELETE" => {
            servers.lock_sessions().known.remove(header_text(&headers, "mcp-session-id"));
            StatusCode::NO_CONTENT.into_response()
        }
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

impl FakeMcpServers {
    fn lock_sessions(&self) -> std::sync::MutexGuard<'_, FakeMcpSessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer_post(&self, mode: &str, headers: &HeaderMap, message: &Value) -> Response {
        let accepts = header_text(headers, "accept");
        if !accepts.contains("application/json") || !accepts.contains("text/event-stream") {
            return StatusCode::NOT_ACCEPTABLE.into_response();
        }
        if header_text(headers, "content-type") != "application/json" || message["jsonrpc"] != "2.0" {
            return StatusCode::BAD_REQUEST.into_response();
        }
        let method = message["method"].as_str().unwrap_or("");
        match (mode, method) {
            (_, "initialize") => return self.begin_session(mode, message),
            ("silent", "server/discover") => return stalled_stream(stream::pending().boxed()),
            ("crashing", "server/discover") => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            _ => {}
        }
        if let Err(refusal) = self.check_session(headers) {
            return refusal;
        }
        if message.get("id").is_none() || message.get("method").is_none() {
            return StatusCode::ACCEPTED.into_response();
        }
        let id = &message["id"];
        match method {
            "tools/list" => answer_messages(mode, &[rpc_result(id, &list_tools(mode, &message["params"]))]),
            "tools/call" if mode == "notes" => {
                note_in_diary(id, header_text(headers, "x-diary"), &message["params"])
            }
            "tools/call" => self.call_tool(mode, id, &message["params"]),
            _ => answer_messages(mode, &[rpc_failure(id, -32601, "Method not found")]),
        }
    }

    fn begin_session(&self, mode: &str, message: &Value) -> Response {
        let asked = message["params"]["protocolVersion"].as_str().unwrap_or("");
        let version = if mode == "old" {
            "1999-01-01"
        } else if mode == "first" {
            VERSIONS[2]
        } else {
            VERSIONS.iter().find(|one| **one == asked).unwrap_or(&VERSIONS[0])
        };
        let id = {
            let mut sessions = self.lock_sessions();
            sessions.begun += 1;
            let id = format!("session-{}", sessions.begun);
            sessions.known.insert(id.clone());
            id
        };
        let about = json!({ "protocolVersion": version, "capabilities": { "tools": { "listChanged": true } },
                            "serverInfo": { "name": "standin", "version": "1" } });
        let mut response = answer_messages(mode, &[rpc_result(&message["id"], &about)]);
        response.headers_mut().extend(
            HeaderValue::from_str(&id).ok().map(|id| (header::HeaderName::from_static("mcp-session-id"), id)),
        );
        response
    }

    #[expect(clippy::result_large_err, reason = "an answer is what there is to give back")]
    fn check_session(&self, headers: &HeaderMap) -> Result<(), Response> {
        let session = header_text(headers, "mcp-session-id");
        if session.is_empty() || !VERSIONS.contains(&header_text(headers, "mcp-protocol-version")) {
            return Err(StatusCode::BAD_REQUEST.into_response());
        }
        if self.lock_sessions().known.contains(session) {
            Ok(())
        } else {
            Err(StatusCode::NOT_FOUND.into_response())
        }
    }

    fn call_tool(&self, mode: &str, id: &Value, params: &Value) -> Response {
        let text = |text: &str| {
            rpc_result(id, &json!({ "content": [{ "type": "text", "text": text }], "isError": false }))
        };
        match params["name"].as_str().unwrap_or("") {
            "echo" => answer_messages(mode, &[text(&params["arguments"].to_string())]),
            "note.add" => answer_messages(mode, &[text("noted")]),
            "fail" => answer_messages(
                mode,
                &[rpc_result(
                    id,
                    &json!({ "content": [{ "type": "text", "text": "no such act" }], "isError": true }),
                )],
            ),
            "error" => answer_messages(mode, &[rpc_failure(id, -32602, "the key mcp-secret-token is wrong")]),
            "leak" => answer_messages(mode, &[text("it is mcp-secret-token")]),
            "strange" => answer_messages(mode, &[rpc_result(id, &json!({ "content": 7 }))]),
            "kinds" => answer_messages(
                mode,
                &[rpc_result(
                    id,
                    &json!({ "content": [
                { "type": "image", "data": "AAAA", "mimeType": "image/png" },
                { "type": "resource_link", "uri": "https://example.org/act", "name": "The act" }] }),
                )],
            ),
            "expire" => {
                self.lock_sessions().known.clear();
                answer_messages(mode, &[text("the sessions are over")])
            }
            "broken" => StatusCode::BAD_GATEWAY.into_response(),
            "busy" => (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "7")]).into_response(),
            "cut" => event_stream(
                "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n".to_owned(),
            ),
            "resume" => event_stream(format!("id: {id}\nretry: 1\ndata:\n\n")),
            "ask" => {
                let asks = [
                    json!({ "jsonrpc": "2.0", "id": "p", "method": "ping" }),
                    json!({ "jsonrpc": "2.0", "id": "s", "method": "sampling/createMessage", "params": {} }),
                    json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }),
                    text("asked"),
                ];
                answer_messages("sse", &asks)
            }
            "huge" => {
                let pieces =
                    stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from_static(&[b'x'; 16 * 1024])));
                (
                    [(
                        header::CONTENT_TYPE,
                        if mode == "sse" { "text/event-stream" } else { "application/json" },
                    )],
                    Body::from_stream(pieces),
                )
                    .into_response()
            }
            "stall" => stalled_stream(stream::pending().boxed()),
            _ => answer_messages(mode, &[rpc_failure(id, -32602, "Unknown tool")]),
        }
    }

    /// Resumes a stream. The last event identifies the missing answer.
    fn resume_stream(&self, headers: &HeaderMap) -> Response {
        if let Err(refusal) = self.check_session(headers) {
            return refusal;
        }
        let Ok(id) = serde_json::from_str::<Value>(header_text(headers, "last-event-id")) else {
            return StatusCode::METHOD_NOT_ALLOWED.into_response();
        };
        answer_messages(
            "sse",
            &[rpc_result(&id, &json!({ "content": [{ "type": "text", "text": "taken up again" }] }))],
        )
    }
}

/// Adds a line to the diary, which counts the runs of the tool.
fn note_in_diary(id: &Value, diary: &str, params: &Value) -> Response {
    let line = format!("{}\n", params["arguments"]["text"].as_str().unwrap_or(""));
    let written = OpenOptions::new().create(true).append(true).open(diary);
    let written = written.and_then(|mut diary| diary.write_all(line.as_bytes()));
    let text = written.as_ref().map_or_else(ToString::to_string, |()| "noted".to_owned());
    let content = json!({ "content": [{ "type": "text", "text": text }], "isError": written.is_err() });
    answer_messages("json", &[rpc_result(id, &content)])
}

/// Returns the tools, on two pages.
fn list_tools(mode: &str, params: &Value) -> Value {
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    let tool = |name: &str| {
        json!({ "name": name, "description": format!("The tool {name}."), "inputSchema": schema,
                                    "annotations": { "readOnlyHint": true } })
    };
    if mode == "odd" {
        let tools: Vec<Value> = (0..500).map(|number| tool(&format!("tool-{number}"))).collect();
        let strange = [
            json!({ "name": "no-schema" }),
            json!({ "name": "text", "inputSchema": { "type": "string" } }),
            json!({ "name": "large", "inputSchema": { "type": "object", "description": "x".repeat(100_000) } }),
            json!(7),
            tool("tool-0"),
        ];
        return json!({ "tools": strange.into_iter().chain(tools).collect::<Vec<_>>(), "nextCursor": "for ever" });
    }
    if mode == "notes" {
        return json!({ "tools": [tool("note")] });
    }
    if params["cursor"] == "2" {
        let names = [
            "fail", "error", "leak", "strange", "kinds", "expire", "broken", "busy", "cut", "resume", "ask",
            "huge", "stall",
        ];
        return json!({ "tools": names.map(tool) });
    }
    json!({ "tools": [tool("echo"), tool("note.add")], "nextCursor": "2" })
}

fn rpc_result(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

fn rpc_failure(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

fn answer_messages(mode: &str, messages: &[Value]) -> Response {
    if mode == "sse" {
        return event_stream(
            messages.iter().map(|message| format!("event: message\r\ndata: {message}\r\n\r\n")).collect(),
        );
    }
    let mut body = messages.last().map_or(String::new(), Value::to_string);
    if mode == "first" {
        body = format!("[{body}]");
    }
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// Sends a stream without an answer, with this end.
fn stalled_stream(rest: stream::BoxStream<'static, Result<Bytes, Infallible>>) -> Response {
    let begin = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b": \n\n"))]);
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(begin.chain(rest))).into_response()
}

fn event_stream(text: String) -> Response {
    // Splits the body as a network would.
    let (head, tail) = text.split_at(text.floor_char_boundary(text.len() / 2));
    let pieces = [head.to_owned(), tail.to_owned()].map(Ok::<_, Infallible>);
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(stream::iter(pieces))).into_response()
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
}
