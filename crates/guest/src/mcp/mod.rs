//! MCP servers in the machine, over standard input and output (<https://modelcontextprotocol.io/>, transport stdio).
//!
//! The servers are listed in a file that the host writes. Each is a process under the tools' user, bounded like a
//! command; it is started on first use and kept while the machine runs and its plugin is unchanged. Its output is
//! untrusted, and it may hang, flood, crash or violate the protocol: only its own calls fail then.

mod connection;
mod lines;
mod negotiation;
mod server;

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::mcp::{ToolList, server_of};
use protocol::mcp::{
    KnownToolList, LIST_WAIT_SECONDS, REASON_MAX_BYTES, SERVERS_FILE, SERVERS_FILE_MAX_BYTES, ServerTools,
    SkippedTool, TOOLS_MAX_BYTES, ToolsReply, ToolsRequest, ToolsUpdate,
};
use protocol::tool::ToolOutput;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::tools::{ToolLimits, failed_output};
pub use lines::LineCutter;
use server::MachineMcpServer;

/// The time that a report waits for a server to start; the server continues to start afterwards.
const LIST_WAIT: Duration = Duration::from_secs(LIST_WAIT_SECONDS);

/// The MCP servers of plugins. Cheap to clone.
#[derive(Debug, Clone)]
pub struct McpServers(Arc<McpServersInner>);

#[derive(Debug)]
struct McpServersInner {
    file: PathBuf,
    known: Mutex<CachedConfig>,
}

/// The file as it was last read.
#[derive(Debug, Default)]
struct CachedConfig {
    mark: Option<[u64; 4]>,
    order: Vec<String>,
    servers: HashMap<String, Arc<MachineMcpServer>>,
}

impl McpServers {
    /// Reads the servers from the file in the plugins' folder.
    #[must_use]
    pub fn from_folder(folder: &Path) -> Self {
        Self(Arc::new(McpServersInner { file: folder.join(SERVERS_FILE), known: Mutex::default() }))
    }

    /// Returns true if the tool's name belongs to a server.
    pub(crate) fn has_tool(&self, tool: &str) -> bool {
        server_of(tool).is_some_and(|server| self.current_config().servers.contains_key(server))
    }

    /// Calls a tool, until `stopped`. Failures are reported in the result.
    pub(crate) async fn call_tool(
        &self,
        tool: &str,
        arguments: &str,
        limits: &ToolLimits,
        stopped: impl Future<Output = ()>,
    ) -> ToolOutput {
        let server = server_of(tool).and_then(|name| self.current_config().servers.get(name).cloned());
        let Some(server) = server else { return failed_output("there is no such MCP server") };
        let Some(arguments) = ::mcp::parse_arguments(arguments) else {
            return failed_output("the arguments are not a JSON object, or too long");
        };
        tokio::select! {
            output = server.call_tool(tool, arguments, limits) => output,
            () = stopped => failed_output("stopped before it was done; the request to the MCP server was cancelled"),
        }
    }

    /// Lists the tools of all servers for the host. Does not start servers whose tools the host already knows.
    pub(crate) async fn list_tools(&self, request: &ToolsRequest, limits: &Arc<ToolLimits>) -> ToolsReply {
        let servers: Vec<Arc<MachineMcpServer>> = {
            let seen = self.current_config();
            seen.order.iter().filter_map(|name| seen.servers.get(name).cloned()).collect()
        };
        let lists = servers.into_iter().map(|server| {
            let known = request.known.get(&server.spec().name).cloned();
            list_server_tools(server, known, limits.clone())
        });
        ToolsReply { servers: futures_util::future::join_all(lists).await }
    }

    /// Returns the servers that the file lists now. Removed or changed servers end with their last call.
    fn current_config(&self) -> MutexGuard<'_, CachedConfig> {
        let mut seen = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = file_mark(&self.0.file);
        if seen.mark != mark {
            let listed = if mark.is_some() {
                read_servers_file(&self.0.file)
            } else {
                Some(protocol::mcp::McpServersFile::default())
            };
            // On a read error the servers stay unchanged; the next call reads the file again.
            if let Some(listed) = listed {
                seen.mark = mark;
                seen.replace_servers(listed);
            }
        }
        seen
    }
}

impl CachedConfig {
    fn replace_servers(&mut self, listed: protocol::mcp::McpServersFile) {
        let mut before = std::mem::take(&mut self.servers);
        self.order.clear();
        for spec in listed.servers.into_iter().take(::mcp::SERVERS_MAX) {
            let same = before.remove(&spec.name).filter(|server| *server.spec() == spec);
            self.order.push(spec.name.clone());
            self.servers
                .insert(spec.name.clone(), same.unwrap_or_else(|| Arc::new(MachineMcpServer::new(spec))));
        }
    }
}

/// Returns a stamp that changes with the file; `None` if it does not exist.
fn file_mark(file: &Path) -> Option<[u64; 4]> {
    let metadata = std::fs::metadata(file).ok()?;
    let time = [metadata.mtime().cast_unsigned(), metadata.mtime_nsec().cast_unsigned()];
    Some([time[0], time[1], metadata.len(), metadata.ino()])
}

fn read_servers_file(file: &Path) -> Option<protocol::mcp::McpServersFile> {
    let length = std::fs::metadata(file).ok()?.len();
    if length > SERVERS_FILE_MAX_BYTES {
        return None;
    }
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

async fn list_server_tools(
    server: Arc<MachineMcpServer>,
    known: Option<KnownToolList>,
    limits: Arc<ToolLimits>,
) -> ServerTools {
    let spec = server.spec();
    let (name, version) = (spec.name.clone(), spec.version.clone());
    let known = known.filter(|known| known.version == version);
    if known.is_some() && !server.is_up() {
        return ServerTools { name, version, tools: ToolsUpdate::Unchanged };
    }
    // The server continues to start even if the host does not wait for it.
    let listing = tokio::spawn(async move { server.list_tools(&limits).await });
    let tools = match timeout(LIST_WAIT, listing).await {
        Ok(Ok(Ok(tools))) => to_reply(&tools, known),
        Ok(Ok(Err(reason))) => missing_tools(&reason),
        Ok(Err(_)) => missing_tools("it broke"),
        Err(_) => missing_tools("it takes long to start"),
    };
    ServerTools { name, version, tools }
}

fn missing_tools(reason: &str) -> ToolsUpdate {
    ToolsUpdate::Missing { reason: ::mcp::text::cut_bytes(reason, REASON_MAX_BYTES).to_owned() }
}

fn to_reply(listed: &ToolList, known: Option<KnownToolList>) -> ToolsUpdate {
    let digest = ::mcp::tools_digest(&listed.tools, &listed.skipped);
    if known.is_some_and(|known| known.digest == digest) {
        return ToolsUpdate::Unchanged;
    }
    let (mut bytes, mut list, mut skipped) = (0, Vec::new(), listed.skipped.clone());
    for tool in &listed.tools {
        let schema = serde_json::from_str(&tool.spec.schema).unwrap_or(Value::Null);
        let described =
            json!({ "name": tool.original, "description": tool.spec.description, "inputSchema": schema });
        bytes += described.to_string().len();
        if bytes > TOOLS_MAX_BYTES {
            skipped
                .push(::mcp::SkippedTool::new(&tool.original, "the server's tools take more than 256 KiB"));
            break;
        }
        list.push(described);
    }
    let skipped = skipped.into_iter().map(|tool| SkippedTool { name: tool.name, reason: tool.reason });
    ToolsUpdate::Tools { digest, list, skipped: skipped.collect() }
}
