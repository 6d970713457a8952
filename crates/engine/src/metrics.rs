//! Metrics of answers: their outcomes, their latencies, and their usage.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::answer::{AnswerEnding, ErrorCode};
use domain::credits::Credits;
use domain::step::TokenUsage;
use telemetry::{Counter, Histogram, SLOW_BUCKETS};

/// The models that are counted separately. Their names come from the operator's catalog only.
const MODELS_MAX: usize = 64;
/// The label of all other models.
const OTHER: &str = "other";

/// The metrics of answers in this process.
#[derive(Debug)]
pub struct AnswerMetrics {
    /// Answers that were completed.
    pub done: Counter,
    /// Answers that their users stopped.
    pub stopped: Counter,
    pub failed: Counter,
    failures: [Counter; ErrorCode::ALL.len()],
    /// The time from the question to the first text of the answer or of its reasoning.
    pub first_word: Histogram,
    /// The time from the question to the end of the answer.
    pub whole: Histogram,
    /// Credits that were settled.
    pub credits: Counter,
    models: Mutex<BTreeMap<String, ModelTokens>>,
}

/// The tokens of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelTokens {
    /// The tokens that it read.
    pub input: u64,
    /// The tokens that it wrote.
    pub output: u64,
}

impl Default for AnswerMetrics {
    fn default() -> Self {
        Self {
            done: Counter::default(),
            stopped: Counter::default(),
            failed: Counter::default(),
            failures: std::array::from_fn(|_| Counter::default()),
            first_word: Histogram::new(SLOW_BUCKETS),
            whole: Histogram::new(SLOW_BUCKETS),
            credits: Counter::default(),
            models: Mutex::default(),
        }
    }
}

impl AnswerMetrics {
    pub(crate) fn record_end(&self, ending: Option<&AnswerEnding>, took: Duration) {
        match ending {
            Some(AnswerEnding::Done) => self.done.increment(),
            Some(AnswerEnding::Stopped) => self.stopped.increment(),
            Some(AnswerEnding::Failed(error)) => {
                self.failed.increment();
                if let Some(at) = ErrorCode::ALL.iter().position(|code| *code == error.code) {
                    self.failures[at].increment();
                }
            }
            None => return,
        }
        self.whole.observe_duration(took);
    }

    /// Returns the number of failed answers of each code.
    pub fn failures_by_code(&self) -> impl Iterator<Item = (ErrorCode, u64)> {
        ErrorCode::ALL.iter().copied().zip(self.failures.iter().map(Counter::get))
    }

    pub(crate) fn record_cost(&self, model: &str, usage: TokenUsage, cost: Credits) {
        self.credits.add(cost.0);
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        let known = models.contains_key(model) || models.len() < MODELS_MAX;
        let tokens = models.entry(if known { model } else { OTHER }.to_owned()).or_default();
        tokens.input = tokens.input.saturating_add(usage.input_tokens);
        tokens.output = tokens.output.saturating_add(usage.output_tokens);
    }

    /// Returns the tokens of each model.
    #[must_use]
    pub fn tokens_by_model(&self) -> BTreeMap<String, ModelTokens> {
        self.models.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excess_models_counted_together() {
        let metrics = AnswerMetrics::default();
        let usage = TokenUsage { input_tokens: 3, output_tokens: 1, ..TokenUsage::default() };
        for number in 0..1000 {
            metrics.record_cost(&format!("model-{number}"), usage, Credits(2));
        }
        let tokens = metrics.tokens_by_model();
        assert_eq!(tokens.len(), MODELS_MAX + 1);
        assert_eq!(tokens[OTHER], ModelTokens { input: 3 * 936, output: 936 });
        assert_eq!(metrics.credits.get(), 2000);
    }
}
