//! The inputs of a turn, its events and its effects.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::LoggedExchange;
use crate::answer::{Answer, AnswerChange, AnswerEnding, AnswerFailure, ErrorCode, LogEntry, RevisionStamp};
use crate::credits::{AnswerCost, Credits, Price, Shortage};
use crate::id::{InstanceId, MessageId};
use crate::pause::PauseState;
use crate::step::{
    AwaitedCall, CallResult, RefusedPart, ReplyKind, StepCall, StepError, StepEvent, TranscriptItem,
};
use crate::time::Timestamp;
use crate::turn::{CallOutput, ExecutorFrame, HostFrame};

/// The input of a turn: the stored state of the answer, and the limits of its model.
#[derive(Debug, Clone)]
pub struct Setup {
    pub answer: MessageId,
    pub epoch: u64,
    /// The conversation's earlier exchanges.
    pub earlier: Vec<LoggedExchange>,
    /// The current one, with the step log so far.
    pub present: LoggedExchange,
    /// The usage and the settled credits so far.
    pub bill: AnswerCost,
    pub price: Price,
    /// The tokens of every request besides the transcript: instructions and tools.
    pub overhead_tokens: u64,
    /// The maximum number of transcript tokens of a step.
    pub context_tokens: u64,
    /// The instruction for a step that summarizes the transcript; the question follows it.
    pub summary_instruction: Arc<str>,
    /// The maximum number of output tokens of a step.
    pub output_max_tokens: u32,
    /// The maximum number of steps of the answer.
    pub steps_max: u32,
    /// Decides where tools run and which of them are repeatable.
    pub router: Arc<dyn ToolRouter>,
    /// The call that reads the attached files before the first step, if there are any.
    pub attached: Option<StepCall>,
    /// The call that reads the workspace's instructions before the first step, if there are any.
    pub instructions: Option<StepCall>,
    /// Workspace paths of the attachments of this question and earlier ones, newest first.
    pub files: Vec<String>,
    /// The model accepts images.
    pub sees_images: bool,
    /// The user has already requested a stop.
    pub stop: bool,
    /// The answer's pauses so far.
    pub pause: PauseState,
}

/// Decides where a tool runs and whether it is repeatable. The decision for a name must be the same after a
/// restart of the service, unless the configured tools change.
pub trait ToolRouter: fmt::Debug + Send + Sync {
    /// Returns `true` if the tool runs on the host; all others run in the machine.
    fn runs_on_host(&self, tool: &str) -> bool;

    /// Returns `true` if the tool may run concurrently with others, and again after a crash.
    fn is_repeatable(&self, tool: &str) -> bool;

    /// Returns the kind of reply that the call awaits from outside before it has a result. Asked once, when its step is
    /// committed: the log keeps the decision.
    fn awaited_reply(&self, call: &StepCall) -> Option<ReplyKind> {
        let _ = call;
        None
    }
}

/// An event of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEvent {
    /// This instance of the machine is connected. An earlier connection is closed.
    Connected(InstanceId),
    /// The connection was lost.
    Disconnected,
    /// The machine failed permanently.
    MachineFailed(String),
    /// The executor sent a frame.
    Executor(ExecutorFrame),
    /// The executor sent an invalid frame.
    Violation,
    /// The reservation of the step's maximum cost succeeded or failed.
    Reserved {
        number: u32,
        /// The attempt that it is for.
        attempt: u32,
        /// The outcome of the reservation.
        outcome: Result<(), Shortage>,
    },
    /// The model produced output.
    ModelDelta {
        number: u32,
        /// The attempt at it, from 0.
        attempt: u32,
        /// The piece of output.
        event: StepEvent,
    },
    ModelFailed {
        number: u32,
        /// The attempt at it.
        attempt: u32,
        error: StepError,
        /// A random number that spreads the waits.
        jitter: u64,
    },
    /// The pause before `attempt` is over.
    BackoffElapsed {
        number: u32,
        /// The attempt that may start.
        attempt: u32,
    },
    /// A subagent's text was extended.
    Reported {
        call: String,
        /// The number of bytes of its earlier text that remain.
        keep: usize,
        /// The text after them.
        text: String,
    },
    /// A call that the host ran returned.
    ToolReturned { call: String, output: CallOutput },
    /// The step is in the log.
    StepCommitted {
        number: u32,
        /// It is the summary before that step.
        summary: bool,
    },
    /// The result is in the log.
    ResultCommitted { call: String },
    /// The pause is durable, and the lease is released.
    Paused {
        number: u32,
        /// The time until which the calls can have replies.
        deadline: Timestamp,
    },
    /// The instance that may run the remaining calls of a paused step is durable.
    InstanceNamed { number: u32, instance: InstanceId },
    /// The answer is completed in the store.
    Completed,
    /// The user requested a stop.
    StopRequested,
    /// Another process holds the lease: writes of this turn are rejected.
    Fenced,
}

