//! Reports the usage of an account's answers: by day, by model, and in total.

use std::collections::BTreeMap;

use domain::credits::Credits;
use domain::step::TokenUsage;
use domain::time::Timestamp;
use store::usage::ModelUsageRow;

/// The number, cost and tokens of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageTotal {
    /// The number of steps, including summaries.
    pub steps: u64,
    /// The number of steps that summarized an exchange that had become too long.
    pub summaries: u64,
    /// The cost of these summaries.
    pub summary_credits: Credits,
    /// The cost of all steps.
    pub credits: Credits,
    /// The tokens of all steps.
    pub tokens: TokenUsage,
    /// The number of tokens that were estimated, read and written.
    pub estimated_tokens: u64,
}

/// The usage of an account's answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsageReport {
    pub total: UsageTotal,
    /// The usage by day (its start in UTC), newest first.
    pub days: Vec<(Timestamp, UsageTotal)>,
    /// The usage by model, most expensive first; `None` for ledger entries without a model.
    pub models: Vec<(Option<String>, UsageTotal)>,
    /// True if the report is complete; false if the oldest days are left out.
    pub complete: bool,
}

impl UsageReport {
    pub(crate) fn from_rows(rows: &[ModelUsageRow], complete: bool) -> Self {
        let (mut days, mut models) =
            (BTreeMap::<Timestamp, UsageTotal>::new(), BTreeMap::<_, UsageTotal>::new());
        let mut total = UsageTotal::default();
        for row in rows {
            let model: Option<String> = row.model.clone();
            for sum in [&mut total, days.entry(row.day).or_default(), models.entry(model).or_default()] {
                sum.add_row(row);
            }
        }
        let mut models: Vec<_> = models.into_iter().collect();
        models.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.credits));
        Self { total, days: days.into_iter().rev().collect(), models, complete }
    }
}

impl UsageTotal {
    fn add_row(&mut self, row: &ModelUsageRow) {
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
