//! Crashes: every accepted question is completed once and charged once.

use e2e::api::id_field;
use e2e::{Expect, Say, ServiceOptions, TestService, poll};
use serde_json::{Value, json};

use crate::streams::{StreamFixture, find_shown_text, stream_fixture};

fn wait_until_settled(service: &TestService, account: &e2e::TestAccount) -> i64 {
    let nothing_reserved = || Some(service.show_credits(account)).filter(|(_, reserved)| *reserved == 0);
    poll::wait_until("nothing is reserved", nothing_reserved).0
}

#[test]
fn killed_answer_resumes_and_paid_once() {
    let StreamFixture { vendor, account, api, mut service } = stream_fixture();
    let start = service.show_credits(&account).0;
    vendor.add_script([Say::from_text("Said anew.")]);
    api.wait_for_completion(&api.ask_question("Go on"));
    let plain = start - wait_until_settled(&service, &account);
    assert!(plain > 0);
    vendor.add_script([Say::from_text("Said in va"), Say::Hold]);
    let answer = api.ask_question("Go on");
    find_shown_text(&mut api.stream_answer(&answer), "Said in va");
    service.kill();
    vendor.add_script([Say::from_text("Said anew.")]);
    service.restart();
    let api = service.api_for(&account);
    let whole = api.wait_for_completion(&answer);
    assert_eq!((&whole["text"], &whole["error"]), (&Value::from("Said anew."), &Value::Null));
    let detail = api.get_chat(&id_field(&answer, "chatId")).expect_status(200).json();
    assert_eq!(detail["messages"].as_array().map(Vec::len), Some(2), "{detail}");
    assert_eq!(detail["chat"]["status"], "completed");
    assert_eq!(start - wait_until_settled(&service, &account), 2 * plain, "each answer is paid for once");
    assert_eq!(
        api.wait_for_completion(
            &api.expect_accepted(&json!({ "input": "More", "chatId": answer["chatId"] }))
        )["text"],
        "Done."
    );
}

#[test]
fn answers_in_ten_machines_survive_kill() {
    let StreamFixture { vendor, account: _, api: _, mut service } = stream_fixture();
    let accounts: Vec<_> = (0..10).map(|_| service.create_account()).collect();
    let call = Say::Call { tool: "list".to_owned(), arguments: json!({ "path": "/" }) };
    let mut answers = Vec::new();
    for account in &accounts {
        vendor.add_script([call.clone()]);
        vendor.add_script([Say::from_text("Said in va"), Say::Hold]);
        let answer = service.api_for(account).ask_question("Go on");
        find_shown_text(&mut service.api_for(account).stream_answer(&answer), "Said in va");
        answers.push(answer);
    }
    let before: Vec<_> = accounts.iter().map(|account| machine_pids(&service, &account.id)).collect();
    assert!(before.iter().all(|pids| !pids.is_empty()), "{before:?}");
    service.kill();
    service.restart();
    for (account, answer) in accounts.iter().zip(&answers) {
        let whole = service.api_for(account).wait_for_completion(answer);
        assert_eq!((&whole["text"], &whole["error"]), (&Value::from("Done."), &Value::Null));
    }
    let after: Vec<_> = accounts.iter().map(|account| machine_pids(&service, &account.id)).collect();
    let first = |machines: &[Vec<i32>]| machines.iter().map(|pids| pids.first().copied()).collect::<Vec<_>>();
    assert_eq!(first(&after), first(&before), "the machines ran on");
}

#[test]
fn answer_continues_after_orderly_restart() {
    let StreamFixture { vendor, account, api, mut service } = stream_fixture();
    vendor.add_script([Say::from_text("Said in va"), Say::Hold]);
    let answer = api.ask_question("Go on");
    let mut events = api.stream_answer(&answer);
    find_shown_text(&mut events, "Said in va");
    service.terminate();
    assert!(
        events.remaining_events().iter().all(|event| event.name == "message"),
        "readers are disconnected, nothing is completed"
    );
    vendor.add_script([Say::from_text("Said anew.")]);
    service.restart();
    assert_eq!(service.api_for(&account).wait_for_completion(&answer)["text"], "Said anew.");
}

