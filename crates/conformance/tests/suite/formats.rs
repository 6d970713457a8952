//! Section 2.10 through the format of each vendor: every type of part with each of its fields, sources that
//! the vendor reports, and stops. One answer of each format has all parts.

use conformance::api::{id, is_uuid, parts_of};
use conformance::fake_vendors::{FakeVendors, Format};
use conformance::{Api, Expect, Options, Service, poll};
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
struct Stage {
    fake_vendors: FakeVendors,
    service: Service,
    api: Api,
}

fn stage(format: Format) -> Stage {
    let fake_vendors = FakeVendors::start();
    let mut environment = fake_vendors.environment_of(format);
    environment.push(fake_vendors.search_engine());
    let service = Service::start(Options { environment, ..Options::default() });
    let api = service.api(&service.account());
    poll::until("the vendor's models are listed", || {
        let models = api.catalog("models", None).expect_status(200).json();
        models.as_array().expect("models").iter().any(|model| model["id"] == "standin").then_some(())
    });
    Stage { fake_vendors, service, api }
}

fn call(tool: &str, arguments: Value) -> Value {
    json!({ "call": { "tool": tool, "arguments": arguments } })
}

fn question(script: &Value) -> Value {
    json!({ "model": "standin", "input": format!("STANDIN {script}"), "webSearchEnabled": true })
}

/// A check of a field.
type Check = fn(&Value) -> bool;

fn text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

fn html(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.starts_with('<'))
}

fn state(value: &Value) -> bool {
    ["COMPLETE", "ERROR"].iter().any(|known| value == known)
}

fn path(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.starts_with('/'))
}

fn web_search(value: &Value) -> bool {
    value == "web_search"
}

fn source(value: &Value) -> bool {
    match value["type"].as_str() {
        Some("FILE") => path(&value["path"]),
        Some("URL") => text(&value["url"]) && value["title"].is_string(),
        _ => false,
    }
}

fn sources(value: &Value) -> bool {
    value.as_array().is_some_and(|all| all.iter().all(source))
}

fn citations(value: &Value) -> bool {
    let is_one = |one: &Value| text(&one["citationId"]) && source(&one["source"]);
    value.as_array().is_some_and(|all| all.iter().all(is_one))
}

/// Each type of part with its fields besides `partId` and `type`.
const PARTS: [(&str, &[(&str, Check)]); 7] = [
    ("TEXT", &[("content", html), ("citations", citations)]),
    ("REASONING", &[("content", html)]),
    ("TOOL", &[("toolName", text), ("toolCallId", text), ("state", state), ("sources", sources)]),
    (
        "WEB_SEARCH",
        &[
            ("toolName", web_search),
            ("toolCallId", text),
            ("state", state),
            ("query", text),
            ("sources", sources),
        ],
    ),
    ("SKILL", &[("skillId", is_uuid), ("name", text), ("fullName", text), ("state", state)]),
    (
        "AGENT",
        &[
            ("agentId", is_uuid),
            ("name", text),
            ("fullName", text),
            ("state", state),
            ("content", html),
            ("citations", citations),
        ],
    ),
    ("FILE", &[("path", path), ("name", text)]),
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

fn everything() -> Value {
    let cite = |url: &str| json!({ "cite": { "url": url, "title": "The Rent\nAct", "quote": "It is due." } });
    let task = json!({ "steps": [
        { "actions": [{ "say": "I read." }, call("read", json!({ "path": "/uploads/lease.txt" }))] },
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
            call("list", json!({ "path": "/uploads" })),
            call("find", json!({ "glob": "**/*.txt" })),
            call("read", json!({ "path": "/uploads/lease.txt" })),
            call("search", json!({ "query": "rent" })),
            call("write", json!({ "path": "/notes/summary.md", "content": "Due.\n" })),
            call("edit", json!({ "path": "/notes/summary.md", "old": "Due", "new": "Due on the fifth" })),
            call("shell", json!({ "command": "cat notes/summary.md" })),
            call("read", json!({ "path": "/uploads/none.txt" })),
            call("no_such_tool", json!({})),
        ] },
        { "actions": [
            call("skill", json!({ "skill": "causerie:contract-review" })),
            call("skill", json!({ "skill": "causerie:no-such-skill" })),
            call("web_search", json!({ "query": "rent due" })),
            call("web_search", json!({ "query": "status-500" })),
            call("agent", json!({ "agent": "causerie:lawyer", "task": format!("STANDIN {task}") })),
            call("agent", json!({ "agent": "nobody", "task": "Nothing" })),
        ] },
        { "actions": last },
    ]})
}

