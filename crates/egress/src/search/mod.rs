//! Queries search engines and normalizes their results.

mod formats;

use std::sync::Arc;
use std::time::Duration;

use domain::outgoing::OutgoingConfig;
use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use tokio::sync::Semaphore;

use crate::circuit_breaker::CircuitBreaker;
use crate::connections::{self, OutgoingConnections, ResponseBodyError, base_url};
use crate::text;
use crate::{ConfigError, Secret, WebUrl};

/// The maximum length of a query, in characters; the rest is cut off.
pub const QUERY_MAX_CHARS: usize = 400;
/// The maximum number of words in a query; the rest is cut off.
pub const QUERY_MAX_WORDS: usize = 50;
/// The maximum number of results per search.
pub const RESULTS_MAX: usize = 20;
/// The longest title of a result or a page, in bytes.
pub const TITLE_MAX_BYTES: usize = 300;
/// The longest snippet of a result, in bytes.
pub const SNIPPET_MAX_BYTES: usize = 2 * 1024;
/// The overall timeout of a request to an engine.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(15);
/// The time that a search waits for a free slot.
const WAIT_TIMEOUT: Duration = Duration::from_secs(15);
/// The longest response of an engine, in bytes.
const BODY_MAX_BYTES: usize = 2 * 1024 * 1024;
/// The longest error message of an engine, in bytes.
const REASON_MAX_BYTES: usize = 200;
/// The number of concurrent searches.
const AT_ONCE_MAX: usize = 32;

/// A kind of search engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchEngine {
    /// A SearXNG server, its JSON format.
    Searxng,
    /// The Brave Search API.
    Brave,
    Tavily,
}

impl SearchEngine {
    /// Returns the name used in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Searxng => "searxng",
            Self::Brave => "brave",
            Self::Tavily => "tavily",
        }
    }
}

/// An engine that requires a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedEngine {
    pub key: Secret,
    /// The base URL; the vendor's default if absent.
    pub base_url: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchConfig {
    /// The base URL of a SearXNG server.
    pub searxng: Option<String>,
    pub brave: Option<KeyedEngine>,
    pub tavily: Option<KeyedEngine>,
    /// The only engine to use. By default all are tried in the order above until one answers.
    pub only: Option<SearchEngine>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchQuery {
    /// The words. At most [`QUERY_MAX_CHARS`] and [`QUERY_MAX_WORDS`] of them are used.
    pub text: String,
    /// The number of results; clamped to between 1 and [`RESULTS_MAX`].
    pub count: usize,
    /// The preferred language of pages: `cs`.
    pub language: Option<String>,
    /// The preferred country, as named by a jurisdiction: `CZ`. Values that are not countries (`EU`) are ignored.
    pub country: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchResult {
    /// The title: one line of plain text, at most [`TITLE_MAX_BYTES`]. The URL if the result has no title.
    pub title: String,
    pub url: WebUrl,
    /// The snippet: one line of plain text, at most [`SNIPPET_MAX_BYTES`]; may be empty.
    pub snippet: String,
}

/// The reason why a search failed. Contains no secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// No engine is configured.
    #[error("no search engine is configured")]
    NotConfigured,
    /// The query contains no words.
    #[error("the query is empty")]
    EmptyQuery,
    /// A temporary failure: unreachable, overloaded or out of order. A retry may succeed.
    #[error("the search engine is not available: {reason}")]
    Unavailable {
        reason: String,
        /// The delay that the engine requested before a retry.
        retry_after: Option<Duration>,
    },
    /// The engine rejects the key or the request: an operator must act.
    #[error("the search engine refused the request: {reason}")]
    Rejected { reason: String },
}

/// Searches with the configured engines. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SearchClient {
    servers: Arc<[SearchServer]>,
    connections: OutgoingConnections,
    at_once: Arc<Semaphore>,
}

/// The server of an engine.
#[derive(Debug)]
struct SearchServer {
    engine: SearchEngine,
    base: Url,
    key: Option<(Secret, HeaderName, HeaderValue)>,
    rest: CircuitBreaker,
}

