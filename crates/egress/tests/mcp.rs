//! MCP servers that speak the protocol to the letter, and that do not.

use std::time::Duration;

use domain::citation::{Passage, Place};
use egress::{Mcp, McpError, McpServerConfig, Secret};
use futures_util::FutureExt;

fn config(standin: &test_support::Handle, name: &str, mode: &str) -> McpServerConfig {
    McpServerConfig {
        name: name.to_owned(),
        url: standin.web_url(&format!("/mcp/{mode}")),
        headers: vec![("Authorization".to_owned(), Secret::new("Bearer mcp-secret-token"))],
        tools: None,
        read_only: vec!["echo".to_owned(), "a.b".to_owned()],
    }
}

fn mcp(configs: Vec<McpServerConfig>) -> Mcp {
    Mcp::new(configs).expect("they hold")
}

async fn standin() -> test_support::Handle {
    test_support::start().await.expect("a port")
}

/// Counts the requests with this method.
fn asked(standin: &test_support::Handle, method: &str) -> usize {
    let requests = standin.web_requests();
    requests.iter().filter(|asked| asked.parameters["message"]["method"] == method).count()
}

const MODES: [&str; 2] = ["json", "sse"];

#[tokio::test]
async fn tools_are_listed_and_called_in_both_forms() {
    let standin = standin().await;
    for mode in MODES {
        let mcp = mcp(vec![config(&standin, "registry", mode)]);
        let listed = mcp.tools().await;
        assert!(listed.missing.is_empty(), "{:?}", listed.missing);
        let names: Vec<&str> = listed.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names[0], "registry__echo");
        assert!(names[1].starts_with("registry__note_add_") && names.len() == 15, "both pages: {names:?}");
        assert_eq!(listed.tools[0].description, "The tool echo.");
        let output = mcp.call("registry__echo", r#"{"text": "škola"}"#).await.expect("an output");
        assert_eq!((output.text.as_str(), output.failed), (r#"{"text":"škola"}"#, false), "{mode}");
        assert_eq!(mcp.call("registry__echo", "").await.expect("an output").text, "{}");
        assert_eq!(mcp.call(names[1], "{}").await.expect("an output").text, "noted");
        let failed = mcp.call("registry__fail", "{}").await.expect("an output");
        assert_eq!((failed.text.as_str(), failed.failed), ("no such act", true));
        let kinds = mcp.call("registry__kinds", "{}").await.expect("an output");
        assert!(kinds.text.contains("(an image, image/png"), "{}", kinds.text);
        // What has an address can be cited.
        let act = Place::Web { url: "https://example.org/act".to_owned(), title: "The act".to_owned() };
        assert_eq!(kinds.passages, [Passage { place: act, text: "The act".to_owned() }]);
    }
    // Two sessions were begun, and one list made for each.
    assert_eq!((asked(&standin, "initialize"), asked(&standin, "tools/list")), (2, 4));
    assert_eq!(asked(&standin, "notifications/initialized"), 2);
}

#[tokio::test]
async fn the_operator_grants_and_says_what_is_repeatable() {
    let standin = standin().await;
    let granted = vec!["echo".to_owned(), "note.add".to_owned(), "gone".to_owned()];
    let mcp = mcp(vec![McpServerConfig { tools: Some(granted), ..config(&standin, "registry", "json") }]);
    assert_eq!(mcp.tools().await.tools.len(), 2);
    for absent in ["registry__fail", "registry__gone", "registry__", "other__echo", "echo", ""] {
        assert_eq!(mcp.call(absent, "{}").await, Err(McpError::UnknownTool), "{absent}");
    }
    assert_eq!(asked(&standin, "tools/call"), 0);
    // The server calls each of its tools read-only; that counts for nothing.
    assert!(mcp.is_repeatable("registry__echo"));
    assert!(!mcp.is_repeatable("registry__fail") && !mcp.is_repeatable("other__echo"));
    let changed = mcp.tools().await.tools[1].name.clone();
    assert!(!mcp.is_repeatable(&changed) && mcp.is_named(&changed) && !mcp.is_named("shell"));
    let of_dot =
        McpServerConfig { read_only: vec!["note.add".to_owned()], ..config(&standin, "registry", "json") };
    assert!(Mcp::new(vec![of_dot]).expect("it holds").is_repeatable(&changed), "also under its changed name");
    for wrong in ["[]", "7", "{", "\"x\""] {
        assert_eq!(mcp.call("registry__echo", wrong).await, Err(McpError::Arguments), "{wrong}");
    }
}

#[tokio::test]
async fn a_session_that_expired_is_begun_anew_once() {
    let standin = standin().await;
    for mode in MODES {
        let before = asked(&standin, "initialize");
        let mcp = mcp(vec![config(&standin, "registry", mode)]);
        assert!(mcp.call("registry__expire", "{}").await.is_ok());
        assert!(mcp.call("registry__echo", "{}").await.is_ok(), "{mode}");
        assert_eq!(asked(&standin, "initialize") - before, 2);
        mcp.close().await;
        let closed = standin.web_requests().last().map(|asked| asked.parameters["http"].clone());
        assert_eq!(closed, Some("DELETE".into()));
    }
}

#[tokio::test]
async fn a_server_that_is_down_takes_only_its_own_tools_away() {
    let standin = standin().await;
    let nowhere =
        McpServerConfig { url: "http://127.0.0.1:9/".to_owned(), ..config(&standin, "nowhere", "json") };
    let locked = McpServerConfig { headers: Vec::new(), ..config(&standin, "locked", "locked") };
    let all = mcp(vec![
        nowhere,
        config(&standin, "down", "down"),
        locked,
        config(&standin, "old", "old"),
        config(&standin, "nothing", "nothing/here"),
        config(&standin, "registry", "json"),
    ]);
    let listed = all.tools().await;
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
    // They rest: the next question asks none of them.
    let before = standin.web_requests().len();
    let again = all.tools().await;
    assert_eq!((again.tools.len(), again.missing.len(), standin.web_requests().len()), (15, 5, before));
    let error = all.call("down__echo", "{}").await.expect_err("it rests");
    assert!(matches!(error, McpError::Unavailable { .. }), "{error:?}");
    assert_eq!(standin.web_requests().len(), before);
}

#[tokio::test]
async fn a_call_that_broke_is_distinguished_from_one_that_was_not_run() {
    let standin = standin().await;
    for mode in MODES {
        // Each on a server of its own: one that failed rests.
        let call = |tool: &'static str| {
            let mcp = mcp(vec![config(&standin, "registry", mode)]);
            async move { mcp.call(&format!("registry__{tool}"), "{}").await }
        };
        let before = asked(&standin, "tools/call");
        assert!(matches!(call("broken").await, Err(McpError::Cut { .. })), "{mode}");
        assert!(matches!(call("cut").await, Err(McpError::Cut { .. })), "{mode}");
        assert_eq!(asked(&standin, "tools/call") - before, 2, "neither was sent twice");
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
async fn a_server_may_ask_and_has_nothing_of_it() {
    let standin = standin().await;
    let mcp = mcp(vec![config(&standin, "registry", "sse")]);
    assert_eq!(mcp.call("registry__ask", "{}").await.expect("an output").text, "asked");
    let replies: Vec<_> = standin
        .web_requests()
        .iter()
        .map(|asked| asked.parameters["message"].clone())
        .filter(|message| message["id"].is_string())
        .collect();
    assert_eq!(replies.len(), 2);
    assert_eq!(replies[0]["result"], serde_json::json!({}));
    assert_eq!((&replies[1]["id"], &replies[1]["error"]["code"]), (&"s".into(), &(-32601).into()));
    let lists = asked(&standin, "tools/list");
    mcp.tools().await;
    assert!(asked(&standin, "tools/list") > lists, "the server announced a change of its list");
}

#[tokio::test]
async fn a_change_of_the_list_is_not_lost_with_the_caller_that_noticed_it() {
    let standin = standin().await;
    let mcp = mcp(vec![config(&standin, "registry", "sse")]);
    assert_eq!(mcp.call("registry__ask", "{}").await.expect("an output").text, "asked");
    assert!(mcp.tools().now_or_never().is_none(), "it asks for the new list");
    let lists = asked(&standin, "tools/list");
    mcp.tools().await;
    assert!(asked(&standin, "tools/list") > lists + 1, "both pages");
}

#[tokio::test]
async fn what_a_server_lists_is_bounded_and_checked() {
    let standin = standin().await;
    let mcp = mcp(vec![config(&standin, "odd", "odd")]);
    let tools = mcp.tools().await.tools;
    assert_eq!(tools.len(), egress::TOOLS_MAX);
    assert!(tools.iter().all(|tool| tool.schema.len() <= egress::SCHEMA_MAX_BYTES));
    let names: std::collections::HashSet<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names.len(), tools.len());
    assert_eq!(asked(&standin, "tools/list"), 1, "enough is enough");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_never_ends_is_given_up_and_cancelled() {
    let standin = standin().await;
    let mcp = mcp(vec![config(&standin, "registry", "sse")]);
    let error = mcp.call("registry__stall", "{}").await.expect_err("timeout");
    assert_eq!(error, McpError::Cut { reason: "timeout".to_owned() });
    tokio::time::resume();
    standin.until_web(cancelled).await;
}

/// Returns true if the server received the cancellation of its call.
fn cancelled(asked: &[test_support::Asked]) -> bool {
    let messages = || asked.iter().map(|asked| &asked.parameters["message"]);
    let call = messages().find(|message| message["method"] == "tools/call").map(|call| &call["id"]);
    messages().any(|message| {
        message["method"] == "notifications/cancelled" && Some(&message["params"]["requestId"]) == call
    })
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_at_its_server_and_the_session_is_ended() {
    let standin = standin().await;
    let mcp = mcp(vec![config(&standin, "registry", "sse")]);
    let called = {
        let mcp = mcp.clone();
        tokio::spawn(async move { mcp.call("registry__stall", "{}").await })
    };
    standin
        .until_web(|asked| asked.iter().any(|asked| asked.parameters["message"]["method"] == "tools/call"))
        .await;
    called.abort();
    standin.until_web(cancelled).await;
    mcp.close().await;
    let requests = standin.web_requests();
    let last = requests.last().expect("a request");
    assert_eq!(last.parameters["http"], "DELETE");
    assert!(requests.iter().any(|asked| asked.header("mcp-session-id") == last.header("mcp-session-id")));
    let before = requests.len();
    assert!(mcp.call("registry__echo", "{}").await.is_ok());
    let after = standin.web_requests();
    let cancelled = after[before..]
        .iter()
        .filter(|asked| asked.parameters["message"]["method"] == "notifications/cancelled");
    assert_eq!(cancelled.count(), 0, "what was answered is not cancelled");
}

#[tokio::test]
async fn secrets_stay_with_their_server() {
    let standin = standin().await;
    let mcp = mcp(vec![config(&standin, "registry", "locked")]);
    assert_eq!(mcp.call("registry__leak", "{}").await.expect("an output").text, "it is [secret]");
    let error = mcp.call("registry__error", "{}").await.expect_err("it fails");
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
async fn a_configuration_that_cannot_be_used_is_refused() {
    let standin = standin().await;
    let good = || config(&standin, "registry", "json");
    let header = |name: &str, value: &str| vec![(name.to_owned(), Secret::new(value))];
    for (wrong, expected) in [
        (McpServerConfig { name: "a__b".to_owned(), ..good() }, "the name must be unique"),
        (McpServerConfig { name: String::new(), ..good() }, "the name must be unique"),
        (McpServerConfig { url: "registry".to_owned(), ..good() }, "the address"),
        (McpServerConfig { url: "https://u:p@example.org/".to_owned(), ..good() }, "the address"),
        (McpServerConfig { headers: header("a b", "c"), ..good() }, "not a header"),
        (McpServerConfig { headers: header("Mcp-Session-Id", "c"), ..good() }, "not a header"),
        (McpServerConfig { headers: header("X-Key", "a\nb"), ..good() }, "the key"),
    ] {
        let error = Mcp::new(vec![wrong]).expect_err("refused").to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert!(Mcp::new(vec![good(), good()]).is_err(), "a name is there once");
    assert!(!mcp(Vec::new()).is_configured());
}
