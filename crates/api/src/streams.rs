//! Operations that stream events (section 6).

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use control::live::{Follower, Representation, Snapshot};
use control::{Answers, Authenticator, Principal};
use domain::scope::Permission::Read;
use futures_util::{Stream, StreamExt};
use http_common::{Event, event_stream};
use telemetry::GaugeGuard;

use crate::Ending;
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
    /// Each event has the whole state of the answer and supersedes those before: `message` while it is in progress, at
    /// last `completed`, which ends the stream. `data` is an `Answer` in one line of JSON, `id` what `Last-Event-ID`
    /// takes. The present state comes at once; of an answer that is done, `completed` alone. A comment comes every ten
    /// seconds; a reader that takes nothing for a minute is let go. A stream that ends without `completed` was cut:
    /// connect again.
    stream_answer = get "/api/v1/chats/{chatId}/messages/{messageId}/events" as "streamAnswer" => answer;
    needs: &[Read];
    headers: &[(&["200"], &["Cache-Control"])];
    schema:
        tag = "Conversations",
        params(OfChat, OfMessage, Resumed),
        responses(successes::AnswerEvents, error_responses::OfChat),
}

pub(crate) async fn answer(
    State(answers): State<Answers>,
    State(access): State<Authenticator>,
    State(ending): State<Ending>,
    State(metrics): State<Arc<ApiMetrics>>,
    Extension(principal): Extension<Principal>,
    AnswerPath(conversation, message): AnswerPath,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let mut follower = answers.follow(&principal, conversation, message).await?;
    if resume(&mut follower, &headers) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(event_stream(events(follower, ending, metrics.answer_streams.hold()), access.revoked(principal)))
}

operation! {
    /// Stream a conversation
    ///
    /// Each event has the whole state of an answer and supersedes those before: `message` while it is in progress,
    /// `completed` when it is done; then the next question's answer follows. `data` is an `Answer` in one line of JSON,
    /// `id` what `Last-Event-ID` takes. The present state of the latest answer comes at once, which may be completed long
    /// since: compare its `id`. The stream stays open until the conversation is deleted. A comment comes every ten
    /// seconds; a reader that takes nothing for a minute is let go.
    stream_chat = get "/api/v1/chats/{chatId}/events" as "streamChat" => conversation;
    needs: &[Read];
    headers: &[(&["200"], &["Cache-Control"])];
    schema:
        tag = "Conversations",
        params(OfChat, Resumed),
        responses(successes::ChatEvents, error_responses::OfChat),
}

pub(crate) async fn conversation(
    State(answers): State<Answers>,
    State(access): State<Authenticator>,
    State(ending): State<Ending>,
    State(metrics): State<Arc<ApiMetrics>>,
    Extension(principal): Extension<Principal>,
    ChatPath(conversation): ChatPath,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let mut follower = answers.watch(&principal, conversation).await?;
    resume(&mut follower, &headers);
    Ok(event_stream(events(follower, ending, metrics.chat_streams.hold()), access.revoked(principal)))
}

/// Continues after the state in `Last-Event-ID`. Returns true if that state was the answer's end.
fn resume(follower: &mut Follower, headers: &HeaderMap) -> bool {
    let last = headers.get("last-event-id").and_then(|id| read_event_id(id.to_str().ok()?));
    last.is_some_and(|(message, had)| message == follower.current().meta().answer && follower.resume(had))
}

/// Streams states, each the newest at the time of its poll. Ends when the follower ends, and when the service shuts down.
fn events(follower: Follower, ending: Ending, held: GaugeGuard) -> impl Stream<Item = Event> {
    let states = futures_util::stream::unfold((follower, held), async |(mut follower, held)| {
        let snapshot = follower.next().await?;
        Some((event(&snapshot), (follower, held)))
    });
    states.take_until(ending.0.cancelled_owned())
}

/// Encodes a state as an event, once for all its readers.
fn event(snapshot: &Snapshot) -> Event {
    Event::of(snapshot.event(Representation::Json, |snapshot| {
        let id = event_id(snapshot.meta.answer, snapshot.stamp);
        let body = snapshot.encoded(Representation::Json, wire::answer);
        Event::new(event_word(snapshot.ending.is_some()), &id, body).pieces()
    }))
}
