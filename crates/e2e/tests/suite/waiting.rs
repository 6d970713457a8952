//! Waiting answers: for a stopped machine, for a machine that does not start, and for their turn.

use std::fs;
use std::path::Path;

use e2e::api::id_field;
use e2e::{Api, Expect, RawConnection, Say, ScriptedVendor, ServiceOptions, TestService, poll};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use serde_json::{Value, json};

use crate::streams::{StreamFixture, find_shown_text, stream_fixture};

fn wait_for(api: &Api, status: &str) {
    poll::wait_until(status, || (api.get_vm().expect_status(200).json()["status"] == status).then_some(()));
}

/// Creates an answer whose machine is stopped by its owner during a tool call.
fn create_stopped_answer(vendor: &ScriptedVendor, api: &Api) -> Value {
    vendor.add_script([Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": "sleep 600" }) }]);
    let answer = api.ask_question("Wait");
    api.stream_answer(&answer).find_event("a run", |event| event.data["parts"][0]["state"] == "PENDING");
    api.stop_vm().expect_status(202);
    wait_for(api, "STOPPED");
    answer
}

#[test]
fn answers_wait_for_stopped_machine() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    let first = create_stopped_answer(&vendor, &api);
    // The answer makes no progress while it waits, and the machine is not started for it.
    let target = format!("/api/v1/chats/{}/messages/{}", id_field(&first, "chatId"), id_field(&first, "id"));
    let waited = api.new_request("GET", &target).with_header("prefer", "wait=3").send(&api.address);
    assert_eq!(waited.expect_status(200).json()["status"], "in_progress");
    assert_eq!(api.get_vm().json()["status"], "STOPPED");
    vendor.add_script([Say::from_text("It was cut.")]);
    api.start_vm().expect_status(202);
    let whole = api.wait_for_completion(&first);
    assert_eq!((&whole["text"], &whole["error"]), (&Value::from("It was cut."), &Value::Null));
    assert_eq!(whole["parts"][0]["state"], "ERROR", "{whole}");
}

#[test]
fn question_starts_stopped_machine() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    let first = create_stopped_answer(&vendor, &api);
    let second = api.ask_question("Elsewhere");
    for answer in [&first, &second] {
        let whole = api.wait_for_completion(answer);
        assert_eq!((&whole["text"], &whole["error"]), (&Value::from("Done."), &Value::Null));
    }
    assert_eq!(api.get_vm().json()["status"], "RUNNING");
}

#[test]
fn idle_machine_stops_and_keeps_files() {
    let vendor = ScriptedVendor::start();
    let mut environment = vendor.service_environment();
    environment.push(("CAUSERIE_MACHINE_IDLE_TIMEOUT".to_owned(), "1s".to_owned()));
    let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let api = service.api_for(&service.create_account());
    let write = json!({ "path": "/note.txt", "content": "kept" });
    vendor.add_script([Say::Call { tool: "write".to_owned(), arguments: write }]);
    vendor.add_script([Say::Hold, Say::from_text("Written.")]);
    let answer = api.ask_question("Write");
    vendor.wait_for_holds(1);
    let idle_before = api.new_request("GET", "/api/v1/vm");
    assert_eq!(idle_before.send(&api.address).json()["status"], "RUNNING", "an answer keeps it running");
    vendor.release_hold();
    assert_eq!(api.wait_for_completion(&answer)["text"], "Written.");
    wait_for(&api, "STOPPED");
    assert_eq!(api.download_file("/note.txt").expect_status(200).text(), "kept");
    vendor.add_script([Say::Call { tool: "read".to_owned(), arguments: json!({ "path": "/note.txt" }) }]);
    api.wait_for_completion(&api.ask_question("Read"));
    assert!(vendor.request_bodies().last().is_some_and(|asked| asked.to_string().contains("kept")));
}

#[test]
fn machine_start_failure_reaches_waiting_answer() {
    let StreamFixture { vendor, account, api, service } = stream_fixture();
    let place = service.data_folder().join("machines").join(&account.id);
    fs::create_dir_all(service.data_folder().join("machines")).expect("a folder");
    fs::write(&place, "no folder can be made here").expect("a file");
    let answer = api.ask_question("Hello");
    let whole = api.wait_for_completion(&answer);
    let message = whole["error"]["message"].as_str().expect("a sentence");
    assert_eq!((&whole["error"]["code"], &whole["text"]), (&json!("MACHINE_FAILED"), &json!(message)));
    assert!(
        !message.contains(service.data_folder().to_str().expect("a path")),
        "nothing internal: {message}"
    );
    assert!(service.log_text().contains("machine"), "it is logged");
    assert_eq!(service.show_credits(&account), (10_000, 0), "a failed answer costs nothing");
    assert!(vendor.request_bodies().is_empty());
    fs::remove_file(&place).expect("it is there");
    assert_eq!(api.wait_for_completion(&api.ask_question("Again"))["text"], "Done.");
}

