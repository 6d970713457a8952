//! What the wire formats have in common: frames of event streams, failures, and bounded bodies.

use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::time::{Duration, SystemTime};

use domain::retry_after::{self, RETRY_AFTER_MAX};
use domain::step::{StepError, ToolSpec};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::client::Response;
use crate::connection::ConnectionError;
use crate::error;

/// The longest frame of an event stream.
pub(crate) const FRAME_MAX_BYTES: usize = 1024 * 1024;
/// The longest reason that an error carries on.
const REASON_MAX_CHARS: usize = 300;
/// How much of a refusal is read.
pub(crate) const REFUSAL_MAX_BYTES: usize = 64 * 1024;

/// What an operator's options do not touch: the exchange, whose model it is, and that it is streamed.
const NOT_OPTIONS: [&str; 5] = ["model", "stream", "messages", "input", "contents"];

/// One frame of an event stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Frame {
    /// The event's name; empty when it has none.
    pub(crate) event: String,
    /// Its data.
    pub(crate) data: String,
}

/// The stream is no event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("a frame is too long")]
    TooLong,
    #[error("a frame is no text")]
    NotText,
}

/// Cuts bytes into frames, however they arrive. Holds one frame at most, and looks at each byte once.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    /// Where the line being read begins, and how far it was searched for its end.
    line: usize,
    searched: usize,
    after_return: bool,
    begun: bool,
    frame: Frame,
    has_data: bool,
}

impl Frames {
    /// Takes bytes; call [`Self::next`] until it has no more before the next ones.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.line);
        self.searched -= self.line;
        self.line = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame that has data.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        while let Some(found) =
            self.bytes[self.searched..].iter().position(|byte| matches!(byte, b'\n' | b'\r'))
        {
            let end = self.searched + found;
            let start = std::mem::replace(&mut self.line, end + 1);
            self.searched = end + 1;
            let returned = self.bytes[end] == b'\r';
            if std::mem::replace(&mut self.after_return, returned) && !returned && start == end {
                continue;
            }
            if start == end {
                if let Some(frame) = self.take() {
                    return Ok(Some(frame));
                }
            } else {
                let line = std::mem::take(&mut self.bytes);
                let read = self.read(&line[start..end]);
                self.bytes = line;
                read?;
            }
        }
        self.searched = self.bytes.len();
        if self.bytes.len() - self.line > FRAME_MAX_BYTES { Err(FrameError::TooLong) } else { Ok(None) }
    }

    /// What stands when the stream has ended: a frame whose last line is whole but whose end is not marked.
    pub(crate) fn rest(&mut self) -> Option<Frame> {
        self.take()
    }

    fn take(&mut self) -> Option<Frame> {
        let frame = std::mem::take(&mut self.frame);
        std::mem::take(&mut self.has_data).then_some(frame)
    }

    fn read(&mut self, line: &[u8]) -> Result<(), FrameError> {
        let line = std::str::from_utf8(line).map_err(|_| FrameError::NotText)?;
        let line = if self.begun { line } else { line.strip_prefix('\u{feff}').unwrap_or(line) };
        self.begun = true;
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.frame.data.push('\n');
                }
                self.has_data = true;
                self.frame.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.frame.event),
            // Some servers write their errors as a field of this name.
            "error" => {
                "error".clone_into(&mut self.frame.event);
                self.frame.data.push_str(value);
                self.has_data = true;
            }
            _ => {}
        }
        if self.frame.data.len() + self.frame.event.len() > FRAME_MAX_BYTES {
            Err(FrameError::TooLong)
        } else {
            Ok(())
        }
    }
}

pub(crate) fn unavailable(reason: impl Into<String>) -> StepError {
    StepError::Unavailable { reason: short(&reason.into()), retry_after: None }
}

pub(crate) fn rejected(reason: impl Into<String>) -> StepError {
    StepError::Rejected { reason: short(&reason.into()) }
}

