//! The Model Context Protocol, independent of transports: messages, tool names as vendors accept them, and tool outputs
//! as text and passages.
//!
//! No I/O. `egress` speaks the protocol over HTTP, `guest` over the pipes of a process, and `mcp-server` serves it.
//! Everything from a server is
//! untrusted: this crate limits it and removes invisible characters.
//!
//! The official SDK (`rmcp` 3.11) is not used. Its messages are strictly typed: one invalid entry in a list of tools,
//! or content of an unknown kind, invalidates the whole response, and batches (2025-03-26) are rejected. Its client
//! spawns a task for each request and notification from a server without a limit, and adds 1.6 MB to the guest program.
//! `docs/web.md` contains the measurement.

mod message;
mod names;
mod output;
mod revision;
pub mod text;

pub use message::{
    ARGUMENTS_MAX_BYTES, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, McpMessage,
    Notification, PARSE_ERROR, RESOURCE_NOT_FOUND, RpcError, RpcResponse, encode_cancellation,
    encode_notification, encode_reply, encode_request, parse_arguments, parse_messages, parse_refusal,
};
pub use names::{
    DESCRIPTION_MAX_BYTES, DIVIDER, McpTool, NoPage, SCHEMA_MAX_BYTES, SERVER_NAME_MAX_BYTES, SKIPPED_MAX,
    SkippedTool, TOOL_NAME_MAX_BYTES, TOOLS_MAX, ToolList, is_server_name, offered_name, parse_tool,
    server_of, time_to_live, tools_digest, tools_of_page,
};
pub use output::{McpCallOutput, OUTPUT_MAX_BYTES, PASSAGES_MAX, parse_output};
pub use revision::{
    DISCOVER, HANDSHAKE_REVISIONS, HEADER_MISMATCH, Lifecycle, META, META_SERVER, MISSING_CAPABILITY,
    PIPES_REVISION, STATELESS_REVISIONS, UNSUPPORTED_REVISION, discover_params, initialize_params,
    parse_lifecycle, with_revision,
};

/// Limits the servers of one kind.
pub const SERVERS_MAX: usize = 32;
/// Limits the pages of a list of tools.
pub const PAGES_MAX: usize = 20;
/// Limits the server's requests that are answered during one exchange.
pub const REPLIES_MAX: usize = 16;
/// Reports that the server's list of tools changed.
pub const LIST_CHANGED: &str = "notifications/tools/list_changed";
/// Reports the progress of a call.
pub const PROGRESS: &str = "notifications/progress";
/// Cancels a request, or, from a server of a stateless revision, ends a subscription.
pub const CANCELLED: &str = "notifications/cancelled";
/// Subscribes to notifications of a server of a stateless revision.
pub const LISTEN: &str = "subscriptions/listen";
/// The extension by which a call of a tool becomes a task that its client polls.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
