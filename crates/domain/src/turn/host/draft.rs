//! The output of the step in progress.

use crate::answer::AnswerChange;
use crate::citation::{self, CITED_MAX, NumberedCitation, PassagePlace, VendorCitation};
use crate::limits::{CALLS_MAX, STEP_MAX_BYTES};
use crate::step::{OutputBlock, Step, StepCall, StepEvent, StopReason, TokenUsage};
use crate::step_note::{NOTES_MAX, StepNote};
use crate::turn::estimated_tokens;

/// The longest call identifier that is accepted from a model, in bytes.
const CALL_ID_MAX_BYTES: usize = 128;

/// The output of a step so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Draft {
    blocks: Vec<OutputBlock>,
    bytes: usize,
    /// Sources whose marks have no position yet.
    waiting: Vec<VendorCitation>,
    /// Set if one of these may have a position now.
    look: bool,
    cited: Vec<NumberedCitation>,
    notes: Vec<StepNote>,
}

/// A source whose mark has a position.
pub(super) struct PlacedCitation {
    block: u32,
    at: usize,
    /// The source as the vendor reported it.
    pub(super) place: PassagePlace,
    quote: String,
}

/// The effect of a model's event on the draft.
pub(super) enum DraftChange {
    Changed(AnswerChange),
    /// The step so far is published again.
    Redrawn(Vec<AnswerChange>),
    None,
    /// The model has finished, or reached its output limit.
    Finished {
        stop: StopReason,
        usage: Option<TokenUsage>,
    },
}

impl Draft {
    /// Handles one event. `taken` reports whether a call identifier is already used in the answer.
    pub(super) fn apply_event(
        &mut self,
        number: u32,
        event: StepEvent,
        taken: impl Fn(&str) -> bool,
    ) -> DraftChange {
        let size = match &event {
            StepEvent::Text(text) | StepEvent::Reasoning(text) => text.len(),
            StepEvent::Call(call) => call.arguments.len() + call.id.len() + call.tool.len(),
            StepEvent::Opaque { json, .. } => json.len(),
            StepEvent::Cited(cited) => cited.size_bytes(),
            StepEvent::WasReasoning | StepEvent::Noted(_) | StepEvent::Finished { .. } => 0,
        };
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > STEP_MAX_BYTES {
            return DraftChange::Finished { stop: StopReason::OutputFull, usage: None };
        }
        match event {
            StepEvent::Text(text) => self.grow_text(text),
            StepEvent::Reasoning(text) => self.grow_reasoning(text),
            StepEvent::WasReasoning => self.turn_into_reasoning(number),
            StepEvent::Call(call) => self.add_call(number, call, taken),
            StepEvent::Cited(cited) => {
                if self.waiting.len() + self.cited.len() < CITED_MAX {
                    self.waiting.push(cited);
                    self.look = true;
                }
                DraftChange::None
            }
            StepEvent::Noted(note) => self.add_note(note),
            StepEvent::Opaque { format, json } => {
                self.blocks.push(OutputBlock::Opaque { format, json });
                DraftChange::None
            }
            StepEvent::Finished { stop, usage } => DraftChange::Finished { stop, usage },
        }
    }

    /// Returns `true` if it contains neither text nor calls.
    pub(super) fn is_empty(&self) -> bool {
        !self.blocks.iter().any(|block| match block {
            OutputBlock::Text(text) => !text.trim().is_empty(),
            OutputBlock::Call(_) => true,
            OutputBlock::Reasoning(_) | OutputBlock::Opaque { .. } => false,
        })
    }

    /// Converts the output so far into a step.
    pub(super) fn into_step(self, stop: StopReason, usage: TokenUsage) -> Step {
        Step { blocks: self.blocks, cited: self.cited, notes: self.notes, awaited: Vec::new(), stop, usage }
    }

    /// Returns the sources whose marks have positions now; all possible ones once the step has `ended`.
    pub(super) fn take_placed(&mut self, ended: bool) -> Vec<PlacedCitation> {
        if !ended && !std::mem::take(&mut self.look) {
            return Vec::new();
        }
        let (mut placed, mut waiting) = (Vec::new(), Vec::new());
        for cited in std::mem::take(&mut self.waiting) {
            match self.find_block_position(cited.at, ended) {
                Some((block, at)) => {
                    placed.push(PlacedCitation { block, at, place: cited.place, quote: cited.quote });
                }
                None => waiting.push(cited),
            }
        }
        self.waiting = waiting;
        placed
    }

    /// Returns `true` if the model itself wrote a mark with this number, as some models do for sources that
    /// are not reported.
    pub(super) fn has_mark(&self, number: u32) -> bool {
        self.blocks.iter().any(|block| match block {
            OutputBlock::Text(text) => citation::find_marks(text).any(|mark| mark.numbers.contains(&number)),
            OutputBlock::Reasoning(_) | OutputBlock::Call(_) | OutputBlock::Opaque { .. } => false,
        })
    }

    /// Records a source under its number; `None` if it is already recorded.
    pub(super) fn record_citation(&mut self, placed: PlacedCitation, number: u32) -> Option<AnswerChange> {
        let PlacedCitation { block, at, place, quote } = placed;
        if self.cited.iter().any(|other| (other.block, other.at, other.number) == (block, at, number)) {
            return None;
        }
        self.cited.push(NumberedCitation { block, at, number, place: place.clone(), quote });
        Some(AnswerChange::Cited { block, at, number, place })
    }

