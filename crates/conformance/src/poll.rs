//! Bounded polling.

use std::thread;
use std::time::{Duration, Instant};

/// The longest wait: enough for a machine to start on a busy host.
pub const TIMEOUT: Duration = Duration::from_secs(120);
const INTERVAL: Duration = Duration::from_millis(10);

/// Polls until `look` returns a value.
///
/// # Panics
/// Panics if there is no value within [`TIMEOUT`]. `what` names the awaited condition.
pub fn wait_until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    let found = poll_in_time(look);
    assert!(found.is_some(), "{what}: not within {TIMEOUT:?}");
    found.expect("it was found")
}

/// Polls until `look` returns a value; `None` after [`TIMEOUT`].
pub fn poll_in_time<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        let found = look();
        if found.is_some() || start.elapsed() > TIMEOUT {
            return found;
        }
        thread::sleep(INTERVAL);
    }
}
