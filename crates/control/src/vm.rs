//! The account's machine as its owner controls it (sections 2.1, 3.1 and 4.1 of the interface).

use domain::id::AccountId;
use domain::machine::{Desired, MachineStatus};
use futures_util::future::BoxFuture;
use machine::{Home, MachineRecord, MachineRecords, Machines};
pub use machine::{MachineError, RecordsError};
use store::{Store, machines};
use workspace::Workspaces;

use crate::provisioning;
use engine::Dispatch;

/// Machines that one look at the store brings.
const MACHINES_PAGE: u32 = 500;

/// The machines of all accounts. Cheap to clone.
#[derive(Clone)]
pub struct Vm {
    pub(crate) machines: Machines,
    pub(crate) dispatch: Dispatch,
}

impl Vm {
    /// The state of the account's machine.
    ///
    /// # Errors
    /// [`MachineError::NoMachine`] among others.
    pub async fn status(&self, account: AccountId) -> Result<MachineStatus, MachineError> {
        self.machines.status(account).await
    }

    /// Starts it, from whatever state.
    ///
    /// # Errors
    /// [`MachineError::NoMachine`] among others.
    pub async fn start(&self, account: AccountId) -> Result<(), MachineError> {
        let this = self.clone();
        let started = self.dispatch.see_through(async move {
            this.machines.start(account).await?;
            this.dispatch.wake(); // for what waited for it
            Ok(())
        });
        started.await.unwrap_or(Err(MachineError::ShuttingDown))
    }

    /// Stops it, from whatever state.
    ///
    /// # Errors
    /// [`MachineError::NoMachine`] among others.
    pub async fn stop(&self, account: AccountId) -> Result<(), MachineError> {
        let machines = self.machines.clone();
        let stopped = self.dispatch.see_through(async move { machines.stop(account).await });
        stopped.await.unwrap_or(Err(MachineError::ShuttingDown))
    }
}

/// What the supervisor needs of store and workspaces.
pub(crate) struct StoreMachineRecords {
    pub(crate) store: Store,
    pub(crate) workspaces: Workspaces,
}

impl MachineRecords for StoreMachineRecords {
    fn load(&self, account: AccountId) -> BoxFuture<'_, Result<Option<MachineRecord>, RecordsError>> {
        Box::pin(async move {
            let kept = self.store.read(move |tx| machines::get(tx, account)).await.map_err(failed)?;
            if kept.is_some() {
                provisioning::ensure(&self.workspaces, account).await;
            }
            // Nothing in a machine gets into a workspace whose permissions a tool took away. Where there is no
            // workspace, or none that can be opened, the driver tells.
            let _ = self.workspaces.of(account).repair().await;
            Ok(kept.map(|kept| MachineRecord {
                home: Home {
                    account,
                    ordinal: kept.ordinal,
                    workspace: self.workspaces.of(account).host_dir(),
                },
                desired: match kept.desired {
                    machines::Desired::Running => Desired::Running,
                    machines::Desired::Stopped => Desired::Stopped,
                },
            }))
        })
    }

    fn save(&self, account: AccountId, desired: Desired) -> BoxFuture<'_, Result<(), RecordsError>> {
        let desired = match desired {
            Desired::Running => machines::Desired::Running,
            Desired::Stopped => machines::Desired::Stopped,
        };
        Box::pin(async move {
            self.store.write(move |tx| machines::set_desired(tx, account, desired)).await.map_err(failed)
        })
    }

    fn lapse(&self, account: AccountId) -> BoxFuture<'_, Result<bool, RecordsError>> {
        Box::pin(async move {
            let lapsed = self
                .store
                .write(move |tx| machines::clear_start_request(tx, account))
                .await
                .map_err(failed)?;
            Ok(!lapsed)
        })
    }

    fn meant_to_run(&self) -> BoxFuture<'_, Result<Vec<AccountId>, RecordsError>> {
        Box::pin(async move {
            let mut accounts = Vec::new();
            let mut after = None;
            loop {
                let page = self.store.read(move |tx| machines::list(tx, after, MACHINES_PAGE)).await;
                let page = page.map_err(failed)?;
                let Some(last) = page.last() else { return Ok(accounts) };
                after = Some(last.ordinal);
                let running = page.iter().filter(|one| one.desired == machines::Desired::Running);
                accounts.extend(running.map(|one| one.account));
            }
        })
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> RecordsError {
    RecordsError(Box::new(error))
}
