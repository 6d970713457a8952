//! Section 4.4: questions, conversations and collected answers.

use e2e::api::{id_field, is_time, is_uuid};
use e2e::{
    Api, Expect, Say, ScriptedVendor, ServiceOptions, TestAccountOptions, TestService, poll, scripted_vendor,
};
use serde_json::{Value, json};

fn with_vendor() -> (TestService, ScriptedVendor, Api) {
    let vendor = ScriptedVendor::start();
    let service = TestService::start(ServiceOptions {
        environment: vendor.service_environment(),
        ..ServiceOptions::default()
    });
    let api = service.api_for(&service.create_account());
    (service, vendor, api)
}

#[test]
fn question_body_is_json_despite_type() {
    let (_service, vendor, api) = with_vendor();
    let body = json!({ "input": "Hello" }).to_string();
    for kind in [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("nonsense")] {
        let mut request = api
            .new_request("POST", "/api/v1/chats")
            .with_header("accept", "image/png")
            .with_body(body.clone());
        if let Some(kind) = kind {
            request = request.with_header("content-type", kind);
        }
        let answer = request.send(&api.address).expect_status(202).json();
        api.wait_for_completion(&answer);
    }
    let chunked =
        api.new_request("POST", "/api/v1/chats").with_body(body).with_chunked_body().send(&api.address);
    api.wait_for_completion(&chunked.expect_status(202).json());
    assert_eq!(vendor.request_bodies().len(), 5);
}

#[test]
fn unknown_and_null_fields_ignored() {
    let (_service, vendor, api) = with_vendor();
    let question = json!({ "input": "Hello", "unknown": {"a": [1]}, "chatId": null, "agentId": null,
        "skillIds": null, "filePaths": null, "model": null, "jurisdictions": null, "webSearchEnabled": null,
        "settings": null });
    let answer = api.wait_for_completion(&api.expect_accepted(&question));
    assert_eq!(answer["text"], "Done.");
    assert_eq!(vendor.request_bodies().len(), 1);
}

#[test]
fn wrong_field_type_is_named() {
    let (_service, _vendor, api) = with_vendor();
    for (question, field) in [
        (json!({ "input": 5 }), "input"),
        (json!({ "input": "x", "webSearchEnabled": "yes" }), "webSearchEnabled"),
        (json!({ "input": "x", "filePaths": ["/a", 7] }), "filePaths[1]"),
        (json!({ "input": "x", "settings": [{ "key": "k" }] }), "settings[0]"),
    ] {
        let refused = api.send_question(&question).expect_status(400).json();
        let message = refused["message"].as_str().expect("a message").to_owned();
        assert!(message.starts_with(&format!("the body cannot be read: {field}: ")), "{message}");
    }
}

#[test]
fn an_answer_belongs_to_its_conversation() {
    let (_service, _vendor, api) = with_vendor();
    let (one, other) = (api.ask_question("One"), api.ask_question("Other"));
    api.wait_for_completion(&one);
    api.wait_for_completion(&other);
    api.get_message(&id_field(&one, "chatId"), &id_field(&other, "id")).expect_code(404, "NOT_FOUND");
}

