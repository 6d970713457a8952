//! Answers that wait for replies of their client: functions, and questions to the user.

use e2e::api::id_field;
use e2e::{Api, Expect, HttpResponse, Say, ScriptedVendor, ServiceOptions, TestService, poll};
use serde_json::{Value, json};

use crate::streams::{StreamFixture, stream_fixture};

fn call(tool: &str, arguments: Value) -> Say {
    Say::Call { tool: tool.to_owned(), arguments }
}

/// Asks a question with a function of the client.
fn ask_with_function(api: &Api) -> Value {
    let parameters = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    let tools =
        json!([{ "name": "get_weather", "description": "Returns the weather.", "parameters": parameters }]);
    api.expect_accepted(&json!({ "input": "What is the weather?", "tools": tools }))
}

fn wait_for_pending(api: &Api, answer: &Value) -> Value {
    poll::wait_until("the answer waits", || {
        let present = api.get_answer(answer);
        present["pending"].is_array().then_some(present)
    })
}

fn reply(api: &Api, answer: &Value, call: &str, reply: Value) -> HttpResponse {
    api.reply_to_call((&id_field(answer, "chatId"), &id_field(answer, "id")), call, &reply)
}

fn balance(service: &TestService, account: &e2e::TestAccount) -> i64 {
    poll::wait_until("nothing is reserved", || {
        Some(service.show_credits(account)).filter(|(_, reserved)| *reserved == 0)
    })
    .0
}

#[test]
fn paused_answer_survives_kill_and_is_paid_once() {
    let StreamFixture { vendor, account, api, mut service } = stream_fixture();
    let start = service.show_credits(&account).0;
    vendor.add_script([Say::from_text("Let me look."), call("get_weather", json!({ "city": "Brno" }))]);
    vendor.add_script([Say::from_text("It is 21 degrees.")]);
    let answer = ask_with_function(&api);
    let paused = wait_for_pending(&api, &answer);
    assert_eq!((&paused["status"], &paused["text"]), (&json!("in_progress"), &json!("Let me look.")));
    let pending = &paused["pending"][0];
    assert_eq!((&pending["type"], &pending["toolName"]), (&json!("FUNCTION"), &json!("get_weather")));
    assert_eq!(
        pending["arguments"].as_str().map(serde_json::from_str::<Value>).expect("text").expect("JSON"),
        json!({ "city": "Brno" })
    );
    assert!(e2e::api::is_time(&pending["expiresAt"]), "{pending}");
    let call_id = id_field(pending, "callId");
    let after_step = balance(&service, &account);
    assert!(after_step < start, "the first step is paid, and nothing is reserved");
    service.kill();
    service.restart();
    let api = service.api_for(&account);
    assert_eq!(wait_for_pending(&api, &answer)["pending"], paused["pending"], "it still waits");
    let given = json!({ "output": "21 degrees" });
    let resumed = reply(&api, &answer, &call_id, given.clone()).expect_status(200).json();
    assert!(resumed["pending"].is_null(), "{resumed}");
    let whole = api.wait_for_completion(&answer);
    assert_eq!(
        (&whole["text"], &whole["error"]),
        (&json!("Let me look.\n\nIt is 21 degrees."), &Value::Null)
    );
    assert_eq!(whole["parts"][1]["state"], "COMPLETE", "{whole}");
    let paid = balance(&service, &account);
    assert!(paid <= after_step, "nothing is paid back");
    let requests = vendor.request_bodies();
    assert_eq!(requests.len(), 2, "no step was asked for twice");
    assert!(requests[0].to_string().contains("Returns the weather."), "{}", requests[0]);
    assert!(requests[1].to_string().contains("21 degrees"), "{}", requests[1]);
    reply(&api, &answer, &call_id, given).expect_status(200);
    reply(&api, &answer, &call_id, json!({ "output": "22 degrees" })).expect_code(409, "CALL_CLOSED");
    assert_eq!(api.get_answer(&answer), whole, "a late reply changes nothing");
    assert_eq!(
        (vendor.request_bodies().len(), balance(&service, &account)),
        (2, paid),
        "nor is anything paid twice"
    );
}

#[test]
fn several_calls_wait_for_all_replies() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    vendor.add_script([
        call("get_weather", json!({ "city": "Brno" })),
        call("list", json!({ "path": "/" })),
        call("get_weather", json!({ "city": "Praha" })),
    ]);
    let answer = ask_with_function(&api);
    let mut events = api.stream_answer(&answer);
    let shown = events.find_event("the calls", |event| event.data["pending"].is_array());
    let pending = shown.data["pending"].as_array().expect("calls").clone();
    assert_eq!(pending.len(), 2, "{pending:?}");
    assert_eq!(shown.data["parts"][1]["state"], "COMPLETE", "the machine has done its part");
    let ids: Vec<String> = pending.iter().map(|pending| id_field(pending, "callId")).collect();
    let waits =
        reply(&api, &answer, &ids[1], json!({ "error": "There is no such city." })).expect_status(200).json();
    assert_eq!(waits["pending"].as_array().map(Vec::len), Some(1), "{waits}");
    events.find_event("one call less", |event| event.data["pending"].as_array().map(Vec::len) == Some(1));
    reply(&api, &answer, &ids[1], json!({ "output": "99 degrees" })).expect_code(409, "CALL_CLOSED");
    reply(&api, &answer, &ids[0], json!({ "output": "21 degrees" })).expect_status(200);
    let whole = api.wait_for_completion(&answer);
    assert_eq!((&whole["text"], &whole["error"]), (&json!("Done."), &Value::Null));
    let states: Vec<_> =
        whole["parts"].as_array().expect("parts").iter().map(|part| &part["state"]).collect();
    assert_eq!(states[..3], ["COMPLETE", "COMPLETE", "ERROR"], "{whole}");
    let last = vendor.request_bodies().pop().expect("a request").to_string();
    assert!(
        last.contains("21 degrees")
            && last.contains("There is no such city.")
            && !last.contains("99 degrees")
    );
}

