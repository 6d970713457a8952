//! The operations of the interface, one function each, and the checks that every error response must pass.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::address::ServiceAddress;
use crate::events::AnswerStream;
use crate::http::{HttpRequest, HttpResponse, StreamingResponse};
use crate::poll;

/// A caller with a key. Sends targets unchanged; callers encode them if necessary.
#[derive(Debug, Clone)]
pub struct Api {
    pub address: ServiceAddress,
    pub key: String,
}

/// The folder that marks an account as owned by the suite. It is hidden, so that no listing shows it.
const MARK: &str = "/.conformance";

impl Api {
    /// Returns a caller of the same service with another key.
    #[must_use]
    pub fn with_key(&self, key: &str) -> Self {
        Self { address: self.address.clone(), key: key.to_owned() }
    }

    /// Empties an account that is marked as owned by the suite, or empty.
    ///
    /// # Panics
    /// Panics if the account is not empty and not marked.
    pub fn empty_account(&self) {
        let entries = self.list_home().expect_status(200).json()["entries"].clone();
        let chats = self.list_chats("?limit=200").expect_status(200).json()["chats"].clone();
        let (entries, chats) = (entries.as_array().expect("entries"), chats.as_array().expect("chats"));
        if self.list_directory(MARK).status != 200 {
            let uploads = self.list_directory("/uploads").json()["totalEntries"].clone();
            assert!(
                chats.is_empty() && entries.len() <= 1 && uploads == 0,
                "give the suite an empty account"
            );
            self.create_folder(MARK).expect_status(201);
        }
        for chat in chats {
            self.delete_chat(&id_field(chat, "chatId")).expect_status(204);
        }
        for entry in entries {
            // Percent signs may already encode bytes.
            let encode = |byte: u8| match byte {
                b'%' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
                _ => format!("%{byte:02X}"),
            };
            let name: String = id_field(entry, "name").bytes().map(encode).collect();
            self.delete_file(&format!("/{name}?recursive=true")).expect_status(204);
        }
        self.create_folder("/uploads").expect_status(201);
    }

    /// Creates a request with the key.
    #[must_use]
    pub fn new_request(&self, method: &str, target: &str) -> HttpRequest {
        HttpRequest::new(method, target).with_header("x-api-key", &self.key)
    }

    /// Sends a request without a body.
    #[must_use]
    pub fn call_endpoint(&self, method: &str, target: &str) -> HttpResponse {
        self.new_request(method, target).send(&self.address)
    }

    /// `GET /api/v1/vm`
    #[must_use]
    pub fn get_vm(&self) -> HttpResponse {
        self.call_endpoint("GET", "/api/v1/vm")
    }

    /// `POST /api/v1/vm/start`
    #[must_use]
    pub fn start_vm(&self) -> HttpResponse {
        self.call_endpoint("POST", "/api/v1/vm/start")
    }

    /// `POST /api/v1/vm/stop`
    #[must_use]
    pub fn stop_vm(&self) -> HttpResponse {
        self.call_endpoint("POST", "/api/v1/vm/stop")
    }

    /// `GET /api/v1/{models,jurisdictions,skills,agents}`, optionally with a language.
    #[must_use]
    pub fn get_catalog(&self, name: &str, accept_language: Option<&str>) -> HttpResponse {
        let mut request = self.new_request("GET", &format!("/api/v1/{name}"));
        if let Some(language) = accept_language {
            request = request.with_header("accept-language", language);
        }
        request.send(&self.address)
    }

    /// `POST /api/v1/files` with only the file.
    #[must_use]
    pub fn upload_file(&self, name: &str, content: &[u8]) -> HttpResponse {
        self.upload_form(&[UploadPart::from_file(name, content)])
    }

    /// `POST /api/v1/files` with these parts in this order.
    #[must_use]
    pub fn upload_form(&self, parts: &[UploadPart]) -> HttpResponse {
        self.upload_request(parts).send(&self.address)
    }

