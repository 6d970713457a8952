//! Subagents: the AGENT parts of an answer (section 2.10).

use std::time::{Duration, Instant};

use e2e::api::id_field;
use e2e::{Expect, Say, ScriptedVendor, ServiceOptions, TestService, poll};
use serde_json::{Value, json};

use crate::credits::{start_expensive_service, wait_until_settled};
use crate::metrics::read_metrics;
use crate::streams::{StreamFixture, stream_fixture};

/// The time within which the tools of a deleted conversation end on a busy host. It is shorter than the time
/// after which an agent without instructions gives up.
const ENDED_WITHIN: Duration = Duration::from_secs(30);

fn agent_call(agent: &str, task: &str) -> Say {
    Say::Call { tool: "agent".to_owned(), arguments: json!({ "agent": agent, "task": task }) }
}

fn tool_call(tool: &str, arguments: Value) -> Say {
    Say::Call { tool: tool.to_owned(), arguments }
}

fn answer_parts(answer: &Value) -> &[Value] {
    answer["parts"].as_array().map_or(&[], Vec::as_slice)
}

fn agent_parts(answer: &Value) -> Vec<&Value> {
    answer_parts(answer).iter().filter(|part| part["type"] == "AGENT").collect()
}

fn offered_tools(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().map_or(&[][..], Vec::as_slice);
    tools.iter().filter_map(|tool| tool["function"]["name"].as_str()).collect()
}

fn wait_until_nothing_reserved(StreamFixture { service, account, .. }: &StreamFixture) {
    poll::wait_until("nothing is reserved", || (service.show_credits(account).1 == 0).then_some(()));
}

#[test]
fn subagent_report_cited_and_paid() {
    let stage = stream_fixture();
    let StreamFixture { vendor, api, .. } = &stage;
    api.upload_file("lease.txt", b"The rent is due on the fifth of each month.\n").expect_status(201);
    let before = stage.service.show_credits(&stage.account).0;
    vendor.add_script([
        Say::from_text("I ask a lawyer."),
        agent_call("lawyer", "When is the rent due? See /uploads/lease.txt."),
    ]);
    vendor.add_script([tool_call("read", json!({ "path": "/uploads/lease.txt" }))]);
    vendor.add_script([Say::from_text("On the fifth [1]"), Say::Hold, Say::from_text(", not later [9].")]);
    vendor.add_script([Say::from_text("The rent is due on the fifth [1].")]);
    let answer = api.ask_question("Ask somebody about the rent");
    let mut events = api.stream_answer(&answer);
    let shown = events.find_event("the report grows", |event| {
        agent_parts(&event.data)
            .first()
            .is_some_and(|part| part["content"].as_str().unwrap_or("").contains("fifth"))
    });
    let part = agent_parts(&shown.data)[0].clone();
    assert_eq!((&part["state"], &part["citations"]), (&json!("PENDING"), &json!([])), "{part}");
    vendor.release_hold();
    let answer = api.wait_for_completion(&answer);
    let listed = api.get_catalog("agents", None).json();
    let lawyer = listed.as_array().and_then(|all| all.iter().find(|agent| agent["name"] == "lawyer"));
    let part = agent_parts(&answer)[0];
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
    let last = answer_parts(&answer).last().expect("a part");
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
    let requests = vendor.request_bodies();
    assert!(offered_tools(&requests[0]).contains(&"agent"), "{:?}", offered_tools(&requests[0]));
    assert!(!offered_tools(&requests[1]).contains(&"agent"), "a task is not handed on");
    let request = requests[1].to_string();
    assert!(
        request.contains("You write for a lawyer") && request.contains("When is the rent due?"),
        "{request}"
    );
    assert!(!request.contains("Ask somebody"), "its context is separate: {request}");
    assert!(requests[3].to_string().contains(r"On the fifth [1], not later \\[9]."), "{}", requests[3]);
    wait_until_nothing_reserved(&stage);
    let paid = before - stage.service.show_credits(&stage.account).0;
    vendor.add_script([Say::from_text("Plain.")]);
    let before = stage.service.show_credits(&stage.account).0;
    stage.api.wait_for_completion(&stage.api.ask_question("Plain"));
    wait_until_nothing_reserved(&stage);
    let plain = before - stage.service.show_credits(&stage.account).0;
    assert!(paid > plain, "its steps are paid: {paid} against {plain}");
}

