//! Responses: whole, continued, in the background and cancelled.

use e2e::{Expect, HttpRequest, HttpResponse, Say, poll};
use serde_json::{Value, json};

use crate::stage::{OpenAiStage, RESPONSES, expect_error, output_text};

fn id_of(response: &Value) -> String {
    response["id"].as_str().expect("an id").to_owned()
}

fn retrieve(stage: &OpenAiStage, id: &str) -> HttpResponse {
    stage.call("GET", &format!("{RESPONSES}/{id}"))
}

#[test]
fn response_is_answer_of_conversation() {
    let stage = OpenAiStage::with_vendor();
    stage.vendor().add_script([Say::Reasoning("Let me see.".to_owned()), Say::from_text("On the 5th.")]);
    let body = json!({"model": "stand-in", "input": "When is the rent due?", "instructions": "Be a pirate.",
        "metadata": {"case": "7"}, "temperature": 0.5, "tools": [{"type": "web_search"}, {"type": "function", "name": "f"}]});
    let response = stage.post_response(&body).expect_status(200);
    assert_eq!(response.header("x-causerie-ignored"), Some("tools, temperature"));
    let got = response.json();
    let present = [
        "id",
        "object",
        "created_at",
        "error",
        "incomplete_details",
        "instructions",
        "model",
        "tools",
        "output",
        "parallel_tool_calls",
        "metadata",
        "tool_choice",
        "temperature",
        "top_p",
        "status",
        "background",
        "conversation",
        "previous_response_id",
        "store",
        "usage",
    ];
    assert!(present.iter().all(|field| got.get(field).is_some()), "{got}");
    assert_eq!(
        (&got["object"], &got["status"], &got["model"]),
        (&json!("response"), &json!("completed"), &json!("stand-in"))
    );
    assert_eq!((&got["metadata"], &got["instructions"]), (&json!({"case": "7"}), &json!("Be a pirate.")));
    let [reasoning, message] = &got["output"].as_array().expect("items")[..] else { unreachable!("{got}") };
    assert_eq!(reasoning["summary"], json!([{"type": "summary_text", "text": "Let me see."}]));
    assert_eq!((&message["type"], &message["role"]), (&json!("message"), &json!("assistant")));
    assert_eq!((&message["status"], &message["phase"]), (&json!("completed"), &json!("final_answer")));
    assert_eq!(message["content"][0]["text"], "On the 5th.");
    assert_eq!(message["content"][0]["annotations"], json!([]));
    let usage = &got["usage"];
    assert_eq!((&usage["input_tokens"], &usage["total_tokens"]), (&json!(100), &json!(120)));
    assert!(usage["input_tokens_details"]["cached_tokens"].is_u64(), "{usage}");
    assert!(usage["output_tokens_details"]["reasoning_tokens"].is_u64(), "{usage}");
    let chats = stage.list_chats();
    assert_eq!(got["conversation"]["id"], format!("conv_{}", chats[0]));
    assert_eq!(stage.chat_texts(&chats[0]), ["When is the rent due?", "On the 5th."]);
    let again = retrieve(&stage, &id_of(&got)).expect_status(200).json();
    assert_eq!(
        (&again["output"], &again["usage"], &again["status"]),
        (&got["output"], usage, &got["status"])
    );
}

#[test]
fn previous_response_continues_or_branches() {
    let stage = OpenAiStage::with_vendor();
    let ask = |input: &str, previous: Option<&str>, text: &str| {
        stage.script_text(text);
        let response = stage.respond(&json!({"input": input, "previous_response_id": previous}));
        assert_eq!(
            (output_text(&response), response["previous_response_id"].as_str()),
            (text.to_owned(), previous)
        );
        id_of(&response)
    };
    let one = ask("One?", None, "Answer one.");
    let two = ask("Two?", Some(&one), "Answer two.");
    ask("Three?", Some(&two), "Answer three.");
    let chats = stage.list_chats();
    assert_eq!(chats.len(), 1);
    let wanted = ["One?", "Answer one.", "Two?", "Answer two.", "Three?", "Answer three."];
    assert_eq!(stage.chat_texts(&chats[0]), wanted);
    let other = ask("Two, edited?", Some(&one), "Answer edited.");
    assert_eq!(stage.chat_texts(&chats[0]), ["One?", "Answer one.", "Two, edited?", "Answer edited."]);
    // The other branch is shown again where it continues.
    ask("Four?", Some(&two), "Answer four.");
    assert_eq!(stage.chat_texts(&chats[0])[2..], ["Two?", "Answer two.", "Four?", "Answer four."]);
    ask("Five?", Some(&other), "Answer five.");
    assert_eq!(stage.chat_texts(&chats[0])[2..4], ["Two, edited?", "Answer edited."]);
    assert_eq!(stage.list_chats().len(), 1);
}

