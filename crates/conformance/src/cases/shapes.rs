//! Request smuggling and other malformed requests: requests whose end is ambiguous. The service rejects
//! anything that it does not understand and closes the connection; it never interprets a body as a request.

use super::Case;
use crate::api::{Api, Expect};
use crate::connection::RawConnection;
use crate::http::{HttpRequest, HttpResponse};

pub(super) const CASES: &[Case] = cases![
    Directly:
    a_body_is_never_taken_for_a_request,
    transfer_codings_are_one_and_only_one,
    lengths_are_numbers_and_one,
    lines_of_a_head_are_what_they_seem,
    chunks_are_read_as_strictly_as_they_are_meant,
    requests_in_a_row_are_answered_in_their_order,
    a_target_may_name_the_whole_address,
    heads_have_bounds,
    a_refused_key_ends_a_request_before_its_body,
    a_body_that_is_declared_too_large_is_not_asked_for,
    http_2_is_spoken_without_being_asked;
];

/// A request that would get 404 if it were interpreted as one.
const HIDDEN: &str = "GET /api/v1/hidden-in-a-body HTTP/1.1\r\nhost: x\r\n\r\n";

/// Sends these bytes and returns all responses until the service closes the connection.
fn send_raw_bytes(api: &Api, bytes: &[u8]) -> Vec<HttpResponse> {
    let mut connection = RawConnection::connect(&api.address).expect("a connection");
    connection.write_bytes(bytes);
    connection.end_writing();
    std::iter::from_fn(|| connection.read_response("GET")).take(10).collect()
}

fn raw_statuses(api: &Api, bytes: &[u8]) -> Vec<u16> {
    send_raw_bytes(api, bytes).iter().map(|response| response.status).collect()
}

/// Creates a malformed question with these further header lines and this body: it gets 400 if it is read as
/// one request.
fn malformed_question(api: &Api, lines: &str, body: &str) -> Vec<u8> {
    let (prefix, host, key) = (api.address.path_prefix(), &api.address, &api.key);
    format!("POST {prefix}/api/v1/chats HTTP/1.1\r\nhost: {host}\r\nx-api-key: {key}\r\n{lines}\r\n{body}")
        .into_bytes()
}

fn refused_only(statuses: &[u16]) -> bool {
    statuses.len() <= 1 && statuses.iter().all(|status| matches!(status, 400 | 411 | 431 | 501))
}

fn a_body_is_never_taken_for_a_request(api: &Api) {
    // Both a length and chunks: by the length, the body would end where the hidden request begins.
    let body = format!("0\r\n\r\n{HIDDEN}");
    for lines in [
        format!("content-length: {}\r\ntransfer-encoding: chunked\r\n", body.len()),
        format!("transfer-encoding: chunked\r\ncontent-length: {}\r\n", body.len()),
        "content-length: 5\r\nTransfer-Encoding: chunked\r\n".to_owned(),
        "Transfer-Encoding: chunked\r\ncontent-length: 0\r\n".to_owned(),
    ] {
        let met = raw_statuses(api, &malformed_question(api, &lines, &body));
        assert!(refused_only(&met), "{lines:?}: {met:?}");
    }
    // The length covers the hidden request, which is therefore only a body.
    let lines = format!("content-length: {}\r\n", HIDDEN.len());
    assert_eq!(raw_statuses(api, &malformed_question(api, &lines, HIDDEN)), [400]);
    let chunk = format!("{:x}\r\n{HIDDEN}\r\n0\r\n\r\n", HIDDEN.len());
    assert_eq!(raw_statuses(api, &malformed_question(api, "transfer-encoding: chunked\r\n", &chunk)), [400]);
}

