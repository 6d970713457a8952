//! What a command line takes while it runs, where the kernel bounds it for each process or file alone: the disk's
//! space and files, the workspace's size, memory of all processes together, sockets.
//!
//! Each is looked at the more often the less of it is left, so that whatever can be taken in between stays small.

use std::fs;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::child::{Answer, ask};
use super::jail::{Free, Jail};
use super::{Limits, kill, request::Task};

/// How often free space is looked at, at least and at most.
const FREE_EVERY: Duration = Duration::from_millis(500);
const FREE_OFTEN: Duration = Duration::from_millis(2);
/// What a disk can take in a second, in bytes and in files: faster than any that was measured.
const BYTES_PER_SECOND: u64 = 8 << 30;
const FILES_PER_SECOND: u64 = 400_000;
/// How often the workspace is measured, at most.
const MEASURE_EVERY: Duration = Duration::from_secs(2);
/// Measuring takes no more than one part in this many of the time, while it cannot have grown too large since.
const MEASURE_SHARE: u32 = 20;
/// How long a measuring may take.
const MEASURE_TIME_MAX: Duration = Duration::from_secs(15);
/// What a command may still write on a disk that was full before, in bytes and in files: so that it can clean up.
const LEEWAY_BYTES: u64 = 16 * 1024 * 1024;
const LEEWAY_FILES: u64 = 1024;
/// One part in this many of the files that a disk can hold stays free.
const FILES_FLOOR_SHARE: u64 = 100;
/// How often memory and sockets are looked at.
const MEMORY_EVERY: Duration = Duration::from_millis(100);
const MEMORY_BETWEEN_CALLS_EVERY: Duration = Duration::from_secs(1);
/// Memory that processes share is seen in each of them; so much more than there may be is let pass.
const MEMORY_SEEN_TWICE: u64 = 2;

/// Gives why a command must end, once it must: it took the last of the disk, more than the workspace may have, or more
/// memory than all commands together. What was so before counts as allowed, for how else could it be cleaned up.
pub(crate) async fn resources(limits: &Limits) -> String {
    tokio::select! {
        why = disk(limits) => why,
        why = growth(limits) => why,
        why = memory(limits, MEMORY_EVERY) => why,
    }
}

/// The same for what runs while nobody waits for it, as far as it can be had for little.
pub(crate) async fn between_calls(limits: &Limits) -> String {
    tokio::select! {
        why = disk(limits) => why,
        why = memory(limits, MEMORY_BETWEEN_CALLS_EVERY) => why,
    }
}

/// The largest file that a command may write: one that leaves the disk its floor.
pub(super) fn file_bytes(limits: &Limits) -> u64 {
    Jail::free(&limits.workspace).map_or(limits.file_bytes, |free| {
        let room = free.bytes.saturating_sub(limits.disk_free_floor_bytes);
        limits.file_bytes.min(room.saturating_add(LEEWAY_BYTES))
    })
}

async fn disk(limits: &Limits) -> String {
    let began = Jail::free(&limits.workspace);
    let bytes_floor = began.map_or(limits.disk_free_floor_bytes, |free| {
        limits.disk_free_floor_bytes.min(free.bytes.saturating_sub(LEEWAY_BYTES))
    });
    let files_floor = began
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

/// Half the time in which so much can be taken.
fn time_to_take(room: u64, per_second: u64) -> Duration {
    Duration::from_millis(room.saturating_mul(500) / per_second)
}

async fn growth(limits: &Limits) -> String {
    let free = || Jail::free(&limits.workspace).map_or(u64::MAX, |free| free.bytes);
    let at_first = free();
    let mut most: Option<u64> = None;
    loop {
        let (began, before) = (Instant::now(), free());
        let measured = ask(Task::Measure, limits, MEASURE_TIME_MAX).await;
        let room = match (measured, most) {
            (Ok(Answer::Usage(Some(used))), _) => {
                let allowed = *most.get_or_insert(limits.workspace_bytes.max(used));
                if used > allowed {
                    return format!("the workspace grew beyond {allowed} bytes");
                }
                allowed - used
            }
            // Too large to be measured: what the disk has lost since the beginning stands for it.
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

/// Watches what no bound of a single process holds; with a control group the kernel counts the memory of all.
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

/// The sockets of the machine, open or on their way between processes.
fn sockets() -> u64 {
    let text = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let used = text.lines().find_map(|line| line.strip_prefix("sockets: used "));
    used.and_then(|used| used.trim().parse().ok()).unwrap_or(0)
}
