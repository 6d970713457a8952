//! Builds a step's request in the Messages format.

use std::borrow::Cow;
use std::collections::BTreeSet;

use domain::catalog::REASONING_EFFORT;
use domain::step::{StepCall, StepError, StepRequest};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error;
use crate::format::WireFormat;
use crate::pause::Pause;
use crate::replay::{self, ModelPiece, ReplayTurn, UserPiece};

/// The vendor's minimum thinking budget.
const BUDGET_MIN_TOKENS: u32 = 1024;

/// The request parameters that a model accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnthropicDialect {
    thinking: AnthropicThinking,
    effort: bool,
    /// Accepts `cache_control`.
    caching: bool,
    /// Accepts `thinking.display`.
    display: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnthropicThinking {
    /// The model decides how much it thinks, guided by the effort.
    Adaptive,
    /// Thinks up to a number of tokens.
    Budget,
    Off,
}

impl AnthropicDialect {
    /// Guesses the dialect from the model's name: earlier generations are listed, newer ones use adaptive thinking.
    pub(crate) fn from_model(model: &str) -> Self {
        let model = model.to_lowercase();
        let any = |kinds: &[&str]| kinds.iter().any(|kind| model.contains(kind));
        let thinking = if any(&["claude-3-7", "-4-0", "-4-1", "-4-5", "opus-4-2", "sonnet-4-2"]) {
            AnthropicThinking::Budget
        } else if any(&["claude-3", "claude-2", "claude-instant"]) {
            AnthropicThinking::Off
        } else {
            AnthropicThinking::Adaptive
        };
        let adaptive = thinking == AnthropicThinking::Adaptive;
        Self { thinking, effort: adaptive || model.contains("opus-4-5"), caching: true, display: adaptive }
    }

    /// Creates the dialect from the capabilities in the vendor's list of models.
    pub(crate) fn from_capabilities(adaptive: bool, budget: bool, effort: bool) -> Self {
        let thinking = match (adaptive, budget) {
            (true, _) => AnthropicThinking::Adaptive,
            (false, true) => AnthropicThinking::Budget,
            (false, false) => AnthropicThinking::Off,
        };
        Self { thinking, effort, caching: true, display: adaptive }
    }

    /// Returns another dialect to try after this rejection, whose reason is in lower case.
    pub(crate) fn fallback_dialect(self, reason: &str) -> Option<Self> {
        // This rejection concerns the transcript, not the model's parameters.
        if reason.contains("signature") || reason.contains("expected `thinking`") {
            return None;
        }
        let other = if reason.contains("cache_control") && self.caching {
            Self { caching: false, ..self }
        } else if reason.contains("display") && self.display {
            Self { display: false, ..self }
        } else if (reason.contains("effort") || reason.contains("output_config")) && self.effort {
            Self { effort: false, ..self }
        } else if reason.contains("thinking") || reason.contains("adaptive") || reason.contains("budget") {
            let thinking = match self.thinking {
                AnthropicThinking::Adaptive => AnthropicThinking::Budget,
                AnthropicThinking::Budget if reason.contains("adaptive") => AnthropicThinking::Adaptive,
                AnthropicThinking::Budget | AnthropicThinking::Off => AnthropicThinking::Off,
            };
            Self { thinking, ..self }
        } else {
            self
        };
        (other != self).then_some(other)
    }
}

#[derive(Serialize)]
pub(crate) struct AnthropicBody<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<AnthropicBlock<'a>>,
    messages: Vec<AnthropicMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<AnthropicTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Typed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<AnthropicThinkingConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<&'a str>,
}

#[derive(Serialize)]
struct Typed {
    r#type: &'static str,
}

/// Marks the end of the prefix that the next request reads from the cache.
const CACHED: Typed = Typed { r#type: "ephemeral" };

#[derive(Serialize)]
struct AnthropicThinkingConfig {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    display: Option<&'static str>,
}

#[derive(Serialize)]
struct OutputConfig {
    effort: String,
}

#[derive(Serialize)]
struct AnthropicMessage<'a> {
    role: &'static str,
    content: Vec<AnthropicBlock<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum AnthropicBlock<'a> {
    Text {
        r#type: &'static str,
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Typed>,
    },
    Image {
        r#type: &'static str,
        source: AnthropicImageSource,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Typed>,
    },
    ToolUse {
        r#type: &'static str,
        id: Cow<'a, str>,
        name: &'a str,
        input: &'a RawValue,
    },
    ToolResult {
        r#type: &'static str,
        tool_use_id: Cow<'a, str>,
        content: String,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Typed>,
    },
    Opaque(&'a RawValue),
}

#[derive(Serialize)]
struct AnthropicImageSource {
    r#type: &'static str,
    media_type: &'static str,
    data: String,
}

#[derive(Serialize)]
struct AnthropicTool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: Cow<'a, RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Typed>,
}

