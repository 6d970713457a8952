//! The service on PostgreSQL: the exclusive lock, and outages of the database.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use conformance::http::Request;
use conformance::{Expect, Options, Say, Service, Vendor, poll};
use serde_json::Value;
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

fn until_said(log: &mut impl BufRead, wanted: &str) {
    let mut all = String::new();
    while !all.contains(wanted) {
        assert!(log.read_line(&mut all).is_ok_and(|length| length > 0), "it ended: {all}");
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
