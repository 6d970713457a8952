//! MCP servers of each revision over HTTP. Servers of the newest one are as strict as its specification.

use std::time::Duration;

use domain::citation::{Passage, PassagePlace};
use egress::{Mcp, McpError, McpServerConfig, Secret};
use serde_json::Value;

fn new_mcp(standin: &test_support::FakeVendorHandle, mode: &str) -> Mcp {
    let config = McpServerConfig {
        name: "registry".to_owned(),
        url: standin.web_url(&format!("/mcp/{mode}")),
        headers: vec![("Authorization".to_owned(), Secret::new("Bearer mcp-secret-token"))],
        tools: None,
        read_only: Vec::new(),
    };
    Mcp::new(vec![config]).expect("it holds")
}

async fn start_fake_vendors() -> test_support::FakeVendorHandle {
    test_support::start_server().await.expect("a port")
}

/// The methods requested from the servers, in order; responses and other HTTP methods by their kind.
fn requested_methods(standin: &test_support::FakeVendorHandle) -> Vec<String> {
    let asked = standin.web_requests();
    let method = |parameters: &Value| {
        let http = parameters["http"].as_str()?;
        let method = parameters["message"]["method"].as_str();
        Some(method.unwrap_or(if http == "POST" { "response" } else { http }).to_owned())
    };
    asked.iter().filter_map(|asked| method(&asked.parameters)).collect()
}

fn count_method(standin: &test_support::FakeVendorHandle, method: &str) -> usize {
    requested_methods(standin).iter().filter(|asked| *asked == method).count()
}

const STATELESS: [&str; 2] = ["stateless", "stateless-sse"];

