//! Operations on conversations and answers (section 4.4).

use std::convert::Infallible;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use bytes::Bytes;
use control::answers::WaitOutcome;
use control::conversations::ConversationChange;
use control::questions::{AskOutcome, AskRequest, Idempotency};
use control::{AnswerService, Conversations, Principal, QuestionService};
use domain::answer::RevisionStamp;
use domain::excerpt::Excerpt;
use domain::id::{ConversationId, MessageId};
use domain::scope::Permission::{Ask, Read};
use domain::step::ToolSpec;
use futures_util::stream;
use http_common::limits::JSON_BODY_MAX_BYTES;
use live::{LiveAnswer, Representation, Snapshot};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use telemetry::trace::SpanContext;

use crate::ApiShutdown;
use crate::error::{ApiError, ApiResult};
use crate::extract::{AnswerPath, ChatPath, JsonBody, Parameters, if_none_match};
use crate::key::unauthorized_response;
use crate::openapi::parameters::{IfNoneMatchHeader, OfChat, OfMessage, PreferWaitHeader, Repeatable};
use crate::openapi::{error_responses, successes};
use crate::operations::{Accepts, operation};
use crate::wire::{
    self, ChatChangeBody, ChatPageBody, ClientTool, Conversation, FollowUp, Question, examples,
};

/// The default and the largest number of conversations in a page.
const LIMIT_DEFAULT: u32 = 50;
const LIMIT_MAX: u32 = 200;
/// The typical maximum number of headers of a response.
const RESPONSE_HEADERS: usize = 12;
/// The longest idempotency key, in bytes.
const IDEMPOTENCY_KEY_MAX_BYTES: usize = 255;

operation! {
    /// Ask a question
    ///
    /// A successful response means that the question is durably stored: the answer is completed and charged
    /// exactly once, even if the service fails meanwhile. A machine that is not running is started.
    ask_question = post "/api/v1/chats" as "askQuestion" => submit_question;
    needs: &[Ask];
    accepts: Accepts::Json { max_bytes: JSON_BODY_MAX_BYTES };
    headers: &[(&["201", "202"], &["Idempotent-Replayed"]), (&["409"], &["Retry-After"])];
    schema:
        tag = "Conversations",
        params(PreferWaitHeader, Repeatable),
        request_body(content = Question, examples(
            ("simple" = (value = json!(examples::question()))),
            ("in full" = (value = json!(examples::question_in_full()))),
            ("continued" = (value = json!(examples::question_continued()))),
        )),
        responses(successes::AskResponses, error_responses::Ask),
}

pub(crate) async fn submit_question(
    State(questions): State<QuestionService>,
    State(answers): State<AnswerService>,
    State(ending): State<ApiShutdown>,
    Extension(principal): Extension<Principal>,
    trace: Option<Extension<SpanContext>>,
    headers: HeaderMap,
    body: JsonBody,
) -> ApiResult<Response> {
    let question = parse_question(&body)?;
    let idempotency = parse_idempotency_key(&headers, body.raw_text())?;
    let held = body.into_share();
    let trace = trace.map(|Extension(trace)| trace);
    let asking = AskRequest { idempotency, trace, ..new_ask_request(question)? };
    let taken = questions.ask_question(&principal, asking).await?;
    drop(held);
    let (live, begun) = match taken {
        AskOutcome::Accepted { live, begun } => (live, Some(begun)),
        AskOutcome::Replayed { conversation, answer } => {
            (answers.find_replayed(&principal, conversation, answer).await?, None)
        }
    };
    let replayed = begun.is_none();
    let wait = preferred_wait(&headers);
    let snapshot = match begun {
        // Without a wait, the answer is shown as it begins, empty.
        Some(begun) if wait.is_none() => begun,
        Some(_) | None => {
            if !wait_for_answer_end(&answers, &principal, &live, wait, &ending).await {
                return Ok(unauthorized_response());
            }
            live.snapshot()
        }
    };
    let status = if snapshot.ending.is_some() { StatusCode::CREATED } else { StatusCode::ACCEPTED };
    let mut response = (status, answer_body(&snapshot)).into_response();
    if replayed {
        let name = HeaderName::from_static("idempotent-replayed");
        response.headers_mut().insert(name, HeaderValue::from_static("true"));
    }
    Ok(response)
}

