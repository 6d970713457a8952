//! MCP servers that speak the protocol to the letter, and that do not.

use std::time::Duration;

use domain::citation::{Passage, PassagePlace};
use egress::{Mcp, McpError, McpServerConfig, Secret};
use futures_util::FutureExt;

fn server_config(standin: &test_support::FakeVendorHandle, name: &str, mode: &str) -> McpServerConfig {
    McpServerConfig {
        name: name.to_owned(),
        url: standin.web_url(&format!("/mcp/{mode}")),
        headers: vec![("Authorization".to_owned(), Secret::new("Bearer mcp-secret-token"))],
        tools: None,
        read_only: vec!["echo".to_owned(), "a.b".to_owned()],
    }
}

fn new_mcp(configs: Vec<McpServerConfig>) -> Mcp {
    Mcp::new(configs).expect("they hold")
}

async fn start_fake_vendors() -> test_support::FakeVendorHandle {
    test_support::start_server().await.expect("a port")
}

/// Counts the requests with this method.
fn count_requests(standin: &test_support::FakeVendorHandle, method: &str) -> usize {
    let requests = standin.web_requests();
    requests.iter().filter(|asked| asked.parameters["message"]["method"] == method).count()
}

const MODES: [&str; 2] = ["json", "sse"];

#[tokio::test]
async fn list_and_call_tools_both_forms() {
    let standin = start_fake_vendors().await;
    for mode in MODES {
        let mcp = new_mcp(vec![server_config(&standin, "registry", mode)]);
        let listed = mcp.list_tools().await;
        assert!(listed.missing.is_empty(), "{:?}", listed.missing);
        let names: Vec<&str> = listed.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names[0], "registry__echo");
        assert!(names[1].starts_with("registry__note_add_") && names.len() == 15, "both pages: {names:?}");
        assert_eq!(listed.tools[0].description, "The tool echo.");
        let output = mcp.call_tool("registry__echo", r#"{"text": "škola"}"#).await.expect("an output");
        assert_eq!((output.text.as_str(), output.failed), (r#"{"text":"škola"}"#, false), "{mode}");
        assert_eq!(mcp.call_tool("registry__echo", "").await.expect("an output").text, "{}");
        assert_eq!(mcp.call_tool(names[1], "{}").await.expect("an output").text, "noted");
        let failed = mcp.call_tool("registry__fail", "{}").await.expect("an output");
        assert_eq!((failed.text.as_str(), failed.failed), ("no such act", true));
        let kinds = mcp.call_tool("registry__kinds", "{}").await.expect("an output");
        assert!(kinds.text.contains("(an image, image/png"), "{}", kinds.text);
        // Output with an address can be cited.
        let act =
            PassagePlace::Web { url: "https://example.org/act".to_owned(), title: "The act".to_owned() };
        assert_eq!(kinds.passages, [Passage { place: act, text: "The act".to_owned() }]);
    }
    // Two sessions were started, with one list for each.
    assert_eq!((count_requests(&standin, "initialize"), count_requests(&standin, "tools/list")), (2, 4));
    assert_eq!(count_requests(&standin, "notifications/initialized"), 2);
}

#[tokio::test]
async fn mcp_config_decides_grants_and_repeatability() {
    let standin = start_fake_vendors().await;
    let granted = vec!["echo".to_owned(), "note.add".to_owned(), "gone".to_owned()];
    let mcp = new_mcp(vec![McpServerConfig {
        tools: Some(granted),
        ..server_config(&standin, "registry", "json")
    }]);
    assert_eq!(mcp.list_tools().await.tools.len(), 2);
    for absent in ["registry__fail", "registry__gone", "registry__", "other__echo", "echo", ""] {
        assert_eq!(mcp.call_tool(absent, "{}").await, Err(McpError::UnknownTool), "{absent}");
    }
    assert_eq!(count_requests(&standin, "tools/call"), 0);
    // The server declares each of its tools read-only, which is ignored.
    assert!(mcp.is_repeatable("registry__echo"));
    assert!(!mcp.is_repeatable("registry__fail") && !mcp.is_repeatable("other__echo"));
    let changed = mcp.list_tools().await.tools[1].name.clone();
    assert!(!mcp.is_repeatable(&changed) && mcp.is_named(&changed) && !mcp.is_named("shell"));
    let of_dot = McpServerConfig {
        read_only: vec!["note.add".to_owned()],
        ..server_config(&standin, "registry", "json")
    };
    assert!(Mcp::new(vec![of_dot]).expect("it holds").is_repeatable(&changed), "also under its changed name");
    for wrong in ["[]", "7", "{", "\"x\""] {
        assert_eq!(mcp.call_tool("registry__echo", wrong).await, Err(McpError::Arguments), "{wrong}");
    }
}

#[tokio::test]
async fn expired_mcp_session_renews_once() {
    let standin = start_fake_vendors().await;
    for mode in MODES {
        let before = count_requests(&standin, "initialize");
        let mcp = new_mcp(vec![server_config(&standin, "registry", mode)]);
        assert!(mcp.call_tool("registry__expire", "{}").await.is_ok());
        assert!(mcp.call_tool("registry__echo", "{}").await.is_ok(), "{mode}");
        assert_eq!(count_requests(&standin, "initialize") - before, 2);
        mcp.close_sessions().await;
        let closed = standin.web_requests().last().map(|asked| asked.parameters["http"].clone());
        assert_eq!(closed, Some("DELETE".into()));
    }
}

#[tokio::test]
async fn failed_server_hides_only_own_tools() {
    let standin = start_fake_vendors().await;
    let nowhere = McpServerConfig {
        url: "http://127.0.0.1:9/".to_owned(),
        ..server_config(&standin, "nowhere", "json")
    };
    let locked = McpServerConfig { headers: Vec::new(), ..server_config(&standin, "locked", "locked") };
    let all = new_mcp(vec![
        nowhere,
        server_config(&standin, "down", "down"),
        locked,
        server_config(&standin, "old", "old"),
        server_config(&standin, "nothing", "nothing/here"),
        server_config(&standin, "registry", "json"),
    ]);
    let listed = all.list_tools().await;
    assert_eq!(listed.tools.len(), 15);
    let missing: Vec<(&str, bool)> = listed
        .missing
        .iter()
        .map(|(name, error)| (name.as_str(), matches!(error, McpError::Unavailable { .. })))
        .collect();
    assert_eq!(
        missing,
        [("nowhere", true), ("down", true), ("locked", false), ("old", false), ("nothing", false)]
    );
    let wait = Some(Duration::from_secs(7));
    assert!(
        matches!(&listed.missing[1].1, McpError::Unavailable { retry_after, .. } if *retry_after == wait)
    );
    // They are paused: the next question calls none of them.
    let before = standin.web_requests().len();
    let again = all.list_tools().await;
    assert_eq!((again.tools.len(), again.missing.len(), standin.web_requests().len()), (15, 5, before));
    let error = all.call_tool("down__echo", "{}").await.expect_err("it rests");
    assert!(matches!(error, McpError::Unavailable { .. }), "{error:?}");
    assert_eq!(standin.web_requests().len(), before);
}

#[tokio::test]
async fn call_tool_distinguishes_cut_from_unavailable() {
    let standin = start_fake_vendors().await;
    for mode in MODES {
        // Each on a separate server: a server that failed is not called for a while.
        let call = |tool: &'static str| {
            let mcp = new_mcp(vec![server_config(&standin, "registry", mode)]);
            async move { mcp.call_tool(&format!("registry__{tool}"), "{}").await }
        };
        let before = count_requests(&standin, "tools/call");
        assert!(matches!(call("broken").await, Err(McpError::Cut { .. })), "{mode}");
        assert!(matches!(call("cut").await, Err(McpError::Cut { .. })), "{mode}");
        assert_eq!(count_requests(&standin, "tools/call") - before, 2, "neither was sent twice");
        let busy = call("busy").await;
        let wait = Some(Duration::from_secs(7));
        assert!(
            matches!(&busy, Err(McpError::Unavailable { retry_after, .. }) if *retry_after == wait),
            "{busy:?}"
        );
        for failed in ["huge", "strange", "error"] {
            let error = call(failed).await;
            assert!(matches!(error, Err(McpError::Failed { .. })), "{mode} {failed}: {error:?}");
        }
        assert_eq!(call("resume").await.expect("an output").text, "taken up again", "{mode}");
    }
}

#[tokio::test]
async fn server_requests_are_declined() {
    let standin = start_fake_vendors().await;
    let mcp = new_mcp(vec![server_config(&standin, "registry", "sse")]);
    assert_eq!(mcp.call_tool("registry__ask", "{}").await.expect("an output").text, "asked");
    let replies: Vec<_> = standin
        .web_requests()
        .iter()
        .map(|asked| asked.parameters["message"].clone())
        .filter(|message| message["id"].is_string())
        .collect();
    assert_eq!(replies.len(), 2);
    assert_eq!(replies[0]["result"], serde_json::json!({}));
    assert_eq!((&replies[1]["id"], &replies[1]["error"]["code"]), (&"s".into(), &(-32601).into()));
    let lists = count_requests(&standin, "tools/list");
    mcp.list_tools().await;
    assert!(count_requests(&standin, "tools/list") > lists, "the server announced a change of its list");
}

#[tokio::test]
async fn list_change_survives_dropped_caller() {
    let standin = start_fake_vendors().await;
    let mcp = new_mcp(vec![server_config(&standin, "registry", "sse")]);
    assert_eq!(mcp.call_tool("registry__ask", "{}").await.expect("an output").text, "asked");
    assert!(mcp.list_tools().now_or_never().is_none(), "it asks for the new list");
    let lists = count_requests(&standin, "tools/list");
    mcp.list_tools().await;
    assert!(count_requests(&standin, "tools/list") > lists + 1, "both pages");
}

#[tokio::test]
async fn list_tools_bounds_and_checks_servers() {
    let standin = start_fake_vendors().await;
    let mcp = new_mcp(vec![server_config(&standin, "odd", "odd")]);
    let tools = mcp.list_tools().await.tools;
    assert_eq!(tools.len(), egress::TOOLS_MAX);
    assert!(tools.iter().all(|tool| tool.schema.len() <= egress::SCHEMA_MAX_BYTES));
    let names: std::collections::HashSet<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names.len(), tools.len());
    assert_eq!(count_requests(&standin, "tools/list"), 1, "enough is enough");
}

