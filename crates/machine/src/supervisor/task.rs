//! The task that owns one machine.

use std::future;
use std::sync::Arc;
use std::time::Duration;

use domain::id::AccountId;
use domain::machine::{ChangeReason, Machine, MachineEffect, MachineEvent, MachinePhase, MachineStatus};
use domain::time::Timestamp;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::index_watch::follow_index;
use super::{MachineRecord, MachineView, ObservedState, SupervisorShared};
use crate::connection::GuestConnection;
use crate::contract::{DriverError, MachineHome};
use crate::driver::RunningMachine;

/// The number of connection attempts before an agent counts as lost.
const CONNECT_ATTEMPTS_MAX: u32 = 3;
/// The pause between two attempts.
const CONNECT_RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// A connection that lasted at least this long is stable; agents may close a connection right after the greeting.
const LINK_STABLE_AFTER: Duration = Duration::from_secs(30);
/// The pause before the second consecutive reconnect after unstable connections; doubles. The first reconnect is
/// immediate.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// The number of consecutive unstable connections after which the machine counts as lost: about 13 seconds with
/// their pauses.
const BRIEF_LINKS_MAX: u32 = 8;

/// The pause before saving the desired state is retried; doubles.
const SAVE_RETRY_DELAY: Duration = Duration::from_secs(1);
const SAVE_RETRY_DOUBLINGS_MAX: u32 = 6;

/// Commands to the task of a machine.
#[derive(Debug)]
pub(super) enum SupervisorCommand {
    Start(oneshot::Sender<()>),
    Stop {
        /// The reason that the state then shows, if it is not the owner's wish.
        reason: Option<ChangeReason>,
        answer: oneshot::Sender<()>,
    },
    Processes(oneshot::Sender<Vec<i32>>),
}

/// The completion of an operation.
enum OperationOutcome {
    Attached(Result<Option<RunningMachine>, DriverError>),
    Started(Result<RunningMachine, DriverError>),
    Greeted(Result<GuestConnection, String>),
    Reconnected(Result<GuestConnection, String>),
    Stopped(Result<(), DriverError>),
}

/// The event that wakes the task.
enum WakeReason {
    Command(Option<SupervisorCommand>),
    TurnsChanged,
    Done(OperationOutcome),
    MachineEnded,
    LinkClosed,
    MemoryMeasured(Option<u64>),
    TimePassed,
    RetrySave,
    Shutdown,
}

pub(super) struct Supervisor {
    shared: Arc<SupervisorShared>,
    home: MachineHome,
    machine: Machine,
    /// The machine's process, from its start (or attachment) until it is stopped.
    process: Option<Arc<RunningMachine>>,
    link: Option<GuestConnection>,
    /// The time of the connection, and the number of consecutive unstable ones before it.
    linked_at: Instant,
    brief_links: u32,
    /// The operation in progress.
    operation: Option<BoxFuture<'static, OperationOutcome>>,
    /// The measurement of the memory of a machine that has become idle.
    measurement: Option<BoxFuture<'static, Option<u64>>>,
    turns: watch::Receiver<u32>,
    /// Counts the turns; the reading of documents is one.
    turns_sender: Arc<watch::Sender<u32>>,
    /// Ends the following of the machine's documents when it is dropped.
    following: Option<DropGuard>,
    seen: watch::Sender<ObservedState>,
    began: Instant,
    /// The desired state that could not be saved yet.
    unsaved: Option<PendingSave>,
    /// The reason of the last change of the status.
    reason: Option<ChangeReason>,
}

/// A pending save: when to retry, and the number of failures.
struct PendingSave {
    effect: MachineEffect,
    again: Instant,
    failures: u32,
}

