//! Answers as tasks.

use e2e::{Say, poll};
use serde_json::{Value, json};

use crate::stage::{McpStage, expect_error, result_of, stateless_request};

/// Calls a method as a client that can poll tasks.
fn call_with_tasks(stage: &McpStage, method: &str, mut params: Value) -> Value {
    let capabilities = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    result_of(&stage.send(stateless_request(&stage.account.key, method, params)))
}

fn ask_task(stage: &McpStage) -> Value {
    stage.vendor.add_script([Say::from_text("Begun. "), Say::Hold, Say::from_text("Ended.")]);
    let task =
        call_with_tasks(stage, "tools/call", json!({ "name": "ask", "arguments": { "question": "Hello" } }));
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")));
    assert!(task["ttlMs"].is_null() && task["pollIntervalMs"].is_u64() && task["createdAt"].is_string());
    stage.vendor.wait_for_holds(1);
    json!({ "taskId": task["taskId"] })
}

#[test]
fn question_becomes_task_that_is_polled() {
    let mut stage = McpStage::start();
    let task = ask_task(&stage);
    let working = call_with_tasks(&stage, "tasks/get", task.clone());
    assert_eq!((&working["resultType"], &working["status"]), (&json!("complete"), &json!("working")));
    // Nothing waits for an answer here.
    assert_eq!(call_with_tasks(&stage, "tasks/update", task.clone())["resultType"], "complete");
    stage.service.terminate();
    stage.script_text("Begun. Ended.");
    stage.service.restart();
    let done = poll::wait_until("the task is completed", || {
        let task = call_with_tasks(&stage, "tasks/get", task.clone());
        (task["status"] == "completed").then_some(task)
    });
    assert_eq!(done["result"]["structuredContent"]["answer"], "Begun. Ended.");
    assert_eq!(done["result"]["isError"], false);
}

#[test]
fn cancelled_task_stops_answer() {
    let stage = McpStage::start();
    let task = ask_task(&stage);
    call_with_tasks(&stage, "tasks/cancel", task.clone());
    let cancelled = call_with_tasks(&stage, "tasks/get", task);
    assert_eq!(cancelled["status"], "cancelled");
    assert!(cancelled.get("result").is_none());
}

#[test]
fn tasks_need_their_extension() {
    let stage = McpStage::start();
    let task = ask_task(&stage);
    let request = stateless_request(&stage.account.key, "tasks/get", task);
    let refused = expect_error(&stage.send(request), 400, -32021);
    let required = &refused["error"]["data"]["requiredCapabilities"];
    assert_eq!(required, &json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } }));
    stage.vendor.release_hold();
    let unknown = json!({ "taskId": "3b9f2c1e-5d47-4f6a-8e0b-7c6d5e4f3a21", "_meta": {
        "io.modelcontextprotocol/clientCapabilities": { "extensions": { "io.modelcontextprotocol/tasks": {} } } } });
    let request = stateless_request(&stage.account.key, "tasks/get", unknown);
    expect_error(&stage.send(request), 200, -32602);
}
