//! One server: started when it is first needed, kept, started anew a bounded number of times.
//!
//! ```text
//!            start, negotiate, tools/list            tools/call
//!   down ----------------------------------> up -----------------> answer
//!    ^  \                                     |
//!    |   +-- rest, longer with each failure   |
//!    +----------------------------------------+   it ended, hung, or wrote what nobody asked for
//! ```
//! A call that was sent is never sent again.

use std::sync::Arc;
use std::time::Duration;

use ::mcp::{Answer, DISCOVER, PAGES_MAX, Tool};
use protocol::mcp::Server as Spec;
use protocol::tool::{FoundPassage, ToolOutput, WORKSPACE};
use serde_json::{Map, Value, json};
use tokio::process::Child;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, sleep_until, timeout};

use super::connection::{Connection, Timeouts, Unanswered};
use super::negotiation::{Agreement, Refusal, negotiate};
use crate::tools::{self, Confinement, Ended, Limits, ProtectedProcess, Request, Task, failed};

/// How long a server may take to begin: some load a whole language first.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a page of its list may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a call may take without a sign of progress, and with any number of them.
const CALL: Timeouts = Timeouts { quiet: Duration::from_secs(120), at_most: Duration::from_secs(600) };
/// How long a server that let a call wait may take to say that it lives.
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a message that wants no answer may take to be written.
pub(super) const TELL_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a list is believed where the server does not tell of changes.
const LIST_FRESH: Duration = Duration::from_mins(5);
/// Failures in a row after which it is left alone for good: until it changes, or the machine is started anew.
const FAILURES_MAX: u32 = 8;
/// The rest after the first failure; doubles with each in a row.
const RETRY_DELAY: Duration = Duration::from_secs(1);
const RETRY_DOUBLINGS_MAX: u32 = 6;
/// A rest that is nearly over is waited for.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(2);
/// How many calls of a server run at once.
const CALLS_MAX: usize = 16;

/// A server of this machine.
#[derive(Debug)]
pub(super) struct Server {
    spec: Spec,
    state: Mutex<ServerState>,
    calls: Semaphore,
}

#[derive(Debug, Default)]
struct ServerState {
    up: Option<Arc<RunningServer>>,
    /// Failures in a row.
    failures: u32,
    rest_until: Option<Instant>,
    /// What the last failure was.
    failure: String,
    /// It began with a handshake when it began last, so it is not asked for its revisions.
    shakes_hands: bool,
}

/// A life of the server, with the list that it told.
#[derive(Debug)]
struct RunningServer {
    connection: Connection,
    agreement: Agreement,
    tools: Mutex<Option<(Instant, Arc<[Tool]>)>>,
}

impl Server {
    pub(super) fn new(spec: Spec) -> Self {
        Self { spec, state: Mutex::default(), calls: Semaphore::new(CALLS_MAX) }
    }

    pub(super) fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Whether it runs; not while it begins.
    pub(super) fn is_up(&self) -> bool {
        self.state
            .try_lock()
            .is_ok_and(|state| state.up.as_ref().is_some_and(|up| up.connection.ended().is_none()))
    }

    /// Its tools; it is started when it does not run.
    pub(super) async fn tools(&self, limits: &Limits) -> Result<Arc<[Tool]>, String> {
        let up = self.up(limits).await?;
        self.list(&up).await
    }

