//! MCP servers over streamable HTTP: lists and calls the tools that the operator grants.
//!
//! A server is third-party software. Its annotations are only hints: the operator alone decides which tools may run
//! again after a crash ([`Mcp::is_repeatable`]). Its responses are bounded, and a failed server only makes its own
//! tools unavailable.

mod exchange;
mod mirror;
mod server;
mod session;
mod session_close;
mod sse;

use std::sync::Arc;
use std::time::Duration;

use domain::outgoing::OutgoingConfig;
use domain::step::ToolSpec;
use futures_util::future::join_all;
use reqwest::header::HeaderName;

use crate::connections::{OutgoingConnections, plain_url};
use crate::{ConfigError, Secret};
use server::HttpMcpServer;
use session_close::SessionCloser;

pub use ::mcp::{
    ARGUMENTS_MAX_BYTES, DESCRIPTION_MAX_BYTES, OUTPUT_MAX_BYTES, SCHEMA_MAX_BYTES, SERVER_NAME_MAX_BYTES,
    SERVERS_MAX, TOOL_NAME_MAX_BYTES, TOOLS_MAX,
};

/// The maximum number of headers per server.
const HEADERS_MAX: usize = 32;
/// Headers that operators cannot set.
const RESERVED: [&str; 12] = [
    "host",
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

/// A server that the operator grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServerConfig {
    /// The prefix of its tools' names: lower-case letters, digits and hyphens.
    pub name: String,
    /// The URL of the server. It may be private, because the operator configures it.
    pub url: String,
    /// Headers sent with each request, such as `Authorization`.
    pub headers: Vec<(String, Secret)>,
    /// The granted tools; all tools of the server if absent.
    pub tools: Option<Vec<String>>,
    /// The granted tools without side effects: they are called again after a crash.
    pub read_only: Vec<String>,
}

/// The currently available tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpTools {
    /// The tools as offered to a model. Their names are `<server>__<tool>`, unique, and valid for every vendor.
    pub tools: Vec<ToolSpec>,
    /// The servers whose tools are unavailable, with the reasons.
    pub missing: Vec<(String, McpError)>,
}

/// The output of a call.
pub type McpOutput = ::mcp::McpCallOutput;

/// The reason why tools or output are missing. Contains no secrets and is suitable for a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpError {
    /// The tool does not exist or is not granted.
    #[error("there is no such tool")]
    UnknownTool,
    /// The arguments are not a JSON object, or too long.
    #[error("the arguments are not a JSON object of at most {} KiB", ARGUMENTS_MAX_BYTES >> 10)]
    Arguments,
    /// The server is unreachable or requested a pause; nothing was executed.
    #[error("the MCP server is not available: {reason}")]
    Unavailable {
        reason: String,
        /// The delay before a retry.
        retry_after: Option<Duration>,
    },
    /// The server rejects the service or violates the protocol: an operator must act. Nothing was executed.
    #[error("the MCP server refused the request: {reason}")]
    Rejected { reason: String },
    /// The call was sent but not answered: it may have been executed.
    #[error("the MCP server did not answer, and the call may have run: {reason}")]
    Cut { reason: String },
    /// The server answered with an error.
    #[error("the MCP server answered with an error: {message}")]
    Failed {
        /// The server's message: plain text, bounded.
        message: String,
    },
}

/// All servers that the operator grants. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Mcp {
    servers: Arc<[HttpMcpServer]>,
    closer: SessionCloser,
}

impl Mcp {
    /// Creates clients for the configured servers. Does not connect.
    ///
    /// # Errors
    /// Fails if a name, a URL or a header is invalid, or if a name is not unique.
    pub fn new(configs: Vec<McpServerConfig>) -> Result<Self, ConfigError> {
        Self::with_outgoing(configs, &OutgoingConfig::default())
    }

