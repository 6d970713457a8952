//! A pause: an answer waits for replies from outside of the service, and nothing else of it is left to do.
//!
//! ```text
//!                pause                 reply to the last call           claim
//!   leased ----------------> paused -------------------------> waiting ------> leased
//!                               |  deadline, or a stop was requested
//!                               +------------------------------------> ended
//! ```
//!
//! A paused answer has no lease and holds neither credits nor a machine. The step in the log says which of its calls
//! await a reply; the replies are stored beside the log until the next lease writes their results into it.

use crate::id::InstanceId;
use crate::step::{ReplyKind, StepCall};
use crate::time::Timestamp;

/// A call for which a paused answer waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCall {
    pub call: StepCall,
    pub kind: ReplyKind,
    /// The time at which the answer ends if the call has no reply.
    pub deadline: Timestamp,
}

/// A reply from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallReply {
    /// The output of a function, or the user's answer.
    Output {
        text: String,
        /// Set if the function failed.
        failed: bool,
    },
    Approved,
    Refused {
        /// The user's reason; may be empty.
        reason: String,
    },
}

impl CallReply {
    /// Returns `true` if a call of this kind can have this reply.
    #[must_use]
    pub fn fits(&self, kind: ReplyKind) -> bool {
        match (self, kind) {
            (Self::Output { .. }, ReplyKind::Function)
            | (Self::Output { failed: false, .. }, ReplyKind::Question)
            | (Self::Approved | Self::Refused { .. }, ReplyKind::Approval) => true,
            (Self::Output { .. }, ReplyKind::Question | ReplyKind::Approval)
            | (Self::Approved | Self::Refused { .. }, ReplyKind::Function | ReplyKind::Question) => false,
        }
    }
}

/// A reply with its call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenReply {
    /// The identifier of the call.
    pub call: String,
    pub reply: CallReply,
}

/// The last pause of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastPause {
    /// The step whose calls awaited replies.
    pub step: u32,
    /// The machine instance that may run the remaining calls of the step. `None` until one is named: none of them has
    /// begun.
    pub instance: Option<InstanceId>,
}

/// The stored state of an answer's pauses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PauseState {
    pub last: Option<LastPause>,
    /// The replies to all calls of the answer so far.
    pub replies: Vec<GivenReply>,
    /// The deadline has passed without a reply to each call.
    pub expired: bool,
}
