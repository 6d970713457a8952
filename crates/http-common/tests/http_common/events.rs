//! Event streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use axum::body::BodyDataStream;
use axum::routing::get;
use bytes::Bytes;
use futures_util::{FutureExt, Stream, StreamExt, stream};
use http_common::limits::{HEARTBEAT, READER_IN_FLIGHT_MAX_BYTES, READER_STALL_TIMEOUT};
use http_common::{SseEvent, data_stream, event_stream};
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use crate::header_text;

pub(crate) fn message_event(number: usize, data: &[&'static str]) -> SseEvent {
    let data: Vec<_> = data.iter().map(|segment| Bytes::from_static(segment.as_bytes())).collect();
    SseEvent::new("message", &format!("a:1.{number}"), &data)
}

fn event_reader(frames: impl Stream<Item = SseEvent> + Send + 'static) -> BodyDataStream {
    event_stream(frames, std::future::pending()).into_body().into_data_stream()
}

/// Returns a stream that always has a newer state, and counts the polls.
fn newest_states(asked: &Arc<AtomicUsize>, data: Bytes) -> impl Stream<Item = SseEvent> + use<> {
    let asked = asked.clone();
    stream::poll_fn(move |_| {
        let number = asked.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Some(SseEvent::new("message", &number.to_string(), std::slice::from_ref(&data))))
    })
}

async fn next_piece(reader: &mut BodyDataStream) -> Option<Bytes> {
    reader.next().await.map(Result::unwrap)
}

