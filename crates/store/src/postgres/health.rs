//! Reachability of the server, shared by the threads of a store.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::address::PgAddress;
use crate::abort::Abort;
use crate::options::StoreOptions;

/// The default time that callers wait for an unreachable server, from its first failure on.
pub(crate) const OUTAGE_PATIENCE: Duration = Duration::from_secs(10);
/// The default lifetime of cached plans. A plan made for an empty table scans the whole table once it is
/// large, until autovacuum analyses it, about a minute later.
const PLAN_CACHE_TTL: Duration = Duration::from_secs(10);
/// The pause after the first failed attempt to connect. It doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// The longest pause between two attempts of one thread.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The address of the server, and its outage if it is unreachable.
pub(crate) struct ServerHealth {
    pub(crate) address: PgAddress,
    /// Ends all waiting when the store is aborted.
    pub(super) abort: Arc<Abort>,
    max_wait: Duration,
    /// The lifetime of cached plans of a connection.
    pub(super) plan_cache_ttl: Duration,
    outage: Mutex<Option<Outage>>,
}

struct Outage {
    since: Instant,
    reason: String,
    /// No thread tries again before this time once the outage exceeds the maximum.
    next: Instant,
}

impl ServerHealth {
    /// Creates the state of a server that has not been contacted yet.
    pub(crate) fn new(address: PgAddress, options: &StoreOptions, abort: Arc<Abort>) -> Self {
        let max_wait = options.outage_patience.unwrap_or(OUTAGE_PATIENCE);
        let plan_cache_ttl = options.plans_kept.unwrap_or(PLAN_CACHE_TTL);
        Self { address, abort, max_wait, plan_cache_ttl, outage: Mutex::new(None) }
    }

    /// Returns `true` if the last attempt to connect failed.
    pub(crate) fn is_unreachable(&self) -> bool {
        self.lock_outage().is_some()
    }

    /// Returns the reason for not trying now: the outage exceeds the maximum, and another attempt is not due.
    pub(super) fn give_up_reason(&self) -> Option<String> {
        let mut outage = self.lock_outage();
        let known = outage.as_mut()?;
        let now = Instant::now();
        if now.duration_since(known.since) < self.max_wait {
            return None;
        }
        if now >= known.next {
            // This thread tries on behalf of all.
            known.next = now + PAUSE_MAX;
            return None;
        }
        Some(known.reason.clone())
    }

    /// Records a failed attempt. Returns the pause before the next one, or `None` if the outage exceeds the
    /// maximum.
    pub(super) fn record_failure(&self, attempt: u32, reason: String) -> Option<Duration> {
        let now = Instant::now();
        let mut outage = self.lock_outage();
        let known = outage.get_or_insert_with(|| {
            tracing::warn!(reason, "database unreachable");
            Outage { since: now, reason: String::new(), next: now }
        });
        known.reason = reason;
        let pause = PAUSE_MIN.saturating_mul(2_u32.saturating_pow(attempt)).min(PAUSE_MAX);
        (now.duration_since(known.since) < self.max_wait).then_some(pause)
    }

    /// Records a successful attempt.
    pub(super) fn record_success(&self) {
        if let Some(outage) = self.lock_outage().take() {
            tracing::info!(after = ?outage.since.elapsed(), "database reachable again");
        }
    }

    fn lock_outage(&self) -> MutexGuard<'_, Option<Outage>> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
