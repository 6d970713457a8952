//! The operator's commands for machines, with a running service and without one.

use std::fs;
use std::path::PathBuf;

use e2e::{Expect, ServiceOptions, TestAccountOptions, TestService, poll};
use serde_json::{Value, json};

fn first_machine(service: &TestService) -> Value {
    service.run_admin_command(&["machine", "list"])["machines"][0].clone()
}

fn show_machine(service: &TestService, account: &str) -> Value {
    service.run_admin_command(&["machine", "show", account])
}

/// Returns the code of a failed command.
fn failure_code(service: &TestService, arguments: &[&str]) -> String {
    let output = service.try_admin_command(arguments);
    assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}");
    let error: Value = serde_json::from_slice(&output.stderr).expect("one JSON object");
    error["code"].as_str().expect("a code").to_owned()
}

/// Returns the human-readable output of a command.
fn run_printing_command(service: &TestService, arguments: &[&str]) -> String {
    let mut command = service.build_command();
    let output =
        command.args(arguments).arg("--data").arg(service.data_folder()).output().expect("it can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn is_running(machine: &Value) {
    assert_eq!(machine["status"], "RUNNING", "{machine}");
    assert!(machine["driver"].as_str().is_some_and(|driver| driver.contains("(limits: ")), "{machine}");
    let pids = machine["pids"].as_array().expect("a list");
    // Others come and go, such as readers of documents.
    assert!(pids.iter().filter(|pid| is_process_alive(pid)).count() >= 2, "{machine}");
}

fn is_process_alive(pid: &Value) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

fn find_index_folder(service: &TestService, account: &str) -> Option<PathBuf> {
    let folder = service.data_folder().join("machines").join(account);
    ["index", "index-uml", "index-qemu"]
        .map(|name| folder.join(name))
        .into_iter()
        .find(|index| index.exists())
}

#[test]
fn machine_commands_start_show_stop_reset() {
    let service = TestService::start(ServiceOptions::default());
    let account = service.create_account();
    let api = service.api_for(&account);
    let (id, email) = (account.id.as_str(), account.email.as_str());
    let before = show_machine(&service, email);
    assert_eq!((&before["status"], &before["pids"]), (&json!("STOPPED"), &json!([])), "{before}");
    assert_eq!((&before["startedAt"], &before["memoryBytes"]), (&Value::Null, &Value::Null), "{before}");
    assert!(before["isolation"].is_string(), "{before}");

    let started = service.run_admin_command(&["machine", "start", email]);
    assert_eq!(started, json!({ "account": id, "email": email, "status": "RUNNING" }));
    is_running(&first_machine(&service));
    let running = show_machine(&service, id);
    is_running(&running);
    assert!(running["memoryBytes"].as_u64().is_some_and(|bytes| bytes > 1_000_000), "{running}");
    assert!(running["startedAt"].as_str().is_some_and(|at| at.ends_with('Z')), "{running}");
    assert_eq!(running["reason"], "a start was requested");
    assert!(running["log"].as_str().is_some_and(|log| fs::exists(log).expect("a path")), "{running}");
    assert!(service.run_admin_command(&["machine", "log", email])["log"].is_string());
    let table = run_printing_command(&service, &["machine", "list"]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("EMAIL ") && lines[1].starts_with(email), "{table}");
    assert!(lines[1].contains(id), "{table}");
    assert_eq!(first_machine(&service)["email"], email);
    assert!(run_printing_command(&service, &["machine", "show", email]).contains("status: RUNNING\n"));

    let stopped = service.run_admin_command(&["machine", "stop", email]);
    assert_eq!(stopped["status"], "STOPPED");
    assert!(!running["pids"].as_array().expect("a list").iter().any(is_process_alive), "{running}");
    assert_eq!(show_machine(&service, email)["reason"], "a stop was requested");
    assert_eq!(api.get_vm().json()["status"], json!("STOPPED"));

    api.upload_file("kept.txt", b"a file").expect_status(201);
    service.run_admin_command(&["machine", "start", email]);
    assert!(find_index_folder(&service, id).is_some(), "the machine keeps an index");
    assert_eq!(service.run_admin_command(&["machine", "reset", id])["status"], "STOPPED");
    assert_eq!(find_index_folder(&service, id), None);
    assert_eq!(api.list_directory("/uploads").json()["entries"][0]["name"], "kept.txt", "files stay");
    service.run_admin_command(&["machine", "start", email]);
    is_running(&first_machine(&service));
    let audit = service.run_admin_command(&["audit", "list", "--account", email]);
    let entries = audit["entries"].as_array().expect("a list").iter();
    let actions: Vec<&str> = entries.filter_map(|entry| entry["action"].as_str()).collect();
    assert_eq!(actions[..3], ["start machine", "reset machine", "start machine"], "newest first");
}

#[test]
fn orphaned_machine_stopped_without_service() {
    let mut service = TestService::start(ServiceOptions::default());
    let account = service.create_account();
    let email = account.email.as_str();
    service.run_admin_command(&["machine", "start", email]);
    let while_served = first_machine(&service);
    service.terminate();
    let left = first_machine(&service);
    is_running(&left);
    for field in ["account", "status", "driver"] {
        assert_eq!(left[field], while_served[field]);
    }
    assert_eq!(left["pids"][0], while_served["pids"][0], "it is the same machine");
    is_running(&show_machine(&service, email));
    assert_eq!(failure_code(&service, &["machine", "start", email]), "SERVICE_UNREACHABLE");
    assert_eq!(failure_code(&service, &["machine", "reset", email]), "SERVICE_UNREACHABLE");
    assert!(service.run_admin_command(&["machine", "log", email])["log"].is_string());

    assert_eq!(service.run_admin_command(&["machine", "stop", email])["status"], "STOPPED");
    assert!(!left["pids"].as_array().expect("a list").iter().any(is_process_alive), "{left}");
    let stopped = first_machine(&service);
    assert_eq!((&stopped["status"], &stopped["pids"]), (&json!("STOPPED"), &json!([])), "{stopped}");
    service.restart();
    assert_eq!(service.api_for(&account).get_vm().json()["status"], json!("STOPPED"), "it stays stopped");
}

#[test]
fn machine_commands_refuse_account_without_machine() {
    let mut service = TestService::start(ServiceOptions::default());
    let account =
        service.create_account_with(&TestAccountOptions { machine: false, ..TestAccountOptions::default() });
    let refused = |service: &TestService| {
        for command in ["show", "start", "stop", "log", "reset"] {
            assert_eq!(
                failure_code(service, &["machine", command, &account.email]),
                "NO_MACHINE",
                "{command}"
            );
            assert_eq!(
                failure_code(service, &["machine", command, "nobody@example.test"]),
                "NO_SUCH_ACCOUNT"
            );
        }
    };
    refused(&service);
    service.terminate();
    refused(&service);
}

#[test]
fn machine_of_deleted_account_removed() {
    // The test removes the database file, so it uses SQLite even in a PostgreSQL run.
    let environment = vec![("CAUSERIE_DATABASE".to_owned(), String::new())];
    let mut service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let account = service.create_account();
    service.run_admin_command(&["machine", "start", &account.email]);
    service.terminate();
    let left = first_machine(&service);
    is_running(&left);
    for entry in fs::read_dir(service.data_folder()).expect("a folder").flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with("causerie.db")) {
            fs::remove_file(entry.path()).expect("it is ours");
        }
    }
    fs::remove_dir_all(service.data_folder().join("workspaces")).expect("it is ours");
    service.run_admin_command(&["account", "create", "--email", "later@example.test"]);
    service.restart();
    let folder = service.data_folder().join("machines").join(&account.id);
    poll::wait_until("its folder is removed", || (!folder.exists()).then_some(()));
    assert!(!left["pids"].as_array().expect("a list").iter().any(is_process_alive), "{left}");
    service.run_admin_command(&["machine", "start", "later@example.test"]);
}

