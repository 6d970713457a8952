//! Lists, shows, starts, stops and resets machines, with a running service and without one. Machines outlive the service:
//! without one, the folders of machines and the processes that they name tell the state.

use domain::audit::AuditAction;
use domain::id::AccountId;
use domain::machine::{ChangeReason, MachineStatus};
use machine::{DriverError, MachineDetails, MachineError};
use store::accounts::{self, Account};
use store::machines::{self, Machine};
use store::{Sql, StoreError};
use tokio::task::spawn_blocking;

use super::{Admin, AdminError};
use crate::RunningService;

/// The number of machines of one query.
const MACHINES_PAGE: u32 = 500;

/// A line of the list of machines.
#[derive(Debug, Clone)]
pub struct MachineSummary {
    /// The account of the machine.
    pub account: AccountId,
    /// The email of its user; `None` if the account was deleted.
    pub email: Option<String>,
    /// The state; `None` if neither the service nor the machine's folder can tell.
    pub status: Option<MachineStatus>,
    /// The driver of the service; without a service, of the running machine.
    pub driver: Option<String>,
    /// The host's numbers of its processes.
    pub pids: Vec<i32>,
}

/// All that is known of a machine.
#[derive(Debug, Clone)]
pub struct ShownMachine {
    /// The account of the machine.
    pub account: Account,
    /// The state.
    pub status: MachineStatus,
    /// The driver of the running machine, else of the service.
    pub driver: Option<String>,
    /// The isolation in words.
    pub isolation: Option<&'static str>,
    /// The reason of the last change of the state.
    pub reason: Option<ChangeReason>,
    /// The facts that the host knows.
    pub details: MachineDetails,
}

