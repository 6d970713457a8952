//! Returns freed memory to the system.
//!
//! The allocator keeps freed memory in one pool for each thread. After a peak that can be most of the process. The
//! pools are checked periodically and trimmed when enough of them is unused.
#![expect(unsafe_code, reason = "the allocator's own calls; each block says why it is sound")]

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

/// The interval of checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Trimming takes some milliseconds; it must free at least this much more than after the last time, in bytes.
const TRIM_MIN_BYTES: u64 = 16 << 20;

/// Periodically returns unused memory to the system. Never returns.
pub(crate) async fn return_unused() {
    let mut ticks = interval(CHECK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut after_trim = MemoryUsage::default();
    loop {
        ticks.tick().await;
        // Other threads continue meanwhile, except threads that need the same pool.
        let check = tokio::task::spawn_blocking(move || {
            let now = MemoryUsage::read_current();
            if !now.should_trim(after_trim) {
                return after_trim;
            }
            trim();
            MemoryUsage::read_current()
        });
        after_trim = check.await.unwrap_or(after_trim);
    }
}

/// The memory of the process, in bytes.
#[derive(Clone, Copy, Default)]
struct MemoryUsage {
    /// Unused memory in the pools of the allocator, including memory that was returned to the system.
    free: u64,
    /// Resident memory.
    resident: u64,
}

impl MemoryUsage {
    /// Returns true if trimming frees much memory, given the state after the last trim.
    fn should_trim(self, before: Self) -> bool {
        let freed = self.free > before.free + TRIM_MIN_BYTES;
        let used_again = self.resident > before.resident + TRIM_MIN_BYTES;
        self.free > TRIM_MIN_BYTES && (freed || used_again)
    }

    fn read_current() -> Self {
        Self { free: free(), resident: resident_bytes() }
    }
}

/// Returns the resident memory, in bytes.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * rustix::param::page_size() as u64
}

#[cfg(target_env = "gnu")]
fn free() -> u64 {
    // SAFETY: the call takes no arguments and returns numbers; it locks the pools itself.
    let info = unsafe { libc::mallinfo2() };
    info.fordblks as u64
}

#[cfg(target_env = "gnu")]
fn trim() {
    // SAFETY: the call is allowed at any time from any thread and does not touch memory in use.
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators have no such call.
#[cfg(not(target_env = "gnu"))]
fn free() -> u64 {
    0
}

#[cfg(not(target_env = "gnu"))]
fn trim() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trim_skips_already_released_memory() {
        let mib = |free: u64, resident: u64| MemoryUsage { free: free << 20, resident: resident << 20 };
        let before = MemoryUsage::default();
        assert!(mib(100, 140).should_trim(before));
        assert!(!mib(8, 800).should_trim(before), "it is in use");
        let trimmed = mib(100, 40);
        assert!(!mib(100, 40).should_trim(trimmed));
        assert!(mib(100, 90).should_trim(trimmed), "it was used again");
        assert!(mib(400, 50).should_trim(trimmed), "there is more of it");
    }

    #[test]
    fn the_process_has_memory() {
        assert!(MemoryUsage::read_current().resident > 1 << 20);
    }
}
