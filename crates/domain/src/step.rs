//! A model step: its request, its stream of events, and the transcript between steps.
//!
//! Host, agent and all providers share these types. A provider converts [`StepRequest`] to its vendor's format, and the
//! vendor's stream to [`StepEvent`]s.

use std::sync::Arc;
use std::time::Duration;

use crate::agent::AgentName;
use crate::citation::{NumberedCitation, NumberedPassage, VendorCitation};
use crate::image::{ImageRef, LoadedImage};
use crate::skill::SkillName;
use crate::step_note::StepNote;
use crate::tool::{HostTool, MachineTool, ToolFacts};
use crate::unread::UnreadFile;

/// The request for one model step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepRequest {
    /// The vendor's name of the model.
    pub model: String,
    /// The system instructions, in Markdown.
    pub instructions: String,
    /// The transcript, oldest first; ends with a question or with tool results.
    pub transcript: Vec<TranscriptItem>,
    /// The tools that the model may call; empty if it must answer now.
    pub tools: Vec<ToolSpec>,
    /// The chosen settings, as keys and values of the catalog.
    pub settings: Vec<(String, String)>,
    /// The maximum number of output tokens of the step, including reasoning.
    pub output_max_tokens: u32,
    /// The images that are shown to the model, with their bytes.
    pub images: Vec<LoadedImage>,
}

/// One entry of the transcript.
#[derive(Debug, Clone, PartialEq)]
pub enum TranscriptItem {
    Question {
        text: String,
        /// Workspace paths of the attachments.
        attachments: Vec<String>,
    },
    /// The model's text and tool calls in one step.
    Step(Arc<Step>),
    /// The result of a call of an earlier step.
    Result(Arc<CallResult>),
}

/// A finished step, as it is committed to the step log.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Step {
    /// The model's output, in order.
    pub blocks: Vec<OutputBlock>,
    /// The sources that the vendor reported, in the order of their numbers.
    pub cited: Vec<NumberedCitation>,
    /// The facts that its reader should know.
    pub notes: Vec<StepNote>,
    /// The calls that await a reply from outside, as decided when the step was committed.
    pub awaited: Vec<AwaitedCall>,
    pub stop: StopReason,
    pub usage: TokenUsage,
}

impl Step {
    /// Returns the calls among the blocks, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &StepCall> {
        self.blocks.iter().filter_map(|block| match block {
            OutputBlock::Call(call) => Some(call),
            OutputBlock::Text(_) | OutputBlock::Reasoning(_) | OutputBlock::Opaque { .. } => None,
        })
    }

    /// Returns the kind of reply that the call awaits from outside, if any.
    #[must_use]
    pub fn awaited_kind(&self, call: &str) -> Option<ReplyKind> {
        self.awaited.iter().find(|awaited| awaited.call == call).map(|awaited| awaited.kind)
    }
}

/// A piece of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputBlock {
    /// Answer text: Markdown with marks like `[1]`.
    Text(String),
    /// Reasoning that the vendor shows: Markdown.
    Reasoning(String),
    Call(StepCall),
    /// An item that only its vendor understands and that must be sent back verbatim.
    Opaque {
        /// The wire format that it belongs to.
        format: String,
        /// The item, as the vendor sent it (JSON).
        json: String,
    },
}

/// A tool call of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepCall {
    /// The identifier of the call, unique within the answer. Created by the service if the vendor sends none.
    pub id: String,
    pub tool: String,
    /// The arguments as the model wrote them: a JSON object if valid, possibly anything.
    pub arguments: String,
    /// The purpose of the call, as determined by the host.
    pub purpose: Purpose,
}

/// The kind of reply that a call awaits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReplyKind {
    /// The client runs the function and returns its output.
    Function,
    /// The user answers a question.
    Question,
    /// The user permits the call or refuses it. A permitted call runs like any other.
    Approval,
}

/// A call of a step that awaits a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwaitedCall {
    /// The identifier of the call.
    pub call: String,
    pub kind: ReplyKind,
}

/// The purpose of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Purpose {
    /// To run a tool. Also for a call of a tool below whose arguments name nothing that exists.
    #[default]
    Tool,
    /// To open a skill, with [`HostTool::Skill`].
    Skill(SkillName),
    /// To give a task to a subagent, with [`HostTool::Agent`].
    Agent(AgentName),
    /// To search the web, with [`HostTool::WebSearch`].
    WebSearch { query: String },
}

