//! The deletion of accounts: at once for clients, complete in the background, also across a kill.

use conformance::{Account, Expect, Options, Say, Service, Vendor, poll};
use serde_json::{Value, json};

use crate::metrics::metrics;

fn exists(service: &Service, folder: &str, account: &Account) -> bool {
    service.data().join(folder).join(&account.id).exists()
}

/// Waits until nothing but the ledger and the audit log is left of an account.
fn removed(service: &Service, account: &Account) {
    let api = service.api(account);
    poll::until("the account is removed", || {
        let kinds = ["remove_account", "remove_conversation"];
        let is_removal = |name: &str| kinds.iter().any(|kind| name.contains(&format!("kind=\"{kind}\"")));
        let jobs = metrics(&api).into_iter();
        let left: f64 = jobs
            .filter(|(name, _)| name.starts_with("causerie_jobs{") && is_removal(name))
            .map(|(_, value)| value)
            .sum();
        let is_gone = !exists(service, "workspaces", account) && !exists(service, "machines", account);
        (left == 0.0 && is_gone).then_some(())
    });
}

#[test]
fn a_deleted_account_is_gone_with_all_that_was_its_own() {
    let vendor = Vendor::start();
    let service = Service::start(Options { environment: vendor.environment(), ..Options::default() });
    let (account, other) = (service.account(), service.account());
    let (api, stranger) = (service.api(&account), service.api(&other));
    api.upload("secret.txt", b"The heron is red.").expect_status(201);
    stranger.upload("kept.txt", b"The owl is blue.").expect_status(201);
    api.completed(&api.ask("Hello"));
    stranger.completed(&stranger.ask("Hello"));
    // An answer that uses the machine and is in progress.
    vendor.will([Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": "true" }) }]);
    vendor.will([Say::text("Half"), Say::Hold]);
    let _open = api.ask("Go on");
    vendor.wait_held(1);
    assert!(exists(&service, "machines", &account));

    let refused = service.try_admin(&["account", "delete", &account.email]);
    let error: Value = serde_json::from_slice(&refused.stderr).expect("one JSON object");
    assert_eq!(error["code"], "CONFIRMATION_REQUIRED", "there is no terminal");
    api.chats("").expect_status(200);
    let deleted = service.admin(&["account", "delete", &account.email, "--yes"]);
    assert_eq!(deleted, json!({ "accountId": account.id, "email": account.email, "deleted": true }));

    assert_eq!(api.chats("").status, 401);
    let unknown = service.try_admin(&["account", "show", &account.email]);
    let error: Value = serde_json::from_slice(&unknown.stderr).expect("one JSON object");
    assert_eq!(error["code"], "NO_SUCH_ACCOUNT");
    let again = service.admin(&["account", "delete", &account.id, "--yes"]);
    assert_eq!((&again["deleted"], &again["email"]), (&json!(true), &Value::Null));
    vendor.release();
    removed(&service, &account);
    let audit = service.admin(&["audit", "list"]).to_string();
    assert!(audit.contains("delete account") && !audit.contains(&account.email), "{audit}");
    assert!(audit.contains(&format!("deleted:{}", account.id)) && audit.contains(&other.email), "{audit}");
    stranger.download("/uploads/kept.txt").expect_status(200);
    assert_eq!(stranger.chats("").json()["totalCount"], 1);
    stranger.completed(&stranger.ask("Hello again"));
    // The email may be used again, by an account that begins with nothing.
    let made =
        service.admin(&["account", "create", "--email", &account.email, "--licence-until", "2099-12-31"]);
    assert_ne!(made["accountId"], account.id.as_str());
    let (_, key) = service.new_key(&account.email);
    let fresh = conformance::api::Api { key, ..api };
    assert_eq!(fresh.chats("").json()["totalCount"], 0);
    fresh.download("/uploads/secret.txt").expect_code(404, "NOT_FOUND");
}

#[test]
fn a_removal_goes_on_after_a_kill_and_without_a_service_with_the_next_one() {
    let vendor = Vendor::start();
    let mut service = Service::start(Options { environment: vendor.environment(), ..Options::default() });
    let (first, second) = (service.account(), service.account());
    for account in [&first, &second] {
        let api = service.api(account);
        api.upload("secret.txt", b"The heron is red.").expect_status(201);
        for _ in 0..3 {
            api.completed(&api.ask("Hello"));
        }
    }
    service.admin(&["account", "delete", &first.email, "--yes"]);
    service.kill();
    service.admin(&["account", "delete", &second.email, "--yes"]);
    assert!(exists(&service, "workspaces", &second), "nobody removes it yet");
    service.restart();
    for account in [&first, &second] {
        assert_eq!(service.api(account).chats("").status, 401);
        removed(&service, account);
    }
    assert_eq!(service.admin(&["account", "list"])["accounts"], json!([]));
    assert!(service.log().contains("welcome?invitation="), "an account can be made again");
}
