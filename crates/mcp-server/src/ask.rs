//! The tools `ask`, `wait` and `stop`.

use std::sync::Arc;
use std::time::Duration;

use control::questions::{AskOutcome, AskRequest};
use domain::id::{ConversationId, MessageId};
use live::LiveAnswer;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answers::answer_output;
use crate::output::{ToolError, ToolOutput, ToolResult};
use crate::service::{CallContext, McpService};
use crate::waiting::{AnswerWait, WAIT_MAX};

/// The time to wait if a call names none: less than the shortest time after which clients give a call up.
const WAIT_DEFAULT: Duration = Duration::from_secs(45);

/// The arguments of `ask`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AskArguments {
    question: String,
    conversation_id: Option<String>,
    #[serde(default)]
    files: Vec<String>,
    model: Option<String>,
    #[serde(default)]
    web_search: bool,
    wait_seconds: Option<u64>,
}

/// The arguments of `wait`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitArguments {
    answer_id: String,
    wait_seconds: Option<u64>,
}

/// The arguments of `stop`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StopArguments {
    answer_id: String,
}

/// Returns the JSON Schema of [`AskArguments`].
pub(crate) fn ask_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "question": { "type": "string", "minLength": 1, "description": "The question, in any language." },
            "conversation_id": {
                "type": "string",
                "description": "The conversation to continue; a new one by default.",
            },
            "files": {
                "type": "array",
                "items": { "type": "string" },
                "description": "Workspace paths to attach, such as /uploads/lease.pdf. Files that are not \
                    attached are searched, too.",
            },
            "model": { "type": "string", "description": "The id of a model, for a new conversation only." },
            "web_search": {
                "type": "boolean",
                "description": "Permits searching the web, for a new conversation only.",
            },
            "wait_seconds": wait_schema(),
        },
        "required": ["question"],
        "additionalProperties": false,
    })
}

/// Returns the JSON Schema of [`WaitArguments`].
pub(crate) fn wait_arguments_schema() -> Value {
    json!({
        "type": "object",
        "properties": { "answer_id": answer_id_schema(), "wait_seconds": wait_schema() },
        "required": ["answer_id"],
        "additionalProperties": false,
    })
}

/// Returns the JSON Schema of [`StopArguments`].
pub(crate) fn stop_schema() -> Value {
    json!({
        "type": "object",
        "properties": { "answer_id": answer_id_schema() },
        "required": ["answer_id"],
        "additionalProperties": false,
    })
}

fn answer_id_schema() -> Value {
    json!({ "type": "string", "description": "The answer_id that `ask` returned." })
}

fn wait_schema() -> Value {
    json!({
        "type": "integer",
        "minimum": 0,
        "maximum": WAIT_MAX.as_secs(),
        "default": WAIT_DEFAULT.as_secs(),
        "description": "The time to wait for the answer. If it is not complete then, call `wait`.",
    })
}

/// Asks a question.
///
/// # Errors
/// [`ToolError`]; nothing was asked then.
pub(crate) async fn ask(
    service: &McpService,
    call: &CallContext,
    arguments: AskArguments,
) -> ToolResult<AnswerWait> {
    let max_wait = wait_of(arguments.wait_seconds)?;
    let conversation = arguments.conversation_id.filter(|id| !id.is_empty());
    let conversation = conversation.map(|id| parse_conversation(&id)).transpose()?;
    let request = AskRequest {
        input: arguments.question,
        conversation,
        attachments: arguments.files,
        model: arguments.model.filter(|model| !model.is_empty()),
        web_search: arguments.web_search,
        trace: call.trace,
        ..AskRequest::default()
    };
    let live = match service.questions.ask_question(&call.principal, request).await? {
        AskOutcome::Accepted { live, .. } => live,
        AskOutcome::Replayed { conversation, answer } => {
            service.answers.find_replayed(&call.principal, conversation, answer).await?
        }
    };
    Ok(AnswerWait { live, max_wait, owns_answer: true })
}

/// Finds the answer to wait for.
///
/// # Errors
/// [`ToolError`].
pub(crate) async fn wait(
    service: &McpService,
    call: &CallContext,
    arguments: WaitArguments,
) -> ToolResult<AnswerWait> {
    let max_wait = wait_of(arguments.wait_seconds)?;
    let live = find_answer(service, call, &arguments.answer_id).await?;
    Ok(AnswerWait { live, max_wait, owns_answer: false })
}

/// Stops an answer, and returns it as far as it was written.
///
/// # Errors
/// [`ToolError`].
pub(crate) async fn stop(
    service: &McpService,
    call: &CallContext,
    arguments: StopArguments,
) -> ToolResult<ToolOutput> {
    let live = find_answer(service, call, &arguments.answer_id).await?;
    stop_answer(service, call, &live).await?;
    Ok(answer_output(&live))
}

/// Stops an answer, and waits for its end.
///
/// # Errors
/// [`ToolError`].
pub(crate) async fn stop_answer(
    service: &McpService,
    call: &CallContext,
    live: &LiveAnswer,
) -> ToolResult<()> {
    /// The time for an answer to stop.
    const STOP_TIMEOUT: Duration = Duration::from_secs(10);
    if live.progress().borrow().ended {
        return Ok(());
    }
    service.histories.stop_abandoned(&call.principal, live.meta().answer).await?;
    let shutdown = service.shutdown.cancelled();
    // The key was valid a moment ago, and the next request is checked again.
    let _ = service.answers.wait_for_end(&call.principal, live, STOP_TIMEOUT, shutdown).await;
    Ok(())
}

/// Finds an answer by the text of its id.
///
/// # Errors
/// [`ToolError`].
pub(crate) async fn find_answer(
    service: &McpService,
    call: &CallContext,
    id: &str,
) -> ToolResult<Arc<LiveAnswer>> {
    let missing = "answer_id is not the id of an answer: use the one that `ask` returned";
    let id = id.trim().parse::<MessageId>().map_err(|_| ToolError::invalid(missing))?;
    Ok(service.answers.find_by_id(&call.principal, id).await?)
}

/// Parses the id of a conversation.
///
/// # Errors
/// [`ToolError`].
pub(crate) fn parse_conversation(id: &str) -> ToolResult<ConversationId> {
    let missing = "conversation_id is not the id of a conversation: `list_conversations` lists them";
    id.trim().parse().map_err(|_| ToolError::invalid(missing))
}

fn wait_of(seconds: Option<u64>) -> ToolResult<Duration> {
    let wait = seconds.map_or(WAIT_DEFAULT, Duration::from_secs);
    if wait > WAIT_MAX {
        let message = format!("wait_seconds is at most {}: call `wait` afterwards", WAIT_MAX.as_secs());
        return Err(ToolError::invalid(message));
    }
    Ok(wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_is_shorter_than_patience_of_clients() {
        assert_eq!(wait_of(None).expect("a time"), WAIT_DEFAULT);
        assert_eq!(wait_of(Some(0)).expect("a time"), Duration::ZERO);
        assert!(wait_of(Some(51)).is_err());
    }
}