    /// Calls one of its tools. Whatever goes wrong is told in the result.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        limits: &Limits,
    ) -> ToolOutput {
        match self.called(tool, arguments, limits).await {
            Ok(output) => output,
            Err(why) => failed(&why),
        }
    }

    async fn called(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        limits: &Limits,
    ) -> Result<ToolOutput, String> {
        let _turn = self.calls.acquire().await.map_err(|_| "the server is closed".to_owned())?;
        let up = self.up(limits).await.map_err(|why| format!("It was not called: {why}."))?;
        let tools = self.list(&up).await.map_err(|why| format!("It was not called: {why}."))?;
        let Some(tool) = tools.iter().find(|one| one.spec.name == tool) else {
            return Err("It was not called: the MCP server has no such tool.".to_owned());
        };
        let params = json!({ "name": tool.original, "arguments": arguments });
        let asked = up.connection.request("tools/call", params, CALL);
        let answer = tokio::select! {
            answer = asked => answer,
            why = tools::watch::resources(limits) => {
                up.connection.give_up(&why);
                return Err(format!("The MCP server was ended: {why}. The call may have run."));
            }
        };
        match answer {
            Ok(Answer::Result(result)) => {
                self.record_success().await;
                let output = ::mcp::output(&result, Some(WORKSPACE));
                output
                    .map(to_reply)
                    .ok_or_else(|| "The answer of the MCP server is not of the protocol.".to_owned())
            }
            Ok(Answer::Error(error)) => {
                self.record_success().await;
                Err(format!("The MCP server answered with an error: {}", error.message))
            }
            Err(Unanswered::NotSent) => Err(self.over(&up, "It was not called").await),
            Err(Unanswered::Ended) => Err(self.over(&up, "The call may have run").await),
            Err(Unanswered::Late) => {
                // One that hangs altogether is of no use to the next call either.
                let ping = if up.agreement.is_stateless { DISCOVER } else { "ping" };
                let lives = up.connection.request(ping, json!({}), Timeouts::of(PING_TIMEOUT)).await.is_ok();
                if !lives {
                    up.connection.give_up("it does not answer any more");
                }
                Err("The MCP server did not answer in time, and was told that nobody waits. The call may have \
                     run."
                    .to_owned())
            }
        }
    }

    /// What is said of a call whose server is gone.
    async fn over(&self, up: &RunningServer, what: &str) -> String {
        let why = up.connection.ended().map_or_else(|| "it ended".to_owned(), |ended| ended.why);
        format!("{what}: the MCP server is gone ({}).", with_words(&why, &up.connection))
    }

    async fn record_success(&self) {
        self.state.lock().await.failures = 0;
    }

    /// The server, started if need be. Others wait meanwhile.
    async fn up(&self, limits: &Limits) -> Result<Arc<RunningServer>, String> {
        let mut state = self.state.lock().await;
        if let Some(up) = &state.up {
            match up.connection.ended() {
                None => return Ok(up.clone()),
                Some(ended) => {
                    let why = with_words(&ended.why, &up.connection);
                    state.up = None;
                    state.failed(why, ended.at);
                }
            }
        }
        if state.failures >= FAILURES_MAX {
            return Err(format!("the MCP server failed {FAILURES_MAX} times in a row ({})", state.failure));
        }
        if let Some(until) = state.rest_until {
            if until.saturating_duration_since(Instant::now()) > RETRY_WAIT_MAX {
                return Err(format!(
                    "the MCP server failed and is left alone for a while ({})",
                    state.failure
                ));
            }
            sleep_until(until).await;
        }
        let begun = timeout(START_TIMEOUT, self.start(limits, state.shakes_hands)).await;
        match begun.unwrap_or_else(|_| Err(format!("it did not begin within {} s", START_TIMEOUT.as_secs())))
        {
            Ok(up) => {
                state.shakes_hands = !up.agreement.is_stateless;
                let up = Arc::new(up);
                state.up = Some(up.clone());
                Ok(up)
            }
            Err(why) => {
                state.shakes_hands = false;
                state.failed(why.clone(), Instant::now());
                Err(format!("the MCP server cannot be started ({why})"))
            }
        }
    }

    /// A new life of the server, as far as the protocol's beginning. One that ends when it is asked for its revisions,
    /// as some of older ones do, is started once more and not asked.
    async fn start(&self, limits: &Limits, shakes_hands: bool) -> Result<RunningServer, String> {
        let mut connection = spawn(&self.spec, limits).await?;
        let mut begun = negotiate(&connection, shakes_hands).await;
        if begun == Err(Refusal::EndedByProbe) {
            connection = spawn(&self.spec, limits).await?;
            begun = negotiate(&connection, true).await;
        }
        let agreement = begun.map_err(|refusal| with_words(&refusal.reason(&connection), &connection))?;
        Ok(RunningServer { connection, agreement, tools: Mutex::default() })
    }

    /// Returns the cached list of tools, or lists them again after the server has announced a change.
    async fn list(&self, up: &RunningServer) -> Result<Arc<[Tool]>, String> {
        let mut known = up.tools.lock().await;
        let changed = up.connection.took_list_change();
        let is_notified = up.connection.is_notified();
        let fresh = |at: &Instant| is_notified || at.elapsed() < LIST_FRESH;
        if let Some((_, tools)) = known.as_ref().filter(|(at, _)| !changed && fresh(at)) {
            return Ok(tools.clone());
        }
        if up.agreement.subscribes && !is_notified {
            // Before the list is asked for, so that no change is missed.
            let _sent = up.connection.subscribe(TELL_TIMEOUT).await;
        }
        match self.listed(up).await {
            Ok(tools) => {
                let tools: Arc<[Tool]> = tools.into();
                *known = Some((Instant::now(), tools.clone()));
                Ok(tools)
            }
            Err(why) => {
                // A server that cannot say what it has is begun anew.
                up.connection.give_up(&why);
                Err(with_words(&format!("the MCP server does not list its tools: {why}"), &up.connection))
            }
        }
    }

    async fn listed(&self, up: &RunningServer) -> Result<Vec<Tool>, String> {
        let mut tools = Vec::new();
        let mut cursor: Option<String> = None;
        let grants =
            |tool: &str| self.spec.tools.as_ref().is_none_or(|granted| granted.iter().any(|one| one == tool));
        for _ in 0..if up.agreement.has_tools { PAGES_MAX } else { 0 } {
            let params = cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
            let page = match up.connection.request("tools/list", params, Timeouts::of(LIST_TIMEOUT)).await {
                Ok(Answer::Result(page)) => page,
                Ok(Answer::Error(error)) => return Err(error.message),
                Err(Unanswered::Late) => return Err("it does not answer".to_owned()),
                Err(Unanswered::NotSent | Unanswered::Ended) => return Err("it ended".to_owned()),
            };
            cursor = ::mcp::tools_of_page(&self.spec.name, &page, grants, &mut tools)
                .map_err(|::mcp::NoPage| "its answer is not of the protocol".to_owned())?;
            if cursor.is_none() {
                break;
            }
        }
        Ok(tools)
    }
}

