//! Subagents: the AGENT parts of an answer (section 2.10).

use std::time::{Duration, Instant};

use conformance::api::id;
use conformance::{Expect, Options, Say, Service, Vendor, poll};
use serde_json::{Value, json};

use crate::credits::{expensive, settled};
use crate::metrics::metrics;
use crate::streams::{Stage, stage};

/// The time within which the tools of a deleted conversation end on a busy host. It is shorter than the time
/// after which an agent without instructions gives up.
const ENDED_WITHIN: Duration = Duration::from_secs(30);

fn give(agent: &str, task: &str) -> Say {
    Say::Call { tool: "agent".to_owned(), arguments: json!({ "agent": agent, "task": task }) }
}

fn call(tool: &str, arguments: Value) -> Say {
    Say::Call { tool: tool.to_owned(), arguments }
}

fn parts(answer: &Value) -> &[Value] {
    answer["parts"].as_array().map_or(&[], Vec::as_slice)
}

fn agents(answer: &Value) -> Vec<&Value> {
    parts(answer).iter().filter(|part| part["type"] == "AGENT").collect()
}

fn tools(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().map_or(&[][..], Vec::as_slice);
    tools.iter().filter_map(|tool| tool["function"]["name"].as_str()).collect()
}

fn nothing_reserved(Stage { service, account, .. }: &Stage) {
    poll::until("nothing is reserved", || (service.credits(account).1 == 0).then_some(()));
}

#[test]
fn a_task_goes_to_another_agent_whose_report_is_read_cited_and_paid_for() {
    let stage = stage();
    let Stage { vendor, api, .. } = &stage;
    api.upload("lease.txt", b"The rent is due on the fifth of each month.\n").expect_status(201);
    let before = stage.service.credits(&stage.account).0;
    vendor.will([
        Say::text("I ask a lawyer."),
        give("lawyer", "When is the rent due? See /uploads/lease.txt."),
    ]);
    vendor.will([call("read", json!({ "path": "/uploads/lease.txt" }))]);
    vendor.will([Say::text("On the fifth [1]"), Say::Hold, Say::text(", not later [9].")]);
    vendor.will([Say::text("The rent is due on the fifth [1].")]);
    let answer = api.ask("Ask somebody about the rent");
    let mut events = api.events_of(&answer);
    let shown = events.find("the report grows", |event| {
        agents(&event.data)
            .first()
            .is_some_and(|part| part["content"].as_str().unwrap_or("").contains("fifth"))
    });
    let part = agents(&shown.data)[0].clone();
    assert_eq!((&part["state"], &part["citations"]), (&json!("PENDING"), &json!([])), "{part}");
    vendor.release();
    let answer = api.completed(&answer);
    let listed = api.catalog("agents", None).json();
    let lawyer = listed.as_array().and_then(|all| all.iter().find(|agent| agent["name"] == "lawyer"));
    let part = agents(&answer)[0];
    assert_eq!(part["agentId"], lawyer.expect("it is listed")["id"], "{part}");
    assert_eq!(
        (&part["name"], &part["fullName"], &part["state"]),
        (&json!("lawyer"), &json!("causerie:lawyer"), &json!("COMPLETE"))
    );
    let content = part["content"].as_str().expect("content");
    assert!(
        content.contains("On the fifth") && content.contains("<a ") && content.contains("not later"),
        "{part}"
    );
    assert!(content.contains("[9]"), "a number without a source is text: {part}");
    assert_eq!(part["citations"][0]["source"]["path"], "/uploads/lease.txt", "{part}");
    let last = parts(&answer).last().expect("a part");
    assert_eq!(
        (&last["type"], last["citations"].as_array().map(Vec::len)),
        (&json!("TEXT"), Some(1)),
        "{answer}"
    );
    // Each sentence is checked by itself.
    for field in ["citationId", "source"] {
        assert_eq!(last["citations"][0][field], part["citations"][0][field], "{answer}");
    }
    assert_eq!(answer["text"], "I ask a lawyer.\n\nThe rent is due on the fifth.");
    let requests = vendor.requests();
    assert!(tools(&requests[0]).contains(&"agent"), "{:?}", tools(&requests[0]));
    assert!(!tools(&requests[1]).contains(&"agent"), "a task is not handed on");
    let request = requests[1].to_string();
    assert!(
        request.contains("You write for a lawyer") && request.contains("When is the rent due?"),
        "{request}"
    );
    assert!(!request.contains("Ask somebody"), "its context is separate: {request}");
    assert!(requests[3].to_string().contains(r"On the fifth [1], not later \\[9]."), "{}", requests[3]);
    nothing_reserved(&stage);
    let paid = before - stage.service.credits(&stage.account).0;
    vendor.will([Say::text("Plain.")]);
    let before = stage.service.credits(&stage.account).0;
    stage.api.completed(&stage.api.ask("Plain"));
    nothing_reserved(&stage);
    let plain = before - stage.service.credits(&stage.account).0;
    assert!(paid > plain, "its steps are paid: {paid} against {plain}");
}

