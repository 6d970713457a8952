//! Credits: the cost of steps, and the arithmetic of the ledger.
//!
//! Credits are whole numbers. The maximum cost of a model step is reserved before it runs; when it is committed its
//! actual cost is settled and the rest is released. Prices are in thousandths of a credit, summed over the answer and
//! rounded up once, so that many small steps do not cost a credit each.

use crate::step::TokenUsage;

/// An amount of credits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Credits(pub u64);

/// The price of a model, in thousandths of a credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// Charged once per answer with a successful step.
    pub base_millis: u64,
    /// Per thousand input tokens.
    pub input_millis: u64,
    /// Per thousand output tokens.
    pub output_millis: u64,
}

impl Price {
    /// Returns the cost of an answer whose steps used `total` together, rounded up.
    #[must_use]
    pub fn cost_of(self, total: TokenUsage) -> Credits {
        let tokens = |count: u64, millis: u64| u128::from(count) * u128::from(millis);
        let micro = u128::from(self.base_millis) * 1000
            + tokens(total.input_tokens, self.input_millis)
            + tokens(total.output_tokens, self.output_millis);
        Credits(u64::try_from(micro.div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }
}

impl TokenUsage {
    /// Adds both. The sum is estimated if either one is.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
            estimated: self.estimated || other.estimated,
        }
    }
}

/// The usage and cost of an answer so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AnswerCost {
    /// The usage of the successful steps.
    pub used: TokenUsage,
    pub settled: Credits,
}

impl AnswerCost {
    /// Returns the credits to reserve for a step that uses at most `most`.
    #[must_use]
    pub fn max_cost(self, price: Price, most: TokenUsage) -> Credits {
        Credits(price.cost_of(self.used.saturating_add(most)).0.saturating_sub(self.settled.0))
    }

    /// Returns the answer's cost after a step with this `usage`, and the credits to settle for the step: at
    /// most `reserved`.
    #[must_use]
    pub fn settle_step(self, price: Price, usage: TokenUsage, reserved: Credits) -> (Self, Credits) {
        let cost = self.max_cost(price, usage).min(reserved);
        let bill = Self { used: self.used.saturating_add(usage), settled: Credits(self.settled.0 + cost.0) };
        (bill, cost)
    }
}

/// The kind of a posting. Postings are immutable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostingKind {
    /// Credits are added to the balance.
    Grant,
    /// Credits are moved from the balance to the reserved credits.
    Reserve,
    /// Reserved credits are spent.
    Settle,
    /// Reserved credits are returned to the balance.
    Release,
}

/// The credits of an account: available and reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Balance {
    pub available: Credits,
    /// The credits that are reserved for steps in progress.
    pub reserved: Credits,
}

/// The reason why a posting was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PostingError {
    /// The balance is insufficient.
    #[error("not enough credits")]
    Insufficient,
    /// The amount exceeds the reserved credits, or the sum overflows.
    #[error("the balance cannot take this posting: it would become negative or overflow")]
    Impossible,
}

/// The reason why credits could not be reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// The account's balance is insufficient.
    Balance,
    /// The key of the question would exceed its spending limit.
    SpendingLimit,
}

impl Balance {
    /// Returns the balance after one posting.
    ///
    /// # Errors
    /// [`PostingError`]; the balance is then unchanged.
    pub fn after_posting(self, kind: PostingKind, amount: Credits) -> Result<Self, PostingError> {
        let take = |from: Credits, refusal| from.0.checked_sub(amount.0).map(Credits).ok_or(refusal);
        let add = |to: Credits| to.0.checked_add(amount.0).map(Credits).ok_or(PostingError::Impossible);
        match kind {
            PostingKind::Grant => Ok(Self { available: add(self.available)?, ..self }),
            PostingKind::Reserve => Ok(Self {
                available: take(self.available, PostingError::Insufficient)?,
                reserved: add(self.reserved)?,
            }),
            PostingKind::Settle => {
                Ok(Self { reserved: take(self.reserved, PostingError::Impossible)?, ..self })
            }
            PostingKind::Release => Ok(Self {
                reserved: take(self.reserved, PostingError::Impossible)?,
                available: add(self.available)?,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PRICE: Price = Price { base_millis: 1000, input_millis: 100, output_millis: 1000 };

    fn usage_of_tokens(input_tokens: u64, output_tokens: u64) -> TokenUsage {
        TokenUsage { input_tokens, output_tokens, ..TokenUsage::default() }
    }

    #[test]
    fn cost_of_rounds_up_once() {
        assert_eq!(PRICE.cost_of(usage_of_tokens(0, 0)), Credits(1));
        assert_eq!(PRICE.cost_of(usage_of_tokens(1, 0)), Credits(2));
        assert_eq!(PRICE.cost_of(usage_of_tokens(10_000, 1000)), Credits(3));
    }

    proptest! {
        #[test]
        fn step_costs_sum_to_total_cost(steps in prop::collection::vec((0_u64..50_000, 0_u64..9000), 1..20)) {
            let mut bill = AnswerCost::default();
            let mut paid = 0;
            for (input, output) in &steps {
                let held = bill.max_cost(PRICE, usage_of_tokens(*input, 9000));
                let (next, cost) = bill.settle_step(PRICE, usage_of_tokens(*input, *output), held);
                prop_assert!(cost <= held);
                paid += cost.0;
                bill = next;
            }
            prop_assert_eq!(Credits(paid), PRICE.cost_of(bill.used));
        }

        #[test]
        fn balance_never_loses_credits(postings in prop::collection::vec((0_u8..4, 0_u64..100), 0..100)) {
            let mut balance = Balance::default();
            let mut granted = 0;
            let mut settled = 0;
            for (kind, amount) in postings {
                let kind = [PostingKind::Grant, PostingKind::Reserve, PostingKind::Settle, PostingKind::Release][kind as usize];
                if let Ok(next) = balance.after_posting(kind, Credits(amount)) {
                    balance = next;
                    granted += if kind == PostingKind::Grant { amount } else { 0 };
                    settled += if kind == PostingKind::Settle { amount } else { 0 };
                }
                prop_assert_eq!(balance.available.0 + balance.reserved.0 + settled, granted);
            }
        }
    }
}