impl SearchClient {
    /// Creates a search with this configuration. Does not connect.
    ///
    /// # Errors
    /// Fails if a URL or a key is invalid, or if the only engine is not configured.
    pub fn new(config: SearchConfig) -> Result<Self, ConfigError> {
        let mut servers = Vec::new();
        if let Some(base) = &config.searxng {
            servers.push(SearchServer::new(SearchEngine::Searxng, base, None)?);
        }
        for (engine, keyed) in [(SearchEngine::Brave, config.brave), (SearchEngine::Tavily, config.tavily)] {
            if let Some(KeyedEngine { key, base_url }) = keyed {
                let base = base_url.unwrap_or_else(|| formats::default_base_url(engine).to_owned());
                servers.push(SearchServer::new(engine, &base, Some(key))?);
            }
        }
        if let Some(only) = config.only {
            servers.retain(|server| server.engine == only);
            if servers.is_empty() {
                return Err(ConfigError::NotConfigured { what: only.name().to_owned() });
            }
        }
        let at_once = Arc::new(Semaphore::new(AT_ONCE_MAX));
        Ok(Self { servers: servers.into(), connections: OutgoingConnections::default(), at_once })
    }

    /// Returns the search, connected as configured.
    #[must_use]
    pub fn with_outgoing(self, outgoing: &OutgoingConfig) -> Self {
        Self { connections: OutgoingConnections::from_config(outgoing), ..self }
    }

    /// Returns true if an engine is configured.
    #[must_use]
    pub fn is_configured(&self) -> bool {
        !self.servers.is_empty()
    }

    /// Queries the engines in order until one answers; skips engines that failed recently. Cancel safe.
    ///
    /// # Errors
    /// Returns the error of the first engine if none answers.
    pub async fn search_web(&self, query: &SearchQuery) -> Result<Vec<SearchResult>, SearchError> {
        if self.servers.is_empty() {
            return Err(SearchError::NotConfigured);
        }
        let query = query.to_bounded();
        if query.text.is_empty() {
            return Err(SearchError::EmptyQuery);
        }
        let waited = tokio::time::timeout(WAIT_TIMEOUT, self.at_once.acquire()).await;
        let Ok(Ok(_turn)) = waited else {
            return Err(engine_unavailable_error("too many concurrent searches"));
        };
        let mut first = None;
        for server in self.servers.iter() {
            match self.query_server(server, &query).await {
                Ok(found) => return Ok(found),
                Err(error) => {
                    tracing::warn!(engine = server.engine.name(), %error, "web search failed");
                    first.get_or_insert(error);
                }
            }
        }
        Err(first.unwrap_or(SearchError::NotConfigured))
    }

    async fn query_server(
        &self,
        server: &SearchServer,
        query: &SearchQuery,
    ) -> Result<Vec<SearchResult>, SearchError> {
        if let Some(left) = server.rest.remaining_pause() {
            let reason = "it failed recently and is paused".to_owned();
            return Err(SearchError::Unavailable { reason, retry_after: Some(left) });
        }
        let response = tokio::time::timeout(SEARCH_TIMEOUT, self.fetch_results(server, query)).await;
        let answer = response.unwrap_or_else(|_| Err(engine_unavailable_error("timeout")));
        match &answer {
            Ok(_) => server.rest.record_success(),
            Err(SearchError::Unavailable { retry_after, .. }) => server.rest.record_failure(*retry_after),
            // Another query may succeed.
            Err(_) => {}
        }
        answer
    }

