//! Fetches pages, with restrictions on URLs, hosts and sizes.
//!
//! A fetch is a sequence of GET requests: the URL, then its redirects; each is checked before it is requested.
//! Requests carry no cookies, no referrer, and nothing about the user. They are made on behalf of a person who
//! asked for the page, so `robots.txt` does not apply.

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

use crate::connections::{self, ResponseBodyError};
use crate::{ConfigError, UrlAllowlist, WebUrl};
use content::PageContentError;
use guard::{DnsLookup, Guarded, Resolver};

pub use content::DocumentKind;
pub use hosts::{InvalidHost, PRIVATE_HOSTS_MAX, PrivateHost};
pub use passages::{PASSAGE_MAX_BYTES, PASSAGES_MAX};
pub use readable::{LINK_TEXT_MAX_BYTES, LINKS_MAX};

/// The maximum number of redirects.
pub const REDIRECTS_MAX: usize = 5;
/// The longest body, compressed and decompressed, in bytes.
pub const BODY_MAX_BYTES: usize = 10 * 1024 * 1024;
/// The timeout of a fetch, including its wait for others.
const FETCH_TIMEOUT: Duration = Duration::from_secs(30);
/// The number of concurrent fetches.
const AT_ONCE_MAX: usize = 16;
/// The `Accept` header.
const ACCEPTED: &str = "text/html,application/xhtml+xml,application/pdf;q=0.9,text/plain;q=0.9,*/*;q=0.5";

/// The settings of fetching.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchConfig {
    pub enabled: bool,
    /// Private hosts that may be fetched from.
    pub private_hosts: Vec<PrivateHost>,
}

impl Default for FetchConfig {
    fn default() -> Self {
        Self { enabled: true, private_hosts: Vec::new() }
    }
}

/// The result of a fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    /// A page or another text.
    Page(WebPage),
    /// A document, not parsed: it is untrusted and must be parsed in the machine.
    Document(FetchedDocument),
}

impl Fetched {
    /// Returns the URL after redirects.
    #[must_use]
    pub fn url(&self) -> &WebUrl {
        match self {
            Self::Page(page) => &page.url,
            Self::Document(document) => &document.url,
        }
    }

    /// Adds the final URL and the links to the URLs that the conversation may fetch.
    pub fn add_to(&self, allowed: &mut UrlAllowlist) {
        allowed.add_url(self.url());
        if let Self::Page(page) = self {
            page.links.iter().for_each(|link| allowed.add_url(&link.url));
        }
    }
}

/// A page in readable form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebPage {
    /// The URL after redirects.
    pub url: WebUrl,
    /// The title, on one line, at most [`crate::TITLE_MAX_BYTES`]; the URL if the page has no title.
    pub title: String,
    /// The text, at most [`PASSAGES_MAX`] passages of at most [`PASSAGE_MAX_BYTES`] each.
    pub passages: Vec<Passage>,
    /// The links, at most [`LINKS_MAX`], without duplicates; links in the main content come first.
    pub links: Vec<PageLink>,
    /// The number of the next passage, if the page has more.
    pub next_passage: Option<usize>,
}

/// A link of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageLink {
    pub url: WebUrl,
    /// The text of the link, on one line, at most [`LINK_TEXT_MAX_BYTES`]; may be empty.
    pub text: String,
}

/// A document as received.
#[derive(Clone, PartialEq, Eq)]
pub struct FetchedDocument {
    /// The URL after redirects.
    pub url: WebUrl,
    /// The type of the document.
    pub kind: DocumentKind,
    /// The bytes, at most [`BODY_MAX_BYTES`].
    pub bytes: Vec<u8>,
}

impl fmt::Debug for FetchedDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (url, kind, length) = (&self.url, &self.kind, self.bytes.len());
        f.debug_struct("Document").field("url", url).field("kind", kind).field("length", &length).finish()
    }
}

