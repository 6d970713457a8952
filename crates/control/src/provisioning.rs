//! Opens the database with the workspaces that belong to it, and creates workspaces that a crash left missing.

use std::io;
use std::path::Path;
use std::time::Duration;

use domain::id::{AccountId, NodeId};
use store::{DatabaseUrl, Store, StoreError, accounts, machines};
use workspace::{Quota, Workspaces};

use crate::backup::interrupted_restore;
use crate::data_folder::{DATABASE, StartError, open_store, open_workspaces, workspaces_folder};
use crate::{ServiceEnvironment, workspaces_marker};

/// The number of machines of one query.
const MACHINES_PAGE: u32 = 500;

/// Opens the workspaces of a data folder, and its database or the one at `database`. Waits up to `max_wait` for a database
/// that is unreachable. If there are workspaces, a database that is missing or has no accounts is an error unless
/// `accepts_empty` is set; it is not created then. A folder of workspaces that is not the database's is an error.
///
/// # Errors
/// [`StartError`].
pub async fn open_data(
    data: &Path,
    database: Option<&DatabaseUrl>,
    accepts_empty: bool,
    max_wait: Duration,
    quota: Quota,
    environment: &ServiceEnvironment,
) -> Result<(Store, Workspaces), StartError> {
    if let Some(left) = interrupted_restore(data) {
        return Err(StartError::RestoreInterrupted(left));
    }
    let workspaces = open_workspaces(data, quota)?;
    if !accepts_empty && database.is_none() && !data.join(DATABASE).is_file() {
        refuse_workspaces(&workspaces).await?;
    }
    let store = open_store(data, database, max_wait).await?;
    if !accepts_empty && !store.read(|tx| accounts::has_any_account(tx)).await? {
        refuse_workspaces(&workspaces).await?;
    }
    let new_id = NodeId::from_random(environment.random_bits());
    workspaces_marker::accept_folder(&store, &workspaces, &workspaces_folder(data), new_id).await?;
    Ok((store, workspaces))
}

async fn refuse_workspaces(workspaces: &Workspaces) -> Result<(), StartError> {
    match workspaces.count_accounts().await.map_err(io::Error::other)? {
        0 => Ok(()),
        count => Err(StartError::EmptyDatabase(count)),
    }
}

/// Creates the account's folder if a crash left it missing.
pub(crate) async fn ensure_folder(workspaces: &Workspaces, account: AccountId) {
    if workspaces.workspace_for(account).is_made() {
        return;
    }
    match workspaces.provision(account, None).await {
        Ok(_) => tracing::warn!(%account, "missing workspace folder created"),
        // The operation that needs the folder reports the error.
        Err(error) => tracing::error!(%account, %error, "creating missing workspace folder failed"),
    }
}

/// Creates the missing folders of all accounts with a machine. Those of other accounts are created at their first use.
pub(crate) async fn ensure_all(store: &Store, workspaces: &Workspaces) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let page = store.read(move |tx| machines::list_machines(tx, after, MACHINES_PAGE)).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.ordinal);
        for machine in page {
            ensure_folder(workspaces, machine.account).await;
        }
    }
}
