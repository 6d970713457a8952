//! Anthropic's Messages.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::Value;

use super::{Message, Read, Refusal, THOUGHTFUL, ToolCall, parsed, seal, text_of};

/// The maximum number of cache marks in a request.
const CACHE_MARKS_MAX: usize = 4;

#[derive(Deserialize)]
struct Wire {
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

pub(super) fn read(body: &[u8]) -> Result<Read, Refusal> {
    let wire: Wire = parsed(body)?;
    if !wire.stream {
        return Err(Refusal::invalid("only streams are served here"));
    }
    let whole: Value = parsed(body)?;
    if whole.to_string().matches("\"cache_control\"").count() > CACHE_MARKS_MAX {
        return Err(Refusal::invalid("A maximum of 4 blocks with cache_control may be provided."));
    }
    if wire.thinking["type"] == "enabled" {
        let budget = wire.thinking["budget_tokens"].as_u64().unwrap_or(0);
        if budget < 1024 || budget >= wire.max_tokens {
            return Err(Refusal::invalid("`max_tokens` must be greater than `thinking.budget_tokens`"));
        }
    }
    for tool in &wire.tools {
        text_of(tool, "name")?;
        if !tool["input_schema"].is_object() {
            return Err(Refusal::invalid("tools.0.custom.input_schema: Field required"));
        }
    }
    let mut messages: Vec<Message> = wire
        .system
        .as_array()
        .into_iter()
        .flatten()
        .map(|block| Message::new("system", block["text"].as_str().unwrap_or("")))
        .collect();
    let mut open: HashSet<String> = HashSet::new();
    let mut role = "assistant";
    for (at, message) in wire.messages.iter().enumerate() {
        let is_last = at + 1 == wire.messages.len();
        if message.content.is_empty() || message.role == role {
            return Err(Refusal::invalid("messages: roles must alternate, and messages must have content"));
        }
        role = &message.role;
        match message.role.as_str() {
            "user" => user(&message.content, &mut open, &mut messages)?,
            "assistant" => {
                // Each search ended a request of its own by a pause.
                let pauses = if is_last { searches(&message.content) } else { 0 };
                messages.extend((1..pauses).map(|_| Message::new("assistant", "")));
                messages.push(assistant(&message.content, &mut open)?);
            }
            _ => return Err(Refusal::invalid("messages: unexpected role")),
        }
    }
    let goes_on = wire.messages.last().is_some_and(|message| searches(&message.content) > 0);
    if role != "user" && !goes_on {
        return Err(Refusal::invalid("This model does not support assistant message prefill."));
    }
    if wire.tools.is_empty() && messages.iter().any(|message| !message.tool_calls.is_empty()) {
        return Err(Refusal::invalid("Requests which include `tool_use` blocks must define tools"));
    }
    let none = serde_json::from_slice::<Value>(body).is_ok_and(|body| body["tool_choice"]["type"] == "none");
    Ok(Read { model: wire.model, messages, offers_tools: !wire.tools.is_empty() && !none, wants_usage: true })
}

fn user(content: &[Value], open: &mut HashSet<String>, messages: &mut Vec<Message>) -> Result<(), Refusal> {
    for block in content {
        match text_of(block, "type")? {
            "tool_result" => {
                let id = text_of(block, "tool_use_id")?;
                if !open.remove(id) {
                    return Err(Refusal::invalid("unexpected `tool_use_id` found in `tool_result` blocks"));
                }
                messages.push(Message::result(id, text_of(block, "content")?));
            }
            "text" if open.is_empty() => {
                let text = text_of(block, "text")?;
                if text.trim().is_empty() {
                    return Err(Refusal::invalid("text content blocks must contain non-whitespace text"));
                }
                messages.push(Message::new("user", text));
            }
            "image" if open.is_empty() && block["source"]["type"] == "base64" => {}
            _ => return Err(Refusal::invalid("`tool_use` ids were found without `tool_result` blocks")),
        }
    }
    if open.is_empty() {
        Ok(())
    } else {
        Err(Refusal::invalid("`tool_use` ids were found without `tool_result` blocks immediately after"))
    }
}

/// Returns the number of searches by the vendor's own tool in a message.
fn searches(content: &[Value]) -> usize {
    content.iter().filter(|block| block["type"] == "server_tool_use").count()
}

fn assistant(content: &[Value], open: &mut HashSet<String>) -> Result<Message, Refusal> {
    let mut message = Message { role: "assistant".to_owned(), ..Message::default() };
    let mut thought = false;
    for block in content {
        match text_of(block, "type")? {
            "text" if !text_of(block, "text")?.trim().is_empty() => {
                message.content.get_or_insert_default().push_str(text_of(block, "text")?);
            }
            "thinking" if text_of(block, "signature")? == seal(text_of(block, "thinking")?) => thought = true,
            "redacted_thinking" if text_of(block, "data")?.starts_with(&seal("hidden")) => thought = true,
            "thinking" | "redacted_thinking" => {
                return Err(Refusal::invalid("Invalid `signature` in `thinking` block"));
            }
            "server_tool_use" if block["input"]["query"].is_string() => {
                open.insert(text_of(block, "id")?.to_owned());
            }
            "web_search_tool_result"
                if open.remove(text_of(block, "tool_use_id")?)
                    && block["content"][0]["encrypted_content"]
                        == seal(block["content"][0]["title"].as_str().unwrap_or("")).as_str() => {}
            "tool_use" => {
                let id = text_of(block, "id")?;
                let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
                if !id.chars().all(plain) || !block["input"].is_object() {
                    return Err(Refusal::invalid("tool_use: String should match pattern '^[a-zA-Z0-9_-]+$'"));
                }
                if id.contains(THOUGHTFUL) && !thought {
                    return Err(Refusal::invalid(
                        "Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
                    ));
                }
                if !open.insert(id.to_owned()) {
                    return Err(Refusal::invalid("`tool_use` ids must be unique"));
                }
                let call = ToolCall::new(id, text_of(block, "name")?, block["input"].to_string());
                message.tool_calls.push(call);
            }
            _ => return Err(Refusal::invalid("messages: text content blocks must be non-empty")),
        }
    }
    let last = content.last().and_then(|block| block["type"].as_str()).unwrap_or("");
    if last.contains("thinking") {
        return Err(Refusal::invalid("The final block in an assistant message cannot be `thinking`."));
    }
    Ok(message)
}
