//! Additions of the service to the interface, which do not change the documented behaviour.

use conformance::api::id;
use conformance::{Expect, Say};
use serde_json::{Value, json};

use crate::streams::{Stage, stage};

#[test]
fn who_prefers_to_wait_is_answered_whole() {
    let Stage { vendor, api, service: _service, .. } = stage();
    let ask = |wait: &str| {
        let request = api.request("POST", "/api/v1/chats").header("prefer", wait);
        request.body(json!({ "input": "Hello" }).to_string()).send(&api.address)
    };
    let whole = ask("wait=60").expect_status(201).json();
    assert_eq!((&whole["status"], &whole["text"]), (&Value::from("completed"), &Value::from("Done.")));
    assert_eq!(api.now(&whole), whole);
    vendor.will([Say::Hold, Say::text("Late.")]);
    let late = ask("wait=0").expect_status(202).json();
    vendor.wait_held(1);
    let target = format!("/api/v1/chats/{}/messages/{}", id(&late, "chatId"), id(&late, "id"));
    let collect = |wait: &str| {
        api.request("GET", &target).header("prefer", wait).send(&api.address).expect_status(200).json()
    };
    assert_eq!(collect("wait=1")["status"], "in_progress");
    vendor.release();
    assert_eq!(collect("wait=60")["text"], "Late.");
    api.completed(&ask("wait=nonsense").expect_status(202).json());
}

#[test]
fn an_answer_that_has_not_changed_is_not_sent_again() {
    let Stage { vendor, api, service: _service, .. } = stage();
    vendor.will([Say::text("Half"), Say::Hold]);
    let answer = api.ask("Hello");
    vendor.wait_held(1);
    let target = format!("/api/v1/chats/{}/messages/{}", id(&answer, "chatId"), id(&answer, "id"));
    let collect = |tag: &str| api.request("GET", &target).header("if-none-match", tag).send(&api.address);
    conformance::poll::until("the text is there", || (api.now(&answer)["text"] == "Half").then_some(()));
    let tag = collect("\"none\"").expect_status(200).header("etag").expect("an entity tag").to_owned();
    assert!(collect(&tag).expect_status(304).body.is_empty());
    vendor.release();
    api.completed(&answer);
    let whole = collect(&tag).expect_status(200);
    let tag = whole.header("etag").expect("an entity tag").to_owned();
    collect(&tag).expect_status(304);
}

#[test]
fn a_question_sent_twice_under_one_key_is_asked_once() {
    let Stage { vendor, api, service, .. } = stage();
    let send = |api: &conformance::Api, key: &str, input: &str| {
        let request = api.request("POST", "/api/v1/chats").header("idempotency-key", key);
        request.body(json!({ "input": input }).to_string()).send(&api.address)
    };
    vendor.will([Say::Hold, Say::text("Once.")]);
    let first = send(&api, "k-1", "Hello").expect_status(202);
    assert_eq!(first.header("idempotent-replayed"), None);
    let first = first.json();
    let again = send(&api, "k-1", "Hello").expect_status(202);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.json()["id"], first["id"]);
    vendor.release();
    api.completed(&first);
    let done = send(&api, "k-1", "Hello").expect_status(201);
    assert_eq!(
        (done.header("idempotent-replayed"), done.json()["text"].as_str()),
        (Some("true"), Some("Once."))
    );
    send(&api, "k-1", "Another").expect_code(409, "IDEMPOTENCY_MISMATCH");
    assert_eq!(api.chats("").json()["totalCount"], 1);
    let stranger = service.api(&service.account());
    let other = send(&stranger, "k-1", "Another").expect_status(202).json();
    stranger.completed(&other);
    api.delete_chat(&id(&first, "chatId")).expect_status(204);
    send(&api, "k-1", "Hello").expect_code(404, "NOT_FOUND");
    assert_eq!(vendor.requests().len(), 2);
}
