//! Builds a step's request in the Responses format.

use std::borrow::Cow;

use domain::catalog::REASONING_EFFORT;
use domain::step::{StepError, StepRequest};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::format::WireFormat;
use crate::replay::{self, ModelPiece, ReplayTurn, UserPiece};

/// The request parameters that a model accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResponsesDialect {
    /// Accepts a reasoning effort.
    effort: bool,
    /// Accepts a request for reasoning summaries.
    summary: bool,
    /// Accepts a request for encrypted reasoning.
    encrypted: bool,
}

impl ResponsesDialect {
    /// The dialect of the vendor's newer models.
    pub(crate) const NEWEST: Self = Self { effort: true, summary: true, encrypted: true };

    /// Returns another dialect to try after this rejection, whose reason is in lower case.
    pub(crate) fn fallback_dialect(self, reason: &str) -> Option<Self> {
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
pub(crate) struct ResponsesBody<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
    input: Vec<ResponsesInputItem<'a>>,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    include: Vec<&'static str>,
    max_output_tokens: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ResponsesTool<'a>>,
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
enum ResponsesInputItem<'a> {
    Message {
        role: &'static str,
        content: Vec<ResponsesInputPart<'a>>,
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
enum ResponsesInputPart<'a> {
    InputText { text: Cow<'a, str> },
    OutputText { text: Cow<'a, str> },
    InputImage { image_url: String, detail: &'static str },
}

#[derive(Serialize)]
struct ResponsesTool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
    strict: bool,
}

/// Builds the request's body.
pub(crate) fn build_body(
    request: &StepRequest,
    dialect: ResponsesDialect,
) -> Result<ResponsesBody<'_>, StepError> {
    let tools = request.tools.iter().map(|tool| {
        Ok(ResponsesTool {
            r#type: "function",
            name: &tool.name,
            description: &tool.description,
            parameters: replay::tool_schema(tool)?,
            strict: false,
        })
    });
    let effort = request.settings.iter().find(|(key, _)| key == REASONING_EFFORT);
    let reasoning = effort.filter(|_| dialect.effort).map(|(_, value)| Reasoning {
        effort: Some(value.to_lowercase()),
        summary: dialect.summary.then_some("auto"),
    });
    let mut input = Vec::with_capacity(request.transcript.len());
    for turn in replay::build_turns(request, WireFormat::Responses) {
        match turn {
            ReplayTurn::User(pieces) => pieces.into_iter().for_each(|piece| push_user(piece, &mut input)),
            ReplayTurn::Model(pieces) => push_model(&pieces, &mut input),
        }
    }
    Ok(ResponsesBody {
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
fn push_user<'a>(piece: UserPiece<'a>, input: &mut Vec<ResponsesInputItem<'a>>) {
    let part = match piece {
        UserPiece::Result(call, result) => {
            input.push(ResponsesInputItem::FunctionCallOutput {
                call_id: replay::call_id(&call.id),
                output: replay::result_text(result),
            });
            return;
        }
        UserPiece::Text(text) => ResponsesInputPart::InputText { text },
        UserPiece::Image(image) => {
            ResponsesInputPart::InputImage { image_url: replay::data_url(image), detail: "auto" }
        }
    };
    match input.last_mut() {
        Some(ResponsesInputItem::Message { role: "user", content, .. }) => content.push(part),
        _ => input.push(message_item("user", part)),
    }
}

fn message_item<'a>(role: &'static str, part: ResponsesInputPart<'a>) -> ResponsesInputItem<'a> {
    ResponsesInputItem::Message { role, content: vec![part], rest: Map::new() }
}

/// Adds a model's turn with its opaque items in place. Drops trailing reasoning, which the vendor rejects.
fn push_model<'a>(pieces: &[ModelPiece<'a>], input: &mut Vec<ResponsesInputItem<'a>>) {
    let end = pieces.iter().rposition(|piece| match piece {
        ModelPiece::Opaque(json) => RestFields::parse_opaque(json).is_some(),
        ModelPiece::Text(_) | ModelPiece::Call(_) => true,
    });
    for piece in &pieces[..end.map_or(0, |end| end + 1)] {
        match piece {
            ModelPiece::Text(text) => {
                let part = ResponsesInputPart::OutputText { text: (*text).into() };
                match input.last_mut() {
                    // A message that has the vendor's fields is complete: begin another one.
                    Some(ResponsesInputItem::Message { role: "assistant", content, rest })
                        if rest.is_empty() =>
                    {
                        content.push(part);
                    }
                    _ => input.push(message_item("assistant", part)),
                }
            }
            ModelPiece::Call(call) => input.push(ResponsesInputItem::FunctionCall {
                call_id: replay::call_id(&call.id),
                name: &call.tool,
                arguments: replay::call_arguments(call),
                rest: Map::new(),
            }),
            ModelPiece::Opaque(json) => match (RestFields::parse_opaque(json), input.last_mut()) {
                (
                    Some(RestFields::Message(fields)),
                    Some(ResponsesInputItem::Message { role: "assistant", rest, .. }),
                )
                | (Some(RestFields::Call(fields)), Some(ResponsesInputItem::FunctionCall { rest, .. }))
                    if rest.is_empty() =>
                {
                    *rest = fields;
                }
                (Some(_), _) => {}
                (None, _) => input.extend(serde_json::from_str(json).ok().map(ResponsesInputItem::Opaque)),
            },
        }
    }
}

/// The other fields of a message or call, from the opaque item that follows it.
enum RestFields {
    Message(Map<String, Value>),
    Call(Map<String, Value>),
}

impl RestFields {
    /// Returns `None` for an item that is neither a message nor a call.
    fn parse_opaque(json: &str) -> Option<Self> {
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

    use domain::step::{CallResult, OutputBlock, Purpose, Step, StepCall, StepOutcome, ToolSpec};
    use serde_json::json;

    use super::*;

    fn sample_request(blocks: Vec<OutputBlock>) -> StepRequest {
        let result = |call: &str| {
            domain::step::TranscriptItem::Result(Arc::new(CallResult {
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
                domain::step::TranscriptItem::Question {
                    text: "Q".into(),
                    attachments: vec!["/uploads/a.pdf".into()],
                },
                domain::step::TranscriptItem::Step(Arc::new(Step { blocks, ..Step::default() })),
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

    fn call_block(id: &str, arguments: &str) -> OutputBlock {
        OutputBlock::Call(StepCall {
            id: id.into(),
            tool: "read".into(),
            arguments: arguments.into(),
            purpose: Purpose::Tool,
        })
    }

    fn opaque_block(json: &str) -> OutputBlock {
        OutputBlock::Opaque { format: "responses".into(), json: json.into() }
    }

    fn request_json(request: &StepRequest, dialect: ResponsesDialect) -> Value {
        serde_json::to_value(build_body(request, dialect).unwrap()).unwrap()
    }

    #[test]
    fn items_return_verbatim_in_order() {
        let thought = r#"{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAA"}"#;
        let request = sample_request(vec![
            OutputBlock::Reasoning("in short".into()),
            opaque_block(thought),
            OutputBlock::Text("I look.".into()),
            opaque_block(
                r#"{"type":"message","role":"assistant","id":"msg_1","status":"completed","phase":"commentary"}"#,
            ),
            call_block("a", r#"{"path":"x"}"#),
            opaque_block(r#"{"type":"function_call","id":"fc_1","status":"completed"}"#),
            call_block("b", "{\"pa"),
            opaque_block(thought),
        ]);
        let body = request_json(&request, ResponsesDialect::NEWEST);
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
    fn fallback_dialect_omits_rejected_parameter() {
        let newest = ResponsesDialect::NEWEST;
        let plain =
            newest.fallback_dialect("400: encrypted content is not supported with this model.").unwrap();
        assert!(!plain.encrypted);
        let verified = "400: your organization must be verified to generate reasoning summaries.";
        let silent = newest.fallback_dialect(verified).unwrap();
        assert!(!silent.summary && silent.effort);
        let none = "400: unsupported parameter: 'reasoning.effort' is not supported with this model.";
        assert!(!newest.fallback_dialect(none).unwrap().effort);
        assert_eq!(newest.fallback_dialect("400: the encrypted content could not be verified."), None);
        let mut request = sample_request(vec![OutputBlock::Text("x".into())]);
        let body =
            request_json(&request, ResponsesDialect { effort: false, summary: false, encrypted: false });
        assert!(body.get("reasoning").is_none() && body.get("include").is_none());
        request.settings.clear();
        assert!(request_json(&request, newest).get("reasoning").is_none());
    }
}
