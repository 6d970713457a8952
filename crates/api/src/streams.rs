//! Operations that stream events (section 6).

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use control::{AnswerService, Authenticator, Principal};
use domain::scope::Permission::Read;
use futures_util::{Stream, StreamExt};
use http_common::{SseEvent, event_stream};
use live::{Follower, Representation, Snapshot};
use telemetry::GaugeGuard;

use crate::ApiShutdown;
use crate::error::ApiResult;
use crate::extract::{AnswerPath, ChatPath};
use crate::metrics::ApiMetrics;
use crate::openapi::parameters::{OfChat, OfMessage, Resumed};
use crate::openapi::{error_responses, successes};
use crate::operations::operation;
use crate::wire::{self, event_id, event_word, read_event_id};

operation! {
    /// Stream an answer
    ///
    /// Each event has the whole state of the answer and supersedes earlier events: `message` while it is in
    /// progress, and finally `completed`, which ends the stream. `data` is an `Answer` in one line of JSON,
    /// `id` is a value for `Last-Event-ID`. The current state is sent at once; for a completed answer that is
    /// `completed` alone. A comment is sent every ten seconds; a reader that accepts nothing for a minute is
    /// disconnected. A stream that ends without `completed` was interrupted: connect again.
    stream_answer = get "/api/v1/chats/{chatId}/messages/{messageId}/events" as "streamAnswer" => follow_answer;
    needs: &[Read];
    headers: &[(&["200"], &["Cache-Control"])];
    schema:
        tag = "Conversations",
        params(OfChat, OfMessage, Resumed),
        responses(successes::AnswerEvents, error_responses::OfChat),
}

pub(crate) async fn follow_answer(
    State(answers): State<AnswerService>,
    State(access): State<Authenticator>,
    State(ending): State<ApiShutdown>,
    State(metrics): State<Arc<ApiMetrics>>,
    Extension(principal): Extension<Principal>,
    AnswerPath(conversation, message): AnswerPath,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let mut follower = answers.follow_answer(&principal, conversation, message).await?;
    if resume_from_last_event(&mut follower, &headers) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(event_stream(
        snapshot_events(follower, ending, metrics.answer_streams.hold_one()),
        access.await_revocation(principal),
    ))
}

operation! {
    /// Stream a conversation
    ///
    /// Each event has the whole state of an answer and supersedes its earlier events: `message` while it is in
    /// progress, `completed` when it is done; then the next question's answer follows. `data` is an `Answer` in
    /// one line of JSON, `id` is a value for `Last-Event-ID`. The current state of the latest answer is sent at
    /// once, even if it was completed long ago: compare its `id`. The stream stays open until the conversation
    /// is deleted. A comment is sent every ten seconds; a reader that accepts nothing for a minute is
    /// disconnected.
    stream_chat = get "/api/v1/chats/{chatId}/events" as "streamChat" => follow_chat;
    needs: &[Read];
    headers: &[(&["200"], &["Cache-Control"])];
    schema:
        tag = "Conversations",
        params(OfChat, Resumed),
        responses(successes::ChatEvents, error_responses::OfChat),
}

pub(crate) async fn follow_chat(
    State(answers): State<AnswerService>,
    State(access): State<Authenticator>,
    State(ending): State<ApiShutdown>,
    State(metrics): State<Arc<ApiMetrics>>,
    Extension(principal): Extension<Principal>,
    ChatPath(conversation): ChatPath,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let mut follower = answers.follow_conversation(&principal, conversation).await?;
    resume_from_last_event(&mut follower, &headers);
    Ok(event_stream(
        snapshot_events(follower, ending, metrics.chat_streams.hold_one()),
        access.await_revocation(principal),
    ))
}

/// Continues after the state in `Last-Event-ID`. Returns true if that state was the answer's end.
fn resume_from_last_event(follower: &mut Follower, headers: &HeaderMap) -> bool {
    let last = headers.get("last-event-id").and_then(|id| read_event_id(id.to_str().ok()?));
    last.is_some_and(|(message, had)| message == follower.current().meta().answer && follower.resume_at(had))
}

/// Streams states, each the newest at the time of its poll. Ends when the follower ends, and when the service shuts down.
fn snapshot_events(
    follower: Follower,
    ending: ApiShutdown,
    held: GaugeGuard,
) -> impl Stream<Item = SseEvent> {
    let states = futures_util::stream::unfold((follower, held), async |(mut follower, held)| {
        let snapshot = follower.next_snapshot().await?;
        Some((encode_event(&snapshot), (follower, held)))
    });
    states.take_until(ending.0.cancelled_owned())
}

/// Encodes a state as an event, once for all its readers.
fn encode_event(snapshot: &Snapshot) -> SseEvent {
    SseEvent::from_pieces(snapshot.encode_event(Representation::Json, |snapshot| {
        let id = event_id(snapshot.meta.answer, snapshot.stamp);
        let body = snapshot.encode_once(Representation::Json, wire::encode_answer);
        SseEvent::new(event_word(snapshot.ending.is_some()), &id, body).into_pieces()
    }))
}
