//! Runs the tools `web_search` and `web_fetch` on the host: nothing in a machine can call them.
//!
//! They are offered only if the question allows web search. The addresses that may be fetched are derived from the
//! conversation on each call: the addresses in its users' words, and the results of its own searches and fetches.
//! Citations of other agents, MCP servers and vendors add nothing: they may contain what these received.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use domain::answer::LogEntry;
use domain::citation::{Passage, PassagePlace};
use domain::id::AccountId;
use domain::step::{CallResult, Step, StepCall, StepOutcome, ToolSpec};
use domain::tool::{CallEffect, HostTool, Offer, ToolFacts};
use domain::turn::CallOutput;
use domain::turn::host::LoggedExchange;
use egress::{
    ConfigError, FetchConfig, Fetched, FetchedDocument, Fetcher, Mcp, McpError, McpOutput, McpTools,
    SearchClient, SearchQuery, SearchResult, UrlAllowlist, WebConfig, WebPage, WebUrl,
};
use futures_util::stream;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use workspace::{AskedPath, Destination, FileName, WorkspaceError, Workspaces};

use super::local_calls::failed_output;
use super::tool_selection::is_named;

/// The maximum number of calls to the web of one agent for an answer.
const CALLS_MAX: usize = 60;
/// The workspace folder of documents from the web.
const FOLDER: &str = "/web";
/// The text after the address of a document in a result.
const IS_DOCUMENT: &str = " is a document.";
/// The longest file name taken from the address of a document, in characters.
const NAME_MAX_CHARS: usize = 80;

/// The web tools that a question may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WebAccess {
    search: bool,
    fetch: bool,
}

impl WebAccess {
    /// Returns true if any web tool is available.
    #[must_use]
    pub const fn is_any(self) -> bool {
        self.search || self.fetch
    }

    /// Returns true if the web can be searched, rather than only pages with known addresses be read.
    #[must_use]
    pub const fn can_search(self) -> bool {
        self.search
    }

    /// Returns the access of an agent that names its tools.
    pub(super) fn restrict_to(self, named: Option<&[String]>) -> Self {
        Self {
            search: self.search && is_named(named, HostTool::WebSearch.facts()),
            fetch: self.fetch && is_named(named, HostTool::WebFetch.facts()),
        }
    }

    /// Returns true if the tool is one of them.
    pub(super) const fn has_tool(self, tool: HostTool) -> bool {
        match tool {
            HostTool::WebSearch => self.search,
            HostTool::WebFetch => self.fetch,
            HostTool::Agent | HostTool::Skill | HostTool::AskUser => false,
        }
    }
}

/// The web and the MCP servers that the operator lets answers use. Cheap to clone.
#[derive(Debug, Clone)]
pub struct WebTools {
    search: SearchClient,
    fetch: FetchConfig,
    /// Created on first use, because that reads the system's certificates.
    fetcher: Arc<OnceLock<Fetcher>>,
    mcp: Mcp,
    /// The MCP servers that were unavailable at the last listing. Each is logged once.
    away: Arc<Mutex<HashSet<String>>>,
}

impl WebTools {
    /// Returns true if the host runs a tool of this name: a built-in one, or a tool of an MCP server that the operator
    /// grants.
    pub(super) fn runs_tool(&self, tool: &str) -> bool {
        HostTool::from_name(tool).is_some() || self.mcp.is_named(tool)
    }

    /// Returns whether a tool that the host runs may run again.
    pub(super) fn can_repeat(&self, tool: &str) -> bool {
        match HostTool::from_name(tool) {
            Some(tool) => tool.facts().effect == CallEffect::Repeatable,
            None => self.mcp.is_repeatable(tool),
        }
    }

    /// Returns whether the operator grants an MCP server of this name.
    pub(super) fn has_server(&self, name: &str) -> bool {
        self.mcp.is_named(&format!("{name}{}", mcp::DIVIDER))
    }
}

#[derive(Deserialize)]
struct WebSearchArguments {
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

/// A call of a web tool, apart from its arguments.
pub(super) struct WebCall {
    pub(super) web: WebTools,
    pub(super) workspaces: Workspaces,
    pub(super) account: AccountId,
    pub(super) reading: WebPolicy,
    /// The step log of this agent.
    pub(super) log: Vec<LogEntry>,
}

/// The policy that an agent may read the web under.
#[derive(Debug, Clone)]
pub(super) struct WebPolicy {
    /// The web tools that the question may use.
    pub(super) reach: WebAccess,
    /// The addresses that may be fetched, besides the ones that this agent finds itself. Tasks between agents add
    /// nothing: they are not a user's words.
    pub(super) allowed: Arc<UrlAllowlist>,
    /// The country whose pages are preferred.
    pub(super) country: Option<String>,
}

impl WebPolicy {
    /// Returns the policy with the addresses of the log added.
    pub(super) fn with_log(&self, log: &[LogEntry]) -> Self {
        let mut allowed = (*self.allowed).clone();
        add_log(&mut allowed, log);
        Self { allowed: Arc::new(allowed), ..self.clone() }
    }
}

impl WebTools {
    /// Creates the clients; connects to nothing yet.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn new(config: WebConfig) -> Result<Self, ConfigError> {
        let (search, mcp) = (
            SearchClient::new(config.search)?.with_outgoing(&config.outgoing),
            Mcp::with_outgoing(config.mcp, &config.outgoing)?,
        );
        Ok(Self { search, fetch: config.fetch, fetcher: Arc::default(), mcp, away: Arc::default() })
    }

