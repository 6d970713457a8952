//! The body of a request for a completion.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::body::parse_object;
use crate::error::{OpenAiError, OpenAiResult};
use crate::messages::{Message, MessageBody, convert_messages};

/// The maximum number of pairs of `metadata`.
const METADATA_MAX: usize = 16;
/// The maximum number of tools.
const TOOLS_MAX: usize = 256;

/// A request for a completion. Other fields are ignored.
#[derive(Debug, Deserialize)]
pub(crate) struct ChatRequest {
    #[serde(default)]
    pub(crate) model: Option<String>,
    #[serde(default)]
    messages: Option<Vec<MessageBody>>,
    /// Some programs send the messages under the name that they have in another interface.
    #[serde(default)]
    input: Option<InputBody>,
    #[serde(default)]
    pub(crate) stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(default)]
    n: Option<u32>,
    #[serde(default)]
    max_tokens: Option<u32>,
    #[serde(default)]
    max_completion_tokens: Option<u32>,
    #[serde(default)]
    pub(crate) tools: Option<Vec<ToolBody>>,
    #[serde(default)]
    pub(crate) tool_choice: Option<Value>,
    #[serde(default)]
    pub(crate) response_format: Option<Value>,
    #[serde(default)]
    pub(crate) stop: Option<StopBody>,
    #[serde(default)]
    pub(crate) temperature: Option<f64>,
    #[serde(default)]
    pub(crate) top_p: Option<f64>,
    #[serde(default)]
    pub(crate) reasoning_effort: Option<String>,
    #[serde(default)]
    pub(crate) web_search_options: Option<Value>,
    #[serde(default)]
    pub(crate) metadata: Option<BTreeMap<String, Value>>,
    #[serde(default)]
    pub(crate) store: Option<bool>,
    #[serde(default)]
    pub(crate) prompt_cache_key: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum InputBody {
    Text(String),
    Messages(Vec<MessageBody>),
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
}

/// The texts at which the model stops.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum StopBody {
    One(String),
    Several(Vec<String>),
}

/// A tool of the client.
#[derive(Debug, Deserialize)]
pub(crate) struct ToolBody {
    pub(crate) r#type: String,
    #[serde(default)]
    pub(crate) function: Option<FunctionBody>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct FunctionBody {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) description: Option<String>,
    #[serde(default)]
    pub(crate) parameters: Option<Value>,
}

impl ChatRequest {
    /// Parses a body.
    ///
    /// # Errors
    /// [`OpenAiError`] that names the wrong field.
    pub(crate) fn parse(body: &str) -> OpenAiResult<Self> {
        let request: Self = parse_object(body)?;
        request.check_bounds()?;
        Ok(request)
    }

    fn check_bounds(&self) -> OpenAiResult<()> {
        if self.n.is_some_and(|n| n != 1) {
            return Err(OpenAiError::invalid_field("n", "only one answer is given: leave n out"));
        }
        if self.tools.as_ref().is_some_and(|tools| tools.len() > TOOLS_MAX) {
            let message = format!("too many tools: send at most {TOOLS_MAX}");
            return Err(OpenAiError::invalid_field("tools", message));
        }
        if self.metadata.as_ref().is_some_and(|metadata| metadata.len() > METADATA_MAX) {
            let message = format!("metadata has too many pairs: send at most {METADATA_MAX}");
            return Err(OpenAiError::invalid_field("metadata", message));
        }
        if self.output_max_tokens() == Some(0) {
            return Err(OpenAiError::invalid_field("max_tokens", "max_tokens is 0: use at least 1"));
        }
        Ok(())
    }

    /// Takes the messages.
    ///
    /// # Errors
    /// [`OpenAiError`] if there are none, or one is not understood.
    pub(crate) fn take_messages(&mut self) -> OpenAiResult<Vec<Message>> {
        match (self.messages.take(), self.input.take()) {
            (Some(messages), _) => convert_messages(messages, "messages"),
            (None, Some(InputBody::Messages(messages))) => convert_messages(messages, "input"),
            (None, Some(InputBody::Text(text))) => Ok(vec![Message { text, ..Message::default() }]),
            (None, None) => Err(OpenAiError::invalid_field("messages", "messages is missing")),
        }
    }

    pub(crate) fn is_streamed(&self) -> bool {
        self.stream == Some(true)
    }

    /// Returns true if a stream ends with the usage.
    pub(crate) fn includes_usage(&self) -> bool {
        self.stream_options.as_ref().is_some_and(|options| options.include_usage == Some(true))
    }

    pub(crate) fn output_max_tokens(&self) -> Option<u32> {
        self.max_completion_tokens.or(self.max_tokens)
    }

    /// Returns the words of a list in `metadata`, which commas separate.
    pub(crate) fn metadata_words(&self, name: &str) -> Vec<String> {
        let text = self.metadata.as_ref().and_then(|metadata| metadata.get(name)?.as_str());
        let words = text.unwrap_or_default().split(',').map(str::trim).filter(|word| !word.is_empty());
        words.map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_fields_are_named() {
        for (body, field) in [
            (r#"{"messages": [{"role": "user", "content": 5}]}"#, Some("messages[0].content")),
            (r#"{"messages": [], "stream": "yes"}"#, Some("stream")),
            (r#"{"messages": [], "n": 2}"#, Some("n")),
            (r#"{"messages": [], "max_tokens": 0}"#, Some("max_tokens")),
            ("[]", None),
            ("{", None),
        ] {
            let error = ChatRequest::parse(body).expect_err(body);
            let json: Value = serde_json::from_str(&error.to_json()).expect("JSON");
            assert_eq!(json["error"]["param"].as_str(), field, "{json}");
        }
    }

    #[test]
    fn input_stands_for_messages() {
        for body in [r#"{"input": "a"}"#, r#"{"input": [{"role": "user", "content": "a"}]}"#] {
            let mut request = ChatRequest::parse(body).expect("a request");
            assert_eq!(request.take_messages().expect("messages")[0].text, "a");
        }
        assert!(ChatRequest::parse("{}").expect("a request").take_messages().is_err());
    }

    #[test]
    fn metadata_words_split_at_commas() {
        let body = r#"{"messages": [], "metadata": {"jurisdictions": "CZ, SK,", "other": 1}}"#;
        let request = ChatRequest::parse(body).expect("a request");
        assert_eq!(request.metadata_words("jurisdictions"), ["CZ", "SK"]);
        assert!(request.metadata_words("skills").is_empty() && request.metadata_words("other").is_empty());
    }
}
