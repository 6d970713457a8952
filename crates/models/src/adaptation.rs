//! Adapts requests to the features that a server accepts for one model.
//!
//! Servers differ in the features that they accept, and reveal it only by refusing a request. Each refusal
//! leads to another request, in which the refused feature is left out, expressed differently or reduced;
//! successful adaptations are remembered for a while.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use domain::step::{OutputBlock, Step, StepError, StepRequest, TranscriptItem};
use domain::step_note::StepNote;

use crate::dialect::RequestDialect;
use crate::error;
use crate::estimate;
use crate::refusal;

/// The maximum number of tools that are left out for one model; beyond that, all tools are.
const LEFT_OUT_MAX: usize = 32;
/// The least output that is asked for because of the context window.
const OUTPUT_MIN_TOKENS: u32 = 64;
/// The instructions for a model without tools.
const NO_TOOLS: &str = "No tools can be called in this conversation, whatever is said about tools above: answer from what \
                        stands in the conversation and its attachments, and say what you could not look up.";

pub(crate) struct RequestRefusal {
    pub(crate) error: StepError,
    /// The status of the response.
    pub(crate) status: u16,
    /// All texts of the response, in small letters. They may contain the key, so they are compared but never shown.
    pub(crate) texts: String,
}

impl RequestRefusal {
    /// Reads a response. `error` is its classification, without the key.
    pub(crate) fn new(error: StepError, status: u16, body: &str) -> Self {
        Self { error, status, texts: error::all_texts(body) }
    }

    /// Returns true if another request may be accepted.
    fn may_be_adapted(&self) -> bool {
        match self.status {
            // Some servers refuse with it what a model cannot do, not the key.
            403 => {
                let is_key = !matches!(
                    self.error,
                    StepError::Rejected { refused: domain::step::RefusedPart::Request, .. }
                );
                let is_about = |phrase: &&str| self.texts.contains(*phrase);
                !is_key && is_about(&"model") && !["moderation", "flagged", "policy"].iter().any(is_about)
            }
            401 | 402 | 407 | 408 | 409 | 425 | 429 => false,
            400..=499 => true,
            // Some servers fail where their template refuses something.
            500 | 501 => true,
            _ => false,
        }
    }
}

/// The form of requests for one model that a server accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Adaptation {
    dialect: RequestDialect,
    tools: bool,
    /// Accepts a system message.
    system: bool,
    chats: bool,
    /// The tools whose definitions are refused.
    left_out: BTreeSet<String>,
    output_max_tokens: Option<u32>,
    context_tokens: Option<u32>,
    /// The output that fits beside the input of the present request.
    output_now: Option<u32>,
}

impl Adaptation {
    /// Creates the adaptation of an unknown model.
    pub(crate) fn new(dialect: RequestDialect) -> Self {
        Self {
            dialect,
            tools: true,
            system: true,
            chats: true,
            left_out: BTreeSet::new(),
            output_max_tokens: None,
            context_tokens: None,
            output_now: None,
        }
    }

    pub(crate) fn dialect(&self) -> RequestDialect {
        self.dialect
    }

    pub(crate) fn accepts_tools(&self) -> bool {
        self.tools
    }

    pub(crate) fn can_chat(&self) -> bool {
        self.chats
    }

    pub(crate) fn context_tokens(&self) -> Option<u32> {
        self.context_tokens
    }

    pub(crate) fn output_max_tokens(&self) -> Option<u32> {
        self.output_max_tokens
    }

    /// Returns the part that also applies to other requests.
    pub(crate) fn to_lasting(&self) -> Self {
        Self { output_now: None, ..self.clone() }
    }

    /// Returns the same with the knowledge that the model does not chat.
    pub(crate) fn without_chat(&self) -> Self {
        Self { chats: false, ..self.clone() }
    }

    /// Returns the adaptation for another request after this refusal, or `None` if no adaptation is left.
    pub(crate) fn after_refusal(&self, refused: &RequestRefusal, request: &StepRequest) -> Option<Self> {
        if !refused.may_be_adapted() {
            return None;
        }
        let is_failure = refused.status >= 500;
        let texts = refused.texts.as_str();
        let sent = self.adapt_request(request);
        let other = if let Some(fitting) = self.fit_output_limit(texts, &sent).filter(|_| !is_failure) {
            fitting
        } else if refused.error == StepError::TooLong {
            return None;
        } else if let Some(fewer) = self.without_tools_named(texts, &sent) {
            fewer
        } else if !sent.tools.is_empty() && refusal::refuses_tools(texts) {
            Self { tools: false, ..self.clone() }
        } else if self.system && !sent.instructions.is_empty() && refusal::refuses_system(texts) {
            Self { system: false, ..self.clone() }
        } else if matches!(refused.status, 400 | 422) {
            Self { dialect: self.dialect.fallback_dialect(texts)?, ..self.clone() }
        } else {
            return None;
        };
        (other != *self).then_some(other)
    }

