//! Rate limits of keys and addresses.
//!
//! The limits use the generic cell rate algorithm (GCRA): each key or address has a single number, its
//! theoretical arrival time (TAT), at which its allowance is complete again. The table has a fixed size. When
//! it is full, the entry that has used least of its allowance is evicted, which permits that client a few
//! more requests.

use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

const PER_SECOND_MAX: u32 = 1_000_000;
/// The number of sets of the table, each with a separate lock.
const SETS: usize = 2048;
/// The number of entries per set: 16,384 in total, in 256 KiB.
const SLOTS_PER_SET: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// The sustained requests per second, at most a million.
    pub per_second: NonZeroU32,
    /// The requests at once after a time without any.
    pub burst: NonZeroU32,
}

/// The text is not a rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a rate: use requests per second such as 50, or with a burst such as 50/200")]
pub struct InvalidRate(pub String);

impl FromStr for RateLimit {
    type Err = InvalidRate;

    fn from_str(text: &str) -> Result<Self, InvalidRate> {
        let (per_second, burst) = text.split_once('/').unwrap_or((text, text));
        let number = |text: &str| text.trim().parse::<NonZeroU32>().map_err(|_| InvalidRate(text.to_owned()));
        let rate = Self { per_second: number(per_second)?, burst: number(burst)? };
        if rate.per_second.get() > PER_SECOND_MAX {
            return Err(InvalidRate(text.to_owned()));
        }
        Ok(rate)
    }
}

impl fmt::Display for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.per_second, self.burst)
    }
}

impl RateLimit {
    fn to_allowance(self) -> GcraAllowance {
        let interval = 1_000_000_000 / u64::from(self.per_second.get());
        GcraAllowance { interval, burst: u64::from(self.burst.get()) }
    }
}

/// A rate by its interval, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct GcraAllowance {
    /// The cost of one request.
    interval: u64,
    /// The requests at once.
    burst: u64,
}

impl GcraAllowance {
    /// Returns the TAT after a request at `now`, given the previous one, or the wait until a request is
    /// allowed. All in nanoseconds.
    fn tat_after_request(self, whole: u64, now: u64) -> Result<u64, u64> {
        let next = whole.max(now) + self.interval;
        let latest = now + self.interval * self.burst;
        if next <= latest { Ok(next) } else { Err(next - latest) }
    }
}

/// Limits the rate of each key or address, with fixed memory.
pub struct GcraLimiter {
    allowance: GcraAllowance,
    began: Instant,
    hasher: RandomState,
    sets: Box<[Mutex<[GcraSlot; SLOTS_PER_SET]>]>,
}

/// An entry: the TAT of a key or address. A complete allowance needs no entry.
#[derive(Clone, Copy, Default)]
struct GcraSlot {
    /// A keyed hash, which clients cannot predict.
    who: u64,
    tat: u64,
}

impl GcraLimiter {
    /// Creates a limiter with this rate for everyone.
    #[must_use]
    pub fn new(rate: RateLimit) -> Self {
        Self::from_allowance(rate.to_allowance())
    }

    /// Creates a limiter of one request per `interval` and `burst` at once, for rates below one per second.
    #[must_use]
    pub fn with_interval(interval: Duration, burst: u32) -> Self {
        let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        // The full burst refills within at most a century, so that no sum overflows.
        let interval = interval.min(u64::MAX / 8 / u64::from(burst.max(1)));
        Self::from_allowance(GcraAllowance { interval, burst: u64::from(burst) })
    }

    fn from_allowance(allowance: GcraAllowance) -> Self {
        let sets = (0..SETS).map(|_| Mutex::default()).collect();
        Self { allowance, began: Instant::now(), hasher: RandomState::new(), sets }
    }

    /// Takes one request from the allowance.
    ///
    /// # Errors
    /// The time to wait, if the allowance is used up.
    pub fn take_request(&self, who: &impl Hash) -> Result<(), Duration> {
        self.check_allowance(who, true)
    }

    /// Checks whether [`GcraLimiter::take_request`] would succeed now.
    ///
    /// # Errors
    /// The time to wait, if it would not.
    pub fn peek(&self, who: &impl Hash) -> Result<(), Duration> {
        self.check_allowance(who, false)
    }

