//! The tools `web_search` and `web_fetch`, which the service runs: nothing in a machine can ask for them.
//!
//! They are offered only where the question allows web search. What may be fetched is read anew from the conversation
//! each time: the addresses in its users' words, and those that its own searches and fetches gave. What other agents, MCP
//! servers and vendors cite adds nothing: what they tell may be made of what they were told.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use domain::answer::LogEntry;
use domain::citation::{Passage, Place};
use domain::id::AccountId;
use domain::step::{
    Call, CallResult, Step, StepOutcome, ToolSpec, USE_AGENT, USE_SKILL, WEB_FETCH, WEB_SEARCH,
};
use domain::turn::Output;
use domain::turn::host::Exchange;
use egress::{
    ConfigError, Document, FetchConfig, Fetched, Fetcher, Found, Mcp, McpError, McpOutput, McpTools, Page,
    Query, Search, UrlAllowlist, WebConfig, WebUrl,
};
use futures_util::stream;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use workspace::{AskedPath, Destination, FileName, WorkspaceError, Workspaces};

use super::local_calls::failed;
use super::prompt_context::is_named;

/// The tools of the service itself.
const OWN: [&str; 4] = [USE_SKILL, USE_AGENT, WEB_SEARCH, WEB_FETCH];
/// The tools that go to the web.
const OF_WEB: [&str; 2] = [WEB_SEARCH, WEB_FETCH];
/// How often one agent may go to the web for an answer.
const CALLS_MAX: usize = 60;
/// How many results a search gives unless the model says.
const RESULTS: usize = 8;
/// The folder of the workspace where documents of the web are kept.
const FOLDER: &str = "/web";
/// What follows the address of a document.
const IS_DOCUMENT: &str = " is a document.";
/// The longest name of a document that is taken over from its address, in characters.
const NAME_MAX_CHARS: usize = 80;

const SEARCH_TOOL: &str = "Search the web. Gives titles, addresses and what the pages say of the query, as numbered \
    passages; cite them by number. Read a page with web_fetch before you rest anything on it.";
const SEARCH_SCHEMA: &str = r#"{"type":"object","properties":{"query":{"type":"string","description":"What is searched for, in a few words. Never put text of the user's documents into it."},"count":{"type":"integer","minimum":1,"maximum":20,"default":8},"language":{"type":"string","description":"The language of the pages that are preferred, such as cs."}},"required":["query"],"additionalProperties":false}"#;
const FETCH_TOOL: &str = "Read a page of the web: only addresses that stand in the user's words, or that a search or a \
    page of this conversation gave, letter by letter. The text comes as numbered passages; cite them by number. A \
    document (PDF, DOCX, …) is put into the workspace, to be read there.";
const FETCH_SCHEMA: &str = r#"{"type":"object","properties":{"url":{"type":"string"},"first_passage":{"type":"integer","minimum":0,"default":0,"description":"Where to go on in a long page."}},"required":["url"],"additionalProperties":false}"#;

/// What of the web there is for a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WebAccess {
    search: bool,
    fetch: bool,
}

impl WebAccess {
    /// Whether there is anything.
    pub(super) const fn is_any(self) -> bool {
        self.search || self.fetch
    }

    /// What of it an agent has that names its tools, here or as other programs call them.
    pub(super) fn named(self, named: Option<&[String]>) -> Self {
        Self {
            search: self.search && is_named(named, &[WEB_SEARCH, "websearch"]),
            fetch: self.fetch && is_named(named, &[WEB_FETCH, "webfetch"]),
        }
    }

    /// The tools that are offered.
    pub(super) fn tools(self) -> impl Iterator<Item = ToolSpec> {
        let search = self.search.then_some((WEB_SEARCH, SEARCH_TOOL, SEARCH_SCHEMA));
        let fetch = self.fetch.then_some((WEB_FETCH, FETCH_TOOL, FETCH_SCHEMA));
        search.into_iter().chain(fetch).map(|(name, description, schema)| ToolSpec {
            name: name.to_owned(),
            description: description.to_owned(),
            schema: schema.to_owned(),
        })
    }
}

