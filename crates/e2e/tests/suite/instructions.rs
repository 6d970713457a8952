//! Instructions that the owner keeps in the workspace, in `AGENTS.md`.

use e2e::{Say, ScriptedVendor};
use serde_json::{Value, json};

use crate::streams::{StreamFixture, stream_fixture};

/// Returns the instructions of the latest request.
fn latest_instructions(vendor: &ScriptedVendor) -> String {
    let requests = vendor.request_bodies();
    requests.last().expect("a request")["messages"][0]["content"].to_string()
}

fn file_part_paths(answer: &Value) -> Vec<&str> {
    let parts = answer["parts"].as_array().expect("parts").iter();
    parts.filter(|part| part["type"] == "FILE").filter_map(|part| part["path"].as_str()).collect()
}

fn write_file(text: &str) -> Say {
    let command = format!("echo '{text}' > /workspace/AGENTS.md");
    Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": command }) }
}

#[test]
fn answer_keeps_its_initial_instructions() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    vendor.add_script([write_file("Answer in verse.")]);
    vendor.add_script([Say::from_text("Written.")]);
    let first = api.wait_for_completion(&api.ask_question("Write instructions"));
    assert!(!file_part_paths(&first).contains(&"/AGENTS.md"), "there were none: {first}");
    assert!(!latest_instructions(&vendor).contains("Answer in verse."));
    vendor.add_script([write_file("Answer in prose.")]);
    vendor.add_script([Say::from_text("Rewritten.")]);
    let second = api.wait_for_completion(&api.ask_question("Write others"));
    assert_eq!(second["parts"][0]["path"], "/AGENTS.md", "it is named: {second}");
    let after = latest_instructions(&vendor);
    assert!(after.contains("Answer in verse.") && !after.contains("Answer in prose."), "{after}");
    vendor.add_script([Say::from_text("Read.")]);
    let third = api.wait_for_completion(&api.ask_question("Go on"));
    assert_eq!(file_part_paths(&third), ["/AGENTS.md"], "{third}");
    assert!(latest_instructions(&vendor).contains("Answer in prose."));
}
