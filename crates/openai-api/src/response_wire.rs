//! The JSON of responses, and their ids.
//!
//! An id has the identifiers of the answer and of its conversation, so it is found without a table.

use domain::credits::AnswerCost;
use domain::id::{ConversationId, MessageId, PartId};
use serde_json::{Value, json};

/// Before the id of a response.
const RESPONSE: &str = "resp_";
/// Before the id of a conversation.
const CONVERSATION: &str = "conv_";
/// Before the id of a conversation that begins with its first question.
const CREATED: &str = "conv_new_";
/// Before the ids of items.
const ITEMS: [&str; 4] = ["msg_", "rs_", "ws_", "mcp_"];
/// The characters of one identifier.
const ID_CHARS: usize = 32;

/// The answer that a response is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResponseId {
    pub(crate) conversation: ConversationId,
    pub(crate) answer: MessageId,
}

impl ResponseId {
    /// Parses the id of a response.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::parse_tail(text.strip_prefix(RESPONSE)?)
    }

    /// Parses the id of an item, and returns the response that has it.
    pub(crate) fn of_item(text: &str) -> Option<Self> {
        let (tail, _) = ITEMS.iter().find_map(|prefix| text.strip_prefix(prefix))?.split_once('_')?;
        Self::parse_tail(tail)
    }

    fn parse_tail(tail: &str) -> Option<Self> {
        if !tail.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let (answer, conversation) = tail.split_at_checked(ID_CHARS)?;
        Some(Self { conversation: conversation.parse().ok()?, answer: answer.parse().ok()? })
    }

    fn tail(self) -> String {
        format!("{:032x}{:032x}", self.answer.bits(), self.conversation.bits())
    }

    /// Returns the id.
    pub(crate) fn to_text(self) -> String {
        format!("{RESPONSE}{}", self.tail())
    }

    /// Returns the id of the item of its question.
    pub(crate) fn question_id(self) -> String {
        format!("msg_{}_question", self.tail())
    }

    /// Returns the id of the item of a part. A part that is said anew becomes another item.
    pub(crate) fn item_id(self, prefix: &str, part: PartId, attempt: usize) -> String {
        let again = if attempt == 0 { String::new() } else { format!("_{attempt}") };
        format!("{prefix}_{}_{:08x}{again}", self.tail(), part.bits() >> 96)
    }
}

/// Parses the id of a stored conversation, with or without its prefix.
fn parse_conversation(text: &str) -> Option<ConversationId> {
    text.strip_prefix(CONVERSATION).unwrap_or(text).parse().ok()
}

/// The conversation that a client names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NamedConversation {
    Stored(ConversationId),
    /// One that was created without questions: it begins with its first one, which has this name.
    Created(String),
}

impl NamedConversation {
    /// Parses the id of a conversation.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(id) = text.strip_prefix(CREATED) {
            return id.parse::<ConversationId>().ok().map(|id| Self::Created(created_text(id)));
        }
        parse_conversation(text).map(Self::Stored)
    }
}

/// Returns the id of a conversation that begins with its first question.
pub(crate) fn created_text(id: ConversationId) -> String {
    format!("{CREATED}{id}")
}

/// Returns the id of a conversation.
pub(crate) fn conversation_text(id: ConversationId) -> String {
    format!("{CONVERSATION}{id}")
}

/// The fields that all states of a response have.
#[derive(Debug, Clone)]
pub(crate) struct ResponseHead {
    pub(crate) id: String,
    /// The id of the conversation in which it is stored; `None` for one that is not stored.
    pub(crate) conversation: Option<String>,
    /// Its time, in seconds.
    pub(crate) created: u64,
    /// The model as the request names it.
    pub(crate) model: String,
    pub(crate) background: bool,
    /// The fields of its request, if they are known.
    pub(crate) echo: ResponseEcho,
}

/// The fields of a request that its response repeats.
#[derive(Debug, Clone)]
pub(crate) struct ResponseEcho {
    pub(crate) instructions: Option<String>,
    pub(crate) metadata: Value,
    pub(crate) previous: Option<String>,
    pub(crate) tools: Vec<Value>,
    pub(crate) tool_choice: Value,
    pub(crate) parallel_tool_calls: bool,
    pub(crate) effort: Option<String>,
    pub(crate) temperature: f64,
    pub(crate) top_p: f64,
    pub(crate) frequency_penalty: f64,
    pub(crate) presence_penalty: f64,
    pub(crate) output_max_tokens: Option<u64>,
    /// The format of the output.
    pub(crate) format: Value,
    pub(crate) prompt_cache_key: Option<String>,
    pub(crate) safety_identifier: Option<String>,
}

