//! The transcript: all questions, steps and results, and the selection that is shown to a model.
//!
//! The context of a model is bounded. When the transcript exceeds a part of the bound, old results are
//! omitted, many at once, so that the beginning of the context stays the same between steps and can be
//! cached. If that is not enough, a separate step summarizes the old entries, and its result is stored in the
//! log; the last entries stay unchanged. The selection depends only on the log, so every lease shows the
//! same.

use std::sync::Arc;

use super::token_budget::TokenBudget;
use crate::answer::LogEntry;
use crate::image::IMAGE_TOKENS;
use crate::step::{
    ATTACHED_FILES, CallResult, OutputBlock, Step, StepCall, StepOutcome, TranscriptItem, USE_SKILL,
    WORKSPACE_INSTRUCTIONS,
};
use crate::turn::estimated_tokens;

/// The placeholder for a result that is not shown or does not exist.
const LEFT_OUT: &str = "(left out to save space)";
/// The placeholder for a result that was omitted for lack of room.
const TRIMMED: &str = "(This result was left out to save space. If it matters again, look at it again: read, list, find \
                       and search give it anew; what changes something is not to be run again for that.)";
/// The text before a summary.
const SUMMED_UP: &str = "What was said and done before this is summed up here, to save space. The summary was made by a \
                         model from the exchange; it is a record, and no instruction of the user's.\n\n";

/// An earlier question of the conversation with its answer's log.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedExchange {
    pub question: String,
    /// Workspace paths of the attachments.
    pub attachments: Vec<String>,
    /// The answer's step log.
    pub log: Vec<LogEntry>,
}

/// The position and size of an entry of the transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EntryNote {
    id: u32,
    kind: TranscriptEntryKind,
    tokens: u64,
    /// Set if it belongs to the current exchange.
    present: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TranscriptEntryKind {
    Question,
    Step,
    Result,
}

#[derive(Debug, Clone)]
struct TranscriptEntry {
    note: EntryNote,
    item: TranscriptItem,
    /// Set if a newer entry replaces it.
    superseded: bool,
    /// Set if its result is omitted.
    trimmed: bool,
}

/// All entries that may be shown to a model.
#[derive(Debug, Clone, Default)]
pub(super) struct Transcript {
    entries: Vec<TranscriptEntry>,
    /// The summary of the entries before `covered`.
    summary: Option<TranscriptItem>,
    covered: usize,
    budget: TokenBudget,
}

/// The plan of a summary, which covers the shown entries before a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SummaryPlan {
    /// The number of entries that stay unchanged.
    pub(super) kept: u32,
    before: usize,
}

impl Transcript {
    /// Creates the transcript of a conversation, with the current exchange last. Requests have `overhead`
    /// tokens besides it, and `room` tokens for it.
    pub(super) fn new(
        earlier: &[LoggedExchange],
        present: &LoggedExchange,
        overhead: u64,
        room: u64,
    ) -> Self {
        let mut transcript = Self { budget: TokenBudget::new(overhead, room), ..Self::default() };
        for exchange in earlier {
            transcript.add_exchange(exchange, false);
        }
        transcript.add_exchange(present, true);
        transcript
    }

    /// Adds an entry of the log.
    pub(super) fn add_log_entry(&mut self, entry: &LogEntry) {
        self.add_entry(entry, true);
    }

    /// Omits old results if the room requires it.
    pub(super) fn trim_results(&mut self) {
        let last_step = self.last_step();
        let is_old = |at: usize, entry: &TranscriptEntry| {
            at < last_step
                && entry.note.tokens > TokenBudget::TRIMMED_MIN_TOKENS
                && matches!(&entry.item, TranscriptItem::Result(result)
                    if ![USE_SKILL, ATTACHED_FILES].contains(&result.tool.as_str()))
        };
        let mut shown = self.shown_tokens();
        if !self.budget.is_above(shown, TokenBudget::TRIM_ABOVE_PERCENT) {
            return;
        }
        let mut goes = Vec::new();
        let begun = shown;
        for (at, entry) in self.entries.iter().enumerate().skip(self.covered) {
            if !self.budget.is_above(shown, TokenBudget::TRIM_TO_PERCENT) {
                break;
            }
            if is_old(at, entry) && !entry.trimmed {
                goes.push(at);
                shown = shown.saturating_sub(entry.note.tokens);
            }
        }
        // A smaller gain is not worth losing the vendor's cache.
        if self.budget.is_share(begun - shown, TokenBudget::GAIN_MIN_PERCENT) {
            for at in goes {
                self.entries[at].trimmed = true;
            }
        }
    }

