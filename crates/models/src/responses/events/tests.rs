use serde_json::json;

use super::*;

fn fold(events: &[Value]) -> Result<Vec<StepEvent>, StepError> {
    let mut fold = Fold::default();
    let mut ready = VecDeque::new();
    for event in events {
        let frame = Frame { event: event["type"].as_str().unwrap_or("").into(), data: event.to_string() };
        if fold.frame(&frame, &mut ready)? == Next::End {
            return Ok(ready.into());
        }
    }
    fold.end(&mut ready)?;
    Ok(ready.into())
}

fn done(item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": 0, "item": item})
}

fn completed() -> Value {
    json!({"type": "response.completed", "response": {"status": "completed", "usage": {"input_tokens": 7,
        "input_tokens_details": {"cached_tokens": 5}, "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 11}}})
}

fn stop(events: &[StepEvent]) -> StopReason {
    match events.last() {
        Some(StepEvent::Finished { stop, .. }) => *stop,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_end_tells_why_and_what_was_used() {
    let events = fold(&[completed()]).unwrap();
    let usage =
        Usage { input_tokens: 7, cached_tokens: 5, output_tokens: 4, reasoning_tokens: 3, estimated: false };
    assert_eq!(events, [StepEvent::Finished { stop: StopReason::Done, usage: Some(usage) }]);
    let incomplete = |reason: &str| {
        let response = json!({"incomplete_details": {"reason": reason}, "usage": null});
        fold(&[json!({"type": "response.incomplete", "response": response})]).unwrap()
    };
    assert_eq!(stop(&incomplete("max_output_tokens")), StopReason::OutputFull);
    assert_eq!(stop(&incomplete("content_filter")), StopReason::Filtered);
    assert!(matches!(fold(&[]), Err(StepError::Unavailable { .. })));
}

#[test]
fn failures_are_told_apart() {
    let failed = |code: &str| {
        fold(&[json!({"type": "response.failed", "response": {"error": {"code": code, "message": "m"}}})])
    };
    for code in ["server_error", "rate_limit_exceeded", "vector_store_timeout"] {
        assert!(matches!(failed(code), Err(StepError::Unavailable { .. })), "{code}");
    }
    for code in ["invalid_prompt", "insufficient_quota", "data_residency_mismatch"] {
        assert!(matches!(failed(code), Err(StepError::Rejected { .. })), "{code}");
    }
    assert_eq!(failed("context_length_exceeded"), Err(StepError::TooLong));
    let event = json!({"type": "error", "code": "server_error", "message": "m", "param": null});
    assert!(matches!(fold(&[event]), Err(StepError::Unavailable { .. })));
}

#[test]
fn refusals_are_text() {
    let refusal = json!({"type": "response.refusal.delta", "output_index": 0, "delta": "No."});
    let events = fold(&[refusal, completed()]).unwrap();
    assert_eq!((&events[0], stop(&events)), (&StepEvent::Text("No.".into()), StopReason::Refused));
}

#[test]
fn items_that_go_back_are_whole() {
    let reasoning = r#"{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"gAAA"}"#;
    let item = |json: &str| done(serde_json::from_str(json).unwrap());
    let events = fold(&[item(reasoning), completed()]).unwrap();
    let StepEvent::Opaque { format, json } = &events[0] else { panic!("{events:?}") };
    assert_eq!(format, "responses");
    assert_eq!(
        serde_json::from_str::<Value>(json).unwrap(),
        serde_json::from_str::<Value>(reasoning).unwrap()
    );
    let open = json!({"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": null});
    assert_eq!(fold(&[done(open), completed()]).unwrap().len(), 1);
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "phase": "commentary",
        "content": [{"type": "output_text", "text": "x", "annotations": []}]});
    let events = fold(&[done(message), completed()]).unwrap();
    assert_eq!(events[0], StepEvent::Text("x".into()), "what was not streamed is taken from the whole");
    let StepEvent::Opaque { json, .. } = &events[1] else { panic!("{events:?}") };
    assert!(json.contains("commentary") && !json.contains("\"x\""), "{json}");
}

#[test]
fn parts_of_a_summary_stand_apart_and_annotations_are_passed_over() {
    let part = |index: u64| json!({"type": "response.reasoning_summary_part.added", "summary_index": index});
    let text = |text: &str| json!({"type": "response.reasoning_summary_text.delta", "delta": text});
    let annotation = json!({"type": "response.output_text.annotation.added", "annotation_index": 0,
        "annotation": {"type": "url_citation", "url": "https://x.org", "title": "X", "start_index": 0, "end_index": 1}});
    let events = fold(&[part(0), text("a"), part(1), text("b"), annotation, completed()]).unwrap();
    assert_eq!(events[..3], ["a", "\n\n", "b"].map(|text| StepEvent::Reasoning(text.into())));
    assert_eq!(events.len(), 4);
}

const ONE: &str = r#"{"path":"/"}"#;
const TWO: &str = r#"{"path":"/uploads"}"#;

/// Builds an event from its name, its position, its item's identifier and other fields. `null` leaves a field out.
fn event(name: &str, position: Value, item_id: &str, mut fields: Value) -> Value {
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

fn added(position: Value, suffix: &str) -> Value {
    event("output_item.added", position, "", json!({"item": call_item(suffix, "")}))
}

fn finished(position: Value, suffix: &str, arguments: &str) -> Value {
    event("output_item.done", position, "", json!({"item": call_item(suffix, arguments)}))
}

fn piece(position: Value, item_id: &str, piece: &str) -> Value {
    event("function_call_arguments.delta", position, item_id, json!({"delta": piece}))
}

fn whole(position: Value, item_id: &str, arguments: &str) -> Value {
    event("function_call_arguments.done", position, item_id, json!({"arguments": arguments}))
}

fn completed_with(output: Value) -> Value {
    json!({"type": "response.completed", "response": {"status": "completed", "output": output}})
}

/// Returns the arguments of the calls that the events run.
fn run_with(events: &[Value]) -> Vec<String> {
    let folded = fold(events).unwrap();
    let arguments = folded.into_iter().filter_map(|event| match event {
        StepEvent::Call(call) => Some(call.arguments),
        _ => None,
    });
    arguments.collect()
}

#[test]
fn call_waits_for_arguments_that_come_after_its_item() {
    for stub in ["", "{}"] {
        for events in [
            [finished(json!(0), "0", stub), completed_with(json!([call_item("0", TWO)]))].to_vec(),
            [finished(json!(0), "0", stub), whole(json!(0), "fc0", TWO), completed()].to_vec(),
            [finished(json!(0), "0", stub), whole(Value::Null, "", TWO), completed()].to_vec(),
            [finished(json!(0), "0", stub), piece(json!(0), "fc0", TWO), completed()].to_vec(),
            [added(json!(0), "0"), piece(json!(0), "fc0", TWO), whole(json!(0), "fc0", "{}")]
                .into_iter()
                .chain([finished(json!(0), "0", stub), completed()])
                .collect(),
            // The whole response leaves out the reasoning before the call, and its identifiers.
            [finished(json!(1), "0", stub), completed_with(json!([call_item("", TWO)]))].to_vec(),
            [finished(json!(1), "", stub), completed_with(json!([call_item("0", TWO)]))].to_vec(),
        ] {
            assert_eq!(run_with(&events), [TWO], "{events:?}");
        }
        let two = [finished(json!(0), "0", stub), finished(json!(1), "1", TWO)];
        let listed = completed_with(json!([call_item("0", ONE), call_item("1", TWO)]));
        assert_eq!(run_with(&[&two[..], &[listed]].concat()), [ONE, TWO], "in their order");
        assert_eq!(run_with(&[&two[..], &[completed()]].concat()), ["{}", TWO], "none came");
    }
    let mut object = call_item("0", "");
    object["arguments"] = json!({"path": "/uploads"});
    let events = [event("output_item.done", json!(0), "", json!({"item": object})), completed()];
    assert_eq!(run_with(&events), [TWO], "an object in place of a text");
}

#[test]
fn call_without_arguments_runs_unless_the_limit_cut_them() {
    let item = [added(json!(0), "0"), finished(json!(0), "0", "{}")];
    assert_eq!(run_with(&[&item[..], &[completed()]].concat()), ["{}"]);
    let said = [added(json!(0), "0"), whole(json!(0), "fc0", "{}"), finished(json!(0), "0", "{}")];
    let (mut fold, mut ready) = (Fold::default(), VecDeque::new());
    for event in said {
        fold.frame(&Frame { event: String::new(), data: event.to_string() }, &mut ready).unwrap();
    }
    assert!(matches!(ready.front(), Some(StepEvent::Call(_))), "it need not wait: {ready:?}");
    let cut = json!({"type": "response.incomplete", "response": {"status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"}}});
    assert_eq!(run_with(&[added(json!(0), "0"), cut]), [""; 0]);
}

#[test]
fn fields_of_a_late_call_follow_it() {
    let events = [finished(json!(0), "0", ""), completed_with(json!([call_item("0", TWO)]))];
    let events = fold(&events).unwrap();
    let StepEvent::Opaque { json, .. } = &events[1] else { panic!("{events:?}") };
    assert!(json.contains("fc0") && !json.contains("uploads"), "{json}");
}

#[test]
fn arguments_belong_to_the_call_that_their_event_names() {
    let null = || Value::Null;
    let done =
        |position: Value| [finished(position.clone(), "0", ""), finished(position, "1", ""), completed()];
    let begun = |position: Value| [added(position.clone(), "0"), added(position, "1")];
    // Another position than that of its item.
    let other = [added(json!(1), "0"), piece(json!(0), "fc0", TWO), finished(json!(1), "0", ""), completed()];
    assert_eq!(run_with(&other), [TWO]);
    for position in [json!(0), null()] {
        let pieces = [piece(position.clone(), "fc0", ONE), piece(position.clone(), "fc1", TWO)];
        let wholes = [whole(position.clone(), "fc1", TWO), whole(position.clone(), "fc0", ONE)];
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
                        added(position.clone(), suffix),
                        piece(position.clone(), "", &arguments[..half]),
                        piece(position.clone(), "", &arguments[half..]),
                        finished(position.clone(), suffix, ""),
                    ]
                })
                .chain([completed()])
                .collect();
            assert_eq!(run_with(&one_by_one), [ONE, TWO], "{one_by_one:?}");
        }
        let items = [finished(position.clone(), "", ONE), finished(position.clone(), "", TWO), completed()];
        assert_eq!(run_with(&items), [ONE, TWO], "{items:?}");
    }
    // Identifiers that change from event to event, and pieces whose call did not begin.
    let changing = [
        added(json!(0), "0"),
        piece(json!(0), "a", ONE),
        added(json!(1), "1"),
        piece(json!(1), "b", TWO),
        finished(json!(0), "0", ""),
        finished(json!(1), "1", ""),
        completed(),
    ];
    assert_eq!(run_with(&changing), [ONE, TWO]);
    let unbegun = [piece(json!(0), "fc0", TWO), finished(json!(0), "0", ""), completed()];
    assert_eq!(run_with(&unbegun), [TWO]);
}

