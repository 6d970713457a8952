//! Restricted keys: with an expiry, a scope, or a spending limit.

use std::process::Command;
use std::time::{Duration, Instant};

use conformance::api::id;
use conformance::operations::{operations, sample_target};
use conformance::{Account, Api, Expect, Options, Say, Service, poll};
use serde_json::{Value, json};

use crate::authentication::assert_rejected;
use crate::streams::{Stage, shows, stage};

/// The lifetime of a key that expires during use.
const LIFE_SECONDS: u64 = 3;
/// The time after the expiry within which its streams must end: five seconds, and what a busy host adds.
const ENDED_WITHIN: Duration = Duration::from_secs(5 + 20);

/// Creates another key of the account with these arguments. Returns a caller with it and its id.
fn narrow(service: &Service, account: &Account, arguments: &[&str]) -> (Api, String) {
    let mut all = vec!["key", "create", "--account", &account.email, "--name", "narrow"];
    all.extend(arguments);
    let made = service.admin(&all);
    (service.api(account).with_key(made["key"].as_str().expect("a key")), id(&made, "keyId"))
}

fn listed(service: &Service, account: &Account, key: &str) -> Value {
    let keys = service.admin(&["key", "list", "--account", &account.email]);
    let mut keys = keys["keys"].as_array().expect("the keys").iter();
    keys.find(|one| one["keyId"] == key).expect("it is listed").clone()
}

/// Returns the scopes that an operation needs.
fn needs(method: &str, path: &str) -> &'static [&'static str] {
    match (method, path) {
        ("GET", "/api/v1/vm") => &["read", "ask", "files", "machine"],
        ("POST", "/api/v1/vm/start" | "/api/v1/vm/stop") => &["machine"],
        ("GET", path) if path.starts_with("/api/v1/chats") => &["read"],
        (_, path) if path.starts_with("/api/v1/chats") => &["ask"],
        (_, path) if path.starts_with("/api/v1/files") || path.starts_with("/api/v1/directories") => {
            &["files"]
        }
        ("GET", _) => &["read", "ask"],
        _ => &[],
    }
}

#[test]
fn a_key_does_only_what_its_scope_holds() {
    let service = Service::start(Options::default());
    let account = service.account();
    for scope in ["read", "ask", "files", "machine", "read,ask", "files, machine"] {
        let (api, key) = narrow(&service, &account, &["--scope", scope]);
        let words: Vec<&str> = scope.split(',').map(str::trim).collect();
        assert_eq!(listed(&service, &account, &key)["scope"], json!(words));
        for operation in operations() {
            let response = api.call(operation.method, &sample_target(operation));
            if needs(operation.method, operation.path).iter().any(|one| words.contains(one)) {
                assert_ne!(response.status, 403, "{scope}: {} {}", operation.method, operation.path);
            } else {
                response.expect_code(403, "KEY_SCOPE");
            }
        }
        api.call("GET", "/api/v1/nothing").expect_code(404, "NOT_FOUND");
    }
    let whole = listed(&service, &account, &account.key_id);
    assert_eq!(whole["scope"], json!(["read", "ask", "files", "machine"]));
    assert_eq!((&whole["spendingLimit"], &whole["spent"]), (&Value::Null, &Value::Null));
}

#[test]
fn a_key_ends_by_itself_and_its_streams_with_it() {
    let Stage { vendor, account, api, service } = stage();
    vendor.will([Say::text("Half"), Say::Hold]);
    let answer = api.ask("Go on");
    let later = format!("+{LIFE_SECONDS} seconds");
    let time = Command::new("date").args(["-u", "-d", &later, "+%Y-%m-%dT%H:%M:%SZ"]).output();
    let until =
        String::from_utf8(time.expect("the time can be formatted").stdout).expect("a time").trim().to_owned();
    let made = Instant::now();
    let (short, key) = narrow(&service, &account, &["--expires", &until]);
    assert!(
        listed(&service, &account, &key)["expiresAt"].as_str().expect("a time").starts_with(&until[..19])
    );
    let mut events = short.events_of(&answer);
    shows(&mut events, "Half");
    while events.event().is_some() {}
    assert!(made.elapsed() < Duration::from_secs(LIFE_SECONDS) + ENDED_WITHIN, "{:?}", made.elapsed());
    poll::until("the key has ended", || (short.vm().status == 401).then_some(()));
    assert_rejected(&short);
    api.vm().expect_status(200);
    vendor.release();
    api.completed(&answer);
}

#[test]
fn a_key_spends_no_more_than_its_limit() {
    let service = Service::start(Options::default());
    let account = service.account();
    let api = service.api(&account);
    // A question to the reader costs one credit.
    let (thrifty, key) = narrow(&service, &account, &["--spending-limit", "5"]);
    let ask = || match thrifty.send(&json!({ "input": "What is the rent?" })) {
        refused if refused.status == 409 => {
            refused.expect_code(409, "SPENDING_LIMIT");
            None
        }
        accepted => Some(accepted.expect_status(202).json()),
    };
    let answers: Vec<Option<Value>> = std::thread::scope(|scope| {
        let askers: Vec<_> = (0..16).map(|_| scope.spawn(ask)).collect();
        askers.into_iter().map(|asker| asker.join().expect("an asker")).collect()
    });
    let accepted: Vec<&Value> = answers.iter().flatten().collect();
    assert_eq!(accepted.len(), 5);
    for answer in accepted {
        api.completed(answer);
    }
    let entry = listed(&service, &account, &key);
    assert_eq!((&entry["spendingLimit"], &entry["spent"]), (&json!(5), &json!(5)));
    thrifty.send(&json!({ "input": "And the deposit?" })).expect_code(409, "SPENDING_LIMIT");
    thrifty.vm().expect_status(200);
    api.completed(&api.ask("And the deposit?"));
}
