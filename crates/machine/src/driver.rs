//! The machine drivers, as a closed set.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use domain::id::AccountId;
use domain::machine::ChangeReason;
use protocol::index::ReportedFile;
use tokio::sync::SetOnce;
use tokio::task::spawn_blocking;

use crate::contract::{ByteStream, DriverError, MachineHome};
use crate::documents::{self, FolderIndexReport};
use crate::limits::LimitStatus;
use crate::sandbox::{Kernel, LeasePage, MachineFolders, Sandbox, SandboxMachine};
use crate::simulated::{Simulated, SimulatedMachine};

/// Creates and finds machines.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a service has one")]
pub enum Driver {
    /// Runs processes in namespaces of the host, on its kernel or on a separate one.
    Sandbox(Sandbox),
    /// A sandbox that is still being chosen. Machines start once it is chosen; everything else continues.
    Pending(PendingSandbox),
    /// Runs agents inside the service's process, for tests.
    Simulated(Simulated),
}

/// A sandbox driver that is chosen while the service runs already. Clones share the choice.
#[derive(Debug, Clone)]
pub struct PendingSandbox {
    folders: MachineFolders,
    chosen: Arc<SetOnce<Sandbox>>,
}

impl PendingSandbox {
    /// Creates a driver whose machines have their folders in this one, like the chosen driver.
    #[must_use]
    pub fn new(machines: PathBuf) -> Self {
        Self { folders: MachineFolders::new(machines), chosen: Arc::default() }
    }

    /// Starts machines with this driver from now on. Only the first choice counts.
    pub fn choose_driver(&self, driver: Sandbox) {
        if self.chosen.set(driver).is_err() {
            tracing::error!("machine driver already chosen");
        }
    }

    /// Returns the driver once it is chosen. Cancel safe.
    async fn wait_for_sandbox(&self) -> &Sandbox {
        self.chosen.wait().await
    }
}

impl Driver {
    /// Returns the kernel of machines; `None` if they are simulated, or while the driver is being chosen.
    #[must_use]
    pub fn kernel(&self) -> Option<Kernel> {
        self.chosen_sandbox().map(Sandbox::kernel)
    }

