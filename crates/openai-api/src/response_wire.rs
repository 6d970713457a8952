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

    /// Returns the id of the item of a part. A part that is said anew becomes another item.
    pub(crate) fn item_id(self, prefix: &str, part: PartId, attempt: usize) -> String {
        let again = if attempt == 0 { String::new() } else { format!("_{attempt}") };
        format!("{prefix}_{}_{:08x}{again}", self.tail(), part.bits() >> 96)
    }
}

/// Parses the id of a conversation, with or without its prefix.
pub(crate) fn parse_conversation(text: &str) -> Option<ConversationId> {
    text.strip_prefix(CONVERSATION).unwrap_or(text).parse().ok()
}

/// The fields that all states of a response have.
#[derive(Debug, Clone)]
pub(crate) struct ResponseHead {
    pub(crate) id: ResponseId,
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
    pub(crate) effort: Option<String>,
    pub(crate) temperature: f64,
    pub(crate) top_p: f64,
    pub(crate) output_max_tokens: Option<u64>,
}

impl Default for ResponseEcho {
    fn default() -> Self {
        Self {
            instructions: None,
            metadata: json!({}),
            previous: None,
            tools: Vec::new(),
            tool_choice: json!("auto"),
            effort: None,
            temperature: 1.0,
            top_p: 1.0,
            output_max_tokens: None,
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
    pub(crate) cost: Option<AnswerCost>,
}

impl ResponseState {
    /// The state without an outcome.
    pub(crate) fn open(status: &'static str, output: Vec<Value>) -> Self {
        Self { status, output, error: None, incomplete: None, cost: None }
    }
}

impl ResponseHead {
    /// Converts a state.
    pub(crate) fn response(&self, state: ResponseState) -> Value {
        let echo = &self.echo;
        json!({
            "id": self.id.to_text(),
            "object": "response",
            "created_at": self.created,
            "status": state.status,
            "background": self.background,
            "error": state.error,
            "incomplete_details": state.incomplete.map(|reason| json!({"reason": reason})),
            "instructions": echo.instructions,
            "max_output_tokens": echo.output_max_tokens,
            "max_tool_calls": null,
            "model": self.model,
            "output": state.output,
            "parallel_tool_calls": true,
            "previous_response_id": echo.previous,
            "conversation": {"id": format!("{CONVERSATION}{}", self.id.conversation)},
            "reasoning": {"effort": echo.effort, "summary": null},
            "store": true,
            "temperature": echo.temperature,
            "text": {"format": {"type": "text"}},
            "tool_choice": echo.tool_choice,
            "tools": echo.tools,
            "top_p": echo.top_p,
            "truncation": "disabled",
            "usage": state.cost.map(usage_body),
            "user": null,
            "metadata": echo.metadata,
        })
    }
}

fn usage_body(cost: AnswerCost) -> Value {
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
