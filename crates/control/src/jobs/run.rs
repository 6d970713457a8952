//! The work of each kind of job. A job may be interrupted and run again, so every step is idempotent.

mod account;

use std::time::Duration;

use domain::id::ConversationId;
use domain::job::Job;
use domain::time::Timestamp;
use machine::Machines;
use store::{Sql, Store, StoreError, audit, conversations, jobs, questions};
use tokio::time::sleep;
use workspace::Workspaces;

/// The number of rows that one transaction removes, and the pause between two transactions, so that others can write
/// meanwhile.
const ROWS: u32 = 500;
const PAUSE: Duration = Duration::from_millis(200);
/// The retention time of the audit log.
const AUDIT_KEPT: Duration = Duration::from_secs(400 * 24 * 60 * 60);
/// The retention time of failed jobs.
const FAILED_KEPT: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// The place where jobs work.
pub(super) struct JobContext<'a> {
    pub(super) store: &'a Store,
    pub(super) workspaces: &'a Workspaces,
    pub(super) machines: &'a Machines,
    /// The time at which the job began.
    pub(super) now: Timestamp,
}

/// Runs the job to its end. Cancel safe: completed removals stay.
///
/// # Errors
/// The cause of the failure, for operators.
pub(super) async fn run_job(job: Job, place: &JobContext<'_>) -> Result<(), String> {
    let JobContext { store, workspaces, now, .. } = *place;
    let rows = match job {
        Job::RemoveConversation(conversation) => return remove_conversation(store, conversation).await,
        Job::RemoveAccount(account) => return account::remove_account(place, account).await,
        Job::RemoveStaleUploads => {
            let removed = workspaces.remove_stale_uploads().await.map_err(|error| error.to_string())?;
            if removed > 0 {
                tracing::info!(files = removed, "files of interrupted uploads removed");
            }
            return Ok(());
        }
        Job::RemoveIdempotencyKeys => {
            remove_in_chunks(store, move |tx| questions::sweep_idempotency(tx, now, ROWS)).await
        }
        Job::TrimAuditLog => {
            let before = now.micros() - duration_micros(AUDIT_KEPT);
            remove_in_chunks(store, move |tx| audit::trim_audit_log(tx, before, ROWS)).await
        }
        Job::RemoveFailedJobs => {
            let before = Timestamp::from_micros(now.micros() - duration_micros(FAILED_KEPT));
            remove_in_chunks(store, move |tx| jobs::remove_failed(tx, before, ROWS)).await
        }
    };
    rows.map_err(|error| error.to_string())
}

async fn remove_conversation(store: &Store, conversation: ConversationId) -> Result<(), String> {
    let removed =
        remove_in_chunks(store, move |tx| conversations::remove_conversation_rows(tx, conversation, ROWS))
            .await;
    removed.map_err(|error| error.to_string())
}

/// Repeats a removal until it removes fewer than [`ROWS`] rows.
async fn remove_in_chunks<F>(store: &Store, remove: F) -> Result<(), StoreError>
where
    F: Fn(&mut dyn Sql) -> Result<u64, StoreError> + Clone + Send + 'static,
{
    while store.write(remove.clone()).await? >= u64::from(ROWS) {
        sleep(PAUSE).await;
    }
    Ok(())
}

fn duration_micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}