operation! {
    /// Get an answer
    ///
    /// Poll every five to ten seconds, or wait with `Prefer`, until the answer is completed.
    collect_answer = get "/api/v1/chats/{chatId}/messages/{messageId}" as "collectAnswer" => get_answer;
    needs: &[Read];
    headers: &[(&["200", "304"], &["ETag"])];
    schema:
        tag = "Conversations",
        params(OfChat, OfMessage, PreferWaitHeader, IfNoneMatchHeader),
        responses(successes::Collected, error_responses::OfChat),
}

pub(crate) async fn get_answer(
    State(answers): State<AnswerService>,
    State(ending): State<ApiShutdown>,
    Extension(principal): Extension<Principal>,
    AnswerPath(conversation, message): AnswerPath,
    headers: HeaderMap,
) -> ApiResult<Response> {
    collect_answer_as_it_stands(&answers, &ending, &principal, (conversation, message), &headers).await
}

/// Returns the answer; waits for its end first where the client prefers it.
pub(crate) async fn collect_answer_as_it_stands(
    answers: &AnswerService,
    ending: &ApiShutdown,
    principal: &Principal,
    (conversation, message): (ConversationId, MessageId),
    headers: &HeaderMap,
) -> ApiResult<Response> {
    // An answer in memory avoids the large future of the other case.
    let live = match answers.find_live(principal, conversation, message) {
        Some(found) => found?,
        None => Box::pin(answers.find_answer(principal, conversation, message)).await?,
    };
    let max_wait = preferred_wait(headers);
    if max_wait.is_some() && !Box::pin(wait_for_answer_end(answers, principal, &live, max_wait, ending)).await
    {
        return Ok(unauthorized_response());
    }
    // Not rendered again for a client that has the current state.
    if headers.contains_key(header::IF_NONE_MATCH) {
        let present = tag_of(live.progress().borrow().stamp);
        if if_none_match(headers, &present) {
            return Ok((StatusCode::NOT_MODIFIED, [REVALIDATED, (header::ETAG, entity_tag_header(present))])
                .into_response());
        }
    }
    let snapshot = live.snapshot();
    let mut response = answer_body(&snapshot);
    response.headers_mut().extend([REVALIDATED, (header::ETAG, entity_tag_header(tag_of(snapshot.stamp)))]);
    Ok(response)
}

/// The query of a list of conversations.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Pagination {
    /// The number of conversations to skip.
    #[param(value_type = u64, required = false, minimum = 0, default = 0, example = 0)]
    offset: Option<String>,
    /// The number of conversations to list; values above 200 are taken as 200.
    #[param(value_type = u64, required = false, minimum = 1, default = 50, example = 50)]
    limit: Option<String>,
}

operation! {
    /// List conversations
    ///
    /// Pinned conversations first, then the latest changed, in pages. `totalCount` is the number of all
    /// conversations.
    list_chats = get "/api/v1/chats" as "listChats" => get_chats;
    needs: &[Read];
    schema:
        tag = "Conversations",
        params(Pagination),
        responses((status = 200, description = "A page of conversations", body = ChatPageBody), error_responses::ListChats),
}

pub(crate) async fn get_chats(
    State(conversations): State<Conversations>,
    Extension(principal): Extension<Principal>,
    Parameters(slice): Parameters<Pagination>,
) -> ApiResult<Json<ChatPageBody>> {
    let offset = whole_number("offset", slice.offset.as_deref(), 0, 0)?;
    let limit = whole_number("limit", slice.limit.as_deref(), u64::from(LIMIT_DEFAULT), 1)?;
    let limit = u32::try_from(limit).unwrap_or(LIMIT_MAX).min(LIMIT_MAX);
    let page = conversations.list_conversations(&principal, offset, limit).await?;
    let chats = page.conversations.into_iter().map(Conversation::from_summary).collect();
    Ok(Json(ChatPageBody { chats, offset, limit, total_count: page.total }))
}