    /// Returns the web tools of a question that allows web search or not.
    #[must_use]
    pub fn access_for(&self, allowed: bool) -> WebAccess {
        WebAccess { search: allowed && self.search.is_configured(), fetch: allowed && self.fetch.enabled }
    }

    /// Lists the tools of the MCP servers that are available.
    pub(super) async fn mcp_tools(&self) -> Vec<ToolSpec> {
        if !self.mcp.is_configured() {
            return Vec::new();
        }
        let McpTools { tools, missing } = self.mcp.list_tools().await;
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
    pub(super) async fn call_mcp_tool(&self, tool: &str, arguments: &str) -> CallOutput {
        match self.mcp.call_tool(tool, arguments).await {
            Ok(McpOutput { text, passages, failed: has_failed }) => {
                let outcome = if has_failed { StepOutcome::Failed } else { StepOutcome::Done };
                CallOutput { outcome, passages, ..failed_output(text) }
            }
            Err(error @ McpError::Cut { .. }) => {
                CallOutput { outcome: StepOutcome::Interrupted, ..failed_output(format!("{error}.")) }
            }
            Err(error) => failed_output(format!("It was not called: {error}.")),
        }
    }

    /// Closes the sessions with the MCP servers.
    pub(super) async fn close_sessions(&self) {
        if self.mcp.is_configured() {
            self.mcp.close_sessions().await;
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

/// Returns the query of a search if its arguments are valid.
pub(super) fn query_of(arguments: &str) -> Option<String> {
    serde_json::from_str(arguments).ok().map(|WebSearchArguments { query, .. }| query)
}

/// Returns the addresses that a conversation allows before its present answer: in its users' words and in its log.
pub(super) fn allowed_by(earlier: &[LoggedExchange], question: &str) -> UrlAllowlist {
    let mut allowed = UrlAllowlist::new();
    for exchange in earlier {
        allowed.add_words(&exchange.question);
        add_log(&mut allowed, &exchange.log);
    }
    allowed.add_words(question);
    allowed
}

/// Adds the addresses that searches and fetches returned.
pub(super) fn add_log(allowed: &mut UrlAllowlist, log: &[LogEntry]) {
    for result in web_results(log) {
        for passage in &result.passages {
            if let PassagePlace::Web { url, .. } = &passage.place {
                add_address(allowed, url);
            }
        }
        // A failure repeats its own arguments, which are the model's words.
        if result.tool == HostTool::WebFetch.name() && result.outcome == StepOutcome::Done {
            find_addresses(&result.text).for_each(|address| add_address(allowed, address));
        }
    }
}

/// Adds one whole address.
fn add_address(allowed: &mut UrlAllowlist, address: &str) {
    if let Some(url) = WebUrl::parse(address) {
        allowed.add_url(&url);
    }
}

/// Finds the addresses in results of the web tools: at most one per line.
fn find_addresses(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| match line.strip_suffix('>') {
        Some(line) => line.rsplit_once('<').map(|(_, address)| address),
        None => line.split_once(IS_DOCUMENT).map(|(address, _)| address),
    })
}

/// Returns the results of the web tools.
fn web_results(log: &[LogEntry]) -> impl Iterator<Item = &CallResult> {
    let results = log.iter().filter_map(|entry| match entry {
        LogEntry::Result { result, .. } => Some(&**result),
        LogEntry::Step { .. } | LogEntry::Summary { .. } => None,
    });
    results.filter(|result| is_of_web(&result.tool))
}

/// Returns the number of this call among the agent's calls to the web, from 1. The calls of a step count in their
/// order, although they run concurrently, and independent of the lease that runs them.
fn number_of(log: &[LogEntry], call: &StepCall) -> usize {
    let steps = log.iter().filter_map(|entry| match entry {
        LogEntry::Step { step, .. } => Some(&**step),
        LogEntry::Result { .. } | LogEntry::Summary { .. } => None,
    });
    let calls: Vec<&StepCall> =
        steps.flat_map(Step::tool_calls).filter(|call| is_of_web(&call.tool)).collect();
    calls.iter().rposition(|other| other.id == call.id).map_or(calls.len(), |at| at) + 1
}

/// Returns true if the tool accesses the web.
fn is_of_web(tool: &str) -> bool {
    HostTool::from_name(tool).is_some_and(|tool| tool.facts().offer == Offer::WithWeb)
}

impl WebCall {
    /// Runs a call of one of the two tools.
    pub(super) async fn run_call(self, call: &StepCall) -> CallOutput {
        if number_of(&self.log, call) > CALLS_MAX {
            return failed_output(format!(
                "This answer has already made {CALLS_MAX} web calls, which is the maximum."
            ));
        }
        match HostTool::from_name(&call.tool).filter(|tool| self.reading.reach.has_tool(*tool)) {
            Some(HostTool::WebSearch) => self.search_web(&call.arguments).await,
            Some(HostTool::WebFetch) => self.fetch_page(&call.arguments).await,
            _ => failed_output("The user did not allow web access for this question."),
        }
    }

    async fn search_web(self, arguments: &str) -> CallOutput {
        let WebSearchArguments { query, count, language } = match serde_json::from_str(arguments) {
            Ok(arguments) => arguments,
            Err(error) => return failed_output(format!("Invalid arguments: {error}.")),
        };
        let ToolFacts { passages_default, passages_max, .. } = *HostTool::WebSearch.facts();
        let count = count.unwrap_or(passages_default as usize).clamp(1, passages_max as usize);
        let query = SearchQuery { text: query, count, language, country: self.reading.country };
        match self.web.search.search_web(&query).await {
            Ok(found) if found.is_empty() => CallOutput {
                outcome: StepOutcome::Done,
                text: "Nothing was found.".to_owned(),
                ..failed_output("")
            },
            Ok(found) => {
                let passages = found.into_iter().map(passage_of).collect();
                CallOutput { outcome: StepOutcome::Done, passages, ..failed_output("") }
            }
            Err(error) => failed_output(format!("The search failed: {error}.")),
        }
    }

    async fn fetch_page(self, arguments: &str) -> CallOutput {
        let FetchArguments { url, first_passage } = match serde_json::from_str(arguments) {
            Ok(arguments) => arguments,
            Err(error) => return failed_output(format!("Invalid arguments: {error}.")),
        };
        let allowed = self.reading.with_log(&self.log).allowed;
        let fetcher = match self.web.fetcher() {
            Ok(fetcher) => fetcher,
            Err(error) => return failed_output(format!("The fetch failed: {error}.")),
        };
        match fetcher.fetch_url(&url, first_passage, &allowed).await {
            Ok(Fetched::Page(page)) => page_output(page),
            Ok(Fetched::Document(document)) => self.keep_document(document).await,
            Err(error) => failed_output(format!("The fetch failed: {error}.")),
        }
    }

    /// Stores a document in the workspace: it is untrusted, so only the machine reads it.
    async fn keep_document(self, document: FetchedDocument) -> CallOutput {
        let url = document.url.as_str().to_owned();
        match self.store_document(document).await {
            Ok(path) => CallOutput {
                images: Vec::new(),
                outcome: StepOutcome::Done,
                text: format!("{url}{IS_DOCUMENT} It is now in the workspace: read it as {path}"),
                written: vec![path],
                passages: Vec::new(),
                unread: Vec::new(),
            },
            Err(error) => failed_output(format!(
                "{url} is a document that could not be put into the workspace: {error}."
            )),
        }
    }

    async fn store_document(&self, document: FetchedDocument) -> Result<String, WorkspaceError> {
        let workspace = self.workspaces.workspace_for(self.account);
        let folder = AskedPath::from_text(FOLDER);
        match workspace.create_folder(&folder).await {
            Ok(_) | Err(WorkspaceError::AlreadyExists) => {}
            Err(error) => return Err(error),
        }
        let name = FileName::from_upload(name_of(&document)).map_err(WorkspaceError::from)?;
        let content = stream::iter([Ok::<_, std::io::Error>(Bytes::from(document.bytes))]);
        let uploaded = workspace.upload_file(&Destination::Folder(folder), &name, content).await?;
        Ok(uploaded.path.to_string())
    }
}

fn passage_of(found: SearchResult) -> Passage {
    let SearchResult { title, url, snippet } = found;
    Passage { place: PassagePlace::Web { url: url.as_str().to_owned(), title }, text: snippet }
}

fn page_output(page: WebPage) -> CallOutput {
    let mut text = format!("# {}\n<{}>\n", page.title, page.url.as_str());
    if let Some(next) = page.next_passage {
        text.push_str(&format!("\nThe page is longer: continue with first_passage {next}.\n"));
    }
    if !page.links.is_empty() {
        text.push_str("\nIts links:\n");
        for link in &page.links {
            text.push_str(&format!("- {} <{}>\n", link.text, link.url.as_str()));
        }
    }
    CallOutput {
        images: Vec::new(),
        outcome: StepOutcome::Done,
        text,
        passages: page.passages,
        written: Vec::new(),
        unread: Vec::new(),
    }
}

/// Returns a file name for a document: the name in its address, and a digest of the address.
fn name_of(document: &FetchedDocument) -> String {
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
        document.kind.file_extension()
    )
}

#[cfg(test)]
mod tests;
