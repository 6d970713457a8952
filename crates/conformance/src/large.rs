//! Large files that are generated while they are sent and checked while they are received, never held in
//! memory.

use std::io::Read;

use serde_json::Value;

use crate::api::{Api, Expect};
use crate::connection::RawConnection;

/// The bytes that are written and read at once.
const PIECE_BYTES: usize = 256 * 1024;
/// The period of the content in bytes, not a power of two.
const PERIOD: u64 = 251;

/// Returns a piece of the content that consists of whole periods.
fn content_piece() -> Vec<u8> {
    let whole = PIECE_BYTES - PIECE_BYTES % PERIOD as usize;
    (0..whole).map(|at| (at as u64 % PERIOD) as u8).collect()
}

/// Uploads a file of this size, downloads it and its end, and deletes it.
///
/// # Panics
/// Panics if the downloaded file differs.
pub fn check_large_file_round_trip(api: &Api, bytes: u64) {
    let uploaded = upload_large_file(api, bytes);
    assert_eq!(uploaded["size"], bytes, "{uploaded}");
    let target = "/api/v1/files/uploads/large.bin";
    let response = api.new_request("GET", target).send_streaming(&api.address);
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-length"), Some(bytes.to_string().as_str()));
    assert_eq!(response.header("transfer-encoding"), None);
    let mut body = response.into_body();
    let mut buffer = vec![0; PIECE_BYTES];
    let expected = [content_piece(), content_piece()].concat();
    let mut at = 0_u64;
    loop {
        let read = body.read(&mut buffer).expect("the download goes on");
        if read == 0 {
            break;
        }
        let from = (at % PERIOD) as usize;
        assert!(buffer[..read] == expected[from..from + read], "other bytes after {at}");
        at += read as u64;
    }
    assert_eq!(at, bytes, "the whole file");
    let end =
        api.new_request("GET", target).with_header("range", "bytes=-3").send(&api.address).expect_status(206);
    let wanted: Vec<u8> = (bytes - 3..bytes).map(|at| (at % PERIOD) as u8).collect();
    assert_eq!(end.body, wanted);
    api.delete_file("/uploads/large.bin").expect_status(204);
}

fn upload_large_file(api: &Api, bytes: u64) -> Value {
    let before = "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"large.bin\"\r\n\r\n";
    let after = "\r\n--b--\r\n";
    let length = bytes + (before.len() + after.len()) as u64;
    let (prefix, host, key) = (api.address.path_prefix(), &api.address, &api.key);
    let head = format!(
        "POST {prefix}/api/v1/files HTTP/1.1\r\nhost: {host}\r\nx-api-key: {key}\r\nconnection: close\r\n\
         content-type: multipart/form-data; boundary=b\r\ncontent-length: {length}\r\n\r\n{before}"
    );
    let mut connection = RawConnection::connect(&api.address).expect("a connection");
    let mut going = connection.write_bytes(head.as_bytes());
    let piece = content_piece();
    let mut left = bytes;
    while going && left > 0 {
        let now = left.min(piece.len() as u64);
        going = connection.write_bytes(&piece[..now as usize]);
        left -= now;
    }
    connection.write_bytes(after.as_bytes());
    connection.read_response("POST").expect("an answer to the upload").expect_status(201).json()
}
