//! Dispatch: takes accepted answers under a lease and sees each to its end.
//!
//! The store is the truth: a row for each answer in progress. This node claims rows that nobody holds, runs
//! a task for each (see [`turn`]), renews its leases, and hears from other use cases about stops. Whatever it misses, the next look at the store shows.

mod agent_session;
mod control_signal;
pub mod environment;
mod give_up;
mod images;
mod local_calls;
mod machine_tools;
pub mod metrics;
mod plugin_library;
mod prompt_context;
mod settle;
mod setup;
mod spans;
mod subagent;
mod subagent_output;
pub mod templates;
mod turn;
mod turn_store;
mod web;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::id::{AccountId, MessageId, NodeId};
use domain::step::ToolSpec;
use domain::time::Timestamp;
use live::Live;
use machine::{GuestConnection, Machines};
use models::Catalog;
use plugins::{Library, McpServer};
use store::turns::{self, ClaimOptions, ClaimedTurn, Fence, HeldLease, TurnError};
use store::{Sql, Store, StoreError};
use tokio::sync::{Notify, watch};
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::Workspaces;

use self::control_signal::{ControlSignal, ControlSignals};
use self::machine_tools::MachineTools;

pub use environment::Environment;
pub use metrics::AnswerMetrics;
pub use plugin_library::{Plugins, PluginsConfig, PluginsError, plugins_folder};
pub use prompt_context::PromptOptions;
pub use settle::settle_surely;
pub use setup::first_reservation;
pub use spans::accept;
pub use templates::PromptTemplates;
pub use web::{Web, WebAccess};

/// How long a lease holds without being renewed.
const LEASE: Duration = Duration::from_secs(30);
/// How often leases are renewed.
const RENEW_EVERY: Duration = Duration::from_secs(8);
/// How often the store is looked at when nobody says that there is something to claim.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// How long an answer that could not be worked on rests before it is given back; doubles with each attempt in
/// a row, because whatever failed is likely to fail again.
const REST: Duration = Duration::from_secs(1);
const REST_DOUBLINGS_MAX: u32 = 5;
/// How often an answer is taken up without anything of it being committed before it is given up: with the rests
/// between them, that takes some four minutes.
const ATTEMPTS_MAX: u32 = 12;
/// Answers that one look claims.
const CLAIMS_PER_LOOK: u32 = 256;

/// How much is worked on at once.
#[derive(Debug, Clone, Copy)]
pub struct DispatchLimits {
    /// Answers of one account at once; the rest wait in order.
    pub turns_per_account: u32,
    /// Answers on this node at once.
    pub turns: u32,
}

impl Default for DispatchLimits {
    fn default() -> Self {
        Self { turns_per_account: 100, turns: 2000 }
    }
}

/// Sees answers to their end. Cheap to clone.
#[derive(Clone)]
pub struct Dispatch {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    parts: Parts,
    machine_tools: MachineTools,
    wake: Notify,
    metrics: AnswerMetrics,
    turns: Mutex<HashMap<MessageId, ActiveTurn>>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

/// A turn that runs here.
struct ActiveTurn {
    account: AccountId,
    epoch: u64,
    signals: watch::Sender<ControlSignals>,
}

/// What dispatch works with.
pub struct Parts {
    /// The store.
    pub store: Store,
    /// Time and randomness.
    pub environment: Environment,
    /// Where answers are shown.
    pub live: Arc<Live>,
    /// The accounts' machines.
    pub machines: Machines,
    /// The models.
    pub catalog: Arc<Catalog>,
    /// The skills and agents.
    pub plugins: Plugins,
    /// The web, as far as answers may go there.
    pub web: Web,
    /// What models are told.
    pub templates: Arc<PromptTemplates>,
    /// Files.
    pub workspaces: Workspaces,
    /// This process's identity, the same after a restart.
    pub node: NodeId,
    /// How much is worked on at once.
    pub limits: DispatchLimits,
}

impl Dispatch {
    /// Takes over what an earlier process of this node held, and begins to work.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn begin(parts: Parts) -> Result<Self, StoreError> {
        let node = parts.node;
        parts.store.write(move |tx| turns::take_over(tx, node)).await?;
        let shared = Arc::new(Shared {
            parts,
            machine_tools: MachineTools::default(),
            wake: Notify::new(),
            metrics: AnswerMetrics::default(),
            turns: Mutex::default(),
            tasks: TaskTracker::new(),
            shutdown: CancellationToken::new(),
        });
        shared.tasks.spawn(tend(shared.clone()));
        Ok(Self { shared })
    }