fn has_every_part_with_each_field(format: Format) {
    let Stage { fake_vendors, service: _service, api } = stage(format);
    api.upload("lease.txt", LEASE).expect_status(201);
    let mut asked = question(&everything());
    asked["filePaths"] = json!(["/uploads/lease.txt"]);
    let answer = api.completed(&api.accepted(&asked));
    assert_eq!(answer["error"], Value::Null, "{answer}");
    let parts = answer["parts"].as_array().expect("parts");
    for (kind, fields) in PARTS {
        let of = parts_of(&answer, kind);
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
    let files: Vec<_> = parts_of(&answer, "FILE").iter().map(|part| part["path"].clone()).collect();
    assert_eq!(files, ["/uploads/lease.txt", "/notes/summary.md"], "{answer}");
    assert_eq!(parts_of(&answer, "REASONING")[0]["content"], "<p>Where is <strong>it</strong>?</p>\n");
    let found = &parts_of(&answer, "WEB_SEARCH")[0];
    assert_eq!(found["query"], "rent due");
    assert!(found["sources"].as_array().is_some_and(|all| !all.is_empty()), "{found}");
    cites(format, &answer);
    let history = api.chat(&id(&answer, "chatId")).expect_status(200).json();
    assert_eq!(history["messages"][1]["parts"], answer["parts"], "the history has the same parts");

    // Earlier text is sent back unchanged, without the service's numbers for the vendor's own sources.
    let mut next = question(&json!({ "steps": [{ "actions": [{ "say": "Gladly." }] }] }));
    next["chatId"] = answer["chatId"].clone();
    assert_eq!(api.completed(&api.accepted(&next))["text"], "Gladly.");
    let requests = fake_vendors.requests();
    assert!(requests.iter().all(|seen| seen["outcome"] == "done"), "{requests:?}");
    let replayed = requests.last().expect("a request")["body"].to_string();
    let expected = "The rent is due on the fifth [1]. Příští týden is too late, `so is` *June*.\\n\\nSee the lease. \
        It is the law.";
    assert!(replayed.contains(expected), "{replayed}");
}

/// Checks that the last text cites a passage of the service and the vendor's sources, each once.
fn cites(format: Format, answer: &Value) {
    let text = "I look.\n\nThe rent is due on the fifth. Příští týden is too late, `so is` *June*.\n\n\
        See the lease. It is the law.";
    assert_eq!(answer["text"], text, "the text has no marks: {answer}");
    let last = *parts_of(answer, "TEXT").last().expect("a text");
    let citations = last["citations"].as_array().expect("citations");
    let act = json!({ "type": "URL", "url": ACT, "title": "The Rent Act" });
    let page = match format {
        Format::Anthropic => json!({ "type": "FILE", "path": "/uploads/lease.txt", "page": 2 }),
        _ => json!({ "type": "FILE", "path": "/uploads/lease.txt" }),
    };
    let sources: Vec<_> = citations.iter().map(|one| &one["source"]).collect();
    assert_eq!(sources[0]["path"], "/uploads/lease.txt", "the service's own passage comes first: {last}");
    // Chat Completions cannot report a file.
    let named = if format == Format::ChatCompletions { vec![&act] } else { vec![&act, &page] };
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
    let report = parts_of(answer, "AGENT")[0];
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
fn stops(format: Format) {
    let Stage { fake_vendors, service: _service, api } = stage(format);
    // The command and all that it starts hold the lock.
    let command = "exec 9>lock; flock 9; touch running; sleep 86400";
    let script = json!({ "steps": [
        { "actions": [{ "say": "I wait." }, call("shell", json!({ "command": command }))] },
        { "actions": [{ "say": "Never said." }] },
    ]});
    let asked = api.accepted(&question(&script));
    let pending = api.events_of(&asked).find("the tool runs", |event| {
        let parts = event.data["parts"].as_array().expect("parts");
        parts.iter().any(|part| part["type"] == "TOOL" && part["state"] == "PENDING")
    });
    assert_eq!(pending.data["status"], "in_progress");
    poll::until("its process runs", || (api.download("/running").status == 200).then_some(()));
    let before = fake_vendors.requests().len();
    api.stop(&id(&asked, "chatId")).expect_status(202);
    let answer = api.completed(&asked);
    assert_eq!((&answer["text"], &answer["error"]), (&json!("I wait."), &Value::Null), "{answer}");
    assert_eq!(parts_of(&answer, "TOOL")[0]["state"], "ERROR", "{answer}");
    // A later question reaches the vendor later, so a request for the stopped answer would precede it.
    let other =
        api.completed(&api.accepted(&question(&json!({ "steps": [{ "actions": [{ "say": "Other." }] }] }))));
    assert_eq!(other["text"], "Other.");
    let after = fake_vendors.requests();
    assert_eq!(after.len(), before + 1, "{after:?}");
    assert!(after.last().expect("a request")["body"].to_string().contains("Other."), "{after:?}");
    let look = json!({ "steps": [
        { "actions": [call("shell", json!({ "command": "flock --timeout 30 lock touch free" }))] },
        { "actions": [{ "say": "Looked." }] },
    ]});
    assert_eq!(api.completed(&api.accepted(&question(&look)))["text"], "Looked.");
    assert_eq!(api.download("/free").status, 200, "the tool's process is gone");
}

#[test]
fn every_part_has_its_fields_in_anthropics_format() {
    has_every_part_with_each_field(Format::Anthropic);
}

#[test]
fn every_part_has_its_fields_in_chat_completions() {
    has_every_part_with_each_field(Format::ChatCompletions);
}

#[test]
fn every_part_has_its_fields_in_openais_responses() {
    has_every_part_with_each_field(Format::Responses);
}

#[test]
fn every_part_has_its_fields_in_geminis_format() {
    has_every_part_with_each_field(Format::Gemini);
}

#[test]
fn a_stop_ends_tools_and_buys_nothing_in_anthropics_format() {
    stops(Format::Anthropic);
}

#[test]
fn a_stop_ends_tools_and_buys_nothing_in_chat_completions() {
    stops(Format::ChatCompletions);
}

#[test]
fn a_stop_ends_tools_and_buys_nothing_in_openais_responses() {
    stops(Format::Responses);
}

#[test]
fn a_stop_ends_tools_and_buys_nothing_in_geminis_format() {
    stops(Format::Gemini);
}
