//! Watches the resources that the kernel limits only per process or per file: disk space and files, workspace size,
//! the total memory of all processes, sockets.
//!
//! Polls a resource more often when less of it is left, so that little can be used between two polls.

use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::child::{WorkerAnswer, ask_worker};
use super::jail::{Free, Jail};
use super::{ToolLimits, kill, request::ChildTask};

/// The longest and the shortest interval between two checks of free space.
const FREE_EVERY: Duration = Duration::from_millis(500);
const FREE_OFTEN: Duration = Duration::from_millis(2);
/// The maximum rate at which a disk fills, in bytes and in files per second: above all measurements.
const BYTES_PER_SECOND: u64 = 8 << 30;
const FILES_PER_SECOND: u64 = 400_000;
/// The time after which a command's workspace is measured for the first time, unless free space has decreased by the
/// second value: most commands end before.
const FIRST_MEASURE_AFTER: Duration = Duration::from_millis(500);
const UNMEASURED_MAX_BYTES: u64 = 64 << 20;
/// The interval in which that is checked.
const UNMEASURED_POLL: Duration = Duration::from_millis(20);
/// The minimum interval between two measurements of the workspace.
const MEASURE_EVERY: Duration = Duration::from_secs(2);
/// Measuring uses at most one part in this many of the time, unless the workspace may have exceeded its limit.
const MEASURE_SHARE: u32 = 20;
/// The timeout of one measurement.
const MEASURE_TIME_MAX: Duration = Duration::from_secs(15);
/// The bytes and files that a command may still write on a full disk, so that it can clean up.
const LEEWAY_BYTES: u64 = 16 * 1024 * 1024;
const LEEWAY_FILES: u64 = 1024;
/// One part in this many of the disk's file capacity stays free, and at least this number of files: four times the service's
/// minimum, so that a machine stops writing long before the service does.
const FILES_FLOOR_SHARE: u64 = 100;
const FILES_FLOOR_MIN: u64 = 4000;
/// The interval between two checks of memory and sockets.
const MEMORY_EVERY: Duration = Duration::from_millis(100);
const MEMORY_BETWEEN_CALLS_EVERY: Duration = Duration::from_secs(1);
/// The factor by which total memory may exceed the limit, because shared memory counts once per process.
const MEMORY_SEEN_TWICE: u64 = 2;

/// Returns the reason why a command must be killed, as soon as there is one: it filled the disk, exceeded the
/// workspace limit, or all commands exceeded their memory. Usage at the start counts as allowed; otherwise cleaning
/// up would be impossible.
pub(crate) async fn watch_resources(limits: &ToolLimits) -> String {
    tokio::select! {
        why = watch_disk(limits) => why,
        why = watch_growth(limits) => why,
        why = watch_memory(limits, MEMORY_EVERY) => why,
    }
}

/// Does the same for processes between calls, with cheap checks only.
pub(crate) async fn between_calls(limits: &ToolLimits) -> String {
    tokio::select! {
        why = watch_disk(limits) => why,
        why = watch_memory(limits, MEMORY_BETWEEN_CALLS_EVERY) => why,
    }
}

/// Returns the largest file that a command may write without using the disk's reserve, in bytes.
pub(super) fn file_bytes(limits: &ToolLimits) -> u64 {
    Jail::free_space(&limits.workspace).map_or(limits.file_bytes, |free| {
        let room = free.bytes.saturating_sub(limits.disk_free_floor_bytes);
        limits.file_bytes.min(room.saturating_add(LEEWAY_BYTES))
    })
}

