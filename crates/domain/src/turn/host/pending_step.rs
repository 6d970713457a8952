//! The next step: the pending one, or a summary before it if the transcript has become too long.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::draft::Draft;
use super::transcript::SummaryPlan;
use super::{Phase, Turn, TurnEffect};
use crate::answer::{AnswerChange, ErrorCode, LogEntry};
use crate::credits::Credits;
use crate::step::{OutputBlock, Step, StopReason, TokenUsage, TranscriptItem};

/// The maximum number of tokens of a summary.
const SUMMARY_MAX_TOKENS: u32 = 8192;

/// The next step and its attempts.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct PendingStep {
    /// The plan of the summary, if this is one.
    pub(super) plan: Option<SummaryPlan>,
    /// The number of model calls for this step so far: for its summary, itself and retries.
    pub(super) attempt: u32,
    /// The number of attempts at this call.
    pub(super) tries: u32,
    /// The number of attempts in which the vendor stopped in the middle of the answer.
    pub(super) stalls: u32,
    /// Set if the vendor rejected it as too long.
    shrunk: bool,
    /// Set if a summary was attempted.
    summarised: bool,
}

impl PendingStep {
    /// Returns the next attempt.
    pub(super) fn next_attempt(&self) -> Self {
        Self { attempt: self.attempt + 1, tries: self.tries + 1, ..self.clone() }
    }

    /// Returns the step after its summary, successful or not.
    fn after_summary(&self) -> Self {
        Self { plan: None, attempt: self.attempt + 1, tries: 0, stalls: 0, summarised: true, ..self.clone() }
    }
}

impl Turn {
    /// Reserves the maximum cost of the step, or of a summary before it.
    pub(super) fn reserve_step(&mut self, mut step: PendingStep, effects: &mut Vec<TurnEffect>) {
        let number = self.next_step_number();
        let known = |entry: &LogEntry| matches!(entry, LogEntry::Summary { number: of, .. } if *of == number);
        if step.plan.is_none() && !step.summarised && !self.log.iter().any(known) {
            step.plan = self.transcript.plan_summary();
        }
        effects.push(TurnEffect::Reserve {
            number,
            attempt: step.attempt,
            summary: step.plan.is_some(),
            max_cost: self.max_cost(&step),
        });
        self.phase = Phase::Reserving { step };
    }

    pub(super) fn max_cost(&self, step: &PendingStep) -> Credits {
        let most = TokenUsage {
            input_tokens: self.input_tokens(step),
            output_tokens: u64::from(self.output_max_tokens(step)),
            ..TokenUsage::default()
        };
        self.bill.max_cost(self.setup.price, most)
    }

    pub(super) fn output_max_tokens(&self, step: &PendingStep) -> u32 {
        let most = self.setup.output_max_tokens;
        if step.plan.is_some() { most.min(SUMMARY_MAX_TOKENS) } else { most }
    }

    pub(super) fn input_tokens(&self, step: &PendingStep) -> u64 {
        let shown = match step.plan {
            None => self.transcript.shown_size(),
            Some(plan) => {
                crate::turn::estimated_tokens(
                    self.setup.summary_instruction.len() + self.setup.present.question.len(),
                ) + self.transcript.tokens_to_sum_up(plan)
            }
        };
        self.setup.overhead_tokens + shown
    }

    /// Returns the items that are shown to the model.
    pub(super) fn shown_items(&self, step: &PendingStep) -> Vec<TranscriptItem> {
        let Some(plan) = step.plan else { return self.transcript.shown_items() };
        let mut items = self.transcript.items_to_sum_up(plan);
        let text = format!("{}\n\n{}", self.setup.summary_instruction, self.setup.present.question);
        items.push(TranscriptItem::Question { text, attachments: Vec::new() });
        items
    }

    pub(super) fn summary_entry(&self, kept: u32, step: Step) -> LogEntry {
        LogEntry::Summary { number: self.next_step_number(), kept, step: Arc::new(step) }
    }

    /// Commits a summary, whose text alone is used. The step continues without a summary if the text is
    /// empty.
    pub(super) fn commit_summary(
        &mut self,
        summarising: PendingStep,
        plan: SummaryPlan,
        held: Credits,
        draft: Draft,
        (stop, usage): (StopReason, Option<TokenUsage>),
        effects: &mut Vec<TurnEffect>,
    ) {
        let usage = draft.completed_usage(usage, self.input_tokens(&summarising));
        let mut step = draft.into_step(stop, usage);
        step.blocks.retain(|block| matches!(block, OutputBlock::Text(text) if !text.trim().is_empty()));
        let is_summary =
            !step.blocks.is_empty() && !matches!(stop, StopReason::Refused | StopReason::Filtered);
        let kept = if is_summary { plan.kept } else { u32::MAX };
        let (bill, cost) = self.bill.settle_step(self.setup.price, usage, held);
        let entry = self.summary_entry(kept, step);
        effects.push(TurnEffect::CommitStep { entry: entry.clone(), cost, bill });
        self.phase = Phase::Committing { entry, bill, then: Some(summarising.after_summary()) };
    }

    /// Handles a transcript that is too long for the vendor: shows less, once; abandons a summary.
    pub(super) fn too_long(&mut self, step: PendingStep, held: Credits, effects: &mut Vec<TurnEffect>) {
        if step.shrunk {
            let message = "The answer was ended: the conversation is longer than the model can read.";
            return self.fail_with(ErrorCode::ContextTooLong, message);
        }
        effects.push(TurnEffect::CancelModel);
        self.transcript.shrink_to_rejected();
        self.transcript.trim_results();
        if step.plan.is_some() {
            return self.reserve_step(PendingStep { shrunk: true, ..step.after_summary() }, effects);
        }
        // Removes its output so far, which is in no log.
        self.publish_change(AnswerChange::StepBegan { number: self.next_step_number() }, effects);
        let again = PendingStep { shrunk: true, tries: 0, stalls: 0, ..step.next_attempt() };
        if again.summarised || self.transcript.plan_summary().is_none() {
            return self.call_model(again, held, effects);
        }
        self.reserve_step(again, effects);
    }
}