#[test]
fn several_agents_work_side_by_side() {
    let stage = stream_fixture();
    let StreamFixture { vendor, api, .. } = &stage;
    vendor.add_script([agent_call("lawyer", "One"), agent_call("causerie:assistant", "Two")]);
    vendor.add_script([Say::Hold, Say::from_text("First.")]);
    vendor.add_script([Say::Hold, Say::from_text("Second.")]);
    let answer = api.ask_question("Both");
    vendor.wait_for_holds(2);
    vendor.release_hold();
    vendor.release_hold();
    let answer = api.wait_for_completion(&answer);
    let reports: Vec<&Value> = agent_parts(&answer).iter().map(|part| &part["state"]).collect();
    assert_eq!(reports, [&json!("COMPLETE"), &json!("COMPLETE")], "{answer}");
    wait_until_nothing_reserved(&stage);
}

#[test]
fn subagent_resumes_after_crash() {
    let mut stage = stream_fixture();
    let vendor = stage.vendor.clone();
    vendor.add_script([agent_call("lawyer", "Look around")]);
    vendor.add_script([Say::from_text("I look."), tool_call("list", json!({}))]);
    vendor.add_script([Say::from_text("It is em"), Say::Hold]);
    let answer = stage.api.ask_question("Look");
    vendor.wait_for_holds(1);
    stage.service.kill();
    vendor.add_script([Say::from_text("It is empty.")]);
    vendor.add_script([Say::from_text("Nothing there.")]);
    stage.service.restart();
    let api = stage.service.api_for(&stage.account);
    let answer = api.wait_for_completion(&answer);
    assert_eq!(answer["text"], "Nothing there.");
    let part = agent_parts(&answer)[0];
    let content = part["content"].as_str().expect("content");
    assert!(content.contains("I look.") && content.contains("It is empty."), "{part}");
    assert!(!content.contains("It is em<"), "interrupted text is generated again: {part}");
    assert_eq!(vendor.request_bodies().len(), 5, "no committed step is repeated");
    wait_until_nothing_reserved(&stage);
}

#[test]
fn stop_reaches_tools_of_subagent() {
    let stage = stream_fixture();
    let StreamFixture { vendor, api, .. } = &stage;
    vendor.add_script([agent_call("lawyer", "Wait")]);
    let command = "echo $$ > /workspace/pid; sleep 600";
    vendor.add_script([Say::from_text("I wait."), tool_call("shell", json!({ "command": command }))]);
    let answer = api.ask_question("Wait");
    poll::wait_until("the tool runs", || (api.download_file("/pid").status == 200).then_some(()));
    api.stop_chat(&id_field(&answer, "chatId")).expect_status(202);
    let answer = api.wait_for_completion(&answer);
    let part = agent_parts(&answer)[0];
    assert_eq!((&part["state"], &answer["error"]), (&json!("ERROR"), &Value::Null), "{answer}");
    assert!(part["content"].as_str().is_some_and(|content| content.contains("I wait.")), "{part}");
    assert_eq!(vendor.request_bodies().len(), 2, "no further step is called");
    wait_until_nothing_reserved(&stage);
    vendor.add_script([tool_call("shell", json!({ "command": "ps -e -o args || ls /proc" }))]);
    vendor.add_script([Say::from_text("Seen.")]);
    api.wait_for_completion(&api.ask_question("What runs?"));
    let seen = vendor.request_bodies().last().expect("a request").to_string();
    assert!(!seen.contains("sleep 600"), "{seen}");
}