    /// Creates the request of [`Api::upload_form`].
    #[must_use]
    pub fn upload_request(&self, parts: &[UploadPart]) -> HttpRequest {
        let (kind, body) = multipart_form(parts);
        self.new_request("POST", "/api/v1/files").with_header("content-type", &kind).with_body(body)
    }

    /// `GET /api/v1/files/{path}`
    #[must_use]
    pub fn download_file(&self, path: &str) -> HttpResponse {
        self.call_endpoint("GET", &format!("/api/v1/files{path}"))
    }

    /// `DELETE /api/v1/files/{path}`
    #[must_use]
    pub fn delete_file(&self, path_and_query: &str) -> HttpResponse {
        self.call_endpoint("DELETE", &format!("/api/v1/files{path_and_query}"))
    }

    /// `GET /api/v1/directories`
    #[must_use]
    pub fn list_home(&self) -> HttpResponse {
        self.call_endpoint("GET", "/api/v1/directories")
    }

    /// `GET /api/v1/directories/{path}`
    #[must_use]
    pub fn list_directory(&self, path: &str) -> HttpResponse {
        self.call_endpoint("GET", &format!("/api/v1/directories{path}"))
    }

    /// `POST /api/v1/directories/{path}`
    #[must_use]
    pub fn create_folder(&self, path: &str) -> HttpResponse {
        self.call_endpoint("POST", &format!("/api/v1/directories{path}"))
    }

    /// `POST /api/v1/chats`
    #[must_use]
    pub fn send_question(&self, question: &Value) -> HttpResponse {
        self.send_bytes(question.to_string().as_bytes())
    }

    /// `POST /api/v1/chats` with an arbitrary body.
    #[must_use]
    pub fn send_bytes(&self, body: &[u8]) -> HttpResponse {
        let request =
            self.new_request("POST", "/api/v1/chats").with_header("content-type", "application/json");
        request.with_body(body).send(&self.address)
    }

    /// `GET /api/v1/chats`, with a query such as `?limit=2`.
    #[must_use]
    pub fn list_chats(&self, query: &str) -> HttpResponse {
        self.call_endpoint("GET", &format!("/api/v1/chats{query}"))
    }

    /// `GET /api/v1/chats/{chatId}`
    #[must_use]
    pub fn get_chat(&self, chat: &str) -> HttpResponse {
        self.call_endpoint("GET", &format!("/api/v1/chats/{chat}"))
    }

    /// `DELETE /api/v1/chats/{chatId}`
    #[must_use]
    pub fn delete_chat(&self, chat: &str) -> HttpResponse {
        self.call_endpoint("DELETE", &format!("/api/v1/chats/{chat}"))
    }

    /// `POST /api/v1/chats/{chatId}/stop`
    #[must_use]
    pub fn stop_chat(&self, chat: &str) -> HttpResponse {
        self.call_endpoint("POST", &format!("/api/v1/chats/{chat}/stop"))
    }

    /// `GET /api/v1/chats/{chatId}/messages/{messageId}`
    #[must_use]
    pub fn get_message(&self, chat: &str, message: &str) -> HttpResponse {
        self.call_endpoint("GET", &format!("/api/v1/chats/{chat}/messages/{message}"))
    }

    /// `POST /api/v1/chats/{chatId}/messages/{messageId}/calls/{callId}`
    #[must_use]
    pub fn reply_to_call(&self, (chat, message): (&str, &str), call: &str, reply: &Value) -> HttpResponse {
        let target = format!("/api/v1/chats/{chat}/messages/{message}/calls/{}", encode_path(call));
        self.new_request("POST", &target).with_body(reply.to_string()).send(&self.address)
    }

    /// `GET /api/v1/chats/{chatId}/messages/{messageId}/events`
    #[must_use]
    pub fn answer_events(&self, chat: &str, message: &str, last_event_id: Option<&str>) -> StreamingResponse {
        self.open_events(&format!("/api/v1/chats/{chat}/messages/{message}/events"), last_event_id)
    }

    /// `GET /api/v1/chats/{chatId}/events`
    #[must_use]
    pub fn chat_events(&self, chat: &str, last_event_id: Option<&str>) -> StreamingResponse {
        self.open_events(&format!("/api/v1/chats/{chat}/events"), last_event_id)
    }

