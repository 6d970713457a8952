//! Bounded polling.

use std::thread;
use std::time::{Duration, Instant};

/// The longest wait: enough for a machine to start on a busy host.
pub const TIMEOUT: Duration = Duration::from_secs(60);
/// The polling interval.
const INTERVAL: Duration = Duration::from_millis(10);

/// Polls until `look` returns a value.
///
/// # Panics
/// If there is none within [`TIMEOUT`]. `what` names the awaited condition.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < TIMEOUT, "{what}: not within {TIMEOUT:?}");
        thread::sleep(INTERVAL);
    }
}
