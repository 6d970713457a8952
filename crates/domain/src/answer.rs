//! The answer: its parts, and the fold of changes that produces it (sections 2.8 and 2.10 of the interface).
//!
//! An answer is a pure function of its step log and of the step in progress. The owner of a live answer folds
//! [`Change`]s in order; [`Answer::rebuild`] derives the same answer from the log. Part ids are derived from positions
//! in the log, so both agree.

mod error;
mod files;
mod notes;
mod passages;
mod sources;
mod unread_files;

use std::sync::Arc;

pub use error::{AnswerError, ErrorCode};
use notes::Notes;
use passages::Passages;
use sha2::{Digest, Sha256};
use sources::Cited;
use unread_files::UnreadFiles;

use crate::citation::{self, Place};
use crate::id::{MessageId, PartId};
use crate::limits::FILE_PARTS_MAX;
use crate::step::{Block, Call, CallResult, Purpose, Step, StepOutcome, WORKSPACE_INSTRUCTIONS};
use crate::step_note::StepNote;
use crate::unread::unread_files_note;

/// An entry of the step log, which is the truth about an answer. Entries are never changed.
#[derive(Debug, Clone, PartialEq)]
pub enum LogEntry {
    /// A finished model step, or the partial one with which the answer ended.
    Step {
        /// The step's number in the answer, from 0.
        number: u32,
        /// The model's text and tool calls.
        step: Arc<Step>,
        /// The machine instance that may run the step's effectful calls.
        instance: crate::id::InstanceId,
    },
    /// The model's summary of earlier context that became too long. It is not part of the answer.
    Summary {
        /// The number of the step before which it was made; one step has one at most.
        number: u32,
        /// The number of entries before it that are still shown unchanged, besides the current question. Questions,
        /// steps and results count; summaries do not.
        kept: u32,
        /// The model's text and usage.
        step: Arc<Step>,
    },
    /// The result of a call of the last step.
    Result {
        /// The number of the step that called.
        number: u32,
        /// The result.
        result: Arc<CallResult>,
    },
}

/// The outcome of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The model was done.
    Done,
    /// The user stopped it; its text so far remains.
    Stopped,
    /// It failed.
    Failed(AnswerError),
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Its identifier, which does not change when the answer is rebuilt.
    pub id: PartId,
    /// The step that it belongs to; `None` for parts before and after all steps.
    pub step: Option<u32>,
    pub body: Body,
}

/// The content of a part.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// A piece of the answer: Markdown with marks like `[1]`.
    Text(String),
    /// Reasoning: Markdown.
    Reasoning(String),
    /// A call: of a tool, a skill, a subagent or a web search.
    Run(Run),
    /// A workspace file that was added to the answer: attached by the user, read as instructions, or written by the agent.
    File {
        /// The workspace path.
        path: String,
    },
}

/// A call as shown in an answer: a tool, a skill, a subagent or a web search.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The call's identifier.
    pub call: String,
    /// The tool's name.
    pub tool: String,
    /// The purpose of the call.
    pub purpose: Purpose,
    pub state: RunState,
    /// The places of the passages that it found, without duplicates.
    pub sources: Vec<Place>,
    /// The output of a subagent: Markdown, whose marks are valid once the call has returned. Empty for other
    /// calls.
    pub report: String,
}

/// The state of a part that runs something (section 3.3): PENDING until it settles, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// It has not returned yet.
    Pending,
    /// It succeeded.
    Complete,
    /// It failed, or was interrupted or stopped.
    Error,
}

/// A source that the answer may cite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The number in the marks.
    pub number: u32,
    /// The place of the passage.
    pub place: Place,
}

/// One change of an answer being written.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The model begins a step, for the first time or again: text of an earlier attempt is removed.
    StepBegan {
        /// The step's number.
        number: u32,
    },
    /// Text was appended to a block of the current step.
    TextGrew {
        /// The block's index in the step.
        block: u32,
        text: String,
    },
    /// Reasoning was appended to a block of the current step.
    ReasoningGrew {
        /// The block's index in the step.
        block: u32,
        text: String,
    },
    /// The vendor reported a source of the current step's text.
    Cited {
        /// The text block's index in the step.
        block: u32,
        /// The offset of the mark in the unmarked text of the block, in bytes.
        at: usize,
        /// The source's number.
        number: u32,
        /// The source.
        place: Place,
    },
    /// The reader should know this about the current step.
    Noted(StepNote),
    /// The step calls a tool.
    Called {
        /// The block's index in the step.
        block: u32,
        /// The call.
        call: Call,
    },
    /// A subagent's text was extended.
    Reported {
        /// The call.
        call: String,
        /// The number of bytes of the earlier text that remain.
        keep: usize,
        text: String,
    },
    /// A call returned.
    Resulted {
        /// The result.
        result: Arc<CallResult>,
    },
    /// The answer is complete.
    Ended(Ending),
}