#[test]
fn several_agents_work_side_by_side() {
    let stage = stage();
    let Stage { vendor, api, .. } = &stage;
    vendor.will([give("lawyer", "One"), give("causerie:assistant", "Two")]);
    vendor.will([Say::Hold, Say::text("First.")]);
    vendor.will([Say::Hold, Say::text("Second.")]);
    let answer = api.ask("Both");
    vendor.wait_held(2);
    vendor.release();
    vendor.release();
    let answer = api.completed(&answer);
    let reports: Vec<&Value> = agents(&answer).iter().map(|part| &part["state"]).collect();
    assert_eq!(reports, [&json!("COMPLETE"), &json!("COMPLETE")], "{answer}");
    nothing_reserved(&stage);
}

#[test]
fn another_agent_goes_on_where_a_crash_cut_it() {
    let mut stage = stage();
    let vendor = stage.vendor.clone();
    vendor.will([give("lawyer", "Look around")]);
    vendor.will([Say::text("I look."), call("list", json!({}))]);
    vendor.will([Say::text("It is em"), Say::Hold]);
    let answer = stage.api.ask("Look");
    vendor.wait_held(1);
    stage.service.kill();
    vendor.will([Say::text("It is empty.")]);
    vendor.will([Say::text("Nothing there.")]);
    stage.service.restart();
    let api = stage.service.api(&stage.account);
    let answer = api.completed(&answer);
    assert_eq!(answer["text"], "Nothing there.");
    let part = agents(&answer)[0];
    let content = part["content"].as_str().expect("content");
    assert!(content.contains("I look.") && content.contains("It is empty."), "{part}");
    assert!(!content.contains("It is em<"), "interrupted text is generated again: {part}");
    assert_eq!(vendor.requests().len(), 5, "no committed step is repeated");
    nothing_reserved(&stage);
}

#[test]
fn a_stop_reaches_the_tools_of_another_agent() {
    let stage = stage();
    let Stage { vendor, api, .. } = &stage;
    vendor.will([give("lawyer", "Wait")]);
    let command = "echo $$ > /workspace/pid; sleep 600";
    vendor.will([Say::text("I wait."), call("shell", json!({ "command": command }))]);
    let answer = api.ask("Wait");
    poll::until("the tool runs", || (api.download("/pid").status == 200).then_some(()));
    api.stop(&id(&answer, "chatId")).expect_status(202);
    let answer = api.completed(&answer);
    let part = agents(&answer)[0];
    assert_eq!((&part["state"], &answer["error"]), (&json!("ERROR"), &Value::Null), "{answer}");
    assert!(part["content"].as_str().is_some_and(|content| content.contains("I wait.")), "{part}");
    assert_eq!(vendor.requests().len(), 2, "no further step is called");
    nothing_reserved(&stage);
    vendor.will([call("shell", json!({ "command": "ps -e -o args || ls /proc" }))]);
    vendor.will([Say::text("Seen.")]);
    api.completed(&api.ask("What runs?"));
    let seen = vendor.requests().last().expect("a request").to_string();
    assert!(!seen.contains("sleep 600"), "{seen}");
}