    /// Returns the text block that contains the offset `at` of the step's text, and the position of the mark
    /// in it.
    fn find_block_position(&self, at: usize, ended: bool) -> Option<(u32, usize)> {
        let mut before = 0;
        let last = self.blocks.iter().rposition(|block| matches!(block, OutputBlock::Text(_)))?;
        for (index, block) in self.blocks.iter().enumerate() {
            let OutputBlock::Text(text) = block else { continue };
            let is_last = index == last;
            if is_last && !ended && at > before + text.len() {
                return None; // not received yet
            }
            if at <= before + text.len() || is_last {
                let within = (at - before).min(text.len());
                // Only the last block can still grow.
                let whole = ended || !is_last || index + 1 < self.blocks.len();
                return Some((u32::try_from(index).ok()?, citation::marker_position(text, within, whole)?));
            }
            before += text.len();
        }
        None
    }

    /// Completes the usage that the vendor reported: estimates counts that are missing, or zero for a step with output.
    pub(super) fn completed_usage(&self, reported: Option<TokenUsage>, input_tokens: u64) -> TokenUsage {
        let estimated = self.estimated_usage(input_tokens);
        let Some(mut usage) = reported else { return estimated };
        if usage.input_tokens == 0 && estimated.input_tokens > 0 {
            usage = TokenUsage { input_tokens: estimated.input_tokens, estimated: true, ..usage };
        }
        if usage.output_tokens == 0 && estimated.output_tokens > 0 {
            usage = TokenUsage { output_tokens: estimated.output_tokens, estimated: true, ..usage };
        }
        usage
    }

    /// Estimates the usage from the input tokens and the output when the vendor reported none.
    pub(super) fn estimated_usage(&self, input_tokens: u64) -> TokenUsage {
        let output_tokens = if self.bytes == 0 { 0 } else { estimated_tokens(self.bytes) };
        TokenUsage { input_tokens, output_tokens, estimated: true, ..TokenUsage::default() }
    }

    /// Turns the text so far into reasoning.
    fn turn_into_reasoning(&mut self, number: u32) -> DraftChange {
        if !self.blocks.iter().any(|block| matches!(block, OutputBlock::Text(_))) {
            return DraftChange::None;
        }
        let is_settled =
            |block: &OutputBlock| matches!(block, OutputBlock::Call(_) | OutputBlock::Opaque { .. });
        if self.blocks.iter().any(is_settled) {
            return DraftChange::None; // only the beginning of a step is marked in this way
        }
        let texts = std::mem::take(&mut self.blocks).into_iter().filter_map(|block| match block {
            OutputBlock::Text(text) | OutputBlock::Reasoning(text) => Some(text),
            OutputBlock::Call(_) | OutputBlock::Opaque { .. } => None,
        });
        let text: String = texts.collect();
        self.waiting.clear();
        self.cited.clear();
        self.blocks.push(OutputBlock::Reasoning(text.clone()));
        let notes = self.notes.iter().cloned().map(AnswerChange::Noted);
        let mut changes =
            vec![AnswerChange::StepBegan { number }, AnswerChange::ReasoningGrew { block: 0, text }];
        changes.extend(notes);
        DraftChange::Redrawn(changes)
    }

    fn add_note(&mut self, note: StepNote) -> DraftChange {
        if self.notes.len() >= NOTES_MAX || self.notes.contains(&note) {
            return DraftChange::None;
        }
        self.notes.push(note.clone());
        DraftChange::Changed(AnswerChange::Noted(note))
    }

    fn last_block(&self) -> u32 {
        u32::try_from(self.blocks.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    fn grow_text(&mut self, text: String) -> DraftChange {
        self.look |= text.contains('\n') && !self.waiting.is_empty();
        match self.blocks.last_mut() {
            Some(OutputBlock::Text(whole)) => whole.push_str(&text),
            Some(OutputBlock::Reasoning(_) | OutputBlock::Call(_) | OutputBlock::Opaque { .. }) | None => {
                self.blocks.push(OutputBlock::Text(text.clone()));
            }
        }
        DraftChange::Changed(AnswerChange::TextGrew { block: self.last_block(), text })
    }

    fn grow_reasoning(&mut self, text: String) -> DraftChange {
        match self.blocks.last_mut() {
            Some(OutputBlock::Reasoning(whole)) => whole.push_str(&text),
            Some(OutputBlock::Text(_) | OutputBlock::Call(_) | OutputBlock::Opaque { .. }) | None => {
                self.blocks.push(OutputBlock::Reasoning(text.clone()));
            }
        }
        DraftChange::Changed(AnswerChange::ReasoningGrew { block: self.last_block(), text })
    }

    /// Adds a call, with an identifier that is unique in the answer.
    fn add_call(&mut self, number: u32, mut call: StepCall, taken: impl Fn(&str) -> bool) -> DraftChange {
        let calls = || {
            self.blocks.iter().filter_map(|block| match block {
                OutputBlock::Call(call) => Some(call),
                OutputBlock::Text(_) | OutputBlock::Reasoning(_) | OutputBlock::Opaque { .. } => None,
            })
        };
        if calls().count() >= CALLS_MAX {
            return DraftChange::None;
        }
        let fits = (1..=CALL_ID_MAX_BYTES).contains(&call.id.len());
        if !fits || taken(&call.id) || calls().any(|other| other.id == call.id) {
            call.id = format!("call-{number}-{}", self.blocks.len());
        }
        self.blocks.push(OutputBlock::Call(call.clone()));
        DraftChange::Changed(AnswerChange::Called { block: self.last_block(), call })
    }
}