/// Builds the request's body.
pub(crate) fn build_body(
    request: &StepRequest,
    dialect: AnthropicDialect,
) -> Result<AnthropicBody<'_>, StepError> {
    let turns = replay::build_turns(request, WireFormat::Anthropic);
    let effort = request.settings.iter().find(|(key, _)| key == REASONING_EFFORT);
    let effort = effort.map(|(_, value)| value.to_lowercase());
    let thinking = effort.as_deref().and_then(|effort| thinking_config(request, dialect, effort, &turns));
    let (tools, tool_choice) = build_tools(request, &turns, dialect)?;
    let mut messages: Vec<AnthropicMessage<'_>> = turns.iter().map(build_message).collect();
    if dialect.caching
        && let Some(last) = messages.last_mut().and_then(|message| message.content.last_mut())
    {
        last.mark_cached();
    }
    Ok(AnthropicBody {
        model: &request.model,
        max_tokens: request.output_max_tokens,
        stream: true,
        system: system_blocks(request, dialect),
        messages,
        tools,
        tool_choice,
        thinking,
        output_config: effort.filter(|_| dialect.effort).map(|effort| OutputConfig { effort }),
        container: None,
    })
}

impl<'a> AnthropicBody<'a> {
    /// Appends the unchanged content of a paused step: the model continues from there.
    pub(crate) fn with_pause(mut self, pause: &'a Pause) -> Self {
        if !pause.content.is_empty() {
            let content = pause.content.iter().map(|block| AnthropicBlock::Opaque(block)).collect();
            self.messages.push(AnthropicMessage { role: "assistant", content });
            self.container = pause.container.as_deref();
        }
        self
    }
}