fn transfer_codings_are_one_and_only_one(api: &Api) {
    let chunked = "2\r\n{}\r\n0\r\n\r\n";
    for name in ["Transfer-Encoding: chunked", "transfer-encoding: CHUNKED", "TRANSFER-ENCODING:chunked"] {
        assert_eq!(
            raw_statuses(api, &malformed_question(api, &format!("{name}\r\n"), chunked)),
            [400],
            "{name}: read, and no question"
        );
    }
    for lines in [
        "transfer-encoding: xchunked\r\n",
        "transfer-encoding: chunkedx\r\n",
        "transfer-encoding: chunked, identity\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n",
        "transfer-encoding: \r\n",
        "transfer-encoding : chunked\r\n",
        "transfer-encoding\t: chunked\r\n",
        " transfer-encoding: chunked\r\n",
        "transfer-encoding: \x0bchunked\r\n",
        "transfer-encoding: \"chunked\"\r\n",
        "x: y\r\n transfer-encoding: chunked\r\n",
        "transfer_encoding\0: chunked\r\n",
    ] {
        let met = raw_statuses(api, &malformed_question(api, lines, &format!("{chunked}{HIDDEN}")));
        assert!(refused_only(&met), "{lines:?}: {met:?}");
    }
}

fn lengths_are_numbers_and_one(api: &Api) {
    for lines in [
        "content-length: 2\r\ncontent-length: 3\r\n",
        "content-length: 3\r\ncontent-length: 2\r\n",
        "content-length: 2, 3\r\n",
        "content-length: +2\r\n",
        "content-length: -2\r\n",
        "content-length: 0x2\r\n",
        "content-length: 2 2\r\n",
        "content-length: two\r\n",
        "content-length: \r\n",
        "content-length: 99999999999999999999999999\r\n",
        "content-length : 2\r\n",
    ] {
        let met = raw_statuses(api, &malformed_question(api, lines, &format!("{{}}{HIDDEN}")));
        assert!(refused_only(&met), "{lines:?}: {met:?}");
    }
    // Two equal lengths count as one.
    let met = raw_statuses(api, &malformed_question(api, "content-length: 2\r\ncontent-length: 2\r\n", "{}"));
    assert_eq!(met, [400]);
}

fn lines_of_a_head_are_what_they_seem(api: &Api) {
    let (prefix, host, key) = (api.address.path_prefix(), &api.address, &api.key);
    let head = |line: &str| {
        format!(
            "GET {prefix}/api/v1/vm HTTP/1.1\r\nhost: {host}\r\n{line}\r\nx-api-key: {key}\r\n\r\n{HIDDEN}"
        )
    };
    for line in [
        "folded: a\r\n b",
        "folded: a\r\n\tb",
        "space : a",
        "no colon",
        ": no name",
        "nul: a\0b",
        "carriage: a\rb: c",
        "back\u{8}space: a",
        "ž: a",
        "brackets[]: a",
    ] {
        let met = raw_statuses(api, head(line).as_bytes());
        assert!(refused_only(&met), "{line:?}: {met:?}");
    }
    for line in [
        "GET  /api/v1/vm HTTP/1.1",
        "GET /api/v1/vm",
        "GET /api/v1/vm HTTP/1.1 x",
        "GET\t/ HTTP/1.1",
        "get\0 / HTTP/1.1",
    ] {
        let met = raw_statuses(api, format!("{line}\r\nhost: {host}\r\n\r\n{HIDDEN}").as_bytes());
        assert!(refused_only(&met), "{line:?}: {met:?}");
    }
    // A bare line feed may end a line; if it does, it does so everywhere, and these are two requests.
    let bare = format!("GET {prefix}/api/v1/vm HTTP/1.1\nhost: {host}\nx-api-key: {key}\n\n{HIDDEN}");
    let met = raw_statuses(api, bare.as_bytes());
    assert!(met == [200, 401] || refused_only(&met), "{met:?}");
}