#[test]
fn conversation_and_references_continue() {
    let stage = OpenAiStage::with_vendor();
    stage.script_text("Answer one.");
    let first = stage.respond(&json!({"input": "One?"}));
    stage.script_text("Answer two.");
    let conversation = &first["conversation"];
    stage.respond(
        &json!({"input": [{"role": "user", "content": "Two?"}], "conversation": conversation["id"]}),
    );
    stage.script_text("Answer three.");
    let third = stage.respond(&json!({"input": "Three?", "conversation": conversation}));
    stage.script_text("Answer four.");
    let item = &third["output"][0]["id"];
    stage.respond(
        &json!({"input": [{"role": "user", "content": "Three?"}, {"type": "item_reference", "id": item},
        {"role": "user", "content": [{"type": "input_text", "text": "Four?"}]}]}),
    );
    // Without ids the history finds its conversation.
    let mut history = vec![json!({"role": "user", "content": "Alone?"})];
    stage.script_text("Answer alone.");
    let alone = stage.respond(&json!({"input": history}));
    history.extend(alone["output"].as_array().expect("items").clone());
    history.push(json!({"role": "user", "content": "Still?"}));
    stage.script_text("Still.");
    stage.respond(&json!({"input": history}));
    let chats = stage.list_chats();
    assert_eq!(chats.len(), 2);
    assert_eq!(stage.chat_texts(&chats[0]), ["Alone?", "Answer alone.", "Still?", "Still."]);
    assert_eq!(stage.chat_texts(&chats[1])[4..], ["Three?", "Answer three.", "Four?", "Answer four."]);
}

#[test]
fn background_response_is_retrieved_or_cancelled() {
    let stage = OpenAiStage::with_vendor();
    stage.vendor().add_script([Say::from_text("Begun. "), Say::Hold, Say::from_text("Ended.")]);
    let begun = stage.respond(&json!({"input": "Hello", "background": true}));
    assert!(["queued", "in_progress"].contains(&begun["status"].as_str().expect("a status")), "{begun}");
    assert_eq!((&begun["background"], &begun["usage"]), (&json!(true), &Value::Null));
    stage.vendor().wait_for_holds(1);
    let id = id_of(&begun);
    assert_eq!(retrieve(&stage, &id).expect_status(200).json()["status"], "in_progress");
    stage.vendor().release_hold();
    let ended = poll::wait_until("the answer has ended", || {
        let response = retrieve(&stage, &id).expect_status(200).json();
        (response["status"] == "completed").then_some(response)
    });
    assert_eq!(output_text(&ended), "Begun. Ended.");
    stage.vendor().add_script([Say::from_text("Begun. "), Say::Hold]);
    let begun = stage.respond(&json!({"input": "Hello again", "background": true}));
    stage.vendor().wait_for_holds(1);
    let cancel = |id: &str| stage.call("POST", &format!("{RESPONSES}/{id}/cancel"));
    let cancelled = cancel(&id_of(&begun)).expect_status(200).json();
    assert_eq!((&cancelled["status"], output_text(&cancelled).trim()), (&json!("cancelled"), "Begun."));
    assert_eq!(cancel(&id).expect_status(200).json()["status"], "completed", "it had ended");
}

#[test]
fn failed_response_has_error() {
    let stage = OpenAiStage::with_vendor();
    stage.vendor().add_script([Say::Refuse(400)]);
    let failed = stage.respond(&json!({"input": "Hello"}));
    // The conversation shows the reason as text, so the output has it, too.
    assert_eq!((&failed["status"], &failed["output"][0]["status"]), (&json!("failed"), &json!("incomplete")));
    let error = &failed["error"];
    assert_eq!(error["code"], "model_rejected");
    assert!(error["message"].is_string() && error["type"].is_string(), "{error}");
}

