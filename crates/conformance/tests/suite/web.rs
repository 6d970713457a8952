//! The web (sections 2.7 and 2.10): the WEB_SEARCH parts, fetched pages, and rejected fetches.

use conformance::api::id;
use conformance::{Expect, Options, Say, Service, Site, Vendor, poll};
use serde_json::{Value, json};

use crate::streams::Stage;

/// Starts a service whose searches find the pages of the site.
fn stage() -> (Stage, Site) {
    let site = Site::start();
    (stage_with(site.environment()), site)
}

fn stage_with(more: Vec<(String, String)>) -> Stage {
    let vendor = Vendor::start();
    let mut environment = vendor.environment();
    environment.extend(more);
    let service = Service::start(Options { environment, ..Options::default() });
    let account = service.account();
    let api = service.api(&account);
    poll::until("the model is listed", || {
        let models = api.catalog("models", None).json();
        models.as_array()?.iter().any(|model| model["id"] == conformance::vendor::MODEL).then_some(())
    });
    Stage { vendor, api, account, service }
}

fn search(query: &str) -> Say {
    Say::Call { tool: "web_search".to_owned(), arguments: json!({ "query": query }) }
}

fn fetch(url: &str) -> Say {
    Say::Call { tool: "web_fetch".to_owned(), arguments: json!({ "url": url }) }
}

fn ask(Stage { api, .. }: &Stage, input: &str) -> Value {
    api.completed(&api.accepted(&json!({ "input": input, "webSearchEnabled": true })))
}

fn tools(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().map_or(&[][..], Vec::as_slice);
    tools.iter().filter_map(|tool| tool["function"]["name"].as_str()).collect()
}

const PAGE: &[u8] = b"<html><head><title>The Lease Act</title></head><body><article><h1>Notice</h1>\
    <p>The notice period of a lease is three months, unless the parties agree otherwise in writing.</p>\
    <p>It begins with the first day of the month that follows the notice.</p></article></body></html>";

#[test]
fn a_search_is_a_part_with_its_query_and_what_it_found_and_is_cited() {
    let (stage, site) = stage();
    let act = site.page("/act", "text/html; charset=utf-8", PAGE);
    site.finds(&act, "The Lease Act", "Notice periods of leases.");
    site.finds("https://elsewhere.example/a", "Elsewhere", "Something else.");
    let Stage { vendor, api, .. } = &stage;
    vendor.will([Say::text("I search."), search("notice period lease")]);
    vendor.will([fetch(&act)]);
    vendor.will([Say::text("It is three months [3], says the act [1].")]);
    let answer = ask(&stage, "How long is the notice period?");
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
    assert!(vendor.requests()[2].to_string().contains("three months, unless"), "the page was read");
    let history = api.chat(&id(&answer, "chatId")).expect_status(200).json();
    assert_eq!(history["messages"][1]["parts"][1], *part);
}

#[test]
fn without_leave_nothing_is_offered_and_nothing_leaves() {
    let (stage, site) = stage();
    let Stage { vendor, api, .. } = &stage;
    let act = site.page("/act", "text/html", PAGE);
    vendor.will([search("x"), fetch(&act)]);
    let answer = api.completed(&api.ask(&format!("Read {act}")));
    let states: Vec<&Value> =
        answer["parts"].as_array().expect("parts").iter().take(2).map(|part| &part["state"]).collect();
    assert_eq!(states, ["ERROR", "ERROR"], "{answer}");
    let offered = vendor.requests();
    assert!(!tools(&offered[0]).iter().any(|tool| tool.starts_with("web_")), "{:?}", tools(&offered[0]));
    assert_eq!(site.asked(), [""; 0]);
}

#[test]
fn only_what_the_user_wrote_or_the_web_gave_is_read() {
    let (stage, site) = stage();
    let Stage { vendor, .. } = &stage;
    let written = site.page(
        "/written",
        "text/html",
        format!("<p>Hello</p><a href=\"{}\">on</a>", site.url("/linked")).as_bytes(),
    );
    let linked = site.page("/linked", "text/plain", b"You got here.");
    let secret = site.page("/collect?secret=rent", "text/plain", b"thanks");
    vendor.will([fetch(&secret), fetch(&linked)]);
    vendor.will([fetch(&written)]);
    vendor.will([fetch(&linked)]);
    vendor.will([Say::text("Done.")]);
    let answer = ask(&stage, &format!("Read {written} for me"));
    let states: Vec<&Value> =
        answer["parts"].as_array().expect("parts").iter().take(4).map(|part| &part["state"]).collect();
    assert_eq!(states, ["ERROR", "ERROR", "COMPLETE", "COMPLETE"], "{answer}");
    assert_eq!(site.asked(), ["/written", "/linked"]);
    assert!(vendor.requests()[3].to_string().contains("You got here."));
}

