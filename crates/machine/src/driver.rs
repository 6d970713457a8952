//! The machine drivers, as a closed set.

use std::fmt;
use std::io;

use domain::id::AccountId;
use domain::machine::ChangeReason;
use protocol::index::ReportedFile;
use tokio::task::spawn_blocking;

use crate::contract::{ByteStream, DriverError, Home};
use crate::documents::{self, FolderIndexing};
use crate::limits::LimitStatus;
use crate::sandbox::{Kernel, LeasePage, Sandbox, SandboxMachine};
use crate::simulated::{Simulated, SimulatedMachine};

/// Creates and finds machines.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a service has one")]
pub enum Driver {
    /// Runs processes in namespaces of the host, on its kernel or on one of their own.
    Sandbox(Sandbox),
    /// Runs agents inside the service's process, for tests.
    Simulated(Simulated),
}

impl Driver {
    /// Returns the kernel of machines; `None` if they are simulated.
    #[must_use]
    pub const fn kernel(&self) -> Option<Kernel> {
        match self {
            Self::Sandbox(driver) => Some(driver.kernel()),
            Self::Simulated(_) => None,
        }
    }

    /// Returns how machines are isolated, in words for operators.
    #[must_use]
    pub const fn isolation(&self) -> &'static str {
        match self {
            Self::Sandbox(driver) => driver.kernel().isolation(),
            Self::Simulated(_) => "none: a simulation for tests",
        }
    }

    /// Describes the kernel that the service brings to its machines: release, path, origin. `None` if they run on the host's.
    #[must_use]
    pub fn kernel_description(&self) -> Option<&str> {
        match self {
            Self::Sandbox(driver) => driver.kernel_description(),
            Self::Simulated(_) => None,
        }
    }

    /// Opens the page that lets machines work; `None` if they work without one.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn lease_page(&self) -> io::Result<Option<LeasePage>> {
        match self {
            Self::Sandbox(driver) => driver.lease_page(),
            Self::Simulated(_) => Ok(None),
        }
    }

    /// Starts the account's machine. Dropping the future abandons the start; [`Driver::stop`] then cleans up.
    ///
    /// # Errors
    /// See [`DriverError`].
    pub async fn start(&self, home: &Home) -> Result<RunningMachine, DriverError> {
        match self {
            Self::Sandbox(driver) => driver.start(home).await.map(RunningMachine::Sandbox),
            Self::Simulated(driver) => driver.start(home.account).await.map(RunningMachine::Simulated),
        }
    }

    /// Lists the limits of machines and the mechanism that enforces each on this host.
    #[must_use]
    pub fn limits_report(&self) -> Vec<LimitStatus> {
        match self {
            Self::Sandbox(driver) => driver.limits_report(),
            Self::Simulated(_) => Vec::new(),
        }
    }

    /// Returns the account's machine if it runs, even if an earlier service started it.
    ///
    /// # Errors
    /// See [`DriverError`].
    pub fn attach(&self, account: AccountId) -> Result<Option<RunningMachine>, DriverError> {
        match self {
            Self::Sandbox(driver) => Ok(driver.attach(account)?.map(RunningMachine::Sandbox)),
            Self::Simulated(driver) => Ok(driver.attach(account).map(RunningMachine::Simulated)),
        }
    }

    /// Returns the accounts whose machines an earlier service may have left running.
    pub async fn left_over(&self) -> Vec<AccountId> {
        match self {
            Self::Sandbox(driver) => {
                let folders = driver.folders();
                spawn_blocking(move || folders.left_over()).await.unwrap_or_default()
            }
            Self::Simulated(driver) => driver.left_over(),
        }
    }

    /// Stops the account's machine and waits until all of it is gone; does nothing if there is none.
    ///
    /// # Errors
    /// See [`DriverError`].
    pub async fn stop(&self, account: AccountId) -> Result<(), DriverError> {
        match self {
            Self::Sandbox(driver) => driver.stop(account).await,
            Self::Simulated(driver) => driver.stop(account),
        }
    }

    /// Removes the index of an account whose machine is stopped.
    ///
    /// # Errors
    /// See [`DriverError`].
    pub async fn reset(&self, account: AccountId) -> Result<(), DriverError> {
        match self {
            Self::Sandbox(driver) => driver.reset(account).await,
            Self::Simulated(_) => Ok(()),
        }
    }

    /// Returns the accounts that the driver keeps something for, be it a machine or an index.
    pub async fn kept(&self) -> Vec<AccountId> {
        match self {
            Self::Sandbox(driver) => {
                let folders = driver.folders();
                spawn_blocking(move || folders.accounts()).await.unwrap_or_default()
            }
            Self::Simulated(driver) => driver.left_over(),
        }
    }

    /// Returns the memory of the account's machine, in bytes; `None` if it does not run or cannot be measured.
    pub async fn memory(&self, account: AccountId) -> Option<u64> {
        match self {
            Self::Sandbox(driver) => driver.memory(account).await,
            Self::Simulated(driver) => driver.memory(account),
        }
    }

    /// Remembers the reason of the last change of the machine's state, as long as its folder is kept.
    pub fn keep_reason(&self, account: AccountId, reason: &ChangeReason) {
        if let Self::Sandbox(driver) = self
            && let Err(error) = driver.folders().keep_reason(account, reason)
        {
            tracing::debug!(%account, %error, "reason of the machine's state not kept");
        }
    }

    /// Returns the reason of the last change of the machine's state, also if an earlier service changed it.
    pub async fn kept_reason(&self, account: AccountId) -> Option<ChangeReason> {
        match self {
            Self::Sandbox(driver) => {
                let folders = driver.folders();
                spawn_blocking(move || folders.reason(account)).await.ok()?
            }
            Self::Simulated(_) => None,
        }
    }

    /// Keeps what the machine has reported of its workspace's documents. Blocks.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn keep_documents(&self, account: AccountId, files: &[ReportedFile]) -> io::Result<()> {
        match self {
            Self::Sandbox(driver) => documents::keep(&driver.folders().folder(account), files),
            Self::Simulated(_) => Ok(()),
        }
    }

    /// Returns what the machine has last reported of the documents in a folder of its workspace. Blocks.
    #[must_use]
    pub fn kept_documents(&self, account: AccountId, folder: &str) -> FolderIndexing {
        match self {
            Self::Sandbox(driver) => documents::kept(&driver.folders().folder(account), folder),
            Self::Simulated(_) => FolderIndexing::default(),
        }
    }

    /// Returns what the machine's log says last; `None` if it says nothing.
    #[must_use]
    pub fn last_words(&self, account: AccountId) -> Option<String> {
        match self {
            Self::Sandbox(driver) => driver.folders().last_words(account),
            Self::Simulated(_) => None,
        }
    }

    /// Removes all that the driver keeps for an account whose machine is stopped.
    ///
    /// # Errors
    /// See [`DriverError`].
    pub async fn remove(&self, account: AccountId) -> Result<(), DriverError> {
        match self {
            Self::Sandbox(driver) => driver.remove(account).await,
            Self::Simulated(_) => Ok(()),
        }
    }
}

/// A running machine.
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
    /// When the agent does not listen.
    pub async fn connect(&self) -> io::Result<Box<dyn ByteStream>> {
        Ok(match self {
            Self::Sandbox(machine) => Box::new(machine.connect().await?),
            Self::Simulated(machine) => Box::new(machine.connect()?),
        })
    }

    /// Waits until the machine has ended by itself. Cancel safe.
    pub async fn ended(&self) {
        match self {
            Self::Sandbox(machine) => machine.ended().await,
            Self::Simulated(machine) => machine.ended().await,
        }
    }

    /// Returns the process ids on the host; none for a simulated machine.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn processes(&self) -> io::Result<Vec<i32>> {
        match self {
            Self::Sandbox(machine) => machine.processes(),
            Self::Simulated(_) => Ok(Vec::new()),
        }
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sandbox(driver) => f.write_str(&driver.kernel().described(driver.limits_kind())),
            Self::Simulated(_) => f.write_str("simulated"),
        }
    }
}
