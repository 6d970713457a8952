//! The transcript: everything that was said, asked and returned, as the host owns it.

use std::sync::Arc;

use crate::answer::LogEntry;
use crate::image::IMAGE_TOKENS;
use crate::step::{ATTACHED_FILES, Call, CallResult, Item, Outcome};
use crate::turn::{EntryKind, EntryNote, estimated_tokens};

/// What stands for a result that is not shown or never came.
const LEFT_OUT: &str = "(left out to save space)";

/// An earlier question of the conversation with what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    /// The question.
    pub question: String,
    /// The workspace paths that were attached.
    pub attachments: Vec<String>,
    /// The answer's step log.
    pub log: Vec<LogEntry>,
}

#[derive(Debug, Clone)]
struct Entry {
    note: EntryNote,
    item: Item,
    /// Whether something newer stands for it.
    superseded: bool,
}

/// The entries that the agent chooses from.
#[derive(Debug, Clone, Default)]
pub(super) struct Transcript {
    entries: Vec<Entry>,
}

impl Transcript {
    /// The conversation so far, the present exchange last.
    pub(super) fn new(earlier: &[Exchange], present: &Exchange) -> Self {
        let mut transcript = Self::default();
        for exchange in earlier {
            transcript.add_exchange(exchange, false);
        }
        transcript.add_exchange(present, true);
        transcript
    }

    /// Adds what the log gained and tells its note.
    pub(super) fn add(&mut self, entry: &LogEntry) -> EntryNote {
        self.push(item_of(entry), true)
    }

    pub(super) fn notes(&self) -> Vec<EntryNote> {
        self.entries.iter().map(|entry| entry.note).collect()
    }

    /// Whether these may be shown to a model: known, ascending, and the present question among them.
    pub(super) fn may_show(&self, keep: &[u32]) -> bool {
        let present_question = |id: u32| {
            let entry = self.entries.get(id as usize);
            entry.is_some_and(|entry| entry.note.present && entry.note.kind == EntryKind::Question)
        };
        keep.is_sorted_by(|a, b| a < b)
            && keep.iter().all(|id| (*id as usize) < self.entries.len())
            && keep.iter().any(|id| present_question(*id))
    }

    /// The items of these entries. Every call has its result behind it: one that is left out or never came
    /// is said to be, and no result stands without its call.
    pub(super) fn items(&self, keep: &[u32]) -> Vec<Item> {
        let mut items: Vec<Item> = Vec::with_capacity(keep.len());
        let mut open: Vec<Call> = Vec::new();
        let kept = keep.iter().filter_map(|id| self.entries.get(*id as usize));
        for entry in kept.filter(|entry| !entry.superseded) {
            match &entry.item {
                // It stands behind the question that it was attached to.
                Item::Result(result) if result.tool == ATTACHED_FILES => items.push(entry.item.clone()),
                Item::Result(result) => {
                    if let Some(at) = open.iter().position(|call| call.id == result.call) {
                        open.remove(at);
                        items.push(entry.item.clone());
                    }
                }
                Item::Question { .. } => {
                    items.extend(open.drain(..).map(left_out));
                    items.push(entry.item.clone());
                }
                Item::Step(step) => {
                    items.extend(open.drain(..).map(left_out));
                    items.push(entry.item.clone());
                    open = step.calls().cloned().collect();
                }
            }
        }
        items.extend(open.drain(..).map(left_out));
        items
    }

    pub(super) fn tokens(&self, keep: &[u32]) -> u64 {
        let known = keep.iter().filter_map(|id| self.entries.get(*id as usize));
        known.map(|entry| entry.note.tokens).sum()
    }

    fn add_exchange(&mut self, exchange: &Exchange, present: bool) {
        let question =
            Item::Question { text: exchange.question.clone(), attachments: exchange.attachments.clone() };
        self.push(question, present);
        for entry in &exchange.log {
            self.push(item_of(entry), present);
        }
    }

    fn push(&mut self, item: Item, present: bool) -> EntryNote {
        let kind = match &item {
            Item::Question { .. } => EntryKind::Question,
            Item::Step(_) => EntryKind::Step,
            Item::Result(_) => EntryKind::Result,
        };
        let id = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        // What is attached to earlier questions is read again for the present one, and gets numbers of its answer.
        let superseded = !present && matches!(&item, Item::Result(result) if result.tool == ATTACHED_FILES);
        let tokens = if superseded { 0 } else { tokens_of(&item) };
        let note = EntryNote { id, kind, tokens, present };
        self.entries.push(Entry { note, item, superseded });
        note
    }
}

fn item_of(entry: &LogEntry) -> Item {
    match entry {
        LogEntry::Step { step, .. } => Item::Step(step.clone()),
        LogEntry::Result { result, .. } => Item::Result(result.clone()),
    }
}

fn left_out(call: Call) -> Item {
    Item::Result(Arc::new(CallResult {
        images: Vec::new(),
        call: call.id,
        tool: call.tool,
        outcome: Outcome::Interrupted,
        text: LEFT_OUT.to_owned(),
        passages: Vec::new(),
        written: Vec::new(),
    }))
}

/// What an entry counts for.
fn tokens_of(item: &Item) -> u64 {
    let images = match item {
        Item::Result(result) => result.images.len() as u64 * IMAGE_TOKENS,
        Item::Question { .. } | Item::Step(_) => 0,
    };
    estimated_tokens(bytes_of(item)) + images
}

fn bytes_of(item: &Item) -> usize {
    use crate::step::Block;
    match item {
        Item::Question { text, attachments } => {
            text.len() + attachments.iter().map(String::len).sum::<usize>()
        }
        Item::Step(step) => step
            .blocks
            .iter()
            .map(|block| match block {
                Block::Text(text) | Block::Reasoning(text) => text.len(),
                Block::Call(call) => call.id.len() + call.tool.len() + call.arguments.len(),
                Block::Opaque { json, .. } => json.len(),
            })
            .sum(),
        Item::Result(result) => {
            let passages: usize = result.passages.iter().map(|passage| passage.text.len() + 64).sum();
            result.text.len() + passages
        }
    }
}
