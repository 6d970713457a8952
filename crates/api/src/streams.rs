//! Event streams (section 6).

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use control::access::Caller;

use control::live::{Follower, Representation, Snapshot};
use control::{Answers, Authenticator};
use domain::scope::Permission::Read;
use futures_util::{Stream, StreamExt};
use http_common::{Event, event_stream};
use telemetry::GaugeGuard;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::Ending;
use crate::error::ApiResult;
use crate::extract::{AnswerPath, ChatPath};
use crate::metrics::ApiMetrics;
use crate::openapi::parameters::{OfChat, OfMessage, Resumed};
use crate::openapi::{error_responses, successes};
use crate::operations::operation;
use crate::wire::{self, event_id, event_word, read_event_id};

/// How often the key of an open stream is looked at again: a revoked one ends it within twice this.
const KEY_CHECK_INTERVAL: Duration = Duration::from_secs(2);

operation! {
    /// Streams one answer
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
    Extension(caller): Extension<Caller>,
    AnswerPath(conversation, message): AnswerPath,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let mut follower = answers.follow(caller.account, conversation, message).await?;
    if resume(&mut follower, &headers) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(event_stream(events(follower, access, caller, ending, metrics.answer_streams.hold())))
}

operation! {
    /// Streams a conversation through its questions
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
    Extension(caller): Extension<Caller>,
    ChatPath(conversation): ChatPath,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let mut follower = answers.watch(caller.account, conversation).await?;
    resume(&mut follower, &headers);
    Ok(event_stream(events(follower, access, caller, ending, metrics.chat_streams.hold())))
}

/// Begins where the reader's `Last-Event-ID` says; tells whether that was the answer's end.
fn resume(follower: &mut Follower, headers: &HeaderMap) -> bool {
    let last = headers.get("last-event-id").and_then(|id| read_event_id(id.to_str().ok()?));
    last.is_some_and(|(message, had)| message == follower.current().meta().answer && follower.resume(had))
}

/// The states of what is followed, each the newest when it is asked for. They end with what is followed,
/// with the key, and with the service.
fn events(
    follower: Follower,
    access: Authenticator,
    caller: Caller,
    ending: Ending,
    held: GaugeGuard,
) -> impl Stream<Item = Event> {
    let states = futures_util::stream::unfold((follower, held), async |(mut follower, held)| {
        let snapshot = follower.next().await?;
        Some((event(&snapshot), (follower, held)))
    });
    states.take_until(gone(access, caller, ending))
}

/// A state as an event; encoded once for all its readers.
fn event(snapshot: &Snapshot) -> Event {
    Event::of(snapshot.event(Representation::Json, |snapshot| {
        let id = event_id(snapshot.meta.answer, snapshot.stamp);
        let body = snapshot.encoded(Representation::Json, wire::answer);
        Event::new(event_word(snapshot.ending.is_some()), &id, body).pieces()
    }))
}

/// By what whoever waits learns that it is to wait no longer.
#[derive(Clone)]
pub(crate) struct Watch {
    pub(crate) access: Authenticator,
    pub(crate) ending: Ending,
}

/// Ready when the key is no longer good, or the service ends.
async fn gone(access: Authenticator, caller: Caller, ending: Ending) {
    tokio::select! {
        () = revoked(access, caller) => {}
        () = ending.0.cancelled() => {}
    }
}

/// Ready when the key is no longer good: revoked, ended, or without a licence.
pub(crate) async fn revoked(access: Authenticator, caller: Caller) {
    let mut looks = looks();
    loop {
        looks.tick().await;
        if !access.is_still_valid(&caller).await {
            return;
        }
    }
}

/// When a key is looked at again. It was looked at when it was let in.
fn looks() -> Interval {
    let mut looks = interval_at(Instant::now() + KEY_CHECK_INTERVAL, KEY_CHECK_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_key_that_was_just_let_in_is_not_looked_at_again() {
        assert!(looks().tick().now_or_never().is_none());
    }
}
