//! All that leaves the host besides models: searches, pages that are read, and MCP servers that are spoken to.
//!
//! What comes back is hostile and is taken in within bounds: bytes, times, numbers, letters that nobody sees. What
//! may leave is decided here as well: a page is fetched only of an address that is in the conversation's [`UrlAllowlist`]
//! set, and only from public addresses of the network. Keys stand in headers alone.
//!
//! The way of a question that may search the web:
//!
//! 1. [`Search::search`] gives [`Found`] pages; each one's `url` goes into the conversation's [`UrlAllowlist`] set, as do
//!    the user's own words ([`UrlAllowlist::add_words`]).
//! 2. [`Fetcher::fetch`] takes an address, looks it up in that set, and gives the page as passages, or a document's
//!    bytes that are to be read in the machine. Its links, and the place that it led to, go into the set
//!    ([`Fetched::add_to`]).
//!
//! [`Mcp::tools`] gives the tools of the servers that the operator grants, [`Mcp::call`] calls one, and
//! [`Mcp::is_repeatable`] says whether a call may run again after a crash.
//!
//! Everything here is cheap to clone, connects when it is first used, and leaves nothing running. Whoever drops a
//! future of it has ended its request.

mod address;
mod allowlist;
mod circuit_breaker;
mod connections;
mod fetch;
mod mcp;
mod search;
mod secret;
mod text;

pub use address::{URL_MAX_BYTES, WebUrl};
pub use allowlist::{ALLOWED_MAX, UrlAllowlist};
pub use connections::USER_AGENT;
pub use domain::secret::Secret;
pub use fetch::{
    BODY_MAX_BYTES, Document, DocumentKind, FetchConfig, FetchError, Fetched, Fetcher, InvalidHost,
    LINK_TEXT_MAX_BYTES, LINKS_MAX, Link, PASSAGE_MAX_BYTES, PASSAGES_MAX, PRIVATE_HOSTS_MAX, Page,
    PrivateHost, REDIRECTS_MAX, read_body,
};
pub use mcp::{
    ARGUMENTS_MAX_BYTES, DESCRIPTION_MAX_BYTES, Mcp, McpError, McpOutput, McpServerConfig, McpTools,
    OUTPUT_MAX_BYTES, SCHEMA_MAX_BYTES, SERVER_NAME_MAX_BYTES, SERVERS_MAX, TOOL_NAME_MAX_BYTES, TOOLS_MAX,
};
pub use search::{
    Engine, Found, KeyedEngine, QUERY_MAX_CHARS, QUERY_MAX_WORDS, Query, RESULTS_MAX, SNIPPET_MAX_BYTES,
    Search, SearchConfig, SearchError, TITLE_MAX_BYTES,
};

/// What may leave the host besides models.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WebConfig {
    /// Search engines.
    pub search: SearchConfig,
    /// Pages.
    pub fetch: FetchConfig,
    /// MCP servers.
    pub mcp: Vec<McpServerConfig>,
}

/// A configuration cannot be used. Says nothing of its secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// An address is none, or not of HTTP, or carries a user, a query or a fragment.
    #[error("{what}: the address is not a plain http or https address")]
    BaseUrl {
        /// Whose.
        what: String,
    },
    /// A secret has characters that no header can carry.
    #[error("{what}: the key has characters that no key has")]
    Secret {
        /// Whose.
        what: String,
    },
    /// A server's name is none, or is there twice.
    #[error(
        "{what}: a name of its own is wanted, of at most {SERVER_NAME_MAX_BYTES} small letters, digits and hyphens"
    )]
    Name {
        /// Whose.
        what: String,
    },
    /// A header is none, or not for operators to set.
    #[error("{what}: {name:?} is no header that can be set")]
    Header {
        /// Whose.
        what: String,
        /// Which.
        name: String,
    },
    /// There is more than can be used.
    #[error("{what}: there are more than {most}")]
    TooMany {
        /// Of what.
        what: String,
        /// How many there may be.
        most: usize,
    },
    /// No connections over TLS can be made here.
    #[error("no connections over TLS can be made here")]
    Tls,
    /// What is to be used alone is not configured.
    #[error("{what} is chosen and not configured")]
    NotConfigured {
        /// Which.
        what: String,
    },
}
