//! The operator's commands for machines, with a running service and without one.

use std::fs;
use std::path::PathBuf;

use conformance::{Expect, NewAccount, Options, Service, poll};
use serde_json::{Value, json};

fn listed(service: &Service) -> Value {
    service.admin(&["machine", "list"])["machines"][0].clone()
}

fn shown(service: &Service, account: &str) -> Value {
    service.admin(&["machine", "show", account])
}

/// Returns the code with which a command fails.
fn code(service: &Service, arguments: &[&str]) -> String {
    let output = service.try_admin(arguments);
    assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}");
    let error: Value = serde_json::from_slice(&output.stderr).expect("one JSON object");
    error["code"].as_str().expect("a code").to_owned()
}

/// Returns what a command prints for people.
fn printed(service: &Service, arguments: &[&str]) -> String {
    let mut command = service.command();
    let output = command.args(arguments).arg("--data").arg(service.data()).output().expect("it can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn is_running(machine: &Value) {
    assert_eq!(machine["status"], "RUNNING", "{machine}");
    assert!(machine["driver"].as_str().is_some_and(|driver| driver.contains("(limits: ")), "{machine}");
    let pids = machine["pids"].as_array().expect("a list");
    // Others come and go, such as those that read documents.
    assert!(pids.iter().filter(|pid| lives(pid)).count() >= 2, "{machine}");
}

fn lives(pid: &Value) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

fn index(service: &Service, account: &str) -> Option<PathBuf> {
    let folder = service.data().join("machines").join(account);
    ["index", "index-uml", "index-qemu"]
        .map(|name| folder.join(name))
        .into_iter()
        .find(|index| index.exists())
}

#[test]
fn a_machine_is_started_shown_stopped_and_reset() {
    let service = Service::start(Options::default());
    let account = service.account();
    let api = service.api(&account);
    let (id, email) = (account.id.as_str(), account.email.as_str());
    let before = shown(&service, email);
    assert_eq!((&before["status"], &before["pids"]), (&json!("STOPPED"), &json!([])), "{before}");
    assert_eq!((&before["startedAt"], &before["memoryBytes"]), (&Value::Null, &Value::Null), "{before}");
    assert!(before["isolation"].is_string(), "{before}");

    let started = service.admin(&["machine", "start", email]);
    assert_eq!(started, json!({ "account": id, "email": email, "status": "RUNNING" }));
    is_running(&listed(&service));
    let running = shown(&service, id);
    is_running(&running);
    assert!(running["memoryBytes"].as_u64().is_some_and(|bytes| bytes > 1_000_000), "{running}");
    assert!(running["startedAt"].as_str().is_some_and(|at| at.ends_with('Z')), "{running}");
    assert_eq!(running["reason"], "a start was requested");
    assert!(running["log"].as_str().is_some_and(|log| fs::exists(log).expect("a path")), "{running}");
    assert!(service.admin(&["machine", "log", email])["log"].is_string());
    let table = printed(&service, &["machine", "list"]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("EMAIL ") && lines[1].starts_with(email), "{table}");
    assert!(lines[1].contains(id), "{table}");
    assert_eq!(listed(&service)["email"], email);
    assert!(printed(&service, &["machine", "show", email]).contains("status: RUNNING\n"));

    let stopped = service.admin(&["machine", "stop", email]);
    assert_eq!(stopped["status"], "STOPPED");
    assert!(!running["pids"].as_array().expect("a list").iter().any(lives), "{running}");
    assert_eq!(shown(&service, email)["reason"], "a stop was requested");
    assert_eq!(api.vm().json()["status"], json!("STOPPED"));

    api.upload("kept.txt", b"a file").expect_status(201);
    service.admin(&["machine", "start", email]);
    assert!(index(&service, id).is_some(), "the machine keeps an index");
    assert_eq!(service.admin(&["machine", "reset", id])["status"], "STOPPED");
    assert_eq!(index(&service, id), None);
    assert_eq!(api.list("/uploads").json()["entries"][0]["name"], "kept.txt", "files stay");
    service.admin(&["machine", "start", email]);
    is_running(&listed(&service));
    let audit = service.admin(&["audit", "list", "--account", email]);
    let entries = audit["entries"].as_array().expect("a list").iter();
    let actions: Vec<&str> = entries.filter_map(|entry| entry["action"].as_str()).collect();
    assert_eq!(actions[..3], ["start machine", "reset machine", "start machine"], "newest first");
}

#[test]
fn a_machine_that_outlives_the_service_is_seen_and_stopped_without_it() {
    let mut service = Service::start(Options::default());
    let account = service.account();
    let email = account.email.as_str();
    service.admin(&["machine", "start", email]);
    let while_served = listed(&service);
    service.terminate();
    let left = listed(&service);
    is_running(&left);
    for field in ["account", "status", "driver"] {
        assert_eq!(left[field], while_served[field]);
    }
    assert_eq!(left["pids"][0], while_served["pids"][0], "it is the same machine");
    is_running(&shown(&service, email));
    assert_eq!(code(&service, &["machine", "start", email]), "SERVICE_UNREACHABLE");
    assert_eq!(code(&service, &["machine", "reset", email]), "SERVICE_UNREACHABLE");
    assert!(service.admin(&["machine", "log", email])["log"].is_string());

    assert_eq!(service.admin(&["machine", "stop", email])["status"], "STOPPED");
    assert!(!left["pids"].as_array().expect("a list").iter().any(lives), "{left}");
    let stopped = listed(&service);
    assert_eq!((&stopped["status"], &stopped["pids"]), (&json!("STOPPED"), &json!([])), "{stopped}");
    service.restart();
    assert_eq!(service.api(&account).vm().json()["status"], json!("STOPPED"), "it stays stopped");
}

#[test]
fn commands_refuse_accounts_without_a_machine_with_and_without_a_service() {
    let mut service = Service::start(Options::default());
    let account = service.account_as(&NewAccount { machine: false, ..NewAccount::default() });
    let refused = |service: &Service| {
        for command in ["show", "start", "stop", "log", "reset"] {
            assert_eq!(code(service, &["machine", command, &account.email]), "NO_MACHINE", "{command}");
            assert_eq!(code(service, &["machine", command, "nobody@example.test"]), "NO_SUCH_ACCOUNT");
        }
    };
    refused(&service);
    service.terminate();
    refused(&service);
}

#[test]
fn a_machine_whose_account_is_gone_is_stopped_and_its_folder_removed() {
    // The test removes the database file, so it uses SQLite even in a PostgreSQL run.
    let environment = vec![("CAUSERIE_DATABASE".to_owned(), String::new())];
    let mut service = Service::start(Options { environment, ..Options::default() });
    let account = service.account();
    service.admin(&["machine", "start", &account.email]);
    service.terminate();
    let left = listed(&service);
    is_running(&left);
    for entry in fs::read_dir(service.data()).expect("a folder").flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with("causerie.db")) {
            fs::remove_file(entry.path()).expect("it is ours");
        }
    }
    fs::remove_dir_all(service.data().join("workspaces")).expect("it is ours");
    service.admin(&["account", "create", "--email", "later@example.test"]);
    service.restart();
    let folder = service.data().join("machines").join(&account.id);
    poll::until("its folder is removed", || (!folder.exists()).then_some(()));
    assert!(!left["pids"].as_array().expect("a list").iter().any(lives), "{left}");
    service.admin(&["machine", "start", "later@example.test"]);
}

