//! The service on PostgreSQL: the exclusive lock, and outages of the database.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use e2e::http::HttpRequest;
use e2e::{Api, Expect, Say, ScriptedVendor, ServiceOptions, TestService, poll};
use serde_json::{Value, json};
use test_support::postgres::PostgresServer;

use crate::streams::find_shown_text;

fn options_on_database(url: &str, vendor: Option<&ScriptedVendor>) -> ServiceOptions {
    let mut environment = vendor.map(ScriptedVendor::service_environment).unwrap_or_default();
    environment.push((e2e::DATABASE.to_owned(), url.to_owned()));
    ServiceOptions { environment, ..ServiceOptions::default() }
}

fn response_status(service: &TestService, path: &str) -> u16 {
    HttpRequest::new("GET", path).try_send(service.address()).map_or(0, |response| response.status)
}

#[test]
fn database_outage_costs_no_answer() {
    let (server, vendor) = (PostgresServer::start_separate(), ScriptedVendor::start());
    let service = TestService::start(options_on_database(&server.new_database(), Some(&vendor)));
    let account = service.create_account();
    let api = service.api_for(&account);
    assert_eq!((response_status(&service, "/healthz"), response_status(&service, "/readyz")), (200, 200));
    vendor.add_script([Say::from_text("Begun"), Say::Hold, Say::from_text(" and ended.")]);
    let answer = api.ask_question("Go on");
    find_shown_text(&mut api.stream_answer(&answer), "Begun");
    server.kill_server();
    let refused = poll::wait_until("a request is refused for want of the database", || {
        Some(api.list_chats("")).filter(|response| response.status != 200)
    });
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!(refused.json()["code"], "UNAVAILABLE");
    assert!(refused.header("retry-after").is_some_and(|seconds| seconds.parse::<u32>().is_ok()));
    assert_eq!((response_status(&service, "/healthz"), response_status(&service, "/readyz")), (200, 503));
    vendor.release_hold();
    server.start_again();
    poll::wait_until("the service is ready again", || {
        (response_status(&service, "/readyz") == 200).then_some(())
    });
    let whole = api.wait_for_completion(&answer);
    assert_eq!((&whole["text"], &whole["error"]), (&Value::from("Begun and ended."), &Value::Null));
    poll::wait_until("nothing is reserved", || (service.show_credits(&account).1 == 0).then_some(()));
    api.wait_for_completion(&api.ask_question("Again"));
}

#[test]
fn service_waits_for_database() {
    let server = PostgresServer::start_separate();
    let mut service = TestService::start(options_on_database(&server.new_database(), None));
    let account = service.create_account();
    service.terminate();
    server.kill_server();
    let log = service.data_folder().with_file_name("log");
    std::thread::scope(|scope| {
        let starting = scope.spawn(|| service.restart());
        poll::wait_until("it logs that it waits for the lock", || {
            std::fs::read_to_string(&log)
                .is_ok_and(|log| log.contains("database unreachable; retrying"))
                .then_some(())
        });
        server.start_again();
        starting.join().expect("it starts");
    });
    service.api_for(&account).get_vm().expect_status(200);
}

/// A second service, which runs until it logs `wanted`.
struct Second(Child);