    async fn fetch_results(
        &self,
        server: &SearchServer,
        query: &SearchQuery,
    ) -> Result<Vec<SearchResult>, SearchError> {
        let client = self
            .connections
            .http_client()
            .map_err(|error| engine_unavailable_error(&connections::transport_error_reason(error)))?;
        let mut request = formats::build_request(client, server.engine, &server.base, query);
        if let Some((_, name, value)) = &server.key {
            request = request.header(name, value);
        }
        let response = request
            .send()
            .await
            .map_err(|error| engine_unavailable_error(&connections::transport_error_reason(error)))?;
        let (status, retry_after) = (response.status(), connections::retry_after(response.headers()));
        let body = connections::read_response_body(response, BODY_MAX_BYTES).await;
        if !status.is_success() {
            let body = body.unwrap_or_default();
            let message = formats::error_message(server.engine, status, &body);
            let message = server.key.as_ref().map_or(message.clone(), |(key, _, _)| key.redact(&message));
            let message = text::single_line(&message);
            let reason = format!("{status}: {}", text::cut_bytes(&message, REASON_MAX_BYTES));
            let reason = reason.trim_end_matches([':', ' ']).to_owned();
            let again = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
            return Err(if again {
                SearchError::Unavailable { reason, retry_after }
            } else {
                SearchError::Rejected { reason }
            });
        }
        let body = body.map_err(|error| match error {
            ResponseBodyError::TooLarge => engine_unavailable_error("its response is too large"),
            ResponseBodyError::Cut => engine_unavailable_error("connection lost"),
        })?;
        let pages = formats::parse_pages(server.engine, &body)
            .ok_or_else(|| engine_unavailable_error("its response is malformed"))?;
        Ok(usable_results(pages, query.count))
    }
}

impl SearchServer {
    fn new(engine: SearchEngine, base: &str, key: Option<Secret>) -> Result<Self, ConfigError> {
        let base = base_url(base, engine.name())?;
        let key = match key {
            Some(key) => {
                let (name, before) = formats::key_header(engine);
                let wrong = || ConfigError::Secret { what: engine.name().to_owned() };
                let value = crate::secret::header_value(before, &key).ok_or_else(wrong)?;
                Some((key, name, value))
            }
            None => None,
        };
        Ok(Self { engine, base, key, rest: CircuitBreaker::default() })
    }
}

impl SearchQuery {
    /// Truncates the query to its bounds.
    fn to_bounded(&self) -> Self {
        let text = text::single_line(&self.text);
        let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
        let text = words[..words.len().min(QUERY_MAX_WORDS)].join(" ");
        let text: String = text.chars().take(QUERY_MAX_CHARS).collect();
        let two = |hint: &Option<String>| {
            hint.as_deref()
                .filter(|hint| hint.len() == 2 && hint.bytes().all(|byte| byte.is_ascii_alphabetic()))
                .map(str::to_ascii_lowercase)
        };
        Self {
            text: text.trim_end().to_owned(),
            count: self.count.clamp(1, RESULTS_MAX),
            language: two(&self.language),
            country: two(&self.country).map(|country| country.to_ascii_uppercase()),
        }
    }
}

/// Returns the usable results: with a valid URL, without duplicates.
fn usable_results(pages: Vec<formats::FoundPage>, count: usize) -> Vec<SearchResult> {
    let mut all: Vec<SearchResult> = Vec::new();
    for page in pages {
        if all.len() == count {
            break;
        }
        let Some(url) = WebUrl::parse(&page.url) else { continue };
        if all.iter().any(|one| one.url == url) {
            continue;
        }
        // Markup is allowed additional space before it is removed.
        let title = text::html_to_line(text::cut_bytes(&page.title, 8 * TITLE_MAX_BYTES));
        let title = if title.is_empty() { url.as_str().to_owned() } else { title };
        all.push(SearchResult {
            title: text::cut_bytes(&title, TITLE_MAX_BYTES).to_owned(),
            snippet: text::cut_bytes(
                &text::html_to_line(text::cut_bytes(&page.snippet, 8 * SNIPPET_MAX_BYTES)),
                SNIPPET_MAX_BYTES,
            )
            .to_owned(),
            url,
        });
    }
    all
}

fn engine_unavailable_error(reason: &str) -> SearchError {
    SearchError::Unavailable { reason: reason.to_owned(), retry_after: None }
}