    /// What answers did here.
    #[must_use]
    pub fn metrics(&self) -> &AnswerMetrics {
        &self.shared.metrics
    }

    /// A question of the account was accepted: look at once, unless it has to wait for one of the account's that
    /// is worked on here. When that is over it is looked for.
    pub fn accepted(&self, account: AccountId) {
        let full = self.shared.parts.limits.turns_per_account as usize;
        let working =
            self.shared.active_turns().values().filter(|seat| seat.account == account).take(full).count();
        if working < full {
            self.wake();
        }
    }

    /// Something may be worked on that could not be before: look at once.
    pub fn wake(&self) {
        self.shared.wake.notify_one();
    }

    /// The user wants the answer stopped. The store knows it already.
    pub fn stop(&self, answer: MessageId) {
        self.shared.tell(answer, ControlSignal::Stop);
        self.wake(); // nobody may hold it: then only its end is left to be done
    }

    /// Sees `work` through also when the caller goes away meanwhile. The end of the service waits for it.
    ///
    /// # Errors
    /// When it panics.
    pub async fn see_through<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, JoinError> {
        self.shared.tasks.spawn(work).await
    }

    /// Runs `work` in the background until it is done or the service ends, which waits for it.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let shutdown = self.shared.shutdown.clone();
        self.shared.tasks.spawn(async move { shutdown.run_until_cancelled(work).await });
    }

    /// How many answers are being worked on here.
    #[must_use]
    pub fn turns(&self) -> usize {
        self.shared.active_turns().len()
    }

    /// Ends all tasks. Answers under way are given back: they go on when a node claims them again.
    pub async fn shutdown(&self) {
        self.shared.shutdown.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
        self.shared.parts.web.close().await;
    }
}

impl Shared {
    fn active_turns(&self) -> MutexGuard<'_, HashMap<MessageId, ActiveTurn>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the turn, if it runs here.
    fn tell(&self, answer: MessageId, order: ControlSignal) {
        if let Some(seat) = self.active_turns().get(&answer) {
            control_signal::give(&seat.signals, order);
        }
    }

    /// The tools of the MCP servers that plugins bring, in the machine at the end of the link. A server that is called
    /// like one of the operator's is passed over.
    async fn tools_of_machine(
        &self,
        account: AccountId,
        link: &GuestConnection,
        library: &Library,
    ) -> Vec<ToolSpec> {
        let (taken, servers): (Vec<&McpServer>, Vec<&McpServer>) =
            library.servers.iter().partition(|server| self.parts.web.has_server(&server.spec.name));
        for server in taken {
            let reason = "the operator grants a server of that name, which holds";
            self.machine_tools.tell(&server.plugin, &server.spec.name, reason);
        }
        self.machine_tools.of(account, link, &servers).await
    }

    fn activate(self: &Arc<Self>, claimed: ClaimedTurn) {
        let (signals, given) = watch::channel(ControlSignals::default());
        let Fence { answer, epoch, .. } = claimed.fence;
        self.active_turns().insert(answer, ActiveTurn { account: claimed.account, epoch, signals });
        let guard = ActiveTurnGuard { shared: self.clone(), answer, epoch };
        self.tasks.spawn(async move { turn::run(&guard.shared, claimed, given).await });
    }

    async fn renew_and_claim(self: &Arc<Self>, renewed: &mut Timestamp) -> Result<(), StoreError> {
        let now = self.parts.environment.now();
        if now.since(*renewed) >= RENEW_EVERY {
            self.renew().await?;
            *renewed = now;
        }
        self.claim().await
    }

