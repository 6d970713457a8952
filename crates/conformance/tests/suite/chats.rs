//! Section 4.4: questions, conversations and collected answers.

use conformance::api::{id, is_time, is_uuid};
use conformance::{Api, Expect, NewAccount, Options, Say, Service, Vendor, poll, vendor};
use serde_json::{Value, json};

fn with_vendor() -> (Service, Vendor, Api) {
    let vendor = Vendor::start();
    let service = Service::start(Options { environment: vendor.environment(), ..Options::default() });
    let api = service.api(&service.account());
    (service, vendor, api)
}

#[test]
fn a_body_is_json_whatever_its_type_says() {
    let (_service, vendor, api) = with_vendor();
    let body = json!({ "input": "Hello" }).to_string();
    for kind in [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("nonsense")] {
        let mut request =
            api.request("POST", "/api/v1/chats").header("accept", "image/png").body(body.clone());
        if let Some(kind) = kind {
            request = request.header("content-type", kind);
        }
        let answer = request.send(&api.address).expect_status(202).json();
        api.completed(&answer);
    }
    let chunked = api.request("POST", "/api/v1/chats").body(body).chunked().send(&api.address);
    api.completed(&chunked.expect_status(202).json());
    assert_eq!(vendor.requests().len(), 5);
}

#[test]
fn fields_that_are_not_known_or_null_change_nothing() {
    let (_service, vendor, api) = with_vendor();
    let question = json!({ "input": "Hello", "unknown": {"a": [1]}, "chatId": null, "agentId": null,
        "skillIds": null, "filePaths": null, "model": null, "jurisdictions": null, "webSearchEnabled": null,
        "settings": null });
    let answer = api.completed(&api.accepted(&question));
    assert_eq!(answer["text"], "Done.");
    assert_eq!(vendor.requests().len(), 1);
}

#[test]
fn a_field_of_a_wrong_type_is_named() {
    let (_service, _vendor, api) = with_vendor();
    for (question, field) in [
        (json!({ "input": 5 }), "input"),
        (json!({ "input": "x", "webSearchEnabled": "yes" }), "webSearchEnabled"),
        (json!({ "input": "x", "filePaths": ["/a", 7] }), "filePaths[1]"),
        (json!({ "input": "x", "settings": [{ "key": "k" }] }), "settings[0]"),
    ] {
        let refused = api.send(&question).expect_status(400).json();
        let message = refused["message"].as_str().expect("a message").to_owned();
        assert!(message.starts_with(&format!("the body cannot be read: {field}: ")), "{message}");
    }
}

#[test]
fn an_answer_belongs_to_its_conversation() {
    let (_service, _vendor, api) = with_vendor();
    let (one, other) = (api.ask("One"), api.ask("Other"));
    api.completed(&one);
    api.completed(&other);
    api.collect(&id(&one, "chatId"), &id(&other, "id")).expect_code(404, "NOT_FOUND");
}

#[test]
fn a_conversation_is_continued_with_its_history() {
    let (_service, vendor, api) = with_vendor();
    vendor.will([Say::text("The rent is 900.")]);
    let first = api.completed(&api.ask("What is the rent?"));
    vendor.will([Say::text("It rises in May.")]);
    let chat = id(&first, "chatId");
    // A continuation keeps the conversation's choices; those in the request are not even validated.
    let again = json!({ "input": "When does it rise?", "chatId": chat, "model": "no-such-model",
        "jurisdictions": "CZ", "webSearchEnabled": 1, "settings": [{ "key": "none", "value": "none" }] });
    let second = api.completed(&api.accepted(&again));
    assert_eq!((&second["chatId"], &second["model"]), (&first["chatId"], &Value::from(vendor::MODEL)));
    let request = vendor.requests()[1].to_string();
    for text in ["What is the rent?", "The rent is 900.", "When does it rise?"] {
        assert!(request.contains(text), "{text} in {request}");
    }
    let detail = api.chat(&chat).expect_status(200).json();
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
fn a_busy_conversation_turns_a_question_down() {
    let (_service, vendor, api) = with_vendor();
    vendor.will([Say::text("First"), Say::Hold]);
    let answer = api.ask("Hold on");
    let chat = id(&answer, "chatId");
    let again = json!({ "input": "And now?", "chatId": chat });
    let busy = api.send(&again);
    let wait: u64 = busy.header("retry-after").expect("when to try again").parse().expect("in seconds");
    assert!((1..=60).contains(&wait));
    busy.expect_code(409, "CONVERSATION_BUSY");
    vendor.wait_held(1);
    api.send(&again).expect_code(409, "CONVERSATION_BUSY");
    // Another conversation is answered in the meantime.
    assert_eq!(api.completed(&api.ask("Elsewhere"))["text"], "Done.");
    vendor.release();
    api.completed(&answer);
    assert_eq!(api.completed(&api.accepted(&again))["text"], "Done.");
}

#[test]
fn one_of_many_questions_at_once_is_accepted() {
    let (_service, vendor, api) = with_vendor();
    let chat = id(&api.completed(&api.ask("Hello")), "chatId");
    vendor.will([Say::Hold]);
    let question = json!({ "input": "And now?", "chatId": chat });
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let askers: Vec<_> = (0..16).map(|_| scope.spawn(|| api.send(&question).status)).collect();
        askers.into_iter().map(|asker| asker.join().expect("an asker")).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 202).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 15, "{statuses:?}");
    vendor.release();
    poll::until("it is answered", || (api.chat(&chat).json()["chat"]["status"] == "completed").then_some(()));
    assert_eq!(api.chat(&chat).json()["messages"].as_array().map(Vec::len), Some(4));
}

