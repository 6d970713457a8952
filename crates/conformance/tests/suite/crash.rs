//! Crashes: every accepted question is completed once and charged once.

use conformance::api::id;
use conformance::{Expect, Options, Say, Service, poll};
use serde_json::{Value, json};

use crate::streams::{Stage, shows, stage};

fn settled(service: &Service, account: &conformance::Account) -> i64 {
    let nothing_reserved = || Some(service.credits(account)).filter(|(_, reserved)| *reserved == 0);
    poll::until("nothing is reserved", nothing_reserved).0
}

#[test]
fn an_answer_survives_the_death_of_the_service_and_is_paid_once() {
    let Stage { vendor, account, api, mut service } = stage();
    let start = service.credits(&account).0;
    vendor.will([Say::text("Said anew.")]);
    api.completed(&api.ask("Go on"));
    let plain = start - settled(&service, &account);
    assert!(plain > 0);
    vendor.will([Say::text("Said in va"), Say::Hold]);
    let answer = api.ask("Go on");
    shows(&mut api.events_of(&answer), "Said in va");
    service.kill();
    vendor.will([Say::text("Said anew.")]);
    service.restart();
    let api = service.api(&account);
    let whole = api.completed(&answer);
    assert_eq!((&whole["text"], &whole["error"]), (&Value::from("Said anew."), &Value::Null));
    let detail = api.chat(&id(&answer, "chatId")).expect_status(200).json();
    assert_eq!(detail["messages"].as_array().map(Vec::len), Some(2), "{detail}");
    assert_eq!(detail["chat"]["status"], "completed");
    assert_eq!(start - settled(&service, &account), 2 * plain, "each answer is paid for once");
    assert_eq!(
        api.completed(&api.accepted(&json!({ "input": "More", "chatId": answer["chatId"] })))["text"],
        "Done."
    );
}

#[test]
fn answers_in_ten_machines_survive_the_death_of_the_service() {
    let Stage { vendor, account: _, api: _, mut service } = stage();
    let accounts: Vec<_> = (0..10).map(|_| service.account()).collect();
    let call = Say::Call { tool: "list".to_owned(), arguments: json!({ "path": "/" }) };
    let mut answers = Vec::new();
    for account in &accounts {
        vendor.will([call.clone()]);
        vendor.will([Say::text("Said in va"), Say::Hold]);
        let answer = service.api(account).ask("Go on");
        shows(&mut service.api(account).events_of(&answer), "Said in va");
        answers.push(answer);
    }
    let before: Vec<_> = accounts.iter().map(|account| pids(&service, &account.id)).collect();
    assert!(before.iter().all(|pids| !pids.is_empty()), "{before:?}");
    service.kill();
    service.restart();
    for (account, answer) in accounts.iter().zip(&answers) {
        let whole = service.api(account).completed(answer);
        assert_eq!((&whole["text"], &whole["error"]), (&Value::from("Done."), &Value::Null));
    }
    let after: Vec<_> = accounts.iter().map(|account| pids(&service, &account.id)).collect();
    let first = |machines: &[Vec<i32>]| machines.iter().map(|pids| pids.first().copied()).collect::<Vec<_>>();
    assert_eq!(first(&after), first(&before), "the machines ran on");
}

#[test]
fn an_answer_goes_on_after_an_orderly_restart() {
    let Stage { vendor, account, api, mut service } = stage();
    vendor.will([Say::text("Said in va"), Say::Hold]);
    let answer = api.ask("Go on");
    let mut events = api.events_of(&answer);
    shows(&mut events, "Said in va");
    service.terminate();
    assert!(
        events.rest().iter().all(|event| event.name == "message"),
        "readers are disconnected, nothing is completed"
    );
    vendor.will([Say::text("Said anew.")]);
    service.restart();
    assert_eq!(service.api(&account).completed(&answer)["text"], "Said anew.");
}

