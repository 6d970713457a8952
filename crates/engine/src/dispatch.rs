//! Dispatches answers: claims unleased ones, runs a task for each, renews the leases and passes stops on.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::id::{AccountId, MessageId, NodeId};
use domain::time::Timestamp;
use store::turns::{self, ClaimedTurn, Fence, HeldLease, TurnClaimOptions};
use store::{Sql, StoreError};
use tokio::sync::{Notify, watch};

use super::agent_session::SessionOpener;
use super::answer_records::AnswerRecords;
use super::control_signal::{self, ControlSignal, ControlSignals};
use super::left_answers::{LeaveReason, LeftAnswers};
use super::metrics::AnswerMetrics;
use super::parts::{DispatchLimits, EngineParts};
use super::turn::{self, AnswerWorker};
use super::turn_context::TurnServices;

/// The duration of a lease.
const LEASE: Duration = Duration::from_secs(30);
/// The interval between renewals.
const RENEW_EVERY: Duration = Duration::from_secs(8);
/// The interval between polls of the store without a notification.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// The maximum number of answers that one poll claims.
const CLAIMS_PER_LOOK: u32 = 256;

/// Dispatches answers to turns. Cheap to clone.
#[derive(Clone)]
pub struct Dispatch {
    node: Arc<NodeTurns>,
}

/// The turns of this node, and what claiming and running them takes.
struct NodeTurns {
    /// The identity of this process as a holder of leases.
    node: NodeId,
    limits: DispatchLimits,
    records: AnswerRecords,
    worker: AnswerWorker,
    wake: Notify,
    active: Mutex<HashMap<MessageId, ActiveTurn>>,
}

/// A turn that runs on this node.
struct ActiveTurn {
    account: AccountId,
    epoch: u64,
    signals: watch::Sender<ControlSignals>,
}

impl Dispatch {
    /// Starts to claim answers.
    #[must_use]
    pub fn start_claiming(parts: EngineParts) -> Self {
        let node = Arc::new(NodeTurns::new(parts));
        node.records.tasks.spawn_to_end(tend_leases(node.clone()));
        Self { node }
    }

    /// Returns the metrics of answers.
    #[must_use]
    pub fn metrics(&self) -> &AnswerMetrics {
        &self.node.records.metrics
    }

    /// Returns the number of answers that this process leaves to another one, or to a later version, for each reason.
    #[must_use]
    pub fn left_answers(&self) -> BTreeMap<LeaveReason, usize> {
        self.node.worker.left_answers.count_by_reason()
    }

    /// Claims an accepted question of the account at once. If all turns of the account on this node are in use, the end
    /// of one of them claims it.
    pub fn claim_accepted(&self, account: AccountId) {
        let full = self.node.limits.turns_per_account as usize;
        let working =
            self.node.active_turns().values().filter(|seat| seat.account == account).take(full).count();
        if working < full {
            self.wake_up();
        }
    }

    /// Polls the store at once.
    pub fn wake_up(&self) {
        self.node.wake.notify_one();
    }

    /// Stops the answer; the request for it is in the store already.
    pub fn stop_answer(&self, answer: MessageId) {
        self.node.signal_turn(answer, ControlSignal::Stop);
        self.wake_up(); // it may have no holder: then it only has to be completed
    }

    /// Returns the number of turns on this node.
    #[must_use]
    pub fn turn_count(&self) -> usize {
        self.node.active_turns().len()
    }

    /// Ends all background tasks. Answers in progress are released, and continue when a node claims them again.
    pub async fn shutdown(&self) {
        self.node.records.tasks.shutdown().await;
        self.node.worker.services.web.close_sessions().await;
    }
}

impl NodeTurns {
    /// Creates the state of a node without turns.
    fn new(parts: EngineParts) -> Self {
        let EngineParts { store, tasks, environment, live, machines, catalog, embeddings, plugins, .. } =
            parts;
        let EngineParts { web, templates, workspaces, node, limits, .. } = parts;
        let records = AnswerRecords { store, environment, metrics: Arc::default(), tasks };
        let services = TurnServices {
            sessions: SessionOpener::new(machines.clone(), web.clone(), embeddings),
            live,
            catalog,
            web,
            workspaces,
            machines,
            delegated_steps_max: limits.delegated_steps,
            reply_timeout: limits.reply_timeout,
        };
        let worker = AnswerWorker {
            records: records.clone(),
            left_answers: LeftAnswers::default(),
            plugins,
            templates,
            steps_max: limits.steps,
            services: Arc::new(services),
        };
        Self { node, limits, records, worker, wake: Notify::new(), active: Mutex::default() }
    }

    /// Locks the table of active turns.
    fn active_turns(&self) -> MutexGuard<'_, HashMap<MessageId, ActiveTurn>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Signals the turn, if it runs on this node.
    fn signal_turn(&self, answer: MessageId, order: ControlSignal) {
        if let Some(seat) = self.active_turns().get(&answer) {
            control_signal::send_signal(&seat.signals, order);
        }
    }

