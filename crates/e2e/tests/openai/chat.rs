//! Completions by an agent, whole and as streams.

use e2e::{Expect, Say, TestAccountOptions};
use serde_json::{Value, json};

use crate::stage::{COMPLETIONS, OpenAiStage, content_of, expect_error, joined_deltas};

#[test]
fn completion_is_answer_of_conversation() {
    let stage = OpenAiStage::with_vendor();
    stage.vendor().add_script([Say::Reasoning("Let me see.".to_owned()), Say::from_text("On the 5th.")]);
    let body = json!({"model": "stand-in", "messages": [
        {"role": "system", "content": "Answer like a pirate."},
        {"role": "user", "content": [{"type": "text", "text": "When is the rent due?"}]}],
        "temperature": 0.2, "max_tokens": 5});
    let response = stage.post_completion(&body).expect_status(200);
    let completion = response.json();
    assert_eq!(completion["object"], "chat.completion");
    assert_eq!(completion["model"], "stand-in");
    assert!(completion["id"].as_str().is_some_and(|id| id.starts_with("chatcmpl-")));
    let choice = &completion["choices"][0];
    assert_eq!((content_of(&completion), &choice["finish_reason"]), ("On the 5th.", &json!("stop")));
    assert_eq!(choice["message"]["reasoning_content"], "Let me see.");
    let usage = &completion["usage"];
    assert_eq!((&usage["prompt_tokens"], &usage["total_tokens"]), (&json!(100), &json!(120)));
    assert!(usage["credits"].as_u64().is_some_and(|credits| credits > 0), "{usage}");
    assert_eq!(response.header("x-causerie-ignored"), Some("max_tokens, temperature"));
    // It is a conversation like any other, and costs what the usage says.
    let chats = stage.list_chats();
    assert_eq!(response.header("x-causerie-conversation"), Some(chats[0].as_str()));
    assert_eq!(stage.chat_texts(&chats[0]), ["When is the rent due?", "On the 5th."]);
    let (balance, reserved) = stage.service.show_credits(&stage.account);
    assert_eq!((10_000 - balance, reserved), (usage["credits"].as_i64().expect("a number"), 0));
    let request = &stage.vendor().request_bodies()[0];
    let instructions = request["messages"][0]["content"].as_str().expect("instructions");
    assert!(instructions.contains("Answer like a pirate."), "beneath those of the agent");
}