#[test]
fn last_step_completes_without_machine() {
    let StreamFixture { vendor, account, api, service } = stream_fixture();
    vendor.add_script([Say::Hold, Say::from_text("Whole.")]);
    let answer = api.ask_question("Hello");
    vendor.wait_for_holds(1);
    let shown = service.run_admin_command(&["machine", "show", &account.email]);
    let machines = service.data_folder().join("machines");
    fs::rename(machines.join(&account.id), machines.join("moved")).expect("the folder of the machine");
    fs::write(machines.join(&account.id), "no folder can be made here").expect("a file");
    for pid in shown["pids"].as_array().expect("a list") {
        let pid = pid.as_i64().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        // One may have ended with another.
        let _ = kill_process(pid.expect("a process"), Signal::KILL);
    }
    let is_given_up = || service.log_text().contains("ending answers that need it").then_some(());
    poll::wait_until("the machine is given up", is_given_up);
    vendor.release_hold();
    let whole = api.wait_for_completion(&answer);
    assert_eq!((&whole["text"], &whole["error"]), (&json!("Whole."), &Value::Null), "{whole}");
}

#[test]
fn question_to_stopped_machine_refused() {
    let vendor = ScriptedVendor::start();
    let mut environment = vendor.service_environment();
    environment.push(("CAUSERIE_MACHINE_ON_QUESTION".to_owned(), "refuse".to_owned()));
    let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let account = service.create_account();
    let api = service.api_for(&account);
    let question = json!({ "input": "Hello" });
    let message = api.send_question(&question).expect_code(409, "MACHINE_NOT_RUNNING");
    assert!(message.contains("STOPPED"), "{message}");
    assert_eq!(api.get_vm().json()["status"], "STOPPED", "the machine is not started");
    assert_eq!(
        (api.list_chats("").json()["totalCount"].clone(), service.show_credits(&account)),
        (json!(0), (10_000, 0))
    );
    // A malformed question is rejected even while the machine is stopped.
    api.send_question(&json!({ "input": " " })).expect_code(400, "BAD_REQUEST");
    api.start_vm().expect_status(202);
    wait_for(&api, "RUNNING");
    let repeated = || {
        let request = api.new_request("POST", "/api/v1/chats").with_header("idempotency-key", "once");
        request.with_body(question.to_string()).send(&api.address)
    };
    let answer = api.wait_for_completion(&repeated().expect_status(202).json());
    assert_eq!(answer["text"], "Done.");
    api.stop_vm().expect_status(202);
    wait_for(&api, "STOPPED");
    assert_eq!(repeated().expect_status(201).json(), answer, "an accepted question stays accepted");
    let more = json!({ "input": "More", "chatId": answer["chatId"] });
    api.send_question(&more).expect_code(409, "MACHINE_NOT_RUNNING");
    // Also after a restart of the machine.
    api.start_vm().expect_status(202);
    wait_for(&api, "RUNNING");
    let mut service = service;
    service.kill();
    service.restart();
    let api = service.api_for(&account);
    wait_for(&api, "RUNNING");
    api.wait_for_completion(&api.expect_accepted(&more));
}

#[test]
fn declining_model_shown_in_parts() {
    let StreamFixture { vendor, account, api, service } = stream_fixture();
    vendor.add_script([Say::Decline]);
    let answer = api.wait_for_completion(&api.ask_question("Something awful"));
    let message = answer["error"]["message"].as_str().expect("a sentence");
    assert_eq!((&answer["error"]["code"], &answer["text"]), (&json!("MODEL_REFUSED"), &json!(message)));
    let parts = answer["parts"].as_array().expect("parts");
    assert!(parts.iter().any(|part| {
        part["type"] == "TEXT" && part["content"].as_str().is_some_and(|html| html.contains(message))
    }));
    assert_eq!(vendor.request_bodies().len(), 1, "it is not asked again");
    assert_eq!(service.show_credits(&account), (10_000, 0), "a declined answer costs nothing");
    // Text written before a filter cut the answer stays, and the answer is marked as incomplete.
    vendor.add_script([Say::from_text("The notice period is"), Say::Decline]);
    let answer = api
        .wait_for_completion(&api.expect_accepted(&json!({ "input": "Please", "chatId": answer["chatId"] })));
    let message = answer["error"]["message"].as_str().expect("a sentence");
    assert_eq!(answer["error"]["code"], "MODEL_REFUSED");
    assert_eq!(answer["text"], format!("The notice period is\n\n{message}"));
    assert_eq!(vendor.request_bodies().len(), 2, "it is not asked again");
}

