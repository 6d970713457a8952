//! OpenAI's Responses.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::Value;

use super::{Message, Read, Refusal, THOUGHTFUL, ToolCall, parsed, seal, text_of};

const CALL_ID_MAX_BYTES: usize = 64;

#[derive(Deserialize)]
struct Wire {
    model: String,
    input: Vec<Value>,
    #[serde(default)]
    instructions: Option<String>,
    #[serde(default)]
    stream: bool,
    #[serde(default = "yes")]
    store: bool,
    #[serde(default)]
    include: Vec<String>,
    #[serde(default)]
    tools: Vec<Value>,
}

fn yes() -> bool {
    true
}

pub(super) fn read(body: &[u8]) -> Result<Read, Refusal> {
    let wire: Wire = parsed(body)?;
    if !wire.stream || wire.store || !wire.include.iter().any(|what| what == "reasoning.encrypted_content") {
        return Err(Refusal::invalid("only streams that are not stored and carry reasoning are served here"));
    }
    for tool in &wire.tools {
        text_of(tool, "name")?;
        if tool["type"] != "function" || !tool["parameters"].is_object() {
            return Err(Refusal::invalid("Missing required parameter: 'tools[0].parameters'."));
        }
    }
    let mut messages: Vec<Message> =
        wire.instructions.iter().map(|text| Message::new("system", text)).collect();
    let mut open: HashSet<String> = HashSet::new();
    let mut thought = false;
    for (at, item) in wire.input.iter().enumerate() {
        let kind = item["type"].as_str().unwrap_or("message");
        match (kind, item["role"].as_str()) {
            ("message", Some("user")) if open.is_empty() => {
                thought = false;
                messages.push(Message::new("user", &content(item, "input_text")?));
            }
            ("message", Some("assistant")) if open.is_empty() => {
                assistant(&mut messages)
                    .content
                    .get_or_insert_default()
                    .push_str(&content(item, "output_text")?);
            }
            ("reasoning", _) => {
                let sealed = text_of(item, "encrypted_content")?;
                if sealed != seal(text_of(item, "id")?) || !item["summary"].is_array() {
                    return Err(Refusal::new(
                        400,
                        "The encrypted content could not be verified.",
                        "invalid_encrypted_content",
                    ));
                }
                let next = wire.input.get(at + 1).and_then(|next| next["type"].as_str()).unwrap_or("");
                if !matches!(next, "message" | "function_call" | "reasoning") {
                    return Err(Refusal::invalid(
                        "Item of type 'reasoning' was provided without its required following item.",
                    ));
                }
                thought = true;
            }
            ("function_call", _) => {
                let id = text_of(item, "call_id")?;
                if id.len() > CALL_ID_MAX_BYTES || !open.insert(id.to_owned()) {
                    return Err(Refusal::invalid("Invalid 'input[1].call_id'"));
                }
                if id.contains(THOUGHTFUL) && item["id"].as_str().is_none_or(|id| !id.starts_with("fc_")) {
                    return Err(Refusal::invalid("Item of type 'function_call' was changed."));
                }
                if id.contains(THOUGHTFUL) && !thought {
                    return Err(Refusal::invalid(
                        "Item of type 'function_call' was provided without its required 'reasoning' item.",
                    ));
                }
                let arguments = text_of(item, "arguments")?.to_owned();
                let call = ToolCall::new(id, text_of(item, "name")?, arguments);
                assistant(&mut messages).tool_calls.push(call);
            }
            ("function_call_output", _) => {
                thought = false;
                let id = text_of(item, "call_id")?;
                if !open.remove(id) {
                    return Err(Refusal::invalid(
                        "No tool call found for function call output with that call_id.",
                    ));
                }
                messages.push(Message::result(id, text_of(item, "output")?));
            }
            _ => return Err(Refusal::invalid("No tool output found for function call.")),
        }
    }
    if !open.is_empty() || wire.input.is_empty() {
        return Err(Refusal::invalid("No tool output found for function call."));
    }
    Ok(Read { model: wire.model, messages, offers_tools: !wire.tools.is_empty(), wants_usage: true })
}

fn content(item: &Value, kind: &str) -> Result<String, Refusal> {
    if let Some(text) = item["content"].as_str() {
        return Ok(text.to_owned());
    }
    let mut out = String::new();
    for part in item["content"].as_array().into_iter().flatten() {
        if part["type"] == "input_image" && kind == "input_text" && super::is_data_url(&part["image_url"]) {
            continue;
        }
        if part["type"] != kind {
            return Err(Refusal::invalid(format!("Supported values are: '{kind}'.")));
        }
        out.push_str(text_of(part, "text")?);
    }
    Ok(out)
}

/// Returns the assistant's message in progress.
fn assistant(messages: &mut Vec<Message>) -> &mut Message {
    if messages.last().is_none_or(|last| last.role != "assistant") {
        messages.push(Message { role: "assistant".to_owned(), ..Message::default() });
    }
    let last = messages.len() - 1;
    &mut messages[last]
}
