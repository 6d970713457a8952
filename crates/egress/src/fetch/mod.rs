//! Pages that are read, under guard: which addresses, from which hosts, how much of what.
//!
//! A fetch is one GET after another: the address, then where it leads, each looked at before it is asked. It carries
//! no cookie, no referrer and no word of whose question it is for. It is made for a person who asked for the page or
//! for what the page tells, so it goes where a person would, whatever robots are told to leave alone.

mod content;
mod guard;
mod hosts;
mod passages;
mod readable;

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use domain::citation::Passage;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use reqwest::{Client, Response};
use tokio::sync::Semaphore;

use crate::connections::{self, BodyError};
use crate::{ConfigError, UrlAllowlist, WebUrl};
use content::Unreadable;
use guard::{DnsLookup, Guarded, Resolver};

pub use content::DocumentKind;
pub use hosts::{InvalidHost, PRIVATE_HOSTS_MAX, PrivateHost};
pub use passages::{PASSAGE_MAX_BYTES, PASSAGES_MAX};
pub use readable::{LINK_TEXT_MAX_BYTES, LINKS_MAX};

/// How many times a page may lead elsewhere.
pub const REDIRECTS_MAX: usize = 5;
/// The longest body, as it comes and unpacked, in bytes.
pub const BODY_MAX_BYTES: usize = 10 * 1024 * 1024;
/// How long a fetch may take in all, its wait for others included.
const FETCH_TIMEOUT: Duration = Duration::from_secs(30);
/// How many fetches are made at once.
const AT_ONCE_MAX: usize = 16;
/// What is asked for.
const ACCEPTED: &str = "text/html,application/xhtml+xml,application/pdf;q=0.9,text/plain;q=0.9,*/*;q=0.5";

/// Whether and from where pages are fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchConfig {
    /// Whether pages are fetched at all.
    pub enabled: bool,
    /// Hosts that may be fetched from although they are private.
    pub private_hosts: Vec<PrivateHost>,
}

impl Default for FetchConfig {
    fn default() -> Self {
        Self { enabled: true, private_hosts: Vec::new() }
    }
}

/// What was fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    /// A page, or another text.
    Page(Page),
    /// A document, unread: it is hostile, and what reads it runs in the machine.
    Document(Document),
}

impl Fetched {
    /// Where it came from in the end.
    #[must_use]
    pub fn url(&self) -> &WebUrl {
        match self {
            Self::Page(page) => &page.url,
            Self::Document(document) => &document.url,
        }
    }

    /// Adds what came back to the addresses that the conversation may fetch: where it came from, and its links.
    pub fn add_to(&self, allowed: &mut UrlAllowlist) {
        allowed.add(self.url());
        if let Self::Page(page) = self {
            page.links.iter().for_each(|link| allowed.add(&link.url));
        }
    }
}

/// A page as a reader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Where it came from in the end.
    pub url: WebUrl,
    /// Its title, on one line, at most [`crate::TITLE_MAX_BYTES`]; its address when it has none.
    pub title: String,
    /// Its text, at most [`PASSAGES_MAX`] passages of at most [`PASSAGE_MAX_BYTES`] each.
    pub passages: Vec<Passage>,
    /// Where it leads, at most [`LINKS_MAX`], each once; what stands in its text comes first.
    pub links: Vec<Link>,
    /// The number of the passage with which the rest begins, when this is not all.
    pub next_passage: Option<usize>,
}

/// A link of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Where it leads.
    pub url: WebUrl,
    /// What it says, on one line, at most [`LINK_TEXT_MAX_BYTES`]; may be empty.
    pub text: String,
}

/// A document, as it came.
#[derive(Clone, PartialEq, Eq)]
pub struct Document {
    /// Where it came from in the end.
    pub url: WebUrl,
    /// What it is.
    pub kind: DocumentKind,
    /// The document, at most [`BODY_MAX_BYTES`].
    pub bytes: Vec<u8>,
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (url, kind, length) = (&self.url, &self.kind, self.bytes.len());
        f.debug_struct("Document").field("url", url).field("kind", kind).field("length", &length).finish()
    }
}