/// The order of changes: the attempt's epoch, then a counter within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Stamp {
    /// The epoch of the lease under which the change was made.
    pub epoch: u64,
    /// Counts the changes of the epoch, from 1.
    pub revision: u64,
}

/// An answer at one revision.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Its identifier.
    pub id: MessageId,
    /// The last change that was folded in.
    pub stamp: Stamp,
    /// Its parts, in order of creation.
    pub parts: Vec<Part>,
    /// The sources that marks in it may cite, by number.
    pub sources: Vec<Source>,
    /// The outcome; `None` while it is in progress.
    pub ending: Option<Ending>,
    step: Option<u32>,
    grown: DraftChange,
    cited: Cited,
    notes: Notes,
    unread: UnreadFiles,
    passages: Passages,
}

/// The position of the block that grew last: the step, the block, the index among the parts. Derived data:
/// any two are equal.
#[derive(Debug, Clone, Copy, Default)]
struct DraftChange(Option<(u32, u32, usize)>);

impl PartialEq for DraftChange {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Answer {
    /// Creates the answer before its first step, with the attached files as parts.
    #[must_use]
    pub fn new(id: MessageId, attachments: &[String]) -> Self {
        let mut answer = Self {
            id,
            stamp: Stamp::default(),
            parts: Vec::new(),
            sources: Vec::new(),
            ending: None,
            step: None,
            grown: DraftChange::default(),
            cited: Cited::default(),
            notes: Notes::default(),
            unread: UnreadFiles::default(),
            passages: Passages::default(),
        };
        for (index, path) in attachments.iter().enumerate() {
            let id = part_id(answer.id, "attachment", 0, index);
            answer.parts.push(Part { id, step: None, body: Body::File { path: path.clone() } });
        }
        answer
    }

    /// Rebuilds the answer from its step log.
    #[must_use]
    pub fn rebuild(id: MessageId, attachments: &[String], log: &[LogEntry], ending: Option<Ending>) -> Self {
        let mut answer = Self::new(id, attachments);
        for entry in log {
            match entry {
                LogEntry::Step { number, step, .. } => {
                    answer.apply(Change::StepBegan { number: *number });
                    for change in changes_of(step) {
                        answer.apply(change);
                    }
                }
                LogEntry::Result { result, .. } => answer.apply(Change::Resulted { result: result.clone() }),
                LogEntry::Summary { .. } => {}
            }
        }
        if let Some(ending) = ending {
            answer.apply(Change::Ended(ending));
        }
        answer
    }

    /// Folds one change in. Returns `false` and changes nothing if it is not newer than the last one or comes
    /// after the end.
    pub fn fold(&mut self, stamp: Stamp, change: Change) -> bool {
        if stamp <= self.stamp || self.ending.is_some() {
            return false;
        }
        self.stamp = stamp;
        self.apply(change);
        true
    }

    /// Returns true if the change removes text.
    #[must_use]
    pub fn is_cut_by(&self, change: &Change) -> bool {
        match change {
            Change::StepBegan { .. } => true,
            Change::Reported { call, keep, .. } => self.parts.iter().any(|part| match &part.body {
                Body::Run(run) => run.call == *call && run.report.len() > *keep,
                Body::Text(_) | Body::Reasoning(_) | Body::File { .. } => false,
            }),
            Change::TextGrew { .. }
            | Change::ReasoningGrew { .. }
            | Change::Cited { .. }
            | Change::Noted(_)
            | Change::Called { .. }
            | Change::Resulted { .. }
            | Change::Ended(_) => false,
        }
    }

