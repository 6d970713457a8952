//! The step being said, as far as it has come.

use crate::answer::Change;
use crate::limits::{CALLS_MAX, STEP_MAX_BYTES};
use crate::step::{Block, Call, Step, StepEvent, StopReason, Usage};
use crate::turn::estimated_tokens;

/// The longest identifier of a call that is taken over from a model.
const CALL_ID_MAX_BYTES: usize = 128;

/// A step that a model is putting out.
#[derive(Debug, Clone, Default)]
pub(super) struct Draft {
    blocks: Vec<Block>,
    bytes: usize,
}

/// What an event of the model's stream came to.
pub(super) enum Grown {
    /// The answer changed.
    Changed(Change),
    /// Nothing to show.
    Quietly,
    /// The model is done, or has put out as much as it may.
    Finished { stop: StopReason, usage: Option<Usage> },
}

impl Draft {
    /// Takes one event. `taken` tells whether an identifier of a call is in use in the answer already.
    pub(super) fn grow(&mut self, number: u32, event: StepEvent, taken: impl Fn(&str) -> bool) -> Grown {
        let size = match &event {
            StepEvent::Text(text) | StepEvent::Reasoning(text) => text.len(),
            StepEvent::Call(call) => call.arguments.len() + call.id.len() + call.tool.len(),
            StepEvent::Opaque { json, .. } => json.len(),
            StepEvent::Finished { .. } => 0,
        };
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > STEP_MAX_BYTES {
            return Grown::Finished { stop: StopReason::OutputFull, usage: None };
        }
        match event {
            StepEvent::Text(text) => self.grow_text(text),
            StepEvent::Reasoning(text) => self.grow_reasoning(text),
            StepEvent::Call(call) => self.add_call(number, call, taken),
            StepEvent::Opaque { format, json } => {
                self.blocks.push(Block::Opaque { format, json });
                Grown::Quietly
            }
            StepEvent::Finished { stop, usage } => Grown::Finished { stop, usage },
        }
    }

    /// Whether it holds nothing that an answer or the agent could use.
    pub(super) fn is_empty(&self) -> bool {
        !self.blocks.iter().any(|block| match block {
            Block::Text(text) => !text.trim().is_empty(),
            Block::Call(_) => true,
            Block::Reasoning(_) | Block::Opaque { .. } => false,
        })
    }

    /// The step as it stands.
    pub(super) fn into_step(self, stop: StopReason, usage: Usage) -> Step {
        Step { blocks: self.blocks, stop, usage }
    }

    /// The usage where the vendor said nothing: what was asked, and what was put out.
    pub(super) fn estimated_usage(&self, input_tokens: u64) -> Usage {
        let output_tokens = if self.bytes == 0 { 0 } else { estimated_tokens(self.bytes) };
        Usage { input_tokens, output_tokens, estimated: true, ..Usage::default() }
    }

    fn last(&self) -> u32 {
        u32::try_from(self.blocks.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    fn grow_text(&mut self, text: String) -> Grown {
        match self.blocks.last_mut() {
            Some(Block::Text(whole)) => whole.push_str(&text),
            Some(Block::Reasoning(_) | Block::Call(_) | Block::Opaque { .. }) | None => {
                self.blocks.push(Block::Text(text.clone()));
            }
        }
        Grown::Changed(Change::TextGrew { block: self.last(), text })
    }

    fn grow_reasoning(&mut self, text: String) -> Grown {
        match self.blocks.last_mut() {
            Some(Block::Reasoning(whole)) => whole.push_str(&text),
            Some(Block::Text(_) | Block::Call(_) | Block::Opaque { .. }) | None => {
                self.blocks.push(Block::Reasoning(text.clone()));
            }
        }
        Grown::Changed(Change::ReasoningGrew { block: self.last(), text })
    }

    /// Adds a call under an identifier of its own: the agent tells calls apart by it.
    fn add_call(&mut self, number: u32, mut call: Call, taken: impl Fn(&str) -> bool) -> Grown {
        let calls = || {
            self.blocks.iter().filter_map(|block| match block {
                Block::Call(call) => Some(call),
                Block::Text(_) | Block::Reasoning(_) | Block::Opaque { .. } => None,
            })
        };
        if calls().count() >= CALLS_MAX {
            return Grown::Quietly;
        }
        let fits = (1..=CALL_ID_MAX_BYTES).contains(&call.id.len());
        if !fits || taken(&call.id) || calls().any(|other| other.id == call.id) {
            call.id = format!("call-{number}-{}", self.blocks.len());
        }
        self.blocks.push(Block::Call(call.clone()));
        Grown::Changed(Change::Called { block: self.last(), call })
    }
}
