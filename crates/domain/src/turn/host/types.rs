//! The inputs of a turn, its events and its effects.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Exchange;
use crate::answer::{Answer, Change, Ending, ErrorCode, LogEntry, Stamp};
use crate::credits::{AnswerCost, Credits, Price, Shortage};
use crate::id::{InstanceId, MessageId};
use crate::step::{Call, CallResult, Item, StepError, StepEvent};
use crate::turn::{ExecutorFrame, HostFrame, Output};

/// The input of a turn: what the store holds of the answer, and the limits of its model.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The answer.
    pub answer: MessageId,
    /// The lease's epoch.
    pub epoch: u64,
    /// The conversation's earlier exchanges.
    pub earlier: Vec<Exchange>,
    /// The present one, with the step log so far.
    pub present: Exchange,
    /// What was used and settled so far.
    pub bill: AnswerCost,
    /// The model's price.
    pub price: Price,
    /// The tokens that every request has besides the transcript: instructions and tools.
    pub overhead_tokens: u64,
    /// The most tokens of transcript that a step may show.
    pub context_tokens: u64,
    /// The instruction for a step that summarises the transcript; the question follows it.
    pub summary_instruction: Arc<str>,
    /// The most tokens that a step may put out.
    pub output_max_tokens: u32,
    /// The most steps that it may take.
    pub steps_max: u32,
    /// Where each tool runs, and which may run again.
    pub router: Arc<dyn ToolRouter>,
    /// The call that reads the attached files before the first step, if there are any.
    pub attached: Option<Call>,
    /// Workspace paths that were attached to this question and to those before it, the newest first.
    pub files: Vec<String>,
    /// Whether the model is shown images.
    pub sees_images: bool,
    /// Whether the user has asked for a stop already.
    pub stop: bool,
}

/// Tells where a tool runs and whether it may run again. Its answers for a name must not change between two lives of the
/// service, unless the configured tools do.
pub trait ToolRouter: fmt::Debug + Send + Sync {
    /// Whether a tool of this name runs on the host; all others run in the machine.
    fn runs_on_host(&self, tool: &str) -> bool;

    /// Whether a tool of this name may run beside others, and again after a crash.
    fn is_repeatable(&self, tool: &str) -> bool;
}

/// An event of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// This instance of the machine is connected. An earlier connection is gone.
    Connected(InstanceId),
    /// The connection is gone.
    Disconnected,
    /// The machine could not be started, for good.
    MachineFailed(String),
    /// The executor sent a frame.
    Executor(ExecutorFrame),
    /// The executor sent something that is no frame.
    Violation,
    /// The maximum cost of the step is reserved, or is not.
    Reserved {
        /// The step.
        number: u32,
        /// The attempt that it is reserved for.
        attempt: u32,
        /// Whether it is reserved, and if not, why.
        outcome: Result<(), Shortage>,
    },
    /// The model put something out.
    ModelDelta {
        /// The step.
        number: u32,
        /// The attempt at it, from 0.
        attempt: u32,
        /// The piece of output.
        event: StepEvent,
    },
    /// The attempt failed.
    ModelFailed {
        /// The step.
        number: u32,
        /// The attempt at it.
        attempt: u32,
        /// Why.
        error: StepError,
        /// Any number, to spread waits.
        jitter: u64,
    },
    /// The pause before attempt `attempt` is over.
    BackoffElapsed {
        /// The step.
        number: u32,
        /// The attempt that may begin.
        attempt: u32,
    },
    /// A subagent that runs for a call wrote more.
    Reported {
        /// The call.
        call: String,
        /// How many bytes of its earlier text stand.
        keep: usize,
        /// The text behind them.
        text: String,
    },
    /// A call that the host ran returned.
    ToolReturned {
        /// The call.
        call: String,
        /// Its output.
        output: Output,
    },
    /// The step is in the log.
    StepCommitted {
        /// The step.
        number: u32,
        /// Whether it is the summary before that step.
        summary: bool,
    },
    /// The result is in the log.
    ResultCommitted {
        /// The call.
        call: String,
    },
    /// The answer is completed in the store.
    Completed,
    /// The user wants it stopped.
    StopRequested,
    /// Another holds the lease: nothing that this turn writes counts any more.
    Fenced,
}

/// An effect of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Send the frame to the executor.
    Send(HostFrame),
    /// Drop the connection and make a new one.
    Reconnect,
    /// Reserve the maximum cost of the step.
    Reserve {
        /// The step.
        number: u32,
        /// The attempt that it is reserved for.
        attempt: u32,
        /// Whether it is for the summary before that step.
        summary: bool,
        /// The most that it can cost.
        max_cost: Credits,
    },
    /// Call the model for the step.
    CallModel {
        /// The step.
        number: u32,
        /// The attempt at it.
        attempt: u32,
        /// The items that the model is shown.
        transcript: Vec<Item>,
        /// Whether tools are offered.
        tools: bool,
        /// The most tokens that it may put out.
        output_max_tokens: u32,
    },
    /// Stop the model at once.
    CancelModel,
    /// Come back after a while with `BackoffElapsed`.
    BackOff {
        /// The step.
        number: u32,
        /// The attempt that may begin then.
        attempt: u32,
        /// How long.
        wait: Duration,
    },
    /// Commit the step, settle its cost, release the rest of what was reserved.
    CommitStep {
        /// The new entry of the log.
        entry: LogEntry,
        /// The cost of the step.
        cost: Credits,
        /// The bill with it.
        bill: AnswerCost,
    },
    /// Run a call of a committed step on the host, and come back with `ToolReturned`.
    RunTool(Call),
    /// Commit the result.
    CommitResult {
        /// The step that called.
        number: u32,
        /// The result.
        result: Arc<CallResult>,
    },
    /// Publish a change of the answer to its readers.
    Publish(Stamp, Change),
    /// Complete the answer: the last entry, the cost, the parts and the end in one transaction.
    Complete(Box<Completion>),
    /// The turn is over: close everything.
    Finish,
}

/// The last transaction of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// The part of the last step that stood when it was cut.
    pub partial: Option<LogEntry>,
    /// The cost of the partial step.
    pub cost: Credits,
    /// The bill with it.
    pub bill: AnswerCost,
    /// How it ended.
    pub ending: Ending,
    /// The answer with its end.
    pub answer: Answer,
}

/// Returns how an answer ends when its next step can't be paid for.
pub(super) const fn of_shortage(shortage: Shortage) -> (ErrorCode, &'static str) {
    match shortage {
        Shortage::Balance => {
            (ErrorCode::InsufficientCredits, "The answer was ended: the account has no credits left.")
        }
        Shortage::SpendingLimit => {
            (ErrorCode::SpendingLimit, "The answer was ended: the key has reached its spending limit.")
        }
    }
}
