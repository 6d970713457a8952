//! Limits and timeouts of connections, and the request ids in the log.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use e2e::connection::send_bytes;
use e2e::http2::Http2;
use e2e::{Expect, HttpRequest, RawConnection, ServiceOptions, TestService, poll};
use serde_json::Value;

/// The time for which a connection is expected to stay silent.
const SILENCE: Duration = Duration::from_millis(200);
/// The time after which a test counts as hanging.
const PATIENCE: Duration = Duration::from_secs(30);

fn start_service(settings: &[(&str, &str)]) -> TestService {
    let environment =
        settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    TestService::start(ServiceOptions { environment, ..ServiceOptions::default() })
}

/// Sends a request on an open connection and reads the status.
fn request_health(stream: &mut TcpStream) -> String {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").expect("it is open");
    read_status(stream).expect("an answer")
}

/// Reads the first bytes of a response; `None` if the connection ends without one.
fn read_status(stream: &mut TcpStream) -> Option<String> {
    let mut head = [0; 12];
    stream.read_exact(&mut head).ok()?;
    Some(String::from_utf8_lossy(&head).into_owned())
}

/// Reads the rest of a response with a length.
fn read_rest(stream: &mut TcpStream) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    let length: usize = length.and_then(|length| length.parse().ok()).expect("a length");
    stream.read_exact(&mut vec![0; length]).expect("a body");
}