#[tokio::test]
async fn mcp_speaks_each_server_revision() {
    let handshake = ["server/discover", "initialize", "notifications/initialized"];
    for (mode, begin) in [
        ("json", &handshake[..]),
        ("sse", &handshake),
        ("first", &handshake),
        ("silent", &handshake),
        ("crashing", &handshake),
        ("stateless", &handshake[..1]),
        ("stateless-sse", &handshake[..1]),
        ("both", &handshake[..1]),
    ] {
        let standin = start_fake_vendors().await;
        let mcp = new_mcp(&standin, mode);
        let listed = mcp.list_tools().await;
        assert!(listed.missing.is_empty(), "{mode}: {:?}", listed.missing);
        let output = mcp.call_tool("registry__echo", r#"{"text":"x"}"#).await.expect("an output");
        assert_eq!(output.text, r#"{"text":"x"}"#, "{mode}");
        let methods = requested_methods(&standin);
        assert_eq!(methods[..begin.len()], *begin, "{mode}");
        assert_eq!(methods[begin.len()..], ["tools/list", "tools/list", "tools/call"], "{mode}");
    }
}

#[tokio::test]
async fn server_without_common_revision_is_rejected() {
    let standin = start_fake_vendors().await;
    let missing = new_mcp(&standin, "future").list_tools().await.missing;
    let other = "the MCP server refused the request: it speaks another version of the protocol";
    assert_eq!(missing.iter().map(|(_, error)| error.to_string()).collect::<Vec<_>>(), [other]);
    assert_eq!(requested_methods(&standin), ["server/discover"]);
}

/// It is asked for its revisions once, however often its sessions expire.
#[tokio::test]
async fn what_a_server_speaks_is_remembered() {
    let standin = start_fake_vendors().await;
    let mcp = new_mcp(&standin, "json");
    assert!(
        mcp.call_tool("registry__expire", "{}").await.is_ok()
            && mcp.call_tool("registry__echo", "{}").await.is_ok()
    );
    assert_eq!((count_method(&standin, "server/discover"), count_method(&standin, "initialize")), (1, 2));
}

#[tokio::test]
async fn replaced_older_server_renegotiates() {
    let standin = start_fake_vendors().await;
    let mcp = new_mcp(&standin, "replaced");
    assert!(mcp.call_tool("registry__replace", "{}").await.is_ok());
    assert!(mcp.call_tool("registry__echo", "{}").await.is_ok());
    assert_eq!((count_method(&standin, "server/discover"), count_method(&standin, "initialize")), (2, 1));
}

#[tokio::test]
async fn stateless_call_tool_mirrors_arguments() {
    for mode in STATELESS {
        let standin = start_fake_vendors().await;
        let mcp = new_mcp(&standin, mode);
        let tools = mcp.list_tools().await.tools;
        assert_eq!(tools.len(), 16, "without those whose arguments cannot be mirrored: {tools:?}");
        let arguments = r#"{"region": "česko", "count": 42, "absent": null, "nested": {"deep": true}}"#;
        assert_eq!(mcp.call_tool("registry__region", arguments).await.expect("an output").text, "mirrored");
        let named = tools.iter().find(|tool| tool.description == "The tool změna.").expect("it is listed");
        assert_eq!(mcp.call_tool(&named.name, "{}").await.expect("an output").text, "noted");
        let kinds = mcp.call_tool("registry__kinds", "{}").await.expect("an output");
        let act =
            PassagePlace::Web { url: "https://example.org/act".to_owned(), title: "The act".to_owned() };
        assert_eq!(kinds.passages, [Passage { place: act, text: "The act".to_owned() }]);
        assert!(mcp.call_tool("registry__fail", "{}").await.expect("an output").failed);
        assert!(!requested_methods(&standin).iter().any(|method| method.starts_with("notifications/")));
        mcp.close_sessions().await;
        assert_eq!(count_method(&standin, "DELETE"), 0, "there is no session to end");
    }
}

#[tokio::test]
async fn stateless_call_reports_refused_or_incomplete() {
    for mode in STATELESS {
        let standin = start_fake_vendors().await;
        let failed = async |tool: &str| match new_mcp(&standin, mode)
            .call_tool(&format!("registry__{tool}"), "{}")
            .await
        {
            Err(McpError::Failed { message }) => message,
            other => panic!("{mode} {tool}: {other:?}"),
        };
        assert_eq!(failed("error").await, "the key [secret] is wrong", "with the status of a refusal");
        assert!(failed("input").await.contains("asks for input"));
        assert!(failed("odd").await.contains("unknown type"));
        assert!(failed("strange").await.contains("violates the protocol"));
        assert!(failed("huge").await.contains("too large"));
        let (calls, lists) = (count_method(&standin, "tools/call"), count_method(&standin, "tools/list"));
        assert!(failed("moved").await.contains("Header mismatch"));
        let again =
            (count_method(&standin, "tools/call") - calls, count_method(&standin, "tools/list") - lists);
        assert_eq!(
            again,
            (2, 4),
            "the list is asked for anew, and the call made once more: none of them ran"
        );
    }
}

#[tokio::test]
async fn broken_stateless_stream_is_lost() {
    let standin = start_fake_vendors().await;
    for tool in ["cut", "resume"] {
        let cut = new_mcp(&standin, "stateless-sse").call_tool(&format!("registry__{tool}"), "{}").await;
        assert!(matches!(cut, Err(McpError::Cut { .. })), "{tool}: {cut:?}");
    }
    assert_eq!(
        (count_method(&standin, "tools/call"), count_method(&standin, "GET")),
        (2, 0),
        "neither sent nor taken up again"
    );
}

/// Returns true if the stream of a call was closed before its answer.
fn is_stream_closed(asked: &[test_support::WebRequest]) -> bool {
    asked.iter().any(|asked| asked.parameters["closed"].is_u64())
}

#[tokio::test]
async fn dropped_stateless_call_closes_stream() {
    let standin = start_fake_vendors().await;
    let mcp = new_mcp(&standin, "stateless");
    let called = {
        let mcp = mcp.clone();
        tokio::spawn(async move { mcp.call_tool("registry__stall", "{}").await })
    };
    let calls = |asked: &[test_support::WebRequest]| {
        asked.iter().any(|asked| asked.parameters["message"]["method"] == "tools/call")
    };
    standin.until_web(calls).await;
    called.abort();
    standin.until_web(is_stream_closed).await;
    assert_eq!(count_method(&standin, "notifications/cancelled"), 0);
    assert!(mcp.call_tool("registry__echo", "{}").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn stalled_stateless_call_times_out() {
    let standin = start_fake_vendors().await;
    let mcp = new_mcp(&standin, "stateless");
    let error = mcp.call_tool("registry__stall", "{}").await.expect_err("timeout");
    assert_eq!(error, McpError::Cut { reason: "timeout".to_owned() });
    tokio::time::resume();
    standin.until_web(is_stream_closed).await;
}

/// The stateless server says that its list holds for an hour; the others do not say.
#[tokio::test]
async fn tool_list_fresh_as_server_says() {
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    let standin = start_fake_vendors().await;
    for (mode, fresh, stale) in [("json", minutes(4), minutes(2)), ("stateless", minutes(59), minutes(2))] {
        let mcp = new_mcp(&standin, mode);
        mcp.list_tools().await;
        let lists = count_method(&standin, "tools/list");
        tokio::time::pause();
        tokio::time::advance(fresh).await;
        tokio::time::resume();
        mcp.list_tools().await;
        assert_eq!(count_method(&standin, "tools/list"), lists, "{mode}");
        tokio::time::pause();
        tokio::time::advance(stale).await;
        tokio::time::resume();
        mcp.list_tools().await;
        assert!(count_method(&standin, "tools/list") > lists, "{mode}");
    }
}
