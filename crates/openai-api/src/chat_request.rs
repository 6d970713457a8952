//! The body of a request for a completion.

use serde::Deserialize;
use serde_json::Value;

use crate::body::parse_object;
use crate::error::{OpenAiError, OpenAiResult};
use crate::json_forms::{JsonObject, TextOrList, UnusedField};
use crate::messages::{Message, MessageBody, convert_messages};
use crate::request_fields::{Metadata, check_tools_count};
use crate::side_request::SideFacts;
use crate::tool_choice::ToolRule;

/// A request for a completion. Fields that are not in it say nothing about the answer.
#[derive(Debug, Deserialize)]
pub(crate) struct ChatRequest {
    #[serde(default)]
    pub(crate) model: Option<String>,
    #[serde(default)]
    messages: Option<Vec<JsonObject<MessageBody>>>,
    /// Some programs send the messages under the name that they have in another interface.
    #[serde(default)]
    input: Option<TextOrList<JsonObject<MessageBody>>>,
    #[serde(default)]
    pub(crate) stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<JsonObject<StreamOptions>>,
    #[serde(default)]
    n: Option<u32>,
    #[serde(default)]
    max_tokens: Option<u32>,
    #[serde(default)]
    max_completion_tokens: Option<u32>,
    #[serde(default)]
    pub(crate) tools: Option<Vec<JsonObject<ToolBody>>>,
    #[serde(default)]
    pub(crate) tool_choice: Option<Value>,
    #[serde(default)]
    pub(crate) response_format: Option<Value>,
    #[serde(default)]
    pub(crate) stop: Option<TextOrList<String>>,
    #[serde(default)]
    pub(crate) temperature: Option<f64>,
    #[serde(default)]
    pub(crate) top_p: Option<f64>,
    #[serde(default)]
    pub(crate) reasoning_effort: Option<String>,
    #[serde(default)]
    pub(crate) web_search_options: Option<Value>,
    #[serde(default)]
    pub(crate) seed: Option<i64>,
    #[serde(default)]
    pub(crate) parallel_tool_calls: Option<bool>,
    #[serde(default)]
    pub(crate) frequency_penalty: Option<f64>,
    #[serde(default)]
    pub(crate) presence_penalty: Option<f64>,
    #[serde(default)]
    logprobs: UnusedField,
    #[serde(default)]
    top_logprobs: UnusedField,
    #[serde(default)]
    logit_bias: UnusedField,
    #[serde(default)]
    functions: UnusedField,
    #[serde(default)]
    function_call: UnusedField,
    #[serde(default)]
    modalities: UnusedField,
    #[serde(default)]
    audio: UnusedField,
    #[serde(default)]
    prediction: UnusedField,
    #[serde(default)]
    verbosity: UnusedField,
    #[serde(default)]
    pub(crate) metadata: Option<Metadata>,
    #[serde(default)]
    pub(crate) store: Option<bool>,
    #[serde(default)]
    pub(crate) prompt_cache_key: Option<String>,
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
}

