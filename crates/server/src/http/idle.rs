//! The connections that wait for a request. At the connection limit, the connections that have waited longest
//! are closed, so that idle clients do not block new ones.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The wait after which a connection that has sent a request before may be closed for others.
const SPARED: Duration = Duration::from_secs(5);
/// The part of all connections that is closed at once.
const CLOSED_AT_ONCE_PART: usize = 64;
/// The time of a connection that does not wait.
const BUSY: u64 = u64::MAX;

/// The time since which a connection waits for a request.
#[derive(Debug)]
pub(super) struct IdleClock {
    origin: Instant,
    /// In milliseconds since the origin; [`BUSY`] while a request is in progress.
    since: AtomicU64,
    has_asked: AtomicBool,
    closing: Notify,
}

impl Default for IdleClock {
    fn default() -> Self {
        Self::from_origin(Instant::now())
    }
}

impl IdleClock {
    fn from_origin(origin: Instant) -> Self {
        let clock =
            Self { origin, since: AtomicU64::new(BUSY), has_asked: false.into(), closing: Notify::new() };
        clock.mark_idle();
        clock
    }

    /// Records that a request is in progress.
    pub(super) fn mark_busy(&self) {
        self.has_asked.store(true, Ordering::Relaxed);
        self.since.store(BUSY, Ordering::Relaxed);
    }

    /// Records that the connection waits for the next request.
    pub(super) fn mark_idle(&self) {
        self.since.store(clamped_milliseconds(self.origin.elapsed()), Ordering::Relaxed);
    }

    /// Ready when the connection should be closed to free its place.
    pub(super) async fn wait_until_closed(&self) {
        self.closing.notified().await;
    }

    /// Returns the order in which connections are closed, lowest first; `None` for a connection that must not
    /// be closed.
    fn closing_rank(&self, now: u64) -> Option<(bool, u64)> {
        let since = self.since.load(Ordering::Relaxed);
        let has_asked = self.has_asked.load(Ordering::Relaxed);
        let is_spared =
            since == BUSY || has_asked && now.saturating_sub(since) < clamped_milliseconds(SPARED);
        (!is_spared).then_some((has_asked, since))
    }

    /// Closes the connection unless a request has begun since it was ranked.
    fn close_if_idle(&self, since: u64) {
        if self.since.compare_exchange(since, BUSY, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.closing.notify_one();
        }
    }
}

fn clamped_milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(BUSY - 1)
}

/// The open connections.
#[derive(Debug)]
pub(super) struct IdleConnections {
    origin: Instant,
    next: AtomicU64,
    clocks: Mutex<HashMap<u64, Arc<IdleClock>>>,
}

/// A connection among the others, until it is dropped.
#[derive(Debug)]
pub(super) struct IdleEntry {
    all: Arc<IdleConnections>,
    number: u64,
    pub(super) clock: Arc<IdleClock>,
}

impl Drop for IdleEntry {
    fn drop(&mut self) {
        self.all.clocks.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

impl IdleConnections {
    pub(super) fn new() -> Self {
        Self { origin: Instant::now(), next: AtomicU64::new(0), clocks: Mutex::default() }
    }

    /// Adds a connection, which waits from now on.
    pub(super) fn add_connection(self: &Arc<Self>) -> IdleEntry {
        let clock = Arc::new(IdleClock::from_origin(self.origin));
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.clocks.lock().unwrap_or_else(PoisonError::into_inner).insert(number, clock.clone());
        IdleEntry { all: self.clone(), number, clock }
    }

    /// Closes a part of the connections that have waited longest, starting with connections without any
    /// request. Returns their number.
    pub(super) fn close_longest(&self) -> usize {
        let now = clamped_milliseconds(self.origin.elapsed());
        let clocks = self.clocks.lock().unwrap_or_else(PoisonError::into_inner);
        let most = (clocks.len() / CLOSED_AT_ONCE_PART).max(1);
        let mut ranked: Vec<_> = clocks
            .iter()
            .filter_map(|(number, clock)| Some((clock.closing_rank(now)?, *number, clock.clone())))
            .collect();
        drop(clocks);
        if ranked.len() > most {
            // Among connections that have waited equally long, the oldest is first.
            ranked.select_nth_unstable_by_key(most, |(rank, number, _)| (*rank, *number));
            ranked.truncate(most);
        }
        for ((_, since), _, clock) in &ranked {
            clock.close_if_idle(*since);
        }
        ranked.len()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    async fn is_closed(entry: &IdleEntry) -> bool {
        tokio::time::timeout(Duration::ZERO, entry.clock.wait_until_closed()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn close_longest_picks_silent_connection() {
        let all = Arc::new(IdleConnections::new());
        let asked = all.add_connection();
        asked.clock.mark_busy();
        asked.clock.mark_idle();
        let mut silent = Vec::new();
        for _ in 0..3 {
            advance(Duration::from_millis(10)).await;
            silent.push(all.add_connection());
        }
        for oldest in silent {
            assert_eq!(all.close_longest(), 1);
            assert!(is_closed(&oldest).await);
        }
        assert_eq!(all.close_longest(), 0, "one that has just sent a request stays");
        advance(SPARED).await;
        assert_eq!(all.close_longest(), 1);
        assert!(is_closed(&asked).await);
    }

    #[tokio::test(start_paused = true)]
    async fn close_longest_spares_busy_connections() {
        let all = Arc::new(IdleConnections::new());
        let busy = all.add_connection();
        busy.clock.mark_busy();
        advance(Duration::from_secs(3600)).await;
        assert_eq!(all.close_longest(), 0);
        busy.clock.mark_idle();
        assert_eq!(all.close_longest(), 0, "it waits only since now");
        advance(SPARED).await;
        let rank =
            busy.clock.closing_rank(clamped_milliseconds(all.origin.elapsed())).expect("it may be closed");
        busy.clock.mark_busy();
        busy.clock.close_if_idle(rank.1);
        assert!(!is_closed(&busy).await, "a request has begun meanwhile");
    }
}
