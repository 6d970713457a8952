//! A service with a scripted model, and calls of its interface for OpenAI's programs.

use std::io::{BufRead, BufReader, Lines};

use e2e::http::HttpBodyReader;
use e2e::{
    Api, Expect, HttpRequest, HttpResponse, Say, ScriptedVendor, ServiceOptions, TestAccount, TestService,
};
use serde_json::{Value, json};

/// A service with one account.
pub(crate) struct OpenAiStage {
    pub(crate) service: TestService,
    pub(crate) account: TestAccount,
    pub(crate) vendor: Option<ScriptedVendor>,
}

/// The path of completions.
pub(crate) const COMPLETIONS: &str = "/v1/chat/completions";

/// The path of responses.
pub(crate) const RESPONSES: &str = "/v1/responses";

impl OpenAiStage {
    /// Starts a service with the built-in reader.
    pub(crate) fn with_reader() -> Self {
        Self::with_options(ServiceOptions::default(), None)
    }

    /// Starts a service with a scripted model, which is the default.
    pub(crate) fn with_vendor() -> Self {
        let vendor = ScriptedVendor::start();
        let options =
            ServiceOptions { environment: vendor.service_environment(), ..ServiceOptions::default() };
        Self::with_options(options, Some(vendor))
    }

    pub(crate) fn with_options(options: ServiceOptions, vendor: Option<ScriptedVendor>) -> Self {
        let service = TestService::start(options);
        let account = service.create_account();
        Self { service, account, vendor }
    }

    /// Returns the scripted model.
    pub(crate) fn vendor(&self) -> &ScriptedVendor {
        self.vendor.as_ref().expect("a scripted model")
    }

    /// Sets the model's next text.
    pub(crate) fn script_text(&self, text: &str) {
        self.vendor().add_script([Say::from_text(text)]);
    }

    /// Returns a caller of the service's own interface.
    pub(crate) fn api(&self) -> Api {
        self.service.api_for(&self.account)
    }

    /// Creates a request with the key.
    pub(crate) fn request(&self, method: &str, target: &str) -> HttpRequest {
        HttpRequest::new(method, target).with_header("authorization", &format!("Bearer {}", self.account.key))
    }

    /// Sends a request without a body.
    pub(crate) fn call(&self, method: &str, target: &str) -> HttpResponse {
        self.request(method, target).send(self.service.address())
    }

    /// Creates a request for a completion.
    pub(crate) fn completion_request(&self, body: &Value) -> HttpRequest {
        self.request("POST", COMPLETIONS)
            .with_header("content-type", "application/json")
            .with_body(body.to_string())
    }

    /// Asks for a completion.
    pub(crate) fn post_completion(&self, body: &Value) -> HttpResponse {
        self.completion_request(body).send(self.service.address())
    }

    /// Asks for a response.
    pub(crate) fn post_response(&self, body: &Value) -> HttpResponse {
        self.request("POST", RESPONSES).with_body(body.to_string()).send(self.service.address())
    }

    /// Returns a response, which must succeed.
    pub(crate) fn respond(&self, body: &Value) -> Value {
        self.post_response(body).expect_status(200).json()
    }

    /// Opens the stream of a response.
    pub(crate) fn open_events(&self, body: &Value) -> ResponseStream {
        let request = self.request("POST", RESPONSES).with_body(body.to_string());
        ResponseStream::open(request, self.service.address())
    }

    /// Returns a completion of these messages, which must succeed.
    pub(crate) fn complete(&self, messages: &Value) -> Value {
        self.post_completion(&json!({"messages": messages})).expect_status(200).json()
    }

    /// Opens the stream of a completion.
    pub(crate) fn open_stream(&self, body: &Value) -> ChunkStream {
        ChunkStream::open(self.completion_request(body), self.service.address())
    }

    /// Returns the ids of the account's conversations, the latest first.
    pub(crate) fn list_chats(&self) -> Vec<String> {
        let chats = self.api().list_chats("").expect_status(200).json()["chats"].clone();
        let chats = chats.as_array().expect("conversations").iter();
        chats.map(|chat| chat["chatId"].as_str().expect("an id").to_owned()).collect()
    }

    /// Returns the texts of a conversation's messages.
    pub(crate) fn chat_texts(&self, chat: &str) -> Vec<String> {
        let messages = self.api().get_chat(chat).expect_status(200).json()["messages"].clone();
        let messages = messages.as_array().expect("messages").iter();
        messages.map(|message| message["text"].as_str().expect("a text").to_owned()).collect()
    }
}

