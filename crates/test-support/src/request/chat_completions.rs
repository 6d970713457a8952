//! OpenAI's Chat Completions.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::Value;

use super::{ParsedRequest, RequestMessage, VendorRefusal, parse_json};

#[derive(Deserialize)]
struct ReceivedChatCompletionsRequest {
    model: String,
    messages: Vec<RequestMessage>,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    stream_options: Value,
    #[serde(default)]
    tools: Option<Vec<OfferedTool>>,
}

#[derive(Deserialize)]
struct OfferedTool {
    r#type: String,
    function: OfferedFunction,
}

#[derive(Deserialize)]
struct OfferedFunction {
    name: String,
    #[serde(default)]
    parameters: Value,
}

pub(super) fn parse_request(body: &[u8]) -> Result<ParsedRequest, VendorRefusal> {
    let wire: ReceivedChatCompletionsRequest = parse_json(body)?;
    if !wire.stream {
        return Err(VendorRefusal::invalid_request("only streams are served here"));
    }
    check_messages(&wire.messages)?;
    let tools = wire.tools.as_deref();
    if tools.is_some_and(<[OfferedTool]>::is_empty) {
        return Err(VendorRefusal::invalid_request("[] is too short - 'tools'"));
    }
    for tool in tools.unwrap_or_default() {
        if tool.r#type != "function" || tool.function.name.is_empty() || !tool.function.parameters.is_object()
        {
            return Err(VendorRefusal::invalid_request("a tool is malformed"));
        }
    }
    Ok(ParsedRequest {
        offers_tools: tools.is_some(),
        wants_usage: wire.stream_options["include_usage"] == Value::Bool(true),
        model: wire.model,
        messages: wire.messages,
    })
}

/// Requires a result right after every call, and nothing else there.
fn check_messages(messages: &[RequestMessage]) -> Result<(), VendorRefusal> {
    if messages.is_empty() {
        return Err(VendorRefusal::invalid_request("[] is too short - 'messages'"));
    }
    let mut open: HashSet<&str> = HashSet::new();
    for message in messages {
        if message.role != "tool" && !open.is_empty() {
            return Err(VendorRefusal::invalid_request("a tool call is not followed by its tool message"));
        }
        match message.role.as_str() {
            "system" | "user" if message.content.is_some() => {}
            "assistant" if message.content.is_some() || !message.tool_calls.is_empty() => {
                for call in &message.tool_calls {
                    if call.function.name.is_empty()
                        || serde_json::from_str::<Value>(&call.function.arguments).is_err()
                    {
                        return Err(VendorRefusal::invalid_request("a tool call is malformed"));
                    }
                    if !open.insert(&call.id) {
                        return Err(VendorRefusal::invalid_request("two tool calls have the same id"));
                    }
                }
            }
            "tool" if message.content.is_some() => {
                let answered = message.tool_call_id.as_deref().unwrap_or("");
                if !open.remove(answered) {
                    return Err(VendorRefusal::invalid_request("a tool message answers no call"));
                }
            }
            _ => return Err(VendorRefusal::invalid_request("a message is malformed")),
        }
    }
    if open.is_empty() { Ok(()) } else { Err(VendorRefusal::invalid_request("a tool call is not answered")) }
}