    /// Returns the plan of a summary before the next step, if one is needed.
    pub(super) fn plan_summary(&self) -> Option<SummaryPlan> {
        if !self.budget.is_above(self.shown_tokens(), TokenBudget::SUMMARY_ABOVE_PERCENT) {
            return None;
        }
        let mut before = self.last_step();
        let mut tail: u64 = self.entries[before..].iter().map(|entry| self.shown_of(entry)).sum();
        let begins = |entry: &TranscriptEntry| entry.note.kind != TranscriptEntryKind::Result;
        for at in (self.covered..before).rev() {
            tail += self.shown_of(&self.entries[at]);
            if self.budget.is_share(tail, TokenBudget::VERBATIM_PERCENT) {
                break;
            }
            if begins(&self.entries[at]) {
                before = at;
            }
        }
        let goes = self.entries.iter().take(before).skip(self.covered).filter(|entry| !is_pinned(entry));
        let gain: u64 = goes.map(|entry| self.shown_of(entry)).sum();
        let kept = u32::try_from(self.entries.len().saturating_sub(before)).ok()?;
        self.budget.is_share(gain, TokenBudget::GAIN_MIN_PERCENT).then_some(SummaryPlan { kept, before })
    }

    /// Returns the items for the summarizing step: the newest ones that fit.
    pub(super) fn items_to_sum_up(&self, plan: SummaryPlan) -> Vec<TranscriptItem> {
        let goes = self.entries.iter().take(plan.before).skip(self.covered).filter(|entry| !is_pinned(entry));
        let notes: Vec<EntryNote> = goes.map(|entry| self.shown_note(entry)).collect();
        let keep = fitting_entries(&notes, self.budget.available_room());
        let mut items: Vec<TranscriptItem> = self.summary.iter().cloned().collect();
        items.extend(self.items_of(&keep, true));
        items
    }

    /// Returns the items that are shown to the model. Every call is followed by its result or a placeholder,
    /// and no result appears without its call. Items that still do not fit are dropped, oldest first.
    pub(super) fn shown_items(&self) -> Vec<TranscriptItem> {
        let mut items: Vec<TranscriptItem> = self.summary.iter().cloned().collect();
        items.extend(self.items_of(&self.shown_entries(), false));
        items
    }

    /// Returns the transcript tokens of the next step.
    pub(super) fn shown_size(&self) -> u64 {
        let known = self.shown_entries().into_iter().filter_map(|id| self.entries.get(id as usize));
        known.map(|entry| self.shown_of(entry)).sum::<u64>() + self.summary_tokens()
    }

    pub(super) fn tokens_to_sum_up(&self, plan: SummaryPlan) -> u64 {
        self.items_to_sum_up(plan).iter().map(tokens_of).sum()
    }

    /// Sets the tokens of requests besides the transcript, and the room for it.
    pub(super) fn set_budget(&mut self, overhead: u64, room: u64) {
        self.budget.set_limits(overhead, room);
    }

    /// Reduces the room after the vendor rejected the transcript as too long.
    pub(super) fn shrink_to_rejected(&mut self) {
        self.budget.shrink_room(self.shown_tokens());
    }

    /// Returns the indexes of the shown entries, ascending.
    fn shown_entries(&self) -> Vec<u32> {
        let kept = self.entries.iter().enumerate();
        let kept = kept.filter(|(at, entry)| *at >= self.covered || is_pinned(entry));
        let notes: Vec<EntryNote> = kept.map(|(_, entry)| self.shown_note(entry)).collect();
        fitting_entries(&notes, self.budget.available_room().saturating_sub(self.summary_tokens()))
    }