#[test]
fn an_address_is_read_only_letter_by_letter_as_it_was_written() {
    let (stage, site) = stage();
    let Stage { vendor, .. } = &stage;
    let written = site.page("/written", "text/plain", b"Hello.");
    let tls = written.replacen("http://", "https://", 1);
    let dots = written.replacen("/written", "/./a/../written", 1);
    let encoded = written.replacen("/written", "/%77ritten", 1);
    vendor.will([
        fetch(&format!("{written}/")),
        fetch(&format!("{written}{}", "/".repeat(30))),
        fetch(&format!("{written}#rent")),
        fetch(&format!("{written}?")),
        fetch(&format!("{written}.")),
        fetch(&format!(" {written}")),
        fetch(&tls),
        fetch(&dots),
        fetch(&encoded),
        fetch(&written.to_uppercase()),
    ]);
    vendor.will([fetch(&written)]);
    vendor.will([Say::text("Done.")]);
    let answer = ask(&stage, &format!("Read {written}, please."));
    let parts = answer["parts"].as_array().expect("parts");
    let states: Vec<&str> = parts.iter().filter_map(|part| part["state"].as_str()).take(11).collect();
    let (last, before) = states.split_last().expect("fetches");
    assert_eq!((before, *last), (&["ERROR"; 10][..], "COMPLETE"), "{answer}");
    assert_eq!(site.asked(), ["/written"]);
}

#[test]
fn what_a_model_gets_told_back_of_its_own_is_not_from_the_web() {
    let (stage, site) = stage();
    let Stage { vendor, .. } = &stage;
    let written = site.page("/written", "text/plain", b"Hello.");
    let secret = site.page("/collect?secret=rent", "text/plain", b"thanks");
    let call = |arguments: Value| Say::Call { tool: "web_fetch".to_owned(), arguments };
    vendor.will([
        call(json!({ "url": written, "first_passage": secret })),
        call(json!({ "url": [secret] })),
        call(json!({ "url": format!("{secret} ftp://x") })),
    ]);
    vendor.will([fetch(&secret)]);
    vendor.will([Say::text("Done.")]);
    ask(&stage, &format!("Read {written} for me"));
    assert_eq!(site.asked(), [""; 0]);
}

#[test]
fn a_task_for_another_agent_is_no_users_word() {
    let (stage, site) = stage();
    let Stage { vendor, .. } = &stage;
    let secret = site.page("/collect", "text/plain", b"thanks");
    let task = json!({ "agent": "lawyer", "task": format!("Read {secret}") });
    vendor.will([Say::Call { tool: "agent".to_owned(), arguments: task }]);
    vendor.will([fetch(&secret)]);
    vendor.will([Say::text("It is not allowed.")]);
    vendor.will([Say::text("So it is.")]);
    assert_eq!(ask(&stage, "Go on")["text"], "So it is.");
    assert_eq!(site.asked(), [""; 0], "the agents can't make up an address between them");
    assert!(tools(&vendor.requests()[1]).contains(&"web_fetch"), "the user's leave holds for it");
}

#[test]
fn the_web_is_asked_only_so_often_for_one_answer() {
    let (stage, site) = stage();
    site.finds("https://elsewhere.example/a", "Elsewhere", "Something.");
    for step in 0..2 {
        let searches: Vec<Say> = (0..30).map(|n| search(&format!("{step} {n}"))).collect();
        stage.vendor.will(searches);
    }
    stage.vendor.will([search("once more")]);
    let answer = ask(&stage, "Search for ever");
    let parts = answer["parts"].as_array().expect("parts");
    let states: Vec<&str> = parts.iter().filter_map(|part| part["state"].as_str()).take(61).collect();
    let (last, before) = states.split_last().expect("searches");
    assert_eq!((before.len(), *last), (60, "ERROR"), "{states:?}");
    assert!(before.iter().all(|state| *state == "COMPLETE"), "{states:?}");
    assert_eq!(answer["error"], Value::Null, "{answer}");
}

#[test]
fn calls_side_by_side_do_not_pass_the_bound() {
    let (stage, site) = stage();
    site.finds("https://elsewhere.example/a", "Elsewhere", "Something.");
    for step in 0..3 {
        let searches: Vec<Say> = (0..25).map(|n| search(&format!("{step} {n}"))).collect();
        stage.vendor.will(searches);
    }
    stage.vendor.will([Say::text("Done.")]);
    let answer = ask(&stage, "Search for ever");
    let parts = answer["parts"].as_array().expect("parts");
    let states: Vec<&str> = parts.iter().filter_map(|part| part["state"].as_str()).take(75).collect();
    let (within, beyond) = states.split_at(60);
    assert!(within.iter().all(|state| *state == "COMPLETE"), "{states:?}");
    assert_eq!(beyond, ["ERROR"; 15], "{states:?}");
    assert_eq!(site.asked().len(), 60);
}

