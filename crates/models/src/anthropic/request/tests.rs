use std::sync::Arc;

use domain::step::{
    CallResult, OutputBlock as StepBlock, Purpose, Step, StepCall, StepOutcome, ToolSpec, TranscriptItem,
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
            schema: r#"{"type":"object"}"#.into(),
        }],
        settings: vec![(REASONING_EFFORT.into(), "HIGH".into())],
        output_max_tokens: 8192,
    }
}

fn request_json(request: &StepRequest) -> Value {
    serde_json::to_value(build_body(request, AnthropicDialect::from_model(&request.model)).unwrap()).unwrap()
}

fn question_item(text: &str) -> TranscriptItem {
    TranscriptItem::Question { text: text.into(), attachments: vec![] }
}

fn step_item(blocks: Vec<StepBlock>) -> TranscriptItem {
    TranscriptItem::Step(Arc::new(Step { blocks, ..Step::default() }))
}

fn call_block(id: &str, arguments: &str) -> StepBlock {
    StepBlock::Call(StepCall {
        id: id.into(),
        tool: "read".into(),
        arguments: arguments.into(),
        purpose: Purpose::Tool,
    })
}

fn opaque_block(json: &str) -> StepBlock {
    StepBlock::Opaque { format: "anthropic".into(), json: json.into() }
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
fn thinking_verbatim_results_in_one_turn() {
    let thought = r#"{"signature":"c2ln","thinking":"t","type":"thinking"}"#;
    let hidden = r#"{"type":"redacted_thinking","data":"ZGF0YQ=="}"#;
    let answer = step_item(vec![
        StepBlock::Reasoning("t".into()),
        opaque_block(thought),
        opaque_block(hidden),
        StepBlock::Text("I look.".into()),
        call_block("a", r#"{"path":"x"}"#),
        call_block("functions.read:1", "{\"pa"),
    ]);
    let results = [result_item("functions.read:1", StepOutcome::Failed), result_item("a", StepOutcome::Done)];
    let body = request_json(&sample_request(
        "claude-opus-4-6",
        [vec![question_item("Q"), answer], results.into()].concat(),
    ));
    let replaced = replay::call_id("functions.read:1");
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "Q"}]},
            {"role": "assistant", "content": [
                json(thought), json(hidden), {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "a", "name": "read", "input": {"path": "x"}},
                {"type": "tool_use", "id": replaced, "name": "read", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "result of a"},
                {"type": "tool_result", "tool_use_id": replaced, "content": "result of functions.read:1",
                 "is_error": true, "cache_control": {"type": "ephemeral"}}]},
        ])
    );
    assert_eq!(body["system"][0]["cache_control"], json!({"type": "ephemeral"}));
    assert_eq!(
        body["tools"],
        json!([{"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}])
    );
}

#[test]
fn a_thought_never_ends_a_message() {
    let thought = r#"{"type":"thinking","thinking":"t","signature":"s"}"#;
    let answer = step_item(vec![opaque_block(thought), StepBlock::Text("x".into()), opaque_block(thought)]);
    let body = request_json(&sample_request(
        "claude-opus-4-6",
        vec![question_item("Q"), answer, question_item("R")],
    ));
    assert_eq!(body["messages"][1]["content"].as_array().unwrap().len(), 2);
}

#[test]
fn effort_follows_model_generation() {
    let of = |model: &str, effort: &str| {
        let mut request = sample_request(model, vec![question_item("Q")]);
        request.settings[0].1 = effort.into();
        let body = request_json(&request);
        (body["thinking"].clone(), body["output_config"].clone())
    };
    let adaptive = json!({"type": "adaptive", "display": "summarized"});
    assert_eq!(of("claude-opus-4-6", "HIGH"), (adaptive.clone(), json!({"effort": "high"})));
    assert_eq!(of("claude-sonnet-5", "LOW"), (adaptive, json!({"effort": "low"})));
    for (effort, tokens) in [("LOW", 1024), ("MEDIUM", 2048), ("HIGH", 4096)] {
        let budget = json!({"type": "enabled", "budget_tokens": tokens});
        assert_eq!(of("claude-sonnet-4-5-20250929", effort), (budget, Value::Null));
    }
    assert_eq!(of("claude-sonnet-4-20250514", "HIGH").0["type"], "enabled");
    assert_eq!(of("claude-3-5-haiku-20241022", "HIGH"), (Value::Null, Value::Null));
    let mut plain = sample_request("claude-opus-4-6", vec![question_item("Q")]);
    plain.settings.clear();
    assert!(request_json(&plain).get("thinking").is_none());
}

#[test]
fn thinking_budget_needs_room() {
    let model = "claude-sonnet-4-5";
    let mut small = sample_request(model, vec![question_item("Q")]);
    small.output_max_tokens = 1024;
    assert!(request_json(&small).get("thinking").is_none());
    let foreign = sample_request(
        model,
        vec![question_item("Q"), step_item(vec![call_block("a", "{}")]), result_item("a", StepOutcome::Done)],
    );
    assert!(request_json(&foreign).get("thinking").is_none());
    let thought = opaque_block(r#"{"type":"thinking","thinking":"t","signature":"s"}"#);
    let own = sample_request(
        model,
        vec![
            question_item("Q"),
            step_item(vec![thought, call_block("a", "{}")]),
            result_item("a", StepOutcome::Done),
        ],
    );
    assert_eq!(request_json(&own)["thinking"]["type"], "enabled");
}

#[test]
fn called_tools_described_when_none_offered() {
    let mut last = sample_request(
        "claude-opus-4-6",
        vec![question_item("Q"), step_item(vec![call_block("a", "{}")]), result_item("a", StepOutcome::Done)],
    );
    last.tools.clear();
    let body = request_json(&last);
    assert_eq!(body["tools"][0]["name"], "read");
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
    last.transcript.truncate(1);
    assert!(request_json(&last).get("tools").is_none() && request_json(&last).get("tool_choice").is_none());
}

#[test]
fn fallback_dialect_omits_rejected_parameter() {
    let new = AnthropicDialect::from_model("claude-opus-4-6");
    let plain =
        new.fallback_dialect("400: thinking.adaptive.display: extra inputs are not permitted").unwrap();
    assert!(!plain.display && plain.thinking == AnthropicThinking::Adaptive);
    let budget = plain.fallback_dialect("400: adaptive thinking is not supported on this model").unwrap();
    assert_eq!(budget.thinking, AnthropicThinking::Budget);
    assert_eq!(
        budget.fallback_dialect("400: this model does not support thinking").unwrap().thinking,
        AnthropicThinking::Off
    );
    assert!(!new.fallback_dialect("400: this model does not support the effort parameter").unwrap().effort);
    assert!(
        !new.fallback_dialect("400: system.0.cache_control: extra inputs are not permitted").unwrap().caching
    );
    assert_eq!(
        new.fallback_dialect("400: messages.1.content.0: invalid `signature` in `thinking` block"),
        None
    );
    assert_eq!(new.fallback_dialect("400: the prompt is odd"), None);
}
