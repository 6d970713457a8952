//! Restricted keys: with an expiry, a scope, or a spending limit.

use std::process::Command;
use std::time::{Duration, Instant};

use e2e::api::id_field;
use e2e::operations::{all_operations, sample_target};
use e2e::{Api, Expect, Say, ServiceOptions, TestAccount, TestService, poll};
use serde_json::{Value, json};

use crate::authentication::assert_rejected;
use crate::streams::{StreamFixture, find_shown_text, stream_fixture};

/// The lifetime of a key that expires during use.
const LIFE_SECONDS: u64 = 3;
/// The time after the expiry within which its streams must end: five seconds, and the delay of a busy host.
const ENDED_WITHIN: Duration = Duration::from_secs(5 + 20);

/// Creates another key of the account with these arguments. Returns a caller with it and its id.
fn create_narrow_key(service: &TestService, account: &TestAccount, arguments: &[&str]) -> (Api, String) {
    let mut all = vec!["key", "create", "--account", &account.email, "--name", "narrow"];
    all.extend(arguments);
    let made = service.run_admin_command(&all);
    (service.api_for(account).with_key(made["key"].as_str().expect("a key")), id_field(&made, "keyId"))
}

fn find_listed_key(service: &TestService, account: &TestAccount, key: &str) -> Value {
    let keys = service.run_admin_command(&["key", "list", "--account", &account.email]);
    let mut keys = keys["keys"].as_array().expect("the keys").iter();
    keys.find(|one| one["keyId"] == key).expect("it is listed").clone()
}

/// Returns the scopes that an operation needs.
fn needed_scopes(method: &str, path: &str) -> &'static [&'static str] {
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
fn key_limited_to_its_scopes() {
    let service = TestService::start(ServiceOptions::default());
    let account = service.create_account();
    for scope in ["read", "ask", "files", "machine", "read,ask", "files, machine"] {
        let (api, key) = create_narrow_key(&service, &account, &["--scope", scope]);
        let words: Vec<&str> = scope.split(',').map(str::trim).collect();
        assert_eq!(find_listed_key(&service, &account, &key)["scope"], json!(words));
        for operation in all_operations() {
            let response = api.call_endpoint(operation.method, &sample_target(operation));
            if needed_scopes(operation.method, operation.path).iter().any(|one| words.contains(one)) {
                assert_ne!(response.status, 403, "{scope}: {} {}", operation.method, operation.path);
            } else {
                response.expect_code(403, "KEY_SCOPE");
            }
        }
        api.call_endpoint("GET", "/api/v1/nothing").expect_code(404, "NOT_FOUND");
    }
    let whole = find_listed_key(&service, &account, &account.key_id);
    assert_eq!(whole["scope"], json!(["read", "ask", "files", "machine"]));
    assert_eq!((&whole["spendingLimit"], &whole["spent"]), (&Value::Null, &Value::Null));
}

#[test]
fn expired_key_ends_its_streams() {
    let StreamFixture { vendor, account, api, service } = stream_fixture();
    vendor.add_script([Say::from_text("Half"), Say::Hold]);
    let answer = api.ask_question("Go on");
    let later = format!("+{LIFE_SECONDS} seconds");
    let time = Command::new("date").args(["-u", "-d", &later, "+%Y-%m-%dT%H:%M:%SZ"]).output();
    let until =
        String::from_utf8(time.expect("the time can be formatted").stdout).expect("a time").trim().to_owned();
    let made = Instant::now();
    let (short, key) = create_narrow_key(&service, &account, &["--expires", &until]);
    assert!(
        find_listed_key(&service, &account, &key)["expiresAt"]
            .as_str()
            .expect("a time")
            .starts_with(&until[..19])
    );
    let mut events = short.stream_answer(&answer);
    find_shown_text(&mut events, "Half");
    while events.next_event().is_some() {}
    assert!(made.elapsed() < Duration::from_secs(LIFE_SECONDS) + ENDED_WITHIN, "{:?}", made.elapsed());
    poll::wait_until("the key has ended", || (short.get_vm().status == 401).then_some(()));
    assert_rejected(&short);
    api.get_vm().expect_status(200);
    vendor.release_hold();
    api.wait_for_completion(&answer);
}

#[test]
fn key_spends_at_most_its_limit() {
    let service = TestService::start(ServiceOptions::default());
    let account = service.create_account();
    let api = service.api_for(&account);
    // A question to the reader costs one credit.
    let (thrifty, key) = create_narrow_key(&service, &account, &["--spending-limit", "5"]);
    let ask = || match thrifty.send_question(&json!({ "input": "What is the rent?" })) {
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
        api.wait_for_completion(answer);
    }
    let entry = find_listed_key(&service, &account, &key);
    assert_eq!((&entry["spendingLimit"], &entry["spent"]), (&json!(5), &json!(5)));
    thrifty.send_question(&json!({ "input": "And the deposit?" })).expect_code(409, "SPENDING_LIMIT");
    thrifty.get_vm().expect_status(200);
    api.wait_for_completion(&api.ask_question("And the deposit?"));
}
