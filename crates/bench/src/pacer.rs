//! A cheap fake vendor that sends tokens at a fixed rate, each with its send time.
//!
//! The scripted fake vendor cannot sustain 400 fast streams beside their readers on one processor, so it would itself
//! be measured. This one writes the same frames on bare connections. A token is `t7x1a2b3c`: its number, and
//! microseconds in hexadecimal. The models `text-…` write paragraphs of such words, the models `markdown-…` sections
//! with a heading, emphasis, code, lists and punctuation, as most models do.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::sleep_until;

use crate::BenchResult;
use crate::process::pin_apart;

/// The listed models; any `text-<tokens>x<milliseconds>` and `markdown-<tokens>x<milliseconds>` is served.
const MODELS: &[&str] = &[
    "text-1x0",
    "text-100x50",
    "text-200x5",
    "text-10000x1",
    "markdown-100x50",
    "markdown-200x5",
    "markdown-2000x5",
];
/// Limits the size of a request.
const REQUEST_MAX_BYTES: usize = 1 << 20;
/// The tokens of a paragraph.
const PARAGRAPH: u32 = 60;

/// The start of the clock that writer and readers share.
static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Returns the time on that clock.
pub(crate) fn now_micros() -> u64 {
    u64::try_from(BEGINNING.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// A running vendor, on a thread apart from the measured process. It stops on drop.
#[derive(Debug)]
pub(crate) struct Pacer {
    pub(crate) address: SocketAddr,
    _end: oneshot::Sender<()>,
}

impl Pacer {
    pub(crate) fn start() -> BenchResult<Self> {
        let (end, ended) = oneshot::channel::<()>();
        let (started, starting) = std::sync::mpsc::channel();
        thread::spawn(move || -> BenchResult<()> {
            pin_apart()?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await?;
                started.send(listener.local_addr()?)?;
                tokio::select! {
                    failed = accept_connections(listener) => failed,
                    // Nobody is left to serve, whether the sender was used or dropped.
                    _ = ended => Ok(()),
                }
            })
        });
        let address = starting.recv().map_err(|_| "the vendor does not start")?;
        Ok(Self { address, _end: end })
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}

async fn accept_connections(listener: TcpListener) -> BenchResult<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            // A broken connection shows in its stream.
            let _ = serve_requests(stream).await;
        });
    }
}

async fn serve_requests(mut stream: TcpStream) -> BenchResult<()> {
    let mut read = Vec::new();
    loop {
        let head = loop {
            if let Some(at) = read.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            if read.len() > REQUEST_MAX_BYTES || stream.read_buf(&mut read).await? == 0 {
                return Ok(());
            }
        };
        let text = std::str::from_utf8(&read[..head])?.to_ascii_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.map_or(Ok(0), |length| length.trim().parse())?;
        while read.len() < head + length {
            if length > REQUEST_MAX_BYTES || stream.read_buf(&mut read).await? == 0 {
                return Ok(());
            }
        }
        if text.starts_with("get") {
            let list: Vec<Value> = MODELS.iter().map(|name| json!({"id": name, "object": "model"})).collect();
            let body = json!({"object": "list", "data": list}).to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all((head + &body).as_bytes()).await?;
        } else {
            let asked: Value = serde_json::from_slice(&read[head..head + length])?;
            stream_tokens(&mut stream, asked["model"].as_str().unwrap_or_default()).await?;
        }
        read.drain(..head + length);
    }
}

