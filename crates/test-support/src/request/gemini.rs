//! Google's `streamGenerateContent`.

use serde::Deserialize;
use serde_json::Value;

use super::{
    ParsedRequest, RequestMessage, RequestToolCall, VendorRefusal, parse_json, seal_text, text_field,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReceivedGeminiRequest {
    contents: Vec<ReceivedGeminiContent>,
    #[serde(default)]
    system_instruction: Value,
    #[serde(default)]
    tools: Vec<Value>,
}

#[derive(Deserialize)]
struct ReceivedGeminiContent {
    role: String,
    parts: Vec<Value>,
}

pub(super) fn parse_request(model: &str, body: &[u8]) -> Result<ParsedRequest, VendorRefusal> {
    let wire: ReceivedGeminiRequest = parse_json(body)?;
    for tool in wire.tools.iter().flat_map(|tools| tools["functionDeclarations"].as_array()).flatten() {
        text_field(tool, "name")?;
        if !tool["parametersJsonSchema"].is_object() {
            return Err(VendorRefusal::invalid_request(
                "functionDeclarations: parameters should be of type OBJECT",
            ));
        }
    }
    let mut messages = Vec::new();
    if let Some(text) = wire.system_instruction["parts"][0]["text"].as_str() {
        messages.push(RequestMessage::new("system", text));
    }
    // Signatures are required for calls since the last user's message.
    let present = wire.contents.iter().rposition(|content| {
        content.role == "user" && content.parts.iter().any(|part| part["text"].is_string())
    });
    let mut open: Vec<RequestToolCall> = Vec::new();
    let mut role = "model";
    for (at, content) in wire.contents.iter().enumerate() {
        if content.parts.is_empty() || content.role == role {
            return Err(VendorRefusal::invalid_request(
                "contents: roles must alternate, and contents must have parts",
            ));
        }
        role = &content.role;
        match role {
            "user" => parse_user_message(&content.parts, &mut open, &mut messages)?,
            "model" => {
                let signed = present.is_some_and(|present| at > present);
                let message = model_message(&content.parts, signed, messages.len())?;
                open = message
                    .tool_calls
                    .iter()
                    .map(|call| RequestToolCall::new(&call.id, &call.function.name, String::new()))
                    .collect();
                messages.push(message);
            }
            _ => return Err(VendorRefusal::invalid_request("Please use a valid role: user, model.")),
        }
    }
    if role != "user" || !open.is_empty() {
        return Err(VendorRefusal::invalid_request("contents: the last must be the user's"));
    }
    Ok(ParsedRequest {
        model: model.to_owned(),
        messages,
        offers_tools: !wire.tools.is_empty(),
        wants_usage: true,
    })
}

fn parse_user_message(
    parts: &[Value],
    open: &mut Vec<RequestToolCall>,
    messages: &mut Vec<RequestMessage>,
) -> Result<(), VendorRefusal> {
    let mismatch = || {
        VendorRefusal::invalid_request(
            "Please ensure that the number of function response parts is equal to the number of function call parts",
        )
    };
    for part in parts {
        if let Some(text) = part["text"].as_str() {
            if !open.is_empty() {
                return Err(mismatch());
            }
            messages.push(RequestMessage::new("user", text));
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
        if call.function.name != text_field(response, "name")? || id.is_some_and(|id| id != call.id) {
            return Err(mismatch());
        }
        let output = &response["response"];
        let text = output["output"].as_str().or(output["error"].as_str()).unwrap_or("");
        messages.push(RequestMessage::tool_result(&call.id, text));
    }
    if open.is_empty() { Ok(()) } else { Err(mismatch()) }
}

fn model_message(parts: &[Value], signed: bool, number: usize) -> Result<RequestMessage, VendorRefusal> {
    let mut message = RequestMessage { role: "assistant".to_owned(), ..RequestMessage::default() };
    for part in parts {
        let signature = part["thoughtSignature"].as_str();
        if let Some(text) = part["text"].as_str() {
            if signature.is_some_and(|signature| signature != seal_text(text)) {
                return Err(VendorRefusal::invalid_request("Corrupted thought signature."));
            }
            message.content.get_or_insert_default().push_str(text);
            continue;
        }
        let call = &part["functionCall"];
        let name = text_field(call, "name")?;
        let arguments = call["args"].to_string();
        match signature {
            Some(signature) if signature != seal_text(&format!("{name}{arguments}")) => {
                return Err(VendorRefusal::invalid_request("Corrupted thought signature."));
            }
            None if signed && message.tool_calls.is_empty() => {
                return Err(VendorRefusal::invalid_request(format!(
                    "Function call is missing a thought_signature in functionCall parts. Function call `{name}`."
                )));
            }
            Some(_) | None => {}
        }
        let made_up = format!("call_{number}_{}", message.tool_calls.len());
        let id = call["id"].as_str().unwrap_or(&made_up);
        message.tool_calls.push(RequestToolCall::new(id, name, arguments));
    }
    Ok(message)
}
