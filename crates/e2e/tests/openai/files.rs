//! Files inside messages.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use e2e::{Expect, Say};
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