    fn check_allowance(&self, who: &impl Hash, take: bool) -> Result<(), Duration> {
        let now = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX / 2);
        let who = self.hasher.hash_one(who);
        let mut set = self.lock_set(who);
        let known = set.iter().position(|slot| slot.who == who && slot.tat > now);
        let whole = known.map_or(now, |at| set[at].tat);
        let next = self.allowance.tat_after_request(whole, now).map_err(Duration::from_nanos)?;
        if take {
            let least = (0..SLOTS_PER_SET).min_by_key(|at| set[*at].tat).unwrap_or_default();
            set[known.unwrap_or(least)] = GcraSlot { who, tat: next };
        }
        Ok(())
    }

    fn lock_set(&self, who: u64) -> MutexGuard<'_, [GcraSlot; SLOTS_PER_SET]> {
        // The remainder is less than the number of sets.
        self.sets[(who % SETS as u64) as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for GcraLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").field("allowance", &self.allowance).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse_rate(text: &str) -> RateLimit {
        text.parse().expect("a rate")
    }

    #[tokio::test(start_paused = true)]
    async fn gcra_allows_burst_then_rate() {
        let limiter = GcraLimiter::new(parse_rate("10/3"));
        for _ in 0..3 {
            assert_eq!(limiter.take_request(&"a"), Ok(()));
        }
        assert_eq!(limiter.take_request(&"a"), Err(Duration::from_millis(100)));
        assert_eq!(limiter.peek(&"a"), Err(Duration::from_millis(100)));
        assert_eq!(limiter.take_request(&"b"), Ok(()), "each has an allowance of its own");
        tokio::time::advance(Duration::from_millis(60)).await;
        assert_eq!(
            limiter.take_request(&"a"),
            Err(Duration::from_millis(40)),
            "rejected requests do not count"
        );
        tokio::time::advance(Duration::from_millis(40)).await;
        assert_eq!(limiter.peek(&"a"), Ok(()));
        assert_eq!(limiter.take_request(&"a"), Ok(()), "peeking does not count");
        assert!(limiter.take_request(&"a").is_err());
        tokio::time::advance(Duration::from_secs(3600)).await;
        let allowed = (0..10).filter(|_| limiter.take_request(&"a").is_ok()).count();
        assert_eq!(allowed, 3, "a long rest saves up no more than a burst");
    }

    #[tokio::test(start_paused = true)]
    async fn gcra_with_interval_allows_slow_rates() {
        let limiter = GcraLimiter::with_interval(Duration::from_secs(60), 2);
        assert_eq!((limiter.take_request(&"a"), limiter.take_request(&"a")), (Ok(()), Ok(())));
        assert_eq!(limiter.take_request(&"a"), Err(Duration::from_secs(60)));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(limiter.take_request(&"a"), Ok(()));
        assert!(limiter.take_request(&"a").is_err());
        let never = GcraLimiter::with_interval(Duration::MAX, u32::MAX);
        assert_eq!(never.take_request(&"a"), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn gcra_keeps_entries_over_limit() {
        let limiter = GcraLimiter::new(parse_rate("1/100"));
        while limiter.take_request(&"greedy").is_ok() {}
        for other in 0..1_000_000_u32 {
            assert_eq!(limiter.take_request(&other), Ok(()));
        }
        assert!(limiter.take_request(&"greedy").is_err());
    }

    #[test]
    fn rate_limit_round_trips_or_rejects() {
        assert_eq!(parse_rate("50"), parse_rate("50/50"));
        assert_eq!(parse_rate(&parse_rate("7/9").to_string()), parse_rate("7/9"));
        for wrong in ["", "0", "5/0", "-1", "1.5", "5/", "/5", "1000001", "a", "1/2/3"] {
            assert!(wrong.parse::<RateLimit>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn gcra_never_exceeds_burst_and_rate(
            per_second in 1_u32..1000,
            burst in 1_u32..50,
            waits in prop::collection::vec(0_u64..20_000_000, 1..300),
        ) {
            let rate = RateLimit {
                per_second: NonZeroU32::new(per_second).expect("not zero"),
                burst: NonZeroU32::new(burst).expect("not zero"),
            };
            let (mut whole, mut now) = (0, 0);
            let mut allowed: Vec<u64> = Vec::new();
            for wait in waits {
                now += wait;
                if let Ok(next) = rate.to_allowance().tat_after_request(whole, now) {
                    whole = next;
                    allowed.push(now);
                }
            }
            for (at, from) in allowed.iter().enumerate() {
                for (count, to) in (1_u64..).zip(&allowed[at..]) {
                    prop_assert!(count <= u64::from(burst) + (to - from) / rate.to_allowance().interval + 1);
                }
            }
        }
    }
}
