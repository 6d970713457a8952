//! MCP servers of plugins: their tools in answers (section 2.10), and failures of servers.

use std::fs;
use std::path::Path;

use e2e::{Expect, Say, ScriptedVendor, ServiceOptions, TestService, poll};
use serde_json::{Value, json};

use crate::streams::StreamFixture;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../test-support/programs/mcp.py");

/// Creates a plugin with a server that records its starts in the workspace, and a server that does not exist.
fn write_plugin(folder: &Path) {
    let place = folder.join("legal");
    fs::create_dir_all(place.join("servers")).expect("a folder");
    fs::copy(PROGRAM, place.join("servers/mcp.py")).expect("the program is there");
    let start = "echo started >> /workspace/starts.txt; exec python3 servers/mcp.py \"$0\"";
    let servers = json!({ "mcpServers": {
        "registry": {
            "command": "sh", "args": ["-c", start, "plain"], "cwd": "${CLAUDE_PLUGIN_ROOT}",
            "env": { "MODE": "${MODE:-quiet}" }, "read_only": ["echo"]
        },
        "away": { "command": "/nowhere/at/all" }
    }});
    fs::write(place.join(".mcp.json"), servers.to_string()).expect("a file");
    let agent = "---\nname: clerk\ndescription: Looks up\ntools: Read, mcp__plugin_legal_registry__echo\n---\nBe brief.\n";
    fs::create_dir_all(place.join("agents")).expect("a folder");
    fs::write(place.join("agents/clerk.md"), agent).expect("a file");
}

fn servers_fixture() -> (StreamFixture, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    write_plugin(folder.path());
    let vendor = ScriptedVendor::start();
    let mut environment = vendor.service_environment();
    environment.push(("CAUSERIE_PLUGINS".to_owned(), folder.path().to_str().expect("a path").to_owned()));
    let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let account = service.create_account();
    let api = service.api_for(&account);
    poll::wait_until("the model is listed", || {
        let models = api.get_catalog("models", None).json();
        models.as_array()?.iter().any(|model| model["id"] == e2e::scripted_vendor::MODEL).then_some(())
    });
    (StreamFixture { vendor, api, account, service }, folder)
}

fn tool_call(tool: &str, arguments: Value) -> Say {
    Say::Call { tool: tool.to_owned(), arguments }
}

/// Returns the tools of MCP servers in a request, without their servers' names.
fn offered_tools(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().expect("tools").iter();
    let names = tools.filter_map(|tool| tool["function"]["name"].as_str());
    names.filter_map(|name| name.strip_prefix("registry__")).collect()
}

fn count_starts(stage: &StreamFixture) -> usize {
    stage.api.download_file("/starts.txt").expect_status(200).text().lines().count()
}

#[test]
fn plugin_server_tool_called_and_cited() {
    let (stage, _folder) = servers_fixture();
    let StreamFixture { vendor, api, .. } = &stage;
    vendor.add_script([tool_call("registry__cite", json!({})), tool_call("registry__fail", json!({}))]);
    vendor.add_script([Say::from_text("Notice is three months [1], the rent 18,500 [2].")]);
    let answer = api.wait_for_completion(&api.ask_question("What is agreed?"));
    let requests = vendor.request_bodies();
    assert_eq!(
        offered_tools(&requests[0]).len(),
        19,
        "both pages, in the first step already: {}",
        requests[0]["tools"]
    );
    assert!(requests[1].to_string().contains("The notice period is three months."), "{}", requests[1]);
    let parts = answer["parts"].as_array().expect("parts");
    let tool_at = |at: usize| (&parts[at]["type"], &parts[at]["toolName"], &parts[at]["state"]);
    assert_eq!(tool_at(0), (&json!("TOOL"), &json!("registry__cite"), &json!("COMPLETE")), "{answer}");
    assert_eq!(tool_at(1), (&json!("TOOL"), &json!("registry__fail"), &json!("ERROR")), "{answer}");
    assert!(parts[0]["toolCallId"].is_string() && e2e::api::is_uuid(&parts[0]["partId"]), "{answer}");
    let text = parts.iter().find(|part| part["type"] == "TEXT").expect("a text");
    let sources: Vec<&Value> =
        text["citations"].as_array().expect("citations").iter().map(|one| &one["source"]).collect();
    assert_eq!(sources[0]["type"], "URL", "{text}");
    assert_eq!(sources[0]["url"], "https://registry.example.org/acts/89");
    assert_eq!((&sources[1]["type"], &sources[1]["path"]), (&json!("FILE"), &json!("/lease.txt")));
    assert!(
        text["content"].as_str().expect("HTML").contains("https://registry.example.org/acts/89"),
        "{text}"
    );
    assert_eq!(answer["text"], "Notice is three months, the rent 18,500.");
}

