//! Histories continue, branch or begin conversations.

use e2e::{Expect, HttpResponse, Say};
use serde_json::{Value, json};

use crate::stage::{OpenAiStage, content_of};

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

/// Asks with a history and returns the reply.
fn reply(stage: &OpenAiStage, messages: &[Value], text: &str) -> Value {
    stage.script_text(text);
    let completion = stage.complete(&json!(messages));
    assert_eq!(content_of(&completion), text);
    assistant(text)
}

#[test]
fn second_turn_continues_conversation() {
    let stage = OpenAiStage::with_vendor();
    let first = reply(&stage, &[user("One?")], "Answer one.");
    let padded = assistant("  Answer\n one. ");
    let second = reply(&stage, &[user("One?"), padded, user("Two?")], "Answer two.");
    reply(&stage, &[user("One?"), first, user("Two?"), second, user("Three?")], "Answer three.");
    let chats = stage.list_chats();
    assert_eq!(chats.len(), 1);
    let wanted = ["One?", "Answer one.", "Two?", "Answer two.", "Three?", "Answer three."];
    assert_eq!(stage.chat_texts(&chats[0]), wanted);
    // The model reads the conversation, not the history as it was sent.
    let request = stage.vendor().request_bodies().pop().expect("a request");
    assert_eq!(request["messages"].as_array().expect("messages").len(), 6);
}

#[test]
fn edited_turn_branches_conversation() {
    let stage = OpenAiStage::with_vendor();
    let first = reply(&stage, &[user("One?")], "Answer one.");
    reply(&stage, &[user("One?"), first.clone(), user("Two?")], "Answer two.");
    reply(&stage, &[user("One?"), first.clone(), user("Two, edited?")], "Answer edited.");
    let chats = stage.list_chats();
    assert_eq!(chats.len(), 1);
    assert_eq!(stage.chat_texts(&chats[0]), ["One?", "Answer one.", "Two, edited?", "Answer edited."]);
    // The first version goes on as its own branch.
    let back = [user("One?"), first, user("Two?"), assistant("Answer two."), user("Three?")];
    reply(&stage, &back, "Answer three.");
    let wanted = ["One?", "Answer one.", "Two?", "Answer two.", "Three?", "Answer three."];
    assert_eq!(stage.chat_texts(&chats[0]), wanted);
}

#[test]
fn unknown_history_is_imported() {
    let stage = OpenAiStage::with_vendor();
    let history = [user("Old one?"), assistant("Old answer."), user("New one?")];
    let answer = reply(&stage, &history, "New answer.");
    let [old, before, new] = history;
    reply(&stage, &[old, before, new, answer, user("Newer one?")], "Newer answer.");
    let chats = stage.list_chats();
    assert_eq!(chats.len(), 1);
    let wanted = ["Old one?", "Old answer.", "New one?", "New answer.", "Newer one?", "Newer answer."];
    assert_eq!(stage.chat_texts(&chats[0]), wanted);
    let chat = stage.api().get_chat(&chats[0]).expect_status(200).json();
    assert_eq!(chat["chat"]["title"], "Old one?");
    let request = &stage.vendor().request_bodies()[0];
    assert!(request["messages"].to_string().contains("Old answer."), "the model reads it");
}

#[test]
fn changed_answer_continues_only_conversation() {
    let stage = OpenAiStage::with_vendor();
    reply(&stage, &[user("One?")], "Answer one.");
    reply(&stage, &[user("One?"), assistant("Answ"), user("Two?")], "Answer two.");
    let chats = stage.list_chats();
    assert_eq!(chats.len(), 1, "the client has got a part of the answer");
    assert_eq!(stage.chat_texts(&chats[0]), ["One?", "Answer one.", "Two?", "Answer two."]);
    // The same question in a new chat is another conversation, and then the questions alone are ambiguous.
    reply(&stage, &[user("One?")], "Answer one again.");
    assert_eq!(stage.list_chats().len(), 2);
    reply(&stage, &[user("One?"), assistant("Edited."), user("Two?")], "Answer.");
    assert_eq!(stage.list_chats().len(), 3);
}

#[test]
fn names_tell_equal_histories_apart() {
    let stage = OpenAiStage::with_vendor();
    let ask = |name: &str, messages: Value, text: &str| -> HttpResponse {
        stage.script_text(text);
        let request = stage.completion_request(&json!({"messages": messages}));
        let response = request.with_header("x-causerie-conversation", name).send(stage.service.address());
        response.expect_status(200)
    };
    let chat_of = |response: &HttpResponse| {
        response.header("x-causerie-conversation").expect("a conversation").to_owned()
    };
    let one = chat_of(&ask("one", json!([user("Hello")]), "Hi."));
    let two = chat_of(&ask("two", json!([user("Hello")]), "Hi."));
    assert_ne!(one, two);
    let next = json!([user("Hello"), assistant("Hi."), user("More?")]);
    assert_eq!(chat_of(&ask("one", next.clone(), "More.")), one);
    assert_eq!(chat_of(&ask("two", next.clone(), "More.")), two);
    // A copy under a new name is another conversation.
    let three = chat_of(&ask("three", next, "More."));
    assert!(three != one && three != two);
    // The first question again is another version of it.
    assert_eq!(chat_of(&ask("one", json!([user("Hello!")]), "Hi there.")), one);
    assert_eq!(stage.chat_texts(&one), ["Hello!", "Hi there."]);
}

#[test]
fn simultaneous_questions_share_named_conversation() {
    let stage = OpenAiStage::with_vendor();
    stage.vendor().add_script([Say::Hold, Say::from_text("Hi.")]);
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let body = json!({"messages": [user("Hello")], "stream": true});
                    let request =
                        stage.completion_request(&body).with_header("x-causerie-conversation", "one");
                    request.send_streaming(stage.service.address()).status
                })
            })
            .collect();
        asked.into_iter().map(|asked| asked.join().expect("a response")).collect()
    });
    // The others are versions of the question that is being answered.
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, 200 | 409)), "{statuses:?}");
    assert_eq!(stage.list_chats().len(), 1);
}
