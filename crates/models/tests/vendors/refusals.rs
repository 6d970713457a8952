//! Tests servers that refuse something in a request: the request is adapted, and what was found out is remembered.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::step::{StepError, StopReason, ToolSpec};
use domain::step_note::StepNote;
use futures_util::StreamExt;
use models::{Format, Secret, Timeouts, Vendor, VendorConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::stage::{request, run_step, vendor};

/// A server that answers each request by a function of its body.
struct Server {
    url: String,
    bodies: Arc<Mutex<Vec<Value>>>,
}

impl Server {
    async fn start(respond: impl Fn(&Value) -> Vec<u8> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let seen = bodies.clone();
        tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut read = Vec::new();
                let body = loop {
                    let text = String::from_utf8_lossy(&read).into_owned();
                    if let Some((head, body)) = text.split_once("\r\n\r\n") {
                        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                        if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                            break body.to_owned();
                        }
                    }
                    assert_ne!(socket.read_buf(&mut read).await.unwrap(), 0);
                };
                let body: Value = serde_json::from_str(&body).unwrap();
                let response = respond(&body);
                seen.lock().unwrap().push(body);
                let _written = socket.write_all(&response).await;
            }
        });
        Self { url, bodies }
    }

    fn bodies(&self) -> Vec<Value> {
        self.bodies.lock().unwrap().clone()
    }
}

fn response(status: &str, kind: &str, body: &str) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n");
    (head + body).into_bytes()
}

fn refuse(status: &str, message: &str) -> Vec<u8> {
    response(status, "application/json", &json!({"error": {"message": message}}).to_string())
}

/// Says "Whole." in this format.
fn answer(format: Format) -> Vec<u8> {
    let frames = match format {
        Format::Anthropic => vec![
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Whole."}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
            json!({"type": "message_stop"}),
        ],
        Format::ChatCompletions => {
            vec![json!({"choices": [{"index": 0, "delta": {"content": "Whole."}, "finish_reason": "stop"}]})]
        }
        Format::Gemini => {
            vec![
                json!({"candidates": [{"content": {"parts": [{"text": "Whole."}]}, "finishReason": "STOP"}]}),
            ]
        }
        Format::Responses => vec![
            json!({"type": "response.output_text.delta", "output_index": 0, "delta": "Whole."}),
            json!({"type": "response.completed", "response": {"status": "completed"}}),
        ],
    };
    let body: String = frames.iter().map(|frame| format!("data: {frame}\n\n")).collect();
    response("200 OK", "text/event-stream", &body)
}

async fn stage(format: Format, respond: impl Fn(&Value) -> Vec<u8> + Send + 'static) -> (Server, Vendor) {
    let server = Server::start(respond).await;
    let vendor = vendor(format, &server.url, Timeouts::default());
    (server, vendor)
}

fn has_tools(body: &Value) -> bool {
    body["tools"].as_array().is_some_and(|tools| !tools.is_empty())
}

#[tokio::test]
async fn model_without_tools_answers_with_a_note_and_is_remembered() {
    for format in Format::ALL {
        for (status, message) in [
            ("400 x", "registry.ollama.ai/library/gemma:2b does not support tools"),
            (
                "400 x",
                "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
            ),
            ("404 x", "No endpoints found that support tool use. To learn more, visit the guide"),
            ("500 x", "tools param requires --jinja flag"),
        ] {
            let refuses = move |body: &Value| {
                if has_tools(body) { refuse(status, message) } else { answer(format) }
            };
            let (server, vendor) = stage(format, refuses).await;
            for requests in [2, 3] {
                let result = run_step(&vendor, request("m", "Hello")).await;
                assert_eq!(
                    (result.text().as_str(), result.stop()),
                    ("Whole.", StopReason::Done),
                    "{format:?}"
                );
                assert_eq!(result.notes, [StepNote::ToolsRefused], "{format:?}");
                assert_eq!(server.bodies().len(), requests, "{format:?}: it is remembered");
            }
            assert!(server.bodies()[2].to_string().contains("No tools can be called"), "{format:?}");
        }
    }
}

