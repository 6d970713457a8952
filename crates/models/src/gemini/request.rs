//! Builds a step's request in Gemini's format.

use std::borrow::Cow;
use std::collections::HashMap;

use domain::catalog::REASONING_EFFORT;
use domain::step::{StepError, StepRequest};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::format::Format;
use crate::replay::{self, ModelPiece, Turn, UserPiece};

/// The minimum thinking budget.
const BUDGET_MIN_TOKENS: u32 = 512;

/// The request parameters that a model accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dialect {
    thinking: Thinking,
    /// Accepts full JSON schemas of tools, not only the OpenAPI subset.
    json_schema: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thinking {
    Level,
    /// Thinks up to a number of tokens.
    Budget,
    /// Sends no thinking configuration.
    Off,
}

impl Dialect {
    /// Guesses the dialect from the model's name: earlier generations are listed.
    pub(crate) fn of(model: &str) -> Self {
        let any = |kinds: &[&str]| kinds.iter().any(|kind| model.contains(kind));
        let thinking = if any(&["gemini-2.5"]) {
            Thinking::Budget
        } else if any(&["gemini-1", "gemini-2", "gemma", "learnlm"]) {
            Thinking::Off
        } else {
            Thinking::Level
        };
        Self { thinking, json_schema: true }
    }

