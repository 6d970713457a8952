//! Options of a question besides its body: waiting for the answer, repeating the request, and the caller's
//! balance.

use serde_json::{Value, json};

use super::Case;
use crate::api::{Api, Expect, builtin_reader_id, id_field, uploaded_path};
use crate::http::HttpResponse;

pub(super) const CASES: &[Case] = cases![
    Answers:
    a_body_is_read_as_json_whatever_is_said_of_it,
    who_waits_gets_the_whole_answer,
    a_repeated_question_is_answered_by_the_first,
    a_repeated_question_is_not_checked_again,
    idempotency_keys_have_a_form,
    an_answer_that_the_caller_has_is_not_sent_again,
    a_conversation_tells_of_itself_and_changes,
    conversations_are_renamed_and_pinned,
    web_search_and_jurisdictions_are_kept_with_the_conversation,
];

fn ask_with_headers(api: &Api, headers: &[(&str, &str)], body: &Value) -> HttpResponse {
    let request = api.new_request("POST", "/api/v1/chats");
    let request = headers.iter().fold(request, |request, (name, value)| request.with_header(name, value));
    request.with_body(body.to_string()).send(&api.address)
}

fn a_body_is_read_as_json_whatever_is_said_of_it(api: &Api) {
    let body = json!({ "input": "Hello", "model": builtin_reader_id(api) });
    for kind in [
        "application/json",
        "application/json; charset=windows-1250",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=b",
        "application/octet-stream",
        "nonsense",
        "",
    ] {
        let answer = ask_with_headers(api, &[("content-type", kind), ("accept", "image/png")], &body);
        api.wait_for_completion(&answer.expect_status(202).json());
    }
    let plain = api.new_request("POST", "/api/v1/chats").with_body(body.to_string());
    api.wait_for_completion(&plain.clone().send(&api.address).expect_status(202).json());
    api.wait_for_completion(&plain.with_chunked_body().send(&api.address).expect_status(202).json());
    let spaced = format!(" \n\t{body}\r\n ");
    api.wait_for_completion(&api.send_bytes(spaced.as_bytes()).expect_status(202).json());
}

fn who_waits_gets_the_whole_answer(api: &Api) {
    let body = json!({ "input": "Hello", "model": builtin_reader_id(api) });
    for wait in ["wait=60", "wait=61", "wait=999999999", "WAIT=30", "respond-async, wait=30", "wait=30; x=y"]
    {
        let whole = ask_with_headers(api, &[("prefer", wait)], &body).expect_status(201).json();
        assert_eq!(whole["status"], "completed", "{wait}");
        assert!(whole["text"].as_str().is_some_and(|text| !text.is_empty()), "{wait}");
        assert_eq!(api.get_answer(&whole), whole, "{wait}");
    }
    for no_wait in ["wait", "wait=", "wait=-1", "wait=soon", "wait=1.5", "waiting=60", "", "return=minimal"] {
        let answer = ask_with_headers(api, &[("prefer", no_wait)], &body).expect_status(202).json();
        assert_eq!((&answer["status"], &answer["text"]), (&"in_progress".into(), &"".into()), "{no_wait:?}");
        let target =
            format!("/api/v1/chats/{}/messages/{}", id_field(&answer, "chatId"), id_field(&answer, "id"));
        let collected = api.new_request("GET", &target).with_header("prefer", "wait=60").send(&api.address);
        assert_eq!(collected.expect_status(200).json()["status"], "completed");
    }
    let at_once = ask_with_headers(api, &[("prefer", "wait=0")], &body);
    assert!(matches!(at_once.status, 201 | 202), "{}", at_once.status);
}

fn a_repeated_question_is_answered_by_the_first(api: &Api) {
    let body = json!({ "input": "Hello", "model": builtin_reader_id(api) });
    let keyed = |key: &str, body: &Value| {
        ask_with_headers(api, &[("idempotency-key", key), ("prefer", "wait=60")], body)
    };
    let first = keyed("one", &body).expect_status(201);
    assert_eq!(first.header("idempotent-replayed"), None);
    let again = keyed("one", &body).expect_status(201);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.json(), first.json());
    let other = json!({ "input": "Hello", "model": builtin_reader_id(api), "webSearchEnabled": true });
    keyed("one", &other).expect_code(409, "IDEMPOTENCY_MISMATCH");
    assert_ne!(keyed("two", &body).expect_status(201).json()["id"], first.json()["id"]);
    // A rejected request is not stored: the same key may be used for a corrected one.
    let refused = json!({ "input": "Hello", "model": "no-such-model" });
    keyed("three", &refused).expect_code(400, "UNKNOWN_MODEL");
    keyed("three", &body).expect_status(201);
    api.delete_chat(&id_field(&first.json(), "chatId")).expect_status(204);
    keyed("one", &body).expect_code(404, "NOT_FOUND");
    assert_eq!(api.list_chats("").json()["totalCount"], 2);
}

