//! Files and conversations as resources.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use e2e::Expect;
use serde_json::{Value, json};

use crate::stage::{McpStage, expect_error, stateless_request};

fn read(stage: &McpStage, uri: &str) -> Value {
    let result = stage.call("resources/read", json!({ "uri": uri }));
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")));
    assert_eq!(result["contents"][0]["uri"], uri);
    result["contents"][0].clone()
}

#[test]
fn files_are_read_by_their_paths() {
    let stage = McpStage::start();
    stage.tool_value("upload_file", json!({ "name": "a b.txt", "text": "hello" }));
    stage.tool_value("upload_file", json!({ "name": "c.bin", "base64": "AP8=" }));
    let text = read(&stage, "causerie://files/uploads/a%20b.txt");
    assert_eq!((&text["text"], &text["mimeType"]), (&json!("hello"), &json!("text/plain")));
    let binary = read(&stage, "causerie://files/uploads/c.bin");
    assert_eq!(binary["blob"], STANDARD.encode([0, 255]));
    let large = json!({ "name": "large.txt", "text": "x".repeat(600 << 10) });
    stage.tool_value("upload_file", large);
    for (uri, code) in [
        ("causerie://files/uploads/none.txt", -32602),
        ("causerie://files/uploads/large.txt", -32602),
        ("causerie://files/uploads", -32602),
        ("causerie://files/..%2Fetc%2Fpasswd", 403),
        ("causerie://conversations/3b9f2c1e-5d47-4f6a-8e0b-7c6d5e4f3a21", -32602),
        ("file:///etc/passwd", -32602),
    ] {
        let params = json!({ "uri": uri });
        let refused = stage.send(stateless_request(&stage.account.key, "resources/read", params));
        expect_error(&refused, 200, code);
    }
}

#[test]
fn resources_are_listed_in_pages() {
    let stage = McpStage::start();
    stage.tool_value("upload_file", json!({ "name": "a.txt", "text": "hello" }));
    for number in 0..2 {
        stage.script_text("Yes.");
        stage.tool_value("ask", json!({ "question": format!("Question {number}") }));
    }
    let listed = stage.call("resources/list", json!({}));
    let uris: Vec<&str> = listed["resources"]
        .as_array()
        .expect("resources")
        .iter()
        .filter_map(|one| one["uri"].as_str())
        .collect();
    assert_eq!(uris[0], "causerie://files/uploads/a.txt");
    assert_eq!(uris.len(), 3);
    assert!(listed.get("nextCursor").is_none());
    let conversation = read(&stage, uris[2]);
    assert_eq!(conversation["mimeType"], "text/markdown");
    let markdown = conversation["text"].as_str().expect("a text");
    assert!(markdown.starts_with("# Question 0\n") && markdown.contains("\nYes.\n"), "{markdown}");
    let params = json!({ "cursor": "2" });
    assert_eq!(stage.call("resources/list", params)["resources"], json!([]));
    let wrong = stateless_request(&stage.account.key, "resources/list", json!({ "cursor": "x" }));
    expect_error(&stage.send(wrong), 200, -32602);
    let templates = stage.call("resources/templates/list", json!({}));
    assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "causerie://files/{+path}");
    stage.api().list_chats("").expect_status(200);
}
