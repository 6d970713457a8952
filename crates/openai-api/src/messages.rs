//! The messages of a request: their JSON, and the texts and files in them.

use domain::excerpt::Excerpt;
use serde::Deserialize;

use crate::error::{OpenAiError, OpenAiResult};
use crate::json_forms::{AnyText, JsonObject, NamedText, TextOrList, UrlText};

/// The maximum number of messages of a history.
pub(crate) const MESSAGES_MAX: usize = 4_000;
/// The maximum number of parts of one message.
const PARTS_MAX: usize = 512;

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum MessageRole {
    /// The system, or the developer.
    System,
    #[default]
    User,
    Assistant,
    /// A tool of the client.
    Tool,
}

/// A file in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SentFile {
    /// A data URL, with the name of the file if the client has sent one.
    Data { url: String, name: Option<String> },
    /// The identifier of an uploaded file: its workspace path, or `file-` and the path in base64.
    Uploaded(String),
}

/// A call of a client's tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SentCall {
    /// Empty if the client has sent none.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// A call in JSON. Clients keep what they got from other vendors, so arguments may be an object, and an id may be missing.
#[derive(Debug, Deserialize)]
struct CallBody {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<JsonObject<CalledBody>>,
    #[serde(default)]
    custom: Option<JsonObject<CalledBody>>,
}

#[derive(Debug, Deserialize)]
struct CalledBody {
    name: String,
    #[serde(default, alias = "input")]
    arguments: AnyText,
}

/// A message without its JSON form.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Message {
    pub(crate) role: MessageRole,
    /// Its texts, joined.
    pub(crate) text: String,
    pub(crate) files: Vec<SentFile>,
    /// The calls of an assistant's message.
    pub(crate) calls: Vec<SentCall>,
    /// The call whose result a tool's message is.
    pub(crate) call_id: Option<String>,
}

/// A message in JSON.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct MessageBody {
    #[serde(default)]
    role: Option<String>,
    #[serde(default)]
    content: Option<TextOrList<JsonObject<PartBody>>>,
    #[serde(default)]
    tool_calls: Option<Vec<JsonObject<CallBody>>>,
    /// The only call of a message from before there were several.
    #[serde(default)]
    function_call: Option<JsonObject<CalledBody>>,
    #[serde(default)]
    tool_call_id: Option<String>,
    /// The function whose result a message of the role `function` is.
    #[serde(default)]
    name: Option<String>,
}

/// A part of a content. The names of its fields differ between OpenAI's interfaces.
#[derive(Debug, Deserialize)]
pub(crate) struct PartBody {
    r#type: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    image_url: Option<UrlText>,
    #[serde(default)]
    file: Option<JsonObject<FileBody>>,
    #[serde(flatten)]
    own: FileBody,
}

#[derive(Debug, Default, Deserialize)]
struct FileBody {
    #[serde(default)]
    file_id: Option<String>,
    #[serde(default)]
    file_data: Option<String>,
    #[serde(default)]
    file_url: Option<String>,
    #[serde(default)]
    filename: Option<String>,
}

/// Converts the messages of a request; `field` is their name in it.
///
/// # Errors
/// [`OpenAiError`] for too many messages, and for a message that is not understood.
pub(crate) fn convert_messages(
    bodies: Vec<JsonObject<MessageBody>>,
    field: &str,
) -> OpenAiResult<Vec<Message>> {
    if bodies.len() > MESSAGES_MAX {
        let message = format!("{field} has too many messages: send at most {MESSAGES_MAX}");
        return Err(OpenAiError::invalid_field(field, message));
    }
    let convert = |(at, JsonObject(body)): (usize, JsonObject<MessageBody>)| {
        let place = format!("{field}[{at}]");
        body.into_message(&place).map_err(|message| OpenAiError::invalid_field(place, message))
    };
    bodies.into_iter().enumerate().map(convert).collect()
}

impl MessageBody {
    pub(crate) fn into_message(self, place: &str) -> Result<Message, String> {
        let role = match self.role.as_deref() {
            Some("system" | "developer") => MessageRole::System,
            Some("user") | None => MessageRole::User,
            Some("assistant") => MessageRole::Assistant,
            Some("tool" | "function") => MessageRole::Tool,
            Some(other) => return Err(format!("{place}: unknown role {}", Excerpt(other))),
        };
        let mut message = Message { role, ..Message::default() };
        message.calls = self.tool_calls.into_iter().flatten().filter_map(|call| call.0.into_call()).collect();
        if let Some(JsonObject(called)) = self.function_call {
            // Its result names the function alone.
            let CalledBody { name, arguments: AnyText(arguments) } = called;
            message.calls.push(SentCall { id: name.clone(), name, arguments });
        }
        message.call_id = self.tool_call_id.or(self.name.filter(|_| role == MessageRole::Tool));
        match self.content {
            None => {}
            Some(TextOrList::Text(text)) => message.text = text,
            Some(TextOrList::List(parts)) if parts.len() > PARTS_MAX => {
                return Err(format!("{place} has too many parts: send at most {PARTS_MAX}"));
            }
            Some(TextOrList::List(parts)) => {
                for JsonObject(part) in parts {
                    part.add_to(&mut message, place)?;
                }
            }
        }
        if message.text.contains('\0') {
            return Err(format!("{place} contains a NUL character: remove it"));
        }
        Ok(message)
    }
}

