//! One server: started on first use, kept running, restarted a bounded number of times.
//!
//! ```text
//!            start, negotiate, tools/list            tools/call
//!   down ----------------------------------> up -----------------> answer
//!    ^  \                                     |
//!    |   +-- backoff, doubles with failures   |
//!    +----------------------------------------+   it ended, hung or flooded
//! ```
//! A call that was sent is never repeated.

use std::sync::Arc;
use std::time::Duration;

use ::mcp::{DISCOVER, PAGES_MAX, RpcResponse, ToolList};
use protocol::mcp::McpServerSpec as Spec;
use protocol::tool::{FoundPassage, ToolOutput, WORKSPACE};
use serde_json::{Map, Value, json};
use tokio::process::Child;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, sleep_until, timeout};

use super::connection::{AnswerTimeouts, McpConnection, Unanswered};
use super::negotiation::{Agreement, NegotiationError, negotiate_protocol};
use crate::tools::{
    self, ChildRequest, ChildTask, CommandExit, Confinement, ProcessRole, ProtectedProcess, ToolLimits,
    failed_output,
};

/// The timeout of starting a server: some load a language runtime first.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(30);
/// The timeout of one page of the tool list.
const LIST_TIMEOUT: Duration = Duration::from_secs(15);
/// The timeout of a call without progress, and its overall timeout.
const CALL: AnswerTimeouts =
    AnswerTimeouts { quiet: Duration::from_secs(120), at_most: Duration::from_secs(600) };
/// The timeout of the liveness check after a call timed out.
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of writing a notification.
pub(super) const TELL_TIMEOUT: Duration = Duration::from_secs(2);
/// The time that a tool list stays valid if the server does not announce changes.
const LIST_FRESH: Duration = Duration::from_mins(5);
/// The number of consecutive failures after which the server is disabled until it changes or the machine restarts.
const FAILURES_MAX: u32 = 8;
/// The backoff after the first failure; doubles with each consecutive one.
const RETRY_DELAY: Duration = Duration::from_secs(1);
const RETRY_DOUBLINGS_MAX: u32 = 6;
/// A backoff that ends within this time is waited for.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(2);
/// The number of concurrent calls per server.
const CALLS_MAX: usize = 16;

/// A server of this machine.
#[derive(Debug)]
pub(super) struct MachineMcpServer {
    spec: Spec,
    state: Mutex<ServerState>,
    calls: Semaphore,
}

#[derive(Debug, Default)]
struct ServerState {
    up: Option<Arc<RunningServer>>,
    /// The number of consecutive failures.
    failures: u32,
    rest_until: Option<Instant>,
    failure: String,
    /// True if the last start used a handshake, so that discovery is skipped.
    shakes_hands: bool,
}

/// A running server process with its tool list.
#[derive(Debug)]
struct RunningServer {
    connection: McpConnection,
    agreement: Agreement,
    tools: Mutex<Option<(Instant, Arc<ToolList>)>>,
}

impl MachineMcpServer {
    pub(super) fn new(spec: Spec) -> Self {
        Self { spec, state: Mutex::default(), calls: Semaphore::new(CALLS_MAX) }
    }

    pub(super) fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Returns true if it runs; false while it starts.
    pub(super) fn is_up(&self) -> bool {
        self.state
            .try_lock()
            .is_ok_and(|state| state.up.as_ref().is_some_and(|up| up.connection.connection_end().is_none()))
    }

    /// Returns its tools. Starts the server if it does not run.
    pub(super) async fn list_tools(&self, limits: &ToolLimits) -> Result<Arc<ToolList>, String> {
        let up = self.ensure_running(limits).await?;
        self.cached_tools(&up).await
    }

    /// Calls one of its tools. Failures are reported in the result.
    pub(super) async fn call_tool(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        limits: &ToolLimits,
    ) -> ToolOutput {
        match self.try_call(tool, arguments, limits).await {
            Ok(output) => output,
            Err(why) => failed_output(&why),
        }
    }