/// The name of the tool that opens a skill.
pub const USE_SKILL: &str = HostTool::Skill.name();
/// The name of the tool that reads the attached files before the first step. Its result follows the question as the
/// content of the files.
pub const ATTACHED_FILES: &str = MachineTool::AttachedFiles.name();
/// The file whose text belongs to the instructions of each answer, in the root of the workspace.
pub const INSTRUCTIONS_FILE: &str = "/AGENTS.md";
/// The name and the identifier of the call with which the service reads that file before the first step, so that the log
/// holds the text with which the answer began. No model can call it.
pub const WORKSPACE_INSTRUCTIONS: &str = "workspace_instructions";

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallResult {
    /// The id of the call: [`StepCall::id`].
    pub call: String,
    pub tool: String,
    pub outcome: StepOutcome,
    /// Plain text for the model, without the passages.
    pub text: String,
    /// The passages that may be cited, with numbers that are unique in the answer.
    pub passages: Vec<NumberedPassage>,
    /// Workspace paths of files that the call wrote.
    pub written: Vec<String>,
    /// The images of the result.
    pub images: Vec<ImageRef>,
    /// Files of the question that it could not read completely.
    pub unread: Vec<UnreadFile>,
}

impl CallResult {
    /// Formats the result for a model: the text, then each passage with its number and place.
    #[must_use]
    pub fn for_model(&self) -> String {
        let mut out = self.text.clone();
        for passage in &self.passages {
            if !out.is_empty() {
                out.push_str("\n\n");
            }
            out.push_str(&format!("[{}] {}\n{}", passage.number, passage.place, passage.text));
        }
        if out.is_empty() {
            out.push_str("(no output)");
        }
        out
    }
}

/// The outcome of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepOutcome {
    Done,
    /// It failed; the text contains the reason.
    Failed,
    /// It was interrupted by a crash and may have run.
    Interrupted,
}

/// A tool that is offered to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSpec {
    /// The name that the model calls.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub schema: String,
}

impl From<&ToolFacts> for ToolSpec {
    fn from(tool: &ToolFacts) -> Self {
        Self {
            name: tool.name.to_owned(),
            description: tool.description.to_owned(),
            schema: tool.schema.to_owned(),
        }
    }
}

/// The token usage of a step: the vendor's counts, or estimates when `estimated`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenUsage {
    /// Input tokens, including cached ones.
    pub input_tokens: u64,
    /// The input tokens from the vendor's cache.
    pub cached_tokens: u64,
    /// Output tokens, including reasoning.
    pub output_tokens: u64,
    /// The output tokens of reasoning.
    pub reasoning_tokens: u64,
    /// Set if the vendor did not report all of it, and the missing part is estimated.
    pub estimated: bool,
}

/// The reason why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StopReason {
    #[default]
    Done,
    Calls,
    /// It reached the output limit.
    OutputFull,
    /// The model declined, in its own words.
    Refused,
    /// A filter of the vendor cut the output off. Calls of the step are not run.
    Filtered,
    /// The user stopped it.
    Stopped,
}

/// One event of a step's stream. Blocks are consecutive: the beginning of a block ends the previous one. The
/// last event is [`StepEvent::Finished`]; a stream without it was interrupted.
#[derive(Debug, Clone, PartialEq)]
pub enum StepEvent {
    /// Answer text, a new block or the continuation of one.
    Text(String),
    /// Reasoning, a new block or the continuation of one.
    Reasoning(String),
    /// All text of the step so far was reasoning: the server marked only its end.
    WasReasoning,
    /// The vendor reports a source of this step's text, at any time before the end.
    Cited(VendorCitation),
    /// The reader should know this about the step.
    Noted(StepNote),
    /// A call with complete arguments.
    Call(StepCall),
    Opaque {
        /// The name of the wire format.
        format: String,
        /// The item as JSON.
        json: String,
    },
    /// The model has finished.
    Finished {
        stop: StopReason,
        /// The usage; `None` if the vendor did not report it.
        usage: Option<TokenUsage>,
    },
}

/// The part of a call that a vendor does not accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedPart {
    /// The request, or the model that it names.
    Request,
    /// The service's key. An operator must act.
    Key,
    /// The service's account has no credit left. An operator must act.
    Payment,
}

/// The reason why a step failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// Overloaded, rate-limited, unreachable or interrupted. A retry may succeed.
    #[error("the model's server is not available: {reason}")]
    Unavailable {
        /// The cause, without secrets.
        reason: String,
        /// The wait that the server requested.
        retry_after: Option<Duration>,
    },
    /// The request exceeds the model's window.
    #[error("the exchange is longer than the model can read")]
    TooLong,
    /// The server did not send anything within the time limit.
    #[error("the model's server is too slow: {reason}")]
    TimedOut {
        /// The cause, without secrets.
        reason: String,
        /// True if the answer had begun: another attempt may succeed. False if it had not: the same wait would probably
        /// pass again, and each attempt may interrupt the loading of the model.
        had_begun: bool,
    },
    /// The vendor rejects the request; another attempt would be rejected, too.
    #[error("the model's server refused the request: {reason}")]
    Rejected {
        /// The part that the vendor does not accept.
        refused: RefusedPart,
        /// The HTTP status of the response, if one rejected the request.
        status: Option<u16>,
        /// The cause, without secrets.
        reason: String,
    },
}