    fn open_events(&self, target: &str, last_event_id: Option<&str>) -> StreamingResponse {
        let mut request = self.new_request("GET", target).with_header("accept", "text/event-stream");
        if let Some(id) = last_event_id {
            request = request.with_header("last-event-id", id);
        }
        request.send_streaming(&self.address)
    }

    /// Asks in a new conversation and returns the accepted answer.
    ///
    /// # Panics
    /// Panics if the question is not accepted.
    #[must_use]
    pub fn ask_question(&self, input: &str) -> Value {
        self.expect_accepted(&json!({ "input": input }))
    }

    /// Sends a question that must be accepted.
    ///
    /// # Panics
    /// Panics if it is not.
    #[must_use]
    pub fn expect_accepted(&self, question: &Value) -> Value {
        let response = self.send_question(question);
        assert_eq!(response.status, 202, "{}", response.text());
        response.json()
    }

    /// Opens the stream of this answer.
    #[must_use]
    pub fn stream_answer(&self, answer: &Value) -> AnswerStream {
        AnswerStream::new(self.answer_events(&id_field(answer, "chatId"), &id_field(answer, "id"), None))
    }

    /// Returns the current state of the answer.
    ///
    /// # Panics
    /// Panics if the answer cannot be read.
    #[must_use]
    pub fn get_answer(&self, answer: &Value) -> Value {
        self.get_message(&id_field(answer, "chatId"), &id_field(answer, "id")).expect_status(200).json()
    }

    /// Waits for the completed answer and returns it.
    ///
    /// # Panics
    /// After [`poll::TIMEOUT`](crate::poll::TIMEOUT).
    pub fn wait_for_completion(&self, answer: &Value) -> Value {
        poll::wait_until("the answer is completed", || {
            Some(self.get_answer(answer)).filter(|answer| answer["status"] == "completed")
        })
    }
}

/// Returns the id in a field of an object.
///
/// # Panics
/// Panics if the field is not an id.
#[must_use]
pub fn id_field(object: &Value, field: &str) -> String {
    object[field].as_str().expect("an id").to_owned()
}

/// Returns `true` for a UUID in its canonical form.
#[must_use]
pub fn is_uuid(text: &Value) -> bool {
    let groups: Vec<usize> = text.as_str().unwrap_or_default().split('-').map(str::len).collect();
    groups == [8, 4, 4, 4, 12]
        && text.as_str().is_some_and(|text| text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()))
}

/// Returns `true` for an ISO 8601 time with a zone: `2026-11-21T09:00:00Z`.
#[must_use]
pub fn is_time(text: &Value) -> bool {
    let text = text.as_str().unwrap_or_default();
    let shape: String = text.chars().take(19).map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape == "0000-00-00T00:00:00" && (text.ends_with('Z') || text[19..].contains(['+', '-']))
}

/// Returns the id of the built-in reader, which every service has. It answers at once and costs little.
///
/// # Panics
/// Panics if it is not in the catalog.
#[must_use]
pub fn builtin_reader_id(api: &Api) -> String {
    let models = api.get_catalog("models", None).expect_status(200).json();
    let found = models.as_array().expect("models").iter().find(|model| model["builtin"] == true);
    id_field(found.expect("the built-in reader"), "id")
}

/// Checks all parts of a completed answer and returns the parts of a type.
///
/// # Panics
/// Panics if two parts have the same id, or a part is still running.
#[must_use]
pub fn find_parts<'a>(answer: &'a Value, kind: &str) -> Vec<&'a Value> {
    let parts = answer["parts"].as_array().expect("parts");
    let mut ids = HashSet::new();
    for part in parts {
        assert!(is_uuid(&part["partId"]) && ids.insert(part["partId"].to_string()), "{part}");
        if let Some(state) = part["state"].as_str() {
            assert!(["COMPLETE", "ERROR"].contains(&state), "a part of a whole answer has settled: {part}");
        }
    }
    parts.iter().filter(|part| part["type"] == kind).collect()
}