fn a_repeated_question_is_not_checked_again(api: &Api) {
    let path = uploaded_path(api.upload_file("gone.txt", b"The rent is 900 crowns."));
    let body = json!({ "input": "What is the rent?", "filePaths": [path], "model": builtin_reader_id(api) });
    let keyed =
        |body: &Value| ask_with_headers(api, &[("idempotency-key", "k"), ("prefer", "wait=60")], body);
    let first = keyed(&body).expect_status(201).json();
    api.delete_file(&path).expect_status(204);
    api.send_question(&body).expect_refusal(400);
    let again = keyed(&body).expect_status(201);
    assert_eq!((again.header("idempotent-replayed"), again.json()), (Some("true"), first));
    // Another body with the same key is rejected before its content is checked.
    let other = json!({ "input": "What?", "filePaths": ["/none"], "model": "none" });
    keyed(&other).expect_code(409, "IDEMPOTENCY_MISMATCH");
}

fn idempotency_keys_have_a_form(api: &Api) {
    let body = json!({ "input": "Hello", "model": builtin_reader_id(api) });
    let keyed = |key: &str| ask_with_headers(api, &[("idempotency-key", key)], &body);
    for wrong in ["", &"x".repeat(256), "žluťoučký"] {
        keyed(wrong).expect_refusal(400);
    }
    for second in ["one", "two"] {
        let twice = ask_with_headers(api, &[("idempotency-key", "one"), ("idempotency-key", second)], &body);
        let message = twice.json()["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains("Idempotency-Key"), "{message}");
        twice.expect_code(400, "BAD_REQUEST");
    }
    for right in ["x", &"x".repeat(255), "\"quoted; with=signs\"", "8e03978e-40d5-43e8-bc93-6894a57f9324"] {
        let answer = keyed(right).expect_status(202).json();
        api.wait_for_completion(&answer);
        assert_eq!(keyed(right).expect_status(201).json()["id"], answer["id"], "{right:?}");
    }
}

fn an_answer_that_the_caller_has_is_not_sent_again(api: &Api) {
    let answer = api.wait_for_completion(
        &api.expect_accepted(&json!({ "input": "Hello", "model": builtin_reader_id(api) })),
    );
    let target =
        format!("/api/v1/chats/{}/messages/{}", id_field(&answer, "chatId"), id_field(&answer, "id"));
    let collect =
        |tag: &str| api.new_request("GET", &target).with_header("if-none-match", tag).send(&api.address);
    let tag = collect("\"x\"").expect_status(200).header("etag").expect("an entity tag").to_owned();
    for known in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}"), "*".to_owned()] {
        let response = collect(&known).expect_status(304);
        assert!(response.body.is_empty() && response.header("etag") == Some(&tag), "{known}");
    }
    for unknown in ["", "nonsense", "\"\"", tag.trim_matches('"')] {
        assert_eq!(collect(unknown).expect_status(200).json(), answer, "{unknown:?}");
    }
    // Compression changes the bytes, so the tag is weak; it still matches.
    let coded = api.new_request("GET", &target).with_header("accept-encoding", "gzip").send(&api.address);
    let weak = coded.expect_status(200).header("etag").expect("an entity tag").to_owned();
    collect(&weak).expect_status(304);
}