    /// Returns another dialect to try after this rejection, whose reason is in lower case.
    pub(crate) fn fallback(self, reason: &str) -> Option<Self> {
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
                Thinking::Level => Thinking::Budget,
                Thinking::Budget | Thinking::Off => Thinking::Off,
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
pub(crate) struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Instruction<'a>>,
    contents: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tools<'a>>,
    generation_config: Config,
}

#[derive(Serialize)]
struct Instruction<'a> {
    parts: [Part<'a>; 1],
}

#[derive(Serialize)]
struct Content<'a> {
    role: &'static str,
    parts: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Part<'a> {
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
        response: Answer,
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
enum Answer {
    Output(String),
    Error(String),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Tool<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tool<'a> {
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
    thinking_config: Option<ThinkingConfig>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ThinkingConfig {
    include_thoughts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u32>,
}

/// Builds the request's body.
pub(crate) fn body(request: &StepRequest, dialect: Dialect) -> Result<Body<'_>, StepError> {
    let declared = request.tools.iter().map(|tool| {
        let schema = replay::schema(tool)?;
        Ok(Tool {
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
    let turns = replay::turns(request, Format::Gemini);
    Ok(Body {
        system_instruction: (!instructions.trim().is_empty())
            .then(|| Instruction { parts: [Part::Text(instructions.into())] }),
        contents: turns.into_iter().map(|turn| builder.content(turn)).collect(),
        tools,
        generation_config: Config {
            max_output_tokens: request.output_max_tokens,
            thinking_config: effort.and_then(|(_, effort)| thinking(request, dialect, effort)),
        },
    })
}

fn thinking(request: &StepRequest, dialect: Dialect, effort: &str) -> Option<ThinkingConfig> {
    let share = match effort {
        "LOW" => 8,
        "HIGH" => 2,
        _ => 4,
    };
    let budget = (request.output_max_tokens / share).max(BUDGET_MIN_TOKENS);
    let (thinking_level, thinking_budget) = match dialect.thinking {
        Thinking::Off => return None,
        Thinking::Level => (Some(effort.to_owned()), None),
        Thinking::Budget => (None, Some(budget)),
    };
    Some(ThinkingConfig { include_thoughts: true, thinking_level, thinking_budget })
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
    fn content(&mut self, turn: Turn<'a>) -> Content<'a> {
        match turn {
            Turn::User(pieces) => {
                Content { role: "user", parts: pieces.into_iter().map(|piece| self.user(piece)).collect() }
            }
            Turn::Model(pieces) => {
                let mut parts: Vec<Part<'a>> = Vec::with_capacity(pieces.len());
                let mut last_call = None;
                for piece in pieces {
                    match piece {
                        ModelPiece::Text(text) => parts.push(Part::Text(text.into())),
                        ModelPiece::Call(call) => {
                            let id = replay::call_id(&call.id);
                            if let Some(args) = replay::arguments_json(call) {
                                self.ids.insert(&call.id, Some(id.clone()));
                                last_call = Some(call.id.as_str());
                                parts.push(Part::FunctionCall { id: Some(id), name: &call.tool, args });
                            }
                        }
                        ModelPiece::Opaque(json) => self.sign(json, last_call, &mut parts),
                    }
                }
                Content { role: "model", parts }
            }
        }
    }

    /// Replaces the part that was signed with the signed original, which must be sent back unchanged. Signed parts of a
    /// text follow the whole text, in order.
    fn sign(&mut self, json: &'a str, last_call: Option<&'a str>, parts: &mut Vec<Part<'a>>) {
        let (Ok(signed), Ok(part)) = (serde_json::from_str::<Signed>(json), serde_json::from_str(json))
        else {
            return;
        };
        let part = Part::Opaque(part);
        match (signed.function_call, signed.text.unwrap_or_default()) {
            (Some(call), _) => {
                // A call that was dropped has no result either.
                let (Some(last @ Part::FunctionCall { .. }), Some(id)) = (parts.last_mut(), last_call) else {
                    return;
                };
                if matches!(last, Part::FunctionCall { name, .. } if *name == call.name) {
                    self.ids.insert(id, call.id.map(Cow::Owned));
                    *last = part;
                }
            }
            (None, text) if signed.thought || text.trim().is_empty() => parts.push(part),
            (None, text) => {
                let Some(Part::Text(text_so_far)) = parts.last() else { return };
                let Some(at) = text_so_far.rfind(text.as_str()) else { return };
                let (before, behind) =
                    (text_so_far[..at].to_owned(), text_so_far[at + text.len()..].to_owned());
                parts.pop();
                let unsigned = |text: String| (!text.is_empty()).then(|| Part::Text(text.into()));
                parts.extend([unsigned(before), Some(part), unsigned(behind)].into_iter().flatten());
            }
        }
    }

    fn user(&self, piece: UserPiece<'a>) -> Part<'a> {
        match piece {
            UserPiece::Text(text) => Part::Text(text),
            UserPiece::Image(image) => {
                Part::InlineData { mime_type: image.of.kind.mime(), data: replay::base64(image) }
            }
            UserPiece::Result(call, result) => {
                let text = replay::result_text(result);
                let response =
                    if replay::has_failed(result) { Answer::Error(text) } else { Answer::Output(text) };
                let id = self.ids.get(call.id.as_str()).cloned().flatten();
                Part::FunctionResponse { id, name: &call.tool, response }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::step::{Block, Call, CallResult, Item, Purpose, Step, StepOutcome, ToolSpec};
    use serde_json::{Value, json};

    use super::*;

    fn request(model: &str, transcript: Vec<Item>) -> StepRequest {
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

    fn sent(request: &StepRequest) -> Value {
        serde_json::to_value(body(request, Dialect::of(&request.model)).unwrap()).unwrap()
    }

    fn ask(text: &str) -> Item {
        Item::Question { text: text.into(), attachments: vec![] }
    }

    fn step(blocks: Vec<Block>) -> Item {
        Item::Step(Arc::new(Step { blocks, ..Step::default() }))
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
        Block::Opaque { format: "gemini".into(), json: json.into() }
    }

    fn result(call: &str, outcome: StepOutcome) -> Item {
        Item::Result(Arc::new(CallResult {
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
    fn a_signature_goes_back_on_the_very_part_that_it_came_with() {
        let signed_text = r#"{"text":"look.","thoughtSignature":"dA=="}"#;
        let signed_call = r#"{"functionCall":{"name":"read","args":{"path":"x"}},"thoughtSignature":"Yw=="}"#;
        let alone = r#"{"text":"","thoughtSignature":"YQ=="}"#;
        let answer = step(vec![
            Block::Reasoning("thoughts".into()),
            Block::Text("I look.".into()),
            opaque(signed_text),
            call("call_1", r#"{"path":"x"}"#),
            opaque(signed_call),
            call("call_2", "{\"pa"),
            opaque(alone),
        ]);
        let results = [result("call_2", StepOutcome::Failed), result("call_1", StepOutcome::Done)];
        let body = sent(&request("gemini-3-pro", [vec![ask("Q"), answer], results.into()].concat()));
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
    fn signed_parts_within_a_text_find_their_places() {
        let [first, second] =
            ["b", "d"].map(|text| format!(r#"{{"text":"{text}","thoughtSignature":"cw=="}}"#));
        let answer = step(vec![Block::Text("abcde".into()), opaque(&first), opaque(&second)]);
        let body = sent(&request("gemini-3-pro", vec![ask("Q"), answer, ask("R")]));
        let parts = body["contents"][1]["parts"].as_array().unwrap();
        let texts: Vec<_> =
            parts.iter().map(|part| (&part["text"], part["thoughtSignature"].is_string())).collect();
        let (a, b, c, d, e) = (json!("a"), json!("b"), json!("c"), json!("d"), json!("e"));
        assert_eq!(texts, [(&a, false), (&b, true), (&c, false), (&d, true), (&e, false)]);
    }

    #[test]
    fn an_identifier_of_the_vendors_comes_back_with_the_result() {
        let signed = r#"{"functionCall":{"id":"v1","name":"read","args":{}},"thoughtSignature":"Yw=="}"#;
        let answer = step(vec![call("v1", "{}"), opaque(signed)]);
        let body = sent(&request("gemini-3-pro", vec![ask("Q"), answer, result("v1", StepOutcome::Done)]));
        assert_eq!(body["contents"][2]["parts"][0]["functionResponse"]["id"], "v1");
        let orphan = step(vec![Block::Text("x".into()), opaque(signed)]);
        let body = sent(&request("gemini-3-pro", vec![ask("Q"), orphan, ask("R")]));
        assert_eq!(
            body["contents"][1]["parts"],
            json!([{"text": "x"}]),
            "a call that was left out stays out"
        );
    }

    #[test]
    fn effort_is_said_as_each_generation_takes_it() {
        let of = |model: &str, effort: &str| {
            let mut request = request(model, vec![ask("Q")]);
            request.settings[0].1 = effort.into();
            sent(&request)["generationConfig"]["thinkingConfig"].clone()
        };
        assert_eq!(of("gemini-3-pro", "HIGH"), json!({"includeThoughts": true, "thinkingLevel": "HIGH"}));
        for (effort, tokens) in [("LOW", 1024), ("MEDIUM", 2048), ("HIGH", 4096)] {
            let budget = json!({"includeThoughts": true, "thinkingBudget": tokens});
            assert_eq!(of("gemini-2.5-flash", effort), budget);
        }
        assert_eq!(of("gemini-2.0-flash", "HIGH"), Value::Null);
    }

    #[test]
    fn what_a_server_turns_down_is_said_otherwise() {
        let new = Dialect::of("gemini-3-pro");
        let budget = new.fallback("400: thinking level medium is not supported for this model.").unwrap();
        assert_eq!(budget.thinking, Thinking::Budget);
        assert_eq!(
            budget.fallback("400: thinking is not enabled for this model").unwrap().thinking,
            Thinking::Off
        );
        let plain = new.fallback("400: unknown name \"parametersjsonschema\"").unwrap();
        let mut request = request("gemini-3-pro", vec![ask("Q")]);
        let body = serde_json::to_value(body(&request, plain).unwrap()).unwrap();
        assert!(body["tools"][0]["functionDeclarations"][0]["parameters"].is_object());
        assert_eq!(new.fallback("400: function call is missing a thought_signature"), None);
        request.settings.clear();
        assert!(sent(&request)["generationConfig"].get("thinkingConfig").is_none());
    }
}
