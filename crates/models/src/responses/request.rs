//! Builds a step's request in the Responses format.

use std::borrow::Cow;

use domain::catalog::REASONING_EFFORT;
use domain::step::{StepError, StepRequest};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::format::Format;
use crate::replay::{self, ModelPiece, Turn, UserPiece};

/// The request parameters that a model accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dialect {
    /// Accepts a reasoning effort.
    effort: bool,
    /// Accepts a request for reasoning summaries.
    summary: bool,
    /// Accepts a request for encrypted reasoning.
    encrypted: bool,
}

impl Dialect {
    /// The dialect of the vendor's newer models.
    pub(crate) const NEWEST: Self = Self { effort: true, summary: true, encrypted: true };

    /// Returns another dialect to try after this rejection, whose reason is in lower case.
    pub(crate) fn fallback(self, reason: &str) -> Option<Self> {
        // This rejection concerns the transcript, not the model's parameters.
        if reason.contains("could not be verified") || reason.contains("required following item") {
            return None;
        }
        let other = if reason.contains("encrypted") {
            Self { encrypted: false, ..self }
        } else if ["summary", "summaries"].iter().any(|word| reason.contains(word)) && self.summary {
            Self { summary: false, ..self }
        } else if reason.contains("reasoning") || reason.contains("effort") {
            Self { effort: false, summary: false, ..self }
        } else {
            self
        };
        (other != self).then_some(other)
    }
}

#[derive(Serialize)]
pub(crate) struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
    input: Vec<Item<'a>>,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    include: Vec<&'static str>,
    max_output_tokens: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
}

#[derive(Serialize)]
struct Reasoning {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message {
        role: &'static str,
        content: Vec<Part<'a>>,
        /// Other fields of the vendor's item, which must be sent back.
        #[serde(flatten)]
        rest: Map<String, Value>,
    },
    FunctionCall {
        call_id: Cow<'a, str>,
        name: &'a str,
        arguments: &'a str,
        #[serde(flatten)]
        rest: Map<String, Value>,
    },
    FunctionCallOutput {
        call_id: Cow<'a, str>,
        output: String,
    },
    #[serde(untagged)]
    Opaque(&'a RawValue),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    InputText { text: Cow<'a, str> },
    OutputText { text: Cow<'a, str> },
    InputImage { image_url: String, detail: &'static str },
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
    strict: bool,
}

/// Builds the request's body.
pub(crate) fn body(request: &StepRequest, dialect: Dialect) -> Result<Body<'_>, StepError> {
    let tools = request.tools.iter().map(|tool| {
        Ok(Tool {
            r#type: "function",
            name: &tool.name,
            description: &tool.description,
            parameters: replay::schema(tool)?,
            strict: false,
        })
    });
    let effort = request.settings.iter().find(|(key, _)| key == REASONING_EFFORT);
    let reasoning = effort.filter(|_| dialect.effort).map(|(_, value)| Reasoning {
        effort: Some(value.to_lowercase()),
        summary: dialect.summary.then_some("auto"),
    });
    let mut input = Vec::with_capacity(request.transcript.len());
    for turn in replay::turns(request, Format::Responses) {
        match turn {
            Turn::User(pieces) => pieces.into_iter().for_each(|piece| push_user(piece, &mut input)),
            Turn::Model(pieces) => model(&pieces, &mut input),
        }
    }
    Ok(Body {
        model: &request.model,
        instructions: &request.instructions,
        input,
        stream: true,
        store: false,
        include: if dialect.encrypted { vec!["reasoning.encrypted_content"] } else { Vec::new() },
        max_output_tokens: request.output_max_tokens,
        tools: tools.collect::<Result<_, StepError>>()?,
        reasoning,
    })
}

/// Adds a piece of the user's turn. What follows one another is one message, as templates of models require.
fn push_user<'a>(piece: UserPiece<'a>, input: &mut Vec<Item<'a>>) {
    let part = match piece {
        UserPiece::Result(call, result) => {
            input.push(Item::FunctionCallOutput {
                call_id: replay::call_id(&call.id),
                output: replay::result_text(result),
            });
            return;
        }
        UserPiece::Text(text) => Part::InputText { text },
        UserPiece::Image(image) => Part::InputImage { image_url: replay::data_url(image), detail: "auto" },
    };
    match input.last_mut() {
        Some(Item::Message { role: "user", content, .. }) => content.push(part),
        _ => input.push(message("user", part)),
    }
}

fn message<'a>(role: &'static str, part: Part<'a>) -> Item<'a> {
    Item::Message { role, content: vec![part], rest: Map::new() }
}

/// Adds a model's turn with its opaque items in place. Drops trailing reasoning, which the vendor rejects.
fn model<'a>(pieces: &[ModelPiece<'a>], input: &mut Vec<Item<'a>>) {
    let end = pieces.iter().rposition(|piece| match piece {
        ModelPiece::Opaque(json) => Rest::read(json).is_some(),
        ModelPiece::Text(_) | ModelPiece::Call(_) => true,
    });
    for piece in &pieces[..end.map_or(0, |end| end + 1)] {
        match piece {
            ModelPiece::Text(text) => {
                let part = Part::OutputText { text: (*text).into() };
                match input.last_mut() {
                    // A message with the vendor's fields is one of its own.
                    Some(Item::Message { role: "assistant", content, rest }) if rest.is_empty() => {
                        content.push(part);
                    }
                    _ => input.push(message("assistant", part)),
                }
            }
            ModelPiece::Call(call) => input.push(Item::FunctionCall {
                call_id: replay::call_id(&call.id),
                name: &call.tool,
                arguments: replay::arguments(call),
                rest: Map::new(),
            }),
            ModelPiece::Opaque(json) => match (Rest::read(json), input.last_mut()) {
                (Some(Rest::Message(fields)), Some(Item::Message { role: "assistant", rest, .. }))
                | (Some(Rest::Call(fields)), Some(Item::FunctionCall { rest, .. }))
                    if rest.is_empty() =>
                {
                    *rest = fields;
                }
                (Some(_), _) => {}
                (None, _) => input.extend(serde_json::from_str(json).ok().map(Item::Opaque)),
            },
        }
    }
}

