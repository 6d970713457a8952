//! Search engines: what is asked of them and what comes back, whichever it is.

mod formats;

use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use tokio::sync::Semaphore;

use crate::circuit_breaker::CircuitBreaker;
use crate::connections::{self, BodyError, Connections, base_url};
use crate::text;
use crate::{ConfigError, Secret, WebUrl};

/// The most characters of a query; more is cut off.
pub const QUERY_MAX_CHARS: usize = 400;
/// The most words of a query; more are cut off.
pub const QUERY_MAX_WORDS: usize = 50;
/// The most results of one search.
pub const RESULTS_MAX: usize = 20;
/// The longest title of a result or a page, in bytes.
pub const TITLE_MAX_BYTES: usize = 300;
/// The longest snippet of a result, in bytes.
pub const SNIPPET_MAX_BYTES: usize = 2 * 1024;
/// How long an engine may take to answer, in all.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a search waits for others to end.
const WAIT_TIMEOUT: Duration = Duration::from_secs(15);
/// The greatest answer of an engine.
const BODY_MAX_BYTES: usize = 2 * 1024 * 1024;
/// The longest words of an engine about what is wrong, in bytes.
const REASON_MAX_BYTES: usize = 200;
/// How many searches are made at once.
const AT_ONCE_MAX: usize = 32;

/// A kind of search engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// A SearXNG server, its JSON format.
    Searxng,
    /// The Brave Search API.
    Brave,
    /// The Tavily API.
    Tavily,
}

impl Engine {
    /// Its name as it is set.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Searxng => "searxng",
            Self::Brave => "brave",
            Self::Tavily => "tavily",
        }
    }
}

/// An engine that wants a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedEngine {
    /// The key.
    pub key: Secret,
    /// Where it is; its maker's own address when absent.
    pub base_url: Option<String>,
}

/// The engines that there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchConfig {
    /// The address of a SearXNG server.
    pub searxng: Option<String>,
    /// Brave.
    pub brave: Option<KeyedEngine>,
    /// Tavily.
    pub tavily: Option<KeyedEngine>,
    /// The only one that is asked. Otherwise all of them are, in the order above, until one answers.
    pub only: Option<Engine>,
}

/// What is searched for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// The words. At most [`QUERY_MAX_CHARS`] and [`QUERY_MAX_WORDS`] of them are used.
    pub text: String,
    /// How many results are wanted; at least 1, at most [`RESULTS_MAX`].
    pub count: usize,
    /// The language of the pages that are preferred: `cs`.
    pub language: Option<String>,
    /// The country whose pages are preferred, as a jurisdiction names it: `CZ`. What is no country (`EU`) is no hint.
    pub country: Option<String>,
}

/// A page that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its title: one line of plain text, at most [`TITLE_MAX_BYTES`]. Its address when it has none.
    pub title: String,
    /// Its address.
    pub url: WebUrl,
    /// What it says of the query: one line of plain text, at most [`SNIPPET_MAX_BYTES`]; may be empty.
    pub snippet: String,
}

/// Why a search failed. Says nothing secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// No engine is configured.
    #[error("no search engine is configured")]
    NotConfigured,
    /// The query has no words.
    #[error("the query is empty")]
    EmptyQuery,
    /// Unreachable, overloaded or out of order: worth trying again.
    #[error("the search engine is not available: {reason}")]
    Unavailable {
        /// What happened.
        reason: String,
        /// When the engine asked to be tried again.
        retry_after: Option<Duration>,
    },
    /// The engine does not accept the key or the request: an operator must act.
    #[error("the search engine refused the request: {reason}")]
    Rejected {
        /// What happened.
        reason: String,
    },
}

/// The search over all engines that are configured. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Search {
    servers: Arc<[Server]>,
    connections: Connections,
    at_once: Arc<Semaphore>,
}

/// An engine's server.
#[derive(Debug)]
struct Server {
    engine: Engine,
    base: Url,
    key: Option<(Secret, HeaderName, HeaderValue)>,
    rest: CircuitBreaker,
}

impl Search {
    /// The engines of this configuration. Connects to nothing.
    ///
    /// # Errors
    /// When an address or a key is none, or the only engine is not configured.
    pub fn new(config: SearchConfig) -> Result<Self, ConfigError> {
        let mut servers = Vec::new();
        if let Some(base) = &config.searxng {
            servers.push(Server::new(Engine::Searxng, base, None)?);
        }
        for (engine, keyed) in [(Engine::Brave, config.brave), (Engine::Tavily, config.tavily)] {
            if let Some(KeyedEngine { key, base_url }) = keyed {
                let base = base_url.unwrap_or_else(|| formats::home(engine).to_owned());
                servers.push(Server::new(engine, &base, Some(key))?);
            }
        }
        if let Some(only) = config.only {
            servers.retain(|server| server.engine == only);
            if servers.is_empty() {
                return Err(ConfigError::NotConfigured { what: only.name().to_owned() });
            }
        }
        let at_once = Arc::new(Semaphore::new(AT_ONCE_MAX));
        Ok(Self { servers: servers.into(), connections: Connections::default(), at_once })
    }

