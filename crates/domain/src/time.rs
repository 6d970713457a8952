//! Timestamps and the clock trait.

use std::fmt;
use std::time::Duration;

/// Microseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Creates a time from microseconds since the epoch.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Returns the microseconds since the epoch.
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Returns the time `after` this one, saturating.
    #[must_use]
    pub fn saturating_add(self, after: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(after.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Returns the duration since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub fn duration_since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    /// Formats as ISO 8601 in UTC with milliseconds: `2026-11-21T08:37:00.000Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(at) => write!(f, "{at:.3}"),
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}

/// A source of time: the system clock in the service, a simulated one in tests.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_reads_as_iso_8601() {
        assert_eq!(Timestamp::from_micros(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::from_micros(1_500_000).to_string(), "1970-01-01T00:00:01.500Z");
    }
}
