//! Tests servers that refuse something in a request: the request is adapted, and the adaptation is remembered.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::step::{StepError, StopReason, ToolSpec};
use domain::step_note::StepNote;
use futures_util::StreamExt;
use models::{Secret, StepTimeouts, VendorClient, VendorConfig, WireFormat};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::stage::{question_request, run_step, vendor_client};

/// A server that answers each request by a function of its body.
struct RespondingServer {
    url: String,
    bodies: Arc<Mutex<Vec<Value>>>,
}

impl RespondingServer {
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

    fn request_bodies(&self) -> Vec<Value> {
        self.bodies.lock().unwrap().clone()
    }
}

fn http_response(status: &str, kind: &str, body: &str) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n");
    (head + body).into_bytes()
}

fn error_response(status: &str, message: &str) -> Vec<u8> {
    http_response(status, "application/json", &json!({"error": {"message": message}}).to_string())
}

/// Says "Whole." in this format.
fn whole_answer(format: WireFormat) -> Vec<u8> {
    let frames = match format {
        WireFormat::Anthropic => vec![
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Whole."}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
            json!({"type": "message_stop"}),
        ],
        WireFormat::ChatCompletions => {
            vec![json!({"choices": [{"index": 0, "delta": {"content": "Whole."}, "finish_reason": "stop"}]})]
        }
        WireFormat::Gemini => {
            vec![
                json!({"candidates": [{"content": {"parts": [{"text": "Whole."}]}, "finishReason": "STOP"}]}),
            ]
        }
        WireFormat::Responses => vec![
            json!({"type": "response.output_text.delta", "output_index": 0, "delta": "Whole."}),
            json!({"type": "response.completed", "response": {"status": "completed"}}),
        ],
    };
    let body: String = frames.iter().map(|frame| format!("data: {frame}\n\n")).collect();
    http_response("200 OK", "text/event-stream", &body)
}

async fn stage_server(
    format: WireFormat,
    respond: impl Fn(&Value) -> Vec<u8> + Send + 'static,
) -> (RespondingServer, VendorClient) {
    let server = RespondingServer::start(respond).await;
    let vendor = vendor_client(format, &server.url, StepTimeouts::default());
    (server, vendor)
}

fn has_tools(body: &Value) -> bool {
    body["tools"].as_array().is_some_and(|tools| !tools.is_empty())
}

#[tokio::test]
async fn toolless_model_answers_with_note() {
    for format in WireFormat::ALL {
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
                if has_tools(body) { error_response(status, message) } else { whole_answer(format) }
            };
            let (server, vendor) = stage_server(format, refuses).await;
            for requests in [2, 3] {
                let result = run_step(&vendor, question_request("m", "Hello")).await;
                assert_eq!(
                    (result.whole_text().as_str(), result.stop_reason()),
                    ("Whole.", StopReason::Done),
                    "{format:?}"
                );
                assert_eq!(result.notes, [StepNote::ToolsRefused], "{format:?}");
                assert_eq!(server.request_bodies().len(), requests, "{format:?}: it is remembered");
            }
            assert!(server.request_bodies()[2].to_string().contains("No tools can be called"), "{format:?}");
        }
    }
}

/// Builds the ways in which servers refuse a request that they have accepted with 200.
fn late_refusals(format: WireFormat, message: &str) -> Vec<Vec<u8>> {
    let stream = |frames: &str| http_response("200 OK", "text/event-stream", frames);
    let error = json!({"error": {"message": message, "type": "invalid_request_error"}});
    let mut refusals = vec![
        http_response("200 OK", "application/json", &error.to_string()),
        http_response("200 OK", "application/json", &json!({ "error": message }).to_string()),
    ];
    match format {
        WireFormat::Responses => {
            let echo = json!({"status": "in_progress", "tools": [{"name": "read", "description": "x"}]});
            let failed = json!({"status": "failed", "error": {"code": "server_error", "message": message}});
            let created = json!({"type": "response.created", "response": echo});
            let failed = json!({"type": "response.failed", "response": failed});
            refusals.push(stream(&format!("data: {created}\n\ndata: {failed}\n\n")));
            refusals.push(stream(&format!("data: {}\n\n", json!({"type": "error", "message": message}))));
        }
        WireFormat::Anthropic => {
            let error = json!({"type": "error", "error": error["error"]});
            refusals.push(stream(&format!("event: error\ndata: {error}\n\n")));
        }
        WireFormat::ChatCompletions | WireFormat::Gemini => {
            refusals.push(stream(&format!("event: error\ndata: {error}\n\n")));
            refusals.push(stream(&format!(": keep-alive\n\ndata: {error}\n\ndata: [DONE]\n\n")));
        }
    }
    refusals
}