#[test]
fn only_so_many_agents_work_at_once_and_a_stop_reaches_those_that_wait() {
    let stage = stage();
    let Stage { vendor, api, .. } = &stage;
    let tasks: Vec<Say> = (0..6).map(|task| give("lawyer", &format!("Task {task}"))).collect();
    vendor.will(tasks);
    (0..6).for_each(|_| vendor.will([Say::Hold, Say::text("Done.")]));
    let answer = api.ask("All of them");
    vendor.wait_held(4);
    vendor.release();
    vendor.wait_held(4);
    poll::until("the next begins", || (vendor.requests().len() >= 6).then_some(()));
    api.stop(&id(&answer, "chatId")).expect_status(202);
    let answer = api.completed(&answer);
    let states: Vec<&Value> = agents(&answer).iter().map(|part| &part["state"]).collect();
    assert_eq!(states.len(), 6, "{answer}");
    let done = states.iter().filter(|state| **state == "COMPLETE").count();
    let ended = states.iter().filter(|state| **state == "ERROR").count();
    assert_eq!((done, ended, &answer["error"]), (1, 5, &Value::Null), "{answer}");
    assert_eq!(vendor.requests().len(), 6, "four at once, and one after the first of them");
    nothing_reserved(&stage);
}

#[test]
fn what_another_agent_cites_is_what_is_shown_of_it() {
    let stage = stage();
    let Stage { vendor, api, .. } = &stage;
    api.upload("lease.txt", b"The rent is due on the fifth of each month.\n").expect_status(201);
    api.upload("annex.txt", b"The deposit is two rents.\n").expect_status(201);
    vendor.will([give("lawyer", "What is the deposit?")]);
    vendor.will([call("read", json!({ "path": "/uploads/lease.txt" }))]);
    vendor.will([call("read", json!({ "path": "/uploads/annex.txt" }))]);
    vendor.will([Say::text("Two rents [2].")]);
    vendor.will([Say::text("It is two rents [1].")]);
    let answer = api.completed(&api.ask("Ask somebody"));
    let part = agents(&answer)[0];
    let cited = part["citations"].as_array().expect("citations");
    assert_eq!(cited.len(), 1, "{part}");
    assert_eq!(cited[0]["source"]["path"], "/uploads/annex.txt", "{part}");
    let last = parts(&answer).last().expect("a part");
    assert_eq!(last["citations"], part["citations"], "only the cited source is listed: {answer}");
    let request = vendor.requests()[4].to_string();
    assert!(request.contains("Two rents [1].") && !request.contains("due on the fifth"), "{request}");
}

/// Starts a service on which a step costs 20 credits, and an answer one more.
fn expensive_stage() -> Stage {
    let vendor = Vendor::start();
    let service = expensive(&vendor);
    let account = service.account();
    let api = service.api(&account);
    Stage { vendor, account, api, service }
}

#[test]
fn an_answer_with_subagents_counts_as_one() {
    let stage = expensive_stage();
    let Stage { vendor, api, account, service } = &stage;
    vendor.will([give("lawyer", "Look"), give("lawyer", "Look again")]);
    let before = service.credits(account).0;
    let answer = api.completed(&api.ask("Ask two"));
    assert_eq!((&answer["text"], agents(&answer).len()), (&json!("Done."), 2), "{answer}");
    assert_eq!(
        before - settled(service, account),
        1 + 4 * 20,
        "its base is paid once, each step by its tokens"
    );
    let samples = poll::until("the answer is counted", || {
        let samples = metrics(api);
        (samples["causerie_answers_total{outcome=\"done\"}"] > 0.0).then_some(samples)
    });
    for sample in ["causerie_answers_total{outcome=\"done\"}", "causerie_answer_duration_seconds_count"] {
        assert_eq!(samples.get(sample), Some(&1.0), "{sample}");
    }
}

