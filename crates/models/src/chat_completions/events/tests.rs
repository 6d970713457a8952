use serde_json::{Value, json};

use super::*;

fn fold(chunks: &[Value]) -> Result<Vec<StepEvent>, StepError> {
    let mut fold = Fold::default();
    let mut ready = VecDeque::new();
    for chunk in chunks {
        let frame = Frame { event: String::new(), data: chunk.to_string() };
        if fold.frame(&frame, &mut ready)? == Next::End {
            return Ok(ready.into());
        }
    }
    fold.end(&mut ready)?;
    Ok(ready.into())
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn calls(events: &[StepEvent]) -> Vec<(String, String)> {
    events
        .iter()
        .filter_map(|event| match event {
            StepEvent::Call(call) => Some((call.tool.clone(), call.arguments.clone())),
            _ => None,
        })
        .collect()
}

fn stop(events: &[StepEvent]) -> StopReason {
    match events.last() {
        Some(StepEvent::Finished { stop, .. }) => *stop,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_reason_for_stopping_has_its_meaning() {
    for (reason, meaning) in [
        ("stop", StopReason::Done),
        ("length", StopReason::OutputFull),
        ("model_length", StopReason::OutputFull),
        ("content_filter", StopReason::Filtered),
        ("SAFETY", StopReason::Filtered),
        ("sensitive", StopReason::Filtered),
        ("tool_calls", StopReason::Done),
        ("unheard of", StopReason::Done),
    ] {
        let events = fold(&[delta(json!({"content": "x"})), finish(reason)]).unwrap();
        assert_eq!(stop(&events), meaning, "{reason}");
    }
    let unknown = fold(&[delta(json!({"content": "x"})), finish("unheard of")]).unwrap();
    assert_eq!(unknown[1], StepEvent::Noted(StepNote::UnknownStop));
    for reason in ["insufficient_system_resource", "error", "network_error", "abort"] {
        let failed = fold(&[delta(json!({"content": "x"})), finish(reason)]);
        assert!(matches!(failed, Err(StepError::Unavailable { .. })), "{reason}");
    }
    let refused = fold(&[delta(json!({"refusal": "no"})), finish("stop")]).unwrap();
    assert_eq!((refused[0].clone(), stop(&refused)), (StepEvent::Text("no".into()), StopReason::Refused));
}

#[test]
fn calls_are_put_together_whatever_the_server_leaves_out() {
    let call = |index: Value, id: Value, name: &str, arguments: Value| {
        let mut piece = json!({"function": {"arguments": arguments}});
        if !index.is_null() {
            piece["index"] = index;
        }
        if !id.is_null() {
            piece["id"] = id;
        }
        if !name.is_empty() {
            piece["function"]["name"] = Value::from(name);
        }
        delta(json!({"tool_calls": [piece]}))
    };
    let null = || Value::Null;
    let mixed = [
        call(json!(0), json!("a"), "one", json!("")),
        call(json!(1), json!("b"), "two", json!("{\"x")),
        call(json!(0), null(), "", json!("{}")),
        call(json!(1), null(), "", json!("\":1}")),
    ];
    let same_index = [
        call(json!(0), json!("a"), "one", json!("{}")),
        call(json!(0), json!("b"), "two", json!("{\"x\":1}")),
    ];
    let no_index = [
        call(null(), json!("a"), "one", json!("{")),
        call(null(), null(), "", json!("}")),
        call(null(), json!("b"), "two", json!({"x": 1})),
    ];
    let no_ids =
        [call(json!(0), null(), "one", json!("{}")), call(json!(1), json!(""), "two", json!("{\"x\":1}"))];
    let same_ids =
        [call(json!(0), json!("a"), "one", null()), call(json!(1), json!("a"), "two", json!("{\"x\":1}"))];
    for chunks in [&mixed[..], &same_index, &no_index, &no_ids, &same_ids] {
        let events = fold(&[chunks, &[finish("stop")]].concat()).unwrap();
        assert_eq!(
            calls(&events),
            [("one".into(), "{}".into()), ("two".into(), "{\"x\":1}".into())],
            "{chunks:?}"
        );
        assert_eq!(stop(&events), StopReason::Calls);
        let ids: HashSet<_> = events
            .iter()
            .filter_map(|event| match event {
                StepEvent::Call(call) => Some(call.id.clone()),
                _ => None,
            })
            .collect();
        assert!(ids.len() == 2 && !ids.contains(""), "{ids:?}");
    }
}

#[test]
fn a_call_that_the_bound_cut_is_not_given() {
    let cut = delta(
        json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "t", "arguments": "{\"x"}}]}),
    );
    let events = fold(&[cut.clone(), finish("length")]).unwrap();
    assert_eq!((calls(&events), stop(&events)), (vec![], StopReason::OutputFull));
    let broken = fold(&[cut, finish("tool_calls")]).unwrap();
    assert_eq!(calls(&broken), [("t".into(), "{\"x".into())], "the tool's result reports the error");
}