    async fn try_call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        limits: &ToolLimits,
    ) -> Result<ToolOutput, String> {
        let _turn = self.calls.acquire().await.map_err(|_| "the server is closed".to_owned())?;
        let up = self.ensure_running(limits).await.map_err(|why| format!("It was not called: {why}."))?;
        let tools = self.cached_tools(&up).await.map_err(|why| format!("It was not called: {why}."))?;
        let Some(tool) = tools.tools.iter().find(|one| one.spec.name == tool) else {
            return Err("It was not called: the MCP server has no such tool.".to_owned());
        };
        let params = json!({ "name": tool.original, "arguments": arguments });
        let request = up.connection.send_request("tools/call", params, CALL);
        let answer = tokio::select! {
            answer = request => answer,
            why = tools::watch::watch_resources(limits) => {
                up.connection.give_up(&why);
                return Err(format!("The MCP server was ended: {why}. The call may have run."));
            }
        };
        match answer {
            Ok(RpcResponse::Result(result)) => {
                self.record_success().await;
                let output = ::mcp::parse_output(&result, Some(WORKSPACE));
                output
                    .map(to_reply)
                    .ok_or_else(|| "The answer of the MCP server does not follow the protocol.".to_owned())
            }
            Ok(RpcResponse::Error(error)) => {
                self.record_success().await;
                Err(format!("The MCP server answered with an error: {}", error.message))
            }
            Err(Unanswered::NotSent) => Err(self.explain_end(&up, "It was not called").await),
            Err(Unanswered::Ended) => Err(self.explain_end(&up, "The call may have run").await),
            Err(Unanswered::Late) => {
                // A server that hangs is useless to the next call, too.
                let ping = if up.agreement.is_stateless { DISCOVER } else { "ping" };
                let lives = up
                    .connection
                    .send_request(ping, json!({}), AnswerTimeouts::from_duration(PING_TIMEOUT))
                    .await
                    .is_ok();
                if !lives {
                    up.connection.give_up("it no longer answers");
                }
                Err("The MCP server did not answer in time and the request was cancelled. The call may have \
                     run."
                    .to_owned())
            }
        }
    }

    /// Explains the failure of a call whose server has exited.
    async fn explain_end(&self, up: &RunningServer, what: &str) -> String {
        let why = up.connection.connection_end().map_or_else(|| "it ended".to_owned(), |ended| ended.why);
        format!("{what}: the MCP server has exited ({}).", with_log(&why, &up.connection))
    }

    async fn record_success(&self) {
        self.state.lock().await.failures = 0;
    }

    /// Returns the running server and starts it if necessary. Concurrent callers wait.
    async fn ensure_running(&self, limits: &ToolLimits) -> Result<Arc<RunningServer>, String> {
        let mut state = self.state.lock().await;
        if let Some(up) = &state.up {
            match up.connection.connection_end() {
                None => return Ok(up.clone()),
                Some(ended) => {
                    let why = with_log(&ended.why, &up.connection);
                    state.up = None;
                    state.record_failure(why, ended.at);
                }
            }
        }
        if state.failures >= FAILURES_MAX {
            return Err(format!("the MCP server failed {FAILURES_MAX} times in a row ({})", state.failure));
        }
        if let Some(until) = state.rest_until {
            if until.saturating_duration_since(Instant::now()) > RETRY_WAIT_MAX {
                return Err(format!("the MCP server failed and is not restarted yet ({})", state.failure));
            }
            sleep_until(until).await;
        }
        let started = timeout(START_TIMEOUT, self.start_process(limits, state.shakes_hands)).await;
        match started
            .unwrap_or_else(|_| Err(format!("it did not start within {} s", START_TIMEOUT.as_secs())))
        {
            Ok(up) => {
                state.shakes_hands = !up.agreement.is_stateless;
                let up = Arc::new(up);
                state.up = Some(up.clone());
                Ok(up)
            }
            Err(why) => {
                state.shakes_hands = false;
                state.record_failure(why.clone(), Instant::now());
                Err(format!("the MCP server cannot be started ({why})"))
            }
        }
    }

    /// Starts the process and negotiates the protocol. A server that exits on discovery, as some of older revisions
    /// do, is started once more without it.
    async fn start_process(&self, limits: &ToolLimits, shakes_hands: bool) -> Result<RunningServer, String> {
        let mut connection = spawn_server(&self.spec, limits).await?;
        let mut started = negotiate_protocol(&connection, shakes_hands).await;
        if started == Err(NegotiationError::EndedByProbe) {
            connection = spawn_server(&self.spec, limits).await?;
            started = negotiate_protocol(&connection, true).await;
        }
        let agreement =
            started.map_err(|refusal| with_log(&refusal.into_reason(&connection), &connection))?;
        Ok(RunningServer { connection, agreement, tools: Mutex::default() })
    }

    /// Returns the cached list of tools, or lists them again after the server has announced a change.
    async fn cached_tools(&self, up: &RunningServer) -> Result<Arc<ToolList>, String> {
        let mut known = up.tools.lock().await;
        // Discarded with its announcement, because the caller may be dropped before the new list arrives.
        if up.connection.took_list_change() {
            *known = None;
        }
        let is_notified = up.connection.is_notified();
        let fresh = |at: &Instant| is_notified || at.elapsed() < LIST_FRESH;
        if let Some((_, tools)) = known.as_ref().filter(|(at, _)| fresh(at)) {
            return Ok(tools.clone());
        }
        if up.agreement.subscribes && !is_notified {
            // Subscribes before listing, so that no change is missed.
            let _sent = up.connection.subscribe_list_changes(TELL_TIMEOUT).await;
        }
        match self.fetch_tools(up).await {
            Ok(tools) => {
                let tools = Arc::new(tools);
                *known = Some((Instant::now(), tools.clone()));
                Ok(tools)
            }
            Err(why) => {
                // A server that cannot list its tools is restarted.
                up.connection.give_up(&why);
                Err(with_log(&format!("the MCP server does not list its tools: {why}"), &up.connection))
            }
        }
    }

    async fn fetch_tools(&self, up: &RunningServer) -> Result<ToolList, String> {
        let mut tools = ToolList::default();
        let mut cursor: Option<String> = None;
        let grants =
            |tool: &str| self.spec.tools.as_ref().is_none_or(|granted| granted.iter().any(|one| one == tool));
        for _ in 0..if up.agreement.has_tools { PAGES_MAX } else { 0 } {
            let params = cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
            let page = match up
                .connection
                .send_request("tools/list", params, AnswerTimeouts::from_duration(LIST_TIMEOUT))
                .await
            {
                Ok(RpcResponse::Result(page)) => page,
                Ok(RpcResponse::Error(error)) => return Err(error.message),
                Err(Unanswered::Late) => return Err("it does not answer".to_owned()),
                Err(Unanswered::NotSent | Unanswered::Ended) => return Err("it ended".to_owned()),
            };
            cursor = ::mcp::tools_of_page(&self.spec.name, &page, grants, &mut tools)
                .map_err(|::mcp::NoPage| "its answer does not follow the protocol".to_owned())?;
            if cursor.is_none() {
                break;
            }
        }
        Ok(tools)
    }
}

