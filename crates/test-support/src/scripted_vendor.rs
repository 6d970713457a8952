//! A model vendor whose output is scripted and controlled by the test. It uses the Chat Completions format,
//! like Ollama, vLLM and llama.cpp, and is configured by `OPENAI_BASE_URL`.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// The longest wait for an answer to be held: enough for a machine to start on a busy host.
const HOLD_TIMEOUT: Duration = Duration::from_secs(120);

pub const MODEL: &str = "stand-in";

/// A scripted action of the model.
#[derive(Debug, Clone)]
pub enum Say {
    Text(String),
    Reasoning(String),
    Call {
        tool: String,
        arguments: Value,
    },
    /// A pause until [`ScriptedVendor::release_hold`].
    Hold,
    Cut,
    /// A refusal by the model.
    Decline,
    /// No report of the usage.
    NoUsage,
    /// An error response with this status instead of an answer.
    Refuse(u16),
}

impl Say {
    /// Creates [`Say::Text`].
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

#[derive(Debug, Default)]
struct ScriptedVendorState {
    scripts: VecDeque<Vec<Say>>,
    releases: usize,
    held: usize,
    requests: Vec<Value>,
    /// The response to requests for its list of models; the default list when absent.
    list: Option<(u16, Value)>,
    /// The texts of requests for embeddings that were answered.
    embedded: Vec<String>,
    /// The requests for embeddings that are still answered; all when absent.
    embeddings_left: Option<usize>,
    /// The requests for embeddings that were refused.
    embeddings_refused: usize,
}

/// The running server. It lives as long as the test's process.
#[derive(Debug, Clone)]
pub struct ScriptedVendor {
    address: String,
    shared: Arc<(Mutex<ScriptedVendorState>, Condvar)>,
}

impl ScriptedVendor {
    /// Starts it.
    ///
    /// # Panics
    /// Panics if no port is free.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let vendor = Self { address, shared: Arc::default() };
        let serving = vendor.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let vendor = serving.clone();
                // A caller may disconnect at any time.
                thread::spawn(move || vendor.serve_connection(stream));
            }
        });
        vendor
    }

    /// Returns the environment that points a service at this vendor.
    #[must_use]
    pub fn service_environment(&self) -> Vec<(String, String)> {
        vec![
            ("OPENAI_BASE_URL".to_owned(), self.base_url()),
            ("OPENAI_API_KEY".to_owned(), "sk-stand-in".to_owned()),
        ]
    }

    /// Appends the script of a further request. A request without a script is answered `Done.`
    pub fn add_script(&self, script: impl Into<Vec<Say>>) {
        self.lock_state().scripts.push_back(script.into());
    }

    /// Sets the response to requests for its list of models; the default list when absent.
    pub fn set_model_list(&self, answer: Option<(u16, Value)>) {
        self.lock_state().list = answer;
    }

    /// Answers this many more requests for embeddings, then fails with 503; all when absent.
    pub fn set_embedding_limit(&self, requests: Option<usize>) {
        self.lock_state().embeddings_left = requests;
    }

    /// Returns the texts that got a vector so far, and how many requests for vectors were refused.
    #[must_use]
    pub fn embedded_texts(&self) -> (Vec<String>, usize) {
        let state = self.lock_state();
        (state.embedded.clone(), state.embeddings_refused)
    }

    fn serve_embeddings(&self, stream: &TcpStream, request: &Value) -> io::Result<()> {
        let is_served = {
            let mut state = self.lock_state();
            let is_served = state.embeddings_left != Some(0);
            state.embeddings_left = state.embeddings_left.map(|left| left.saturating_sub(1));
            state.embeddings_refused += usize::from(!is_served);
            is_served
        };
        if !is_served {
            return write_response(stream, "503 Refused", &json!({"error": {"message": "injected error"}}));
        }
        match crate::embeddings::respond_to_embeddings(request) {
            Ok(body) => {
                let texts = request["input"].as_array().into_iter().flatten().filter_map(Value::as_str);
                self.lock_state().embedded.extend(texts.map(str::to_owned));
                write_response(stream, "200 OK", &body)
            }
            Err((status, body)) => write_response(stream, &format!("{status} Refused"), &body),
        }
    }

    /// Returns its base URL.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Lets one [`Say::Hold`] continue, now or later.
    pub fn release_hold(&self) {
        self.lock_state().releases += 1;
        self.shared.1.notify_all();
    }

    /// Waits until this many answers are held.
    ///
    /// # Panics
    /// Panics if that takes too long.
    pub fn wait_for_holds(&self, count: usize) {
        let (state, timeout) = self
            .shared
            .1
            .wait_timeout_while(self.lock_state(), HOLD_TIMEOUT, |state| state.held < count)
            .expect("no thread of the vendor failed");
        assert!(!timeout.timed_out(), "{} of {count} answers are held", state.held);
    }

    /// Returns the bodies of all requests for an answer so far.
    #[must_use]
    pub fn request_bodies(&self) -> Vec<Value> {
        self.lock_state().requests.clone()
    }

    fn lock_state(&self) -> MutexGuard<'_, ScriptedVendorState> {
        self.shared.0.lock().expect("no thread of the vendor failed")
    }

    fn serve_connection(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        while let Some((target, body)) = read_request(&mut reader)? {
            if target.ends_with("/chat/completions") {
                let body: Value = serde_json::from_slice(&body).map_err(io::Error::other)?;
                return self.stream_completion(&stream, body);
            }
            if target.ends_with("/embeddings") {
                self.serve_embeddings(&stream, &serde_json::from_slice(&body).map_err(io::Error::other)?)?;
                continue;
            }
            let models = json!({"object": "list", "data": [{
                "id": MODEL, "object": "model", "created": 0, "owned_by": "conformance"
            }]});
            let listed = || self.lock_state().list.clone().unwrap_or((200, models));
            let (status, body) = if target.ends_with("/models") { listed() } else { (404, json!({})) };
            write_response(&stream, &format!("{status} X"), &body)?;
        }
        Ok(())
    }

    fn stream_completion(&self, mut stream: &TcpStream, body: Value) -> io::Result<()> {
        let script = {
            let mut state = self.lock_state();
            state.requests.push(body);
            state.scripts.pop_front().unwrap_or_else(|| vec![Say::from_text("Done.")])
        };
        if let Some(Say::Refuse(status)) = script.first() {
            let error = json!({"error": {"message": "injected error", "type": "server_error"}});
            return write_response(stream, &format!("{status} Refused"), &error);
        }
        stream.write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n",
        )?;
        let (mut calls, mut declined, mut tells_usage) = (0, false, true);
        for say in script {
            match say {
                Say::Text(text) => write_delta(stream, &json!({ "content": text }), None)?,
                Say::Reasoning(text) => write_delta(stream, &json!({ "reasoning_content": text }), None)?,
                Say::Call { tool, arguments } => {
                    let function = json!({ "name": tool, "arguments": arguments.to_string() });
                    let id = format!("call_{}_{calls}", self.lock_state().requests.len());
                    let call =
                        json!([{ "index": calls, "id": id, "type": "function", "function": function }]);
                    write_delta(stream, &json!({ "tool_calls": call }), None)?;
                    calls += 1;
                }
                Say::Hold => self.wait_for_release(stream)?,
                Say::Decline => declined = true,
                Say::NoUsage => tells_usage = false,
                Say::Cut | Say::Refuse(_) => return Ok(()),
            }
        }
        let end = if calls > 0 { "tool_calls" } else { "stop" };
        write_delta(stream, &json!({}), Some(if declined { "content_filter" } else { end }))?;
        let usage = json!({ "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120 });
        if tells_usage {
            write_event(stream, &json!({ "id": "c", "object": "chat.completion.chunk", "model": MODEL, "choices": [], "usage": usage }).to_string())?;
        }
        write_event(stream, "[DONE]")?;
        stream.write_all(b"0\r\n\r\n")
    }

    /// Waits for a release; fails if the caller has disconnected.
    fn wait_for_release(&self, stream: &TcpStream) -> io::Result<()> {
        let mut state = self.lock_state();
        state.held += 1;
        self.shared.1.notify_all();
        let mut gone = false;
        while state.releases == 0 && !gone {
            let look = Duration::from_millis(20);
            state = self.shared.1.wait_timeout(state, look).map_err(|_| io::ErrorKind::Other)?.0;
            gone = is_closed(stream);
        }
        state.held -= 1;
        if state.releases == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        state.releases -= 1;
        Ok(())
    }
}

