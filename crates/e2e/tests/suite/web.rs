//! The web (sections 2.7 and 2.10): the WEB_SEARCH parts, fetched pages, and rejected fetches.

use e2e::api::id_field;
use e2e::{Expect, Say, ScriptedSite, ScriptedVendor, ServiceOptions, TestService, poll};
use serde_json::{Value, json};

use crate::streams::StreamFixture;

/// Starts a service whose searches find the pages of the site.
fn web_fixture() -> (StreamFixture, ScriptedSite) {
    let site = ScriptedSite::start();
    (web_fixture_with(site.service_environment()), site)
}

fn web_fixture_with(more: Vec<(String, String)>) -> StreamFixture {
    let vendor = ScriptedVendor::start();
    let mut environment = vendor.service_environment();
    environment.extend(more);
    let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let account = service.create_account();
    let api = service.api_for(&account);
    poll::wait_until("the model is listed", || {
        let models = api.get_catalog("models", None).json();
        models.as_array()?.iter().any(|model| model["id"] == e2e::scripted_vendor::MODEL).then_some(())
    });
    StreamFixture { vendor, api, account, service }
}

fn search_call(query: &str) -> Say {
    Say::Call { tool: "web_search".to_owned(), arguments: json!({ "query": query }) }
}

fn fetch_call(url: &str) -> Say {
    Say::Call { tool: "web_fetch".to_owned(), arguments: json!({ "url": url }) }
}

fn ask_with_web(StreamFixture { api, .. }: &StreamFixture, input: &str) -> Value {
    api.wait_for_completion(&api.expect_accepted(&json!({ "input": input, "webSearchEnabled": true })))
}

fn offered_tools(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().map_or(&[][..], Vec::as_slice);
    tools.iter().filter_map(|tool| tool["function"]["name"].as_str()).collect()
}

const PAGE: &[u8] = b"<html><head><title>The Lease Act</title></head><body><article><h1>Notice</h1>\
    <p>The notice period of a lease is three months, unless the parties agree otherwise in writing.</p>\
    <p>It begins with the first day of the month that follows the notice.</p></article></body></html>";

#[test]
fn web_search_part_has_cited_results() {
    let (stage, site) = web_fixture();
    let act = site.add_page("/act", "text/html; charset=utf-8", PAGE);
    site.add_search_result(&act, "The Lease Act", "Notice periods of leases.");
    site.add_search_result("https://elsewhere.example/a", "Elsewhere", "Something else.");
    let StreamFixture { vendor, api, .. } = &stage;
    vendor.add_script([Say::from_text("I search."), search_call("notice period lease")]);
    vendor.add_script([fetch_call(&act)]);
    vendor.add_script([Say::from_text("It is three months [3], says the act [1].")]);
    let answer = ask_with_web(&stage, "How long is the notice period?");
    let parts = answer["parts"].as_array().expect("parts");
    let kinds: Vec<&Value> = parts.iter().map(|part| &part["type"]).collect();
    assert_eq!(kinds, ["TEXT", "WEB_SEARCH", "TOOL", "TEXT"], "{answer}");
    let part = &parts[1];
    assert_eq!(
        (&part["toolName"], &part["query"], &part["state"]),
        (&json!("web_search"), &json!("notice period lease"), &json!("COMPLETE")),
        "{part}"
    );
    assert!(part["toolCallId"].as_str().is_some_and(|call| !call.is_empty()), "{part}");
    assert_eq!(part["sources"].as_array().map(Vec::len), Some(2), "{part}");
    assert_eq!((&part["sources"][0]["type"], &part["sources"][0]["url"]), (&json!("URL"), &json!(act)));
    assert_eq!((&parts[2]["toolName"], &parts[2]["sources"][0]["url"]), (&json!("web_fetch"), &json!(act)));
    let cited: Vec<&Value> = parts[3]["citations"]
        .as_array()
        .expect("citations")
        .iter()
        .map(|one| &one["source"]["url"])
        .collect();
    assert_eq!(cited, [&json!(act), &json!(act)], "{answer}");
    let html = parts[3]["content"].as_str().expect("content");
    assert!(html.contains(&format!("href=\"{act}\"")), "{html}");
    assert_eq!(answer["text"], "I search.\n\nIt is three months, says the act.");
    assert!(vendor.request_bodies()[2].to_string().contains("three months, unless"), "the page was read");
    let history = api.get_chat(&id_field(&answer, "chatId")).expect_status(200).json();
    assert_eq!(history["messages"][1]["parts"][1], *part);
}

