use serde_json::json;

use super::*;

fn fold_events(events: &[Value]) -> Result<Vec<StepEvent>, StepError> {
    let mut fold = AnthropicFold::default();
    let mut ready = VecDeque::new();
    for event in events {
        let frame = SseFrame { event: event["type"].as_str().unwrap_or("").into(), data: event.to_string() };
        if fold.fold_frame(&frame, &mut ready)? == StreamProgress::End {
            return Ok(ready.into());
        }
    }
    fold.end_stream(&mut ready)?;
    Ok(ready.into())
}

fn block_start(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn block_delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn block_stop(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn end_events(reason: &str) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]
}

fn stop_reason(events: &[StepEvent]) -> StopReason {
    match events.last() {
        Some(StepEvent::Finished { stop, .. }) => *stop,
        other => panic!("{other:?}"),
    }
}

#[test]
fn stop_reasons_have_their_meaning() {
    for (reason, meaning) in [
        ("end_turn", StopReason::Done),
        ("stop_sequence", StopReason::Done),
        ("pause_turn", StopReason::OutputFull),
        ("tool_use", StopReason::Done),
        ("max_tokens", StopReason::OutputFull),
        ("model_context_window_exceeded", StopReason::OutputFull),
        ("refusal", StopReason::Filtered),
        ("unheard_of", StopReason::Done),
    ] {
        assert_eq!(stop_reason(&fold_events(&end_events(reason)).unwrap()), meaning, "{reason}");
    }
}

#[test]
fn signed_thinking_returned_whole() {
    let thought = |signed: bool| {
        let mut events = vec![
            block_start(0, json!({"type": "thinking", "thinking": "", "signature": "", "new_field": 1})),
            block_delta(0, json!({"type": "thinking_delta", "thinking": "I "})),
            block_delta(0, json!({"type": "thinking_delta", "thinking": "think."})),
        ];
        if signed {
            events.push(block_delta(0, json!({"type": "signature_delta", "signature": "c2ln"})));
        }
        events.extend([block_stop(0)].into_iter().chain(end_events("end_turn")));
        fold_events(&events).unwrap()
    };
    let events = thought(true);
    assert_eq!(events[..2], ["I ", "think."].map(|text| StepEvent::Reasoning(text.into())));
    let StepEvent::Opaque { format, json } = &events[2] else { panic!("{events:?}") };
    let whole = json!({"type": "thinking", "thinking": "I think.", "signature": "c2ln", "new_field": 1});
    assert_eq!((format.as_str(), serde_json::from_str::<Value>(json).unwrap()), ("anthropic", whole));
    assert_eq!(thought(false).len(), 3);
}

#[test]
fn usage_counts_what_the_cache_held() {
    let first = json!({"type": "message_start", "message": {"usage": {"input_tokens": 5,
        "cache_creation_input_tokens": 100, "cache_read_input_tokens": 1000, "output_tokens": 1}}});
    let last = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 40, "output_tokens_details": {"thinking_tokens": 30}}});
    let events = fold_events(&[first, last, json!({"type": "message_stop"})]).unwrap();
    let usage = TokenUsage {
        input_tokens: 1105,
        cached_tokens: 1000,
        output_tokens: 40,
        reasoning_tokens: 30,
        estimated: false,
    };
    assert_eq!(events, [StepEvent::Finished { stop: StopReason::Done, usage: Some(usage) }]);
}