impl ServerState {
    fn failed(&mut self, why: String, at: Instant) {
        self.failures += 1;
        self.rest_until = Some(at + RETRY_DELAY * 2_u32.pow((self.failures - 1).min(RETRY_DOUBLINGS_MAX)));
        self.failure = why;
    }
}

/// The server's process, and those who see to it.
async fn spawn(spec: &Spec, limits: &Limits) -> Result<Connection, String> {
    use tokio::io::AsyncWriteExt;
    let request = Request {
        confinement: Confinement::of_server(limits),
        workspace: limits.workspace.clone(),
        task: Task::Server { server: spec.clone(), temp: limits.temp.clone() },
    };
    let line = tools::line(&request)?;
    // What is left behind is not swept away while it begins.
    let _running = tools::running().await;
    let mut child = tools::spawn("server", limits)?;
    let kept = ProtectedProcess::of(&child);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
        return Err("the server's process has no pipes".to_owned());
    };
    stdin.write_all(&line).await.map_err(|error| format!("the server cannot be started: {error}"))?;
    let connection = Connection::new(stdin, stdout, stderr);
    tokio::spawn(see_to(child, kept, limits.clone(), connection.ending()));
    Ok(connection)
}

/// Waits for the watcher's end, which comes after that of the server and all that it started; meanwhile looks at the
/// disk, which a server may fill while nobody calls it.
async fn see_to(
    mut child: Child,
    kept: Option<ProtectedProcess>,
    limits: Limits,
    ending: super::connection::Ending,
) {
    tokio::select! {
        _ = child.wait() => {}
        why = tools::watch::between_calls(&limits) => {
            ending.close(&why);
            let _ = child.wait().await;
        }
    }
    drop(kept);
}

/// Why something failed, with what the server said last.
fn with_words(why: &str, connection: &Connection) -> String {
    let words = connection.words();
    // The last line is its watcher's: how it ended.
    let (before, last) = words.rsplit_once('\n').unwrap_or(("", &words));
    let (before, ended) = match serde_json::from_str::<Ended>(last) {
        Ok(Ended::Exit { status, .. }) => (before, format!(" with status {status}")),
        Ok(Ended::Signal { signal, .. }) => (before, format!(" by signal {signal}")),
        Ok(Ended::Failed(why)) => (before, format!(": {why}")),
        Err(_) => (words.as_str(), String::new()),
    };
    match before.trim() {
        "" => format!("{why}{ended}"),
        before => format!("{why}{ended}; its last words: {before}"),
    }
}

fn to_reply(output: ::mcp::Output) -> ToolOutput {
    use domain::citation::Place;
    let passages = output.passages.into_iter().map(|passage| match passage.place {
        Place::File { path, page, lines } => {
            FoundPassage { path, page, lines, text: passage.text, ..FoundPassage::default() }
        }
        Place::Web { url, title } => {
            FoundPassage { url: Some(url), title, text: passage.text, ..FoundPassage::default() }
        }
    });
    ToolOutput {
        failed: output.failed,
        text: output.text,
        passages: passages.collect(),
        ..ToolOutput::default()
    }
}
