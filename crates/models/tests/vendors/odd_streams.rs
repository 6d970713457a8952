//! Tests streams of servers that bend the formats, as bytes: what is missing, repeated or in an odd form.

use std::collections::{HashSet, VecDeque};

use domain::step::{Step, StopReason};
use domain::step_note::StepNote;
use models::{StepDecoder, StreamProgress, WireFormat};
use serde_json::{Value, json};

use super::stage::VendorStepResult;

/// Decodes a body in pieces of this size.
fn decode_in(format: WireFormat, body: &[u8], size: usize) -> VendorStepResult {
    let mut decoder = StepDecoder::new(format, HashSet::new());
    let (mut result, mut ready) = (VendorStepResult::default(), VecDeque::new());
    let mut last = Ok(StreamProgress::More);
    for piece in body.chunks(size) {
        last = decoder.push_bytes(piece, &mut ready);
        if last != Ok(StreamProgress::More) {
            break;
        }
    }
    if last == Ok(StreamProgress::More) {
        last = decoder.end_body(&mut ready);
    }
    ready.drain(..).for_each(|event| result.apply_event(Ok(event)));
    if let Err(error) = last {
        result.apply_event(Err(error));
    }
    result
}

/// Decodes a body, which must not depend on how it arrives.
fn decode_body(format: WireFormat, body: &[u8]) -> VendorStepResult {
    let mut result = decode_in(format, body, body.len());
    for size in [1, 7, 100] {
        let mut other = decode_in(format, body, size);
        for result in [&mut result, &mut other] {
            for block in &mut result.blocks {
                if let domain::step::OutputBlock::Call(call) = block
                    && call.id.starts_with("call_")
                {
                    call.id = "call_".to_owned();
                }
            }
        }
        assert_eq!(other, result, "{format:?} in pieces of {size}: {}", String::from_utf8_lossy(body));
    }
    result
}

fn sse_stream(frames: &[Value]) -> Vec<u8> {
    let mut out = String::new();
    for frame in frames {
        if let Some(event) = frame["type"].as_str() {
            out.push_str(&format!("event: {event}\n"));
        }
        out.push_str(&format!("data: {frame}\n\n"));
    }
    out.into_bytes()
}

fn step_calls(result: &VendorStepResult) -> Vec<(String, String)> {
    let step = Step { blocks: result.blocks.clone(), ..Step::default() };
    step.tool_calls().map(|call| (call.tool.clone(), call.arguments.clone())).collect()
}