/// The reason why a fetch failed. Suitable for a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The operator disabled fetching.
    #[error("fetching pages is disabled")]
    Disabled,
    /// The text is not a URL of a page.
    #[error("not a page URL: expected http or https with a host, without a user name")]
    NotAnAddress,
    /// The URL came neither from the user nor from a search or a fetch.
    #[error(
        "this URL may not be fetched: only exact URLs from the user's own words, or from a search or a page of this \
         conversation, are allowed"
    )]
    NotAllowed,
    /// The host or a redirect's host is not public, or the port is not allowed.
    #[error("this URL may not be fetched: its host is not public, or its port is not a web port")]
    Guarded,
    /// Too many redirects, or an invalid one.
    #[error("the URL redirects more than {REDIRECTS_MAX} times, or to an invalid URL")]
    Redirects,
    /// A temporary failure: unreachable, overloaded or out of order. A retry may succeed.
    #[error("the page is not available: {reason}")]
    Unavailable {
        reason: String,
        /// The delay that the server requested before a retry.
        retry_after: Option<Duration>,
    },
    /// The server refused the request.
    #[error("the server refused the request: {status}")]
    Refused {
        /// The status of the response.
        status: u16,
    },
    /// The body, compressed or decompressed, exceeds the limit.
    #[error("the page is longer than {} MiB", BODY_MAX_BYTES >> 20)]
    TooLarge,
    /// The response is neither text nor a document.
    #[error("the response is neither text nor a document: {mime}")]
    Unsupported { mime: String },
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
    /// Creates a fetcher. Loads the system's certificates but does not connect.
    ///
    /// # Errors
    /// [`ConfigError::Tls`].
    pub fn new(config: FetchConfig) -> Result<Self, ConfigError> {
        Self::with_look_up(config, guard::system_lookup())
    }

    fn with_look_up(config: FetchConfig, look_up: DnsLookup) -> Result<Self, ConfigError> {
        let hosts: Arc<[PrivateHost]> = config.private_hosts.into();
        let client = connections::client_builder()
            .no_proxy()
            .dns_resolver(Resolver { hosts: hosts.clone(), look_up })
            .build()
            .map_err(|_| ConfigError::Tls)?;
        Ok(Self { enabled: config.enabled, hosts, client, at_once: Arc::new(Semaphore::new(AT_ONCE_MAX)) })
    }

    /// Returns true if fetching is enabled.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Fetches a URL, if the conversation may. Returns the passages from `first_passage` on (0 for the beginning).
    /// Cancel safe.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn fetch_url(
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
        fetched.unwrap_or_else(|_| Err(page_unavailable_error("timeout")))
    }

    async fn fetch_in_turn(&self, url: WebUrl, first_passage: usize) -> Result<Fetched, FetchError> {
        let _turn = self.at_once.acquire().await.map_err(|_| FetchError::Disabled)?;
        let (url, response) = self.follow_redirects(url).await?;
        let mut kind = text_of(&response, CONTENT_TYPE);
        let coding = text_of(&response, CONTENT_ENCODING);
        let bytes =
            connections::read_response_body(response, BODY_MAX_BYTES).await.map_err(|error| match error {
                ResponseBodyError::TooLarge => FetchError::TooLarge,
                ResponseBodyError::Cut => page_unavailable_error("connection lost"),
            })?;
        kind.truncate(kind.floor_char_boundary(content::KIND_MAX_BYTES));
        let read = move || read_body(url, &kind, &coding, bytes, first_passage);
        // Decompressing and parsing take time, bounded by the size of the body.
        let read = tokio::task::spawn_blocking(read).await;
        read.unwrap_or_else(|_| Err(PageContentError::Broken.into()))
    }

    /// Follows redirects and returns the final URL and response.
    async fn follow_redirects(&self, url: WebUrl) -> Result<(WebUrl, Response), FetchError> {
        let mut url = url;
        for _ in 0..=REDIRECTS_MAX {
            let response = self.send_request(&url).await?;
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
            url =
                location.and_then(|location| url.resolve_reference(location)).ok_or(FetchError::Redirects)?;
        }
        Err(FetchError::Redirects)
    }

    async fn send_request(&self, url: &WebUrl) -> Result<Response, FetchError> {
        guard::check_url(url, &self.hosts).map_err(|Guarded| FetchError::Guarded)?;
        let request =
            self.client.get(url.as_url().clone()).header(ACCEPT, ACCEPTED).header(ACCEPT_ENCODING, "gzip");
        let response = request.send().await.map_err(|error| {
            if is_guarded(&error) {
                FetchError::Guarded
            } else {
                page_unavailable_error(&connections::transport_error_reason(error))
            }
        })?;
        // The lookup has checked this already; checking the actual peer is a cheap second line of defense.
        let peer = response.remote_addr().map(|peer| peer.ip());
        let named = hosts::is_named(&self.hosts, url.host());
        if peer.is_some_and(|peer| !named && !guard::is_public(peer)) {
            return Err(FetchError::Guarded);
        }
        Ok(response)
    }
}

/// Reads a body: the page from this passage on, or the document. `kind` and `coding` are its `Content-Type` and
/// `Content-Encoding`, in lower case. Blocks for a time bounded by [`BODY_MAX_BYTES`].
///
/// # Errors
/// [`FetchError::TooLarge`], [`FetchError::Unsupported`], or [`FetchError::Unavailable`] if it cannot be
/// decompressed.
pub fn read_body(
    url: WebUrl,
    kind: &str,
    coding: &str,
    bytes: Vec<u8>,
    first_passage: usize,
) -> Result<Fetched, FetchError> {
    content::read_content(url, kind, coding, bytes, first_passage).map_err(FetchError::from)
}

impl From<PageContentError> for FetchError {
    fn from(why: PageContentError) -> Self {
        match why {
            PageContentError::TooLarge => Self::TooLarge,
            PageContentError::Unsupported(mime) => Self::Unsupported { mime },
            PageContentError::Broken => page_unavailable_error("the body cannot be decompressed"),
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

/// Returns true if a connection failed because the lookup returned no permitted address.
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

fn page_unavailable_error(reason: &str) -> FetchError {
    FetchError::Unavailable { reason: reason.to_owned(), retry_after: None }
}

#[cfg(test)]
mod tests;