#[test]
fn an_identifier_of_an_earlier_step_is_replaced() {
    let mut fold = Fold::new(HashSet::from(["call_0".to_owned()]));
    let mut ready = VecDeque::new();
    let chunk = json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "delta": {"tool_calls":
        [{"index": 0, "id": "call_0", "function": {"name": "t", "arguments": "{}"}}]}}]});
    fold.frame(&Frame { event: String::new(), data: chunk.to_string() }, &mut ready).unwrap();
    fold.end(&mut ready).unwrap();
    let Some(StepEvent::Call(call)) = ready.front() else { panic!("{ready:?}") };
    assert_ne!(call.id, "call_0");
}

#[test]
fn reasoning_is_taken_once_and_content_in_each_form() {
    let events = fold(&[
        delta(json!({"reasoning_content": "a", "reasoning": "a"})),
        delta(json!({"reasoning": "b", "content": ""})),
        delta(json!({"content": [{"type": "text", "text": "c"}, {"type": "other"}]})),
        delta(json!({"content": null})),
        finish("stop"),
    ]);
    let text = |text: &str| text.to_owned();
    let expected =
        [StepEvent::Reasoning(text("a")), StepEvent::Reasoning(text("b")), StepEvent::Text(text("c"))];
    assert_eq!(events.unwrap()[..3], expected);
}

#[test]
fn output_is_bounded() {
    let piece = "x".repeat(STEP_MAX_BYTES / 4);
    let chunk = delta(json!({"content": piece}));
    let events = fold(&vec![chunk; 100]).unwrap();
    assert!(events.len() < 7);
    assert_eq!(stop(&events), StopReason::OutputFull);
    let call = |index: usize| {
        delta(json!({"tool_calls": [{"index": index, "function": {"name": "t", "arguments": "{}"}}]}))
    };
    let chunks = (0..70).map(call).chain([finish("tool_calls")]).collect::<Vec<_>>();
    let events = fold(&chunks).unwrap();
    assert_eq!((calls(&events).len(), stop(&events)), (CALLS_MAX, StopReason::Calls));
    assert_eq!(events[CALLS_MAX], StepEvent::Noted(StepNote::CallsLeftOut(38)));
}

#[test]
fn usage_is_the_largest_that_was_reported() {
    let usage = |read: u64| {
        json!({"choices": [], "usage": {"prompt_tokens": read, "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 1}, "completion_tokens_details": null}})
    };
    let events = fold(&[usage(1), finish("stop"), usage(5), usage(0)]).unwrap();
    let expected = Usage { input_tokens: 5, cached_tokens: 1, output_tokens: 2, ..Usage::default() };
    assert_eq!(events, [StepEvent::Finished { stop: StopReason::Done, usage: Some(expected) }]);
}

#[test]
fn a_stream_without_an_end_was_cut() {
    assert!(matches!(fold(&[delta(json!({"content": "x"}))]), Err(StepError::Unavailable { .. })));
    assert!(matches!(fold(&[json!({"error": {"message": "m"}})]), Err(StepError::Unavailable { .. })));
    let object = json!({"object": "error", "message": "m", "code": 400});
    assert!(matches!(fold(&[object]), Err(StepError::Rejected { .. })));
}

#[test]
fn usage_is_read_wherever_servers_report_it() {
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 7});
    let mut in_choice = finish("stop");
    in_choice["choices"][0]["usage"] = usage.clone();
    let mut in_vendor_field = finish("stop");
    in_vendor_field["x_groq"] = json!({"id": "req", "usage": usage});
    let mut otherwise_named = finish("stop");
    otherwise_named["usage"] = json!({"input_tokens": 9, "output_tokens": 7});
    let mut twice_named = finish("stop");
    twice_named["usage"] =
        json!({"prompt_tokens": 0, "completion_tokens": 0, "input_tokens": 9, "output_tokens": 7});
    for chunk in [in_choice, in_vendor_field, otherwise_named, twice_named] {
        let events = fold(std::slice::from_ref(&chunk)).unwrap();
        let Some(StepEvent::Finished { usage: Some(usage), .. }) = events.last() else { panic!("{chunk}") };
        assert_eq!((usage.input_tokens, usage.output_tokens), (9, 7), "{chunk}");
    }
}
