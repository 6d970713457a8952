//! Files inside messages, and uploaded ones.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use e2e::api::{UploadPart, multipart_form};
use e2e::{Expect, HttpRequest, HttpResponse, Say};
use serde_json::{Value, json};

use crate::stage::{OpenAiStage, content_of, expect_error};

fn file_part(name: &str, content: &str) -> Value {
    let data = format!("data:text/plain;base64,{}", STANDARD.encode(content));
    json!({"type": "file", "file": {"filename": name, "file_data": data}})
}

#[test]
fn sent_files_are_attached_once() {
    let stage = OpenAiStage::with_vendor();
    let lease = file_part("lease.txt", "The rent is due on the fifth day.");
    let message = json!({"role": "user", "content": [{"type": "text", "text": "When?"}, lease]});
    stage.vendor().add_script([Say::from_text("On the 5th.")]);
    let completion = stage.complete(&json!([message]));
    assert_eq!(content_of(&completion), "On the 5th.");
    let request = stage.vendor().request_bodies().remove(0);
    assert!(request["messages"].to_string().contains("due on the fifth day"), "the model reads the file");
    // It is sent again with the history, and again with a question.
    stage.vendor().add_script([Say::from_text("Yes.")]);
    let again = json!([message, {"role": "assistant", "content": "On the 5th."}, message]);
    stage.complete(&again);
    let folders = stage.api().list_directory("/uploads/.tmp").expect_status(200).json();
    assert_eq!(folders["totalEntries"], 1, "{folders}");
    assert_eq!(stage.list_chats().len(), 1);
}

#[test]
fn broken_files_are_refused() {
    let stage = OpenAiStage::with_reader();
    let ask =
        |part: Value| stage.post_completion(&json!({"messages": [{"role": "user", "content": [part]}]}));
    for part in [
        json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,%%%"}}),
        json!({"type": "image_url", "image_url": {"url": "data:image/png,raw"}}),
        json!({"type": "file", "file": {"file_id": "file-unknown!"}}),
        json!({"type": "file", "file": {"file_id": "/uploads/none.pdf"}}),
    ] {
        let refused = ask(part.clone());
        assert_eq!(refused.status, 400, "{part}: {}", refused.text());
    }
    expect_error(&ask(json!({"type": "input_audio"})), 400, None);
    assert!(stage.list_chats().is_empty());
}

fn upload(stage: &OpenAiStage, name: &str, content: &[u8]) -> HttpResponse {
    let parts = [UploadPart::from_field("purpose", "user_data"), UploadPart::from_file(name, content)];
    let (kind, body) = multipart_form(&parts);
    let request = stage.request("POST", "/v1/files").with_header("content-type", &kind).with_body(body);
    request.send(stage.service.address())
}

#[test]
fn uploaded_file_is_listed_read_and_deleted() {
    let stage = OpenAiStage::with_reader();
    let empty = stage.call("GET", "/v1/files").expect_status(200).json();
    assert_eq!((&empty["object"], &empty["data"]), (&json!("list"), &json!([])));
    let file = upload(&stage, "nájem (1).txt", b"The rent is due.").expect_status(200).json();
    assert_eq!((&file["object"], &file["bytes"]), (&json!("file"), &json!(16)));
    assert_eq!((&file["filename"], &file["purpose"]), (&json!("nájem (1).txt"), &json!("user_data")));
    assert!(file["created_at"].as_u64().is_some_and(|time| time > 1_700_000_000), "{file}");
    let id = file["id"].as_str().expect("an id").to_owned();
    let target = format!("/v1/files/{id}");
    assert_eq!(stage.call("GET", &target).expect_status(200).json(), file);
    let content = stage.call("GET", &format!("{target}/content")).expect_status(200);
    assert_eq!(content.text(), "The rent is due.");
    let range = stage.request("GET", &format!("{target}/content")).with_header("range", "bytes=4-7");
    assert_eq!(range.send(stage.service.address()).expect_status(206).text(), "rent");
    let far = stage.request("GET", &format!("{target}/content")).with_header("range", "bytes=99-");
    expect_error(&far.send(stage.service.address()), 416, Some("range_not_satisfiable"));
    let others: Vec<Value> =
        ["b.txt", "c.txt"].iter().map(|name| upload(&stage, name, b"x").expect_status(200).json()).collect();
    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let page =
            stage.call("GET", &format!("/v1/files?limit=2&order=asc{after}")).expect_status(200).json();
        seen.extend(page["data"].as_array().expect("files").clone());
        if page["has_more"] == false {
            break;
        }
        after = format!("&after={}", page["last_id"].as_str().expect("an id"));
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert!([&file, &others[0], &others[1]].iter().all(|file| seen.contains(file)), "{seen:?}");
    let deleted = stage.call("DELETE", &target).expect_status(200).json();
    assert_eq!(deleted, json!({"id": id, "object": "file", "deleted": true}));
    for (method, target) in
        [("GET", target.clone()), ("GET", format!("{target}/content")), ("DELETE", target)]
    {
        expect_error(&stage.call(method, &target), 404, Some("not_found"));
    }
    let left = stage.call("GET", "/v1/files").expect_status(200).json();
    assert_eq!(left["data"].as_array().map(Vec::len), Some(2));
}

