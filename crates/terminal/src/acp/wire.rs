//! JSON-RPC 2.0 in lines, as the Agent Client Protocol has it over standard input and output.

use std::io::{self, BufRead, Read, Write};

use serde_json::{Value, json};
use tokio::sync::mpsc;

/// The longest line that is read, in bytes: it may hold images in base64.
const LINE_MAX_BYTES: u64 = 64 << 20;
/// Lines that wait to be handled, and to be written.
const QUEUE_LINES: usize = 64;

/// A message of the editor.
#[derive(Debug, PartialEq)]
pub(crate) enum EditorMessage {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// A response; this agent asks the editor nothing.
    Response,
}

/// An error of a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RpcError {
    pub(crate) code: i32,
    pub(crate) message: String,
    /// The code of the service, for programs.
    pub(crate) service_code: Option<String>,
}

impl RpcError {
    const PARSE: i32 = -32700;
    const INVALID_REQUEST: i32 = -32600;
    const METHOD_NOT_FOUND: i32 = -32601;
    const INVALID_PARAMS: i32 = -32602;
    const INTERNAL: i32 = -32603;
    const AUTH_REQUIRED: i32 = -32000;
    const NOT_FOUND: i32 = -32002;

    fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), service_code: None }
    }

    pub(crate) fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(Self::INVALID_REQUEST, message)
    }

    pub(crate) fn unknown_method(method: &str) -> Self {
        Self::new(Self::METHOD_NOT_FOUND, format!("unknown method {method:?}"))
    }

    pub(crate) fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(Self::INVALID_PARAMS, message)
    }

    pub(crate) fn unknown_session(session: &str) -> Self {
        Self::new(Self::NOT_FOUND, format!("unknown session {session:?}: begin another one"))
    }

    /// An answer that failed.
    pub(crate) fn failed_answer(failure: &client::ApiFailure) -> Self {
        let message = if failure.message.is_empty() { &failure.code } else { &failure.message };
        Self { service_code: Some(failure.code.clone()), ..Self::new(Self::INTERNAL, message) }
    }

    fn to_json(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(code) = &self.service_code {
            error["data"] = json!({"code": code});
        }
        error
    }
}

impl From<client::Error> for RpcError {
    fn from(error: client::Error) -> Self {
        match error.status() {
            Some(401) => Self::new(
                Self::AUTH_REQUIRED,
                "the service does not accept the key: set CAUSERIE_API_KEY in the editor's settings of this agent",
            ),
            Some(404) => Self::new(Self::NOT_FOUND, error.to_string()),
            _ => Self {
                service_code: error.code().filter(|code| !code.is_empty()).map(str::to_owned),
                ..Self::new(Self::INTERNAL, error.to_string())
            },
        }
    }
}

/// Parses a line of the editor.
///
/// # Errors
/// With the id to which the error belongs, `null` if it is unknown.
pub(crate) fn parse_line(line: &str) -> Result<EditorMessage, (Value, RpcError)> {
    let mut message: Value = serde_json::from_str(line).map_err(|error| {
        (Value::Null, RpcError::new(RpcError::PARSE, format!("this is not JSON: {error}")))
    })?;
    let id = message.get("id").cloned();
    let Some(object) = message.as_object_mut() else {
        return Err((Value::Null, RpcError::invalid_request("a message must be one object in one line")));
    };
    let params = object.remove("params").unwrap_or_else(|| json!({}));
    match (object.get("method").and_then(Value::as_str), id) {
        (Some(method), Some(id)) => Ok(EditorMessage::Request { id, method: method.to_owned(), params }),
        (Some(method), None) => Ok(EditorMessage::Notification { method: method.to_owned(), params }),
        (None, Some(_)) if object.contains_key("result") || object.contains_key("error") => {
            Ok(EditorMessage::Response)
        }
        (None, id) => {
            Err((id.unwrap_or_default(), RpcError::invalid_request("a message must name its method")))
        }
    }
}

/// Sends messages to the editor. Clones share one order.
#[derive(Debug, Clone)]
pub(crate) struct EditorSender(mpsc::Sender<String>);

impl EditorSender {
    /// Starts the thread that writes to `out`. It ends with the last sender, or when the editor has closed its end.
    pub(crate) fn spawn_writer(mut out: impl Write + Send + 'static) -> (Self, std::thread::JoinHandle<()>) {
        let (sender, mut lines) = mpsc::channel::<String>(QUEUE_LINES);
        let writer = std::thread::spawn(move || {
            while let Some(line) = lines.blocking_recv() {
                if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
                    return;
                }
            }
        });
        (Self(sender), writer)
    }

    pub(crate) async fn send_outcome(&self, id: Value, outcome: Result<Value, RpcError>) {
        let message = match outcome {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error.to_json()}),
        };
        self.send(&message).await;
    }

    /// Sends an update of a session.
    pub(crate) async fn send_update(&self, session: &str, update: &Value) {
        let params = json!({"sessionId": session, "update": update});
        self.send(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params})).await;
    }

    async fn send(&self, message: &Value) {
        // An editor that has gone reads nothing; the end of its input ends this program.
        let _ = self.0.send(format!("{message}\n")).await;
    }
}

/// Starts the thread that reads the lines of `input` up to its end. A line that is too long or not UTF-8 is an error, and the last.
pub(crate) fn spawn_line_reader(input: impl Read + Send + 'static) -> mpsc::Receiver<io::Result<String>> {
    let (sender, lines) = mpsc::channel(QUEUE_LINES);
    std::thread::spawn(move || {
        let mut input = io::BufReader::new(input);
        loop {
            let line = read_line(&mut input).transpose();
            let Some(line) = line else { return };
            let is_last = line.is_err();
            if sender.blocking_send(line).is_err() || is_last {
                return;
            }
        }
    });
    lines
}

fn read_line(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    if input.take(LINE_MAX_BYTES).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.len() as u64 == LINE_MAX_BYTES && line.last() != Some(&b'\n') {
        return Err(io::Error::other(format!("a line of the editor exceeds {} MiB", LINE_MAX_BYTES >> 20)));
    }
    String::from_utf8(line).map(Some).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let request = r#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"x":1}}"#;
        let expected = EditorMessage::Request {
            id: json!("a"),
            method: "initialize".to_owned(),
            params: json!({"x": 1}),
        };
        assert_eq!(parse_line(request), Ok(expected));
        let told = EditorMessage::Notification { method: "session/cancel".to_owned(), params: json!({}) };
        assert_eq!(parse_line(r#"{"method":"session/cancel"}"#), Ok(told));
        assert_eq!(parse_line(r#"{"id":1,"result":{}}"#), Ok(EditorMessage::Response));
        let code_of = |line| parse_line(line).map_err(|(id, error)| (id, error.code));
        assert_eq!(code_of("{"), Err((Value::Null, -32700)));
        assert_eq!(code_of("[]"), Err((Value::Null, -32600)));
        assert_eq!(code_of(r#"{"id":7}"#), Err((json!(7), -32600)));
    }

    #[test]
    fn lines_are_read_up_to_the_end() {
        let mut input = io::BufReader::new(&b"one\n\ntwo"[..]);
        let mut lines = Vec::new();
        while let Some(line) = read_line(&mut input).expect("it is UTF-8") {
            lines.push(line);
        }
        assert_eq!(lines, ["one\n", "\n", "two"]);
        assert!(read_line(&mut io::BufReader::new(&b"\xff\n"[..])).is_err());
        let endless = io::BufReader::new(io::repeat(b'x'));
        assert!(read_line(&mut { endless }).expect_err("it has no end").to_string().contains("64 MiB"));
    }
}
