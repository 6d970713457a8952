//! OpenAI's Responses.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::Value;

use super::{
    ParsedRequest, RequestMessage, RequestToolCall, THOUGHTFUL, VendorRefusal, parse_json, seal_text,
    text_field,
};

const CALL_ID_MAX_BYTES: usize = 64;

#[derive(Deserialize)]
struct ReceivedResponsesRequest {
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

pub(super) fn parse_request(body: &[u8]) -> Result<ParsedRequest, VendorRefusal> {
    let wire: ReceivedResponsesRequest = parse_json(body)?;
    if !wire.stream || wire.store || !wire.include.iter().any(|what| what == "reasoning.encrypted_content") {
        return Err(VendorRefusal::invalid_request(
            "only streams that are not stored and carry reasoning are served here",
        ));
    }
    for tool in &wire.tools {
        text_field(tool, "name")?;
        if tool["type"] != "function" || !tool["parameters"].is_object() {
            return Err(VendorRefusal::invalid_request("Missing required parameter: 'tools[0].parameters'."));
        }
    }
    let mut messages: Vec<RequestMessage> =
        wire.instructions.iter().map(|text| RequestMessage::new("system", text)).collect();
    let mut open: HashSet<String> = HashSet::new();
    let mut thought = false;
    for (at, item) in wire.input.iter().enumerate() {
        let kind = item["type"].as_str().unwrap_or("message");
        match (kind, item["role"].as_str()) {
            ("message", Some("user")) if open.is_empty() => {
                thought = false;
                messages.push(RequestMessage::new("user", &content_text(item, "input_text")?));
            }
            ("message", Some("assistant")) if open.is_empty() => {
                open_assistant_message(&mut messages)
                    .content
                    .get_or_insert_default()
                    .push_str(&content_text(item, "output_text")?);
            }
            ("reasoning", _) => {
                let sealed = text_field(item, "encrypted_content")?;
                if sealed != seal_text(text_field(item, "id")?) || !item["summary"].is_array() {
                    return Err(VendorRefusal::new(
                        400,
                        "The encrypted content could not be verified.",
                        "invalid_encrypted_content",
                    ));
                }
                let next = wire.input.get(at + 1).and_then(|next| next["type"].as_str()).unwrap_or("");
                if !matches!(next, "message" | "function_call" | "reasoning") {
                    return Err(VendorRefusal::invalid_request(
                        "Item of type 'reasoning' was provided without its required following item.",
                    ));
                }
                thought = true;
            }
            ("function_call", _) => {
                let id = text_field(item, "call_id")?;
                if id.len() > CALL_ID_MAX_BYTES || !open.insert(id.to_owned()) {
                    return Err(VendorRefusal::invalid_request("Invalid 'input[1].call_id'"));
                }
                if id.contains(THOUGHTFUL) && item["id"].as_str().is_none_or(|id| !id.starts_with("fc_")) {
                    return Err(VendorRefusal::invalid_request("Item of type 'function_call' was changed."));
                }
                if id.contains(THOUGHTFUL) && !thought {
                    return Err(VendorRefusal::invalid_request(
                        "Item of type 'function_call' was provided without its required 'reasoning' item.",
                    ));
                }
                let arguments = text_field(item, "arguments")?.to_owned();
                let call = RequestToolCall::new(id, text_field(item, "name")?, arguments);
                open_assistant_message(&mut messages).tool_calls.push(call);
            }
            ("function_call_output", _) => {
                thought = false;
                let id = text_field(item, "call_id")?;
                if !open.remove(id) {
                    return Err(VendorRefusal::invalid_request(
                        "No tool call found for function call output with that call_id.",
                    ));
                }
                messages.push(RequestMessage::tool_result(id, text_field(item, "output")?));
            }
            _ => return Err(VendorRefusal::invalid_request("No tool output found for function call.")),
        }
    }
    if !open.is_empty() || wire.input.is_empty() {
        return Err(VendorRefusal::invalid_request("No tool output found for function call."));
    }
    Ok(ParsedRequest { model: wire.model, messages, offers_tools: !wire.tools.is_empty(), wants_usage: true })
}

fn content_text(item: &Value, kind: &str) -> Result<String, VendorRefusal> {
    if let Some(text) = item["content"].as_str() {
        return Ok(text.to_owned());
    }
    let mut out = String::new();
    for part in item["content"].as_array().into_iter().flatten() {
        if part["type"] == "input_image" && kind == "input_text" && super::is_data_url(&part["image_url"]) {
            continue;
        }
        if part["type"] != kind {
            return Err(VendorRefusal::invalid_request(format!("Supported values are: '{kind}'.")));
        }
        out.push_str(text_field(part, "text")?);
    }
    Ok(out)
}

/// Returns the assistant's message in progress.
fn open_assistant_message(messages: &mut Vec<RequestMessage>) -> &mut RequestMessage {
    if messages.last().is_none_or(|last| last.role != "assistant") {
        messages.push(RequestMessage { role: "assistant".to_owned(), ..RequestMessage::default() });
    }
    let last = messages.len() - 1;
    &mut messages[last]
}
