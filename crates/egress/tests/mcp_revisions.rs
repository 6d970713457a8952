//! MCP servers of each revision over HTTP, those that speak the newest one as strict as its specification.

use std::time::Duration;

use domain::citation::{Passage, Place};
use egress::{Mcp, McpError, McpServerConfig, Secret};
use serde_json::Value;

fn mcp(standin: &test_support::Handle, mode: &str) -> Mcp {
    let config = McpServerConfig {
        name: "registry".to_owned(),
        url: standin.web_url(&format!("/mcp/{mode}")),
        headers: vec![("Authorization".to_owned(), Secret::new("Bearer mcp-secret-token"))],
        tools: None,
        read_only: Vec::new(),
    };
    Mcp::new(vec![config]).expect("it holds")
}

async fn standin() -> test_support::Handle {
    test_support::start().await.expect("a port")
}

/// The methods that were asked of the servers, in order; responses and other HTTP methods by what they are.
fn methods(standin: &test_support::Handle) -> Vec<String> {
    let asked = standin.web_requests();
    let method = |parameters: &Value| {
        let http = parameters["http"].as_str()?;
        let method = parameters["message"]["method"].as_str();
        Some(method.unwrap_or(if http == "POST" { "response" } else { http }).to_owned())
    };
    asked.iter().filter_map(|asked| method(&asked.parameters)).collect()
}

fn count(standin: &test_support::Handle, method: &str) -> usize {
    methods(standin).iter().filter(|asked| *asked == method).count()
}

const STATELESS: [&str; 2] = ["stateless", "stateless-sse"];

