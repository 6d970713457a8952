//! Tests every format with the fake vendor: the same promises and faults, in one table.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod connections;
mod faults;
mod fixtures;
mod images;
mod odd_streams;
mod pauses;
mod refusals;
mod replay;
mod stage;

use std::time::Duration;

use domain::step::{RefusedPart, StepError, StepEvent, StopReason};
use futures_util::StreamExt;
use models::{RequestOptions, Secret, VendorClient, VendorConfig, WireFormat};
use serde_json::json;
use stage::{KEY, VendorStepResult, question_request, run_step, script_question, start_stage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const HELLO: &str = "The stand-in says a few words.";

#[tokio::test]
async fn text_and_usage_with_header_key() {
    for format in WireFormat::ALL {
        let (standin, vendor) = start_stage(format).await;
        let result = run_step(&vendor, question_request("standin", "Hello")).await;
        assert_eq!(
            (result.whole_text().as_str(), result.stop_reason()),
            (HELLO, StopReason::Done),
            "{format:?}"
        );
        let usage = result.finished.unwrap().1.unwrap();
        assert!(usage.input_tokens > 0 && usage.output_tokens > 0 && !usage.estimated, "{format:?}");
        let requests = standin
            .wait_for_requests(|seen| {
                seen.iter().all(|seen| seen.outcome == test_support::RequestOutcome::Done)
            })
            .await;
        assert!(requests[0].authorization.as_deref().is_some_and(|key| key.ends_with(KEY)), "{format:?}");
        assert!(!format!("{}{}", requests[0].body, requests[0].path).contains(KEY), "{format:?}");
        assert!(!format!("{vendor:?}").contains(KEY));
    }
}

#[tokio::test]
async fn repeated_key_is_redacted() {
    for format in WireFormat::ALL {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let locked = test_support::serve_with(
            listener,
            test_support::FakeVendorSettings { key: Some(KEY.to_owned()) },
        )
        .unwrap();
        let right = stage::vendor_client(format, &locked.root_url(), models::StepTimeouts::default());
        assert_eq!(
            run_step(&right, question_request("standin", "Hello")).await.whole_text(),
            HELLO,
            "{format:?}"
        );
        let config = VendorConfig {
            key: Some(Secret::new("sk-wrong")),
            base_url: Some(locked.root_url()),
            ..VendorConfig::default()
        };
        let wrong =
            run_step(&VendorClient::new(format, &config).unwrap(), question_request("standin", "Hello"))
                .await;
        assert!(matches!(wrong.error, Some(StepError::Rejected { .. })), "{format:?}");
        let refused =
            script_question(&format!(r#"{{"steps":[{{"status":400,"message":"bad key {KEY}"}}]}}"#));
        let result = run_step(&right, question_request("standin", &refused)).await;
        let reason = "400: bad key [secret]".to_owned();
        assert_eq!(
            result.error,
            Some(StepError::Rejected { refused: RefusedPart::Request, status: Some(400), reason })
        );
        let broken = script_question(&format!(
            r#"{{"steps":[{{"actions":[{{"error":{{"message":"key {KEY}","code":null}}}}]}}]}}"#
        ));
        let result = run_step(&right, question_request("standin", &broken)).await;
        let error = format!("{:?}", result.error);
        assert!(error.contains("[secret]") && !error.contains(KEY), "{format:?}: {error}");
    }
}

#[tokio::test]
async fn effort_sent_in_vendor_terms() {
    for format in WireFormat::ALL {
        let (standin, vendor) = start_stage(format).await;
        let mut sent = Vec::new();
        for effort in ["LOW", "MEDIUM", "HIGH"] {
            let mut request = question_request("standin", "Hello");
            effort.clone_into(&mut request.settings[0].1);
            let result = run_step(&vendor, request).await;
            assert_eq!(result.whole_text(), HELLO, "{format:?}");
            let body = standin.requests().last().unwrap().body.clone();
            sent.push(match format {
                WireFormat::Anthropic => body["output_config"]["effort"].clone(),
                WireFormat::ChatCompletions => body["reasoning_effort"].clone(),
                WireFormat::Gemini => body["generationConfig"]["thinkingConfig"]["thinkingLevel"].clone(),
                WireFormat::Responses => body["reasoning"]["effort"].clone(),
            });
        }
        let sent: Vec<_> = sent.iter().map(|effort| effort.as_str().unwrap().to_lowercase()).collect();
        assert_eq!(sent, ["low", "medium", "high"], "{format:?}");
    }
}

#[tokio::test]
async fn operator_options_enter_request() {
    for format in WireFormat::ALL {
        let standin = test_support::start_server().await.unwrap();
        let options = RequestOptions::parse(
            r#"{"*": {"metadata": {"a": 1}, "stream": false}, "standin": {"metadata": {"b": 2}, "model": "x"}}"#,
        );
        let config = VendorConfig {
            base_url: Some(standin.root_url()),
            options: options.unwrap(),
            ..VendorConfig::default()
        };
        let result =
            run_step(&VendorClient::new(format, &config).unwrap(), question_request("standin", "Hello"))
                .await;
        assert_eq!(result.whole_text(), HELLO, "{format:?}: {result:?}");
        assert_eq!(standin.requests()[0].body["metadata"], json!({"a": 1, "b": 2}), "{format:?}");
        assert_eq!(standin.requests()[0].authorization, None, "no key is sent where none is set");
    }
}

#[tokio::test]
async fn the_models_are_listed() {
    for format in WireFormat::ALL {
        let (_standin, vendor) = start_stage(format).await;
        let models = vendor.list_models().await.unwrap();
        assert_eq!(models[0].name, "standin", "{format:?}");
        let expected = match format {
            WireFormat::ChatCompletions | WireFormat::Responses => None,
            WireFormat::Anthropic | WireFormat::Gemini => Some(100_000),
        };
        assert_eq!(models[0].context_tokens, expected, "{format:?}");
    }
}

#[tokio::test]
async fn dropped_step_ends_at_server() {
    for format in WireFormat::ALL {
        let (standin, vendor) = start_stage(format).await;
        drop(vendor.stream_step(question_request("standin", "Hello")));
        assert!(standin.requests().is_empty(), "nothing is asked before the stream is polled");
        let mut events = vendor.stream_step(question_request("stall", "Hello"));
        assert!(matches!(events.next().await, Some(Ok(StepEvent::Text(_)))));
        drop(events);
        let seen =
            standin.wait_for_requests(|seen| seen[0].outcome != test_support::RequestOutcome::Open).await;
        assert_eq!(seen[0].outcome, test_support::RequestOutcome::Closed, "{format:?}");
    }
}

#[tokio::test]
async fn stamped_tokens_come_one_by_one() {
    for format in WireFormat::ALL {
        let (_standin, vendor) = start_stage(format).await;
        let result = run_step(&vendor, question_request("text-20x1", "Hello")).await;
        assert_eq!(
            (result.whole_text().split_whitespace().count(), result.stop_reason()),
            (20, StopReason::Done),
            "{format:?}"
        );
    }
}

/// Answers one request with these bytes.
async fn serve_raw(answer: impl Into<String>) -> String {
    let answer = answer.into();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 64 * 1024];
        let _read = socket.read(&mut request).await;
        let _written = socket.write_all(answer.as_bytes()).await;
    });
    format!("http://{address}")
}

