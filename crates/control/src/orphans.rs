//! Removes the machines of accounts that are gone.

use std::time::Duration;

use domain::id::AccountId;
use machine::Machines;
use store::{Store, StoreError, accounts};
use tokio_util::sync::CancellationToken;

/// The interval in which machines without an account are looked for.
const INTERVAL: Duration = Duration::from_secs(60);

/// Stops machines whose account does not exist and removes their folders: at once, then every minute.
pub(crate) async fn remove_periodically(store: Store, machines: Machines, shutdown: CancellationToken) {
    shutdown.run_until_cancelled(remove_every(INTERVAL, &store, &machines)).await;
}

async fn remove_every(interval: Duration, store: &Store, machines: &Machines) {
    loop {
        if let Err(error) = remove(store, machines).await {
            tracing::warn!(%error, "machines without an account not looked for");
        }
        tokio::time::sleep(interval).await;
    }
}

async fn remove(store: &Store, machines: &Machines) -> Result<(), StoreError> {
    for account in machines.driver().kept() {
        if is_gone(store, account).await? {
            match machines.remove(account).await {
                Ok(()) => tracing::warn!(%account, "machine of no account removed"),
                Err(error) => tracing::error!(%account, %error, "machine of no account not removed"),
            }
        }
    }
    Ok(())
}

async fn is_gone(store: &Store, account: AccountId) -> Result<bool, StoreError> {
    Ok(store.read(move |tx| accounts::get(tx, account)).await?.is_none())
}