/// Why nothing was fetched. Fit for a model's eyes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The operator turned it off.
    #[error("pages are not fetched here")]
    Disabled,
    /// The text is no address of a page.
    #[error("this is no address of a page: http or https with a host is wanted, without a user's name")]
    NotAnAddress,
    /// The address came neither from the user nor from a search or a fetch.
    #[error(
        "this address may not be fetched: only those are that stand in the user's own words, or that a search or a \
         page of this conversation gave, letter by letter"
    )]
    NotAllowed,
    /// The host, or one that it leads to, is not public, or the port is not one of the web.
    #[error("this address may not be fetched: its host is not public, or its port is not one of the web")]
    Guarded,
    /// It leads from one place to the next too often, or nowhere.
    #[error("the address leads elsewhere more than {REDIRECTS_MAX} times, or to no page")]
    Redirects,
    /// Unreachable, overloaded or out of order: worth trying again.
    #[error("the page is not available: {reason}")]
    Unavailable {
        /// What happened.
        reason: String,
        /// When the server asked to be tried again.
        retry_after: Option<Duration>,
    },
    /// The server does not give the page.
    #[error("the server does not give the page: {status}")]
    Refused {
        /// The status that it answered with.
        status: u16,
    },
    /// The body, as it came or unpacked, is longer than may be.
    #[error("the page is longer than {} MiB", BODY_MAX_BYTES >> 20)]
    TooLarge,
    /// What came is neither text nor a document.
    #[error("what stands there is neither text nor a document: {mime}")]
    Unsupported {
        /// What it is said to be.
        mime: String,
    },
}

/// Fetches pages. Cheap to clone.
#[derive(Clone)]
pub struct Fetcher {
    enabled: bool,
    hosts: Arc<[PrivateHost]>,
    client: Client,
    at_once: Arc<Semaphore>,
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher").field("enabled", &self.enabled).finish_non_exhaustive()
    }
}

impl Fetcher {
    /// Connects to nothing, but reads the system's certificates.
    ///
    /// # Errors
    /// [`ConfigError::Tls`].
    pub fn new(config: FetchConfig) -> Result<Self, ConfigError> {
        Self::with_look_up(config, guard::system())
    }

    fn with_look_up(config: FetchConfig, look_up: DnsLookup) -> Result<Self, ConfigError> {
        let hosts: Arc<[PrivateHost]> = config.private_hosts.into();
        let client = connections::builder()
            .no_proxy()
            .dns_resolver(Resolver { hosts: hosts.clone(), look_up })
            .build()
            .map_err(|_| ConfigError::Tls)?;
        Ok(Self { enabled: config.enabled, hosts, client, at_once: Arc::new(Semaphore::new(AT_ONCE_MAX)) })
    }