#[test]
fn a_stopped_answer_keeps_what_was_written() {
    let (_service, vendor, api) = with_vendor();
    vendor.will([Say::text("Half a "), Say::Hold, Say::text("sentence.")]);
    let answer = api.ask("Go on");
    let chat = id(&answer, "chatId");
    vendor.wait_held(1);
    poll::until("something is written", || (api.now(&answer)["text"] != "").then_some(()));
    let stopped = api.stop(&chat).expect_status(202).json();
    assert_summary(&stopped);
    let whole = api.completed(&answer);
    assert_eq!(whole["text"].as_str().map(str::trim_end), Some("Half a"));
    assert!(whole["error"].is_null(), "{whole}");
    for part in whole["parts"].as_array().expect("parts") {
        assert_ne!(part["state"], "PENDING", "{part}");
    }
    let again = api.stop(&chat).expect_status(202).json();
    assert_eq!((&again["chatId"], &again["status"]), (&answer["chatId"], &Value::from("completed")));
    assert_eq!(api.now(&answer), whole, "stopping a completed answer changes nothing");
    assert_eq!(api.completed(&api.accepted(&json!({ "input": "More", "chatId": chat })))["text"], "Done.");
}

fn assert_summary(chat: &Value) {
    assert!(is_uuid(&chat["chatId"]) && chat["title"].is_string() && chat["model"].is_string(), "{chat}");
    assert!(["in_progress", "completed"].iter().any(|known| chat["status"] == *known), "{chat}");
    assert!(is_time(&chat["createdAt"]) && is_time(&chat["modifiedAt"]), "{chat}");
    assert!(chat["pinned"].is_boolean() && chat["webSearchEnabled"].is_boolean(), "{chat}");
    assert!(chat["jurisdictions"].is_array(), "{chat}");
}

