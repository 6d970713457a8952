//! Section 2.10 through the format of each vendor: every type of part with each of its fields, sources that
//! the vendor reports, and stops. One answer of each format has all parts.

use e2e::api::{find_parts, id_field, is_uuid};
use e2e::fake_vendors::{FakeVendorFormat, FakeVendors};
use e2e::{Api, Expect, ServiceOptions, TestService, poll};
use serde_json::{Value, json};

const LEASE: &[u8] = b"The rent is due on the fifth of each month.\n";
const ACT: &str = "https://law.example.org/rent-act?section=5&part=1";
/// URLs that a vendor may report and no answer may link to.
const HOSTILE: [&str; 6] = [
    "javascript:alert(1)",
    "http://127.0.0.1:9/",
    "http://localhost/admin",
    "http://[fd00::1]/",
    "file:///etc/passwd",
    "https://user:secret@law.example.org/",
];

/// A service whose models use this format and may search the web.
struct FormatFixture {
    fake_vendors: FakeVendors,
    service: TestService,
    api: Api,
}

fn format_fixture(format: FakeVendorFormat) -> FormatFixture {
    let fake_vendors = FakeVendors::start();
    let mut environment = fake_vendors.service_environment_for(format);
    environment.push(fake_vendors.search_engine());
    let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let api = service.api_for(&service.create_account());
    poll::wait_until("the vendor's models are listed", || {
        let models = api.get_catalog("models", None).expect_status(200).json();
        models.as_array().expect("models").iter().any(|model| model["id"] == "standin").then_some(())
    });
    FormatFixture { fake_vendors, service, api }
}

fn call_action(tool: &str, arguments: Value) -> Value {
    json!({ "call": { "tool": tool, "arguments": arguments } })
}

fn script_question(script: &Value) -> Value {
    json!({ "model": "standin", "input": format!("STANDIN {script}"), "webSearchEnabled": true })
}

/// A check of a field.
type Check = fn(&Value) -> bool;

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

fn is_html(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.starts_with('<'))
}

fn is_final_state(value: &Value) -> bool {
    ["COMPLETE", "ERROR"].iter().any(|known| value == known)
}

fn is_path(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.starts_with('/'))
}

fn web_search(value: &Value) -> bool {
    value == "web_search"
}

fn is_source(value: &Value) -> bool {
    match value["type"].as_str() {
        Some("FILE") => is_path(&value["path"]),
        Some("URL") => is_text(&value["url"]) && value["title"].is_string(),
        _ => false,
    }
}

fn is_source_list(value: &Value) -> bool {
    value.as_array().is_some_and(|all| all.iter().all(is_source))
}

fn is_citation_list(value: &Value) -> bool {
    let is_one = |one: &Value| is_text(&one["citationId"]) && is_source(&one["source"]);
    value.as_array().is_some_and(|all| all.iter().all(is_one))
}

/// Each type of part with its fields besides `partId` and `type`.
const PARTS: [(&str, &[(&str, Check)]); 7] = [
    ("TEXT", &[("content", is_html), ("citations", is_citation_list)]),
    ("REASONING", &[("content", is_html)]),
    (
        "TOOL",
        &[
            ("toolName", is_text),
            ("toolCallId", is_text),
            ("state", is_final_state),
            ("sources", is_source_list),
        ],
    ),
    (
        "WEB_SEARCH",
        &[
            ("toolName", web_search),
            ("toolCallId", is_text),
            ("state", is_final_state),
            ("query", is_text),
            ("sources", is_source_list),
        ],
    ),
    ("SKILL", &[("skillId", is_uuid), ("name", is_text), ("fullName", is_text), ("state", is_final_state)]),
    (
        "AGENT",
        &[
            ("agentId", is_uuid),
            ("name", is_text),
            ("fullName", is_text),
            ("state", is_final_state),
            ("content", is_html),
            ("citations", is_citation_list),
        ],
    ),
    ("FILE", &[("path", is_path), ("name", is_text)]),
];

