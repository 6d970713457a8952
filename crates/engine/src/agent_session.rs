//! A turn's session with the machine: waits for the machine, lists its tools and passes frames until it ends.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use domain::id::AccountId;
use domain::step::{StepCall, ToolSpec};
use domain::tool::MachineTool;
use domain::turn::HostFrame;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use machine::{GuestConnection, GuestSession, Machines, ProtocolViolation, SupervisorError};
use plugins::{McpServer, PluginLibrary};
use protocol::tool::SearchArguments;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::embeddings::EmbeddingService;
use super::machine_tools::MachineTools;
use super::turn_input::{SessionEvent, TurnInput};
use super::web::WebTools;

/// The maximum number of frames that wait to be sent in one session. A guest that lets more pile up loses the session.
const FRAMES_WAITING_MAX: usize = 256;
/// Half of the pause after the first failed session; doubles with each failure in a row.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
const RETRY_DOUBLINGS_MAX: u32 = 7;

/// The text of an answer whose machine was given up.
const NOT_STARTED: &str = "it cannot be started; the service's log says why";

/// Opens sessions with machines. Cheap to clone.
#[derive(Clone)]
pub(super) struct SessionOpener {
    machines: Machines,
    /// The tools that machines have reported.
    machine_tools: Arc<MachineTools>,
    /// Knows the operator's MCP servers.
    web: WebTools,
    embeddings: Option<Arc<EmbeddingService>>,
}

impl SessionOpener {
    pub(super) fn new(machines: Machines, web: WebTools, embeddings: Option<Arc<EmbeddingService>>) -> Self {
        Self { machines, machine_tools: Arc::default(), web, embeddings }
    }

    /// Returns the tools of the plugins' MCP servers in the connected machine. Servers with the name of one of the
    /// operator's are skipped.
    async fn tools_of_machine(
        &self,
        account: AccountId,
        connection: &GuestConnection,
        library: &PluginLibrary,
    ) -> Vec<ToolSpec> {
        let (taken, servers): (Vec<&McpServer>, Vec<&McpServer>) =
            library.servers.iter().partition(|server| self.web.has_server(&server.spec.name));
        for server in taken {
            let reason = "the operator grants a server of that name, which holds";
            self.machine_tools.log_missing(&server.plugin, &server.spec.name, reason);
        }
        self.machine_tools.list_tools(account, connection, &servers).await
    }
}

/// Opens a session and passes its frames until it ends. `failures` counts the sessions in a row without progress.
pub(super) async fn run_session(
    opener: SessionOpener,
    library: Arc<PluginLibrary>,
    account: AccountId,
    number: u32,
    failures: u32,
    inputs: mpsc::Sender<TurnInput>,
) {
    if failures > 0 {
        tokio::time::sleep(RETRY_PAUSE * 2_u32.pow(failures.min(RETRY_DOUBLINGS_MAX))).await;
    }
    let turn = SessionTurn { number, inputs };
    let ended = AssertUnwindSafe(exchange_frames(&opener, &library, account, &turn)).catch_unwind().await;
    let last = ended.unwrap_or_else(|_| {
        tracing::error!(%account, "session with a machine panicked");
        SessionEvent::Down
    });
    turn.send_event(last).await;
}

/// Runs one session and returns its last event.
async fn exchange_frames(
    opener: &SessionOpener,
    library: &PluginLibrary,
    account: AccountId,
    turn: &SessionTurn,
) -> SessionEvent {
    let connection = match opener.machines.when_running(account).await {
        Ok(connection) => connection,
        Err(SupervisorError::GivenUp(reason)) => {
            // The driver's reason may contain internals; it was logged with each failed start.
            tracing::warn!(%account, reason, "machine start failed: ending answers that need it");
            return SessionEvent::GivenUp(NOT_STARTED.to_owned());
        }
        Err(SupervisorError::NoMachine) => {
            return SessionEvent::GivenUp("the account has no machine".to_owned());
        }
        Err(SupervisorError::Stopped) => return SessionEvent::MachineStopped,
        Err(error) => {
            tracing::debug!(%account, %error, "machine connection failed");
            return SessionEvent::Down;
        }
    };
    let tools = opener.tools_of_machine(account, &connection, library).await;
    let (frames, mut waiting) = mpsc::channel(FRAMES_WAITING_MAX);
    let _handing = opener.embeddings.clone().map(|embeddings| {
        let (onward, handed) = mpsc::channel(FRAMES_WAITING_MAX);
        let frames = std::mem::replace(&mut waiting, handed);
        let handing = hand_queries(embeddings, account, connection.clone(), frames, onward);
        AbortOnDropHandle::new(tokio::spawn(handing))
    });
    let mut session = GuestSession::new(connection.clone(), waiting);
    if !turn.send_event(SessionEvent::Up { connection, frames, tools }).await {
        return SessionEvent::Down;
    }
    loop {
        match session.next_executor_frame().await {
            Ok(Some(frame)) => {
                if !turn.send_event(SessionEvent::Frame(frame)).await {
                    return SessionEvent::Down;
                }
            }
            Ok(None) => return SessionEvent::Down,
            Err(ProtocolViolation) => return SessionEvent::Violation,
        }
    }
}

/// Passes frames on. A search waits until the machine has the vector of its query; other frames do not wait for it, not
/// even the cancellation of the search, after which the machine ignores it.
async fn hand_queries(
    embeddings: Arc<EmbeddingService>,
    account: AccountId,
    guest: GuestConnection,
    mut frames: mpsc::Receiver<HostFrame>,
    onward: mpsc::Sender<HostFrame>,
) {
    let mut searches = FuturesUnordered::new();
    loop {
        let frame = tokio::select! {
            frame = frames.recv() => match frame {
                Some(HostFrame::Run(call)) => match query_of(&call) {
                    Some(query) => {
                        let (embeddings, guest) = (&embeddings, &guest);
                        searches.push(async move {
                            embeddings.hand_query(account, guest, &query).await;
                            HostFrame::Run(call)
                        });
                        continue;
                    }
                    None => HostFrame::Run(call),
                },
                Some(frame) => frame,
                None => return,
            },
            Some(search) = searches.next() => search,
        };
        if onward.send(frame).await.is_err() {
            return;
        }
    }
}

/// Returns the query of a search.
fn query_of(call: &StepCall) -> Option<String> {
    let is_search = MachineTool::from_name(&call.tool) == Some(MachineTool::Search);
    let arguments = is_search.then(|| serde_json::from_str::<SearchArguments>(&call.arguments).ok());
    arguments.flatten().map(|arguments| arguments.query)
}

/// The turn that a session belongs to.
struct SessionTurn {
    number: u32,
    inputs: mpsc::Sender<TurnInput>,
}

impl SessionTurn {
    /// Sends the turn an event. Returns true if the turn is still running.
    async fn send_event(&self, event: SessionEvent) -> bool {
        self.inputs.send(TurnInput::Session { number: self.number, event }).await.is_ok()
    }
}