fn connect_to(service: &TestService) -> TcpStream {
    let stream = TcpStream::connect(service.address()).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

#[test]
fn headers_bounded_in_bytes_and_lines() {
    let service = start_service(&[]);
    let with = |extra: &str| format!("GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{extra}\r\n");
    let lines = |count: usize| (0..count).map(|line| format!("x-{line}: y\r\n")).collect::<String>();
    let long = |bytes: usize| format!("x-long: {}\r\n", "y".repeat(bytes));
    let status_of = |request: String| send_bytes(service.address(), request.as_bytes()).expect("it listens");
    assert_eq!(status_of(with(&lines(90))), Some(200));
    assert_eq!(status_of(with(&lines(101))), Some(431));
    assert_eq!(status_of(with(&long(60_000))), Some(200));
    assert_eq!(status_of(with(&long(70_000))), Some(431));
    assert_eq!(
        status_of(format!(
            "GET /healthz?{} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
            "q".repeat(65_500)
        )),
        Some(431)
    );
    assert_eq!(
        status_of(format!(
            "GET /healthz?{} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
            "q".repeat(65_600)
        )),
        Some(414)
    );
    assert_eq!(status_of("GET /healthz HTTP/1.1\r\nx y\r\n\r\n".to_owned()), Some(400));
    assert_eq!(status_of(with("")), Some(200), "the service continues");
    for beyond in [lines(101), lines(300), long(70_000)] {
        let mut connection = RawConnection::connect(&service.address().into()).expect("it listens");
        connection.write_bytes(with(&beyond).as_bytes());
        connection.read_response("GET").expect("an answer").expect_code(431, "HEAD_TOO_LARGE");
    }
    // These requests do not reach the interface, but are counted and logged.
    let counted = |status: u16| {
        let page = HttpRequest::new("GET", "/metrics").send(service.address()).expect_status(200).text();
        let name = format!("causerie_requests_total{{operation=\"other\",status=\"{status}\"}} ");
        page.lines().find_map(|line| line.strip_prefix(&name)?.parse::<u64>().ok())
    };
    for (status, count) in [(431, 6), (414, 1), (400, 1)] {
        poll::wait_until("it is counted", || (counted(status) == Some(count)).then_some(()));
    }
}

#[test]
fn oversized_http2_heads_get_a_reason() {
    let service = start_service(&[]);
    let mut connection = Http2::connect(service.address(), 65_535).expect("it listens");
    for (bytes, refused) in [(60_000, false), (70_000, true), (120_000, true), (1_000, false)] {
        connection.send_get("/api/v1/vm", &[("x-long", &"y".repeat(bytes))]).expect("it is open");
        let body = connection.read_body(PATIENCE).expect("a response");
        let body = String::from_utf8_lossy(&body);
        assert_eq!(body.contains("HEAD_TOO_LARGE"), refused, "{bytes}: {body}");
    }
}

#[test]
fn downloads_share_keep_alive_connection() {
    let service = start_service(&[]);
    let api = service.api_for(&service.create_account());
    let content: Vec<u8> = (0..600_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    api.upload_file("large.bin", &content).expect_status(201);
    let key = &api.key;
    let asks = |method: &str, more: &str| {
        format!(
            "{method} /api/v1/files/uploads/large.bin HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\n{more}\r\n"
        )
    };
    let parts = ["", "range: bytes=0-0\r\n", "range: bytes=100000-499999\r\n", "range: bytes=-70000\r\n"];
    let wanted = [&content[..], &content[..1], &content[100_000..500_000], &content[530_000..]];
    // One after another, and all at once.
    let mut connection = RawConnection::connect(&api.address).expect("it listens");
    for at_once in [false, true] {
        let all: Vec<String> = parts.iter().flat_map(|part| [asks("GET", part), asks("HEAD", "")]).collect();
        if at_once {
            assert!(connection.write_bytes(all.concat().as_bytes()));
        }
        for (asked, wanted) in all.chunks(2).zip(wanted) {
            if !at_once {
                assert!(connection.write_bytes(asked[0].as_bytes()));
            }
            let whole = wanted.len() == content.len();
            let got = connection.read_response("GET").expect("an answer").expect_status(if whole {
                200
            } else {
                206
            });
            assert_eq!(got.header("content-length"), Some(&*wanted.len().to_string()));
            assert!(got.header("x-request-id").is_some() && got.header("date").is_some());
            assert!(got.body == wanted);
            if !at_once {
                assert!(connection.write_bytes(asked[1].as_bytes()));
            }
            let head = connection.read_response("HEAD").expect("an answer").expect_status(200);
            assert_eq!(head.header("content-length"), Some("600000"));
        }
    }
    assert!(connection.write_bytes(asks("GET", "connection: close\r\n").as_bytes()));
    let last = connection.read_response("GET").expect("an answer").expect_status(200);
    assert_eq!(last.header("connection"), Some("close"));
    assert!(last.body == content && connection.is_closed());
}

#[test]
fn oversized_requests_have_error_codes() {
    let service = start_service(&[]);
    let long = HttpRequest::new("GET", "/healthz")
        .with_header("x-long", &"y".repeat(70_000))
        .with_header("x-request-id", "mine");
    let refused = long.send(service.address()).expect_status(431);
    assert_eq!(refused.header("x-request-id"), Some("mine"));
}

#[test]
fn silent_and_half_requests_time_out() {
    let service =
        start_service(&[("CAUSERIE_LIMITS_HEADER_TIMEOUT", "1s"), ("CAUSERIE_LIMITS_IDLE_TIMEOUT", "1s")]);
    let (mut silent, mut slow, mut idle) = (connect_to(&service), connect_to(&service), connect_to(&service));
    slow.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow: ").expect("it is open");
    assert_eq!(request_health(&mut idle), "HTTP/1.1 200");
    for stream in [&mut silent, &mut slow, &mut idle] {
        let mut rest = Vec::new();
        // The connection is closed rather than timed out.
        let ended = stream.read_to_end(&mut rest);
        assert!(ended.map_or_else(|error| error.kind() == ErrorKind::ConnectionReset, |_| true));
    }
}

#[test]
fn connections_beyond_limit_wait() {
    let service =
        start_service(&[("CAUSERIE_LIMITS_CONNECTIONS_MAX", "2"), ("CAUSERIE_LIMITS_HEADER_TIMEOUT", "10m")]);
    // One after the other: a connection that has not asked may be closed for another one.
    let mut one = connect_to(&service);
    assert_eq!(request_health(&mut one), "HTTP/1.1 200");
    let mut other = connect_to(&service);
    assert_eq!(request_health(&mut other), "HTTP/1.1 200");
    let mut third = connect_to(&service);
    third.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").expect("it is in the queue");
    third.set_read_timeout(Some(SILENCE)).expect("a timeout");
    assert_eq!(read_status(&mut third), None, "it is not served yet");
    third.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    drop(one);
    assert_eq!(read_status(&mut third).as_deref(), Some("HTTP/1.1 200"));
}

#[test]
fn silent_connections_yield_to_active_ones() {
    let service =
        start_service(&[("CAUSERIE_LIMITS_CONNECTIONS_MAX", "4"), ("CAUSERIE_LIMITS_HEADER_TIMEOUT", "10m")]);
    let mut silent: Vec<_> = (0..4).map(|_| connect_to(&service)).collect();
    silent[1].write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow: ").expect("it is open");
    let mut asking = Vec::new();
    for _ in 0..4 {
        let mut stream = connect_to(&service);
        assert_eq!(request_health(&mut stream), "HTTP/1.1 200");
        read_rest(&mut stream);
        asking.push(stream);
    }
    // The silent ones were closed, the ones that had asked were not.
    for stream in &mut silent {
        assert_eq!(read_status(stream), None);
    }
    for stream in &mut asking {
        assert_eq!(request_health(stream), "HTTP/1.1 200");
    }
}

#[test]
fn response_names_request_logged_once() {
    let service = start_service(&[("CAUSERIE_LOG_FORMAT", "json"), ("CAUSERIE_LOG_LEVEL", "info")]);
    let account = service.create_account();
    let send = |target: &str, key: Option<&str>, id: Option<&str>| {
        let mut request = HttpRequest::new("GET", target);
        for (name, value) in [("x-api-key", key), ("x-request-id", id)] {
            if let Some(value) = value {
                request = request.with_header(name, value);
            }
        }
        let response = request.send(service.address());
        let id = response.header("x-request-id").expect("an identifier").to_owned();
        (response.status, id)
    };
    let key = Some(account.key.as_str());
    assert_eq!(send("/api/v1/vm?secret=query", key, Some("given-1")), (200, "given-1".to_owned()));
    assert_eq!(send("/api/v1/vm", None, Some("given-2")), (401, "given-2".to_owned()));
    assert_eq!(send("/nowhere", key, Some("given-3")), (404, "given-3".to_owned()));
    let long = "x".repeat(129);
    let made: Vec<String> = [None, Some("two words"), Some(long.as_str())]
        .into_iter()
        .map(|id| send("/api/v1/vm", key, id).1)
        .collect();
    assert!(made.iter().all(|id| !id.contains(' ') && (1..=128).contains(&id.len())), "{made:?}");
    assert!(made[0] != made[1] && made[1] != made[2], "{made:?}");
    let api = service.api_for(&account);
    api.wait_for_completion(&api.ask_question("What is the code word heron?"));
    send("/api/v1/vm", key, Some("given-last"));
    let log = poll::wait_until("all requests are logged", || {
        Some(service.log_text()).filter(|log| log.ends_with('\n') && log.contains("given-last"))
    });
    let lines: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    let line =
        |id: &str| lines.iter().find(|line| line["id"] == id && line["status"].is_u64()).expect("a line");
    let first = line("given-1");
    assert_eq!(
        (&first["method"], &first["path"], &first["status"]),
        (&"GET".into(), &"/api/v1/vm".into(), &200.into())
    );
    assert!(first["ms"].as_f64().is_some_and(|ms| (0.0..60_000.0).contains(&ms)), "{first}");
    assert_eq!((&line("given-2")["status"], &line("given-3")["status"]), (&401.into(), &404.into()));
    for secret in [account.key.as_str(), "secret=query", "heron"] {
        assert!(!log.contains(secret), "the log contains {secret}");
    }
}
