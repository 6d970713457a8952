//! OpenAI's own libraries call the service: models, completions, streams, calls of tools, repetitions and errors.

use std::os::unix::fs::symlink;
use std::process::Command;

use e2e::{Say, ScriptedVendor, ServiceOptions, TestService};
use serde_json::{Value, json};

use crate::expect_success;
use crate::programs::{installed_folder, python_command, test_file};

/// Runs a program against a service whose model follows a script, and checks the JSON that it prints. One that
/// `has_responses` asks for responses, too.
fn check_program(command: &mut Command, has_responses: bool) {
    let vendor = ScriptedVendor::start();
    vendor.add_script([Say::from_text("Hi.")]);
    vendor.add_script([
        Say::Reasoning("Once more.".to_owned()),
        Say::from_text("And "),
        Say::from_text("again."),
    ]);
    vendor.add_script([Say::Call { tool: "weather".to_owned(), arguments: json!({}) }]);
    vendor.add_script([Say::Refuse(503)]);
    vendor.add_script([Say::from_text("Retried.")]);
    if has_responses {
        vendor.add_script([Say::from_text("Answer one.")]);
        vendor.add_script([Say::from_text("Answer two.")]);
        vendor.add_script([
            Say::Reasoning("So.".to_owned()),
            Say::from_text("Quite "),
            Say::from_text("alone."),
        ]);
        vendor.add_script([Say::from_text("Later.")]);
        vendor.add_script([Say::from_text("It is due.")]);
        vendor.add_script([Say::Call { tool: "weather".to_owned(), arguments: json!({}) }]);
    }
    let environment = vendor.service_environment();
    let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let account = service.create_account();
    let api = service.api_for(&account);
    command.env("OPENAI_BASE_URL", format!("http://{}/v1", api.address)).env("OPENAI_API_KEY", &api.key);
    let printed = expect_success(command);
    let got: Value = serde_json::from_str(printed.trim()).expect("a line of JSON");
    let models = got["models"].as_array().expect("models");
    for id in ["stand-in", "agent/causerie:assistant", "plain/stand-in"] {
        assert!(models.contains(&json!(id)), "{models:?}");
    }
    assert_eq!(got["model"], "plain/stand-in");
    assert_eq!(got["whole"], json!(["Hi.", "stop", 120]));
    assert_eq!(got["stream"], json!(["And again.", "And again.", 120]));
    assert_eq!(got["call"], "weather");
    assert_eq!(got["retried"], "Retried.");
    let mut errors = json!({
        "model": ["model_not_found", "model", true],
        "key": ["invalid_api_key", null, true],
        "messages": [null, "messages", true],
    });
    if has_responses {
        errors["previous"] = json!(["previous_response_not_found", "previous_response_id", true]);
        assert_eq!(got["responses"], json!(["Answer one.", "Answer two.", 120, "7", true]));
        assert_eq!(got["response_stream"], json!(["Quite alone.", "Quite alone.", "reasoning", "completed"]));
        assert_eq!(got["background"], json!(["Later.", "completed", "Later."]));
        assert_eq!(got["file"], json!(["lease.txt", "The rent is due.", [true]]));
        let wanted =
            json!([true, ["user", "assistant"], ["input_text", "input_file"], {"title": "Rent"}, true, true]);
        assert_eq!(got["conversation"], wanted);
        assert_eq!(got["plain"], json!(["function_call", "weather"]));
    }
    assert_eq!(got["errors"], errors);
    // The second turn has continued the conversation of the first.
    let chats = api.list_chats("").json();
    assert_eq!(chats["totalCount"], if has_responses { 4 } else { 1 }, "{chats}");
}

#[test]
fn openai_python_library_works() {
    check_program(python_command("python3").arg(test_file("openai_library.py")), true);
}

#[test]
fn openai_node_library_works() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("openai_library.mjs");
    std::fs::copy(test_file("openai_library.mjs"), &program).expect("it can be copied");
    let modules = installed_folder("CAUSERIE_NODE", "node").join("node_modules");
    symlink(modules, folder.path().join("node_modules")).expect("a link");
    check_program(Command::new("node").arg(program), false);
}
