//! Watches the resources that the kernel limits only per process or per file: disk space and files, workspace size,
//! the total memory of all processes, sockets.
//!
//! Polls a resource more often the less of it is left, so that little can be used between two polls.

use std::fs;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::child::{Answer, ask};
use super::jail::{Free, Jail};
use super::{Limits, kill, request::Task};

/// The longest and the shortest interval between two checks of free space.
const FREE_EVERY: Duration = Duration::from_millis(500);
const FREE_OFTEN: Duration = Duration::from_millis(2);
/// The maximum rate at which a disk fills, in bytes and in files per second: above all measurements.
const BYTES_PER_SECOND: u64 = 8 << 30;
const FILES_PER_SECOND: u64 = 400_000;
/// The time after which a command's workspace is measured for the first time, unless free space has decreased by the
/// other: most commands end before.
const FIRST_MEASURE_AFTER: Duration = Duration::from_millis(500);
const UNMEASURED_MAX_BYTES: u64 = 64 << 20;
/// The interval in which that is looked at.
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
/// One part in this many of the disk's file capacity stays free.
const FILES_FLOOR_SHARE: u64 = 100;
/// The interval between two checks of memory and sockets.
const MEMORY_EVERY: Duration = Duration::from_millis(100);
const MEMORY_BETWEEN_CALLS_EVERY: Duration = Duration::from_secs(1);
/// The factor by which total memory may exceed the limit, because shared memory counts once per process.
const MEMORY_SEEN_TWICE: u64 = 2;

/// Returns the reason why a command must be killed, as soon as there is one: it filled the disk, exceeded the
/// workspace limit, or all commands exceeded their memory. Usage at the start counts as allowed; otherwise cleaning
/// up would be impossible.
pub(crate) async fn resources(limits: &Limits) -> String {
    tokio::select! {
        why = disk(limits) => why,
        why = growth(limits) => why,
        why = memory(limits, MEMORY_EVERY) => why,
    }
}

/// Does the same for processes between calls, with cheap checks only.
pub(crate) async fn between_calls(limits: &Limits) -> String {
    tokio::select! {
        why = disk(limits) => why,
        why = memory(limits, MEMORY_BETWEEN_CALLS_EVERY) => why,
    }
}

/// Returns the largest file that a command may write without using the disk's reserve, in bytes.
pub(super) fn file_bytes(limits: &Limits) -> u64 {
    Jail::free(&limits.workspace).map_or(limits.file_bytes, |free| {
        let room = free.bytes.saturating_sub(limits.disk_free_floor_bytes);
        limits.file_bytes.min(room.saturating_add(LEEWAY_BYTES))
    })
}

async fn disk(limits: &Limits) -> String {
    let at_start = Jail::free(&limits.workspace);
    let bytes_floor = at_start.map_or(limits.disk_free_floor_bytes, |free| {
        limits.disk_free_floor_bytes.min(free.bytes.saturating_sub(LEEWAY_BYTES))
    });
    let files_floor = at_start
        .and_then(|free| free.files)
        .map_or(0, |files| (files.total / FILES_FLOOR_SHARE).min(files.free.saturating_sub(LEEWAY_FILES)));
    loop {
        let mut pause = FREE_EVERY;
        if let Some(Free { bytes, files }) = Jail::free(&limits.workspace) {
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

/// Returns half of the time in which this amount can be used up.
fn time_to_take(room: u64, per_second: u64) -> Duration {
    Duration::from_millis(room.saturating_mul(500) / per_second)
}

async fn growth(limits: &Limits) -> String {
    let free = || Jail::free(&limits.workspace).map_or(u64::MAX, |free| free.bytes);
    let at_first = free();
    let mut most: Option<u64> = None;
    let (begun, unmeasured_max) = (Instant::now(), UNMEASURED_MAX_BYTES.min(limits.workspace_bytes / 8));
    while begun.elapsed() < FIRST_MEASURE_AFTER && at_first.saturating_sub(free()) <= unmeasured_max {
        sleep(UNMEASURED_POLL).await;
    }
    loop {
        let (began, before) = (Instant::now(), free());
        let measured = ask(Task::Measure, limits, MEASURE_TIME_MAX).await;
        let room = match (measured, most) {
            (Ok(Answer::Usage(Some(used))), _) => {
                let used_at_start = used.saturating_sub(at_first.saturating_sub(before));
                let allowed = *most.get_or_insert(limits.workspace_bytes.max(used_at_start));
                if used > allowed {
                    return format!("the workspace grew beyond {allowed} bytes");
                }
                allowed - used
            }
            // Too large to measure: the decrease of free space since the start is used instead.
            _ if at_first.saturating_sub(free()) > limits.workspace_bytes => {
                return format!("the workspace grew by more than {} bytes", limits.workspace_bytes);
            }
            _ => limits.workspace_bytes,
        };
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
async fn memory(limits: &Limits, every: Duration) -> String {
    let Some((user, _)) = limits.tools_user.filter(|_| !limits.memory_counted) else {
        return std::future::pending().await;
    };
    let most = limits.memory_bytes.saturating_mul(MEMORY_SEEN_TWICE);
    let sockets_before = sockets();
    loop {
        if kill::memory_of_user(user) > most {
            return format!("commands took more than {} MiB of memory together", limits.memory_bytes >> 20);
        }
        if sockets().saturating_sub(sockets_before) > limits.sockets {
            return format!("commands opened more than {} sockets", limits.sockets);
        }
        sleep(every).await;
    }
}

/// Counts the sockets of the machine, including those in transit between processes.
fn sockets() -> u64 {
    let text = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let used = text.lines().find_map(|line| line.strip_prefix("sockets: used "));
    used.and_then(|used| used.trim().parse().ok()).unwrap_or(0)
}