    /// Describes the isolation of machines for operators.
    #[must_use]
    pub fn describe_isolation(&self) -> &'static str {
        match (self, self.chosen_sandbox()) {
            (_, Some(driver)) => driver.kernel().describe_isolation(),
            (Self::Simulated(_), None) => "none: a simulation for tests",
            (Self::Sandbox(_) | Self::Pending(_), None) => "not known yet: drivers are being tried",
        }
    }

    fn chosen_sandbox(&self) -> Option<&Sandbox> {
        match self {
            Self::Sandbox(driver) => Some(driver),
            Self::Pending(pending) => pending.chosen.get(),
            Self::Simulated(_) => None,
        }
    }

    /// Returns the sandbox once it is chosen; `None` if machines are simulated.
    async fn wait_for_sandbox(&self) -> Option<&Sandbox> {
        match self {
            Self::Sandbox(driver) => Some(driver),
            Self::Pending(pending) => Some(pending.wait_for_sandbox().await),
            Self::Simulated(_) => None,
        }
    }

    /// Returns the folders of machines; `None` if they are simulated.
    fn machine_folders(&self) -> Option<MachineFolders> {
        match self {
            Self::Sandbox(driver) => Some(driver.machine_folders()),
            Self::Pending(pending) => Some(pending.folders.clone()),
            Self::Simulated(_) => None,
        }
    }

    /// Describes the kernel that the service brings to its machines: release, path, origin. `None` if they run on the host's.
    #[must_use]
    pub fn kernel_description(&self) -> Option<&str> {
        self.chosen_sandbox().and_then(Sandbox::kernel_description)
    }

    /// Opens the page that lets machines work; `None` if they work without one.
    ///
    /// # Errors
    /// Returns errors of the file system.
    pub fn lease_page(&self) -> io::Result<Option<LeasePage>> {
        match self {
            Self::Sandbox(driver) => driver.lease_page(),
            Self::Pending(pending) => pending.folders.lease_page().map(Some),
            Self::Simulated(_) => Ok(None),
        }
    }

    /// Starts the account's machine. Dropping the future abandons the start; [`Driver::stop_machine`] then cleans up.
    ///
    /// # Errors
    /// See [`DriverError`].
    pub async fn start_machine(&self, home: &MachineHome) -> Result<RunningMachine, DriverError> {
        match self {
            Self::Sandbox(driver) => driver.start_machine(home).await.map(RunningMachine::Sandbox),
            Self::Pending(pending) => {
                pending.wait_for_sandbox().await.start_machine(home).await.map(RunningMachine::Sandbox)
            }
            Self::Simulated(driver) => {
                driver.start_machine(home.account).await.map(RunningMachine::Simulated)
            }
        }
    }

    /// Lists the limits of machines and the mechanism that enforces each on this host.
    #[must_use]
    pub fn limits_report(&self) -> Vec<LimitStatus> {
        self.chosen_sandbox().map(Sandbox::limits_report).unwrap_or_default()
    }

    /// Returns the account's machine if it runs, even if an earlier service started it.
    ///
    /// # Errors
    /// See [`DriverError`].
    pub fn attach_machine(&self, account: AccountId) -> Result<Option<RunningMachine>, DriverError> {
        match self {
            Self::Sandbox(driver) => Ok(driver.attach_machine(account)?.map(RunningMachine::Sandbox)),
            Self::Pending(pending) => {
                Ok(pending.folders.attach_machine(account)?.map(RunningMachine::Sandbox))
            }
            Self::Simulated(driver) => Ok(driver.attach_machine(account).map(RunningMachine::Simulated)),
        }
    }

    /// Returns the accounts whose machines an earlier service may have left running.
    pub async fn left_over(&self) -> Vec<AccountId> {
        match self {
            Self::Simulated(driver) => driver.left_over(),
            Self::Sandbox(_) | Self::Pending(_) => {
                let Some(folders) = self.machine_folders() else { return Vec::new() };
                spawn_blocking(move || folders.left_over()).await.unwrap_or_default()
            }
        }
    }

    /// Stops the account's machine and waits until all its processes have ended; does nothing if the account has no
    /// machine.
    ///
    /// # Errors
    /// See [`DriverError`].
    pub async fn stop_machine(&self, account: AccountId) -> Result<(), DriverError> {
        match self {
            Self::Sandbox(driver) => driver.stop_machine(account).await,
            Self::Pending(pending) => pending.wait_for_sandbox().await.stop_machine(account).await,
            Self::Simulated(driver) => driver.stop_machine(account),
        }
    }

    /// Removes the index of an account whose machine is stopped.
    ///
    /// # Errors
    /// See [`DriverError`].
    pub async fn remove_index(&self, account: AccountId) -> Result<(), DriverError> {
        match self.wait_for_sandbox().await {
            Some(driver) => driver.remove_index(account).await,
            None => Ok(()),
        }
    }

    /// Returns the accounts that the driver keeps something for, a machine or an index.
    pub async fn stored_accounts(&self) -> Vec<AccountId> {
        match self {
            Self::Simulated(driver) => driver.left_over(),
            Self::Sandbox(_) | Self::Pending(_) => {
                let Some(folders) = self.machine_folders() else { return Vec::new() };
                spawn_blocking(move || folders.list_accounts()).await.unwrap_or_default()
            }
        }
    }

    /// Returns the memory of the account's machine, in bytes; `None` if it does not run or cannot be measured.
    pub async fn machine_memory(&self, account: AccountId) -> Option<u64> {
        match self {
            Self::Sandbox(_) | Self::Pending(_) => self.chosen_sandbox()?.machine_memory(account).await,
            Self::Simulated(driver) => driver.machine_memory(account),
        }
    }

    /// Remembers the reason of the last change of the machine's state, as long as its folder is kept.
    pub fn keep_reason(&self, account: AccountId, reason: &ChangeReason) {
        if let Some(folders) = self.machine_folders()
            && let Err(error) = folders.keep_reason(account, reason)
        {
            tracing::debug!(%account, %error, "saving the reason of the machine state failed");
        }
    }

    /// Returns the reason of the last change of the machine's state, also if an earlier service changed it.
    pub async fn kept_reason(&self, account: AccountId) -> Option<ChangeReason> {
        let folders = self.machine_folders()?;
        spawn_blocking(move || folders.last_change_reason(account)).await.ok()?
    }

    /// Saves the machine's report of its workspace's documents. Blocks.
    ///
    /// # Errors
    /// Returns errors of the file system.
    pub fn keep_documents(&self, account: AccountId, files: &[ReportedFile]) -> io::Result<()> {
        self.machine_folders()
            .map_or(Ok(()), |folders| documents::save_report(&folders.machine_folder(account), files))
    }

    /// Returns the last report of the machine on the documents in a folder of its workspace. Blocks.
    #[must_use]
    pub fn kept_documents(&self, account: AccountId, folder: &str) -> FolderIndexReport {
        let kept = |folders: MachineFolders| documents::load_report(&folders.machine_folder(account), folder);
        self.machine_folders().map(kept).unwrap_or_default()
    }

    /// Returns the last line of the machine's log; `None` if it is empty.
    #[must_use]
    pub fn last_words(&self, account: AccountId) -> Option<String> {
        self.machine_folders()?.last_words(account)
    }

    /// Removes all data that the driver keeps for an account whose machine is stopped.
    ///
    /// # Errors
    /// See [`DriverError`].
    pub async fn remove_account(&self, account: AccountId) -> Result<(), DriverError> {
        match self.wait_for_sandbox().await {
            Some(driver) => driver.remove_account(account).await,
            None => Ok(()),
        }
    }
}

#[derive(Debug)]
pub enum RunningMachine {
    /// A machine in namespaces of the host.
    Sandbox(SandboxMachine),
    /// A machine inside the service's process.
    Simulated(SimulatedMachine),
}

impl RunningMachine {
    /// Opens a new byte stream to the agent.
    ///
    /// # Errors
    /// Fails if the agent does not listen.
    pub async fn connect_agent(&self) -> io::Result<Box<dyn ByteStream>> {
        Ok(match self {
            Self::Sandbox(machine) => Box::new(machine.connect_agent().await?),
            Self::Simulated(machine) => Box::new(machine.connect_agent()?),
        })
    }

    /// Waits until the machine has ended by itself. Cancel safe.
    pub async fn wait_until_ended(&self) {
        match self {
            Self::Sandbox(machine) => machine.wait_until_ended().await,
            Self::Simulated(machine) => machine.wait_until_ended().await,
        }
    }

    /// Returns the process ids on the host; none for a simulated machine.
    ///
    /// # Errors
    /// Fails if they cannot be listed.
    pub fn list_processes(&self) -> io::Result<Vec<i32>> {
        match self {
            Self::Sandbox(machine) => machine.list_processes(),
            Self::Simulated(_) => Ok(Vec::new()),
        }
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.chosen_sandbox()) {
            (_, Some(driver)) => f.write_str(&driver.kernel().describe_driver(driver.limits_kind())),
            (Self::Simulated(_), None) => f.write_str("simulated"),
            (Self::Sandbox(_) | Self::Pending(_), None) => f.write_str("pending (drivers are being tried)"),
        }
    }
}