operation! {
    /// Delete a conversation
    ///
    /// Its answers are deleted too; an answer in progress is stopped first.
    delete_chat = delete "/api/v1/chats/{chatId}" as "deleteChat" => remove_chat;
    needs: &[Ask];
    schema:
        tag = "Conversations",
        params(OfChat),
        responses((status = 204, description = "Deleted"), error_responses::OfChat),
}

pub(crate) async fn remove_chat(
    State(conversations): State<Conversations>,
    Extension(principal): Extension<Principal>,
    ChatPath(conversation): ChatPath,
) -> ApiResult<StatusCode> {
    conversations.delete_conversation(&principal, conversation).await?;
    Ok(StatusCode::NO_CONTENT)
}

operation! {
    /// Rename or pin a conversation
    ///
    /// Fields that the body omits stay unchanged, and so does `modifiedAt`.
    change_chat = patch "/api/v1/chats/{chatId}" as "changeChat" => patch_chat;
    needs: &[Ask];
    accepts: Accepts::Json { max_bytes: JSON_BODY_MAX_BYTES };
    schema:
        tag = "Conversations",
        params(OfChat),
        request_body = ChatChangeBody,
        responses((status = 200, description = "The conversation as changed", body = Conversation), error_responses::PatchChat),
}

pub(crate) async fn patch_chat(
    State(conversations): State<Conversations>,
    Extension(principal): Extension<Principal>,
    ChatPath(conversation): ChatPath,
    body: JsonBody,
) -> ApiResult<Json<Conversation>> {
    let change: ChatChangeBody = body.parse_object()?;
    let change = ConversationChange { title: change.title, pinned: change.pinned };
    Ok(Json(Conversation::from_summary(
        conversations.update_conversation(&principal, conversation, change).await?,
    )))
}

operation! {
    /// Stop an answer
    ///
    /// The text written so far is kept. Has no effect if no answer is in progress.
    stop_chat = post "/api/v1/chats/{chatId}/stop" as "stopChat" => stop_chat_answer;
    needs: &[Ask];
    schema:
        tag = "Conversations",
        params(OfChat),
        responses(
            (status = 202, description = "The conversation; it may still be `in_progress` for a moment", body = Conversation),
            error_responses::OfChat,
        ),
}

pub(crate) async fn stop_chat_answer(
    State(conversations): State<Conversations>,
    Extension(principal): Extension<Principal>,
    ChatPath(conversation): ChatPath,
) -> ApiResult<(StatusCode, Json<Conversation>)> {
    let summary = conversations.stop_answer(&principal, conversation).await?;
    Ok((StatusCode::ACCEPTED, Json(Conversation::from_summary(summary))))
}

/// Reads a question. If it continues a conversation, the fields that the conversation keeps are not checked.
fn parse_question(body: &JsonBody) -> ApiResult<Question> {
    let follow_up: FollowUp = body.parse_object()?;
    if follow_up.chat_id.is_some() { Ok(follow_up.into()) } else { body.parse_object() }
}

fn new_ask_request(question: Question) -> ApiResult<AskRequest> {
    let conversation = question.chat_id.map(|text| text.parse::<ConversationId>()).transpose();
    let settings = question.settings.unwrap_or_default();
    Ok(AskRequest {
        input: question.input.unwrap_or_default(),
        conversation: conversation.map_err(|_| ApiError::bad_request("chatId is not a UUID"))?,
        attachments: question.file_paths.unwrap_or_default(),
        model: question.model,
        settings: settings.into_iter().map(|setting| (setting.key, setting.value)).collect(),
        jurisdictions: question.jurisdictions.unwrap_or_default(),
        web_search: question.web_search_enabled.unwrap_or_default(),
        agent: question.agent_id,
        skills: question.skill_ids.unwrap_or_default(),
        functions: question.tools.unwrap_or_default().into_iter().map(function_of).collect(),
        asks_user: question.ask_user_enabled.unwrap_or_default(),
        ..AskRequest::default()
    })
}