#[test]
fn stream_begins_with_role_and_ends_done() {
    let stage = OpenAiStage::with_vendor();
    stage.vendor().add_script([
        Say::Hold,
        Say::Reasoning("Let me".to_owned()),
        Say::Reasoning(" see.".to_owned()),
        Say::from_text("On the"),
        Say::from_text(" 5th."),
    ]);
    let body = json!({"model": "stand-in", "stream": true, "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": "When is the rent due?"}]});
    let mut stream = stage.open_stream(&body);
    let first = stream.next_chunk();
    assert_eq!(first["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    assert_eq!((&first["object"], &first["usage"]), (&json!("chat.completion.chunk"), &Value::Null));
    stage.vendor().wait_for_holds(1);
    stage.vendor().release_hold();
    let chunks = stream.read_chunks();
    assert_eq!(joined_deltas(&chunks, "content"), "On the 5th.");
    assert_eq!(joined_deltas(&chunks, "reasoning_content"), "Let me see.");
    assert!(chunks.iter().all(|chunk| chunk["id"] == first["id"] && chunk.get("usage").is_some()));
    let [.., finish, usage] = &chunks[..] else { unreachable!("{chunks:?}") };
    assert_eq!(finish["choices"][0]["finish_reason"], "stop");
    assert_eq!((&usage["choices"], &usage["usage"]["total_tokens"]), (&json!([]), &json!(120)));
    // Without include_usage no chunk has a usage.
    stage.script_text("Yes.");
    let body = json!({"stream": true, "messages": [{"role": "user", "content": "Really?"}]});
    let chunks = stage.open_stream(&body).read_chunks();
    assert!(chunks.iter().all(|chunk| chunk.get("usage").is_none()), "{chunks:?}");
    assert_eq!(joined_deltas(&chunks, "content"), "Yes.");
}

#[test]
fn reader_cites_by_links() {
    let stage = OpenAiStage::with_reader();
    let lease = b"The lease.\n\nThe rent is due on the fifth day of each month.\n";
    stage.api().upload_file("lease.txt", lease).expect_status(201);
    let messages = json!([{"role": "user", "content": "When is the rent due?"}]);
    let body = json!({"model": "reader", "stream": true, "messages": messages});
    let chunks = stage.open_stream(&body).read_chunks();
    let content = joined_deltas(&chunks, "content");
    assert!(content.contains("fifth day"), "{content}");
    let link = format!("](http://{}/files/uploads/lease.txt?view", stage.service.address());
    assert!(content.contains(&link), "{content}");
    let annotations = chunks.iter().find_map(|chunk| chunk["choices"][0]["delta"]["annotations"].as_array());
    let citation = &annotations.expect("citations")[0]["url_citation"];
    let place = |field: &str| usize::try_from(citation[field].as_u64().expect("a place")).expect("a size");
    let cited: String =
        content.chars().skip(place("start_index")).take(place("end_index") - place("start_index")).collect();
    assert_eq!(cited, format!("[1]({})", citation["url"].as_str().expect("a URL")));
    assert!(joined_deltas(&chunks, "reasoning_content").contains("Tool: "), "{chunks:?}");
}

#[test]
fn wrong_requests_are_refused_clearly() {
    let stage = OpenAiStage::with_reader();
    let ask = |more: Value| {
        let mut body = json!({"messages": [{"role": "user", "content": "Hello"}]});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        stage.post_completion(&body)
    };
    let unknown = expect_error(&ask(json!({"model": "gpt-none"})), 404, Some("model_not_found"));
    assert_eq!(unknown["param"], "model");
    expect_error(&ask(json!({"model": "agent/none"})), 404, Some("model_not_found"));
    expect_error(&ask(json!({"model": "plain/none"})), 404, Some("model_not_found"));
    let forced =
        json!({"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "required"});
    assert_eq!(expect_error(&ask(forced), 400, None)["param"], "tool_choice");
    assert_eq!(expect_error(&ask(json!({"n": 2})), 400, None)["param"], "n");
    let remote = json!([{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]}]);
    assert_eq!(expect_error(&ask(json!({"messages": remote})), 400, None)["param"], "messages[0]");
    assert_eq!(expect_error(&ask(json!({"messages": []})), 400, None)["param"], "messages");
    for body in [
        "",
        "[]",
        "{\"messages\": 5}",
        "{\"messages\": [[\"user\", \"a\"]]}",
        "{\"messages\": []} x",
        "{\"messages\": [{\"role\": \"user\", \"content\": {}}]}",
    ] {
        let refused = stage.request("POST", COMPLETIONS).with_body(body).send(stage.service.address());
        expect_error(&refused, 400, None);
    }
    let deep = format!("{{\"messages\": [], \"tool_choice\": {}}}", "[".repeat(100_000));
    let refused = stage.request("POST", COMPLETIONS).with_body(deep).send(stage.service.address());
    expect_error(&refused, 400, None);
    let large = vec![b' '; (64 << 20) + 1];
    let refused = stage.request("POST", COMPLETIONS).with_body(large).send(stage.service.address());
    expect_error(&refused, 413, Some("too_large"));
    assert!(stage.list_chats().is_empty(), "nothing was asked");
}

#[test]
fn missing_credits_are_quota_errors() {
    let stage = OpenAiStage::with_vendor();
    let poor = TestAccountOptions { credits: 0, ..TestAccountOptions::default() };
    let poor = stage.service.create_account_with(&poor);
    for model in ["stand-in", "plain/stand-in"] {
        let body = json!({"model": model, "messages": [{"role": "user", "content": "Hello"}]});
        let request = e2e::HttpRequest::new("POST", COMPLETIONS)
            .with_header("authorization", &format!("Bearer {}", poor.key))
            .with_body(body.to_string());
        let refused = request.send(stage.service.address());
        let error = expect_error(&refused, 429, Some("insufficient_quota"));
        assert_eq!(error["type"], "insufficient_quota");
        assert_eq!(refused.header("x-should-retry"), Some("false"));
    }
}

#[test]
fn failed_answer_is_error() {
    let stage = OpenAiStage::with_vendor();
    let messages = json!([{"role": "user", "content": "Hello"}]);
    stage.vendor().add_script([Say::Refuse(400)]);
    let refused = stage.post_completion(&json!({"messages": messages}));
    expect_error(&refused, 500, Some("model_rejected"));
    assert_eq!(refused.header("x-should-retry"), Some("false"));
    stage.vendor().add_script([Say::Refuse(400)]);
    let mut stream = stage.open_stream(&json!({"messages": messages, "stream": true}));
    let mut last = Value::Null;
    while let Some(data) = stream.next_data() {
        last = serde_json::from_str(&data).expect("JSON");
    }
    assert_eq!(last["error"]["code"], "model_rejected", "the last frame is the error");
}
