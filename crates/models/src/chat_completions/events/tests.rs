use serde_json::{Value, json};

use super::*;

fn fold_chunks(chunks: &[Value]) -> Result<Vec<StepEvent>, StepError> {
    let mut fold = CompletionsFold::default();
    let mut ready = VecDeque::new();
    for chunk in chunks {
        let frame = SseFrame { event: String::new(), data: chunk.to_string() };
        if fold.fold_frame(&frame, &mut ready)? == StreamProgress::End {
            return Ok(ready.into());
        }
    }
    fold.end_stream(&mut ready)?;
    Ok(ready.into())
}

fn delta_chunk(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta}]})
}

fn finish_chunk(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn emitted_calls(events: &[StepEvent]) -> Vec<(String, String)> {
    events
        .iter()
        .filter_map(|event| match event {
            StepEvent::Call(call) => Some((call.tool.clone(), call.arguments.clone())),
            _ => None,
        })
        .collect()
}

fn stop_reason(events: &[StepEvent]) -> StopReason {
    match events.last() {
        Some(StepEvent::Finished { stop, .. }) => *stop,
        other => panic!("{other:?}"),
    }
}

#[test]
fn finish_reasons_have_their_meaning() {
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
        let events = fold_chunks(&[delta_chunk(json!({"content": "x"})), finish_chunk(reason)]).unwrap();
        assert_eq!(stop_reason(&events), meaning, "{reason}");
    }
    let unknown = fold_chunks(&[delta_chunk(json!({"content": "x"})), finish_chunk("unheard of")]).unwrap();
    assert_eq!(unknown[1], StepEvent::Noted(StepNote::UnknownStop));
    for reason in ["insufficient_system_resource", "error", "network_error", "abort"] {
        let failed = fold_chunks(&[delta_chunk(json!({"content": "x"})), finish_chunk(reason)]);
        assert!(matches!(failed, Err(StepError::Unavailable { .. })), "{reason}");
    }
    let refused = fold_chunks(&[delta_chunk(json!({"refusal": "no"})), finish_chunk("stop")]).unwrap();
    assert_eq!(
        (refused[0].clone(), stop_reason(&refused)),
        (StepEvent::Text("no".into()), StopReason::Refused)
    );
}

#[test]
fn calls_joined_despite_missing_fields() {
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
        delta_chunk(json!({"tool_calls": [piece]}))
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
        let events = fold_chunks(&[chunks, &[finish_chunk("stop")]].concat()).unwrap();
        assert_eq!(
            emitted_calls(&events),
            [("one".into(), "{}".into()), ("two".into(), "{\"x\":1}".into())],
            "{chunks:?}"
        );
        assert_eq!(stop_reason(&events), StopReason::Calls);
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
fn truncated_call_is_dropped() {
    let cut = delta_chunk(
        json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "t", "arguments": "{\"x"}}]}),
    );
    let events = fold_chunks(&[cut.clone(), finish_chunk("length")]).unwrap();
    assert_eq!((emitted_calls(&events), stop_reason(&events)), (vec![], StopReason::OutputFull));
    let broken = fold_chunks(&[cut, finish_chunk("tool_calls")]).unwrap();
    assert_eq!(emitted_calls(&broken), [("t".into(), "{\"x".into())], "the tool's result reports the error");
}

#[test]
fn repeated_call_id_is_replaced() {
    let mut fold = CompletionsFold::new(HashSet::from(["call_0".to_owned()]));
    let mut ready = VecDeque::new();
    let chunk = json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "delta": {"tool_calls":
        [{"index": 0, "id": "call_0", "function": {"name": "t", "arguments": "{}"}}]}}]});
    fold.fold_frame(&SseFrame { event: String::new(), data: chunk.to_string() }, &mut ready).unwrap();
    fold.end_stream(&mut ready).unwrap();
    let Some(StepEvent::Call(call)) = ready.front() else { panic!("{ready:?}") };
    assert_ne!(call.id, "call_0");
}

#[test]
fn reasoning_once_content_any_form() {
    let events = fold_chunks(&[
        delta_chunk(json!({"reasoning_content": "a", "reasoning": "a"})),
        delta_chunk(json!({"reasoning": "b", "content": ""})),
        delta_chunk(json!({"content": [{"type": "text", "text": "c"}, {"type": "other"}]})),
        delta_chunk(json!({"content": null})),
        finish_chunk("stop"),
    ]);
    let text = |text: &str| text.to_owned();
    let expected =
        [StepEvent::Reasoning(text("a")), StepEvent::Reasoning(text("b")), StepEvent::Text(text("c"))];
    assert_eq!(events.unwrap()[..3], expected);
}

