//! Anthropic's Messages.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::Value;

use super::{
    ParsedRequest, RequestMessage, RequestToolCall, THOUGHTFUL, VendorRefusal, parse_json, seal_text,
    text_field,
};

/// The maximum number of cache marks in a request.
const CACHE_MARKS_MAX: usize = 4;

#[derive(Deserialize)]
struct ReceivedAnthropicRequest {
    model: String,
    max_tokens: u64,
    messages: Vec<Said>,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    system: Value,
    #[serde(default)]
    tools: Vec<Value>,
    #[serde(default)]
    thinking: Value,
}

#[derive(Deserialize)]
struct Said {
    role: String,
    content: Vec<Value>,
}

pub(super) fn parse_request(body: &[u8]) -> Result<ParsedRequest, VendorRefusal> {
    let wire: ReceivedAnthropicRequest = parse_json(body)?;
    if !wire.stream {
        return Err(VendorRefusal::invalid_request("only streams are served here"));
    }
    let whole: Value = parse_json(body)?;
    if whole.to_string().matches("\"cache_control\"").count() > CACHE_MARKS_MAX {
        return Err(VendorRefusal::invalid_request(
            "A maximum of 4 blocks with cache_control may be provided.",
        ));
    }
    if wire.thinking["type"] == "enabled" {
        let budget = wire.thinking["budget_tokens"].as_u64().unwrap_or(0);
        if budget < 1024 || budget >= wire.max_tokens {
            return Err(VendorRefusal::invalid_request(
                "`max_tokens` must be greater than `thinking.budget_tokens`",
            ));
        }
    }
    for tool in &wire.tools {
        text_field(tool, "name")?;
        if !tool["input_schema"].is_object() {
            return Err(VendorRefusal::invalid_request("tools.0.custom.input_schema: Field required"));
        }
    }
    let mut messages: Vec<RequestMessage> = wire
        .system
        .as_array()
        .into_iter()
        .flatten()
        .map(|block| RequestMessage::new("system", block["text"].as_str().unwrap_or("")))
        .collect();
    let mut open: HashSet<String> = HashSet::new();
    let mut role = "assistant";
    for (at, message) in wire.messages.iter().enumerate() {
        let is_last = at + 1 == wire.messages.len();
        if message.content.is_empty() || message.role == role {
            return Err(VendorRefusal::invalid_request(
                "messages: roles must alternate, and messages must have content",
            ));
        }
        role = &message.role;
        match message.role.as_str() {
            "user" => parse_user_message(&message.content, &mut open, &mut messages)?,
            "assistant" => {
                // Each search ended a separate request by a pause.
                let pauses = if is_last { count_searches(&message.content) } else { 0 };
                messages.extend((1..pauses).map(|_| RequestMessage::new("assistant", "")));
                messages.push(parse_assistant_message(&message.content, &mut open)?);
            }
            _ => return Err(VendorRefusal::invalid_request("messages: unexpected role")),
        }
    }
    let goes_on = wire.messages.last().is_some_and(|message| count_searches(&message.content) > 0);
    if role != "user" && !goes_on {
        return Err(VendorRefusal::invalid_request("This model does not support assistant message prefill."));
    }
    if wire.tools.is_empty() && messages.iter().any(|message| !message.tool_calls.is_empty()) {
        return Err(VendorRefusal::invalid_request(
            "Requests which include `tool_use` blocks must define tools",
        ));
    }
    let none = serde_json::from_slice::<Value>(body).is_ok_and(|body| body["tool_choice"]["type"] == "none");
    Ok(ParsedRequest {
        model: wire.model,
        messages,
        offers_tools: !wire.tools.is_empty() && !none,
        wants_usage: true,
    })
}

fn parse_user_message(
    content: &[Value],
    open: &mut HashSet<String>,
    messages: &mut Vec<RequestMessage>,
) -> Result<(), VendorRefusal> {
    for block in content {
        match text_field(block, "type")? {
            "tool_result" => {
                let id = text_field(block, "tool_use_id")?;
                if !open.remove(id) {
                    return Err(VendorRefusal::invalid_request(
                        "unexpected `tool_use_id` found in `tool_result` blocks",
                    ));
                }
                messages.push(RequestMessage::tool_result(id, text_field(block, "content")?));
            }
            "text" if open.is_empty() => {
                let text = text_field(block, "text")?;
                if text.trim().is_empty() {
                    return Err(VendorRefusal::invalid_request(
                        "text content blocks must contain non-whitespace text",
                    ));
                }
                messages.push(RequestMessage::new("user", text));
            }
            "image" if open.is_empty() && block["source"]["type"] == "base64" => {}
            _ => {
                return Err(VendorRefusal::invalid_request(
                    "`tool_use` ids were found without `tool_result` blocks",
                ));
            }
        }
    }
    if open.is_empty() {
        Ok(())
    } else {
        Err(VendorRefusal::invalid_request(
            "`tool_use` ids were found without `tool_result` blocks immediately after",
        ))
    }
}

/// Returns the number of searches by the vendor's tool in a message.
fn count_searches(content: &[Value]) -> usize {
    content.iter().filter(|block| block["type"] == "server_tool_use").count()
}

fn parse_assistant_message(
    content: &[Value],
    open: &mut HashSet<String>,
) -> Result<RequestMessage, VendorRefusal> {
    let mut message = RequestMessage { role: "assistant".to_owned(), ..RequestMessage::default() };
    let mut thought = false;
    for block in content {
        match text_field(block, "type")? {
            "text" if !text_field(block, "text")?.trim().is_empty() => {
                message.content.get_or_insert_default().push_str(text_field(block, "text")?);
            }
            "thinking" if text_field(block, "signature")? == seal_text(text_field(block, "thinking")?) => {
                thought = true
            }
            "redacted_thinking" if text_field(block, "data")?.starts_with(&seal_text("hidden")) => {
                thought = true
            }
            "thinking" | "redacted_thinking" => {
                return Err(VendorRefusal::invalid_request("Invalid `signature` in `thinking` block"));
            }
            "server_tool_use" if block["input"]["query"].is_string() => {
                open.insert(text_field(block, "id")?.to_owned());
            }
            "web_search_tool_result"
                if open.remove(text_field(block, "tool_use_id")?)
                    && block["content"][0]["encrypted_content"]
                        == seal_text(block["content"][0]["title"].as_str().unwrap_or("")).as_str() => {}
            "tool_use" => {
                let id = text_field(block, "id")?;
                let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
                if !id.chars().all(plain) || !block["input"].is_object() {
                    return Err(VendorRefusal::invalid_request(
                        "tool_use: String should match pattern '^[a-zA-Z0-9_-]+$'",
                    ));
                }
                if id.contains(THOUGHTFUL) && !thought {
                    return Err(VendorRefusal::invalid_request(
                        "Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
                    ));
                }
                if !open.insert(id.to_owned()) {
                    return Err(VendorRefusal::invalid_request("`tool_use` ids must be unique"));
                }
                let call = RequestToolCall::new(id, text_field(block, "name")?, block["input"].to_string());
                message.tool_calls.push(call);
            }
            _ => {
                return Err(VendorRefusal::invalid_request(
                    "messages: text content blocks must be non-empty",
                ));
            }
        }
    }
    let last = content.last().and_then(|block| block["type"].as_str()).unwrap_or("");
    if last.contains("thinking") {
        return Err(VendorRefusal::invalid_request(
            "The final block in an assistant message cannot be `thinking`.",
        ));
    }
    Ok(message)
}