fn is_closed(stream: &TcpStream) -> bool {
    let _ = stream.set_nonblocking(true);
    let peeked = stream.peek(&mut [0]);
    let _ = stream.set_nonblocking(false);
    match peeked {
        Ok(read) => read == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

fn write_delta(stream: &TcpStream, delta: &Value, finish_reason: Option<&str>) -> io::Result<()> {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish_reason });
    write_event(
        stream,
        &json!({ "id": "c", "object": "chat.completion.chunk", "model": MODEL, "choices": [choice] })
            .to_string(),
    )
}

fn write_event(mut stream: &TcpStream, data: &str) -> io::Result<()> {
    let frame = format!("data: {data}\n\n");
    stream.write_all(format!("{:x}\r\n{frame}\r\n", frame.len()).as_bytes())
}

fn write_response(mut stream: &TcpStream, status: &str, body: &Value) -> io::Result<()> {
    let body = body.to_string();
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(format!("{head}{body}").as_bytes())
}

/// Reads the target and body of the next request; `None` if the caller has disconnected.
fn read_request(reader: &mut BufReader<TcpStream>) -> io::Result<Option<(String, Vec<u8>)>> {
    let mut first = String::new();
    if reader.read_line(&mut first)? == 0 {
        return Ok(None);
    }
    let target = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut length = None;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim_end().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok();
        }
    }
    let mut body = Vec::new();
    match length {
        Some(length) => {
            reader.take(length).read_to_end(&mut body)?;
        }
        None if first.starts_with("POST") => read_chunked_body(reader, &mut body)?,
        None => {}
    }
    Ok(Some((target, body)))
}

