//! JSON-RPC messages as MCP uses them.

use serde_json::{Map, Value, json};

use crate::text::{self, clean_paragraphs};

/// Limits the arguments of a call.
pub const ARGUMENTS_MAX_BYTES: usize = 256 * 1024;
/// Longer error messages of servers are truncated.
const MESSAGE_MAX_BYTES: usize = 2000;
/// Limits the number and length of revisions that are read from an error.
const SUPPORTED_MAX: usize = 32;
const REVISION_MAX_BYTES: usize = 32;
/// The code of an error without one.
const NO_CODE: i64 = 0;
/// JSON-RPC code: the body is not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// JSON-RPC code: the JSON is not a request.
pub const INVALID_REQUEST: i64 = -32600;
/// JSON-RPC code: the server does not have the method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// JSON-RPC code: the parameters are invalid, or name something that does not exist.
pub const INVALID_PARAMS: i64 = -32602;
/// JSON-RPC code: the server failed.
pub const INTERNAL_ERROR: i64 = -32603;
/// The code of the revisions with a handshake for a resource that does not exist.
pub const RESOURCE_NOT_FOUND: i64 = -32002;

/// The response that ends an exchange.
#[derive(Debug, Clone, PartialEq)]
pub enum RpcResponse {
    /// A complete result. One that asks for input is an error.
    Result(Value),
    Error(RpcError),
}

/// An error from a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    pub code: i64,
    /// The message as plain text, truncated.
    pub message: String,
    /// The revisions that the server reports as supported.
    pub supported: Vec<String>,
}

/// A notification from a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    pub method: String,
    /// The request whose progress is reported.
    pub progress: Option<u64>,
    /// The request `subscriptions/listen` that the notification belongs to, or ends.
    pub subscription: Option<u64>,
}

/// A message from a server.
#[derive(Debug, Clone, PartialEq)]
pub enum McpMessage {
    /// The response to the request with this number.
    Answer(u64, RpcResponse),
    /// A request from the server: its id and method.
    Request(Value, String),
    Notification(Notification),
}

/// Parses a call's arguments as a model wrote them: a JSON object within the limit; an empty text is an empty object.
#[must_use]
pub fn parse_arguments(text: &str) -> Option<Map<String, Value>> {
    if text.len() > ARGUMENTS_MAX_BYTES {
        return None;
    }
    if text.trim().is_empty() {
        return Some(Map::new());
    }
    serde_json::from_str(text).ok()
}

/// Serializes a request as a line without its line feed.
#[must_use]
pub fn encode_request(number: u64, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": number, "method": method, "params": params }).to_string()
}

/// Serializes a notification, without parameters when they are null.
#[must_use]
pub fn encode_notification(method: &str, params: &Value) -> String {
    let mut message = json!({ "jsonrpc": "2.0", "method": method });
    if !params.is_null() {
        message["params"] = params.clone();
    }
    message.to_string()
}

/// Serializes the cancellation of a request.
#[must_use]
pub fn encode_cancellation(number: u64, reason: &str) -> String {
    encode_notification("notifications/cancelled", &json!({ "requestId": number, "reason": reason }))
}

/// Serializes the response to a server's request: a ping succeeds, everything else is unsupported.
#[must_use]
pub fn encode_reply(id: &Value, method: &str) -> String {
    if method == "ping" {
        return json!({ "jsonrpc": "2.0", "id": id, "result": {} }).to_string();
    }
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": METHOD_NOT_FOUND, "message": "Method not found" } })
        .to_string()
}

/// Returns the error in the body of a rejected request, whether or not it names the request.
#[must_use]
pub fn parse_refusal(body: &[u8]) -> Option<RpcError> {
    let body: Value = serde_json::from_slice(body).ok()?;
    body.get("error").filter(|error| error.is_object()).map(rpc_error)
}

/// Parses the messages of a body or event: one, or a batch. Skips invalid ones.
#[must_use]
pub fn parse_messages(text: &[u8]) -> Vec<McpMessage> {
    match serde_json::from_slice(text) {
        Ok(Value::Array(several)) => several.into_iter().filter_map(parse_message).collect(),
        Ok(one) => parse_message(one).into_iter().collect(),
        Err(_) => Vec::new(),
    }
}

fn parse_message(mut value: Value) -> Option<McpMessage> {
    let method = value.get("method").and_then(Value::as_str).map(ToOwned::to_owned);
    let id = value.get("id").filter(|id| !id.is_null()).cloned();
    match (method, id) {
        (Some(method), Some(id)) => Some(McpMessage::Request(id, method)),
        (Some(method), None) => {
            let number = |pointer: &str| value.pointer(pointer).and_then(Value::as_u64);
            let subscription = number("/params/_meta/io.modelcontextprotocol~1subscriptionId");
            let subscription = subscription.or_else(|| number("/params/requestId"));
            let progress = number("/params/progressToken");
            Some(McpMessage::Notification(Notification { method, progress, subscription }))
        }
        (None, Some(id)) => {
            let number = number_of(&id)?;
            let answer = match value.get("error") {
                Some(error) => RpcResponse::Error(rpc_error(error)),
                None => require_complete(value.get_mut("result")?.take()),
            };
            Some(McpMessage::Answer(number, answer))
        }
        (None, None) => None,
    }
}

/// Returns the number of the request that an answer names. Some servers write it as a text.
fn number_of(id: &Value) -> Option<u64> {
    match id {
        Value::String(text) => text.parse().ok().filter(|number: &u64| number.to_string() == *text),
        other => other.as_u64(),
    }
}

