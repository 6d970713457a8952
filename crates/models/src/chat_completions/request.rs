//! Builds a step's request in the Chat Completions format.

use std::borrow::Cow;

use domain::catalog::REASONING_EFFORT;
use domain::step::{StepError, StepRequest};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::format::WireFormat;
use crate::replay::{self, ModelPiece, ReplayTurn, UserPiece};

/// The request parameters that a server accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CompletionsDialect {
    /// The name of the output limit.
    bound: OutputLimitName,
    /// Accepts a request for usage.
    usage: bool,
    /// Accepts `reasoning_effort`.
    effort: bool,
    /// Requires that user and model alternate, results aside.
    alternates: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputLimitName {
    /// `max_tokens`, which all models but OpenAI's newer ones accept.
    Tokens,
    /// `max_completion_tokens`.
    CompletionTokens,
}

impl CompletionsDialect {
    /// Returns the dialect of OpenAI's server, or the dialect that most other servers speak.
    pub(crate) fn for_server(own: bool) -> Self {
        Self {
            bound: if own { OutputLimitName::CompletionTokens } else { OutputLimitName::Tokens },
            usage: true,
            effort: true,
            alternates: !own,
        }
    }

    /// Returns another dialect to try after this rejection, whose reason is in lower case.
    pub(crate) fn fallback_dialect(self, reason: &str) -> Option<Self> {
        let fallback = if reason.contains("max_completion_tokens") && self.bound == OutputLimitName::Tokens {
            Self { bound: OutputLimitName::CompletionTokens, ..self }
        } else if reason.contains("max_completion_tokens") && self.bound == OutputLimitName::CompletionTokens
        {
            Self { bound: OutputLimitName::Tokens, ..self }
        } else if (reason.contains("reasoning") || reason.contains("think")) && self.effort {
            Self { effort: false, ..self }
        } else if reason.contains("stream_options") || reason.contains("include_usage") {
            Self { usage: false, ..self }
        } else {
            self
        };
        (fallback != self).then_some(fallback)
    }
}

#[derive(Serialize)]
pub(crate) struct CompletionsBody<'a> {
    model: &'a str,
    messages: Vec<CompletionsMessage<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<CompletionsTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<String>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct CompletionsMessage<'a> {
    role: &'static str,
    content: Option<CompletionsContent>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<CompletionsToolCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum CompletionsContent {
    Text(String),
    Parts(Vec<CompletionsContentPart>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum CompletionsContentPart {
    Text { text: String },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct CompletionsToolCall<'a> {
    id: Cow<'a, str>,
    r#type: &'static str,
    function: CompletionsFunctionCall<'a>,
}

#[derive(Serialize)]
struct CompletionsFunctionCall<'a> {
    name: &'a str,
    arguments: &'a str,
}

#[derive(Serialize)]
struct CompletionsTool<'a> {
    r#type: &'static str,
    function: CompletionsFunction<'a>,
}

#[derive(Serialize)]
struct CompletionsFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
}

/// Builds the request's body.
pub(crate) fn build_body(
    request: &StepRequest,
    dialect: CompletionsDialect,
) -> Result<CompletionsBody<'_>, StepError> {
    let tools = request.tools.iter().map(|tool| {
        let function = CompletionsFunction {
            name: &tool.name,
            description: &tool.description,
            parameters: replay::tool_schema(tool)?,
        };
        Ok(CompletionsTool { r#type: "function", function })
    });
    let bound = |name| (dialect.bound == name).then_some(request.output_max_tokens);
    let effort = request.settings.iter().find(|(key, _)| key == REASONING_EFFORT);
    Ok(CompletionsBody {
        model: &request.model,
        messages: build_messages(request, dialect),
        stream: true,
        stream_options: dialect.usage.then_some(StreamOptions { include_usage: true }),
        tools: tools.collect::<Result<_, StepError>>()?,
        max_tokens: bound(OutputLimitName::Tokens),
        max_completion_tokens: bound(OutputLimitName::CompletionTokens),
        reasoning_effort: effort.filter(|_| dialect.effort).map(|(_, value)| value.to_lowercase()),
    })
}

/// Builds the messages. They alternate between user and model, as the templates of many models require; a result follows
/// each call.
fn build_messages(request: &StepRequest, dialect: CompletionsDialect) -> Vec<CompletionsMessage<'_>> {
    let turns = replay::build_turns(request, WireFormat::ChatCompletions);
    let mut out = Vec::with_capacity(turns.len() + 1);
    if !request.instructions.trim().is_empty() {
        out.push(text_message("system", request.instructions.clone()));
    }
    for turn in turns {
        match turn {
            ReplayTurn::User(pieces) => push_user(pieces, dialect, &mut out),
            ReplayTurn::Model(pieces) => out.push(model_message(pieces)),
        }
    }
    out
}

