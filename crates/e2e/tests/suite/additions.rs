//! Additions of the service to the interface, which do not change the documented behaviour.

use e2e::api::id_field;
use e2e::{Expect, Say};
use serde_json::{Value, json};

use crate::streams::{StreamFixture, stream_fixture};

#[test]
fn prefer_wait_returns_whole_answer() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    let ask = |wait: &str| {
        let request = api.new_request("POST", "/api/v1/chats").with_header("prefer", wait);
        request.with_body(json!({ "input": "Hello" }).to_string()).send(&api.address)
    };
    let whole = ask("wait=60").expect_status(201).json();
    assert_eq!((&whole["status"], &whole["text"]), (&Value::from("completed"), &Value::from("Done.")));
    assert_eq!(api.get_answer(&whole), whole);
    vendor.add_script([Say::Hold, Say::from_text("Late.")]);
    let late = ask("wait=0").expect_status(202).json();
    vendor.wait_for_holds(1);
    let target = format!("/api/v1/chats/{}/messages/{}", id_field(&late, "chatId"), id_field(&late, "id"));
    let collect = |wait: &str| {
        api.new_request("GET", &target)
            .with_header("prefer", wait)
            .send(&api.address)
            .expect_status(200)
            .json()
    };
    assert_eq!(collect("wait=1")["status"], "in_progress");
    vendor.release_hold();
    assert_eq!(collect("wait=60")["text"], "Late.");
    api.wait_for_completion(&ask("wait=nonsense").expect_status(202).json());
}

#[test]
fn unchanged_answer_returns_not_modified() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    vendor.add_script([Say::from_text("Half"), Say::Hold]);
    let answer = api.ask_question("Hello");
    vendor.wait_for_holds(1);
    let target =
        format!("/api/v1/chats/{}/messages/{}", id_field(&answer, "chatId"), id_field(&answer, "id"));
    let collect =
        |tag: &str| api.new_request("GET", &target).with_header("if-none-match", tag).send(&api.address);
    e2e::poll::wait_until("the text is there", || (api.get_answer(&answer)["text"] == "Half").then_some(()));
    let tag = collect("\"none\"").expect_status(200).header("etag").expect("an entity tag").to_owned();
    assert!(collect(&tag).expect_status(304).body.is_empty());
    vendor.release_hold();
    api.wait_for_completion(&answer);
    let whole = collect(&tag).expect_status(200);
    let tag = whole.header("etag").expect("an entity tag").to_owned();
    collect(&tag).expect_status(304);
}

#[test]
fn idempotency_key_asks_question_once() {
    let StreamFixture { vendor, api, service, .. } = stream_fixture();
    let send = |api: &e2e::Api, key: &str, input: &str| {
        let request = api.new_request("POST", "/api/v1/chats").with_header("idempotency-key", key);
        request.with_body(json!({ "input": input }).to_string()).send(&api.address)
    };
    vendor.add_script([Say::Hold, Say::from_text("Once.")]);
    let first = send(&api, "k-1", "Hello").expect_status(202);
    assert_eq!(first.header("idempotent-replayed"), None);
    let first = first.json();
    let again = send(&api, "k-1", "Hello").expect_status(202);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.json()["id"], first["id"]);
    vendor.release_hold();
    api.wait_for_completion(&first);
    let done = send(&api, "k-1", "Hello").expect_status(201);
    assert_eq!(
        (done.header("idempotent-replayed"), done.json()["text"].as_str()),
        (Some("true"), Some("Once."))
    );
    send(&api, "k-1", "Another").expect_code(409, "IDEMPOTENCY_MISMATCH");
    assert_eq!(api.list_chats("").json()["totalCount"], 1);
    let stranger = service.api_for(&service.create_account());
    let other = send(&stranger, "k-1", "Another").expect_status(202).json();
    stranger.wait_for_completion(&other);
    api.delete_chat(&id_field(&first, "chatId")).expect_status(204);
    send(&api, "k-1", "Hello").expect_code(404, "NOT_FOUND");
    assert_eq!(vendor.request_bodies().len(), 2);
}
