//! What each kind of job does. A job may run again after any part of it, so each part leaves nothing to be done twice.

use std::time::Duration;

use domain::id::ConversationId;
use domain::job::Job;
use domain::time::Timestamp;
use store::{Sql, Store, StoreError, audit, conversations, jobs, questions};
use tokio::time::sleep;
use workspace::Workspaces;

/// Rows that one transaction removes, and the pause between two: others write meanwhile.
const ROWS: u32 = 500;
const PAUSE: Duration = Duration::from_millis(200);
/// How long the audit log is kept.
const AUDIT_KEPT: Duration = Duration::from_secs(400 * 24 * 60 * 60);
/// How long failed jobs are kept.
const FAILED_KEPT: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// Runs the job to its end. Cancel safe: what was removed stays removed.
///
/// # Errors
/// Why it failed, in words for the operator.
pub(super) async fn run(
    job: Job,
    store: &Store,
    now: Timestamp,
    workspaces: &Workspaces,
) -> Result<(), String> {
    let rows = match job {
        Job::RemoveConversation(conversation) => return remove_conversation(store, conversation).await,
        Job::RemoveStaleUploads => {
            let removed = workspaces.remove_stale_uploads().await.map_err(|error| error.to_string())?;
            if removed > 0 {
                tracing::info!(files = removed, "files of interrupted uploads removed");
            }
            return Ok(());
        }
        Job::RemoveIdempotencyKeys => {
            chunks(store, move |tx| questions::sweep_idempotency(tx, now, ROWS)).await
        }
        Job::TrimAuditLog => {
            let before = now.micros() - micros(AUDIT_KEPT);
            chunks(store, move |tx| audit::sweep(tx, before, ROWS)).await
        }
        Job::RemoveFailedJobs => {
            let before = Timestamp::from_micros(now.micros() - micros(FAILED_KEPT));
            chunks(store, move |tx| jobs::remove_failed(tx, before, ROWS)).await
        }
    };
    rows.map_err(|error| error.to_string())
}

async fn remove_conversation(store: &Store, conversation: ConversationId) -> Result<(), String> {
    let removed = chunks(store, move |tx| conversations::remove(tx, conversation, ROWS)).await;
    removed.map_err(|error| error.to_string())
}

/// Repeats the removal of up to [`ROWS`] rows until there are fewer.
async fn chunks<F>(store: &Store, remove: F) -> Result<(), StoreError>
where
    F: Fn(&mut dyn Sql) -> Result<u64, StoreError> + Clone + Send + 'static,
{
    while store.write(remove.clone()).await? >= u64::from(ROWS) {
        sleep(PAUSE).await;
    }
    Ok(())
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}