#[test]
fn stop_reaches_subagents_waiting_for_slot() {
    let stage = stream_fixture();
    let StreamFixture { vendor, api, .. } = &stage;
    let tasks: Vec<Say> = (0..6).map(|task| agent_call("lawyer", &format!("Task {task}"))).collect();
    vendor.add_script(tasks);
    (0..6).for_each(|_| vendor.add_script([Say::Hold, Say::from_text("Done.")]));
    let answer = api.ask_question("All of them");
    vendor.wait_for_holds(4);
    vendor.release_hold();
    vendor.wait_for_holds(4);
    poll::wait_until("the next begins", || (vendor.request_bodies().len() >= 6).then_some(()));
    api.stop_chat(&id_field(&answer, "chatId")).expect_status(202);
    let answer = api.wait_for_completion(&answer);
    let states: Vec<&Value> = agent_parts(&answer).iter().map(|part| &part["state"]).collect();
    assert_eq!(states.len(), 6, "{answer}");
    let done = states.iter().filter(|state| **state == "COMPLETE").count();
    let ended = states.iter().filter(|state| **state == "ERROR").count();
    assert_eq!((done, ended, &answer["error"]), (1, 5, &Value::Null), "{answer}");
    assert_eq!(vendor.request_bodies().len(), 6, "four at once, and one after the first of them");
    wait_until_nothing_reserved(&stage);
}

#[test]
fn subagent_citations_shown_with_it() {
    let stage = stream_fixture();
    let StreamFixture { vendor, api, .. } = &stage;
    api.upload_file("lease.txt", b"The rent is due on the fifth of each month.\n").expect_status(201);
    api.upload_file("annex.txt", b"The deposit is two rents.\n").expect_status(201);
    vendor.add_script([agent_call("lawyer", "What is the deposit?")]);
    vendor.add_script([tool_call("read", json!({ "path": "/uploads/lease.txt" }))]);
    vendor.add_script([tool_call("read", json!({ "path": "/uploads/annex.txt" }))]);
    vendor.add_script([Say::from_text("Two rents [2].")]);
    vendor.add_script([Say::from_text("It is two rents [1].")]);
    let answer = api.wait_for_completion(&api.ask_question("Ask somebody"));
    let part = agent_parts(&answer)[0];
    let cited = part["citations"].as_array().expect("citations");
    assert_eq!(cited.len(), 1, "{part}");
    assert_eq!(cited[0]["source"]["path"], "/uploads/annex.txt", "{part}");
    let last = answer_parts(&answer).last().expect("a part");
    assert_eq!(last["citations"], part["citations"], "only the cited source is listed: {answer}");
    let request = vendor.request_bodies()[4].to_string();
    assert!(request.contains("Two rents [1].") && !request.contains("due on the fifth"), "{request}");
}

/// Starts a service on which a step costs 20 credits, and an answer one more.
fn expensive_stage() -> StreamFixture {
    let vendor = ScriptedVendor::start();
    let service = start_expensive_service(&vendor);
    let account = service.create_account();
    let api = service.api_for(&account);
    StreamFixture { vendor, account, api, service }
}

#[test]
fn answer_with_subagents_counts_once() {
    let stage = expensive_stage();
    let StreamFixture { vendor, api, account, service } = &stage;
    vendor.add_script([agent_call("lawyer", "Look"), agent_call("lawyer", "Look again")]);
    let before = service.show_credits(account).0;
    let answer = api.wait_for_completion(&api.ask_question("Ask two"));
    assert_eq!((&answer["text"], agent_parts(&answer).len()), (&json!("Done."), 2), "{answer}");
    assert_eq!(
        before - wait_until_settled(service, account),
        1 + 4 * 20,
        "its base is paid once, each step by its tokens"
    );
    let samples = poll::wait_until("the answer is counted", || {
        let samples = read_metrics(api);
        (samples["causerie_answers_total{outcome=\"done\"}"] > 0.0).then_some(samples)
    });
    for sample in ["causerie_answers_total{outcome=\"done\"}", "causerie_answer_duration_seconds_count"] {
        assert_eq!(samples.get(sample), Some(&1.0), "{sample}");
    }
}

#[test]
fn stopped_subagent_output_is_paid() {
    let stage = expensive_stage();
    let StreamFixture { vendor, api, account, service } = &stage;
    vendor.add_script([agent_call("lawyer", "Look")]);
    vendor.add_script([Say::from_text("Some words that nobody counts."), Say::Hold]);
    let before = service.show_credits(account).0;
    let answer = api.ask_question("Ask somebody");
    let chat = id_field(&answer, "chatId");
    let mut events = api.stream_answer(&answer);
    events.find_event("it speaks", |event| {
        agent_parts(&event.data)
            .first()
            .is_some_and(|part| part["content"].as_str().unwrap_or("").contains("nobody counts"))
    });
    api.stop_chat(&chat).expect_status(202);
    let answer = api.wait_for_completion(&answer);
    assert_eq!(
        (&agent_parts(&answer)[0]["state"], &answer["error"]),
        (&json!("ERROR"), &Value::Null),
        "{answer}"
    );
    let cost = before - wait_until_settled(service, account);
    assert!((22..=41).contains(&cost), "a step and its base, and no more than the other's: {cost}");
}

