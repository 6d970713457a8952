//! Compressed responses can be decoded, and incompressible ones are unchanged.

use std::io::Write;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, ETAG};
use axum::http::{Method, Request};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use futures_util::{StreamExt, stream};
use http_common::{Budget, BudgetBounds, BudgetHolder, ResponseCompression, download_response, event_stream};
use std::sync::{Arc, Mutex};
use tower::ServiceExt;

use crate::events::message_event;
use crate::{WorkspaceFixture, asked_path, body_bytes, header_text};

type Once = Arc<Mutex<Option<Response>>>;

fn long_text() -> String {
    "Nájemce je povinen platit nájemné vždy do pátého dne měsíce. ".repeat(2_000)
}

fn typed_response(content_type: &'static str, body: impl Into<Body>) -> Response {
    ([(CONTENT_TYPE, content_type)], body.into()).into_response()
}

/// Returns the response for a client with this `Accept-Encoding`.
async fn compress_through_router(response: Response, method: Method, accepted: &str) -> Response {
    let router = Router::new()
        .route("/", any(|State(once): State<Once>| async move { once.lock().unwrap().take().unwrap() }))
        .with_state(Arc::new(Mutex::new(Some(response))));
    let request = Request::builder().method(method).uri("/").header("accept-encoding", accepted);
    let request = request.body(Body::empty()).unwrap();
    let places = Budget::new(BudgetBounds { each: 1, all: 1 });
    let holder = BudgetHolder::Address([192, 0, 2, 1].into());
    let compression = ResponseCompression::negotiate(request.method(), request.headers());
    compression.apply_to(router.oneshot(request).await.unwrap(), &places, holder)
}

enum ResponseDecoder {
    Zstd(zstd::stream::write::Decoder<'static, Vec<u8>>),
    Brotli(Box<brotli::DecompressorWriter<Vec<u8>>>),
    Gzip(Box<flate2::write::GzDecoder<Vec<u8>>>),
}

impl ResponseDecoder {
    fn from_encoding(encoding: &str) -> Self {
        match encoding {
            "zstd" => Self::Zstd(zstd::stream::write::Decoder::new(Vec::new()).unwrap()),
            "br" => Self::Brotli(Box::new(brotli::DecompressorWriter::new(Vec::new(), 4096))),
            _ => Self::Gzip(Box::new(flate2::write::GzDecoder::new(Vec::new()))),
        }
    }

    /// Decodes the bytes received so far.
    fn decode_bytes(&mut self, bytes: &[u8]) -> String {
        let output = match self {
            Self::Zstd(decoder) => {
                decoder.write_all(bytes).and_then(|()| decoder.flush()).unwrap();
                decoder.get_mut()
            }
            Self::Brotli(decoder) => {
                decoder.write_all(bytes).and_then(|()| decoder.flush()).unwrap();
                decoder.get_mut()
            }
            Self::Gzip(decoder) => {
                decoder.write_all(bytes).and_then(|()| decoder.flush()).unwrap();
                decoder.get_mut()
            }
        };
        String::from_utf8(std::mem::take(output)).unwrap()
    }
}

#[tokio::test]
async fn response_compression_follows_accept_encoding() {
    for encoding in ["zstd", "br", "gzip"] {
        let whole = typed_response("application/json", long_text());
        let streamed = typed_response(
            "text/html; charset=utf-8",
            Body::from_stream(
                stream::iter(long_text().into_bytes().chunks(999).map(<[u8]>::to_vec).collect::<Vec<_>>())
                    .map(Ok::<_, std::io::Error>),
            ),
        );
        for mut response in [whole, streamed] {
            response.headers_mut().insert(ETAG, "\"1\"".parse().unwrap());
            let response = compress_through_router(response, Method::GET, encoding).await;
            assert_eq!(header_text(&response, "content-encoding"), encoding);
            assert_eq!(header_text(&response, "vary"), "accept-encoding");
            assert_eq!(header_text(&response, "etag"), "W/\"1\"");
            assert_eq!(header_text(&response, "content-length"), "");
            let compressed = body_bytes(response.into_body()).await;
            assert!(compressed.len() < long_text().len() / 20, "{encoding}: {}", compressed.len());
            assert_eq!(ResponseDecoder::from_encoding(encoding).decode_bytes(&compressed), long_text());
        }
    }
}

#[tokio::test]
async fn incompressible_responses_are_unchanged() {
    let encoded = ([(CONTENT_TYPE, "text/css"), (axum::http::header::CONTENT_ENCODING, "br")], long_text());
    for (response, method, accepted) in [
        (typed_response("text/plain", long_text()), Method::GET, "identity"),
        (typed_response("text/plain", long_text()), Method::GET, "*;q=0, identity;q=0"),
        (typed_response("text/plain", long_text()), Method::HEAD, "gzip"),
        (typed_response("text/plain", "short"), Method::GET, "gzip"),
        (typed_response("image/png", long_text()), Method::GET, "gzip"),
        (typed_response("application/octet-stream", long_text()), Method::GET, "gzip"),
        (encoded.into_response(), Method::GET, "gzip"),
    ] {
        let before = response.headers().clone();
        let response = compress_through_router(response, method, accepted).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers().get("content-encoding"), before.get("content-encoding"));
    }
}