impl CallBody {
    /// Returns the call; `None` for one that names no function.
    fn into_call(self) -> Option<SentCall> {
        let JsonObject(CalledBody { name, arguments: AnyText(arguments) }) = self.function.or(self.custom)?;
        Some(SentCall { id: self.id.unwrap_or_default(), name, arguments })
    }
}

impl PartBody {
    fn add_to(self, message: &mut Message, place: &str) -> Result<(), String> {
        match self.r#type.as_str() {
            "text" | "input_text" | "output_text" | "refusal" => {
                let text = self.text.unwrap_or_default();
                if !message.text.is_empty() && !text.is_empty() {
                    message.text.push_str("\n\n");
                }
                message.text.push_str(&text);
                Ok(())
            }
            "image_url" | "input_image" => {
                let file = match (self.image_url, self.own.file_id) {
                    (Some(NamedText(url)), _) if url.starts_with("data:") => {
                        SentFile::Data { url, name: None }
                    }
                    (Some(_), _) => {
                        return Err(format!(
                            "{place}: images of other servers are not fetched: send a data URL"
                        ));
                    }
                    (None, Some(id)) => SentFile::Uploaded(id),
                    (None, None) => return Err(format!("{place}: image_url is missing")),
                };
                message.files.push(file);
                Ok(())
            }
            "file" | "input_file" => {
                let FileBody { file_id, file_data, file_url, filename } =
                    self.file.map_or(self.own, |JsonObject(file)| file);
                let file = match (file_id, file_data) {
                    (Some(id), _) => SentFile::Uploaded(id),
                    (None, Some(url)) => SentFile::Data { url, name: filename },
                    (None, None) if file_url.is_some() => {
                        return Err(format!(
                            "{place}: files of other servers are not fetched: upload the file, or send file_data"
                        ));
                    }
                    (None, None) => return Err(format!("{place}: file_id or file_data is missing")),
                };
                message.files.push(file);
                Ok(())
            }
            other => Err(format!(
                "{place}: parts of type {} are not supported: send text, image_url or file",
                Excerpt(other)
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(json: &str) -> OpenAiResult<Vec<Message>> {
        let bodies: Vec<JsonObject<MessageBody>> = serde_json::from_str(json).expect("messages");
        convert_messages(bodies, "messages")
    }

    #[test]
    fn content_is_text_or_parts() {
        let messages = convert(
            r#"[{"role": "developer", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
                    {"type": "input_image", "image_url": "data:image/png;base64,AA=="},
                    {"type": "file", "file": {"file_data": "data:text/plain;base64,AA==", "filename": "a.txt"}},
                    {"type": "input_file", "file_id": "file-x"}]},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "c", "content": "done"}]"#,
        )
        .expect("messages");
        assert_eq!(messages[0].role, MessageRole::System);
        assert_eq!(messages[1].text, "a\n\nb");
        assert_eq!(messages[1].files.len(), 4);
        assert_eq!(messages[1].files[3], SentFile::Uploaded("file-x".to_owned()));
        assert_eq!(messages[2].calls[0].name, "f");
        assert_eq!(messages[3].call_id.as_deref(), Some("c"));
    }

    #[test]
    fn calls_of_other_vendors_are_understood() {
        let messages = convert(
            r#"[{"role": "assistant", "tool_calls": [
                    {"id": null, "type": "function", "function": {"name": "f", "arguments": {"a": 1}}},
                    {"type": "function", "function": {"name": "g", "arguments": null}},
                    {"id": "c", "type": "custom", "custom": {"name": "h", "input": "x"}}]},
                {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}},
                {"role": "function", "name": "f", "content": "done"},
                {"role": "user", "name": "Ann", "content": "a"}]"#,
        )
        .expect("messages");
        let calls: Vec<_> = messages[0]
            .calls
            .iter()
            .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str()))
            .collect();
        assert_eq!(calls, [("", "f", "{\"a\":1}"), ("", "g", ""), ("c", "h", "x")]);
        assert_eq!(messages[1].calls[0].id, "f");
        assert_eq!(messages[2].call_id.as_deref(), Some("f"));
        assert_eq!(messages[3].call_id, None);
    }

    #[test]
    fn remote_images_and_unknown_parts_are_refused() {
        for json in [
            r#"[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.org/a"}}]}]"#,
            r#"[{"role": "user", "content": [{"type": "input_audio"}]}]"#,
            r#"[{"role": "user", "content": [{"type": "file"}]}]"#,
            r#"[{"role": "user", "content": [{"type": "input_file", "file_url": "https://example.org/a"}]}]"#,
            r#"[{"role": "robot", "content": "a"}]"#,
            r#"[{"role": "user", "content": "a\u0000"}]"#,
        ] {
            assert!(convert(json).is_err(), "{json}");
        }
    }
}
