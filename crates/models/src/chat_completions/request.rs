//! Builds a step's request in the Chat Completions format.

use std::borrow::Cow;

use domain::catalog::REASONING_EFFORT;
use domain::step::{StepError, StepRequest};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::format::Format;
use crate::replay::{self, ModelPiece, Turn, UserPiece};

/// The request parameters that a server accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dialect {
    /// The name of the output limit.
    bound: Bound,
    /// Accepts a request for usage.
    usage: bool,
    /// Accepts `reasoning_effort`.
    effort: bool,
    /// Requires that user and model alternate, results aside.
    alternates: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    /// `max_tokens`, which all models but OpenAI's newer ones accept.
    Tokens,
    /// `max_completion_tokens`.
    CompletionTokens,
}

impl Dialect {
    /// Returns the dialect of OpenAI's own server, or the most common one.
    pub(crate) fn of(own: bool) -> Self {
        Self {
            bound: if own { Bound::CompletionTokens } else { Bound::Tokens },
            usage: true,
            effort: true,
            alternates: !own,
        }
    }

    /// Returns another dialect to try after this rejection, whose reason is in lower case.
    pub(crate) fn fallback(self, reason: &str) -> Option<Self> {
        let fallback = if reason.contains("max_completion_tokens") && self.bound == Bound::Tokens {
            Self { bound: Bound::CompletionTokens, ..self }
        } else if reason.contains("max_completion_tokens") && self.bound == Bound::CompletionTokens {
            Self { bound: Bound::Tokens, ..self }
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
pub(crate) struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
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
struct Message<'a> {
    role: &'static str,
    content: Option<Content>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    /// Text with images.
    Parts(Vec<Part>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part {
    Text { text: String },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct ToolCall<'a> {
    id: Cow<'a, str>,
    r#type: &'static str,
    function: FunctionCall<'a>,
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    name: &'a str,
    arguments: &'a str,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
}

/// Builds the request's body.
pub(crate) fn body(request: &StepRequest, dialect: Dialect) -> Result<Body<'_>, StepError> {
    let tools = request.tools.iter().map(|tool| {
        let function =
            Function { name: &tool.name, description: &tool.description, parameters: replay::schema(tool)? };
        Ok(Tool { r#type: "function", function })
    });
    let bound = |name| (dialect.bound == name).then_some(request.output_max_tokens);
    let effort = request.settings.iter().find(|(key, _)| key == REASONING_EFFORT);
    Ok(Body {
        model: &request.model,
        messages: messages(request, dialect),
        stream: true,
        stream_options: dialect.usage.then_some(StreamOptions { include_usage: true }),
        tools: tools.collect::<Result<_, StepError>>()?,
        max_tokens: bound(Bound::Tokens),
        max_completion_tokens: bound(Bound::CompletionTokens),
        reasoning_effort: effort.filter(|_| dialect.effort).map(|(_, value)| value.to_lowercase()),
    })
}

/// Builds the messages. They alternate between user and model, as the templates of many models require; a result follows
/// each call.
fn messages(request: &StepRequest, dialect: Dialect) -> Vec<Message<'_>> {
    let turns = replay::turns(request, Format::ChatCompletions);
    let mut out = Vec::with_capacity(turns.len() + 1);
    if !request.instructions.trim().is_empty() {
        out.push(text_message("system", request.instructions.clone()));
    }
    for turn in turns {
        match turn {
            Turn::User(pieces) => push_user(pieces, dialect, &mut out),
            Turn::Model(pieces) => out.push(model(pieces)),
        }
    }
    out
}

/// Adds the results of calls, then the rest as one message.
fn push_user<'a>(pieces: Vec<UserPiece<'a>>, dialect: Dialect, out: &mut Vec<Message<'a>>) {
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
                out.push(Message {
                    role: "tool",
                    content: Some(Content::Text(replay::result_text(result))),
                    tool_calls: Vec::new(),
                    tool_call_id: Some(replay::call_id(&call.id)),
                });
            }
            UserPiece::Text(more) => append(&mut text, &more),
            UserPiece::Image(image) => {
                parts.push(Part::Text { text: std::mem::take(&mut text) });
                parts.push(Part::ImageUrl { image_url: ImageUrl { url: replay::data_url(image) } });
            }
        }
    }
    let content = if parts.is_empty() {
        if text.is_empty() {
            return;
        }
        Content::Text(text)
    } else {
        if !text.is_empty() {
            parts.push(Part::Text { text });
        }
        Content::Parts(parts)
    };
    // For a template that lets the user speak only after the model.
    if has_results && dialect.alternates {
        out.push(text_message("assistant", "(The results are noted.)".to_owned()));
    }
    out.push(Message { content: Some(content), ..text_message("user", String::new()) });
}

