//! Google's `streamGenerateContent`.

use serde::Deserialize;
use serde_json::Value;

use super::{Message, Read, Refusal, ToolCall, parsed, seal, text_of};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    contents: Vec<Content>,
    #[serde(default)]
    system_instruction: Value,
    #[serde(default)]
    tools: Vec<Value>,
}

#[derive(Deserialize)]
struct Content {
    role: String,
    parts: Vec<Value>,
}

pub(super) fn read(model: &str, body: &[u8]) -> Result<Read, Refusal> {
    let wire: Wire = parsed(body)?;
    for tool in wire.tools.iter().flat_map(|tools| tools["functionDeclarations"].as_array()).flatten() {
        text_of(tool, "name")?;
        if !tool["parametersJsonSchema"].is_object() {
            return Err(Refusal::invalid("functionDeclarations: parameters should be of type OBJECT"));
        }
    }
    let mut messages = Vec::new();
    if let Some(text) = wire.system_instruction["parts"][0]["text"].as_str() {
        messages.push(Message::new("system", text));
    }
    // Signatures are required for calls since the last user's message.
    let present = wire.contents.iter().rposition(|content| {
        content.role == "user" && content.parts.iter().any(|part| part["text"].is_string())
    });
    let mut open: Vec<ToolCall> = Vec::new();
    let mut role = "model";
    for (at, content) in wire.contents.iter().enumerate() {
        if content.parts.is_empty() || content.role == role {
            return Err(Refusal::invalid("contents: roles must alternate, and contents must have parts"));
        }
        role = &content.role;
        match role {
            "user" => user(&content.parts, &mut open, &mut messages)?,
            "model" => {
                let signed = present.is_some_and(|present| at > present);
                let message = model_message(&content.parts, signed, messages.len())?;
                open = message
                    .tool_calls
                    .iter()
                    .map(|call| ToolCall::new(&call.id, &call.function.name, String::new()))
                    .collect();
                messages.push(message);
            }
            _ => return Err(Refusal::invalid("Please use a valid role: user, model.")),
        }
    }
    if role != "user" || !open.is_empty() {
        return Err(Refusal::invalid("contents: the last must be the user's"));
    }
    Ok(Read { model: model.to_owned(), messages, offers_tools: !wire.tools.is_empty(), wants_usage: true })
}

fn user(parts: &[Value], open: &mut Vec<ToolCall>, messages: &mut Vec<Message>) -> Result<(), Refusal> {
    let mismatch = || {
        Refusal::invalid(
            "Please ensure that the number of function response parts is equal to the number of function call parts",
        )
    };
    for part in parts {
        if let Some(text) = part["text"].as_str() {
            if !open.is_empty() {
                return Err(mismatch());
            }
            messages.push(Message::new("user", text));
            continue;
        }
        if part["inlineData"]["data"].is_string()
            && part["inlineData"]["mimeType"].is_string()
            && open.is_empty()
        {
            continue;
        }
        let response = &part["functionResponse"];
        if open.is_empty() || !response["response"].is_object() {
            return Err(mismatch());
        }
        let call = open.remove(0);
        let id = response["id"].as_str();
        if call.function.name != text_of(response, "name")? || id.is_some_and(|id| id != call.id) {
            return Err(mismatch());
        }
        let output = &response["response"];
        let text = output["output"].as_str().or(output["error"].as_str()).unwrap_or("");
        messages.push(Message::result(&call.id, text));
    }
    if open.is_empty() { Ok(()) } else { Err(mismatch()) }
}

fn model_message(parts: &[Value], signed: bool, number: usize) -> Result<Message, Refusal> {
    let mut message = Message { role: "assistant".to_owned(), ..Message::default() };
    for part in parts {
        let signature = part["thoughtSignature"].as_str();
        if let Some(text) = part["text"].as_str() {
            if signature.is_some_and(|signature| signature != seal(text)) {
                return Err(Refusal::invalid("Corrupted thought signature."));
            }
            message.content.get_or_insert_default().push_str(text);
            continue;
        }
        let call = &part["functionCall"];
        let name = text_of(call, "name")?;
        let arguments = call["args"].to_string();
        match signature {
            Some(signature) if signature != seal(&format!("{name}{arguments}")) => {
                return Err(Refusal::invalid("Corrupted thought signature."));
            }
            None if signed && message.tool_calls.is_empty() => {
                return Err(Refusal::invalid(format!(
                    "Function call is missing a thought_signature in functionCall parts. Function call `{name}`."
                )));
            }
            Some(_) | None => {}
        }
        let made_up = format!("call_{number}_{}", message.tool_calls.len());
        let id = call["id"].as_str().unwrap_or(&made_up);
        message.tool_calls.push(ToolCall::new(id, name, arguments));
    }
    Ok(message)
}
