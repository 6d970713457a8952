//! The token budget of the transcript: estimates, corrected by what vendors counted.

use crate::step::Usage;

/// The bounds of what is shown, and how estimates compare with what was counted last.
#[derive(Debug, Clone, Copy)]
pub(super) struct TokenBudget {
    /// Tokens that every request has besides the transcript.
    overhead: u64,
    /// Tokens of transcript that fit.
    room: u64,
    /// What the vendor counted last, and what was estimated for it.
    counted: u64,
    estimated: u64,
}

impl Default for TokenBudget {
    fn default() -> Self {
        Self::new(0, u64::MAX / 1024)
    }
}

impl TokenBudget {
    /// Above this share of the room old results are left out,
    pub(super) const TRIM_ABOVE_PERCENT: u64 = 70;
    /// until so much is left,
    pub(super) const TRIM_TO_PERCENT: u64 = 50;
    /// each that has more tokens than this.
    pub(super) const TRIMMED_MIN_TOKENS: u64 = 200;
    /// Above this share what is old is summed up,
    pub(super) const SUMMARY_ABOVE_PERCENT: u64 = 85;
    /// but for the last entries, which take at most this share.
    pub(super) const VERBATIM_PERCENT: u64 = 25;
    /// What frees less than this share is not done.
    pub(super) const GAIN_MIN_PERCENT: u64 = 10;
    /// What is left of the room when the vendor said that it was too much.
    const SHRUNK_PERCENT: u64 = 60;
    /// How far what is counted may lie from what is estimated: a vendor that counts oddly changes no more.
    const TIMES_MAX: u64 = 3;
    const PART_MAX: u64 = 2;

    pub(super) fn new(overhead: u64, room: u64) -> Self {
        Self { overhead, room, counted: 1, estimated: 1 }
    }

    /// Sets the bounds and keeps what was learned.
    pub(super) fn set(&mut self, overhead: u64, room: u64) {
        (self.overhead, self.room) = (overhead, room);
    }

    /// How many tokens of transcript fit, as they are estimated.
    pub(super) fn room(&self) -> u64 {
        let whole = u128::from(self.room + self.overhead) * u128::from(self.estimated);
        let whole = u64::try_from(whole / u128::from(self.counted.max(1))).unwrap_or(u64::MAX);
        whole.saturating_sub(self.overhead).max(1)
    }

    /// Learns what a vendor counted for a request of so many estimated tokens of transcript.
    pub(super) fn learn(&mut self, shown: u64, usage: Usage) {
        let estimated = shown + self.overhead;
        if usage.estimated || usage.input_tokens == 0 || estimated == 0 {
            return;
        }
        let most = estimated.saturating_mul(Self::TIMES_MAX);
        self.counted = usage.input_tokens.clamp((estimated / Self::PART_MAX).max(1), most);
        self.estimated = estimated;
    }

    /// Whether so many tokens of transcript are more than this share of the room.
    pub(super) fn is_above(&self, shown: u64, percent: u64) -> bool {
        let whole = (self.room + self.overhead) as u128 * u128::from(percent) / 100;
        self.corrected(shown + self.overhead) > whole
    }

    /// Whether so many tokens are at least this share of the room.
    pub(super) fn is_share(&self, tokens: u64, percent: u64) -> bool {
        self.corrected(tokens) >= u128::from(self.room) * u128::from(percent) / 100
    }

    /// Makes the room smaller than what is shown.
    pub(super) fn shrink(&mut self, shown: u64) {
        let shown = shown * Self::SHRUNK_PERCENT / 100;
        self.room = self.room.min(shown).max(1);
    }

    fn corrected(&self, tokens: u64) -> u128 {
        u128::from(tokens) * u128::from(self.counted) / u128::from(self.estimated.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(input_tokens: u64) -> Usage {
        Usage { input_tokens, ..Usage::default() }
    }

    #[test]
    fn what_vendors_count_corrects_what_is_estimated() {
        let mut budget = TokenBudget::new(100, 900);
        assert!(budget.is_above(601, 70) && !budget.is_above(600, 70));
        budget.learn(400, counted(1000));
        assert!(budget.is_above(251, 70) && !budget.is_above(250, 70), "it counts twice as many");
        assert_eq!(budget.room(), 400, "so that half as much fits");
        budget.learn(400, Usage { estimated: true, ..counted(1) });
        assert!(budget.is_above(251, 70), "an estimate corrects nothing");
        budget.learn(400, counted(u64::MAX));
        assert!(!budget.is_above(100, 70), "three times as many at most");
        budget.learn(400, counted(1));
        assert!(budget.is_above(1302, 70), "half as many at least");
    }

    #[test]
    fn what_was_too_much_for_the_vendor_is_more_than_there_is_room_for() {
        let mut budget = TokenBudget::new(0, 1000);
        budget.shrink(500);
        assert_eq!(budget.room(), 300);
        assert!(budget.is_above(500, TokenBudget::SUMMARY_ABOVE_PERCENT));
    }
}