/// Adds the results of calls, then the rest as one message.
fn push_user<'a>(
    pieces: Vec<UserPiece<'a>>,
    dialect: CompletionsDialect,
    out: &mut Vec<CompletionsMessage<'a>>,
) {
    let (mut text, mut parts) = (String::new(), Vec::new());
    let append = |text: &mut String, more: &str| {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(more);
    };
    let mut has_results = false;
    for piece in pieces {
        match piece {
            UserPiece::Result(call, result) => {
                has_results = true;
                out.push(CompletionsMessage {
                    role: "tool",
                    content: Some(CompletionsContent::Text(replay::result_text(result))),
                    tool_calls: Vec::new(),
                    tool_call_id: Some(replay::call_id(&call.id)),
                });
            }
            UserPiece::Text(more) => append(&mut text, &more),
            UserPiece::Image(image) => {
                parts.push(CompletionsContentPart::Text { text: std::mem::take(&mut text) });
                parts.push(CompletionsContentPart::ImageUrl {
                    image_url: ImageUrl { url: replay::data_url(image) },
                });
            }
        }
    }
    let content = if parts.is_empty() {
        if text.is_empty() {
            return;
        }
        CompletionsContent::Text(text)
    } else {
        if !text.is_empty() {
            parts.push(CompletionsContentPart::Text { text });
        }
        CompletionsContent::Parts(parts)
    };
    // For a template that lets the user speak only after the model.
    if has_results && dialect.alternates {
        out.push(text_message("assistant", "(The results are noted.)".to_owned()));
    }
    out.push(CompletionsMessage { content: Some(content), ..text_message("user", String::new()) });
}

