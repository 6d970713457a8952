//! The answer: its parts, and the fold of changes that produces it (sections 2.8 and 2.10 of the interface).
//!
//! An answer is a pure function of its step log and of the step in progress. The owner of a live answer folds
//! [`AnswerChange`]s in order; [`Answer::from_log`] derives the same answer from the log. Part ids are derived from
//! positions in the log, so both agree.

mod error;
mod files;
mod notes;
mod passages;
mod sources;
mod unread_files;

use std::sync::Arc;

pub use error::{AnswerFailure, ErrorCode};
use notes::StepNotes;
use passages::Passages;
use sha2::{Digest, Sha256};
use sources::AnswerCitations;
use unread_files::UnreadFiles;

use crate::citation::{self, PassagePlace};
use crate::id::{MessageId, PartId};
use crate::limits::FILE_PARTS_MAX;
use crate::pause::PendingCall;
use crate::step::{CallResult, OutputBlock, Purpose, Step, StepCall, StepOutcome, WORKSPACE_INSTRUCTIONS};
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
        result: Arc<CallResult>,
    },
}

/// The outcome of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerEnding {
    /// The model was done.
    Done,
    /// The user stopped it; its text so far remains.
    Stopped,
    Failed(AnswerFailure),
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ContentPart {
    /// Its identifier, which does not change when the answer is rebuilt.
    pub id: PartId,
    /// The step that it belongs to; `None` for parts before and after all steps.
    pub step: Option<u32>,
    pub body: PartContent,
}

/// The content of a part.
#[derive(Debug, Clone, PartialEq)]
pub enum PartContent {
    /// A piece of the answer: Markdown with marks like `[1]`.
    Text(String),
    Reasoning(String),
    /// A call: of a tool, a skill, a subagent or a web search.
    Run(CallRun),
    /// A workspace file that was added to the answer: attached by the user, read as instructions, or written by the agent.
    File {
        path: String,
    },
}

/// The longest arguments of a call that an answer has, in bytes. The step log has all.
pub const SHOWN_ARGUMENTS_MAX_BYTES: usize = 4 << 10;

/// A call as shown in an answer: a tool, a skill, a subagent or a web search.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRun {
    pub call: String,
    pub tool: String,
    /// Its arguments as JSON; empty if they are longer than [`SHOWN_ARGUMENTS_MAX_BYTES`].
    pub arguments: String,
    /// The purpose of the call.
    pub purpose: Purpose,
    pub state: RunState,
    /// The places of the passages that it found, without duplicates.
    pub sources: Vec<PassagePlace>,
    /// The output of a subagent: Markdown, whose marks are valid once the call has returned. Empty for other
    /// calls.
    pub report: String,
}

/// The state of a part that runs something (section 3.3): PENDING until it settles, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// It has not returned yet.
    Pending,
    Complete,
    /// It failed, or was interrupted or stopped.
    Error,
}

/// A source that the answer may cite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerSource {
    /// The number in the marks.
    pub number: u32,
    /// The place of the passage.
    pub place: PassagePlace,
}

/// One change of an answer being written.
#[derive(Debug, Clone, PartialEq)]
pub enum AnswerChange {
    /// The model begins a step, for the first time or again: text of an earlier attempt is removed.
    StepBegan {
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
        number: u32,
        place: PassagePlace,
    },
    /// The reader should know this about the current step.
    Noted(StepNote),
    /// The step calls a tool.
    Called {
        /// The block's index in the step.
        block: u32,
        call: StepCall,
    },
    /// A subagent's text was extended.
    Reported {
        call: String,
        /// The number of bytes of the earlier text that remain.
        keep: usize,
        text: String,
    },
    Resulted {
        result: Arc<CallResult>,
    },
    /// The answer pauses until these calls have replies.
    Paused {
        calls: Vec<PendingCall>,
    },
    /// A call that the answer waited for has a reply.
    Replied {
        call: String,
    },
    /// The answer is complete.
    Ended(AnswerEnding),
}

/// The order of changes: the attempt's epoch, then a counter within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct RevisionStamp {
    /// The epoch of the lease under which the change was made.
    pub epoch: u64,
    /// Counts the changes of the epoch, from 1.
    pub revision: u64,
}

