//! Conversations and their items, and the input of responses.

use e2e::{Expect, HttpResponse};
use serde_json::{Value, json};

use crate::stage::{OpenAiStage, RESPONSES, expect_error, output_text};

const CONVERSATIONS: &str = "/v1/conversations";

fn post(stage: &OpenAiStage, target: &str, body: &Value) -> HttpResponse {
    stage.request("POST", target).with_body(body.to_string()).send(stage.service.address())
}

fn text_of(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// Asks a question and returns the response.
fn ask(stage: &OpenAiStage, input: &str, conversation: &Value, text: &str) -> Value {
    stage.script_text(text);
    stage.respond(&json!({"input": input, "conversation": conversation}))
}

#[test]
fn created_conversation_begins_with_first_question() {
    let stage = OpenAiStage::with_vendor();
    let made = post(&stage, CONVERSATIONS, &json!({"metadata": {"topic": "rent"}})).expect_status(200);
    assert_eq!(made.header("x-causerie-ignored"), Some("metadata"));
    let made = made.json();
    assert_eq!((&made["object"], &made["metadata"]), (&json!("conversation"), &json!({})));
    let id = text_of(&made["id"]);
    let target = format!("{CONVERSATIONS}/{id}");
    assert_eq!(stage.call("GET", &target).expect_status(200).json(), made);
    assert!(made["created_at"].as_u64().is_some_and(|time| time > 1_700_000_000), "{made}");
    assert_eq!(stage.call("GET", &format!("{target}/items")).expect_status(200).json()["data"], json!([]));
    assert!(stage.list_chats().is_empty(), "it has not begun");
    let first = ask(&stage, "One?", &made["id"], "Answer one.");
    assert_eq!(first["conversation"]["id"], made["id"]);
    let second = ask(&stage, "Two?", &json!({"id": id}), "Answer two.");
    assert_eq!(second["conversation"]["id"], made["id"]);
    let chats = stage.list_chats();
    assert_eq!(chats.len(), 1);
    assert_eq!(stage.chat_texts(&chats[0]), ["One?", "Answer one.", "Two?", "Answer two."]);
    // A body may be left out, and another conversation has another id.
    let other = stage.call("POST", CONVERSATIONS).expect_status(200).json();
    assert_ne!(other["id"], made["id"]);
    let deleted = stage.call("DELETE", &target).expect_status(200).json();
    assert_eq!(deleted, json!({"id": id, "object": "conversation.deleted", "deleted": true}));
    assert!(stage.list_chats().is_empty());
}

#[test]
fn items_are_listed_in_both_orders() {
    let stage = OpenAiStage::with_vendor();
    let first = ask(&stage, "One?", &Value::Null, "Answer one.");
    let conversation = first["conversation"]["id"].clone();
    ask(&stage, "Two?", &conversation, "Answer two.");
    let target = format!("{CONVERSATIONS}/{}/items", text_of(&conversation));
    let list = |query: &str| stage.call("GET", &format!("{target}{query}")).expect_status(200).json();
    let texts = |page: &Value| -> Vec<String> {
        let items = page["data"].as_array().expect("items").iter();
        items.map(|item| text_of(&item["content"][0]["text"]).to_owned()).collect()
    };
    assert_eq!(texts(&list("")), ["Answer two.", "Two?", "Answer one.", "One?"]);
    let page = list("?order=asc&limit=3");
    assert_eq!(texts(&page), ["One?", "Answer one.", "Two?"]);
    assert_eq!(page["has_more"], true);
    let next = list(&format!("?order=asc&limit=3&after={}", text_of(&page["last_id"])));
    assert_eq!((texts(&next), &next["has_more"]), (vec!["Answer two.".to_owned()], &json!(false)));
    for item in page["data"].as_array().expect("items") {
        let one = stage.call("GET", &format!("{target}/{}", text_of(&item["id"]))).expect_status(200).json();
        assert_eq!(one, *item);
    }
    assert_eq!(page["data"][1], first["output"][0], "items are those of the response");
    expect_error(&stage.call("GET", &format!("{target}/msg_x")), 404, Some("not_found"));
    assert_eq!(
        expect_error(&stage.call("GET", &format!("{target}?after=msg_x")), 400, None)["param"],
        "after"
    );
    let refused = post(&stage, &target, &json!({"items": []}));
    assert_eq!(expect_error(&refused, 400, None)["param"], "items");
    let item = text_of(&page["first_id"]);
    expect_error(&stage.call("DELETE", &format!("{target}/{item}")), 400, None);
}

#[test]
fn conversation_has_title_alone() {
    let stage = OpenAiStage::with_vendor();
    let first = ask(&stage, "One?", &Value::Null, "Answer one.");
    let target = format!("{CONVERSATIONS}/{}", text_of(&first["conversation"]["id"]));
    let found = stage.call("GET", &target).expect_status(200).json();
    assert_eq!((&found["id"], &found["metadata"]), (&first["conversation"]["id"], &json!({"title": "One?"})));
    assert!(found["created_at"].as_u64().is_some_and(|time| time > 1_700_000_000), "{found}");
    let changed = post(&stage, &target, &json!({"metadata": {"title": "Rent"}})).expect_status(200).json();
    assert_eq!(changed["metadata"], json!({"title": "Rent"}));
    let refused = post(&stage, &target, &json!({"metadata": {"topic": "rent"}}));
    assert_eq!(expect_error(&refused, 400, None)["param"], "metadata");
    assert_eq!(expect_error(&post(&stage, &target, &json!({})), 400, None)["param"], "metadata");
    let items = json!({"items": [{"role": "user", "content": "a"}]});
    assert_eq!(expect_error(&post(&stage, CONVERSATIONS, &items), 400, None)["param"], "items");
    let stranger = stage.service.create_account();
    let bearer = format!("Bearer {}", stranger.key);
    for method in ["GET", "DELETE"] {
        let request = e2e::HttpRequest::new(method, &target).with_header("authorization", &bearer);
        expect_error(&request.send(stage.service.address()), 404, Some("not_found"));
    }
    stage.call("DELETE", &target).expect_status(200);
    for id in [target.rsplit('/').next().unwrap_or_default(), "conv_x", "conv_new_x", "%FF"] {
        expect_error(&stage.call("GET", &format!("{CONVERSATIONS}/{id}")), 404, Some("not_found"));
    }
}

#[test]
fn response_has_input_and_is_deleted() {
    let stage = OpenAiStage::with_vendor();
    let first = ask(&stage, "One?", &Value::Null, "Answer one.");
    let target = format!("{RESPONSES}/{}", text_of(&first["id"]));
    let input = stage.call("GET", &format!("{target}/input_items")).expect_status(200).json();
    let [item] = &input["data"].as_array().expect("items")[..] else { unreachable!("{input}") };
    assert_eq!(
        (&item["role"], &item["content"][0]),
        (&json!("user"), &json!({"type": "input_text", "text": "One?"}))
    );
    assert_eq!((&input["first_id"], &input["has_more"]), (&item["id"], &json!(false)));
    let second = ask(&stage, "Two?", &first["conversation"], "Answer two.");
    // Neither is the only one.
    for response in [&first, &second] {
        let refused = stage.call("DELETE", &format!("{RESPONSES}/{}", text_of(&response["id"])));
        expect_error(&refused, 400, None);
    }
    let alone = ask(&stage, "Alone?", &Value::Null, "Alone.");
    assert_eq!(output_text(&alone), "Alone.");
    let id = text_of(&alone["id"]);
    let deleted = stage.call("DELETE", &format!("{RESPONSES}/{id}")).expect_status(200).json();
    assert_eq!(deleted, json!({"id": id, "object": "response", "deleted": true}));
    for (method, end) in [("GET", ""), ("DELETE", ""), ("GET", "/input_items")] {
        expect_error(&stage.call(method, &format!("{RESPONSES}/{id}{end}")), 404, Some("not_found"));
    }
    assert_eq!(stage.list_chats().len(), 1);
}