fn delta_frame(delta: Value) -> Value {
    json!({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish_frame(reason: &str) -> Value {
    json!({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

const ONE: &str = r#"{"path":"/"}"#;
const TWO: &str = r#"{"path":"/uploads"}"#;

fn list_call(arguments: &str) -> (String, String) {
    ("list".to_owned(), arguments.to_owned())
}

/// Returns the stream of one text in each format, with this finish reason.
fn text_frames(format: WireFormat, text: &str, reason: &str) -> Vec<Value> {
    match format {
        WireFormat::Anthropic => vec![
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}}),
            json!({"type": "message_stop"}),
        ],
        WireFormat::ChatCompletions => vec![
            delta_frame(json!({"content": text})),
            finish_frame(reason),
            json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 7}}),
        ],
        WireFormat::Gemini => vec![json!({"candidates": [{"index": 0, "content": {"role": "model",
            "parts": [{"text": text}]}, "finishReason": reason}],
            "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 7}})],
        WireFormat::Responses => {
            let status = if reason == "stop" { "completed" } else { "incomplete" };
            vec![
                json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": text}),
                json!({"type": "response.completed", "response": {"status": status, "output": [],
                    "incomplete_details": {"reason": reason}, "usage": {"input_tokens": 9, "output_tokens": 7}}}),
            ]
        }
    }
}

#[test]
fn finish_reasons_agree_across_formats() {
    for format in WireFormat::ALL {
        for (reason, stop) in [
            ("stop", StopReason::Done),
            ("MAX_TOKENS", StopReason::OutputFull),
            ("max_tokens", StopReason::OutputFull),
            ("model_length", StopReason::OutputFull),
            ("content_filter", StopReason::Filtered),
            ("SAFETY", StopReason::Filtered),
            ("RECITATION", StopReason::Filtered),
            ("PROHIBITED_CONTENT", StopReason::Filtered),
            ("sensitive", StopReason::Filtered),
        ] {
            let result = decode_body(format, &sse_stream(&text_frames(format, "The notice", reason)));
            assert_eq!(
                (result.whole_text().as_str(), result.stop_reason()),
                ("The notice", stop),
                "{format:?} {reason}"
            );
            assert!(result.notes.is_empty(), "{format:?} {reason}");
        }
        if format == WireFormat::Responses {
            continue; // it has no reasons of these kinds
        }
        for reason in ["insufficient_system_resource", "error", "network_error", "abort"] {
            let result = decode_body(format, &sse_stream(&text_frames(format, "The notice", reason)));
            assert!(super::is_unavailable(&result), "{format:?} {reason}: {result:?}");
        }
        let unknown = decode_body(format, &sse_stream(&text_frames(format, "The notice", "unheard_of")));
        assert_eq!(unknown.notes, [StepNote::UnknownStop], "{format:?}");
    }
}

#[test]
fn completed_event_other_status_is_incomplete() {
    let with = |response: Value| {
        let mut frames = text_frames(WireFormat::Responses, "Half", "stop");
        frames[1]["response"] = response;
        decode_body(WireFormat::Responses, &sse_stream(&frames))
    };
    let full = json!({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}});
    assert_eq!(with(full).stop_reason(), StopReason::OutputFull);
    let failed = json!({"status": "failed", "error": {"code": "server_error", "message": "m"}});
    assert!(super::is_unavailable(&with(failed)));
}

#[test]
fn disguised_errors_fail_empty_pass() {
    for format in WireFormat::ALL {
        for error in [
            json!({"error": {"code": 502, "message": "provider down"}}),
            json!({"code": 502, "message": "provider down"}),
            json!({"detail": "provider down"}),
        ] {
            let mut frames = text_frames(format, "The notice", "stop");
            let end = frames.len() - 1;
            frames.truncate(end.max(1));
            if format == WireFormat::Gemini {
                frames[0]["candidates"][0]["finishReason"] = Value::Null;
            }
            if format == WireFormat::Anthropic {
                frames.truncate(3);
            }
            frames.push(error.clone());
            let result = decode_body(format, &sse_stream(&frames));
            assert!(super::is_unavailable(&result), "{format:?} {error}: {result:?}");
            assert!(format!("{result:?}").contains("provider down"), "{format:?} {error}: {result:?}");
        }
        let mut frames = text_frames(format, "Whole.", "stop");
        for frame in &mut frames {
            frame["error"] = json!({});
        }
        assert_eq!(decode_body(format, &sse_stream(&frames)).whole_text(), "Whole.", "{format:?}");
    }
    let in_choice = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "error",
        "error": {"code": 502, "message": "provider down"}}]});
    let result = decode_body(
        WireFormat::ChatCompletions,
        &sse_stream(&[delta_frame(json!({"content": "x"})), in_choice]),
    );
    assert!(format!("{result:?}").contains("provider down"), "{result:?}");
}

#[test]
fn odd_chat_completions_calls_run_once() {
    let piece = |index: Value, id: Value, name: Value, arguments: Value| {
        delta_frame(json!({"tool_calls": [{"index": index, "id": id, "type": "function",
            "function": {"name": name, "arguments": arguments}}]}))
    };
    let null = || Value::Null;
    let (both, one) = (vec![list_call(ONE), list_call(TWO)], vec![list_call(ONE)]);
    for (frames, expected) in [
        // Parallel calls without identifiers, in one chunk and in two.
        (
            vec![delta_frame(json!({"tool_calls": [
                {"index": 0, "id": "", "function": {"name": "list", "arguments": ONE}},
                {"index": 0, "id": "", "function": {"name": "list", "arguments": TWO}}]}))],
            &both,
        ),
        (
            vec![
                piece(null(), null(), json!("list"), json!(ONE)),
                piece(null(), null(), json!("list"), json!(TWO)),
            ],
            &both,
        ),
        // An empty object before the arguments.
        (
            vec![
                piece(json!(0), json!("a"), json!("list"), json!("{}")),
                piece(json!(0), null(), null(), json!(ONE)),
            ],
            &one,
        ),
        // The name and the identifier in every piece.
        (
            vec![
                piece(json!(0), json!("a"), json!("list"), json!("{\"path\":")),
                piece(json!(0), json!("a"), json!("list"), json!("\"/\"}")),
            ],
            &one,
        ),
        // The same call twice.
        (
            vec![
                piece(json!(0), json!("a"), json!("list"), json!(ONE)),
                piece(json!(0), json!("a"), json!("list"), json!(ONE)),
            ],
            &one,
        ),
        // The older form.
        (
            vec![
                delta_frame(json!({"function_call": {"name": "list", "arguments": "{\"path\":"}})),
                delta_frame(json!({"function_call": {"arguments": "\"/\"}"}})),
            ],
            &one,
        ),
    ] {
        let mut frames = frames;
        frames.push(finish_frame("tool_calls"));
        let result = decode_body(WireFormat::ChatCompletions, &sse_stream(&frames));
        assert_eq!((&step_calls(&result), result.stop_reason()), (expected, StopReason::Calls), "{frames:?}");
    }
}