#[test]
fn web_tools_need_permission() {
    let (stage, site) = web_fixture();
    let StreamFixture { vendor, api, .. } = &stage;
    let act = site.add_page("/act", "text/html", PAGE);
    vendor.add_script([search_call("x"), fetch_call(&act)]);
    let answer = api.wait_for_completion(&api.ask_question(&format!("Read {act}")));
    let states: Vec<&Value> =
        answer["parts"].as_array().expect("parts").iter().take(2).map(|part| &part["state"]).collect();
    assert_eq!(states, ["ERROR", "ERROR"], "{answer}");
    let offered = vendor.request_bodies();
    assert!(
        !offered_tools(&offered[0]).iter().any(|tool| tool.starts_with("web_")),
        "{:?}",
        offered_tools(&offered[0])
    );
    assert_eq!(site.requested_paths(), [""; 0]);
}

#[test]
fn web_fetch_reads_only_known_urls() {
    let (stage, site) = web_fixture();
    let StreamFixture { vendor, .. } = &stage;
    let written = site.add_page(
        "/written",
        "text/html",
        format!("<p>Hello</p><a href=\"{}\">on</a>", site.url_for("/linked")).as_bytes(),
    );
    let linked = site.add_page("/linked", "text/plain", b"You got here.");
    let secret = site.add_page("/collect?secret=rent", "text/plain", b"thanks");
    vendor.add_script([fetch_call(&secret), fetch_call(&linked)]);
    vendor.add_script([fetch_call(&written)]);
    vendor.add_script([fetch_call(&linked)]);
    vendor.add_script([Say::from_text("Done.")]);
    let answer = ask_with_web(&stage, &format!("Read {written} for me"));
    let states: Vec<&Value> =
        answer["parts"].as_array().expect("parts").iter().take(4).map(|part| &part["state"]).collect();
    assert_eq!(states, ["ERROR", "ERROR", "COMPLETE", "COMPLETE"], "{answer}");
    assert_eq!(site.requested_paths(), ["/written", "/linked"]);
    assert!(vendor.request_bodies()[3].to_string().contains("You got here."));
}

#[test]
fn web_fetch_compares_urls_exactly() {
    let (stage, site) = web_fixture();
    let StreamFixture { vendor, .. } = &stage;
    let written = site.add_page("/written", "text/plain", b"Hello.");
    let tls = written.replacen("http://", "https://", 1);
    let dots = written.replacen("/written", "/./a/../written", 1);
    let encoded = written.replacen("/written", "/%77ritten", 1);
    vendor.add_script([
        fetch_call(&format!("{written}/")),
        fetch_call(&format!("{written}{}", "/".repeat(30))),
        fetch_call(&format!("{written}#rent")),
        fetch_call(&format!("{written}?")),
        fetch_call(&format!("{written}.")),
        fetch_call(&format!(" {written}")),
        fetch_call(&tls),
        fetch_call(&dots),
        fetch_call(&encoded),
        fetch_call(&written.to_uppercase()),
    ]);
    vendor.add_script([fetch_call(&written)]);
    vendor.add_script([Say::from_text("Done.")]);
    let answer = ask_with_web(&stage, &format!("Read {written}, please."));
    let parts = answer["parts"].as_array().expect("parts");
    let states: Vec<&str> = parts.iter().filter_map(|part| part["state"].as_str()).take(11).collect();
    let (last, before) = states.split_last().expect("fetches");
    assert_eq!((before, *last), (&["ERROR"; 10][..], "COMPLETE"), "{answer}");
    assert_eq!(site.requested_paths(), ["/written"]);
}

#[test]
fn model_output_does_not_permit_urls() {
    let (stage, site) = web_fixture();
    let StreamFixture { vendor, .. } = &stage;
    let written = site.add_page("/written", "text/plain", b"Hello.");
    let secret = site.add_page("/collect?secret=rent", "text/plain", b"thanks");
    let call = |arguments: Value| Say::Call { tool: "web_fetch".to_owned(), arguments };
    vendor.add_script([
        call(json!({ "url": written, "first_passage": secret })),
        call(json!({ "url": [secret] })),
        call(json!({ "url": format!("{secret} ftp://x") })),
    ]);
    vendor.add_script([fetch_call(&secret)]);
    vendor.add_script([Say::from_text("Done.")]);
    ask_with_web(&stage, &format!("Read {written} for me"));
    assert_eq!(site.requested_paths(), [""; 0]);
}

