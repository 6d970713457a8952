//! Instructions that the owner keeps in the workspace, in `AGENTS.md`.

use conformance::{Say, Vendor};
use serde_json::{Value, json};

use crate::streams::{Stage, stage};

/// Returns the instructions of the latest request.
fn instructions(vendor: &Vendor) -> String {
    let requests = vendor.requests();
    requests.last().expect("a request")["messages"][0]["content"].to_string()
}

fn files(answer: &Value) -> Vec<&str> {
    let parts = answer["parts"].as_array().expect("parts").iter();
    parts.filter(|part| part["type"] == "FILE").filter_map(|part| part["path"].as_str()).collect()
}

fn write_file(text: &str) -> Say {
    let command = format!("echo '{text}' > /workspace/AGENTS.md");
    Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": command }) }
}

#[test]
fn instructions_of_an_answer_are_those_of_its_beginning() {
    let Stage { vendor, api, service: _service, .. } = stage();
    vendor.will([write_file("Answer in verse.")]);
    vendor.will([Say::text("Written.")]);
    let first = api.completed(&api.ask("Write instructions"));
    assert!(!files(&first).contains(&"/AGENTS.md"), "there were none: {first}");
    assert!(!instructions(&vendor).contains("Answer in verse."));
    vendor.will([write_file("Answer in prose.")]);
    vendor.will([Say::text("Rewritten.")]);
    let second = api.completed(&api.ask("Write others"));
    assert_eq!(second["parts"][0]["path"], "/AGENTS.md", "it is named: {second}");
    let after = instructions(&vendor);
    assert!(after.contains("Answer in verse.") && !after.contains("Answer in prose."), "{after}");
    vendor.will([Say::text("Read.")]);
    let third = api.completed(&api.ask("Go on"));
    assert_eq!(files(&third), ["/AGENTS.md"], "{third}");
    assert!(instructions(&vendor).contains("Answer in prose."));
}
