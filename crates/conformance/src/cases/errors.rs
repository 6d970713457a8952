//! Section 7: error responses in machine-readable form.

use std::fmt::Write;

use serde_json::{Value, json};

use super::Case;
use crate::api::{Api, Expect, UploadPart};
use crate::connection::{self, RawConnection};
use crate::http::HttpRequest;

pub(super) const CASES: &[Case] = cases![
    Key:
    paths_and_methods_that_do_not_exist_are_refused_in_the_same_form,
    a_body_that_is_too_large_is_refused,
    a_target_that_is_too_long_is_refused,
    requests_that_are_no_http_break_nothing,
    no_refusal_shows_what_is_inside,
    what_the_operator_watches_needs_no_key,
    refused_questions_name_what_is_wrong,
    no_refusal_repeats_more_than_a_little_of_what_was_sent,
    a_body_whose_end_is_unclear_is_refused,
    nothing_of_an_account_is_kept_by_others,
];

fn paths_and_methods_that_do_not_exist_are_refused_in_the_same_form(api: &Api) {
    for target in [
        "/api/v1",
        "/api/v1/",
        "/api/v1/nothing",
        "/api/v1/vm/restart",
        "/api/v2/vm",
        "/api/v1/chats/a/b/c/d",
    ] {
        let response = api.call_endpoint("GET", target);
        assert!(!response.body.is_empty(), "{target} is refused with a body");
        response.expect_code(404, "NOT_FOUND");
    }
    for (method, target) in [
        ("PUT", "/api/v1/vm"),
        ("DELETE", "/api/v1/vm"),
        ("GET", "/api/v1/vm/start"),
        ("POST", "/api/v1/models"),
        ("PUT", "/api/v1/files"),
        ("POST", "/api/v1/files/a.txt"),
        ("DELETE", "/api/v1/directories/a"),
        ("PUT", "/api/v1/chats"),
    ] {
        let response = api.call_endpoint(method, target);
        assert!(response.header("allow").is_some_and(|allow| !allow.is_empty()), "{method} {target}");
        response.expect_code(405, "METHOD_NOT_ALLOWED");
    }
}

fn a_body_that_is_too_large_is_refused(api: &Api) {
    let body = format!("{{\"input\":\"{}\"}}", "x".repeat(40_000_000));
    api.send_bytes(body.as_bytes()).expect_refusal(413);
    let chunked =
        api.new_request("POST", "/api/v1/chats").with_body(body).with_chunked_body().send(&api.address);
    chunked.expect_refusal(413);
    api.get_vm().expect_status(200);
}

fn a_target_that_is_too_long_is_refused(api: &Api) {
    api.download_file(&format!("/{}", "x".repeat(20_000))).expect_code(414, "TARGET_TOO_LONG");
    api.download_file(&format!("/{}", "x".repeat(5_000))).expect_code(400, "BAD_REQUEST");
    let deep = "%78".repeat(200);
    api.download_file(&format!("/{}", [deep.as_str(); 20].join("/"))).expect_code(404, "NOT_FOUND");
    let request = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(200_000));
    let status = connection::send_bytes(&api.address, request.as_bytes()).expect("a connection");
    assert!(status.is_none_or(|status| (400..500).contains(&status)), "{status:?}");
}