impl Supervisor {
    pub(super) fn new(
        shared: Arc<SupervisorShared>,
        record: MachineRecord,
        reason: Option<ChangeReason>,
        turns_sender: Arc<watch::Sender<u32>>,
    ) -> (Self, watch::Receiver<ObservedState>) {
        let (machine, first) = Machine::new(record.desired, shared.rules);
        let view = MachineView { status: machine.status(), failure: None, reason: reason.clone(), turns: 0 };
        let (seen, receiver) = watch::channel(ObservedState { view, settled: false, link: None });
        let home = record.home;
        let began = Instant::now();
        let mut supervisor = Self {
            shared,
            home,
            machine,
            process: None,
            link: None,
            linked_at: began,
            brief_links: 0,
            operation: None,
            measurement: None,
            turns: turns_sender.subscribe(),
            turns_sender,
            following: None,
            seen,
            began,
            unsaved: None,
            reason,
        };
        supervisor.start_operation(&first);
        (supervisor, receiver)
    }

    /// Runs until the service ends or the machine's handle is dropped.
    pub(super) async fn run(mut self, mut mailbox: mpsc::Receiver<SupervisorCommand>) {
        loop {
            match self.next_wake_reason(&mut mailbox).await {
                WakeReason::Command(None) | WakeReason::Shutdown => return,
                WakeReason::Command(Some(command)) => self.handle_command(command).await,
                WakeReason::TurnsChanged => self.count_turns().await,
                WakeReason::Done(done) => {
                    self.operation = None;
                    self.complete_operation(done).await;
                }
                WakeReason::MachineEnded => {
                    let words = self.shared.driver.last_words(self.home.account);
                    let words =
                        words.map(|words| format!("; its log ends with: {words}")).unwrap_or_default();
                    let reason = format!("the machine ended by itself{words}");
                    self.apply_event(MachineEvent::AgentLost { reason }).await;
                }
                WakeReason::LinkClosed => self.link_closed().await,
                WakeReason::MemoryMeasured(bytes) => {
                    self.measurement = None;
                    if let Some(bytes) = bytes {
                        self.apply_event(MachineEvent::MemoryMeasured { bytes }).await;
                    }
                }
                WakeReason::TimePassed => self.apply_event(MachineEvent::Tick).await,
                WakeReason::RetrySave => self.retry_save().await,
            }
        }
    }

