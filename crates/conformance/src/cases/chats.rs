//! Section 4.4: questions, conversations and collected answers.

use serde_json::{Value, json};

use super::Case;
use crate::api::{Api, Expect, find_parts, id_field, is_time, is_uuid};

/// A well-formed id that does not exist.
const NOBODY: &str = "00000000-0000-4000-8000-000000000000";

pub(super) const CASES: &[Case] = cases![
    Answers:
    a_question_is_accepted_empty_and_answered_later,
    questions_that_cannot_be_read_are_refused,
    what_the_catalogs_do_not_hold_is_refused_with_the_values_that_they_hold,
    attached_paths_are_checked,
    ids_of_no_conversation_are_refused,
    replies_to_no_pending_call_are_refused,
    functions_that_cannot_be_offered_are_refused,
    pages_that_are_no_numbers_are_refused,
];

fn a_question_is_accepted_empty_and_answered_later(api: &Api) {
    let answer = api.ask_question("What is a lease?");
    assert!(
        is_uuid(&answer["id"]) && is_uuid(&answer["chatId"]) && answer["id"] != answer["chatId"],
        "{answer}"
    );
    assert_eq!((&answer["status"], &answer["text"]), (&Value::from("in_progress"), &Value::from("")));
    assert!(is_time(&answer["createdAt"]), "{answer}");
    let models = api.get_catalog("models", None).json();
    let default = models.as_array().expect("models").iter().find(|model| model["default"] == true);
    assert_eq!(answer["model"], default.expect("a default model")["id"]);
    let whole = api.wait_for_completion(&answer);
    for field in ["id", "chatId", "createdAt", "model"] {
        assert_eq!(whole[field], answer[field], "{field}");
    }
    assert!(!whole["text"].as_str().expect("a text").is_empty());
    assert!(whole["error"].is_null(), "{whole}");
    assert_eq!(api.get_answer(&answer), whole, "a whole answer stays as it is");
}

fn questions_that_cannot_be_read_are_refused(api: &Api) {
    for body in [
        "",
        "{",
        "null",
        "[]",
        "\"input\"",
        "{}",
        "{\"input\":null}",
        "{\"input\":1}",
        "{\"input\":\"\"}",
        "{\"input\":\" \\n\\t\\u00a0\"}",
        "{\"input\":\"x\"",
        "{\"input\":\"x\"} more",
        "{\"input\":\"\\ud800\"}",
        "{\"input\":\"x\",\"filePaths\":\"/a\"}",
        "{\"input\":\"x\",\"skillIds\":[1]}",
        "{\"input\":\"x\",\"webSearchEnabled\":\"yes\"}",
        "{\"input\":\"x\",\"settings\":{\"a\":\"b\"}}",
        "{\"input\":\"x\",\"settings\":[{\"key\":\"reasoningEffort\"}]}",
    ] {
        let response = api.send_bytes(body.as_bytes());
        assert_eq!(response.status, 400, "{body}: {}", response.text());
        response.expect_refusal(400);
    }
    api.send_bytes(b"{\"input\":\"\xff\"}").expect_refusal(400);
    api.send_bytes("[".repeat(100_000).as_bytes()).expect_refusal(400);
    assert_eq!(api.list_chats("").json()["totalCount"], 0, "no conversation was created");
}

fn what_the_catalogs_do_not_hold_is_refused_with_the_values_that_they_hold(api: &Api) {
    let known = id_field(&api.get_catalog("models", None).expect_status(200).json()[0], "id");
    let message = api
        .send_question(&json!({ "input": "x", "model": "no-such-model" }))
        .expect_code(400, "UNKNOWN_MODEL");
    assert!(message.contains(&known), "the message lists the valid values: {message}");
    let known = id_field(&api.get_catalog("jurisdictions", None).expect_status(200).json()[0], "id");
    let message = api
        .send_question(&json!({ "input": "x", "jurisdictions": ["no-such-place"] }))
        .expect_code(400, "UNKNOWN_JURISDICTION");
    assert!(message.contains(&known), "{message}");
    api.send_question(&json!({ "input": "x", "skillIds": ["no-such-skill"] }))
        .expect_code(400, "UNKNOWN_SKILL");
    api.send_question(&json!({ "input": "x", "agentId": "no-such-agent" })).expect_code(400, "UNKNOWN_AGENT");
    let settings = json!([{ "key": "noSuchSetting", "value": "HIGH" }]);
    api.send_question(&json!({ "input": "x", "settings": settings })).expect_code(400, "UNKNOWN_SETTING");
    assert_eq!(api.list_chats("").json()["totalCount"], 0);
}