impl Second {
    fn start_beside(
        beside: &TestService,
        folder: &std::path::Path,
        wanted: &str,
    ) -> (Self, impl BufRead + use<>) {
        let mut command = beside.build_command();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(folder);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the binary can be run");
        let mut stderr = BufReader::new(child.stderr.take().expect("its log"));
        until_said(&mut stderr, wanted);
        (Self(child), stderr)
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads the log up to a line with these words, and returns it.
fn until_said(log: &mut impl BufRead, wanted: &str) -> String {
    let mut all = String::new();
    loop {
        let begin = all.len();
        assert!(log.read_line(&mut all).is_ok_and(|length| length > 0), "it ended: {all}");
        if all[begin..].contains(wanted) {
            return all[begin..].to_owned();
        }
    }
}

#[test]
fn second_service_waits_for_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut service = TestService::start(options_on_database(
        &test_support::postgres::shared_server().new_database(),
        None,
    ));
    let (_second, mut log) =
        Second::start_beside(&service, folder.path(), "database lock held by another service");
    assert_eq!(response_status(&service, "/readyz"), 200, "the first one goes on");
    service.kill();
    until_said(&mut log, "listening on");
}

/// Another service continues the work of a dead one at once. Its machine, which the other one cannot see, no
/// longer works.
#[test]
fn standby_continues_after_kill() {
    let vendor = ScriptedVendor::start();
    let url = test_support::postgres::shared_server().new_database();
    let mut service = TestService::start(options_on_database(&url, Some(&vendor)));
    let account = service.create_account();
    let api = service.api_for(&account);
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(service.data_folder().join("workspaces"), folder.path().join("workspaces"))
        .expect("a link");
    let (_second, mut log) =
        Second::start_beside(&service, folder.path(), "database lock held by another service");
    let command = "while :; do echo x >> /workspace/ticks; sleep 0.05; done";
    vendor.add_script([Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": command }) }]);
    vendor.add_script([Say::from_text("Gone on.")]);
    let answer = api.ask_question("Count");
    poll::wait_until("the tool works", || (api.download_file("/ticks").status == 200).then_some(()));
    service.kill();
    let killed = std::time::Instant::now();
    let line = until_said(&mut log, "listening on");
    let address = line.trim().rsplit_once("http://").expect("an address").1.split(['"', ' ']).next();
    let api = Api { address: address.expect("an address").into(), key: api.key.clone() };
    let whole = api.wait_for_completion(&answer);
    assert_eq!((&whole["text"], &whole["error"]), (&Value::from("Gone on."), &Value::Null), "{whole}");
    assert_eq!(whole["parts"][0]["state"], "ERROR", "a call that may have changed something is not repeated");
    println!("the answer ended {:?} after the kill", killed.elapsed());
    // A lease alone would hold for half a minute.
    assert!(killed.elapsed() < std::time::Duration::from_secs(25), "{:?}", killed.elapsed());
    let machine = service.data_folder().join("machines").join(&account.id).join("agent.log");
    let machine = std::fs::read(machine).expect("the log of the dead service's machine");
    assert!(String::from_utf8_lossy(&machine).contains("suspended"), "it works on");
    let ticks = api.download_file("/ticks").text();
    api.wait_for_completion(&api.ask_question("And now?"));
    assert_eq!(api.download_file("/ticks").text(), ticks, "so does its tool");
}

#[test]
fn a_failure_tells_no_password() {
    let service = TestService::start(ServiceOptions::default());
    let folder = tempfile::tempdir().expect("a folder");
    for url in
        ["postgres://u:s3cret@127.0.0.1:9/d", "postgres://u:s3cret@h/d?sslmode=x", "postgres://u:s3@cret@h/d"]
    {
        let mut command = service.build_command();
        command.args(["machine", "list", "--data"]).arg(folder.path()).env(e2e::DATABASE, url);
        let refused = command.output().expect("the binary can be run");
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && !stderr.is_empty() && !stderr.contains("s3"), "{stderr}");
        let help = command.args(["--help"]).output().expect("the binary can be run");
        assert!(!String::from_utf8_lossy(&help.stdout).contains("s3"));
    }
}

#[test]
fn missing_database_url_is_explained() {
    let mut service = TestService::start(options_on_database(
        &test_support::postgres::shared_server().new_database(),
        None,
    ));
    service.terminate();
    let mut command = service.build_command();
    command.args(["account", "list", "--data"]).arg(service.data_folder()).env_remove(e2e::DATABASE);
    let refused = command.output().expect("the binary can be run");
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && stderr.contains("CAUSERIE_DATABASE"), "{stderr}");
    let mut wrong = service.build_command();
    wrong.args(["account", "list", "--data"]).arg(service.data_folder());
    let refused = wrong.env(e2e::DATABASE, "postgres://nobody:x@127.0.0.1:1/none").output();
    let refused = refused.expect("the binary can be run");
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(stderr.matches("database unreachable").count(), 1, "{stderr}");
}
