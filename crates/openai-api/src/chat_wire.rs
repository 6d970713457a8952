//! The JSON of completions.

use domain::credits::AnswerCost;
use domain::step::{StepCall, TokenUsage};
use serde::Serialize;

use crate::deltas::UrlCitation;

/// The last line of a stream.
pub(crate) const DONE: &str = "[DONE]";

/// The reason why a completion ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FinishReason {
    Stop,
    Length,
    ToolCalls,
    ContentFilter,
}

impl FinishReason {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
        }
    }
}

/// The fields that all chunks of a completion have.
#[derive(Debug, Clone)]
pub(crate) struct CompletionHead {
    pub(crate) id: String,
    /// Its time, in seconds.
    pub(crate) created: u64,
    /// The model as the request names it.
    pub(crate) model: String,
    /// True if a stream ends with the usage.
    pub(crate) includes_usage: bool,
}

/// The usage of a completion.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct UsageBody {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
    /// The cost of the completion.
    credits: u64,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct PromptDetails {
    cached_tokens: u64,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct CompletionDetails {
    reasoning_tokens: u64,
}

impl UsageBody {
    pub(crate) fn new(used: TokenUsage, credits: u64) -> Self {
        Self {
            prompt_tokens: used.input_tokens,
            completion_tokens: used.output_tokens,
            total_tokens: used.input_tokens.saturating_add(used.output_tokens),
            prompt_tokens_details: PromptDetails { cached_tokens: used.cached_tokens },
            completion_tokens_details: CompletionDetails { reasoning_tokens: used.reasoning_tokens },
            credits,
        }
    }
}

impl From<AnswerCost> for UsageBody {
    fn from(bill: AnswerCost) -> Self {
        Self::new(bill.used, bill.settled.0)
    }
}

/// A tool call; in a stream with its index.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ToolCallBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    id: String,
    r#type: &'static str,
    function: CalledFunction,
}

#[derive(Debug, Clone, Serialize)]
struct CalledFunction {
    name: String,
    arguments: String,
}

impl ToolCallBody {
    pub(crate) fn new(call: StepCall, index: Option<usize>) -> Self {
        let function = CalledFunction { name: call.tool, arguments: call.arguments };
        Self { index, id: call.id, r#type: "function", function }
    }
}

#[derive(Debug, Clone, Serialize)]
struct AnnotationBody<'a> {
    r#type: &'static str,
    url_citation: &'a UrlCitation,
}

fn annotation_bodies(citations: &[UrlCitation]) -> Vec<AnnotationBody<'_>> {
    citations.iter().map(|url_citation| AnnotationBody { r#type: "url_citation", url_citation }).collect()
}

/// The addition of a chunk.
#[derive(Debug, Default, Serialize)]
pub(crate) struct DeltaBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCallBody>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    annotations: Vec<AnnotationBody<'a>>,
}

impl<'a> DeltaBody<'a> {
    /// Creates the delta with which a stream begins.
    pub(crate) fn first() -> Self {
        Self { role: Some("assistant"), content: Some(""), ..Self::default() }
    }

    /// Creates a delta of the content.
    pub(crate) fn of_content(text: &'a str) -> Self {
        Self { content: Some(text), ..Self::default() }
    }

    /// Creates a delta of the thoughts.
    pub(crate) fn of_reasoning(text: &'a str) -> Self {
        Self { reasoning_content: Some(text), ..Self::default() }
    }

    /// Creates a delta with a call.
    pub(crate) fn of_call(call: ToolCallBody) -> Self {
        Self { tool_calls: vec![call], ..Self::default() }
    }

    /// Creates the delta with the citations.
    pub(crate) fn of_citations(citations: &'a [UrlCitation]) -> Self {
        Self { content: Some(""), annotations: annotation_bodies(citations), ..Self::default() }
    }
}

#[derive(Serialize)]
struct ChunkBody<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: Vec<ChunkChoice<'a>>,
    /// `null` before the last chunk, if the stream ends with the usage.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Option<UsageBody>>,
}

#[derive(Serialize)]
struct ChunkChoice<'a> {
    index: u32,
    delta: DeltaBody<'a>,
    logprobs: Option<()>,
    finish_reason: Option<&'static str>,
}

#[derive(Serialize)]
struct CompletionBody<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: [CompletionChoice<'a>; 1],
    usage: UsageBody,
}

