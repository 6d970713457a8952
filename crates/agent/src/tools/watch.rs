//! The disk while a command line runs.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::child::{Answer, ask};
use super::jail::Jail;
use super::{Limits, request::Task};

/// How often free space is looked at.
const FREE_EVERY: Duration = Duration::from_millis(500);
/// How often the workspace is measured, at most.
const MEASURE_EVERY: Duration = Duration::from_secs(2);
/// Measuring takes no more than one part in this many of the time.
const MEASURE_SHARE: u32 = 20;
/// How long a measuring may take.
const MEASURE_TIME_MAX: Duration = Duration::from_secs(15);
/// What a command may still write on a disk that was full before, in bytes: so that it can clean up.
const LEEWAY_BYTES: u64 = 16 * 1024 * 1024;

/// Gives why a command must end, once it must: it took the last of the disk, or more than the workspace may have.
/// What was so before counts as allowed, for how else could it be cleaned up.
pub(crate) async fn disk(limits: &Limits) -> String {
    let floor = match Jail::free_bytes(&limits.workspace) {
        Some(free) => limits.disk_free_floor_bytes.min(free.saturating_sub(LEEWAY_BYTES)),
        None => limits.disk_free_floor_bytes,
    };
    let mut most: Option<u64> = None;
    let mut measure_at = Instant::now();
    loop {
        if Jail::free_bytes(&limits.workspace).is_some_and(|free| free < floor) {
            return "the disk is full".to_owned();
        }
        if Instant::now() >= measure_at {
            let began = Instant::now();
            if let Ok(Answer::Usage(Some(used))) = ask(Task::Measure, limits, MEASURE_TIME_MAX).await {
                let allowed = *most.get_or_insert(limits.workspace_bytes.max(used));
                if used > allowed {
                    return format!("the workspace grew beyond {allowed} bytes");
                }
            }
            measure_at = Instant::now() + MEASURE_EVERY.max(began.elapsed() * MEASURE_SHARE);
        }
        sleep(FREE_EVERY).await;
    }
}
