//! Workspaces and the database that they belong to: folders that a crash left unmade, and a database that is not the one.

use std::io;
use std::path::Path;
use std::time::Duration;

use domain::id::AccountId;
use store::{DatabaseUrl, Store, StoreError, accounts, machines};
use workspace::{Quota, Workspaces};

use crate::service::{DATABASE, StartError, open_store, open_workspaces};

/// Machines that one look at the store brings.
const MACHINES_PAGE: u32 = 500;

/// Opens the database of a data folder, or another one, and the workspaces. One that can't be reached is waited for that
/// long. A database that is missing or has no accounts is not that of workspaces that there are, and is refused unless
/// `accepts_empty`; it is not made then.
///
/// # Errors
/// [`StartError`].
pub async fn open(
    data: &Path,
    database: Option<&DatabaseUrl>,
    accepts_empty: bool,
    max_wait: Duration,
    quota: Quota,
) -> Result<(Store, Workspaces), StartError> {
    let workspaces = open_workspaces(data, quota)?;
    if !accepts_empty && database.is_none() && !data.join(DATABASE).is_file() {
        refuse_workspaces(&workspaces).await?;
    }
    let store = open_store(data, database, max_wait).await?;
    if !accepts_empty && !store.read(|tx| accounts::any(tx)).await? {
        refuse_workspaces(&workspaces).await?;
    }
    Ok((store, workspaces))
}

async fn refuse_workspaces(workspaces: &Workspaces) -> Result<(), StartError> {
    match workspaces.count().await.map_err(io::Error::other)? {
        0 => Ok(()),
        count => Err(StartError::EmptyDatabase(count)),
    }
}

/// Makes the account's folder if it is missing: a crash may have come between the account and its folder.
pub(crate) async fn ensure(workspaces: &Workspaces, account: AccountId) {
    if workspaces.of(account).is_made() {
        return;
    }
    match workspaces.provision(account, None).await {
        Ok(_) => tracing::warn!(%account, "missing workspace folder created"),
        // Whatever needs it tells what is wrong.
        Err(error) => tracing::error!(%account, %error, "missing workspace folder could not be created"),
    }
}

/// Makes the folders that are missing of all accounts that have a machine. Those of others are made when they are used.
pub(crate) async fn ensure_all(store: &Store, workspaces: &Workspaces) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let page = store.read(move |tx| machines::list(tx, after, MACHINES_PAGE)).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.ordinal);
        for machine in page {
            ensure(workspaces, machine.account).await;
        }
    }
}