/// Builds the ways in which servers refuse a request that they have accepted with 200.
fn late_refusals(format: Format, message: &str) -> Vec<Vec<u8>> {
    let stream = |frames: &str| response("200 OK", "text/event-stream", frames);
    let error = json!({"error": {"message": message, "type": "invalid_request_error"}});
    let mut refusals = vec![
        response("200 OK", "application/json", &error.to_string()),
        response("200 OK", "application/json", &json!({ "error": message }).to_string()),
    ];
    match format {
        Format::Responses => {
            let echo = json!({"status": "in_progress", "tools": [{"name": "read", "description": "x"}]});
            let failed = json!({"status": "failed", "error": {"code": "server_error", "message": message}});
            let created = json!({"type": "response.created", "response": echo});
            let failed = json!({"type": "response.failed", "response": failed});
            refusals.push(stream(&format!("data: {created}\n\ndata: {failed}\n\n")));
            refusals.push(stream(&format!("data: {}\n\n", json!({"type": "error", "message": message}))));
        }
        Format::Anthropic => {
            let error = json!({"type": "error", "error": error["error"]});
            refusals.push(stream(&format!("event: error\ndata: {error}\n\n")));
        }
        Format::ChatCompletions | Format::Gemini => {
            refusals.push(stream(&format!("event: error\ndata: {error}\n\n")));
            refusals.push(stream(&format!(": keep-alive\n\ndata: {error}\n\ndata: [DONE]\n\n")));
        }
    }
    refusals
}

#[tokio::test]
async fn refusal_inside_an_accepted_response_is_adapted() {
    for format in Format::ALL {
        let message = "gemma does not support tools";
        for way in 0..late_refusals(format, message).len() {
            let refuses = move |body: &Value| {
                if has_tools(body) { late_refusals(format, message).swap_remove(way) } else { answer(format) }
            };
            let (server, vendor) = stage(format, refuses).await;
            for requests in [2, 3] {
                let result = run_step(&vendor, request("m", "Hello")).await;
                assert_eq!(result.text(), "Whole.", "{format:?} {way}: {:?}", result.error);
                assert_eq!(result.notes, [StepNote::ToolsRefused], "{format:?} {way}");
                assert_eq!(server.bodies().len(), requests, "{format:?} {way}: it is remembered");
            }
        }
    }
}

#[tokio::test]
async fn error_inside_an_accepted_response_is_asked_once() {
    for format in Format::ALL {
        for way in 0..late_refusals(format, "").len() {
            let fails = move |_: &Value| late_refusals(format, "the engine is not healthy").swap_remove(way);
            let (server, vendor) = stage(format, fails).await;
            let result = run_step(&vendor, request("m", "Hello")).await;
            let error = result.error.expect("an error").to_string();
            assert!(error.contains("the engine is not healthy"), "{format:?} {way}: {error}");
            assert_eq!(server.bodies().len(), 1, "{format:?} {way}");
        }
    }
}

#[tokio::test]
async fn a_key_that_is_a_usual_word_does_not_hide_a_refusal() {
    for key in ["x", "t", "tools", "support"] {
        let format = Format::ChatCompletions;
        let refuses = move |body: &Value| {
            if has_tools(body) { refuse("400 x", "gemma does not support tools") } else { answer(format) }
        };
        let server = Server::start(refuses).await;
        let config = VendorConfig {
            key: Some(Secret::new(key)),
            base_url: Some(server.url.clone()),
            ..VendorConfig::default()
        };
        let result = run_step(&Vendor::new(format, &config).unwrap(), request("m", "Hello")).await;
        assert_eq!(result.text(), "Whole.", "{key}");
    }
}