#[tokio::test(start_paused = true)]
async fn stalled_call_tool_is_cancelled() {
    let standin = start_fake_vendors().await;
    let mcp = new_mcp(vec![server_config(&standin, "registry", "sse")]);
    let error = mcp.call_tool("registry__stall", "{}").await.expect_err("timeout");
    assert_eq!(error, McpError::Cut { reason: "timeout".to_owned() });
    tokio::time::resume();
    standin.until_web(is_call_cancelled).await;
}

/// Returns true if the server received the cancellation of its call.
fn is_call_cancelled(asked: &[test_support::WebRequest]) -> bool {
    let messages = || asked.iter().map(|asked| &asked.parameters["message"]);
    let call = messages().find(|message| message["method"] == "tools/call").map(|call| &call["id"]);
    messages().any(|message| {
        message["method"] == "notifications/cancelled" && Some(&message["params"]["requestId"]) == call
    })
}

#[tokio::test]
async fn dropped_call_tool_cancels_and_closes() {
    let standin = start_fake_vendors().await;
    let mcp = new_mcp(vec![server_config(&standin, "registry", "sse")]);
    let called = {
        let mcp = mcp.clone();
        tokio::spawn(async move { mcp.call_tool("registry__stall", "{}").await })
    };
    standin
        .until_web(|asked| asked.iter().any(|asked| asked.parameters["message"]["method"] == "tools/call"))
        .await;
    called.abort();
    standin.until_web(is_call_cancelled).await;
    mcp.close_sessions().await;
    let requests = standin.web_requests();
    let last = requests.last().expect("a request");
    assert_eq!(last.parameters["http"], "DELETE");
    assert!(requests.iter().any(|asked| asked.header("mcp-session-id") == last.header("mcp-session-id")));
    let before = requests.len();
    assert!(mcp.call_tool("registry__echo", "{}").await.is_ok());
    let after = standin.web_requests();
    let cancelled = after[before..]
        .iter()
        .filter(|asked| asked.parameters["message"]["method"] == "notifications/cancelled");
    assert_eq!(cancelled.count(), 0, "what was answered is not cancelled");
}

