//! Whether the server can be reached, which the threads of a store find out together.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::address::Address;
use crate::abort::Abort;
use crate::options::Options;

/// How long callers wait for a server that can't be reached, from the first failure on, unless the
/// operator says otherwise.
pub(crate) const OUTAGE_PATIENCE: Duration = Duration::from_secs(10);
/// How long plans are kept unless the operator says otherwise. A plan that was made for an empty table reads all of it
/// once it is large, until the server happens to look at the table, a minute later.
const PLAN_CACHE_TTL: Duration = Duration::from_secs(10);
/// The pause after the first failed attempt to connect; it doubles up to the longest.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// The longest pause between two attempts of one thread.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Where the server is, and since when it can't be reached.
pub(crate) struct ServerHealth {
    pub(crate) address: Address,
    /// Tells that nothing is waited for any more.
    pub(super) abort: Arc<Abort>,
    max_wait: Duration,
    /// How long a connection goes by the same plans.
    pub(super) plans_kept: Duration,
    outage: Mutex<Option<Outage>>,
}

struct Outage {
    since: Instant,
    reason: String,
    /// Before that no thread tries again once patience is over.
    next: Instant,
}

impl ServerHealth {
    /// A server that nothing is known of yet.
    pub(crate) fn new(address: Address, options: &Options, abort: Arc<Abort>) -> Self {
        let max_wait = options.outage_patience.unwrap_or(OUTAGE_PATIENCE);
        let plans_kept = options.plans_kept.unwrap_or(PLAN_CACHE_TTL);
        Self { address, abort, max_wait, plans_kept, outage: Mutex::new(None) }
    }

    /// Whether the last attempt to connect failed.
    pub(crate) fn is_unreachable(&self) -> bool {
        self.lock().is_some()
    }

    /// Why it is not worth while to try now, if it is not.
    pub(super) fn give_up_reason(&self) -> Option<String> {
        let mut outage = self.lock();
        let known = outage.as_mut()?;
        let now = Instant::now();
        if now.duration_since(known.since) < self.max_wait {
            return None;
        }
        if now >= known.next {
            // This thread tries for all.
            known.next = now + PAUSE_MAX;
            return None;
        }
        Some(known.reason.clone())
    }

    /// An attempt failed. How long to pause before the next, or `None` when patience is over.
    pub(super) fn record_failure(&self, attempt: u32, reason: String) -> Option<Duration> {
        let now = Instant::now();
        let mut outage = self.lock();
        let known = outage.get_or_insert_with(|| {
            tracing::warn!(reason, "database unreachable");
            Outage { since: now, reason: String::new(), next: now }
        });
        known.reason = reason;
        let pause = PAUSE_MIN.saturating_mul(2_u32.saturating_pow(attempt)).min(PAUSE_MAX);
        (now.duration_since(known.since) < self.max_wait).then_some(pause)
    }

    /// An attempt succeeded.
    pub(super) fn record_success(&self) {
        if let Some(outage) = self.lock().take() {
            tracing::info!(after = ?outage.since.elapsed(), "database reachable again");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Outage>> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