async fn watch_disk(limits: &ToolLimits) -> String {
    let at_start = Jail::free_space(&limits.workspace);
    let bytes_floor = at_start.map_or(limits.disk_free_floor_bytes, |free| {
        free_floor(
            limits.disk_free_floor_bytes,
            free.bytes,
            LEEWAY_BYTES,
            limits.disk_free_floor_bytes / 4 * 3,
        )
    });
    let files_floor = at_start.and_then(|free| free.files).map_or(0, |files| {
        // A disk with a small file capacity could hold nothing else.
        let reserve = (files.total / FILES_FLOOR_SHARE).max(FILES_FLOOR_MIN.min(files.total / 4));
        free_floor(reserve, files.free, LEEWAY_FILES, reserve / 4 * 3)
    });
    loop {
        let mut pause = FREE_EVERY;
        if let Some(Free { bytes, files }) = Jail::free_space(&limits.workspace) {
            if bytes < bytes_floor {
                return "the disk is full".to_owned();
            }
            pause = pause.min(time_to_take(bytes - bytes_floor, BYTES_PER_SECOND));
            if let Some(files) = files {
                if files.free < files_floor {
                    return "the disk can hold no more files".to_owned();
                }
                pause = pause.min(time_to_take(files.free - files_floor, FILES_PER_SECOND));
            }
        }
        sleep(pause.max(FREE_OFTEN)).await;
    }
}

/// Returns the amount that must stay free: the reserve; or if less was free at the start, that minus the leeway, but at least
/// the lowest floor. Below the floor a command may write nothing, because repeated leeways would use up everything.
fn free_floor(reserve: u64, free_at_start: u64, leeway: u64, lowest: u64) -> u64 {
    reserve.min(free_at_start.saturating_sub(leeway).max(lowest.min(free_at_start)))
}

/// Returns half of the time in which this amount can be used up.
fn time_to_take(room: u64, per_second: u64) -> Duration {
    Duration::from_millis(room.saturating_mul(500) / per_second)
}

/// The usage of the workspace when it was last measured whole, or estimated since: calls whose measurements fail share one
/// quota.
static KNOWN_USAGE: Mutex<Option<u64>> = Mutex::new(None);

fn known_usage() -> MutexGuard<'static, Option<u64>> {
    KNOWN_USAGE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The growth of a workspace during a call.
struct Growth {
    quota: u64,
    /// The free space at the start.
    free_at_start: u64,
    /// The maximum size of the workspace: the quota, or its usage at the start.
    allowed: Option<u64>,
    /// The last usage and the free space at that time.
    last: Option<(u64, u64)>,
}

impl Growth {
    fn new(quota: u64, free_at_start: u64, known: Option<u64>) -> Self {
        let last = known.map(|used| (used, free_at_start));
        Self { quota, free_at_start, allowed: None, last }
    }

    /// Returns the bytes that may be written before the first measurement.
    fn unmeasured_max(&self) -> u64 {
        let left = self.last.map_or(u64::MAX, |(used, _)| self.quota.saturating_sub(used));
        UNMEASURED_MAX_BYTES.min(self.quota / 8).min(left)
    }

    /// Takes a measurement, `None` if it is incomplete, with the free space at its beginning and end. Returns the usage
    /// and the allowed usage. An incomplete measurement counts as the last complete one plus the decrease of free space
    /// since.
    fn record_measurement(&mut self, measured: Option<u64>, free_before: u64, free_after: u64) -> (u64, u64) {
        let used = match (measured, self.last) {
            (Some(used), _) => {
                self.last = Some((used, free_before));
                used
            }
            (None, Some((used, free))) => used.saturating_add(free.saturating_sub(free_after)),
            (None, None) => self.free_at_start.saturating_sub(free_after),
        };
        let used_at_start = match (measured, self.last) {
            (Some(used), _) => used.saturating_sub(self.free_at_start.saturating_sub(free_before)),
            (None, Some((used, _))) => used,
            (None, None) => 0,
        };
        (used, *self.allowed.get_or_insert(self.quota.max(used_at_start)))
    }
}

