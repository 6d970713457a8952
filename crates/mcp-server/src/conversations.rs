//! The tools `list_conversations` and `read_conversation`, and conversations as resources.

use std::fmt::Write as _;

use control::Principal;
use control::conversations::{ConversationSummary, StoredAnswer, StoredMessage, StoredQuestion};
use domain::id::ConversationId;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answers::status_word;
use crate::ask::parse_conversation;
use crate::output::{ToolOutput, ToolResult};
use crate::service::{CallContext, McpService};

/// The default and the largest number of conversations in a page.
const LISTED_DEFAULT: u32 = 50;
const LISTED_MAX: u32 = 200;
/// The longest text of a message in a result, in bytes.
const MESSAGE_MAX_BYTES: usize = 64 << 10;
/// The size of the texts after which no further exchange is added to a page, in bytes.
const PAGE_MAX_BYTES: usize = 128 << 10;
/// The longest text of a conversation as a resource, in bytes.
const RESOURCE_MAX_BYTES: usize = 512 << 10;
/// The text after what was left out.
const CUT: &str = "\n\n(The rest is not shown.)\n";

/// The arguments of `list_conversations`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConversationListArguments {
    offset: Option<u32>,
    limit: Option<u32>,
}

/// The arguments of `read_conversation`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConversationReadArguments {
    conversation_id: String,
    offset: Option<u32>,
}

/// Returns the JSON Schema of [`ConversationListArguments`].
pub(crate) fn list_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "offset": { "type": "integer", "minimum": 0, "default": 0, "description": "The number to skip." },
            "limit": { "type": "integer", "minimum": 1, "maximum": LISTED_MAX, "default": LISTED_DEFAULT },
        },
        "additionalProperties": false,
    })
}

/// Returns the JSON Schema of the result of `list_conversations`.
pub(crate) fn listed_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "conversations": { "type": "array", "items": summary_schema() },
            "total": { "type": "integer", "description": "The number of all conversations." },
        },
        "required": ["conversations", "total"],
    })
}

/// Returns the JSON Schema of [`ConversationReadArguments`].
pub(crate) fn read_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "conversation_id": { "type": "string" },
            "offset": {
                "type": "integer",
                "minimum": 0,
                "default": 0,
                "description": "The number of questions to skip; `next_offset` of an earlier result.",
            },
        },
        "required": ["conversation_id"],
        "additionalProperties": false,
    })
}

/// Returns the JSON Schema of the result of `read_conversation`.
pub(crate) fn conversation_schema() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "type": "object",
        "properties": {
            "conversation": summary_schema(),
            "exchanges": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "question": text,
                        "asked_at": text,
                        "files": { "type": "array", "items": text },
                        "answer_id": text,
                        "status": text,
                        "answer": text,
                    },
                    "required": ["question", "asked_at", "files", "answer_id", "status", "answer"],
                },
            },
            "next_offset": { "type": "integer", "description": "Where to go on, if there is more." },
        },
        "required": ["conversation", "exchanges"],
    })
}

fn summary_schema() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "type": "object",
        "properties": {
            "conversation_id": text,
            "title": text,
            "status": { "type": "string", "enum": ["in_progress", "completed"] },
            "model": text,
            "pinned": { "type": "boolean" },
            "created_at": text,
            "modified_at": text,
        },
        "required": ["conversation_id", "title", "status", "model", "pinned", "created_at", "modified_at"],
    })
}

/// Lists conversations.
///
/// # Errors
/// [`ToolError`](crate::output::ToolError).
pub(crate) async fn list_conversations(
    service: &McpService,
    call: &CallContext,
    arguments: ConversationListArguments,
) -> ToolResult<ToolOutput> {
    let limit = arguments.limit.unwrap_or(LISTED_DEFAULT).clamp(1, LISTED_MAX);
    let offset = u64::from(arguments.offset.unwrap_or_default());
    let page = service.conversations.list_conversations(&call.principal, offset, limit).await?;
    let listed: Vec<Value> = page.conversations.iter().map(summary_value).collect();
    Ok(ToolOutput::new(json!({ "conversations": listed, "total": page.total })))
}

