//! The token budget of the transcript: estimates, corrected by the vendor's counts.

use crate::step::TokenUsage;

/// The token limits, and the ratio of counts to estimates.
#[derive(Debug, Clone, Copy)]
pub(super) struct TokenBudget {
    /// Tokens of every request besides the transcript.
    overhead: u64,
    /// Tokens that are available to the transcript.
    room: u64,
    /// The vendor's last count, and the estimate for the same items.
    counted: u64,
    estimated: u64,
}

impl Default for TokenBudget {
    fn default() -> Self {
        Self::new(0, u64::MAX / 1024)
    }
}

impl TokenBudget {
    /// The percentage of the room above which old results are omitted,
    pub(super) const TRIM_ABOVE_PERCENT: u64 = 70;
    /// until this percentage is left,
    pub(super) const TRIM_TO_PERCENT: u64 = 50;
    /// among results with more tokens than this.
    pub(super) const TRIMMED_MIN_TOKENS: u64 = 200;
    /// The percentage above which old entries are summarized,
    pub(super) const SUMMARY_ABOVE_PERCENT: u64 = 85;
    /// except for the last entries, which take at most this percentage.
    pub(super) const VERBATIM_PERCENT: u64 = 25;
    /// The least gain, as a percentage, for which either is done.
    pub(super) const GAIN_MIN_PERCENT: u64 = 10;
    /// The percentage of the room that is left after a vendor rejected a transcript as too long.
    const SHRUNK_PERCENT: u64 = 60;
    /// The greatest ratio between counts and estimates, so that implausible counts have a bounded effect.
    const TIMES_MAX: u64 = 3;
    const PART_MAX: u64 = 2;

    pub(super) fn new(overhead: u64, room: u64) -> Self {
        Self { overhead, room, counted: 1, estimated: 1 }
    }

    /// Sets the limits and keeps the learned ratio.
    pub(super) fn set_limits(&mut self, overhead: u64, room: u64) {
        (self.overhead, self.room) = (overhead, room);
    }

    /// Returns the tokens that are available to the transcript, in units of the estimates.
    pub(super) fn available_room(&self) -> u64 {
        let whole = u128::from(self.room + self.overhead) * u128::from(self.estimated);
        let whole = u64::try_from(whole / u128::from(self.counted.max(1))).unwrap_or(u64::MAX);
        whole.saturating_sub(self.overhead).max(1)
    }

    /// Learns from a vendor's count for a transcript with `shown` estimated tokens.
    pub(super) fn learn_ratio(&mut self, shown: u64, usage: TokenUsage) {
        let estimated = shown + self.overhead;
        if usage.estimated || usage.input_tokens == 0 || estimated == 0 {
            return;
        }
        let most = estimated.saturating_mul(Self::TIMES_MAX);
        self.counted = usage.input_tokens.clamp((estimated / Self::PART_MAX).max(1), most);
        self.estimated = estimated;
    }

    /// Returns `true` if `shown` tokens exceed this percentage of the room.
    pub(super) fn is_above(&self, shown: u64, percent: u64) -> bool {
        let whole = (self.room + self.overhead) as u128 * u128::from(percent) / 100;
        self.correct_estimate(shown + self.overhead) > whole
    }

    /// Returns `true` if `tokens` are at least this percentage of the room.
    pub(super) fn is_share(&self, tokens: u64, percent: u64) -> bool {
        self.correct_estimate(tokens) >= u128::from(self.room) * u128::from(percent) / 100
    }

    /// Reduces the room below the size of the shown items.
    pub(super) fn shrink_room(&mut self, shown: u64) {
        let shown = shown * Self::SHRUNK_PERCENT / 100;
        self.room = self.room.min(shown).max(1);
    }

    fn correct_estimate(&self, tokens: u64) -> u128 {
        u128::from(tokens) * u128::from(self.counted) / u128::from(self.estimated.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted_usage(input_tokens: u64) -> TokenUsage {
        TokenUsage { input_tokens, ..TokenUsage::default() }
    }

    #[test]
    fn counts_correct_estimates() {
        let mut budget = TokenBudget::new(100, 900);
        assert!(budget.is_above(601, 70) && !budget.is_above(600, 70));
        budget.learn_ratio(400, counted_usage(1000));
        assert!(budget.is_above(251, 70) && !budget.is_above(250, 70), "it counts twice as many");
        assert_eq!(budget.available_room(), 400, "so that half as much fits");
        budget.learn_ratio(400, TokenUsage { estimated: true, ..counted_usage(1) });
        assert!(budget.is_above(251, 70), "an estimate has no effect");
        budget.learn_ratio(400, counted_usage(u64::MAX));
        assert!(!budget.is_above(100, 70), "three times as many at most");
        budget.learn_ratio(400, counted_usage(1));
        assert!(budget.is_above(1302, 70), "half as many at least");
    }

    #[test]
    fn rejected_transcript_exceeds_new_room() {
        let mut budget = TokenBudget::new(0, 1000);
        budget.shrink_room(500);
        assert_eq!(budget.available_room(), 300);
        assert!(budget.is_above(500, TokenBudget::SUMMARY_ABOVE_PERCENT));
    }
}