#[test]
fn text_that_only_the_whole_response_contains_is_shown() {
    let message = |texts: &[&str]| {
        let parts: Vec<_> = texts.iter().map(|text| json!({"type": "output_text", "text": text})).collect();
        json!({"id": "m", "type": "message", "role": "assistant", "content": parts})
    };
    let said = |position: u64, text: &str| {
        event("output_text.delta", json!(position), "m", json!({"content_index": 0, "delta": text}))
    };
    let whole = || completed_with(json!([message(&["Whole."])]));
    for events in [
        vec![done(message(&[])), whole()],
        vec![done(message(&[""])), whole()],
        vec![said(0, "Who"), whole()],
        vec![said(3, "Who"), whole()],
        vec![said(0, "Who"), done(message(&[])), whole()],
        vec![said(0, "Who"), done(message(&["Whole."])), whole()],
        vec![said(0, "Whole."), done(message(&[])), completed()],
        vec![said(0, "Who"), done(message(&["Who", "le."])), completed()],
        vec![done(message(&["Whole."])), whole()],
        // What contradicts the text that was shown is left out.
        vec![said(0, "Whole."), completed_with(json!([message(&["Other."])]))],
    ] {
        let folded = fold(&events).unwrap();
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
    assert_eq!(stop(&fold(&[completed_with(json!([refusal]))]).unwrap()), StopReason::Refused);
}
