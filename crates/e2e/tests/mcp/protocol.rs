//! Keys, revisions, headers and errors.

use e2e::{Expect, HttpRequest};
use serde_json::{Value, json};

use crate::stage::{
    HANDSHAKE, MCP, McpStage, STATELESS, expect_error, handshake_request, post_as, result_of,
    stateless_request, with_meta,
};

#[test]
fn keys_are_accepted_in_either_header() {
    let stage = McpStage::start();
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "ping" });
    let plain =
        |key: &str| HttpRequest::new("POST", MCP).with_header("x-api-key", key).with_body(body.to_string());
    for request in [stage.post(&body), plain(&stage.account.key)] {
        let answered = stage.send(request).expect_status(200).json();
        assert_eq!(answered, json!({ "jsonrpc": "2.0", "id": 7, "result": {} }));
    }
    for refused in
        [HttpRequest::new("POST", MCP).with_body(body.to_string()), plain("api-x"), post_as("api-x", &body)]
    {
        let refused = stage.send(refused);
        expect_error(&refused, 401, 401);
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"), "no authorization server is named");
    }
    // Metadata of an authorization server would make clients look for one.
    for target in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
        stage.send(HttpRequest::new("GET", target)).expect_status(404);
    }
}

#[test]
fn pages_of_other_sites_are_refused() {
    let stage = McpStage::start();
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "ping" });
    let host = stage.service.address().to_owned();
    let from = |origin: &str| stage.send(stage.post(&body).with_header("origin", origin));
    from(&format!("http://{host}")).expect_status(200);
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1"] {
        expect_error(&from(origin), 403, 403);
    }
}

#[test]
fn only_posts_are_served() {
    let stage = McpStage::start();
    for method in ["GET", "DELETE", "PUT"] {
        let request = HttpRequest::new(method, MCP);
        let refused = stage.send(request.with_header("x-api-key", &stage.account.key));
        expect_error(&refused, 405, 405);
        assert_eq!(refused.header("allow"), Some("POST"));
    }
    stage.send(HttpRequest::new("GET", MCP)).expect_status(401);
}

#[test]
fn handshake_agrees_on_revision() {
    let stage = McpStage::start();
    let initialize = |asked: &str| {
        let client = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": asked, "capabilities": {}, "clientInfo": client });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
        let response = stage.send(stage.post(&body));
        assert_eq!(response.header("mcp-session-id"), None);
        response.expect_status(200).json()["result"].clone()
    };
    for (asked, agreed) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2025-11-25"),
        ("2031-01-01", "2025-11-25"),
    ] {
        let about = initialize(asked);
        assert_eq!(about["protocolVersion"], agreed);
        assert_eq!(about["serverInfo"]["name"], "causerie");
        assert_eq!(about["capabilities"], json!({ "tools": {}, "resources": {} }));
    }
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let accepted = stage.send(stage.post(&initialized));
    assert_eq!((accepted.status, accepted.body.len()), (202, 0));
    let tools = stage.call_with_handshake("tools/list", json!({}));
    assert!(tools["result"]["tools"].as_array().is_some_and(|tools| tools.len() == 7), "{tools}");
    assert!(tools["result"].get("ttlMs").is_none() && tools["result"].get("resultType").is_none());
    let unknown = stage.call_with_handshake("prompts/list", json!({}));
    assert_eq!(unknown["error"]["code"], -32601);
    let missing = stage.call_with_handshake("resources/read", json!({ "uri": "causerie://files/none" }));
    assert_eq!(missing["error"]["code"], -32002);
}

#[test]
fn batches_belong_to_oldest_revision() {
    let stage = McpStage::start();
    let ping = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let batch = json!([ping(1), notification, ping(2), { "jsonrpc": "2.0", "id": 3, "method": "none" }]);
    let answered = stage.send(stage.post(&batch)).expect_status(200).json();
    let ids: Vec<&Value> =
        answered.as_array().expect("a batch").iter().map(|message| &message["id"]).collect();
    assert_eq!(ids, [&json!(1), &json!(2), &json!(3)]);
    assert_eq!(stage.send(stage.post(&json!([notification]))).status, 202);
    expect_error(&stage.send(stage.post(&json!([]))), 400, -32600);
}