#[test]
fn wrong_responses_are_refused_clearly() {
    let stage = OpenAiStage::with_vendor();
    let refuse = |body: Value, code: Option<&str>, field: &str| {
        let error = expect_error(&stage.post_response(&body), 400, code);
        assert_eq!(error["param"], field, "{error}");
    };
    refuse(json!({}), None, "input");
    refuse(json!({"input": []}), None, "input");
    refuse(json!({"input": " "}), None, "input");
    refuse(json!({"input": "a", "tools": [{"type": "mcp"}]}), None, "tools");
    refuse(
        json!({"input": "a", "tools": [{"type": "function", "name": "f"}], "tool_choice": "required"}),
        None,
        "tool_choice",
    );
    refuse(
        json!({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "https://example.org/a"}]}]}),
        None,
        "input[0]",
    );
    let unknown = format!("resp_{}", "0".repeat(64));
    for id in ["resp_x", &unknown] {
        let body = json!({"input": "a", "previous_response_id": id});
        refuse(body, Some("previous_response_not_found"), "previous_response_id");
        expect_error(&retrieve(&stage, id), 404, Some("not_found"));
        expect_error(&stage.call("POST", &format!("{RESPONSES}/{id}/cancel")), 404, Some("not_found"));
    }
    for target in ["%FF", "a%2Fb", "..", "resp_%00"] {
        assert_eq!(retrieve(&stage, target).status, 404, "{target}");
    }
    expect_error(&stage.post_response(&json!({"input": "a", "model": "none"})), 404, Some("model_not_found"));
    expect_error(&stage.call("DELETE", RESPONSES), 405, Some("method_not_allowed"));
    for body in [
        "",
        "[]",
        "{\"input\": 5}",
        "{\"input\": [5]}",
        "{\"input\": [[]]}",
        "{\"input\": \"a\"} x",
        "{\"input\": [{\"content\": {}}]}",
    ] {
        let refused = stage.request("POST", RESPONSES).with_body(body).send(stage.service.address());
        expect_error(&refused, 400, None);
    }
    let deep = format!("{{\"input\": {}}}", "[".repeat(100_000));
    expect_error(&stage.request("POST", RESPONSES).with_body(deep).send(stage.service.address()), 400, None);
    assert!(stage.list_chats().is_empty(), "nothing was asked");
}

#[test]
fn responses_of_others_do_not_exist() {
    let stage = OpenAiStage::with_vendor();
    stage.script_text("Secret.");
    let id = id_of(&stage.respond(&json!({"input": "Hello"})));
    let other = stage.service.create_account();
    let call = |method: &str, target: &str, body: Value| {
        let request =
            HttpRequest::new(method, target).with_header("authorization", &format!("Bearer {}", other.key));
        request.with_body(body.to_string()).send(stage.service.address())
    };
    let target = format!("{RESPONSES}/{id}");
    expect_error(&call("GET", &target, Value::Null), 404, Some("not_found"));
    expect_error(&call("POST", &format!("{target}/cancel"), Value::Null), 404, Some("not_found"));
    let continued = call("POST", RESPONSES, json!({"input": "a", "previous_response_id": id}));
    expect_error(&continued, 400, Some("previous_response_not_found"));
}

#[test]
fn refused_question_leaves_shown_branch() {
    let stage = OpenAiStage::with_vendor();
    let ask = |input: &str, previous: Option<&str>| {
        stage.script_text("Answer.");
        id_of(&stage.respond(&json!({"input": input, "previous_response_id": previous})))
    };
    let one = ask("One?", None);
    let two = ask("Two?", Some(&one));
    ask("Two, edited?", Some(&one));
    let chat = stage.list_chats().remove(0);
    let shown = ["One?", "Answer.", "Two, edited?", "Answer."];
    assert_eq!(stage.chat_texts(&chat), shown);
    let body = json!({"input": "Three?", "previous_response_id": two, "metadata": {"skills": "none"}});
    expect_error(&stage.post_response(&body), 400, Some("unknown_skill"));
    assert_eq!(stage.chat_texts(&chat), shown);
}