impl ServerState {
    fn record_failure(&mut self, why: String, at: Instant) {
        self.failures += 1;
        self.rest_until = Some(at + RETRY_DELAY * 2_u32.pow((self.failures - 1).min(RETRY_DOUBLINGS_MAX)));
        self.failure = why;
    }
}

/// Starts the server's process and the tasks that supervise it.
async fn spawn_server(spec: &Spec, limits: &ToolLimits) -> Result<McpConnection, String> {
    use tokio::io::AsyncWriteExt;
    let request = ChildRequest {
        confinement: Confinement::of_server(limits),
        workspace: limits.workspace.clone(),
        task: ChildTask::Server { server: spec.clone(), temp: limits.temp.clone() },
        more: false,
        after_unpacking: None,
    };
    let line = tools::encode_request(&request)?;
    // Holds off the sweep of leftover processes while the server starts.
    let _running = tools::register_call().await;
    let mut child = tools::acquire_process(ProcessRole::Server, limits)?;
    let protection = ProtectedProcess::from_child(&child);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
        return Err("the server's process has no pipes".to_owned());
    };
    stdin.write_all(&line).await.map_err(|error| format!("the server cannot be started: {error}"))?;
    let connection = McpConnection::new(stdin, stdout, stderr);
    tokio::spawn(supervise_child(child, protection, limits.clone(), connection.to_closer()));
    Ok(connection)
}

