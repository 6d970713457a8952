//! MCP servers of plugins that run in the machine.
//!
//! The host lists the servers in [`SERVERS_FILE`], in the plugins' folder, which is read-only in a machine.
//! `POST /tools` asks the agent for their tools with a [`ToolsRequest`]. The host treats the [`ToolsReply`]
//! as untrusted. Calls of these tools belong to a turn, like calls of other tools.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The folder of the plugins' files inside the machine.
pub const PLUGINS: &str = "/plugins";
/// The file in it that lists the servers. No plugin has this name.
pub const SERVERS_FILE: &str = ".servers.json";
/// The longest such file, in bytes.
pub const SERVERS_FILE_MAX_BYTES: u64 = 8 * 1024 * 1024;
/// The maximum number of bytes of the tools of one server; further tools are omitted.
pub const TOOLS_MAX_BYTES: usize = 256 * 1024;
/// The longest request for tools, in bytes.
pub const REQUEST_MAX_BYTES: usize = 64 * 1024;
/// The longest reply, in bytes: the tools of all servers.
pub const REPLY_MAX_BYTES: usize = 10 * 1024 * 1024;
/// The time for which the agent waits for the lists of servers before it reports the lists received so far, in seconds. The
/// host must wait longer, or one slow server hides all others.
pub const LIST_WAIT_SECONDS: u64 = 8;
/// The longest reason for missing tools, in bytes.
pub const REASON_MAX_BYTES: usize = 2000;

/// The content of [`SERVERS_FILE`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpServersFile {
    /// The servers, with unique names.
    pub servers: Vec<McpServerSpec>,
}

/// An MCP server: a program that communicates over its standard input and output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpServerSpec {
    /// The prefix of its tools' names.
    pub name: String,
    /// Changes with every change of these fields or of the plugin's files.
    pub version: String,
    /// The program: a path, or a name that is looked up in `PATH`.
    pub command: String,
    pub args: Vec<String>,
    /// Environment variables in addition to the ones of every tool.
    pub env: BTreeMap<String, String>,
    pub folder: String,
    /// The folder for its data, which the machine creates before the server starts.
    #[serde(default)]
    pub data_folder: Option<String>,
    /// The tools that may be called; all tools when absent.
    pub tools: Option<Vec<String>>,
}

/// A request for the tools of all servers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolsRequest {
    /// The lists that the host already has, by server. A server whose list is known is not started.
    pub known: BTreeMap<String, KnownToolList>,
}

/// A list of tools that the host has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownToolList {
    /// The server's version at that time.
    pub version: String,
    /// The list's digest, as reported by the agent.
    pub digest: String,
}

/// A reply with the tools of all servers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolsReply {
    /// An entry for each server of the file, in the same order. Servers that took longer than [`LIST_WAIT_SECONDS`] are
    /// missing.
    pub servers: Vec<ServerTools>,
}

/// The tools of one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerTools {
    pub name: String,
    pub version: String,
    pub tools: ToolsUpdate,
}

/// The tools of a server, unless the host knows them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolsUpdate {
    /// The host's list is up to date.
    Unchanged,
    Tools {
        /// A digest for the next request.
        digest: String,
        /// The tools, each with `name`, `description` and `inputSchema`, as the server lists it.
        list: Vec<Value>,
        /// The tools that the agent left out of the list.
        #[serde(default)]
        skipped: Vec<SkippedTool>,
    },
    /// The tools are currently unavailable.
    Missing {
        /// The reason, at most [`REASON_MAX_BYTES`].
        reason: String,
    },
}

/// A tool that a server lists and that cannot be offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedTool {
    /// The server's name of it; empty if it has none.
    pub name: String,
    pub reason: String,
}
