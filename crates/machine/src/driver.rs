//! Machine drivers: a closed set.

use std::fmt;
use std::io;

use domain::id::AccountId;

use crate::contract::{ByteStream, DriverError, Home};
use crate::limits::LimitStatus;
use crate::sandbox::{Sandbox, SandboxMachine};
use crate::simulated::{Simulated, SimulatedMachine};

/// Creates and finds machines.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a service has one")]
pub enum Driver {
    /// Processes in namespaces of the host, on its kernel or on one of their own.
    Sandbox(Sandbox),
    /// Agents inside the service's process, for tests.
    Simulated(Simulated),
}

impl Driver {
    /// Starts the account's machine. Dropping the future abandons the start; [`Driver::stop`] then clears up.
    ///
    /// # Errors
    /// See [`DriverError`].
    pub async fn start(&self, home: &Home) -> Result<RunningMachine, DriverError> {
        match self {
            Self::Sandbox(driver) => driver.start(home).await.map(RunningMachine::Sandbox),
            Self::Simulated(driver) => driver.start(home.account).await.map(RunningMachine::Simulated),
        }
    }

    /// Lists the limits of machines, and what enforces each on this host.
    #[must_use]
    pub fn limits_report(&self) -> Vec<LimitStatus> {
        match self {
            Self::Sandbox(driver) => driver.limits_report(),
            Self::Simulated(_) => Vec::new(),
        }
    }

    /// The account's machine, if it runs, also when an earlier service has started it.
    ///
    /// # Errors
    /// See [`DriverError`].
    pub fn attach(&self, account: AccountId) -> Result<Option<RunningMachine>, DriverError> {
        match self {
            Self::Sandbox(driver) => Ok(driver.attach(account)?.map(RunningMachine::Sandbox)),
            Self::Simulated(driver) => Ok(driver.attach(account).map(RunningMachine::Simulated)),
        }
    }

    /// The accounts of which a machine may still run that an earlier service started.
    #[must_use]
    pub fn left_over(&self) -> Vec<AccountId> {
        match self {
            Self::Sandbox(driver) => driver.left_over(),
            Self::Simulated(driver) => driver.left_over(),
        }
    }

    /// Stops the account's machine and comes back when nothing of it is left; does nothing if there is none.
    ///
    /// # Errors
    /// See [`DriverError`].
    pub async fn stop(&self, account: AccountId) -> Result<(), DriverError> {
        match self {
            Self::Sandbox(driver) => driver.stop(account).await,
            Self::Simulated(driver) => driver.stop(account),
        }
    }
}

/// A machine that runs.
#[derive(Debug)]
pub enum RunningMachine {
    /// In namespaces of the host.
    Sandbox(SandboxMachine),
    /// Inside the service's process.
    Simulated(SimulatedMachine),
}

impl RunningMachine {
    /// A new byte stream to the agent.
    ///
    /// # Errors
    /// When nobody listens.
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

    /// The host's numbers of its processes; none for a simulated one.
    ///
    /// # Errors
    /// When they can't be listed.
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
            Self::Sandbox(driver) => {
                write!(f, "{} (limits: {})", driver.kernel().driver_name(), driver.limits_kind().as_str())
            }
            Self::Simulated(_) => f.write_str("simulated"),
        }
    }
}