#[tokio::test]
async fn refusal_in_accepted_response_adapted() {
    for format in WireFormat::ALL {
        let message = "gemma does not support tools";
        for way in 0..late_refusals(format, message).len() {
            let refuses = move |body: &Value| {
                if has_tools(body) {
                    late_refusals(format, message).swap_remove(way)
                } else {
                    whole_answer(format)
                }
            };
            let (server, vendor) = stage_server(format, refuses).await;
            for requests in [2, 3] {
                let result = run_step(&vendor, question_request("m", "Hello")).await;
                assert_eq!(result.whole_text(), "Whole.", "{format:?} {way}: {:?}", result.error);
                assert_eq!(result.notes, [StepNote::ToolsRefused], "{format:?} {way}");
                assert_eq!(server.request_bodies().len(), requests, "{format:?} {way}: it is remembered");
            }
        }
    }
}

#[tokio::test]
async fn error_in_accepted_response_asked_once() {
    for format in WireFormat::ALL {
        for way in 0..late_refusals(format, "").len() {
            let fails = move |_: &Value| late_refusals(format, "the engine is not healthy").swap_remove(way);
            let (server, vendor) = stage_server(format, fails).await;
            let result = run_step(&vendor, question_request("m", "Hello")).await;
            let error = result.error.expect("an error").to_string();
            assert!(error.contains("the engine is not healthy"), "{format:?} {way}: {error}");
            assert_eq!(server.request_bodies().len(), 1, "{format:?} {way}");
        }
    }
}

#[tokio::test]
async fn common_word_key_keeps_refusal() {
    for key in ["x", "t", "tools", "support"] {
        let format = WireFormat::ChatCompletions;
        let refuses = move |body: &Value| {
            if has_tools(body) {
                error_response("400 x", "gemma does not support tools")
            } else {
                whole_answer(format)
            }
        };
        let server = RespondingServer::start(refuses).await;
        let config = VendorConfig {
            key: Some(Secret::new(key)),
            base_url: Some(server.url.clone()),
            ..VendorConfig::default()
        };
        let result =
            run_step(&VendorClient::new(format, &config).unwrap(), question_request("m", "Hello")).await;
        assert_eq!(result.whole_text(), "Whole.", "{key}");
    }
}

#[tokio::test]
async fn refused_schema_drops_tool() {
    for format in WireFormat::ALL {
        let refuses = move |body: &Value| {
            if body.to_string().contains("registry__note") {
                error_response("400 x", "Invalid schema for function 'registry__note': it is odd")
            } else {
                whole_answer(format)
            }
        };
        let (server, vendor) = stage_server(format, refuses).await;
        let mut asked = question_request("m", "Hello");
        let (name, schema) = ("registry__note".to_owned(), r#"{"type":"object"}"#.to_owned());
        asked.tools.push(ToolSpec { name, description: "Notes.".to_owned(), schema });
        let result = run_step(&vendor, asked).await;
        assert_eq!(result.whole_text(), "Whole.", "{format:?}");
        assert_eq!(result.notes, [StepNote::ToolLeftOut("registry__note".to_owned())], "{format:?}");
        assert!(has_tools(&server.request_bodies()[1]), "{format:?}: the others are offered");
    }
}

#[tokio::test]
async fn refused_system_message_joins_question() {
    let refuses = |body: &Value| {
        if body["messages"][0]["role"] == "system" {
            error_response("400 x", "System role not supported")
        } else {
            whole_answer(WireFormat::ChatCompletions)
        }
    };
    let (server, vendor) = stage_server(WireFormat::ChatCompletions, refuses).await;
    assert_eq!(run_step(&vendor, question_request("m", "Hello")).await.whole_text(), "Whole.");
    let messages = &server.request_bodies()[1]["messages"];
    assert_eq!(*messages, json!([{"role": "user", "content": "Answer.\n\nHello"}]));
}

#[tokio::test]
async fn output_reduced_to_server_limit() {
    for format in WireFormat::ALL {
        let sent = move |body: &Value| match format {
            WireFormat::Anthropic | WireFormat::ChatCompletions => body["max_tokens"].as_u64(),
            WireFormat::Gemini => body["generationConfig"]["maxOutputTokens"].as_u64(),
            WireFormat::Responses => body["max_output_tokens"].as_u64(),
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
                if sent(body) > Some(most) { error_response("400 x", message) } else { whole_answer(format) }
            };
            let (server, vendor) = stage_server(format, refuses).await;
            assert_eq!(
                run_step(&vendor, question_request("m", "Hello")).await.whole_text(),
                "Whole.",
                "{format:?}"
            );
            assert_eq!(sent(&server.request_bodies()[1]), Some(most), "{format:?}");
        }
        let refuses = |_: &Value| error_response("400 x", "prompt is too long: 5000 tokens > 4096 maximum");
        let (server, vendor) = stage_server(format, refuses).await;
        assert_eq!(run_step(&vendor, question_request("m", "Hello")).await.error, Some(StepError::TooLong));
        assert_eq!(server.request_bodies().len(), 1, "{format:?}: less output does not help");
    }
}

