//! All outbound traffic except to models: searches, fetched pages, MCP servers over HTTP, and the identity provider.
//!
//! Responses are untrusted and bounded in bytes, time and number; invisible characters are removed. Outbound
//! requests are restricted as well: a page is fetched only if its URL is in the conversation's [`UrlAllowlist`],
//! and only from public network addresses. Secrets are sent in headers only.
//!
//! The steps of a question that may use the web:
//!
//! 1. [`SearchClient::search_web`] returns [`SearchResult`] pages. Their `url`s are added to the conversation's [`UrlAllowlist`], as
//!    are the URLs in the user's own words ([`UrlAllowlist::add_words`]).
//! 2. [`Fetcher::fetch_url`] checks a URL against the allowlist and returns the page as passages, or the bytes of a
//!    document, which must be parsed in the machine. Its links and its final URL are added to the allowlist
//!    ([`Fetched::add_to`]).
//!
//! [`Mcp::list_tools`] returns the tools of the servers that the operator grants, [`Mcp::call_tool`] calls one, and
//! [`Mcp::is_repeatable`] returns whether a call may run again after a crash.
//!
//! All clients are cheap to clone, connect on first use, and leave no background tasks except cancellations of MCP
//! requests. Dropping a future aborts its request.
//!
//! # Where to look
//!
//! - Pages that may be fetched: `allowlist.rs`; hosts: `fetch/guard.rs`; types of content: `fetch/content.rs`.
//! - Search engines: `search/formats.rs`; MCP over HTTP: `mcp`; the identity provider: `oidc`.
//! - Proxies and authorities: `connections.rs`.

mod address;
mod allowlist;
mod circuit_breaker;
mod connections;
mod fetch;
mod mcp;
mod oidc;
mod search;
mod secret;
mod text;

pub use address::{URL_MAX_BYTES, WebUrl};
pub use allowlist::{ALLOWED_MAX, UrlAllowlist};
pub use connections::USER_AGENT;
use domain::outgoing::OutgoingConfig;
pub use domain::secret::Secret;
pub use fetch::{
    BODY_MAX_BYTES, DocumentKind, FetchConfig, FetchError, Fetched, FetchedDocument, Fetcher, InvalidHost,
    LINK_TEXT_MAX_BYTES, LINKS_MAX, PASSAGE_MAX_BYTES, PASSAGES_MAX, PRIVATE_HOSTS_MAX, PageLink,
    PrivateHost, REDIRECTS_MAX, WebPage, read_body,
};
pub use mcp::{
    ARGUMENTS_MAX_BYTES, DESCRIPTION_MAX_BYTES, Mcp, McpError, McpOutput, McpServerConfig, McpTools,
    OUTPUT_MAX_BYTES, SCHEMA_MAX_BYTES, SERVER_NAME_MAX_BYTES, SERVERS_MAX, TOOL_NAME_MAX_BYTES, TOOLS_MAX,
};
pub use oidc::{Callback, Oidc, OidcConfig, OidcError, OidcIdentity, SignInRequest, TokenError};
pub use search::{
    KeyedEngine, QUERY_MAX_CHARS, QUERY_MAX_WORDS, RESULTS_MAX, SNIPPET_MAX_BYTES, SearchClient,
    SearchConfig, SearchEngine, SearchError, SearchQuery, SearchResult, TITLE_MAX_BYTES,
};

/// The configuration of outbound traffic except to models.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WebConfig {
    pub search: SearchConfig,
    pub fetch: FetchConfig,
    pub mcp: Vec<McpServerConfig>,
    /// How search engines and MCP servers are connected. Pages are fetched directly: the guard against private addresses looks
    /// hosts up itself.
    pub outgoing: OutgoingConfig,
}

/// The reason why a configuration is invalid. Contains no secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The URL is invalid, not HTTP, or contains a user, a query or a fragment.
    #[error("{what}: invalid URL: use http or https, without user, query or fragment")]
    BaseUrl { what: String },
    /// The secret contains characters that are not allowed in a header.
    #[error("{what}: the key contains characters that are not allowed in a header")]
    Secret { what: String },
    /// The server's name is invalid or not unique.
    #[error(
        "{what}: the name must be unique and consist of at most {SERVER_NAME_MAX_BYTES} lower-case letters, digits and hyphens"
    )]
    Name { what: String },
    /// The header is invalid or reserved.
    #[error("{what}: header {name:?} cannot be set: it is invalid or reserved")]
    Header { what: String, name: String },
    #[error("{what}: too many entries: use at most {most}")]
    TooMany { what: String, most: usize },
    /// TLS could not be initialized.
    #[error("TLS setup failed")]
    Tls,
    /// The engine selected as the only one is not configured.
    #[error("{what} is selected but not configured: set its URL or key")]
    NotConfigured { what: String },
}