fn model(pieces: Vec<ModelPiece<'_>>) -> Message<'_> {
    let (mut text, mut tool_calls) = (String::new(), Vec::new());
    for piece in pieces {
        match piece {
            ModelPiece::Text(piece) => text.push_str(piece),
            ModelPiece::Call(call) => {
                let function = FunctionCall { name: &call.tool, arguments: replay::arguments(call) };
                tool_calls.push(ToolCall { id: replay::call_id(&call.id), r#type: "function", function });
            }
            ModelPiece::Opaque(_) => {}
        }
    }
    let content = (!text.is_empty()).then_some(Content::Text(text));
    Message { role: "assistant", content, tool_calls, tool_call_id: None }
}

fn text_message(role: &'static str, text: String) -> Message<'static> {
    Message { role, content: Some(Content::Text(text)), tool_calls: Vec::new(), tool_call_id: None }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::step::ATTACHED_FILES;
    use domain::step::{Block, Call, CallResult, Item, Purpose, Step, StepOutcome, ToolSpec};
    use serde_json::{Value, json};

    use super::*;

    fn request(transcript: Vec<Item>) -> StepRequest {
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

    fn sent(request: &StepRequest, dialect: Dialect) -> Value {
        serde_json::to_value(body(request, dialect).unwrap()).unwrap()
    }

    fn result(call: &str) -> Item {
        Item::Result(Arc::new(CallResult {
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

    fn step(calls: &[(&str, &str)]) -> Item {
        let call = |(id, arguments): &(&str, &str)| {
            Block::Call(Call {
                id: (*id).into(),
                tool: "read".into(),
                arguments: (*arguments).into(),
                purpose: Purpose::Tool,
            })
        };
        Item::Step(Arc::new(Step { blocks: calls.iter().map(call).collect(), ..Step::default() }))
    }

    #[test]
    fn every_call_is_followed_by_its_result_and_no_result_stands_alone() {
        let question = Item::Question { text: "Q".into(), attachments: vec!["/uploads/a.pdf".into()] };
        let deep = format!(r#"{{"path":{}1{}}}"#, "[".repeat(1000), "]".repeat(1000));
        let steps = step(&[("a", r#"{"path":"x"}"#), ("b", "{\"pa"), ("c", &deep)]);
        let body = sent(
            &request(vec![result("gone"), question, steps, result("b"), result("a")]),
            Dialect::of(false),
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
    fn user_and_model_alternate_whatever_came_before() {
        let ask = |text: &str| Item::Question { text: text.into(), attachments: vec![] };
        let said = |text: &str| {
            Item::Step(Arc::new(Step { blocks: vec![Block::Text(text.into())], ..Step::default() }))
        };
        let attached = match result("attached") {
            Item::Result(result) => {
                Item::Result(Arc::new(CallResult { tool: ATTACHED_FILES.into(), ..(*result).clone() }))
            }
            other => other,
        };
        let roles = |transcript: Vec<Item>, own: bool| {
            let body = sent(&request(transcript), Dialect::of(own));
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
            (vec![ask("Q"), step(&[("a", "{}")]), result("a"), ask("R")], "suatau"),
        ] {
            assert_eq!(roles(transcript, false), expected);
        }
        let own = vec![ask("Q"), step(&[("a", "{}")]), result("a"), ask("R")];
        assert_eq!(roles(own, true), "suatu");
    }

    #[test]
    fn tools_bound_and_effort_are_said_as_the_server_takes_them() {
        let mut request = request(vec![Item::Question { text: "Q".into(), attachments: vec![] }]);
        request.tools = vec![ToolSpec {
            name: "t".into(),
            description: "d".into(),
            schema: r#"{"type":"object"}"#.into(),
        }];
        let compatible = sent(&request, Dialect::of(false));
        assert_eq!(
            (&compatible["max_tokens"], &compatible["max_completion_tokens"]),
            (&json!(100), &Value::Null)
        );
        assert_eq!(compatible["reasoning_effort"], "high");
        assert_eq!(compatible["stream_options"], json!({"include_usage": true}));
        assert_eq!(compatible["tools"][0]["function"]["parameters"], json!({"type": "object"}));
        let own = sent(&request, Dialect::of(true));
        assert_eq!((&own["max_tokens"], &own["max_completion_tokens"]), (&Value::Null, &json!(100)));
        request.tools[0].schema = "{".into();
        assert!(body(&request, Dialect::of(true)).is_err());
    }

    #[test]
    fn what_a_server_turns_down_is_said_otherwise_once() {
        let bound = "400: unsupported parameter: 'max_tokens'. use 'max_completion_tokens' instead.";
        let fallback = Dialect::of(false).fallback(bound).unwrap();
        assert_eq!(fallback.bound, Bound::CompletionTokens);
        let effort = "400: \"m\" does not support thinking";
        let plain = fallback.fallback(effort).unwrap();
        assert!(!plain.effort);
        assert_eq!(plain.fallback(effort), None);
    }
}
