//! Skills and agents (sections 2.4, 2.10 and 4.2): catalogs, choosing them, and their use in answers.

use std::fs;
use std::path::Path;

use e2e::api::{id_field, is_uuid};
use e2e::http::HttpRequest;
use e2e::{Api, Expect, Say, ScriptedVendor, ServiceOptions, TestService, poll, start_with_api};
use serde_json::{Value, json};

use crate::streams::{StreamFixture, stream_fixture};

/// Creates the operator's plugins: one with a script, and one whose skill has the same name as another's.
fn write_plugins(folder: &Path) {
    let write = |path: &str, text: &str| {
        let place = folder.join(path);
        fs::create_dir_all(place.parent().expect("a folder")).expect("a folder");
        fs::write(place, text).expect("a file");
    };
    let skill =
        |name: &str, body: &str| format!("---\nname: {name}\ndescription: About {name}\n---\n{body}\n");
    write("tax/.claude-plugin/plugin.json", "{\"name\": \"tax\"}");
    write("tax/skills/vat/SKILL.md", &skill("vat", "Multiply by the rate."));
    write("tax/skills/vat/scripts/rate.sh", "echo the rate is 21\n");
    write("tax/skills/contract-review/SKILL.md", &skill("contract-review", "Look at the tax clauses."));
    write(
        "tax/agents/adviser.md",
        "---\nname: adviser\ndescription: Advises\ntools: Read\n---\nYou advise on taxes, tersely.\n",
    );
    write("tax/secret.txt", "not for machines");
}

/// Starts a service with these plugins, a scripted model and an account.
fn with_plugins() -> (StreamFixture, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    write_plugins(folder.path());
    let vendor = ScriptedVendor::start();
    let mut environment = vendor.service_environment();
    let path = folder.path().to_str().expect("a path").to_owned();
    environment.push(("CAUSERIE_PLUGINS".to_owned(), path));
    let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let account = service.create_account();
    let api = service.api_for(&account);
    poll::wait_until("the model is listed", || {
        let models = api.get_catalog("models", None).json();
        models.as_array()?.iter().any(|model| model["id"] == e2e::scripted_vendor::MODEL).then_some(())
    });
    (StreamFixture { vendor, api, account, service }, folder)
}

fn catalog_entries(api: &Api, catalog: &str) -> Vec<Value> {
    let listed = api.get_catalog(catalog, None).expect_status(200).json();
    let entries = listed.as_array().expect("an array").clone();
    for entry in &entries {
        assert!(is_uuid(&entry["id"]), "{entry}");
        for field in ["name", "fullName", "description"] {
            assert!(entry[field].as_str().is_some_and(|text| !text.is_empty()), "{field} in {entry}");
        }
        assert!(entry["fullName"].as_str().is_some_and(|name| name.split(':').count() == 2), "{entry}");
    }
    assert!(!entries.is_empty(), "no catalog is empty");
    entries
}

fn full_names(entries: &[Value]) -> Vec<&str> {
    entries.iter().filter_map(|entry| entry["fullName"].as_str()).collect()
}

fn system_message(request: &Value) -> String {
    request["messages"][0]["content"].as_str().expect("instructions").to_owned()
}

fn skill_call(skill: &str) -> Say {
    Say::Call { tool: "skill".to_owned(), arguments: json!({ "skill": skill }) }
}

#[test]
fn skills_are_listed_by_use() {
    let (_service, api) = start_with_api();
    let first = api.get_catalog("skills", None).expect_status(200).json();
    let before = catalog_entries(&api, "skills");
    assert_eq!(first, Value::from(before.clone()), "the same each time");
    let sorted = {
        let mut sorted = full_names(&before);
        sorted.sort_unstable();
        sorted
    };
    assert_eq!(full_names(&before), sorted, "unused skills are sorted by name");
    let last = before.last().expect("a skill")["fullName"].clone();
    let answer = api.expect_accepted(&json!({ "input": "Hello", "skillIds": [last] }));
    assert_eq!(catalog_entries(&api, "skills")[0]["fullName"], last, "counted with the question");
    api.wait_for_completion(&answer);
}

