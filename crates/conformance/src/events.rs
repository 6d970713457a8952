//! Event streams, read incrementally and checked against the documented format.

use std::fmt;
use std::io::{BufRead, BufReader, Read};

use serde_json::Value;

use crate::http::StreamingResponse;

/// The number of bytes of a brotli stream that are decoded at once.
const DECODED_AT_ONCE_BYTES: usize = 4096;

#[derive(Debug, Clone)]
pub struct AnswerEvent {
    /// `message` or `completed`.
    pub name: String,
    /// The state of the answer.
    pub data: Value,
    pub id: String,
    /// The reconnection time, if the frame has one.
    pub retry: Option<String>,
}

impl AnswerEvent {
    /// Returns the answer's text so far.
    #[must_use]
    pub fn text(&self) -> &str {
        self.data["text"].as_str().unwrap_or_default()
    }
}

/// A frame of a stream.
#[derive(Debug, Clone)]
pub enum StreamFrame {
    Event(AnswerEvent),
    /// A comment, which keeps the connection alive.
    Comment,
}

pub struct AnswerStream {
    lines: BufReader<Box<dyn Read + Send>>,
}

impl fmt::Debug for AnswerStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}

impl AnswerStream {
    /// Opens the stream of this response.
    ///
    /// # Panics
    /// Panics if the response is not an event stream with the documented headers.
    #[must_use]
    pub fn new(response: StreamingResponse) -> Self {
        assert_eq!(response.status, 200, "the stream opens");
        let kind = response.header("content-type").unwrap_or_default();
        assert!(kind.starts_with("text/event-stream"), "content type {kind:?}");
        assert_eq!(response.header("cache-control"), Some("no-store"));
        assert_eq!(response.header("x-accel-buffering"), Some("no"));
        let coding = response.header("content-encoding").map(str::to_owned);
        let body = response.into_body();
        let plain: Box<dyn Read + Send> = match coding.as_deref() {
            None => Box::new(body),
            Some("gzip") => Box::new(flate2::read::GzDecoder::new(body)),
            Some("br") => Box::new(brotli::Decompressor::new(body, DECODED_AT_ONCE_BYTES)),
            Some("zstd") => Box::new(zstd::stream::read::Decoder::new(body).expect("a zstd stream")),
            Some(other) => unknown_coding(other),
        };
        Self { lines: BufReader::new(plain) }
    }

    /// Reads the next event; `None` at the end of the stream.
    ///
    /// # Panics
    /// Like [`AnswerStream::next_frame`].
    pub fn next_event(&mut self) -> Option<AnswerEvent> {
        loop {
            match self.next_frame()? {
                StreamFrame::Event(event) => return Some(event),
                StreamFrame::Comment => {}
            }
        }
    }

    /// Skips events until one matches, and returns it.
    ///
    /// # Panics
    /// Panics if the stream ends first.
    pub fn find_event(&mut self, what: &str, mut wanted: impl FnMut(&AnswerEvent) -> bool) -> AnswerEvent {
        let mut last = None;
        while let Some(event) = self.next_event() {
            if wanted(&event) {
                return event;
            }
            last = Some(event);
        }
        assert!(last.is_some(), "{what}: the stream ended without an event");
        unreachable_end(what, last)
    }

    /// Reads all events up to the end of the stream.
    ///
    /// # Panics
    /// Like [`AnswerStream::next_frame`].
    #[must_use]
    pub fn remaining_events(mut self) -> Vec<AnswerEvent> {
        std::iter::from_fn(|| self.next_event()).collect()
    }

    /// Reads the next frame; `None` at the end of the stream.
    ///
    /// # Panics
    /// Panics if a frame does not have exactly one `event`, one `data` and one `id` line, if its data is not JSON,
    /// or if nothing arrives for a long time.
    pub fn next_frame(&mut self) -> Option<StreamFrame> {
        let mut fields: Vec<(String, String)> = Vec::new();
        let mut comment = false;
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).expect("the stream goes on") == 0 {
                assert!(fields.is_empty(), "a frame was cut: {fields:?}");
                return None;
            }
            let line = line.strip_suffix('\n').expect("a whole line").trim_end_matches('\r');
            match line.split_once(':') {
                _ if line.is_empty() && fields.is_empty() && !comment => {}
                _ if line.is_empty() && fields.is_empty() => return Some(StreamFrame::Comment),
                _ if line.is_empty() => return Some(StreamFrame::Event(parse_event(&fields))),
                Some(("", _)) => comment = true,
                Some((name, value)) => {
                    fields.push((name.to_owned(), value.strip_prefix(' ').unwrap_or(value).to_owned()));
                }
                None => fields.push((line.to_owned(), String::new())),
            }
        }
    }
}

#[expect(clippy::panic, reason = "this is how a test of the suite fails")]
fn unknown_coding(coding: &str) -> ! {
    panic!("a stream in {coding:?}, which the client did not accept")
}

#[expect(clippy::panic, reason = "this is how a test of the suite fails")]
fn unreachable_end(what: &str, last: Option<AnswerEvent>) -> ! {
    panic!("{what}: the stream ended with {last:?}")
}

fn parse_event(fields: &[(String, String)]) -> AnswerEvent {
    let only = |name: &str| {
        let mut values = fields.iter().filter(|(known, _)| known == name).map(|(_, value)| value.clone());
        let value = values.next();
        assert!(values.next().is_none(), "a frame has one line {name}: {fields:?}");
        value
    };
    let name = only("event").expect("a frame names its event");
    assert!(matches!(name.as_str(), "message" | "completed"), "unknown event {name}");
    let text = only("data").expect("a frame has data");
    assert!(!text.contains(['\u{85}', '\u{2028}', '\u{2029}']), "line separators are escaped: {text}");
    let data: Value = serde_json::from_str(&text).expect("data is JSON");
    let status = if name == "completed" { "completed" } else { "in_progress" };
    // The conversation's stream also shows a completed answer as `completed`.
    assert_eq!(data["status"], status, "the event's name matches the status");
    let id = only("id").expect("a frame has an id");
    assert_id(&id, &data);
    AnswerEvent { name, data, id, retry: only("retry") }
}

/// `<message id>:<epoch>.<revision>`
fn assert_id(id: &str, data: &Value) {
    let (message, version) = id.split_once(':').expect("an id of two halves");
    assert_eq!(Some(message), data["id"].as_str(), "the id is that of its message");
    let (epoch, revision) = version.split_once('.').expect("a version of two numbers");
    assert!(epoch.parse::<u64>().is_ok() && revision.parse::<u64>().is_ok(), "numbers in {id}");
}

/// Parses the version in an event's id, which increases.
///
/// # Panics
/// Panics if the id does not have the documented form.
#[must_use]
pub fn parse_version(id: &str) -> (u64, u64) {
    let (_, version) = id.split_once(':').expect("an id of two halves");
    let (epoch, revision) = version.split_once('.').expect("a version of two numbers");
    (epoch.parse().expect("an epoch"), revision.parse().expect("a revision"))
}
