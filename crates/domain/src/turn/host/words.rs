//! What a turn begins with, what happens to it, and what it wants done.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Exchange;
use crate::answer::{Answer, Change, Ending, ErrorCode, LogEntry, Stamp};
use crate::credits::{Bill, Credits, Price, Shortage};
use crate::id::{InstanceId, MessageId};
use crate::step::{Call, CallResult, Item, StepError, StepEvent};
use crate::turn::{AgentFrame, HostFrame, Output};

/// What a turn begins with: what the store knows, and the model's measures.
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
    pub bill: Bill,
    /// What the model costs.
    pub price: Price,
    /// The tokens that every request has besides the transcript: instructions and tools.
    pub overhead_tokens: u64,
    /// The most tokens of transcript that a step may show.
    pub context_tokens: u64,
    /// What a model is told that is to sum up what was said and done; the question follows.
    pub summing_up: Arc<str>,
    /// The most tokens that a step may put out.
    pub output_max_tokens: u32,
    /// The most steps that it may take.
    pub steps_max: u32,
    /// The tools: which the host runs, and which may run again.
    pub hosted: Arc<dyn Hosted>,
    /// The call that reads what is attached before the first step, if anything is.
    pub attached: Option<Call>,
    /// Workspace paths that were attached to this question and to those before it, the newest first.
    pub files: Vec<String>,
    /// Whether the model is shown images.
    pub sees_images: bool,
    /// Whether the user has asked for a stop already.
    pub stop: bool,
}

/// Who runs a tool, and whether it may run again. What it says of a name must not change between two lives of the
/// service, but for what those who run it change.
pub trait Hosted: fmt::Debug + Send + Sync {
    /// Whether the host runs a tool of this name.
    fn runs(&self, tool: &str) -> bool;

    /// Whether a tool of this name, whoever runs it, may run again after a crash, and beside others.
    fn repeats(&self, tool: &str) -> bool;
}

/// What happens to a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A link to this life of the agent stands.
    Linked(InstanceId),
    /// The link is gone.
    Unlinked,
    /// The machine could not be started, for good.
    MachineFailed(String),
    /// The agent said something.
    Agent(AgentFrame),
    /// The agent said something that is no frame.
    Violation,
    /// The greatest cost of the step is held, or is not.
    Reserved {
        /// The step.
        number: u32,
        /// The attempt that it is held for.
        attempt: u32,
        /// Whether it is held, and if not, why.
        outcome: Result<(), Shortage>,
    },
    /// The model put something out.
    Said {
        /// The step.
        number: u32,
        /// The attempt at it, from 0.
        attempt: u32,
        /// What it put out.
        event: StepEvent,
    },
    /// The attempt failed.
    SayFailed {
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
    PauseOver {
        /// The step.
        number: u32,
        /// The attempt that may begin.
        attempt: u32,
    },
    /// Another agent, to which a call gave a task, said more.
    Reported {
        /// The call.
        call: String,
        /// How many bytes of what it said before stand.
        keep: usize,
        /// What was added.
        text: String,
    },
    /// A call that the host ran came back.
    Hosted {
        /// The call.
        call: String,
        /// What came of it.
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

/// What a turn wants done.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Tell the agent.
    Send(HostFrame),
    /// Give the link up and make a new one.
    Relink,
    /// Hold the greatest cost of the step.
    Reserve {
        /// The step.
        number: u32,
        /// The attempt that it is held for.
        attempt: u32,
        /// Whether it is for the summary before that step.
        summary: bool,
        /// What it costs at most.
        greatest: Credits,
    },
    /// Let the model say the step.
    Say {
        /// The step.
        number: u32,
        /// The attempt at it.
        attempt: u32,
        /// What the model is shown.
        transcript: Vec<Item>,
        /// Whether tools are offered.
        tools: bool,
        /// The most tokens that it may put out.
        output_max_tokens: u32,
    },
    /// Stop the model at once.
    Hush,
    /// Come back after a while with `PauseOver`.
    Pause {
        /// The step.
        number: u32,
        /// The attempt that may begin then.
        attempt: u32,
        /// How long.
        wait: Duration,
    },
    /// Commit the step, settle its cost, release the rest of what was held.
    CommitStep {
        /// What the log gains.
        entry: LogEntry,
        /// What the step costs.
        cost: Credits,
        /// The bill with it.
        bill: Bill,
    },
    /// Run a call of a committed step here, and come back with `Hosted`.
    Run(Call),
    /// Commit the result.
    CommitResult {
        /// The step that called.
        number: u32,
        /// The result.
        result: Arc<CallResult>,
    },
    /// A change of the answer, for those who read it.
    Publish(Stamp, Change),
    /// Complete the answer: the last entry, the cost, the parts and the end in one transaction.
    Complete(Box<Completion>),
    /// The turn is over: close everything.
    Leave,
}

/// What the last transaction of an answer commits.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// What stood of the last step, when it was cut.
    pub partial: Option<LogEntry>,
    /// What the partial step costs.
    pub cost: Credits,
    /// The bill with it.
    pub bill: Bill,
    /// How it ended.
    pub ending: Ending,
    /// The answer with its end.
    pub answer: Answer,
}

/// How an answer ends whose next step can't be paid for.
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