#[test]
fn deleted_conversation_ends_subagent_tools() {
    let stage = stream_fixture();
    let StreamFixture { vendor, api, .. } = &stage;
    vendor.add_script([agent_call("lawyer", "Wait")]);
    vendor.add_script([tool_call("shell", json!({ "command": "touch /workspace/begun; exec sleep 654" }))]);
    let answer = api.ask_question("Wait");
    poll::wait_until("the tool runs", || (api.download_file("/begun").status == 200).then_some(()));
    let look = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '";
    let runs = || {
        vendor.add_script([tool_call("shell", json!({ "command": look }))]);
        let answer = api.wait_for_completion(&api.ask_question("What runs?"));
        assert_eq!(answer_parts(&answer)[0]["state"], "COMPLETE", "{answer}");
        vendor.request_bodies().last().expect("a request").to_string().contains("sleep 654")
    };
    assert!(runs(), "it is seen while it runs");
    api.delete_chat(&id_field(&answer, "chatId")).expect_status(204);
    let deleted = Instant::now();
    poll::wait_until("it is ended", || (!runs()).then_some(()));
    assert!(deleted.elapsed() < ENDED_WITHIN, "{:?}: the tools were not stopped", deleted.elapsed());
    wait_until_nothing_reserved(&stage);
}

#[test]
fn unknown_agent_is_a_failed_tool() {
    let stage = stream_fixture();
    let StreamFixture { vendor, api, .. } = &stage;
    for (arguments, expected) in [
        (json!({ "agent": "nobody", "task": "x" }), "causerie:lawyer"),
        (json!({ "agent": "lawyer" }), "task"),
        (json!({ "agent": "lawyer", "task": " " }), "The task is"),
    ] {
        vendor.add_script([tool_call("agent", arguments)]);
        let answer = api.wait_for_completion(&api.ask_question("Ask"));
        assert_eq!(answer_parts(&answer)[0]["state"], "ERROR", "{answer}");
        let requests = vendor.request_bodies();
        let last = requests.last().map(|last| last["messages"].to_string()).unwrap_or_default();
        assert!(last.contains(expected), "{last}");
    }
    wait_until_nothing_reserved(&stage);
}

#[test]
fn step_limits_apply_to_subagents() {
    let vendor = ScriptedVendor::start();
    let mut environment = vendor.service_environment();
    for (name, value) in [("STEPS_MAX", "2"), ("SUBAGENT_STEPS_MAX", "1")] {
        environment.push((format!("CAUSERIE_LIMITS_{name}"), value.to_owned()));
    }
    let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let account = service.create_account();
    let api = service.api_for(&account);
    let list = || tool_call("list", json!({ "path": "/" }));
    vendor.add_script([list()]);
    vendor.add_script([list()]);
    let ended = api.wait_for_completion(&api.ask_question("Look twice"));
    assert_eq!(ended["error"]["code"], "TOO_MANY_STEPS", "{ended}");
    assert_eq!(vendor.request_bodies().len(), 2, "no third step is asked for");
    vendor.add_script([agent_call("lawyer", "Look twice")]);
    vendor.add_script([list()]);
    vendor.add_script([Say::from_text("Nobody knows.")]);
    let ended = api.wait_for_completion(&api.ask_question("Ask somebody"));
    assert_eq!((&ended["error"], &ended["text"]), (&Value::Null, &json!("Nobody knows.")), "{ended}");
    assert_eq!(agent_parts(&ended)[0]["state"], "ERROR", "{ended}");
    assert_eq!(vendor.request_bodies().len(), 5, "the subagent took one step");
    poll::wait_until("nothing is reserved", || (service.show_credits(&account).1 == 0).then_some(()));
}
