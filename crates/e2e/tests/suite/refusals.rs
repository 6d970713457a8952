//! Refusals before the body: clients that are still sending can read the status over every transport.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use e2e::{Api, Expect, RawConnection, TestService, start_with_api};

/// More than all buffers between a client and the service.
const LARGE_BYTES: usize = 40 << 20;
/// The time after which a test counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// Requests that are refused without their bodies: a name, the method and path, whether they have a key, and the status.
const REFUSED: [(&str, &str, bool, u16); 5] = [
    ("without a key", "POST /api/v1/files", false, 401),
    ("no such path", "POST /api/v1/nowhere", true, 404),
    ("no such method", "PUT /api/v1/vm", true, 405),
    ("no form", "POST /api/v1/files", true, 400),
    ("too large", "POST /api/v1/chats", true, 413),
];

/// Writes a whole request on a new connection before it reads, and returns the status.
fn written_first(service: &TestService, head: &str, body_bytes: usize) -> Option<u16> {
    let mut stream = TcpStream::connect(service.address()).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(head.as_bytes()).ok()?;
    let piece = vec![b'x'; 64 << 10];
    for _ in 0..body_bytes / piece.len() {
        stream.write_all(&piece).ok()?;
    }
    let mut line = [0; 12];
    stream.read_exact(&mut line).ok()?;
    String::from_utf8_lossy(&line).strip_prefix("HTTP/1.1 ")?.parse().ok()
}

fn key_header_line(api: &Api, has_key: bool) -> String {
    if has_key { format!("x-api-key: {}\r\n", api.key) } else { String::new() }
}

#[test]
fn refusal_reaches_clients_that_write_first() {
    let (service, api) = start_with_api();
    for (name, line, has_key, status) in REFUSED {
        let key = key_header_line(&api, has_key);
        let head = format!("{line} HTTP/1.1\r\nhost: x\r\n{key}content-length: {LARGE_BYTES}\r\n\r\n");
        assert_eq!(written_first(&service, &head, LARGE_BYTES), Some(status), "{name}");
    }
    // A long head is refused while it is read.
    let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(4 << 20));
    assert_eq!(written_first(&service, &long, 0), Some(431));
}

#[test]
fn refused_http2_uploads_have_status() {
    let (service, api) = start_with_api();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("large.bin");
    std::fs::File::create(&path).and_then(|file| file.set_len(LARGE_BYTES as u64)).expect("a file");
    for (name, line, has_key, status) in REFUSED {
        let (method, target) = line.split_once(' ').expect("a method and a path");
        let mut curl = Command::new("curl");
        curl.args(["-s", "--http2-prior-knowledge", "-m", "60", "-o", "/dev/null", "-w", "%{http_code}"]);
        curl.args(["-X", method, "--data-binary"]).arg(format!("@{}", path.display()));
        if has_key {
            curl.args(["-H", &format!("x-api-key: {}", api.key)]);
        }
        let output = curl.arg(format!("http://{}{target}", service.address())).output().expect("curl runs");
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!((told, output.status.code()), (status.to_string(), Some(0)), "{name}");
    }
}

#[test]
fn request_behind_unread_body_answered() {
    let (service, api) = start_with_api();
    api.upload_file("large.bin", &vec![7; 3 << 20]).expect_status(201);
    let body = "5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n";
    let next = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    for path in ["/healthz", "/api/v1/vm", "/api/v1/files/uploads/large.bin", "/nowhere"] {
        let key = key_header_line(&api, true);
        let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\n{key}transfer-encoding: chunked\r\n\r\n");
        // All at once; and a body whose end comes after the response.
        let mut connection = RawConnection::connect(&service.address().into()).expect("it listens");
        connection.wait_at_most(Duration::from_secs(10));
        assert!(connection.write_bytes(format!("{head}{body}{next}").as_bytes()));
        connection.read_response("GET").expect("an answer");
        connection.read_response("GET").expect("the next one").expect_status(200);
        assert!(connection.write_bytes(format!("{head}{}", &body[..8]).as_bytes()));
        connection.read_response("GET").expect("an answer before the body has ended");
        assert!(connection.write_bytes(format!("{}{next}", &body[8..]).as_bytes()));
        connection.read_response("GET").expect("the next one").expect_status(200);
    }
}

#[test]
fn ambiguous_framing_ends_the_connection() {
    let (service, api) = start_with_api();
    let key = key_header_line(&api, true);
    let chunked = "transfer-encoding: chunked\r\n";
    let framings = [
        "transfer-encoding: chunked, chunked\r\n".to_owned(),
        format!("{chunked}{chunked}"),
        "transfer-encoding: gzip, chunked\r\n".to_owned(),
        "transfer-encoding: chunked, gzip\r\n".to_owned(),
        "transfer-encoding: identity\r\n".to_owned(),
        format!("{chunked}content-length: 5\r\n"),
        "content-length: 5\r\ncontent-length: 6\r\n".to_owned(),
    ];
    for framing in framings {
        for method in ["GET", "POST"] {
            let mut connection = RawConnection::connect(&service.address().into()).expect("it listens");
            connection.wait_at_most(Duration::from_secs(10));
            let head = format!("{method} /api/v1/vm HTTP/1.1\r\nhost: x\r\n{key}{framing}\r\n");
            connection
                .write_bytes(format!("{head}0\r\n\r\nGET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes());
            connection.read_response(method).expect("an answer");
            let rest = connection.read_rest();
            assert!(rest.is_empty(), "{framing:?}: {}", String::from_utf8_lossy(&rest));
        }
    }
}
