//! What a client and a server of the Model Context Protocol say to each other, whatever carries it: messages, names of
//! tools as vendors take them, and what a call gives as text and passages.
//!
//! No I/O. `egress` speaks it over HTTP, `guest` over the pipes of a process. What a server sends is hostile: everything
//! here bounds it and takes out what nobody sees.
//!
//! The official SDK (`rmcp` 3.11) is not used. Its messages are strictly typed: one entry of a list that is no tool, or
//! content of a kind that it does not know, loses the whole answer, and lists of messages (2025-03-26) are refused. Its
//! client has a task for each request and notification of a server without a bound, and adds 1.6 MB to the program of
//! the machines. The measurement stands in `docs/web.md`.

mod message;
mod names;
mod output;
mod revision;
pub mod text;

pub use message::{
    ARGUMENTS_MAX_BYTES, Answer, Message, Notification, RpcError, arguments, cancelled, messages,
    notification, refusal, reply, request,
};
pub use names::{
    DESCRIPTION_MAX_BYTES, DIVIDER, NoPage, SCHEMA_MAX_BYTES, SERVER_NAME_MAX_BYTES, TOOL_NAME_MAX_BYTES,
    TOOLS_MAX, Tool, digest, is_server_name, offered, server_of, time_to_live, tool, tools_of_page,
};
pub use output::{OUTPUT_MAX_BYTES, Output, PASSAGES_MAX, output};
pub use revision::{
    DISCOVER, HANDSHAKE_REVISIONS, HEADER_MISMATCH, Lifecycle, PIPES_REVISION, STATELESS_REVISIONS,
    UNSUPPORTED_REVISION, discover, initialize, lifecycle, with_revision,
};

/// The most servers of one kind.
pub const SERVERS_MAX: usize = 32;
/// The most pages of a list of tools.
pub const PAGES_MAX: usize = 20;
/// The most that a server may ask during one exchange; more is not answered.
pub const REPLIES_MAX: usize = 16;
/// What a server tells when its list of tools is another.
pub const LIST_CHANGED: &str = "notifications/tools/list_changed";
/// What a server tells of a call that goes on.
pub const PROGRESS: &str = "notifications/progress";
/// What ends a request, or, from a server of a stateless revision, a subscription.
pub const CANCELLED: &str = "notifications/cancelled";
/// Subscribes to notifications of a server of a stateless revision.
pub const LISTEN: &str = "subscriptions/listen";
