//! Section 2.10: the parts and sources of answers.

use conformance::api::parts_of;
use conformance::{Expect, Say};
use serde_json::json;

use crate::streams::{Stage, shows, stage};

const LEASE: &str = "LEASE AGREEMENT\n\nThe flat at Dlouhá 12 is let for three years.\n\n\
    The monthly rent is 18,500 crowns, payable by the fifth day of each month.\n\n\
    The tenant may keep one cat. The landlord insures the building.\n\n\
    Either party may give notice of three months in writing.\n";

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
    assert!(vendor.requests()[1].to_string().contains("18,500"), "the results are passed to the model");
}

#[test]
fn numbers_in_brackets_are_marks_only_where_they_cite() {
    const SAID: &str = "It is due on the fifth [1]. Options: [8] yes, [9] no. The root is $\\sqrt[1]{27}$, the cell A[1][1], \
        see https://x.test/a[1] and <code>c[1]</code>, for a month[1].";
    let Stage { vendor, api, service: _service, .. } = stage();
    api.upload("lease.txt", LEASE.as_bytes()).expect_status(201);
    let search = Say::Call { tool: "search".to_owned(), arguments: json!({ "query": "monthly rent" }) };
    vendor.will([Say::text("First [1] of two."), search]);
    let (begun, rest) = SAID.split_at(SAID.find("1]. Options").expect("a mark"));
    vendor.will([Say::text(begun), Say::Hold, Say::text(rest)]);
    let answer = api.ask("How much is the rent?");
    let mut events = api.events_of(&answer);
    shows(&mut events, "First [1] of two.\n\nIt is due on the fifth");
    vendor.release();
    let events = events.rest();
    let whole = &events.last().expect("a completion").data;
    let expected = SAID.replacen(" [1]", "", 1).replace("month[1]", "month");
    assert_eq!(whole["text"], format!("First [1] of two.\n\n{expected}"));
    let parts = whole["parts"].as_array().expect("parts");
    let html = parts.last().and_then(|part| part["content"].as_str()).expect("HTML");
    assert_eq!(html.matches("data-citation=\"c1\"").count(), 2, "{html}");
    assert!(parts[0]["content"].as_str().is_some_and(|html| !html.contains("data-citation")), "{whole}");
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
    let sent = vendor.requests()[2].to_string();
    // The model sees no images.
    let offered = "there are search, read, list, find, write, edit, shell, agent, skill";
    assert!(sent.contains(&format!("there is no tool `no_such_tool`; {offered}")), "{sent}");
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
