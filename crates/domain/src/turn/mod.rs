//! A turn: the work on one answer, from its question to its end.
//!
//! The **host** drives it. One pure state machine ([`host::Turn`]) owns the transcript, the step log, the bill and the
//! answer's changes, and decides everything: what the model is shown, when it is called, in which order calls run, what
//! their results mean and when the answer is complete. The **machine** executes tools: [`executor::Executor`] runs each
//! call that it is given at most once and keeps the result until it is acknowledged. Neither does I/O: each takes an
//! event and returns effects, and a thin shell around it carries them out. `tests/simulation` drives both through kills,
//! delays, duplicates and stale leases.
//!
//! ```text
//!  machine                              host                       store            model
//!    |                                   |-- reserve max cost ------>|                |
//!    |                                   |-- call the model -------------------------->|
//!    |                                   |<------------- deltas, folded into the answer
//!    |                                   |-- commit step n, settle ->|                |
//!    |  <---- Run{call} -----------------|                           |                |
//!    |  ----- Returned{call} ----------> |-- commit result --------->|                |
//!    |  <---- Ack{call} -----------------|                           |                |
//!    |                                   |-- reserve for step n+1, or complete ------>|
//! ```
//!
//! It is safe to cut this anywhere:
//! - every write of the host carries the lease's epoch and is refused when a newer one exists;
//! - a committed step is the record of intent: its calls run only on the machine instance that it names, and that
//!   instance runs each call at most once and keeps the result until it is acknowledged;
//! - the effectful calls of a step run one after another in the model's order, on the host or in the machine: the next
//!   one starts once the result of the one before it is committed;
//! - an effectful call whose instance is gone without a result never runs again; the model reads that it was interrupted.

pub mod backoff;
pub mod executor;
pub mod host;

use crate::id::MessageId;
use crate::step::{Call, StepOutcome};

/// A frame from the host to the executor in the machine.
#[derive(Debug, Clone, PartialEq)]
pub enum HostFrame {
    /// Opens the session of an answer. The first frame of a session; older sessions of the answer are void.
    Open(Open),
    /// Runs the call, unless it runs or has run: then its result is sent again once there is one.
    Run(Call),
    /// The result is committed: the executor need not keep it.
    Ack {
        /// The call.
        call: String,
    },
    /// Nobody waits for the call any more: it is killed if it runs.
    Cancel {
        /// The call.
        call: String,
    },
}

/// A frame from the executor to the host, which treats it as untrusted.
#[derive(Debug, Clone, PartialEq)]
pub enum ExecutorFrame {
    /// A call returned.
    Returned {
        /// The call.
        call: String,
        /// Its output.
        output: Output,
    },
}

/// Orders the sessions of an answer: frames of an older one are void.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct SessionStamp {
    /// The lease's epoch.
    pub epoch: u64,
    /// Counts the sessions of the epoch, from 1.
    pub session: u32,
}

/// The first frame of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Open {
    /// The answer.
    pub answer: MessageId,
    /// The session's place among all sessions of the answer.
    pub stamp: SessionStamp,
    /// The machine's calls that have no committed result. The executor drops every other call of the answer that it
    /// still knows, and kills it if it runs.
    pub outstanding: Vec<String>,
    /// Workspace paths that were attached to this question and to those before it: searched even where they are hidden.
    pub attached: Vec<String>,
}

/// The output of a tool, before the host numbers its passages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// How it ended.
    pub outcome: StepOutcome,
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

/// Estimates the tokens of a text from its bytes: deterministic, and rather too many than too few.
#[must_use]
pub fn estimated_tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(3) + 4
}
