//! Builds a step's request in Gemini's format.

use std::borrow::Cow;
use std::collections::HashMap;

use domain::catalog::REASONING_EFFORT;
use domain::step::{StepError, StepRequest};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::format::WireFormat;
use crate::replay::{self, ModelPiece, ReplayTurn, UserPiece};

/// The minimum thinking budget.
const BUDGET_MIN_TOKENS: u32 = 512;

/// The request parameters that a model accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GeminiDialect {
    thinking: GeminiThinking,
    /// Accepts full JSON schemas of tools, not only the OpenAPI subset.
    json_schema: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GeminiThinking {
    Level,
    /// Thinks up to a number of tokens.
    Budget,
    /// Sends no thinking configuration.
    Off,
}

impl GeminiDialect {
    /// Guesses the dialect from the model's name: earlier generations are listed.
    pub(crate) fn from_model(model: &str) -> Self {
        let any = |kinds: &[&str]| kinds.iter().any(|kind| model.contains(kind));
        let thinking = if any(&["gemini-2.5"]) {
            GeminiThinking::Budget
        } else if any(&["gemini-1", "gemini-2", "gemma", "learnlm"]) {
            GeminiThinking::Off
        } else {
            GeminiThinking::Level
        };
        Self { thinking, json_schema: true }
    }

    /// Returns another dialect to try after this rejection, whose reason is in lower case.
    pub(crate) fn fallback_dialect(self, reason: &str) -> Option<Self> {
        // This rejection concerns the transcript, not the model's parameters.
        if reason.contains("thought_signature") || reason.contains("thought signature") {
            return None;
        }
        let schema =
            ["parametersjsonschema", "parameters_json_schema"].iter().any(|name| reason.contains(name));
        let other = if schema {
            Self { json_schema: false, ..self }
        } else if reason.contains("thinking") || reason.contains("thoughts") {
            let thinking = match self.thinking {
                GeminiThinking::Level => GeminiThinking::Budget,
                GeminiThinking::Budget | GeminiThinking::Off => GeminiThinking::Off,
            };
            Self { thinking, ..self }
        } else {
            self
        };
        (other != self).then_some(other)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GeminiBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Instruction<'a>>,
    contents: Vec<GeminiContent<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tools<'a>>,
    generation_config: Config,
}

#[derive(Serialize)]
struct Instruction<'a> {
    parts: [GeminiPart<'a>; 1],
}

#[derive(Serialize)]
struct GeminiContent<'a> {
    role: &'static str,
    parts: Vec<GeminiPart<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum GeminiPart<'a> {
    Text(Cow<'a, str>),
    FunctionCall {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<Cow<'a, str>>,
        name: &'a str,
        args: &'a RawValue,
    },
    FunctionResponse {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<Cow<'a, str>>,
        name: &'a str,
        response: GeminiCallResponse,
    },
    #[serde(rename_all = "camelCase")]
    InlineData {
        mime_type: &'static str,
        data: String,
    },
    #[serde(untagged)]
    Opaque(&'a RawValue),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum GeminiCallResponse {
    Output(String),
    Error(String),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<GeminiTool<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiTool<'a> {
    name: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters_json_schema: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    max_output_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<GeminiThinkingConfig>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiThinkingConfig {
    include_thoughts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u32>,
}

/// Builds the request's body.
pub(crate) fn build_body(request: &StepRequest, dialect: GeminiDialect) -> Result<GeminiBody<'_>, StepError> {
    let declared = request.tools.iter().map(|tool| {
        let schema = replay::tool_schema(tool)?;
        Ok(GeminiTool {
            name: &tool.name,
            description: &tool.description,
            parameters_json_schema: dialect.json_schema.then_some(schema),
            parameters: (!dialect.json_schema).then_some(schema),
        })
    });
    let declared = declared.collect::<Result<Vec<_>, StepError>>()?;
    let tools =
        if declared.is_empty() { Vec::new() } else { vec![Tools { function_declarations: declared }] };
    let effort = request.settings.iter().find(|(key, _)| key == REASONING_EFFORT);
    let instructions = request.instructions.as_str();
    let mut builder = ContentBuilder::default();
    let turns = replay::build_turns(request, WireFormat::Gemini);
    Ok(GeminiBody {
        system_instruction: (!instructions.trim().is_empty())
            .then(|| Instruction { parts: [GeminiPart::Text(instructions.into())] }),
        contents: turns.into_iter().map(|turn| builder.build_content(turn)).collect(),
        tools,
        generation_config: Config {
            max_output_tokens: request.output_max_tokens,
            thinking_config: effort.and_then(|(_, effort)| thinking_config(request, dialect, effort)),
        },
    })
}

fn thinking_config(
    request: &StepRequest,
    dialect: GeminiDialect,
    effort: &str,
) -> Option<GeminiThinkingConfig> {
    let share = match effort {
        "LOW" => 8,
        "HIGH" => 2,
        _ => 4,
    };
    let budget = (request.output_max_tokens / share).max(BUDGET_MIN_TOKENS);
    let (thinking_level, thinking_budget) = match dialect.thinking {
        GeminiThinking::Off => return None,
        GeminiThinking::Level => (Some(effort.to_owned()), None),
        GeminiThinking::Budget => (None, Some(budget)),
    };
    Some(GeminiThinkingConfig { include_thoughts: true, thinking_level, thinking_budget })
}

/// An opaque item: a part with the vendor's signature.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Signed {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    #[serde(default)]
    function_call: Option<SignedCall>,
}

#[derive(Deserialize)]
struct SignedCall {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: String,
}

/// Builds the contents. Remembers the vendor's identifiers of calls, if any.
#[derive(Default)]
struct ContentBuilder<'a> {
    ids: HashMap<&'a str, Option<Cow<'a, str>>>,
}