#[test]
fn calls_come_whole_and_in_order() {
    let tool = |index: u64, id: &str, pieces: &[&str]| {
        let mut events =
            vec![block_start(index, json!({"type": "tool_use", "id": id, "name": "t", "input": {}}))];
        let piece =
            |piece: &&str| block_delta(index, json!({"type": "input_json_delta", "partial_json": piece}));
        events.extend(pieces.iter().map(piece));
        events.push(block_stop(index));
        events
    };
    let both = [tool(0, "a", &["", "{\"x\":", "1}"]), tool(1, "b", &[])].concat();
    let events = fold_events(&[both.clone(), end_events("tool_use").into()].concat()).unwrap();
    let arguments: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            StepEvent::Call(call) => Some((call.id.as_str(), call.arguments.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(arguments, [("a", "{\"x\":1}"), ("b", "{}")]);
    assert_eq!(stop_reason(&events), StopReason::Calls);
    let cut = fold_events(&[tool(0, "a", &["{\"x"]), end_events("max_tokens").into()].concat()).unwrap();
    assert_eq!((cut.len(), stop_reason(&cut)), (1, StopReason::OutputFull));
}

#[test]
fn message_without_stop_fails() {
    let block = [block_start(0, json!({"type": "text", "text": "x"})), block_stop(0)];
    assert!(matches!(fold_events(&block), Err(StepError::Unavailable { .. })));
    let [delta, _] = end_events("end_turn");
    let events = fold_events(&[block[0].clone(), delta]).unwrap();
    assert_eq!(stop_reason(&events), StopReason::Done, "only the end marker is missing");
}

#[test]
fn error_ping_unknown_events_distinguished() {
    let error = |kind: &str| json!({"type": "error", "error": {"type": kind, "message": "m"}});
    for kind in ["overloaded_error", "api_error", "rate_limit_error", "timeout_error"] {
        assert!(matches!(fold_events(&[error(kind)]), Err(StepError::Unavailable { .. })), "{kind}");
    }
    for kind in [
        "invalid_request_error",
        "authentication_error",
        "permission_error",
        "not_found_error",
        "billing_error",
    ] {
        assert!(matches!(fold_events(&[error(kind)]), Err(StepError::Rejected { .. })), "{kind}");
    }
    assert_eq!(fold_events(&[error("request_too_large")]), Err(StepError::TooLong));
    let events = [
        json!({"type": "ping"}),
        json!({"type": "unheard_of", "delta": {"type": "x"}}),
        block_start(0, json!({"type": "server_tool_use", "id": "s"})),
        block_delta(0, json!({"type": "citations_delta", "citation": {"type": "page_location"}})),
        block_stop(0),
    ];
    assert_eq!(fold_events(&[events.to_vec(), end_events("end_turn").into()].concat()).unwrap().len(), 1);
}

#[test]
fn blocks_missing_start_or_stop_kept() {
    let without_start = [block_delta(0, json!({"type": "text_delta", "text": "Whole."})), block_stop(0)];
    let events = fold_events(&[&without_start[..], &end_events("end_turn")].concat()).unwrap();
    assert_eq!(events[0], StepEvent::Text("Whole.".into()));
    let tool = |index: u64, id: &str| {
        [
            block_start(index, json!({"type": "tool_use", "id": id, "name": "t", "input": {}})),
            block_delta(index, json!({"type": "input_json_delta", "partial_json": "{\"x\":1}"})),
        ]
    };
    for second in [0, 1] {
        let calls = [tool(0, "a"), tool(second, "b"), end_events("tool_use")].concat();
        let events = fold_events(&calls).unwrap();
        let ids: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                StepEvent::Call(call) => Some((call.id.as_str(), call.arguments.as_str())),
                _ => None,
            })
            .collect();
        assert_eq!(ids, [("a", "{\"x\":1}"), ("b", "{\"x\":1}")], "{second}");
    }
}

#[test]
fn whole_message_adds_rest_of_pieces() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let said = |text: &str| block_delta(0, json!({"type": "text_delta", "text": text}));
    let closed = |text: Value| json!({"type": "content_block_stop", "index": 0, "content_block": text});
    let message = |text: Value| json!({"type": "message", "content": [text], "stop_reason": "end_turn"});
    let stopped = |text: Value| json!({"type": "message_stop", "message": {"content": [text]}});
    let begun = || block_start(0, text(""));
    let end_stream = || json!({"type": "message_stop"});
    for events in [
        vec![begun(), said("Who"), closed(text("Whole.")), end_stream()],
        vec![begun(), said("Whole."), closed(text("Whole.")), stopped(text("Whole."))],
        vec![begun(), said("Who"), block_stop(0), stopped(text("Whole."))],
        vec![begun(), said("Who"), stopped(text("Whole."))],
        vec![begun(), said("Who"), block_stop(0), message(text("Whole."))],
        vec![message(text("Whole."))],
        // What contradicts the text that was shown is left out.
        vec![begun(), said("Whole."), closed(text("Other.")), stopped(text("Other."))],
    ] {
        let folded = fold_events(&events).unwrap();
        let shown: String = folded
            .iter()
            .filter_map(|event| match event {
                StepEvent::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(shown, "Whole.", "{events:?}");
    }
}