/// Waits for the supervisor, which exits after the server and all its descendants. Meanwhile watches the disk,
/// which a server may fill between calls.
async fn supervise_child(
    mut child: Child,
    protection: Option<ProtectedProcess>,
    limits: ToolLimits,
    ending: super::connection::ConnectionCloser,
) {
    tokio::select! {
        _ = child.wait() => {}
        why = tools::watch::between_calls(&limits) => {
            ending.close_connection(&why);
            let _ = child.wait().await;
        }
    }
    drop(protection);
}

/// Adds the end of the server's log to a failure.
fn with_log(why: &str, connection: &McpConnection) -> String {
    let words = connection.log_tail();
    // The last line is the supervisor's report of the exit.
    let (before, last) = words.rsplit_once('\n').unwrap_or(("", &words));
    let (before, ended) = match serde_json::from_str::<CommandExit>(last) {
        Ok(CommandExit::Exit { status, .. }) => (before, format!(" with status {status}")),
        Ok(CommandExit::Signal { signal, .. }) => (before, format!(" by signal {signal}")),
        Ok(CommandExit::Failed(why)) => (before, format!(": {why}")),
        Err(_) => (words.as_str(), String::new()),
    };
    match before.trim() {
        "" => format!("{why}{ended}"),
        before => format!("{why}{ended}; its log ends with: {before}"),
    }
}

fn to_reply(output: ::mcp::McpCallOutput) -> ToolOutput {
    use domain::citation::PassagePlace;
    let passages = output.passages.into_iter().map(|passage| match passage.place {
        PassagePlace::File { path, page, lines, page_name } => {
            FoundPassage { path, page, lines, page_name, text: passage.text, ..FoundPassage::default() }
        }
        PassagePlace::Web { url, title } => {
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

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::super::connection::tests::connected_pair;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tool_list_change_survives_dropped_caller() {
        let spec = Spec {
            name: "registry".to_owned(),
            version: "1".to_owned(),
            command: String::new(),
            args: Vec::new(),
            env: [].into(),
            folder: String::new(),
            data_folder: None,
            tools: None,
        };
        let (connection, mut far) = connected_pair();
        // A server that may announce changes has answered this.
        let agreement = Agreement { is_stateless: false, has_tools: true, subscribes: false };
        let greeting =
            connection.send_request("initialize", json!({}), AnswerTimeouts::from_duration(LIST_TIMEOUT));
        let (greeted, ()) = tokio::join!(greeting, async {
            let asked = far.receive_message().await;
            far.send_message(json!({"jsonrpc": "2.0", "id": asked["id"], "result": {}})).await;
        });
        greeted.unwrap();
        let (server, up) =
            (MachineMcpServer::new(spec), RunningServer { connection, agreement, tools: Mutex::default() });
        let page = |tool: &str| json!({"tools": [{"name": tool, "inputSchema": {"type": "object"}}]});
        let (listed, ()) = tokio::join!(server.cached_tools(&up), async {
            let asked = far.receive_message().await;
            far.send_message(json!({"jsonrpc": "2.0", "method": ::mcp::LIST_CHANGED})).await;
            far.send_message(json!({"jsonrpc": "2.0", "id": asked["id"], "result": page("old")})).await;
        });
        assert_eq!(listed.unwrap().tools[0].original, "old");
        assert!(server.cached_tools(&up).now_or_never().is_none(), "it asks for the new list");
        let (listed, answered) = tokio::join!(
            server.cached_tools(&up),
            timeout(LIST_TIMEOUT, async {
                let _of_the_first_caller = (far.receive_message().await, far.receive_message().await);
                let asked = far.receive_message().await;
                far.send_message(json!({"jsonrpc": "2.0", "id": asked["id"], "result": page("new")})).await;
            })
        );
        assert!(answered.is_ok(), "it asks again");
        assert_eq!(listed.unwrap().tools[0].original, "new");
    }
}
