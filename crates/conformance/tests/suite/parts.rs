//! Section 2.10: what an answer consists of, and what it draws on.

use std::collections::HashSet;

use conformance::api::is_uuid;
use conformance::{Api, Expect, Say, caller};
use serde_json::{Value, json};

use crate::streams::{Stage, shows, stage};

const LEASE: &str = "LEASE AGREEMENT\n\nThe flat at Dlouhá 12 is let for three years.\n\n\
    The monthly rent is 18,500 crowns, payable by the fifth day of each month.\n\n\
    The tenant may keep one cat. The landlord insures the building.\n\n\
    Either party may give notice of three months in writing.\n";

fn parts_of<'a>(answer: &'a Value, kind: &str) -> Vec<&'a Value> {
    let parts = answer["parts"].as_array().expect("parts");
    let mut ids = HashSet::new();
    for part in parts {
        assert!(is_uuid(&part["partId"]) && ids.insert(part["partId"].to_string()), "{part}");
        if let Some(state) = part["state"].as_str() {
            assert!(["COMPLETE", "ERROR"].contains(&state), "a part of a whole answer has settled: {part}");
        }
    }
    parts.iter().filter(|part| part["type"] == kind).collect()
}

fn ask_about_lease(api: &Api) -> Value {
    api.upload("lease.txt", LEASE.as_bytes()).expect_status(201);
    let question = json!({ "input": "How much is the monthly rent?", "filePaths": ["/uploads/lease.txt"] });
    api.completed(&api.accepted(&question))
}

#[test]
fn the_reader_quotes_the_passage_and_cites_its_file() {
    let (_service, api) = caller();
    let answer = ask_about_lease(&api);
    assert!(answer["error"].is_null(), "{answer}");
    assert!(answer["text"].as_str().is_some_and(|text| text.contains("18,500")), "{answer}");
    let texts = parts_of(&answer, "TEXT");
    let citing: Vec<&&Value> =
        texts.iter().filter(|part| part["citations"].as_array().is_some_and(|all| !all.is_empty())).collect();
    assert!(!citing.is_empty(), "{answer}");
    for part in citing {
        let content = part["content"].as_str().expect("HTML");
        assert!(content.contains("<a ") && content.contains("href="), "the citations are links: {content}");
        for citation in part["citations"].as_array().expect("citations") {
            assert!(citation["citationId"].as_str().is_some_and(|id| !id.is_empty()), "{citation}");
            assert_eq!(citation["source"]["type"], "FILE", "{citation}");
            assert_eq!(citation["source"]["path"], "/uploads/lease.txt", "{citation}");
        }
    }
    let tools = parts_of(&answer, "TOOL");
    assert!(!tools.is_empty(), "the reader searches with the same tools");
    for tool in tools {
        for field in ["toolName", "toolCallId"] {
            assert!(tool[field].as_str().is_some_and(|text| !text.is_empty()), "{field} in {tool}");
        }
        assert_eq!(tool["state"], "COMPLETE", "{tool}");
        for source in tool["sources"].as_array().into_iter().flatten() {
            assert!(source["type"] == "FILE" && source["path"].is_string(), "{source}");
        }
    }
    let files = parts_of(&answer, "FILE");
    assert!(
        files.iter().any(|file| file["path"] == "/uploads/lease.txt"),
        "the attached file entered: {files:?}"
    );
}

#[test]
fn the_reader_is_deterministic() {
    let (_service, api) = caller();
    let (one, other) = (ask_about_lease(&api), ask_about_lease(&api));
    assert_eq!(one["text"], other["text"]);
}

#[test]
fn the_reader_says_so_when_the_documents_hold_no_answer() {
    let (_service, api) = caller();
    api.upload("lease.txt", LEASE.as_bytes()).expect_status(201);
    let answer = api.completed(&api.ask("Which telescope photographed the moons of Neptune?"));
    assert!(answer["error"].is_null(), "{answer}");
    assert!(!answer["text"].as_str().expect("a text").trim().is_empty());
    let cited: usize =
        parts_of(&answer, "TEXT").iter().filter_map(|part| part["citations"].as_array().map(Vec::len)).sum();
    assert_eq!(cited, 0, "nothing is cited: {answer}");
}