#[test]
fn machine_console_runs_commands_in_workspace() {
    let service = TestService::start(ServiceOptions::default());
    let account = service.create_account();
    let email = account.email.as_str();
    let run = service.run_admin_command(&[
        "machine",
        "console",
        email,
        "id -u; mkdir made; cd made; echo it > here",
    ]);
    assert_eq!(run, json!({ "output": "1000", "failed": false, "folder": "/workspace/made" }));
    assert_eq!(service.api_for(&account).download_file("/made/here").expect_status(200).body, b"it\n");

    let failed = service.try_admin_command(&["machine", "console", email, "exit 3"]);
    assert_eq!(failed.status.code(), Some(1));
    let shown: Value = serde_json::from_slice(&failed.stdout).expect("one JSON object");
    assert_eq!((&shown["output"], &shown["failed"]), (&json!("[exit status 3]"), &json!(true)));

    let typed = b"cd made\ncat here; cat nothing\npwd\nexit\necho never\n";
    let output = service.try_admin_command_with_stdin(&["machine", "console", email], typed);
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
    let audit = service.run_admin_command(&["audit", "list", "--account", email]);
    assert_eq!(audit["entries"][0]["detail"], "pwd", "{audit}");
}

#[test]
fn stop_all_machines_without_service() {
    let mut service = TestService::start(ServiceOptions::default());
    let accounts = [service.create_account(), service.create_account()];
    for account in &accounts {
        service.run_admin_command(&["machine", "start", &account.email]);
    }
    let stopped = service.run_admin_command(&["machine", "stop", "--all"]);
    assert_eq!(stopped["stopped"].as_array().map(Vec::len), Some(2), "{stopped}");
    assert_eq!(service.run_admin_command(&["machine", "stop", "--all"]), json!({ "stopped": [] }));
    service.run_admin_command(&["machine", "start", &accounts[1].email]);
    let pids = show_machine(&service, &accounts[1].email)["pids"].clone();
    service.terminate();
    let stopped = service.run_admin_command(&["machine", "stop", "--all"]);
    assert_eq!(stopped, json!({ "stopped": [accounts[1].id] }));
    assert!(!pids.as_array().expect("a list").iter().any(is_process_alive), "{pids}");
}

#[test]
fn stop_all_machines_without_database() {
    let mut service = TestService::start(ServiceOptions::default());
    let accounts = [service.create_account(), service.create_account()];
    let pids = accounts.each_ref().map(|account| {
        service.run_admin_command(&["machine", "start", &account.email]);
        show_machine(&service, &account.email)["pids"].clone()
    });
    service.kill();
    for entry in fs::read_dir(service.data_folder()).expect("a folder").flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with("causerie.db")) {
            fs::remove_file(entry.path()).expect("it is ours");
        }
    }
    let stopped = service.run_admin_command(&["machine", "stop", "--all"]);
    assert_eq!(stopped["stopped"].as_array().map(Vec::len), Some(2), "{stopped}");
    assert!(!pids.iter().flat_map(|pids| pids.as_array().expect("a list")).any(is_process_alive), "{pids:?}");
    assert!(!service.data_folder().join("causerie.db").exists(), "no database was made");
}