#[test]
fn agents_are_listed_and_chosen() {
    let (_service, api) = start_with_api();
    let agents = api.get_catalog("agents", None).expect_status(200).json();
    assert_eq!(agents, Value::from(catalog_entries(&api, "agents")));
    for word in [&agents[0]["id"], &agents[0]["fullName"], &agents[0]["name"]] {
        api.wait_for_completion(&api.expect_accepted(&json!({ "input": "Hello", "agentId": word })));
    }
}

#[test]
fn skill_found_by_id_or_name() {
    let (_service, api) = start_with_api();
    let skill = api.get_catalog("skills", None).expect_status(200).json()[0].clone();
    for word in [&skill["id"], &skill["fullName"], &skill["name"]] {
        api.wait_for_completion(&api.expect_accepted(&json!({ "input": "Hello", "skillIds": [word, word] })));
    }
    api.wait_for_completion(&api.expect_accepted(&json!({ "input": "Hello", "skillIds": [] })));
}

#[test]
fn unknown_skill_or_agent_lists_known() {
    let (_service, api) = start_with_api();
    let skills = catalog_entries(&api, "skills");
    let known = skills[0]["fullName"].as_str().expect("a name");
    let message = api
        .send_question(&json!({ "input": "x", "skillIds": [known, "none"] }))
        .expect_code(400, "UNKNOWN_SKILL");
    assert!(message.contains("none") && message.contains(known), "{message}");
    let nobody = "00000000-0000-4000-8000-000000000000";
    for word in ["none", nobody, ""] {
        let message =
            api.send_question(&json!({ "input": "x", "agentId": word })).expect_code(400, "UNKNOWN_AGENT");
        assert!(message.contains("causerie:assistant"), "{message}");
    }
    assert_eq!(api.list_chats("").json()["totalCount"], 0, "no question was accepted");
    let many: Vec<&str> = std::iter::repeat_n(known, 101).collect();
    api.send_question(&json!({ "input": "x", "skillIds": many })).expect_code(400, "BAD_REQUEST");
}

#[test]
fn ambiguous_skill_name_lists_full_names() {
    let (StreamFixture { api, service: _service, .. }, _folder) = with_plugins();
    let message = api
        .send_question(&json!({ "input": "x", "skillIds": ["contract-review"] }))
        .expect_code(400, "AMBIGUOUS_NAME");
    assert!(
        message.contains("causerie:contract-review") && message.contains("tax:contract-review"),
        "{message}"
    );
    api.wait_for_completion(
        &api.expect_accepted(&json!({ "input": "x", "skillIds": ["tax:contract-review"] })),
    );
}

