//! Bounded polling.

use std::thread;
use std::time::{Duration, Instant};

/// The longest wait: enough for a machine to start and read a scan on a busy host, and for an answer to wait for that.
pub const TIMEOUT: Duration = Duration::from_secs(300);
/// The shortest pause between two looks.
const PAUSE_MIN: Duration = Duration::from_millis(5);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// A pause is this part of the time waited so far: a look costs the service a request, or the host a process.
const PAUSE_PART: u32 = 10;

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
        thread::sleep((start.elapsed() / PAUSE_PART).clamp(PAUSE_MIN, PAUSE_MAX));
    }
}
