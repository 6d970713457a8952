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

fn part(part: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]})
}

fn finish(reason: &str) -> Value {
    json!({"candidates": [{"finishReason": reason, "index": 0}], "usageMetadata": {"promptTokenCount": 10,
        "cachedContentTokenCount": 8, "candidatesTokenCount": 3, "thoughtsTokenCount": 20, "totalTokenCount": 33}})
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
        ("STOP", StopReason::Done),
        ("MAX_TOKENS", StopReason::OutputFull),
        ("SAFETY", StopReason::Filtered),
        ("RECITATION", StopReason::Filtered),
        ("BLOCKLIST", StopReason::Filtered),
        ("PROHIBITED_CONTENT", StopReason::Filtered),
        ("SPII", StopReason::Filtered),
        ("UNHEARD_OF", StopReason::Done),
    ] {
        assert_eq!(stop(&fold(&[part(json!({"text": "x"})), finish(reason)]).unwrap()), meaning, "{reason}");
    }
    for reason in ["MALFORMED_FUNCTION_CALL", "OTHER", "UNEXPECTED_TOOL_CALL", "FINISH_REASON_UNSPECIFIED"] {
        assert!(matches!(fold(&[finish(reason)]), Err(StepError::Unavailable { .. })), "{reason}");
    }
    let blocked =
        json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}});
    assert_eq!(stop(&fold(&[blocked]).unwrap()), StopReason::Filtered);
}

#[test]
fn usage_counts_thoughts_among_what_was_written() {
    let usage = Usage {
        input_tokens: 10,
        cached_tokens: 8,
        output_tokens: 23,
        reasoning_tokens: 20,
        estimated: false,
    };
    let events = fold(&[finish("STOP")]).unwrap();
    assert_eq!(events, [StepEvent::Finished { stop: StopReason::Done, usage: Some(usage) }]);
}

#[test]
fn calls_get_identifiers_and_signed_parts_are_kept_behind_what_they_say() {
    let signed = json!({"functionCall": {"name": "t", "args": {"x": 1}}, "thoughtSignature": "c2ln"});
    let chunks = [
        part(json!({"text": "thoughts", "thought": true})),
        part(json!({"text": "Hm.", "thoughtSignature": "dHh0"})),
        part(signed.clone()),
        part(json!({"functionCall": {"id": "v2", "name": "u"}})),
        part(json!({"text": "", "thoughtSignature": "YWxvbmU="})),
        finish("STOP"),
    ];
    let events = fold(&chunks).unwrap();
    assert_eq!(events[..2], [StepEvent::Reasoning("thoughts".into()), StepEvent::Text("Hm.".into())]);
    assert!(matches!(&events[2], StepEvent::Opaque { json, .. } if json.contains("dHh0")), "{events:?}");
    let StepEvent::Call(first) = &events[3] else { panic!("{events:?}") };
    assert!(first.id.starts_with("call_") && first.arguments == "{\"x\":1}", "{first:?}");
    let StepEvent::Opaque { format, json } = &events[4] else { panic!("{events:?}") };
    assert_eq!((format.as_str(), serde_json::from_str::<Value>(json).unwrap()), ("gemini", signed));
    let StepEvent::Call(second) = &events[5] else { panic!("{events:?}") };
    assert_eq!((second.id.as_str(), second.arguments.as_str()), ("v2", "{}"));
    assert!(matches!(events[6], StepEvent::Opaque { .. }));
    assert_eq!(stop(&events), StopReason::Calls);
}

#[test]
fn a_signature_does_not_cut_a_text_into_pieces() {
    let chunks = [
        part(json!({"text": "One ", "thoughtSignature": "cw=="})),
        part(json!({"text": "sentence."})),
        finish("STOP"),
    ];
    let events = fold(&chunks).unwrap();
    assert_eq!(events[..2], ["One ", "sentence."].map(|text| StepEvent::Text(text.into())));
    assert!(matches!(events[2], StepEvent::Opaque { .. }), "{events:?}");
}

#[test]
fn a_stream_without_a_reason_was_cut_and_errors_are_told() {
    assert!(matches!(fold(&[part(json!({"text": "x"}))]), Err(StepError::Unavailable { .. })));
    let error = |code: u16| json!({"error": {"code": code, "message": "m", "status": "X"}});
    assert!(matches!(fold(&[error(503)]), Err(StepError::Unavailable { .. })));
    assert!(matches!(fold(&[error(400)]), Err(StepError::Rejected { .. })));
}
