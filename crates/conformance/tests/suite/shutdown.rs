//! Shutdown: new requests get 503 with `Retry-After`, and a second signal exits immediately.

use std::io::Write;
use std::net::TcpStream;

use conformance::{Expect, Options, Request, Service, poll};

/// Starts a request whose body stays incomplete as long as the returned connection is open.
fn under_way(service: &Service, key: &str) -> TcpStream {
    let mut stream = TcpStream::connect(service.address()).expect("it listens");
    let head = format!(
        "POST /api/v1/chats HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\ncontent-length: 100\r\n\
         expect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("it is open");
    // The service requests the body once the handler runs.
    let mut asked = [0; 12];
    std::io::Read::read_exact(&mut stream, &mut asked).expect("it goes on");
    assert_eq!(&asked, b"HTTP/1.1 100");
    stream
}

#[test]
fn new_requests_are_told_to_come_again_from_the_signal_on() {
    let mut service = Service::start(Options::default());
    let account = service.account();
    let busy = under_way(&service, &account.key);
    service.signal(rustix::process::Signal::TERM);
    let refused = poll::until("new requests are refused", || {
        let request = Request::new("GET", "/api/v1/vm").header("x-api-key", &account.key);
        let response = request.try_send(service.address()).ok()?;
        (response.status != 200).then_some(response)
    });
    refused.clone().expect_code(503, "UNAVAILABLE");
    assert_eq!(refused.header("retry-after"), Some("5"));
    assert_eq!(refused.header("cache-control"), Some("no-store"));
    assert_eq!(refused.header("x-content-type-options"), Some("nosniff"));
    assert!(refused.header("x-request-id").is_some());
    let metrics = Request::new("GET", "/metrics").send(service.address()).expect_status(200).text();
    let counted = "causerie_requests_total{operation=\"other\",status=\"503\"} ";
    let counted = metrics.lines().find_map(|line| line.strip_prefix(counted)?.parse::<u64>().ok());
    assert!(counted.is_some_and(|count| count > 0), "rejected requests are counted: {counted:?}");
    drop(busy);
    assert!(service.ended().success(), "it ends when nothing is under way");
    service.restart();
    service.api(&account).vm().expect_status(200);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut service = Service::start(Options::default());
    let account = service.account();
    let busy = under_way(&service, &account.key);
    service.signal(rustix::process::Signal::TERM);
    poll::until("it is ending", || service.log().contains("ending").then_some(()));
    service.signal(rustix::process::Signal::INT);
    let status = service.ended();
    assert_eq!(status.code(), Some(1), "{status}");
    drop(busy);
    assert!(service.log().contains("second signal"));
    service.restart();
    service.api(&account).vm().expect_status(200);
}

#[test]
fn the_log_tells_of_every_request_when_the_service_has_ended() {
    let environment = vec![("CAUSERIE_LOG_LEVEL".to_owned(), "debug".to_owned())];
    let mut service = Service::start(Options { environment, ..Options::default() });
    for number in 0..200 {
        let request = Request::new("GET", "/healthz").header("x-request-id", &format!("request-{number}-"));
        request.send(service.address()).expect_status(200);
    }
    service.terminate();
    let log = service.log();
    let untold: Vec<u32> = (0..200).filter(|number| !log.contains(&format!("request-{number}-"))).collect();
    assert!(untold.is_empty(), "{untold:?}");
}