#[tokio::test(start_paused = true)]
async fn event_stream_writes_events_and_comments() {
    let response = event_stream(stream::empty(), std::future::pending());
    assert_eq!(header_text(&response, "content-type"), "text/event-stream");
    assert_eq!(header_text(&response, "cache-control"), "no-store");
    assert_eq!(header_text(&response, "x-accel-buffering"), "no");

    let frames = stream::iter([message_event(1, &["{\"a\":", "1", "}"]), message_event(2, &["{}"])]);
    let mut reader = event_reader(frames.chain(stream::once(async {
        tokio::time::sleep(HEARTBEAT * 5 / 2).await;
        message_event(3, &["x"])
    })));
    let began = Instant::now();
    assert_eq!(next_piece(&mut reader).await.unwrap(), "event: message\ndata: {\"a\":1}\nid: a:1.1\n");
    assert_eq!(next_piece(&mut reader).await.unwrap(), "retry: 1000\n\n");
    assert_eq!(next_piece(&mut reader).await.unwrap(), "event: message\ndata: {}\nid: a:1.2\n\n");
    for beat in 1..=2 {
        assert_eq!(next_piece(&mut reader).await.unwrap(), ":\n\n");
        assert_eq!(began.elapsed().as_secs(), HEARTBEAT.as_secs() * beat);
    }
    assert_eq!(next_piece(&mut reader).await.unwrap(), "event: message\ndata: x\nid: a:1.3\n\n");
    assert!(next_piece(&mut reader).await.is_none());
    assert!(next_piece(&mut reader).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn data_stream_writes_data_and_comments_alone() {
    let frames = stream::once(async {
        tokio::time::sleep(HEARTBEAT * 3 / 2).await;
        SseEvent::from_data(&["{\"a\":1}", "two\nlines", "[DONE]"])
    });
    let response = data_stream(frames, std::future::pending());
    assert_eq!(header_text(&response, "content-type"), "text/event-stream");
    let mut reader = response.into_body().into_data_stream();
    assert_eq!(next_piece(&mut reader).await.unwrap(), ":\n\n");
    let data = "data: {\"a\":1}\n\ndata: two lines\n\ndata: [DONE]\n\n";
    assert_eq!(next_piece(&mut reader).await.unwrap(), data);
    assert!(next_piece(&mut reader).await.is_none());
}

#[tokio::test]
async fn event_stream_polls_after_sending() {
    let asked = Arc::new(AtomicUsize::new(0));
    let mut reader = event_reader(newest_states(&asked, Bytes::from_static(b"{}")));
    let first = next_piece(&mut reader).await.unwrap();
    assert_eq!(next_piece(&mut reader).await.unwrap(), "retry: 1000\n\n");
    let held = first;
    for _ in 0..3 {
        assert!(reader.next().now_or_never().is_none());
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    let waiting = tokio::spawn(async move { next_piece(&mut reader).await });
    tokio::task::yield_now().await;
    drop(held);
    assert!(waiting.await.unwrap().unwrap().starts_with(b"event: message"));
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn event_stream_shares_large_state() {
    let data = Bytes::from(vec![b'x'; 1 << 20]);
    let shared = data.as_ptr_range();
    let mut reader = event_reader(stream::iter([SseEvent::new("message", "1", &[data])]));
    let (mut held, mut total, mut copied) = (Vec::new(), 0, 0);
    loop {
        match reader.next().now_or_never() {
            Some(Some(piece)) => {
                let piece = piece.unwrap();
                assert!(piece.len() <= READER_IN_FLIGHT_MAX_BYTES);
                total += piece.len();
                copied += if shared.contains(&piece.as_ptr()) { 0 } else { piece.len() };
                held.push(piece);
                assert!(held.iter().map(Bytes::len).sum::<usize>() <= 2 * READER_IN_FLIGHT_MAX_BYTES);
            }
            Some(None) => break,
            None => held.clear(),
        }
    }
    assert_eq!(total, (1 << 20) + copied);
    assert!(copied < 100);
}

#[tokio::test(start_paused = true)]
async fn event_stream_disconnects_only_stalled_reader() {
    let data = Bytes::from(vec![b'x'; 1 << 20]);
    let mut slow = event_reader(newest_states(&Arc::default(), data.clone()));
    for _ in 0..5 {
        let held = next_piece(&mut slow).await.unwrap();
        tokio::time::sleep(READER_STALL_TIMEOUT - Duration::from_secs(1)).await;
        drop(held);
    }
    let mut stalled = event_reader(newest_states(&Arc::default(), data));
    let began = Instant::now();
    let mut held = Vec::new();
    let error = loop {
        match stalled.next().await.unwrap() {
            Ok(piece) => held.push(piece),
            Err(error) => break error,
        }
    };
    assert_eq!(error.to_string(), "the client stopped reading");
    assert_eq!(began.elapsed().as_secs(), READER_STALL_TIMEOUT.as_secs());
}

/// Uses a real connection and the production server.
#[tokio::test(start_paused = true)]
async fn event_stream_disconnects_unread_connection() {
    struct DropSignal(Option<tokio::sync::oneshot::Sender<()>>);
    impl Drop for DropSignal {
        fn drop(&mut self) {
            let _ = self.0.take().unwrap().send(());
        }
    }
    let (ended, has_ended) = tokio::sync::oneshot::channel();
    let ended = Arc::new(std::sync::Mutex::new(Some(DropSignal(Some(ended)))));
    let asked = Arc::new(AtomicUsize::new(0));
    let frames = {
        let asked = asked.clone();
        move || {
            let ended = ended.lock().unwrap().take();
            let frames = newest_states(&asked, Bytes::from(vec![b'x'; 1 << 18]));
            async move { event_stream(frames.inspect(move |_| assert!(ended.is_some())), std::future::pending()) }
        }
    };
    let router = axum::Router::new().route("/", get(frames));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    has_ended.await.unwrap();
    // Only the data that fits into the kernel's buffers, which hold less than 10 MiB.
    assert!((1..40).contains(&asked.load(Ordering::Relaxed)), "{asked:?}");
    server.abort();
    drop(client);
}

#[tokio::test]
async fn revoked_event_stream_aborts_mid_event() {
    let (revoke, revoked) = tokio::sync::oneshot::channel::<()>();
    let frames = newest_states(&Arc::default(), Bytes::from(vec![b'x'; 4 * READER_IN_FLIGHT_MAX_BYTES]));
    let mut reader = event_stream(frames, async { drop(revoked.await) }).into_body().into_data_stream();
    assert!(reader.next().await.unwrap().is_ok());
    revoke.send(()).unwrap();
    assert_eq!(reader.next().await.unwrap().unwrap_err().to_string(), "the response was aborted");
    assert!(reader.next().await.is_none());
}

#[tokio::test]
async fn event_field_replaces_line_ends() {
    let odd = SseEvent::new("message", "1\n\ndata: 2", &[]);
    let mut reader = event_reader(stream::iter([odd]));
    assert_eq!(next_piece(&mut reader).await.unwrap(), "event: message\ndata: \nid: 1  data: 2\n");
    assert_eq!(next_piece(&mut reader).await.unwrap(), "retry: 1000\n\n");
}