#[test]
fn responses_items_taken_once() {
    let item = |arguments: &str| json!({"id": "fc1", "type": "function_call", "call_id": "c1", "name": "list", "arguments": arguments});
    let added = json!({"type": "response.output_item.added", "output_index": 0, "item": item("")});
    let pieces = json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": ONE});
    let whole = json!({"type": "response.function_call_arguments.done", "output_index": 0, "arguments": ONE});
    let done =
        |arguments| json!({"type": "response.output_item.done", "output_index": 0, "item": item(arguments)});
    let completed = |output: Value| {
        json!({"type": "response.completed", "response": {"status": "completed",
        "output": output, "usage": {"input_tokens": 1, "output_tokens": 1}}})
    };
    for frames in [
        vec![added.clone(), pieces.clone(), whole.clone(), done(""), completed(json!([item(ONE)]))],
        vec![added.clone(), pieces.clone(), done("{}"), completed(json!([]))],
        vec![added.clone(), whole.clone(), completed(json!([item(ONE)]))],
        vec![added.clone(), pieces.clone(), completed(json!([]))],
        vec![completed(json!([item(ONE)]))],
        vec![added.clone(), done(ONE), done(ONE), completed(json!([item(ONE), item(ONE)]))],
    ] {
        let result = decode_body(WireFormat::Responses, &sse_stream(&frames));
        assert_eq!(
            (step_calls(&result), result.stop_reason()),
            (vec![list_call(ONE)], StopReason::Calls),
            "{frames:?}"
        );
    }
    let message = json!([{"id": "m1", "type": "message", "role": "assistant",
        "content": [{"type": "output_text", "text": "Whole.", "annotations": []}]}]);
    let only = decode_body(WireFormat::Responses, &sse_stream(&[completed(message.clone())]));
    assert_eq!((only.whole_text().as_str(), only.stop_reason()), ("Whole.", StopReason::Done));
    let said = json!({"type": "response.output_text.delta", "output_index": 3, "delta": "Whole."});
    assert_eq!(
        decode_body(WireFormat::Responses, &sse_stream(&[said, completed(message)])).whole_text(),
        "Whole."
    );
}