#[tokio::test]
async fn a_server_of_each_revision_is_spoken_to_in_its_own() {
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
        let standin = standin().await;
        let mcp = mcp(&standin, mode);
        let listed = mcp.tools().await;
        assert!(listed.missing.is_empty(), "{mode}: {:?}", listed.missing);
        let output = mcp.call("registry__echo", r#"{"text":"x"}"#).await.expect("an output");
        assert_eq!(output.text, r#"{"text":"x"}"#, "{mode}");
        let methods = methods(&standin);
        assert_eq!(methods[..begin.len()], *begin, "{mode}");
        assert_eq!(methods[begin.len()..], ["tools/list", "tools/list", "tools/call"], "{mode}");
    }
}

#[tokio::test]
async fn a_server_that_shares_no_revision_is_refused() {
    let standin = standin().await;
    let missing = mcp(&standin, "future").tools().await.missing;
    let other = "the MCP server refused the request: it speaks another version of the protocol";
    assert_eq!(missing.iter().map(|(_, error)| error.to_string()).collect::<Vec<_>>(), [other]);
    assert_eq!(methods(&standin), ["server/discover"]);
}

/// It is asked for its revisions once, however often its sessions expire.
#[tokio::test]
async fn what_a_server_speaks_is_remembered() {
    let standin = standin().await;
    let mcp = mcp(&standin, "json");
    assert!(
        mcp.call("registry__expire", "{}").await.is_ok() && mcp.call("registry__echo", "{}").await.is_ok()
    );
    assert_eq!((count(&standin, "server/discover"), count(&standin, "initialize")), (1, 2));
}

#[tokio::test]
async fn a_server_that_is_replaced_by_an_older_one_is_begun_anew() {
    let standin = standin().await;
    let mcp = mcp(&standin, "replaced");
    assert!(mcp.call("registry__replace", "{}").await.is_ok());
    assert!(mcp.call("registry__echo", "{}").await.is_ok());
    assert_eq!((count(&standin, "server/discover"), count(&standin, "initialize")), (2, 1));
}

#[tokio::test]
async fn tools_of_a_stateless_server_are_called_and_their_arguments_mirrored() {
    for mode in STATELESS {
        let standin = standin().await;
        let mcp = mcp(&standin, mode);
        let tools = mcp.tools().await.tools;
        assert_eq!(tools.len(), 16, "without those whose arguments cannot be mirrored: {tools:?}");
        let arguments = r#"{"region": "česko", "count": 42, "absent": null, "nested": {"deep": true}}"#;
        assert_eq!(mcp.call("registry__region", arguments).await.expect("an output").text, "mirrored");
        let named = tools.iter().find(|tool| tool.description == "The tool změna.").expect("it is listed");
        assert_eq!(mcp.call(&named.name, "{}").await.expect("an output").text, "noted");
        let kinds = mcp.call("registry__kinds", "{}").await.expect("an output");
        let act = Place::Web { url: "https://example.org/act".to_owned(), title: "The act".to_owned() };
        assert_eq!(kinds.passages, [Passage { place: act, text: "The act".to_owned() }]);
        assert!(mcp.call("registry__fail", "{}").await.expect("an output").failed);
        assert!(!methods(&standin).iter().any(|method| method.starts_with("notifications/")));
        mcp.close().await;
        assert_eq!(count(&standin, "DELETE"), 0, "there is no session to end");
    }
}

#[tokio::test]
async fn what_a_stateless_server_refuses_or_does_not_complete_is_reported() {
    for mode in STATELESS {
        let standin = standin().await;
        let failed =
            async |tool: &str| match mcp(&standin, mode).call(&format!("registry__{tool}"), "{}").await {
                Err(McpError::Failed { message }) => message,
                other => panic!("{mode} {tool}: {other:?}"),
            };
        assert_eq!(failed("error").await, "the key [secret] is wrong", "with the status of a refusal");
        assert!(failed("input").await.contains("asks for input"));
        assert!(failed("odd").await.contains("unknown type"));
        assert!(failed("strange").await.contains("violates the protocol"));
        assert!(failed("huge").await.contains("too large"));
        let (calls, lists) = (count(&standin, "tools/call"), count(&standin, "tools/list"));
        assert!(failed("moved").await.contains("Header mismatch"));
        let again = (count(&standin, "tools/call") - calls, count(&standin, "tools/list") - lists);
        assert_eq!(
            again,
            (2, 4),
            "the list is asked for anew, and the call made once more: none of them ran"
        );
    }
}

#[tokio::test]
async fn a_stream_of_a_stateless_server_that_breaks_is_lost() {
    let standin = standin().await;
    for tool in ["cut", "resume"] {
        let cut = mcp(&standin, "stateless-sse").call(&format!("registry__{tool}"), "{}").await;
        assert!(matches!(cut, Err(McpError::Cut { .. })), "{tool}: {cut:?}");
    }
    assert_eq!(
        (count(&standin, "tools/call"), count(&standin, "GET")),
        (2, 0),
        "neither sent nor taken up again"
    );
}

/// Returns true if the stream of a call was closed before its answer.
fn closed(asked: &[test_support::Asked]) -> bool {
    asked.iter().any(|asked| asked.parameters["closed"].is_u64())
}

#[tokio::test]
async fn a_call_of_a_stateless_server_is_cancelled_by_closing_its_stream() {
    let standin = standin().await;
    let mcp = mcp(&standin, "stateless");
    let called = {
        let mcp = mcp.clone();
        tokio::spawn(async move { mcp.call("registry__stall", "{}").await })
    };
    let calls = |asked: &[test_support::Asked]| {
        asked.iter().any(|asked| asked.parameters["message"]["method"] == "tools/call")
    };
    standin.until_web(calls).await;
    called.abort();
    standin.until_web(closed).await;
    assert_eq!(count(&standin, "notifications/cancelled"), 0);
    assert!(mcp.call("registry__echo", "{}").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_stateless_server_that_never_ends_is_given_up() {
    let standin = standin().await;
    let mcp = mcp(&standin, "stateless");
    let error = mcp.call("registry__stall", "{}").await.expect_err("timeout");
    assert_eq!(error, McpError::Cut { reason: "timeout".to_owned() });
    tokio::time::resume();
    standin.until_web(closed).await;
}

/// The stateless server says that its list holds for an hour; the others do not say.
#[tokio::test]
async fn a_list_is_believed_for_as_long_as_the_server_says() {
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    let standin = standin().await;
    for (mode, fresh, stale) in [("json", minutes(4), minutes(2)), ("stateless", minutes(59), minutes(2))] {
        let mcp = mcp(&standin, mode);
        mcp.tools().await;
        let lists = count(&standin, "tools/list");
        tokio::time::pause();
        tokio::time::advance(fresh).await;
        tokio::time::resume();
        mcp.tools().await;
        assert_eq!(count(&standin, "tools/list"), lists, "{mode}");
        tokio::time::pause();
        tokio::time::advance(stale).await;
        tokio::time::resume();
        mcp.tools().await;
        assert!(count(&standin, "tools/list") > lists, "{mode}");
    }
}