#[test]
fn a_document_of_the_web_is_read_in_the_machine() {
    let (stage, site) = stage();
    let Stage { vendor, api, .. } = &stage;
    let pdf = std::fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/documents/najemni-smlouva-byt.pdf"
    ));
    let url = site.page("/files/the%20lease.pdf", "application/pdf", &pdf.expect("an example"));
    vendor.will([fetch(&url)]);
    let answer = ask(&stage, &format!("What is in {url}?"));
    let parts = answer["parts"].as_array().expect("parts");
    assert_eq!((&parts[0]["state"], &parts[1]["type"]), (&json!("COMPLETE"), &json!("FILE")), "{answer}");
    let path = parts[1]["path"].as_str().expect("a path");
    assert!(path.starts_with("/web/") && path.ends_with(".pdf"), "{path}");
    api.download(path).expect_status(200);
    vendor.will([Say::Call { tool: "read".to_owned(), arguments: json!({ "path": path }) }]);
    let answer = ask(&stage, "Read it");
    assert_eq!(answer["parts"][0]["state"], "COMPLETE", "{answer}");
}

#[test]
fn a_search_engine_that_is_away_breaks_no_answer() {
    let stage = stage_with(vec![("SEARXNG_URL".to_owned(), "http://127.0.0.1:1/".to_owned())]);
    stage.vendor.will([search("x")]);
    stage.vendor.will([Say::text("I could not search.")]);
    let answer = ask(&stage, "Search");
    assert_eq!((&answer["text"], &answer["error"]), (&json!("I could not search."), &Value::Null));
    let part = &answer["parts"][0];
    assert_eq!((&part["type"], &part["state"]), (&json!("WEB_SEARCH"), &json!("ERROR")));
}

/// Starts a service that may call the site's MCP server, and another that does not exist.
fn with_mcp() -> (Stage, Site, tempfile::TempDir) {
    let (site, folder) = (Site::start(), tempfile::tempdir().expect("a folder"));
    let file = folder.path().join("causerie.toml");
    let granted = "tools = [\"look_up\", \"file\"]\nread_only = [\"look_up\"]";
    let text = format!(
        "[mcp.registry]\nurl = \"{}\"\n{granted}\n[mcp.away]\nurl = \"http://127.0.0.1:1/mcp\"\n",
        site.url("/mcp")
    );
    std::fs::write(&file, text).expect("a file");
    let path = file.to_str().expect("a path").to_owned();
    let more = site.environment().into_iter().chain([("CAUSERIE_CONFIG".to_owned(), path)]);
    (stage_with(more.collect()), site, folder)
}

fn call(tool: &str, what: &str) -> Say {
    Say::Call { tool: tool.to_owned(), arguments: json!({ "what": what }) }
}

#[test]
fn tools_of_an_mcp_server_are_offered_as_far_as_they_are_granted() {
    let (stage, site, _folder) = with_mcp();
    let Stage { vendor, api, .. } = &stage;
    vendor.will([call("registry__look_up", "Acme"), call("registry__hidden", "it")]);
    vendor.will([Say::text("Done.")]);
    let answer = api.completed(&api.ask("Look it up"));
    let requests = vendor.requests();
    let offered: Vec<&str> = tools(&requests[0]).into_iter().filter(|tool| tool.contains("__")).collect();
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
    assert_eq!(site.called().len(), 1, "tools that are not granted are not called");
    assert!(requests[1].to_string().contains("Did \\\"Acme\\\"."), "{}", requests[1]);
}

#[test]
fn a_call_of_an_mcp_server_that_changes_something_is_never_made_twice() {
    let (mut stage, site, _folder) = with_mcp();
    let vendor = stage.vendor.clone();
    vendor.will([call("registry__file", "it"), call("registry__look_up", "Acme")]);
    let answer = stage.api.ask("File it");
    let came_back = |event: &conformance::Event| {
        event.data["parts"].as_array().is_some_and(|parts| parts.len() > 1 && parts[1]["state"] == "COMPLETE")
    };
    stage.api.events_of(&answer).find("the look-up came back", came_back);
    stage.service.kill();
    vendor.will([Say::text("It was cut.")]);
    stage.service.restart();
    let answer = stage.service.api(&stage.account).completed(&answer);
    assert_eq!((&answer["parts"][0]["state"], &answer["text"]), (&json!("ERROR"), &json!("It was cut.")));
    let filed = |site: &Site| site.called().iter().filter(|call| call["name"] == "file").count();
    assert_eq!(filed(&site), 1);
    assert!(vendor.requests()[1].to_string().contains("may or may not have run"));
    vendor.will([call("registry__file", "that")]);
    site.release();
    site.release();
    let api = stage.service.api(&stage.account);
    assert_eq!(api.completed(&api.ask("File that"))["parts"][0]["state"], "COMPLETE");
    assert_eq!(filed(&site), 2);
}