fn chunks_are_read_as_strictly_as_they_are_meant(api: &Api) {
    let lines = "transfer-encoding: chunked\r\n";
    for body in [
        "2;x=y\r\n{}\r\n0\r\n\r\n",
        "2 \r\n{}\r\n0\r\n\r\n",
        "0002\r\n{}\r\n000\r\n\r\n",
        "1\r\n{\r\n1\r\n}\r\n0\r\ntrailer: x\r\n\r\n",
    ] {
        assert_eq!(
            raw_statuses(api, &malformed_question(api, lines, body)),
            [400],
            "{body:?}: read, and no question"
        );
    }
    let extended = format!("2;{}\r\n{{}}\r\n0\r\n\r\n", "x".repeat(100_000));
    let trailers = format!("2\r\n{{}}\r\n0\r\n{}\r\n\r\n", "t: x\r\n".repeat(5_000));
    for body in [
        "0x2\r\n{}\r\n0\r\n\r\n",
        "-2\r\n{}\r\n0\r\n\r\n",
        "+2\r\n{}\r\n0\r\n\r\n",
        "\r\n{}\r\n0\r\n\r\n",
        "g\r\n{}\r\n0\r\n\r\n",
        "10000000000000002\r\n{}\r\n0\r\n\r\n",
        "ffffffffffffffff\r\n{}\r\n0\r\n\r\n",
        "2\r\n{}x\r\n0\r\n\r\n",
        "1\r\n{}\r\n0\r\n\r\n",
        "2\n{}\n0\n\n",
        "2;x\n{}\r\n0\r\n\r\n",
        &extended,
        &trailers,
    ] {
        let met = raw_statuses(api, &malformed_question(api, lines, &format!("{body}{HIDDEN}")));
        assert!(refused_only(&met), "{:?}: {met:?}", body.chars().take(40).collect::<String>());
    }
}

fn requests_in_a_row_are_answered_in_their_order(api: &Api) {
    let (prefix, host, key) = (api.address.path_prefix(), &api.address, &api.key);
    let get = |target: &str| {
        format!("GET {prefix}/api/v1{target} HTTP/1.1\r\nhost: {host}\r\nx-api-key: {key}\r\n\r\n")
    };
    let question = "{\"input\":\"\"}";
    let row = [
        get("/vm"),
        get("/nothing"),
        String::from_utf8_lossy(&malformed_question(
            api,
            &format!("content-length: {}\r\n", question.len()),
            question,
        ))
        .into_owned(),
        get("/chats?limit=1"),
        format!("GET {prefix}/api/v1/vm HTTP/1.1\r\nhost: {host}\r\n\r\n"),
        get("/directories"),
    ];
    let met = send_raw_bytes(api, row.concat().as_bytes());
    assert_eq!(
        met.iter().map(|response| response.status).collect::<Vec<_>>(),
        [200, 404, 400, 200, 401, 200]
    );
    assert_eq!((&met[3].json()["limit"], &met[5].json()["path"]), (&1.into(), &"/".into()));
}

fn a_target_may_name_the_whole_address(api: &Api) {
    api.upload_file("a b.txt", b"x").expect_status(201);
    for target in ["/api/v1/files/uploads/a%20b.txt", "/api/v1/files//uploads//a%20b.txt"] {
        let absolute = format!("http://{}{}{target}", api.address, api.address.path_prefix());
        let bare = crate::ServiceAddress::from(api.address.to_string().as_str());
        let request = HttpRequest::new("GET", &absolute).with_header("x-api-key", &api.key);
        if !api.address.is_tls() {
            assert_eq!(request.send(&bare).expect_status(200).body, b"x", "{absolute}");
        }
    }
    for target in ["*", "example.test:443", "//", "?", "#", "\\", "/api/v1/vm\\..", "/api/v1/../v1/vm"] {
        let met = raw_statuses(api, format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes());
        assert!(met.iter().all(|status| (400..500).contains(status)) && met.len() <= 1, "{target}: {met:?}");
    }
}

fn heads_have_bounds(api: &Api) {
    let long = |bytes: usize| {
        api.new_request("GET", "/api/v1/vm").with_header("x-long", &"y".repeat(bytes)).send(&api.address)
    };
    long(8_000).expect_status(200);
    long(100_000).expect_code(431, "HEAD_TOO_LARGE");
    assert_eq!(long(1_000_000).status, 431);
    let many = |count: usize| {
        let request = api.new_request("GET", "/api/v1/vm");
        let lines = (0..count).fold(request, |request, n| request.with_header(&format!("x-{n}"), "y"));
        lines.send(&api.address)
    };
    many(50).expect_status(200);
    assert_eq!(many(2_000).status, 431);
    let target = |bytes: usize| api.call_endpoint("GET", &format!("/api/v1/vm?{}", "y".repeat(bytes))).status;
    assert_eq!(target(7_000), 200);
    let long = api.call_endpoint("GET", &format!("/api/v1/vm?{}", "y".repeat(17_000)));
    long.expect_code(414, "TARGET_TOO_LONG");
    // A target of this length is rejected before the key is checked.
    for bytes in [70_000, 500_000] {
        let status = target(bytes);
        assert!(matches!(status, 414 | 431), "{bytes}: {status}");
    }
    let body = api.send_bytes(format!("{{\"input\":\"{}\"}}", "x".repeat(5 << 20)).as_bytes());
    body.expect_code(413, "TOO_LARGE");
}