#[test]
fn usage_keeps_the_largest_counts() {
    for format in WireFormat::ALL {
        let mut frames = text_frames(format, "Whole.", "stop");
        let zero = match format {
            WireFormat::Anthropic => {
                frames[4]["usage"]["input_tokens"] = json!(0);
                None
            }
            WireFormat::ChatCompletions => {
                Some(json!({"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0}}))
            }
            WireFormat::Gemini => {
                Some(json!({"usageMetadata": {"promptTokenCount": 0, "candidatesTokenCount": 0}}))
            }
            WireFormat::Responses => None,
        };
        frames.extend(zero);
        let usage = decode_body(format, &sse_stream(&frames)).finished.unwrap().1.unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens), (9, 7), "{format:?}");
    }
}

#[test]
fn odd_bytes_lose_no_text() {
    for format in WireFormat::ALL {
        let frames = text_frames(format, "Wh?le.", "stop");
        let plain = sse_stream(&frames);
        let text = String::from_utf8(plain.clone()).unwrap();
        let invalid = text.replace('?', "\u{1}").into_bytes();
        let invalid: Vec<u8> = invalid.iter().map(|byte| if *byte == 1 { 0xff } else { *byte }).collect();
        assert_eq!(decode_body(format, &invalid).whole_text(), "Wh\u{fffd}le.", "{format:?}");
        let tight = text.replace("\n\n", "\n");
        assert_eq!(decode_body(format, tight.as_bytes()).whole_text(), "Wh?le.", "{format:?}");
        let odd_number = text.replacen("{\"", "{\"logprobs\":[NaN,nan,-Infinity],\"", 1);
        assert_eq!(decode_body(format, odd_number.as_bytes()).whole_text(), "Wh?le.", "{format:?}");
        let control = text.replace('?', "\u{1}");
        assert_eq!(decode_body(format, control.as_bytes()).whole_text(), "Wh\u{1}le.", "{format:?}");
        let unended = decode_body(format, text.trim_end().as_bytes());
        assert_eq!(
            (unended.whole_text().as_str(), unended.stop_reason()),
            ("Wh?le.", StopReason::Done),
            "{format:?}"
        );
        let long = "x".repeat(1_200_000);
        let result = decode_in(format, &sse_stream(&text_frames(format, &long, "stop")), 65_536);
        assert_eq!(result.whole_text().len(), long.len(), "{format:?}");
    }
}

#[test]
fn truncated_last_frame_is_no_end() {
    for (format, whole) in [
        (
            WireFormat::ChatCompletions,
            sse_stream(&[delta_frame(json!({"content": "Half"})), finish_frame("stop")]),
        ),
        (WireFormat::Gemini, sse_stream(&text_frames(WireFormat::Gemini, "Half", "STOP"))),
        (WireFormat::Responses, sse_stream(&text_frames(WireFormat::Responses, "Half", "stop"))),
    ] {
        let whole = whole.trim_ascii_end();
        assert_eq!(decode_body(format, whole).stop_reason(), StopReason::Done, "{format:?}");
        for end in whole.len() - 12..whole.len() {
            assert!(super::is_unavailable(&decode_body(format, &whole[..end])), "{format:?} {end}");
        }
    }
}

#[test]
fn documents_read_in_every_format() {
    for format in WireFormat::ALL {
        let call = json!({"path": "/"});
        let document = match format {
            WireFormat::Anthropic => {
                json!({"type": "message", "role": "assistant", "stop_reason": "tool_use",
                "content": [{"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "a", "name": "list", "input": call}],
                "usage": {"input_tokens": 9, "output_tokens": 7}})
            }
            WireFormat::ChatCompletions => json!({"object": "chat.completion", "choices": [{"index": 0,
                "message": {"role": "assistant", "content": "I look.", "tool_calls": [{"id": "a",
                    "type": "function", "function": {"name": "list", "arguments": ONE}}]},
                "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 9, "completion_tokens": 7}}),
            WireFormat::Gemini => json!([{"candidates": [{"content": {"parts": [{"text": "I look."}]}}]},
                {"candidates": [{"content": {"parts": [{"functionCall": {"name": "list", "args": call}}]},
                    "finishReason": "STOP"}],
                    "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 7}}]),
            WireFormat::Responses => json!({"object": "response", "status": "completed", "output": [
                {"id": "m", "type": "message", "role": "assistant",
                    "content": [{"type": "output_text", "text": "I look."}]},
                {"id": "f", "type": "function_call", "call_id": "a", "name": "list", "arguments": ONE}],
                "usage": {"input_tokens": 9, "output_tokens": 7}}),
        };
        let result = decode_body(format, document.to_string().as_bytes());
        assert_eq!(
            (result.whole_text().as_str(), step_calls(&result)),
            ("I look.", vec![list_call(ONE)]),
            "{format:?}"
        );
        assert_eq!(result.stop_reason(), StopReason::Calls, "{format:?}");
        let usage = result.finished.unwrap().1.unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens), (9, 7), "{format:?}");
        let error = decode_body(format, br#"{"error":{"message":"it broke"}}"#);
        assert!(super::is_unavailable(&error), "{format:?}: {error:?}");
    }
    let lines = format!("{}\n{}\n", delta_frame(json!({"content": "Whole."})), finish_frame("stop"));
    assert_eq!(decode_body(WireFormat::ChatCompletions, lines.as_bytes()).whole_text(), "Whole.");
}

#[test]
fn thoughts_without_opening_tag_hidden() {
    let frames = [
        delta_frame(json!({"content": "Hmm, let me see.\n"})),
        delta_frame(json!({"content": "</think>\n\n"})),
        delta_frame(json!({"content": "Whole."})),
        finish_frame("stop"),
    ];
    let result = decode_body(WireFormat::ChatCompletions, &sse_stream(&frames));
    assert_eq!(
        (result.whole_reasoning().as_str(), result.whole_text().as_str()),
        ("Hmm, let me see.\n", "Whole.")
    );
}

#[test]
fn calls_bounded_in_every_format() {
    for format in [WireFormat::ChatCompletions, WireFormat::Gemini] {
        let call = |index: usize| match format {
            WireFormat::Gemini => json!({"candidates": [{"content": {"parts": [
                {"functionCall": {"name": "list", "args": {"n": index}}}]}}]}),
            _ => delta_frame(json!({"tool_calls": [{"index": index, "id": format!("c{index}"),
                "function": {"name": "list", "arguments": "{}"}}]})),
        };
        let mut frames: Vec<_> = (0..70).map(call).collect();
        frames.push(match format {
            WireFormat::Gemini => json!({"candidates": [{"finishReason": "STOP"}]}),
            _ => finish_frame("tool_calls"),
        });
        let result = decode_body(format, &sse_stream(&frames));
        assert_eq!((step_calls(&result).len(), result.stop_reason()), (32, StopReason::Calls), "{format:?}");
        assert_eq!(result.notes, [StepNote::CallsLeftOut(38)], "{format:?}");
    }
}