    /// Returns the adaptation that reduces the output to the limit that the refusal names.
    fn fit_output_limit(&self, texts: &str, sent: &StepRequest) -> Option<Self> {
        let requested = u64::from(sent.output_max_tokens);
        let limits = refusal::named_limits(texts, requested, estimate::input_tokens(sent));
        let narrow = |tokens: Option<u64>| tokens.and_then(|tokens| u32::try_from(tokens).ok());
        let output = narrow(limits.output_tokens)?;
        let mut other = Self { output_now: Some(output), ..self.clone() };
        if limits.is_output_limit {
            other.output_max_tokens = Some(output);
        }
        other.context_tokens = narrow(limits.context_tokens).or(self.context_tokens);
        Some(other)
    }

    /// Returns the context window that a refusal of a transcript that is too long names.
    pub(crate) fn learn_context(&self, refused: &RequestRefusal, request: &StepRequest) -> Option<Self> {
        let requested = u64::from(self.adapt_request(request).output_max_tokens);
        let context = refusal::named_limits(&refused.texts, requested, 0).context_tokens?;
        let other = Self { context_tokens: u32::try_from(context).ok(), ..self.to_lasting() };
        (other != *self).then_some(other)
    }

    /// Returns the adaptation without the tools that the refusal names.
    fn without_tools_named(&self, texts: &str, sent: &StepRequest) -> Option<Self> {
        let named = refusal::named_tools(texts, &sent.tools);
        if named.is_empty() {
            return None;
        }
        let mut other = self.clone();
        other.left_out.extend(named.into_iter().map(|at| sent.tools[at].name.clone()));
        if other.left_out.len() > LEFT_OUT_MAX {
            other.tools = false;
        }
        Some(other)
    }

    /// Returns the request as the server accepts it.
    pub(crate) fn adapt_request<'a>(&self, request: &'a StepRequest) -> Cow<'a, StepRequest> {
        let mut adapted = Cow::Borrowed(request);
        // The space besides the input in a window that is known only from a refusal.
        let room = self.context_tokens.filter(|_| self.output_now.is_none()).and_then(|context| {
            let input = u32::try_from(estimate::input_tokens(request)).unwrap_or(u32::MAX);
            Some(context.saturating_sub(input)).filter(|room| *room >= OUTPUT_MIN_TOKENS)
        });
        let output = [self.output_now, self.output_max_tokens, room].into_iter().flatten().min();
        if let Some(output) = output.filter(|output| *output < request.output_max_tokens) {
            adapted.to_mut().output_max_tokens = output.max(1);
        }
        if !self.tools {
            without_tools(adapted.to_mut());
        } else if request.tools.iter().any(|tool| self.left_out.contains(&tool.name)) {
            adapted.to_mut().tools.retain(|tool| !self.left_out.contains(&tool.name));
        }
        if !self.system && !adapted.instructions.trim().is_empty() {
            let adapted = adapted.to_mut();
            let text = std::mem::take(&mut adapted.instructions);
            adapted.transcript.insert(0, TranscriptItem::Question { text, attachments: Vec::new() });
        }
        adapted
    }

    /// Returns what the reader should know about a step that was requested in this way.
    pub(crate) fn step_notes(&self, request: &StepRequest) -> Vec<StepNote> {
        if request.tools.is_empty() {
            return Vec::new();
        }
        if !self.tools {
            return vec![StepNote::ToolsRefused];
        }
        let offered = request.tools.iter().map(|tool| &tool.name);
        offered.filter(|name| self.left_out.contains(*name)).cloned().map(StepNote::ToolLeftOut).collect()
    }
}