/// The text on one line, cut to a bearable length.
fn short(text: &str) -> String {
    let mut out = String::new();
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
        if out.len() > 4 * REASON_MAX_CHARS {
            break;
        }
    }
    match out.char_indices().nth(REASON_MAX_CHARS) {
        Some((end, _)) => format!("{}…", &out[..end]),
        None => out,
    }
}

/// A request's body: what is said in the vendor's form, and the operator's options in it.
pub(crate) fn body(said: &impl Serialize, options: &Map<String, Value>) -> Result<Vec<u8>, StepError> {
    let unwritable = |_| rejected("the request cannot be written");
    if options.is_empty() {
        return serde_json::to_vec(said).map_err(unwritable);
    }
    let mut body = serde_json::to_value(said).map_err(unwritable)?;
    if let Value::Object(body) = &mut body {
        let mut options = options.clone();
        options.retain(|name, _| !NOT_OPTIONS.contains(&name.as_str()));
        merge(body, &options);
    }
    serde_json::to_vec(&body).map_err(unwritable)
}

/// Puts options into an object: objects into objects, everything else in the place of what was there.
pub(crate) fn merge(into: &mut Map<String, Value>, options: &Map<String, Value>) {
    for (name, option) in options {
        match (into.get_mut(name), option) {
            (Some(Value::Object(inner)), Value::Object(option)) => merge(inner, option),
            _ => {
                into.insert(name.clone(), option.clone());
            }
        }
    }
}

/// What it means that a server which should stream answers with one document.
pub(crate) fn document(body: &[u8]) -> StepError {
    let body = String::from_utf8_lossy(body);
    match serde_json::from_str::<Value>(&body) {
        Ok(value) if value.get("error").is_some() => error::in_stream(&body),
        _ => unavailable("its answer is no stream"),
    }
}

/// The schema of a tool's arguments as JSON.
pub(crate) fn schema(tool: &ToolSpec) -> Result<&RawValue, StepError> {
    serde_json::from_str(&tool.schema)
        .map_err(|_| rejected(format!("the schema of the tool {} is no JSON", tool.name)))
}

/// A connection that failed, without the address, which may be an operator's secret.
pub(crate) fn connection(error: ConnectionError) -> StepError {
    unavailable(match &error {
        ConnectionError::Timeout => "it did not answer in time",
        ConnectionError::Connect(_) => unconnected(&error),
        ConnectionError::Proxied(inner) if inner.is_timeout() => "it did not answer in time",
        ConnectionError::Proxied(inner) if inner.is_connect() => unconnected(inner),
        ConnectionError::Broken(_) | ConnectionError::Proxied(_) => "the connection broke",
    })
}

/// Why no connection was made.
fn unconnected(error: &dyn Error) -> &'static str {
    let mut source = error.source();
    while let Some(inner) = source {
        let words = inner.to_string();
        if let Some(inner) = inner.downcast_ref::<io::Error>() {
            match inner.kind() {
                io::ErrorKind::ConnectionRefused => return "it cannot be reached: the connection was refused",
                io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                    return "it cannot be reached: there is no way to its host";
                }
                _ => {}
            }
        }
        if words.contains("dns error") || words.contains("failed to lookup address") {
            return "it cannot be reached: its host's name cannot be looked up";
        }
        if words.contains("certificate") {
            return "it cannot be reached: its certificate is not trusted";
        }
        source = inner.source();
    }
    "it cannot be reached"
}

/// Whether a status is worth trying again.
pub(crate) fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 409 | 425 | 429) || status.is_server_error()
}

/// When the server asked to be tried again: milliseconds, seconds or a date; an hour at most.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let header = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let wait = header("retry-after-ms").and_then(|text| text.parse().ok()).map(|wait: f64| wait / 1000.0);
    let wait = wait.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match wait {
        Some(wait) => Some(wait.min(RETRY_AFTER_MAX)),
        None => retry_after::parse(header("retry-after")?, now),
    }
}