fn attached_paths_are_checked(api: &Api) {
    api.upload_file("a.txt", b"The rent is 900 crowns.").expect_status(201);
    let with = |path: &str| api.send_question(&json!({ "input": "What is the rent?", "filePaths": [path] }));
    with("/uploads/none.txt").expect_refusal(400);
    with("/../etc/passwd").expect_refusal(403);
    with("/uploads/../../etc/passwd").expect_refusal(403);
    assert_eq!(api.list_chats("").json()["totalCount"], 0);
    for path in ["/uploads/a.txt", "uploads/a.txt", "/uploads"] {
        let answer = api.wait_for_completion(&with(path).expect_status(202).json());
        let files = find_parts(&answer, "FILE");
        let attached = format!("/{}", path.trim_start_matches('/'));
        assert!(files.iter().any(|file| file["path"] == attached.as_str()), "{path} in {answer}");
    }
}

fn ids_of_no_conversation_are_refused(api: &Api) {
    api.send_question(&json!({ "input": "x", "chatId": "no-uuid" })).expect_refusal(400);
    api.send_question(&json!({ "input": "x", "chatId": 7 })).expect_refusal(400);
    api.send_question(&json!({ "input": "x", "chatId": NOBODY })).expect_code(404, "NOT_FOUND");
    let chat = id_field(&api.wait_for_completion(&api.ask_question("Hello?")), "chatId");
    for nobody in [NOBODY, "no-uuid", "1", "%00", "%FF", "..."] {
        api.get_chat(nobody).expect_code(404, "NOT_FOUND");
        api.delete_chat(nobody).expect_code(404, "NOT_FOUND");
        api.stop_chat(nobody).expect_code(404, "NOT_FOUND");
        api.get_message(&chat, nobody).expect_code(404, "NOT_FOUND");
        api.get_message(nobody, NOBODY).expect_code(404, "NOT_FOUND");
        api.answer_events(&chat, nobody, None).read_whole().expect_code(404, "NOT_FOUND");
        api.chat_events(nobody, None).read_whole().expect_code(404, "NOT_FOUND");
    }
}

fn pages_that_are_no_numbers_are_refused(api: &Api) {
    for query in [
        "?limit=0",
        "?limit=-1",
        "?limit=x",
        "?limit=1.5",
        "?limit=",
        "?offset=-1",
        "?offset=x",
        "?offset=0.5",
        "?offset=99999999999999999999999",
        "?limit=%00",
        "?limit=%FF",
        "?limit=1&limit=2",
    ] {
        let response = api.list_chats(query);
        assert_eq!(response.status, 400, "{query}: {}", response.text());
        response.expect_refusal(400);
    }
}

fn replies_to_no_pending_call_are_refused(api: &Api) {
    let answer = api.wait_for_completion(&api.ask_question("What is a lease?"));
    assert!(answer["pending"].is_null(), "it waits for nothing: {answer}");
    let (chat, message) = (id_field(&answer, "chatId"), id_field(&answer, "id"));
    let reply = json!({ "output": "x" });
    for (chat, message) in [(&*chat, &*message), (&chat, NOBODY), (NOBODY, &message), ("x", "y")] {
        api.reply_to_call((chat, message), "call_1", &reply).expect_code(404, "NOT_FOUND");
    }
    for odd in [json!({}), json!({ "output": "x", "error": "y" }), json!({ "output": 1 }), json!("x")] {
        api.reply_to_call((&chat, &message), "call_1", &odd).expect_code(400, "BAD_REQUEST");
    }
    let long = json!({ "output": "x".repeat((1 << 20) + 1) });
    api.reply_to_call((&chat, &message), "call_1", &long).expect_code(400, "BAD_REQUEST");
    let too_large = json!({ "output": "x".repeat(5 << 20) });
    api.reply_to_call((&chat, &message), "call_1", &too_large).expect_code(413, "TOO_LARGE");
}

fn functions_that_cannot_be_offered_are_refused(api: &Api) {
    for tools in [
        json!([{}]),
        json!([{ "name": "" }]),
        json!([{ "name": "a b" }]),
        json!([{ "name": "registry__note" }]),
        json!([{ "name": "shell" }]),
        json!([{ "name": "a" }, { "name": "a" }]),
        json!([{ "name": "a", "parameters": [] }]),
        json!({ "name": "a" }),
        json!([{ "name": "a", "description": "x".repeat(200_000) }]),
        Value::from((0..100).map(|number| json!({ "name": format!("f{number}") })).collect::<Vec<_>>()),
    ] {
        let question = json!({ "input": "x", "tools": tools });
        api.send_question(&question).expect_code(400, "BAD_REQUEST");
    }
}
