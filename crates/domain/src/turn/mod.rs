//! A turn: the work on one answer, from its question to its end.
//!
//! Two pure state machines talk over one link. The **host** ([`host::Turn`]) owns the transcript, the step
//! log, the bill and the answer's changes; the **agent** ([`agent::Loop`]) decides what the model is shown
//! and runs the calls. Neither does I/O: each takes an event and returns effects, and a thin shell around
//! it carries them out. `tests/simulation` drives both through kills, delays, duplicates and stale leases.
//!
//! ```text
//!  agent                                host                       store            model
//!    |  <---- Open{log, pending} --------|                           |                |
//!    |  ----- Want{step n, keep} ------> |-- reserve greatest cost ->|                |
//!    |                                   |-- say ------------------------------------>|
//!    |                                   |<------------- deltas, folded into the answer
//!    |                                   |-- commit step n, settle ->|                |
//!    |  <---- Step{n, calls} ------------|                           |                |
//!    |  ----- Returned{call} ----------> |-- commit result --------->|                |
//!    |  <---- Acknowledged{call} --------|                           |                |
//!    |  ----- Want{n+1} / Done{n} -----> |-- complete -------------->|                |
//! ```
//!
//! What makes it safe to cut this anywhere:
//! - every write of the host carries the lease's epoch and is refused when a newer one exists;
//! - a committed step is the record of intent: its calls are given to the one agent instance that it names,
//!   and that instance runs each call at most once and keeps the result until it is acknowledged;
//! - the effectful calls of a step run one after another in the model's order, whoever runs them: the host gives out
//!   and runs none before the result of the other side's call ahead of it is committed;
//! - an effectful call whose instance is gone without a result is never run again, only reported.

pub mod agent;
pub mod backoff;
pub mod host;

use crate::id::MessageId;
use crate::step::{Call, Outcome};

/// More tokens than there are: an agent that may show so many wants everything shown. Any program reads it exactly.
pub const ALL_TOKENS: u64 = 1 << 52;

/// What the host tells the agent.
#[derive(Debug, Clone, PartialEq)]
pub enum HostFrame {
    /// The turn as it stands. The first frame of a link; anything of the answer with an older epoch is void.
    Open(Open),
    /// A step was committed; its calls are to be run.
    Step {
        /// The step's number.
        number: u32,
        /// What the log gained: the step's own entry.
        entry: EntryNote,
        /// The calls, in order.
        calls: Vec<CallNote>,
    },
    /// The result is committed: the agent need not keep it.
    Acknowledged {
        /// The call.
        call: String,
        /// What the log gained: the result's entry.
        entry: EntryNote,
    },
    /// The answer ends: calls under way are killed, nothing more is expected.
    Close,
}

/// The order of the links of an answer: whatever comes over an older one is void.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct LinkStamp {
    /// The lease's epoch.
    pub epoch: u64,
    /// Counts the links of the epoch, from 1.
    pub link: u32,
}

/// The state of a turn, as a link begins with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Open {
    /// The answer.
    pub answer: MessageId,
    /// Which link this is, across all that there were for the answer.
    pub link: LinkStamp,
    /// Every entry of the transcript, oldest first.
    pub entries: Vec<EntryNote>,
    /// The calls of the last step that have no result yet.
    pub pending: Vec<CallNote>,
    /// The number of the next step to be said; when `saying`, the one being said.
    pub next: u32,
    /// Whether the host is at work on that step already.
    pub saying: bool,
    /// How many tokens of transcript a step may show the model.
    pub context_tokens: u64,
    /// Workspace paths that were attached to this question and to those before it: searched even where they are hidden.
    pub attached: Vec<String>,
}

/// What the agent knows of an entry of the transcript: never its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryNote {
    /// Its place in the transcript, from 0.
    pub id: u32,
    /// What it is.
    pub kind: EntryKind,
    /// How long it is, in tokens, as the host estimates.
    pub tokens: u64,
    /// Whether it belongs to the present exchange.
    pub present: bool,
}

/// The kind of an entry of the transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// What the user said.
    Question,
    /// What the model said.
    Step,
    /// What a tool returned.
    Result,
}

/// A call as it is given to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallNote {
    /// The call.
    pub call: Call,
    /// Whether it may run beside others and again.
    pub repeatable: bool,
    /// Whether the agent only waits until its result is acknowledged: the host runs it, or gives it later, over a
    /// new link, because an effectful call of the host's is ahead of it.
    pub hosted: bool,
}

/// What the agent tells the host, which takes it for hostile.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentFrame {
    /// Asks for a model step.
    Want {
        /// The step's number: the host ignores any but the next.
        number: u32,
        /// Entries that the model is shown, by identifier, ascending.
        keep: Vec<u32>,
    },
    /// A call came back.
    Returned {
        /// The call.
        call: String,
        /// What came of it.
        output: Output,
    },
    /// Nothing is left to do after this step.
    Done {
        /// The number of the last step.
        number: u32,
    },
}

/// What a tool gave back, before the host numbers its passages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// How it ended.
    pub outcome: Outcome,
    /// Plain text for the model.
    pub text: String,
    /// Passages, in order.
    pub passages: Vec<crate::citation::Passage>,
    /// Workspace paths that it wrote.
    pub written: Vec<String>,
    /// Images that it brought.
    pub images: Vec<crate::image::ImageRef>,
    /// Files that it could not read, or not to their end, as far as they concern the question.
    pub unread: Vec<crate::unread::UnreadFile>,
}

/// How many tokens a text has, estimated from its bytes: deterministic, and rather too many than too few.
#[must_use]
pub fn estimated_tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(3) + 4
}
