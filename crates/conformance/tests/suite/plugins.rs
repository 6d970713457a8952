//! Skills and agents (sections 2.4, 2.10 and 4.2): catalogs, choosing them, and their use in answers.

use std::fs;
use std::path::Path;

use conformance::api::{id, is_uuid};
use conformance::http::Request;
use conformance::{Api, Expect, Options, Say, Service, Vendor, caller, poll};
use serde_json::{Value, json};

use crate::streams::{Stage, stage};

/// Creates the operator's plugins: one with a script, and one whose skill has the same name as another's.
fn plugins(folder: &Path) {
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
fn with_plugins() -> (Stage, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    plugins(folder.path());
    let vendor = Vendor::start();
    let mut environment = vendor.environment();
    let path = folder.path().to_str().expect("a path").to_owned();
    environment.push(("CAUSERIE_PLUGINS".to_owned(), path));
    let service = Service::start(Options { environment, ..Options::default() });
    let account = service.account();
    let api = service.api(&account);
    poll::until("the model is listed", || {
        let models = api.catalog("models", None).json();
        models.as_array()?.iter().any(|model| model["id"] == conformance::vendor::MODEL).then_some(())
    });
    (Stage { vendor, api, account, service }, folder)
}

fn entries(api: &Api, catalog: &str) -> Vec<Value> {
    let listed = api.catalog(catalog, None).expect_status(200).json();
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

fn names(entries: &[Value]) -> Vec<&str> {
    entries.iter().filter_map(|entry| entry["fullName"].as_str()).collect()
}

fn system_of(request: &Value) -> String {
    request["messages"][0]["content"].as_str().expect("instructions").to_owned()
}

fn open(skill: &str) -> Say {
    Say::Call { tool: "skill".to_owned(), arguments: json!({ "skill": skill }) }
}

#[test]
fn skills_are_listed_the_most_used_first() {
    let (_service, api) = caller();
    let first = api.catalog("skills", None).expect_status(200).json();
    let before = entries(&api, "skills");
    assert_eq!(first, Value::from(before.clone()), "the same each time");
    let sorted = {
        let mut sorted = names(&before);
        sorted.sort_unstable();
        sorted
    };
    assert_eq!(names(&before), sorted, "unused skills are sorted by name");
    let last = before.last().expect("a skill")["fullName"].clone();
    let answer = api.accepted(&json!({ "input": "Hello", "skillIds": [last] }));
    assert_eq!(entries(&api, "skills")[0]["fullName"], last, "counted with the question");
    api.completed(&answer);
}

#[test]
fn agents_are_listed_and_taken_by_questions() {
    let (_service, api) = caller();
    let agents = api.catalog("agents", None).expect_status(200).json();
    assert_eq!(agents, Value::from(entries(&api, "agents")));
    for word in [&agents[0]["id"], &agents[0]["fullName"], &agents[0]["name"]] {
        api.completed(&api.accepted(&json!({ "input": "Hello", "agentId": word })));
    }
}

#[test]
fn a_skill_is_named_by_id_full_name_or_name() {
    let (_service, api) = caller();
    let skill = api.catalog("skills", None).expect_status(200).json()[0].clone();
    for word in [&skill["id"], &skill["fullName"], &skill["name"]] {
        api.completed(&api.accepted(&json!({ "input": "Hello", "skillIds": [word, word] })));
    }
    api.completed(&api.accepted(&json!({ "input": "Hello", "skillIds": [] })));
}

#[test]
fn skills_and_agents_that_do_not_exist_are_refused_with_those_that_do() {
    let (_service, api) = caller();
    let skills = entries(&api, "skills");
    let known = skills[0]["fullName"].as_str().expect("a name");
    let message =
        api.send(&json!({ "input": "x", "skillIds": [known, "none"] })).expect_code(400, "UNKNOWN_SKILL");
    assert!(message.contains("none") && message.contains(known), "{message}");
    let nobody = "00000000-0000-4000-8000-000000000000";
    for word in ["none", nobody, ""] {
        let message = api.send(&json!({ "input": "x", "agentId": word })).expect_code(400, "UNKNOWN_AGENT");
        assert!(message.contains("causerie:assistant"), "{message}");
    }
    assert_eq!(api.chats("").json()["totalCount"], 0, "no question was accepted");
    let many: Vec<&str> = std::iter::repeat_n(known, 101).collect();
    api.send(&json!({ "input": "x", "skillIds": many })).expect_code(400, "BAD_REQUEST");
}

#[test]
fn a_name_that_several_skills_have_is_refused_with_their_full_names() {
    let (Stage { api, service: _service, .. }, _folder) = with_plugins();
    let message = api
        .send(&json!({ "input": "x", "skillIds": ["contract-review"] }))
        .expect_code(400, "AMBIGUOUS_NAME");
    assert!(
        message.contains("causerie:contract-review") && message.contains("tax:contract-review"),
        "{message}"
    );
    api.completed(&api.accepted(&json!({ "input": "x", "skillIds": ["tax:contract-review"] })));
}

#[test]
fn a_skill_is_disclosed_step_by_step_and_is_a_part() {
    let (Stage { vendor, api, service: _service, .. }, _folder) = with_plugins();
    vendor.will([Say::text("I look it up."), open("tax:vat")]);
    let command = "sh /plugins/tax/skills/vat/scripts/rate.sh > /workspace/rate.txt";
    vendor.will([Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": command }) }]);
    vendor.will([Say::text("It is 21.")]);
    let answer = api.completed(&api.ask("Which rate?"));
    let requests = vendor.requests();
    let system = system_of(&requests[0]);
    assert!(system.contains("`tax:vat`: About vat") && !system.contains("Multiply by the rate"), "{system}");
    assert!(
        requests[1].to_string().contains("Multiply by the rate"),
        "the skill's text is passed when it is opened"
    );
    assert!(requests[1].to_string().contains("/plugins/tax/skills/vat"), "{}", requests[1]);
    let parts = answer["parts"].as_array().expect("parts");
    let kinds: Vec<&str> = parts.iter().filter_map(|part| part["type"].as_str()).collect();
    assert_eq!(kinds, ["TEXT", "SKILL", "TOOL", "TEXT"], "{answer}");
    let listed = entries(&api, "skills");
    assert_eq!(listed[0]["fullName"], "tax:vat", "a skill that the agent opened was used");
    let skill = &parts[1];
    assert_eq!(skill["skillId"], listed[0]["id"], "{skill}");
    assert_eq!(
        (&skill["name"], &skill["fullName"], &skill["state"]),
        (&json!("vat"), &json!("tax:vat"), &json!("COMPLETE"))
    );
    assert_eq!(parts[2]["state"], "COMPLETE", "{answer}");
    assert_eq!(api.download("/rate.txt").expect_status(200).text(), "the rate is 21\n");
    let chat = api.chat(&id(&answer, "chatId")).json();
    assert_eq!(chat["messages"][1]["parts"][1], *skill, "the history shows the same");
}

#[test]
fn a_question_limits_the_skills_to_those_that_it_names() {
    let (Stage { vendor, api, service: _service, .. }, _folder) = with_plugins();
    vendor.will([open("tax:vat"), open("causerie:statute-lookup"), open("nonsense")]);
    let answer = api.completed(&api.accepted(&json!({ "input": "x", "skillIds": ["vat"] })));
    let system = system_of(&vendor.requests()[0]);
    assert!(system.contains("tax:vat") && !system.contains("causerie:statute-lookup"), "{system}");
    let parts = answer["parts"].as_array().expect("parts");
    let states: Vec<(&Value, &Value)> = parts.iter().map(|part| (&part["type"], &part["state"])).collect();
    let (skill, tool) = (json!("SKILL"), json!("TOOL"));
    let (complete, error) = (json!("COMPLETE"), json!("ERROR"));
    assert_eq!(states[..3], [(&skill, &complete), (&tool, &error), (&tool, &error)], "{answer}");
}

#[test]
fn an_agent_brings_its_instructions_and_its_tools() {
    let (Stage { vendor, api, service: _service, .. }, _folder) = with_plugins();
    api.completed(&api.accepted(&json!({ "input": "x", "agentId": "adviser" })));
    api.completed(&api.ask("x"));
    let requests = vendor.requests();
    assert!(system_of(&requests[0]).contains("You advise on taxes, tersely."));
    let tools = |request: &Value| -> Vec<String> {
        let tools = request["tools"].as_array().expect("tools").iter();
        tools.map(|tool| tool["function"]["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(tools(&requests[0]), ["read", "skill"]);
    assert!(!system_of(&requests[1]).contains("You advise on taxes"), "the default agent answers");
    assert!(tools(&requests[1]).contains(&"shell".to_owned()));
}

#[test]
fn plugins_are_read_again_when_they_change_and_machines_see_it() {
    let (Stage { vendor, api, service: _service, .. }, folder) = with_plugins();
    api.completed(&api.ask("Start the machine"));
    fs::write(folder.path().join("tax/skills/vat/scripts/rate.sh"), "echo the rate is 23\n").expect("a file");
    fs::create_dir(folder.path().join("tax/skills/excise")).expect("a folder");
    let text = "---\nname: excise\ndescription: About excise\n---\nx\n";
    fs::write(folder.path().join("tax/skills/excise/SKILL.md"), text).expect("a file");
    fs::remove_dir_all(folder.path().join("tax/skills/contract-review")).expect("it was there");
    poll::until("the new skill is listed, the old one is not", || {
        let listed = entries(&api, "skills");
        let names = names(&listed);
        (names.contains(&"tax:excise") && !names.contains(&"tax:contract-review")).then_some(())
    });
    let command = "sh /plugins/tax/skills/vat/scripts/rate.sh > /workspace/rate.txt; \
        ls -A /plugins /plugins/tax /plugins/tax/skills > /workspace/seen.txt; \
        echo x > /plugins/tax/skills/vat/SKILL.md || echo refused >> /workspace/seen.txt";
    vendor.will([Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": command }) }]);
    api.completed(&api.ask("Look"));
    assert_eq!(api.download("/rate.txt").expect_status(200).text(), "the rate is 23\n");
    let seen = api.download("/seen.txt").expect_status(200).text();
    assert!(seen.contains("excise") && seen.contains("refused"), "{seen}");
    assert!(!seen.contains("secret") && !seen.contains("contract-review"), "{seen}");
}

#[test]
fn an_answer_goes_on_after_a_crash_between_a_skill_and_what_follows() {
    let Stage { vendor, api, mut service, .. } = stage();
    vendor.will([open("causerie:document-summary")]);
    vendor.will([Say::text("Half"), Say::Hold]);
    let answer = api.ask("Summarise");
    vendor.wait_held(1);
    service.kill();
    vendor.will([Say::text("Whole.")]);
    service.restart();
    let answer = api.completed(&answer);
    let kinds: Vec<&Value> =
        answer["parts"].as_array().expect("parts").iter().map(|part| &part["type"]).collect();
    assert_eq!(kinds, [&json!("SKILL"), &json!("TEXT")], "{answer}");
    assert_eq!((&answer["text"], &answer["parts"][0]["state"]), (&json!("Whole."), &json!("COMPLETE")));
}

#[test]
fn an_answer_whose_agent_is_gone_waits_for_it() {
    let (Stage { vendor, account, api, mut service }, folder) = with_plugins();
    let question = json!({ "input": "May I deduct it?", "agentId": "tax:adviser" });
    vendor.will([Say::text("Half"), Say::Hold]);
    let answer = api.accepted(&question);
    vendor.wait_held(1);
    service.kill();
    let (agents, away) = (folder.path().join("tax/agents"), folder.path().join("away"));
    fs::rename(&agents, &away).expect("it was there");
    service.restart();
    service.admin(&["account", "set-role", "--account", &account.email, "--role", "operator"]);
    let told = poll::until("it is told that the answer is left", || {
        let request = Request::new("GET", "/readyz?verbose").header("x-api-key", &account.key);
        let checks = request.send(service.address()).expect_status(200).json();
        let checks = checks["checks"].as_array().cloned().unwrap_or_default();
        checks.into_iter().find(|check| check["name"] == "answers" && check["status"] == "warn")
    });
    assert!(told["reason"].as_str().is_some_and(|reason| reason.contains("tax:adviser")), "{told}");
    let api = service.api(&account);
    assert_eq!(api.now(&answer)["error"], Value::Null, "no other agent takes over");
    api.send(&question).expect_code(400, "UNKNOWN_AGENT");
    vendor.will([Say::text("Whole.")]);
    fs::rename(&away, &agents).expect("it was there");
    assert_eq!(api.completed(&answer)["text"], "Whole.", "it goes on with its agent");
}

#[test]
fn plugins_are_listed_and_checked_from_the_terminal() {
    let service = Service::start(Options::default());
    let folder = tempfile::tempdir().expect("a folder");
    plugins(folder.path());
    let run = |arguments: &[&str]| service.command().args(arguments).output().expect("the binary can be run");
    let path = folder.path().to_str().expect("a path");
    let listed = run(&["plugins", "list", "--plugins", path, "--json"]);
    let catalog: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    assert!(names(catalog["skills"].as_array().expect("skills")).contains(&"tax:vat"), "{catalog}");
    assert!(
        names(catalog["agents"].as_array().expect("agents")).contains(&"causerie:assistant"),
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
fn the_log_has_one_line_for_each_plugin_with_remarks() {
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
    let service = Service::start(Options { environment, ..Options::default() });
    let log = poll::until("the plugins are loaded", || {
        Some(service.log()).filter(|log| log.contains("listening on"))
    });
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(&plugin)).collect();
    assert_eq!(lines.len(), 1, "{log}");
    let mend = format!("`causerie plugins check {plugin}`");
    assert!(lines[0].contains(&mend) && !lines[0].contains("skipped="), "{}", lines[0]);
    let checked =
        service.command().args(["plugins", "check", &plugin]).output().expect("the binary can be run");
    assert!(String::from_utf8_lossy(&checked.stdout).matches("SKILL.md").count() >= 3, "{checked:?}");
}
