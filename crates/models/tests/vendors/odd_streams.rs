//! Tests streams of servers that bend the formats, as bytes: what is missing, repeated or in an odd form.

use std::collections::{HashSet, VecDeque};

use domain::step::{Step, StopReason};
use domain::step_note::StepNote;
use models::{Decoder, Format, Next};
use serde_json::{Value, json};

use super::stage::StepResult;

/// Decodes a body in pieces of this size.
fn decode_in(format: Format, body: &[u8], size: usize) -> StepResult {
    let mut decoder = Decoder::new(format, HashSet::new());
    let (mut result, mut ready) = (StepResult::default(), VecDeque::new());
    let mut last = Ok(Next::More);
    for piece in body.chunks(size) {
        last = decoder.push(piece, &mut ready);
        if last != Ok(Next::More) {
            break;
        }
    }
    if last == Ok(Next::More) {
        last = decoder.ended(&mut ready);
    }
    ready.drain(..).for_each(|event| result.take(Ok(event)));
    if let Err(error) = last {
        result.take(Err(error));
    }
    result
}

/// Decodes a body, which must not depend on how it arrives.
fn decode(format: Format, body: &[u8]) -> StepResult {
    let mut result = decode_in(format, body, body.len());
    for size in [1, 7, 100] {
        let mut other = decode_in(format, body, size);
        for result in [&mut result, &mut other] {
            for block in &mut result.blocks {
                if let domain::step::Block::Call(call) = block
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

fn stream(frames: &[Value]) -> Vec<u8> {
    let mut out = String::new();
    for frame in frames {
        if let Some(event) = frame["type"].as_str() {
            out.push_str(&format!("event: {event}\n"));
        }
        out.push_str(&format!("data: {frame}\n\n"));
    }
    out.into_bytes()
}

fn calls(result: &StepResult) -> Vec<(String, String)> {
    let step = Step { blocks: result.blocks.clone(), ..Step::default() };
    step.calls().map(|call| (call.tool.clone(), call.arguments.clone())).collect()
}

fn delta(delta: Value) -> Value {
    json!({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish(reason: &str) -> Value {
    json!({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

const ONE: &str = r#"{"path":"/"}"#;
const TWO: &str = r#"{"path":"/uploads"}"#;

fn list(arguments: &str) -> (String, String) {
    ("list".to_owned(), arguments.to_owned())
}

/// Returns the stream of one text in each format, with this finish reason.
fn said(format: Format, text: &str, reason: &str) -> Vec<Value> {
    match format {
        Format::Anthropic => vec![
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}}),
            json!({"type": "message_stop"}),
        ],
        Format::ChatCompletions => vec![
            delta(json!({"content": text})),
            finish(reason),
            json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 7}}),
        ],
        Format::Gemini => vec![json!({"candidates": [{"index": 0, "content": {"role": "model",
            "parts": [{"text": text}]}, "finishReason": reason}],
            "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 7}})],
        Format::Responses => {
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
fn finish_reasons_of_any_vendor_have_their_meaning_in_every_format() {
    for format in Format::ALL {
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
            let result = decode(format, &stream(&said(format, "The notice", reason)));
            assert_eq!((result.text().as_str(), result.stop()), ("The notice", stop), "{format:?} {reason}");
            assert!(result.notes.is_empty(), "{format:?} {reason}");
        }
        if format == Format::Responses {
            continue; // it has no reasons of these kinds
        }
        for reason in ["insufficient_system_resource", "error", "network_error", "abort"] {
            let result = decode(format, &stream(&said(format, "The notice", reason)));
            assert!(super::is_unavailable(&result), "{format:?} {reason}: {result:?}");
        }
        let unknown = decode(format, &stream(&said(format, "The notice", "unheard_of")));
        assert_eq!(unknown.notes, [StepNote::UnknownStop], "{format:?}");
    }
}

#[test]
fn response_that_is_completed_with_another_status_is_no_whole_answer() {
    let with = |response: Value| {
        let mut frames = said(Format::Responses, "Half", "stop");
        frames[1]["response"] = response;
        decode(Format::Responses, &stream(&frames))
    };
    let full = json!({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}});
    assert_eq!(with(full).stop(), StopReason::OutputFull);
    let failed = json!({"status": "failed", "error": {"code": "server_error", "message": "m"}});
    assert!(super::is_unavailable(&with(failed)));
}

#[test]
fn errors_in_disguise_are_errors_and_empty_ones_are_none() {
    for format in Format::ALL {
        for error in [
            json!({"error": {"code": 502, "message": "provider down"}}),
            json!({"code": 502, "message": "provider down"}),
            json!({"detail": "provider down"}),
        ] {
            let mut frames = said(format, "The notice", "stop");
            let end = frames.len() - 1;
            frames.truncate(end.max(1));
            if format == Format::Gemini {
                frames[0]["candidates"][0]["finishReason"] = Value::Null;
            }
            if format == Format::Anthropic {
                frames.truncate(3);
            }
            frames.push(error.clone());
            let result = decode(format, &stream(&frames));
            assert!(super::is_unavailable(&result), "{format:?} {error}: {result:?}");
            assert!(format!("{result:?}").contains("provider down"), "{format:?} {error}: {result:?}");
        }
        let mut frames = said(format, "Whole.", "stop");
        for frame in &mut frames {
            frame["error"] = json!({});
        }
        assert_eq!(decode(format, &stream(&frames)).text(), "Whole.", "{format:?}");
    }
    let in_choice = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "error",
        "error": {"code": 502, "message": "provider down"}}]});
    let result = decode(Format::ChatCompletions, &stream(&[delta(json!({"content": "x"})), in_choice]));
    assert!(format!("{result:?}").contains("provider down"), "{result:?}");
}

#[test]
fn calls_in_odd_forms_of_chat_completions_run_once_with_their_arguments() {
    let piece = |index: Value, id: Value, name: Value, arguments: Value| {
        delta(json!({"tool_calls": [{"index": index, "id": id, "type": "function",
            "function": {"name": name, "arguments": arguments}}]}))
    };
    let null = || Value::Null;
    let (both, one) = (vec![list(ONE), list(TWO)], vec![list(ONE)]);
    for (frames, expected) in [
        // Parallel calls without identifiers, in one chunk and in two.
        (
            vec![delta(json!({"tool_calls": [
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
                delta(json!({"function_call": {"name": "list", "arguments": "{\"path\":"}})),
                delta(json!({"function_call": {"arguments": "\"/\"}"}})),
            ],
            &one,
        ),
    ] {
        let mut frames = frames;
        frames.push(finish("tool_calls"));
        let result = decode(Format::ChatCompletions, &stream(&frames));
        assert_eq!((&calls(&result), result.stop()), (expected, StopReason::Calls), "{frames:?}");
    }
}

#[test]
fn items_of_responses_are_taken_once_wherever_they_come() {
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
        let result = decode(Format::Responses, &stream(&frames));
        assert_eq!((calls(&result), result.stop()), (vec![list(ONE)], StopReason::Calls), "{frames:?}");
    }
    let message = json!([{"id": "m1", "type": "message", "role": "assistant",
        "content": [{"type": "output_text", "text": "Whole.", "annotations": []}]}]);
    let only = decode(Format::Responses, &stream(&[completed(message.clone())]));
    assert_eq!((only.text().as_str(), only.stop()), ("Whole.", StopReason::Done));
    let said = json!({"type": "response.output_text.delta", "output_index": 3, "delta": "Whole."});
    assert_eq!(decode(Format::Responses, &stream(&[said, completed(message)])).text(), "Whole.");
}

#[test]
fn usage_keeps_the_largest_counts() {
    for format in Format::ALL {
        let mut frames = said(format, "Whole.", "stop");
        let zero = match format {
            Format::Anthropic => {
                frames[4]["usage"]["input_tokens"] = json!(0);
                None
            }
            Format::ChatCompletions => {
                Some(json!({"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0}}))
            }
            Format::Gemini => {
                Some(json!({"usageMetadata": {"promptTokenCount": 0, "candidatesTokenCount": 0}}))
            }
            Format::Responses => None,
        };
        frames.extend(zero);
        let usage = decode(format, &stream(&frames)).finished.unwrap().1.unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens), (9, 7), "{format:?}");
    }
}

#[test]
fn odd_bytes_lines_and_numbers_lose_no_word() {
    for format in Format::ALL {
        let frames = said(format, "Wh?le.", "stop");
        let plain = stream(&frames);
        let text = String::from_utf8(plain.clone()).unwrap();
        let invalid = text.replace('?', "\u{1}").into_bytes();
        let invalid: Vec<u8> = invalid.iter().map(|byte| if *byte == 1 { 0xff } else { *byte }).collect();
        assert_eq!(decode(format, &invalid).text(), "Wh\u{fffd}le.", "{format:?}");
        let tight = text.replace("\n\n", "\n");
        assert_eq!(decode(format, tight.as_bytes()).text(), "Wh?le.", "{format:?}");
        let odd_number = text.replacen("{\"", "{\"logprobs\":[NaN,nan,-Infinity],\"", 1);
        assert_eq!(decode(format, odd_number.as_bytes()).text(), "Wh?le.", "{format:?}");
        let control = text.replace('?', "\u{1}");
        assert_eq!(decode(format, control.as_bytes()).text(), "Wh\u{1}le.", "{format:?}");
        let unended = decode(format, text.trim_end().as_bytes());
        assert_eq!((unended.text().as_str(), unended.stop()), ("Wh?le.", StopReason::Done), "{format:?}");
        let long = "x".repeat(1_200_000);
        let result = decode_in(format, &stream(&said(format, &long, "stop")), 65_536);
        assert_eq!(result.text().len(), long.len(), "{format:?}");
    }
}

#[test]
fn last_frame_that_is_cut_is_no_end() {
    for (format, whole) in [
        (Format::ChatCompletions, stream(&[delta(json!({"content": "Half"})), finish("stop")])),
        (Format::Gemini, stream(&said(Format::Gemini, "Half", "STOP"))),
        (Format::Responses, stream(&said(Format::Responses, "Half", "stop"))),
    ] {
        let whole = whole.trim_ascii_end();
        assert_eq!(decode(format, whole).stop(), StopReason::Done, "{format:?}");
        for end in whole.len() - 12..whole.len() {
            assert!(super::is_unavailable(&decode(format, &whole[..end])), "{format:?} {end}");
        }
    }
}

#[test]
fn documents_in_place_of_streams_are_whole_answers_in_every_format() {
    for format in Format::ALL {
        let call = json!({"path": "/"});
        let document = match format {
            Format::Anthropic => json!({"type": "message", "role": "assistant", "stop_reason": "tool_use",
                "content": [{"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "a", "name": "list", "input": call}],
                "usage": {"input_tokens": 9, "output_tokens": 7}}),
            Format::ChatCompletions => json!({"object": "chat.completion", "choices": [{"index": 0,
                "message": {"role": "assistant", "content": "I look.", "tool_calls": [{"id": "a",
                    "type": "function", "function": {"name": "list", "arguments": ONE}}]},
                "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 9, "completion_tokens": 7}}),
            Format::Gemini => json!([{"candidates": [{"content": {"parts": [{"text": "I look."}]}}]},
                {"candidates": [{"content": {"parts": [{"functionCall": {"name": "list", "args": call}}]},
                    "finishReason": "STOP"}],
                    "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 7}}]),
            Format::Responses => json!({"object": "response", "status": "completed", "output": [
                {"id": "m", "type": "message", "role": "assistant",
                    "content": [{"type": "output_text", "text": "I look."}]},
                {"id": "f", "type": "function_call", "call_id": "a", "name": "list", "arguments": ONE}],
                "usage": {"input_tokens": 9, "output_tokens": 7}}),
        };
        let result = decode(format, document.to_string().as_bytes());
        assert_eq!((result.text().as_str(), calls(&result)), ("I look.", vec![list(ONE)]), "{format:?}");
        assert_eq!(result.stop(), StopReason::Calls, "{format:?}");
        let usage = result.finished.unwrap().1.unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens), (9, 7), "{format:?}");
        let error = decode(format, br#"{"error":{"message":"it broke"}}"#);
        assert!(super::is_unavailable(&error), "{format:?}: {error:?}");
    }
    let lines = format!("{}\n{}\n", delta(json!({"content": "Whole."})), finish("stop"));
    assert_eq!(decode(Format::ChatCompletions, lines.as_bytes()).text(), "Whole.");
}

#[test]
fn thoughts_without_an_opening_tag_are_no_text() {
    let frames = [
        delta(json!({"content": "Hmm, let me see.\n"})),
        delta(json!({"content": "</think>\n\n"})),
        delta(json!({"content": "Whole."})),
        finish("stop"),
    ];
    let result = decode(Format::ChatCompletions, &stream(&frames));
    assert_eq!((result.reasoning().as_str(), result.text().as_str()), ("Hmm, let me see.\n", "Whole."));
}

#[test]
fn calls_beyond_the_limit_are_counted_in_every_format() {
    for format in [Format::ChatCompletions, Format::Gemini] {
        let call = |index: usize| match format {
            Format::Gemini => json!({"candidates": [{"content": {"parts": [
                {"functionCall": {"name": "list", "args": {"n": index}}}]}}]}),
            _ => delta(json!({"tool_calls": [{"index": index, "id": format!("c{index}"),
                "function": {"name": "list", "arguments": "{}"}}]})),
        };
        let mut frames: Vec<_> = (0..70).map(call).collect();
        frames.push(match format {
            Format::Gemini => json!({"candidates": [{"finishReason": "STOP"}]}),
            _ => finish("tool_calls"),
        });
        let result = decode(format, &stream(&frames));
        assert_eq!((calls(&result).len(), result.stop()), (32, StopReason::Calls), "{format:?}");
        assert_eq!(result.notes, [StepNote::CallsLeftOut(38)], "{format:?}");
    }
}