/// A tool of the client.
#[derive(Debug, Deserialize)]
pub(crate) struct ToolBody {
    pub(crate) r#type: String,
    #[serde(default)]
    pub(crate) function: Option<JsonObject<FunctionBody>>,
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
        check_tools_count(self.tools.as_deref())?;
        if let Some(metadata) = &self.metadata {
            metadata.check_bounds()?;
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
            (None, Some(TextOrList::List(messages))) => convert_messages(messages, "input"),
            (None, Some(TextOrList::Text(text))) => Ok(vec![Message { text, ..Message::default() }]),
            (None, None) => Err(OpenAiError::invalid_field("messages", "messages is missing")),
        }
    }

    pub(crate) fn is_streamed(&self) -> bool {
        self.stream == Some(true)
    }

    /// Returns true if a stream ends with the usage.
    pub(crate) fn includes_usage(&self) -> bool {
        self.stream_options.as_ref().is_some_and(|options| options.0.include_usage == Some(true))
    }

    pub(crate) fn output_max_tokens(&self) -> Option<u32> {
        self.max_completion_tokens.or(self.max_tokens)
    }

    /// Returns what tells a request beside the conversation.
    pub(crate) fn side_facts(&self) -> SideFacts<'_> {
        let schema = self.response_format.as_ref().map(|format| &format["json_schema"]["schema"]);
        let is_forced = self.tool_choice.as_ref().is_some_and(ToolRule::is_forced);
        let functions = self.tools.iter().flatten().filter_map(|tool| tool.0.function.as_ref());
        let parameters = functions.filter_map(|function| function.0.parameters.as_ref());
        SideFacts {
            is_streamed: self.is_streamed(),
            output_max_tokens: self.output_max_tokens().map(u64::from),
            schema,
            forced: if is_forced { parameters.collect() } else { Vec::new() },
        }
    }

    /// Returns the words of a list in `metadata`.
    pub(crate) fn metadata_words(&self, name: &str) -> Vec<String> {
        self.metadata.as_ref().map(|metadata| metadata.words(name)).unwrap_or_default()
    }

    /// Returns the fields that no model gets.
    pub(crate) fn unused_fields(&self) -> impl Iterator<Item = &'static str> {
        let fields = [
            ("logprobs", self.logprobs),
            ("top_logprobs", self.top_logprobs),
            ("logit_bias", self.logit_bias),
            ("functions", self.functions),
            ("function_call", self.function_call),
            ("modalities", self.modalities),
            ("audio", self.audio),
            ("prediction", self.prediction),
            ("verbosity", self.verbosity),
        ];
        fields.into_iter().filter(|(_, field)| field.is_set()).map(|(name, _)| name)
    }

    /// Returns the fields that only a plain model gets.
    pub(crate) fn plain_fields(&self) -> impl Iterator<Item = &'static str> {
        let is_penalty = |penalty: Option<f64>| penalty.is_some_and(|penalty| penalty != 0.0);
        let fields = [
            ("response_format", self.response_format.is_some()),
            ("stop", self.stop.is_some()),
            ("max_tokens", self.output_max_tokens().is_some()),
            ("temperature", self.temperature.is_some()),
            ("top_p", self.top_p.is_some()),
            ("seed", self.seed.is_some()),
            ("parallel_tool_calls", self.parallel_tool_calls == Some(false)),
            ("frequency_penalty", is_penalty(self.frequency_penalty)),
            ("presence_penalty", is_penalty(self.presence_penalty)),
        ];
        fields.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name)
    }

    /// Returns the fields that only an agent gets, or a conversation.
    pub(crate) fn agent_fields(&self) -> impl Iterator<Item = &'static str> {
        let has_words = |name| !self.metadata_words(name).is_empty();
        let fields = [
            (
                "web_search_options",
                self.web_search_options.as_ref().is_some_and(|options| !options.is_null()),
            ),
            ("metadata.jurisdictions", has_words("jurisdictions")),
            ("metadata.skills", has_words("skills")),
        ];
        fields.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name)
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
    fn arrays_are_no_objects() {
        for (body, field) in [
            (r#"{"messages": [["user", "a"]]}"#, "messages[0]"),
            (r#"{"messages": [], "tools": [["function"]]}"#, "tools[0]"),
            (r#"{"messages": [], "stream_options": [true]}"#, "stream_options"),
            (r#"{"messages": [{"role": "user", "content": [["text", "a"]]}]}"#, "messages[0].content[0]"),
        ] {
            let error = ChatRequest::parse(body).expect_err(body).to_value();
            assert_eq!(error["param"].as_str(), Some(field), "{error}");
            assert!(
                error["message"].as_str().is_some_and(|text| text.contains("expected an object")),
                "{error}"
            );
        }
        let error =
            ChatRequest::parse(r#"{"messages": [], "max_tokens": -1}"#).expect_err("an error").to_value();
        assert!(error["message"].as_str().is_some_and(|text| text.contains("a whole number")), "{error}");
    }

    #[test]
    fn fields_without_effect_are_named() {
        let body = r#"{"messages": [], "logprobs": true, "top_logprobs": 0, "functions": [{"name": "f"}],
            "function_call": "auto", "logit_bias": {}, "seed": 7, "parallel_tool_calls": false,
            "presence_penalty": 0, "frequency_penalty": 0.5, "metadata": {"skills": "a"}}"#;
        let request = ChatRequest::parse(body).expect("a request");
        assert_eq!(request.unused_fields().collect::<Vec<_>>(), ["logprobs", "functions", "function_call"]);
        assert_eq!(
            request.plain_fields().collect::<Vec<_>>(),
            ["seed", "parallel_tool_calls", "frequency_penalty"]
        );
        assert_eq!(request.agent_fields().collect::<Vec<_>>(), ["metadata.skills"]);
        let none = ChatRequest::parse(r#"{"messages": [], "parallel_tool_calls": true}"#).expect("a request");
        assert_eq!(none.plain_fields().chain(none.unused_fields()).count(), 0);
    }
}