/// Percent-encodes a path as a strict client does.
#[must_use]
pub fn encode_path(path: &str) -> String {
    path.bytes()
        .map(|byte| match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

/// Returns the path of an uploaded file.
///
/// # Panics
/// Panics if the upload failed.
pub fn uploaded_path(response: HttpResponse) -> String {
    let uploaded = response.expect_status(201).json();
    uploaded["path"].as_str().expect("a path").to_owned()
}

/// Returns the names in a folder.
///
/// # Panics
/// Panics if the folder cannot be listed.
#[must_use]
pub fn list_names(api: &Api, folder: &str) -> Vec<String> {
    let listing = api.list_directory(folder).expect_status(200).json();
    let entries = listing["entries"].as_array().expect("entries");
    entries.iter().map(|entry| entry["name"].as_str().expect("a name").to_owned()).collect()
}

/// A part of an upload form.
#[derive(Debug, Clone)]
pub struct UploadPart {
    disposition: Vec<u8>,
    content: Vec<u8>,
}

impl UploadPart {
    /// Creates a file part, with its name written like in a browser.
    #[must_use]
    pub fn from_file(name: &str, content: &[u8]) -> Self {
        let name = name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A");
        Self::from_disposition(format!("name=\"file\"; filename=\"{name}\""), content)
    }

    #[must_use]
    pub fn from_field(name: &str, value: &str) -> Self {
        Self::from_disposition(format!("name=\"{name}\""), value.as_bytes())
    }

    /// Creates a part with an arbitrary `Content-Disposition` after `form-data; `.
    #[must_use]
    pub fn from_disposition(disposition: impl AsRef<[u8]>, content: &[u8]) -> Self {
        Self { disposition: disposition.as_ref().to_vec(), content: content.to_vec() }
    }
}

/// Returns the content type and the body of a form with these parts in this order.
#[must_use]
pub fn multipart_form(parts: &[UploadPart]) -> (String, Vec<u8>) {
    let boundary = "----conformance-7MA4YWxkTrZu0gW";
    let mut body = Vec::new();
    for part in parts {
        body.extend_from_slice(format!("--{boundary}\r\ncontent-disposition: form-data; ").as_bytes());
        body.extend_from_slice(&part.disposition);
        body.extend_from_slice(b"\r\n\r\n");
        body.extend_from_slice(&part.content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    (format!("multipart/form-data; boundary={boundary}"), body)
}

pub trait Expect {
    /// Asserts the status and returns the response.
    fn expect_status(self, status: u16) -> HttpResponse;
    /// Asserts an error response with the status and the documented body and headers. Returns its message.
    fn expect_refusal(self, status: u16) -> String;
    /// Asserts an error response with the status and the code. Returns its message.
    fn expect_code(self, status: u16, code: &str) -> String;
    /// Asserts the rejection of a key: status, header and empty body.
    fn expect_rejection(self);
}

impl Expect for HttpResponse {
    fn expect_status(self, status: u16) -> HttpResponse {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }

    fn expect_refusal(self, status: u16) -> String {
        refusal_code_and_message(&self, status).1
    }

    fn expect_code(self, status: u16, code: &str) -> String {
        let (found, message) = refusal_code_and_message(&self, status);
        assert_eq!(found, code, "{message}");
        message
    }

    fn expect_rejection(self) {
        assert_eq!(self.status, 401, "{}", self.text());
        assert_eq!(self.header("www-authenticate"), Some("ApiKey"));
        assert_eq!(self.text(), "");
    }
}

fn refusal_code_and_message(response: &HttpResponse, status: u16) -> (String, String) {
    assert_eq!(response.status, status, "{}", response.text());
    let kind = response.header("content-type").unwrap_or_default();
    assert!(kind.starts_with("application/json"), "content type {kind:?}");
    let body = response.json();
    let code = body["code"].as_str().expect("a code").to_owned();
    let message = body["message"].as_str().expect("a message").to_owned();
    assert!(
        !code.is_empty()
            && code.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_' || byte.is_ascii_digit()),
        "code {code:?}"
    );
    assert!(!message.trim().is_empty(), "a message for people");
    (code, message)
}