#[test]
fn paused_answer_can_be_stopped_and_deleted() {
    let StreamFixture { vendor, account, api, service } = stream_fixture();
    for deletes in [false, true] {
        vendor.add_script([Say::from_text("Let me look."), call("get_weather", json!({}))]);
        let answer = ask_with_function(&api);
        let call_id = id_field(&wait_for_pending(&api, &answer)["pending"][0], "callId");
        let chat = id_field(&answer, "chatId");
        let again = json!({ "input": "More", "chatId": chat });
        api.send_question(&again).expect_code(409, "CONVERSATION_BUSY");
        let before = balance(&service, &account);
        if deletes {
            api.delete_chat(&chat).expect_status(204);
            reply(&api, &answer, &call_id, json!({ "output": "x" })).expect_code(404, "NOT_FOUND");
        } else {
            api.stop_chat(&chat).expect_status(202);
            let whole = api.wait_for_completion(&answer);
            assert_eq!((&whole["text"], &whole["error"]), (&json!("Let me look."), &Value::Null));
            assert!(whole["pending"].is_null() && whole["parts"][1]["state"] == "ERROR", "{whole}");
            reply(&api, &answer, &call_id, json!({ "output": "x" })).expect_code(409, "CALL_CLOSED");
            api.wait_for_completion(&api.expect_accepted(&again));
        }
        if deletes {
            assert_eq!(balance(&service, &account), before, "nothing more is paid");
        }
    }
}

#[test]
fn answer_without_reply_expires() {
    let vendor = ScriptedVendor::start();
    let mut environment = vendor.service_environment();
    environment.push(("CAUSERIE_LIMITS_REPLY_TIMEOUT".to_owned(), "1s".to_owned()));
    let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let api = service.api_for(&service.create_account());
    vendor.add_script([Say::from_text("Let me look."), call("get_weather", json!({}))]);
    let answer = ask_with_function(&api);
    let whole = api.wait_for_completion(&answer);
    assert_eq!(whole["error"]["code"], "REPLY_OVERDUE", "{whole}");
    assert!(whole["text"].as_str().expect("a text").starts_with("Let me look.\n\n"), "{whole}");
    assert_eq!(vendor.request_bodies().len(), 1, "no further step is paid for");
}

#[test]
fn reply_starts_stopped_machine() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    vendor.add_script([
        call("get_weather", json!({})),
        call("write", json!({ "path": "/a.txt", "content": "a" })),
    ]);
    vendor.add_script([call("read", json!({ "path": "/a.txt" }))]);
    vendor.add_script([Say::from_text("Read.")]);
    let answer = ask_with_function(&api);
    let call_id = id_field(&wait_for_pending(&api, &answer)["pending"][0], "callId");
    api.stop_vm().expect_status(202);
    poll::wait_until("the machine is stopped", || (api.get_vm().json()["status"] == "STOPPED").then_some(()));
    reply(&api, &answer, &call_id, json!({ "output": "21 degrees" })).expect_status(200);
    let whole = api.wait_for_completion(&answer);
    assert_eq!((&whole["text"], &whole["error"]), (&json!("Read."), &Value::Null));
    let states: Vec<_> =
        whole["parts"].as_array().expect("parts").iter().filter_map(|part| part["state"].as_str()).collect();
    assert_eq!(states, ["COMPLETE"; 3], "nothing was interrupted: {whole}");
}

#[test]
fn question_to_user_is_answered() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    let asked = json!({ "question": "Which lease?", "choices": ["old", "new"] });
    vendor.add_script([call("ask_user", asked.clone())]);
    let question = json!({ "input": "When is the rent due?", "askUserEnabled": true });
    let request = api.new_request("POST", "/api/v1/chats").with_header("prefer", "wait=60");
    let answer = request.with_body(question.to_string()).send(&api.address).expect_status(202).json();
    let pending = &answer["pending"][0];
    assert_eq!(
        (&pending["type"], &pending["toolName"]),
        (&json!("QUESTION"), &json!("ask_user")),
        "{answer}"
    );
    let arguments = pending["arguments"].as_str().expect("text");
    assert_eq!(serde_json::from_str::<Value>(arguments).expect("JSON"), asked);
    let call_id = id_field(pending, "callId");
    reply(&api, &answer, &call_id, json!({ "error": "x" })).expect_code(400, "BAD_REQUEST");
    reply(&api, &answer, &call_id, json!({ "output": "the new one" })).expect_status(200);
    api.wait_for_completion(&answer);
    assert!(vendor.request_bodies()[1].to_string().contains("the new one"));
    // Without that, nobody would answer: the tool does not exist.
    vendor.add_script([call("ask_user", asked)]);
    let whole = api.wait_for_completion(&api.ask_question("When is the rent due?"));
    assert_eq!((&whole["text"], &whole["parts"][0]["state"]), (&json!("Done."), &json!("ERROR")));
}
