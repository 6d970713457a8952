//! Section 2.10: the parts and sources of answers.

use e2e::api::find_parts;
use e2e::{Expect, Say};
use serde_json::json;

use crate::streams::{StreamFixture, find_shown_text, stream_fixture};

const LEASE: &str = "LEASE AGREEMENT\n\nThe flat at Dlouhá 12 is let for three years.\n\n\
    The monthly rent is 18,500 crowns, payable by the fifth day of each month.\n\n\
    The tenant may keep one cat. The landlord insures the building.\n\n\
    Either party may give notice of three months in writing.\n";

#[test]
fn parts_keep_order_of_stream() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    api.upload_file("lease.txt", LEASE.as_bytes()).expect_status(201);
    let search = Say::Call { tool: "search".to_owned(), arguments: json!({ "query": "monthly rent" }) };
    vendor.add_script([
        Say::Reasoning("Where does the **rent** stand?".to_owned()),
        Say::from_text("I look."),
        search,
    ]);
    vendor.add_script([Say::from_text("The rent is 18,500 crowns [1]."), Say::Hold]);
    let answer = api.ask_question("How much is the rent?");
    let mut events = api.stream_answer(&answer);
    find_shown_text(&mut events, "I look.\n\nThe rent is 18,500 crowns.");
    vendor.release_hold();
    let rest = events.remaining_events();
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
    assert!(vendor.request_bodies()[1].to_string().contains("18,500"), "the results are passed to the model");
}

#[test]
fn bracketed_numbers_marked_only_when_cited() {
    const SAID: &str = "It is due on the fifth [1]. Options: [8] yes, [9] no. The root is $\\sqrt[1]{27}$, the cell A[1][1], \
        see https://x.test/a[1] and <code>c[1]</code>, for a month[1].";
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    api.upload_file("lease.txt", LEASE.as_bytes()).expect_status(201);
    let search = Say::Call { tool: "search".to_owned(), arguments: json!({ "query": "monthly rent" }) };
    vendor.add_script([Say::from_text("First [1] of two."), search]);
    let (begun, rest) = SAID.split_at(SAID.find("1]. Options").expect("a mark"));
    vendor.add_script([Say::from_text(begun), Say::Hold, Say::from_text(rest)]);
    let answer = api.ask_question("How much is the rent?");
    let mut events = api.stream_answer(&answer);
    find_shown_text(&mut events, "First [1] of two.\n\nIt is due on the fifth");
    vendor.release_hold();
    let events = events.remaining_events();
    let whole = &events.last().expect("a completion").data;
    let expected = SAID.replacen(" [1]", "", 1).replace("month[1]", "month");
    assert_eq!(whole["text"], format!("First [1] of two.\n\n{expected}"));
    let parts = whole["parts"].as_array().expect("parts");
    let html = parts.last().and_then(|part| part["content"].as_str()).expect("HTML");
    assert_eq!(html.matches("data-citation=\"c1\"").count(), 2, "{html}");
    assert!(parts[0]["content"].as_str().is_some_and(|html| !html.contains("data-citation")), "{whole}");
}

#[test]
fn answer_continues_after_failed_tool() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    let read = |path: &str| Say::Call { tool: "read".to_owned(), arguments: json!({ "path": path }) };
    vendor.add_script([read("/uploads/none.txt")]);
    vendor.add_script([Say::Call { tool: "no_such_tool".to_owned(), arguments: json!({}) }]);
    vendor.add_script([read("/../../etc/passwd")]);
    vendor.add_script([Say::from_text("There is none.")]);
    let answer = api.wait_for_completion(&api.ask_question("Read it"));
    assert_eq!(answer["text"], "There is none.", "{answer}");
    let tools = find_parts(&answer, "TOOL");
    assert_eq!(tools.len(), 3, "{answer}");
    let sent = vendor.request_bodies()[2].to_string();
    // The model sees no images.
    let offered = "use one of search, read, list, find, write, edit, shell, agent, skill";
    assert!(sent.contains(&format!("unknown tool `no_such_tool`; {offered}")), "{sent}");
    assert!(tools.iter().all(|tool| tool["state"] == "ERROR"), "{answer}");
}

#[test]
fn running_tool_is_pending() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    let command = "while [ ! -e /workspace/go ]; do sleep 0.05; done; echo gone > /workspace/done.txt";
    vendor.add_script([Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": command }) }]);
    let answer = api.ask_question("Wait for it");
    let mut events = api.stream_answer(&answer);
    let pending = events.find_event("a run", |event| event.data["parts"][0]["state"] == "PENDING");
    assert_eq!(pending.data["parts"][0]["toolName"], "shell");
    api.create_folder("/go").expect_status(201);
    events.find_event("its end", |event| event.data["parts"][0]["state"] == "COMPLETE");
    assert_eq!(api.download_file("/done.txt").expect_status(200).text(), "gone\n");
    api.wait_for_completion(&answer);
}

#[test]
fn written_file_is_a_part() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    let arguments = json!({ "path": "/notes/summary.md", "content": "# Summary\n" });
    vendor.add_script([Say::Call { tool: "write".to_owned(), arguments }]);
    vendor.add_script([Say::from_text("Written.")]);
    let answer = api.wait_for_completion(&api.ask_question("Summarise"));
    let files = find_parts(&answer, "FILE");
    assert!(files.iter().any(|file| file["path"] == "/notes/summary.md"), "{answer}");
    assert_eq!(api.download_file("/notes/summary.md").expect_status(200).text(), "# Summary\n");
}