/// Removes the tools, and the calls of earlier models from the transcript. Their results remain, as texts.
fn without_tools(request: &mut StepRequest) {
    if !request.tools.is_empty() {
        request.tools.clear();
        if !request.instructions.is_empty() {
            request.instructions.push_str("\n\n");
        }
        request.instructions.push_str(NO_TOOLS);
    }
    for item in &mut request.transcript {
        if let TranscriptItem::Step(step) = item
            && step.tool_calls().next().is_some()
        {
            let texts = step.blocks.iter().filter(|block| matches!(block, OutputBlock::Text(_)));
            *item =
                TranscriptItem::Step(Arc::new(Step { blocks: texts.cloned().collect(), ..Step::default() }));
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::step::ToolSpec;

    use super::*;
    use crate::format::WireFormat;

    fn sample_request() -> StepRequest {
        let tool =
            |name: &str| ToolSpec { name: name.into(), description: String::new(), schema: "{}".into() };
        StepRequest {
            images: Vec::new(),
            model: "m".into(),
            instructions: "Be brief.".into(),
            transcript: vec![TranscriptItem::Question { text: "Q".into(), attachments: vec![] }],
            tools: vec![tool("read"), tool("registry__note")],
            settings: vec![],
            output_max_tokens: 8192,
        }
    }

    fn new_refusal(status: u16, message: &str) -> RequestRefusal {
        let body = serde_json::json!({"error": {"message": message}}).to_string();
        let status_code = reqwest::StatusCode::from_u16(status).unwrap();
        RequestRefusal::new(error::of_status(status_code, None, &body, str::to_owned), status, &body)
    }

    fn new() -> Adaptation {
        Adaptation::new(WireFormat::ChatCompletions.initial_dialect("m", false))
    }

    #[test]
    fn refused_tools_dropped_with_note() {
        let without = new()
            .after_refusal(&new_refusal(400, "library/gemma does not support tools"), &sample_request())
            .unwrap();
        let sent = without.adapt_request(&sample_request()).into_owned();
        assert!(sent.tools.is_empty() && sent.instructions.contains("No tools can be called"));
        assert_eq!(without.step_notes(&sample_request()), [StepNote::ToolsRefused]);
        assert_eq!(
            without
                .after_refusal(&new_refusal(400, "library/gemma does not support tools"), &sample_request()),
            None
        );
        let plain = StepRequest { tools: vec![], ..sample_request() };
        assert_eq!(without.step_notes(&plain), [], "nothing was offered");
    }

    #[test]
    fn refused_tool_dropped_by_name() {
        let named = "Invalid schema for function 'registry__note': in context=()";
        let fewer = new().after_refusal(&new_refusal(400, named), &sample_request()).unwrap();
        let sent = fewer.adapt_request(&sample_request()).into_owned();
        assert_eq!(sent.tools.len(), 1);
        assert_eq!(fewer.step_notes(&sample_request()), [StepNote::ToolLeftOut("registry__note".into())]);
    }

    #[test]
    fn refused_system_message_joins_question() {
        for status in [400, 500] {
            let without = new()
                .after_refusal(&new_refusal(status, "System role not supported"), &sample_request())
                .unwrap();
            let sent = without.adapt_request(&sample_request()).into_owned();
            assert!(sent.instructions.is_empty());
            assert!(
                matches!(&sent.transcript[0], TranscriptItem::Question { text, .. } if text == "Be brief.")
            );
        }
    }

    #[test]
    fn refused_output_reduced_to_limit() {
        let less = new()
            .after_refusal(&new_refusal(400, "max_tokens must be at most 4096"), &sample_request())
            .unwrap();
        assert_eq!(less.adapt_request(&sample_request()).output_max_tokens, 4096);
        assert_eq!(less.to_lasting().output_max_tokens(), Some(4096));
        let long = "This model's maximum context length is 4096 tokens. However, you requested 9692 tokens (1500 in the \
                    messages, 8192 in the completion).";
        let fitting = new().after_refusal(&new_refusal(400, long), &sample_request()).unwrap();
        assert_eq!(fitting.adapt_request(&sample_request()).output_max_tokens, 2580);
        let later = fitting.to_lasting().adapt_request(&sample_request()).output_max_tokens;
        assert!((2581..4096).contains(&later), "another input may be shorter: {later}");
        assert_eq!(fitting.context_tokens(), Some(4096));
        let longer = new_refusal(400, "prompt is too long: 5000 tokens > 4096 maximum");
        assert_eq!(new().after_refusal(&longer, &sample_request()), None);
        assert_eq!(new().learn_context(&longer, &sample_request()).unwrap().context_tokens(), Some(4096));
    }

    #[test]
    fn schema_check_refusals_adapted() {
        let check = |detail: serde_json::Value| {
            let body = serde_json::json!({ "detail": [detail] }).to_string();
            let code = reqwest::StatusCode::UNPROCESSABLE_ENTITY;
            let refused = RequestRefusal::new(error::of_status(code, None, &body, str::to_owned), 422, &body);
            new().after_refusal(&refused, &sample_request())
        };
        let tools = serde_json::json!({"type": "extra_forbidden", "loc": ["body", "tools"],
            "msg": "Extra inputs are not permitted", "input": [{"function": {"name": "read"}}]});
        assert!(!check(tools).unwrap().accepts_tools());
        let role = serde_json::json!({"type": "enum", "loc": ["body", "messages", 0, "role"],
            "msg": "Input should be 'user' or 'assistant'", "input": "system"});
        assert!(check(role).unwrap().adapt_request(&sample_request()).instructions.is_empty());
    }

    #[test]
    fn forbidden_model_refusal_adapted() {
        let after = |message: &str| new().after_refusal(&new_refusal(403, message), &sample_request());
        assert!(!after("Function call is not supported for this model").unwrap().accepts_tools());
        for other in ["Tools are not allowed by the policy of this model", "This key does not support tools"]
        {
            assert_eq!(after(other), None, "{other}");
        }
    }

    #[test]
    fn key_and_rate_refusals_unadapted() {
        for status in [401, 403, 429, 503] {
            assert_eq!(
                new().after_refusal(&new_refusal(status, "does not support tools"), &sample_request()),
                None,
                "{status}"
            );
        }
    }
}
