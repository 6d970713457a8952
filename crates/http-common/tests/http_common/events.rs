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
use http_common::{Event, event_stream};
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use crate::header;

pub(crate) fn frame(number: usize, data: &[&'static str]) -> Event {
    let data: Vec<_> = data.iter().map(|segment| Bytes::from_static(segment.as_bytes())).collect();
    Event::new("message", &format!("a:1.{number}"), &data)
}

fn reader(frames: impl Stream<Item = Event> + Send + 'static) -> BodyDataStream {
    event_stream(frames, std::future::pending()).into_body().into_data_stream()
}

/// Returns a stream that always has a newer state, and counts the polls.
fn newest(asked: &Arc<AtomicUsize>, data: Bytes) -> impl Stream<Item = Event> + use<> {
    let asked = asked.clone();
    stream::poll_fn(move |_| {
        let number = asked.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Some(Event::new("message", &number.to_string(), std::slice::from_ref(&data))))
    })
}

async fn next(reader: &mut BodyDataStream) -> Option<Bytes> {
    reader.next().await.map(Result::unwrap)
}

#[tokio::test(start_paused = true)]
async fn frames_and_comments_are_written_as_readers_expect_them() {
    let response = event_stream(stream::empty(), std::future::pending());
    assert_eq!(header(&response, "content-type"), "text/event-stream");
    assert_eq!(header(&response, "cache-control"), "no-store");
    assert_eq!(header(&response, "x-accel-buffering"), "no");

    let frames = stream::iter([frame(1, &["{\"a\":", "1", "}"]), frame(2, &["{}"])]);
    let mut reader = reader(frames.chain(stream::once(async {
        tokio::time::sleep(HEARTBEAT * 5 / 2).await;
        frame(3, &["x"])
    })));
    let began = Instant::now();
    assert_eq!(next(&mut reader).await.unwrap(), "event: message\ndata: {\"a\":1}\nid: a:1.1\n");
    assert_eq!(next(&mut reader).await.unwrap(), "retry: 1000\n\n");
    assert_eq!(next(&mut reader).await.unwrap(), "event: message\ndata: {}\nid: a:1.2\n\n");
    for beat in 1..=2 {
        assert_eq!(next(&mut reader).await.unwrap(), ":\n\n");
        assert_eq!(began.elapsed().as_secs(), HEARTBEAT.as_secs() * beat);
    }
    assert_eq!(next(&mut reader).await.unwrap(), "event: message\ndata: x\nid: a:1.3\n\n");
    assert!(next(&mut reader).await.is_none());
    assert!(next(&mut reader).await.is_none());
}

#[tokio::test]
async fn the_next_state_is_asked_for_when_the_one_before_is_sent() {
    let asked = Arc::new(AtomicUsize::new(0));
    let mut reader = reader(newest(&asked, Bytes::from_static(b"{}")));
    let first = next(&mut reader).await.unwrap();
    assert_eq!(next(&mut reader).await.unwrap(), "retry: 1000\n\n");
    let held = first;
    for _ in 0..3 {
        assert!(reader.next().now_or_never().is_none());
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    let waiting = tokio::spawn(async move { next(&mut reader).await });
    tokio::task::yield_now().await;
    drop(held);
    assert!(waiting.await.unwrap().unwrap().starts_with(b"event: message"));
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_large_state_is_shared_and_handed_over_in_pieces() {
    let data = Bytes::from(vec![b'x'; 1 << 20]);
    let shared = data.as_ptr_range();
    let mut reader = reader(stream::iter([Event::new("message", "1", &[data])]));
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
async fn a_reader_that_takes_nothing_is_let_go_and_a_slow_one_is_not() {
    let data = Bytes::from(vec![b'x'; 1 << 20]);
    let mut slow = reader(newest(&Arc::default(), data.clone()));
    for _ in 0..5 {
        let held = next(&mut slow).await.unwrap();
        tokio::time::sleep(READER_STALL_TIMEOUT - Duration::from_secs(1)).await;
        drop(held);
    }
    let mut stalled = reader(newest(&Arc::default(), data));
    let began = Instant::now();
    let mut held = Vec::new();
    let error = loop {
        match stalled.next().await.unwrap() {
            Ok(piece) => held.push(piece),
            Err(error) => break error,
        }
    };
    assert_eq!(error.to_string(), "the reader took nothing for too long");
    assert_eq!(began.elapsed().as_secs(), READER_STALL_TIMEOUT.as_secs());
}

/// Uses a real connection and the production server.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_gets_few_old_states_and_is_disconnected() {
    struct Ended(Option<tokio::sync::oneshot::Sender<()>>);
    impl Drop for Ended {
        fn drop(&mut self) {
            let _ = self.0.take().unwrap().send(());
        }
    }
    let (ended, has_ended) = tokio::sync::oneshot::channel();
    let ended = Arc::new(std::sync::Mutex::new(Some(Ended(Some(ended)))));
    let asked = Arc::new(AtomicUsize::new(0));
    let frames = {
        let asked = asked.clone();
        move || {
            let ended = ended.lock().unwrap().take();
            let frames = newest(&asked, Bytes::from(vec![b'x'; 1 << 18]));
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
    // Only what fits into the kernel's buffers, which hold less than 10 MiB.
    assert!((1..40).contains(&asked.load(Ordering::Relaxed)), "{asked:?}");
    server.abort();
    drop(client);
}

#[tokio::test]
async fn a_body_that_is_revoked_breaks_off_in_the_middle_of_an_event() {
    let (revoke, revoked) = tokio::sync::oneshot::channel::<()>();
    let frames = newest(&Arc::default(), Bytes::from(vec![b'x'; 4 * READER_IN_FLIGHT_MAX_BYTES]));
    let mut reader = event_stream(frames, async { drop(revoked.await) }).into_body().into_data_stream();
    assert!(reader.next().await.unwrap().is_ok());
    revoke.send(()).unwrap();
    assert_eq!(reader.next().await.unwrap().unwrap_err().to_string(), "the response was broken off");
    assert!(reader.next().await.is_none());
}

#[tokio::test]
async fn a_line_end_in_a_field_does_not_end_the_frame() {
    let odd = Event::new("message", "1\n\ndata: 2", &[]);
    let mut reader = reader(stream::iter([odd]));
    assert_eq!(next(&mut reader).await.unwrap(), "event: message\ndata: \nid: 1  data: 2\n");
    assert_eq!(next(&mut reader).await.unwrap(), "retry: 1000\n\n");
}
