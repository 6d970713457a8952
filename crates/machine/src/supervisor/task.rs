//! The task that owns one machine.

use std::future;
use std::sync::Arc;
use std::time::Duration;

use domain::id::AccountId;
use domain::machine::{Effect, Event, Machine, State};
use domain::time::Timestamp;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::{MachineRecord, MachineView, ObservedState, Shared};
use crate::connection::GuestConnection;
use crate::driver::{DriverError, Home, RunningMachine};

/// The number of connection attempts before an agent counts as lost.
const CONNECT_ATTEMPTS_MAX: u32 = 3;
/// The pause between two tries.
const CONNECT_RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// A connection that lasted this long was none that an agent closes as soon as it has said who it is.
const LINK_STABLE_AFTER: Duration = Duration::from_secs(30);
/// The pause before the second connection in a row that follows one that did not last; doubles. The first is made at
/// once.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// Connections in a row that did not last before the machine counts as lost: with their pauses, some 13 seconds.
const BRIEF_LINKS_MAX: u32 = 8;

/// The pause before what could not be kept in the store is tried again; doubles.
const SAVE_RETRY_DELAY: Duration = Duration::from_secs(1);
const SAVE_RETRY_DOUBLINGS_MAX: u32 = 6;

/// Commands to the task of a machine.
#[derive(Debug)]
pub(super) enum Command {
    Start(oneshot::Sender<()>),
    Stop(oneshot::Sender<()>),
    Processes(oneshot::Sender<Vec<i32>>),
}

/// The completion of an operation.
enum Done {
    Attached(Result<Option<RunningMachine>, DriverError>),
    Started(Result<RunningMachine, DriverError>),
    Greeted(Result<GuestConnection, String>),
    Reconnected(Result<GuestConnection, String>),
    Stopped(Result<(), DriverError>),
}

/// The event that wakes the task.
enum WakeReason {
    Asked(Option<Command>),
    TurnsChanged,
    Done(Done),
    MachineEnded,
    LinkClosed,
    TimePassed,
    KeepAgain,
    Shutdown,
}

pub(super) struct Supervisor {
    shared: Arc<Shared>,
    home: Home,
    machine: Machine,
    /// The machine's process, from its start (or attachment) until it is stopped.
    process: Option<Arc<RunningMachine>>,
    link: Option<GuestConnection>,
    /// When that was made, and how many before it in a row did not last.
    linked_at: Instant,
    brief_links: u32,
    /// The one operation under way.
    operation: Option<BoxFuture<'static, Done>>,
    turns: watch::Receiver<u32>,
    seen: watch::Sender<ObservedState>,
    began: Instant,
    /// The desired state that could not be saved yet.
    unkept: Option<PendingSave>,
}

/// A pending save: when to retry, and the number of failures.
struct PendingSave {
    effect: Effect,
    again: Instant,
    failures: u32,
}

