//! Upgrades: data of earlier versions is opened without loss, and open answers continue.
//!
//! Each folder in `tests/versions` was created by `examples/fixture.rs` when its number was the newest
//! version of the tables.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use e2e::{DATABASE, Expect, ScriptedVendor, ServiceOptions, TestAccount, TestService, poll};
use rusqlite::Connection;
use serde_json::Value;

fn version_folders() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/versions");
    let found: Vec<PathBuf> =
        fs::read_dir(folder).expect("versions").map(|entry| entry.expect("a version").path()).collect();
    assert!(!found.is_empty());
    found
}

fn read_expected(version: &Path, name: &str) -> Value {
    let text = fs::read(version.join(name)).expect("what is in it");
    serde_json::from_slice(&text).expect("JSON")
}

fn is_kept(service: &TestService, expected: &Value) {
    let text = |name: &str| expected[name].as_str().expect("a text").to_owned();
    let account =
        TestAccount { id: text("account"), email: text("email"), key: text("key"), key_id: text("keyId") };
    let api = service.api_for(&account);
    let (done, under_way) = (&expected["done"], &expected["underWay"]);
    let balance = expected["balance"].as_i64().expect("credits");
    // Fields that a later version adds do not count as changes.
    let now = api.get_answer(done);
    for (name, value) in done.as_object().expect("an answer") {
        assert_eq!(&now[name], value, "{name}");
    }
    let chat = api.get_chat(done["chatId"].as_str().expect("an id")).expect_status(200).json();
    assert_eq!(chat["chat"]["title"], expected["chat"]["chat"]["title"]);
    assert_eq!(chat["messages"][0]["text"], expected["chat"]["messages"][0]["text"]);
    assert_eq!(chat["messages"][1]["parts"], expected["chat"]["messages"][1]["parts"]);
    assert_eq!(api.list_chats("").json()["totalCount"], 2);
    let whole = api.wait_for_completion(under_way);
    assert!(whole["error"].is_null() && whole["text"] == "Done.", "{whole}");
    let settled = || Some(service.show_credits(&account)).filter(|(_, reserved)| *reserved == 0);
    let (left, _) = poll::wait_until("nothing is reserved", settled);
    assert!(left < balance, "the second answer was paid for");
    let granted = 10_000;
    let usage = service.run_admin_command(&["usage", "--account", &account.email]);
    assert_eq!(usage["total"]["credits"], granted - left, "{usage}");
    let keys = service.run_admin_command(&["key", "list", "--account", &account.email]);
    assert_eq!(keys["keys"][0]["keyId"], account.key_id.as_str());
}

/// Creates the account's folder, which is not part of the fixture.
fn make_workspace(service: &TestService, expected: &Value) {
    let account = expected["account"].as_str().expect("an id");
    fs::create_dir_all(service.data_folder().join("workspaces").join(account).join("uploads"))
        .expect("a workspace");
}

#[test]
fn earlier_data_folders_are_opened() {
    for version in version_folders() {
        let (vendor, expected) = (ScriptedVendor::start(), read_expected(&version, "sqlite.json"));
        let mut environment = vendor.service_environment();
        // SQLite even in a PostgreSQL run.
        environment.push((DATABASE.to_owned(), String::new()));
        let service =
            TestService::start_on(ServiceOptions { environment, ..ServiceOptions::default() }, |service| {
                make_workspace(service, &expected);
                fs::copy(version.join("causerie.db"), service.data_folder().join("causerie.db"))
                    .expect("a database");
            });
        is_kept(&service, &expected);
    }
}

#[test]
fn earlier_postgresql_databases_are_opened() {
    for version in version_folders() {
        let (vendor, expected) = (ScriptedVendor::start(), read_expected(&version, "postgres.json"));
        let url = test_support::postgres::shared_server().new_database();
        let schema = url.rsplit_once("%3D").expect("a schema").1;
        let dump = fs::read_to_string(version.join("postgres.sql")).expect("a dump");
        test_support::postgres::shared_server()
            .run_script(&format!("DROP SCHEMA {schema};\n{}", dump.replace("THE_SCHEMA", schema)));
        let mut environment = vendor.service_environment();
        environment.push((DATABASE.to_owned(), url.clone()));
        let service =
            TestService::start_on(ServiceOptions { environment, ..ServiceOptions::default() }, |service| {
                make_workspace(service, &expected);
            });
        is_kept(&service, &expected);
    }
}

/// Checks the error of a program that finds tables of a later version.
fn assert_too_new(refused: &Output) {
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "{stderr}");
    let words = "a later version of this program wrote the database: its tables have version 4711, and";
    assert!(stderr.contains(words) && stderr.contains("run that version or a later one"), "{stderr}");
}

fn run_to_end(mut command: Command) -> Output {
    command.stdin(Stdio::null()).output().expect("the binary can be run")
}

#[test]
fn later_data_folder_refused_unchanged() {
    let environment = vec![(DATABASE.to_owned(), String::new())];
    let mut service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let account = service.create_account();
    service.terminate();
    let database = Connection::open(service.data_folder().join("causerie.db")).expect("the database");
    database.execute("INSERT INTO migrations (version) VALUES (4711)", []).expect("a later version");
    let commands: [&[&str]; 3] = [
        &["serve", "--listen", "127.0.0.1:0"],
        &["machine", "list"],
        &["credits", "grant", "--account", &account.email, "5"],
    ];
    for arguments in commands {
        let mut command = service.build_command();
        command.args(arguments).arg("--data").arg(service.data_folder());
        assert_too_new(&run_to_end(command));
    }
    let output = service.try_admin_command(&["machine", "list"]);
    let error: Value = serde_json::from_slice(&output.stderr).expect("one JSON object");
    assert_eq!(error["code"], "DATABASE_TOO_NEW");
    database.execute("DELETE FROM migrations WHERE version = 4711", []).expect("the version before");
    drop(database);
    service.restart();
    service.api_for(&account).get_vm().expect_status(200);
    assert_eq!(service.show_credits(&account), (10_000, 0), "nothing was changed");
}

#[test]
fn later_postgresql_database_is_refused() {
    let url = test_support::postgres::shared_server().new_database();
    let schema = url.rsplit_once("%3D").expect("a schema").1;
    let environment = vec![(DATABASE.to_owned(), url.clone())];
    let mut service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let account = service.create_account();
    service.terminate();
    test_support::postgres::shared_server()
        .run_script(&format!("INSERT INTO {schema}.migrations (version) VALUES (4711);"));
    let mut command = service.build_command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(service.data_folder());
    let refused = run_to_end(command);
    assert_too_new(&refused);
    test_support::postgres::shared_server()
        .run_script(&format!("DELETE FROM {schema}.migrations WHERE version = 4711;"));
    service.restart();
    service.api_for(&account).get_vm().expect_status(200);
}
