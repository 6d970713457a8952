//! Fuzzes the standard output of an MCP server: its lines, messages, tools and outputs.

use domain::citation::PassagePlace;
use guest::mcp::LineCutter;
use mcp::{
    DESCRIPTION_MAX_BYTES, Lifecycle, McpMessage, OUTPUT_MAX_BYTES, PASSAGES_MAX, RpcResponse,
    SCHEMA_MAX_BYTES, SKIPPED_MAX, STATELESS_REVISIONS, TOOL_NAME_MAX_BYTES, TOOLS_MAX, ToolList,
};
use serde_json::Value;

/// The limit of a server's error message.
const MESSAGE_MAX_BYTES: usize = 2000;

/// Runs one input.
///
/// # Panics
/// Panics when a promise is broken.
pub fn try_input(data: &[u8]) {
    let Some((&size, body)) = data.split_first() else { return };
    let whole = cut_lines(body, body.len().max(1));
    assert_eq!(cut_lines(body, usize::from(size) + 1), whole, "by how it arrives");
    for line in &whole {
        assert!(!line.contains(&b'\n'));
        for message in mcp::parse_messages(line) {
            assert_message(message);
        }
    }
}

fn cut_lines(body: &[u8], size: usize) -> Vec<Vec<u8>> {
    let mut cutter = LineCutter::default();
    let lines = body.chunks(size).flat_map(|piece| cutter.push(piece));
    lines.map(|line| line.expect("no input is as long as a line may be")).collect()
}

fn assert_message(message: McpMessage) {
    match message {
        McpMessage::Answer(_, RpcResponse::Result(result)) => {
            assert_tools(&result);
            assert_output(&result, None);
            assert_output(&result, Some("/workspace"));
            assert_lifecycle(&RpcResponse::Result(result));
        }
        McpMessage::Answer(_, RpcResponse::Error(error)) => {
            let message = &error.message;
            assert!(
                !message.is_empty() && message.len() <= MESSAGE_MAX_BYTES && !message.contains(is_hidden),
                "{message:?}"
            );
            assert_lifecycle(&RpcResponse::Error(error));
        }
        McpMessage::Request(id, method) => {
            let reply = mcp::encode_reply(&id, &method);
            assert!(!reply.contains('\n'));
            // The literal form, because a long number may change when it is parsed.
            assert!(reply.contains(&id.to_string()), "{reply}");
            let reply: Value = serde_json::from_str(&reply).expect("JSON");
            assert_eq!(reply["jsonrpc"], "2.0");
        }
        McpMessage::Notification(..) => {}
    }
}

fn assert_lifecycle(answer: &RpcResponse) {
    if let Some(Lifecycle::Stateless { revision, .. }) = mcp::parse_lifecycle(answer) {
        assert!(STATELESS_REVISIONS.contains(&revision), "{revision}");
    }
}

fn assert_tools(result: &Value) {
    let mut list = ToolList::default();
    if mcp::tools_of_page("registry", result, |_| true, &mut list).is_err() {
        assert_eq!(list, ToolList::default());
        return;
    }
    let ToolList { tools, skipped } = list;
    assert!(skipped.len() <= SKIPPED_MAX && !skipped.iter().any(|tool| tool.name.contains(is_hidden)));
    assert!(tools.len() <= TOOLS_MAX);
    for (at, tool) in tools.iter().enumerate() {
        let spec = &tool.spec;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        assert!(spec.name.len() <= TOOL_NAME_MAX_BYTES && spec.name.bytes().all(plain), "{}", spec.name);
        assert_eq!(mcp::server_of(&spec.name), Some("registry"));
        assert!(tools[..at].iter().all(|other| other.spec.name != spec.name), "{} twice", spec.name);
        assert!(spec.description.len() <= DESCRIPTION_MAX_BYTES && !spec.description.contains(is_hidden));
        assert!(spec.schema.len() <= SCHEMA_MAX_BYTES);
        let schema: Value = serde_json::from_str(&spec.schema).expect("JSON");
        assert!(schema["type"] == "object" && schema["properties"].is_object(), "{schema}");
    }
}

fn assert_output(result: &Value, workspace: Option<&str>) {
    let Some(output) = mcp::parse_output(result, workspace) else { return };
    assert!(output.text.len() <= OUTPUT_MAX_BYTES && !output.text.contains(is_hidden));
    assert!(output.passages.len() <= PASSAGES_MAX);
    for passage in &output.passages {
        assert!(!passage.text.is_empty() && passage.text.len() <= protocol::tool::PASSAGE_MAX_BYTES);
        assert!(!passage.text.contains(is_hidden));
    }
    // The host must accept every passage of the machine.
    let found = output.passages.into_iter().map(|passage| match passage.place {
        PassagePlace::File { path, .. } => {
            assert!(workspace.is_some(), "a file of nowhere: {path}");
            protocol::tool::FoundPassage { path, text: passage.text, ..Default::default() }
        }
        PassagePlace::Web { url, title } => {
            protocol::tool::FoundPassage { url: Some(url), title, text: passage.text, ..Default::default() }
        }
    });
    let output = protocol::tool::ToolOutput { passages: found.collect(), ..Default::default() };
    protocol::session::output_in(output).expect("within the bounds of results");
}

fn is_hidden(letter: char) -> bool {
    (letter.is_control() && !matches!(letter, '\n' | '\t'))
        || matches!(letter, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
}
