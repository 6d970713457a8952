//! Revision 2026-07-28 over HTTP, as strict as its specification: headers mirror the body, each request names its
//! revision, only requests are accepted, and closing a stream cancels its request.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::{
    FakeMcpServers, answer_messages, event_stream, header_text, rpc_failure, rpc_result, stalled_stream,
};
use crate::web::FakeWeb;

const REVISION: &str = "2026-07-28";
const META_REVISION: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";
const META_CAPABILITIES: &str = "/params/_meta/io.modelcontextprotocol~1clientCapabilities";
const NAMES: [&str; 15] = [
    "echo", "note.add", "fail", "error", "strange", "kinds", "input", "odd", "cut", "resume", "huge",
    "stall", "změna", "moved", "replace",
];

impl FakeMcpServers {
    /// Returns true for messages to a server of this revision.
    pub(super) fn is_stateless(&self, mode: &str, message: &Value) -> bool {
        match mode {
            "stateless" | "stateless-sse" | "future" => true,
            "both" => message.pointer(META_REVISION).is_some(),
            "replaced" => !self.lock_sessions().replaced,
            _ => false,
        }
    }

    pub(super) fn serve_stateless(
        &self,
        mode: &str,
        http: &Method,
        headers: &HeaderMap,
        message: &Value,
    ) -> Response {
        if http != Method::POST {
            return StatusCode::METHOD_NOT_ALLOWED.into_response();
        }
        let (id, method) = (&message["id"], message["method"].as_str().unwrap_or(""));
        let bad =
            |code, message: &str| refuse_message(StatusCode::BAD_REQUEST, &rpc_failure(id, code, message));
        if id.is_null() || method.is_empty() {
            return bad(-32600, "Only requests are taken");
        }
        let accepts = header_text(headers, "accept");
        if !accepts.contains("application/json") || !accepts.contains("text/event-stream") {
            return StatusCode::NOT_ACCEPTABLE.into_response();
        }
        if header_text(headers, "mcp-method") != method
            || header_text(headers, "content-type") != "application/json"
        {
            return bad(-32020, "Header mismatch: Mcp-Method");
        }
        let Some(revision) = message.pointer(META_REVISION).and_then(Value::as_str) else {
            return bad(-32602, "Invalid params: no protocol version");
        };
        if header_text(headers, "mcp-protocol-version") != revision {
            return bad(-32020, "Header mismatch: MCP-Protocol-Version");
        }
        let speaks: &[&str] = match mode {
            "future" => &["2027-01-01"],
            "both" => &[REVISION, "2025-11-25", "2025-06-18"],
            _ => &[REVISION],
        };
        if revision != REVISION || !speaks.contains(&revision) {
            let mut unsupported = rpc_failure(id, -32022, "Unsupported protocol version");
            unsupported["error"]["data"] = json!({ "supported": speaks, "requested": revision });
            return refuse_message(StatusCode::BAD_REQUEST, &unsupported);
        }
        if !message.pointer(META_CAPABILITIES).is_some_and(Value::is_object) {
            return bad(-32602, "Invalid params: no client capabilities");
        }
        let form = if mode == "stateless-sse" { "sse" } else { "json" };
        let reply = |about: Value| answer_messages(form, &[complete_result(id, about)]);
        match method {
            "server/discover" => reply(json!({
                "supportedVersions": speaks, "capabilities": { "tools": { "listChanged": true } },
                "ttlMs": 3_600_000, "cacheScope": "public"
            })),
            "tools/list" => reply(list_tools(&message["params"])),
            "tools/call" => match check_mirrored_headers(headers, &message["params"]) {
                Ok(()) => self.call_stateless(form, id, &message["params"]),
                Err(what) => bad(-32020, &format!("Header mismatch: {what}")),
            },
            _ => refuse_message(StatusCode::NOT_FOUND, &rpc_failure(id, -32601, "Method not found")),
        }
    }