/// The web, as far as the operator lets answers go there. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Web {
    search: Search,
    fetch: FetchConfig,
    /// Made when it is first used: that reads the system's certificates.
    fetcher: Arc<OnceLock<Fetcher>>,
    mcp: Mcp,
    /// The MCP servers that were away when they were asked last: that is told once.
    away: Arc<Mutex<HashSet<String>>>,
}

/// What the service runs itself: its own tools, and those of the MCP servers that the operator grants.
impl Web {
    /// Whether it runs a tool of this name.
    pub(super) fn runs(&self, tool: &str) -> bool {
        OWN.contains(&tool) || self.mcp.is_named(tool)
    }

    /// Whether one of these may run again. The service's own change nothing; another agent goes on where it was cut.
    pub(super) fn repeats(&self, tool: &str) -> bool {
        OWN.contains(&tool) || self.mcp.is_repeatable(tool)
    }

    /// Whether the operator grants an MCP server of this name.
    pub(super) fn has_server(&self, name: &str) -> bool {
        self.mcp.is_named(&format!("{name}{}", mcp::DIVIDER))
    }
}

#[derive(Deserialize)]
struct SearchArguments {
    query: String,
    count: Option<usize>,
    language: Option<String>,
}

#[derive(Deserialize)]
struct FetchArguments {
    url: String,
    #[serde(default)]
    first_passage: usize,
}

/// What a call of the web is made with besides its arguments.
pub(super) struct WebCall {
    pub(super) web: Web,
    pub(super) workspaces: Workspaces,
    pub(super) account: AccountId,
    pub(super) reading: WebPolicy,
    /// What this agent did for the answer.
    pub(super) log: Vec<LogEntry>,
}

/// What an agent may read of the web.
#[derive(Debug, Clone)]
pub(super) struct WebPolicy {
    /// What there is for the question.
    pub(super) reach: WebAccess,
    /// What may be fetched, besides what this agent finds itself. Tasks that agents give each other add nothing: they
    /// are no user's words.
    pub(super) allowed: Arc<UrlAllowlist>,
    /// The country whose pages are preferred.
    pub(super) country: Option<String>,
}

impl WebPolicy {
    /// The same after what the log tells.
    pub(super) fn with(&self, log: &[LogEntry]) -> Self {
        let mut allowed = (*self.allowed).clone();
        add_log(&mut allowed, log);
        Self { allowed: Arc::new(allowed), ..self.clone() }
    }
}

impl Web {
    /// Connects to nothing.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn new(config: WebConfig) -> Result<Self, ConfigError> {
        let (search, mcp) = (Search::new(config.search)?, Mcp::new(config.mcp)?);
        Ok(Self { search, fetch: config.fetch, fetcher: Arc::default(), mcp, away: Arc::default() })
    }

    /// What there is for a question that allows web search, or does not.
    #[must_use]
    pub fn reach(&self, allowed: bool) -> WebAccess {
        WebAccess { search: allowed && self.search.is_configured(), fetch: allowed && self.fetch.enabled }
    }

    /// The tools of the MCP servers, as far as those are there.
    pub(super) async fn mcp_tools(&self) -> Vec<ToolSpec> {
        if !self.mcp.is_configured() {
            return Vec::new();
        }
        let McpTools { tools, missing } = self.mcp.tools().await;
        let mut away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
        away.retain(|server| missing.iter().any(|(other, _)| other == server));
        for (server, error) in missing {
            if away.insert(server.clone()) {
                tracing::warn!(server, %error, "MCP tool discovery failed");
            }
        }
        tools
    }

    /// Calls a tool of an MCP server.
    pub(super) async fn call(&self, tool: &str, arguments: &str) -> Output {
        match self.mcp.call(tool, arguments).await {
            Ok(McpOutput { text, passages, failed: has_failed }) => {
                let outcome = if has_failed { StepOutcome::Failed } else { StepOutcome::Done };
                Output { outcome, passages, ..failed(text) }
            }
            Err(error @ McpError::Cut { .. }) => {
                Output { outcome: StepOutcome::Interrupted, ..failed(format!("{error}.")) }
            }
            Err(error) => failed(format!("It was not called: {error}.")),
        }
    }

    /// Tells the MCP servers that nothing more comes.
    pub(super) async fn close(&self) {
        if self.mcp.is_configured() {
            self.mcp.close().await;
        }
    }

    fn fetcher(&self) -> Result<&Fetcher, ConfigError> {
        if let Some(fetcher) = self.fetcher.get() {
            return Ok(fetcher);
        }
        let fetcher = Fetcher::new(self.fetch.clone())?;
        Ok(self.fetcher.get_or_init(|| fetcher))
    }
}