    fn items_of(&self, keep: &[u32], to_sum_up: bool) -> Vec<TranscriptItem> {
        let mut items: Vec<TranscriptItem> = Vec::with_capacity(keep.len());
        let mut open: Vec<StepCall> = Vec::new();
        let kept = keep.iter().filter_map(|id| self.entries.get(*id as usize));
        for entry in kept.filter(|entry| !entry.superseded) {
            match &entry.item {
                // It follows the question that it was attached to.
                TranscriptItem::Result(result) if result.tool == ATTACHED_FILES => {
                    items.extend((!to_sum_up).then(|| entry.item.clone()));
                }
                TranscriptItem::Result(result) => {
                    if let Some(at) = open.iter().position(|call| call.id == result.call) {
                        open.remove(at);
                        items.push(if entry.trimmed { trimmed_item(result) } else { entry.item.clone() });
                    }
                }
                TranscriptItem::Question { .. } => {
                    items.extend(open.drain(..).map(left_out));
                    items.push(entry.item.clone());
                }
                TranscriptItem::Step(step) => {
                    items.extend(open.drain(..).map(left_out));
                    items.push(entry.item.clone());
                    open = step.tool_calls().cloned().collect();
                }
            }
        }
        items.extend(open.drain(..).map(left_out));
        items
    }

    /// Returns the position of the last step, or of the current question before the first step.
    fn last_step(&self) -> usize {
        let present =
            |entry: &TranscriptEntry| entry.note.present && entry.note.kind != TranscriptEntryKind::Result;
        let last = self.entries.iter().rposition(present);
        last.unwrap_or(self.entries.len())
    }

    fn shown_tokens(&self) -> u64 {
        let shown = |(at, entry): (usize, &TranscriptEntry)| {
            if at >= self.covered || is_pinned(entry) { self.shown_of(entry) } else { 0 }
        };
        self.entries.iter().enumerate().map(shown).sum::<u64>() + self.summary_tokens()
    }

    fn summary_tokens(&self) -> u64 {
        self.summary.as_ref().map_or(0, tokens_of)
    }

    fn shown_of(&self, entry: &TranscriptEntry) -> u64 {
        if entry.trimmed { estimated_tokens(TRIMMED.len()) } else { entry.note.tokens }
    }

    fn shown_note(&self, entry: &TranscriptEntry) -> EntryNote {
        EntryNote { tokens: self.shown_of(entry), ..entry.note }
    }

    fn add_exchange(&mut self, exchange: &LoggedExchange, present: bool) {
        let question = TranscriptItem::Question {
            text: exchange.question.clone(),
            attachments: exchange.attachments.clone(),
        };
        self.push_item(question, present);
        for entry in &exchange.log {
            self.add_entry(entry, present);
        }
    }

    fn add_entry(&mut self, entry: &LogEntry, present: bool) {
        match entry {
            LogEntry::Step { step, .. } => {
                // The state before the step was generated.
                self.trim_results();
                self.budget.learn_ratio(self.shown_tokens(), step.usage);
                self.push_item(TranscriptItem::Step(step.clone()), present);
            }
            // It is part of the instructions.
            LogEntry::Result { result, .. } if is_instructions(result) => {}
            LogEntry::Result { result, .. } => {
                self.push_item(TranscriptItem::Result(result.clone()), present)
            }
            LogEntry::Summary { kept, step, .. } => {
                self.trim_results();
                let covered = self.entries.len().saturating_sub(*kept as usize);
                if covered > self.covered {
                    self.covered = covered;
                    self.summary = Some(summary_item(step));
                }
            }
        }
    }

    fn push_item(&mut self, item: TranscriptItem, present: bool) {
        let kind = match &item {
            TranscriptItem::Question { .. } => TranscriptEntryKind::Question,
            TranscriptItem::Step(_) => TranscriptEntryKind::Step,
            TranscriptItem::Result(_) => TranscriptEntryKind::Result,
        };
        let id = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        // Attachments of earlier questions are read again for the current one, with numbers of its answer.
        let superseded =
            !present && matches!(&item, TranscriptItem::Result(result) if result.tool == ATTACHED_FILES);
        let tokens = if superseded { 0 } else { tokens_of(&item) };
        let note = EntryNote { id, kind, tokens, present };
        self.entries.push(TranscriptEntry { note, item, superseded, trimmed: false });
    }
}

fn is_instructions(result: &CallResult) -> bool {
    result.call == WORKSPACE_INSTRUCTIONS && result.tool == WORKSPACE_INSTRUCTIONS
}

/// Returns `true` for entries that are always shown: the current question and the attachments.
fn is_pinned(entry: &TranscriptEntry) -> bool {
    entry.note.present
        && match &entry.item {
            TranscriptItem::Question { .. } => true,
            TranscriptItem::Result(result) => result.tool == ATTACHED_FILES,
            TranscriptItem::Step(_) => false,
        }
}

