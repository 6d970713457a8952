//! The step that is to be said: the one that is wanted, or the one before it that sums up what has become too long.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::draft::Draft;
use super::transcript::Plan;
use super::{Effect, Phase, Turn};
use crate::answer::{Change, ErrorCode, LogEntry};
use crate::credits::Credits;
use crate::step::{Block, Item, Step, StopReason, Usage};

/// The most tokens that a summary has.
const SUMMARY_MAX_TOKENS: u32 = 8192;

/// What is to be said, and how often that was tried.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Task {
    /// The entries that the agent wants shown.
    pub(super) keep: Vec<u32>,
    /// What is to be summed up before it, when this is for that.
    pub(super) plan: Option<Plan>,
    /// Counts what is said for this number, from 0: its summary, the step, and each anew.
    pub(super) attempt: u32,
    /// Counts the attempts at this alone.
    pub(super) tries: u32,
    /// Whether the vendor found it too long before.
    squeezed: bool,
    /// Whether it was tried to sum up.
    summed_up: bool,
}

impl Task {
    /// The step that the agent wants.
    pub(super) fn first(keep: Vec<u32>) -> Self {
        Self { keep, plan: None, attempt: 0, tries: 0, squeezed: false, summed_up: false }
    }

    /// The same once more.
    pub(super) fn again(&self) -> Self {
        Self { attempt: self.attempt + 1, tries: self.tries + 1, ..self.clone() }
    }

    /// The step behind its summary, whether that came about or not.
    fn behind(&self) -> Self {
        Self { plan: None, attempt: self.attempt + 1, tries: 0, summed_up: true, ..self.clone() }
    }
}

impl Turn {
    /// Wants the most held that comes next: the step, or what sums up before it.
    pub(super) fn reserve(&mut self, mut task: Task, effects: &mut Vec<Effect>) {
        let number = self.next();
        let known = |entry: &LogEntry| matches!(entry, LogEntry::Summary { number: of, .. } if *of == number);
        if task.plan.is_none() && !task.summed_up && !self.log.iter().any(known) {
            task.plan = self.transcript.plan();
        }
        effects.push(Effect::Reserve {
            number,
            attempt: task.attempt,
            summary: task.plan.is_some(),
            greatest: self.greatest(&task),
        });
        self.phase = Phase::Reserving { task };
    }

    pub(super) fn greatest(&self, task: &Task) -> Credits {
        let most = Usage {
            input_tokens: self.input_tokens(task),
            output_tokens: u64::from(self.output_max_tokens(task)),
            ..Usage::default()
        };
        self.bill.greatest(self.setup.price, most)
    }

    pub(super) fn output_max_tokens(&self, task: &Task) -> u32 {
        let most = self.setup.output_max_tokens;
        if task.plan.is_some() { most.min(SUMMARY_MAX_TOKENS) } else { most }
    }

    pub(super) fn input_tokens(&self, task: &Task) -> u64 {
        let shown = match task.plan {
            None => self.transcript.tokens(&task.keep),
            Some(plan) => {
                crate::turn::estimated_tokens(self.setup.summing_up.len() + self.setup.present.question.len())
                    + self.transcript.tokens_to_sum_up(plan)
            }
        };
        self.setup.overhead_tokens + shown
    }

    /// What the model is shown.
    pub(super) fn shown(&self, task: &Task) -> Vec<Item> {
        let Some(plan) = task.plan else { return self.transcript.items(&task.keep) };
        let mut items = self.transcript.items_to_sum_up(plan);
        let text = format!("{}\n\n{}", self.setup.summing_up, self.setup.present.question);
        items.push(Item::Question { text, attachments: Vec::new() });
        items
    }

    pub(super) fn summary(&self, kept: u32, step: Step) -> LogEntry {
        LogEntry::Summary { number: self.next(), kept, step: Arc::new(step) }
    }

    /// Takes a summary: nothing but its text counts. One that says nothing is done without.
    pub(super) fn summed_up(
        &mut self,
        task: Task,
        plan: Plan,
        held: Credits,
        draft: Draft,
        (stop, usage): (StopReason, Option<Usage>),
        effects: &mut Vec<Effect>,
    ) {
        let usage = usage.unwrap_or_else(|| draft.estimated_usage(self.input_tokens(&task)));
        let mut step = draft.into_step(stop, usage);
        step.blocks.retain(|block| matches!(block, Block::Text(text) if !text.trim().is_empty()));
        let says = !step.blocks.is_empty() && stop != StopReason::Refused;
        let kept = if says { plan.kept } else { u32::MAX };
        let (bill, cost) = self.bill.settle(self.setup.price, usage, held);
        let entry = self.summary(kept, step);
        effects.push(Effect::CommitStep { entry: entry.clone(), cost, bill });
        self.phase = Phase::Committing { entry, bill, then: Some(task.behind()) };
    }

    /// The vendor can't read so much: less is shown, once; what sums up is done without.
    pub(super) fn too_long(&mut self, task: Task, held: Credits, effects: &mut Vec<Effect>) {
        if task.squeezed {
            let message = "The answer was ended: the conversation is longer than the model can read.";
            return self.fail(ErrorCode::ContextTooLong, message);
        }
        effects.push(Effect::Hush);
        self.transcript.squeeze();
        self.transcript.trim();
        if task.plan.is_some() {
            return self.reserve(Task { squeezed: true, ..task.behind() }, effects);
        }
        // What it had said of the step goes: whatever comes next, that is in no log.
        self.publish(Change::StepBegan { number: self.next() }, effects);
        let again = Task { squeezed: true, tries: 0, ..task.again() };
        if again.summed_up || self.transcript.plan().is_none() {
            return self.say(again, held, effects);
        }
        self.reserve(again, effects);
    }
}
