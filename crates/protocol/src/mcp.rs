//! MCP servers that plugins bring and that run in the machine.
//!
//! The host writes down which there are, in [`SERVERS_FILE`] of the folder of plugins' files, which a machine only
//! reads. `POST /tools` asks the agent for their tools: a [`ToolsRequest`], and a [`ToolsReply`] in answer, which the host
//! treats as untrusted. Calls of the tools come with a turn, as those of all tools do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where plugins' files stand inside the machine.
pub const PLUGINS: &str = "/plugins";
/// The file in it that names the servers. No plugin is called so.
pub const SERVERS_FILE: &str = ".servers.json";
/// The longest such file, in bytes.
pub const SERVERS_FILE_MAX_BYTES: u64 = 8 * 1024 * 1024;
/// The most that the tools of one server may take, in bytes; the rest is left out.
pub const TOOLS_MAX_BYTES: usize = 256 * 1024;
/// The longest question for tools, in bytes.
pub const REQUEST_MAX_BYTES: usize = 64 * 1024;
/// The longest answer to it, in bytes: all servers' tools.
pub const REPLY_MAX_BYTES: usize = 10 * 1024 * 1024;
/// The longest reason why there are no tools, in bytes.
pub const REASON_MAX_BYTES: usize = 2000;

/// What [`SERVERS_FILE`] holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Servers {
    /// The servers; no two have one name.
    pub servers: Vec<Server>,
}

/// A server: a program that speaks MCP over its standard input and output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// What its tools' names begin with.
    pub name: String,
    /// Differs whenever anything of it does: what is here, and the files of its plugin.
    pub version: String,
    /// The program: a path, or a name that is looked for as the shell does.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// What is in its environment besides what every tool has there.
    pub env: BTreeMap<String, String>,
    /// The folder that it works in.
    pub folder: String,
    /// The tools that may be called; all that it has when absent.
    pub tools: Option<Vec<String>>,
}

/// What the host asks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolsRequest {
    /// The lists that it has, by server. No server is started for one that it has.
    pub known: BTreeMap<String, Known>,
}

/// A list that the host has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// The server's version at that time.
    pub version: String,
    /// The list's digest, as the agent told it.
    pub digest: String,
}

/// What the agent answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolsReply {
    /// Each server of the file, in its order.
    pub servers: Vec<ServerTools>,
}

/// What there is of one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerTools {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its tools.
    pub tools: Told,
}

/// The tools of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// As the host knows them.
    Unchanged,
    /// These.
    Tools {
        /// Tells whether they are the same another time.
        digest: String,
        /// Each with `name`, `description` and `inputSchema`, as the server lists it.
        list: Vec<Value>,
    },
    /// There are none at the moment.
    Missing {
        /// Why, at most [`REASON_MAX_BYTES`].
        reason: String,
    },
}