#[tokio::test]
async fn odd_schema_names_are_restored() {
    let call = json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "delta": {"tool_calls": [{"index": 0,
        "id": "a", "function": {"name": "odd", "arguments": "{\"_filter\":1}"}}]}}]});
    let respond = move |_: &Value| http_response("200 OK", "text/event-stream", &format!("data: {call}\n\n"));
    let (server, vendor) = stage_server(WireFormat::ChatCompletions, respond).await;
    let mut asked = question_request("m", "Hello");
    let odd =
        json!({"anyOf": [{"properties": {"$filter": {"type": "array"}}}, {"type": "object"}]}).to_string();
    let tool = |name: &str, schema: &str| ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        schema: schema.to_owned(),
    };
    asked.tools = vec![tool("odd", &odd), tool("broken", "{")];
    let result = run_step(&vendor, asked).await;
    let sent = &server.request_bodies()[0]["tools"];
    let expected = json!({"type": "object", "properties": {"_filter": {"type": "array", "items": {}}}});
    assert_eq!((&sent[0]["function"]["parameters"], sent.as_array().unwrap().len()), (&expected, 1));
    assert_eq!(result.step_calls()[0].arguments, r#"{"$filter":1}"#);
    assert_eq!(result.notes, [StepNote::ToolLeftOut("broken".to_owned())]);
}

#[tokio::test]
async fn odd_type_and_compression_read() {
    for format in WireFormat::ALL {
        let as_json = move |_: &Value| {
            let text = String::from_utf8(whole_answer(format)).unwrap();
            text.replace("text/event-stream", "application/json").into_bytes()
        };
        let (_server, vendor) = stage_server(format, as_json).await;
        assert_eq!(
            run_step(&vendor, question_request("m", "Hello")).await.whole_text(),
            "Whole.",
            "{format:?}"
        );
        let compressed = move |_: &Value| {
            let text = String::from_utf8(whole_answer(format)).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(body.as_bytes()).unwrap();
            let mut bytes = format!("{head}\r\ncontent-encoding: gzip\r\n\r\n").into_bytes();
            bytes.extend(encoder.finish().unwrap());
            bytes
        };
        let (_server, vendor) = stage_server(format, compressed).await;
        assert_eq!(
            run_step(&vendor, question_request("m", "Hello")).await.whole_text(),
            "Whole.",
            "{format:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn first_output_waits_longer() {
    for format in WireFormat::ALL {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let first_byte = Duration::from_secs(600);
        let vendor = vendor_client(format, &url, StepTimeouts { first_byte, ..StepTimeouts::default() });
        let mut step = vendor.stream_step(question_request("m", "Hello"));
        let begun = tokio::time::Instant::now();
        let Some(Err(error)) = step.next().await else { panic!("{format:?}") };
        assert!(matches!(error, StepError::TimedOut { had_begun: false, .. }), "{format:?}: {error:?}");
        assert_eq!(begun.elapsed().as_secs(), 600, "{format:?}");
        drop(listener);
    }
}