#[test]
fn conversation_continues_with_history() {
    let (_service, vendor, api) = with_vendor();
    vendor.add_script([Say::from_text("The rent is 900.")]);
    let first = api.wait_for_completion(&api.ask_question("What is the rent?"));
    vendor.add_script([Say::from_text("It rises in May.")]);
    let chat = id_field(&first, "chatId");
    // A continuation keeps the conversation's choices; the request's choices are not even validated.
    let again = json!({ "input": "When does it rise?", "chatId": chat, "model": "no-such-model",
        "jurisdictions": "CZ", "webSearchEnabled": 1, "settings": [{ "key": "none", "value": "none" }] });
    let second = api.wait_for_completion(&api.expect_accepted(&again));
    assert_eq!(
        (&second["chatId"], &second["model"]),
        (&first["chatId"], &Value::from(scripted_vendor::MODEL))
    );
    let request = vendor.request_bodies()[1].to_string();
    for text in ["What is the rent?", "The rent is 900.", "When does it rise?"] {
        assert!(request.contains(text), "{text} in {request}");
    }
    let detail = api.get_chat(&chat).expect_status(200).json();
    let messages: Vec<(&Value, &Value, &Value)> = detail["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .map(|message| (&message["role"], &message["status"], &message["text"]))
        .collect();
    let (user, assistant, completed) =
        (Value::from("USER"), Value::from("ASSISTANT"), Value::from("completed"));
    let texts =
        ["What is the rent?", "The rent is 900.", "When does it rise?", "It rises in May."].map(Value::from);
    let expected = [
        (&user, &completed, &texts[0]),
        (&assistant, &completed, &texts[1]),
        (&user, &completed, &texts[2]),
        (&assistant, &completed, &texts[3]),
    ];
    assert_eq!(messages, expected);
    assert_eq!((&detail["messages"][1]["id"], &detail["messages"][3]["id"]), (&first["id"], &second["id"]));
    assert!(detail["messages"][1]["parts"].as_array().is_some_and(|parts| !parts.is_empty()));
    assert_eq!(detail["chat"]["chatId"], first["chatId"]);
    assert_eq!(detail["chat"]["status"], "completed");
}

#[test]
fn busy_conversation_refuses_question() {
    let (_service, vendor, api) = with_vendor();
    vendor.add_script([Say::from_text("First"), Say::Hold]);
    let answer = api.ask_question("Hold on");
    let chat = id_field(&answer, "chatId");
    let again = json!({ "input": "And now?", "chatId": chat });
    let busy = api.send_question(&again);
    let wait: u64 = busy.header("retry-after").expect("when to try again").parse().expect("in seconds");
    assert!((1..=60).contains(&wait));
    busy.expect_code(409, "CONVERSATION_BUSY");
    vendor.wait_for_holds(1);
    api.send_question(&again).expect_code(409, "CONVERSATION_BUSY");
    // Another conversation is answered in the meantime.
    assert_eq!(api.wait_for_completion(&api.ask_question("Elsewhere"))["text"], "Done.");
    vendor.release_hold();
    api.wait_for_completion(&answer);
    assert_eq!(api.wait_for_completion(&api.expect_accepted(&again))["text"], "Done.");
}

#[test]
fn one_of_concurrent_questions_accepted() {
    let (_service, vendor, api) = with_vendor();
    let chat = id_field(&api.wait_for_completion(&api.ask_question("Hello")), "chatId");
    vendor.add_script([Say::Hold]);
    let question = json!({ "input": "And now?", "chatId": chat });
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let askers: Vec<_> = (0..16).map(|_| scope.spawn(|| api.send_question(&question).status)).collect();
        askers.into_iter().map(|asker| asker.join().expect("an asker")).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 202).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 15, "{statuses:?}");
    vendor.release_hold();
    poll::wait_until("it is answered", || {
        (api.get_chat(&chat).json()["chat"]["status"] == "completed").then_some(())
    });
    assert_eq!(api.get_chat(&chat).json()["messages"].as_array().map(Vec::len), Some(4));
}

#[test]
fn stopped_answer_keeps_its_text() {
    let (_service, vendor, api) = with_vendor();
    vendor.add_script([Say::from_text("Half a "), Say::Hold, Say::from_text("sentence.")]);
    let answer = api.ask_question("Go on");
    let chat = id_field(&answer, "chatId");
    vendor.wait_for_holds(1);
    poll::wait_until("something is written", || (api.get_answer(&answer)["text"] != "").then_some(()));
    let stopped = api.stop_chat(&chat).expect_status(202).json();
    assert_summary(&stopped);
    let whole = api.wait_for_completion(&answer);
    assert_eq!(whole["text"].as_str().map(str::trim_end), Some("Half a"));
    assert!(whole["error"].is_null(), "{whole}");
    for part in whole["parts"].as_array().expect("parts") {
        assert_ne!(part["state"], "PENDING", "{part}");
    }
    let again = api.stop_chat(&chat).expect_status(202).json();
    assert_eq!((&again["chatId"], &again["status"]), (&answer["chatId"], &Value::from("completed")));
    assert_eq!(api.get_answer(&answer), whole, "stopping a completed answer changes nothing");
    assert_eq!(
        api.wait_for_completion(&api.expect_accepted(&json!({ "input": "More", "chatId": chat })))["text"],
        "Done."
    );
}