fn system_blocks(request: &StepRequest, dialect: AnthropicDialect) -> Vec<AnthropicBlock<'_>> {
    if request.instructions.trim().is_empty() {
        return Vec::new();
    }
    // Tools precede the instructions in the vendor's cache: one mark covers both.
    let cache_control = dialect.caching.then_some(CACHED);
    vec![AnthropicBlock::Text { r#type: "text", text: request.instructions.as_str().into(), cache_control }]
}

/// Returns the thinking configuration, or `None` when the model cannot think in this request.
fn thinking_config(
    request: &StepRequest,
    dialect: AnthropicDialect,
    effort: &str,
    turns: &[ReplayTurn<'_>],
) -> Option<AnthropicThinkingConfig> {
    let display = dialect.display.then_some("summarized");
    match dialect.thinking {
        AnthropicThinking::Off => None,
        AnthropicThinking::Adaptive => {
            Some(AnthropicThinkingConfig { r#type: "adaptive", budget_tokens: None, display })
        }
        AnthropicThinking::Budget => {
            let share = match effort {
                "low" => 8,
                "high" => 2,
                _ => 4,
            };
            let budget = (request.output_max_tokens / share).max(BUDGET_MIN_TOKENS);
            // The budget must leave room for the text, and the vendor requires the thinking blocks of calls that await
            // results.
            let fits = budget < request.output_max_tokens && !lacks_thoughts(turns);
            fits.then_some(AnthropicThinkingConfig {
                r#type: "enabled",
                budget_tokens: Some(budget),
                display,
            })
        }
    }
}

/// Returns true if the last answered calls have no thinking block, which is the case for calls of other
/// vendors' models.
fn lacks_thoughts(turns: &[ReplayTurn<'_>]) -> bool {
    let [.., ReplayTurn::Model(pieces), ReplayTurn::User(results)] = turns else { return false };
    results.iter().any(|piece| matches!(piece, UserPiece::Result(..)))
        && !matches!(pieces.first(), Some(ModelPiece::Opaque(_)))
}

/// Returns the offered tools. When none is offered, returns the tools that were called before, as the vendor requires,
/// with a choice that forbids calls.
fn build_tools<'a>(
    request: &'a StepRequest,
    turns: &[ReplayTurn<'a>],
    dialect: AnthropicDialect,
) -> Result<(Vec<AnthropicTool<'a>>, Option<Typed>), StepError> {
    let mut tools = Vec::with_capacity(request.tools.len());
    for tool in &request.tools {
        let input_schema = Cow::Borrowed(replay::tool_schema(tool)?);
        tools.push(AnthropicTool {
            name: &tool.name,
            description: &tool.description,
            input_schema,
            cache_control: None,
        });
    }
    if !tools.is_empty() {
        if dialect.caching
            && request.instructions.trim().is_empty()
            && let Some(last) = tools.last_mut()
        {
            last.cache_control = Some(CACHED);
        }
        return Ok((tools, None));
    }
    let called: BTreeSet<&str> =
        turns.iter().flat_map(calls_in_turn).map(|call| call.tool.as_str()).collect();
    let any = RawValue::from_string(r#"{"type":"object"}"#.to_owned())
        .map_err(|_| error::rejected_step("the request cannot be serialized"))?;
    let tools: Vec<_> = called
        .into_iter()
        .map(|name| AnthropicTool {
            name,
            description: "Not to be called any more.",
            input_schema: Cow::Owned(any.clone()),
            cache_control: None,
        })
        .collect();
    let choice = (!tools.is_empty()).then_some(Typed { r#type: "none" });
    Ok((tools, choice))
}

fn calls_in_turn<'a>(turn: &ReplayTurn<'a>) -> Vec<&'a StepCall> {
    match turn {
        ReplayTurn::User(_) => Vec::new(),
        ReplayTurn::Model(pieces) => pieces
            .iter()
            .filter_map(|piece| match piece {
                ModelPiece::Call(call) => Some(*call),
                ModelPiece::Text(_) | ModelPiece::Opaque(_) => None,
            })
            .collect(),
    }
}

fn build_message<'a>(turn: &ReplayTurn<'a>) -> AnthropicMessage<'a> {
    match turn {
        ReplayTurn::User(pieces) => {
            AnthropicMessage { role: "user", content: pieces.iter().map(user_block).collect() }
        }
        ReplayTurn::Model(pieces) => {
            // An assistant message must not end with a thinking block.
            let end = pieces.iter().rposition(|piece| !matches!(piece, ModelPiece::Opaque(_)));
            let content = &pieces[..end.map_or(0, |end| end + 1)];
            AnthropicMessage { role: "assistant", content: content.iter().filter_map(model_block).collect() }
        }
    }
}

fn user_block<'a>(piece: &UserPiece<'a>) -> AnthropicBlock<'a> {
    match piece {
        UserPiece::Text(text) => {
            AnthropicBlock::Text { r#type: "text", text: text.clone(), cache_control: None }
        }
        UserPiece::Result(call, result) => AnthropicBlock::ToolResult {
            r#type: "tool_result",
            tool_use_id: replay::call_id(&call.id),
            content: replay::result_text(*result),
            is_error: replay::has_failed(*result),
            cache_control: None,
        },
        UserPiece::Image(image) => AnthropicBlock::Image {
            r#type: "image",
            source: AnthropicImageSource {
                r#type: "base64",
                media_type: image.of.kind.mime_type(),
                data: replay::encode_image(image),
            },
            cache_control: None,
        },
    }
}

fn model_block<'a>(piece: &ModelPiece<'a>) -> Option<AnthropicBlock<'a>> {
    match piece {
        ModelPiece::Text(text) => {
            Some(AnthropicBlock::Text { r#type: "text", text: (*text).into(), cache_control: None })
        }
        ModelPiece::Call(call) => Some(AnthropicBlock::ToolUse {
            r#type: "tool_use",
            id: replay::call_id(&call.id),
            name: &call.tool,
            input: replay::arguments_json(call)?,
        }),
        ModelPiece::Opaque(json) => serde_json::from_str(json).ok().map(AnthropicBlock::Opaque),
    }
}

impl AnthropicBlock<'_> {
    fn mark_cached(&mut self) {
        match self {
            Self::Text { cache_control, .. }
            | Self::Image { cache_control, .. }
            | Self::ToolResult { cache_control, .. } => {
                *cache_control = Some(CACHED);
            }
            Self::ToolUse { .. } | Self::Opaque(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
