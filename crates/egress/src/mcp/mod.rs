//! MCP servers over streamable HTTP: their tools, as far as the operator grants them, and calls of these.
//!
//! A server is somebody else's program. What it says of itself is no more than a hint: which of its tools may run
//! again after a crash ([`Mcp::is_repeatable`]) is the operator's word alone. What it sends is bounded, and a server that
//! is down takes its own tools away and nothing else.

mod exchange;
mod mirror;
mod server;
mod session;
mod session_close;
mod sse;

use std::sync::Arc;
use std::time::Duration;

use domain::step::ToolSpec;
use futures_util::future::join_all;
use reqwest::header::HeaderName;

use crate::connections::{Connections, plain_url};
use crate::{ConfigError, Secret};
use server::Server;
use session_close::SessionCloser;

pub use ::mcp::{
    ARGUMENTS_MAX_BYTES, DESCRIPTION_MAX_BYTES, OUTPUT_MAX_BYTES, SCHEMA_MAX_BYTES, SERVER_NAME_MAX_BYTES,
    SERVERS_MAX, TOOL_NAME_MAX_BYTES, TOOLS_MAX,
};

/// The most headers of a server.
const HEADERS_MAX: usize = 32;
/// Headers that are not an operator's to set.
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
    /// What its tools' names begin with: small letters, digits and hyphens.
    pub name: String,
    /// Where it is. It may be a private address: the operator says so.
    pub url: String,
    /// Headers that go with each request, such as `Authorization`.
    pub headers: Vec<(String, Secret)>,
    /// The tools that may be called; all that the server has when absent.
    pub tools: Option<Vec<String>>,
    /// Those of them that change nothing: after a crash they are called again.
    pub read_only: Vec<String>,
}

/// The tools that there are at the moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpTools {
    /// As they are offered to a model. Their names are `<server>__<tool>`, unlike, and fit for every vendor.
    pub tools: Vec<ToolSpec>,
    /// Servers whose tools are missing, and why.
    pub missing: Vec<(String, McpError)>,
}

/// What a call gave.
pub type McpOutput = ::mcp::Output;

/// Why there are no tools or no output. Says nothing secret, and is fit for a model's eyes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpError {
    /// There is no such tool, or it is not granted.
    #[error("there is no such tool")]
    UnknownTool,
    /// The arguments are no JSON object, or too long.
    #[error("the arguments are no JSON object of at most {} KiB", ARGUMENTS_MAX_BYTES >> 10)]
    Arguments,
    /// The server cannot be reached or asks to be left alone; nothing was run.
    #[error("the MCP server is not available: {reason}")]
    Unavailable {
        /// What happened.
        reason: String,
        /// When it may be tried again.
        retry_after: Option<Duration>,
    },
    /// The server refuses the service, or does not speak the protocol: an operator must act. Nothing was run.
    #[error("the MCP server refused the request: {reason}")]
    Rejected {
        /// What happened.
        reason: String,
    },
    /// The call was sent, and no answer to it came: it may have run.
    #[error("the MCP server did not answer, and the call may have run: {reason}")]
    Cut {
        /// What happened.
        reason: String,
    },
    /// The server answered with an error.
    #[error("the MCP server answered with an error: {message}")]
    Failed {
        /// What it said: plain text, bounded.
        message: String,
    },
}

/// All servers that the operator grants. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Mcp {
    servers: Arc<[Server]>,
    farewells: SessionCloser,
}

impl Mcp {
    /// The servers of this configuration. Connects to nothing.
    ///
    /// # Errors
    /// When a name, an address or a header is none, or a name is there twice.
    pub fn new(configs: Vec<McpServerConfig>) -> Result<Self, ConfigError> {
        if configs.len() > SERVERS_MAX {
            return Err(ConfigError::TooMany { what: "mcp".to_owned(), most: SERVERS_MAX });
        }
        let (connections, farewells) = (Connections::default(), SessionCloser::default());
        let mut servers: Vec<Server> = Vec::with_capacity(configs.len());
        for config in configs {
            let what = format!("mcp.{}", config.name);
            if !::mcp::is_server_name(&config.name) || servers.iter().any(|other| other.name() == config.name)
            {
                return Err(ConfigError::Name { what });
            }
            let url = plain_url(&config.url, &what)?;
            let headers = headers(&config.headers, &what)?;
            servers.push(Server::new(config, url, headers, connections.clone(), farewells.clone()));
        }
        Ok(Self { servers: servers.into(), farewells })
    }

    /// Whether there is a server at all.
    #[must_use]
    pub fn is_configured(&self) -> bool {
        !self.servers.is_empty()
    }

    /// The tools that there are: as they were told at most some minutes ago, else the servers are asked, side by side. A
    /// server that failed lately is not asked. Takes seconds at most. Cancel safe.
    pub async fn tools(&self) -> McpTools {
        let lists = join_all(self.servers.iter().map(Server::tools)).await;
        let mut all = McpTools::default();
        for (server, list) in self.servers.iter().zip(lists) {
            match list {
                Ok(list) => all.tools.extend(list.iter().map(|tool| tool.spec.clone())),
                Err(error) => all.missing.push((server.name().to_owned(), error)),
            }
        }
        all
    }

    /// Whether a tool of this name would be one of these servers', whether or not it is there at the moment.
    #[must_use]
    pub fn is_named(&self, tool: &str) -> bool {
        self.server(tool).is_some()
    }

    /// Whether a call of the tool may run again after a crash: the operator's word.
    #[must_use]
    pub fn is_repeatable(&self, tool: &str) -> bool {
        self.server(tool).is_some_and(|server| server.is_repeatable(tool))
    }

    /// Calls a tool with these arguments, a JSON object as the model wrote it; nothing stands for an empty one. Whoever
    /// drops it has the server told, within some seconds, that nobody waits for it.
    ///
    /// # Errors
    /// [`McpError`]; of [`McpError::Cut`] alone it is not known whether the call has run.
    pub async fn call(&self, tool: &str, arguments: &str) -> Result<McpOutput, McpError> {
        let server = self.server(tool).ok_or(McpError::UnknownTool)?;
        server.call(tool, ::mcp::arguments(arguments).ok_or(McpError::Arguments)?).await
    }

    /// Tells the servers that their sessions are over, within some seconds, whether or not they listen.
    pub async fn close(&self) {
        self.farewells.wait().await;
        join_all(self.servers.iter().map(Server::close)).await;
    }

    fn server(&self, tool: &str) -> Option<&Server> {
        let name = ::mcp::server_of(tool)?;
        self.servers.iter().find(|server| server.name() == name)
    }
}

fn headers(headers: &[(String, Secret)], what: &str) -> Result<exchange::Headers, ConfigError> {
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
