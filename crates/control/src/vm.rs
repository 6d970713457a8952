//! Shows, starts and stops the account's machine (sections 2.1, 3.1 and 4.1 of the interface).

use domain::id::AccountId;
use domain::machine::{ChangeReason, DesiredState, MachineStatus};
use domain::scope::Permission::{self, Machine};
use engine::{BackgroundTasks, Dispatch};
use futures_util::future::BoxFuture;
use machine::{Kernel, MachineHome, MachineRecord, MachineRecords, Machines, RecordsError, SupervisorError};
use store::{Store, machines};
use workspace::Workspaces;

use crate::error::{ErrorKind, UseCaseError};
use crate::principal::Principal;
use crate::provisioning;
use crate::workspaces_marker::WorkspacesMarker;

/// The number of machines of one query.
const MACHINES_PAGE: u32 = 500;

/// The machine as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineDescription {
    pub status: MachineStatus,
    /// The driver of the service's machines, with the kind of its limits.
    pub driver: String,
    /// The kernel of the machines; `None` if they are simulated.
    pub kernel: Option<Kernel>,
    /// The isolation in English.
    pub isolation: &'static str,
    /// The memory that it holds, in bytes; `None` if it does not run or cannot be measured.
    pub memory_bytes: Option<u64>,
    /// The reason of the last change of the state.
    pub reason: Option<ChangeReason>,
}

/// The machines of all accounts. Cheap to clone.
#[derive(Clone)]
pub struct Vm {
    pub(crate) machines: Machines,
    pub(crate) dispatch: Dispatch,
    /// Finishes the work of a dropped request.
    pub(crate) background: BackgroundTasks,
}

impl Vm {
    /// Returns the state of the account's machine. Every permission is enough.
    ///
    /// # Errors
    /// [`PublicCode::NoMachine`](crate::PublicCode::NoMachine), here as [`ErrorKind::NotFound`], among others.
    pub async fn machine_status(&self, principal: &Principal) -> Result<MachineStatus, UseCaseError> {
        principal.require_any(&Permission::ALL)?;
        self.machines.status(principal.account()).await.map_err(|error| match error {
            SupervisorError::NoMachine => UseCaseError::from(error).with_kind(ErrorKind::NotFound),
            error => error.into(),
        })
    }

    /// Describes the account's machine to its owner.
    ///
    /// # Errors
    /// Those of [`Self::machine_status`].
    pub async fn describe_machine(&self, principal: &Principal) -> Result<MachineDescription, UseCaseError> {
        let status = self.machine_status(principal).await?;
        let view = self.machines.machine_view(principal.account()).await?;
        let driver = self.machines.driver();
        Ok(MachineDescription {
            status,
            driver: driver.to_string(),
            kernel: driver.kernel(),
            isolation: driver.describe_isolation(),
            memory_bytes: driver.machine_memory(principal.account()).await,
            reason: view.reason,
        })
    }

    /// Starts the machine from any state.
    ///
    /// # Errors
    /// [`PublicCode::NoMachine`](crate::PublicCode::NoMachine) among others.
    pub async fn start_machine(&self, principal: &Principal) -> Result<(), UseCaseError> {
        principal.require_any(&[Machine])?;
        principal.require_licence()?;
        Ok(self.start_of(principal.account()).await?)
    }

    /// Starts the machine of an account, without a check of permissions.
    pub(crate) async fn start_of(&self, account: AccountId) -> Result<(), SupervisorError> {
        let this = self.clone();
        let started = self.background.see_through(async move {
            this.machines.start_machine(account).await?;
            this.dispatch.wake_up(); // for the answers that waited for it
            Ok(())
        });
        started.await.unwrap_or(Err(SupervisorError::ShuttingDown))
    }

    /// Stops the machine from any state.
    ///
    /// # Errors
    /// [`PublicCode::NoMachine`](crate::PublicCode::NoMachine) among others.
    pub async fn stop_machine(&self, principal: &Principal) -> Result<(), UseCaseError> {
        principal.require_any(&[Machine])?;
        let account = principal.account();
        let machines = self.machines.clone();
        let stopped = self.background.see_through(async move { machines.stop_machine(account).await });
        Ok(stopped.await.unwrap_or(Err(SupervisorError::ShuttingDown))?)
    }
}

/// The machines' records in the store, and the workspaces.
pub(crate) struct StoreMachineRecords {
    pub(crate) store: Store,
    pub(crate) workspaces: Workspaces,
    /// The marker of the folder of workspaces; `None` checks nothing.
    pub(crate) marker: Option<WorkspacesMarker>,
}

impl StoreMachineRecords {
    pub(crate) fn new(store: &Store, workspaces: &Workspaces, marker: &WorkspacesMarker) -> Self {
        let (store, workspaces, marker) = (store.clone(), workspaces.clone(), Some(marker.clone()));
        Self { store, workspaces, marker }
    }
}

impl MachineRecords for StoreMachineRecords {
    fn load_machine(&self, account: AccountId) -> BoxFuture<'_, Result<Option<MachineRecord>, RecordsError>> {
        Box::pin(async move {
            let record = self
                .store
                .read(move |tx| machines::find_machine(tx, account))
                .await
                .map_err(records_error)?;
            if record.is_some() {
                self.marker.as_ref().map_or(Ok(()), WorkspacesMarker::check_marker).map_err(records_error)?;
                provisioning::ensure_folder(&self.workspaces, account).await;
            }
            // A machine cannot enter a workspace whose permissions a tool took away. The driver reports a workspace that
            // is missing or cannot be opened.
            let _ = self.workspaces.workspace_for(account).repair_permissions().await;
            Ok(record.map(|record| MachineRecord {
                home: MachineHome {
                    account,
                    ordinal: record.ordinal,
                    workspace: self.workspaces.workspace_for(account).host_dir(),
                },
                desired: match record.desired {
                    machines::StoredDesiredState::Running => DesiredState::Running,
                    machines::StoredDesiredState::Stopped => DesiredState::Stopped,
                },
            }))
        })
    }

    fn save_desired(
        &self,
        account: AccountId,
        desired: DesiredState,
    ) -> BoxFuture<'_, Result<(), RecordsError>> {
        let desired = match desired {
            DesiredState::Running => machines::StoredDesiredState::Running,
            DesiredState::Stopped => machines::StoredDesiredState::Stopped,
        };
        Box::pin(async move {
            self.store
                .write(move |tx| machines::set_desired(tx, account, desired))
                .await
                .map_err(records_error)
        })
    }

    fn save_lapse(&self, account: AccountId) -> BoxFuture<'_, Result<bool, RecordsError>> {
        Box::pin(async move {
            let lapsed = self
                .store
                .write(move |tx| machines::clear_start_request(tx, account))
                .await
                .map_err(records_error)?;
            Ok(!lapsed)
        })
    }

    fn meant_to_run(&self) -> BoxFuture<'_, Result<Vec<AccountId>, RecordsError>> {
        Box::pin(async move {
            let mut accounts = Vec::new();
            let mut after = None;
            loop {
                let page = self.store.read(move |tx| machines::list_machines(tx, after, MACHINES_PAGE)).await;
                let page = page.map_err(records_error)?;
                let Some(last) = page.last() else { return Ok(accounts) };
                after = Some(last.ordinal);
                let running = page.iter().filter(|one| one.desired == machines::StoredDesiredState::Running);
                accounts.extend(running.map(|one| one.account));
            }
        })
    }
}

fn records_error(error: impl std::error::Error + Send + Sync + 'static) -> RecordsError {
    RecordsError(Box::new(error))
}
