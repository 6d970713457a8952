//! Bounded waiting for what the service does in its own time.

use std::thread;
use std::time::{Duration, Instant};

/// How long anything is waited for: a machine that starts on a busy host fits.
pub const TIMEOUT: Duration = Duration::from_secs(60);
/// The time between two looks.
const INTERVAL: Duration = Duration::from_millis(10);

/// Looks until there is something.
///
/// # Panics
/// When there is nothing within [`TIMEOUT`]; `what` says what was waited for.
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