async fn watch_growth(limits: &ToolLimits) -> String {
    let free = || Jail::free_space(&limits.workspace).map_or(u64::MAX, |free| free.bytes);
    let at_first = free();
    let mut growth = Growth::new(limits.workspace_bytes, at_first, *known_usage());
    let (begun, unmeasured_max) = (Instant::now(), growth.unmeasured_max());
    while begun.elapsed() < FIRST_MEASURE_AFTER && at_first.saturating_sub(free()) <= unmeasured_max {
        sleep(UNMEASURED_POLL).await;
    }
    loop {
        let (began, before) = (Instant::now(), free());
        let measured = match ask_worker(ChildTask::Measure, limits, MEASURE_TIME_MAX).await {
            Ok(WorkerAnswer::Usage(used)) => used,
            _ => None,
        };
        let (used, allowed) = growth.record_measurement(measured, before, free());
        *known_usage() = Some(used);
        if used > allowed {
            return format!("the workspace grew beyond {allowed} bytes");
        }
        let room = allowed - used;
        let took = began.elapsed();
        let (soonest, latest) =
            (Instant::now() + took, Instant::now() + MEASURE_EVERY.max(took * MEASURE_SHARE));
        let pause = time_to_take(room, BYTES_PER_SECOND).clamp(FREE_OFTEN * 5, FREE_EVERY);
        while Instant::now() < latest {
            sleep(pause).await;
            if before.saturating_sub(free()) > room && Instant::now() >= soonest {
                break;
            }
        }
    }
}

/// Watches what per-process limits do not cover; with a control group the kernel limits the memory.
async fn watch_memory(limits: &ToolLimits, every: Duration) -> String {
    let Some((user, _)) = limits.tools_user.filter(|_| !limits.memory_counted) else {
        return std::future::pending().await;
    };
    let most = limits.memory_bytes.saturating_mul(MEMORY_SEEN_TWICE);
    let sockets_before = count_sockets();
    loop {
        if kill::memory_of_user(user) > most {
            return format!("commands took more than {} MiB of memory together", limits.memory_bytes >> 20);
        }
        if count_sockets().saturating_sub(sockets_before) > limits.sockets {
            return format!("commands opened more than {} sockets", limits.sockets);
        }
        sleep(every).await;
    }
}

/// Counts the sockets of the machine, including those in transit between processes.
fn count_sockets() -> u64 {
    let text = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let used = text.lines().find_map(|line| line.strip_prefix("sockets: used "));
    used.and_then(|used| used.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_measurement_allows_what_is_left() {
        let mut unknown = Growth::new(100, 1000, None);
        assert_eq!(unknown.record_measurement(None, 1000, 960), (40, 100));
        assert_eq!(
            unknown.record_measurement(None, 960, 890),
            (110, 100),
            "the decrease since the start counts"
        );
        let mut known = Growth::new(100, 1000, Some(70));
        assert_eq!(
            known.record_measurement(None, 1000, 960),
            (110, 100),
            "a further call has no further quota"
        );
        let mut measured = Growth::new(100, 1000, Some(70));
        assert_eq!(measured.record_measurement(Some(20), 1000, 1000), (20, 100));
        assert_eq!(measured.record_measurement(None, 990, 950), (70, 100));
        let mut above = Growth::new(100, 1000, None);
        assert_eq!(
            above.record_measurement(Some(150), 990, 990),
            (150, 140),
            "growth above the quota is not kept"
        );
    }

    #[test]
    fn growth_used_up_measures_at_once() {
        assert_eq!(Growth::new(800, 1000, None).unmeasured_max(), 100);
        assert_eq!(Growth::new(800, 1000, Some(790)).unmeasured_max(), 10);
        assert_eq!(Growth::new(800, 1000, Some(900)).unmeasured_max(), 0);
    }

    #[test]
    fn free_floor_holds_after_repeated_leeways() {
        assert_eq!(free_floor(4000, 100_000, 1024, 2000), 4000);
        assert_eq!(free_floor(4000, 4500, 1024, 2000), 3476);
        assert_eq!(free_floor(4000, 2500, 1024, 2000), 2000);
        assert_eq!(free_floor(4000, 1500, 1024, 2000), 1500, "nothing more is taken");
    }
}
