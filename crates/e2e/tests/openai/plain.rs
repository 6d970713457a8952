//! Completions without an agent, and requests beside a conversation.

use e2e::{Expect, Say};
use serde_json::{Value, json};

use crate::stage::{OpenAiStage, content_of, expect_error, joined_deltas};

fn weather_tools() -> Value {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    json!([{"type": "function", "function": {"name": "weather", "description": "Tells it.", "parameters": parameters}}])
}

#[test]
fn tool_calls_are_the_clients() {
    let stage = OpenAiStage::with_vendor();
    let call = Say::Call { tool: "weather".to_owned(), arguments: json!({"city": "Brno"}) };
    stage.vendor().add_script([call.clone()]);
    let mut body = json!({"model": "plain/stand-in", "tools": weather_tools(), "tool_choice": "required",
        "response_format": {"type": "json_object"}, "stop": ["END"], "max_tokens": 50, "temperature": 0.5,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather?"}]});
    let completion = stage.post_completion(&body).expect_status(200).json();
    let choice = &completion["choices"][0];
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"]),
        (&json!("tool_calls"), &Value::Null)
    );
    let calls = choice["message"]["tool_calls"].clone();
    assert_eq!(calls[0]["function"], json!({"name": "weather", "arguments": "{\"city\":\"Brno\"}"}));
    let sent = stage.vendor().request_bodies().remove(0);
    assert_eq!((&sent["tool_choice"], &sent["stop"]), (&json!("required"), &json!(["END"])));
    assert_eq!(sent["response_format"], json!({"type": "json_object"}));
    assert_eq!((&sent["max_tokens"], &sent["temperature"]), (&json!(50), &json!(0.5)));
    assert_eq!(sent["messages"][0], json!({"role": "system", "content": "Be brief."}));
    assert_eq!(sent["tools"][0]["function"]["name"], "weather");
    // The client runs the tool, and sends its result.
    let id = calls[0]["id"].clone();
    let messages = body["messages"].as_array_mut().expect("messages");
    messages.push(json!({"role": "assistant", "content": null, "tool_calls": calls}));
    messages.push(json!({"role": "tool", "tool_call_id": id, "content": "Rain"}));
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    stage.vendor().add_script([Say::from_text("It "), Say::from_text("rains."), call]);
    let chunks = stage.open_stream(&body).read_chunks();
    assert_eq!(joined_deltas(&chunks, "content"), "It rains.");
    let called = chunks.iter().find_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].as_array());
    let called = &called.expect("a call")[0];
    assert_eq!((&called["index"], &called["function"]["name"]), (&json!(0), &json!("weather")));
    let usage = &chunks.last().expect("chunks")["usage"];
    assert_eq!(usage["total_tokens"], 120);
    let sent = stage.vendor().request_bodies().remove(1);
    assert_eq!(sent["messages"][3], json!({"role": "tool", "tool_call_id": id, "content": "Rain"}));
    // No conversation, no machine, but credits.
    assert!(stage.list_chats().is_empty());
    assert_eq!(stage.api().get_vm().expect_status(200).json()["status"], "STOPPED");
    let (balance, reserved) = stage.service.show_credits(&stage.account);
    assert_eq!((10_000 - balance, reserved), (2 * usage["credits"].as_i64().expect("credits"), 0));
}

#[test]
fn failed_plain_step_costs_nothing() {
    let stage = OpenAiStage::with_vendor();
    let body = json!({"model": "plain/stand-in", "messages": [{"role": "user", "content": "Hello"}]});
    stage.vendor().add_script([Say::Refuse(503)]);
    let refused = stage.post_completion(&body);
    expect_error(&refused, 503, Some("model_unavailable"));
    assert_eq!(refused.header("x-should-retry"), None, "a repetition may succeed");
    stage.vendor().add_script([Say::Refuse(400)]);
    expect_error(&stage.post_completion(&body), 400, Some("model_rejected"));
    assert_eq!(stage.service.show_credits(&stage.account), (10_000, 0));
}

#[test]
fn left_plain_step_pays_for_its_text() {
    let stage = OpenAiStage::with_vendor();
    stage.vendor().add_script([Say::from_text("Begun. "), Say::Hold]);
    let body = json!({"model": "plain/stand-in", "stream": true,
        "messages": [{"role": "user", "content": "Hello"}]});
    let mut stream = stage.open_stream(&body);
    stage.vendor().wait_for_holds(1);
    stream.next_chunk();
    stream.next_chunk();
    assert!(stage.service.show_credits(&stage.account).1 > 0, "credits are reserved");
    drop(stream);
    e2e::poll::wait_until("the step is settled", || {
        let (balance, reserved) = stage.service.show_credits(&stage.account);
        (reserved == 0 && balance < 10_000).then_some(())
    });
}