#[tokio::test]
async fn tool_whose_schema_is_refused_is_left_out_by_name() {
    for format in Format::ALL {
        let refuses = move |body: &Value| {
            if body.to_string().contains("registry__note") {
                refuse("400 x", "Invalid schema for function 'registry__note': it is odd")
            } else {
                answer(format)
            }
        };
        let (server, vendor) = stage(format, refuses).await;
        let mut asked = request("m", "Hello");
        let (name, schema) = ("registry__note".to_owned(), r#"{"type":"object"}"#.to_owned());
        asked.tools.push(ToolSpec { name, description: "Notes.".to_owned(), schema });
        let result = run_step(&vendor, asked).await;
        assert_eq!(result.text(), "Whole.", "{format:?}");
        assert_eq!(result.notes, [StepNote::ToolLeftOut("registry__note".to_owned())], "{format:?}");
        assert!(has_tools(&server.bodies()[1]), "{format:?}: the others are offered");
    }
}

#[tokio::test]
async fn system_message_that_is_refused_goes_with_the_question() {
    let refuses = |body: &Value| {
        if body["messages"][0]["role"] == "system" {
            refuse("400 x", "System role not supported")
        } else {
            answer(Format::ChatCompletions)
        }
    };
    let (server, vendor) = stage(Format::ChatCompletions, refuses).await;
    assert_eq!(run_step(&vendor, request("m", "Hello")).await.text(), "Whole.");
    let messages = &server.bodies()[1]["messages"];
    assert_eq!(*messages, json!([{"role": "user", "content": "Answer.\n\nHello"}]));
}

#[tokio::test]
async fn output_that_is_too_much_is_reduced_to_what_the_server_names() {
    for format in Format::ALL {
        let sent = move |body: &Value| match format {
            Format::Anthropic | Format::ChatCompletions => body["max_tokens"].as_u64(),
            Format::Gemini => body["generationConfig"]["maxOutputTokens"].as_u64(),
            Format::Responses => body["max_output_tokens"].as_u64(),
        };
        for (message, most) in [
            ("max_tokens must be at most 4096", 4096),
            (
                "max_tokens is too large: 8192. This model's maximum context length is 4096 tokens and your request has \
                 1500 input tokens",
                2580,
            ),
        ] {
            let refuses = move |body: &Value| {
                if sent(body) > Some(most) { refuse("400 x", message) } else { answer(format) }
            };
            let (server, vendor) = stage(format, refuses).await;
            assert_eq!(run_step(&vendor, request("m", "Hello")).await.text(), "Whole.", "{format:?}");
            assert_eq!(sent(&server.bodies()[1]), Some(most), "{format:?}");
        }
        let refuses = |_: &Value| refuse("400 x", "prompt is too long: 5000 tokens > 4096 maximum");
        let (server, vendor) = stage(format, refuses).await;
        assert_eq!(run_step(&vendor, request("m", "Hello")).await.error, Some(StepError::TooLong));
        assert_eq!(server.bodies().len(), 1, "{format:?}: less output does not help");
    }
}

#[tokio::test]
async fn odd_schemas_are_reshaped_and_names_come_back() {
    let call = json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "delta": {"tool_calls": [{"index": 0,
        "id": "a", "function": {"name": "odd", "arguments": "{\"_filter\":1}"}}]}}]});
    let respond = move |_: &Value| response("200 OK", "text/event-stream", &format!("data: {call}\n\n"));
    let (server, vendor) = stage(Format::ChatCompletions, respond).await;
    let mut asked = request("m", "Hello");
    let odd =
        json!({"anyOf": [{"properties": {"$filter": {"type": "array"}}}, {"type": "object"}]}).to_string();
    let tool = |name: &str, schema: &str| ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        schema: schema.to_owned(),
    };
    asked.tools = vec![tool("odd", &odd), tool("broken", "{")];
    let result = run_step(&vendor, asked).await;
    let sent = &server.bodies()[0]["tools"];
    let expected = json!({"type": "object", "properties": {"_filter": {"type": "array", "items": {}}}});
    assert_eq!((&sent[0]["function"]["parameters"], sent.as_array().unwrap().len()), (&expected, 1));
    assert_eq!(result.calls()[0].arguments, r#"{"$filter":1}"#);
    assert_eq!(result.notes, [StepNote::ToolLeftOut("broken".to_owned())]);
}

#[tokio::test]
async fn streams_of_another_type_and_compression_are_read() {
    for format in Format::ALL {
        let as_json = move |_: &Value| {
            let text = String::from_utf8(answer(format)).unwrap();
            text.replace("text/event-stream", "application/json").into_bytes()
        };
        let (_server, vendor) = stage(format, as_json).await;
        assert_eq!(run_step(&vendor, request("m", "Hello")).await.text(), "Whole.", "{format:?}");
        let compressed = move |_: &Value| {
            let text = String::from_utf8(answer(format)).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(body.as_bytes()).unwrap();
            let mut bytes = format!("{head}\r\ncontent-encoding: gzip\r\n\r\n").into_bytes();
            bytes.extend(encoder.finish().unwrap());
            bytes
        };
        let (_server, vendor) = stage(format, compressed).await;
        assert_eq!(run_step(&vendor, request("m", "Hello")).await.text(), "Whole.", "{format:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn first_output_is_waited_for_longer_than_later_ones() {
    for format in Format::ALL {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let first_byte = Duration::from_secs(600);
        let vendor = vendor(format, &url, Timeouts { first_byte, ..Timeouts::default() });
        let mut step = vendor.step(request("m", "Hello"));
        let begun = tokio::time::Instant::now();
        let Some(Err(error)) = step.next().await else { panic!("{format:?}") };
        assert!(matches!(error, StepError::TimedOut { had_begun: false, .. }), "{format:?}: {error:?}");
        assert_eq!(begun.elapsed().as_secs(), 600, "{format:?}");
        drop(listener);
    }
}
