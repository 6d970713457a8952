//! The state that all turns of a node share: the parts of the service and the active turns.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::id::{AccountId, MessageId, NodeId};
use domain::limits::{DELEGATED_STEPS_MAX, STEPS_MAX};
use domain::step::ToolSpec;
use live::Live;
use machine::{GuestConnection, Machines};
use models::Catalog;
use plugins::{McpServer, PluginLibrary};
use store::turns::{self, Fence, TurnError};
use store::{Sql, Store};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::Workspaces;

use super::control_signal::{self, ControlSignal, ControlSignals};
use super::embeddings::EmbeddingService;
use super::environment::ServiceEnvironment;
use super::left_answers::LeftAnswers;
use super::machine_tools::MachineTools;
use super::metrics::AnswerMetrics;
use super::plugin_library::Plugins;
use super::templates::PromptTemplates;
use super::web::WebTools;

/// The limits of concurrent answers.
#[derive(Debug, Clone, Copy)]
pub struct DispatchLimits {
    /// The answers of one account; others wait in order.
    pub turns_per_account: u32,
    /// The answers on this node.
    pub turns: u32,
    /// The model steps of an answer.
    pub steps: u32,
    /// The model steps of a subagent's task.
    pub delegated_steps: u32,
}

impl Default for DispatchLimits {
    fn default() -> Self {
        Self { turns_per_account: 100, turns: 2000, steps: STEPS_MAX, delegated_steps: DELEGATED_STEPS_MAX }
    }
}

/// The state that the turns of this node share.
pub(crate) struct EngineShared {
    pub(super) parts: EngineParts,
    machine_tools: MachineTools,
    pub(super) wake: Notify,
    pub(super) metrics: AnswerMetrics,
    pub(super) left_answers: LeftAnswers,
    turns: Mutex<HashMap<MessageId, ActiveTurn>>,
    pub(super) tasks: TaskTracker,
    pub(super) shutdown: CancellationToken,
}

/// A turn that runs on this node.
pub(super) struct ActiveTurn {
    pub(super) account: AccountId,
    pub(super) epoch: u64,
    pub(super) signals: watch::Sender<ControlSignals>,
}

/// The parts of the service that the engine uses.
pub struct EngineParts {
    pub store: Store,
    pub environment: ServiceEnvironment,
    /// Answers that are being written.
    pub live: Arc<Live>,
    pub machines: Machines,
    pub catalog: Arc<Catalog>,
    /// Search by meaning, if it is configured.
    pub embeddings: Option<Arc<EmbeddingService>>,
    /// The skills and agents.
    pub plugins: Plugins,
    /// Web access that the configuration allows.
    pub web: WebTools,
    pub templates: Arc<PromptTemplates>,
    pub workspaces: Workspaces,
    /// The identity of this process as a holder of leases.
    pub node: NodeId,
    /// The bounds of concurrent work.
    pub limits: DispatchLimits,
}

impl EngineShared {
    /// Creates the state of a node without turns.
    pub(super) fn new(parts: EngineParts) -> Self {
        Self {
            parts,
            machine_tools: MachineTools::default(),
            wake: Notify::new(),
            metrics: AnswerMetrics::default(),
            left_answers: LeftAnswers::default(),
            turns: Mutex::default(),
            tasks: TaskTracker::new(),
            shutdown: CancellationToken::new(),
        }
    }

    /// Locks the table of active turns.
    pub(super) fn active_turns(&self) -> MutexGuard<'_, HashMap<MessageId, ActiveTurn>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Signals the turn, if it runs on this node.
    pub(super) fn signal_turn(&self, answer: MessageId, order: ControlSignal) {
        if let Some(seat) = self.active_turns().get(&answer) {
            control_signal::send_signal(&seat.signals, order);
        }
    }

    /// Returns the tools of the plugins' MCP servers in the connected machine. Servers with the name of one of the
    /// operator's are skipped.
    pub(super) async fn tools_of_machine(
        &self,
        account: AccountId,
        link: &GuestConnection,
        library: &PluginLibrary,
    ) -> Vec<ToolSpec> {
        let (taken, servers): (Vec<&McpServer>, Vec<&McpServer>) =
            library.servers.iter().partition(|server| self.parts.web.has_server(&server.spec.name));
        for server in taken {
            let reason = "the operator grants a server of that name, which holds";
            self.machine_tools.log_missing(&server.plugin, &server.spec.name, reason);
        }
        self.machine_tools.list_tools(account, link, &servers).await
    }

    /// Releases the lease for another attempt.
    pub(super) async fn give_back(&self, fence: Fence) {
        self.given_back(fence, turns::release_lease).await;
    }

    /// As [`Self::give_back`]; the attempt does not count.
    pub(super) async fn put_back(&self, fence: Fence) {
        self.given_back(fence, turns::put_back).await;
    }

    async fn given_back(&self, fence: Fence, how: fn(&mut dyn Sql, Fence) -> Result<(), TurnError>) {
        match self.parts.store.write(move |tx| how(tx, fence)).await {
            // It was completed, deleted or released before.
            Ok(()) | Err(TurnError::Fenced) => {}
            Err(error) => tracing::warn!(answer = %fence.answer, %error, "lease release failed"),
        }
    }
}
