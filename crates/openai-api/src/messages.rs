//! The messages of a request: their JSON, and the texts and files in them.

use std::fmt;

use domain::excerpt::Excerpt;
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

use crate::error::{OpenAiError, OpenAiResult};

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
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct SentCall {
    #[serde(default)]
    pub(crate) id: String,
    pub(crate) function: SentFunction,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct SentFunction {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) arguments: String,
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
    content: Option<ContentBody>,
    #[serde(default)]
    tool_calls: Option<Vec<SentCall>>,
    #[serde(default)]
    tool_call_id: Option<String>,
}

/// The content of a message: a text, or parts.
#[derive(Debug)]
pub(crate) enum ContentBody {
    Text(String),
    Parts(Vec<PartBody>),
}

/// A part of a content. The names of its fields differ between OpenAI's interfaces.
#[derive(Debug, Deserialize)]
pub(crate) struct PartBody {
    r#type: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    image_url: Option<ImageBody>,
    #[serde(default)]
    file: Option<FileBody>,
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
    filename: Option<String>,
}

/// An image: its URL, or an object with it.
#[derive(Debug)]
struct ImageBody(String);

impl<'de> Deserialize<'de> for ContentBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ContentVisitor;

        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = ContentBody;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or an array of parts")
            }

            fn visit_str<E>(self, text: &str) -> Result<ContentBody, E> {
                Ok(ContentBody::Text(text.to_owned()))
            }

            fn visit_string<E>(self, text: String) -> Result<ContentBody, E> {
                Ok(ContentBody::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, parts: A) -> Result<ContentBody, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(parts)).map(ContentBody::Parts)
            }
        }

        deserializer.deserialize_any(ContentVisitor)
    }
}

impl<'de> Deserialize<'de> for ImageBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct ImageObject {
            url: String,
        }

        struct ImageVisitor;

        impl<'de> Visitor<'de> for ImageVisitor {
            type Value = ImageBody;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a URL or an object with a URL")
            }

            fn visit_str<E>(self, url: &str) -> Result<ImageBody, E> {
                Ok(ImageBody(url.to_owned()))
            }

            fn visit_string<E>(self, url: String) -> Result<ImageBody, E> {
                Ok(ImageBody(url))
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<ImageBody, A::Error> {
                ImageObject::deserialize(MapAccessDeserializer::new(fields)).map(|image| ImageBody(image.url))
            }
        }

        deserializer.deserialize_any(ImageVisitor)
    }
}

/// Converts the messages of a request; `field` is their name in it.
///
/// # Errors
/// [`OpenAiError`] for too many messages, and for a message that is not understood.
pub(crate) fn convert_messages(bodies: Vec<MessageBody>, field: &str) -> OpenAiResult<Vec<Message>> {
    if bodies.len() > MESSAGES_MAX {
        let message = format!("{field} has too many messages: send at most {MESSAGES_MAX}");
        return Err(OpenAiError::invalid_field(field, message));
    }
    let convert = |(at, body): (usize, MessageBody)| {
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
        let mut message = Message { role, calls: self.tool_calls.unwrap_or_default(), ..Message::default() };
        message.call_id = self.tool_call_id;
        match self.content {
            None => {}
            Some(ContentBody::Text(text)) => message.text = text,
            Some(ContentBody::Parts(parts)) if parts.len() > PARTS_MAX => {
                return Err(format!("{place} has too many parts: send at most {PARTS_MAX}"));
            }
            Some(ContentBody::Parts(parts)) => {
                for part in parts {
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
                    (Some(ImageBody(url)), _) if url.starts_with("data:") => {
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
                let FileBody { file_id, file_data, filename } = self.file.unwrap_or(self.own);
                let file = match (file_id, file_data) {
                    (Some(id), _) => SentFile::Uploaded(id),
                    (None, Some(url)) => SentFile::Data { url, name: filename },
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
        let bodies: Vec<MessageBody> = serde_json::from_str(json).expect("messages");
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
        assert_eq!(messages[2].calls[0].function.name, "f");
        assert_eq!(messages[3].call_id.as_deref(), Some("c"));
    }

    #[test]
    fn remote_images_and_unknown_parts_are_refused() {
        for json in [
            r#"[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.org/a"}}]}]"#,
            r#"[{"role": "user", "content": [{"type": "input_audio"}]}]"#,
            r#"[{"role": "user", "content": [{"type": "file"}]}]"#,
            r#"[{"role": "robot", "content": "a"}]"#,
            r#"[{"role": "user", "content": "a\u0000"}]"#,
        ] {
            assert!(convert(json).is_err(), "{json}");
        }
    }
}
