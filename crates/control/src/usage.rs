//! What an account's answers used: by day, by model, and in all.

use std::collections::BTreeMap;

use domain::credits::Credits;
use domain::step::Usage;
use domain::time::Timestamp;
use store::usage::UsageRow;

/// Steps, with what they cost and how many tokens they took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageTotal {
    /// How many steps, summaries among them.
    pub steps: u64,
    /// How many of these summed up an exchange that had become too long.
    pub summaries: u64,
    /// What those cost.
    pub summary_credits: Credits,
    /// What they cost.
    pub credits: Credits,
    /// Their tokens.
    pub tokens: Usage,
    /// How many of the tokens read and written were estimated.
    pub estimated_tokens: u64,
}

/// What an account's answers used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsageReport {
    /// All of it.
    pub total: UsageTotal,
    /// By the day's beginning in UTC, the newest first.
    pub days: Vec<(Timestamp, UsageTotal)>,
    /// By model, the dearest first; without a name where the ledger has none.
    pub models: Vec<(Option<String>, UsageTotal)>,
    /// Whether all is in it; otherwise the oldest days are left out.
    pub complete: bool,
}

impl UsageReport {
    pub(crate) fn of(rows: &[UsageRow], complete: bool) -> Self {
        let (mut days, mut models) =
            (BTreeMap::<Timestamp, UsageTotal>::new(), BTreeMap::<_, UsageTotal>::new());
        let mut total = UsageTotal::default();
        for row in rows {
            let model: Option<String> = row.model.clone();
            for sum in [&mut total, days.entry(row.day).or_default(), models.entry(model).or_default()] {
                sum.add(row);
            }
        }
        let mut models: Vec<_> = models.into_iter().collect();
        models.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.credits));
        Self { total, days: days.into_iter().rev().collect(), models, complete }
    }
}

impl UsageTotal {
    fn add(&mut self, row: &UsageRow) {
        self.steps = self.steps.saturating_add(row.steps);
        self.summaries = self.summaries.saturating_add(row.summaries.0);
        self.summary_credits = Credits(self.summary_credits.0.saturating_add(row.summaries.1.0));
        self.credits = Credits(self.credits.0.saturating_add(row.credits.0));
        let (sum, more) = (&mut self.tokens, row.tokens);
        sum.input_tokens = sum.input_tokens.saturating_add(more.input_tokens);
        sum.cached_tokens = sum.cached_tokens.saturating_add(more.cached_tokens);
        sum.output_tokens = sum.output_tokens.saturating_add(more.output_tokens);
        sum.reasoning_tokens = sum.reasoning_tokens.saturating_add(more.reasoning_tokens);
        sum.estimated |= more.estimated;
        self.estimated_tokens = self.estimated_tokens.saturating_add(row.estimated_tokens);
    }
}
