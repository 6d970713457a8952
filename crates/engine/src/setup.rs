//! Builds the setup of a turn from its exchange and the model's limits.

use std::sync::Arc;

use domain::catalog::ModelLimits;
use domain::credits::Credits;
use domain::id::MessageId;
use domain::limits::{ATTACHMENTS_MAX, STEPS_MAX};
use domain::pause::PauseState;
use domain::step::{ATTACHED_FILES, Purpose, ReplyKind, StepCall};
use domain::tool::{CallEffect, MachineTool};
use domain::turn::host::{self, LoggedExchange, Setup, ToolRouter};
use plugins::PluginLibrary;
use protocol::tool::{ATTACHED_MAX_BYTES, AttachedArguments};
use store::turns::delegations::Delegation;
use store::turns::{ClaimedTurn, TurnRecord};

use super::outside_calls::OutsideCalls;
use super::prompt_context::{PromptContext, PromptOptions};
use super::tool_selection::PermittedTools;
use super::web::WebTools;
use crate::workspace_instructions;

/// The divisor of the context that attached files may take.
const ATTACHED_SHARE: u64 = 4;
/// The same for a model without tools, which cannot read more of them later.
const ATTACHED_SHARE_WITHOUT_TOOLS: u64 = 2;
/// The bytes of text per token, estimated low.
const TOKEN_BYTES: u64 = 3;
/// The minimum transcript, in tokens, for a model with a small context.
const TRANSCRIPT_TOKENS_MIN: u64 = 1000;

/// The inputs that a model accepts.
#[derive(Debug, Clone, Copy)]
pub(super) struct ModelInputs {
    /// True if the model is shown images.
    pub(super) images: bool,
    /// True if the model only quotes passages that it searches itself.
    pub(super) only_quotes: bool,
    /// False if the model's server accepts no tools.
    pub(super) tools: bool,
}

/// Builds the setup of a claimed answer.
pub(super) fn build_setup(
    claimed: &ClaimedTurn,
    record: &TurnRecord,
    model_limits: ModelLimits,
    prompt: &PromptContext,
    hosted: WebTools,
    reads: ModelInputs,
) -> Setup {
    let files = attachment_paths(record);
    Setup {
        attached: attached_files_call(files.clone(), model_limits, reads.tools)
            .filter(|_| !reads.only_quotes),
        instructions: prompt.workspace_instructions().map(|_| workspace_instructions::instructions_call()),
        files,
        sees_images: reads.images,
        epoch: claimed.fence.epoch,
        earlier: record.earlier.clone(),
        bill: record.bill,
        stop: claimed.stop_requested || record.stop_requested,
        pause: PauseState { expired: claimed.pause_over, ..record.pause.clone() },
        ..base_setup(
            claimed.fence.answer,
            LoggedExchange {
                question: record.question.clone(),
                attachments: record.attachments.clone(),
                log: record.log.clone(),
            },
            model_limits,
            prompt,
            hosted,
        )
    }
}

/// Builds the setup of a subagent's task.
pub(super) fn build_subagent_setup(
    id: MessageId,
    epoch: u64,
    task: String,
    delegation: Delegation,
    model_limits: ModelLimits,
    prompt: &PromptContext,
    hosted: WebTools,
) -> Setup {
    let Delegation { log, bill } = delegation;
    let present = LoggedExchange { question: task, attachments: Vec::new(), log };
    Setup { epoch, bill, ..base_setup(id, present, model_limits, prompt, hosted) }
}

/// Returns the credits to reserve before a question is accepted.
#[must_use]
pub fn first_reservation(
    question: &str,
    attachments: &[String],
    model_limits: ModelLimits,
    library: Arc<PluginLibrary>,
    chosen: PromptOptions<'_>,
    web: WebTools,
) -> Credits {
    let present =
        LoggedExchange { question: question.to_owned(), attachments: attachments.to_vec(), log: Vec::new() };
    let prompt = PromptContext::new(library, chosen);
    host::first_reservation(&base_setup(MessageId::from_random(0), present, model_limits, &prompt, web))
}

fn base_setup(
    answer: MessageId,
    present: LoggedExchange,
    model_limits: ModelLimits,
    prompt: &PromptContext,
    hosted: WebTools,
) -> Setup {
    let ModelLimits { price, output_max_tokens, .. } = model_limits;
    let (overhead_tokens, context_tokens) = token_room(prompt, model_limits);
    Setup {
        answer,
        epoch: 0,
        earlier: Vec::new(),
        present,
        bill: domain::credits::AnswerCost::default(),
        price,
        overhead_tokens,
        context_tokens,
        output_max_tokens,
        summary_instruction: prompt.summing_up().into(),
        steps_max: STEPS_MAX,
        router: Arc::new(Router {
            web: hosted,
            library: prompt.library().clone(),
            permitted: prompt.permitted_tools(),
            outside: prompt.outside_calls().clone(),
        }),
        attached: None,
        instructions: None,
        files: Vec::new(),
        sees_images: false,
        stop: false,
        pause: PauseState::default(),
    }
}

/// Returns the paths attached to this question and to earlier ones, the newest first.
fn attachment_paths(record: &TurnRecord) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    let earlier = record.earlier.iter().rev().map(|exchange| &exchange.attachments);
    for path in std::iter::once(&record.attachments).chain(earlier).flatten() {
        if paths.len() < ATTACHMENTS_MAX && !paths.contains(path) {
            paths.push(path.clone());
        }
    }
    paths
}

