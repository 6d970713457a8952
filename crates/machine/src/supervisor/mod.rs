//! Supervises the machines of a service: one task per machine, which alone changes its state.
//!
//! [`domain::machine::Machine`] decides; the task in [`task`] executes its effects with the driver and publishes the
//! observed state through a watch channel. Machines outlive the service: [`Machines::shutdown`] ends the tasks and
//! leaves the machines running, and [`Machines::resume_machines`] attaches to machines of an earlier service.

mod index_watch;
mod task;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::id::AccountId;
use domain::machine::{ChangeReason, DesiredState, MachineStatus, Rules};
use futures_util::future::BoxFuture;
use protocol::index::IndexChanged;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::index_watch::PassageEmbedder;
use self::task::{Supervisor, SupervisorCommand};
use crate::connection::GuestConnection;
use crate::contract::{DriverError, MachineHome};
use crate::documents::FolderIndexReport;
use crate::driver::Driver;

/// The maximum number of requests that wait for one machine's task.
const MAILBOX_MAX: usize = 32;
/// The time that a status request waits for the first check of the host.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);
/// The time that [`Machines::when_running`] waits for a stopped machine to be started.
const START_PATIENCE: Duration = Duration::from_secs(1);
/// The maximum wait of [`Machines::for_preview`].
const PREVIEW_START_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum wait of [`Machines::ensure_running`].
const RUNNING_TIMEOUT: Duration = Duration::from_secs(120);
/// The maximum number of loads of a record while machines are being forgotten.
const LOADS_MAX: u32 = 100;
/// The number of concurrent notifications of changed files.
const CHANGES_TOLD_MAX: usize = 256;
/// The maximum wait of [`Machines::stop_completely`].
const STOPPED_TIMEOUT: Duration = Duration::from_secs(60);

/// The stored record of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineRecord {
    /// The folders that the driver needs.
    pub home: MachineHome,
    pub desired: DesiredState,
}

/// The store query failed.
#[derive(Debug, thiserror::Error)]
#[error("machine records: {0}")]
pub struct RecordsError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// The operations of the store that machines need.
pub trait MachineRecords: Send + Sync + 'static {
    /// Returns the account's machine, or `None` if it has none.
    fn load_machine(&self, account: AccountId) -> BoxFuture<'_, Result<Option<MachineRecord>, RecordsError>>;

    /// Saves the desired state of the account's machine.
    fn save_desired(
        &self,
        account: AccountId,
        desired: DesiredState,
    ) -> BoxFuture<'_, Result<(), RecordsError>>;

    /// Saves "stopped" as the desired state, unless a question waits for the machine. Returns true if one waits.
    fn save_lapse(&self, account: AccountId) -> BoxFuture<'_, Result<bool, RecordsError>>;

    /// Returns the accounts whose desired state is running.
    fn meant_to_run(&self) -> BoxFuture<'_, Result<Vec<AccountId>, RecordsError>>;
}

/// The reason why a machine operation failed.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// The account has no machine (`NO_MACHINE`).
    #[error("the account has no machine")]
    NoMachine,
    /// The owner stopped the machine.
    #[error("the machine is stopped")]
    Stopped,
    /// Starting was given up after repeated failures.
    #[error("the machine could not be started: {0}")]
    GivenUp(String),
    /// The machine does not run yet.
    #[error("the machine did not start or stop in time")]
    NotInTime,
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The service is shutting down.
    #[error("the service is stopping")]
    ShuttingDown,
    /// The store query failed.
    #[error(transparent)]
    Records(#[from] RecordsError),
}

/// The observable state of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineView {
    /// The state as shown by the interface.
    pub status: MachineStatus,
    /// The reason why starting was given up, for the owner.
    pub failure: Option<String>,
    /// The reason of the last change of the status, if it ever changed.
    pub reason: Option<ChangeReason>,
    /// The number of turns that need the machine.
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
struct MachineHandle {
    commands: mpsc::Sender<SupervisorCommand>,
    seen: watch::Receiver<ObservedState>,
    turns: Arc<watch::Sender<u32>>,
}

#[derive(Debug, Default)]
struct Handles {
    known: HashMap<AccountId, MachineHandle>,
    /// The number of forgotten machines. A record that was loaded earlier may belong to one of them.
    forgotten: u64,
}

