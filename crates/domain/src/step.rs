//! A model step: its request, its stream of events, and the transcript between steps.
//!
//! Host, agent and all providers share these types. A provider converts [`StepRequest`] to its vendor's format, and the
//! vendor's stream to [`StepEvent`]s.

use std::sync::Arc;
use std::time::Duration;

use crate::agent::AgentName;
use crate::citation::{Citation, Cited, NumberedPassage};
use crate::image::{Image, ImageRef};
use crate::skill::SkillName;
use crate::tool::{HostTool, MachineTool, ToolFacts};
use crate::unread::UnreadFile;

/// The request for one model step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepRequest {
    /// The name by which the vendor knows the model.
    pub model: String,
    /// The system's instructions, in Markdown.
    pub instructions: String,
    /// The exchange so far, oldest first; ends with a question or with tool results.
    pub transcript: Vec<Item>,
    /// The tools that the model may call in this step; empty when it must answer now.
    pub tools: Vec<ToolSpec>,
    /// The chosen settings: key and value as the catalog offers them.
    pub settings: Vec<(String, String)>,
    /// The most tokens that the step may put out, reasoning included.
    pub output_max_tokens: u32,
    /// The images that the transcript refers to and the model is shown, with their bytes.
    pub images: Vec<Image>,
}

/// One entry of the transcript.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A user's question.
    Question {
        /// The question's text.
        text: String,
        /// Workspace paths that were attached.
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
    pub blocks: Vec<Block>,
    /// The sources that the vendor names itself, in the order in which they got their numbers.
    pub cited: Vec<Citation>,
    /// Why the model stopped.
    pub stop: StopReason,
    /// The token usage.
    pub usage: Usage,
}

impl Step {
    /// The calls among the blocks, in order.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Call(call) => Some(call),
            Block::Text(_) | Block::Reasoning(_) | Block::Opaque { .. } => None,
        })
    }
}

/// A piece of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// Answer text: Markdown with marks like `[1]`.
    Text(String),
    /// Reasoning, as far as the vendor shows it: Markdown.
    Reasoning(String),
    /// A tool call.
    Call(Call),
    /// An item that only its vendor understands and wants back verbatim in later steps.
    Opaque {
        /// The wire format that it belongs to.
        format: String,
        /// The item, as the vendor sent it (JSON).
        json: String,
    },
}

/// A tool call of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The identifier of the call, unique within the answer. Providers make one where the vendor gives none.
    pub id: String,
    /// The tool's name.
    pub tool: String,
    /// The arguments as the model wrote them: should be a JSON object, may be anything.
    pub arguments: String,
    /// The purpose of the call, as the host understood it at the time.
    pub purpose: Purpose,
}

/// The purpose of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Purpose {
    /// To run a tool. Also a call of one of the tools below whose arguments name nothing that there is.
    #[default]
    Tool,
    /// To open a skill, with [`HostTool::Skill`].
    Skill(SkillName),
    /// To give a task to another agent, with [`HostTool::Agent`].
    Agent(AgentName),
    /// To search the web, with [`HostTool::WebSearch`].
    WebSearch { query: String },
}

/// The name of the tool that opens a skill.
pub const USE_SKILL: &str = HostTool::Skill.name();
/// The name of the tool that reads the attached files before the first step. Its result follows the question as the
/// content of the files.
pub const ATTACHED_FILES: &str = MachineTool::AttachedFiles.name();

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallResult {
    /// The id of the call: [`Call::id`].
    pub call: String,
    /// The tool's name.
    pub tool: String,
    pub outcome: StepOutcome,
    /// Plain text for the model, apart from the passages.
    pub text: String,
    /// The passages that may be cited, numbered through the answer.
    pub passages: Vec<NumberedPassage>,
    /// Workspace paths of files that the call wrote.
    pub written: Vec<String>,
    /// Images that it brought.
    pub images: Vec<ImageRef>,
    /// Files that it could not read, or not to their end, as far as they concern the question.
    pub unread: Vec<UnreadFile>,
}

impl CallResult {
    /// The result as a model reads it: the text, then each passage under its number and place.
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
    /// It did what was asked.
    Done,
    /// It could not; the text says why.
    Failed,
    /// A crash cut it; it may have run.
    Interrupted,
}

/// A tool as it is offered to a model.
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
pub struct Usage {
    /// Tokens read, cached ones included.
    pub input_tokens: u64,
    /// Of these, read from the vendor's cache.
    pub cached_tokens: u64,
    /// Tokens written, reasoning included.
    pub output_tokens: u64,
    /// Of these, spent on reasoning.
    pub reasoning_tokens: u64,
    /// True if the vendor reported nothing and these are estimates.
    pub estimated: bool,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StopReason {
    /// It had said what it wanted to say.
    #[default]
    Done,
    /// It wants its calls run.
    Calls,
    /// It reached the bound on output.
    OutputFull,
    /// The vendor or the model refused.
    Refused,
    /// The user stopped it.
    Stopped,
}

/// One event of a step's stream. Blocks come one after another: `…Began`, deltas, and the next block's
/// beginning ends the one before. The last event is `SpanData`; a stream that ends without it was cut.
#[derive(Debug, Clone, PartialEq)]
pub enum StepEvent {
    /// Answer text follows, or goes on.
    Text(String),
    /// Reasoning follows, or goes on.
    Reasoning(String),
    /// The vendor names a source of what was said in this step, at any time before the end.
    Cited(Cited),
    /// A whole call, given when its arguments are complete.
    Call(Call),
    /// A whole opaque item.
    Opaque {
        /// The name of the wire format.
        format: String,
        /// The item as JSON.
        json: String,
    },
    /// The model is done.
    Finished {
        /// Why it stopped.
        stop: StopReason,
        /// The usage; `None` when the vendor did not report it.
        usage: Option<Usage>,
    },
}

/// Why a step failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// Overloaded, rate-limited, unreachable or cut: worth trying again.
    #[error("the model's server is not available: {reason}")]
    Unavailable {
        /// The cause, without secrets.
        reason: String,
        /// When the server asked to be tried again.
        retry_after: Option<Duration>,
    },
    /// The exchange does not fit the model's window.
    #[error("the exchange is longer than the model can read")]
    TooLong,
    /// The vendor does not accept the credentials or the model: an operator must act.
    #[error("the model's server refused the request: {reason}")]
    Rejected {
        /// The cause, without secrets.
        reason: String,
    },
}