    fn call_stateless(&self, form: &str, id: &Value, params: &Value) -> Response {
        let reply = |content: Value| answer_messages(form, &[complete_result(id, content)]);
        let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
        match params["name"].as_str().unwrap_or("") {
            "echo" => reply(text(&params["arguments"].to_string())),
            "region" => reply(text("mirrored")),
            "note.add" | "změna" => reply(text("noted")),
            "fail" => {
                reply(json!({ "content": [{ "type": "text", "text": "no such act" }], "isError": true }))
            }
            "error" => refuse_message(
                StatusCode::BAD_REQUEST,
                &rpc_failure(id, -32602, "the key mcp-secret-token is wrong"),
            ),
            "strange" => reply(json!({ "content": 7 })),
            "kinds" => {
                let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress",
                    "params": { "progressToken": 1, "progress": 0.5 } });
                let link =
                    json!({ "type": "resource_link", "uri": "https://example.org/act", "name": "The act" });
                let content = complete_result(
                    id,
                    json!({ "content": [
                    { "type": "image", "data": "AAAA", "mimeType": "image/png" }, link] }),
                );
                answer_messages(form, &[progress, content])
            }
            "input" => {
                let ask = json!({ "method": "roots/list" });
                let wanted = json!({ "resultType": "input_required", "inputRequests": { "roots": ask } });
                answer_messages(form, &[rpc_result(id, &wanted)])
            }
            "odd" => {
                answer_messages(form, &[rpc_result(id, &json!({ "resultType": "task", "content": [] }))])
            }
            "cut" => event_stream(": \n\n".to_owned()),
            // The stream cannot be resumed.
            "resume" => event_stream(format!("id: {id}\nretry: 1\ndata:\n\n")),
            "huge" => {
                let data = "x".repeat(5_000_000);
                reply(text(&data))
            }
            "stall" => {
                let closed = Closed { web: self.web.clone(), id: id.clone() };
                stalled_stream(
                    stream::pending::<Result<Bytes, Infallible>>()
                        .map(move |piece| {
                            let _kept = &closed;
                            piece
                        })
                        .boxed(),
                )
            }
            "moved" => refuse_message(
                StatusCode::BAD_REQUEST,
                &rpc_failure(id, -32020, "Header mismatch: Mcp-Param-New"),
            ),
            "replace" => {
                self.lock_sessions().replaced = true;
                reply(text("replaced"))
            }
            _ => answer_messages(form, &[rpc_failure(id, -32602, "Unknown tool")]),
        }
    }
}

/// Logs a stream that is closed before its answer, which cancels the call.
struct Closed {
    web: Arc<FakeWeb>,
    id: Value,
}

impl Drop for Closed {
    fn drop(&mut self) {
        self.web.note_request("mcp", json!({ "closed": self.id }), &HeaderMap::new());
    }
}

/// Checks that the headers of a call mirror its body.
fn check_mirrored_headers(headers: &HeaderMap, params: &Value) -> Result<(), String> {
    let name = params["name"].as_str().unwrap_or("");
    let plain = name.is_ascii();
    let header = header_text(headers, "mcp-name");
    // The specification encodes values other than plain text in base64.
    let expected = if plain { name } else { "=?base64?em3Em25h?=" };
    if header != expected {
        return Err("Mcp-Name".to_owned());
    }
    let expected: &[(&str, &str)] = match name {
        "region" => &[
            ("mcp-param-region", "=?base64?xI1lc2tv?="),
            ("mcp-param-count", "42"),
            ("mcp-param-deep", "true"),
        ],
        _ => &[],
    };
    let given = headers.keys().filter(|name| name.as_str().starts_with("mcp-param-")).count();
    match expected.iter().find(|(name, value)| header_text(headers, name) != *value) {
        Some((name, _)) => Err((*name).to_owned()),
        None if given != expected.len() => Err("more than are there".to_owned()),
        None => Ok(()),
    }
}

/// Returns the tools, on two pages.
fn list_tools(params: &Value) -> Value {
    let tool = |name: &str, properties: Value| {
        json!({ "name": name, "description": format!("The tool {name}."),
                "inputSchema": { "type": "object", "properties": properties } })
    };
    let plain = |name: &&str| tool(name, json!({ "text": { "type": "string" } }));
    if params["cursor"] == "2" {
        let mut tools: Vec<Value> = NAMES[2..].iter().map(plain).collect();
        tools.push(tool("region", json!({
            "region": { "type": "string", "x-mcp-header": "Region" },
            "count": { "type": "integer", "x-mcp-header": "Count" },
            "absent": { "type": "string", "x-mcp-header": "Absent" },
            "nested": { "type": "object", "properties": { "deep": { "type": "boolean", "x-mcp-header": "Deep" } } },
        })));
        for (at, wrong) in [
            json!({ "a": { "type": "number", "x-mcp-header": "A" } }),
            json!({ "a": { "type": "string", "x-mcp-header": "A B" } }),
            json!({ "a": { "type": "array", "items": { "type": "string", "x-mcp-header": "A" } } }),
        ]
        .into_iter()
        .enumerate()
        {
            tools.push(tool(&format!("wrong-{at}"), wrong));
        }
        return json!({ "tools": tools, "ttlMs": 3_600_000, "cacheScope": "public" });
    }
    let tools: Vec<Value> = NAMES[..2].iter().map(plain).collect();
    json!({ "tools": tools, "nextCursor": "2", "ttlMs": 3_600_000, "cacheScope": "public" })
}

fn complete_result(id: &Value, mut about: Value) -> Value {
    about["resultType"] = "complete".into();
    about["_meta"] = json!({ "io.modelcontextprotocol/serverInfo": { "name": "standin", "version": "1" } });
    rpc_result(id, &about)
}

fn refuse_message(status: StatusCode, message: &Value) -> Response {
    (status, axum::Json(message)).into_response()
}
