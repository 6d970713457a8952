//! Removes the machines of deleted accounts.

use std::time::Duration;

use domain::id::AccountId;
use machine::Machines;
use store::{Store, StoreError, accounts};
use tokio_util::sync::CancellationToken;

/// The interval between searches for machines without an account.
const INTERVAL: Duration = Duration::from_secs(60);

/// Stops machines whose account does not exist and removes their folders: at once, then every minute.
pub(crate) async fn remove_periodically(store: Store, machines: Machines, shutdown: CancellationToken) {
    shutdown.run_until_cancelled(remove_every(INTERVAL, &store, &machines)).await;
}

async fn remove_every(interval: Duration, store: &Store, machines: &Machines) {
    loop {
        if let Err(error) = remove_orphans(store, machines).await {
            tracing::warn!(%error, "orphaned machine scan failed");
        }
        tokio::time::sleep(interval).await;
    }
}

async fn remove_orphans(store: &Store, machines: &Machines) -> Result<(), StoreError> {
    for account in machines.driver().stored_accounts().await {
        if is_gone(store, account).await? {
            match machines.remove_account(account).await {
                Ok(()) => tracing::warn!(%account, "orphaned machine removed"),
                Err(error) => tracing::error!(%account, %error, "orphaned machine removal failed"),
            }
        }
    }
    Ok(())
}

async fn is_gone(store: &Store, account: AccountId) -> Result<bool, StoreError> {
    Ok(store.read(move |tx| accounts::find_account(tx, account)).await?.is_none())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::account::AccountRole;
    use domain::credits::Credits;
    use domain::id::{PostingId, UserId};
    use domain::machine::Rules;
    use domain::time::Timestamp;
    use machine::simulated::Simulated;
    use machine::{Driver, MachineHome};
    use store::accounts::NewAccount;
    use workspace::{Quota, Workspaces};

    use super::*;
    use crate::vm::StoreMachineRecords;

    const TIMEOUT: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn orphaned_machine_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(&folder.path().join("causerie.db")).expect("a database");
        let (owned, orphan) = (AccountId::from_random(1), AccountId::from_random(2));
        let new = NewAccount {
            account: owned,
            user: UserId::from_random(1),
            role: AccountRole::Owner,
            email: "a@example.test".to_owned(),
            licence_until: None,
            grant: Credits(0),
            posting: PostingId::from_random(1),
            machine: true,
            now: Timestamp::from_micros(0),
        };
        store.write(move |tx| accounts::create_account(tx, &new)).await.expect("an account");
        let simulated = Simulated::new(|_| std::future::pending());
        let hands = Driver::Simulated(simulated.clone());
        let workspaces =
            Workspaces::new(folder.path().join("workspaces"), Quota::default()).expect("a folder");
        let records = StoreMachineRecords { store: store.clone(), workspaces, marker: None };
        let machines = Machines::new(Driver::Simulated(simulated), Arc::new(records), Rules::default());
        let start = async |account| {
            let home = MachineHome { account, ordinal: 0, workspace: folder.path().to_owned() };
            hands.start_machine(&home).await.expect("a machine")
        };
        let _kept = start(owned).await;
        let removing = remove_every(Duration::from_millis(1), &store, &machines);
        let watching = async {
            // Found at once, and again after the interval.
            for _ in 0..2 {
                start(orphan).await.wait_until_ended().await;
            }
        };
        tokio::select! {
            () = removing => {}
            watched = tokio::time::timeout(TIMEOUT, watching) => watched.expect("it is removed"),
        }
        assert_eq!(hands.stored_accounts().await, [owned]);
    }
}
