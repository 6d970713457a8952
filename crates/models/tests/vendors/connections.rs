//! Tests connections to a vendor's server: batched chunks, reuse, and closing.

use domain::step::StepEvent;
use futures_util::{FutureExt, StreamExt};
use models::{StepTimeouts, VendorClient, WireFormat};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::stage::{question_request, run_step, vendor_client};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const END: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

async fn listen_vendor() -> (TcpListener, VendorClient) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    (listener, vendor_client(WireFormat::ChatCompletions, &address, StepTimeouts::default()))
}

fn http_chunk(data: &str) -> String {
    format!("{:x}\r\n{data}\r\n", data.len())
}

fn token_chunk(text: &str) -> String {
    http_chunk(&format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n"))
}

/// Reads a request to its end.
async fn read_request(connection: &mut TcpStream) -> String {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return head.to_owned();
            }
        }
        assert_ne!(connection.read_buf(&mut read).await.unwrap(), 0, "a whole request");
    }
}

async fn send_answer(connection: &mut TcpStream, tokens: &[&str]) {
    let body: String = tokens.iter().map(|text| token_chunk(text)).collect();
    let response = format!("{HEAD}{body}{}0\r\n\r\n", http_chunk(END));
    connection.write_all(response.as_bytes()).await.unwrap();
}

#[tokio::test]
async fn chunks_become_events_on_arrival() {
    let (listener, vendor) = listen_vendor().await;
    let mut stream = vendor.stream_step(question_request("m", "Hello"));
    let mut connection = None;
    let first = {
        let serve = async {
            let mut accepted = listener.accept().await.unwrap().0;
            read_request(&mut accepted).await;
            let bytes = [HEAD, &token_chunk("a"), &token_chunk("b"), &token_chunk("c")].concat();
            accepted.write_all(bytes.as_bytes()).await.unwrap();
            connection = Some(accepted);
        };
        tokio::join!(stream.next(), serve).0
    };
    assert_eq!(first, Some(Ok(StepEvent::Text("abc".to_owned()))));
    assert!(stream.next().now_or_never().is_none(), "nothing more has come");
    let mut connection = connection.unwrap();
    for text in ["d", "e"] {
        let sending = async { connection.write_all(token_chunk(text).as_bytes()).await.unwrap() };
        let (event, ()) = tokio::join!(stream.next(), sending);
        assert_eq!(event, Some(Ok(StepEvent::Text(text.to_owned()))));
    }
}

#[tokio::test]
async fn connection_reused_until_server_closes() {
    let (listener, vendor) = listen_vendor().await;
    let serve = async {
        let mut connection = listener.accept().await.unwrap().0;
        for text in ["one", "two"] {
            let head = read_request(&mut connection).await;
            assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{head}");
            let host = format!("host: {}", listener.local_addr().unwrap());
            assert!(head.lines().any(|line| line == host), "{head}");
            send_answer(&mut connection, &[text]).await;
        }
        drop(connection);
        let mut other = listener.accept().await.unwrap().0;
        read_request(&mut other).await;
        send_answer(&mut other, &["three"]).await;
        other
    };
    let ask = async {
        for expected in ["one", "two", "three"] {
            let result = run_step(&vendor, question_request("m", "Hello")).await;
            assert_eq!((result.whole_text().as_str(), result.error), (expected, None));
        }
    };
    tokio::join!(serve, ask);
}

#[tokio::test]
async fn dropped_step_closes_connection() {
    let (listener, vendor) = listen_vendor().await;
    let mut stream = vendor.stream_step(question_request("m", "Hello"));
    let serve = async {
        let mut connection = listener.accept().await.unwrap().0;
        read_request(&mut connection).await;
        connection.write_all([HEAD, &token_chunk("a")].concat().as_bytes()).await.unwrap();
        connection
    };
    let (first, mut connection) = tokio::join!(stream.next(), serve);
    assert_eq!(first, Some(Ok(StepEvent::Text("a".to_owned()))));
    drop(stream);
    assert_eq!(connection.read(&mut [0; 16]).await.unwrap_or_default(), 0, "it is closed");
}