/// An effect of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEffect {
    /// Send the frame to the executor.
    Send(HostFrame),
    /// Close the connection and open a new one.
    Reconnect,
    /// Reserve the maximum cost of the step.
    Reserve {
        number: u32,
        /// The attempt that it is for.
        attempt: u32,
        /// It is for the summary before that step.
        summary: bool,
        max_cost: Credits,
    },
    /// Call the model for the step.
    CallModel {
        number: u32,
        /// The attempt at it.
        attempt: u32,
        /// The items that are shown to the model.
        transcript: Vec<TranscriptItem>,
        tools: bool,
        /// The maximum number of output tokens.
        output_max_tokens: u32,
    },
    /// Cancel the model call at once.
    CancelModel,
    /// Send `BackoffElapsed` after a pause.
    BackOff {
        number: u32,
        /// The attempt that may start then.
        attempt: u32,
        /// The duration of the pause.
        wait: Duration,
    },
    /// Commit the step, settle its cost and release the rest of its reservation.
    CommitStep {
        /// The new entry of the log.
        entry: LogEntry,
        /// The cost of the step.
        cost: Credits,
        /// The answer's cost including it.
        bill: AnswerCost,
    },
    /// Run a call of a committed step on the host; answered by `ToolReturned`.
    RunTool(StepCall),
    CommitResult {
        /// The step of the call.
        number: u32,
        result: Arc<CallResult>,
    },
    /// Pause the answer until these calls have replies: store them and release the lease.
    Pause {
        /// The step of the calls.
        number: u32,
        calls: Vec<AwaitedCall>,
    },
    /// Store the instance that may run the remaining calls of a step that was paused.
    NameInstance { number: u32, instance: InstanceId },
    /// Publish a change of the answer to its readers.
    Publish(RevisionStamp, AnswerChange),
    /// Complete the answer: the last entry, the cost, the parts and the ending in one transaction.
    Complete(Box<TurnCompletion>),
    /// The turn is over: close all connections.
    Finish,
}

/// The last transaction of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnCompletion {
    /// The partial output of an interrupted step.
    pub partial: Option<LogEntry>,
    /// The cost of the partial step.
    pub cost: Credits,
    /// The answer's cost including it.
    pub bill: AnswerCost,
    pub ending: AnswerEnding,
    /// The answer with its ending.
    pub answer: Answer,
}

/// Returns the ending of an answer that only ends: its stop was requested, or a reply is overdue.
pub(super) fn ending_at_begin(setup: &Setup) -> Option<AnswerEnding> {
    let overdue = || {
        let message = "The answer was ended: it waited for a reply, and none came in time.".to_owned();
        AnswerEnding::Failed(AnswerFailure { code: ErrorCode::ReplyOverdue, message })
    };
    if setup.stop { Some(AnswerEnding::Stopped) } else { setup.pause.expired.then(overdue) }
}

/// Returns the error of an answer whose credits do not cover the next step.
pub(super) const fn of_shortage(shortage: Shortage) -> (ErrorCode, &'static str) {
    match shortage {
        Shortage::Balance => (
            ErrorCode::InsufficientCredits,
            "The answer was ended: the credits of the account do not cover the next step.",
        ),
        Shortage::SpendingLimit => {
            (ErrorCode::SpendingLimit, "The answer was ended: the key has reached its spending limit.")
        }
    }
}

/// Returns the error code of an answer whose step the server rejected, and the end of its message.
pub(super) const fn of_rejection(refused: RefusedPart) -> (ErrorCode, &'static str) {
    match refused {
        RefusedPart::Request => (ErrorCode::ModelRejected, "refused the request."),
        RefusedPart::Key => (
            ErrorCode::ModelKeyRefused,
            "does not accept the key of this service. The question is not the cause: only the operator of the service can \
             mend it.",
        ),
        RefusedPart::Payment => (
            ErrorCode::ModelUnpaid,
            "answers no more, because the account of this service has no credit left there. The question is not the cause: \
             only the operator of the service can mend it.",
        ),
    }
}

/// Returns `true` if an identifier is used in the answer, by a call or by the attachments' result.
pub(super) fn is_call_of(log: &[LogEntry], id: &str) -> bool {
    log.iter().any(|entry| match entry {
        LogEntry::Step { step, .. } => step.tool_calls().any(|call| call.id == id),
        LogEntry::Result { result, .. } => result.call == id,
        LogEntry::Summary { .. } => false,
    })
}