impl Default for ResponseEcho {
    fn default() -> Self {
        Self {
            instructions: None,
            metadata: json!({}),
            previous: None,
            tools: Vec::new(),
            tool_choice: json!("auto"),
            parallel_tool_calls: true,
            effort: None,
            temperature: 1.0,
            top_p: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            output_max_tokens: None,
            format: json!({"type": "text"}),
            prompt_cache_key: None,
            safety_identifier: None,
        }
    }
}

/// The state of a response.
#[derive(Debug, Clone)]
pub(crate) struct ResponseState {
    pub(crate) status: &'static str,
    pub(crate) output: Vec<Value>,
    pub(crate) error: Option<Value>,
    /// The reason why it is incomplete.
    pub(crate) incomplete: Option<&'static str>,
    /// The time at which it was completed, in seconds.
    pub(crate) completed: Option<u64>,
    pub(crate) cost: Option<AnswerCost>,
}

impl ResponseState {
    /// The state without an outcome.
    pub(crate) fn open(status: &'static str, output: Vec<Value>) -> Self {
        Self { status, output, error: None, incomplete: None, completed: None, cost: None }
    }
}

impl ResponseHead {
    /// Converts a state.
    pub(crate) fn response(&self, state: ResponseState) -> Value {
        let echo = &self.echo;
        let conversation = self.conversation.as_ref().map(|id| json!({"id": id}));
        json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "completed_at": state.completed,
            "status": state.status,
            "background": self.background,
            "error": state.error,
            "incomplete_details": state.incomplete.map(|reason| json!({"reason": reason})),
            "instructions": echo.instructions,
            "max_output_tokens": echo.output_max_tokens,
            "max_tool_calls": null,
            "model": self.model,
            "output": state.output,
            "parallel_tool_calls": echo.parallel_tool_calls,
            "previous_response_id": echo.previous,
            "conversation": conversation,
            "reasoning": {"effort": echo.effort, "summary": null},
            "store": self.conversation.is_some(),
            "temperature": echo.temperature,
            "text": {"format": echo.format},
            "tool_choice": echo.tool_choice,
            "tools": echo.tools,
            "top_p": echo.top_p,
            "top_logprobs": 0,
            "frequency_penalty": echo.frequency_penalty,
            "presence_penalty": echo.presence_penalty,
            "truncation": "disabled",
            "service_tier": "default",
            "prompt_cache_key": echo.prompt_cache_key,
            "safety_identifier": echo.safety_identifier,
            "usage": state.cost.map(usage_body),
            "user": null,
            "metadata": echo.metadata,
        })
    }
}

/// Returns the usage of a response.
pub(crate) fn usage_body(cost: AnswerCost) -> Value {
    let used = cost.used;
    json!({
        "input_tokens": used.input_tokens,
        "input_tokens_details": {"cached_tokens": used.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": used.output_tokens,
        "output_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
        "total_tokens": used.input_tokens.saturating_add(used.output_tokens),
        "credits": cost.settled.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_survive_their_texts() {
        let id =
            ResponseId { conversation: ConversationId::from_random(7), answer: MessageId::from_random(8) };
        assert_eq!(ResponseId::parse(&id.to_text()), Some(id));
        let item = id.item_id("msg", PartId::from_random(9), 1);
        assert_eq!(ResponseId::of_item(&item), Some(id));
        assert_eq!(ResponseId::parse(&item), None);
        let conversation = id.conversation.to_string();
        assert_eq!(parse_conversation(&format!("conv_{conversation}")), Some(id.conversation));
        assert_eq!(parse_conversation(&conversation), Some(id.conversation));
        assert_eq!(ResponseId::of_item(&id.question_id()), Some(id));
        let created = created_text(id.conversation);
        assert_eq!(NamedConversation::parse(&created), Some(NamedConversation::Created(created.clone())));
        assert_eq!(parse_conversation(&created), None);
    }

    #[test]
    fn hostile_ids_are_no_ids() {
        let long = format!("resp_{}", "0".repeat(1 << 16));
        for text in ["", "resp_", "resp_á", "msg_", "msg_0_0", "msg__", "resp_{}", "conv_x", &long] {
            assert_eq!(ResponseId::parse(text), None, "{text}");
            assert_eq!(ResponseId::of_item(text), None, "{text}");
            assert_eq!(parse_conversation(text), None, "{text}");
        }
        let split = format!("resp_{}á{}", "0".repeat(31), "0".repeat(32));
        assert_eq!(ResponseId::parse(&split), None);
    }
}