fn assert_summary(chat: &Value) {
    assert!(is_uuid(&chat["chatId"]) && chat["title"].is_string() && chat["model"].is_string(), "{chat}");
    assert!(["in_progress", "completed"].iter().any(|known| chat["status"] == *known), "{chat}");
    assert!(is_time(&chat["createdAt"]) && is_time(&chat["modifiedAt"]), "{chat}");
    assert!(chat["pinned"].is_boolean() && chat["webSearchEnabled"].is_boolean(), "{chat}");
    assert!(chat["jurisdictions"].is_array(), "{chat}");
}

#[test]
fn chats_listed_newest_first_in_pages() {
    let (_service, _vendor, api) = with_vendor();
    let empty = api.list_chats("").expect_status(200).json();
    assert_eq!(empty, json!({ "chats": [], "offset": 0, "limit": 50, "totalCount": 0 }));
    let chats: Vec<Value> = ["One", "Two", "Three"]
        .iter()
        .map(|input| api.wait_for_completion(&api.ask_question(input))["chatId"].clone())
        .collect();
    let listed = |query: &str| {
        let page = api.list_chats(query).expect_status(200).json();
        assert_eq!(page["totalCount"], 3, "{page}");
        page["chats"].as_array().expect("chats").iter().for_each(assert_summary);
        page
    };
    let ids = |page: &Value| -> Vec<Value> {
        page["chats"].as_array().expect("chats").iter().map(|chat| chat["chatId"].clone()).collect()
    };
    let all = listed("");
    assert_eq!(ids(&all), [chats[2].clone(), chats[1].clone(), chats[0].clone()]);
    assert_eq!(all["chats"][0]["title"], "Three", "the title comes from the first question");
    assert_eq!(ids(&listed("?limit=2")), ids(&all)[..2]);
    assert_eq!(ids(&listed("?offset=1&limit=1")), ids(&all)[1..2]);
    let beyond = listed("?offset=7");
    assert_eq!((ids(&beyond).len(), &beyond["offset"]), (0, &Value::from(7)));
    for (limit, taken) in [(1, 1), (200, 200), (201, 200), (100_000, 200)] {
        assert_eq!(listed(&format!("?limit={limit}"))["limit"], taken);
    }
    api.wait_for_completion(&api.expect_accepted(&json!({ "input": "Again", "chatId": chats[0] })));
    assert_eq!(ids(&listed(""))[0], chats[0], "a question brings its conversation to the front");
}

#[test]
fn senseless_questions_refused_with_reason() {
    let service = TestService::start(ServiceOptions::default());
    let api = service.api_for(&service.create_account());
    let question = json!({ "input": "Hello" }).to_string();
    let compressed = api
        .new_request("POST", "/api/v1/chats")
        .with_header("content-encoding", "gzip")
        .with_body(question.clone());
    let compressed = compressed.send(&api.address);
    assert!(compressed.json()["message"].as_str().is_some_and(|message| message.contains("gzip")));
    compressed.expect_code(400, "BAD_REQUEST");
    let plain = api
        .new_request("POST", "/api/v1/chats")
        .with_header("content-encoding", "identity")
        .with_body(question);
    plain.send(&api.address).expect_status(202);
    api.send_question(&json!({ "input": "Hello", "filePaths": [""] })).expect_refusal(400);
    let twice = api.list_chats("?limit=1&limit=2");
    let message = twice.json()["message"].as_str().unwrap_or_default().to_owned();
    twice.expect_code(400, "BAD_REQUEST");
    assert!(message.starts_with("the query cannot be read: duplicate field"), "{message}");
    for (value, status) in [("True", 404), ("0", 404), ("maybe", 400)] {
        api.call_endpoint("DELETE", &format!("/api/v1/files/none?recursive={value}")).expect_status(status);
    }
}