    /// Creates clients like [`Mcp::new`], connected as configured.
    ///
    /// # Errors
    /// Like [`Mcp::new`].
    pub fn with_outgoing(
        configs: Vec<McpServerConfig>,
        outgoing: &OutgoingConfig,
    ) -> Result<Self, ConfigError> {
        if configs.len() > SERVERS_MAX {
            return Err(ConfigError::TooMany { what: "mcp".to_owned(), most: SERVERS_MAX });
        }
        let (connections, closer) = (OutgoingConnections::from_config(outgoing), SessionCloser::default());
        let mut servers: Vec<HttpMcpServer> = Vec::with_capacity(configs.len());
        for config in configs {
            let what = format!("mcp.{}", config.name);
            if !::mcp::is_server_name(&config.name) || servers.iter().any(|other| other.name() == config.name)
            {
                return Err(ConfigError::Name { what });
            }
            let url = plain_url(&config.url, &what)?;
            let headers = parse_headers(&config.headers, &what)?;
            servers.push(HttpMcpServer::new(config, url, headers, connections.clone(), closer.clone()));
        }
        Ok(Self { servers: servers.into(), closer })
    }

    /// Returns true if a server is configured.
    #[must_use]
    pub fn is_configured(&self) -> bool {
        !self.servers.is_empty()
    }

    /// Returns the available tools: from the cache if it is fresh, otherwise by querying the servers concurrently.
    /// Skips servers that failed recently. Takes a few seconds at most. Cancel safe.
    pub async fn list_tools(&self) -> McpTools {
        let lists = join_all(self.servers.iter().map(HttpMcpServer::list_tools)).await;
        let mut all = McpTools::default();
        for (server, list) in self.servers.iter().zip(lists) {
            match list {
                Ok(list) => all.tools.extend(list.iter().map(|tool| tool.spec.clone())),
                Err(error) => all.missing.push((server.name().to_owned(), error)),
            }
        }
        all
    }

    /// Returns true if the tool's name belongs to one of these servers, whether or not it is available.
    #[must_use]
    pub fn is_named(&self, tool: &str) -> bool {
        self.find_server(tool).is_some()
    }

    /// Returns true if the operator declared that a call of the tool may run again after a crash.
    #[must_use]
    pub fn is_repeatable(&self, tool: &str) -> bool {
        self.find_server(tool).is_some_and(|server| server.is_repeatable(tool))
    }

    /// Calls a tool with a JSON object of arguments as the model wrote it; an empty text means an empty object.
    /// Dropping the future sends a cancellation to the server in the background, for a few seconds at most.
    ///
    /// # Errors
    /// [`McpError`]; only after [`McpError::Cut`] is it unknown whether the call was executed.
    pub async fn call_tool(&self, tool: &str, arguments: &str) -> Result<McpOutput, McpError> {
        let server = self.find_server(tool).ok_or(McpError::UnknownTool)?;
        server.call_tool(tool, ::mcp::parse_arguments(arguments).ok_or(McpError::Arguments)?).await
    }

    /// Ends the sessions with the servers, in a few seconds at most, even if they do not respond.
    pub async fn close_sessions(&self) {
        self.closer.wait_for_all().await;
        join_all(self.servers.iter().map(HttpMcpServer::close_session)).await;
    }

    fn find_server(&self, tool: &str) -> Option<&HttpMcpServer> {
        let name = ::mcp::server_of(tool)?;
        self.servers.iter().find(|server| server.name() == name)
    }
}

fn parse_headers(headers: &[(String, Secret)], what: &str) -> Result<exchange::Headers, ConfigError> {
    if headers.len() > HEADERS_MAX {
        return Err(ConfigError::TooMany { what: format!("{what}.headers"), most: HEADERS_MAX });
    }
    let each = headers.iter().map(|(name, secret)| {
        let header = HeaderName::from_bytes(name.as_bytes()).ok();
        let is_reserved = |name: &str| RESERVED.contains(&name) || name.starts_with(mirror::PARAM_PREFIX);
        let header = header.filter(|header| !is_reserved(header.as_str()));
        let header =
            header.ok_or_else(|| ConfigError::Header { what: what.to_owned(), name: name.clone() })?;
        let value = crate::secret::header_value("", secret)
            .ok_or_else(|| ConfigError::Secret { what: format!("{what}.headers.{name}") })?;
        Ok((header, value, secret.clone()))
    });
    each.collect()
}