fn summary_item(step: &Step) -> TranscriptItem {
    let mut text = SUMMED_UP.to_owned();
    for block in &step.blocks {
        if let OutputBlock::Text(piece) = block {
            text.push_str(piece);
        }
    }
    TranscriptItem::Question { text, attachments: Vec::new() }
}

fn trimmed_item(result: &CallResult) -> TranscriptItem {
    TranscriptItem::Result(Arc::new(CallResult {
        call: result.call.clone(),
        tool: result.tool.clone(),
        outcome: result.outcome,
        text: TRIMMED.to_owned(),
        passages: Vec::new(),
        written: Vec::new(),
        images: Vec::new(),
        unread: Vec::new(),
    }))
}

fn left_out(call: StepCall) -> TranscriptItem {
    TranscriptItem::Result(Arc::new(CallResult {
        images: Vec::new(),
        call: call.id,
        tool: call.tool,
        outcome: StepOutcome::Interrupted,
        text: LEFT_OUT.to_owned(),
        passages: Vec::new(),
        written: Vec::new(),
        unread: Vec::new(),
    }))
}

/// Estimates the tokens of an entry.
fn tokens_of(item: &TranscriptItem) -> u64 {
    let images = match item {
        TranscriptItem::Result(result) => result.images.len() as u64 * IMAGE_TOKENS,
        TranscriptItem::Question { .. } | TranscriptItem::Step(_) => 0,
    };
    estimated_tokens(bytes_of(item)) + images
}

fn bytes_of(item: &TranscriptItem) -> usize {
    match item {
        TranscriptItem::Question { text, attachments } => {
            text.len() + attachments.iter().map(String::len).sum::<usize>()
        }
        TranscriptItem::Step(step) => step
            .blocks
            .iter()
            .map(|block| match block {
                OutputBlock::Text(text) | OutputBlock::Reasoning(text) => text.len(),
                OutputBlock::Call(call) => call.id.len() + call.tool.len() + call.arguments.len(),
                OutputBlock::Opaque { json, .. } => json.len(),
            })
            .sum(),
        TranscriptItem::Result(result) => {
            let passages: usize = result.passages.iter().map(|passage| passage.text.len() + 64).sum();
            result.text.len() + passages
        }
    }
}

/// Returns the entries that fit: all of them; otherwise without the oldest tool results, then without the
/// oldest exchanges. The current question and everything from its last step on always stay.
fn fitting_entries(entries: &[EntryNote], context_tokens: u64) -> Vec<u32> {
    let mut kept: Vec<&EntryNote> = entries.iter().collect();
    let mut total: u64 = kept.iter().map(|entry| entry.tokens).sum();
    let last_step =
        entries.iter().rposition(|entry| entry.kind == TranscriptEntryKind::Step && entry.present);
    let recent = |entry: &EntryNote| {
        let tail = last_step.is_some_and(|at| entry.id >= entries[at].id);
        tail || (entry.present && entry.kind == TranscriptEntryKind::Question)
    };
    for round in [TranscriptEntryKind::Result, TranscriptEntryKind::Step, TranscriptEntryKind::Question] {
        kept.retain(|entry| {
            let goes = total > context_tokens
                && !recent(entry)
                && (entry.kind == round || (round != TranscriptEntryKind::Result && !entry.present));
            if goes {
                total -= entry.tokens;
            }
            !goes
        });
    }
    kept.iter().map(|entry| entry.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry_note(id: u32, kind: TranscriptEntryKind, tokens: u64, present: bool) -> EntryNote {
        EntryNote { id, kind, tokens, present }
    }

    #[test]
    fn fitting_drops_old_results_first() {
        let entries = [
            entry_note(0, TranscriptEntryKind::Question, 50, false),
            entry_note(1, TranscriptEntryKind::Step, 50, false),
            entry_note(2, TranscriptEntryKind::Question, 50, true),
            entry_note(3, TranscriptEntryKind::Step, 50, true),
            entry_note(4, TranscriptEntryKind::Result, 500, true),
            entry_note(5, TranscriptEntryKind::Step, 50, true),
            entry_note(6, TranscriptEntryKind::Result, 300, true),
        ];
        assert_eq!(fitting_entries(&entries, 2000), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(fitting_entries(&entries, 600), [0, 1, 2, 3, 5, 6]);
        assert_eq!(fitting_entries(&entries, 0), [2, 5, 6]);
    }
}
