//! Parses requests as strictly as the vendors do, in the format of their path.

mod anthropic;
mod chat_completions;
mod gemini;
mod responses;

use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VendorFormat {
    Anthropic,
    ChatCompletions,
    Gemini,
    Responses,
}

impl VendorFormat {
    /// Returns the header for the key, and its prefix.
    pub(crate) fn key_header(self) -> (&'static str, &'static str) {
        match self {
            Self::Anthropic => ("x-api-key", ""),
            Self::ChatCompletions | Self::Responses => ("authorization", "Bearer "),
            Self::Gemini => ("x-goog-api-key", ""),
        }
    }
}

/// A parsed request, independent of the format.
pub(crate) struct VendorRequest {
    pub(crate) format: VendorFormat,
    pub(crate) model: String,
    pub(crate) messages: Vec<RequestMessage>,
    pub(crate) offers_tools: bool,
    pub(crate) wants_usage: bool,
    pub(crate) size_bytes: usize,
    pub(crate) fingerprint: u64,
}

/// A message in the structure of Chat Completions: each result and each question is a separate message.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct RequestMessage {
    pub(crate) role: String,
    #[serde(default, deserialize_with = "text_or_parts")]
    pub(crate) content: Option<String>,
    #[serde(default)]
    pub(crate) tool_calls: Vec<RequestToolCall>,
    #[serde(default)]
    pub(crate) tool_call_id: Option<String>,
}

impl RequestMessage {
    fn new(role: &str, content: &str) -> Self {
        Self { role: role.to_owned(), content: Some(content.to_owned()), ..Self::default() }
    }

    fn tool_result(call: &str, content: &str) -> Self {
        Self { tool_call_id: Some(call.to_owned()), ..Self::new("tool", content) }
    }
}

/// Deserializes content as text or parts. Images have no text.
fn text_or_parts<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    match Option::<Value>::deserialize(from)? {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(Value::Array(parts)) => {
            let mut text = String::new();
            for part in &parts {
                match part["type"].as_str() {
                    Some("text") => text.push_str(part["text"].as_str().unwrap_or_default()),
                    Some("image_url") if is_data_url(&part["image_url"]["url"]) => {}
                    _ => return Err(serde::de::Error::custom("a piece of content is malformed")),
                }
            }
            Ok(Some(text))
        }
        Some(_) => Err(serde::de::Error::custom("content is text or pieces")),
    }
}

/// Returns true for a data URL of an image.
fn is_data_url(url: &Value) -> bool {
    url.as_str().is_some_and(|url| url.starts_with("data:image/") && url.contains(";base64,"))
}

#[derive(Debug, Deserialize)]
pub(crate) struct RequestToolCall {
    pub(crate) id: String,
    pub(crate) function: CalledFunction,
}

impl RequestToolCall {
    fn new(id: &str, name: &str, arguments: String) -> Self {
        Self { id: id.to_owned(), function: CalledFunction { name: name.to_owned(), arguments } }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct CalledFunction {
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// The reason for a rejection.
#[derive(Debug)]
pub(crate) struct VendorRefusal {
    pub(crate) status: u16,
    pub(crate) message: String,
    pub(crate) code: Option<String>,
}

impl VendorRefusal {
    pub(crate) fn new(status: u16, message: impl Into<String>, code: &str) -> Self {
        Self { status, message: message.into(), code: Some(code.to_owned()) }
    }

    fn invalid_request(message: impl Into<String>) -> Self {
        Self { status: 400, message: message.into(), code: None }
    }
}

/// The parts of a request that depend on the format.
struct ParsedRequest {
    model: String,
    messages: Vec<RequestMessage>,
    offers_tools: bool,
    wants_usage: bool,
}

impl VendorRequest {
    /// Parses the body; `model` comes from the path.
    pub(crate) fn parse(format: VendorFormat, model: &str, body: &[u8]) -> Result<Self, VendorRefusal> {
        let read = match format {
            VendorFormat::Anthropic => anthropic::parse_request(body),
            VendorFormat::ChatCompletions => chat_completions::parse_request(body),
            VendorFormat::Gemini => gemini::parse_request(model, body),
            VendorFormat::Responses => responses::parse_request(body),
        }?;
        let mut hasher = DefaultHasher::new();
        read.model.hash(&mut hasher);
        body.hash(&mut hasher);
        Ok(Self {
            format,
            model: read.model,
            messages: read.messages,
            offers_tools: read.offers_tools,
            wants_usage: read.wants_usage,
            size_bytes: body.len(),
            fingerprint: hasher.finish(),
        })
    }

    /// Returns the last user's message and the number of model messages after it.
    pub(crate) fn last_question(&self) -> (&str, usize) {
        // Images, which have no text, and their captions follow the results of a step.
        let is_asked = |text: &String| !text.is_empty() && !text.starts_with("The image /");
        let is_question = |message: &RequestMessage| {
            message.role == "user" && message.content.as_ref().is_some_and(is_asked)
        };
        let at = self.messages.iter().rposition(is_question).unwrap_or(0);
        let text = |at: usize| self.messages.get(at).and_then(|message| message.content.as_deref());
        // Attachments may follow the question.
        let questions =
            (0..=at).rev().take_while(|at| self.messages.get(*at).is_some_and(|one| one.role == "user"));
        let scripted = questions.filter_map(text).find(|text| text.contains("STANDIN "));
        let text = scripted.or_else(|| text(at)).unwrap_or("");
        let steps = self.messages[at..].iter().filter(|message| message.role == "assistant").count();
        (text, steps)
    }
}

/// Seals a text so that it is recognised when it is sent back.
pub(crate) fn seal_text(what: &str) -> String {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    // Looks like base64.
    format!("c2VhbA{:016x}AA", hasher.finish())
}

/// Marks identifiers of calls with reasoning: such a call is rejected without it.
pub(crate) const THOUGHTFUL: &str = "_thoughtful_";

fn parse_json<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, VendorRefusal> {
    serde_json::from_slice(body)
        .map_err(|error| VendorRefusal::invalid_request(format!("could not parse the body: {error}")))
}

fn text_field<'a>(value: &'a Value, field: &str) -> Result<&'a str, VendorRefusal> {
    value[field]
        .as_str()
        .ok_or_else(|| VendorRefusal::invalid_request(format!("{field}: a text is required")))
}
