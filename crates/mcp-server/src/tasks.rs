//! Answers as tasks that a client polls: the extension `io.modelcontextprotocol/tasks`.
//!
//! A task is an answer, so it lasts as long as its conversation, and a restart does not change it.

use control::PublicCode;
use domain::answer::AnswerEnding;
use domain::id::MessageId;
use domain::scope::Permission::{Ask, Read};
use domain::time::Timestamp;
use live::LiveAnswer;
use serde_json::{Value, json};

use crate::answers::{answer_output, progress_line};
use crate::ask;
use crate::error::{McpError, McpResult};
use crate::output::ToolError;
use crate::service::{CallContext, McpService};

/// The time after which a client should poll again, in milliseconds.
const POLL_INTERVAL_MS: u64 = 2_000;

/// Returns the state of a task.
fn task_value(live: &LiveAnswer, now: Timestamp) -> Value {
    let (ending, line) = live.read_answer(|answer| (answer.ending.clone(), progress_line(answer)));
    let status = match ending {
        None => "working",
        Some(AnswerEnding::Stopped) => "cancelled",
        // A failed answer is a result, too: `failed` is for errors of the protocol.
        Some(AnswerEnding::Done | AnswerEnding::Failed(_)) => "completed",
    };
    let meta = live.meta();
    let mut task = json!({
        "taskId": meta.answer.to_string(),
        "status": status,
        "createdAt": meta.created_at.to_string(),
        "lastUpdatedAt": now.to_string(),
        "ttlMs": Value::Null,
        "pollIntervalMs": POLL_INTERVAL_MS,
    });
    if status == "working" {
        task["statusMessage"] = line.into();
    }
    task
}

/// Returns the result of a call that became a task.
pub(crate) fn created_task(service: &McpService, live: &LiveAnswer) -> Value {
    let mut task = task_value(live, service.histories.now());
    task["resultType"] = "task".into();
    task
}

/// Returns the state of a task, with its result once it is completed.
///
/// # Errors
/// [`McpError`].
pub(crate) async fn get_task(service: &McpService, call: &CallContext, id: Option<&str>) -> McpResult<Value> {
    service.access.authorize(&call.principal, &[Read, Ask], "mcp tasks/get")?;
    let live = find_task(service, call, id).await?;
    let mut task = task_value(&live, service.histories.now());
    if task["status"] == "completed" {
        let mut result = answer_output(&live).into_result(call.era);
        result["resultType"] = "complete".into();
        task["result"] = result;
    }
    Ok(task)
}

/// Accepts an update. Tasks never ask their client for anything, so there is nothing that it could answer.
///
/// # Errors
/// [`McpError`].
pub(crate) async fn update_task(
    service: &McpService,
    call: &CallContext,
    id: Option<&str>,
) -> McpResult<Value> {
    service.access.authorize(&call.principal, &[Ask], "mcp tasks/update")?;
    find_task(service, call, id).await?;
    Ok(json!({}))
}

/// Stops the answer of a task.
///
/// # Errors
/// [`McpError`].
pub(crate) async fn cancel_task(
    service: &McpService,
    call: &CallContext,
    id: Option<&str>,
) -> McpResult<Value> {
    service.access.authorize(&call.principal, &[Ask], "mcp tasks/cancel")?;
    let live = find_task(service, call, id).await?;
    let stopped = ask::stop_answer(service, call, &live).await;
    stopped.map_err(|ToolError(message)| McpError::internal(message))?;
    Ok(json!({}))
}

async fn find_task(
    service: &McpService,
    call: &CallContext,
    id: Option<&str>,
) -> McpResult<std::sync::Arc<LiveAnswer>> {
    if !call.era.has_tasks() {
        return Err(McpError::tasks_undeclared());
    }
    let missing = || McpError::invalid_params("there is no such task: send the taskId that `ask` returned");
    let id = id.and_then(|id| id.parse::<MessageId>().ok()).ok_or_else(missing)?;
    service.answers.find_by_id(&call.principal, id).await.map_err(|error| match error.code() {
        PublicCode::NotFound => missing(),
        _ => error.into(),
    })
}
