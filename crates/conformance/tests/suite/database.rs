//! The service on PostgreSQL: the exclusive lock, and outages of the database.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use conformance::http::Request;
use conformance::{Api, Expect, Options, Say, Service, Vendor, poll};
use serde_json::{Value, json};
use test_support::postgres::Server;

use crate::streams::shows;

fn on(url: &str, vendor: Option<&Vendor>) -> Options {
    let mut environment = vendor.map(Vendor::environment).unwrap_or_default();
    environment.push((conformance::DATABASE.to_owned(), url.to_owned()));
    Options { environment, ..Options::default() }
}

fn state(service: &Service, path: &str) -> u16 {
    Request::new("GET", path).try_send(service.address()).map_or(0, |response| response.status)
}

#[test]
fn a_database_that_goes_away_and_comes_back_costs_no_answer() {
    let (server, vendor) = (Server::own(), Vendor::start());
    let service = Service::start(on(&server.new_database(), Some(&vendor)));
    let account = service.account();
    let api = service.api(&account);
    assert_eq!((state(&service, "/healthz"), state(&service, "/readyz")), (200, 200));
    vendor.will([Say::text("Begun"), Say::Hold, Say::text(" and ended.")]);
    let answer = api.ask("Go on");
    shows(&mut api.events_of(&answer), "Begun");
    server.kill();
    let refused = poll::until("a request is refused for want of the database", || {
        Some(api.chats("")).filter(|response| response.status != 200)
    });
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!(refused.json()["code"], "UNAVAILABLE");
    assert!(refused.header("retry-after").is_some_and(|seconds| seconds.parse::<u32>().is_ok()));
    assert_eq!((state(&service, "/healthz"), state(&service, "/readyz")), (200, 503));
    vendor.release();
    server.start_again();
    poll::until("the service is ready again", || (state(&service, "/readyz") == 200).then_some(()));
    let whole = api.completed(&answer);
    assert_eq!((&whole["text"], &whole["error"]), (&Value::from("Begun and ended."), &Value::Null));
    poll::until("nothing is reserved", || (service.credits(&account).1 == 0).then_some(()));
    api.completed(&api.ask("Again"));
}

#[test]
fn a_service_waits_for_a_database_that_starts_later() {
    let server = Server::own();
    let mut service = Service::start(on(&server.new_database(), None));
    let account = service.account();
    service.terminate();
    server.kill();
    let log = service.data().with_file_name("log");
    std::thread::scope(|scope| {
        let starting = scope.spawn(|| service.restart());
        poll::until("it logs that it waits for the lock", || {
            std::fs::read_to_string(&log)
                .is_ok_and(|log| log.contains("database unreachable; retrying"))
                .then_some(())
        });
        server.start_again();
        starting.join().expect("it starts");
    });
    service.api(&account).vm().expect_status(200);
}

/// A second service, which runs until it logs `wanted`.
struct Second(Child);

impl Second {
    fn start(beside: &Service, folder: &std::path::Path, wanted: &str) -> (Self, impl BufRead + use<>) {
        let mut command = beside.command();
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
fn a_second_service_waits_until_the_first_has_left_the_database() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut service = Service::start(on(&test_support::postgres::shared().new_database(), None));
    let (_second, mut log) = Second::start(&service, folder.path(), "database lock held by another service");
    assert_eq!(state(&service, "/readyz"), 200, "the first one goes on");
    service.kill();
    until_said(&mut log, "listening on");
}

/// The work of a dead service goes on in another one at once. Its machine, which the other one cannot see, works no longer.
#[test]
fn a_standby_goes_on_where_a_killed_service_was_cut_off() {
    let vendor = Vendor::start();
    let url = test_support::postgres::shared().new_database();
    let mut service = Service::start(on(&url, Some(&vendor)));
    let account = service.account();
    let api = service.api(&account);
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(service.data().join("workspaces"), folder.path().join("workspaces"))
        .expect("a link");
    let (_second, mut log) = Second::start(&service, folder.path(), "database lock held by another service");
    let command = "while :; do echo x >> /workspace/ticks; sleep 0.05; done";
    vendor.will([Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": command }) }]);
    vendor.will([Say::text("Gone on.")]);
    let answer = api.ask("Count");
    poll::until("the tool works", || (api.download("/ticks").status == 200).then_some(()));
    service.kill();
    let killed = std::time::Instant::now();
    let line = until_said(&mut log, "listening on");
    let address = line.trim().rsplit_once("http://").expect("an address").1.split(['"', ' ']).next();
    let api = Api { address: address.expect("an address").into(), key: api.key.clone() };
    let whole = api.completed(&answer);
    assert_eq!((&whole["text"], &whole["error"]), (&Value::from("Gone on."), &Value::Null), "{whole}");
    assert_eq!(whole["parts"][0]["state"], "ERROR", "a call that may have changed something is not repeated");
    println!("the answer ended {:?} after the kill", killed.elapsed());
    // A lease alone would hold for half a minute.
    assert!(killed.elapsed() < std::time::Duration::from_secs(25), "{:?}", killed.elapsed());
    let machine = service.data().join("machines").join(&account.id).join("agent.log");
    let machine = std::fs::read(machine).expect("the log of the dead service's machine");
    assert!(String::from_utf8_lossy(&machine).contains("suspended"), "it works on");
    let ticks = api.download("/ticks").text();
    api.completed(&api.ask("And now?"));
    assert_eq!(api.download("/ticks").text(), ticks, "so does its tool");
}

#[test]
fn a_failure_tells_no_password() {
    let service = Service::start(Options::default());
    let folder = tempfile::tempdir().expect("a folder");
    for url in
        ["postgres://u:s3cret@127.0.0.1:9/d", "postgres://u:s3cret@h/d?sslmode=x", "postgres://u:s3@cret@h/d"]
    {
        let mut command = service.command();
        command.args(["machine", "list", "--data"]).arg(folder.path()).env(conformance::DATABASE, url);
        let refused = command.output().expect("the binary can be run");
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && !stderr.is_empty() && !stderr.contains("s3"), "{stderr}");
        let help = command.args(["--help"]).output().expect("the binary can be run");
        assert!(!String::from_utf8_lossy(&help.stdout).contains("s3"));
    }
}

#[test]
fn who_forgets_where_the_database_is_reads_that_it_is_elsewhere() {
    let mut service = Service::start(on(&test_support::postgres::shared().new_database(), None));
    service.terminate();
    let mut command = service.command();
    command.args(["account", "list", "--data"]).arg(service.data()).env_remove(conformance::DATABASE);
    let refused = command.output().expect("the binary can be run");
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && stderr.contains("CAUSERIE_DATABASE"), "{stderr}");
    let mut wrong = service.command();
    wrong.args(["account", "list", "--data"]).arg(service.data());
    let refused = wrong.env(conformance::DATABASE, "postgres://nobody:x@127.0.0.1:1/none").output();
    let refused = refused.expect("the binary can be run");
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(stderr.matches("the database").count(), 1, "{stderr}");
}