/// Streams the tokens of a model.
async fn stream_tokens(stream: &mut TcpStream, model: &str) -> BenchResult<()> {
    let (style, pace) = model.split_once('-').ok_or("an unknown model")?;
    let (count, every) = pace.split_once('x').ok_or("an unknown model")?;
    let (count, every) = (count.parse::<u32>()?, Duration::from_millis(every.parse()?));
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    let mut due = tokio::time::Instant::now();
    let (mut frame, mut chunk) = (String::new(), String::new());
    for number in 0..count {
        due += every;
        sleep_until(due).await;
        let (before, after) =
            if style == "markdown" { decorate_token(number) } else { separate_token(number) };
        frame.clear();
        write!(
            frame,
            "data: {{\"id\":\"pacer\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"{model}\",\
             \"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{before}t{number}x{:x}{after}\"}},\"finish_reason\":null}}]}}\n\n",
            now_micros()
        )?;
        write_chunk(stream, &frame, &mut chunk).await?;
    }
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": count}});
    write_chunk(stream, &format!("data: {end}\n\ndata: {usage}\n\ndata: [DONE]\n\n"), &mut chunk).await?;
    Ok(stream.write_all(b"0\r\n\r\n").await?)
}

/// Returns what follows a token in plain paragraphs, as JSON.
const fn separate_token(number: u32) -> (&'static str, &'static str) {
    ("", if number % PARAGRAPH == PARAGRAPH - 1 { "\\n\\n" } else { " " })
}

/// Returns what precedes and follows a token in Markdown, as JSON.
const fn decorate_token(number: u32) -> (&'static str, &'static str) {
    match number % PARAGRAPH {
        0 => ("## ", " "),
        4 | 24 | 49 | 59 => ("", ".\\n\\n"),
        9 | 51 => ("**", " "),
        11 | 52 => ("", "** "),
        15 | 40 => ("`", "` "),
        17 => ("(", ", "),
        20 => ("", "): "),
        25 | 31 | 37 | 43 => ("- **", "**: "),
        30 | 36 | 42 => ("", ".\\n"),
        34 => ("", "'s "),
        55 => ("*", "* "),
        _ => ("", " "),
    }
}

async fn write_chunk(stream: &mut TcpStream, data: &str, chunk: &mut String) -> BenchResult<()> {
    chunk.clear();
    write!(chunk, "{:x}\r\n{data}\r\n", data.len())?;
    Ok(stream.write_all(chunk.as_bytes()).await?)
}

/// Returns the tokens in a JSON text, in order: their numbers and send times.
pub(crate) fn parse_json_stamps(text: &str) -> impl Iterator<Item = (u32, u64)> + '_ {
    // A line feed is encoded as `\n`.
    let words = text.split([' ', '\\', '\'']).map(|word| {
        word.trim_start_matches('n').trim_matches(|letter: char| !letter.is_ascii_alphanumeric())
    });
    words.filter_map(|word| {
        let (number, micros) = word.strip_prefix('t')?.split_once('x')?;
        Some((number.parse().ok()?, u64::from_str_radix(micros, 16).ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_stamps_in_json() {
        let read: Vec<_> = parse_json_stamps(r"t0xf t1x10\n\nt2x1f and t\n- **t3x20**: (t4x21's").collect();
        assert_eq!(read, [(0, 15), (1, 16), (2, 31), (3, 32), (4, 33)]);
    }

    #[tokio::test]
    async fn it_speaks_as_a_vendor_does() {
        let pacer = Pacer::start().expect("it starts");
        let mut connection = crate::http::BenchConnection::open(pacer.address).await.expect("it listens");
        let models = crate::http::build_request("GET", "/v1/models", None, None);
        assert_eq!(connection.call_json(&models, 200).await.expect("a list")["data"][0]["id"], "text-1x0");
        for model in ["text-130x0", "markdown-130x0", "text-130x0"] {
            let body = json!({"model": model, "messages": []});
            let ask = crate::http::build_request("POST", "/v1/chat/completions", None, Some(&body));
            let (_, said) = connection.exchange_request(&ask).await.expect("a stream");
            let said = String::from_utf8(said).expect("text");
            let contents = said.split("\"content\":\"").skip(1);
            let numbers =
                contents.flat_map(|content| parse_json_stamps(content.split('"').next().unwrap_or_default()));
            assert!(numbers.map(|(number, _)| number).eq(0..130) && said.ends_with("data: [DONE]\n\n"));
        }
    }
}
