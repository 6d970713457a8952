//! Shutdown: new requests get 503 with `Retry-After`, and a second signal exits immediately.

use std::io::Write;
use std::net::TcpStream;

use e2e::{Expect, HttpRequest, ServiceOptions, TestService, poll};

/// Starts a request whose body stays incomplete as long as the returned connection is open.
fn start_unfinished_request(service: &TestService, key: &str) -> TcpStream {
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
fn requests_after_signal_get_retry_after() {
    let mut service = TestService::start(ServiceOptions::default());
    let account = service.create_account();
    let busy = start_unfinished_request(&service, &account.key);
    service.send_signal(rustix::process::Signal::TERM);
    let refused = poll::wait_until("new requests are refused", || {
        let request = HttpRequest::new("GET", "/api/v1/vm").with_header("x-api-key", &account.key);
        let response = request.try_send(service.address()).ok()?;
        (response.status != 200).then_some(response)
    });
    refused.clone().expect_code(503, "UNAVAILABLE");
    assert_eq!(refused.header("retry-after"), Some("5"));
    assert_eq!(refused.header("cache-control"), Some("no-store"));
    assert_eq!(refused.header("x-content-type-options"), Some("nosniff"));
    assert!(refused.header("x-request-id").is_some());
    let metrics = HttpRequest::new("GET", "/metrics").send(service.address()).expect_status(200).text();
    let counted = "causerie_requests_total{operation=\"other\",status=\"503\"} ";
    let counted = metrics.lines().find_map(|line| line.strip_prefix(counted)?.parse::<u64>().ok());
    assert!(counted.is_some_and(|count| count > 0), "rejected requests are counted: {counted:?}");
    drop(busy);
    assert!(service.wait_for_exit().success(), "it ends when nothing is under way");
    service.restart();
    service.api_for(&account).get_vm().expect_status(200);
}

#[test]
fn second_signal_exits_at_once() {
    let mut service = TestService::start(ServiceOptions::default());
    let account = service.create_account();
    let busy = start_unfinished_request(&service, &account.key);
    service.send_signal(rustix::process::Signal::TERM);
    poll::wait_until("it is ending", || service.log_text().contains("shutting down").then_some(()));
    service.send_signal(rustix::process::Signal::INT);
    let status = service.wait_for_exit();
    assert_eq!(status.code(), Some(1), "{status}");
    drop(busy);
    assert!(service.log_text().contains("second signal"));
    service.restart();
    service.api_for(&account).get_vm().expect_status(200);
}

#[test]
fn log_has_every_request_after_shutdown() {
    let environment = vec![("CAUSERIE_LOG_LEVEL".to_owned(), "debug".to_owned())];
    let mut service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    for number in 0..200 {
        let request =
            HttpRequest::new("GET", "/healthz").with_header("x-request-id", &format!("request-{number}-"));
        request.send(service.address()).expect_status(200);
    }
    service.terminate();
    let log = service.log_text();
    let untold: Vec<u32> = (0..200).filter(|number| !log.contains(&format!("request-{number}-"))).collect();
    assert!(untold.is_empty(), "{untold:?}");
}