#[test]
fn plugin_server_starts_once_per_turn() {
    let (mut stage, _folder) = servers_fixture();
    for question in 0..3 {
        stage.vendor.add_script([tool_call("registry__echo", json!({ "text": "x" }))]);
        stage.vendor.add_script([Say::from_text("Done.")]);
        let answer = stage.api.wait_for_completion(&stage.api.ask_question(&format!("Question {question}")));
        assert_eq!(answer["parts"][0]["state"], "COMPLETE", "{answer}");
    }
    assert_eq!(count_starts(&stage), 1);
    // After a restart of the machine the list is known, and no tool is called.
    stage.api.stop_vm().expect_status(202);
    poll::wait_until("the machine has stopped", || {
        (stage.api.get_vm().json()["status"] == "STOPPED").then_some(())
    });
    stage.api.wait_for_completion(&stage.api.ask_question("Without it"));
    assert_eq!(offered_tools(stage.vendor.request_bodies().last().expect("a request")).len(), 19);
    assert_eq!(count_starts(&stage), 1, "a list that is known costs no start");
    // After a restart of the service the machine continues with its server.
    stage.vendor.add_script([tool_call("registry__echo", json!({ "text": "y" }))]);
    stage.vendor.add_script([Say::from_text("Done.")]);
    stage.api.wait_for_completion(&stage.api.ask_question("With it"));
    assert_eq!(count_starts(&stage), 2);
    stage.service.kill();
    stage.service.restart();
    let api = stage.service.api_for(&stage.account);
    api.wait_for_completion(&api.ask_question("After that"));
    assert_eq!(offered_tools(stage.vendor.request_bodies().last().expect("a request")).len(), 19);
    assert_eq!(api.download_file("/starts.txt").expect_status(200).text().lines().count(), 2);
}

#[test]
fn effectful_server_call_is_never_repeated() {
    let (mut stage, _folder) = servers_fixture();
    let vendor = stage.vendor.clone();
    let note = json!({ "text": "once", "file": "/workspace/notes.txt", "seconds": 600 });
    vendor.add_script([tool_call("registry__note", note)]);
    let answer = stage.api.ask_question("Note it");
    poll::wait_until("it is noted", || (stage.api.download_file("/notes.txt").status == 200).then_some(()));
    // The service is killed; the machine, its agent and the call continue.
    stage.service.kill();
    stage.service.restart();
    let api = stage.service.api_for(&stage.account);
    // Then the machine is killed with its server.
    let listed = stage.service.run_admin_command(&["machine", "list"]);
    let first = listed["machines"][0]["pids"][0].as_i64().expect("a process");
    let killed = std::process::Command::new("kill").args(["-9", &first.to_string()]).status();
    assert!(killed.expect("kill can be run").success());
    vendor.add_script([Say::from_text("It was cut.")]);
    let answer = api.wait_for_completion(&answer);
    assert_eq!((&answer["parts"][0]["state"], &answer["text"]), (&json!("ERROR"), &json!("It was cut.")));
    assert!(
        vendor.request_bodies().last().expect("a request").to_string().contains("may or may not have run")
    );
    assert_eq!(api.download_file("/notes.txt").expect_status(200).text(), "once\n");
}

#[test]
fn broken_server_breaks_no_answer() {
    let (stage, _folder) = servers_fixture();
    let StreamFixture { vendor, api, .. } = &stage;
    vendor.add_script([tool_call("registry__crash", json!({})), tool_call("away__x", json!({}))]);
    vendor.add_script([tool_call("registry__echo", json!({ "text": "again" }))]);
    vendor.add_script([Say::from_text("Done.")]);
    let answer = api.wait_for_completion(&api.ask_question("Break it"));
    let states: Vec<&Value> =
        answer["parts"].as_array().expect("parts").iter().take(3).map(|part| &part["state"]).collect();
    assert_eq!(states, ["ERROR", "ERROR", "COMPLETE"], "{answer}");
    let request = vendor.request_bodies()[1].to_string();
    assert!(
        request.contains("the disk of the registry broke") && request.contains("may have run"),
        "{request}"
    );
    vendor.add_script([tool_call("registry__hang", json!({ "file": "/workspace/hangs.txt" }))]);
    let answer = api.ask_question("Hang");
    poll::wait_until("the server has the call", || {
        (api.download_file("/hangs.txt").status == 200).then_some(())
    });
    api.stop_chat(&e2e::api::id_field(&answer, "chatId")).expect_status(202);
    let answer = api.wait_for_completion(&answer);
    assert_eq!((&answer["parts"][0]["state"], &answer["error"]), (&json!("ERROR"), &Value::Null));
    vendor.add_script([tool_call("registry__cancelled", json!({}))]);
    vendor.add_script([Say::from_text("Done.")]);
    api.wait_for_completion(&api.ask_question("Was it recorded?"));
    let request = vendor.request_bodies().last().expect("a request").to_string();
    assert!(request.contains('[') && !request.contains("\"[]\""), "{request}");
}

#[test]
fn agent_tools_include_named_server() {
    let (stage, _folder) = servers_fixture();
    stage.api.wait_for_completion(&stage.api.expect_accepted(&json!({ "input": "x", "agentId": "clerk" })));
    assert_eq!(offered_tools(&stage.vendor.request_bodies()[0]), ["echo"]);
}