fn a_refused_key_ends_a_request_before_its_body(api: &Api) {
    let host = &api.address;
    for method in ["POST", "PATCH", "DELETE"] {
        for path in ["/api/v1/chats", "/api/v1/files", "/api/v1/files/../../etc", "/api/v1/nothing"] {
            for lines in ["content-length: 1000000\r\n", "transfer-encoding: chunked\r\n"] {
                let mut connection = RawConnection::connect(&api.address).expect("a connection");
                let prefix = api.address.path_prefix();
                let head = format!(
                    "{method} {prefix}{path} HTTP/1.1\r\nhost: {host}\r\nx-api-key: api-wrong\r\n{lines}expect: 100-continue\r\n\r\n"
                );
                assert!(connection.write_bytes(head.as_bytes()));
                // The client sends no body, and the service must not request it.
                connection.read_response("POST").expect("an answer").expect_rejection();
            }
        }
    }
    let head =
        HttpRequest::new("HEAD", "/api/v1/vm").with_header("x-api-key", "api-wrong").send(&api.address);
    head.expect_rejection();
}

fn a_body_that_is_declared_too_large_is_not_asked_for(api: &Api) {
    let head = |length: usize| {
        let (host, prefix, key) = (&api.address, api.address.path_prefix(), &api.key);
        format!(
            "POST {prefix}/api/v1/chats HTTP/1.1\r\nhost: {host}\r\nx-api-key: {key}\r\ncontent-length: {length}\r\nexpect: 100-continue\r\n\r\n"
        )
    };
    let mut connection = RawConnection::connect(&api.address).expect("a connection");
    assert!(connection.write_bytes(head(1 << 30).as_bytes()));
    connection.read_response("POST").expect("an answer").expect_code(413, "TOO_LARGE");
    assert!(connection.is_closed(), "a body that is sent anyway is not interpreted as a request");
    let mut connection = RawConnection::connect(&api.address).expect("a connection");
    assert!(connection.write_bytes(head(2).as_bytes()));
    assert_eq!(connection.read_bytes(12).as_deref(), Some(&b"HTTP/1.1 100"[..]), "a small one is");
}

/// Encodes a frame of HTTP/2.
fn encode_frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

fn http_2_is_spoken_without_being_asked(api: &Api) {
    const HEADERS: u8 = 1;
    let literal = |name: &[u8], text: &str| {
        [name, &[u8::try_from(text.len()).expect("short")], text.as_bytes()].concat()
    };
    let path = format!("{}/api/v1/vm", api.address.path_prefix());
    let request = |key: &str| {
        // GET and http are entries 2 and 6 of the static table; authority and path are names 1 and 4.
        let named = [&[0_u8, 9], &b"x-api-key"[..]].concat();
        let block = [
            vec![0x82, 0x86],
            literal(&[4], &path),
            literal(&[1], &api.address.to_string()),
            literal(&named, key),
        ];
        encode_frame(HEADERS, 5, 1, &block.concat())
    };
    for (key, status) in [(api.key.as_str(), &[0x88_u8][..]), ("api-wrong", b"\x48\x03401")] {
        let mut connection = RawConnection::connect(&api.address).expect("a connection");
        let bytes =
            [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &encode_frame(4, 0, 0, &[]), &request(key)].concat();
        assert!(connection.write_bytes(&bytes));
        let block = loop {
            let head = connection.read_bytes(9).expect("a frame");
            let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            let payload = connection.read_bytes(length).expect("its payload");
            if head[3] == HEADERS {
                break payload;
            }
        };
        // 200 is an entry of the static table; 401 is a literal, plain or Huffman coded (three bytes).
        let huffman = block.starts_with(b"\x48\x82");
        assert!(block.starts_with(status) || key != api.key && huffman, "{block:x?}");
    }
}