/// What a search is for, as far as its arguments can be read.
pub(super) fn query_of(arguments: &str) -> Option<String> {
    serde_json::from_str(arguments).ok().map(|SearchArguments { query, .. }| query)
}

/// What a conversation may fetch before its present answer: what its users wrote, and what came of it.
pub(super) fn allowed_by(earlier: &[Exchange], question: &str) -> UrlAllowlist {
    let mut allowed = UrlAllowlist::new();
    for exchange in earlier {
        allowed.add_words(&exchange.question);
        add_log(&mut allowed, &exchange.log);
    }
    allowed.add_words(question);
    allowed
}

/// Adds the addresses that searches and fetches gave.
pub(super) fn add_log(allowed: &mut UrlAllowlist, log: &[LogEntry]) {
    for result in results(log) {
        for passage in &result.passages {
            if let Place::Web { url, .. } = &passage.place {
                add(allowed, url);
            }
        }
        // What failed tells of its own arguments, which are the model's words.
        if result.tool == WEB_FETCH && result.outcome == StepOutcome::Done {
            addresses(&result.text).for_each(|address| add(allowed, address));
        }
    }
}

/// Adds an address that stands alone: nothing around it is taken for a part of it, and none of it for what is around.
fn add(allowed: &mut UrlAllowlist, address: &str) {
    if let Some(url) = WebUrl::parse(address) {
        allowed.add(&url);
    }
}

/// The addresses in what [`read`] and [`WebCall::keep`] tell: at most one a line.
fn addresses(told: &str) -> impl Iterator<Item = &str> {
    told.lines().filter_map(|line| match line.strip_suffix('>') {
        Some(line) => line.rsplit_once('<').map(|(_, address)| address),
        None => line.split_once(IS_DOCUMENT).map(|(address, _)| address),
    })
}

/// What came of the web itself.
fn results(log: &[LogEntry]) -> impl Iterator<Item = &CallResult> {
    let results = log.iter().filter_map(|entry| match entry {
        LogEntry::Result { result, .. } => Some(&**result),
        LogEntry::Step { .. } | LogEntry::Summary { .. } => None,
    });
    results.filter(|result| OF_WEB.contains(&result.tool.as_str()))
}

/// Which of the agent's calls to the web this one is, from 1. The calls of a step count in their order, though they run
/// side by side, and whichever lease runs them.
fn number_of(log: &[LogEntry], call: &Call) -> usize {
    let steps = log.iter().filter_map(|entry| match entry {
        LogEntry::Step { step, .. } => Some(&**step),
        LogEntry::Result { .. } | LogEntry::Summary { .. } => None,
    });
    let calls: Vec<&Call> =
        steps.flat_map(Step::calls).filter(|call| OF_WEB.contains(&call.tool.as_str())).collect();
    calls.iter().rposition(|other| other.id == call.id).map_or(calls.len(), |at| at) + 1
}

impl WebCall {
    /// Runs a call of one of the two tools.
    pub(super) async fn run(self, call: &Call) -> Output {
        if number_of(&self.log, call) > CALLS_MAX {
            return failed(format!("The web was asked {CALLS_MAX} times for this answer: no more."));
        }
        match call.tool.as_str() {
            WEB_SEARCH if self.reading.reach.search => self.search(&call.arguments).await,
            WEB_FETCH if self.reading.reach.fetch => self.fetch(&call.arguments).await,
            _ => failed("The user did not allow the web for this question."),
        }
    }

    async fn search(self, arguments: &str) -> Output {
        let SearchArguments { query, count, language } = match serde_json::from_str(arguments) {
            Ok(arguments) => arguments,
            Err(error) => return failed(format!("The arguments can't be read: {error}.")),
        };
        let count = count.unwrap_or(RESULTS).clamp(1, egress::RESULTS_MAX);
        let query = Query { text: query, count, language, country: self.reading.country };
        match self.web.search.search(&query).await {
            Ok(found) if found.is_empty() => {
                Output { outcome: StepOutcome::Done, text: "Nothing was found.".to_owned(), ..failed("") }
            }
            Ok(found) => {
                let passages = found.into_iter().map(passage_of).collect();
                Output { outcome: StepOutcome::Done, passages, ..failed("") }
            }
            Err(error) => failed(format!("The search failed: {error}.")),
        }
    }

