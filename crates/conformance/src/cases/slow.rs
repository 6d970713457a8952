//! Clients that are slow, stall, disconnect half-way, or send nothing.

use std::thread;

use serde_json::json;

use super::Case;
use crate::api::{Api, Expect, list_names, uploaded_path};
use crate::connection::RawConnection;

pub(super) const CASES: &[Case] = cases![
    Directly:
    a_request_may_come_byte_by_byte,
    an_upload_that_breaks_off_leaves_the_old_file,
    a_client_that_has_said_all_is_answered,
    bodies_that_never_come_are_given_up,
    idle_connections_hold_up_nobody;
];

fn request_head(api: &Api, method: &str, target: &str, lines: &str) -> Vec<u8> {
    let (prefix, host, key) = (api.address.path_prefix(), &api.address, &api.key);
    format!("{method} {prefix}{target} HTTP/1.1\r\nhost: {host}\r\nx-api-key: {key}\r\n{lines}\r\n")
        .into_bytes()
}

fn a_request_may_come_byte_by_byte(api: &Api) {
    let mut connection = RawConnection::connect(&api.address).expect("a connection");
    for byte in request_head(api, "GET", "/api/v1/vm", "") {
        assert!(connection.write_bytes(&[byte]));
    }
    connection.read_response("GET").expect("an answer").expect_status(200);
    let body = "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"slow.txt\"\r\n\r\nslowly\r\n--b--\r\n";
    let lines =
        format!("content-type: multipart/form-data; boundary=b\r\ncontent-length: {}\r\n", body.len());
    connection.write_bytes(&request_head(api, "POST", "/api/v1/files", &lines));
    for byte in body.bytes() {
        assert!(connection.write_bytes(&[byte]));
    }
    connection.read_response("POST").expect("an answer").expect_status(201);
    assert_eq!(api.download_file("/uploads/slow.txt").expect_status(200).body, b"slowly");
}

fn an_upload_that_breaks_off_leaves_the_old_file(api: &Api) {
    uploaded_path(api.upload_file("kept.txt", b"the old one"));
    let file = "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"kept.txt\"\r\n\r\n";
    for (lines, body) in [
        ("content-length: 100000\r\n", format!("{file}half")),
        ("transfer-encoding: chunked\r\n", format!("{:x}\r\n{file}\r\n", file.len())),
        ("transfer-encoding: chunked\r\n", format!("{:x}\r\n{file}half", file.len() + 4000)),
    ] {
        for half_closed in [false, true] {
            let mut connection = RawConnection::connect(&api.address).expect("a connection");
            let lines = format!("content-type: multipart/form-data; boundary=b\r\n{lines}");
            connection.write_bytes(&request_head(api, "POST", "/api/v1/files", &lines));
            connection.write_bytes(body.as_bytes());
            if half_closed {
                connection.end_writing();
                let answered = connection.read_response("POST");
                assert!(answered.is_none_or(|response| response.status == 400));
            }
            drop(connection);
        }
    }
    assert_eq!(api.download_file("/uploads/kept.txt").expect_status(200).body, b"the old one");
    assert_eq!(list_names(api, "/uploads"), ["kept.txt"]);
    assert_eq!(list_names(api, ""), ["uploads"]);
}

fn a_client_that_has_said_all_is_answered(api: &Api) {
    let question = json!({ "input": " " }).to_string();
    let lines = format!("content-length: {}\r\n", question.len());
    for (bytes, status) in [
        (request_head(api, "GET", "/api/v1/vm", ""), 200),
        (request_head(api, "GET", "/api/v1/directories", ""), 200),
        ([request_head(api, "POST", "/api/v1/chats", &lines), question.into_bytes()].concat(), 400),
        (request_head(api, "POST", "/api/v1/chats", "content-length: 100\r\n"), 400),
    ] {
        let mut connection = RawConnection::connect(&api.address).expect("a connection");
        connection.write_bytes(&bytes);
        connection.end_writing();
        match connection.read_response("GET") {
            Some(response) => assert_eq!(response.status, status),
            // The service may close the connection without reporting that the rest of the body is missing.
            None => assert_eq!(status, 400),
        }
    }
}

fn bodies_that_never_come_are_given_up(api: &Api) {
    let nobody = "/api/v1/chats/00000000-0000-4000-8000-000000000000";
    let call = format!("{nobody}/messages/00000000-0000-4000-8000-000000000000/calls/call_1");
    thread::scope(|scope| {
        for (method, target) in [("POST", "/api/v1/chats"), ("PATCH", nobody), ("POST", &call)] {
            for lines in ["content-length: 100\r\n", "transfer-encoding: chunked\r\n"] {
                scope.spawn(move || {
                    let mut connection = RawConnection::connect(&api.address).expect("a connection");
                    connection.write_bytes(&request_head(api, method, target, lines));
                    let given_up = connection.read_response(method).expect("an answer in the end");
                    crate::met::record_response(method, target, given_up.status, Some(&given_up.body));
                    given_up.expect_code(408, "TOO_SLOW");
                });
            }
        }
        scope.spawn(|| {
            let mut connection = RawConnection::connect(&api.address).expect("a connection");
            connection.write_bytes(b"GET /api/v1/vm HTTP/1.1\r\nhost: x\r\n");
            let given_up = connection.read_response("GET").map(|response| response.status);
            assert!(matches!(given_up, None | Some(408)), "a head that stalls: {given_up:?}");
        });
    });
}

fn idle_connections_hold_up_nobody(api: &Api) {
    let mut idle = Vec::new();
    for at in 0..256 {
        let mut connection = RawConnection::connect(&api.address).expect("a connection");
        match at % 4 {
            0 => {}
            1 => drop(connection.write_bytes(b"GET /api/v1/vm HTT")),
            2 => drop(connection.write_bytes(&request_head(
                api,
                "POST",
                "/api/v1/chats",
                "content-length: 9999\r\n",
            ))),
            _ => {
                let lines = "content-type: multipart/form-data; boundary=b\r\ncontent-length: 9999\r\n";
                connection.write_bytes(&request_head(api, "POST", "/api/v1/files", lines));
                connection.write_bytes(
                    b"--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nx",
                );
            }
        }
        idle.push(connection);
    }
    api.get_vm().expect_status(200);
    uploaded_path(api.upload_file("a.txt", b"x"));
    assert_eq!(list_names(api, "/uploads"), ["a.txt"]);
    drop(idle);
    api.get_vm().expect_status(200);
}
