//! Builds a step's request in the Chat Completions format.

use std::collections::HashSet;

use domain::catalog::REASONING_EFFORT;
use domain::image::Image;
use domain::step::{ATTACHED_FILES, Block, Item, Step, StepError, StepRequest};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::replay::{self, RequestImages, question};

/// The request parameters that a server accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dialect {
    /// The name of the output limit.
    bound: Bound,
    /// Accepts a request for usage.
    usage: bool,
    /// Accepts `reasoning_effort`.
    effort: bool,
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
        Self { bound: if own { Bound::CompletionTokens } else { Bound::Tokens }, usage: true, effort: true }
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
    tool_call_id: Option<&'a str>,
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
    id: &'a str,
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
        messages: messages(request),
        stream: true,
        stream_options: dialect.usage.then_some(StreamOptions { include_usage: true }),
        tools: tools.collect::<Result<_, StepError>>()?,
        max_tokens: bound(Bound::Tokens),
        max_completion_tokens: bound(Bound::CompletionTokens),
        reasoning_effort: effort.filter(|_| dialect.effort).map(|(_, value)| value.to_lowercase()),
    })
}

/// Builds the messages: a result follows each call, and no result lacks its call.
fn messages(request: &StepRequest) -> Vec<Message<'_>> {
    let mut out = Vec::with_capacity(request.transcript.len() + 1);
    if !request.instructions.is_empty() {
        out.push(text_message("system", request.instructions.clone()));
    }
    let mut answered: HashSet<&str> = HashSet::new();
    let mut images = RequestImages::of(request);
    for (at, item) in request.transcript.iter().enumerate() {
        match item {
            Item::Question { text, attachments } => {
                out.push(text_message("user", question(text, attachments)))
            }
            Item::Step(step) => {
                let later = &request.transcript[at + 1..];
                push_step(step, later, &mut answered, &mut out);
                let results = replay::results_of(step, later);
                let sent: Vec<_> = results.flat_map(|result| images.take(&result.images)).collect();
                out.extend(image_message(&sent));
            }
            Item::Result(result) if result.tool == ATTACHED_FILES => {
                out.push(text_message("user", replay::attached(result)));
                out.extend(image_message(&images.take(&result.images)));
            }
            Item::Result(result) if answered.contains(result.call.as_str()) => {}
            Item::Result(result) => {
                out.push(text_message("user", replay::alone(result)));
            }
        }
    }
    out
}

/// Sends images in a user message, because tool messages cannot contain them.
fn image_message(images: &[&Image]) -> Option<Message<'static>> {
    let parts = images.iter().flat_map(|image| {
        let url = replay::data_url(image);
        [Part::Text { text: replay::caption(image) }, Part::ImageUrl { image_url: ImageUrl { url } }]
    });
    let content = Content::Parts(parts.collect());
    (!images.is_empty()).then(|| Message { content: Some(content), ..text_message("user", String::new()) })
}

fn text_message(role: &'static str, text: String) -> Message<'static> {
    Message { role, content: Some(Content::Text(text)), tool_calls: Vec::new(), tool_call_id: None }
}

fn push_step<'a>(
    step: &'a Step,
    later: &'a [Item],
    answered: &mut HashSet<&'a str>,
    out: &mut Vec<Message<'a>>,
) {
    let mut text = String::new();
    for block in &step.blocks {
        if let Block::Text(piece) = block {
            text.push_str(piece);
        }
    }
    let calls: Vec<_> = step.calls().collect();
    if calls.is_empty() && text.is_empty() {
        return;
    }
    let tool_calls = calls.iter().map(|call| {
        let arguments = replay::arguments(call);
        ToolCall { id: &call.id, r#type: "function", function: FunctionCall { name: &call.tool, arguments } }
    });
    out.push(Message {
        role: "assistant",
        content: (!text.is_empty()).then_some(Content::Text(text)),
        tool_calls: tool_calls.collect(),
        tool_call_id: None,
    });
    for call in calls {
        let result = later.iter().find_map(|item| match item {
            Item::Result(result) if result.call == call.id => Some(&**result),
            Item::Result(_) | Item::Question { .. } | Item::Step(_) => None,
        });
        answered.insert(&call.id);
        out.push(Message {
            role: "tool",
            content: Some(Content::Text(replay::result_text(result))),
            tool_calls: Vec::new(),
            tool_call_id: Some(&call.id),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::step::{Call, CallResult, Purpose, StepOutcome, ToolSpec};
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
                {"role": "user", "content": "An earlier call of read returned:\n\nresult of gone"},
                {"role": "user", "content": "Q\n\nAttached files of the workspace:\n- /uploads/a.pdf"},
                {"role": "assistant", "content": null,
                 "tool_calls": [call("a", r#"{"path":"x"}"#), call("b", "{}"), call("c", "{}")]},
                tool("a", "result of a"),
                tool("b", "result of b"),
                tool("c", "(no result)"),
            ])
        );
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
        let any = crate::dialect::Dialect::ChatCompletions(plain);
        let rejection = |reason: &str| StepError::Rejected { reason: reason.into() };
        assert_eq!(any.fallback(&rejection("401: max_completion_tokens")), None);
        assert!(any.fallback(&rejection("400: Max_completion_tokens")).is_some());
        assert_eq!(any.fallback(&StepError::TooLong), None);
    }
}
