//! MCP servers of plugins: their tools in answers (section 2.10), and failures of servers.

use std::fs;
use std::path::Path;

use conformance::{Expect, Options, Say, Service, Vendor, poll};
use serde_json::{Value, json};

use crate::streams::Stage;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../test-support/programs/mcp.py");

/// Creates a plugin with a server that records its starts in the workspace, and a server that does not exist.
fn plugin(folder: &Path) {
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

fn stage() -> (Stage, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    plugin(folder.path());
    let vendor = Vendor::start();
    let mut environment = vendor.environment();
    environment.push(("CAUSERIE_PLUGINS".to_owned(), folder.path().to_str().expect("a path").to_owned()));
    let service = Service::start(Options { environment, ..Options::default() });
    let account = service.account();
    let api = service.api(&account);
    poll::until("the model is listed", || {
        let models = api.catalog("models", None).json();
        models.as_array()?.iter().any(|model| model["id"] == conformance::vendor::MODEL).then_some(())
    });
    (Stage { vendor, api, account, service }, folder)
}

fn call(tool: &str, arguments: Value) -> Say {
    Say::Call { tool: tool.to_owned(), arguments }
}

/// Returns the tools of MCP servers in a request, without their servers' names.
fn offered(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().expect("tools").iter();
    let names = tools.filter_map(|tool| tool["function"]["name"].as_str());
    names.filter_map(|name| name.strip_prefix("registry__")).collect()
}

fn starts(stage: &Stage) -> usize {
    stage.api.download("/starts.txt").expect_status(200).text().lines().count()
}

#[test]
fn a_tool_of_a_plugins_server_is_called_shown_and_cited() {
    let (stage, _folder) = stage();
    let Stage { vendor, api, .. } = &stage;
    vendor.will([call("registry__cite", json!({})), call("registry__fail", json!({}))]);
    vendor.will([Say::text("Notice is three months [1], the rent 18,500 [2].")]);
    let answer = api.completed(&api.ask("What is agreed?"));
    let requests = vendor.requests();
    assert_eq!(
        offered(&requests[0]).len(),
        19,
        "both pages, in the first step already: {}",
        requests[0]["tools"]
    );
    assert!(requests[1].to_string().contains("The notice period is three months."), "{}", requests[1]);
    let parts = answer["parts"].as_array().expect("parts");
    let tool_at = |at: usize| (&parts[at]["type"], &parts[at]["toolName"], &parts[at]["state"]);
    assert_eq!(tool_at(0), (&json!("TOOL"), &json!("registry__cite"), &json!("COMPLETE")), "{answer}");
    assert_eq!(tool_at(1), (&json!("TOOL"), &json!("registry__fail"), &json!("ERROR")), "{answer}");
    assert!(parts[0]["toolCallId"].is_string() && conformance::api::is_uuid(&parts[0]["partId"]), "{answer}");
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
fn a_server_is_started_once_and_not_for_a_list_that_is_known() {
    let (mut stage, _folder) = stage();
    for question in 0..3 {
        stage.vendor.will([call("registry__echo", json!({ "text": "x" }))]);
        stage.vendor.will([Say::text("Done.")]);
        let answer = stage.api.completed(&stage.api.ask(&format!("Question {question}")));
        assert_eq!(answer["parts"][0]["state"], "COMPLETE", "{answer}");
    }
    assert_eq!(starts(&stage), 1);
    // After a restart of the machine the list is known, and no tool is called.
    stage.api.stop_vm().expect_status(202);
    poll::until("the machine has stopped", || (stage.api.vm().json()["status"] == "STOPPED").then_some(()));
    stage.api.completed(&stage.api.ask("Without it"));
    assert_eq!(offered(stage.vendor.requests().last().expect("a request")).len(), 19);
    assert_eq!(starts(&stage), 1, "a list that is known costs no start");
    // After a restart of the service the machine continues with its server.
    stage.vendor.will([call("registry__echo", json!({ "text": "y" }))]);
    stage.vendor.will([Say::text("Done.")]);
    stage.api.completed(&stage.api.ask("With it"));
    assert_eq!(starts(&stage), 2);
    stage.service.kill();
    stage.service.restart();
    let api = stage.service.api(&stage.account);
    api.completed(&api.ask("After that"));
    assert_eq!(offered(stage.vendor.requests().last().expect("a request")).len(), 19);
    assert_eq!(api.download("/starts.txt").expect_status(200).text().lines().count(), 2);
}

#[test]
fn a_call_that_changes_something_is_never_made_twice() {
    let (mut stage, _folder) = stage();
    let vendor = stage.vendor.clone();
    let note = json!({ "text": "once", "file": "/workspace/notes.txt", "seconds": 600 });
    vendor.will([call("registry__note", note)]);
    let answer = stage.api.ask("Note it");
    poll::until("it is noted", || (stage.api.download("/notes.txt").status == 200).then_some(()));
    // The service is killed; the machine, its agent and the call continue.
    stage.service.kill();
    stage.service.restart();
    let api = stage.service.api(&stage.account);
    // Then the machine is killed with its server.
    let listed = stage.service.admin(&["machine", "list"]);
    let first = listed["machines"][0]["pids"][0].as_i64().expect("a process");
    let killed = std::process::Command::new("kill").args(["-9", &first.to_string()]).status();
    assert!(killed.expect("kill can be run").success());
    vendor.will([Say::text("It was cut.")]);
    let answer = api.completed(&answer);
    assert_eq!((&answer["parts"][0]["state"], &answer["text"]), (&json!("ERROR"), &json!("It was cut.")));
    assert!(vendor.requests().last().expect("a request").to_string().contains("may or may not have run"));
    assert_eq!(api.download("/notes.txt").expect_status(200).text(), "once\n");
}

#[test]
fn a_server_that_breaks_breaks_no_answer_and_a_stop_ends_its_call() {
    let (stage, _folder) = stage();
    let Stage { vendor, api, .. } = &stage;
    vendor.will([call("registry__crash", json!({})), call("away__x", json!({}))]);
    vendor.will([call("registry__echo", json!({ "text": "again" }))]);
    vendor.will([Say::text("Done.")]);
    let answer = api.completed(&api.ask("Break it"));
    let states: Vec<&Value> =
        answer["parts"].as_array().expect("parts").iter().take(3).map(|part| &part["state"]).collect();
    assert_eq!(states, ["ERROR", "ERROR", "COMPLETE"], "{answer}");
    let request = vendor.requests()[1].to_string();
    assert!(
        request.contains("the disk of the registry broke") && request.contains("may have run"),
        "{request}"
    );
    vendor.will([call("registry__hang", json!({ "file": "/workspace/hangs.txt" }))]);
    let answer = api.ask("Hang");
    poll::until("the server has the call", || (api.download("/hangs.txt").status == 200).then_some(()));
    api.stop(&conformance::api::id(&answer, "chatId")).expect_status(202);
    let answer = api.completed(&answer);
    assert_eq!((&answer["parts"][0]["state"], &answer["error"]), (&json!("ERROR"), &Value::Null));
    vendor.will([call("registry__cancelled", json!({}))]);
    vendor.will([Say::text("Done.")]);
    api.completed(&api.ask("Was it recorded?"));
    let request = vendor.requests().last().expect("a request").to_string();
    assert!(request.contains('[') && !request.contains("\"[]\""), "{request}");
}

#[test]
fn an_agent_that_names_its_tools_has_those_of_a_server_that_it_names() {
    let (stage, _folder) = stage();
    stage.api.completed(&stage.api.accepted(&json!({ "input": "x", "agentId": "clerk" })));
    assert_eq!(offered(&stage.vendor.requests()[0]), ["echo"]);
}
