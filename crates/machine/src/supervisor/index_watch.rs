//! Follows the reports of a running machine on the documents in its workspace, saves the last report, and triggers embedding
//! of passages without a vector.

use std::sync::Arc;
use std::time::Duration;

use domain::id::AccountId;
use futures_util::future::BoxFuture;
use protocol::index::{IndexReport, IndexRequest};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{SupervisorShared, TurnGuard};
use crate::connection::{GuestConnection, GuestConnectionError};

/// The pause between two reports.
const REPORT_PAUSE: Duration = Duration::from_millis(250);
/// The reports of large workspaces are rarer: this number of files is reported per second.
const FILES_PER_SECOND: u32 = 1_000;
/// The pause after a missing or invalid report.
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// A machine that reads documents counts as busy for at most this time; afterwards it must have finished once.
const WORKING_MAX: Duration = Duration::from_secs(30 * 60);

/// Embeds the passages of documents, for search by meaning.
pub trait PassageEmbedder: Send + Sync + 'static {
    /// Embeds the passages in the account's machine that have no vector. Returns the pause before it should be tried again,
    /// or `None` when nothing is left to do. Cancel safe: the next call continues.
    fn embed_machine_passages(
        &self,
        account: AccountId,
        guest: GuestConnection,
    ) -> BoxFuture<'_, Option<Duration>>;
}

/// The use of a machine by its own reading of documents.
enum IndexingActivity {
    Idle,
    Since(Instant, #[expect(dead_code, reason = "counts as a turn until it is dropped")] TurnGuard),
    TooLong,
}

/// Keeps the reports of a machine until its connection or `ended` ends. Returns at once if it has no index.
pub(super) async fn follow_index(
    shared: Arc<SupervisorShared>,
    account: AccountId,
    link: GuestConnection,
    turns: Arc<watch::Sender<u32>>,
    ended: CancellationToken,
) {
    let (mut seen, mut reading) = (None, IndexingActivity::Idle);
    let (changes, changed) = watch::channel(0_u64);
    let following = async {
        loop {
            let report = match link.index_report(&IndexRequest { seen }).await {
                Ok(report) => report,
                Err(GuestConnectionError::Unsupported(_)) => return,
                Err(error) => {
                    tracing::debug!(%account, %error, "reading the document report failed");
                    let may_work = !matches!(reading, IndexingActivity::Idle);
                    reading = next_reading(reading, may_work, &turns);
                    sleep(RETRY_PAUSE).await;
                    continue;
                }
            };
            reading = next_reading(reading, report.working, &turns);
            let mut pause = REPORT_PAUSE;
            if let IndexReport { revision, files: Some(files), .. } = report {
                seen = Some(revision);
                changes.send_modify(|changes| *changes += 1);
                pause += Duration::from_secs(1) * u32::try_from(files.len()).unwrap_or(u32::MAX)
                    / FILES_PER_SECOND;
                let shared = Arc::clone(&shared);
                let kept = spawn_blocking(move || shared.driver.keep_documents(account, &files)).await;
                if let Ok(Err(error)) = kept {
                    tracing::debug!(%account, %error, "saving the document report failed");
                }
            }
            sleep(pause).await;
        }
    };
    tokio::select! {
        () = ended.cancelled() => {}
        () = shared.shutdown.cancelled() => {}
        () = link.wait_until_closed() => {}
        () = following => {}
        () = embed_changes(&shared, account, &link, &turns, changed) => {}
    }
}

/// Triggers embedding of passages after each report of changes. Never returns.
async fn embed_changes(
    shared: &SupervisorShared,
    account: AccountId,
    link: &GuestConnection,
    turns: &Arc<watch::Sender<u32>>,
    mut changed: watch::Receiver<u64>,
) {
    let Some(embedder) = &shared.embedder else { return std::future::pending().await };
    while changed.changed().await.is_ok() {
        let mut pause = Some(Duration::ZERO);
        while let Some(time) = pause {
            sleep(time).await;
            // A machine with passages to embed is not idle, but one that waits for a vendor is, and tries again.
            let _turn = time.is_zero().then(|| TurnGuard::new(turns));
            let embedded = timeout(WORKING_MAX, embedder.embed_machine_passages(account, link.clone())).await;
            pause = embedded.unwrap_or(Some(WORKING_MAX));
        }
    }
}

fn next_reading(
    reading: IndexingActivity,
    working: bool,
    turns: &Arc<watch::Sender<u32>>,
) -> IndexingActivity {
    match reading {
        _ if !working => IndexingActivity::Idle,
        IndexingActivity::Idle => IndexingActivity::Since(Instant::now(), TurnGuard::new(turns)),
        IndexingActivity::Since(since, _) if since.elapsed() > WORKING_MAX => IndexingActivity::TooLong,
        IndexingActivity::Since(..) | IndexingActivity::TooLong => reading,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn next_reading_bounds_machine_use() {
        let turns = Arc::new(watch::Sender::new(0));
        let reading = next_reading(IndexingActivity::Idle, true, &turns);
        assert_eq!(*turns.borrow(), 1);
        let reading = next_reading(reading, true, &turns);
        assert_eq!(*turns.borrow(), 1, "it counts once");
        tokio::time::advance(WORKING_MAX + Duration::from_secs(1)).await;
        let reading = next_reading(reading, true, &turns);
        assert_eq!(*turns.borrow(), 0);
        let reading = next_reading(reading, true, &turns);
        assert_eq!(*turns.borrow(), 0, "only once it has finished");
        let reading = next_reading(reading, false, &turns);
        let reading = next_reading(reading, true, &turns);
        assert_eq!(*turns.borrow(), 1);
        drop(next_reading(reading, false, &turns));
        assert_eq!(*turns.borrow(), 0);
    }
}