/// Builds the call that reads attached files before the first step, so that their passages have numbers that the answer
/// can cite.
fn attached_files_call(paths: Vec<String>, model_limits: ModelLimits, uses_tools: bool) -> Option<StepCall> {
    if paths.is_empty() {
        return None;
    }
    let room = u64::from(model_limits.context_tokens.saturating_sub(model_limits.output_max_tokens));
    let share = if uses_tools { ATTACHED_SHARE } else { ATTACHED_SHARE_WITHOUT_TOOLS };
    let bytes = room / share * TOKEN_BYTES;
    let text_max_bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(ATTACHED_MAX_BYTES);
    let arguments = AttachedArguments { paths, text_max_bytes };
    Some(StepCall {
        id: ATTACHED_FILES.to_owned(),
        tool: ATTACHED_FILES.to_owned(),
        arguments: serde_json::to_string(&arguments).ok()?,
        purpose: Purpose::Tool,
    })
}

/// Returns the tokens of a request besides its transcript, and the maximum for its transcript.
pub(super) fn token_room(prompt: &PromptContext, model_limits: ModelLimits) -> (u64, u64) {
    let ModelLimits { context_tokens, output_max_tokens, .. } = model_limits;
    let overhead_tokens = prompt.estimate_tokens();
    let room = u64::from(context_tokens).saturating_sub(overhead_tokens + u64::from(output_max_tokens));
    (overhead_tokens, room.max(TRANSCRIPT_TOKENS_MIN))
}

/// Routes the service's own tools, the tools of the operator's MCP servers and tools that may not be called to the
/// host, because the host knows which tools were offered; all others to the machine.
#[derive(Debug)]
struct Router {
    web: WebTools,
    library: Arc<PluginLibrary>,
    permitted: PermittedTools,
    outside: OutsideCalls,
}

impl ToolRouter for Router {
    fn runs_on_host(&self, tool: &str) -> bool {
        let is_of_machine = MachineTool::from_name(tool).is_some() || mcp::server_of(tool).is_some();
        self.web.runs_tool(tool) || !(is_of_machine && self.permitted.has_tool(tool))
    }

    /// An unknown tool fails and changes nothing, but one with the name of an MCP tool may have been one.
    fn is_repeatable(&self, tool: &str) -> bool {
        if self.web.runs_tool(tool) {
            return self.web.can_repeat(tool);
        }
        match MachineTool::from_name(tool) {
            Some(tool) => tool.facts().effect == CallEffect::Repeatable,
            None => mcp::server_of(tool).is_none() || self.library.is_repeatable(tool),
        }
    }

    fn awaited_reply(&self, call: &StepCall) -> Option<ReplyKind> {
        self.outside.awaited_reply(call)
    }
}

#[cfg(test)]
mod tests {
    use domain::tool::HostTool;

    use super::*;

    fn sample_router(web: WebTools) -> Router {
        let library = Arc::new(plugins::read_plugins(&[]));
        let permitted = PermittedTools::new(|_| true, None, &library);
        Router { web, library, permitted, outside: OutsideCalls::default() }
    }

    #[test]
    fn host_refuses_unnamed_tools() {
        let web = WebTools::new(egress::WebConfig::default()).expect("it holds");
        let library = Arc::new(plugins::read_plugins(&[]));
        let named = ["Read".to_owned(), "mcp__registry__note".to_owned()];
        let permitted = PermittedTools::new(|tool| tool == "read", Some(&named), &library);
        let router = Router { web, library, permitted, outside: OutsideCalls::default() };
        for tool in ["read", "registry__note", ATTACHED_FILES] {
            assert!(!router.runs_on_host(tool), "{tool} runs in the machine");
        }
        for tool in ["shell", "write", "registry__add", "other__note"] {
            assert!(router.runs_on_host(tool), "the machine must not run {tool}");
        }
    }

    #[test]
    fn is_repeatable_false_for_effectful_calls() {
        let web = WebTools::new(egress::WebConfig::default()).expect("it holds");
        let router = sample_router(web);
        for (tool, repeats) in [
            ("read", true),
            ("shell", false),
            ("skill", true),
            ("no such tool", true),
            // Its plugin may have been removed since the call.
            ("registry__note", false),
        ] {
            assert_eq!(router.is_repeatable(tool), repeats, "{tool}");
        }
        assert!(!router.runs_on_host("registry__note") && !router.runs_on_host("read"));
        assert!(!router.runs_on_host(ATTACHED_FILES));
        assert!(router.runs_on_host("no such tool") && router.runs_on_host("skill"));
    }

    #[test]
    fn tools_routed_by_table() {
        let web = WebTools::new(egress::WebConfig::default()).expect("it holds");
        let router = sample_router(web);
        let of_machine = MachineTool::ALL.iter().map(|tool| (tool.facts(), false));
        for (tool, is_of_host) in of_machine.chain(HostTool::ALL.iter().map(|tool| (tool.facts(), true))) {
            assert_eq!(router.runs_on_host(tool.name), is_of_host, "{}", tool.name);
            assert_eq!(
                router.is_repeatable(tool.name),
                tool.effect == CallEffect::Repeatable,
                "{}",
                tool.name
            );
        }
    }
}
