//! The step that a model is putting out.

use crate::answer::Change;
use crate::citation::{self, CITED_MAX, Citation, Cited, Place};
use crate::limits::{CALLS_MAX, STEP_MAX_BYTES};
use crate::step::{Block, Call, Step, StepEvent, StopReason, Usage};
use crate::turn::estimated_tokens;

/// The longest identifier of a call that is taken over from a model.
const CALL_ID_MAX_BYTES: usize = 128;

/// The output of a step so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Draft {
    blocks: Vec<Block>,
    bytes: usize,
    /// Sources whose marks have no place yet.
    waiting: Vec<Cited>,
    /// Whether one of these may have got its place.
    look: bool,
    cited: Vec<Citation>,
}

/// A source whose mark has its place.
pub(super) struct Placed {
    block: u32,
    at: usize,
    /// The source, as the vendor names it.
    pub(super) place: Place,
    quote: String,
}

/// The effect of a model's event on the draft.
pub(super) enum DraftChange {
    /// The answer changed.
    Changed(Change),
    /// Nothing changed.
    None,
    /// The model is done, or has put out as much as it may.
    Finished { stop: StopReason, usage: Option<Usage> },
}

impl Draft {
    /// Takes one event. `taken` tells whether an identifier of a call is in use in the answer already.
    pub(super) fn grow(
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
            StepEvent::Finished { .. } => 0,
        };
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > STEP_MAX_BYTES {
            return DraftChange::Finished { stop: StopReason::OutputFull, usage: None };
        }
        match event {
            StepEvent::Text(text) => self.grow_text(text),
            StepEvent::Reasoning(text) => self.grow_reasoning(text),
            StepEvent::Call(call) => self.add_call(number, call, taken),
            StepEvent::Cited(cited) => {
                if self.waiting.len() + self.cited.len() < CITED_MAX {
                    self.waiting.push(cited);
                    self.look = true;
                }
                DraftChange::None
            }
            StepEvent::Opaque { format, json } => {
                self.blocks.push(Block::Opaque { format, json });
                DraftChange::None
            }
            StepEvent::Finished { stop, usage } => DraftChange::Finished { stop, usage },
        }
    }

    /// Whether it holds neither text nor calls.
    pub(super) fn is_empty(&self) -> bool {
        !self.blocks.iter().any(|block| match block {
            Block::Text(text) => !text.trim().is_empty(),
            Block::Call(_) => true,
            Block::Reasoning(_) | Block::Opaque { .. } => false,
        })
    }

    /// The step as it stands.
    pub(super) fn into_step(self, stop: StopReason, usage: Usage) -> Step {
        Step { blocks: self.blocks, cited: self.cited, stop, usage }
    }

    /// The sources whose marks have got their places: of a step that has `ended` all that can have one.
    pub(super) fn placed(&mut self, ended: bool) -> Vec<Placed> {
        if !ended && !std::mem::take(&mut self.look) {
            return Vec::new();
        }
        let (mut placed, mut waiting) = (Vec::new(), Vec::new());
        for cited in std::mem::take(&mut self.waiting) {
            match self.spot(cited.at, ended) {
                Some((block, at)) => {
                    placed.push(Placed { block, at, place: cited.place, quote: cited.quote });
                }
                None => waiting.push(cited),
            }
        }
        self.waiting = waiting;
        placed
    }

    /// Whether the model wrote a mark with this number itself, as some do for sources that they do not tell.
    pub(super) fn has_mark(&self, number: u32) -> bool {
        self.blocks.iter().any(|block| match block {
            Block::Text(text) => citation::marks(text).any(|mark| mark.number == number),
            Block::Reasoning(_) | Block::Call(_) | Block::Opaque { .. } => false,
        })
    }

    /// Keeps a source under its number; `None` when it is there already.
    pub(super) fn cite(&mut self, placed: Placed, number: u32) -> Option<Change> {
        let Placed { block, at, place, quote } = placed;
        if self.cited.iter().any(|other| (other.block, other.at, other.number) == (block, at, number)) {
            return None;
        }
        self.cited.push(Citation { block, at, number, place: place.clone(), quote });
        Some(Change::Cited { block, at, number, place })
    }

    /// The text block in which so many bytes of the step's text end, and where the mark goes in it.
    fn spot(&self, at: usize, ended: bool) -> Option<(u32, usize)> {
        let mut before = 0;
        let last = self.blocks.iter().rposition(|block| matches!(block, Block::Text(_)))?;
        for (index, block) in self.blocks.iter().enumerate() {
            let Block::Text(text) = block else { continue };
            let is_last = index == last;
            if is_last && !ended && at > before + text.len() {
                return None; // it has not come yet
            }
            if at <= before + text.len() || is_last {
                let within = (at - before).min(text.len());
                // Only the last block may still grow.
                let whole = ended || !is_last || index + 1 < self.blocks.len();
                return Some((u32::try_from(index).ok()?, citation::marker_position(text, within, whole)?));
            }
            before += text.len();
        }
        None
    }

    /// The usage where the vendor said nothing: what was asked, and what was put out.
    pub(super) fn estimated_usage(&self, input_tokens: u64) -> Usage {
        let output_tokens = if self.bytes == 0 { 0 } else { estimated_tokens(self.bytes) };
        Usage { input_tokens, output_tokens, estimated: true, ..Usage::default() }
    }

    fn last(&self) -> u32 {
        u32::try_from(self.blocks.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    fn grow_text(&mut self, text: String) -> DraftChange {
        self.look |= text.contains('\n') && !self.waiting.is_empty();
        match self.blocks.last_mut() {
            Some(Block::Text(whole)) => whole.push_str(&text),
            Some(Block::Reasoning(_) | Block::Call(_) | Block::Opaque { .. }) | None => {
                self.blocks.push(Block::Text(text.clone()));
            }
        }
        DraftChange::Changed(Change::TextGrew { block: self.last(), text })
    }

    fn grow_reasoning(&mut self, text: String) -> DraftChange {
        match self.blocks.last_mut() {
            Some(Block::Reasoning(whole)) => whole.push_str(&text),
            Some(Block::Text(_) | Block::Call(_) | Block::Opaque { .. }) | None => {
                self.blocks.push(Block::Reasoning(text.clone()));
            }
        }
        DraftChange::Changed(Change::ReasoningGrew { block: self.last(), text })
    }

    /// Adds a call under an identifier that is unique in the answer.
    fn add_call(&mut self, number: u32, mut call: Call, taken: impl Fn(&str) -> bool) -> DraftChange {
        let calls = || {
            self.blocks.iter().filter_map(|block| match block {
                Block::Call(call) => Some(call),
                Block::Text(_) | Block::Reasoning(_) | Block::Opaque { .. } => None,
            })
        };
        if calls().count() >= CALLS_MAX {
            return DraftChange::None;
        }
        let fits = (1..=CALL_ID_MAX_BYTES).contains(&call.id.len());
        if !fits || taken(&call.id) || calls().any(|other| other.id == call.id) {
            call.id = format!("call-{number}-{}", self.blocks.len());
        }
        self.blocks.push(Block::Call(call.clone()));
        DraftChange::Changed(Change::Called { block: self.last(), call })
    }
}