/// All machines of a service. Clones share the same state.
#[derive(Clone)]
pub struct Machines {
    shared: Arc<SupervisorShared>,
}

struct SupervisorShared {
    driver: Driver,
    records: Arc<dyn MachineRecords>,
    rules: Rules,
    /// Embeds the passages of documents, if that is configured.
    embedder: Option<Arc<dyn PassageEmbedder>>,
    /// Limits concurrent starts to the number of processors.
    starts: Semaphore,
    handles: Mutex<Handles>,
    /// Limits concurrent notifications of changed files; other machines find the changes by themselves.
    changes: Arc<Semaphore>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

/// Registers a turn that needs the machine: the machine is not idle until the guard is dropped.
#[derive(Debug)]
pub struct TurnGuard {
    turns: Arc<watch::Sender<u32>>,
}

impl TurnGuard {
    fn new(turns: &Arc<watch::Sender<u32>>) -> Self {
        turns.send_modify(|turns| *turns += 1);
        Self { turns: Arc::clone(turns) }
    }
}

impl Drop for TurnGuard {
    fn drop(&mut self) {
        self.turns.send_modify(|turns| *turns = turns.saturating_sub(1));
    }
}

impl Machines {
    /// Creates a supervisor of machines that `driver` creates, with these rules.
    #[must_use]
    pub fn new(driver: Driver, records: Arc<dyn MachineRecords>, rules: Rules) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            shared: Arc::new(SupervisorShared {
                driver,
                records,
                rules,
                embedder: None,
                starts: Semaphore::new(processors),
                handles: Mutex::default(),
                changes: Arc::new(Semaphore::new(CHANGES_TOLD_MAX)),
                tasks: TaskTracker::new(),
                shutdown: CancellationToken::new(),
            }),
        }
    }

    /// Enables embedding of the passages of documents. Must be called before anything else.
    #[must_use]
    pub fn with_embedder(mut self, embedder: Arc<dyn PassageEmbedder>) -> Self {
        Arc::get_mut(&mut self.shared).expect("nothing shares it yet").embedder = Some(embedder);
        self
    }

    /// Attaches to machines that an earlier service left running, and starts machines that should run but do
    /// not. Returns before they run.
    ///
    /// # Errors
    /// Fails if the store query fails.
    pub async fn resume_machines(&self) -> Result<(), SupervisorError> {
        let mut accounts = self.shared.records.meant_to_run().await?;
        accounts.extend(self.shared.driver.left_over().await);
        for account in accounts {
            match self.machine_handle(account).await {
                // Only the operator may remove machines without an account.
                Ok(_) | Err(SupervisorError::NoMachine) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Starts the account's machine (section 3.1). Returns once the start is under way and the desired state is
    /// saved.
    ///
    /// # Errors
    /// [`SupervisorError::NoMachine`] among others.
    pub async fn start_machine(&self, account: AccountId) -> Result<(), SupervisorError> {
        self.send_command(account, SupervisorCommand::Start).await
    }

    /// Stops the account's machine (section 3.1). Returns once the stop is under way and the desired state is
    /// saved.
    ///
    /// # Errors
    /// [`SupervisorError::NoMachine`] among others.
    pub async fn stop_machine(&self, account: AccountId) -> Result<(), SupervisorError> {
        self.send_command(account, |answer| SupervisorCommand::Stop { reason: None, answer }).await
    }

    /// Stops the account's machine like [`Self::stop_machine`], for a reason that its state then shows.
    ///
    /// # Errors
    /// [`SupervisorError::NoMachine`] among others.
    pub async fn stop_because(
        &self,
        account: AccountId,
        reason: ChangeReason,
    ) -> Result<(), SupervisorError> {
        self.send_command(account, |answer| SupervisorCommand::Stop { reason: Some(reason), answer }).await
    }

    /// Returns the state of the account's machine (section 2.1).
    ///
    /// # Errors
    /// [`SupervisorError::NoMachine`] among others.
    pub async fn status(&self, account: AccountId) -> Result<MachineStatus, SupervisorError> {
        Ok(self.machine_view(account).await?.status)
    }

    /// Returns the state of the account's machine.
    ///
    /// # Errors
    /// [`SupervisorError::NoMachine`] among others.
    pub async fn machine_view(&self, account: AccountId) -> Result<MachineView, SupervisorError> {
        let mut seen = self.machine_handle(account).await?.seen;
        // If the host was not checked in time, the desired state is shown.
        let _ = timeout(SETTLE_TIMEOUT, seen.wait_for(|seen| seen.settled)).await;
        let view = seen.borrow().view.clone();
        Ok(view)
    }

    /// Starts the account's machine unless it runs, as a new question does, and waits for its agent for at most two
    /// minutes. Cancel safe: the start continues.
    ///
    /// # Errors
    /// [`SupervisorError::GivenUp`] with the reason, [`SupervisorError::Stopped`] if the owner stops it meanwhile.
    pub async fn ensure_running(&self, account: AccountId) -> Result<GuestConnection, SupervisorError> {
        self.start_machine(account).await?;
        let mut seen = self.machine_handle(account).await?.seen;
        let outcome =
            timeout(RUNNING_TIMEOUT, seen.wait_for(|seen| is_connected(seen) || at_rest(seen))).await;
        let seen = match outcome {
            Err(_) => return Err(SupervisorError::NotInTime),
            Ok(Err(_)) => return Err(SupervisorError::ShuttingDown),
            Ok(Ok(seen)) => seen,
        };
        match (&seen.link, &seen.view.failure) {
            (Some(link), _) => Ok(link.clone()),
            (None, Some(reason)) => Err(SupervisorError::GivenUp(reason.clone())),
            (None, None) => Err(SupervisorError::Stopped),
        }
    }

    /// Waits, without starting it, until the account's machine runs. Cancel safe.
    ///
    /// # Errors
    /// [`SupervisorError::GivenUp`] with the reason if starting was given up, [`SupervisorError::Stopped`] if it is
    /// stopped; both only if nobody starts it within a second.
    pub async fn when_running(&self, account: AccountId) -> Result<GuestConnection, SupervisorError> {
        let mut seen = self.machine_handle(account).await?.seen;
        loop {
            let why = {
                let done = seen.wait_for(|seen| is_connected(seen) || at_rest(seen)).await;
                let seen = done.map_err(|_| SupervisorError::ShuttingDown)?;
                match (&seen.link, &seen.view.failure) {
                    (Some(link), _) => return Ok(link.clone()),
                    (None, Some(reason)) => SupervisorError::GivenUp(reason.clone()),
                    (None, None) => SupervisorError::Stopped,
                }
            };
            // A start may be under way, typically for a new question.
            match timeout(START_PATIENCE, seen.wait_for(|seen| !at_rest(seen))).await {
                Ok(Ok(_)) => {}
                Ok(Err(_)) => return Err(SupervisorError::ShuttingDown),
                Err(_) => return Err(why),
            }
        }
    }

    /// Registers a turn that needs the account's machine, from its question to its answer. Does not start the
    /// machine, but prevents it from becoming idle, and restarts it if it dies.
    ///
    /// # Errors
    /// [`SupervisorError::NoMachine`] among others.
    pub async fn register_turn(&self, account: AccountId) -> Result<TurnGuard, SupervisorError> {
        Ok(TurnGuard::new(&self.machine_handle(account).await?.turns))
    }

    /// Schedules the reading of these changed files of the workspace. The machine is started if necessary, unless its
    /// owner stopped it or only owners start machines. Returns before they are read.
    pub async fn files_changed(&self, account: AccountId, paths: Vec<String>) {
        // Nothing is read without a machine.
        let Ok(mut handle) = self.machine_handle(account).await else { return };
        let _ = timeout(SETTLE_TIMEOUT, handle.seen.wait_for(|seen| seen.settled)).await;
        let link = handle.seen.borrow().link.clone();
        if link.is_none() {
            if self.may_start(&handle) {
                let _ = self.start_machine(account).await;
            }
            // A starting machine reads all files except hidden ones.
            if !paths.iter().any(|path| path.contains("/.")) {
                return;
            }
        }
        let Ok(place) = Arc::clone(&self.shared.changes).try_acquire_owned() else { return };
        let machines = self.clone();
        let telling = async move {
            let _place = place;
            let link = match link {
                Some(link) => link,
                None => machines.when_running(account).await.ok()?,
            };
            if let Err(error) = link.index_changed(&IndexChanged { paths }).await {
                tracing::debug!(%account, %error, "changed-file notification failed");
            }
            Some(())
        };
        let shutdown = self.shared.shutdown.clone();
        self.shared.tasks.spawn(async move { shutdown.run_until_cancelled(telling).await });
    }

    /// Returns the account's machine to show its owner documents: the running one, or one started as by
    /// [`Self::files_changed`], within [`PREVIEW_START_TIMEOUT`]. Cancel safe: the start continues.
    ///
    /// # Errors
    /// [`SupervisorError::Stopped`] if it may not be started for this, [`SupervisorError::NotInTime`] among others.
    pub async fn for_preview(&self, account: AccountId) -> Result<GuestConnection, SupervisorError> {
        let mut handle = self.machine_handle(account).await?;
        let _ = timeout(SETTLE_TIMEOUT, handle.seen.wait_for(|seen| seen.settled)).await;
        let (link, is_at_rest) = {
            let seen = handle.seen.borrow();
            (seen.link.clone(), at_rest(&seen))
        };
        if let Some(link) = link {
            return Ok(link);
        }
        if is_at_rest && !self.may_start(&handle) {
            return Err(SupervisorError::Stopped);
        }
        let started = async {
            if is_at_rest {
                self.start_machine(account).await?;
            }
            self.when_running(account).await
        };
        timeout(PREVIEW_START_TIMEOUT, started).await.unwrap_or(Err(SupervisorError::NotInTime))
    }

    /// Returns true if a machine at rest may be started for its owner's files.
    fn may_start(&self, handle: &MachineHandle) -> bool {
        let seen = handle.seen.borrow();
        let is_unwanted =
            seen.view.failure.is_some() || seen.view.reason == Some(ChangeReason::StopRequested);
        at_rest(&seen) && !is_unwanted && self.shared.rules.started_by_questions
    }

    /// Returns the last report of the account's machine on the documents in a folder of the workspace.
    pub async fn documents_in_folder(&self, account: AccountId, folder: String) -> FolderIndexReport {
        let shared = Arc::clone(&self.shared);
        let kept = spawn_blocking(move || shared.driver.kept_documents(account, &folder)).await;
        kept.unwrap_or_default()
    }

    /// Returns the process ids of the account's machine on the host; empty if it does not run.
    ///
    /// # Errors
    /// [`SupervisorError::NoMachine`] among others.
    pub async fn list_processes(&self, account: AccountId) -> Result<Vec<i32>, SupervisorError> {
        let handle = self.machine_handle(account).await?;
        let (answer, answered) = oneshot::channel();
        handle
            .commands
            .send(SupervisorCommand::Processes(answer))
            .await
            .map_err(|_| SupervisorError::ShuttingDown)?;
        answered.await.map_err(|_| SupervisorError::ShuttingDown)
    }

    /// Stops the account's machine like [`Self::stop_machine`], and waits until all its processes have ended.
    ///
    /// # Errors
    /// [`SupervisorError::GivenUp`] if one of its processes does not exit, [`SupervisorError::NotInTime`] among others.
    pub async fn stop_completely(&self, account: AccountId) -> Result<(), SupervisorError> {
        self.stop_machine(account).await?;
        let mut seen = self.machine_handle(account).await?.seen;
        match timeout(STOPPED_TIMEOUT, seen.wait_for(at_rest)).await {
            Err(_) => Err(SupervisorError::NotInTime),
            Ok(Err(_)) => Err(SupervisorError::ShuttingDown),
            Ok(Ok(seen)) => match &seen.view.failure {
                Some(reason) => Err(SupervisorError::GivenUp(reason.clone())),
                None => Ok(()),
            },
        }
    }

    /// Stops the account's machine and removes its index, so that the next start reads the whole workspace again.
    ///
    /// # Errors
    /// Like [`Self::stop_completely`]; [`SupervisorError::Driver`] if the index is left or the machine was started
    /// meanwhile.
    pub async fn reset_index(&self, account: AccountId) -> Result<(), SupervisorError> {
        self.stop_completely(account).await?;
        Ok(self.shared.driver.remove_index(account).await?)
    }

    /// Stops the machine of a deleted account, if it runs, and removes its data. Cancel safe: the next call continues.
    ///
    /// # Errors
    /// [`SupervisorError::Driver`].
    pub async fn remove_account(&self, account: AccountId) -> Result<(), SupervisorError> {
        self.forget_machine(account);
        self.shared.driver.stop_machine(account).await?;
        Ok(self.shared.driver.remove_account(account).await?)
    }

    /// Drops the account's machine, which must be stopped: its task ends.
    pub fn forget_machine(&self, account: AccountId) {
        let mut handles = self.lock_handles();
        handles.known.remove(&account);
        handles.forgotten += 1;
    }

    /// Returns the accounts of the machines that are not stopped.
    #[must_use]
    pub fn active_accounts(&self) -> Vec<AccountId> {
        let handles = self.lock_handles();
        let is_active = |handle: &MachineHandle| handle.seen.borrow().view.status != MachineStatus::Stopped;
        handles.known.iter().filter(|(_, handle)| is_active(handle)).map(|(account, _)| *account).collect()
    }

    /// Returns the states of all known machines.
    #[must_use]
    pub fn machine_states(&self) -> Vec<MachineStatus> {
        let handles = self.lock_handles();
        handles.known.values().map(|handle| handle.seen.borrow().view.status).collect()
    }

    #[must_use]
    pub fn driver(&self) -> &Driver {
        &self.shared.driver
    }

    /// Ends the tasks. Running machines continue to run; the next service attaches to them.
    pub async fn shutdown(&self) {
        self.shared.shutdown.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    async fn send_command(
        &self,
        account: AccountId,
        command: impl FnOnce(oneshot::Sender<()>) -> SupervisorCommand,
    ) -> Result<(), SupervisorError> {
        let handle = self.machine_handle(account).await?;
        let (answer, answered) = oneshot::channel();
        handle.commands.send(command(answer)).await.map_err(|_| SupervisorError::ShuttingDown)?;
        answered.await.map_err(|_| SupervisorError::ShuttingDown)
    }

    /// Returns the handle of the account's machine and spawns its task if necessary.
    async fn machine_handle(&self, account: AccountId) -> Result<MachineHandle, SupervisorError> {
        if self.shared.shutdown.is_cancelled() {
            return Err(SupervisorError::ShuttingDown);
        }
        for _ in 0..LOADS_MAX {
            let forgotten = {
                let handles = self.lock_handles();
                if let Some(handle) = handles.known.get(&account) {
                    return Ok(handle.clone());
                }
                handles.forgotten
            };
            let record =
                self.shared.records.load_machine(account).await?.ok_or(SupervisorError::NoMachine)?;
            // Read before the lock is taken, because this waits for the disk.
            let reason = self.shared.driver.kept_reason(account).await;
            let mut handles = self.lock_handles();
            if handles.forgotten == forgotten {
                // Another caller may have created it meanwhile.
                let handle =
                    handles.known.entry(account).or_insert_with(|| self.spawn_supervisor(record, reason));
                return Ok(handle.clone());
            }
        }
        Err(SupervisorError::NotInTime)
    }

    fn lock_handles(&self) -> MutexGuard<'_, Handles> {
        self.shared.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawn_supervisor(&self, record: MachineRecord, reason: Option<ChangeReason>) -> MachineHandle {
        let (commands, mailbox) = mpsc::channel(MAILBOX_MAX);
        let turns = Arc::new(watch::Sender::new(0));
        let (supervisor, seen) =
            Supervisor::new(Arc::clone(&self.shared), record, reason, Arc::clone(&turns));
        self.shared.tasks.spawn(supervisor.run(mailbox));
        MachineHandle { commands, seen, turns }
    }
}

fn is_connected(seen: &ObservedState) -> bool {
    seen.link.as_ref().is_some_and(|link| !link.is_closed())
}

fn at_rest(seen: &ObservedState) -> bool {
    seen.settled && seen.view.status == MachineStatus::Stopped
}
