use std::sync::Arc;

use domain::step::{Block as StepBlock, Call, CallResult, Item, Purpose, Step, StepOutcome, ToolSpec};
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
            schema: r#"{"type":"object"}"#.into(),
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

fn step(blocks: Vec<StepBlock>) -> Item {
    Item::Step(Arc::new(Step { blocks, ..Step::default() }))
}

fn call(id: &str, arguments: &str) -> StepBlock {
    StepBlock::Call(Call {
        id: id.into(),
        tool: "read".into(),
        arguments: arguments.into(),
        purpose: Purpose::Tool,
    })
}

fn opaque(json: &str) -> StepBlock {
    StepBlock::Opaque { format: "anthropic".into(), json: json.into() }
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
fn thoughts_go_back_verbatim_before_their_calls_and_all_results_in_one_turn() {
    let thought = r#"{"signature":"c2ln","thinking":"t","type":"thinking"}"#;
    let hidden = r#"{"type":"redacted_thinking","data":"ZGF0YQ=="}"#;
    let answer = step(vec![
        StepBlock::Reasoning("t".into()),
        opaque(thought),
        opaque(hidden),
        StepBlock::Text("I look.".into()),
        call("a", r#"{"path":"x"}"#),
        call("functions.read:1", "{\"pa"),
    ]);
    let results = [result("functions.read:1", StepOutcome::Failed), result("a", StepOutcome::Done)];
    let body = sent(&request("claude-opus-4-6", [vec![ask("Q"), answer], results.into()].concat()));
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
    let answer = step(vec![opaque(thought), StepBlock::Text("x".into()), opaque(thought)]);
    let body = sent(&request("claude-opus-4-6", vec![ask("Q"), answer, ask("R")]));
    assert_eq!(body["messages"][1]["content"].as_array().unwrap().len(), 2);
}

#[test]
fn effort_is_said_as_each_generation_takes_it() {
    let of = |model: &str, effort: &str| {
        let mut request = request(model, vec![ask("Q")]);
        request.settings[0].1 = effort.into();
        let body = sent(&request);
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
    let mut plain = request("claude-opus-4-6", vec![ask("Q")]);
    plain.settings.clear();
    assert!(sent(&plain).get("thinking").is_none());
}

#[test]
fn a_budget_needs_room_and_the_thoughts_of_calls_that_wait() {
    let model = "claude-sonnet-4-5";
    let mut small = request(model, vec![ask("Q")]);
    small.output_max_tokens = 1024;
    assert!(sent(&small).get("thinking").is_none());
    let foreign = request(model, vec![ask("Q"), step(vec![call("a", "{}")]), result("a", StepOutcome::Done)]);
    assert!(sent(&foreign).get("thinking").is_none());
    let thought = opaque(r#"{"type":"thinking","thinking":"t","signature":"s"}"#);
    let own =
        request(model, vec![ask("Q"), step(vec![thought, call("a", "{}")]), result("a", StepOutcome::Done)]);
    assert_eq!(sent(&own)["thinking"]["type"], "enabled");
}

#[test]
fn tools_that_were_called_are_described_when_none_is_on_offer() {
    let mut last = request(
        "claude-opus-4-6",
        vec![ask("Q"), step(vec![call("a", "{}")]), result("a", StepOutcome::Done)],
    );
    last.tools.clear();
    let body = sent(&last);
    assert_eq!(body["tools"][0]["name"], "read");
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
    last.transcript.truncate(1);
    assert!(sent(&last).get("tools").is_none() && sent(&last).get("tool_choice").is_none());
}

#[test]
fn what_a_server_turns_down_is_said_otherwise() {
    let new = Dialect::of("claude-opus-4-6");
    let plain = new.fallback("400: thinking.adaptive.display: extra inputs are not permitted").unwrap();
    assert!(!plain.display && plain.thinking == Thinking::Adaptive);
    let budget = plain.fallback("400: adaptive thinking is not supported on this model").unwrap();
    assert_eq!(budget.thinking, Thinking::Budget);
    assert_eq!(budget.fallback("400: this model does not support thinking").unwrap().thinking, Thinking::Off);
    assert!(!new.fallback("400: this model does not support the effort parameter").unwrap().effort);
    assert!(!new.fallback("400: system.0.cache_control: extra inputs are not permitted").unwrap().caching);
    assert_eq!(new.fallback("400: messages.1.content.0: invalid `signature` in `thinking` block"), None);
    assert_eq!(new.fallback("400: the prompt is odd"), None);
}