#[derive(Serialize)]
struct CompletionChoice<'a> {
    index: u32,
    message: CompletionMessage<'a>,
    logprobs: Option<()>,
    finish_reason: &'static str,
}

#[derive(Serialize)]
struct CompletionMessage<'a> {
    role: &'static str,
    content: Option<&'a str>,
    refusal: Option<()>,
    #[serde(skip_serializing_if = "str::is_empty")]
    reasoning_content: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCallBody>,
    annotations: Vec<AnnotationBody<'a>>,
}

/// A whole completion.
pub(crate) struct Completion<'a> {
    pub(crate) content: &'a str,
    pub(crate) reasoning: &'a str,
    pub(crate) tool_calls: Vec<ToolCallBody>,
    pub(crate) citations: &'a [UrlCitation],
    pub(crate) finish: FinishReason,
    pub(crate) usage: UsageBody,
}

impl CompletionHead {
    /// Encodes a chunk.
    pub(crate) fn chunk(&self, delta: DeltaBody<'_>, finish: Option<FinishReason>) -> String {
        let finish_reason = finish.map(FinishReason::as_str);
        let choice = ChunkChoice { index: 0, delta, logprobs: None, finish_reason };
        self.encode_chunk(vec![choice], self.includes_usage.then_some(None))
    }

    /// Encodes the chunk with the usage.
    pub(crate) fn usage_chunk(&self, usage: UsageBody) -> String {
        self.encode_chunk(Vec::new(), Some(Some(usage)))
    }

    fn encode_chunk(&self, choices: Vec<ChunkChoice<'_>>, usage: Option<Option<UsageBody>>) -> String {
        let object = "chat.completion.chunk";
        let Self { id, created, model, .. } = self;
        serde_json::to_string(&ChunkBody { id, object, created: *created, model, choices, usage })
            .unwrap_or_default()
    }

    /// Encodes the last chunks of a stream.
    pub(crate) fn last_chunks(&self, finish: FinishReason, usage: UsageBody) -> Vec<String> {
        let mut chunks = vec![self.chunk(DeltaBody::default(), Some(finish))];
        if self.includes_usage {
            chunks.push(self.usage_chunk(usage));
        }
        chunks.push(DONE.to_owned());
        chunks
    }

    /// Encodes a whole completion.
    pub(crate) fn completion(&self, completion: Completion<'_>) -> String {
        let Completion { content, reasoning, tool_calls, citations, finish, usage } = completion;
        let message = CompletionMessage {
            role: "assistant",
            content: (!content.is_empty() || tool_calls.is_empty()).then_some(content),
            refusal: None,
            reasoning_content: reasoning,
            tool_calls,
            annotations: annotation_bodies(citations),
        };
        let choice = CompletionChoice { index: 0, message, logprobs: None, finish_reason: finish.as_str() };
        let Self { id, created, model, .. } = self;
        let object = "chat.completion";
        serde_json::to_string(&CompletionBody {
            id,
            object,
            created: *created,
            model,
            choices: [choice],
            usage,
        })
        .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(includes_usage: bool) -> CompletionHead {
        CompletionHead { id: "chatcmpl-1".to_owned(), created: 7, model: "m".to_owned(), includes_usage }
    }

    #[test]
    fn chunks_have_usage_where_wanted() {
        let begin =
            r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"m","choices":"#;
        let first =
            r#"[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]"#;
        assert_eq!(head(false).chunk(DeltaBody::first(), None), format!("{begin}{first}}}"));
        assert_eq!(head(true).chunk(DeltaBody::first(), None), format!("{begin}{first},\"usage\":null}}"));
        let used = TokenUsage { input_tokens: 5, output_tokens: 2, ..TokenUsage::default() };
        let last = head(true).last_chunks(FinishReason::Stop, UsageBody::new(used, 3));
        assert_eq!(last.len(), 3);
        assert!(last[0].contains(r#""delta":{},"logprobs":null,"finish_reason":"stop""#), "{}", last[0]);
        assert!(
            last[1].contains(
                r#""choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7"#
            )
        );
        assert!(last[1].contains(r#""credits":3"#));
        assert_eq!(last[2], "[DONE]");
        assert_eq!(head(false).last_chunks(FinishReason::Length, UsageBody::new(used, 3)).len(), 2);
    }
}