#[test]
fn side_requests_begin_no_conversation() {
    let stage = OpenAiStage::with_vendor();
    let prompt = "### Task:\nGenerate a title as JSON: {\"title\": \"…\"}\n<chat_history>\nUSER: Hello\n</chat_history>";
    stage.script_text("{\"title\": \"Greeting\"}");
    let completion = stage.complete(&json!([{"role": "user", "content": prompt}]));
    assert_eq!(content_of(&completion), "{\"title\": \"Greeting\"}");
    assert!(stage.list_chats().is_empty());
    // The header overrules.
    stage.script_text("Yes?");
    let body = json!({"messages": [{"role": "user", "content": prompt}]});
    let request = stage.completion_request(&body).with_header("x-causerie-task", "none");
    let response = request.send(stage.service.address()).expect_status(200);
    assert_eq!(content_of(&response.json()), "Yes?");
    assert_eq!(stage.list_chats().len(), 1);
}

#[test]
fn reader_titles_by_first_words() {
    let stage = OpenAiStage::with_reader();
    let ask = |task: &str, text: &str| {
        let body = json!({"messages": [{"role": "user", "content": text}]});
        let request = stage.completion_request(&body).with_header("x-causerie-task", task);
        let response = request.send(stage.service.address()).expect_status(200);
        content_of(&response.json()).to_owned()
    };
    let title = "Generate a title for <chat_history>\nUSER: When is the rent due?\n</chat_history>";
    assert_eq!(ask("title_generation", title), "When is the rent due?");
    assert_eq!(ask("tags_generation", "Tags, please."), "{\"tags\":[]}");
    assert_eq!(ask("follow_up_generation", "More?"), "{\"follow_ups\":[]}");
    assert!(stage.list_chats().is_empty());
    assert_eq!(stage.service.show_credits(&stage.account), (10_000, 0));
}

#[test]
fn fields_without_effect_are_named() {
    let stage = OpenAiStage::with_vendor();
    let ask = |model: &str| {
        stage.script_text("Hi.");
        let body = json!({"model": model, "messages": [{"role": "user", "content": "Hello"}], "seed": 7,
            "logprobs": true, "functions": [{"name": "f"}], "function_call": "auto",
            "parallel_tool_calls": false, "frequency_penalty": 0, "metadata": {"skills": ""}});
        let response = stage.post_completion(&body).expect_status(200);
        response.header("x-causerie-ignored").map(str::to_owned)
    };
    assert_eq!(ask("plain/stand-in").as_deref(), Some("logprobs, functions, function_call"));
    assert_eq!(stage.vendor().request_bodies()[0]["seed"], 7);
    let wanted = "seed, parallel_tool_calls, logprobs, functions, function_call";
    assert_eq!(ask("stand-in").as_deref(), Some(wanted));
}

#[test]
fn histories_of_other_vendors_are_accepted() {
    let stage = OpenAiStage::with_vendor();
    let messages = json!([{"role": "user", "content": "Weather?"},
        {"role": "assistant", "tool_calls": [{"id": null, "type": "function",
            "function": {"name": "weather", "arguments": {"city": "Brno"}}}]},
        {"role": "tool", "content": "Rain"},
        {"role": "assistant", "content": null, "function_call": {"name": "wind", "arguments": "{}"}},
        {"role": "function", "name": "wind", "content": "None"}]);
    stage.script_text("It rains.");
    let body = json!({"model": "plain/stand-in", "messages": messages});
    assert_eq!(content_of(&stage.post_completion(&body).expect_status(200).json()), "It rains.");
    let sent = stage.vendor().request_bodies().remove(0);
    let called = &sent["messages"][1]["tool_calls"][0];
    assert_eq!(called["function"]["arguments"], "{\"city\":\"Brno\"}");
    assert_eq!(sent["messages"][2]["tool_call_id"], called["id"]);
    assert_eq!(sent["messages"][4]["tool_call_id"], sent["messages"][3]["tool_calls"][0]["id"]);
    // An agent reads them, too.
    stage.script_text("It rains.");
    stage.post_completion(&json!({"messages": messages})).expect_status(200);
}