    async fn next_wake_reason(&mut self, mailbox: &mut mpsc::Receiver<SupervisorCommand>) -> WakeReason {
        // A machine that is being stopped may exit; that is not a loss.
        let process = match self.machine.state() {
            MachinePhase::Greeting { .. } | MachinePhase::Running { .. } => self.process.clone(),
            MachinePhase::Attaching
            | MachinePhase::Stopped
            | MachinePhase::Failed { .. }
            | MachinePhase::Starting { .. }
            | MachinePhase::Backoff { .. }
            | MachinePhase::Stopping { .. } => None,
        };
        let due = self.machine.wake_at().map(|at| self.began + at.duration_since(Timestamp::from_micros(0)));
        let retry_at = self.unsaved.as_ref().map(|unsaved| unsaved.again);
        let (link, operation, measurement) = (&self.link, &mut self.operation, &mut self.measurement);
        tokio::select! {
            () = self.shared.shutdown.cancelled() => WakeReason::Shutdown,
            command = mailbox.recv() => WakeReason::Command(command),
            Ok(()) = self.turns.changed() => WakeReason::TurnsChanged,
            done = async {
                match operation {
                    Some(operation) => operation.await,
                    None => future::pending().await,
                }
            } => WakeReason::Done(done),
            () = async {
                match &process {
                    Some(process) => process.wait_until_ended().await,
                    None => future::pending().await,
                }
            } => WakeReason::MachineEnded,
            () = async {
                match link {
                    Some(link) => link.wait_until_closed().await,
                    None => future::pending().await,
                }
            } => WakeReason::LinkClosed,
            bytes = async {
                match measurement {
                    Some(measurement) => measurement.await,
                    None => future::pending().await,
                }
            } => WakeReason::MemoryMeasured(bytes),
            () = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => future::pending().await,
                }
            } => WakeReason::TimePassed,
            () = async {
                match retry_at {
                    Some(again) => sleep_until(again).await,
                    None => future::pending().await,
                }
            } => WakeReason::RetrySave,
        }
    }

    async fn handle_command(&mut self, command: SupervisorCommand) {
        // The caller may have gone; the command is executed nevertheless.
        match command {
            SupervisorCommand::Start(answer) => {
                self.apply_event(MachineEvent::StartRequested).await;
                let _ = answer.send(());
            }
            SupervisorCommand::Stop { reason, answer } => {
                self.apply_event_because(MachineEvent::StopRequested, reason).await;
                let _ = answer.send(());
            }
            SupervisorCommand::Processes(answer) => {
                let processes = self.process.as_ref().map(|process| process.list_processes());
                let _ = answer.send(processes.and_then(Result::ok).unwrap_or_default());
            }
        }
    }

    /// Reconnects: immediately at first, then with growing pauses if connections are unstable.
    async fn link_closed(&mut self) {
        self.link = None;
        if self.operation.is_none() {
            let brief = self.linked_at.elapsed() < LINK_STABLE_AFTER;
            self.brief_links = if brief { self.brief_links + 1 } else { 0 };
            if self.brief_links > BRIEF_LINKS_MAX {
                let reason = "the agent closes every connection".to_owned();
                return self.apply_event(MachineEvent::AgentLost { reason }).await;
            }
            let pause = match self.brief_links.checked_sub(2) {
                None => Duration::ZERO,
                Some(doublings) => RECONNECT_PAUSE * 2_u32.pow(doublings),
            };
            self.operation = self.greet_after_pause(pause, OperationOutcome::Reconnected);
        }
        self.publish_state();
    }

    async fn count_turns(&mut self) {
        let wanted = *self.turns.borrow_and_update();
        while self.machine.turn_count() != wanted {
            let more = self.machine.turn_count() < wanted;
            self.apply_event(if more { MachineEvent::TurnBegan } else { MachineEvent::TurnEnded }).await;
        }
        let is_idle = wanted == 0 && matches!(self.machine.state(), MachinePhase::Running { .. });
        self.measurement = is_idle.then(|| {
            let (shared, account) = (Arc::clone(&self.shared), self.home.account);
            let measuring: BoxFuture<'static, _> =
                Box::pin(async move { shared.driver.machine_memory(account).await });
            measuring
        });
    }

    async fn complete_operation(&mut self, done: OperationOutcome) {
        let event = match done {
            OperationOutcome::Attached(Ok(Some(process))) => {
                self.process = Some(Arc::new(process));
                MachineEvent::Attached
            }
            OperationOutcome::Attached(Ok(None)) => MachineEvent::NothingToAttach,
            OperationOutcome::Attached(Err(error)) => {
                tracing::warn!(account = %self.home.account, %error, "machine lookup failed");
                MachineEvent::NothingToAttach
            }
            OperationOutcome::Started(Ok(process)) => {
                self.process = Some(Arc::new(process));
                MachineEvent::DriverStarted
            }
            OperationOutcome::Started(Err(error)) => {
                let permanent = matches!(error, DriverError::Refused(_));
                self.start_failed(error.to_string(), permanent)
            }
            OperationOutcome::Greeted(Ok(link)) | OperationOutcome::Reconnected(Ok(link)) => {
                let instance = link.instance();
                self.follow_documents(link.clone());
                self.link = Some(link);
                self.linked_at = Instant::now();
                MachineEvent::AgentAnswered { instance }
            }
            OperationOutcome::Greeted(Err(reason)) => self.start_failed(reason, false),
            OperationOutcome::Reconnected(Err(reason)) => MachineEvent::AgentLost { reason },
            OperationOutcome::Stopped(Ok(())) => MachineEvent::DriverStopped,
            OperationOutcome::Stopped(Err(error)) => MachineEvent::StopFailed { reason: error.to_string() },
        };
        self.apply_event(event).await;
    }

    fn start_failed(&self, reason: String, permanent: bool) -> MachineEvent {
        tracing::warn!(account = %self.home.account, reason, "machine start failed");
        MachineEvent::StartFailed { reason, permanent }
    }

    async fn apply_event(&mut self, event: MachineEvent) {
        self.apply_event_because(event, None).await;
    }

    /// Applies an event for this reason, or for the event's reason.
    async fn apply_event_because(&mut self, event: MachineEvent, reason: Option<ChangeReason>) {
        let before = self.machine.status();
        let has_grown = matches!(self.machine.state(), MachinePhase::Running { grown: true, .. });
        let is_missing = event == MachineEvent::NothingToAttach;
        let reason = reason.or_else(|| ChangeReason::from_event(&event, has_grown));
        if self.execute_event(event).await && !matches!(self.machine.state(), MachinePhase::Failed { .. }) {
            self.execute_event(MachineEvent::StartRequested).await;
        }
        let after = self.machine.status();
        // It should run, and its status has been starting since the service began.
        let is_restarted = is_missing && after == MachineStatus::Starting;
        if before != after || is_restarted {
            let (before, after) = (before.as_str(), after.as_str());
            // A service that finds no machine and starts none keeps what an earlier one knew.
            let is_known = self.reason.is_some() && is_missing && !is_restarted;
            self.reason = reason.filter(|_| !is_known).or(self.reason.take());
            if let Some(reason) = &self.reason {
                self.shared.driver.keep_reason(self.home.account, reason);
            }
            let reason = self.reason.as_ref().map(tracing::field::display);
            tracing::info!(account = %self.home.account, before, after, reason, "machine state changed");
        }
        self.publish_state();
    }

    /// Applies an event and executes its effects. Returns true if a question waits for a machine that would have
    /// stopped when idle.
    async fn execute_event(&mut self, event: MachineEvent) -> bool {
        let mut wanted = false;
        for effect in self.machine.apply_event(event, self.time_since_start()) {
            match effect {
                MachineEffect::Save(_) | MachineEffect::Lapse => wanted |= self.save_state(effect, 0).await,
                MachineEffect::Attach
                | MachineEffect::StartDriver
                | MachineEffect::Greet
                | MachineEffect::StopDriver => {
                    self.start_operation(&effect);
                }
            }
        }
        wanted
    }

    /// Saves the desired state. If the store saved another state, other readers of it would wait for a machine that
    /// never comes; therefore failures are retried, unless a newer state replaces it. Returns true if a question
    /// waits.
    async fn save_state(&mut self, effect: MachineEffect, failures: u32) -> bool {
        let (records, account) = (Arc::clone(&self.shared.records), self.home.account);
        let saved = match &effect {
            MachineEffect::Save(desired) => records.save_desired(account, *desired).await.map(|()| false),
            MachineEffect::Lapse => records.save_lapse(account).await,
            MachineEffect::Attach
            | MachineEffect::StartDriver
            | MachineEffect::Greet
            | MachineEffect::StopDriver => return false,
        };
        self.unsaved = None;
        saved.unwrap_or_else(|error| {
            tracing::error!(%account, %error, failures, "saving the desired machine state failed");
            let again = Instant::now() + SAVE_RETRY_DELAY * 2_u32.pow(failures.min(SAVE_RETRY_DOUBLINGS_MAX));
            self.unsaved = Some(PendingSave { effect, again, failures: failures + 1 });
            false
        })
    }

    async fn retry_save(&mut self) {
        let Some(PendingSave { effect, failures, .. }) = self.unsaved.take() else { return };
        if self.save_state(effect, failures).await
            && !matches!(self.machine.state(), MachinePhase::Failed { .. })
        {
            self.apply_event(MachineEvent::StartRequested).await;
        }
    }

    /// Starts an operation. Abandons the one in progress, if any: only stopping supersedes another.
    fn start_operation(&mut self, effect: &MachineEffect) {
        let (shared, home) = (Arc::clone(&self.shared), self.home.clone());
        self.operation = match effect {
            MachineEffect::Attach => Some(Box::pin(async move {
                OperationOutcome::Attached(shared.driver.attach_machine(home.account))
            })),
            MachineEffect::StartDriver => {
                self.brief_links = 0;
                Some(Box::pin(async move { OperationOutcome::Started(start_machine(&shared, &home).await) }))
            }
            MachineEffect::Greet => self.greet_after_pause(Duration::ZERO, OperationOutcome::Greeted),
            MachineEffect::StopDriver => {
                self.process = None;
                self.link = None;
                self.following = None;
                Some(Box::pin(async move {
                    OperationOutcome::Stopped(shared.driver.stop_machine(home.account).await)
                }))
            }
            MachineEffect::Save(_) | MachineEffect::Lapse => return,
        };
    }

    /// Follows the machine's reports of its documents over this connection, in place of the last one.
    fn follow_documents(&mut self, link: GuestConnection) {
        let ended = CancellationToken::new();
        self.following = Some(ended.clone().drop_guard());
        let (shared, account) = (Arc::clone(&self.shared), self.home.account);
        let following = follow_index(shared, account, link, Arc::clone(&self.turns_sender), ended);
        self.shared.tasks.spawn(following);
    }

    /// Connects after a pause.
    fn greet_after_pause(
        &self,
        pause: Duration,
        done: fn(Result<GuestConnection, String>) -> OperationOutcome,
    ) -> Option<BoxFuture<'static, OperationOutcome>> {
        let process = self.process.clone()?;
        Some(Box::pin(async move {
            if pause > Duration::ZERO {
                sleep(pause).await;
            }
            done(greet_agent(&process).await)
        }))
    }

    fn publish_state(&self) {
        let failure = match self.machine.state() {
            MachinePhase::Failed { reason } => Some(reason.clone()),
            MachinePhase::Attaching
            | MachinePhase::Stopped
            | MachinePhase::Starting { .. }
            | MachinePhase::Greeting { .. }
            | MachinePhase::Backoff { .. }
            | MachinePhase::Running { .. }
            | MachinePhase::Stopping { .. } => None,
        };
        let view = MachineView {
            status: self.machine.status(),
            failure,
            reason: self.reason.clone(),
            turns: self.machine.turn_count(),
        };
        let running = matches!(self.machine.state(), MachinePhase::Running { .. });
        let link = if running { self.link.clone() } else { None };
        let settled = !matches!(self.machine.state(), MachinePhase::Attaching);
        self.seen.send_replace(ObservedState { view, settled, link });
    }

    /// Returns the time since this task began: monotonic, from tokio's clock, so that tests can advance it.
    fn time_since_start(&self) -> Timestamp {
        Timestamp::from_micros(0).saturating_add(self.began.elapsed())
    }
}

async fn start_machine(shared: &SupervisorShared, home: &MachineHome) -> Result<RunningMachine, DriverError> {
    // The semaphore is never closed.
    let _turn = shared.starts.acquire().await;
    match shared.driver.start_machine(home).await {
        Err(DriverError::Busy) => attach_started(shared, home.account),
        outcome => outcome,
    }
}

/// Attaches to a machine whose start by an earlier service has completed meanwhile.
fn attach_started(shared: &SupervisorShared, account: AccountId) -> Result<RunningMachine, DriverError> {
    shared.driver.attach_machine(account)?.ok_or(DriverError::Busy)
}

async fn greet_agent(process: &RunningMachine) -> Result<GuestConnection, String> {
    let mut reason = String::new();
    for attempt in 0..CONNECT_ATTEMPTS_MAX {
        if attempt > 0 {
            sleep(CONNECT_RETRY_INTERVAL).await;
        }
        reason = match process.connect_agent().await {
            Ok(stream) => match GuestConnection::connect_over_stream(stream).await {
                Ok(link) => return Ok(link),
                Err(error) => error.to_string(),
            },
            Err(error) => format!("connecting to the agent failed: {error}"),
        };
    }
    Err(reason)
}