/// An answer at one revision.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub id: MessageId,
    /// The last change that was applied.
    pub stamp: RevisionStamp,
    /// Its parts, in order of creation.
    pub parts: Vec<ContentPart>,
    /// The sources that marks in it may cite, by number.
    pub sources: Vec<AnswerSource>,
    /// The calls that it waits for, while it is paused. They are no part of the step log.
    pub pending: Vec<PendingCall>,
    /// The outcome; `None` while it is in progress.
    pub ending: Option<AnswerEnding>,
    step: Option<u32>,
    grown: GrowingBlock,
    cited: AnswerCitations,
    notes: StepNotes,
    unread: UnreadFiles,
    passages: Passages,
}

/// The position of the block that grew last: the step, the block, the index among the parts. Derived data:
/// any two are equal.
#[derive(Debug, Clone, Copy, Default)]
struct GrowingBlock(Option<(u32, u32, usize)>);

impl PartialEq for GrowingBlock {
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
            stamp: RevisionStamp::default(),
            parts: Vec::new(),
            sources: Vec::new(),
            pending: Vec::new(),
            ending: None,
            step: None,
            grown: GrowingBlock::default(),
            cited: AnswerCitations::default(),
            notes: StepNotes::default(),
            unread: UnreadFiles::default(),
            passages: Passages::default(),
        };
        for (index, path) in attachments.iter().enumerate() {
            let id = part_id(answer.id, "attachment", 0, index);
            answer.parts.push(ContentPart { id, step: None, body: PartContent::File { path: path.clone() } });
        }
        answer
    }

    /// Rebuilds the answer from its step log.
    #[must_use]
    pub fn from_log(
        id: MessageId,
        attachments: &[String],
        log: &[LogEntry],
        ending: Option<AnswerEnding>,
    ) -> Self {
        let mut answer = Self::new(id, attachments);
        for entry in log {
            match entry {
                LogEntry::Step { number, step, .. } => {
                    answer.apply_change(AnswerChange::StepBegan { number: *number });
                    for change in changes_of(step) {
                        answer.apply_change(change);
                    }
                }
                LogEntry::Result { result, .. } => {
                    answer.apply_change(AnswerChange::Resulted { result: result.clone() })
                }
                LogEntry::Summary { .. } => {}
            }
        }
        if let Some(ending) = ending {
            answer.apply_change(AnswerChange::Ended(ending));
        }
        answer
    }

    /// Applies one change. Returns `false` and changes nothing if it is not newer than the last one or comes after the
    /// end.
    pub fn fold_change(&mut self, stamp: RevisionStamp, change: AnswerChange) -> bool {
        if stamp <= self.stamp || self.ending.is_some() {
            return false;
        }
        self.stamp = stamp;
        self.apply_change(change);
        true
    }

    /// Returns true if the change removes text.
    #[must_use]
    pub fn is_cut_by(&self, change: &AnswerChange) -> bool {
        match change {
            AnswerChange::StepBegan { .. } => true,
            AnswerChange::Reported { call, keep, .. } => self.parts.iter().any(|part| match &part.body {
                PartContent::Run(run) => run.call == *call && run.report.len() > *keep,
                PartContent::Text(_) | PartContent::Reasoning(_) | PartContent::File { .. } => false,
            }),
            AnswerChange::TextGrew { .. }
            | AnswerChange::ReasoningGrew { .. }
            | AnswerChange::Cited { .. }
            | AnswerChange::Noted(_)
            | AnswerChange::Called { .. }
            | AnswerChange::Resulted { .. }
            | AnswerChange::Paused { .. }
            | AnswerChange::Replied { .. }
            | AnswerChange::Ended(_) => false,
        }
    }

    /// Returns the part in which the change sets a mark.
    #[must_use]
    pub fn marked_by(&self, change: &AnswerChange) -> Option<PartId> {
        match change {
            AnswerChange::Cited { block, .. } => {
                Some(part_id(self.id, "block", self.step.unwrap_or(0), *block as usize))
            }
            AnswerChange::StepBegan { .. }
            | AnswerChange::TextGrew { .. }
            | AnswerChange::ReasoningGrew { .. }
            | AnswerChange::Noted(_)
            | AnswerChange::Called { .. }
            | AnswerChange::Reported { .. }
            | AnswerChange::Resulted { .. }
            | AnswerChange::Paused { .. }
            | AnswerChange::Replied { .. }
            | AnswerChange::Ended(_) => None,
        }
    }

    /// Returns the finished text so far: Markdown without marks. Empty at the start.
    #[must_use]
    pub fn unmarked_text(&self) -> String {
        let mut out = String::new();
        for part in &self.parts {
            if let PartContent::Text(markdown) = &part.body {
                let piece = citation::strip_marks(markdown, |number| self.source_of(part, number).is_some());
                let piece = piece.trim_matches('\n');
                if !out.is_empty() && !piece.is_empty() {
                    out.push_str("\n\n");
                }
                out.push_str(piece);
            }
        }
        out
    }

    fn apply_change(&mut self, change: AnswerChange) {
        match change {
            AnswerChange::StepBegan { number } => {
                self.parts.retain(|part| part.step.is_none_or(|step| step < number));
                self.step = Some(number);
                self.grown = GrowingBlock::default();
                self.forget_cited(number);
                self.notes.remove_from_step(number);
            }
            AnswerChange::TextGrew { block, text } => {
                match self.block_content(block, PartContent::Text(String::new())) {
                    PartContent::Text(markdown) => markdown.push_str(&text),
                    PartContent::Reasoning(_) | PartContent::Run(_) | PartContent::File { .. } => {}
                }
            }
            AnswerChange::ReasoningGrew { block, text } => {
                match self.block_content(block, PartContent::Reasoning(String::new())) {
                    PartContent::Reasoning(markdown) => markdown.push_str(&text),
                    PartContent::Text(_) | PartContent::Run(_) | PartContent::File { .. } => {}
                }
            }
            AnswerChange::Cited { block, at, number, place } => {
                self.insert_citation(block, at, number, place)
            }
            AnswerChange::Noted(note) => self.notes.add_note(self.step.unwrap_or(0), note),
            AnswerChange::Called { block, call } => {
                let StepCall { id: call, tool, arguments, purpose } = call;
                let is_short = arguments.len() <= SHOWN_ARGUMENTS_MAX_BYTES;
                let arguments = if is_short { arguments } else { String::new() };
                let (state, sources, report) = (RunState::Pending, Vec::new(), String::new());
                let run = CallRun { call, tool, arguments, purpose, state, sources, report };
                self.block_content(block, PartContent::Run(run));
            }
            AnswerChange::Reported { call, keep, text } => {
                if let Some((.., run)) = self.pending_run(&call)
                    && matches!(run.purpose, Purpose::Agent(_))
                {
                    run.report.truncate(run.report.floor_char_boundary(keep));
                    run.report.push_str(&text);
                }
            }
            AnswerChange::Resulted { result } => self.apply_result(&result),
            AnswerChange::Paused { calls } => self.pending = calls,
            AnswerChange::Replied { call } => self.pending.retain(|pending| pending.call.id != call),
            AnswerChange::Ended(ending) => self.apply_ending(ending),
        }
    }

    /// Returns the body of a block of the current step, creating it as `fresh` if it is new.
    fn block_content(&mut self, block: u32, fresh: PartContent) -> &mut PartContent {
        let step = self.step.unwrap_or(0);
        let at = match self.grown.0 {
            Some((of, grown, at)) if (of, grown) == (step, block) => at,
            _ => {
                let id = part_id(self.id, "block", step, block as usize);
                self.parts.iter().rposition(|part| part.id == id).unwrap_or_else(|| {
                    self.parts.push(ContentPart { id, step: Some(step), body: fresh });
                    self.parts.len() - 1
                })
            }
        };
        self.grown = GrowingBlock(Some((step, block, at)));
        &mut self.parts[at].body
    }

    fn apply_result(&mut self, result: &CallResult) {
        if self.step.is_none() && result.call == WORKSPACE_INSTRUCTIONS {
            self.name_instructions();
        }
        let mut unread = std::mem::take(&mut self.unread);
        unread.record_unread(result, |path| self.attached_paths().any(|attached| is_within(path, attached)));
        self.unread = unread;
        for passage in &result.passages {
            if self.source_place(passage.number).is_none() {
                self.sources.push(AnswerSource { number: passage.number, place: passage.place.clone() });
                self.cited.since.insert(passage.number, self.step.map_or(0, |step| step + 1));
            }
        }
        self.passages.add_new(&result.passages);
        let settled = match result.outcome {
            StepOutcome::Done => RunState::Complete,
            StepOutcome::Failed | StepOutcome::Interrupted => RunState::Error,
        };
        let Some((owner, step, run)) = self.pending_run(&result.call) else { return };
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
        let files = |parts: &[ContentPart]| {
            parts.iter().filter(|part| matches!(part.body, PartContent::File { .. })).count()
        };
        let mut room = FILE_PARTS_MAX.saturating_sub(files(&self.parts));
        for (index, path) in result.written.iter().enumerate() {
            let is_this =
                |part: &ContentPart| matches!(&part.body, PartContent::File { path: known } if known == path);
            if room == 0 || self.parts.iter().any(is_this) {
                continue;
            }
            room -= 1;
            let id = derive_part_id(&owner.bits().to_be_bytes(), "written", 0, index);
            self.parts.push(ContentPart { id, step, body: PartContent::File { path: path.clone() } });
        }
    }

    /// Returns the part of a call that has not returned yet.
    fn pending_run(&mut self, call: &str) -> Option<(PartId, Option<u32>, &mut CallRun)> {
        self.parts.iter_mut().find_map(|part| match &mut part.body {
            PartContent::Run(run) if run.call == call && run.state == RunState::Pending => {
                Some((part.id, part.step, run))
            }
            PartContent::Run(_)
            | PartContent::Text(_)
            | PartContent::Reasoning(_)
            | PartContent::File { .. } => None,
        })
    }

    fn apply_ending(&mut self, ending: AnswerEnding) {
        self.pending.clear();
        for part in &mut self.parts {
            if let PartContent::Run(run) = &mut part.body
                && run.state == RunState::Pending
            {
                run.state = RunState::Error;
            }
        }
        if let Some(note) = unread_files_note(&self.unread.to_files()) {
            let id = part_id(self.id, "unread", 0, 0);
            self.parts.push(ContentPart { id, step: None, body: PartContent::Text(note) });
        }
        if let Some(note) = self.notes.to_paragraph() {
            let id = part_id(self.id, "notes", 0, 0);
            self.parts.push(ContentPart { id, step: None, body: PartContent::Text(note) });
        }
        if let AnswerEnding::Failed(error) = &ending {
            let id = part_id(self.id, "ending", 0, 0);
            self.parts.push(ContentPart { id, step: None, body: PartContent::Text(error.message.clone()) });
        }
        self.ending = Some(ending);
    }
}