#[test]
fn subagent_task_does_not_permit_urls() {
    let (stage, site) = web_fixture();
    let StreamFixture { vendor, .. } = &stage;
    let secret = site.add_page("/collect", "text/plain", b"thanks");
    let task = json!({ "agent": "lawyer", "task": format!("Read {secret}") });
    vendor.add_script([Say::Call { tool: "agent".to_owned(), arguments: task }]);
    vendor.add_script([fetch_call(&secret)]);
    vendor.add_script([Say::from_text("It is not allowed.")]);
    vendor.add_script([Say::from_text("So it is.")]);
    assert_eq!(ask_with_web(&stage, "Go on")["text"], "So it is.");
    assert_eq!(site.requested_paths(), [""; 0], "the agents can't make up an address between them");
    assert!(
        offered_tools(&vendor.request_bodies()[1]).contains(&"web_fetch"),
        "the user's leave holds for it"
    );
}

#[test]
fn web_calls_per_answer_limited() {
    let (stage, site) = web_fixture();
    site.add_search_result("https://elsewhere.example/a", "Elsewhere", "Something.");
    for step in 0..2 {
        let searches: Vec<Say> = (0..30).map(|n| search_call(&format!("{step} {n}"))).collect();
        stage.vendor.add_script(searches);
    }
    stage.vendor.add_script([search_call("once more")]);
    let answer = ask_with_web(&stage, "Search for ever");
    let parts = answer["parts"].as_array().expect("parts");
    let states: Vec<&str> = parts.iter().filter_map(|part| part["state"].as_str()).take(61).collect();
    let (last, before) = states.split_last().expect("searches");
    assert_eq!((before.len(), *last), (60, "ERROR"), "{states:?}");
    assert!(before.iter().all(|state| *state == "COMPLETE"), "{states:?}");
    assert_eq!(answer["error"], Value::Null, "{answer}");
}

#[test]
fn concurrent_web_calls_respect_limit() {
    let (stage, site) = web_fixture();
    site.add_search_result("https://elsewhere.example/a", "Elsewhere", "Something.");
    for step in 0..3 {
        let searches: Vec<Say> = (0..25).map(|n| search_call(&format!("{step} {n}"))).collect();
        stage.vendor.add_script(searches);
    }
    stage.vendor.add_script([Say::from_text("Done.")]);
    let answer = ask_with_web(&stage, "Search for ever");
    let parts = answer["parts"].as_array().expect("parts");
    let states: Vec<&str> = parts.iter().filter_map(|part| part["state"].as_str()).take(75).collect();
    let (within, beyond) = states.split_at(60);
    assert!(within.iter().all(|state| *state == "COMPLETE"), "{states:?}");
    assert_eq!(beyond, ["ERROR"; 15], "{states:?}");
    assert_eq!(site.requested_paths().len(), 60);
}

#[test]
fn web_document_read_in_machine() {
    let (stage, site) = web_fixture();
    let StreamFixture { vendor, api, .. } = &stage;
    let pdf = std::fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/documents/najemni-smlouva-byt.pdf"
    ));
    let url = site.add_page("/files/the%20lease.pdf", "application/pdf", &pdf.expect("an example"));
    vendor.add_script([fetch_call(&url)]);
    let answer = ask_with_web(&stage, &format!("What is in {url}?"));
    let parts = answer["parts"].as_array().expect("parts");
    assert_eq!((&parts[0]["state"], &parts[1]["type"]), (&json!("COMPLETE"), &json!("FILE")), "{answer}");
    let path = parts[1]["path"].as_str().expect("a path");
    assert!(path.starts_with("/web/") && path.ends_with(".pdf"), "{path}");
    api.download_file(path).expect_status(200);
    vendor.add_script([Say::Call { tool: "read".to_owned(), arguments: json!({ "path": path }) }]);
    let answer = ask_with_web(&stage, "Read it");
    assert_eq!(answer["parts"][0]["state"], "COMPLETE", "{answer}");
}

#[test]
fn search_engine_outage_breaks_no_answer() {
    let stage = web_fixture_with(vec![("SEARXNG_URL".to_owned(), "http://127.0.0.1:1/".to_owned())]);
    stage.vendor.add_script([search_call("x")]);
    stage.vendor.add_script([Say::from_text("I could not search.")]);
    let answer = ask_with_web(&stage, "Search");
    assert_eq!((&answer["text"], &answer["error"]), (&json!("I could not search."), &Value::Null));
    let part = &answer["parts"][0];
    assert_eq!((&part["type"], &part["state"]), (&json!("WEB_SEARCH"), &json!("ERROR")));
}

