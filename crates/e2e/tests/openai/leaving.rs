//! Clients that leave an answer, and that ask for it again.

use e2e::{Expect, Say, poll};
use serde_json::json;

use crate::stage::{ChunkStream, OpenAiStage, content_of, expect_error, joined_deltas};

#[test]
fn closed_stream_stops_answer() {
    let stage = OpenAiStage::with_vendor();
    stage.vendor().add_script([Say::from_text("Begun. "), Say::Hold, Say::from_text("Never read.")]);
    let messages = json!([{"role": "user", "content": "Hello"}]);
    let mut stream = stage.open_stream(&json!({"messages": messages, "stream": true}));
    stage.vendor().wait_for_holds(1);
    stream.next_chunk();
    drop(stream);
    let chat = stage.list_chats().remove(0);
    poll::wait_until("the answer is stopped", || {
        let chat = stage.api().get_chat(&chat).expect_status(200).json();
        (chat["chat"]["status"] == "completed").then_some(())
    });
    assert_eq!(stage.chat_texts(&chat), ["Hello", "Begun. "]);
}

#[test]
fn repeated_request_joins_running_answer() {
    let stage = OpenAiStage::with_vendor();
    stage.vendor().add_script([Say::from_text("Begun. "), Say::Hold, Say::from_text("Ended.")]);
    let body = json!({"messages": [{"role": "user", "content": "Hello"}], "stream": true});
    let mut first = stage.open_stream(&body);
    let id = first.next_chunk()["id"].clone();
    stage.vendor().wait_for_holds(1);
    drop(first);
    let again = stage.completion_request(&body).with_header("x-stainless-retry-count", "1");
    let mut second = ChunkStream::open(again, stage.service.address());
    assert_eq!(second.next_chunk()["id"], id);
    stage.vendor().release_hold();
    assert_eq!(joined_deltas(&second.read_chunks(), "content"), "Begun. Ended.");
    assert_eq!(stage.vendor().request_bodies().len(), 1, "it was asked once");
    // Without the count it is another question.
    let other = stage.open_stream(&body).next_chunk()["id"].clone();
    assert_ne!(other, id);
    assert_eq!(stage.list_chats().len(), 2);
}

#[test]
fn next_question_ends_abandoned_answer() {
    let stage = OpenAiStage::with_vendor();
    stage.vendor().add_script([Say::from_text("Begun. "), Say::Hold]);
    let asked = json!([{"role": "user", "content": "Hello"}]);
    let mut stream = stage.open_stream(&json!({"messages": asked, "stream": true}));
    stage.vendor().wait_for_holds(1);
    let sent: String = (0..2)
        .filter_map(|_| stream.next_chunk()["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .collect();
    let next = json!([{"role": "user", "content": "Hello"}, {"role": "assistant", "content": sent},
        {"role": "user", "content": "Shorter, please"}]);
    let busy = stage.post_completion(&json!({"messages": next}));
    expect_error(&busy, 409, Some("conversation_locked"));
    assert_eq!(busy.header("retry-after"), Some("5"));
    drop(stream);
    stage.script_text("Hi.");
    let answered = poll::wait_until("the service sees that the client has left", || {
        let response = stage.post_completion(&json!({"messages": next}));
        (response.status == 200).then(|| response.json())
    });
    assert_eq!(content_of(&answered), "Hi.");
    let chats = stage.list_chats();
    assert_eq!(chats.len(), 1);
    assert_eq!(stage.chat_texts(&chats[0]), ["Hello", "Begun. ", "Shorter, please", "Hi."]);
}

#[test]
fn answer_joined_after_restart() {
    let mut stage = OpenAiStage::with_vendor();
    stage.vendor().add_script([Say::from_text("Begun. "), Say::Hold]);
    let messages = json!([{"role": "user", "content": "Hello"}]);
    let streamed = json!({"messages": messages, "stream": true});
    let mut stream = stage.open_stream(&streamed);
    let id = stream.next_chunk()["id"].clone();
    stage.vendor().wait_for_holds(1);
    stage.service.terminate();
    let mut last = serde_json::Value::Null;
    while let Some(data) = stream.next_data() {
        last = serde_json::from_str(&data).expect("JSON");
    }
    assert_eq!(last["error"]["code"], "unavailable", "{last}");
    // The step is made again, with the same words and more.
    stage.script_text("Begun. Ended.");
    stage.service.restart();
    let again = stage.completion_request(&streamed).with_header("x-stainless-retry-count", "2");
    let mut joined = ChunkStream::open(again, stage.service.address());
    assert_eq!(joined.next_chunk()["id"], id);
    assert_eq!(joined_deltas(&joined.read_chunks(), "content"), "Begun. Ended.");
    assert_eq!(stage.list_chats().len(), 1);
}
