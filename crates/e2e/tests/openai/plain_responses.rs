//! Responses without an agent, and requests beside a conversation.

use e2e::{Expect, Say};
use serde_json::{Value, json};

use crate::stage::{OpenAiStage, RESPONSES, expect_error, output_text};

fn weather_tools() -> Value {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    json!([{"type": "function", "name": "weather", "description": "Tells it.", "parameters": parameters}])
}

#[test]
fn calls_are_items_for_the_client() {
    let stage = OpenAiStage::with_vendor();
    let call = Say::Call { tool: "weather".to_owned(), arguments: json!({"city": "Brno"}) };
    stage.vendor().add_script([call.clone()]);
    let mut input = vec![json!({"role": "user", "content": "Weather?"})];
    let mut body = json!({"model": "plain/stand-in", "instructions": "Be brief.", "input": input,
        "tools": weather_tools(), "tool_choice": {"type": "allowed_tools", "mode": "required",
            "tools": [{"type": "function", "name": "weather"}]},
        "text": {"format": {"type": "json_schema", "name": "t", "schema": {"type": "object"}}},
        "max_output_tokens": 50, "parallel_tool_calls": false, "top_logprobs": 3, "background": true});
    let response = stage.post_response(&body).expect_status(200);
    assert_eq!(response.header("x-causerie-ignored"), Some("background, top_logprobs"));
    assert_eq!(response.header("x-causerie-conversation"), None);
    let response = response.json();
    assert_eq!((&response["status"], &response["store"]), (&json!("completed"), &json!(false)));
    assert_eq!((&response["conversation"], &response["tools"][0]["name"]), (&Value::Null, &json!("weather")));
    let [called] = &response["output"].as_array().expect("items")[..] else { unreachable!("{response}") };
    assert_eq!((&called["type"], &called["name"]), (&json!("function_call"), &json!("weather")));
    assert_eq!(called["arguments"], "{\"city\":\"Brno\"}");
    assert_eq!(response["usage"]["total_tokens"], 120);
    let sent = stage.vendor().request_bodies().remove(0);
    assert_eq!((&sent["tool_choice"], &sent["parallel_tool_calls"]), (&json!("required"), &json!(false)));
    assert_eq!(sent["messages"][0], json!({"role": "system", "content": "Be brief."}));
    assert_eq!(sent["response_format"]["json_schema"]["name"], "t");
    // The client runs the tool, and sends its result.
    input.push(called.clone());
    input.push(json!({"type": "function_call_output", "call_id": called["call_id"], "output": "Rain"}));
    body["input"] = json!(input);
    body["stream"] = json!(true);
    stage.vendor().add_script([
        Say::Reasoning("So.".to_owned()),
        Say::from_text("It "),
        Say::from_text("rains."),
        call,
    ]);
    let events = stage.open_events(&body).read_events();
    let mut order: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    order.dedup();
    assert_eq!(order[..3], ["response.created", "response.in_progress", "response.output_item.added"]);
    for name in ["response.function_call_arguments.delta", "response.function_call_arguments.done"] {
        assert!(order.contains(&name), "{order:?}");
    }
    let last = events.last().expect("an event");
    assert_eq!(last["type"], "response.completed");
    assert_eq!(output_text(&last["response"]), "It rains.");
    let done = events.iter().filter(|event| event["type"] == "response.output_item.done");
    assert_eq!(json!(done.map(|event| &event["item"]).collect::<Vec<_>>()), last["response"]["output"]);
    let sent = stage.vendor().request_bodies().remove(1);
    assert_eq!(sent["messages"][3]["content"], "Rain");
    assert_eq!(sent["messages"][3]["tool_call_id"], sent["messages"][2]["tool_calls"][0]["id"]);
    // Nothing is kept.
    assert!(stage.list_chats().is_empty());
    let id = last["response"]["id"].as_str().expect("an id");
    expect_error(&stage.call("GET", &format!("{RESPONSES}/{id}")), 404, Some("not_found"));
    let again = json!({"model": "plain/stand-in", "input": "a", "previous_response_id": id});
    assert_eq!(expect_error(&stage.post_response(&again), 400, None)["param"], "previous_response_id");
}