impl<'a> ContentBuilder<'a> {
    fn build_content(&mut self, turn: ReplayTurn<'a>) -> GeminiContent<'a> {
        match turn {
            ReplayTurn::User(pieces) => GeminiContent {
                role: "user",
                parts: pieces.into_iter().map(|piece| self.user_part(piece)).collect(),
            },
            ReplayTurn::Model(pieces) => {
                let mut parts: Vec<GeminiPart<'a>> = Vec::with_capacity(pieces.len());
                let mut last_call = None;
                for piece in pieces {
                    match piece {
                        ModelPiece::Text(text) => parts.push(GeminiPart::Text(text.into())),
                        ModelPiece::Call(call) => {
                            let id = replay::call_id(&call.id);
                            if let Some(args) = replay::arguments_json(call) {
                                self.ids.insert(&call.id, Some(id.clone()));
                                last_call = Some(call.id.as_str());
                                parts.push(GeminiPart::FunctionCall { id: Some(id), name: &call.tool, args });
                            }
                        }
                        ModelPiece::Opaque(json) => self.replace_signed(json, last_call, &mut parts),
                    }
                }
                GeminiContent { role: "model", parts }
            }
        }
    }

    /// Replaces the part that was signed with the signed original, which must be sent back unchanged. Signed parts of a
    /// text follow the whole text, in order.
    fn replace_signed(&mut self, json: &'a str, last_call: Option<&'a str>, parts: &mut Vec<GeminiPart<'a>>) {
        let (Ok(signed), Ok(part)) = (serde_json::from_str::<Signed>(json), serde_json::from_str(json))
        else {
            return;
        };
        let part = GeminiPart::Opaque(part);
        match (signed.function_call, signed.text.unwrap_or_default()) {
            (Some(call), _) => {
                // A call that was dropped has no result either.
                let (Some(last @ GeminiPart::FunctionCall { .. }), Some(id)) = (parts.last_mut(), last_call)
                else {
                    return;
                };
                if matches!(last, GeminiPart::FunctionCall { name, .. } if *name == call.name) {
                    self.ids.insert(id, call.id.map(Cow::Owned));
                    *last = part;
                }
            }
            (None, text) if signed.thought || text.trim().is_empty() => parts.push(part),
            (None, text) => {
                let Some(GeminiPart::Text(text_so_far)) = parts.last() else { return };
                let Some(at) = text_so_far.rfind(text.as_str()) else { return };
                let (before, behind) =
                    (text_so_far[..at].to_owned(), text_so_far[at + text.len()..].to_owned());
                parts.pop();
                let unsigned = |text: String| (!text.is_empty()).then(|| GeminiPart::Text(text.into()));
                parts.extend([unsigned(before), Some(part), unsigned(behind)].into_iter().flatten());
            }
        }
    }

    fn user_part(&self, piece: UserPiece<'a>) -> GeminiPart<'a> {
        match piece {
            UserPiece::Text(text) => GeminiPart::Text(text),
            UserPiece::Image(image) => GeminiPart::InlineData {
                mime_type: image.of.kind.mime_type(),
                data: replay::encode_image(image),
            },
            UserPiece::Result(call, result) => {
                let text = replay::result_text(result);
                let response = if replay::has_failed(result) {
                    GeminiCallResponse::Error(text)
                } else {
                    GeminiCallResponse::Output(text)
                };
                let id = self.ids.get(call.id.as_str()).cloned().flatten();
                GeminiPart::FunctionResponse { id, name: &call.tool, response }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::step::{
        CallResult, OutputBlock, Purpose, Step, StepCall, StepOutcome, ToolSpec, TranscriptItem,
    };
    use serde_json::{Value, json};

    use super::*;

    fn sample_request(model: &str, transcript: Vec<TranscriptItem>) -> StepRequest {
        StepRequest {
            images: Vec::new(),
            model: model.into(),
            instructions: "Be brief.".into(),
            transcript,
            tools: vec![ToolSpec {
                name: "read".into(),
                description: "Reads.".into(),
                schema: r#"{"type":"object","additionalProperties":false}"#.into(),
            }],
            settings: vec![(REASONING_EFFORT.into(), "HIGH".into())],
            output_max_tokens: 8192,
        }
    }

    fn request_json(request: &StepRequest) -> Value {
        serde_json::to_value(build_body(request, GeminiDialect::from_model(&request.model)).unwrap()).unwrap()
    }

    fn question_item(text: &str) -> TranscriptItem {
        TranscriptItem::Question { text: text.into(), attachments: vec![] }
    }

    fn step_item(blocks: Vec<OutputBlock>) -> TranscriptItem {
        TranscriptItem::Step(Arc::new(Step { blocks, ..Step::default() }))
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
        OutputBlock::Opaque { format: "gemini".into(), json: json.into() }
    }

    fn result_item(call: &str, outcome: StepOutcome) -> TranscriptItem {
        TranscriptItem::Result(Arc::new(CallResult {
            images: Vec::new(),
            call: call.into(),
            tool: "read".into(),
            outcome,
            text: format!("result of {call}"),
            passages: vec![],
            written: vec![],
            unread: Vec::new(),
        }))
    }

    #[test]
    fn signature_returns_on_its_part() {
        let signed_text = r#"{"text":"look.","thoughtSignature":"dA=="}"#;
        let signed_call = r#"{"functionCall":{"name":"read","args":{"path":"x"}},"thoughtSignature":"Yw=="}"#;
        let alone = r#"{"text":"","thoughtSignature":"YQ=="}"#;
        let answer = step_item(vec![
            OutputBlock::Reasoning("thoughts".into()),
            OutputBlock::Text("I look.".into()),
            opaque_block(signed_text),
            call_block("call_1", r#"{"path":"x"}"#),
            opaque_block(signed_call),
            call_block("call_2", "{\"pa"),
            opaque_block(alone),
        ]);
        let results = [result_item("call_2", StepOutcome::Failed), result_item("call_1", StepOutcome::Done)];
        let body = request_json(&sample_request(
            "gemini-3-pro",
            [vec![question_item("Q"), answer], results.into()].concat(),
        ));
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(
            body["contents"],
            json!([
                {"role": "user", "parts": [{"text": "Q"}]},
                {"role": "model", "parts": [{"text": "I "}, json(signed_text), json(signed_call),
                    {"functionCall": {"id": "call_2", "name": "read", "args": {}}}, json(alone)]},
                {"role": "user", "parts": [
                    {"functionResponse": {"name": "read", "response": {"output": "result of call_1"}}},
                    {"functionResponse": {"id": "call_2", "name": "read", "response": {"error": "result of call_2"}}}]},
            ])
        );
        assert_eq!(body["systemInstruction"], json!({"parts": [{"text": "Be brief."}]}));
        let schema = json!({"type": "object", "additionalProperties": false});
        let declared = json!({"name": "read", "description": "Reads.", "parametersJsonSchema": schema});
        assert_eq!(body["tools"], json!([{"functionDeclarations": [declared]}]));
    }

    #[test]
    fn signed_text_parts_keep_places() {
        let [first, second] =
            ["b", "d"].map(|text| format!(r#"{{"text":"{text}","thoughtSignature":"cw=="}}"#));
        let answer =
            step_item(vec![OutputBlock::Text("abcde".into()), opaque_block(&first), opaque_block(&second)]);
        let body = request_json(&sample_request(
            "gemini-3-pro",
            vec![question_item("Q"), answer, question_item("R")],
        ));
        let parts = body["contents"][1]["parts"].as_array().unwrap();
        let texts: Vec<_> =
            parts.iter().map(|part| (&part["text"], part["thoughtSignature"].is_string())).collect();
        let (a, b, c, d, e) = (json!("a"), json!("b"), json!("c"), json!("d"), json!("e"));
        assert_eq!(texts, [(&a, false), (&b, true), (&c, false), (&d, true), (&e, false)]);
    }

    #[test]
    fn vendor_call_id_returns_with_result() {
        let signed = r#"{"functionCall":{"id":"v1","name":"read","args":{}},"thoughtSignature":"Yw=="}"#;
        let answer = step_item(vec![call_block("v1", "{}"), opaque_block(signed)]);
        let body = request_json(&sample_request(
            "gemini-3-pro",
            vec![question_item("Q"), answer, result_item("v1", StepOutcome::Done)],
        ));
        assert_eq!(body["contents"][2]["parts"][0]["functionResponse"]["id"], "v1");
        let orphan = step_item(vec![OutputBlock::Text("x".into()), opaque_block(signed)]);
        let body = request_json(&sample_request(
            "gemini-3-pro",
            vec![question_item("Q"), orphan, question_item("R")],
        ));
        assert_eq!(
            body["contents"][1]["parts"],
            json!([{"text": "x"}]),
            "a call that was left out stays out"
        );
    }

    #[test]
    fn effort_follows_model_generation() {
        let of = |model: &str, effort: &str| {
            let mut request = sample_request(model, vec![question_item("Q")]);
            request.settings[0].1 = effort.into();
            request_json(&request)["generationConfig"]["thinkingConfig"].clone()
        };
        assert_eq!(of("gemini-3-pro", "HIGH"), json!({"includeThoughts": true, "thinkingLevel": "HIGH"}));
        for (effort, tokens) in [("LOW", 1024), ("MEDIUM", 2048), ("HIGH", 4096)] {
            let budget = json!({"includeThoughts": true, "thinkingBudget": tokens});
            assert_eq!(of("gemini-2.5-flash", effort), budget);
        }
        assert_eq!(of("gemini-2.0-flash", "HIGH"), Value::Null);
    }

    #[test]
    fn fallback_dialect_omits_rejected_parameter() {
        let new = GeminiDialect::from_model("gemini-3-pro");
        let budget =
            new.fallback_dialect("400: thinking level medium is not supported for this model.").unwrap();
        assert_eq!(budget.thinking, GeminiThinking::Budget);
        assert_eq!(
            budget.fallback_dialect("400: thinking is not enabled for this model").unwrap().thinking,
            GeminiThinking::Off
        );
        let plain = new.fallback_dialect("400: unknown name \"parametersjsonschema\"").unwrap();
        let mut request = sample_request("gemini-3-pro", vec![question_item("Q")]);
        let body = serde_json::to_value(build_body(&request, plain).unwrap()).unwrap();
        assert!(body["tools"][0]["functionDeclarations"][0]["parameters"].is_object());
        assert_eq!(new.fallback_dialect("400: function call is missing a thought_signature"), None);
        request.settings.clear();
        assert!(request_json(&request)["generationConfig"].get("thinkingConfig").is_none());
    }
}
