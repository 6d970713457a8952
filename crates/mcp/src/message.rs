//! Messages: JSON-RPC as MCP uses it.

use serde_json::{Map, Value, json};

use crate::text::{self, paragraphs};

/// The longest arguments of a call, in bytes.
pub const ARGUMENTS_MAX_BYTES: usize = 256 * 1024;
/// The versions of the protocol that are spoken, newest first.
pub const VERSIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
/// The version before those, which differs over HTTP alone: many servers over pipes speak it.
pub const VERSION_OVER_PIPES: &str = "2024-11-05";
/// The longest words of a server about an error, in bytes.
const MESSAGE_MAX_BYTES: usize = 2000;

/// What the end of an exchange says.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The result.
    Result(Value),
    /// An error: plain text, bounded.
    Error(String),
}

/// A message of a server.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// The answer to the request of this number.
    Answer(u64, Answer),
    /// It asks something: the id to answer with, and what.
    Request(Value, String),
    /// It tells something: what, and of which request where it is progress.
    Notification(String, Option<u64>),
}

/// The arguments of a call as a model wrote them: a JSON object within its bound, or nothing for an empty one.
#[must_use]
pub fn arguments(text: &str) -> Option<Map<String, Value>> {
    if text.len() > ARGUMENTS_MAX_BYTES {
        return None;
    }
    if text.trim().is_empty() {
        return Some(Map::new());
    }
    serde_json::from_str(text).ok()
}

/// A request, as a line without its feed.
#[must_use]
pub fn request(number: u64, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": number, "method": method, "params": params }).to_string()
}

/// A message that wants no answer; without parameters when they are null.
#[must_use]
pub fn notification(method: &str, params: &Value) -> String {
    let mut message = json!({ "jsonrpc": "2.0", "method": method });
    if !params.is_null() {
        message["params"] = params.clone();
    }
    message.to_string()
}

/// What tells a server that nobody waits for the answer to a request any more.
#[must_use]
pub fn cancelled(number: u64, reason: &str) -> String {
    notification("notifications/cancelled", &json!({ "requestId": number, "reason": reason }))
}

/// What is answered to a server that asks: the service is there, and has nothing for servers.
#[must_use]
pub fn reply(id: &Value, method: &str) -> String {
    if method == "ping" {
        return json!({ "jsonrpc": "2.0", "id": id, "result": {} }).to_string();
    }
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "Method not found" } })
        .to_string()
}

/// The parameters of the request that begins it all.
#[must_use]
pub fn initialize() -> Value {
    json!({
        "protocolVersion": VERSIONS[0],
        "capabilities": {},
        "clientInfo": { "name": "causerie", "version": env!("CARGO_PKG_VERSION") },
    })
}

/// The messages of a body or of an event: one, or several in a list. What is no message is left out.
#[must_use]
pub fn messages(text: &[u8]) -> Vec<Message> {
    match serde_json::from_slice(text) {
        Ok(Value::Array(several)) => several.into_iter().filter_map(message).collect(),
        Ok(one) => message(one).into_iter().collect(),
        Err(_) => Vec::new(),
    }
}

fn message(mut value: Value) -> Option<Message> {
    let method = value.get("method").and_then(Value::as_str).map(ToOwned::to_owned);
    let id = value.get("id").filter(|id| !id.is_null()).cloned();
    match (method, id) {
        (Some(method), Some(id)) => Some(Message::Request(id, method)),
        (Some(method), None) => {
            let token = value.pointer("/params/progressToken").and_then(Value::as_u64);
            Some(Message::Notification(method, token))
        }
        (None, Some(id)) => {
            let number = id.as_u64()?;
            let answer = match value.get("error") {
                Some(error) => Answer::Error(complaint(error)),
                None => Answer::Result(value.get_mut("result")?.take()),
            };
            Some(Message::Answer(number, answer))
        }
        (None, None) => None,
    }
}

fn complaint(error: &Value) -> String {
    let said = paragraphs(error.get("message").and_then(Value::as_str).unwrap_or(""));
    let said = if said.is_empty() { "it does not say which".to_owned() } else { said };
    text::cut(&said, MESSAGE_MAX_BYTES).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let one = |text: &str| messages(text.as_bytes()).into_iter().next();
        assert_eq!(
            one(r#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#),
            Some(Message::Answer(7, Answer::Result(json!({"a":1}))))
        );
        assert_eq!(
            one(r#"{"id":7,"error":{"code":-1,"message":"no\u0000\u202e"}}"#),
            Some(Message::Answer(7, Answer::Error("no".to_owned())))
        );
        assert_eq!(
            one(r#"{"id":"x","method":"ping"}"#),
            Some(Message::Request(json!("x"), "ping".to_owned()))
        );
        assert_eq!(
            one(r#"{"method":"notifications/x"}"#),
            Some(Message::Notification("notifications/x".to_owned(), None))
        );
        for none in
            ["", "{", "7", "{}", r#"{"id":7}"#, r#"{"id":"7","result":{}}"#, r#"{"id":null,"error":{}}"#]
        {
            assert_eq!(one(none), None, "{none}");
        }
        assert_eq!(messages(br#"[{"id":1,"result":0},{},{"id":2,"result":0}]"#).len(), 2);
    }

    #[test]
    fn arguments_are_an_object() {
        assert_eq!(arguments(" "), Some(Map::new()));
        assert!(arguments(r#"{"a":1}"#).is_some());
        for wrong in
            ["[]", "null", "x", "\"{}\"", &format!("{{\"a\":\"{}\"}}", "x".repeat(ARGUMENTS_MAX_BYTES))]
        {
            assert_eq!(arguments(wrong), None);
        }
    }
}