/// When a body's details ask to be tried again: `"retryDelay": "34s"`; an hour at most.
pub(crate) fn retry_delay(details: &Value) -> Option<Duration> {
    let delay = details.as_array()?.iter().find_map(|detail| detail["retryDelay"].as_str())?;
    retry_after::seconds(delay.strip_suffix('s')?)
}

/// The body, or `None` when it is longer than `max_bytes`.
pub(crate) async fn bounded(response: &mut Response, max_bytes: usize) -> Result<Option<Vec<u8>>, StepError> {
    let mut body = Vec::new();
    while let Some(chunk) = poll_fn(|context| response.poll_chunk(context)).await.map_err(connection)? {
        if body.len() + chunk.len() > max_bytes {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames(bytes: &[u8], size: usize) -> Result<Vec<(String, String)>, FrameError> {
        let mut frames = Frames::default();
        let mut out = Vec::new();
        for chunk in bytes.chunks(size) {
            frames.push(chunk);
            while let Some(frame) = frames.next()? {
                out.push((frame.event, frame.data));
            }
        }
        out.extend(frames.rest().map(|frame| (frame.event, frame.data)));
        Ok(out)
    }

    #[test]
    fn frames_are_read_however_lines_end_and_bytes_arrive() {
        let stream = "\u{feff}data: příliš\r\n\r\n: comment\n\ndata:a\ndata: b\n\nevent: x\rdata: c\r\rid: 1\n\nerror: {}\n\ndata: end\n";
        let expected: Vec<(String, String)> =
            [("", "příliš"), ("", "a\nb"), ("x", "c"), ("error", "{}"), ("", "end")]
                .map(|(event, data)| (event.to_owned(), data.to_owned()))
                .into();
        for size in 1..20 {
            assert_eq!(frames(stream.as_bytes(), size).as_ref(), Ok(&expected), "{size}");
        }
    }

    #[test]
    fn a_frame_is_bounded_and_must_be_text() {
        let long = vec![b'a'; FRAME_MAX_BYTES + 2];
        assert_eq!(frames(&long, 4096), Err(FrameError::TooLong));
        let many = "data: 0123456789\n".repeat(FRAME_MAX_BYTES / 10);
        assert_eq!(frames(many.as_bytes(), 4096), Err(FrameError::TooLong));
        assert_eq!(frames(b"data: \xc5\n\n", 100), Err(FrameError::NotText));
    }

    #[test]
    fn options_go_into_the_request_but_not_into_the_exchange() {
        let said = serde_json::json!({"model": "m", "stream": true, "messages": [1], "a": {"b": 1, "c": 2}});
        let options = serde_json::json!({"a": {"b": 3, "d": [4]}, "e": 5, "model": "x", "stream": false,
            "messages": [], "input": []});
        let merged = body(&said, options.as_object().unwrap()).unwrap();
        let merged: Value = serde_json::from_slice(&merged).unwrap();
        let expected = serde_json::json!({"model": "m", "stream": true, "messages": [1],
            "a": {"b": 3, "c": 2, "d": [4]}, "e": 5});
        assert_eq!(merged, expected);
    }

    #[test]
    fn a_wait_is_read_in_every_form() {
        let wait = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            retry_after(&headers, SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_770))
        };
        assert_eq!(wait("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(wait("retry-after", "0.5"), Some(Duration::from_millis(500)));
        assert_eq!(wait("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        assert_eq!(wait("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::from_secs(7)));
        assert_eq!(wait("retry-after", "Tue, 06 Nov 1984 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!(wait("retry-after", "999999999"), Some(RETRY_AFTER_MAX));
        for nonsense in ["", "-1", "soon", "NaN", "inf"] {
            assert_eq!(wait("retry-after", nonsense), None, "{nonsense}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), size in 1_usize..50) {
            let _read = frames(&bytes, size);
        }
    }
}
