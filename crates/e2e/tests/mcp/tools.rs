//! The tools.

use e2e::{Expect, Say};
use serde_json::{Value, json};

use crate::stage::{McpStage, result_of, stateless_request};

#[test]
fn question_is_answered_with_sources() {
    let stage = McpStage::start();
    let text = "The rent is due on the fifth day of each month.";
    let stored = stage.tool_value("upload_file", json!({ "name": "lease.txt", "text": text }));
    assert_eq!(stored, json!({ "path": "/uploads/lease.txt", "size": text.len() }));
    let view = json!({ "path": "/uploads/lease.txt" });
    stage.vendor.add_script([Say::Call { tool: "view".to_owned(), arguments: view }]);
    stage.script_text("The rent is due on the fifth day of each month [1].");
    let asked =
        json!({ "question": "When is the rent due?", "files": ["/uploads/lease.txt"], "wait_seconds": 50 });
    let result = stage.call_tool("ask", asked);
    let value = &result["structuredContent"];
    assert_eq!(value["status"], "completed", "{value}");
    assert_eq!(value["answer"], "The rent is due on the fifth day of each month [1].");
    assert_eq!(
        (&value["sources"][0]["number"], &value["sources"][0]["path"]),
        (&json!(1), &json!("/uploads/lease.txt"))
    );
    let as_text: Value =
        serde_json::from_str(result["content"][0]["text"].as_str().expect("a text")).expect("JSON");
    assert_eq!(&as_text, value);
    assert_eq!(result["content"][1]["type"], "resource_link");
    assert_eq!(result["content"][1]["uri"], "causerie://files/uploads/lease.txt");
}

#[test]
fn conversations_are_continued_and_read() {
    let stage = McpStage::start();
    stage.script_text("Hello.");
    let first = stage.tool_value("ask", json!({ "question": "Say hello", "model": "stand-in" }));
    stage.script_text("Again.");
    let conversation = first["conversation_id"].as_str().expect("an id");
    let next = json!({ "question": "Once more", "conversation_id": conversation });
    let second = stage.tool_value("ask", next);
    assert_eq!(second["conversation_id"], first["conversation_id"]);
    assert_eq!(second["answer"], "Again.");
    let listed = stage.tool_value("list_conversations", json!({}));
    assert_eq!((&listed["total"], &listed["conversations"][0]["title"]), (&json!(1), &json!("Say hello")));
    let read = stage.tool_value("read_conversation", json!({ "conversation_id": conversation }));
    let texts: Vec<(&str, &str)> = read["exchanges"]
        .as_array()
        .expect("exchanges")
        .iter()
        .map(|one| (one["question"].as_str().expect("a text"), one["answer"].as_str().expect("a text")))
        .collect();
    assert_eq!(texts, [("Say hello", "Hello."), ("Once more", "Again.")]);
    assert!(read.get("next_offset").is_none());
    let rest = json!({ "conversation_id": conversation, "offset": 1 });
    let rest = stage.tool_value("read_conversation", rest);
    assert_eq!(rest["exchanges"].as_array().map(Vec::len), Some(1));
    assert_eq!(rest["exchanges"][0]["answer_id"], second["answer_id"]);
    // The same conversation as everywhere else.
    let chat = stage.api().get_chat(conversation).expect_status(200).json();
    assert_eq!(chat["messages"].as_array().map(Vec::len), Some(4));
}

#[test]
fn files_are_stored_and_listed() {
    let stage = McpStage::start();
    stage.tool_value("upload_file", json!({ "name": "a.bin", "base64": "AAECAw==" }));
    stage.api().call_endpoint("POST", "/api/v1/directories/notes").expect_status(201);
    let noted = json!({ "name": "b.md", "folder": "/notes", "text": "# Notes" });
    assert_eq!(stage.tool_value("upload_file", noted)["path"], "/notes/b.md");
    let home = stage.tool_value("list_files", json!({}));
    let names = |listing: &Value| -> Vec<String> {
        let entries = listing["entries"].as_array().expect("entries").iter();
        entries.map(|entry| entry["path"].as_str().expect("a path").to_owned()).collect()
    };
    assert_eq!(names(&home), ["/notes", "/uploads"]);
    let uploads = stage.tool_value("list_files", json!({ "path": "/uploads" }));
    assert_eq!(names(&uploads), ["/uploads/a.bin"]);
    assert_eq!((&uploads["entries"][0]["type"], &uploads["entries"][0]["size"]), (&json!("file"), &json!(4)));
    assert!(uploads["entries"][0]["indexing"].is_string());
    let none = stage.tool_value("list_files", json!({ "path": "/uploads", "offset": 1 }));
    assert_eq!((names(&none), &none["total"]), (Vec::new(), &json!(1)));
}