#[test]
fn a_console_runs_commands_as_the_tools_do_and_keeps_the_folder() {
    let service = Service::start(Options::default());
    let account = service.account();
    let email = account.email.as_str();
    let run = service.admin(&["machine", "console", email, "id -u; mkdir made; cd made; echo it > here"]);
    assert_eq!(run, json!({ "output": "1000", "failed": false, "folder": "/workspace/made" }));
    assert_eq!(service.api(&account).download("/made/here").expect_status(200).body, b"it\n");

    let failed = service.try_admin(&["machine", "console", email, "exit 3"]);
    assert_eq!(failed.status.code(), Some(1));
    let shown: Value = serde_json::from_slice(&failed.stdout).expect("one JSON object");
    assert_eq!((&shown["output"], &shown["failed"]), (&json!("[exit status 3]"), &json!(true)));

    let typed = b"cd made\ncat here; cat nothing\npwd\nexit\necho never\n";
    let output = service.try_admin_typing(&["machine", "console", email], typed);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed: Vec<Value> = serde_json::Deserializer::from_slice(&output.stdout)
        .into_iter()
        .collect::<Result<_, _>>()
        .expect("an object for each line");
    let texts: Vec<_> = printed.iter().map(|run| run["output"].as_str().expect("text")).collect();
    assert_eq!(texts[0], "");
    assert!(
        texts[1].starts_with("it\ncat: nothing: No such file") && texts[1].ends_with("\n[exit status 1]")
    );
    assert_eq!(texts[2..], ["/workspace/made"]);
    let audit = service.admin(&["audit", "list", "--account", email]);
    assert_eq!(audit["entries"][0]["detail"], "pwd", "{audit}");
}

#[test]
fn all_machines_are_stopped_with_a_service_and_without() {
    let mut service = Service::start(Options::default());
    let accounts = [service.account(), service.account()];
    for account in &accounts {
        service.admin(&["machine", "start", &account.email]);
    }
    let stopped = service.admin(&["machine", "stop", "--all"]);
    assert_eq!(stopped["stopped"].as_array().map(Vec::len), Some(2), "{stopped}");
    assert_eq!(service.admin(&["machine", "stop", "--all"]), json!({ "stopped": [] }));
    service.admin(&["machine", "start", &accounts[1].email]);
    let pids = shown(&service, &accounts[1].email)["pids"].clone();
    service.terminate();
    let stopped = service.admin(&["machine", "stop", "--all"]);
    assert_eq!(stopped, json!({ "stopped": [accounts[1].id] }));
    assert!(!pids.as_array().expect("a list").iter().any(lives), "{pids}");
}

#[test]
fn all_machines_are_stopped_without_the_database() {
    let mut service = Service::start(Options::default());
    let accounts = [service.account(), service.account()];
    let pids = accounts.each_ref().map(|account| {
        service.admin(&["machine", "start", &account.email]);
        shown(&service, &account.email)["pids"].clone()
    });
    service.kill();
    for entry in fs::read_dir(service.data()).expect("a folder").flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with("causerie.db")) {
            fs::remove_file(entry.path()).expect("it is ours");
        }
    }
    let stopped = service.admin(&["machine", "stop", "--all"]);
    assert_eq!(stopped["stopped"].as_array().map(Vec::len), Some(2), "{stopped}");
    assert!(!pids.iter().flat_map(|pids| pids.as_array().expect("a list")).any(lives), "{pids:?}");
    assert!(!service.data().join("causerie.db").exists(), "no database was made");
}