fn model_message(pieces: Vec<ModelPiece<'_>>) -> CompletionsMessage<'_> {
    let (mut text, mut tool_calls) = (String::new(), Vec::new());
    for piece in pieces {
        match piece {
            ModelPiece::Text(piece) => text.push_str(piece),
            ModelPiece::Call(call) => {
                let function =
                    CompletionsFunctionCall { name: &call.tool, arguments: replay::call_arguments(call) };
                tool_calls.push(CompletionsToolCall {
                    id: replay::call_id(&call.id),
                    r#type: "function",
                    function,
                });
            }
            ModelPiece::Opaque(_) => {}
        }
    }
    let content = (!text.is_empty()).then_some(CompletionsContent::Text(text));
    CompletionsMessage { role: "assistant", content, tool_calls, tool_call_id: None }
}

fn text_message(role: &'static str, text: String) -> CompletionsMessage<'static> {
    CompletionsMessage {
        role,
        content: Some(CompletionsContent::Text(text)),
        tool_calls: Vec::new(),
        tool_call_id: None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::step::ATTACHED_FILES;
    use domain::step::{
        CallResult, OutputBlock, Purpose, Step, StepCall, StepOutcome, ToolSpec, TranscriptItem,
    };
    use serde_json::{Value, json};

    use super::*;

    fn sample_request(transcript: Vec<TranscriptItem>) -> StepRequest {
        StepRequest {
            images: Vec::new(),
            model: "m".into(),
            instructions: "Be brief.".into(),
            transcript,
            tools: vec![],
            settings: vec![(REASONING_EFFORT.into(), "HIGH".into())],
            output_max_tokens: 100,
        }
    }

    fn request_json(request: &StepRequest, dialect: CompletionsDialect) -> Value {
        serde_json::to_value(build_body(request, dialect).unwrap()).unwrap()
    }

    fn result_item(call: &str) -> TranscriptItem {
        TranscriptItem::Result(Arc::new(CallResult {
            images: Vec::new(),
            call: call.into(),
            tool: "read".into(),
            outcome: StepOutcome::Done,
            text: format!("result of {call}"),
            passages: vec![],
            written: vec![],
            unread: Vec::new(),
        }))
    }

    fn step_item(calls: &[(&str, &str)]) -> TranscriptItem {
        let call = |(id, arguments): &(&str, &str)| {
            OutputBlock::Call(StepCall {
                id: (*id).into(),
                tool: "read".into(),
                arguments: (*arguments).into(),
                purpose: Purpose::Tool,
            })
        };
        TranscriptItem::Step(Arc::new(Step { blocks: calls.iter().map(call).collect(), ..Step::default() }))
    }

    #[test]
    fn every_call_paired_with_result() {
        let question =
            TranscriptItem::Question { text: "Q".into(), attachments: vec!["/uploads/a.pdf".into()] };
        let deep = format!(r#"{{"path":{}1{}}}"#, "[".repeat(1000), "]".repeat(1000));
        let steps = step_item(&[("a", r#"{"path":"x"}"#), ("b", "{\"pa"), ("c", &deep)]);
        let body = request_json(
            &sample_request(vec![result_item("gone"), question, steps, result_item("b"), result_item("a")]),
            CompletionsDialect::for_server(false),
        );
        let call = |id, arguments| json!({"id": id, "type": "function", "function": {"name": "read", "arguments": arguments}});
        let tool = |id, text| json!({"role": "tool", "tool_call_id": id, "content": text});
        assert_eq!(
            body["messages"],
            json!([
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "An earlier call of read returned:\n\nresult of gone\n\nQ\n\nAttached files of the workspace:\n- /uploads/a.pdf"},
                {"role": "assistant", "content": null,
                 "tool_calls": [call("a", r#"{"path":"x"}"#), call("b", "{}"), call("c", "{}")]},
                tool("a", "result of a"),
                tool("b", "result of b"),
                tool("c", "(no result)"),
            ])
        );
    }

    #[test]
    fn user_and_model_turns_alternate() {
        let ask = |text: &str| TranscriptItem::Question { text: text.into(), attachments: vec![] };
        let said = |text: &str| {
            TranscriptItem::Step(Arc::new(Step {
                blocks: vec![OutputBlock::Text(text.into())],
                ..Step::default()
            }))
        };
        let attached = match result_item("attached") {
            TranscriptItem::Result(result) => TranscriptItem::Result(Arc::new(CallResult {
                tool: ATTACHED_FILES.into(),
                ..(*result).clone()
            })),
            other => other,
        };
        let roles = |transcript: Vec<TranscriptItem>, own: bool| {
            let body = request_json(&sample_request(transcript), CompletionsDialect::for_server(own));
            let messages = body["messages"].as_array().unwrap().clone();
            messages
                .iter()
                .map(|message| message["role"].as_str().unwrap()[..1].to_owned())
                .collect::<String>()
        };
        for (transcript, expected) in [
            (vec![ask("Q"), attached], "su"),
            (vec![ask("failed"), ask("Q")], "su"),
            (vec![ask("Q"), said("a"), said("b"), ask("R")], "suau"),
            (vec![said("a"), ask("Q")], "suau"),
            (vec![ask("Q"), step_item(&[("a", "{}")]), result_item("a"), ask("R")], "suatau"),
        ] {
            assert_eq!(roles(transcript, false), expected);
        }
        let own = vec![ask("Q"), step_item(&[("a", "{}")]), result_item("a"), ask("R")];
        assert_eq!(roles(own, true), "suatu");
    }

    #[test]
    fn parameters_follow_server_dialect() {
        let mut request =
            sample_request(vec![TranscriptItem::Question { text: "Q".into(), attachments: vec![] }]);
        request.tools = vec![ToolSpec {
            name: "t".into(),
            description: "d".into(),
            schema: r#"{"type":"object"}"#.into(),
        }];
        let compatible = request_json(&request, CompletionsDialect::for_server(false));
        assert_eq!(
            (&compatible["max_tokens"], &compatible["max_completion_tokens"]),
            (&json!(100), &Value::Null)
        );
        assert_eq!(compatible["reasoning_effort"], "high");
        assert_eq!(compatible["stream_options"], json!({"include_usage": true}));
        assert_eq!(compatible["tools"][0]["function"]["parameters"], json!({"type": "object"}));
        let own = request_json(&request, CompletionsDialect::for_server(true));
        assert_eq!((&own["max_tokens"], &own["max_completion_tokens"]), (&Value::Null, &json!(100)));
        request.tools[0].schema = "{".into();
        assert!(build_body(&request, CompletionsDialect::for_server(true)).is_err());
    }

    #[test]
    fn fallback_dialect_changes_parameter_once() {
        let bound = "400: unsupported parameter: 'max_tokens'. use 'max_completion_tokens' instead.";
        let fallback = CompletionsDialect::for_server(false).fallback_dialect(bound).unwrap();
        assert_eq!(fallback.bound, OutputLimitName::CompletionTokens);
        let effort = "400: \"m\" does not support thinking";
        let plain = fallback.fallback_dialect(effort).unwrap();
        assert!(!plain.effort);
        assert_eq!(plain.fallback_dialect(effort), None);
    }
}
