//! Supervises the machines of a service: one task for each, which alone changes it.
//!
//! [`domain::machine::Machine`] decides; the task in [`task`] executes its effects with the driver and publishes the
//! observed state through a watch channel. Machines outlive the service: [`Machines::shutdown`] ends the tasks and
//! leaves the machines running, and [`Machines::begin`] attaches to machines of an earlier service.

mod task;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::id::AccountId;
use domain::machine::{Desired, MachineStatus, Rules};
use futures_util::future::BoxFuture;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::task::{Command, Supervisor};
use crate::connection::GuestConnection;
use crate::driver::{Driver, Home};

/// Requests that wait for one machine's task.
const MAILBOX_MAX: usize = 32;
/// The time that a status request waits for the first check of the host.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);
/// The time that [`Machines::when_running`] waits for a stopped machine to be started.
const START_PATIENCE: Duration = Duration::from_secs(1);
/// The maximum wait of [`Machines::ensure_running`].
const RUNNING_TIMEOUT: Duration = Duration::from_secs(120);

/// The stored record of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineRecord {
    /// The folders that the driver needs.
    pub home: Home,
    pub desired: Desired,
}

/// The store could not be asked.
#[derive(Debug, thiserror::Error)]
#[error("machine records: {0}")]
pub struct RecordsError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// The store, as far as machines need it.
pub trait MachineRecords: Send + Sync + 'static {
    /// The account's machine; `None` when it has none.
    fn load(&self, account: AccountId) -> BoxFuture<'_, Result<Option<MachineRecord>, RecordsError>>;

    /// Keeps what the account's machine is meant to be.
    fn save(&self, account: AccountId, desired: Desired) -> BoxFuture<'_, Result<(), RecordsError>>;

    /// Keeps that the account's machine is meant to be stopped, unless a question waits for it; tells whether
    /// one does.
    fn lapse(&self, account: AccountId) -> BoxFuture<'_, Result<bool, RecordsError>>;

    /// The accounts whose machines are meant to run.
    fn meant_to_run(&self) -> BoxFuture<'_, Result<Vec<AccountId>, RecordsError>>;
}

/// Why a machine did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The account has no machine (`NO_MACHINE`).
    #[error("the account has no machine")]
    NoMachine,
    /// Its owner has stopped it.
    #[error("the machine is stopped")]
    Stopped,
    /// Its start was given up.
    #[error("the machine could not be started: {0}")]
    GivenUp(String),
    /// It does not run yet.
    #[error("the machine did not start in time")]
    NotInTime,
    /// The service is ending.
    #[error("the service is stopping")]
    ShuttingDown,
    /// The store could not be asked.
    #[error(transparent)]
    Records(#[from] RecordsError),
}

/// The observable state of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineView {
    /// Its state, as the interface shows it.
    pub status: MachineStatus,
    /// Why its start was given up, for its owner.
    pub failure: Option<String>,
    /// The number of turns that need it.
    pub turns: u32,
}

/// The state that a machine's task publishes.
#[derive(Debug, Clone)]
struct ObservedState {
    view: MachineView,
    /// True once the host was checked after the start of the service.
    settled: bool,
    link: Option<GuestConnection>,
}

#[derive(Debug, Clone)]
struct Handle {
    commands: mpsc::Sender<Command>,
    seen: watch::Receiver<ObservedState>,
    turns: Arc<watch::Sender<u32>>,
}

/// All machines of a service. Clones are the same.
#[derive(Clone)]
pub struct Machines {
    shared: Arc<Shared>,
}