#[test]
fn file_ids_attach_files_to_questions() {
    let stage = OpenAiStage::with_vendor();
    let file = upload(&stage, "lease.txt", b"The rent is due on the fifth day.").expect_status(200).json();
    let read = |at: usize| {
        let request = stage.vendor().request_bodies().remove(at);
        assert!(request["messages"].to_string().contains("due on the fifth day"), "the model reads the file");
    };
    stage.script_text("On the 5th.");
    let part = json!({"type": "file", "file": {"file_id": file["id"]}});
    stage.complete(&json!([{"role": "user", "content": [{"type": "text", "text": "When?"}, part]}]));
    read(0);
    stage.script_text("On the 5th.");
    let part = json!({"type": "input_file", "file_id": file["id"]});
    stage.respond(
        &json!({"input": [{"role": "user", "content": [{"type": "input_text", "text": "When?"}, part]}]}),
    );
    read(1);
}

#[test]
fn wrong_uploads_and_files_are_refused() {
    let stage = OpenAiStage::with_reader();
    let post = |kind: &str, body: Vec<u8>| {
        let request = stage.request("POST", "/v1/files").with_header("content-type", kind).with_body(body);
        request.send(stage.service.address())
    };
    expect_error(&post("application/json", b"{}".to_vec()), 400, None);
    let (kind, body) = multipart_form(&[UploadPart::from_field("purpose", "user_data")]);
    assert_eq!(expect_error(&post(&kind, body), 400, None)["param"], "file");
    expect_error(&upload(&stage, "empty.txt", b""), 400, Some("empty_file"));
    // Neither a path that leads out nor a folder is a file.
    stage.api().call_endpoint("POST", "/api/v1/directories/notes").expect_status(201);
    for path in ["/../../etc/passwd", "/notes", "/none.txt", "/a\0b"] {
        let target = format!("/v1/files/file-{}", URL_SAFE_NO_PAD.encode(path));
        for (method, target) in [("GET", target.clone()), ("DELETE", target)] {
            let refused = stage.call(method, &target);
            assert!(matches!(refused.status, 400 | 403 | 404), "{path}: {}", refused.text());
            expect_error(&refused, refused.status, refused.json()["error"]["code"].as_str());
        }
    }
    stage.api().list_directory("/notes").expect_status(200);
    for id in ["file-x", "none", "%FF", "file-"] {
        expect_error(&stage.call("GET", &format!("/v1/files/{id}")), 404, Some("not_found"));
    }
    assert_eq!(expect_error(&stage.call("GET", "/v1/files?limit=0"), 400, None)["param"], "limit");
    assert_eq!(expect_error(&stage.call("GET", "/v1/files?after=file-x"), 400, None)["param"], "after");
    let made = ["key", "create", "--account", &stage.account.email, "--name", "narrow", "--scope", "ask"];
    let made = stage.service.run_admin_command(&made);
    let bearer = format!("Bearer {}", made["key"].as_str().expect("a key"));
    let narrow = HttpRequest::new("GET", "/v1/files").with_header("authorization", &bearer);
    expect_error(&narrow.send(stage.service.address()), 403, Some("key_scope"));
}
