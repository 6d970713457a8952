//! A seeded random number generator.

use std::ops::Range;
use std::time::Duration;

/// SplitMix64.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number of the range, which must not be empty.
    pub(crate) fn next_in_range(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next_u64() % (range.end - range.start)
    }

    /// Returns `true` with a probability of `chance` percent.
    pub(crate) fn next_chance(&mut self, chance: u64) -> bool {
        self.next_in_range(0..100) < chance
    }

    pub(crate) fn next_millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.next_in_range(range))
    }
}