#[test]
fn refused_calls_tell_the_model_why() {
    let stage = McpStage::start();
    let none = "3b9f2c1e-5d47-4f6a-8e0b-7c6d5e4f3a21";
    for (tool, arguments, wanted) in [
        ("ask", json!({}), "BAD_REQUEST: missing field `question`"),
        ("ask", json!({ "question": " " }), "BAD_REQUEST: "),
        ("ask", json!({ "question": "x", "wait_seconds": 51 }), "BAD_REQUEST: wait_seconds"),
        ("ask", json!({ "question": "x", "model": "none" }), "UNKNOWN_MODEL: "),
        ("ask", json!({ "question": "x", "files": ["/none"] }), "BAD_REQUEST: "),
        ("ask", json!({ "question": "x", "files": ["/../etc"] }), "OUTSIDE_WORKSPACE: "),
        ("ask", json!({ "question": "x", "conversation_id": none }), "NOT_FOUND: "),
        ("ask", json!({ "question": "x", "patience": 1 }), "BAD_REQUEST: "),
        ("wait", json!({ "answer_id": none }), "NOT_FOUND: "),
        ("stop", json!({ "answer_id": "x" }), "BAD_REQUEST: answer_id"),
        ("read_conversation", json!({ "conversation_id": none }), "NOT_FOUND: "),
        ("list_files", json!({ "path": "/none" }), "NOT_FOUND: "),
        ("upload_file", json!({ "name": "a.txt" }), "BAD_REQUEST: "),
        ("upload_file", json!({ "name": "a.txt", "text": "" }), "EMPTY_FILE: "),
        ("upload_file", json!({ "name": "a.txt", "text": "x", "folder": "/none" }), "NOT_FOUND: "),
    ] {
        let result = stage.call_tool(tool, arguments.clone());
        assert_eq!(result["isError"], true, "{tool} {arguments}");
        let text = result["content"][0]["text"].as_str().expect("a text");
        assert!(text.starts_with(wanted), "{tool} {arguments}: {text}");
        assert!(result.get("structuredContent").is_none(), "an error has no value");
    }
}

#[test]
fn failed_answer_is_an_error_with_its_value() {
    let stage = McpStage::start();
    stage.vendor.add_script([Say::Refuse(400)]);
    let result = stage.call_tool("ask", json!({ "question": "Hello?" }));
    assert_eq!(
        (&result["isError"], &result["structuredContent"]["status"]),
        (&json!(true), &json!("failed"))
    );
    let code = result["structuredContent"]["error"]["code"].as_str().expect("a code");
    assert!(result["content"][0]["text"].as_str().is_some_and(|text| text.starts_with(code)), "{result}");
}

#[test]
fn other_accounts_see_nothing() {
    let stage = McpStage::start();
    stage.script_text("Secret.");
    let own = stage.tool_value("ask", json!({ "question": "Tell" }));
    let other = stage.service.create_account();
    for (tool, arguments) in [
        ("wait", json!({ "answer_id": own["answer_id"] })),
        ("stop", json!({ "answer_id": own["answer_id"] })),
        ("read_conversation", json!({ "conversation_id": own["conversation_id"] })),
        ("ask", json!({ "question": "x", "conversation_id": own["conversation_id"] })),
    ] {
        let params = json!({ "name": tool, "arguments": arguments });
        let result = result_of(&stage.send(stateless_request(&other.key, "tools/call", params)));
        assert!(
            result["content"][0]["text"].as_str().is_some_and(|text| text.starts_with("NOT_FOUND: ")),
            "{result}"
        );
    }
}
