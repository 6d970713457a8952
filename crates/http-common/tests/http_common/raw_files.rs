//! Tests the files that the kernel sends.

use std::future::pending;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, Method};
use axum::response::Response;
use http_common::limits::RAW_FILE_MIN_BYTES;
use http_common::{abort_response_when, download_response, is_file, send_file};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::{WorkspaceFixture, asked_path};

const TIMEOUT: Duration = Duration::from_secs(60);
/// More than the socket buffers of both ends hold.
const LARGE_BYTES: usize = 32 << 20;

async fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (client, listener.accept().await.unwrap().0)
}

fn file_content(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

async fn file_response(host: &WorkspaceFixture, range: Option<&'static str>) -> Response {
    let file = host.workspace.open_file(&asked_path("/a.bin")).await.unwrap();
    let mut headers = HeaderMap::new();
    if let Some(range) = range {
        headers.insert("range", HeaderValue::from_static(range));
    }
    download_response(&file, &Method::GET, &headers).unwrap()
}

/// Sends a response and returns what the client reads: head and body.
async fn send_and_read(response: Response, last: bool) -> (String, Vec<u8>) {
    assert!(is_file(&response));
    let (mut client, connection) = tcp_pair().await;
    let reading = tokio::spawn(async move {
        let mut read = Vec::new();
        client.read_to_end(&mut read).await.unwrap();
        read
    });
    send_file(&connection, response, last, TIMEOUT).await.unwrap();
    drop(connection);
    let read = reading.await.unwrap();
    let end = read.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    (String::from_utf8(read[..end].to_vec()).unwrap(), read[end..].to_vec())
}

#[tokio::test]
async fn send_file_sends_files_and_ranges() {
    let (host, content) = (WorkspaceFixture::new().await, file_content(3_000_001));
    host.write_file("a.bin", &content);
    let (head, body) = send_and_read(file_response(&host, None).await, false).await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("\r\ncontent-length: 3000001\r\n"));
    assert!(head.contains("\r\ndate: ") && !head.contains("connection:"));
    assert!(body == content);
    let (head, body) = send_and_read(file_response(&host, Some("bytes=65000-2600000")).await, true).await;
    assert!(head.starts_with("HTTP/1.1 206 Partial Content\r\n"));
    assert!(head.contains("\r\ncontent-range: bytes 65000-2600000/3000001\r\n"));
    assert!(head.contains("\r\nconnection: close\r\n"));
    assert!(body == content[65_000..=2_600_000]);
}

#[tokio::test]
async fn is_file_rejects_short_or_bodiless() {
    let host = WorkspaceFixture::new().await;
    host.write_file("a.bin", &file_content(RAW_FILE_MIN_BYTES as usize));
    assert!(is_file(&file_response(&host, None).await));
    assert!(!is_file(&file_response(&host, Some("bytes=1-")).await));
    let file = host.workspace.open_file(&asked_path("/a.bin")).await.unwrap();
    assert!(!is_file(&download_response(&file, &Method::HEAD, &HeaderMap::new()).unwrap()));
}

#[tokio::test]
async fn send_file_aborts_shortened_file() {
    let host = WorkspaceFixture::new().await;
    host.write_file("a.bin", &file_content(LARGE_BYTES));
    let response = file_response(&host, None).await;
    let (mut client, connection) = tcp_pair().await;
    let sending = tokio::spawn(async move { send_file(&connection, response, false, TIMEOUT).await });
    let mut begun = vec![0; 1 << 16];
    client.read_exact(&mut begun).await.unwrap();
    let file = std::fs::File::options().write(true).open(host.workspace.host_dir().join("a.bin")).unwrap();
    file.set_len(1000).unwrap();
    let mut rest = Vec::new();
    let end = client.read_to_end(&mut rest).await;
    assert!(begun.len() + rest.len() < LARGE_BYTES, "{end:?}");
    assert_eq!(sending.await.unwrap().unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn send_file_times_out_stalled_client() {
    let host = WorkspaceFixture::new().await;
    host.write_file("a.bin", &file_content(LARGE_BYTES));
    let (_client, connection) = tcp_pair().await;
    let timeout = Duration::from_millis(200);
    let error = send_file(&connection, file_response(&host, None).await, false, timeout).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

#[tokio::test]
async fn send_file_aborts_on_end() {
    let host = WorkspaceFixture::new().await;
    host.write_file("a.bin", &file_content(LARGE_BYTES));
    let (mut client, connection) = tcp_pair().await;
    let end = Arc::new(Notify::new());
    let ended = abort_response_when(file_response(&host, None).await, || end.clone().notified_owned());
    let sending = tokio::spawn(async move { send_file(&connection, ended, false, TIMEOUT).await });
    client.read_exact(&mut [0; 1 << 16]).await.unwrap();
    end.notify_waiters();
    let error = sending.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the response was aborted");
    let goes_on = abort_response_when(file_response(&host, Some("bytes=0-199999")).await, pending);
    assert_eq!(send_and_read(goes_on, false).await.1.len(), 200_000);
}