fn read_chunked_body(reader: &mut BufReader<TcpStream>, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let mut size = String::new();
        reader.read_line(&mut size)?;
        let size = u64::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
        reader.take(size).read_to_end(body)?;
        reader.read_line(&mut String::new())?;
        if size == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conformance::http::{HttpRequest, StreamingResponse};
    use conformance::poll;

    fn open_completion(vendor: &ScriptedVendor) -> StreamingResponse {
        HttpRequest::new("POST", "/v1/chat/completions")
            .with_body("{\"model\":\"stand-in\"}")
            .send_streaming(&vendor.address)
    }

    #[test]
    fn script_hold_waits_for_release() {
        let vendor = ScriptedVendor::start();
        vendor.add_script([Say::from_text("one"), Say::Hold, Say::from_text("two")]);
        let held = open_completion(&vendor);
        vendor.wait_for_holds(1);
        assert_eq!(open_completion(&vendor).read_whole().text().matches("Done.").count(), 1);
        vendor.release_hold();
        let text = held.read_whole().text();
        let at = |word: &str| text.find(word).expect(word);
        assert!(
            at("one") < at("two") && at("two") < at("\"stop\"") && at("\"stop\"") < at("[DONE]"),
            "{text}"
        );
        assert_eq!(vendor.request_bodies().len(), 2);
        assert!(HttpRequest::new("GET", "/v1/models").send(&vendor.address).text().contains(MODEL));
    }

    #[test]
    fn script_hold_ends_when_caller_leaves() {
        let vendor = ScriptedVendor::start();
        vendor.add_script([Say::Hold]);
        let held = open_completion(&vendor);
        vendor.wait_for_holds(1);
        drop(held);
        poll::wait_until("it is let go", || (vendor.lock_state().held == 0).then_some(()));
        vendor.add_script([Say::Refuse(503)]);
        assert_eq!(open_completion(&vendor).status, 503);
    }
}