/// Starts a service that may call the site's MCP server, and another that does not exist.
fn with_mcp() -> (StreamFixture, ScriptedSite, tempfile::TempDir) {
    let (site, folder) = (ScriptedSite::start(), tempfile::tempdir().expect("a folder"));
    let file = folder.path().join("causerie.toml");
    let granted = "tools = [\"look_up\", \"file\"]\nread_only = [\"look_up\"]";
    let text = format!(
        "[mcp.registry]\nurl = \"{}\"\n{granted}\n[mcp.away]\nurl = \"http://127.0.0.1:1/mcp\"\n",
        site.url_for("/mcp")
    );
    std::fs::write(&file, text).expect("a file");
    let path = file.to_str().expect("a path").to_owned();
    let more = site.service_environment().into_iter().chain([("CAUSERIE_CONFIG".to_owned(), path)]);
    (web_fixture_with(more.collect()), site, folder)
}

fn mcp_call(tool: &str, what: &str) -> Say {
    Say::Call { tool: tool.to_owned(), arguments: json!({ "what": what }) }
}

#[test]
fn mcp_tools_offered_as_granted() {
    let (stage, site, _folder) = with_mcp();
    let StreamFixture { vendor, api, .. } = &stage;
    vendor.add_script([mcp_call("registry__look_up", "Acme"), mcp_call("registry__hidden", "it")]);
    vendor.add_script([Say::from_text("Done.")]);
    let answer = api.wait_for_completion(&api.ask_question("Look it up"));
    let requests = vendor.request_bodies();
    let offered: Vec<&str> =
        offered_tools(&requests[0]).into_iter().filter(|tool| tool.contains("__")).collect();
    assert_eq!(
        offered,
        ["registry__look_up", "registry__file"],
        "a server that is away takes its own away alone"
    );
    let part = &answer["parts"][0];
    assert_eq!(
        (&part["type"], &part["toolName"], &part["state"]),
        (&json!("TOOL"), &json!("registry__look_up"), &json!("COMPLETE"))
    );
    assert_eq!(answer["parts"][1]["state"], "ERROR", "{answer}");
    assert_eq!(site.tool_calls().len(), 1, "tools that are not granted are not called");
    assert!(requests[1].to_string().contains("Did \\\"Acme\\\"."), "{}", requests[1]);
}

#[test]
fn effectful_mcp_call_is_never_repeated() {
    let (mut stage, site, _folder) = with_mcp();
    let vendor = stage.vendor.clone();
    vendor.add_script([mcp_call("registry__file", "it"), mcp_call("registry__look_up", "Acme")]);
    let answer = stage.api.ask_question("File it");
    let came_back = |event: &e2e::AnswerEvent| {
        event.data["parts"].as_array().is_some_and(|parts| parts.len() > 1 && parts[1]["state"] == "COMPLETE")
    };
    stage.api.stream_answer(&answer).find_event("the look-up came back", came_back);
    stage.service.kill();
    vendor.add_script([Say::from_text("It was cut.")]);
    stage.service.restart();
    let answer = stage.service.api_for(&stage.account).wait_for_completion(&answer);
    assert_eq!((&answer["parts"][0]["state"], &answer["text"]), (&json!("ERROR"), &json!("It was cut.")));
    let filed = |site: &ScriptedSite| site.tool_calls().iter().filter(|call| call["name"] == "file").count();
    assert_eq!(filed(&site), 1);
    assert!(vendor.request_bodies()[1].to_string().contains("may or may not have run"));
    vendor.add_script([mcp_call("registry__file", "that")]);
    site.release_file_call();
    site.release_file_call();
    let api = stage.service.api_for(&stage.account);
    assert_eq!(api.wait_for_completion(&api.ask_question("File that"))["parts"][0]["state"], "COMPLETE");
    assert_eq!(filed(&site), 2);
}

