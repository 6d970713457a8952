//! Removes the data of a deleted account: its machine and index, files, conversations, keys and users, and its emails
//! in the audit log. Each step finds what an interrupted run has left.

use std::time::Duration;

use domain::id::AccountId;
use store::accounts::AccountRemoval;
use store::{accounts, audit};
use tokio::time::sleep;

use super::{JobContext, PAUSE, ROWS};

/// The number of entries of the audit log that one transaction reads.
const ENTRIES: u32 = 5000;
/// The number of waits for answers that are being stopped; then the job fails and is retried later.
const ANSWERING_WAITS_MAX: u32 = 50;
const ANSWERING_WAIT: Duration = Duration::from_millis(200);

/// Removes all that belongs to the account, which must be closed.
pub(super) async fn remove_account(place: &JobContext<'_>, account: AccountId) -> Result<(), String> {
    let JobContext { store, workspaces, machines, now } = *place;
    let failed = |error: store::StoreError| error.to_string();
    if !store.read(move |tx| accounts::is_closed(tx, account)).await.map_err(failed)? {
        return Err("the account is not closed".to_owned());
    }
    // The machine first, because it writes files.
    machines.remove_account(account).await.map_err(|error| error.to_string())?;
    workspaces.remove_account(account).await.map_err(|error| error.to_string())?;
    while store.write(move |tx| accounts::delete_conversations(tx, account, now)).await.map_err(failed)? > 0 {
        sleep(PAUSE).await;
    }
    let mut after = Some(0);
    while let Some(entry) = after {
        after = store
            .write(move |tx| audit::erase_account_from_audit(tx, account, entry, ENTRIES))
            .await
            .map_err(failed)?;
    }
    let mut waits = 0;
    loop {
        match store.write(move |tx| accounts::remove_account_rows(tx, account, ROWS)).await.map_err(failed)? {
            AccountRemoval::Done => return Ok(()),
            AccountRemoval::Continues => sleep(PAUSE).await,
            AccountRemoval::Answering if waits < ANSWERING_WAITS_MAX => {
                waits += 1;
                sleep(ANSWERING_WAIT).await;
            }
            AccountRemoval::Answering => {
                return Err("answers of the account are still being stopped".to_owned());
            }
        }
    }
}