struct Shared {
    driver: Driver,
    records: Arc<dyn MachineRecords>,
    rules: Rules,
    /// As many starts at once as the host has processors.
    starts: Semaphore,
    handles: Mutex<HashMap<AccountId, Handle>>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

/// A turn that wants the machine: it is not idle as long as this lives.
#[derive(Debug)]
pub struct TurnGuard {
    turns: Arc<watch::Sender<u32>>,
}

impl Drop for TurnGuard {
    fn drop(&mut self) {
        self.turns.send_modify(|turns| *turns = turns.saturating_sub(1));
    }
}

impl Machines {
    /// The machines that `driver` makes, by these rules.
    #[must_use]
    pub fn new(driver: Driver, records: Arc<dyn MachineRecords>, rules: Rules) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            shared: Arc::new(Shared {
                driver,
                records,
                rules,
                starts: Semaphore::new(processors),
                handles: Mutex::default(),
                tasks: TaskTracker::new(),
                shutdown: CancellationToken::new(),
            }),
        }
    }

    /// Takes over the machines that an earlier service left running and starts those that are meant to run and
    /// don't. Comes back before they do.
    ///
    /// # Errors
    /// When the store can't be asked.
    pub async fn begin(&self) -> Result<(), MachineError> {
        let mut accounts = self.shared.records.meant_to_run().await?;
        accounts.extend(self.shared.driver.left_over());
        for account in accounts {
            match self.handle(account).await {
                // What belongs to no account any more is the operator's to remove.
                Ok(_) | Err(MachineError::NoMachine) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Starts the account's machine (section 3.1). Comes back when that is on its way and kept.
    ///
    /// # Errors
    /// [`MachineError::NoMachine`] among others.
    pub async fn start(&self, account: AccountId) -> Result<(), MachineError> {
        self.tell(account, Command::Start).await
    }

    /// Stops the account's machine (section 3.1). Comes back when that is on its way and kept.
    ///
    /// # Errors
    /// [`MachineError::NoMachine`] among others.
    pub async fn stop(&self, account: AccountId) -> Result<(), MachineError> {
        self.tell(account, Command::Stop).await
    }

    /// The state of the account's machine (section 2.1).
    ///
    /// # Errors
    /// [`MachineError::NoMachine`] among others.
    pub async fn status(&self, account: AccountId) -> Result<MachineStatus, MachineError> {
        Ok(self.view(account).await?.status)
    }

    /// Returns the state of the account's machine.
    ///
    /// # Errors
    /// [`MachineError::NoMachine`] among others.
    pub async fn view(&self, account: AccountId) -> Result<MachineView, MachineError> {
        let mut seen = self.handle(account).await?.seen;
        // Without a first look in time, what the machine is meant to be must do.
        let _ = timeout(SETTLE_TIMEOUT, seen.wait_for(|seen| seen.settled)).await;
        let view = seen.borrow().view.clone();
        Ok(view)
    }

    /// Starts the account's machine unless it runs, as a new question does, and waits for its agent: at most two
    /// minutes. Cancel safe: the start goes on.
    ///
    /// # Errors
    /// [`MachineError::GivenUp`] with the reason, [`MachineError::Stopped`] when its owner stops it meanwhile.
    pub async fn ensure_running(&self, account: AccountId) -> Result<GuestConnection, MachineError> {
        self.start(account).await?;
        let mut seen = self.handle(account).await?.seen;
        let outcome = timeout(RUNNING_TIMEOUT, seen.wait_for(|seen| connected(seen) || at_rest(seen))).await;
        let seen = match outcome {
            Err(_) => return Err(MachineError::NotInTime),
            Ok(Err(_)) => return Err(MachineError::ShuttingDown),
            Ok(Ok(seen)) => seen,
        };
        match (&seen.link, &seen.view.failure) {
            (Some(link), _) => Ok(link.clone()),
            (None, Some(reason)) => Err(MachineError::GivenUp(reason.clone())),
            (None, None) => Err(MachineError::Stopped),
        }
    }

    /// Waits, without starting it, until the account's machine runs. Cancel safe.
    ///
    /// # Errors
    /// [`MachineError::GivenUp`] with the reason, when a start was given up; [`MachineError::Stopped`] when it is
    /// stopped; both when nobody starts it within a second.
    pub async fn when_running(&self, account: AccountId) -> Result<GuestConnection, MachineError> {
        let mut seen = self.handle(account).await?.seen;
        loop {
            let why = {
                let done = seen.wait_for(|seen| connected(seen) || at_rest(seen)).await;
                let seen = done.map_err(|_| MachineError::ShuttingDown)?;
                match (&seen.link, &seen.view.failure) {
                    (Some(link), _) => return Ok(link.clone()),
                    (None, Some(reason)) => MachineError::GivenUp(reason.clone()),
                    (None, None) => MachineError::Stopped,
                }
            };
            // A start may be on its way here, that of a new question above all.
            match timeout(START_PATIENCE, seen.wait_for(|seen| !at_rest(seen))).await {
                Ok(Ok(_)) => {}
                Ok(Err(_)) => return Err(MachineError::ShuttingDown),
                Err(_) => return Err(why),
            }
        }
    }

    /// Counts a turn that wants the account's machine, from its question to its answer. It does not start the
    /// machine; it keeps it from being idle, and has it started again when it dies.
    ///
    /// # Errors
    /// [`MachineError::NoMachine`] among others.
    pub async fn turn(&self, account: AccountId) -> Result<TurnGuard, MachineError> {
        let turns = self.handle(account).await?.turns;
        turns.send_modify(|turns| *turns += 1);
        Ok(TurnGuard { turns })
    }

    /// The host's numbers of the processes of the account's machine; none when it does not run.
    ///
    /// # Errors
    /// [`MachineError::NoMachine`] among others.
    pub async fn processes(&self, account: AccountId) -> Result<Vec<i32>, MachineError> {
        let handle = self.handle(account).await?;
        let (answer, answered) = oneshot::channel();
        handle.commands.send(Command::Processes(answer)).await.map_err(|_| MachineError::ShuttingDown)?;
        answered.await.map_err(|_| MachineError::ShuttingDown)
    }

    /// Lets go of the account's machine, which must be stopped: its task ends.
    pub fn forget(&self, account: AccountId) {
        self.shared.handles.lock().unwrap_or_else(PoisonError::into_inner).remove(&account);
    }

    /// The states of all machines that have been looked at.
    #[must_use]
    pub fn states(&self) -> Vec<MachineStatus> {
        let handles = self.shared.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles.values().map(|handle| handle.seen.borrow().view.status).collect()
    }

    /// Returns the driver.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        &self.shared.driver
    }

    /// Ends the tasks. Machines that run go on running, for the next service to take over.
    pub async fn shutdown(&self) {
        self.shared.shutdown.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    async fn tell(
        &self,
        account: AccountId,
        command: fn(oneshot::Sender<()>) -> Command,
    ) -> Result<(), MachineError> {
        let handle = self.handle(account).await?;
        let (answer, answered) = oneshot::channel();
        handle.commands.send(command(answer)).await.map_err(|_| MachineError::ShuttingDown)?;
        answered.await.map_err(|_| MachineError::ShuttingDown)
    }

    /// The task of the account's machine, begun if there is none yet.
    async fn handle(&self, account: AccountId) -> Result<Handle, MachineError> {
        if self.shared.shutdown.is_cancelled() {
            return Err(MachineError::ShuttingDown);
        }
        if let Some(handle) = self.known(account) {
            return Ok(handle);
        }
        let record = self.shared.records.load(account).await?.ok_or(MachineError::NoMachine)?;
        let mut handles = self.shared.handles.lock().unwrap_or_else(PoisonError::into_inner);
        // Another caller may have been faster while the store was asked.
        let handle = handles.entry(account).or_insert_with(|| self.supervise(record));
        Ok(handle.clone())
    }

    fn known(&self, account: AccountId) -> Option<Handle> {
        self.shared.handles.lock().unwrap_or_else(PoisonError::into_inner).get(&account).cloned()
    }

    fn supervise(&self, record: MachineRecord) -> Handle {
        let (commands, mailbox) = mpsc::channel(MAILBOX_MAX);
        let (turns, turns_seen) = watch::channel(0);
        let (supervisor, seen) = Supervisor::new(Arc::clone(&self.shared), record, turns_seen);
        self.shared.tasks.spawn(supervisor.run(mailbox));
        Handle { commands, seen, turns: Arc::new(turns) }
    }
}

fn connected(seen: &ObservedState) -> bool {
    seen.link.as_ref().is_some_and(|link| !link.is_closed())
}

fn at_rest(seen: &ObservedState) -> bool {
    seen.settled && seen.view.status == MachineStatus::Stopped
}
