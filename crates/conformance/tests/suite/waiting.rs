//! Waiting answers: for a stopped machine, for a machine that does not start, and for their turn.

use std::fs;
use std::path::Path;

use conformance::api::id;
use conformance::{Api, Connection, Expect, Options, Say, Service, Vendor, poll};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use serde_json::{Value, json};

use crate::streams::{Stage, shows, stage};

fn wait_for(api: &Api, status: &str) {
    poll::until(status, || (api.vm().expect_status(200).json()["status"] == status).then_some(()));
}

/// Creates an answer whose machine is stopped by its owner during a tool call.
fn stopped_midway(vendor: &Vendor, api: &Api) -> Value {
    vendor.will([Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": "sleep 600" }) }]);
    let answer = api.ask("Wait");
    api.events_of(&answer).find("a run", |event| event.data["parts"][0]["state"] == "PENDING");
    api.stop_vm().expect_status(202);
    wait_for(api, "STOPPED");
    answer
}

#[test]
fn a_machine_that_its_owner_stops_stays_stopped_and_its_answers_wait_for_it() {
    let Stage { vendor, api, service: _service, .. } = stage();
    let first = stopped_midway(&vendor, &api);
    // The answer makes no progress while it waits, and the machine is not started for it.
    let target = format!("/api/v1/chats/{}/messages/{}", id(&first, "chatId"), id(&first, "id"));
    let waited = api.request("GET", &target).header("prefer", "wait=3").send(&api.address);
    assert_eq!(waited.expect_status(200).json()["status"], "in_progress");
    assert_eq!(api.vm().json()["status"], "STOPPED");
    vendor.will([Say::text("It was cut.")]);
    api.start_vm().expect_status(202);
    let whole = api.completed(&first);
    assert_eq!((&whole["text"], &whole["error"]), (&Value::from("It was cut."), &Value::Null));
    assert_eq!(whole["parts"][0]["state"], "ERROR", "{whole}");
}

#[test]
fn a_new_question_starts_a_machine_that_its_owner_stopped() {
    let Stage { vendor, api, service: _service, .. } = stage();
    let first = stopped_midway(&vendor, &api);
    let second = api.ask("Elsewhere");
    for answer in [&first, &second] {
        let whole = api.completed(answer);
        assert_eq!((&whole["text"], &whole["error"]), (&Value::from("Done."), &Value::Null));
    }
    assert_eq!(api.vm().json()["status"], "RUNNING");
}

#[test]
fn a_machine_with_nothing_to_do_is_stopped_and_its_files_stay() {
    let vendor = Vendor::start();
    let mut environment = vendor.environment();
    environment.push(("CAUSERIE_MACHINE_IDLE_TIMEOUT".to_owned(), "1s".to_owned()));
    let service = Service::start(Options { environment, ..Options::default() });
    let api = service.api(&service.account());
    let write = json!({ "path": "/note.txt", "content": "kept" });
    vendor.will([Say::Call { tool: "write".to_owned(), arguments: write }]);
    vendor.will([Say::Hold, Say::text("Written.")]);
    let answer = api.ask("Write");
    vendor.wait_held(1);
    let idle_before = api.request("GET", "/api/v1/vm");
    assert_eq!(idle_before.send(&api.address).json()["status"], "RUNNING", "an answer keeps it running");
    vendor.release();
    assert_eq!(api.completed(&answer)["text"], "Written.");
    wait_for(&api, "STOPPED");
    assert_eq!(api.download("/note.txt").expect_status(200).text(), "kept");
    vendor.will([Say::Call { tool: "read".to_owned(), arguments: json!({ "path": "/note.txt" }) }]);
    api.completed(&api.ask("Read"));
    assert!(vendor.requests().last().is_some_and(|asked| asked.to_string().contains("kept")));
}

#[test]
fn a_machine_that_does_not_start_is_told_in_the_answer_that_waited() {
    let Stage { vendor, account, api, service } = stage();
    let place = service.data().join("machines").join(&account.id);
    fs::create_dir_all(service.data().join("machines")).expect("a folder");
    fs::write(&place, "no folder can be made here").expect("a file");
    let answer = api.ask("Hello");
    let whole = api.completed(&answer);
    let message = whole["error"]["message"].as_str().expect("a sentence");
    assert_eq!((&whole["error"]["code"], &whole["text"]), (&json!("MACHINE_FAILED"), &json!(message)));
    assert!(!message.contains(service.data().to_str().expect("a path")), "nothing internal: {message}");
    assert!(service.log().contains("machine"), "it is logged");
    assert_eq!(service.credits(&account), (10_000, 0), "a failed answer costs nothing");
    assert!(vendor.requests().is_empty());
    fs::remove_file(&place).expect("it is there");
    assert_eq!(api.completed(&api.ask("Again"))["text"], "Done.");
}

#[test]
fn a_model_completes_its_last_step_although_the_machine_cannot_be_started_again() {
    let Stage { vendor, account, api, service } = stage();
    vendor.will([Say::Hold, Say::text("Whole.")]);
    let answer = api.ask("Hello");
    vendor.wait_held(1);
    let shown = service.admin(&["machine", "show", &account.email]);
    let machines = service.data().join("machines");
    fs::rename(machines.join(&account.id), machines.join("moved")).expect("the folder of the machine");
    fs::write(machines.join(&account.id), "no folder can be made here").expect("a file");
    for pid in shown["pids"].as_array().expect("a list") {
        let pid = pid.as_i64().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        // One may have ended with another.
        let _ = kill_process(pid.expect("a process"), Signal::KILL);
    }
    let is_given_up = || service.log().contains("answers that need their machine end").then_some(());
    poll::until("the machine is given up", is_given_up);
    vendor.release();
    let whole = api.completed(&answer);
    assert_eq!((&whole["text"], &whole["error"]), (&json!("Whole."), &Value::Null), "{whole}");
}

#[test]
fn a_question_to_a_stopped_machine_is_refused_where_the_operator_wants_it_so() {
    let vendor = Vendor::start();
    let mut environment = vendor.environment();
    environment.push(("CAUSERIE_MACHINE_ON_QUESTION".to_owned(), "refuse".to_owned()));
    let service = Service::start(Options { environment, ..Options::default() });
    let account = service.account();
    let api = service.api(&account);
    let question = json!({ "input": "Hello" });
    let message = api.send(&question).expect_code(409, "MACHINE_NOT_RUNNING");
    assert!(message.contains("STOPPED"), "{message}");
    assert_eq!(api.vm().json()["status"], "STOPPED", "the machine is not started");
    assert_eq!(
        (api.chats("").json()["totalCount"].clone(), service.credits(&account)),
        (json!(0), (10_000, 0))
    );
    // A malformed question is rejected even while the machine is stopped.
    api.send(&json!({ "input": " " })).expect_code(400, "BAD_REQUEST");
    api.start_vm().expect_status(202);
    wait_for(&api, "RUNNING");
    let repeated = || {
        let request = api.request("POST", "/api/v1/chats").header("idempotency-key", "once");
        request.body(question.to_string()).send(&api.address)
    };
    let answer = api.completed(&repeated().expect_status(202).json());
    assert_eq!(answer["text"], "Done.");
    api.stop_vm().expect_status(202);
    wait_for(&api, "STOPPED");
    assert_eq!(repeated().expect_status(201).json(), answer, "an accepted question stays accepted");
    let more = json!({ "input": "More", "chatId": answer["chatId"] });
    api.send(&more).expect_code(409, "MACHINE_NOT_RUNNING");
    // Also after a restart of the machine.
    api.start_vm().expect_status(202);
    wait_for(&api, "RUNNING");
    let mut service = service;
    service.kill();
    service.restart();
    let api = service.api(&account);
    wait_for(&api, "RUNNING");
    api.completed(&api.accepted(&more));
}

#[test]
fn a_model_that_declines_is_told_in_text_and_parts() {
    let Stage { vendor, account, api, service } = stage();
    vendor.will([Say::Decline]);
    let answer = api.completed(&api.ask("Something awful"));
    let message = answer["error"]["message"].as_str().expect("a sentence");
    assert_eq!((&answer["error"]["code"], &answer["text"]), (&json!("MODEL_REFUSED"), &json!(message)));
    let parts = answer["parts"].as_array().expect("parts");
    assert!(parts.iter().any(|part| {
        part["type"] == "TEXT" && part["content"].as_str().is_some_and(|html| html.contains(message))
    }));
    assert_eq!(vendor.requests().len(), 1, "it is not asked again");
    assert_eq!(service.credits(&account), (10_000, 0), "a declined answer costs nothing");
    // What was written before a filter cut it stays, and the answer says that it is not whole.
    vendor.will([Say::text("The notice period is"), Say::Decline]);
    let answer = api.completed(&api.accepted(&json!({ "input": "Please", "chatId": answer["chatId"] })));
    let message = answer["error"]["message"].as_str().expect("a sentence");
    assert_eq!(answer["error"]["code"], "MODEL_REFUSED");
    assert_eq!(answer["text"], format!("The notice period is\n\n{message}"));
    assert_eq!(vendor.requests().len(), 2, "it is not asked again");
}

#[test]
fn conversations_beyond_the_bound_of_a_machine_wait_in_their_order() {
    let vendor = Vendor::start();
    let mut environment = vendor.environment();
    environment.push(("CAUSERIE_MACHINE_ANSWERS_MAX".to_owned(), "1".to_owned()));
    let service = Service::start(Options { environment, ..Options::default() });
    let (api, other) = (service.api(&service.account()), service.api(&service.account()));
    vendor.will([Say::text("First"), Say::Hold]);
    let words = ["Erste", "Zweite", "Dritte", "Vierte"];
    let answers: Vec<Value> = words
        .iter()
        .map(|word| {
            let answer = api.ask(word);
            if *word == "Erste" {
                vendor.wait_held(1);
            }
            answer
        })
        .collect();
    // Another account's machine has a limit of its own.
    assert_eq!(other.completed(&other.ask("Fremde"))["text"], "Done.");
    assert_eq!(vendor.requests().len(), 2, "the others wait");
    assert!(answers[1..].iter().all(|answer| api.now(answer)["status"] == "in_progress"));
    vendor.release();
    for answer in &answers {
        api.completed(answer);
    }
    let asked: Vec<String> = vendor.requests().iter().map(Value::to_string).collect();
    let of = |word: &str| asked.iter().position(|asked| asked.contains(word)).expect(word);
    assert!(words.windows(2).all(|pair| of(pair[0]) < of(pair[1])), "{asked:?}");
}

#[test]
fn a_run_that_a_stop_cuts_is_an_error_in_an_answer_without_one() {
    let Stage { vendor, api, service: _service, .. } = stage();
    let run = Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": "sleep 600" }) };
    vendor.will([Say::text("I run it."), run]);
    let answer = api.ask("Run it");
    let mut events = api.events_of(&answer);
    events.find("a run", |event| event.data["parts"][1]["state"] == "PENDING");
    api.stop(&id(&answer, "chatId")).expect_status(202);
    let last = events.rest().pop().expect("a completion").data;
    assert_eq!((&last["parts"][1]["state"], &last["status"]), (&json!("ERROR"), &json!("completed")));
    assert_eq!(last["text"], "I run it.");
    assert!(last.get("error").is_none_or(Value::is_null), "{last}");
    assert_eq!(api.now(&answer), last);
}

#[test]
fn what_an_attempt_wrote_that_was_cut_goes_from_text_and_parts() {
    let Stage { vendor, api, service: _service, .. } = stage();
    vendor.will([Say::Reasoning("Hm".to_owned()), Say::text("Cut of"), Say::Hold, Say::Cut]);
    vendor.will([Say::Hold, Say::text("Whole.")]);
    let answer = api.ask("Go on");
    let mut events = api.events_of(&answer);
    let cut = shows(&mut events, "Cut of");
    vendor.release();
    let gone = events.find("it is taken back", |event| event.text().is_empty());
    assert_eq!(gone.data["parts"], json!([]));
    assert!(conformance::events::version(&cut.id) < conformance::events::version(&gone.id));
    vendor.wait_held(1);
    vendor.release();
    let rest = events.rest();
    assert!(rest.iter().all(|event| !event.data.to_string().contains("Cut of")), "{rest:?}");
    assert_eq!(rest.last().map(conformance::Event::text), Some("Whole."));
    assert_eq!(api.completed(&answer)["parts"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_conversation_changes_with_a_question_and_with_the_end_of_its_answer() {
    let Stage { vendor, api, service: _service, .. } = stage();
    vendor.will([Say::text("Half"), Say::Hold]);
    let answer = api.ask("Go on");
    let chat = id(&answer, "chatId");
    vendor.wait_held(1);
    let modified = || {
        let chat = api.chat(&chat).expect_status(200).json()["chat"].clone();
        (chat["status"].clone(), chat["modifiedAt"].as_str().expect("a time").to_owned())
    };
    let (status, asked) = modified();
    assert_eq!(status, "in_progress");
    vendor.release();
    api.completed(&answer);
    let (status, ended) = modified();
    assert!(status == "completed" && ended > asked, "{ended} after {asked}");
}

#[test]
fn a_failure_of_the_service_tells_nothing_of_what_is_inside() {
    let Stage { api, service, .. } = stage();
    let mut connection = Connection::open(&api.address).expect("a connection");
    let mut list = || {
        let (host, key) = (service.address(), &api.key);
        let head = format!("GET /api/v1/directories HTTP/1.1\r\nhost: {host}\r\nx-api-key: {key}\r\n\r\n");
        connection.write(head.as_bytes());
        connection.response("GET").expect("an answer")
    };
    list().expect_status(200);
    // From now on the service cannot open further descriptors.
    let process = Pid::from_raw(i32::try_from(service.process()).expect("a process id"));
    let opened = |number: &u64| Path::new(&format!("/proc/{}/fd/{number}", service.process())).exists();
    let free = (0..).find(|number| !opened(number));
    let before = prlimit(process, Resource::Nofile, Rlimit { current: free, ..getrlimit(Resource::Nofile) });
    let refused = list();
    prlimit(process, Resource::Nofile, before.expect("one's own process")).expect("one's own process");
    let message = refused.expect_code(500, "INTERNAL");
    assert!(!message.contains(['/', '(']) && !message.contains("open"), "{message}");
    poll::until("it is logged", || service.log().contains("Too many open files").then_some(()));
    list().expect_status(200);
}