#[test]
fn conversations_are_listed_most_recent_first_in_pages() {
    let (_service, _vendor, api) = with_vendor();
    let empty = api.chats("").expect_status(200).json();
    assert_eq!(empty, json!({ "chats": [], "offset": 0, "limit": 50, "totalCount": 0 }));
    let chats: Vec<Value> = ["One", "Two", "Three"]
        .iter()
        .map(|input| api.completed(&api.ask(input))["chatId"].clone())
        .collect();
    let listed = |query: &str| {
        let page = api.chats(query).expect_status(200).json();
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
    api.completed(&api.accepted(&json!({ "input": "Again", "chatId": chats[0] })));
    assert_eq!(ids(&listed(""))[0], chats[0], "a question brings its conversation to the front");
}

#[test]
fn what_no_client_means_is_refused_with_the_reason() {
    let service = Service::start(Options::default());
    let api = service.api(&service.account());
    let question = json!({ "input": "Hello" }).to_string();
    let compressed =
        api.request("POST", "/api/v1/chats").header("content-encoding", "gzip").body(question.clone());
    let compressed = compressed.send(&api.address);
    assert!(compressed.json()["message"].as_str().is_some_and(|message| message.contains("gzip")));
    compressed.expect_code(400, "BAD_REQUEST");
    let plain = api.request("POST", "/api/v1/chats").header("content-encoding", "identity").body(question);
    plain.send(&api.address).expect_status(202);
    api.send(&json!({ "input": "Hello", "filePaths": [""] })).expect_refusal(400);
    let twice = api.chats("?limit=1&limit=2");
    let message = twice.json()["message"].as_str().unwrap_or_default().to_owned();
    twice.expect_code(400, "BAD_REQUEST");
    assert!(message.starts_with("the query cannot be read: duplicate field"), "{message}");
    for (value, status) in [("True", 404), ("0", 404), ("maybe", 400)] {
        api.call("DELETE", &format!("/api/v1/files/none?recursive={value}")).expect_status(status);
    }
}

#[test]
fn a_deleted_conversation_is_gone() {
    let (_service, vendor, api) = with_vendor();
    let answer = api.completed(&api.ask("Hello"));
    let chat = id(&answer, "chatId");
    assert!(api.delete_chat(&chat).expect_status(204).body.is_empty());
    api.chat(&chat).expect_code(404, "NOT_FOUND");
    api.delete_chat(&chat).expect_code(404, "NOT_FOUND");
    api.stop(&chat).expect_code(404, "NOT_FOUND");
    api.collect(&chat, &id(&answer, "id")).expect_code(404, "NOT_FOUND");
    api.send(&json!({ "input": "x", "chatId": chat })).expect_code(404, "NOT_FOUND");
    assert_eq!(api.chats("").json()["totalCount"], 0);
    // A conversation with an answer in progress is stopped first.
    vendor.will([Say::text("Half"), Say::Hold]);
    let writing = api.ask("Go on");
    vendor.wait_held(1);
    api.delete_chat(&id(&writing, "chatId")).expect_status(204);
    api.collect(&id(&writing, "chatId"), &id(&writing, "id")).expect_code(404, "NOT_FOUND");
    assert_eq!(api.chats("").json()["totalCount"], 0);
}

#[test]
fn questions_need_credits_and_cost_some() {
    let vendor = Vendor::start();
    let service = Service::start(Options { environment: vendor.environment(), ..Options::default() });
    let poor = service.account_as(&NewAccount { credits: 0, ..NewAccount::default() });
    let api = service.api(&poor);
    api.send(&json!({ "input": "Hello" })).expect_code(409, "INSUFFICIENT_CREDITS");
    assert_eq!(
        (api.chats("").json()["totalCount"].clone(), service.credits(&poor)),
        (Value::from(0), (0, 0))
    );
    service.admin(&["credits", "grant", "--account", &poor.email, "1000"]);
    assert_eq!(service.credits(&poor), (1000, 0));
    api.completed(&api.ask("Hello"));
    let (balance, reserved) = settled(&service, &poor);
    assert!((980..1000).contains(&balance) && reserved == 0, "a plain question costs 1 to 20: {balance}");
    // A failed step is not charged.
    for _ in 0..20 {
        vendor.will([Say::Refuse(400)]);
    }
    let failed = api.completed(&api.ask("Hello again"));
    assert!(failed["error"]["code"].is_string() && failed["error"]["message"].is_string(), "{failed}");
    let message = failed["error"]["message"].as_str().expect("a message");
    assert!(failed["text"].as_str().is_some_and(|text| text.ends_with(message)), "{failed}");
    assert_eq!(settled(&service, &poor), (balance, 0));
}

fn settled(service: &Service, account: &conformance::Account) -> (i64, i64) {
    poll::until("nothing is reserved", || {
        Some(service.credits(account)).filter(|(_, reserved)| *reserved == 0)
    })
}

#[test]
fn many_questions_at_once_spend_no_more_than_there_is() {
    let vendor = Vendor::start();
    let service = Service::start(Options { environment: vendor.environment(), ..Options::default() });
    let account = service.account_as(&NewAccount { credits: 60, ..NewAccount::default() });
    let api = service.api(&account);
    let answers: Vec<Option<Value>> = std::thread::scope(|scope| {
        let ask = || {
            let response = api.send(&json!({ "input": "Hello" }));
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
        api.completed(answer);
    }
    let (balance, _) = settled(&service, &account);
    assert!((0..60).contains(&balance), "{balance}");
}