#[tokio::test]
async fn document_or_no_server_is_temporary() {
    for format in WireFormat::ALL {
        let max_wait = models::StepTimeouts::default();
        let no_stream =
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{\"odd\":1}";
        let result = run_step(
            &stage::vendor_client(format, &serve_raw(no_stream).await, max_wait),
            question_request("m", "Hello"),
        )
        .await;
        assert!(is_unavailable(&result), "{format:?}: {result:?}");
        let nobody = run_step(
            &stage::vendor_client(format, "http://127.0.0.1:1", max_wait),
            question_request("m", "Hello"),
        )
        .await;
        assert!(is_unavailable(&nobody) && !format!("{nobody:?}").contains("127.0.0.1"), "{nobody:?}");
        let moved = "HTTP/1.1 307 x\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
        let result = run_step(
            &stage::vendor_client(format, &serve_raw(moved).await, max_wait),
            question_request("m", "Hello"),
        )
        .await;
        assert!(matches!(result.error, Some(StepError::Rejected { .. })), "{format:?}: {result:?}");
    }
}

/// Returns a response with a document.
fn json_response(status: &str, body: &serde_json::Value) -> String {
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n");
    head + &body.to_string()
}

#[tokio::test]
async fn list_models_reads_four_hundred() {
    let models: Vec<_> = (0..400).map(|number| json!({"id": format!("maker/m{number}")})).collect();
    let server = serve_raw(json_response("200 OK", &json!({"object": "list", "data": models}))).await;
    let vendor = stage::vendor_client(WireFormat::ChatCompletions, &server, models::StepTimeouts::default());
    let listed = vendor.list_models().await.unwrap();
    assert_eq!((listed.len(), listed[399].name.as_str()), (400, "maker/m399"));
}

#[tokio::test]
async fn error_reasons_omit_conversation_texts() {
    let said = "Patient Jan Novák, born 1970, takes lithium. What may he eat?";
    for format in WireFormat::ALL {
        let echo = json!({"error": {"message": format!("input_value='{said}' is too odd")}});
        let server = serve_raw(json_response("400 Bad Request", &echo)).await;
        let result = run_step(
            &stage::vendor_client(format, &server, models::StepTimeouts::default()),
            question_request("m", said),
        )
        .await;
        let Some(StepError::Rejected { reason, .. }) = &result.error else {
            panic!("{format:?}: {result:?}")
        };
        assert_eq!(reason, "400: input_value='…' is too odd", "{format:?}");
    }
}

fn is_unavailable(result: &VendorStepResult) -> bool {
    matches!(result.error, Some(StepError::Unavailable { .. } | StepError::TimedOut { .. }))
}

fn retry_delay(result: &VendorStepResult) -> Option<Duration> {
    match result.error {
        Some(StepError::Unavailable { retry_after, .. }) => retry_after,
        _ => panic!("{result:?}"),
    }
}