impl Supervisor {
    pub(super) fn new(
        shared: Arc<Shared>,
        record: MachineRecord,
        turns: watch::Receiver<u32>,
    ) -> (Self, watch::Receiver<ObservedState>) {
        let (machine, first) = Machine::new(record.desired, shared.rules);
        let view = MachineView { status: machine.status(), failure: None, turns: 0 };
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
            turns,
            seen,
            began,
            unkept: None,
        };
        supervisor.operate(&first);
        (supervisor, receiver)
    }

    /// Lives until the service ends or nobody holds the machine's handle any more.
    pub(super) async fn run(mut self, mut mailbox: mpsc::Receiver<Command>) {
        loop {
            match self.wake(&mut mailbox).await {
                WakeReason::Asked(None) | WakeReason::Shutdown => return,
                WakeReason::Asked(Some(command)) => self.asked(command).await,
                WakeReason::TurnsChanged => self.count_turns().await,
                WakeReason::Done(done) => {
                    self.operation = None;
                    self.done(done).await;
                }
                WakeReason::MachineEnded => {
                    self.happens(Event::AgentLost { reason: "the machine ended by itself".into() }).await;
                }
                WakeReason::LinkClosed => self.link_closed().await,
                WakeReason::TimePassed => self.happens(Event::Tick).await,
                WakeReason::KeepAgain => self.keep_again().await,
            }
        }
    }

    async fn wake(&mut self, mailbox: &mut mpsc::Receiver<Command>) -> WakeReason {
        // A machine that is being stopped may end; that is no loss.
        let process = match self.machine.state() {
            State::Greeting { .. } | State::Running { .. } => self.process.clone(),
            State::Attaching
            | State::Stopped
            | State::Failed { .. }
            | State::Starting { .. }
            | State::Backoff { .. }
            | State::Stopping { .. } => None,
        };
        let due = self.machine.wake_at().map(|at| self.began + at.since(Timestamp::from_micros(0)));
        let keep_again = self.unkept.as_ref().map(|unkept| unkept.again);
        let (link, operation) = (&self.link, &mut self.operation);
        tokio::select! {
            () = self.shared.shutdown.cancelled() => WakeReason::Shutdown,
            command = mailbox.recv() => WakeReason::Asked(command),
            Ok(()) = self.turns.changed() => WakeReason::TurnsChanged,
            done = async {
                match operation {
                    Some(operation) => operation.await,
                    None => future::pending().await,
                }
            } => WakeReason::Done(done),
            () = async {
                match &process {
                    Some(process) => process.ended().await,
                    None => future::pending().await,
                }
            } => WakeReason::MachineEnded,
            () = async {
                match link {
                    Some(link) => link.closed().await,
                    None => future::pending().await,
                }
            } => WakeReason::LinkClosed,
            () = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => future::pending().await,
                }
            } => WakeReason::TimePassed,
            () = async {
                match keep_again {
                    Some(again) => sleep_until(again).await,
                    None => future::pending().await,
                }
            } => WakeReason::KeepAgain,
        }
    }

    async fn asked(&mut self, command: Command) {
        // Who asked may have gone; what was asked happens all the same.
        match command {
            Command::Start(answer) => {
                self.happens(Event::StartRequested).await;
                let _ = answer.send(());
            }
            Command::Stop(answer) => {
                self.happens(Event::StopRequested).await;
                let _ = answer.send(());
            }
            Command::Processes(answer) => {
                let processes = self.process.as_ref().map(|process| process.processes());
                let _ = answer.send(processes.and_then(Result::ok).unwrap_or_default());
            }
        }
    }

    /// Connects again: at once for the first time, later and later when connections do not last.
    async fn link_closed(&mut self) {
        self.link = None;
        if self.operation.is_none() {
            let brief = self.linked_at.elapsed() < LINK_STABLE_AFTER;
            self.brief_links = if brief { self.brief_links + 1 } else { 0 };
            if self.brief_links > BRIEF_LINKS_MAX {
                let reason = "the agent closes every connection".to_owned();
                return self.happens(Event::AgentLost { reason }).await;
            }
            let pause = match self.brief_links.checked_sub(2) {
                None => Duration::ZERO,
                Some(doublings) => RECONNECT_PAUSE * 2_u32.pow(doublings),
            };
            self.operation = self.greeting(pause, Done::Reconnected);
        }
        self.show();
    }

    async fn count_turns(&mut self) {
        let wanted = *self.turns.borrow_and_update();
        while self.machine.turns() != wanted {
            let more = self.machine.turns() < wanted;
            self.happens(if more { Event::TurnBegan } else { Event::TurnEnded }).await;
        }
    }

    async fn done(&mut self, done: Done) {
        let event = match done {
            Done::Attached(Ok(Some(process))) => {
                self.process = Some(Arc::new(process));
                Event::Attached
            }
            Done::Attached(Ok(None)) => Event::NothingToAttach,
            Done::Attached(Err(error)) => {
                tracing::warn!(account = %self.home.account, %error, "machine lookup failed");
                Event::NothingToAttach
            }
            Done::Started(Ok(process)) => {
                self.process = Some(Arc::new(process));
                Event::DriverStarted
            }
            Done::Started(Err(error)) => {
                let permanent = matches!(error, DriverError::Refused(_));
                self.start_failed(error.to_string(), permanent)
            }
            Done::Greeted(Ok(link)) | Done::Reconnected(Ok(link)) => {
                let instance = link.instance();
                self.link = Some(link);
                self.linked_at = Instant::now();
                Event::AgentAnswered { instance }
            }
            Done::Greeted(Err(reason)) => self.start_failed(reason, false),
            Done::Reconnected(Err(reason)) => Event::AgentLost { reason },
            Done::Stopped(Ok(())) => Event::DriverStopped,
            Done::Stopped(Err(error)) => Event::StopFailed { reason: error.to_string() },
        };
        self.happens(event).await;
    }

    fn start_failed(&self, reason: String, permanent: bool) -> Event {
        tracing::warn!(account = %self.home.account, reason, "machine start failed");
        Event::StartFailed { reason, permanent }
    }

    async fn happens(&mut self, event: Event) {
        let before = self.machine.status();
        if self.take(event).await && !matches!(self.machine.state(), State::Failed { .. }) {
            self.take(Event::StartRequested).await;
        }
        let after = self.machine.status();
        if before != after {
            let (before, after) = (before.as_str(), after.as_str());
            tracing::info!(account = %self.home.account, before, after, "machine state changed");
        }
        self.show();
    }

    /// Gives the machine an event and does what it wants. Tells whether a question waits for a machine that
    /// would have stopped by itself.
    async fn take(&mut self, event: Event) -> bool {
        let mut wanted = false;
        for effect in self.machine.on(event, self.now()) {
            match effect {
                Effect::Save(_) | Effect::Lapse => wanted |= self.keep(effect, 0).await,
                Effect::Attach | Effect::StartDriver | Effect::Greet | Effect::StopDriver => {
                    self.operate(&effect);
                }
            }
        }
        wanted
    }

    /// Keeps what the machine is meant to be. Were the store left with something else, whoever goes by it would wait
    /// for a machine that never comes, so that what fails is tried again, unless something newer is to be kept. Tells
    /// whether a question waits.
    async fn keep(&mut self, effect: Effect, failures: u32) -> bool {
        let (records, account) = (Arc::clone(&self.shared.records), self.home.account);
        let kept = match &effect {
            Effect::Save(desired) => records.save(account, *desired).await.map(|()| false),
            Effect::Lapse => records.lapse(account).await,
            Effect::Attach | Effect::StartDriver | Effect::Greet | Effect::StopDriver => return false,
        };
        self.unkept = None;
        kept.unwrap_or_else(|error| {
            tracing::error!(%account, %error, failures, "desired machine state not saved");
            let again = Instant::now() + SAVE_RETRY_DELAY * 2_u32.pow(failures.min(SAVE_RETRY_DOUBLINGS_MAX));
            self.unkept = Some(PendingSave { effect, again, failures: failures + 1 });
            false
        })
    }

    async fn keep_again(&mut self) {
        let Some(PendingSave { effect, failures, .. }) = self.unkept.take() else { return };
        if self.keep(effect, failures).await && !matches!(self.machine.state(), State::Failed { .. }) {
            self.happens(Event::StartRequested).await;
        }
    }

    /// Begins an operation. The one under way, if any, is abandoned: only stopping supersedes another.
    fn operate(&mut self, effect: &Effect) {
        let (shared, home) = (Arc::clone(&self.shared), self.home.clone());
        self.operation = match effect {
            Effect::Attach => {
                Some(Box::pin(async move { Done::Attached(shared.driver.attach(home.account)) }))
            }
            Effect::StartDriver => {
                self.brief_links = 0;
                Some(Box::pin(async move { Done::Started(start(&shared, &home).await) }))
            }
            Effect::Greet => self.greeting(Duration::ZERO, Done::Greeted),
            Effect::StopDriver => {
                self.process = None;
                self.link = None;
                Some(Box::pin(async move { Done::Stopped(shared.driver.stop(home.account).await) }))
            }
            Effect::Save(_) | Effect::Lapse => return,
        };
    }

    /// Connects after a pause.
    fn greeting(
        &self,
        pause: Duration,
        done: fn(Result<GuestConnection, String>) -> Done,
    ) -> Option<BoxFuture<'static, Done>> {
        let process = self.process.clone()?;
        Some(Box::pin(async move {
            if pause > Duration::ZERO {
                sleep(pause).await;
            }
            done(greet(&process).await)
        }))
    }

    fn show(&self) {
        let failure = match self.machine.state() {
            State::Failed { reason } => Some(reason.clone()),
            State::Attaching
            | State::Stopped
            | State::Starting { .. }
            | State::Greeting { .. }
            | State::Backoff { .. }
            | State::Running { .. }
            | State::Stopping { .. } => None,
        };
        let view = MachineView { status: self.machine.status(), failure, turns: self.machine.turns() };
        let running = matches!(self.machine.state(), State::Running { .. });
        let link = if running { self.link.clone() } else { None };
        let settled = !matches!(self.machine.state(), State::Attaching);
        self.seen.send_replace(ObservedState { view, settled, link });
    }

    /// Time since this task began: monotonic, and tokio's, so that tests can let it pass.
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(0).plus(self.began.elapsed())
    }
}

async fn start(shared: &Shared, home: &Home) -> Result<RunningMachine, DriverError> {
    // The semaphore is never closed.
    let _turn = shared.starts.acquire().await;
    match shared.driver.start(home).await {
        Err(DriverError::Busy) => attach_started(shared, home.account),
        outcome => outcome,
    }
}

/// A start that an earlier service had under way as it ended may have come to its end since.
fn attach_started(shared: &Shared, account: AccountId) -> Result<RunningMachine, DriverError> {
    shared.driver.attach(account)?.ok_or(DriverError::Busy)
}

async fn greet(process: &RunningMachine) -> Result<GuestConnection, String> {
    let mut reason = String::new();
    for attempt in 0..CONNECT_ATTEMPTS_MAX {
        if attempt > 0 {
            sleep(CONNECT_RETRY_INTERVAL).await;
        }
        reason = match process.connect().await {
            Ok(stream) => match GuestConnection::open(stream).await {
                Ok(link) => return Ok(link),
                Err(error) => error.to_string(),
            },
            Err(error) => format!("the agent could not be connected to: {error}"),
        };
    }
    Err(reason)
}
