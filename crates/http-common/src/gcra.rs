//! Rates of requests: how many a key or an address may make, and whose address it is.
//!
//! Each rate is kept by the generic cell rate algorithm: of every key or address there is one number, the moment at
//! which its allowance is whole again. Those are in a table of fixed size; when it is full, whoever used least of its
//! allowance is forgotten, which at most lets somebody make a few requests more.

use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The highest rate; above it nothing needs to be counted.
const PER_SECOND_MAX: u32 = 1_000_000;
/// Sets of the table, each with a lock of its own.
const SETS: usize = 2048;
/// Keys or addresses of one set: 16,384 in all, in 256 KiB.
const SLOTS_PER_SET: usize = 8;

/// How many requests are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// In the long run, each second; at most a million.
    pub per_second: NonZeroU32,
    /// At once, after a time without any.
    pub burst: NonZeroU32,
}

/// The text is no rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no rate: it is a number of requests each second, such as 50, or with those at once, such as 50/200"
)]
pub struct InvalidRate(pub String);

impl FromStr for Rate {
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

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.per_second, self.burst)
    }
}

impl Rate {
    /// How long one request takes from the allowance, in nanoseconds.
    fn interval(self) -> u64 {
        1_000_000_000 / u64::from(self.per_second.get())
    }

    /// The moment at which the allowance is whole again after a request at `now`, which had been `whole`; or how
    /// long to wait until one is allowed. All in nanoseconds.
    fn after(self, whole: u64, now: u64) -> Result<u64, u64> {
        let next = whole.max(now) + self.interval();
        let latest = now + self.interval() * u64::from(self.burst.get());
        if next <= latest { Ok(next) } else { Err(next - latest) }
    }
}

/// Keeps each key or address to a rate. Its memory is fixed.
pub struct GcraLimiter {
    rate: Rate,
    began: Instant,
    hasher: RandomState,
    sets: Box<[Mutex<[Slot; SLOTS_PER_SET]>]>,
}

/// Whose allowance is whole when. An allowance that is whole needs no slot.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// A keyed hash, which nobody outside can aim at.
    who: u64,
    tat: u64,
}

impl GcraLimiter {
    /// Keeps everybody to this rate.
    #[must_use]
    pub fn new(rate: Rate) -> Self {
        let sets = (0..SETS).map(|_| Mutex::default()).collect();
        Self { rate, began: Instant::now(), hasher: RandomState::new(), sets }
    }

    /// Takes one request from the allowance.
    ///
    /// # Errors
    /// When there is none: how long to wait.
    pub fn take(&self, who: &impl Hash) -> Result<(), Duration> {
        self.at(who, true)
    }

    /// Whether [`GcraLimiter::take`] would be allowed now.
    ///
    /// # Errors
    /// When not: how long to wait.
    pub fn peek(&self, who: &impl Hash) -> Result<(), Duration> {
        self.at(who, false)
    }

    fn at(&self, who: &impl Hash, take: bool) -> Result<(), Duration> {
        let now = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX / 2);
        let who = self.hasher.hash_one(who);
        let mut set = self.set(who);
        let known = set.iter().position(|slot| slot.who == who && slot.tat > now);
        let whole = known.map_or(now, |at| set[at].tat);
        let next = self.rate.after(whole, now).map_err(Duration::from_nanos)?;
        if take {
            let least = (0..SLOTS_PER_SET).min_by_key(|at| set[*at].tat).unwrap_or_default();
            set[known.unwrap_or(least)] = Slot { who, tat: next };
        }
        Ok(())
    }

    fn set(&self, who: u64) -> MutexGuard<'_, [Slot; SLOTS_PER_SET]> {
        // The remainder is smaller than the number of sets.
        self.sets[(who % SETS as u64) as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for GcraLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").field("rate", &self.rate).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(text: &str) -> Rate {
        text.parse().expect("a rate")
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_allowed_and_then_so_many_a_second() {
        let limiter = GcraLimiter::new(rate("10/3"));
        for _ in 0..3 {
            assert_eq!(limiter.take(&"a"), Ok(()));
        }
        assert_eq!(limiter.take(&"a"), Err(Duration::from_millis(100)));
        assert_eq!(limiter.peek(&"a"), Err(Duration::from_millis(100)));
        assert_eq!(limiter.take(&"b"), Ok(()), "each has an allowance of its own");
        tokio::time::advance(Duration::from_millis(60)).await;
        assert_eq!(limiter.take(&"a"), Err(Duration::from_millis(40)), "what is refused takes nothing");
        tokio::time::advance(Duration::from_millis(40)).await;
        assert_eq!(limiter.peek(&"a"), Ok(()));
        assert_eq!(limiter.take(&"a"), Ok(()), "looking takes nothing");
        assert!(limiter.take(&"a").is_err());
        tokio::time::advance(Duration::from_secs(3600)).await;
        let allowed = (0..10).filter(|_| limiter.take(&"a").is_ok()).count();
        assert_eq!(allowed, 3, "a long rest saves up no more than a burst");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_over_is_remembered_however_many_others_come() {
        let limiter = GcraLimiter::new(rate("1/100"));
        while limiter.take(&"greedy").is_ok() {}
        for other in 0..1_000_000_u32 {
            assert_eq!(limiter.take(&other), Ok(()));
        }
        assert!(limiter.take(&"greedy").is_err());
    }

    #[test]
    fn a_rate_survives_its_text_and_what_is_none_is_refused() {
        assert_eq!(rate("50"), rate("50/50"));
        assert_eq!(rate(&rate("7/9").to_string()), rate("7/9"));
        for wrong in ["", "0", "5/0", "-1", "1.5", "5/", "/5", "1000001", "a", "1/2/3"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn in_no_span_of_time_is_more_allowed_than_burst_and_rate(
            per_second in 1_u32..1000,
            burst in 1_u32..50,
            waits in prop::collection::vec(0_u64..20_000_000, 1..300),
        ) {
            let rate = Rate {
                per_second: NonZeroU32::new(per_second).expect("not zero"),
                burst: NonZeroU32::new(burst).expect("not zero"),
            };
            let (mut whole, mut now) = (0, 0);
            let mut allowed: Vec<u64> = Vec::new();
            for wait in waits {
                now += wait;
                if let Ok(next) = rate.after(whole, now) {
                    whole = next;
                    allowed.push(now);
                }
            }
            for (at, from) in allowed.iter().enumerate() {
                for (count, to) in (1_u64..).zip(&allowed[at..]) {
                    prop_assert!(count <= u64::from(burst) + (to - from) / rate.interval() + 1);
                }
            }
        }
    }
}