/// The types and states of the model's calls, in order.
const RUNS: [(&str, &str, &str); 15] = [
    ("TOOL", "list", "COMPLETE"),
    ("TOOL", "find", "COMPLETE"),
    ("TOOL", "read", "COMPLETE"),
    ("TOOL", "search", "COMPLETE"),
    ("TOOL", "write", "COMPLETE"),
    ("TOOL", "edit", "COMPLETE"),
    ("TOOL", "shell", "COMPLETE"),
    ("TOOL", "read", "ERROR"),
    ("TOOL", "no_such_tool", "ERROR"),
    ("SKILL", "causerie:contract-review", "COMPLETE"),
    ("TOOL", "skill", "ERROR"),
    ("WEB_SEARCH", "web_search", "COMPLETE"),
    ("WEB_SEARCH", "web_search", "ERROR"),
    ("AGENT", "causerie:lawyer", "COMPLETE"),
    ("TOOL", "agent", "ERROR"),
];

fn script_of_all_parts() -> Value {
    let cite = |url: &str| json!({ "cite": { "url": url, "title": "The Rent\nAct", "quote": "It is due." } });
    let task = json!({ "steps": [
        { "actions": [{ "say": "I read." }, call_action("read", json!({ "path": "/uploads/lease.txt" }))] },
        { "actions": [{ "say": "On the fifth [1]." }, { "say": " By law." }, cite(ACT)] },
    ]});
    let mut last = vec![
        json!({ "say": "The rent is due on the fifth [1]. " }),
        json!({ "say": "Příští týden is too late, `so is` *June*." }),
        cite(ACT),
        json!({ "say": "\n\nSee the lease." }),
        json!({ "cite": { "document": "lease.txt", "page": 2, "quote": "The rent" } }),
        json!({ "cite": { "document": "nobody-sent-this.pdf" } }),
        json!({ "say": " It is the law." }),
        cite(ACT),
    ];
    last.extend(HOSTILE.iter().map(|url| cite(url)));
    json!({ "steps": [
        { "actions": [
            { "think": "Where is **it**?" }, { "say": "I look." },
            call_action("list", json!({ "path": "/uploads" })),
            call_action("find", json!({ "glob": "**/*.txt" })),
            call_action("read", json!({ "path": "/uploads/lease.txt" })),
            call_action("search", json!({ "query": "rent" })),
            call_action("write", json!({ "path": "/notes/summary.md", "content": "Due.\n" })),
            call_action("edit", json!({ "path": "/notes/summary.md", "old": "Due", "new": "Due on the fifth" })),
            call_action("shell", json!({ "command": "cat notes/summary.md" })),
            call_action("read", json!({ "path": "/uploads/none.txt" })),
            call_action("no_such_tool", json!({})),
        ] },
        { "actions": [
            call_action("skill", json!({ "skill": "causerie:contract-review" })),
            call_action("skill", json!({ "skill": "causerie:no-such-skill" })),
            call_action("web_search", json!({ "query": "rent due" })),
            call_action("web_search", json!({ "query": "status-500" })),
            call_action("agent", json!({ "agent": "causerie:lawyer", "task": format!("STANDIN {task}") })),
            call_action("agent", json!({ "agent": "nobody", "task": "Nothing" })),
        ] },
        { "actions": last },
    ]})
}