/// Reads a page of a conversation.
///
/// # Errors
/// [`ToolError`](crate::output::ToolError).
pub(crate) async fn read_conversation(
    service: &McpService,
    call: &CallContext,
    arguments: ConversationReadArguments,
) -> ToolResult<ToolOutput> {
    let id = parse_conversation(&arguments.conversation_id)?;
    let offset = arguments.offset.unwrap_or_default();
    let summary = service.conversations.find_summary(&call.principal, id).await?;
    let page = read_page(service, &call.principal, id, offset).await?;
    let mut shown = Vec::with_capacity(page.exchanges.len());
    let mut bytes = 0;
    for (question, answer) in &page.exchanges {
        if bytes > PAGE_MAX_BYTES {
            break;
        }
        bytes += question.text.len().min(MESSAGE_MAX_BYTES) + answer.text.len().min(MESSAGE_MAX_BYTES);
        shown.push(exchange_value(question, answer));
    }
    let next = offset.saturating_add(u32::try_from(shown.len()).unwrap_or(u32::MAX));
    let mut value = json!({ "conversation": summary_value(&summary), "exchanges": shown });
    if next < page.total {
        value["next_offset"] = next.into();
    }
    Ok(ToolOutput::new(value))
}

/// Returns a conversation as Markdown, with its title.
///
/// # Errors
/// [`ToolError`](crate::output::ToolError).
pub(crate) async fn conversation_markdown(
    service: &McpService,
    principal: &Principal,
    id: ConversationId,
) -> Result<String, control::UseCaseError> {
    let summary = service.conversations.find_summary(principal, id).await?;
    let mut markdown = format!("# {}\n", summary.title);
    let mut offset = 0;
    loop {
        let page = read_page(service, principal, id, offset).await?;
        for (question, answer) in &page.exchanges {
            offset += 1;
            // Writing to a String does not fail.
            let _ = write!(
                markdown,
                "\n## Question {offset}\n\n{}\n\n## Answer {offset}\n\n{}\n",
                question.text, answer.text
            );
            if markdown.len() > RESOURCE_MAX_BYTES {
                markdown.truncate(markdown.floor_char_boundary(RESOURCE_MAX_BYTES));
                markdown.push_str(CUT);
                return Ok(markdown);
            }
        }
        if page.exchanges.is_empty() || offset >= page.total {
            return Ok(markdown);
        }
    }
}

/// Exchanges of the branch that is shown.
struct ExchangePage {
    exchanges: Vec<(StoredQuestion, StoredAnswer)>,
    /// The number of the exchanges of the branch.
    total: u32,
}

async fn read_page(
    service: &McpService,
    principal: &Principal,
    id: ConversationId,
    offset: u32,
) -> Result<ExchangePage, control::UseCaseError> {
    let (branch, page) = service.conversations.shown_messages(principal, id, offset).await?;
    let mut exchanges = Vec::with_capacity(page.messages.len() / 2);
    let mut asked = None;
    for message in page.messages {
        match message {
            StoredMessage::Question(question) => asked = Some(question),
            StoredMessage::Answer(answer) => exchanges.extend(asked.take().map(|asked| (asked, *answer))),
        }
    }
    Ok(ExchangePage { exchanges, total: branch.exchanges })
}

fn exchange_value(question: &StoredQuestion, answer: &StoredAnswer) -> Value {
    json!({
        "question": cut_message(&question.text),
        "asked_at": question.created_at.to_string(),
        "files": question.attachments,
        "answer_id": answer.id.to_string(),
        "status": status_word(answer.answer.ending.as_ref()),
        "answer": cut_message(&answer.text),
    })
}

fn cut_message(text: &str) -> String {
    if text.len() <= MESSAGE_MAX_BYTES {
        return text.to_owned();
    }
    format!("{}{CUT}", &text[..text.floor_char_boundary(MESSAGE_MAX_BYTES)])
}

fn summary_value(summary: &ConversationSummary) -> Value {
    json!({
        "conversation_id": summary.id.to_string(),
        "title": summary.title,
        "status": if summary.open_answer.is_some() { "in_progress" } else { "completed" },
        "model": summary.model,
        "pinned": summary.pinned,
        "created_at": summary.created_at.to_string(),
        "modified_at": summary.modified_at.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_cut() {
        let long = "č".repeat(MESSAGE_MAX_BYTES);
        let cut = cut_message(&long);
        assert!(cut.len() == MESSAGE_MAX_BYTES + CUT.len() && cut.ends_with(CUT));
        assert_eq!(cut_message("short"), "short");
    }
}
