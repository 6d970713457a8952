//! Replies to the calls of paused answers (section 4.4).

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use control::{AnswerService, Principal, QuestionService};
use domain::pause::CallReply;
use domain::scope::Permission::Ask;
use http_common::limits::JSON_BODY_MAX_BYTES;

use crate::chats::answer_body;
use crate::error::{ApiError, ApiResult};
use crate::extract::{CallPath, JsonBody};
use crate::openapi::parameters::{OfCall, OfChat, OfMessage};
use crate::openapi::{error_responses, successes};
use crate::operations::{Accepts, operation};
use crate::wire::{CallReplyBody, CallReplySchema, examples};

operation! {
    /// Reply to a pending call
    ///
    /// An answer with `pending` calls goes on once each of them has a reply. The first reply to a call counts; the same one
    /// may be sent again.
    reply_to_call = post "/api/v1/chats/{chatId}/messages/{messageId}/calls/{callId}" as "replyToCall" => give_reply;
    needs: &[Ask];
    accepts: Accepts::Json { max_bytes: JSON_BODY_MAX_BYTES };
    schema:
        tag = "Conversations",
        params(OfChat, OfMessage, OfCall),
        request_body(content = CallReplySchema, examples(
            ("output" = (value = json!(examples::call_output()))),
            ("error" = (value = json!(examples::call_error()))),
        )),
        responses(successes::Replied, error_responses::Reply),
}

pub(crate) async fn give_reply(
    State(questions): State<QuestionService>,
    State(answers): State<AnswerService>,
    Extension(principal): Extension<Principal>,
    CallPath(conversation, message, call): CallPath,
    body: JsonBody,
) -> ApiResult<Response> {
    let reply = match body.parse_object()? {
        CallReplyBody { output: Some(text), error: None } => CallReply::Output { text, failed: false },
        CallReplyBody { output: None, error: Some(text) } => CallReply::Output { text, failed: true },
        CallReplyBody { .. } => return Err(ApiError::bad_request("send either output or error")),
    };
    drop(body);
    questions.give_reply(&principal, conversation, message, call, reply).await?;
    let live = answers.find_replayed(&principal, conversation, message).await?;
    Ok(answer_body(&live.snapshot()))
}
