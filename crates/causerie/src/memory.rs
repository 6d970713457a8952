//! Returns freed memory to the system.
//!
//! The allocator keeps freed memory in one pool for each thread. After a peak that can be most of the process. The
//! pools are checked periodically and trimmed when enough of them is unused.
#![expect(unsafe_code, reason = "the allocator's own calls; each block says why it is sound")]

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

/// The interval of checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// So much more than after the last time is worth the work, which takes some milliseconds.
const TRIM_MIN_BYTES: u64 = 16 << 20;

/// Lets go of what is not used, whenever there is much of it. Never ends.
pub(crate) async fn return_unused() {
    let mut look = interval(CHECK_INTERVAL);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut kept = MemoryUsage::default();
    loop {
        look.tick().await;
        // Other threads go on meanwhile, but for those that ask the same pool for memory.
        let looked = tokio::task::spawn_blocking(move || {
            let now = MemoryUsage::now();
            if !now.should_trim(kept) {
                return kept;
            }
            trim();
            MemoryUsage::now()
        });
        kept = looked.await.unwrap_or(kept);
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

    fn now() -> Self {
        Self { free: free(), resident: resident() }
    }
}

/// Bytes in memory.
fn resident() -> u64 {
    let told = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = told.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * rustix::param::page_size() as u64
}

#[cfg(target_env = "gnu")]
fn free() -> u64 {
    // SAFETY: it takes nothing and returns numbers; the pools are locked meanwhile.
    let told = unsafe { libc::mallinfo2() };
    told.fordblks as u64
}

#[cfg(target_env = "gnu")]
fn trim() {
    // SAFETY: it may be called at any time from any thread, and touches nothing that is in use.
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
    fn what_was_let_go_of_is_not_let_go_of_again() {
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
        assert!(MemoryUsage::now().resident > 1 << 20);
    }
}