    /// Returns the part in which the change sets a mark.
    #[must_use]
    pub fn marked_by(&self, change: &Change) -> Option<PartId> {
        match change {
            Change::Cited { block, .. } => {
                Some(part_id(self.id, "block", self.step.unwrap_or(0), *block as usize))
            }
            Change::StepBegan { .. }
            | Change::TextGrew { .. }
            | Change::ReasoningGrew { .. }
            | Change::Noted(_)
            | Change::Called { .. }
            | Change::Reported { .. }
            | Change::Resulted { .. }
            | Change::Ended(_) => None,
        }
    }

    /// Returns the finished text so far: Markdown without marks. Empty at the start.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        for part in &self.parts {
            if let Body::Text(markdown) = &part.body {
                let piece = citation::strip(markdown, |number| self.source_of(part, number).is_some());
                let piece = piece.trim_matches('\n');
                if !out.is_empty() && !piece.is_empty() {
                    out.push_str("\n\n");
                }
                out.push_str(piece);
            }
        }
        out
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::StepBegan { number } => {
                self.parts.retain(|part| part.step.is_none_or(|step| step < number));
                self.step = Some(number);
                self.grown = DraftChange::default();
                self.forget_cited(number);
                self.notes.forget(number);
            }
            Change::TextGrew { block, text } => match self.block(block, Body::Text(String::new())) {
                Body::Text(markdown) => markdown.push_str(&text),
                Body::Reasoning(_) | Body::Run(_) | Body::File { .. } => {}
            },
            Change::ReasoningGrew { block, text } => {
                match self.block(block, Body::Reasoning(String::new())) {
                    Body::Reasoning(markdown) => markdown.push_str(&text),
                    Body::Text(_) | Body::Run(_) | Body::File { .. } => {}
                }
            }
            Change::Cited { block, at, number, place } => self.cite(block, at, number, place),
            Change::Noted(note) => self.notes.add(self.step.unwrap_or(0), note),
            Change::Called { block, call } => {
                let Call { id: call, tool, purpose, .. } = call;
                let (state, sources, report) = (RunState::Pending, Vec::new(), String::new());
                self.block(block, Body::Run(Run { call, tool, purpose, state, sources, report }));
            }
            Change::Reported { call, keep, text } => {
                if let Some((.., run)) = self.pending(&call)
                    && matches!(run.purpose, Purpose::Agent(_))
                {
                    run.report.truncate(run.report.floor_char_boundary(keep));
                    run.report.push_str(&text);
                }
            }
            Change::Resulted { result } => self.settle(&result),
            Change::Ended(ending) => self.end(ending),
        }
    }

    /// Returns the body of a block of the current step, creating it as `fresh` if it is new.
    fn block(&mut self, block: u32, fresh: Body) -> &mut Body {
        let step = self.step.unwrap_or(0);
        let at = match self.grown.0 {
            Some((of, grown, at)) if (of, grown) == (step, block) => at,
            _ => {
                let id = part_id(self.id, "block", step, block as usize);
                self.parts.iter().rposition(|part| part.id == id).unwrap_or_else(|| {
                    self.parts.push(Part { id, step: Some(step), body: fresh });
                    self.parts.len() - 1
                })
            }
        };
        self.grown = DraftChange(Some((step, block, at)));
        &mut self.parts[at].body
    }

    fn settle(&mut self, result: &CallResult) {
        if self.step.is_none() && result.call == WORKSPACE_INSTRUCTIONS {
            self.name_instructions();
        }
        let mut unread = std::mem::take(&mut self.unread);
        unread.note(result, |path| self.attached().any(|attached| is_within(path, attached)));
        self.unread = unread;
        for passage in &result.passages {
            if self.source(passage.number).is_none() {
                self.sources.push(Source { number: passage.number, place: passage.place.clone() });
                self.cited.since.insert(passage.number, self.step.map_or(0, |step| step + 1));
            }
        }
        self.passages.add(&result.passages);
        let settled = match result.outcome {
            StepOutcome::Done => RunState::Complete,
            StepOutcome::Failed | StepOutcome::Interrupted => RunState::Error,
        };
        let Some((owner, step, run)) = self.pending(&result.call) else { return };
        run.state = settled;
        match &run.purpose {
            Purpose::Tool | Purpose::WebSearch { .. } => {
                for passage in &result.passages {
                    let place = whole_source(&passage.place);
                    if !run.sources.contains(&place) {
                        run.sources.push(place);
                    }
                }
            }
            Purpose::Agent(_) => run.report.clone_from(&result.text),
            Purpose::Skill(_) => {}
        }
        let files =
            |parts: &[Part]| parts.iter().filter(|part| matches!(part.body, Body::File { .. })).count();
        let mut room = FILE_PARTS_MAX.saturating_sub(files(&self.parts));
        for (index, path) in result.written.iter().enumerate() {
            let is_this = |part: &Part| matches!(&part.body, Body::File { path: known } if known == path);
            if room == 0 || self.parts.iter().any(is_this) {
                continue;
            }
            room -= 1;
            let id = derived(&owner.bits().to_be_bytes(), "written", 0, index);
            self.parts.push(Part { id, step, body: Body::File { path: path.clone() } });
        }
    }

    /// Returns the part of a call that has not returned yet.
    fn pending(&mut self, call: &str) -> Option<(PartId, Option<u32>, &mut Run)> {
        self.parts.iter_mut().find_map(|part| match &mut part.body {
            Body::Run(run) if run.call == call && run.state == RunState::Pending => {
                Some((part.id, part.step, run))
            }
            Body::Run(_) | Body::Text(_) | Body::Reasoning(_) | Body::File { .. } => None,
        })
    }

    fn end(&mut self, ending: Ending) {
        for part in &mut self.parts {
            if let Body::Run(run) = &mut part.body
                && run.state == RunState::Pending
            {
                run.state = RunState::Error;
            }
        }
        if let Some(note) = unread_files_note(&self.unread.files()) {
            let id = part_id(self.id, "unread", 0, 0);
            self.parts.push(Part { id, step: None, body: Body::Text(note) });
        }
        if let Some(note) = self.notes.paragraph() {
            let id = part_id(self.id, "notes", 0, 0);
            self.parts.push(Part { id, step: None, body: Body::Text(note) });
        }
        if let Ending::Failed(error) = &ending {
            let id = part_id(self.id, "ending", 0, 0);
            self.parts.push(Part { id, step: None, body: Body::Text(error.message.clone()) });
        }
        self.ending = Some(ending);
    }
}