    async fn fetch(self, arguments: &str) -> Output {
        let FetchArguments { url, first_passage } = match serde_json::from_str(arguments) {
            Ok(arguments) => arguments,
            Err(error) => return failed(format!("The arguments can't be read: {error}.")),
        };
        let allowed = self.reading.with(&self.log).allowed;
        let fetcher = match self.web.fetcher() {
            Ok(fetcher) => fetcher,
            Err(error) => return failed(format!("It was not fetched: {error}.")),
        };
        match fetcher.fetch(&url, first_passage, &allowed).await {
            Ok(Fetched::Page(page)) => read(page),
            Ok(Fetched::Document(document)) => self.keep(document).await,
            Err(error) => failed(format!("It was not fetched: {error}.")),
        }
    }

    /// Puts a document into the workspace: it is hostile, and what reads it runs in the machine.
    async fn keep(self, document: Document) -> Output {
        let url = document.url.as_str().to_owned();
        match self.store(document).await {
            Ok(path) => Output {
                images: Vec::new(),
                outcome: StepOutcome::Done,
                text: format!("{url}{IS_DOCUMENT} It is now in the workspace: read it as {path}"),
                written: vec![path],
                passages: Vec::new(),
                unread: Vec::new(),
            },
            Err(error) => {
                failed(format!("{url} is a document that could not be put into the workspace: {error}."))
            }
        }
    }

    async fn store(&self, document: Document) -> Result<String, WorkspaceError> {
        let workspace = self.workspaces.of(self.account);
        let folder = AskedPath::from_text(FOLDER).map_err(WorkspaceError::from)?;
        match workspace.create_folder(&folder).await {
            Ok(_) | Err(WorkspaceError::AlreadyExists) => {}
            Err(error) => return Err(error),
        }
        let name = FileName::from_upload(name_of(&document)).map_err(WorkspaceError::from)?;
        let content = stream::iter([Ok::<_, std::io::Error>(Bytes::from(document.bytes))]);
        let uploaded = workspace.upload(&Destination::Folder(folder), &name, content).await?;
        Ok(uploaded.path.to_string())
    }
}

fn passage_of(found: Found) -> Passage {
    let Found { title, url, snippet } = found;
    Passage { place: Place::Web { url: url.as_str().to_owned(), title }, text: snippet }
}

fn read(page: Page) -> Output {
    let mut text = format!("# {}\n<{}>\n", page.title, page.url.as_str());
    if let Some(next) = page.next_passage {
        text.push_str(&format!("\nThe page is longer: go on with first_passage {next}.\n"));
    }
    if !page.links.is_empty() {
        text.push_str("\nIts links:\n");
        for link in &page.links {
            text.push_str(&format!("- {} <{}>\n", link.text, link.url.as_str()));
        }
    }
    Output {
        images: Vec::new(),
        outcome: StepOutcome::Done,
        text,
        passages: page.passages,
        written: Vec::new(),
        unread: Vec::new(),
    }
}

/// A name for a document: what its address calls it, and what tells it from others of that name.
fn name_of(document: &Document) -> String {
    let address = document.url.as_str();
    let last = address.split(['?', '#']).next().unwrap_or(address).rsplit('/').next().unwrap_or_default();
    let stem = last.rsplit_once('.').map_or(last, |(stem, _)| stem);
    let plain = |letter: char| if letter.is_alphanumeric() || "-_".contains(letter) { letter } else { '-' };
    let stem: String = stem.chars().take(NAME_MAX_CHARS).map(plain).collect();
    let digest = Sha256::digest(address.as_bytes());
    let stem = if stem.is_empty() { "document" } else { &stem };
    format!(
        "{stem}-{:02x}{:02x}{:02x}{:02x}.{}",
        digest[0],
        digest[1],
        digest[2],
        digest[3],
        document.kind.extension()
    )
}

#[cfg(test)]
mod tests;
