//! The deletion of accounts: at once for clients, complete in the background, also across a kill.

use e2e::{Expect, Say, ScriptedVendor, ServiceOptions, TestAccount, TestService, poll};
use serde_json::{Value, json};

use crate::metrics::read_metrics;

fn account_folder_exists(service: &TestService, folder: &str, account: &TestAccount) -> bool {
    service.data_folder().join(folder).join(&account.id).exists()
}

/// Waits until only the ledger and the audit log are left of an account.
fn wait_until_removed(service: &TestService, account: &TestAccount) {
    let api = service.api_for(account);
    poll::wait_until("the account is removed", || {
        let kinds = ["remove_account", "remove_conversation"];
        let is_removal = |name: &str| kinds.iter().any(|kind| name.contains(&format!("kind=\"{kind}\"")));
        let jobs = read_metrics(&api).into_iter();
        let left: f64 = jobs
            .filter(|(name, _)| name.starts_with("causerie_jobs{") && is_removal(name))
            .map(|(_, value)| value)
            .sum();
        let is_gone = !account_folder_exists(service, "workspaces", account)
            && !account_folder_exists(service, "machines", account);
        (left == 0.0 && is_gone).then_some(())
    });
}

#[test]
fn deleted_account_leaves_nothing() {
    let vendor = ScriptedVendor::start();
    let service = TestService::start(ServiceOptions {
        environment: vendor.service_environment(),
        ..ServiceOptions::default()
    });
    let (account, other) = (service.create_account(), service.create_account());
    let (api, stranger) = (service.api_for(&account), service.api_for(&other));
    api.upload_file("secret.txt", b"The heron is red.").expect_status(201);
    stranger.upload_file("kept.txt", b"The owl is blue.").expect_status(201);
    api.wait_for_completion(&api.ask_question("Hello"));
    stranger.wait_for_completion(&stranger.ask_question("Hello"));
    // An answer that uses the machine and is in progress.
    vendor.add_script([Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": "true" }) }]);
    vendor.add_script([Say::from_text("Half"), Say::Hold]);
    let _open = api.ask_question("Go on");
    vendor.wait_for_holds(1);
    assert!(account_folder_exists(&service, "machines", &account));

    let refused = service.try_admin_command(&["account", "delete", &account.email]);
    let error: Value = serde_json::from_slice(&refused.stderr).expect("one JSON object");
    assert_eq!(error["code"], "CONFIRMATION_REQUIRED", "there is no terminal");
    api.list_chats("").expect_status(200);
    let deleted = service.run_admin_command(&["account", "delete", &account.email, "--yes"]);
    assert_eq!(deleted, json!({ "accountId": account.id, "email": account.email, "deleted": true }));

    assert_eq!(api.list_chats("").status, 401);
    let unknown = service.try_admin_command(&["account", "show", &account.email]);
    let error: Value = serde_json::from_slice(&unknown.stderr).expect("one JSON object");
    assert_eq!(error["code"], "NO_SUCH_ACCOUNT");
    let again = service.run_admin_command(&["account", "delete", &account.id, "--yes"]);
    assert_eq!((&again["deleted"], &again["email"]), (&json!(true), &Value::Null));
    vendor.release_hold();
    wait_until_removed(&service, &account);
    let audit = service.run_admin_command(&["audit", "list"]).to_string();
    assert!(audit.contains("delete account") && !audit.contains(&account.email), "{audit}");
    assert!(audit.contains(&format!("deleted:{}", account.id)) && audit.contains(&other.email), "{audit}");
    stranger.download_file("/uploads/kept.txt").expect_status(200);
    assert_eq!(stranger.list_chats("").json()["totalCount"], 1);
    stranger.wait_for_completion(&stranger.ask_question("Hello again"));
    // The email may be used again, by an account that starts empty.
    let made = service.run_admin_command(&[
        "account",
        "create",
        "--email",
        &account.email,
        "--licence-until",
        "2099-12-31",
    ]);
    assert_ne!(made["accountId"], account.id.as_str());
    let (_, key) = service.new_key(&account.email);
    let fresh = e2e::api::Api { key, ..api };
    assert_eq!(fresh.list_chats("").json()["totalCount"], 0);
    fresh.download_file("/uploads/secret.txt").expect_code(404, "NOT_FOUND");
}

#[test]
fn account_removal_resumes_after_kill() {
    let vendor = ScriptedVendor::start();
    let mut service = TestService::start(ServiceOptions {
        environment: vendor.service_environment(),
        ..ServiceOptions::default()
    });
    let (first, second) = (service.create_account(), service.create_account());
    for account in [&first, &second] {
        let api = service.api_for(account);
        api.upload_file("secret.txt", b"The heron is red.").expect_status(201);
        for _ in 0..3 {
            api.wait_for_completion(&api.ask_question("Hello"));
        }
    }
    service.run_admin_command(&["account", "delete", &first.email, "--yes"]);
    service.kill();
    service.run_admin_command(&["account", "delete", &second.email, "--yes"]);
    assert!(account_folder_exists(&service, "workspaces", &second), "it is not removed yet");
    service.restart();
    for account in [&first, &second] {
        assert_eq!(service.api_for(account).list_chats("").status, 401);
        wait_until_removed(&service, account);
    }
    assert_eq!(service.run_admin_command(&["account", "list"])["accounts"], json!([]));
    assert!(service.log_text().contains("welcome?invitation="), "an account can be made again");
}
