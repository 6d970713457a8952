//! Lists, shows, starts, stops and resets machines, with a running service and without one. Machines outlive the service:
//! without one, the folders of machines and the processes that they name tell the state.

use domain::audit::AuditAction;
use domain::id::AccountId;
use domain::machine::{ChangeReason, MachineStatus};
use machine::{DriverError, MachineDetails, MachineFolders, SupervisorError};
use store::accounts::{self, StoredAccount};
use store::machines::{self, StoredMachine};
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
    /// The kernel that the service gives its machines, in words; `None` without a service, or on the host's kernel.
    pub kernel: Option<String>,
    /// The host's numbers of its processes.
    pub pids: Vec<i32>,
}

/// All that is known about a machine.
#[derive(Debug, Clone)]
pub struct ShownMachine {
    /// The account of the machine.
    pub account: StoredAccount,
    pub status: MachineStatus,
    /// The driver of the running machine, else of the service.
    pub driver: Option<String>,
    /// The kernel that the service gives its machines, in words; `None` without a service, or on the host's kernel.
    pub kernel: Option<String>,
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
                let page = machines::list_machines(tx, after, MACHINES_PAGE)?;
                let with_email = |kept: StoredMachine| {
                    let owner = accounts::find_account(tx, kept.account)?;
                    Ok((kept, owner.map(|owner| owner.email)))
                };
                page.into_iter().map(with_email).collect::<Result<Vec<_>, StoreError>>()
            };
            let page = self.store.read(page).await?;
            let Some((last, _)) = page.last() else { return Ok(listed) };
            after = Some(last.ordinal);
            for (kept, email) in page {
                listed.push(self.machine_summary(kept.account, email).await);
            }
        }
    }

    async fn machine_summary(&self, account: AccountId, email: Option<String>) -> MachineSummary {
        if let Some(RunningService { vm, .. }) = &self.running {
            return MachineSummary {
                account,
                email,
                status: vm.machines.status(account).await.ok(),
                driver: Some(vm.machines.driver().to_string()),
                kernel: vm.machines.driver().kernel_description().map(ToOwned::to_owned),
                pids: vm.machines.list_processes(account).await.unwrap_or_default(),
            };
        }
        match self.machine_details(account) {
            Ok(details) => MachineSummary {
                account,
                email,
                status: Some(status_of(&details)),
                driver: details.driver.map(|(kernel, limits)| kernel.describe_driver(limits)),
                kernel: None,
                pids: details.pids,
            },
            Err(_) => {
                MachineSummary { account, email, status: None, driver: None, kernel: None, pids: Vec::new() }
            }
        }
    }

    /// Shows the machine of an account.
    ///
    /// # Errors
    /// [`AdminError::NoSuchAccount`], [`AdminError::Machine`] among others.
    pub async fn show_machine(&self, account: &str) -> Result<ShownMachine, AdminError> {
        let account = self.with_machine(account).await?;
        let details = self.machine_details(account.id)?;
        let service = self.running.as_ref().map(|running| running.vm.machines.driver());
        let driver = match details.driver {
            Some((kernel, limits)) => Some(kernel.describe_driver(limits)),
            None => service.map(ToString::to_string),
        };
        let kernel = service.and_then(machine::Driver::kernel_description).map(ToOwned::to_owned);
        let isolation = match details.driver {
            Some((kernel, _)) => Some(kernel.describe_isolation()),
            None => service.map(machine::Driver::describe_isolation),
        };
        let (status, reason) = match &self.running {
            Some(RunningService { vm, .. }) => {
                let view = vm.machines.machine_view(account.id).await?;
                (view.status, view.reason)
            }
            None => (status_of(&details), self.machine_folders.last_change_reason(account.id)),
        };
        Ok(ShownMachine { account, status, driver, kernel, isolation, reason, details })
    }

    /// Starts the machine of an account and waits until its agent answers.
    ///
    /// # Errors
    /// [`AdminError::NoService`], [`AdminError::NoSuchAccount`], [`AdminError::Machine`].
    pub async fn start_machine(&self, account: &str) -> Result<StoredAccount, AdminError> {
        let account = self.with_machine(account).await?;
        let RunningService { vm, .. } = self.running.as_ref().ok_or(AdminError::NoService)?;
        self.record_audit(Some(account.id), AuditAction::StartMachine, &account.email, "").await?;
        vm.start_of(account.id).await?;
        vm.machines.ensure_running(account.id).await?;
        Ok(account)
    }

    /// Stops the machine of an account and waits until nothing of it is left. Without a running service, the next
    /// service does not start it by itself either.
    ///
    /// # Errors
    /// [`AdminError::NoSuchAccount`], [`AdminError::Machine`], [`AdminError::Driver`].
    pub async fn stop_machine(&self, account: &str) -> Result<StoredAccount, AdminError> {
        let account = self.with_machine(account).await?;
        self.record_audit(Some(account.id), AuditAction::StopMachine, &account.email, "").await?;
        if let Some(RunningService { vm, .. }) = &self.running {
            vm.machines.stop_completely(account.id).await?;
            return Ok(account);
        }
        let id = account.id;
        let kept =
            self.store.write(move |tx| machines::set_desired(tx, id, machines::StoredDesiredState::Stopped));
        kept.await.map_err(|error| match error {
            machines::MachineRecordError::NotFound => AdminError::Machine(SupervisorError::NoMachine),
            machines::MachineRecordError::Store(error) => AdminError::Store(error),
        })?;
        self.machine_folders.stop_machine(id).await?;
        Ok(account)
    }

    /// Stops every running machine and returns their accounts. Unlike [`Self::stop_machine`] it lets a question start them
    /// again, also under the next service.
    ///
    /// # Errors
    /// [`AdminError::NotAllStopped`] if some cannot be stopped, after the others were.
    pub async fn stop_all_machines(&self) -> Result<Vec<AccountId>, AdminError> {
        let mut report = StopReport::default();
        for MachineSummary { account, pids, .. } in self.list_machines().await? {
            if !pids.is_empty() {
                report.add_outcome(account, self.stop_one_of_all(account).await);
            }
        }
        report.into_result()
    }

    async fn stop_one_of_all(&self, account: AccountId) -> Result<(), AdminError> {
        self.record_audit(Some(account), AuditAction::StopMachine, "all machines", "").await?;
        match &self.running {
            Some(RunningService { vm, .. }) => Ok(vm.machines.stop_completely(account).await?),
            None => Ok(self.machine_folders.stop_machine(account).await?),
        }
    }

    /// Stops the machine of an account and removes its index; the files stay.
    ///
    /// # Errors
    /// [`AdminError::NoService`], [`AdminError::NoSuchAccount`], [`AdminError::Machine`].
    pub async fn reset_machine(&self, account: &str) -> Result<StoredAccount, AdminError> {
        let account = self.with_machine(account).await?;
        let RunningService { vm, .. } = self.running.as_ref().ok_or(AdminError::NoService)?;
        self.record_audit(Some(account.id), AuditAction::ResetMachine, &account.email, "").await?;
        vm.machines.reset_index(account.id).await?;
        Ok(account)
    }

    /// Returns the end of a machine's log, none of which is trusted.
    ///
    /// # Errors
    /// [`AdminError::NoSuchAccount`], [`AdminError::Driver`].
    pub async fn machine_log(&self, account: &str) -> Result<(StoredAccount, String), AdminError> {
        let account = self.with_machine(account).await?;
        let (folders, id) = (self.machine_folders.clone(), account.id);
        let read = spawn_blocking(move || folders.read_log(id)).await.map_err(std::io::Error::other);
        let log = read.and_then(|log| log);
        let log = log.map_err(|error| DriverError::Failed(format!("reading the machine's log: {error}")))?;
        Ok((account, String::from_utf8_lossy(&log).into_owned()))
    }

    /// Returns the account, which must have a machine.
    pub(super) async fn with_machine(&self, named: &str) -> Result<StoredAccount, AdminError> {
        let account = self.find_account(named).await?;
        let id = account.id;
        match self.store.read(move |tx| machines::find_machine(tx, id)).await? {
            Some(_) => Ok(account),
            None => Err(AdminError::Machine(SupervisorError::NoMachine)),
        }
    }

    fn machine_details(&self, account: AccountId) -> Result<MachineDetails, DriverError> {
        self.machine_folders.machine_details(account)
    }
}

