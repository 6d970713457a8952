//! The events of responses, and clients that leave their streams.

use e2e::{Expect, Say, poll};
use serde_json::{Value, json};

use crate::stage::{OpenAiStage, RESPONSES, ResponseStream, output_text};

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().expect("a type")).collect()
}

/// Joins the deltas of these events.
fn join_deltas(events: &[Value], kind: &str) -> String {
    events.iter().filter(|event| event["type"] == kind).filter_map(|event| event["delta"].as_str()).collect()
}

fn replay(stage: &OpenAiStage, id: &str, after: Option<u64>) -> Vec<Value> {
    let after = after.map(|after| format!("&starting_after={after}")).unwrap_or_default();
    let target = format!("{RESPONSES}/{id}?stream=true{after}");
    ResponseStream::open(stage.request("GET", &target), stage.service.address()).read_events()
}

#[test]
fn events_have_documented_order() {
    let stage = OpenAiStage::with_vendor();
    stage.vendor().add_script([
        Say::Hold,
        Say::Reasoning("Let me".to_owned()),
        Say::Reasoning(" see.".to_owned()),
        Say::from_text("On the"),
        Say::from_text(" 5th."),
    ]);
    let mut stream = stage.open_events(&json!({"input": "When is the rent due?", "stream": true}));
    let first = stream.next_event().expect("an event");
    assert_eq!(
        (&first["type"], &first["response"]["status"]),
        (&json!("response.created"), &json!("in_progress"))
    );
    stage.vendor().wait_for_holds(1);
    stage.vendor().release_hold();
    let events = stream.read_events();
    let mut order = kinds(&events);
    order.dedup();
    assert_eq!(
        order,
        [
            "response.in_progress",
            "response.output_item.added",
            "response.reasoning_summary_part.added",
            "response.reasoning_summary_text.delta",
            "response.reasoning_summary_text.done",
            "response.reasoning_summary_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    assert_eq!(join_deltas(&events, "response.output_text.delta"), "On the 5th.");
    assert_eq!(join_deltas(&events, "response.reasoning_summary_text.delta"), "Let me see.");
    let response = &events.last().expect("an event")["response"];
    assert_eq!(output_text(response), "On the 5th.");
    assert_eq!(response["usage"]["total_tokens"], 120);
    let done: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "response.output_item.done")
        .map(|event| &event["item"])
        .collect();
    assert_eq!(json!(done), response["output"]);
}

#[test]
fn replay_continues_after_each_number() {
    let stage = OpenAiStage::with_vendor();
    stage.vendor().add_script([
        Say::Reasoning("Úvaha. ".to_owned()),
        Say::from_text("Begun. "),
        Say::Hold,
        Say::from_text("Příliš žluťoučký."),
    ]);
    let mut stream = stage.open_events(&json!({"input": "Hello", "stream": true, "background": true}));
    let created = stream.next_event().expect("an event");
    assert_eq!(created["response"]["status"], "queued");
    let id = created["response"]["id"].as_str().expect("an id").to_owned();
    stage.vendor().wait_for_holds(1);
    stage.vendor().release_hold();
    let live = stream.read_events();
    assert_eq!(live[0]["type"], "response.queued");
    let whole = replay(&stage, &id, None);
    assert_eq!(whole[0]["type"], "response.created");
    let text = "response.output_text.delta";
    assert_eq!(join_deltas(&whole, text), "Begun. Příliš žluťoučký.");
    // A client that has got the first events of the live stream gets the others.
    for at in 0..live.len() {
        let after = live[at]["sequence_number"].as_u64();
        let rest = replay(&stage, &id, after);
        assert_eq!(
            join_deltas(&live[..=at], text) + &join_deltas(&rest, text),
            join_deltas(&whole, text),
            "after {at}"
        );
        assert!(
            rest.iter().all(|event| event["sequence_number"].as_u64() > after) || rest.len() == 1,
            "{rest:?}"
        );
        let last = rest.last().expect("an event");
        assert_eq!(
            (&last["type"], &last["sequence_number"]),
            (&json!("response.completed"), &live[live.len() - 1]["sequence_number"])
        );
    }
    let far = replay(&stage, &id, Some(1 << 40));
    assert_eq!(kinds(&far), ["response.completed"]);
    for query in ["stream=true&starting_after=x", "starting_after=1", "stream=1"] {
        assert_eq!(stage.call("GET", &format!("{RESPONSES}/{id}?{query}")).status, 400, "{query}");
    }
}

#[test]
fn calls_of_tools_are_items() {
    let stage = OpenAiStage::with_reader();
    let lease = b"The lease.\n\nThe rent is due on the fifth day of each month.\n";
    stage.api().upload_file("lease.txt", lease).expect_status(201);
    let mut stream = stage.open_events(&json!({"input": "When is the rent due?", "stream": true}));
    let events = stream.read_events();
    let response = &events.last().expect("an event")["response"];
    assert_eq!(response["status"], "completed");
    let items = response["output"].as_array().expect("items");
    let call = items.iter().find(|item| item["type"] == "mcp_call").expect("a call");
    assert_eq!((&call["status"], &call["server_label"]), (&json!("completed"), &json!("causerie")));
    let arguments = call["arguments"].as_str().expect("a text");
    assert!(call["name"].is_string() && arguments.contains("rent"), "{call}");
    let message = items.last().expect("a message");
    let text = message["content"][0]["text"].as_str().expect("a text");
    assert!(text.contains("fifth day"), "{text}");
    let citation = &message["content"][0]["annotations"][0];
    assert_eq!((&citation["type"], &citation["filename"]), (&json!("file_citation"), &json!("lease.txt")));
    let index = usize::try_from(citation["index"].as_u64().expect("a place")).expect("a size");
    let cited: String = text.chars().take(index).collect();
    assert!(cited.ends_with(')') && cited.contains("[1]("), "{cited}");
    let file = citation["file_id"].as_str().expect("an id");
    let content = stage.call("GET", &format!("/v1/files/{file}/content")).expect_status(200);
    assert_eq!(content.text().as_bytes(), lease);
    let added =
        events.iter().filter(|event| event["type"] == "response.output_text.annotation.added").count();
    assert!(added > 0);
    // The stored answer has the same events.
    let whole = replay(&stage, response["id"].as_str().expect("an id"), None);
    assert_eq!(whole.last().expect("an event")["response"]["output"], response["output"]);
    assert_eq!(
        whole.last().expect("an event")["sequence_number"],
        events[events.len() - 1]["sequence_number"]
    );
}

#[test]
fn closed_stream_stops_response() {
    let stage = OpenAiStage::with_vendor();
    stage.vendor().add_script([Say::from_text("Begun. "), Say::Hold, Say::from_text("Never read.")]);
    let mut stream = stage.open_events(&json!({"input": "Hello", "stream": true}));
    let created = stream.next_event().expect("an event");
    stage.vendor().wait_for_holds(1);
    drop(stream);
    let id = created["response"]["id"].as_str().expect("an id");
    let stopped = poll::wait_until("the answer is stopped", || {
        let response = stage.call("GET", &format!("{RESPONSES}/{id}")).expect_status(200).json();
        (response["status"] != "in_progress").then_some(response)
    });
    assert_eq!((&stopped["status"], output_text(&stopped).trim()), (&json!("cancelled"), "Begun."));
}

#[test]
fn failed_stream_ends_with_failure() {
    let stage = OpenAiStage::with_vendor();
    stage.vendor().add_script([Say::Refuse(400)]);
    let events = stage.open_events(&json!({"input": "Hello", "stream": true})).read_events();
    let last = events.last().expect("an event");
    assert_eq!((&last["type"], &last["response"]["status"]), (&json!("response.failed"), &json!("failed")));
    assert_eq!(last["response"]["error"]["code"], "model_rejected");
}

#[test]
fn step_said_anew_replaces_its_item() {
    let mut stage = OpenAiStage::with_vendor();
    stage.vendor().add_script([Say::from_text("Begun. "), Say::Hold]);
    let mut stream = stage.open_events(&json!({"input": "Hello", "stream": true, "background": true}));
    let created = stream.next_event().expect("an event");
    let id = created["response"]["id"].as_str().expect("an id").to_owned();
    stage.vendor().wait_for_holds(1);
    stage.service.terminate();
    let cut = stream.read_events();
    let last = cut.last().expect("an event");
    assert_eq!((&last["type"], &last["code"]), (&json!("error"), &json!("unavailable")));
    stage.script_text("Other words.");
    stage.service.restart();
    let events = replay(&stage, &id, None);
    let response = &events.last().expect("an event")["response"];
    assert_eq!(response["status"], "completed");
    assert_eq!(output_text(response), "Other words.");
}