#[tokio::test]
async fn secrets_stay_with_their_server() {
    let standin = start_fake_vendors().await;
    let mcp = new_mcp(vec![server_config(&standin, "registry", "locked")]);
    assert_eq!(mcp.call_tool("registry__leak", "{}").await.expect("an output").text, "it is [secret]");
    let error = mcp.call_tool("registry__error", "{}").await.expect_err("it fails");
    assert!(
        !error.to_string().contains("mcp-secret-token") && error.to_string().contains("[secret]"),
        "{error}"
    );
    assert!(!format!("{mcp:?}").contains("mcp-secret-token"));
    for asked in standin.web_requests() {
        assert!(!asked.parameters.to_string().contains("mcp-secret-token"));
        assert_eq!(asked.header("authorization"), Some("Bearer mcp-secret-token"));
    }
}

#[tokio::test]
async fn invalid_mcp_config_is_rejected() {
    let standin = start_fake_vendors().await;
    let good = || server_config(&standin, "registry", "json");
    let header = |name: &str, value: &str| vec![(name.to_owned(), Secret::new(value))];
    for (wrong, expected) in [
        (McpServerConfig { name: "a__b".to_owned(), ..good() }, "the name must be unique"),
        (McpServerConfig { name: String::new(), ..good() }, "the name must be unique"),
        (McpServerConfig { url: "registry".to_owned(), ..good() }, "invalid URL"),
        (McpServerConfig { url: "https://u:p@example.org/".to_owned(), ..good() }, "invalid URL"),
        (McpServerConfig { headers: header("a b", "c"), ..good() }, "cannot be set"),
        (McpServerConfig { headers: header("Mcp-Session-Id", "c"), ..good() }, "cannot be set"),
        (McpServerConfig { headers: header("X-Key", "a\nb"), ..good() }, "the key"),
    ] {
        let error = Mcp::new(vec![wrong]).expect_err("refused").to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert!(Mcp::new(vec![good(), good()]).is_err(), "a name is there once");
    assert!(!new_mcp(Vec::new()).is_configured());
}