#[test]
fn an_answer_outlives_its_machine() {
    let StreamFixture { vendor, account, api, service } = stream_fixture();
    vendor.add_script([Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": "sleep 600" }) }]);
    vendor.add_script([Say::from_text("It was cut.")]);
    let answer = api.ask_question("Wait");
    api.stream_answer(&answer).find_event("a run", |event| event.data["parts"][0]["state"] == "PENDING");
    for pid in machine_pids(&service, &account.id) {
        let pid = rustix::process::Pid::from_raw(pid).expect("a process id");
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    let whole = api.wait_for_completion(&answer);
    assert_eq!((&whole["text"], &whole["error"]), (&Value::from("It was cut."), &Value::Null));
    assert_eq!(whole["parts"][0]["state"], "ERROR", "a run that was lost is not run again: {whole}");
    assert_eq!(vendor.request_bodies().len(), 2);
}

fn machine_pids(service: &TestService, account: &str) -> Vec<i32> {
    let listed = service.run_admin_command(&["machine", "list"]);
    let machines = listed["machines"].as_array().expect("machines");
    let machine = machines.iter().find(|machine| machine["account"] == account).unwrap_or(&Value::Null);
    let pids: Vec<i32> = machine["pids"]
        .as_array()
        .expect("process ids")
        .iter()
        .filter_map(|pid| i32::try_from(pid.as_i64()?).ok())
        .collect();
    assert!(!pids.is_empty(), "{listed}");
    pids
}

#[test]
fn effectful_tool_is_not_run_twice() {
    let StreamFixture { vendor, account, api, mut service } = stream_fixture();
    let command = "echo once >> /workspace/runs.txt; while [ ! -e /workspace/go ]; do sleep 0.05; done";
    vendor.add_script([Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": command }) }]);
    vendor.add_script([Say::from_text("Ran.")]);
    let answer = api.ask_question("Run it");
    poll::wait_until("it runs", || (api.download_file("/runs.txt").status == 200).then_some(()));
    service.kill();
    service.restart();
    let api = service.api_for(&account);
    api.create_folder("/go").expect_status(201);
    let whole = api.wait_for_completion(&answer);
    assert_eq!((&whole["text"], &whole["error"]), (&Value::from("Ran."), &Value::Null));
    assert_eq!(api.download_file("/runs.txt").expect_status(200).text(), "once\n");
}

#[test]
fn stored_data_survives_crash() {
    let mut service = TestService::start(ServiceOptions::default());
    let api = service.api_for(&service.create_account());
    api.upload_file("a.txt", "The rent is 900 crowns.".as_bytes()).expect_status(201);
    let answer = api.wait_for_completion(&api.ask_question("What is the rent?"));
    let chat = id_field(&answer, "chatId");
    let listing = poll::wait_until("the file is indexed", || {
        let listing = api.list_directory("/uploads").json();
        (listing["indexing"]["indexed"] == 1).then_some(listing)
    });
    let detail = api.get_chat(&chat).json();
    for orderly in [false, true] {
        if orderly {
            service.terminate()
        } else {
            service.kill()
        }
        service.restart();
        let api = e2e::Api { address: service.address().into(), key: api.key.clone() };
        assert_eq!(api.get_answer(&answer), answer);
        assert_eq!(api.get_chat(&chat).json(), detail);
        assert_eq!(api.list_directory("/uploads").json(), listing);
        let events = api.stream_answer(&answer).remaining_events();
        assert_eq!(events.iter().map(|event| &event.data).collect::<Vec<_>>(), [&answer]);
    }
}

#[test]
fn accepted_questions_survive_crash() {
    let StreamFixture { vendor, account, api, mut service } = stream_fixture();
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let askers: Vec<_> = (0..12)
            .map(|n| {
                scope.spawn({
                    let api = &api;
                    move || api.ask_question(&format!("Question {n}"))
                })
            })
            .collect();
        askers.into_iter().map(|asker| asker.join().expect("an asker")).collect()
    });
    service.kill();
    service.restart();
    let api = service.api_for(&account);
    for answer in &answers {
        let whole = api.wait_for_completion(answer);
        assert_eq!((&whole["text"], &whole["error"]), (&Value::from("Done."), &Value::Null));
    }
    assert_eq!(api.list_chats("").json()["totalCount"], 12);
    wait_until_settled(&service, &account);
    drop(vendor);
}

#[test]
fn broken_vendor_stream_is_retried() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    vendor.add_script([Say::from_text("Cut of"), Say::Cut]);
    vendor.add_script([Say::Refuse(503)]);
    vendor.add_script([Say::from_text("Whole.")]);
    let answer = api.wait_for_completion(&api.ask_question("Go on"));
    assert_eq!((&answer["text"], &answer["error"]), (&Value::from("Whole."), &Value::Null));
    assert_eq!(vendor.request_bodies().len(), 3);
}

#[test]
fn service_starts_without_its_vendor() {
    let nobody = vec![
        ("OPENAI_BASE_URL".to_owned(), "http://127.0.0.1:9/v1".to_owned()),
        ("OPENAI_API_KEY".to_owned(), "sk-none".to_owned()),
    ];
    let service = TestService::start(ServiceOptions { environment: nobody, ..ServiceOptions::default() });
    let api = service.api_for(&service.create_account());
    api.get_vm().expect_status(200);
    api.get_catalog("models", None).expect_status(200);
    api.list_home().expect_status(200);
}
