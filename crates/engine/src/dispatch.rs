//! Dispatches answers: claims unleased ones, runs a task for each, renews the leases and passes stops on.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use domain::id::{AccountId, MessageId};
use domain::time::Timestamp;
use store::turns::{self, ClaimedTurn, Fence, HeldLease, TurnClaimOptions};
use store::{Sql, StoreError};
use tokio::sync::watch;
use tokio::task::JoinError;

use super::control_signal::{ControlSignal, ControlSignals};
use super::left_answers::LeaveReason;
use super::metrics::AnswerMetrics;
use super::shared::{ActiveTurn, EngineParts, EngineShared};
use super::turn;

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
    shared: Arc<EngineShared>,
}

impl Dispatch {
    /// Starts to claim answers.
    #[must_use]
    pub fn start_claiming(parts: EngineParts) -> Self {
        let shared = Arc::new(EngineShared::new(parts));
        shared.tasks.spawn(tend_leases(shared.clone()));
        Self { shared }
    }

    /// Returns the metrics of answers.
    #[must_use]
    pub fn metrics(&self) -> &AnswerMetrics {
        &self.shared.metrics
    }

    /// Returns the number of answers that this process leaves to another one, or to a later version, for each reason.
    #[must_use]
    pub fn left_answers(&self) -> BTreeMap<LeaveReason, usize> {
        self.shared.left_answers.count_by_reason()
    }

    /// Claims an accepted question of the account at once. If all turns of the account on this node are in use, the end
    /// of one of them claims it.
    pub fn claim_accepted(&self, account: AccountId) {
        let full = self.shared.parts.limits.turns_per_account as usize;
        let working =
            self.shared.active_turns().values().filter(|seat| seat.account == account).take(full).count();
        if working < full {
            self.wake_up();
        }
    }

    /// Polls the store at once.
    pub fn wake_up(&self) {
        self.shared.wake.notify_one();
    }

    /// Stops the answer; the request for it is in the store already.
    pub fn stop_answer(&self, answer: MessageId) {
        self.shared.signal_turn(answer, ControlSignal::Stop);
        self.wake_up(); // it may have no holder: then it only has to be completed
    }

    /// Runs `work` to its end even if the caller is dropped. Shutdown waits for it.
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
    pub fn spawn_task(&self, work: impl Future<Output = ()> + Send + 'static) {
        let shutdown = self.shared.shutdown.clone();
        self.shared.tasks.spawn(async move { shutdown.run_until_cancelled(work).await });
    }

    /// Returns the number of turns on this node.
    #[must_use]
    pub fn turn_count(&self) -> usize {
        self.shared.active_turns().len()
    }

    /// Ends all tasks. Answers in progress are released, and continue when a node claims them again.
    pub async fn shutdown(&self) {
        self.shared.shutdown.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
        self.shared.parts.web.close_sessions().await;
    }
}

impl EngineShared {
    fn activate_turn(self: &Arc<Self>, claimed: ClaimedTurn) {
        let (signals, given) = watch::channel(ControlSignals::default());
        let Fence { answer, epoch, .. } = claimed.fence;
        if epoch > 1 {
            tracing::info!(%answer, epoch, attempts = claimed.attempts, "answer resumed");
        }
        self.active_turns().insert(answer, ActiveTurn { account: claimed.account, epoch, signals });
        let guard = ActiveTurnGuard { shared: self.clone(), answer, epoch };
        self.tasks.spawn(async move { turn::run_claim(&guard.shared, claimed, given).await });
    }

    async fn renew_and_claim(self: &Arc<Self>, renewed: &mut Timestamp) -> Result<(), StoreError> {
        let now = self.parts.environment.now();
        let was_set_back = now < *renewed;
        if was_set_back || now.duration_since(*renewed) >= RENEW_EVERY {
            self.renew_leases().await?;
            *renewed = now;
        }
        self.claim_turns().await
    }

    async fn claim_turns(self: &Arc<Self>) -> Result<(), StoreError> {
        let room = (self.parts.limits.turns as usize).saturating_sub(self.active_turns().len());
        let now = self.parts.environment.now();
        let terms = TurnClaimOptions {
            node: self.parts.node,
            now,
            lease_until: now.saturating_add(LEASE),
            per_account_max: self.parts.limits.turns_per_account,
            limit: CLAIMS_PER_LOOK.min(u32::try_from(room).unwrap_or(u32::MAX)),
        };
        // Stopped answers need no free turn, because they only end.
        let claim = move |tx: &mut dyn Sql| {
            let stopped = turns::claim_stopped(tx, &terms)?;
            let claimed = if terms.limit == 0 { Vec::new() } else { turns::claim_turns(tx, &terms)? };
            Ok::<_, StoreError>((stopped, claimed))
        };
        let (stopped, claimed) = self.parts.store.write(claim).await?;
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
        let (node, until) = (self.parts.node, self.parts.environment.now().saturating_add(LEASE));
        let held: Vec<HeldLease> =
            self.parts.store.write(move |tx| turns::renew_leases(tx, node, until)).await?;
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
                self.give_back(fence).await;
            }
        }
        Ok(())
    }
}

/// Removes the active turn when it is over, also by a panic.
struct ActiveTurnGuard {
    shared: Arc<EngineShared>,
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

/// Claims unleased answers and renews leases, on notification and at intervals. Both happen in one task, so that no lease
/// counts as lost between its claim and its turn. Leases are renewed first, so that the node never claims its own
/// expired lease after a pause.
async fn tend_leases(shared: Arc<EngineShared>) {
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