/// Returns the changes that a complete step makes.
fn changes_of(step: &Step) -> impl Iterator<Item = Change> + '_ {
    let blocks = step.blocks.iter().zip(0_u32..).filter_map(|(block, index)| match block {
        Block::Text(text) => Some(Change::TextGrew { block: index, text: text.clone() }),
        Block::Reasoning(text) => Some(Change::ReasoningGrew { block: index, text: text.clone() }),
        Block::Call(call) => Some(Change::Called { block: index, call: call.clone() }),
        Block::Opaque { .. } => None,
    });
    let cited = step.cited.iter().map(|cited| Change::Cited {
        block: cited.block,
        at: cited.at,
        number: cited.number,
        place: cited.place.clone(),
    });
    blocks.chain(cited).chain(step.notes.iter().cloned().map(Change::Noted))
}

/// Returns true if a path equals the folder, or lies below it.
fn is_within(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the file or page itself, without the position in it.
fn whole_source(place: &Place) -> Place {
    match place {
        Place::File { path, .. } => {
            Place::File { path: path.clone(), page: None, lines: None, page_name: None }
        }
        Place::Web { .. } => place.clone(),
    }
}

/// Returns the id of a subagent's answer, derived from the call that started it.
#[must_use]
pub fn delegate_id(answer: MessageId, call: &str) -> MessageId {
    let mut owner = answer.bits().to_be_bytes().to_vec();
    owner.extend_from_slice(call.as_bytes());
    MessageId::from_random(derived(&owner, "delegate", 0, 0).bits())
}

fn part_id(answer: MessageId, kind: &str, step: u32, index: usize) -> PartId {
    derived(&answer.bits().to_be_bytes(), kind, step, index)
}

fn derived(owner: &[u8], kind: &str, step: u32, index: usize) -> PartId {
    let mut hash = Sha256::new();
    hash.update(owner);
    hash.update(kind.as_bytes());
    hash.update(step.to_be_bytes());
    hash.update((index as u64).to_be_bytes());
    let digest: [u8; 32] = hash.finalize().into();
    let bits = digest.iter().take(16).fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
    PartId::from_random(bits)
}

#[cfg(test)]
mod tests;
