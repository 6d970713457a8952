//! A model with malformed output.

use e2e::Expect;
use e2e::api::find_parts;
use serde_json::{Value, json};

use crate::stage::HostileFixture;

fn tool_part_states(answer: &Value) -> Vec<&str> {
    let parts = answer["parts"].as_array().expect("parts").iter().filter(|part| part["type"] == "TOOL");
    parts.map(|part| part["state"].as_str().expect("a state")).collect()
}

#[test]
fn invalid_calls_answered_to_model() {
    let stage = HostileFixture::start_fixture();
    let url = format!("http://127.0.0.1:{}/", stage.trap.tcp_port());
    let call = |tool: &str, arguments: Value| json!({"call": {"tool": tool, "arguments": arguments}});
    let (answer, results) = stage.run_steps(&json!([
        {"actions": [
            call("list", json!("{\"path\": ")),
            call("list", json!("no JSON at all")),
            call("list", json!("[1, 2]")),
            call("list", json!("null")),
            call("list", json!("{\"path\": \"/\"} {\"path\": \"/etc\"}")),
            call("shell", json!({"command": 7})),
            call("shell", json!({"command": "touch /workspace/extra", "user": "root"})),
            call("shell", json!("{\"command\": \"touch /workspace/first\", \"command\": \"touch /workspace/second\"}")),
            call("read", json!({"path": {"deep": [[[[]]]]}})),
            call("read", json!(format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000)))),
        ]},
        {"actions": [
            call("web_fetch", json!({"url": url})),
            call("web_search", json!({"query": "secret"})),
            call("Shell", json!({"command": "touch /workspace/extra"})),
            call("../shell", json!({"command": "touch /workspace/extra"})),
            call("mcp__x__y", json!({})),
            call(&"t".repeat(10_000), json!({})),
            call("<img src=x onerror=alert(1)>", json!({})),
        ]},
        {"actions": [{"say": "Done."}]},
    ]));
    assert_eq!(answer["text"], "Done.");
    assert_eq!(results.len(), 17, "each call has its result");
    // A search has its own type of part.
    assert_eq!(
        tool_part_states(&answer)[10..],
        ["ERROR"; 6],
        "tools that were not offered are not run: {answer}"
    );
    let searches = find_parts(&answer, "WEB_SEARCH");
    assert_eq!((searches.len(), &searches[0]["state"]), (1, &json!("ERROR")), "{answer}");
    stage.api.download_file("/extra").expect_refusal(404);
    stage.assert_no_secret(&results);
    let results = stage.call_tools(&[("shell", json!({"command": "x".repeat(600_000)}))]);
    assert!(results[0].len() < 1000, "{}", results[0]);
    stage.assert_unharmed();
}

#[test]
fn repeated_call_ids_kept_apart() {
    let stage = HostileFixture::start_fixture();
    let run = |line: &str, id: &str| {
        let command = format!("echo {line} >> /workspace/runs.txt");
        json!({"call": {"tool": "shell", "arguments": {"command": command}, "id": id}})
    };
    let many: Vec<Value> =
        (0..1000).map(|_| json!({"call": {"tool": "list", "arguments": {"path": "/"}}})).collect();
    let (answer, results) = stage.run_steps(&json!([
        {"actions": [run("a", "same"), run("b", "same"), run("c", ""), run("d", "")]},
        {"actions": [run("e", "same"), run("f", &"i".repeat(5000)), run("g", "id\n\"with\u{0}all")]},
        {"actions": many},
        {"actions": [{"say": "Done."}]},
    ]));
    let text = answer["text"].as_str().expect("a text");
    assert!(text.starts_with("Done.") && text.contains("968 of them were skipped"), "{text}");
    assert!((8..=7 + 100).contains(&results.len()), "{} calls of a thousand were run", results.len());
    let mut ids: Vec<String> = answer["parts"]
        .as_array()
        .expect("parts")
        .iter()
        .filter_map(|part| part["toolCallId"].as_str().map(str::to_owned))
        .collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), results.len()), (count, count), "each call has a unique id and one result");
    let runs = stage.api.download_file("/runs.txt").expect_status(200).text();
    assert_eq!(runs, "a\nb\nc\nd\ne\nf\ng\n", "each ran once, in order");
    stage.assert_unharmed();
}

#[test]
fn endless_calls_end_the_answer() {
    let stage = HostileFixture::start_fixture();
    let script = json!({"steps": [{"actions": [{"call": {"tool": "list", "arguments": {"path": "/"}}}]}]});
    let question = json!({ "input": format!("STANDIN {script}"), "model": "standin" });
    let answer = stage.api.wait_for_completion(&stage.api.expect_accepted(&question));
    assert!(answer["error"]["code"].is_string(), "{}", answer["error"]);
    assert!(tool_part_states(&answer).iter().all(|state| *state == "COMPLETE"));
    stage.assert_unharmed();
}
