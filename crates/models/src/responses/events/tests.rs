use serde_json::json;

use super::*;

fn fold_events(events: &[Value]) -> Result<Vec<StepEvent>, StepError> {
    let mut fold = ResponsesFold::default();
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

fn done_item(item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": 0, "item": item})
}

fn completed_response() -> Value {
    json!({"type": "response.completed", "response": {"status": "completed", "usage": {"input_tokens": 7,
        "input_tokens_details": {"cached_tokens": 5}, "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 11}}})
}

fn stop_reason(events: &[StepEvent]) -> StopReason {
    match events.last() {
        Some(StepEvent::Finished { stop, .. }) => *stop,
        other => panic!("{other:?}"),
    }
}

#[test]
fn completed_response_gives_reason_and_usage() {
    let events = fold_events(&[completed_response()]).unwrap();
    let usage = TokenUsage {
        input_tokens: 7,
        cached_tokens: 5,
        output_tokens: 4,
        reasoning_tokens: 3,
        estimated: false,
    };
    assert_eq!(events, [StepEvent::Finished { stop: StopReason::Done, usage: Some(usage) }]);
    let incomplete = |reason: &str| {
        let response = json!({"incomplete_details": {"reason": reason}, "usage": null});
        fold_events(&[json!({"type": "response.incomplete", "response": response})]).unwrap()
    };
    assert_eq!(stop_reason(&incomplete("max_output_tokens")), StopReason::OutputFull);
    assert_eq!(stop_reason(&incomplete("content_filter")), StopReason::Filtered);
    assert!(matches!(fold_events(&[]), Err(StepError::Unavailable { .. })));
}

#[test]
fn failures_are_told_apart() {
    let failed = |code: &str| {
        fold_events(&[
            json!({"type": "response.failed", "response": {"error": {"code": code, "message": "m"}}}),
        ])
    };
    for code in ["server_error", "rate_limit_exceeded", "vector_store_timeout"] {
        assert!(matches!(failed(code), Err(StepError::Unavailable { .. })), "{code}");
    }
    for code in ["invalid_prompt", "insufficient_quota", "data_residency_mismatch"] {
        assert!(matches!(failed(code), Err(StepError::Rejected { .. })), "{code}");
    }
    assert_eq!(failed("context_length_exceeded"), Err(StepError::TooLong));
    let event = json!({"type": "error", "code": "server_error", "message": "m", "param": null});
    assert!(matches!(fold_events(&[event]), Err(StepError::Unavailable { .. })));
}

#[test]
fn refusals_are_text() {
    let refusal = json!({"type": "response.refusal.delta", "output_index": 0, "delta": "No."});
    let events = fold_events(&[refusal, completed_response()]).unwrap();
    assert_eq!((&events[0], stop_reason(&events)), (&StepEvent::Text("No.".into()), StopReason::Refused));
}

#[test]
fn items_that_go_back_are_whole() {
    let reasoning = r#"{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"gAAA"}"#;
    let item = |json: &str| done_item(serde_json::from_str(json).unwrap());
    let events = fold_events(&[item(reasoning), completed_response()]).unwrap();
    let StepEvent::Opaque { format, json } = &events[0] else { panic!("{events:?}") };
    assert_eq!(format, "responses");
    assert_eq!(
        serde_json::from_str::<Value>(json).unwrap(),
        serde_json::from_str::<Value>(reasoning).unwrap()
    );
    let open = json!({"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": null});
    assert_eq!(fold_events(&[done_item(open), completed_response()]).unwrap().len(), 1);
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "phase": "commentary",
        "content": [{"type": "output_text", "text": "x", "annotations": []}]});
    let events = fold_events(&[done_item(message), completed_response()]).unwrap();
    assert_eq!(events[0], StepEvent::Text("x".into()), "what was not streamed is taken from the whole");
    let StepEvent::Opaque { json, .. } = &events[1] else { panic!("{events:?}") };
    assert!(json.contains("commentary") && !json.contains("\"x\""), "{json}");
}

#[test]
fn summary_parts_separated_annotations_skipped() {
    let part = |index: u64| json!({"type": "response.reasoning_summary_part.added", "summary_index": index});
    let text = |text: &str| json!({"type": "response.reasoning_summary_text.delta", "delta": text});
    let annotation = json!({"type": "response.output_text.annotation.added", "annotation_index": 0,
        "annotation": {"type": "url_citation", "url": "https://x.org", "title": "X", "start_index": 0, "end_index": 1}});
    let events =
        fold_events(&[part(0), text("a"), part(1), text("b"), annotation, completed_response()]).unwrap();
    assert_eq!(events[..3], ["a", "\n\n", "b"].map(|text| StepEvent::Reasoning(text.into())));
    assert_eq!(events.len(), 4);
}

const ONE: &str = r#"{"path":"/"}"#;
const TWO: &str = r#"{"path":"/uploads"}"#;

/// Builds an event from its name, its position, its item's identifier and other fields. `null` leaves a field out.
fn item_event(name: &str, position: Value, item_id: &str, mut fields: Value) -> Value {
    fields["type"] = Value::from(format!("response.{name}"));
    for (field, value) in [("output_index", position), ("item_id", Value::from(item_id))] {
        if !value.is_null() && value != "" {
            fields[field] = value;
        }
    }
    fields
}

/// Builds the item of a call of `list`, named `fc` and `c` with this suffix, or without identifiers.
fn call_item(suffix: &str, arguments: &str) -> Value {
    let mut item = json!({"type": "function_call", "name": "list", "arguments": arguments});
    if !suffix.is_empty() {
        item["id"] = Value::from(format!("fc{suffix}"));
        item["call_id"] = Value::from(format!("c{suffix}"));
    }
    item
}

fn added_item(position: Value, suffix: &str) -> Value {
    item_event("output_item.added", position, "", json!({"item": call_item(suffix, "")}))
}

fn finished_item(position: Value, suffix: &str, arguments: &str) -> Value {
    item_event("output_item.done", position, "", json!({"item": call_item(suffix, arguments)}))
}

fn arguments_piece(position: Value, item_id: &str, piece: &str) -> Value {
    item_event("function_call_arguments.delta", position, item_id, json!({"delta": piece}))
}

fn whole_arguments(position: Value, item_id: &str, arguments: &str) -> Value {
    item_event("function_call_arguments.done", position, item_id, json!({"arguments": arguments}))
}

fn completed_with(output: Value) -> Value {
    json!({"type": "response.completed", "response": {"status": "completed", "output": output}})
}

/// Returns the arguments of the calls that the events run.
fn run_with(events: &[Value]) -> Vec<String> {
    let folded = fold_events(events).unwrap();
    let arguments = folded.into_iter().filter_map(|event| match event {
        StepEvent::Call(call) => Some(call.arguments),
        _ => None,
    });
    arguments.collect()
}

#[test]
fn call_waits_for_late_arguments() {
    for stub in ["", "{}"] {
        for events in [
            [finished_item(json!(0), "0", stub), completed_with(json!([call_item("0", TWO)]))].to_vec(),
            [finished_item(json!(0), "0", stub), whole_arguments(json!(0), "fc0", TWO), completed_response()]
                .to_vec(),
            [finished_item(json!(0), "0", stub), whole_arguments(Value::Null, "", TWO), completed_response()]
                .to_vec(),
            [finished_item(json!(0), "0", stub), arguments_piece(json!(0), "fc0", TWO), completed_response()]
                .to_vec(),
            [
                added_item(json!(0), "0"),
                arguments_piece(json!(0), "fc0", TWO),
                whole_arguments(json!(0), "fc0", "{}"),
            ]
            .into_iter()
            .chain([finished_item(json!(0), "0", stub), completed_response()])
            .collect(),
            // The whole response leaves out the reasoning before the call, and its identifiers.
            [finished_item(json!(1), "0", stub), completed_with(json!([call_item("", TWO)]))].to_vec(),
            [finished_item(json!(1), "", stub), completed_with(json!([call_item("0", TWO)]))].to_vec(),
        ] {
            assert_eq!(run_with(&events), [TWO], "{events:?}");
        }
        let two = [finished_item(json!(0), "0", stub), finished_item(json!(1), "1", TWO)];
        let listed = completed_with(json!([call_item("0", ONE), call_item("1", TWO)]));
        assert_eq!(run_with(&[&two[..], &[listed]].concat()), [ONE, TWO], "in their order");
        assert_eq!(run_with(&[&two[..], &[completed_response()]].concat()), ["{}", TWO], "none came");
    }
    let mut object = call_item("0", "");
    object["arguments"] = json!({"path": "/uploads"});
    let events =
        [item_event("output_item.done", json!(0), "", json!({"item": object})), completed_response()];
    assert_eq!(run_with(&events), [TWO], "an object in place of a text");
}

#[test]
fn call_without_arguments_runs_unless_truncated() {
    let item = [added_item(json!(0), "0"), finished_item(json!(0), "0", "{}")];
    assert_eq!(run_with(&[&item[..], &[completed_response()]].concat()), ["{}"]);
    let said = [
        added_item(json!(0), "0"),
        whole_arguments(json!(0), "fc0", "{}"),
        finished_item(json!(0), "0", "{}"),
    ];
    let (mut fold, mut ready) = (ResponsesFold::default(), VecDeque::new());
    for event in said {
        fold.fold_frame(&SseFrame { event: String::new(), data: event.to_string() }, &mut ready).unwrap();
    }
    assert!(matches!(ready.front(), Some(StepEvent::Call(_))), "it need not wait: {ready:?}");
    let cut = json!({"type": "response.incomplete", "response": {"status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"}}});
    assert_eq!(run_with(&[added_item(json!(0), "0"), cut]), [""; 0]);
}

#[test]
fn late_call_keeps_its_fields() {
    let events = [finished_item(json!(0), "0", ""), completed_with(json!([call_item("0", TWO)]))];
    let events = fold_events(&events).unwrap();
    let StepEvent::Opaque { json, .. } = &events[1] else { panic!("{events:?}") };
    assert!(json.contains("fc0") && !json.contains("uploads"), "{json}");
}

#[test]
fn arguments_follow_their_named_call() {
    let null = || Value::Null;
    let done = |position: Value| {
        [finished_item(position.clone(), "0", ""), finished_item(position, "1", ""), completed_response()]
    };
    let begun = |position: Value| [added_item(position.clone(), "0"), added_item(position, "1")];
    // Another position than that of its item.
    let other = [
        added_item(json!(1), "0"),
        arguments_piece(json!(0), "fc0", TWO),
        finished_item(json!(1), "0", ""),
        completed_response(),
    ];
    assert_eq!(run_with(&other), [TWO]);
    for position in [json!(0), null()] {
        let pieces =
            [arguments_piece(position.clone(), "fc0", ONE), arguments_piece(position.clone(), "fc1", TWO)];
        let wholes =
            [whole_arguments(position.clone(), "fc1", TWO), whole_arguments(position.clone(), "fc0", ONE)];
        for arguments in [pieces, wholes] {
            let both = [&begun(position.clone())[..], &arguments, &done(position.clone())].concat();
            assert_eq!(run_with(&both), [ONE, TWO], "{both:?}");
        }
        // One after the other, with identifiers in the items alone, and with none.
        for suffixes in [["0", "1"], ["", ""]] {
            let one_by_one: Vec<Value> = suffixes
                .into_iter()
                .zip([ONE, TWO])
                .flat_map(|(suffix, arguments)| {
                    let half = arguments.len() / 2;
                    [
                        added_item(position.clone(), suffix),
                        arguments_piece(position.clone(), "", &arguments[..half]),
                        arguments_piece(position.clone(), "", &arguments[half..]),
                        finished_item(position.clone(), suffix, ""),
                    ]
                })
                .chain([completed_response()])
                .collect();
            assert_eq!(run_with(&one_by_one), [ONE, TWO], "{one_by_one:?}");
        }
        let items = [
            finished_item(position.clone(), "", ONE),
            finished_item(position.clone(), "", TWO),
            completed_response(),
        ];
        assert_eq!(run_with(&items), [ONE, TWO], "{items:?}");
    }
    // Identifiers that change from event to event, and pieces whose call did not begin.
    let changing = [
        added_item(json!(0), "0"),
        arguments_piece(json!(0), "a", ONE),
        added_item(json!(1), "1"),
        arguments_piece(json!(1), "b", TWO),
        finished_item(json!(0), "0", ""),
        finished_item(json!(1), "1", ""),
        completed_response(),
    ];
    assert_eq!(run_with(&changing), [ONE, TWO]);
    let unbegun =
        [arguments_piece(json!(0), "fc0", TWO), finished_item(json!(0), "0", ""), completed_response()];
    assert_eq!(run_with(&unbegun), [TWO]);
}

#[test]
fn text_only_in_response_is_shown() {
    let message = |texts: &[&str]| {
        let parts: Vec<_> = texts.iter().map(|text| json!({"type": "output_text", "text": text})).collect();
        json!({"id": "m", "type": "message", "role": "assistant", "content": parts})
    };
    let said = |position: u64, text: &str| {
        item_event("output_text.delta", json!(position), "m", json!({"content_index": 0, "delta": text}))
    };
    let unnamed = |text: &str| json!({"type": "message", "content": [{"type": "output_text", "text": text}]});
    let ended =
        |text: &str| item_event("output_text.done", json!(0), "m", json!({"content_index": 0, "text": text}));
    let whole = || completed_with(json!([message(&["Whole."])]));
    for events in [
        vec![done_item(message(&[])), whole()],
        vec![done_item(message(&[""])), whole()],
        vec![said(0, "Who"), whole()],
        vec![said(3, "Who"), whole()],
        vec![said(0, "Who"), done_item(message(&[])), whole()],
        vec![said(0, "Who"), done_item(message(&["Whole."])), whole()],
        vec![said(0, "Whole."), done_item(message(&[])), completed_response()],
        vec![said(0, "Who"), done_item(message(&["Who", "le."])), completed_response()],
        vec![done_item(message(&["Whole."])), whole()],
        vec![done_item(message(&["Who"])), whole()],
        vec![said(0, "Who"), done_item(message(&["Who"])), whole()],
        vec![done_item(unnamed("Who")), whole()],
        vec![done_item(message(&["Who"])), completed_with(json!([unnamed("Whole.")]))],
        vec![said(0, "Who"), ended("Whole."), completed_response()],
        vec![said(0, "Who"), ended("Whole."), done_item(message(&["Whole."])), whole()],
        vec![said(0, "Whole."), ended("Other."), completed_response()],
        // What contradicts the text that was shown is left out.
        vec![said(0, "Whole."), completed_with(json!([message(&["Other."])]))],
    ] {
        let folded = fold_events(&events).unwrap();
        let text: String = folded
            .iter()
            .filter_map(|event| match event {
                StepEvent::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(text, "Whole.", "{events:?}");
    }
    let refusal = json!({"type": "message", "content": [{"type": "refusal", "refusal": "No."}]});
    assert_eq!(stop_reason(&fold_events(&[completed_with(json!([refusal]))]).unwrap()), StopReason::Refused);
}
