//! Event streams that are written directly to their connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::ACCEPT_ENCODING;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http_common::limits::{EARLY_MAX_BYTES, READER_STALL_TIMEOUT};
use http_common::{
    Budget, BudgetBounds, BudgetHolder, EventWriter, ResponseCompression, SseEvent, event_stream,
    is_event_stream,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::Instant;

use crate::events::message_event;

/// The buffer of a connection in these tests.
const HOLDS_BYTES: usize = 256 << 10;

fn two_states() -> Response {
    event_stream(
        stream::iter([message_event(1, &["{\"a\":1}"]), message_event(2, &["{}"])]),
        std::future::pending(),
    )
}

async fn write_stream(response: Response, early: &'static [u8], last: bool) -> (String, Bytes) {
    let (mut client, connection) = duplex(HOLDS_BYTES);
    let (connection, early) =
        EventWriter::new(connection, Bytes::from_static(early), response, last).await.unwrap();
    drop(connection);
    let mut output = Vec::new();
    client.read_to_end(&mut output).await.unwrap();
    (String::from_utf8(output).unwrap(), early)
}

#[tokio::test]
async fn event_writer_sends_chunks_behind_head() {
    assert!(is_event_stream(&two_states()));
    assert!(!is_event_stream(&Response::new(Body::empty())));
    let (output, _) = write_stream(two_states(), b"", false).await;
    let (head, body) = output.split_once("\r\n\r\n").unwrap();
    let lines: Vec<_> = head.split("\r\n").collect();
    assert_eq!(lines[0], "HTTP/1.1 200 OK");
    assert!(lines.contains(&"content-type: text/event-stream"));
    assert!(lines.contains(&"transfer-encoding: chunked"));
    assert!(lines.iter().any(|line| line.starts_with("date: ") && line.ends_with(" GMT")));
    assert!(!head.contains("connection:"));
    let pieces = [
        "event: message\ndata: {\"a\":1}\nid: a:1.1\nretry: 1000\n\n",
        "event: message\ndata: {}\nid: a:1.2\n\n",
        "",
    ];
    let chunks = pieces.map(|piece| format!("{:x}\r\n{piece}\r\n", piece.len()));
    assert_eq!(body, chunks.concat());

    let (output, _) = write_stream(two_states(), b"", true).await;
    assert!(output.contains("\r\nconnection: close\r\n"));
}

#[tokio::test]
async fn event_writer_sends_segments_as_chunk() {
    let segments: Vec<_> = (0..5).map(|at| Bytes::from(vec![b'a' + at; 5000])).collect();
    let frame = SseEvent::new("message", "1", &segments);
    let (output, _) =
        write_stream(event_stream(stream::iter([frame]), std::future::pending()), b"", false).await;
    let (_, body) = output.split_once("\r\n\r\n").unwrap();
    let (size, rest) = body.split_once("\r\n").unwrap();
    assert_eq!(usize::from_str_radix(size, 16).unwrap(), rest.len() - "\r\n0\r\n\r\n".len());
}

#[tokio::test]
async fn event_writer_returns_early_data() {
    let (mut client, connection) = duplex(HOLDS_BYTES);
    client.write_all(b"/next").await.unwrap();
    let (mut connection, early) =
        EventWriter::new(connection, Bytes::from_static(b"GET "), two_states(), false).await.unwrap();
    assert_eq!(early, "GET /next");
    client.write_all(b" and more").await.unwrap();
    client.shutdown().await.unwrap();
    let mut rest = String::new();
    connection.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, " and more");
}

#[tokio::test]
async fn event_writer_bounds_early_data() {
    let (mut client, connection) = duplex(4 * EARLY_MAX_BYTES);
    client.write_all(&vec![b'x'; 3 * EARLY_MAX_BYTES]).await.unwrap();
    client.shutdown().await.unwrap();
    let (mut connection, early) =
        EventWriter::new(connection, Bytes::new(), two_states(), false).await.unwrap();
    assert!((EARLY_MAX_BYTES..2 * EARLY_MAX_BYTES).contains(&early.len()), "{}", early.len());
    let mut rest = Vec::new();
    connection.read_to_end(&mut rest).await.unwrap();
    assert_eq!(early.len() + rest.len(), 3 * EARLY_MAX_BYTES);
}

/// Returns a stream that always has a newer state, and counts the polls.
fn newest_states(asked: &Arc<AtomicUsize>) -> Response {
    newest_until(asked, std::future::pending())
}