/// Stops every machine that has a folder and returns their accounts; needs neither a service nor its database.
///
/// # Errors
/// [`AdminError::NotAllStopped`] if some cannot be stopped, after the others were.
pub async fn stop_left_over(machine_folders: &MachineFolders) -> Result<Vec<AccountId>, AdminError> {
    let mut report = StopReport::default();
    for account in machine_folders.left_over() {
        report.add_outcome(account, machine_folders.stop_machine(account).await.map_err(AdminError::Driver));
    }
    report.into_result()
}

/// The outcome of stopping several machines.
#[derive(Default)]
struct StopReport {
    stopped: Vec<AccountId>,
    failures: Vec<AdminError>,
}

impl StopReport {
    fn add_outcome(&mut self, account: AccountId, outcome: Result<(), AdminError>) {
        match outcome {
            Ok(()) => self.stopped.push(account),
            Err(error) => self.failures.push(error),
        }
    }

    fn into_result(self) -> Result<Vec<AccountId>, AdminError> {
        let failed = self.failures.len();
        let running = failed + self.stopped.len();
        match self.failures.into_iter().next() {
            None => Ok(self.stopped),
            Some(first) => Err(AdminError::NotAllStopped { failed, running, first: Box::new(first) }),
        }
    }
}

/// Returns the state of a machine that no service runs.
fn status_of(details: &MachineDetails) -> MachineStatus {
    if details.pids.is_empty() { MachineStatus::Stopped } else { MachineStatus::Running }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn stop_left_over_continues_after_failure() {
        let machines = tempfile::tempdir().expect("a folder");
        let [broken, other] =
            ["0198a7c2-0000-7000-8000-000000000001", "0198a7c2-0000-7000-8000-000000000002"]
                .map(|account| machines.path().join(account).join("state.json"));
        fs::create_dir_all(&broken).expect("a folder where a file should be");
        fs::create_dir_all(other.parent().expect("its folder")).expect("a folder");
        fs::write(&other, "of a machine that ended").expect("a file");
        let folders = MachineFolders::new(machines.path().to_owned());
        let error = stop_left_over(&folders).await.expect_err("one cannot be stopped");
        assert!(error.to_string().starts_with("1 of 2 machines could not be stopped, the first because: "));
        assert!(broken.exists() && !other.exists());
        fs::remove_dir(&broken).expect("it is empty");
        assert_eq!(stop_left_over(&folders).await.expect("none is left"), []);
    }
}
