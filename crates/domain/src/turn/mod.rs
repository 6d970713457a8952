//! A turn: the work on one answer, from dispatch to completion.
//!
//! The **host** drives it. One pure state machine ([`host::Turn`]) owns the transcript, the step log, the
//! cost and the answer's changes, and makes all decisions: the context of the model, when it is called, the
//! order of calls, the meaning of their results, and when the answer is complete. The **machine** executes
//! tools: [`executor::Executor`] runs each call at most once and retains the result until it is acknowledged.
//! Neither does I/O: each handles an event and returns effects, which the surrounding code executes.
//! `tests/simulation` tests both with kills, delays, duplicates and stale leases.
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
//! A turn can be interrupted at any point:
//! - every write of the host carries the lease's epoch and is rejected if there is a newer one;
//! - a committed step records the intent: its calls run only on the machine instance that it names, and that
//!   instance runs each call at most once and retains the result until it is acknowledged;
//! - the effectful calls of a step run one after another in the model's order, on the host or in the machine: the next
//!   one starts once the result of the one before it is committed;
//! - an effectful call whose instance is lost without a result never runs again; the model reads that it was
//!   interrupted.

pub mod backoff;
pub mod executor;
pub mod host;

use crate::id::MessageId;
use crate::step::{StepCall, StepOutcome};

/// A frame from the host to the executor in the machine.
#[derive(Debug, Clone, PartialEq)]
pub enum HostFrame {
    /// Opens the session of an answer. The first frame of a session; older sessions of the answer become
    /// invalid.
    Open(SessionOpening),
    /// Runs the call. If it is running or has run, its result is sent again once available.
    Run(StepCall),
    /// The result is committed, so the executor may discard it.
    Ack { call: String },
    /// The call is not needed any more: it is killed if it runs.
    Cancel { call: String },
}

/// A frame from the executor to the host, which treats it as untrusted.
#[derive(Debug, Clone, PartialEq)]
pub enum ExecutorFrame {
    Returned { call: String, output: CallOutput },
}

/// Orders the sessions of an answer: frames of older ones are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct SessionStamp {
    pub epoch: u64,
    /// Counts the sessions of the epoch, from 1.
    pub session: u32,
}

/// The first frame of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionOpening {
    pub answer: MessageId,
    /// The session's position in the order of the answer's sessions.
    pub stamp: SessionStamp,
    /// The machine's calls without a committed result. The executor discards and kills every other call of
    /// the answer.
    pub outstanding: Vec<String>,
    /// Workspace paths of the attachments of this question and earlier ones. They are searched even if they
    /// are hidden.
    pub attached: Vec<String>,
}

/// The output of a tool, before the host numbers its passages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallOutput {
    pub outcome: StepOutcome,
    /// Plain text for the model.
    pub text: String,
    pub passages: Vec<crate::citation::Passage>,
    /// Workspace paths of files that it wrote.
    pub written: Vec<String>,
    /// The images of the result.
    pub images: Vec<crate::image::ImageRef>,
    /// Files of the question that it could not read completely.
    pub unread: Vec<crate::unread::UnreadFile>,
}

/// Estimates the tokens of a text from its bytes: deterministic, rather too high than too low.
#[must_use]
pub fn estimated_tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(3) + 4
}