#[test]
fn reasoning_text_and_tools_stand_in_the_order_in_which_they_came() {
    let Stage { vendor, api, service: _service, .. } = stage();
    api.upload("lease.txt", LEASE.as_bytes()).expect_status(201);
    let search = Say::Call { tool: "search".to_owned(), arguments: json!({ "query": "monthly rent" }) };
    vendor.will([Say::Reasoning("Where does the **rent** stand?".to_owned()), Say::text("I look."), search]);
    vendor.will([Say::text("The rent is 18,500 crowns [1]."), Say::Hold]);
    let answer = api.ask("How much is the rent?");
    let mut events = api.events_of(&answer);
    shows(&mut events, "I look.\n\nThe rent is 18,500 crowns.");
    vendor.release();
    let rest = events.rest();
    let whole = &rest.last().expect("a completion").data;
    let kinds: Vec<&str> =
        whole["parts"].as_array().expect("parts").iter().filter_map(|part| part["type"].as_str()).collect();
    assert_eq!(kinds, ["REASONING", "TEXT", "TOOL", "TEXT"]);
    assert!(whole["parts"][0]["content"].as_str().is_some_and(|html| html.contains("<strong>rent</strong>")));
    assert_eq!(whole["text"], "I look.\n\nThe rent is 18,500 crowns.", "the text has no marks");
    assert_eq!(
        (&whole["parts"][2]["toolName"], &whole["parts"][2]["state"]),
        (&json!("search"), &json!("COMPLETE"))
    );
    let citations = whole["parts"][3]["citations"].as_array().expect("citations");
    assert_eq!(citations.len(), 1, "{citations:?}");
    assert_eq!(citations[0]["source"]["path"], "/uploads/lease.txt");
    assert!(vendor.requests()[1].to_string().contains("18,500"), "the model is shown what was found");
}

#[test]
fn a_tool_that_fails_is_an_error_and_the_answer_goes_on() {
    let Stage { vendor, api, service: _service, .. } = stage();
    let read = |path: &str| Say::Call { tool: "read".to_owned(), arguments: json!({ "path": path }) };
    vendor.will([read("/uploads/none.txt")]);
    vendor.will([Say::Call { tool: "no_such_tool".to_owned(), arguments: json!({}) }]);
    vendor.will([read("/../../etc/passwd")]);
    vendor.will([Say::text("There is none.")]);
    let answer = api.completed(&api.ask("Read it"));
    assert_eq!(answer["text"], "There is none.", "{answer}");
    let tools = parts_of(&answer, "TOOL");
    assert_eq!(tools.len(), 3, "{answer}");
    assert!(tools.iter().all(|tool| tool["state"] == "ERROR"), "{answer}");
}

#[test]
fn a_tool_is_pending_while_it_runs() {
    let Stage { vendor, api, service: _service, .. } = stage();
    let command = "while [ ! -e /workspace/go ]; do sleep 0.05; done; echo gone > /workspace/done.txt";
    vendor.will([Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": command }) }]);
    let answer = api.ask("Wait for it");
    let mut events = api.events_of(&answer);
    let pending = events.find("a run", |event| event.data["parts"][0]["state"] == "PENDING");
    assert_eq!(pending.data["parts"][0]["toolName"], "shell");
    api.create_folder("/go").expect_status(201);
    events.find("its end", |event| event.data["parts"][0]["state"] == "COMPLETE");
    assert_eq!(api.download("/done.txt").expect_status(200).text(), "gone\n");
    api.completed(&answer);
}

#[test]
fn a_file_that_the_agent_wrote_is_a_part() {
    let Stage { vendor, api, service: _service, .. } = stage();
    let arguments = json!({ "path": "/notes/summary.md", "content": "# Summary\n" });
    vendor.will([Say::Call { tool: "write".to_owned(), arguments }]);
    vendor.will([Say::text("Written.")]);
    let answer = api.completed(&api.ask("Summarise"));
    let files = parts_of(&answer, "FILE");
    assert!(files.iter().any(|file| file["path"] == "/notes/summary.md"), "{answer}");
    assert_eq!(api.download("/notes/summary.md").expect_status(200).text(), "# Summary\n");
}