/// Checks that a result is complete. Revisions with a handshake do not mark results.
fn require_complete(result: Value) -> RpcResponse {
    let message = match result.get("resultType").map(Value::as_str) {
        None | Some(Some("complete")) => return RpcResponse::Result(result),
        Some(Some("input_required")) => "it asks for input, which the service does not provide",
        Some(_) => "its result is of an unknown type",
    };
    RpcResponse::Error(RpcError { code: NO_CODE, message: message.to_owned(), supported: Vec::new() })
}

fn rpc_error(error: &Value) -> RpcError {
    let message = clean_paragraphs(error.get("message").and_then(Value::as_str).unwrap_or(""));
    let message = if message.is_empty() { "without a message".to_owned() } else { message };
    let supported = error.pointer("/data/supported").and_then(Value::as_array);
    let supported = supported.into_iter().flatten().take(SUPPORTED_MAX).filter_map(Value::as_str);
    RpcError {
        code: error.get("code").and_then(Value::as_i64).unwrap_or(NO_CODE),
        message: text::cut_bytes(&message, MESSAGE_MAX_BYTES).to_owned(),
        supported: supported.filter(|one| one.len() <= REVISION_MAX_BYTES).map(ToOwned::to_owned).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let one = |text: &str| parse_messages(text.as_bytes()).into_iter().next();
        assert_eq!(
            one(r#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#),
            Some(McpMessage::Answer(7, RpcResponse::Result(json!({"a":1}))))
        );
        assert_eq!(
            one(r#"{"id":7,"error":{"code":-1,"message":"no\u0000\u202e"}}"#),
            Some(McpMessage::Answer(
                7,
                RpcResponse::Error(RpcError { code: -1, message: "no".to_owned(), supported: Vec::new() })
            ))
        );
        assert_eq!(
            one(r#"{"id":"x","method":"ping"}"#),
            Some(McpMessage::Request(json!("x"), "ping".to_owned()))
        );
        assert_eq!(
            one(r#"{"method":"notifications/x"}"#),
            Some(McpMessage::Notification(Notification {
                method: "notifications/x".to_owned(),
                progress: None,
                subscription: None
            }))
        );
        for none in
            ["", "{", "7", "{}", r#"{"id":7}"#, r#"{"id":"x","result":{}}"#, r#"{"id":null,"error":{}}"#]
        {
            assert_eq!(one(none), None, "{none}");
        }
        assert_eq!(parse_messages(br#"[{"id":1,"result":0},{},{"id":2,"result":0}]"#).len(), 2);
    }

    #[test]
    fn parse_messages_accepts_text_id() {
        let one =
            |id: &str| parse_messages(format!(r#"{{"id":{id},"result":0}}"#).as_bytes()).into_iter().next();
        assert_eq!(one(r#""17""#), Some(McpMessage::Answer(17, RpcResponse::Result(json!(0)))));
        for other in [r#""""#, r#""+1""#, r#""01""#, r#""1 ""#, r#""-1""#, r#""1.0""#, "1.5", "-1", "[1]"] {
            assert_eq!(one(other), None, "{other}");
        }
    }

    #[test]
    fn arguments_are_an_object() {
        assert_eq!(parse_arguments(" "), Some(Map::new()));
        assert!(parse_arguments(r#"{"a":1}"#).is_some());
        for wrong in
            ["[]", "null", "x", "\"{}\"", &format!("{{\"a\":\"{}\"}}", "x".repeat(ARGUMENTS_MAX_BYTES))]
        {
            assert_eq!(parse_arguments(wrong), None);
        }
    }

    #[test]
    fn parse_messages_rejects_incomplete_result() {
        let of = |result: Value| {
            let text = json!({ "jsonrpc": "2.0", "id": 7, "result": result }).to_string();
            match parse_messages(text.as_bytes()).into_iter().next() {
                Some(McpMessage::Answer(7, RpcResponse::Error(error))) => error.message,
                Some(McpMessage::Answer(7, RpcResponse::Result(_))) => "complete".to_owned(),
                other => format!("{other:?}"),
            }
        };
        assert_eq!(of(json!({"resultType": "complete"})), "complete");
        assert_eq!(of(json!({"content": []})), "complete", "as revisions with a handshake do");
        assert!(of(json!({"resultType": "input_required", "inputRequests": {}})).contains("asks for input"));
        assert!(of(json!({"resultType": "task"})).contains("unknown type"));
        assert!(of(json!({"resultType": 7})).contains("unknown type"));
    }

    #[test]
    fn parse_refusal_lists_supported_revisions() {
        let body = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32022, "message": "Unsupported",
            "data": {"supported": ["2025-11-25", 7, "x".repeat(REVISION_MAX_BYTES + 1)]}}});
        let error = parse_refusal(body.to_string().as_bytes()).expect("an error");
        assert_eq!((error.code, error.supported), (-32022, vec!["2025-11-25".to_owned()]));
        for none in ["", "{", "7", "{}", r#"{"error": "no"}"#, "<html>"] {
            assert_eq!(parse_refusal(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn notification_names_its_request() {
        let of = |text: &str| match parse_messages(text.as_bytes()).into_iter().next() {
            Some(McpMessage::Notification(notification)) => {
                (notification.progress, notification.subscription)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(
            of(r#"{"method":"notifications/progress","params":{"progressToken":3}}"#),
            (Some(3), None)
        );
        let meta = r#"{"method":"x","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":4}}}"#;
        assert_eq!(of(meta), (None, Some(4)));
        assert_eq!(of(r#"{"method":"notifications/cancelled","params":{"requestId":5}}"#), (None, Some(5)));
    }
}