    /// Whether there is an engine at all.
    #[must_use]
    pub fn is_configured(&self) -> bool {
        !self.servers.is_empty()
    }

    /// Asks the engines in order until one answers; one that failed lately is left alone for a while. Cancel safe.
    ///
    /// # Errors
    /// [`SearchError`]: the first engine's, when none answers.
    pub async fn search(&self, query: &Query) -> Result<Vec<Found>, SearchError> {
        if self.servers.is_empty() {
            return Err(SearchError::NotConfigured);
        }
        let query = query.bounded();
        if query.text.is_empty() {
            return Err(SearchError::EmptyQuery);
        }
        let waited = tokio::time::timeout(WAIT_TIMEOUT, self.at_once.acquire()).await;
        let Ok(Ok(_turn)) = waited else {
            return Err(unavailable("too many searches are under way"));
        };
        let mut first = None;
        for server in self.servers.iter() {
            match self.ask(server, &query).await {
                Ok(found) => return Ok(found),
                Err(error) => {
                    tracing::warn!(engine = server.engine.name(), %error, "web search failed");
                    first.get_or_insert(error);
                }
            }
        }
        Err(first.unwrap_or(SearchError::NotConfigured))
    }

    async fn ask(&self, server: &Server, query: &Query) -> Result<Vec<Found>, SearchError> {
        if let Some(left) = server.rest.remaining() {
            let reason = "it failed lately and is left alone for a while".to_owned();
            return Err(SearchError::Unavailable { reason, retry_after: Some(left) });
        }
        let asked = tokio::time::timeout(SEARCH_TIMEOUT, self.exchange(server, query)).await;
        let answer = asked.unwrap_or_else(|_| Err(unavailable("it took too long")));
        match &answer {
            Ok(_) => server.rest.record_success(),
            Err(SearchError::Unavailable { retry_after, .. }) => server.rest.record_failure(*retry_after),
            // What is wrong with one query need not be wrong with the next.
            Err(_) => {}
        }
        answer
    }

    async fn exchange(&self, server: &Server, query: &Query) -> Result<Vec<Found>, SearchError> {
        let client = self.connections.client().map_err(|error| unavailable(&connections::reason(error)))?;
        let mut request = formats::request(client, server.engine, &server.base, query);
        if let Some((_, name, value)) = &server.key {
            request = request.header(name, value);
        }
        let response = request.send().await.map_err(|error| unavailable(&connections::reason(error)))?;
        let (status, retry_after) = (response.status(), connections::retry_after(response.headers()));
        let body = connections::body(response, BODY_MAX_BYTES).await;
        if !status.is_success() {
            let body = body.unwrap_or_default();
            let said = formats::complaint(server.engine, status, &body);
            let said = server.key.as_ref().map_or(said.clone(), |(key, _, _)| key.redact(&said));
            let said = text::line(&said);
            let reason = format!("{status}: {}", text::cut(&said, REASON_MAX_BYTES));
            let reason = reason.trim_end_matches([':', ' ']).to_owned();
            let again = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
            return Err(if again {
                SearchError::Unavailable { reason, retry_after }
            } else {
                SearchError::Rejected { reason }
            });
        }
        let body = body.map_err(|error| match error {
            BodyError::TooLarge => unavailable("its answer is too long"),
            BodyError::Cut => unavailable("the connection broke"),
        })?;
        let pages = formats::pages(server.engine, &body)
            .ok_or_else(|| unavailable("its answer is not of its format"))?;
        Ok(found(pages, query.count))
    }
}

impl Server {
    fn new(engine: Engine, base: &str, key: Option<Secret>) -> Result<Self, ConfigError> {
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

impl Query {
    /// The query within its bounds.
    fn bounded(&self) -> Self {
        let text = text::line(&self.text);
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

/// The results that can be used: with an address of the web, each once.
fn found(pages: Vec<formats::FoundPage>, count: usize) -> Vec<Found> {
    let mut all: Vec<Found> = Vec::new();
    for page in pages {
        if all.len() == count {
            break;
        }
        let Some(url) = WebUrl::parse(&page.url) else { continue };
        if all.iter().any(|one| one.url == url) {
            continue;
        }
        // Markup takes room of its own, within reason.
        let title = text::plain(text::cut(&page.title, 8 * TITLE_MAX_BYTES));
        let title = if title.is_empty() { url.as_str().to_owned() } else { title };
        all.push(Found {
            title: text::cut(&title, TITLE_MAX_BYTES).to_owned(),
            snippet: text::cut(
                &text::plain(text::cut(&page.snippet, 8 * SNIPPET_MAX_BYTES)),
                SNIPPET_MAX_BYTES,
            )
            .to_owned(),
            url,
        });
    }
    all
}

fn unavailable(reason: &str) -> SearchError {
    SearchError::Unavailable { reason: reason.to_owned(), retry_after: None }
}