/// Returns the text of a completion.
pub(crate) fn content_of(completion: &Value) -> &str {
    completion["choices"][0]["message"]["content"].as_str().expect("a text")
}

/// A stream of chunks, whose form is checked.
pub(crate) struct ChunkStream {
    lines: Lines<BufReader<HttpBodyReader>>,
    /// The number of comments so far.
    pub(crate) comments: usize,
}

impl ChunkStream {
    pub(crate) fn open(request: HttpRequest, address: &str) -> Self {
        let response = request.send_streaming(address);
        assert_eq!(response.status, 200);
        assert_eq!(response.header("content-type"), Some("text/event-stream"));
        Self { lines: BufReader::new(response.into_body()).lines(), comments: 0 }
    }

    /// Returns the next line of data; `None` at the end.
    pub(crate) fn next_data(&mut self) -> Option<String> {
        loop {
            let line = self.lines.next()?.expect("a whole body");
            if line.is_empty() {
                continue;
            }
            if line.starts_with(':') {
                self.comments += 1;
                continue;
            }
            return Some(line.strip_prefix("data: ").expect("nothing but data").to_owned());
        }
    }

    /// Returns the next chunk.
    pub(crate) fn next_chunk(&mut self) -> Value {
        let data = self.next_data().expect("a chunk");
        serde_json::from_str(&data).expect("JSON")
    }

    /// Reads to the end, which is `[DONE]`, and returns the chunks.
    pub(crate) fn read_chunks(&mut self) -> Vec<Value> {
        let mut chunks = Vec::new();
        while let Some(data) = self.next_data() {
            if data == "[DONE]" {
                assert_eq!(self.next_data(), None, "nothing follows");
                return chunks;
            }
            chunks.push(serde_json::from_str(&data).expect("JSON"));
        }
        Vec::new()
    }
}

/// Returns the texts of a response, joined.
pub(crate) fn output_text(response: &Value) -> String {
    let items = response["output"].as_array().expect("items").iter();
    items.filter_map(|item| item["content"][0]["text"].as_str()).collect::<Vec<_>>().join("\n\n")
}

/// A stream of events, whose form is checked.
pub(crate) struct ResponseStream {
    lines: Lines<BufReader<HttpBodyReader>>,
    last_number: Option<u64>,
}

impl ResponseStream {
    pub(crate) fn open(request: HttpRequest, address: &str) -> Self {
        let response = request.send_streaming(address);
        assert_eq!(response.status, 200);
        assert_eq!(response.header("content-type"), Some("text/event-stream"));
        Self { lines: BufReader::new(response.into_body()).lines(), last_number: None }
    }

    /// Returns the next event; `None` at the end.
    pub(crate) fn next_event(&mut self) -> Option<Value> {
        let mut name = None;
        loop {
            let line = self.lines.next()?.expect("a whole body");
            if let Some(text) = line.strip_prefix("event: ") {
                name = Some(text.to_owned());
            } else if let Some(data) = line.strip_prefix("data: ") {
                let event: Value = serde_json::from_str(data).expect("JSON");
                assert_eq!(event["type"].as_str(), name.as_deref(), "{event}");
                let number = event["sequence_number"].as_u64();
                assert!(number > self.last_number || self.last_number.is_none(), "{event}");
                self.last_number = number;
                return Some(event);
            } else {
                assert!(line.is_empty() || line.starts_with(':'), "{line}");
            }
        }
    }

    /// Reads to the end and returns the events.
    pub(crate) fn read_events(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.next_event()).collect()
    }
}

/// Joins a field of the deltas of chunks.
pub(crate) fn joined_deltas(chunks: &[Value], field: &str) -> String {
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"][field].as_str()).collect()
}

/// Returns the error of a response, which must have this status and code.
pub(crate) fn expect_error(response: &HttpResponse, status: u16, code: Option<&str>) -> Value {
    let body = response.json();
    assert_eq!(response.status, status, "{body}");
    let error = &body["error"];
    assert_eq!(error["code"].as_str(), code, "{body}");
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{body}");
    assert!(error["type"].is_string() && error.get("param").is_some(), "{body}");
    assert!(response.header("x-request-id").is_some());
    error.clone()
}