    async fn claim(self: &Arc<Self>) -> Result<(), StoreError> {
        let room = (self.parts.limits.turns as usize).saturating_sub(self.active_turns().len());
        let now = self.parts.environment.now();
        let terms = ClaimOptions {
            node: self.parts.node,
            now,
            lease_until: now.plus(LEASE),
            per_account_max: self.parts.limits.turns_per_account,
            limit: CLAIMS_PER_LOOK.min(u32::try_from(room).unwrap_or(u32::MAX)),
        };
        // Those that are to be stopped need no room: they only end.
        let claim = move |tx: &mut dyn Sql| {
            let stopped = turns::claim_stopped(tx, &terms)?;
            let claimed = if terms.limit == 0 { Vec::new() } else { turns::claim(tx, &terms)? };
            Ok::<_, StoreError>((stopped, claimed))
        };
        let (stopped, claimed) = self.parts.store.write(claim).await?;
        if terms.limit > 0 && claimed.len() as u32 == terms.limit {
            self.wake.notify_one(); // there may be more
        }
        for one in stopped.into_iter().chain(claimed) {
            self.activate(one);
        }
        Ok(())
    }

    /// Prolongs the leases of this node, and tells the turns what the store knows of them. A lease without a
    /// turn is one that could not be given back: it would be prolonged for ever and its answer never go on.
    async fn renew(&self) -> Result<(), StoreError> {
        let (node, until) = (self.parts.node, self.parts.environment.now().plus(LEASE));
        let held: Vec<HeldLease> = self.parts.store.write(move |tx| turns::renew(tx, node, until)).await?;
        let held: HashMap<MessageId, HeldLease> =
            held.into_iter().map(|held| (held.fence.answer, held)).collect();
        let active_turns: HashMap<MessageId, u64> =
            self.active_turns().iter().map(|(id, seat)| (*id, seat.epoch)).collect();
        for (answer, epoch) in &active_turns {
            match held.get(answer) {
                Some(held) if held.fence.epoch == *epoch && held.stop_requested => {
                    self.tell(*answer, ControlSignal::Stop);
                }
                Some(held) if held.fence.epoch == *epoch => {}
                // Its own writes are refused as well; this ends what does not write.
                _ => self.tell(*answer, ControlSignal::Leave),
            }
        }
        for (answer, HeldLease { fence, .. }) in held {
            if !active_turns.contains_key(&answer) {
                self.give_back(fence).await;
            }
        }
        Ok(())
    }

    async fn give_back(&self, fence: Fence) {
        self.given_back(fence, turns::release).await;
    }

    /// As [`Self::give_back`]; the attempt does not count.
    async fn put_back(&self, fence: Fence) {
        self.given_back(fence, turns::put_back).await;
    }

    async fn given_back(&self, fence: Fence, how: fn(&mut dyn Sql, Fence) -> Result<(), TurnError>) {
        match self.parts.store.write(move |tx| how(tx, fence)).await {
            // It was completed, deleted or given back before.
            Ok(()) | Err(TurnError::Fenced) => {}
            Err(error) => tracing::warn!(answer = %fence.answer, %error, "lease release failed"),
        }
    }
}

/// Frees the seat when the turn is over, also by a panic.
struct ActiveTurnGuard {
    shared: Arc<Shared>,
    answer: MessageId,
    epoch: u64,
}

impl Drop for ActiveTurnGuard {
    fn drop(&mut self) {
        let mut active_turns = self.shared.active_turns();
        if active_turns.get(&self.answer).is_some_and(|seat| seat.epoch == self.epoch) {
            active_turns.remove(&self.answer);
        }
        drop(active_turns);
        self.shared.wake.notify_one(); // one that waited for room may be claimed
    }
}

/// Claims what nobody holds, when told to and now and then, and renews what is held. One does not happen
/// beside the other, so that a lease never counts as lost between its claim and its turn; and leases are
/// renewed first, so that none of its own is claimed after a time in which nothing ran.
async fn tend(shared: Arc<Shared>) {
    let mut renewed = shared.parts.environment.now();
    loop {
        if let Err(error) = shared.renew_and_claim(&mut renewed).await {
            tracing::warn!(%error, "lease renewal or claim failed");
        }
        tokio::select! {
            () = shared.wake.notified() => {}
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
            () = shared.shutdown.cancelled() => return,
        }
    }
}