#[test]
fn conversations_beyond_machine_limit_queue() {
    let vendor = ScriptedVendor::start();
    let mut environment = vendor.service_environment();
    environment.push(("CAUSERIE_MACHINE_ANSWERS_MAX".to_owned(), "1".to_owned()));
    let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let (api, other) =
        (service.api_for(&service.create_account()), service.api_for(&service.create_account()));
    vendor.add_script([Say::from_text("First"), Say::Hold]);
    let words = ["Erste", "Zweite", "Dritte", "Vierte"];
    let answers: Vec<Value> = words
        .iter()
        .map(|word| {
            let answer = api.ask_question(word);
            if *word == "Erste" {
                vendor.wait_for_holds(1);
            }
            answer
        })
        .collect();
    // Another account's machine has a separate limit.
    assert_eq!(other.wait_for_completion(&other.ask_question("Fremde"))["text"], "Done.");
    assert_eq!(vendor.request_bodies().len(), 2, "the others wait");
    assert!(answers[1..].iter().all(|answer| api.get_answer(answer)["status"] == "in_progress"));
    vendor.release_hold();
    for answer in &answers {
        api.wait_for_completion(answer);
    }
    let asked: Vec<String> = vendor.request_bodies().iter().map(Value::to_string).collect();
    let of = |word: &str| asked.iter().position(|asked| asked.contains(word)).expect(word);
    assert!(words.windows(2).all(|pair| of(pair[0]) < of(pair[1])), "{asked:?}");
}

#[test]
fn stopped_run_is_an_error_part() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    let run = Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": "sleep 600" }) };
    vendor.add_script([Say::from_text("I run it."), run]);
    let answer = api.ask_question("Run it");
    let mut events = api.stream_answer(&answer);
    events.find_event("a run", |event| event.data["parts"][1]["state"] == "PENDING");
    api.stop_chat(&id_field(&answer, "chatId")).expect_status(202);
    let last = events.remaining_events().pop().expect("a completion").data;
    assert_eq!((&last["parts"][1]["state"], &last["status"]), (&json!("ERROR"), &json!("completed")));
    assert_eq!(last["text"], "I run it.");
    assert!(last.get("error").is_none_or(Value::is_null), "{last}");
    assert_eq!(api.get_answer(&answer), last);
}

#[test]
fn repeated_attempt_removes_partial_text() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    vendor.add_script([Say::Reasoning("Hm".to_owned()), Say::from_text("Cut of"), Say::Hold, Say::Cut]);
    vendor.add_script([Say::Hold, Say::from_text("Whole.")]);
    let answer = api.ask_question("Go on");
    let mut events = api.stream_answer(&answer);
    let cut = find_shown_text(&mut events, "Cut of");
    vendor.release_hold();
    let gone = events.find_event("it is taken back", |event| event.text().is_empty());
    assert_eq!(gone.data["parts"], json!([]));
    assert!(e2e::events::parse_version(&cut.id) < e2e::events::parse_version(&gone.id));
    vendor.wait_for_holds(1);
    vendor.release_hold();
    let rest = events.remaining_events();
    assert!(rest.iter().all(|event| !event.data.to_string().contains("Cut of")), "{rest:?}");
    assert_eq!(rest.last().map(e2e::AnswerEvent::text), Some("Whole."));
    assert_eq!(api.wait_for_completion(&answer)["parts"].as_array().map(Vec::len), Some(1));
}

#[test]
fn chat_changes_with_question_and_completion() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    vendor.add_script([Say::from_text("Half"), Say::Hold]);
    let answer = api.ask_question("Go on");
    let chat = id_field(&answer, "chatId");
    vendor.wait_for_holds(1);
    let modified = || {
        let chat = api.get_chat(&chat).expect_status(200).json()["chat"].clone();
        (chat["status"].clone(), chat["modifiedAt"].as_str().expect("a time").to_owned())
    };
    let (status, asked) = modified();
    assert_eq!(status, "in_progress");
    vendor.release_hold();
    api.wait_for_completion(&answer);
    let (status, ended) = modified();
    assert!(status == "completed" && ended > asked, "{ended} after {asked}");
}

#[test]
fn internal_error_reveals_nothing() {
    let StreamFixture { api, service, .. } = stream_fixture();
    let mut connection = RawConnection::connect(&api.address).expect("a connection");
    let mut list = || {
        let (host, key) = (service.address(), &api.key);
        let head = format!("GET /api/v1/directories HTTP/1.1\r\nhost: {host}\r\nx-api-key: {key}\r\n\r\n");
        connection.write_bytes(head.as_bytes());
        connection.read_response("GET").expect("an answer")
    };
    list().expect_status(200);
    // From now on the service cannot open further descriptors.
    let process = Pid::from_raw(i32::try_from(service.process_id()).expect("a process id"));
    let opened = |number: &u64| Path::new(&format!("/proc/{}/fd/{number}", service.process_id())).exists();
    let free = (0..).find(|number| !opened(number));
    let before = prlimit(process, Resource::Nofile, Rlimit { current: free, ..getrlimit(Resource::Nofile) });
    let refused = list();
    prlimit(process, Resource::Nofile, before.expect("one's own process")).expect("one's own process");
    let message = refused.expect_code(500, "INTERNAL");
    assert!(!message.contains(['/', '(']) && !message.contains("open"), "{message}");
    poll::wait_until("it is logged", || service.log_text().contains("Too many open files").then_some(()));
    list().expect_status(200);
}