/// Returns the changes that a complete step makes.
fn changes_of(step: &Step) -> impl Iterator<Item = AnswerChange> + '_ {
    let blocks = step.blocks.iter().zip(0_u32..).filter_map(|(block, index)| match block {
        OutputBlock::Text(text) => Some(AnswerChange::TextGrew { block: index, text: text.clone() }),
        OutputBlock::Reasoning(text) => {
            Some(AnswerChange::ReasoningGrew { block: index, text: text.clone() })
        }
        OutputBlock::Call(call) => Some(AnswerChange::Called { block: index, call: call.clone() }),
        OutputBlock::Opaque { .. } => None,
    });
    let cited = step.cited.iter().map(|cited| AnswerChange::Cited {
        block: cited.block,
        at: cited.at,
        number: cited.number,
        place: cited.place.clone(),
    });
    blocks.chain(cited).chain(step.notes.iter().cloned().map(AnswerChange::Noted))
}

/// Returns true if a path is the folder, or is below it.
fn is_within(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the file or page itself, without the position in it.
fn whole_source(place: &PassagePlace) -> PassagePlace {
    match place {
        PassagePlace::File { path, .. } => {
            PassagePlace::File { path: path.clone(), page: None, lines: None, page_name: None }
        }
        PassagePlace::Web { .. } => place.clone(),
    }
}

/// Returns the id of a subagent's answer, derived from the call that started it.
#[must_use]
pub fn delegate_id(answer: MessageId, call: &str) -> MessageId {
    let mut owner = answer.bits().to_be_bytes().to_vec();
    owner.extend_from_slice(call.as_bytes());
    MessageId::from_random(derive_part_id(&owner, "delegate", 0, 0).bits())
}

fn part_id(answer: MessageId, kind: &str, step: u32, index: usize) -> PartId {
    derive_part_id(&answer.bits().to_be_bytes(), kind, step, index)
}

fn derive_part_id(owner: &[u8], kind: &str, step: u32, index: usize) -> PartId {
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