#[test]
fn failed_plain_response_costs_nothing() {
    let stage = OpenAiStage::with_vendor();
    let mut body = json!({"model": "plain/stand-in", "input": "Hello"});
    stage.vendor().add_script([Say::Refuse(400)]);
    expect_error(&stage.post_response(&body), 400, Some("model_rejected"));
    body["stream"] = json!(true);
    stage.vendor().add_script([Say::Refuse(400)]);
    let events = stage.open_events(&body).read_events();
    let last = events.last().expect("an event");
    assert_eq!((&last["type"], &last["response"]["status"]), (&json!("response.failed"), &json!("failed")));
    assert_eq!(last["response"]["error"]["code"], "model_rejected");
    let empty = json!({"model": "plain/stand-in", "input": " "});
    assert_eq!(expect_error(&stage.post_response(&empty), 400, None)["param"], "input");
    assert_eq!(stage.service.show_credits(&stage.account), (10_000, 0));
}

#[test]
fn side_requests_begin_no_conversation() {
    let stage = OpenAiStage::with_reader();
    let prompt = "### Task:\nGenerate a title.\n<chat_history>\nUSER: When is the rent due?\n</chat_history>";
    let response = stage.respond(&json!({"model": "reader", "input": prompt}));
    assert_eq!(
        (output_text(&response), &response["store"]),
        ("When is the rent due?".to_owned(), &json!(false))
    );
    assert!(stage.list_chats().is_empty());
    let body = json!({"input": "Tags, please."}).to_string();
    let request = stage.request("POST", RESPONSES).with_header("x-causerie-task", "tags").with_body(body);
    let response = request.send(stage.service.address()).expect_status(200).json();
    assert_eq!(output_text(&response), "{\"tags\":[]}");
    assert!(stage.list_chats().is_empty());
}

#[test]
fn summary_stands_for_long_input() {
    let stage = OpenAiStage::with_vendor();
    let compact = |body: Value| {
        let request = stage.request("POST", "/v1/responses/compact").with_body(body.to_string());
        request.send(stage.service.address())
    };
    let input =
        json!([{"role": "user", "content": "My name is Alice."}, {"role": "assistant", "content": "Hello."}]);
    stage.script_text("The user is Alice.");
    let summary = compact(json!({"model": "stand-in", "input": input})).expect_status(200).json();
    assert_eq!(
        (&summary["object"], &summary["output"][0]["type"]),
        (&json!("response.compaction"), &json!("compaction"))
    );
    assert_eq!(summary["usage"]["total_tokens"], 120);
    let sent = stage.vendor().request_bodies().remove(0);
    assert!(sent["messages"].to_string().contains("My name is Alice."), "{sent}");
    let mut next = summary["output"].as_array().expect("items").clone();
    next.push(json!({"role": "user", "content": "Who am I?"}));
    for model in ["plain/stand-in", "stand-in"] {
        stage.script_text("Alice.");
        let response = stage.respond(&json!({"model": model, "input": next}));
        assert_eq!(output_text(&response), "Alice.");
        let sent = stage.vendor().request_bodies().pop().expect("a request");
        assert!(sent["messages"].to_string().contains("The user is Alice."), "{sent}");
    }
    assert_eq!(expect_error(&compact(json!({"input": input})), 400, None)["param"], "model");
    assert_eq!(
        expect_error(&compact(json!({"model": "stand-in", "input": []})), 400, None)["param"],
        "input"
    );
    let foreign = json!({"model": "stand-in", "input": [{"type": "compaction", "encrypted_content": "%"}]});
    assert_eq!(expect_error(&stage.post_response(&foreign), 400, None)["param"], "input[0]");
}