    fn activate_turn(self: &Arc<Self>, claimed: ClaimedTurn) {
        let (signals, given) = watch::channel(ControlSignals::default());
        let Fence { answer, epoch, .. } = claimed.fence;
        if epoch > 1 {
            tracing::info!(%answer, epoch, attempts = claimed.attempts, "answer resumed");
        }
        self.active_turns().insert(answer, ActiveTurn { account: claimed.account, epoch, signals });
        let guard = ActiveTurnGuard { node: self.clone(), answer, epoch };
        self.records.tasks.spawn_to_end(async move {
            turn::run_claim(&guard.node.worker, claimed, given).await;
        });
    }

    async fn renew_and_claim(self: &Arc<Self>, renewed: &mut Timestamp) -> Result<(), StoreError> {
        let now = self.records.now();
        let was_set_back = now < *renewed;
        if was_set_back || now.duration_since(*renewed) >= RENEW_EVERY {
            self.renew_leases().await?;
            *renewed = now;
        }
        self.claim_turns().await
    }

    async fn claim_turns(self: &Arc<Self>) -> Result<(), StoreError> {
        let room = (self.limits.turns as usize).saturating_sub(self.active_turns().len());
        let now = self.records.now();
        let terms = TurnClaimOptions {
            node: self.node,
            now,
            lease_until: now.saturating_add(LEASE),
            per_account_max: self.limits.turns_per_account,
            limit: CLAIMS_PER_LOOK.min(u32::try_from(room).unwrap_or(u32::MAX)),
        };
        // Stopped answers need no free turn, because they only end.
        let claim = move |tx: &mut dyn Sql| {
            let stopped = turns::claim_stopped(tx, &terms)?;
            let claimed = if terms.limit == 0 { Vec::new() } else { turns::claim_turns(tx, &terms)? };
            Ok::<_, StoreError>((stopped, claimed))
        };
        let (stopped, claimed) = self.records.store.write(claim).await?;
        if terms.limit > 0 && claimed.len() as u32 == terms.limit {
            self.wake.notify_one(); // there may be more
        }
        for one in stopped.into_iter().chain(claimed) {
            self.activate_turn(one);
        }
        Ok(())
    }

    /// Renews the leases of this node and signals stops and lost leases to the turns. A lease without a turn could not
    /// be released before: it is released now, or its answer would never continue.
    async fn renew_leases(&self) -> Result<(), StoreError> {
        let (node, until) = (self.node, self.records.now().saturating_add(LEASE));
        let held: Vec<HeldLease> =
            self.records.store.write(move |tx| turns::renew_leases(tx, node, until)).await?;
        let held: HashMap<MessageId, HeldLease> =
            held.into_iter().map(|held| (held.fence.answer, held)).collect();
        let active_turns: HashMap<MessageId, u64> =
            self.active_turns().iter().map(|(id, seat)| (*id, seat.epoch)).collect();
        for (answer, epoch) in &active_turns {
            match held.get(answer) {
                Some(held) if held.fence.epoch == *epoch && held.stop_requested => {
                    self.signal_turn(*answer, ControlSignal::Stop);
                }
                Some(held) if held.fence.epoch == *epoch => {}
                // The store refuses the turn's writes as well; the signal ends a turn that does not write.
                _ => self.signal_turn(*answer, ControlSignal::Leave),
            }
        }
        for (answer, HeldLease { fence, .. }) in held {
            if !active_turns.contains_key(&answer) {
                self.records.give_back(fence).await;
            }
        }
        Ok(())
    }
}

/// Removes the active turn when it is over, also by a panic.
struct ActiveTurnGuard {
    node: Arc<NodeTurns>,
    answer: MessageId,
    epoch: u64,
}

impl Drop for ActiveTurnGuard {
    fn drop(&mut self) {
        let mut active_turns = self.node.active_turns();
        if active_turns.get(&self.answer).is_some_and(|seat| seat.epoch == self.epoch) {
            active_turns.remove(&self.answer);
        }
        drop(active_turns);
        self.node.wake.notify_one(); // one that waited for room may be claimed
    }
}

/// Claims unleased answers and renews leases, on notification and at intervals. Both happen in one task, so that no lease
/// counts as lost between its claim and its turn. Leases are renewed first, so that the node never claims its own
/// expired lease after a pause.
async fn tend_leases(node: Arc<NodeTurns>) {
    let mut renewed = node.records.now();
    loop {
        if let Err(error) = node.renew_and_claim(&mut renewed).await {
            tracing::warn!(%error, "lease renewal or claim failed");
        }
        tokio::select! {
            () = node.wake.notified() => {}
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
            () = node.records.tasks.wait_for_shutdown() => return,
        }
    }
}