fn requests_that_are_no_http_break_nothing(api: &Api) {
    let long_header = format!("GET /healthz HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(2_000_000));
    let mut many = "GET /healthz HTTP/1.1\r\nhost: x\r\n".to_owned();
    for n in 0..2_000 {
        let _ = write!(many, "x-{n}: y\r\n");
    }
    many.push_str("\r\n");
    let requests: [&[u8]; 9] = [
        b"",
        b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST /api/v1/chats HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        long_header.as_bytes(),
        many.as_bytes(),
    ];
    for request in requests {
        let status = connection::send_bytes(&api.address, request).expect("a connection");
        assert!(status.is_none_or(|status| (400..500).contains(&status)), "{status:?}");
        api.get_vm().expect_status(200);
    }
}

fn no_refusal_shows_what_is_inside(api: &Api) {
    for response in [
        api.send_bytes(b"{\"input\":1}"),
        api.list_chats("?limit=x"),
        api.get_chat("x"),
        api.download_file("/none"),
        api.download_file("/../.."),
        api.call_endpoint("POST", "/api/v1/files"),
        api.call_endpoint("GET", "/api/v1/nothing"),
    ] {
        let text = response.text();
        for inner in [
            "/tmp", "crates/", ".rs:", "axum", "hyper", "serde", "sqlite", "rusqlite", "panicked", "os error",
        ] {
            assert!(!text.to_lowercase().contains(inner), "{inner} in {text}");
        }
    }
}

fn what_the_operator_watches_needs_no_key(api: &Api) {
    for target in ["/healthz", "/readyz", "/metrics", "/openapi.yaml", "/openapi.json"] {
        let response = HttpRequest::new("GET", target).send(&api.address).expect_status(200);
        assert!(target == "/healthz" || target == "/readyz" || !response.body.is_empty(), "{target}");
    }
    let schema = |target: &str| HttpRequest::new("GET", target).send(&api.address).text();
    assert!(schema("/openapi.yaml").starts_with("openapi: 3.1"), "{}", schema("/openapi.yaml"));
    assert!(schema("/openapi.json").starts_with("{\"openapi\":\"3.1"), "{}", schema("/openapi.json"));
    for target in ["/openapi.yaml", "/openapi.json"] {
        assert_eq!(schema(target), schema(&format!("/api/v1{target}")));
    }
    let metrics = HttpRequest::new("GET", "/metrics").send(&api.address).text();
    assert!(metrics.lines().any(|line| line.starts_with("# TYPE ")), "{metrics}");
    assert!(!metrics.contains("api-"), "no key in the metrics");
}

fn refused_questions_name_what_is_wrong(api: &Api) {
    let message = api.send_bytes(b"{}").expect_refusal(400);
    assert!(message.contains("input"), "{message}");
    let message = api.send_bytes(b"{\"input\":\"x\",\"chatId\":\"y\"}").expect_refusal(400);
    assert!(message.contains("chatId"), "{message}");
    assert_eq!(api.list_chats("").json()["totalCount"], Value::from(0));
}

fn no_refusal_repeats_more_than_a_little_of_what_was_sent(api: &Api) {
    let long = "y".repeat(300_000);
    for question in [
        json!({ "input": "x", "model": long }),
        json!({ "input": "x", "agentId": long }),
        json!({ "input": "x", "skillIds": [long] }),
        json!({ "input": "x", "jurisdictions": [long] }),
        json!({ "input": "x", "settings": [{ "key": long, "value": "1" }] }),
        json!({ "input": "x", "filePaths": [long] }),
        json!({ "input": "x", "filePaths": format!("/{long}") }),
        json!({ "input": "x", "chatId": long }),
        json!({ "input": "x", "webSearchEnabled": long }),
        json!({ "input": "x", "filePaths": ["/none/none"], "skillIds": long }),
    ] {
        let message = api.send_question(&question).expect_refusal(400);
        assert!(message.matches('y').count() <= 300, "{} bytes: {message:.500}", message.len());
    }
    let long = "y".repeat(3_000);
    for target in [format!("/api/v1/chats?limit={long}"), format!("/api/v1/files/a?recursive={long}")] {
        let method = if target.contains("files") { "DELETE" } else { "GET" };
        let message = api.call_endpoint(method, &target).expect_refusal(400);
        assert!(message.matches('y').count() <= 120, "{message}");
    }
    let field = UploadPart::from_field(&long, &"z".repeat(100_000));
    let message = api.upload_form(&[field]).expect_refusal(400);
    assert!(message.matches('y').count() <= 120, "{message}");
}

fn a_body_whose_end_is_unclear_is_refused(api: &Api) {
    for coding in
        ["chunked, chunked", "gzip, chunked", "identity, chunked", "chunked\r\ntransfer-encoding: chunked"]
    {
        let request = format!(
            "POST /api/v1/chats HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\nconnection: close\r\n\
             transfer-encoding: {coding}\r\n\r\n0\r\n\r\n",
            api.key
        );
        let mut connection = RawConnection::connect(&api.address).expect("it listens");
        connection.write_bytes(request.as_bytes());
        let refused = connection.read_response("POST").expect("an answer");
        assert!(refused.text().contains("coding"), "{coding}: {}", refused.text());
        refused.expect_code(400, "BAD_REQUEST");
    }
    let chunked = api
        .new_request("POST", "/api/v1/chats")
        .with_body(b"{\"input\":\" \"}".as_slice())
        .with_chunked_body();
    assert!(chunked.send(&api.address).expect_refusal(400).contains("input"), "this one is read");
}

fn nothing_of_an_account_is_kept_by_others(api: &Api) {
    let answer = api.wait_for_completion(&api.ask_question("What is the rent?"));
    let chat = format!("/api/v1/chats/{}", answer["chatId"].as_str().expect("an id"));
    let message = format!("{chat}/messages/{}", answer["id"].as_str().expect("an id"));
    let targets = ["/api/v1/vm", "/api/v1/models", "/api/v1/chats", "/api/v1/directories", "/api/v1/nothing"];
    for target in targets.into_iter().chain([chat.as_str(), message.as_str()]) {
        let response = api.call_endpoint("GET", target);
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"), "{target}");
        let caching = response.header("cache-control").expect("the header is set");
        assert!(caching == "no-store" || caching.starts_with("private"), "{target}: {caching}");
        let vary = response.header("vary").unwrap_or_default();
        assert!(caching == "no-store" || vary.to_lowercase().contains("x-api-key"), "{target}: {vary}");
    }
    let rejected = api.with_key("api-wrong").get_vm();
    assert_eq!(rejected.header("cache-control"), Some("no-store"));
}