fn function_of(ClientTool { name, description, parameters }: ClientTool) -> ToolSpec {
    let schema = parameters.map_or_else(
        || r#"{"type":"object","properties":{}}"#.to_owned(),
        |parameters| serde_json::Value::Object(parameters.0).to_string(),
    );
    ToolSpec { name, description: description.unwrap_or_default(), schema }
}

fn parse_idempotency_key(headers: &HeaderMap, body: &str) -> ApiResult<Option<Idempotency>> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(ApiError::bad_request("send only one Idempotency-Key header"));
    }
    let key = value.to_str().unwrap_or_default();
    if key.is_empty() || key.len() > IDEMPOTENCY_KEY_MAX_BYTES {
        let message =
            format!("Idempotency-Key is invalid: use 1 to {IDEMPOTENCY_KEY_MAX_BYTES} ASCII characters");
        return Err(ApiError::bad_request(message));
    }
    Ok(Some(Idempotency { key: key.to_owned(), body_hash: Sha256::digest(body.as_bytes()).into() }))
}

fn whole_number(name: &str, text: Option<&str>, default: u64, least: u64) -> ApiResult<u64> {
    let Some(text) = text else { return Ok(default) };
    let number = text.parse::<u64>().ok().filter(|number| *number >= least && *number <= i64::MAX as u64);
    number.ok_or_else(|| {
        ApiError::bad_request(format!("{name} is {}: use a whole number of at least {least}", Excerpt(text)))
    })
}

/// Parses a number of any length: one that is too large is the largest.
fn parse_digits(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

/// Waits for the end of the answer if the client prefers that. Returns false if its key is no longer valid.
async fn wait_for_answer_end(
    answers: &AnswerService,
    principal: &Principal,
    live: &LiveAnswer,
    wait: Option<Duration>,
    ending: &ApiShutdown,
) -> bool {
    let Some(wait) = wait else { return true };
    answers.wait_for_end(principal, live, wait, ending.0.cancelled()).await == WaitOutcome::Show
}

/// Lets the client cache an answer and revalidate it by its entity tag.
const REVALIDATED: (HeaderName, HeaderValue) =
    (header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));

fn entity_tag_header(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Returns the entity tag of a state.
fn tag_of(stamp: RevisionStamp) -> String {
    format!("\"{}.{}\"", stamp.epoch, stamp.revision)
}

/// Parses `Prefer: wait=N`.
fn preferred_wait(headers: &HeaderMap) -> Option<Duration> {
    let values = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    let seconds = values.flat_map(|value| value.split([',', ';'])).find_map(|preference| {
        let (name, seconds) = preference.split_once('=')?;
        name.trim().eq_ignore_ascii_case("wait").then(|| parse_digits(seconds.trim().trim_matches('"')))?
    });
    seconds.map(Duration::from_secs)
}

pub(crate) fn answer_body(snapshot: &Snapshot) -> Response {
    match snapshot.encode_once(Representation::Json, wire::encode_answer) {
        [whole] => json_body(whole.clone()),
        // Without a copy: concurrent readers share the pieces.
        pieces => {
            let size: usize = pieces.iter().map(Bytes::len).sum();
            let pieces: Vec<_> = pieces.iter().cloned().map(Ok::<_, Infallible>).collect();
            let mut response = json_body(Body::from_stream(stream::iter(pieces)));
            response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(size));
            response
        }
    }
}

pub(crate) fn json_body(body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    // Reserves room for the headers that are added later.
    response.headers_mut().reserve(RESPONSE_HEADERS);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