#[test]
fn a_deleted_conversation_is_gone() {
    let (_service, vendor, api) = with_vendor();
    let answer = api.wait_for_completion(&api.ask_question("Hello"));
    let chat = id_field(&answer, "chatId");
    assert!(api.delete_chat(&chat).expect_status(204).body.is_empty());
    api.get_chat(&chat).expect_code(404, "NOT_FOUND");
    api.delete_chat(&chat).expect_code(404, "NOT_FOUND");
    api.stop_chat(&chat).expect_code(404, "NOT_FOUND");
    api.get_message(&chat, &id_field(&answer, "id")).expect_code(404, "NOT_FOUND");
    api.send_question(&json!({ "input": "x", "chatId": chat })).expect_code(404, "NOT_FOUND");
    assert_eq!(api.list_chats("").json()["totalCount"], 0);
    // A conversation with an answer in progress is stopped first.
    vendor.add_script([Say::from_text("Half"), Say::Hold]);
    let writing = api.ask_question("Go on");
    vendor.wait_for_holds(1);
    api.delete_chat(&id_field(&writing, "chatId")).expect_status(204);
    api.get_message(&id_field(&writing, "chatId"), &id_field(&writing, "id")).expect_code(404, "NOT_FOUND");
    assert_eq!(api.list_chats("").json()["totalCount"], 0);
}

#[test]
fn questions_need_credits_and_cost_some() {
    let vendor = ScriptedVendor::start();
    let service = TestService::start(ServiceOptions {
        environment: vendor.service_environment(),
        ..ServiceOptions::default()
    });
    let poor =
        service.create_account_with(&TestAccountOptions { credits: 0, ..TestAccountOptions::default() });
    let api = service.api_for(&poor);
    api.send_question(&json!({ "input": "Hello" })).expect_code(409, "INSUFFICIENT_CREDITS");
    assert_eq!(
        (api.list_chats("").json()["totalCount"].clone(), service.show_credits(&poor)),
        (Value::from(0), (0, 0))
    );
    service.run_admin_command(&["credits", "grant", "--account", &poor.email, "1000"]);
    assert_eq!(service.show_credits(&poor), (1000, 0));
    api.wait_for_completion(&api.ask_question("Hello"));
    let (balance, reserved) = wait_until_settled(&service, &poor);
    assert!((980..1000).contains(&balance) && reserved == 0, "a plain question costs 1 to 20: {balance}");
    // A failed step is not charged.
    for _ in 0..20 {
        vendor.add_script([Say::Refuse(400)]);
    }
    let failed = api.wait_for_completion(&api.ask_question("Hello again"));
    assert!(failed["error"]["code"].is_string() && failed["error"]["message"].is_string(), "{failed}");
    let message = failed["error"]["message"].as_str().expect("a message");
    assert!(failed["text"].as_str().is_some_and(|text| text.ends_with(message)), "{failed}");
    assert_eq!(wait_until_settled(&service, &poor), (balance, 0));
}

fn wait_until_settled(service: &TestService, account: &e2e::TestAccount) -> (i64, i64) {
    poll::wait_until("nothing is reserved", || {
        Some(service.show_credits(account)).filter(|(_, reserved)| *reserved == 0)
    })
}

#[test]
fn concurrent_questions_spend_at_most_balance() {
    let vendor = ScriptedVendor::start();
    let service = TestService::start(ServiceOptions {
        environment: vendor.service_environment(),
        ..ServiceOptions::default()
    });
    let account =
        service.create_account_with(&TestAccountOptions { credits: 60, ..TestAccountOptions::default() });
    let api = service.api_for(&account);
    let answers: Vec<Option<Value>> = std::thread::scope(|scope| {
        let ask = || {
            let response = api.send_question(&json!({ "input": "Hello" }));
            if response.status == 409 {
                response.expect_code(409, "INSUFFICIENT_CREDITS");
                return None;
            }
            Some(response.expect_status(202).json())
        };
        let askers: Vec<_> = (0..40).map(|_| scope.spawn(ask)).collect();
        askers.into_iter().map(|asker| asker.join().expect("an asker")).collect()
    });
    for answer in answers.iter().flatten() {
        api.wait_for_completion(answer);
    }
    let (balance, _) = wait_until_settled(&service, &account);
    assert!((0..60).contains(&balance), "{balance}");
}