#[test]
fn a_call_of_an_mcp_server_is_not_cut_when_the_machine_is_stopped() {
    let (stage, site, _folder) = with_mcp();
    let Stage { vendor, api, .. } = &stage;
    let shell = Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": "true" }) };
    vendor.will([shell, call("registry__file", "it")]);
    vendor.will([Say::text("It is filed.")]);
    let answer = api.ask("File it");
    poll::until("the server is called", || (site.called().len() == 1).then_some(()));
    api.stop_vm().expect_status(202);
    poll::until("the machine has stopped", || (api.vm().json()["status"] == "STOPPED").then_some(()));
    // A turn takes a machine for stopped after a second without a start.
    let id = |field: &str| answer[field].as_str().expect("an id").to_owned();
    let path = format!("/api/v1/chats/{}/messages/{}", id("chatId"), id("id"));
    let now = api.request("GET", &path).header("prefer", "wait=2").send(&api.address).expect_status(200);
    assert_eq!(now.json()["parts"][1]["state"], "PENDING");
    site.release();
    api.start_vm().expect_status(202);
    let answer = api.completed(&answer);
    let states: Vec<&Value> = (0..2).map(|at| &answer["parts"][at]["state"]).collect();
    assert_eq!(states, [&json!("COMPLETE"); 2], "{answer}");
    assert_eq!((&answer["text"], site.called().len()), (&json!("It is filed."), 1));
}

#[test]
fn what_an_mcp_server_tells_becomes_no_page_that_may_be_read() {
    let (stage, site, _folder) = with_mcp();
    let Stage { vendor, .. } = &stage;
    let secret = site.page("/collect", "text/plain", b"thanks");
    // The URL that the server cites, directly and through a subagent.
    vendor.will([call("registry__look_up", &secret)]);
    vendor.will([fetch(&secret)]);
    let task = json!({ "agent": "lawyer", "task": "Look it up" });
    vendor.will([Say::Call { tool: "agent".to_owned(), arguments: task }]);
    vendor.will([call("registry__look_up", &secret)]);
    vendor.will([fetch(&secret)]);
    vendor.will([Say::text("It stands there [1].")]);
    vendor.will([fetch(&secret)]);
    vendor.will([Say::text("It is not allowed.")]);
    let answer = ask(&stage, "Go on");
    assert_eq!(answer["text"], "It is not allowed.", "{answer}");
    // A later question of the conversation cannot fetch it either.
    vendor.will([fetch(&secret)]);
    vendor.will([Say::text("Still not.")]);
    let again = json!({ "input": "Go on", "chatId": answer["chatId"], "webSearchEnabled": true });
    assert_eq!(stage.api.completed(&stage.api.accepted(&again))["text"], "Still not.");
    assert_eq!(site.called().len(), 2);
    assert!(!site.asked().iter().any(|path| path.starts_with("/collect")), "{:?}", site.asked());
    let cited = |request: &Value| request.to_string().contains("What it says.");
    assert!(vendor.requests().iter().filter(|request| cited(request)).count() > 2, "it was cited");
}

#[test]
fn what_changes_something_runs_in_the_order_of_the_step_whichever_side_runs_it() {
    let (stage, site, _folder) = with_mcp();
    let Stage { vendor, api, .. } = &stage;
    let touch = |name: &str| Say::Call {
        tool: "shell".to_owned(),
        arguments: json!({ "command": format!("touch /workspace/{name}") }),
    };
    let is_there = |name: &str| api.download(&format!("/{name}")).status == 200;
    vendor.will([
        touch("first"),
        call("registry__file", "it"),
        touch("second"),
        call("registry__file", "that"),
    ]);
    let answer = api.ask("Do it all");
    poll::until("the server is called", || (site.called().len() == 1).then_some(()));
    assert!(is_there("first"), "the call before it was complete");
    // In the meantime the machine runs calls of other answers.
    vendor.will([touch("other")]);
    assert_eq!(api.completed(&api.ask("Do another"))["parts"][0]["state"], "COMPLETE");
    assert!(is_there("other") && !is_there("second"), "the call after it has not begun");
    site.release();
    poll::until("the server is called again", || (site.called().len() == 2).then_some(()));
    assert!(is_there("second"));
    vendor.will([Say::text("All is done.")]);
    site.release();
    let answer = api.completed(&answer);
    let states: Vec<&Value> = (0..4).map(|at| &answer["parts"][at]["state"]).collect();
    assert_eq!(states, [&json!("COMPLETE"); 4], "{answer}");
    assert_eq!(answer["text"], "All is done.");
}