/// The other fields of a message or call, from the opaque item that follows it.
enum Rest {
    Message(Map<String, Value>),
    Call(Map<String, Value>),
}

impl Rest {
    /// Returns `None` for an opaque item of its own.
    fn read(json: &str) -> Option<Self> {
        let mut fields: Map<String, Value> = serde_json::from_str(json).ok()?;
        let kind = fields.remove("type")?;
        // The transcript's values of these fields take precedence.
        fields
            .retain(|name, _| !["role", "content", "call_id", "name", "arguments"].contains(&name.as_str()));
        match kind.as_str()? {
            "message" => Some(Self::Message(fields)),
            "function_call" => Some(Self::Call(fields)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::step::{Block, Call, CallResult, Purpose, Step, StepOutcome, ToolSpec};
    use serde_json::json;

    use super::*;

    fn request(blocks: Vec<Block>) -> StepRequest {
        let result = |call: &str| {
            domain::step::Item::Result(Arc::new(CallResult {
                images: Vec::new(),
                call: call.into(),
                tool: "read".into(),
                outcome: StepOutcome::Done,
                text: format!("result of {call}"),
                passages: vec![],
                written: vec![],
                unread: Vec::new(),
            }))
        };
        StepRequest {
            images: Vec::new(),
            model: "gpt-5.2".into(),
            instructions: "Be brief.".into(),
            transcript: vec![
                domain::step::Item::Question { text: "Q".into(), attachments: vec!["/uploads/a.pdf".into()] },
                domain::step::Item::Step(Arc::new(Step { blocks, ..Step::default() })),
                result("b"),
                result("a"),
            ],
            tools: vec![ToolSpec {
                name: "read".into(),
                description: "Reads.".into(),
                schema: r#"{"type":"object"}"#.into(),
            }],
            settings: vec![(REASONING_EFFORT.into(), "LOW".into())],
            output_max_tokens: 100,
        }
    }

    fn call(id: &str, arguments: &str) -> Block {
        Block::Call(Call {
            id: id.into(),
            tool: "read".into(),
            arguments: arguments.into(),
            purpose: Purpose::Tool,
        })
    }

    fn opaque(json: &str) -> Block {
        Block::Opaque { format: "responses".into(), json: json.into() }
    }

    fn sent(request: &StepRequest, dialect: Dialect) -> Value {
        serde_json::to_value(body(request, dialect).unwrap()).unwrap()
    }

    #[test]
    fn items_go_back_verbatim_and_in_their_order() {
        let thought = r#"{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAA"}"#;
        let request = request(vec![
            Block::Reasoning("in short".into()),
            opaque(thought),
            Block::Text("I look.".into()),
            opaque(
                r#"{"type":"message","role":"assistant","id":"msg_1","status":"completed","phase":"commentary"}"#,
            ),
            call("a", r#"{"path":"x"}"#),
            opaque(r#"{"type":"function_call","id":"fc_1","status":"completed"}"#),
            call("b", "{\"pa"),
            opaque(thought),
        ]);
        let body = sent(&request, Dialect::NEWEST);
        assert_eq!(
            body["input"],
            json!([
                {"type": "message", "role": "user", "content": [
                    {"type": "input_text", "text": "Q\n\nAttached files of the workspace:\n- /uploads/a.pdf"}]},
                serde_json::from_str::<Value>(thought).unwrap(),
                {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "phase": "commentary",
                 "content": [{"type": "output_text", "text": "I look."}]},
                {"type": "function_call", "id": "fc_1", "status": "completed", "call_id": "a", "name": "read",
                 "arguments": r#"{"path":"x"}"#},
                {"type": "function_call", "call_id": "b", "name": "read", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "a", "output": "result of a"},
                {"type": "function_call_output", "call_id": "b", "output": "result of b"},
            ])
        );
        assert_eq!(
            (&body["store"], &body["include"]),
            (&json!(false), &json!(["reasoning.encrypted_content"]))
        );
        assert_eq!(body["reasoning"], json!({"effort": "low", "summary": "auto"}));
        assert_eq!(body["max_output_tokens"], 100);
        assert_eq!(body["tools"][0]["parameters"], json!({"type": "object"}));
    }

    #[test]
    fn what_a_server_turns_down_is_left_out() {
        let newest = Dialect::NEWEST;
        let plain = newest.fallback("400: encrypted content is not supported with this model.").unwrap();
        assert!(!plain.encrypted);
        let verified = "400: your organization must be verified to generate reasoning summaries.";
        let silent = newest.fallback(verified).unwrap();
        assert!(!silent.summary && silent.effort);
        let none = "400: unsupported parameter: 'reasoning.effort' is not supported with this model.";
        assert!(!newest.fallback(none).unwrap().effort);
        assert_eq!(newest.fallback("400: the encrypted content could not be verified."), None);
        let mut request = request(vec![Block::Text("x".into())]);
        let body = sent(&request, Dialect { effort: false, summary: false, encrypted: false });
        assert!(body.get("reasoning").is_none() && body.get("include").is_none());
        request.settings.clear();
        assert!(sent(&request, newest).get("reasoning").is_none());
    }
}