#[tokio::test]
async fn downloads_are_never_compressed() {
    let host = WorkspaceFixture::new().await;
    host.write_file("a.txt", long_text().as_bytes());
    let file = host.workspace.open_file(&asked_path("/a.txt")).await.unwrap();
    let response = download_response(&file, &Method::GET, &axum::http::HeaderMap::new()).unwrap();
    let response = compress_through_router(response, Method::GET, "gzip, zstd").await;
    assert_eq!(header_text(&response, "content-encoding"), "");
    assert_eq!(header_text(&response, "content-length"), long_text().len().to_string());
    assert_eq!(body_bytes(response.into_body()).await, long_text().into_bytes());
}

#[tokio::test]
async fn compressed_events_decodable_when_sent() {
    for encoding in ["zstd", "br", "gzip"] {
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        let frames = stream::unfold(receiver, |mut receiver| async {
            receiver.recv().await.map(|frame| (frame, receiver))
        });
        let response =
            compress_through_router(event_stream(frames, std::future::pending()), Method::GET, encoding)
                .await;
        assert_eq!(header_text(&response, "content-encoding"), encoding);
        let mut body = response.into_body().into_data_stream();
        let mut decoder = ResponseDecoder::from_encoding(encoding);
        for number in 1..=50 {
            sender.send(message_event(number, &["{\"text\":\"", "příliš žluťoučký kůň", "\"}"])).unwrap();
            let mut event = String::new();
            while !event.ends_with("\n\n") {
                event += &decoder.decode_bytes(&body.next().await.unwrap().unwrap());
            }
            assert_eq!(event.matches("event: message\n").count(), 1, "{event}");
            assert!(event.contains(&format!("\nid: a:1.{number}\n")), "{event}");
        }
        sender.send(message_event(51, &["last"])).unwrap();
        drop(sender);
        let mut rest = String::new();
        while let Some(piece) = body.next().await {
            rest += &decoder.decode_bytes(&piece.unwrap());
        }
        assert_eq!(rest, "event: message\ndata: last\nid: a:1.51\n\n");
    }
}

#[tokio::test]
async fn compressed_stream_keeps_flow_control() {
    let data: bytes::Bytes = long_text().into();
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = asked.clone();
    let frames = stream::iter(0..10).map(move |number| {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        http_common::SseEvent::new("message", &number.to_string(), std::slice::from_ref(&data))
    });
    let response =
        compress_through_router(event_stream(frames, std::future::pending()), Method::GET, "zstd").await;
    let mut body = response.into_body().into_data_stream();
    let held = body.next().await.unwrap().unwrap();
    assert!(futures_util::FutureExt::now_or_never(body.next()).is_none());
    assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 1);
    drop(held);
    let mut rest = 0;
    while let Some(piece) = body.next().await {
        rest += piece.unwrap().len();
    }
    assert!(rest < 9 * 1_000, "nine repeats took {rest} bytes");
}

/// Creates a state of an answer with its text in segments, like a long one.
fn answer_state(number: usize, text: &str, completed: bool) -> http_common::SseEvent {
    let status = if completed { "completed" } else { "in_progress" };
    let mut data: Vec<bytes::Bytes> = Vec::new();
    for before in
        [format!("{{\"status\":\"{status}\",\"createdAt\":\"then\",\"text\":\""), "\",\"html\":\"".to_owned()]
    {
        data.push(before.into());
        data.extend(text.as_bytes().chunks(4096).map(bytes::Bytes::copy_from_slice));
    }
    data.push("\"}".into());
    http_common::SseEvent::new(if completed { "completed" } else { "message" }, &number.to_string(), &data)
}

#[tokio::test]
async fn compressed_states_cost_less_than_text() {
    let words: Vec<String> = (0..14_000_u64).map(|at| format!(" {:x}", at.pow(4) % 0xfff_fffb)).collect();
    let text = words.concat();
    let states = words.len() / 70;
    let frames = stream::iter(1..=states)
        .map(move |number| answer_state(number, &words[..number * 70].concat(), number == states));
    let response =
        compress_through_router(event_stream(frames, std::future::pending()), Method::GET, "zstd").await;
    let mut body = response.into_body().into_data_stream();
    let mut sent = 0;
    while let Some(piece) = body.next().await {
        sent += piece.unwrap().len();
    }
    assert!(sent < text.len(), "{sent} bytes for {} of text", text.len());
}