fn newest_until(asked: &Arc<AtomicUsize>, revoked: impl Future<Output = ()> + Send + 'static) -> Response {
    let (asked, data) = (asked.clone(), Bytes::from(vec![b'x'; 1 << 18]));
    let events = stream::poll_fn(move |_| {
        let number = asked.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Some(SseEvent::new("message", &number.to_string(), std::slice::from_ref(&data))))
    });
    event_stream(events, revoked)
}

#[tokio::test(start_paused = true)]
async fn event_writer_disconnects_stalled_reader() {
    let (_client, connection) = duplex(1 << 20);
    let (asked, began) = (Arc::new(AtomicUsize::new(0)), Instant::now());
    let error = EventWriter::new(connection, Bytes::new(), newest_states(&asked), false).await.err().unwrap();
    assert_eq!(error.to_string(), "the client stopped reading");
    assert_eq!(began.elapsed().as_secs(), READER_STALL_TIMEOUT.as_secs());
    assert!(asked.load(Ordering::Relaxed) <= 6);
}

#[tokio::test(start_paused = true)]
async fn event_writer_keeps_slow_reader() {
    let (mut client, connection) = duplex(1 << 20);
    let asked = Arc::new(AtomicUsize::new(0));
    let writing = tokio::spawn(EventWriter::new(connection, Bytes::new(), newest_states(&asked), false));
    for _ in 0..10 {
        tokio::time::sleep(READER_STALL_TIMEOUT / 2).await;
        client.read_exact(&mut vec![0; 1 << 16]).await.unwrap();
    }
    assert!(!writing.is_finished());
    drop(client);
    assert!(writing.await.unwrap().is_err(), "the reader is gone");
}

#[tokio::test(start_paused = true)]
async fn event_writer_cuts_off_revoked_reader() {
    let (mut client, connection) = duplex(1 << 16);
    let (revoke, revoked) = tokio::sync::oneshot::channel::<()>();
    let response = newest_until(&Arc::default(), async { drop(revoked.await) });
    let writing = tokio::spawn(EventWriter::new(connection, Bytes::new(), response, false));
    client.read_exact(&mut vec![0; 1 << 10]).await.unwrap();
    tokio::time::sleep(READER_STALL_TIMEOUT / 2).await;
    client.read_exact(&mut vec![0; 1 << 10]).await.unwrap();
    assert!(!writing.is_finished());
    let began = Instant::now();
    revoke.send(()).unwrap();
    assert_eq!(writing.await.unwrap().err().unwrap().to_string(), "the response was aborted");
    assert_eq!(began.elapsed(), std::time::Duration::ZERO);
}

#[tokio::test]
async fn event_writer_ends_revoked_idle_stream() {
    let response = event_stream(stream::pending(), std::future::ready(()));
    let (output, _) = write_stream(response, b"", false).await;
    assert!(output.ends_with("\r\n\r\n0\r\n\r\n"), "{output}");
}

#[tokio::test]
async fn event_writer_serves_half_closed_client() {
    let (mut client, connection) = duplex(HOLDS_BYTES);
    client.shutdown().await.unwrap();
    let (connection, _) = EventWriter::new(connection, Bytes::new(), two_states(), false).await.unwrap();
    drop(connection);
    let mut output = String::new();
    client.read_to_string(&mut output).await.unwrap();
    assert!(output.ends_with("0\r\n\r\n"));
}

#[tokio::test]
async fn event_writer_flushes_compressed_events() {
    let request = Request::builder().header(ACCEPT_ENCODING, "gzip").body(Body::empty()).unwrap();
    let places = Budget::new(BudgetBounds { each: 1, all: 1 });
    let holder = BudgetHolder::Address([192, 0, 2, 1].into());
    let response = ResponseCompression::negotiate(request.method(), request.headers()).apply_to(
        two_states(),
        &places,
        holder,
    );
    assert!(is_event_stream(&response));
    let (mut client, connection): (DuplexStream, DuplexStream) = duplex(HOLDS_BYTES);
    drop(EventWriter::new(connection, Bytes::new(), response, false).await.unwrap());
    let mut output = Vec::new();
    client.read_to_end(&mut output).await.unwrap();
    let at = output.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    let (head, mut rest) = output.split_at(at);
    assert!(String::from_utf8_lossy(head).contains("content-encoding: gzip"));
    let (mut chunks, mut content) = (0, Vec::new());
    loop {
        let line = rest.windows(2).position(|end| end == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        rest = &rest[line + 2..];
        if size == 0 {
            break;
        }
        chunks += 1;
        content.extend_from_slice(&rest[..size]);
        rest = &rest[size + 2..];
    }
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&content[..]), &mut text).unwrap();
    assert!(text.ends_with("id: a:1.2\n\n"));
    assert!(chunks >= 2, "{chunks}");
}