#[test]
fn discovery_describes_server() {
    let stage = McpStage::start();
    let about = stage.call("server/discover", json!({}));
    assert_eq!(about["supportedVersions"], json!([STATELESS, HANDSHAKE, "2025-06-18", "2025-03-26"]));
    assert_eq!(about["capabilities"]["extensions"], json!({ "io.modelcontextprotocol/tasks": {} }));
    assert_eq!((&about["resultType"], &about["cacheScope"]), (&json!("complete"), &json!("private")));
    assert!(about["ttlMs"].as_u64().is_some_and(|ttl| ttl > 0));
    let tools = stage.call("tools/list", json!({}));
    assert_eq!((&tools["resultType"], &tools["cacheScope"]), (&json!("complete"), &json!("private")));
}

#[test]
fn stateless_requests_are_checked() {
    let stage = McpStage::start();
    let key = &stage.account.key;
    let list = |meta: Value| {
        let params = json!({ "_meta": meta });
        json!({ "jsonrpc": "2.0", "id": "x", "method": "tools/list", "params": params })
    };
    let whole = with_meta(json!({}))["_meta"].clone();
    let send = |body: &Value, version: Option<&str>, method: Option<&str>| {
        let mut request = post_as(key, body);
        for (name, value) in [("mcp-protocol-version", version), ("mcp-method", method)] {
            if let Some(value) = value {
                request = request.with_header(name, value);
            }
        }
        stage.send(request)
    };
    let (version, method) = (Some(STATELESS), Some("tools/list"));
    send(&list(whole.clone()), version, method).expect_status(200);
    let no_meta = json!({ "jsonrpc": "2.0", "id": "x", "method": "tools/list" });
    assert_eq!(expect_error(&send(&no_meta, version, method), 400, -32602)["id"], "x");
    for (version, method) in [(None, method), (version, None), (version, Some("tools/call"))] {
        expect_error(&send(&list(whole.clone()), version, method), 400, -32020);
    }
    let mut other = whole.clone();
    other["io.modelcontextprotocol/protocolVersion"] = "1900-01-01".into();
    expect_error(&send(&list(other.clone()), version, method), 400, -32020);
    let unsupported = expect_error(&send(&list(other), Some("1900-01-01"), method), 400, -32022);
    assert_eq!(unsupported["error"]["data"]["requested"], "1900-01-01");
    assert_eq!(unsupported["error"]["data"]["supported"][0], STATELESS);
    for removed in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "unknown/method"] {
        let refused = stage.send(stateless_request(key, removed, json!({})));
        assert_eq!(expect_error(&refused, 404, -32601)["id"], 1, "{removed}");
    }
    let unknown = stage.send(stateless_request(key, "tools/call", json!({ "name": "none" })));
    expect_error(&unknown, 200, -32602);
}

#[test]
fn malformed_bodies_are_refused() {
    let stage = McpStage::start();
    let raw = |body: &str| {
        let request = HttpRequest::new("POST", MCP).with_header("x-api-key", &stage.account.key);
        stage.send(request.with_body(body))
    };
    expect_error(&raw("{"), 400, -32700);
    for body in
        ["7", r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#]
    {
        expect_error(&raw(body), 400, -32600);
    }
    let long = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","x":"{}"}}"#, "x".repeat(5 << 20));
    expect_error(&raw(&long), 413, 413);
    let params = json!({ "name": 7, "arguments": {} });
    let wrong = stage.send(handshake_request(&stage.account.key, 7, "tools/call", params));
    expect_error(&wrong, 400, -32602);
}

#[test]
fn key_scope_limits_tools() {
    let stage = McpStage::start();
    let key = stage.key_of_scope("files");
    let tools = result_of(&stage.send(stateless_request(&key, "tools/list", json!({}))));
    let names: Vec<&str> =
        tools["tools"].as_array().expect("tools").iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["list_files", "upload_file"]);
    let params = json!({ "name": "ask", "arguments": { "question": "Hello?" } });
    let refused = result_of(&stage.send(stateless_request(&key, "tools/call", params)));
    assert_eq!(refused["isError"], true);
    assert!(
        refused["content"][0]["text"].as_str().is_some_and(|text| text.starts_with("KEY_SCOPE: ")),
        "{refused}"
    );
    let chats = stage.api().list_chats("").expect_status(200).json();
    assert_eq!(chats["totalCount"], 0, "nothing was asked");
    let params = json!({ "uri": "causerie://conversations/3b9f2c1e-5d47-4f6a-8e0b-7c6d5e4f3a21" });
    expect_error(&stage.send(stateless_request(&key, "resources/read", params)), 200, 403);
}
