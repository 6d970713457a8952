//! Upgrades: data of earlier versions is opened without loss, and open answers continue.
//!
//! Each folder in `tests/versions` was created by `examples/fixture.rs` when its number was the newest
//! version of the tables.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use conformance::{Account, DATABASE, Expect, Options, Service, Vendor, poll};
use rusqlite::Connection;
use serde_json::Value;

fn versions() -> Vec<PathBuf> {
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

fn is_kept(service: &Service, expected: &Value) {
    let text = |name: &str| expected[name].as_str().expect("a text").to_owned();
    let account =
        Account { id: text("account"), email: text("email"), key: text("key"), key_id: text("keyId") };
    let api = service.api(&account);
    let (done, under_way) = (&expected["done"], &expected["underWay"]);
    let balance = expected["balance"].as_i64().expect("credits");
    // Fields that a later version adds do not count as changes.
    let now = api.now(done);
    for (name, value) in done.as_object().expect("an answer") {
        assert_eq!(&now[name], value, "{name}");
    }
    let chat = api.chat(done["chatId"].as_str().expect("an id")).expect_status(200).json();
    assert_eq!(chat["chat"]["title"], expected["chat"]["chat"]["title"]);
    assert_eq!(chat["messages"][0]["text"], expected["chat"]["messages"][0]["text"]);
    assert_eq!(chat["messages"][1]["parts"], expected["chat"]["messages"][1]["parts"]);
    assert_eq!(api.chats("").json()["totalCount"], 2);
    let whole = api.completed(under_way);
    assert!(whole["error"].is_null() && whole["text"] == "Done.", "{whole}");
    let settled = || Some(service.credits(&account)).filter(|(_, reserved)| *reserved == 0);
    let (left, _) = poll::until("nothing is reserved", settled);
    assert!(left < balance, "the second answer was paid for");
    let granted = 10_000;
    let usage = service.admin(&["usage", "--account", &account.email]);
    assert_eq!(usage["total"]["credits"], granted - left, "{usage}");
    let keys = service.admin(&["key", "list", "--account", &account.email]);
    assert_eq!(keys["keys"][0]["keyId"], account.key_id.as_str());
}

/// Creates the account's folder, which is not part of the fixture.
fn make_workspace(service: &Service, expected: &Value) {
    let account = expected["account"].as_str().expect("an id");
    fs::create_dir_all(service.data().join("workspaces").join(account).join("uploads")).expect("a workspace");
}

#[test]
fn data_folders_of_earlier_versions_are_opened() {
    for version in versions() {
        let (vendor, expected) = (Vendor::start(), read_expected(&version, "sqlite.json"));
        let mut environment = vendor.environment();
        // SQLite even in a PostgreSQL run.
        environment.push((DATABASE.to_owned(), String::new()));
        let service = Service::start_on(Options { environment, ..Options::default() }, |service| {
            make_workspace(service, &expected);
            fs::copy(version.join("causerie.db"), service.data().join("causerie.db")).expect("a database");
        });
        is_kept(&service, &expected);
    }
}

#[test]
fn postgresql_databases_of_earlier_versions_are_opened() {
    for version in versions() {
        let (vendor, expected) = (Vendor::start(), read_expected(&version, "postgres.json"));
        let url = test_support::postgres::shared().new_database();
        let schema = url.rsplit_once("%3D").expect("a schema").1;
        let dump = fs::read_to_string(version.join("postgres.sql")).expect("a dump");
        test_support::postgres::shared()
            .script(&format!("DROP SCHEMA {schema};\n{}", dump.replace("THE_SCHEMA", schema)));
        let mut environment = vendor.environment();
        environment.push((DATABASE.to_owned(), url.clone()));
        let service = Service::start_on(Options { environment, ..Options::default() }, |service| {
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
    assert!(stderr.contains(words) && stderr.contains("run that program, or a later one"), "{stderr}");
}

fn run(mut command: Command) -> Output {
    command.stdin(Stdio::null()).output().expect("the binary can be run")
}

#[test]
fn what_a_later_version_wrote_is_refused_and_left_as_it_is() {
    let environment = vec![(DATABASE.to_owned(), String::new())];
    let mut service = Service::start(Options { environment, ..Options::default() });
    let account = service.account();
    service.terminate();
    let database = Connection::open(service.data().join("causerie.db")).expect("the database");
    database.execute("INSERT INTO migrations (version) VALUES (4711)", []).expect("a later version");
    let commands: [&[&str]; 3] = [
        &["serve", "--listen", "127.0.0.1:0"],
        &["machine", "list"],
        &["credits", "grant", "--account", &account.email, "5"],
    ];
    for arguments in commands {
        let mut command = service.command();
        command.args(arguments).arg("--data").arg(service.data());
        assert_too_new(&run(command));
    }
    let output = service.try_admin(&["machine", "list"]);
    let error: Value = serde_json::from_slice(&output.stderr).expect("one JSON object");
    assert_eq!(error["code"], "DATABASE_TOO_NEW");
    database.execute("DELETE FROM migrations WHERE version = 4711", []).expect("the version before");
    drop(database);
    service.restart();
    service.api(&account).vm().expect_status(200);
    assert_eq!(service.credits(&account), (10_000, 0), "nothing was changed");
}

#[test]
fn a_postgresql_database_of_a_later_version_is_refused() {
    let url = test_support::postgres::shared().new_database();
    let schema = url.rsplit_once("%3D").expect("a schema").1;
    let environment = vec![(DATABASE.to_owned(), url.clone())];
    let mut service = Service::start(Options { environment, ..Options::default() });
    let account = service.account();
    service.terminate();
    test_support::postgres::shared()
        .script(&format!("INSERT INTO {schema}.migrations (version) VALUES (4711);"));
    let mut command = service.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(service.data());
    let refused = run(command);
    assert_too_new(&refused);
    test_support::postgres::shared()
        .script(&format!("DELETE FROM {schema}.migrations WHERE version = 4711;"));
    service.restart();
    service.api(&account).vm().expect_status(200);
}