#[test]
fn an_answer_outlives_its_machine() {
    let Stage { vendor, account, api, service } = stage();
    vendor.will([Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": "sleep 600" }) }]);
    vendor.will([Say::text("It was cut.")]);
    let answer = api.ask("Wait");
    api.events_of(&answer).find("a run", |event| event.data["parts"][0]["state"] == "PENDING");
    for pid in pids(&service, &account.id) {
        let pid = rustix::process::Pid::from_raw(pid).expect("a process id");
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    let whole = api.completed(&answer);
    assert_eq!((&whole["text"], &whole["error"]), (&Value::from("It was cut."), &Value::Null));
    assert_eq!(whole["parts"][0]["state"], "ERROR", "a run that was lost is not run again: {whole}");
    assert_eq!(vendor.requests().len(), 2);
}

fn pids(service: &Service, account: &str) -> Vec<i32> {
    let listed = service.admin(&["machine", "list"]);
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
fn a_tool_that_changes_something_is_not_run_twice() {
    let Stage { vendor, account, api, mut service } = stage();
    let command = "echo once >> /workspace/runs.txt; while [ ! -e /workspace/go ]; do sleep 0.05; done";
    vendor.will([Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": command }) }]);
    vendor.will([Say::text("Ran.")]);
    let answer = api.ask("Run it");
    poll::until("it runs", || (api.download("/runs.txt").status == 200).then_some(()));
    service.kill();
    service.restart();
    let api = service.api(&account);
    api.create_folder("/go").expect_status(201);
    let whole = api.completed(&answer);
    assert_eq!((&whole["text"], &whole["error"]), (&Value::from("Ran."), &Value::Null));
    assert_eq!(api.download("/runs.txt").expect_status(200).text(), "once\n");
}

#[test]
fn everything_that_was_stored_is_there_after_a_crash() {
    let mut service = Service::start(Options::default());
    let api = service.api(&service.account());
    api.upload("a.txt", "The rent is 900 crowns.".as_bytes()).expect_status(201);
    let answer = api.completed(&api.ask("What is the rent?"));
    let chat = id(&answer, "chatId");
    let listing = poll::until("the file is indexed", || {
        let listing = api.list("/uploads").json();
        (listing["indexing"]["indexed"] == 1).then_some(listing)
    });
    let detail = api.chat(&chat).json();
    for orderly in [false, true] {
        if orderly {
            service.terminate()
        } else {
            service.kill()
        }
        service.restart();
        let api = conformance::Api { address: service.address().into(), key: api.key.clone() };
        assert_eq!(api.now(&answer), answer);
        assert_eq!(api.chat(&chat).json(), detail);
        assert_eq!(api.list("/uploads").json(), listing);
        let events = api.events_of(&answer).rest();
        assert_eq!(events.iter().map(|event| &event.data).collect::<Vec<_>>(), [&answer]);
    }
}

#[test]
fn questions_that_were_accepted_before_a_crash_are_all_answered() {
    let Stage { vendor, account, api, mut service } = stage();
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let askers: Vec<_> = (0..12)
            .map(|n| {
                scope.spawn({
                    let api = &api;
                    move || api.ask(&format!("Question {n}"))
                })
            })
            .collect();
        askers.into_iter().map(|asker| asker.join().expect("an asker")).collect()
    });
    service.kill();
    service.restart();
    let api = service.api(&account);
    for answer in &answers {
        let whole = api.completed(answer);
        assert_eq!((&whole["text"], &whole["error"]), (&Value::from("Done."), &Value::Null));
    }
    assert_eq!(api.chats("").json()["totalCount"], 12);
    settled(&service, &account);
    drop(vendor);
}

#[test]
fn a_vendor_that_breaks_off_is_asked_again() {
    let Stage { vendor, api, service: _service, .. } = stage();
    vendor.will([Say::text("Cut of"), Say::Cut]);
    vendor.will([Say::Refuse(503)]);
    vendor.will([Say::text("Whole.")]);
    let answer = api.completed(&api.ask("Go on"));
    assert_eq!((&answer["text"], &answer["error"]), (&Value::from("Whole."), &Value::Null));
    assert_eq!(vendor.requests().len(), 3);
}

#[test]
fn a_service_without_its_vendor_starts_all_the_same() {
    let nobody = vec![
        ("OPENAI_BASE_URL".to_owned(), "http://127.0.0.1:9/v1".to_owned()),
        ("OPENAI_API_KEY".to_owned(), "sk-none".to_owned()),
    ];
    let service = Service::start(Options { environment: nobody, ..Options::default() });
    let api = service.api(&service.account());
    api.vm().expect_status(200);
    api.catalog("models", None).expect_status(200);
    api.list_home().expect_status(200);
}
