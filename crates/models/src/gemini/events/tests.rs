use serde_json::{Value, json};

use super::*;

fn fold_chunks(chunks: &[Value]) -> Result<Vec<StepEvent>, StepError> {
    let mut fold = GeminiFold::default();
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

fn part_chunk(part: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]})
}

fn finish_chunk(reason: &str) -> Value {
    json!({"candidates": [{"finishReason": reason, "index": 0}], "usageMetadata": {"promptTokenCount": 10,
        "cachedContentTokenCount": 8, "candidatesTokenCount": 3, "thoughtsTokenCount": 20, "totalTokenCount": 33}})
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
        ("STOP", StopReason::Done),
        ("MAX_TOKENS", StopReason::OutputFull),
        ("SAFETY", StopReason::Filtered),
        ("RECITATION", StopReason::Filtered),
        ("BLOCKLIST", StopReason::Filtered),
        ("PROHIBITED_CONTENT", StopReason::Filtered),
        ("SPII", StopReason::Filtered),
        ("UNHEARD_OF", StopReason::Done),
    ] {
        assert_eq!(
            stop_reason(&fold_chunks(&[part_chunk(json!({"text": "x"})), finish_chunk(reason)]).unwrap()),
            meaning,
            "{reason}"
        );
    }
    for reason in ["MALFORMED_FUNCTION_CALL", "OTHER", "UNEXPECTED_TOOL_CALL", "FINISH_REASON_UNSPECIFIED"] {
        assert!(
            matches!(fold_chunks(&[finish_chunk(reason)]), Err(StepError::Unavailable { .. })),
            "{reason}"
        );
    }
    let blocked =
        json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}});
    assert_eq!(stop_reason(&fold_chunks(&[blocked]).unwrap()), StopReason::Filtered);
}

#[test]
fn usage_counts_thoughts_as_output() {
    let usage = TokenUsage {
        input_tokens: 10,
        cached_tokens: 8,
        output_tokens: 23,
        reasoning_tokens: 20,
        estimated: false,
    };
    let events = fold_chunks(&[finish_chunk("STOP")]).unwrap();
    assert_eq!(events, [StepEvent::Finished { stop: StopReason::Done, usage: Some(usage) }]);
}

#[test]
fn calls_get_ids_signed_parts_follow() {
    let signed = json!({"functionCall": {"name": "t", "args": {"x": 1}}, "thoughtSignature": "c2ln"});
    let chunks = [
        part_chunk(json!({"text": "thoughts", "thought": true})),
        part_chunk(json!({"text": "Hm.", "thoughtSignature": "dHh0"})),
        part_chunk(signed.clone()),
        part_chunk(json!({"functionCall": {"id": "v2", "name": "u"}})),
        part_chunk(json!({"text": "", "thoughtSignature": "YWxvbmU="})),
        finish_chunk("STOP"),
    ];
    let events = fold_chunks(&chunks).unwrap();
    assert_eq!(events[..2], [StepEvent::Reasoning("thoughts".into()), StepEvent::Text("Hm.".into())]);
    assert!(matches!(&events[2], StepEvent::Opaque { json, .. } if json.contains("dHh0")), "{events:?}");
    let StepEvent::Call(first) = &events[3] else { panic!("{events:?}") };
    assert!(first.id.starts_with("call_") && first.arguments == "{\"x\":1}", "{first:?}");
    let StepEvent::Opaque { format, json } = &events[4] else { panic!("{events:?}") };
    assert_eq!((format.as_str(), serde_json::from_str::<Value>(json).unwrap()), ("gemini", signed));
    let StepEvent::Call(second) = &events[5] else { panic!("{events:?}") };
    assert_eq!((second.id.as_str(), second.arguments.as_str()), ("v2", "{}"));
    assert!(matches!(events[6], StepEvent::Opaque { .. }));
    assert_eq!(stop_reason(&events), StopReason::Calls);
}

#[test]
fn signature_does_not_split_text() {
    let chunks = [
        part_chunk(json!({"text": "One ", "thoughtSignature": "cw=="})),
        part_chunk(json!({"text": "sentence."})),
        finish_chunk("STOP"),
    ];
    let events = fold_chunks(&chunks).unwrap();
    assert_eq!(events[..2], ["One ", "sentence."].map(|text| StepEvent::Text(text.into())));
    assert!(matches!(events[2], StepEvent::Opaque { .. }), "{events:?}");
}

#[test]
fn stream_without_reason_fails() {
    assert!(matches!(fold_chunks(&[part_chunk(json!({"text": "x"}))]), Err(StepError::Unavailable { .. })));
    let error = |code: u16| json!({"error": {"code": code, "message": "m", "status": "X"}});
    assert!(matches!(fold_chunks(&[error(503)]), Err(StepError::Unavailable { .. })));
    assert!(matches!(fold_chunks(&[error(400)]), Err(StepError::Rejected { .. })));
}
