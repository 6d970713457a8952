//! An editor with the library of the Agent Client Protocol uses the service as its agent.

use e2e::{Say, ScriptedVendor, ServiceOptions, TestService, service_binary};
use serde_json::{Value, json};

use crate::programs::{python_command, test_file};
use crate::{add_service_variables, expect_success};

#[test]
fn editor_holds_and_reopens_session() {
    let vendor = ScriptedVendor::start();
    vendor.add_script([Say::Reasoning("Look at the notes.".to_owned()), Say::from_text("They are short.")]);
    vendor.add_script([Say::from_text("Then it "), Say::Hold]);
    let environment = vendor.service_environment();
    let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let account = service.create_account();
    let api = service.api_for(&account);
    let state = tempfile::tempdir().expect("a folder");
    let mut editor = python_command("python3");
    editor.arg(test_file("editor.py")).arg(service_binary()).arg("/home/someone/project");
    editor.env("XDG_STATE_HOME", state.path());
    let printed = expect_success(add_service_variables(&mut editor, &api));
    let got: Value = serde_json::from_str(printed.trim()).expect("a line of JSON");
    assert_eq!(got["version"], 1);
    assert_eq!(got["model"], "stand-in");
    let first = json!(["end_turn", {
        "calls": [["File: /uploads/notes.md", "completed"]],
        "agent_thought": "Look at the notes.",
        "agent_message": "They are short.",
        "title": "Read notes.md",
    }]);
    assert_eq!(got["first"], first);
    assert_eq!(got["second"], json!(["cancelled", "Then it "]));
    assert_eq!(got["unknown"], -32002);
    assert_eq!(got["listed"], json!([[true, "Read notes.md"]]));
    assert_eq!(got["loaded"]["user_message"], "Read notes.mdAnd then?");
    assert_eq!(got["loaded"]["agent_message"], "They are short.Then it ");
    assert_eq!(got["left"], 0);
    assert_eq!(api.list_chats("").json()["totalCount"], 0);
}