#[test]
fn output_of_a_subagent_before_a_stop_is_paid_for() {
    let stage = expensive_stage();
    let Stage { vendor, api, account, service } = &stage;
    vendor.will([give("lawyer", "Look")]);
    vendor.will([Say::text("Some words that nobody counts."), Say::Hold]);
    let before = service.credits(account).0;
    let answer = api.ask("Ask somebody");
    let chat = id(&answer, "chatId");
    let mut events = api.events_of(&answer);
    events.find("it speaks", |event| {
        agents(&event.data)
            .first()
            .is_some_and(|part| part["content"].as_str().unwrap_or("").contains("nobody counts"))
    });
    api.stop(&chat).expect_status(202);
    let answer = api.completed(&answer);
    assert_eq!((&agents(&answer)[0]["state"], &answer["error"]), (&json!("ERROR"), &Value::Null), "{answer}");
    let cost = before - settled(service, account);
    assert!((22..=41).contains(&cost), "a step and its base, and no more than the other's: {cost}");
}

#[test]
fn a_deleted_conversation_ends_the_tools_of_another_agent() {
    let stage = stage();
    let Stage { vendor, api, .. } = &stage;
    vendor.will([give("lawyer", "Wait")]);
    vendor.will([call("shell", json!({ "command": "touch /workspace/begun; exec sleep 654" }))]);
    let answer = api.ask("Wait");
    poll::until("the tool runs", || (api.download("/begun").status == 200).then_some(()));
    let look = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '";
    let runs = || {
        vendor.will([call("shell", json!({ "command": look }))]);
        let answer = api.completed(&api.ask("What runs?"));
        assert_eq!(parts(&answer)[0]["state"], "COMPLETE", "{answer}");
        vendor.requests().last().expect("a request").to_string().contains("sleep 654")
    };
    assert!(runs(), "it is seen while it runs");
    api.delete_chat(&id(&answer, "chatId")).expect_status(204);
    let deleted = Instant::now();
    poll::until("it is ended", || (!runs()).then_some(()));
    assert!(deleted.elapsed() < ENDED_WITHIN, "{:?}: the tools were not stopped", deleted.elapsed());
    nothing_reserved(&stage);
}

#[test]
fn an_agent_that_there_is_not_is_a_tool_that_fails() {
    let stage = stage();
    let Stage { vendor, api, .. } = &stage;
    for (arguments, expected) in [
        (json!({ "agent": "nobody", "task": "x" }), "causerie:lawyer"),
        (json!({ "agent": "lawyer" }), "task"),
        (json!({ "agent": "lawyer", "task": " " }), "A task has"),
    ] {
        vendor.will([call("agent", arguments)]);
        let answer = api.completed(&api.ask("Ask"));
        assert_eq!(parts(&answer)[0]["state"], "ERROR", "{answer}");
        let requests = vendor.requests();
        let last = requests.last().map(|last| last["messages"].to_string()).unwrap_or_default();
        assert!(last.contains(expected), "{last}");
    }
    nothing_reserved(&stage);
}

#[test]
fn the_steps_of_answers_and_subagents_are_those_that_are_set() {
    let vendor = Vendor::start();
    let mut environment = vendor.environment();
    for (name, value) in [("STEPS_MAX", "2"), ("SUBAGENT_STEPS_MAX", "1")] {
        environment.push((format!("CAUSERIE_LIMITS_{name}"), value.to_owned()));
    }
    let service = Service::start(Options { environment, ..Options::default() });
    let account = service.account();
    let api = service.api(&account);
    let list = || call("list", json!({ "path": "/" }));
    vendor.will([list()]);
    vendor.will([list()]);
    let ended = api.completed(&api.ask("Look twice"));
    assert_eq!(ended["error"]["code"], "TOO_MANY_STEPS", "{ended}");
    assert_eq!(vendor.requests().len(), 2, "no third step is asked for");
    vendor.will([give("lawyer", "Look twice")]);
    vendor.will([list()]);
    vendor.will([Say::text("Nobody knows.")]);
    let ended = api.completed(&api.ask("Ask somebody"));
    assert_eq!((&ended["error"], &ended["text"]), (&Value::Null, &json!("Nobody knows.")), "{ended}");
    assert_eq!(agents(&ended)[0]["state"], "ERROR", "{ended}");
    assert_eq!(vendor.requests().len(), 5, "the subagent took one step");
    poll::until("nothing is reserved", || (service.credits(&account).1 == 0).then_some(()));
}