fn has_every_part_with_each_field(format: FakeVendorFormat) {
    let FormatFixture { fake_vendors, service: _service, api } = format_fixture(format);
    api.upload_file("lease.txt", LEASE).expect_status(201);
    let mut asked = script_question(&script_of_all_parts());
    asked["filePaths"] = json!(["/uploads/lease.txt"]);
    let answer = api.wait_for_completion(&api.expect_accepted(&asked));
    assert_eq!(answer["error"], Value::Null, "{answer}");
    let parts = answer["parts"].as_array().expect("parts");
    for (kind, fields) in PARTS {
        let of = find_parts(&answer, kind);
        assert!(!of.is_empty(), "no {kind} in {answer}");
        for part in of {
            assert!(is_uuid(&part["partId"]), "{part}");
            for (field, check) in fields {
                assert!(check(&part[*field]), "{field} of {part}");
            }
            assert_eq!(part.as_object().map(serde_json::Map::len), Some(fields.len() + 2), "{part}");
        }
    }
    let runs: Vec<_> = parts.iter().filter(|part| part["state"].is_string()).collect();
    let named = |part: &Value| part.get("toolName").or_else(|| part.get("fullName")).cloned();
    let runs: Vec<_> = runs.iter().map(|part| (&part["type"], named(part), &part["state"])).collect();
    let expected = RUNS.map(|(kind, name, state)| (json!(kind), Some(json!(name)), json!(state)));
    let expected: Vec<_> = expected.iter().map(|(kind, name, state)| (kind, name.clone(), state)).collect();
    assert_eq!(runs, expected, "{answer}");
    let files: Vec<_> = find_parts(&answer, "FILE").iter().map(|part| part["path"].clone()).collect();
    assert_eq!(files, ["/uploads/lease.txt", "/notes/summary.md"], "{answer}");
    assert_eq!(find_parts(&answer, "REASONING")[0]["content"], "<p>Where is <strong>it</strong>?</p>\n");
    let found = &find_parts(&answer, "WEB_SEARCH")[0];
    assert_eq!(found["query"], "rent due");
    assert!(found["sources"].as_array().is_some_and(|all| !all.is_empty()), "{found}");
    check_citations(format, &answer);
    let history = api.get_chat(&id_field(&answer, "chatId")).expect_status(200).json();
    assert_eq!(history["messages"][1]["parts"], answer["parts"], "the history has the same parts");

    // Earlier text is sent back unchanged, without the service's numbers for the vendor's own sources.
    let mut next = script_question(&json!({ "steps": [{ "actions": [{ "say": "Gladly." }] }] }));
    next["chatId"] = answer["chatId"].clone();
    assert_eq!(api.wait_for_completion(&api.expect_accepted(&next))["text"], "Gladly.");
    let requests = fake_vendors.all_requests();
    assert!(requests.iter().all(|seen| seen["outcome"] == "done"), "{requests:?}");
    let replayed = requests.last().expect("a request")["body"].to_string();
    let expected = "The rent is due on the fifth [1]. Příští týden is too late, `so is` *June*.\\n\\nSee the lease. \
        It is the law.";
    assert!(replayed.contains(expected), "{replayed}");
}

/// Checks that the last text cites a passage of the service and the vendor's sources, each once.
fn check_citations(format: FakeVendorFormat, answer: &Value) {
    let text = "I look.\n\nThe rent is due on the fifth. Příští týden is too late, `so is` *June*.\n\n\
        See the lease. It is the law.";
    assert_eq!(answer["text"], text, "the text has no marks: {answer}");
    let last = *find_parts(answer, "TEXT").last().expect("a text");
    let citations = last["citations"].as_array().expect("citations");
    let act = json!({ "type": "URL", "url": ACT, "title": "The Rent Act" });
    let page = match format {
        FakeVendorFormat::Anthropic => json!({ "type": "FILE", "path": "/uploads/lease.txt", "page": 2 }),
        _ => json!({ "type": "FILE", "path": "/uploads/lease.txt" }),
    };
    let sources: Vec<_> = citations.iter().map(|one| &one["source"]).collect();
    assert_eq!(sources[0]["path"], "/uploads/lease.txt", "the service's own passage comes first: {last}");
    // Chat Completions cannot report a file.
    let named = if format == FakeVendorFormat::ChatCompletions { vec![&act] } else { vec![&act, &page] };
    assert_eq!(sources[1..], named, "{last}");
    let html = last["content"].as_str().expect("HTML");
    let link = |one: &Value| {
        html.matches(&format!("data-citation=\"{}\"", one["citationId"].as_str().expect("an id"))).count()
    };
    let counts: Vec<_> = citations.iter().map(link).collect();
    assert_eq!(counts, if named.len() == 1 { vec![1, 2] } else { vec![1, 2, 1] }, "{html}");
    let number = citations[1]["citationId"].as_str().expect("an id").trim_start_matches('c').to_owned();
    let claim = format!("<code>so is</code> <em>June</em>. <a href=\"{}\"", ACT.replace('&', "&amp;"));
    assert!(html.contains(&claim) && html.contains(&format!(">[{number}]</a></p>")), "{html}");
    for hostile in ["javascript", "127.0.0.1", "localhost", "fd00", "passwd", "secret", "nobody"] {
        assert!(
            !html.contains(hostile) && !last["citations"].to_string().contains(hostile),
            "{hostile}: {html}"
        );
    }
    // A subagent's report cites both as well, with numbers of this answer.
    let report = find_parts(answer, "AGENT")[0];
    let sources: Vec<_> =
        report["citations"].as_array().expect("citations").iter().map(|one| &one["source"]).collect();
    assert_eq!(
        (&sources[0]["path"], sources[1..].to_vec()),
        (&json!("/uploads/lease.txt"), vec![&act]),
        "{report}"
    );
    let html = report["content"].as_str().expect("HTML");
    assert_eq!(html.matches("data-citation=").count(), 2, "{html}");
}