#[test]
fn mcp_call_survives_machine_stop() {
    let (stage, site, _folder) = with_mcp();
    let StreamFixture { vendor, api, .. } = &stage;
    let shell = Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": "true" }) };
    vendor.add_script([shell, mcp_call("registry__file", "it")]);
    vendor.add_script([Say::from_text("It is filed.")]);
    let answer = api.ask_question("File it");
    poll::wait_until("the server is called", || (site.tool_calls().len() == 1).then_some(()));
    api.stop_vm().expect_status(202);
    poll::wait_until("the machine has stopped", || {
        (api.get_vm().json()["status"] == "STOPPED").then_some(())
    });
    // A turn takes a machine for stopped after a second without a start.
    let id = |field: &str| answer[field].as_str().expect("an id").to_owned();
    let path = format!("/api/v1/chats/{}/messages/{}", id("chatId"), id("id"));
    let now =
        api.new_request("GET", &path).with_header("prefer", "wait=2").send(&api.address).expect_status(200);
    assert_eq!(now.json()["parts"][1]["state"], "PENDING");
    site.release_file_call();
    api.start_vm().expect_status(202);
    let answer = api.wait_for_completion(&answer);
    let states: Vec<&Value> = (0..2).map(|at| &answer["parts"][at]["state"]).collect();
    assert_eq!(states, [&json!("COMPLETE"); 2], "{answer}");
    assert_eq!((&answer["text"], site.tool_calls().len()), (&json!("It is filed."), 1));
}

#[test]
fn mcp_output_does_not_permit_urls() {
    let (stage, site, _folder) = with_mcp();
    let StreamFixture { vendor, .. } = &stage;
    let secret = site.add_page("/collect", "text/plain", b"thanks");
    // The URL that the server cites, directly and through a subagent.
    vendor.add_script([mcp_call("registry__look_up", &secret)]);
    vendor.add_script([fetch_call(&secret)]);
    let task = json!({ "agent": "lawyer", "task": "Look it up" });
    vendor.add_script([Say::Call { tool: "agent".to_owned(), arguments: task }]);
    vendor.add_script([mcp_call("registry__look_up", &secret)]);
    vendor.add_script([fetch_call(&secret)]);
    vendor.add_script([Say::from_text("It stands there [1].")]);
    vendor.add_script([fetch_call(&secret)]);
    vendor.add_script([Say::from_text("It is not allowed.")]);
    let answer = ask_with_web(&stage, "Go on");
    assert_eq!(answer["text"], "It is not allowed.", "{answer}");
    // A later question of the conversation cannot fetch it either.
    vendor.add_script([fetch_call(&secret)]);
    vendor.add_script([Say::from_text("Still not.")]);
    let again = json!({ "input": "Go on", "chatId": answer["chatId"], "webSearchEnabled": true });
    assert_eq!(stage.api.wait_for_completion(&stage.api.expect_accepted(&again))["text"], "Still not.");
    assert_eq!(site.tool_calls().len(), 2);
    assert!(
        !site.requested_paths().iter().any(|path| path.starts_with("/collect")),
        "{:?}",
        site.requested_paths()
    );
    let cited = |request: &Value| request.to_string().contains("What it says.");
    assert!(vendor.request_bodies().iter().filter(|request| cited(request)).count() > 2, "it was cited");
}

#[test]
fn effectful_calls_run_in_step_order() {
    let (stage, site, _folder) = with_mcp();
    let StreamFixture { vendor, api, .. } = &stage;
    let touch = |name: &str| Say::Call {
        tool: "shell".to_owned(),
        arguments: json!({ "command": format!("touch /workspace/{name}") }),
    };
    let is_there = |name: &str| api.download_file(&format!("/{name}")).status == 200;
    vendor.add_script([
        touch("first"),
        mcp_call("registry__file", "it"),
        touch("second"),
        mcp_call("registry__file", "that"),
    ]);
    let answer = api.ask_question("Do it all");
    poll::wait_until("the server is called", || (site.tool_calls().len() == 1).then_some(()));
    assert!(is_there("first"), "the call before it was complete");
    // In the meantime the machine runs calls of other answers.
    vendor.add_script([touch("other")]);
    assert_eq!(api.wait_for_completion(&api.ask_question("Do another"))["parts"][0]["state"], "COMPLETE");
    assert!(is_there("other") && !is_there("second"), "the call after it has not started");
    site.release_file_call();
    poll::wait_until("the server is called again", || (site.tool_calls().len() == 2).then_some(()));
    assert!(is_there("second"));
    vendor.add_script([Say::from_text("All is done.")]);
    site.release_file_call();
    let answer = api.wait_for_completion(&answer);
    let states: Vec<&Value> = (0..4).map(|at| &answer["parts"][at]["state"]).collect();
    assert_eq!(states, [&json!("COMPLETE"); 4], "{answer}");
    assert_eq!(answer["text"], "All is done.");
}
