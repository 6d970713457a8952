//! A service with a scripted model, and calls of its server of the Model Context Protocol.

use std::io::{BufRead, BufReader, Lines};

use e2e::http::HttpBodyReader;
use e2e::{
    Api, Expect, HttpRequest, HttpResponse, Say, ScriptedVendor, ServiceOptions, TestAccount, TestService,
};
use serde_json::{Value, json};

/// The path of the server.
pub(crate) const MCP: &str = "/mcp";
/// The revision without a handshake.
pub(crate) const STATELESS: &str = "2026-07-28";
/// The newest revision with a handshake.
pub(crate) const HANDSHAKE: &str = "2025-11-25";

/// A service with one account.
pub(crate) struct McpStage {
    pub(crate) service: TestService,
    pub(crate) account: TestAccount,
    pub(crate) vendor: ScriptedVendor,
}

impl McpStage {
    /// Starts a service with a scripted model.
    pub(crate) fn start() -> Self {
        let vendor = ScriptedVendor::start();
        let options =
            ServiceOptions { environment: vendor.service_environment(), ..ServiceOptions::default() };
        let service = TestService::start(options);
        let account = service.create_account();
        Self { service, account, vendor }
    }

    /// Returns a caller of the service's own interface.
    pub(crate) fn api(&self) -> Api {
        self.service.api_for(&self.account)
    }

    /// Creates a key with these permissions.
    pub(crate) fn key_of_scope(&self, scope: &str) -> String {
        let account = &self.account.email;
        let made = ["key", "create", "--account", account, "--name", "narrow", "--scope", scope];
        let made = self.service.run_admin_command(&made);
        made["key"].as_str().expect("a key").to_owned()
    }

    /// Sends a request.
    pub(crate) fn send(&self, request: HttpRequest) -> HttpResponse {
        request.send(self.service.address())
    }

    /// Creates a request with the account's key.
    pub(crate) fn post(&self, body: &Value) -> HttpRequest {
        post_as(&self.account.key, body)
    }

    /// Calls a method of the revision without a handshake, and returns the result, which must succeed.
    pub(crate) fn call(&self, method: &str, params: Value) -> Value {
        result_of(&self.send(stateless_request(&self.account.key, method, params)))
    }

    /// Calls a tool, and returns its result.
    pub(crate) fn call_tool(&self, name: &str, arguments: Value) -> Value {
        self.call("tools/call", json!({ "name": name, "arguments": arguments }))
    }

    /// Calls a tool that must succeed, and returns its value.
    pub(crate) fn tool_value(&self, name: &str, arguments: Value) -> Value {
        let result = self.call_tool(name, arguments);
        assert_eq!(result["isError"], false, "{result}");
        result["structuredContent"].clone()
    }

    /// Calls a method of the newest revision with a handshake, and returns the message.
    pub(crate) fn call_with_handshake(&self, method: &str, params: Value) -> Value {
        self.send(handshake_request(&self.account.key, 7, method, params)).expect_status(200).json()
    }

    /// Sets the model's next text.
    pub(crate) fn script_text(&self, text: &str) {
        self.vendor.add_script([Say::from_text(text)]);
    }

    /// Returns the state of the latest conversation.
    pub(crate) fn latest_chat(&self) -> Value {
        let chats = self.api().list_chats("").expect_status(200).json();
        let id = chats["chats"][0]["chatId"].as_str().expect("a conversation").to_owned();
        self.api().get_chat(&id).expect_status(200).json()
    }
}

/// Creates a request with a key.
pub(crate) fn post_as(key: &str, body: &Value) -> HttpRequest {
    HttpRequest::new("POST", MCP)
        .with_header("authorization", &format!("Bearer {key}"))
        .with_header("content-type", "application/json")
        .with_body(body.to_string())
}

/// Adds what each request of the revision without a handshake says about itself.
pub(crate) fn with_meta(mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = STATELESS.into();
    if params["_meta"].get("io.modelcontextprotocol/clientCapabilities").is_none() {
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    }
    params
}

/// Creates a request of the revision without a handshake, with its headers.
pub(crate) fn stateless_request(key: &str, method: &str, params: Value) -> HttpRequest {
    let name = ["name", "uri", "taskId"].into_iter().find_map(|field| params[field].as_str());
    let name = name.map(str::to_owned);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": with_meta(params) });
    let request =
        post_as(key, &body).with_header("mcp-protocol-version", STATELESS).with_header("mcp-method", method);
    match name {
        Some(name) => request.with_header("mcp-name", &name),
        None => request,
    }
}

/// Creates a request of the newest revision with a handshake.
pub(crate) fn handshake_request(key: &str, id: u64, method: &str, params: Value) -> HttpRequest {
    let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    post_as(key, &body).with_header("mcp-protocol-version", HANDSHAKE)
}

/// Returns the result in a response.
pub(crate) fn result_of(response: &HttpResponse) -> Value {
    assert_eq!(response.status, 200, "{}", response.text());
    let message = response.json();
    assert_eq!((&message["jsonrpc"], &message["id"]), (&json!("2.0"), &json!(1)), "{message}");
    assert_eq!(message["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "causerie");
    assert!(message.get("error").is_none(), "{message}");
    message["result"].clone()
}

/// Checks that a response is an error with this status and code, and returns the message.
pub(crate) fn expect_error(response: &HttpResponse, status: u16, code: i64) -> Value {
    assert_eq!(response.status, status, "{}", response.text());
    let message = response.json();
    assert_eq!(message["error"]["code"], code, "{message}");
    assert!(message["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{message}");
    message
}

/// A stream of messages.
pub(crate) struct MessageStream(Lines<BufReader<HttpBodyReader>>);

impl MessageStream {
    pub(crate) fn open(request: HttpRequest, address: &str) -> Self {
        let request = request.with_header("accept", "application/json, text/event-stream");
        let response = request.send_streaming(address);
        assert_eq!(response.status, 200);
        assert_eq!(response.header("content-type"), Some("text/event-stream"));
        assert_eq!(response.header("x-accel-buffering"), Some("no"));
        Self(BufReader::new(response.into_body()).lines())
    }

    /// Returns the next message; `None` at the end.
    pub(crate) fn next_message(&mut self) -> Option<Value> {
        loop {
            let line = self.0.next()?.expect("a whole body");
            if line.is_empty() || line.starts_with(':') {
                continue;
            }
            let data = line.strip_prefix("data: ").expect("nothing but data");
            return Some(serde_json::from_str(data).expect("JSON"));
        }
    }

    /// Reads to the end, and returns the messages.
    pub(crate) fn read_messages(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.next_message()).collect()
    }
}
