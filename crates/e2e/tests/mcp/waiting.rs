//! Waiting for answers: streams, progress, cancellation and restarts.

use e2e::{Expect, Say, poll};
use serde_json::{Value, json};

use crate::stage::{McpStage, MessageStream, handshake_request, stateless_request};

/// Scripts an answer that is held after its first words.
fn script_held_answer(stage: &McpStage) {
    stage.vendor.add_script([Say::from_text("Begun. "), Say::Hold, Say::from_text("Ended.")]);
}

fn ask_params(wait_seconds: u64) -> Value {
    json!({ "name": "ask", "arguments": { "question": "Hello", "wait_seconds": wait_seconds } })
}

fn wait_until_completed(stage: &McpStage) -> String {
    poll::wait_until("the answer is completed", || {
        let chat = stage.latest_chat();
        (chat["chat"]["status"] == "completed")
            .then(|| chat["messages"][1]["text"].as_str().unwrap_or_default().to_owned())
    })
}

#[test]
fn unfinished_answer_is_waited_for() {
    let stage = McpStage::start();
    script_held_answer(&stage);
    let begun = stage.tool_value("ask", json!({ "question": "Hello", "wait_seconds": 0 }));
    assert_eq!(begun["status"], "in_progress");
    let answer = json!({ "answer_id": begun["answer_id"], "wait_seconds": 0 });
    stage.vendor.wait_for_holds(1);
    assert_eq!(stage.tool_value("wait", answer)["status"], "in_progress");
    stage.vendor.release_hold();
    let ended = stage.tool_value("wait", json!({ "answer_id": begun["answer_id"] }));
    assert_eq!((&ended["status"], &ended["answer"]), (&json!("completed"), &json!("Begun. Ended.")));
}

#[test]
fn stop_keeps_text_so_far() {
    let stage = McpStage::start();
    script_held_answer(&stage);
    let begun = stage.tool_value("ask", json!({ "question": "Hello", "wait_seconds": 0 }));
    stage.vendor.wait_for_holds(1);
    let stopped = stage.tool_value("stop", json!({ "answer_id": begun["answer_id"] }));
    assert_eq!((&stopped["status"], &stopped["answer"]), (&json!("stopped"), &json!("Begun.")));
    let again = stage.tool_value("stop", json!({ "answer_id": begun["answer_id"] }));
    assert_eq!(again["status"], "stopped");
}

#[test]
fn progress_is_streamed_with_token() {
    let stage = McpStage::start();
    script_held_answer(&stage);
    let mut params = ask_params(50);
    params["_meta"]["progressToken"] = "token".into();
    let request = stateless_request(&stage.account.key, "tools/call", params);
    let mut stream = MessageStream::open(request, stage.service.address());
    let first = stream.next_message().expect("a notification");
    assert_eq!(
        (&first["method"], &first["params"]["progressToken"]),
        (&json!("notifications/progress"), &json!("token"))
    );
    stage.vendor.wait_for_holds(1);
    stage.vendor.release_hold();
    let mut messages = stream.read_messages();
    let last = messages.pop().expect("a result");
    assert_eq!(last["result"]["structuredContent"]["answer"], "Begun. Ended.");
    let mut progress = first["params"]["progress"].as_u64().expect("a number");
    for notification in messages {
        let next = notification["params"]["progress"].as_u64().expect("a number");
        assert!(next > progress && notification["params"]["message"].is_string(), "{notification}");
        progress = next;
    }
}

#[test]
fn without_token_only_result_is_streamed() {
    let stage = McpStage::start();
    script_held_answer(&stage);
    let request = stateless_request(&stage.account.key, "tools/call", ask_params(50));
    let mut stream = MessageStream::open(request, stage.service.address());
    stage.vendor.wait_for_holds(1);
    stage.vendor.release_hold();
    let messages = stream.read_messages();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(messages[0]["result"]["structuredContent"]["status"], "completed");
}

#[test]
fn closed_stream_cancels_stateless_question() {
    let stage = McpStage::start();
    script_held_answer(&stage);
    let request = stateless_request(&stage.account.key, "tools/call", ask_params(50));
    let stream = MessageStream::open(request, stage.service.address());
    stage.vendor.wait_for_holds(1);
    drop(stream);
    assert_eq!(wait_until_completed(&stage), "Begun. ");
}

#[test]
fn closed_stream_of_wait_leaves_answer() {
    let stage = McpStage::start();
    script_held_answer(&stage);
    let begun = stage.tool_value("ask", json!({ "question": "Hello", "wait_seconds": 0 }));
    stage.vendor.wait_for_holds(1);
    let params = json!({ "name": "wait", "arguments": { "answer_id": begun["answer_id"] } });
    let mut first = MessageStream::open(
        stateless_request(&stage.account.key, "tools/call", params.clone()),
        stage.service.address(),
    );
    let mut with_progress = params;
    with_progress["_meta"]["progressToken"] = 1.into();
    let request = stateless_request(&stage.account.key, "tools/call", with_progress);
    let mut second = MessageStream::open(request, stage.service.address());
    second.next_message().expect("a notification");
    drop(second);
    stage.vendor.release_hold();
    let last = first.read_messages().pop().expect("a result");
    assert_eq!(last["result"]["structuredContent"]["answer"], "Begun. Ended.");
}

#[test]
fn closed_stream_leaves_question_with_handshake() {
    let stage = McpStage::start();
    script_held_answer(&stage);
    let request = handshake_request(&stage.account.key, 7, "tools/call", ask_params(50));
    let stream = MessageStream::open(request, stage.service.address());
    stage.vendor.wait_for_holds(1);
    drop(stream);
    stage.vendor.release_hold();
    assert_eq!(wait_until_completed(&stage), "Begun. Ended.");
}

#[test]
fn notification_cancels_question_with_handshake() {
    let stage = McpStage::start();
    script_held_answer(&stage);
    let request = handshake_request(&stage.account.key, 7, "tools/call", ask_params(50));
    let mut stream = MessageStream::open(request, stage.service.address());
    stage.vendor.wait_for_holds(1);
    let cancel = |id: u64| {
        let params = json!({ "requestId": id, "reason": "enough" });
        let body = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        stage.send(stage.post(&body)).expect_status(202);
    };
    cancel(8);
    cancel(7);
    assert_eq!(stream.read_messages(), Vec::<Value>::new(), "a cancelled request has no response");
    assert_eq!(wait_until_completed(&stage), "Begun. ");
}

#[test]
fn restart_ends_wait_and_answer_continues() {
    let mut stage = McpStage::start();
    script_held_answer(&stage);
    let request = stateless_request(&stage.account.key, "tools/call", ask_params(50));
    let mut stream = MessageStream::open(request, stage.service.address());
    stage.vendor.wait_for_holds(1);
    stage.service.terminate();
    let last = stream.read_messages().pop().expect("a result");
    let value = &last["result"]["structuredContent"];
    assert_eq!(value["status"], "in_progress", "{last}");
    stage.script_text("Begun. Ended.");
    stage.service.restart();
    let ended = stage.tool_value("wait", json!({ "answer_id": value["answer_id"] }));
    assert_eq!((&ended["status"], &ended["answer"]), (&json!("completed"), &json!("Begun. Ended.")));
}