impl Admin {
    /// Lists every machine.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_machines(&self) -> Result<Vec<MachineSummary>, AdminError> {
        let mut listed = Vec::new();
        let mut after = None;
        loop {
            let page = move |tx: &mut dyn Sql| {
                let page = machines::list(tx, after, MACHINES_PAGE)?;
                let with_email = |kept: Machine| {
                    let owner = accounts::get(tx, kept.account)?;
                    Ok((kept, owner.map(|owner| owner.email)))
                };
                page.into_iter().map(with_email).collect::<Result<Vec<_>, StoreError>>()
            };
            let page = self.store.read(page).await?;
            let Some((last, _)) = page.last() else { return Ok(listed) };
            after = Some(last.ordinal);
            for (kept, email) in page {
                listed.push(self.summary(kept.account, email).await);
            }
        }
    }

    async fn summary(&self, account: AccountId, email: Option<String>) -> MachineSummary {
        if let Some(RunningService { vm, .. }) = &self.running {
            return MachineSummary {
                account,
                email,
                status: vm.machines.status(account).await.ok(),
                driver: Some(vm.machines.driver().to_string()),
                pids: vm.machines.processes(account).await.unwrap_or_default(),
            };
        }
        match self.details(account) {
            Ok(details) => MachineSummary {
                account,
                email,
                status: Some(status_of(&details)),
                driver: details.driver.map(|(kernel, limits)| kernel.described(limits)),
                pids: details.pids,
            },
            Err(_) => MachineSummary { account, email, status: None, driver: None, pids: Vec::new() },
        }
    }

    /// Shows the machine of an account.
    ///
    /// # Errors
    /// [`AdminError::NoSuchAccount`], [`MachineError::NoMachine`] among others.
    pub async fn show_machine(&self, account: &str) -> Result<ShownMachine, AdminError> {
        let account = self.with_machine(account).await?;
        let details = self.details(account.id)?;
        let service = self.running.as_ref().map(|running| running.vm.machines.driver());
        let driver = match details.driver {
            Some((kernel, limits)) => Some(kernel.described(limits)),
            None => service.map(ToString::to_string),
        };
        let isolation = match details.driver {
            Some((kernel, _)) => Some(kernel.isolation()),
            None => service.map(machine::Driver::isolation),
        };
        let (status, reason) = match &self.running {
            Some(RunningService { vm, .. }) => {
                let view = vm.machines.view(account.id).await?;
                (view.status, view.reason)
            }
            None => (status_of(&details), self.machine_folders.reason(account.id)),
        };
        Ok(ShownMachine { account, status, driver, isolation, reason, details })
    }

    /// Starts the machine of an account and waits until its agent answers.
    ///
    /// # Errors
    /// [`AdminError::NoService`], [`AdminError::NoSuchAccount`], [`AdminError::Machine`].
    pub async fn start_machine(&self, account: &str) -> Result<Account, AdminError> {
        let account = self.with_machine(account).await?;
        let RunningService { vm, .. } = self.running.as_ref().ok_or(AdminError::NoService)?;
        self.record(Some(account.id), AuditAction::StartMachine, &account.email, "").await?;
        vm.start_of(account.id).await?;
        vm.machines.ensure_running(account.id).await?;
        Ok(account)
    }

    /// Stops the machine of an account and waits until nothing of it is left. Without a service, also the next one does not
    /// start it by itself.
    ///
    /// # Errors
    /// [`AdminError::NoSuchAccount`], [`AdminError::Machine`], [`AdminError::Driver`].
    pub async fn stop_machine(&self, account: &str) -> Result<Account, AdminError> {
        let account = self.with_machine(account).await?;
        self.record(Some(account.id), AuditAction::StopMachine, &account.email, "").await?;
        if let Some(RunningService { vm, .. }) = &self.running {
            vm.machines.stop_completely(account.id).await?;
            return Ok(account);
        }
        let id = account.id;
        let kept = self.store.write(move |tx| machines::set_desired(tx, id, machines::Desired::Stopped));
        kept.await.map_err(|error| match error {
            machines::MachineError::NotFound => AdminError::Machine(MachineError::NoMachine),
            machines::MachineError::Store(error) => AdminError::Store(error),
        })?;
        self.machine_folders.stop(id).await?;
        Ok(account)
    }

    /// Stops every running machine and returns their accounts. Unlike [`Self::stop_machine`] it lets a question start them
    /// again, also under the next service.
    ///
    /// # Errors
    /// [`AdminError::Machine`], [`AdminError::Driver`]: of the first machine that cannot be stopped.
    pub async fn stop_all_machines(&self) -> Result<Vec<AccountId>, AdminError> {
        let mut stopped = Vec::new();
        for machine in self.list_machines().await? {
            if machine.pids.is_empty() {
                continue;
            }
            self.record(Some(machine.account), AuditAction::StopMachine, "all machines", "").await?;
            match &self.running {
                Some(RunningService { vm, .. }) => vm.machines.stop_completely(machine.account).await?,
                None => self.machine_folders.stop(machine.account).await?,
            }
            stopped.push(machine.account);
        }
        Ok(stopped)
    }

    /// Stops the machine of an account and removes its index; the files stay.
    ///
    /// # Errors
    /// [`AdminError::NoService`], [`AdminError::NoSuchAccount`], [`AdminError::Machine`].
    pub async fn reset_machine(&self, account: &str) -> Result<Account, AdminError> {
        let account = self.with_machine(account).await?;
        let RunningService { vm, .. } = self.running.as_ref().ok_or(AdminError::NoService)?;
        self.record(Some(account.id), AuditAction::ResetMachine, &account.email, "").await?;
        vm.machines.reset(account.id).await?;
        Ok(account)
    }

    /// Returns the end of a machine's log, of which nothing is trusted.
    ///
    /// # Errors
    /// [`AdminError::NoSuchAccount`], [`AdminError::Driver`].
    pub async fn machine_log(&self, account: &str) -> Result<(Account, String), AdminError> {
        let account = self.with_machine(account).await?;
        let (folders, id) = (self.machine_folders.clone(), account.id);
        let read = spawn_blocking(move || folders.log(id)).await.map_err(std::io::Error::other);
        let log = read.and_then(|log| log);
        let log = log.map_err(|error| DriverError::Failed(format!("reading the machine's log: {error}")))?;
        Ok((account, String::from_utf8_lossy(&log).into_owned()))
    }

    /// Returns the account, which must have a machine.
    pub(super) async fn with_machine(&self, named: &str) -> Result<Account, AdminError> {
        let account = self.account(named).await?;
        let id = account.id;
        match self.store.read(move |tx| machines::get(tx, id)).await? {
            Some(_) => Ok(account),
            None => Err(AdminError::Machine(MachineError::NoMachine)),
        }
    }

    fn details(&self, account: AccountId) -> Result<MachineDetails, DriverError> {
        self.machine_folders.details(account)
    }
}

/// Returns the state of a machine that no service runs.
fn status_of(details: &MachineDetails) -> MachineStatus {
    if details.pids.is_empty() { MachineStatus::Stopped } else { MachineStatus::Running }
}