/// Checks a stop during a tool call: the tool's process is killed, and no further step is called.
fn check_stop(format: FakeVendorFormat) {
    let FormatFixture { fake_vendors, service: _service, api } = format_fixture(format);
    // The command and all that it starts hold the lock.
    let command = "exec 9>lock; flock 9; touch running; sleep 86400";
    let script = json!({ "steps": [
        { "actions": [{ "say": "I wait." }, call_action("shell", json!({ "command": command }))] },
        { "actions": [{ "say": "Never said." }] },
    ]});
    let asked = api.expect_accepted(&script_question(&script));
    let pending = api.stream_answer(&asked).find_event("the tool runs", |event| {
        let parts = event.data["parts"].as_array().expect("parts");
        parts.iter().any(|part| part["type"] == "TOOL" && part["state"] == "PENDING")
    });
    assert_eq!(pending.data["status"], "in_progress");
    poll::wait_until("its process runs", || (api.download_file("/running").status == 200).then_some(()));
    let before = fake_vendors.all_requests().len();
    api.stop_chat(&id_field(&asked, "chatId")).expect_status(202);
    let answer = api.wait_for_completion(&asked);
    assert_eq!((&answer["text"], &answer["error"]), (&json!("I wait."), &Value::Null), "{answer}");
    assert_eq!(find_parts(&answer, "TOOL")[0]["state"], "ERROR", "{answer}");
    // A later question reaches the vendor later, so a request for the stopped answer would precede it.
    let other = api.wait_for_completion(
        &api.expect_accepted(&script_question(&json!({ "steps": [{ "actions": [{ "say": "Other." }] }] }))),
    );
    assert_eq!(other["text"], "Other.");
    let after = fake_vendors.all_requests();
    assert_eq!(after.len(), before + 1, "{after:?}");
    assert!(after.last().expect("a request")["body"].to_string().contains("Other."), "{after:?}");
    let look = json!({ "steps": [
        { "actions": [call_action("shell", json!({ "command": "flock --timeout 30 lock touch free" }))] },
        { "actions": [{ "say": "Looked." }] },
    ]});
    assert_eq!(api.wait_for_completion(&api.expect_accepted(&script_question(&look)))["text"], "Looked.");
    assert_eq!(api.download_file("/free").status, 200, "the tool's process has ended");
}

#[test]
fn parts_have_fields_in_anthropic_format() {
    has_every_part_with_each_field(FakeVendorFormat::Anthropic);
}

#[test]
fn parts_have_fields_in_chat_completions() {
    has_every_part_with_each_field(FakeVendorFormat::ChatCompletions);
}

#[test]
fn parts_have_fields_in_responses_format() {
    has_every_part_with_each_field(FakeVendorFormat::Responses);
}

#[test]
fn parts_have_fields_in_gemini_format() {
    has_every_part_with_each_field(FakeVendorFormat::Gemini);
}

#[test]
fn stop_ends_tools_in_anthropic_format() {
    check_stop(FakeVendorFormat::Anthropic);
}

#[test]
fn stop_ends_tools_in_chat_completions() {
    check_stop(FakeVendorFormat::ChatCompletions);
}

#[test]
fn stop_ends_tools_in_responses_format() {
    check_stop(FakeVendorFormat::Responses);
}

#[test]
fn stop_ends_tools_in_gemini_format() {
    check_stop(FakeVendorFormat::Gemini);
}