#[test]
fn output_is_bounded() {
    let piece = "x".repeat(STEP_MAX_BYTES / 4);
    let chunk = delta_chunk(json!({"content": piece}));
    let events = fold_chunks(&vec![chunk; 100]).unwrap();
    assert!(events.len() < 7);
    assert_eq!(stop_reason(&events), StopReason::OutputFull);
    let call = |index: usize| {
        delta_chunk(json!({"tool_calls": [{"index": index, "function": {"name": "t", "arguments": "{}"}}]}))
    };
    let chunks = (0..70).map(call).chain([finish_chunk("tool_calls")]).collect::<Vec<_>>();
    let events = fold_chunks(&chunks).unwrap();
    assert_eq!((emitted_calls(&events).len(), stop_reason(&events)), (CALLS_MAX, StopReason::Calls));
    assert_eq!(events[CALLS_MAX], StepEvent::Noted(StepNote::CallsLeftOut(38)));
}

#[test]
fn largest_reported_usage_wins() {
    let usage = |read: u64| {
        json!({"choices": [], "usage": {"prompt_tokens": read, "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 1}, "completion_tokens_details": null}})
    };
    let events = fold_chunks(&[usage(1), finish_chunk("stop"), usage(5), usage(0)]).unwrap();
    let expected =
        TokenUsage { input_tokens: 5, cached_tokens: 1, output_tokens: 2, ..TokenUsage::default() };
    assert_eq!(events, [StepEvent::Finished { stop: StopReason::Done, usage: Some(expected) }]);
}

#[test]
fn stream_without_end_fails() {
    assert!(matches!(
        fold_chunks(&[delta_chunk(json!({"content": "x"}))]),
        Err(StepError::Unavailable { .. })
    ));
    assert!(matches!(fold_chunks(&[json!({"error": {"message": "m"}})]), Err(StepError::Unavailable { .. })));
    let object = json!({"object": "error", "message": "m", "code": 400});
    assert!(matches!(fold_chunks(&[object]), Err(StepError::Rejected { .. })));
}

#[test]
fn usage_read_from_every_field() {
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 7});
    let mut in_choice = finish_chunk("stop");
    in_choice["choices"][0]["usage"] = usage.clone();
    let mut in_vendor_field = finish_chunk("stop");
    in_vendor_field["x_groq"] = json!({"id": "req", "usage": usage});
    let mut otherwise_named = finish_chunk("stop");
    otherwise_named["usage"] = json!({"input_tokens": 9, "output_tokens": 7});
    let mut twice_named = finish_chunk("stop");
    twice_named["usage"] =
        json!({"prompt_tokens": 0, "completion_tokens": 0, "input_tokens": 9, "output_tokens": 7});
    for chunk in [in_choice, in_vendor_field, otherwise_named, twice_named] {
        let events = fold_chunks(std::slice::from_ref(&chunk)).unwrap();
        let Some(StepEvent::Finished { usage: Some(usage), .. }) = events.last() else { panic!("{chunk}") };
        assert_eq!((usage.input_tokens, usage.output_tokens), (9, 7), "{chunk}");
    }
}

#[test]
fn whole_message_adds_rest_of_pieces() {
    let whole = |content: &str| {
        json!({"choices": [{"index": 0, "delta": {}, "message": {"role": "assistant", "content": content},
            "finish_reason": "stop"}]})
    };
    let piece = |content: &str| delta_chunk(json!({ "content": content }));
    for chunks in [
        vec![piece("Who"), whole("Whole.")],
        vec![piece("Who"), piece("le."), whole("Whole.")],
        vec![piece("<think>Hm.</think>Who"), whole("<think>Hm.</think>Whole.")],
        vec![piece("<think>Hm.</think>Who"), whole("Whole.")],
        vec![delta_chunk(json!({"reasoning": "Hm."})), piece("Who"), whole("Whole.")],
        vec![whole("Whole.")],
        // What contradicts the text that was shown is left out.
        vec![piece("Whole."), whole("Other.")],
    ] {
        let events = fold_chunks(&chunks).unwrap();
        let text: String = events
            .iter()
            .filter_map(|event| match event {
                StepEvent::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(text, "Whole.", "{chunks:?}");
    }
    let called = json!([{"index": 0, "id": "a", "function": {"name": "list", "arguments": "{\"a\":1}"}}]);
    let chunks = [piece("x"), delta_chunk(json!({ "tool_calls": called })), whole("x")];
    let mut repeated = chunks.clone();
    repeated[2]["choices"][0]["message"]["tool_calls"] = called;
    assert_eq!(
        emitted_calls(&fold_chunks(&repeated).unwrap()),
        emitted_calls(&fold_chunks(&chunks).unwrap())
    );
}