    /// Whether pages are fetched at all.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Fetches what stands at this address, if the conversation may. Of a long page the passages from `first_passage`
    /// (0 for the beginning) on are given. Cancel safe.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn fetch(
        &self,
        address: &str,
        first_passage: usize,
        allowed: &UrlAllowlist,
    ) -> Result<Fetched, FetchError> {
        if !self.enabled {
            return Err(FetchError::Disabled);
        }
        let url = WebUrl::parse(address).ok_or(FetchError::NotAnAddress)?;
        if !allowed.contains(address) {
            return Err(FetchError::NotAllowed);
        }
        let fetched = tokio::time::timeout(FETCH_TIMEOUT, self.fetch_in_turn(url, first_passage)).await;
        fetched.unwrap_or_else(|_| Err(unavailable("it took too long")))
    }

    async fn fetch_in_turn(&self, url: WebUrl, first_passage: usize) -> Result<Fetched, FetchError> {
        let _turn = self.at_once.acquire().await.map_err(|_| FetchError::Disabled)?;
        let (url, response) = self.follow(url).await?;
        let mut kind = text_of(&response, CONTENT_TYPE);
        let coding = text_of(&response, CONTENT_ENCODING);
        let bytes = connections::body(response, BODY_MAX_BYTES).await.map_err(|error| match error {
            BodyError::TooLarge => FetchError::TooLarge,
            BodyError::Cut => unavailable("the connection broke"),
        })?;
        kind.truncate(kind.floor_char_boundary(content::KIND_MAX_BYTES));
        let read = move || read_body(url, &kind, &coding, bytes, first_passage);
        // Unpacking and reading take a while, within the body's bound.
        let read = tokio::task::spawn_blocking(read).await;
        read.unwrap_or_else(|_| Err(Unreadable::Broken.into()))
    }

    /// The answer of the place to which the address leads in the end.
    async fn follow(&self, url: WebUrl) -> Result<(WebUrl, Response), FetchError> {
        let mut url = url;
        for _ in 0..=REDIRECTS_MAX {
            let response = self.ask(&url).await?;
            let status = response.status();
            if status.is_success() {
                return Ok((url, response));
            }
            if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
                let retry_after = connections::retry_after(response.headers());
                let again = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
                return Err(if again {
                    FetchError::Unavailable { reason: status.to_string(), retry_after }
                } else {
                    FetchError::Refused { status: status.as_u16() }
                });
            }
            let location =
                response.headers().get(LOCATION).and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
            url = location.and_then(|location| url.join(location)).ok_or(FetchError::Redirects)?;
        }
        Err(FetchError::Redirects)
    }

    async fn ask(&self, url: &WebUrl) -> Result<Response, FetchError> {
        guard::check(url, &self.hosts).map_err(|Guarded| FetchError::Guarded)?;
        let request =
            self.client.get(url.url().clone()).header(ACCEPT, ACCEPTED).header(ACCEPT_ENCODING, "gzip");
        let response = request.send().await.map_err(|error| {
            if is_guarded(&error) { FetchError::Guarded } else { unavailable(&connections::reason(error)) }
        })?;
        // The look-up has seen to this already; it costs nothing to look at who answers.
        let peer = response.remote_addr().map(|peer| peer.ip());
        let named = hosts::is_named(&self.hosts, url.host());
        if peer.is_some_and(|peer| !named && !guard::is_public(peer)) {
            return Err(FetchError::Guarded);
        }
        Ok(response)
    }
}

/// Whether the host is one of the public web, as far as its name or number tells.
pub(crate) fn is_public(url: &WebUrl) -> bool {
    guard::check(url, &[]).is_ok()
}

/// What a body comes to: the page from this passage on, or the document. `kind` and `coding` are its Content-Type and
/// Content-Encoding, in lower case. Takes a while, within [`BODY_MAX_BYTES`].
///
/// # Errors
/// [`FetchError::TooLarge`], [`FetchError::Unsupported`], or that it cannot be unpacked.
pub fn read_body(
    url: WebUrl,
    kind: &str,
    coding: &str,
    bytes: Vec<u8>,
    first_passage: usize,
) -> Result<Fetched, FetchError> {
    content::read(url, kind, coding, bytes, first_passage).map_err(FetchError::from)
}

impl From<Unreadable> for FetchError {
    fn from(why: Unreadable) -> Self {
        match why {
            Unreadable::TooLarge => Self::TooLarge,
            Unreadable::Unsupported(mime) => Self::Unsupported { mime },
            Unreadable::Broken => unavailable("what came cannot be unpacked"),
        }
    }
}

fn text_of(response: &Response, name: reqwest::header::HeaderName) -> String {
    response
        .headers()
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("")
        .trim()
        .to_ascii_lowercase()
}

/// Whether a connection failed because the look-up gave no address that may be asked.
fn is_guarded(error: &reqwest::Error) -> bool {
    let mut source = error.source();
    while let Some(inner) = source {
        if inner.is::<Guarded>() {
            return true;
        }
        source = inner.source();
    }
    false
}

fn unavailable(reason: &str) -> FetchError {
    FetchError::Unavailable { reason: reason.to_owned(), retry_after: None }
}

#[cfg(test)]
mod tests;