#[test]
fn skill_disclosed_stepwise_as_part() {
    let (StreamFixture { vendor, api, service: _service, .. }, _folder) = with_plugins();
    vendor.add_script([Say::from_text("I look it up."), skill_call("tax:vat")]);
    let command = "sh /plugins/tax/skills/vat/scripts/rate.sh > /workspace/rate.txt";
    vendor.add_script([Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": command }) }]);
    vendor.add_script([Say::from_text("It is 21.")]);
    let answer = api.wait_for_completion(&api.ask_question("Which rate?"));
    let requests = vendor.request_bodies();
    let system = system_message(&requests[0]);
    assert!(system.contains("`tax:vat`: About vat") && !system.contains("Multiply by the rate"), "{system}");
    assert!(
        requests[1].to_string().contains("Multiply by the rate"),
        "the skill's text is passed when it is opened"
    );
    assert!(requests[1].to_string().contains("/plugins/tax/skills/vat"), "{}", requests[1]);
    let parts = answer["parts"].as_array().expect("parts");
    let kinds: Vec<&str> = parts.iter().filter_map(|part| part["type"].as_str()).collect();
    assert_eq!(kinds, ["TEXT", "SKILL", "TOOL", "TEXT"], "{answer}");
    let listed = catalog_entries(&api, "skills");
    assert_eq!(listed[0]["fullName"], "tax:vat", "a skill that the agent opened was used");
    let skill = &parts[1];
    assert_eq!(skill["skillId"], listed[0]["id"], "{skill}");
    assert_eq!(
        (&skill["name"], &skill["fullName"], &skill["state"]),
        (&json!("vat"), &json!("tax:vat"), &json!("COMPLETE"))
    );
    assert_eq!(parts[2]["state"], "COMPLETE", "{answer}");
    assert_eq!(api.download_file("/rate.txt").expect_status(200).text(), "the rate is 21\n");
    let chat = api.get_chat(&id_field(&answer, "chatId")).json();
    assert_eq!(chat["messages"][1]["parts"][1], *skill, "the history shows the same");
}

#[test]
fn question_limits_offered_skills() {
    let (StreamFixture { vendor, api, service: _service, .. }, _folder) = with_plugins();
    vendor.add_script([skill_call("tax:vat"), skill_call("causerie:statute-lookup"), skill_call("nonsense")]);
    let answer = api.wait_for_completion(&api.expect_accepted(&json!({ "input": "x", "skillIds": ["vat"] })));
    let system = system_message(&vendor.request_bodies()[0]);
    assert!(system.contains("tax:vat") && !system.contains("causerie:statute-lookup"), "{system}");
    let parts = answer["parts"].as_array().expect("parts");
    let states: Vec<(&Value, &Value)> = parts.iter().map(|part| (&part["type"], &part["state"])).collect();
    let (skill, tool) = (json!("SKILL"), json!("TOOL"));
    let (complete, error) = (json!("COMPLETE"), json!("ERROR"));
    assert_eq!(states[..3], [(&skill, &complete), (&tool, &error), (&tool, &error)], "{answer}");
}

#[test]
fn agent_brings_instructions_and_tools() {
    let (StreamFixture { vendor, api, service: _service, .. }, _folder) = with_plugins();
    api.wait_for_completion(&api.expect_accepted(&json!({ "input": "x", "agentId": "adviser" })));
    api.wait_for_completion(&api.ask_question("x"));
    let requests = vendor.request_bodies();
    assert!(system_message(&requests[0]).contains("You advise on taxes, tersely."));
    let tools = |request: &Value| -> Vec<String> {
        let tools = request["tools"].as_array().expect("tools").iter();
        tools.map(|tool| tool["function"]["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(tools(&requests[0]), ["read", "skill"]);
    assert!(!system_message(&requests[1]).contains("You advise on taxes"), "the default agent answers");
    assert!(tools(&requests[1]).contains(&"shell".to_owned()));
}

#[test]
fn changed_plugins_are_read_again() {
    let (StreamFixture { vendor, api, service: _service, .. }, folder) = with_plugins();
    api.wait_for_completion(&api.ask_question("Start the machine"));
    fs::write(folder.path().join("tax/skills/vat/scripts/rate.sh"), "echo the rate is 23\n").expect("a file");
    fs::create_dir(folder.path().join("tax/skills/excise")).expect("a folder");
    let text = "---\nname: excise\ndescription: About excise\n---\nx\n";
    fs::write(folder.path().join("tax/skills/excise/SKILL.md"), text).expect("a file");
    fs::remove_dir_all(folder.path().join("tax/skills/contract-review")).expect("it was there");
    poll::wait_until("the new skill is listed, the old one is not", || {
        let listed = catalog_entries(&api, "skills");
        let names = full_names(&listed);
        (names.contains(&"tax:excise") && !names.contains(&"tax:contract-review")).then_some(())
    });
    let command = "sh /plugins/tax/skills/vat/scripts/rate.sh > /workspace/rate.txt; \
        ls -A /plugins /plugins/tax /plugins/tax/skills > /workspace/seen.txt; \
        echo x > /plugins/tax/skills/vat/SKILL.md || echo refused >> /workspace/seen.txt";
    vendor.add_script([Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": command }) }]);
    api.wait_for_completion(&api.ask_question("Look"));
    assert_eq!(api.download_file("/rate.txt").expect_status(200).text(), "the rate is 23\n");
    let seen = api.download_file("/seen.txt").expect_status(200).text();
    assert!(seen.contains("excise") && seen.contains("refused"), "{seen}");
    assert!(!seen.contains("secret") && !seen.contains("contract-review"), "{seen}");
}

#[test]
fn answer_continues_after_crash_within_skill() {
    let StreamFixture { vendor, api, mut service, .. } = stream_fixture();
    vendor.add_script([skill_call("causerie:document-summary")]);
    vendor.add_script([Say::from_text("Half"), Say::Hold]);
    let answer = api.ask_question("Summarise");
    vendor.wait_for_holds(1);
    service.kill();
    vendor.add_script([Say::from_text("Whole.")]);
    service.restart();
    let answer = api.wait_for_completion(&answer);
    let kinds: Vec<&Value> =
        answer["parts"].as_array().expect("parts").iter().map(|part| &part["type"]).collect();
    assert_eq!(kinds, [&json!("SKILL"), &json!("TEXT")], "{answer}");
    assert_eq!((&answer["text"], &answer["parts"][0]["state"]), (&json!("Whole."), &json!("COMPLETE")));
}

#[test]
fn answer_waits_for_removed_agent() {
    let (StreamFixture { vendor, account, api, mut service }, folder) = with_plugins();
    let question = json!({ "input": "May I deduct it?", "agentId": "tax:adviser" });
    vendor.add_script([Say::from_text("Half"), Say::Hold]);
    let answer = api.expect_accepted(&question);
    vendor.wait_for_holds(1);
    service.kill();
    let (agents, away) = (folder.path().join("tax/agents"), folder.path().join("away"));
    fs::rename(&agents, &away).expect("it was there");
    service.restart();
    service.run_admin_command(&["account", "set-role", "--account", &account.email, "--role", "operator"]);
    let told = poll::wait_until("the left answer is reported", || {
        let request = HttpRequest::new("GET", "/readyz?verbose").with_header("x-api-key", &account.key);
        let checks = request.send(service.address()).expect_status(200).json();
        let checks = checks["checks"].as_array().cloned().unwrap_or_default();
        checks.into_iter().find(|check| check["name"] == "answers" && check["status"] == "warn")
    });
    assert!(told["reason"].as_str().is_some_and(|reason| reason.contains("tax:adviser")), "{told}");
    let api = service.api_for(&account);
    assert_eq!(api.get_answer(&answer)["error"], Value::Null, "no other agent takes over");
    api.send_question(&question).expect_code(400, "UNKNOWN_AGENT");
    vendor.add_script([Say::from_text("Whole.")]);
    fs::rename(&away, &agents).expect("it was there");
    assert_eq!(api.wait_for_completion(&answer)["text"], "Whole.", "it goes on with its agent");
}

#[test]
fn plugins_command_lists_and_checks() {
    let service = TestService::start(ServiceOptions::default());
    let folder = tempfile::tempdir().expect("a folder");
    write_plugins(folder.path());
    let run =
        |arguments: &[&str]| service.build_command().args(arguments).output().expect("the binary can be run");
    let path = folder.path().to_str().expect("a path");
    let listed = run(&["plugins", "list", "--plugins", path, "--json"]);
    let catalog: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    assert!(full_names(catalog["skills"].as_array().expect("skills")).contains(&"tax:vat"), "{catalog}");
    assert!(
        full_names(catalog["agents"].as_array().expect("agents")).contains(&"causerie:assistant"),
        "{catalog}"
    );
    assert!(run(&["plugins", "check", path]).status.success());
    fs::write(folder.path().join("tax/skills/vat/SKILL.md"), "---\nname: vat\n---\n").expect("a file");
    let checked = run(&["plugins", "check", path]);
    let out = String::from_utf8_lossy(&checked.stdout);
    assert!(!checked.status.success() && out.contains("tax/skills/vat/SKILL.md:1:"), "{out}");
    assert!(!run(&["plugins", "check", "/nowhere"]).status.success());
}

#[test]
fn log_has_line_per_plugin_notice() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["one", "two", "three"] {
        let place = folder.path().join(format!("tax/skills/{name}"));
        fs::create_dir_all(&place).expect("a folder");
        let skill =
            format!("---\nname: {name}\ndescription: About {name}\nallowed-tools: [a: b\n---\nBody\n");
        fs::write(place.join("SKILL.md"), skill).expect("a file");
    }
    let plugin = folder.path().join("tax").to_str().expect("a path").to_owned();
    let environment = vec![("CAUSERIE_PLUGINS".to_owned(), plugin.clone())];
    let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let log = poll::wait_until("the plugins are loaded", || {
        Some(service.log_text()).filter(|log| log.contains("listening on"))
    });
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(&plugin)).collect();
    assert_eq!(lines.len(), 1, "{log}");
    let mend = format!("`causerie plugins check {plugin}`");
    assert!(lines[0].contains(&mend) && !lines[0].contains("skipped="), "{}", lines[0]);
    let checked =
        service.build_command().args(["plugins", "check", &plugin]).output().expect("the binary can be run");
    assert!(String::from_utf8_lossy(&checked.stdout).matches("SKILL.md").count() >= 3, "{checked:?}");
}