fn a_conversation_tells_of_itself_and_changes(api: &Api) {
    let question = "When is the rent due?\nAnd how much is it?";
    let answer = api.wait_for_completion(
        &api.expect_accepted(&json!({ "input": question, "model": builtin_reader_id(api) })),
    );
    let chat = id_field(&answer, "chatId");
    let detail = api.get_chat(&chat).expect_status(200).json();
    let summary = &detail["chat"];
    assert_eq!(summary["title"], "When is the rent due?", "the title comes from the first question");
    assert_eq!((&summary["model"], &summary["pinned"]), (&answer["model"], &false.into()));
    assert_eq!((&summary["webSearchEnabled"], &summary["jurisdictions"]), (&false.into(), &json!([])));
    assert_eq!(&api.list_chats("").json()["chats"][0], summary, "the list has the same entry");
    let message = &detail["messages"][0];
    assert_eq!((&message["role"], &message["text"]), (&"USER".into(), &question.into()));
    assert_eq!(message["status"], "completed");
    let reply = &detail["messages"][1];
    assert_eq!(
        (&reply["id"], &reply["text"], &reply["parts"]),
        (&answer["id"], &answer["text"], &answer["parts"])
    );
    let moved = |before: &Value| {
        let now = api.get_chat(&chat).json()["chat"]["modifiedAt"].clone();
        assert!(now.as_str() > before.as_str(), "{now} after {before}");
        now
    };
    let before = summary["modifiedAt"].clone();
    let second = api.expect_accepted(&json!({ "input": "And in May?", "chatId": chat }));
    let asked = moved(&before);
    api.wait_for_completion(&second);
    assert!(api.get_chat(&chat).json()["chat"]["modifiedAt"].as_str() >= asked.as_str());
    assert_eq!(api.get_chat(&chat).json()["chat"]["title"], summary["title"], "and stays");
    let stopped = api.stop_chat(&chat).expect_status(202).json();
    assert_eq!((&stopped["chatId"], &stopped["status"]), (&summary["chatId"], &"completed".into()));
}

fn web_search_and_jurisdictions_are_kept_with_the_conversation(api: &Api) {
    let known = api.get_catalog("jurisdictions", None).json();
    let ids: Vec<Value> =
        known.as_array().expect("jurisdictions").iter().map(|one| one["id"].clone()).collect();
    let chosen = json!([ids[1], ids[0], ids[1]]);
    let answer = api.wait_for_completion(
        &api.expect_accepted(&json!({ "input": "Hello", "model": builtin_reader_id(api),
        "webSearchEnabled": true, "jurisdictions": chosen })),
    );
    let chat = id_field(&answer, "chatId");
    let kept =
        |detail: Value| (detail["chat"]["webSearchEnabled"].clone(), detail["chat"]["jurisdictions"].clone());
    let expected = (Value::from(true), json!([ids[1], ids[0]]));
    assert_eq!(kept(api.get_chat(&chat).json()), expected);
    let again = json!({ "input": "More", "chatId": chat, "webSearchEnabled": false, "jurisdictions": ["none"],
        "model": "none", "settings": [{ "key": "none", "value": "none" }] });
    api.wait_for_completion(&api.expect_accepted(&again));
    assert_eq!(
        kept(api.get_chat(&chat).json()),
        expected,
        "a continuation takes it over, and looks at nothing else"
    );
}

fn conversations_are_renamed_and_pinned(api: &Api) {
    let chats: Vec<String> = ["One", "Two"]
        .map(|input| {
            id_field(
                &api.wait_for_completion(
                    &api.expect_accepted(&json!({ "input": input, "model": builtin_reader_id(api) })),
                ),
                "chatId",
            )
        })
        .to_vec();
    let patch = |chat: &str, body: &str| {
        api.new_request("PATCH", &format!("/api/v1/chats/{chat}")).with_body(body).send(&api.address)
    };
    let patched = patch(&chats[0], r#"{"title": " Renamed ", "pinned": true}"#).expect_status(200).json();
    assert_eq!((&patched["title"], &patched["pinned"]), (&"Renamed".into(), &true.into()));
    let first = |api: &Api| api.list_chats("").json()["chats"][0]["chatId"].clone();
    assert_eq!(first(api), chats[0].as_str(), "pinned first");
    assert_eq!(api.get_chat(&chats[0]).json()["chat"], patched);
    patch(&chats[0], r#"{"pinned": false}"#).expect_status(200);
    assert_eq!(first(api), chats[1].as_str(), "then the most recent");
    assert_eq!(
        patch(&chats[0], "{}").expect_status(200).json()["title"],
        "Renamed",
        "nothing changes nothing"
    );
    let long = format!("{{\"title\":\"{}\"}}", "x".repeat(500));
    for wrong in [
        "",
        "{",
        "[]",
        r#"{"title": " "}"#,
        r#"{"title": 1}"#,
        r#"{"pinned": "yes"}"#,
        r#"{"title": "a\nb"}"#,
        &long,
    ] {
        patch(&chats[0], wrong).expect_code(400, "BAD_REQUEST");
    }
    patch(&chats[0], &format!("{{\"title\":\"{}\"}}", "x".repeat(5 << 20))).expect_code(413, "TOO_LARGE");
    for nobody in ["00000000-0000-4000-8000-000000000000", "no-uuid"] {
        patch(nobody, r#"{"pinned": true}"#).expect_code(404, "NOT_FOUND");
    }
}
