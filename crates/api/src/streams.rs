//! Event streams (section 6).

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use control::access::Caller;
use control::answers::Follower;
use control::{Access, Answers};
use edge::{Frame, event_stream};
use futures_util::Stream;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::Ending;
use crate::chats::{conversation_id, message_id};
use crate::error::Answered;
use crate::extract::Named;
use crate::openapi::parameters::{OfChat, OfMessage, Resumed};
use crate::openapi::{refusals, successes};
use crate::wire::{self, event_id, read_event_id};

/// How often the key of an open stream is looked at again: a revoked one ends it within twice this.
const KEY_LOOK_EVERY: Duration = Duration::from_secs(2);

/// Streams one answer
#[utoipa::path(
    get,
    path = "/api/v1/chats/{chatId}/messages/{messageId}/events",
    operation_id = "streamAnswer",
    tag = "Conversations",
    params(OfChat, OfMessage, Resumed),
    responses(successes::AnswerEvents, refusals::OfChat)
)]
pub(crate) async fn answer(
    State(answers): State<Answers>,
    State(access): State<Access>,
    State(ending): State<Ending>,
    Extension(caller): Extension<Caller>,
    Named((chat, message)): Named<(String, String)>,
    headers: HeaderMap,
) -> Answered<Response> {
    let (conversation, message) = (conversation_id(&chat)?, message_id(&message)?);
    let mut follower = answers.follow(caller.account, conversation, message).await?;
    if resume(&mut follower, &headers) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(event_stream(frames(follower, access, caller, ending)))
}

/// Streams a conversation through its questions
#[utoipa::path(
    get,
    path = "/api/v1/chats/{chatId}/events",
    operation_id = "streamChat",
    tag = "Conversations",
    params(OfChat, Resumed),
    responses(successes::ChatEvents, refusals::OfChat)
)]
pub(crate) async fn conversation(
    State(answers): State<Answers>,
    State(access): State<Access>,
    State(ending): State<Ending>,
    Extension(caller): Extension<Caller>,
    Named(chat): Named<String>,
    headers: HeaderMap,
) -> Answered<Response> {
    let mut follower = answers.watch(caller.account, conversation_id(&chat)?).await?;
    resume(&mut follower, &headers);
    Ok(event_stream(frames(follower, access, caller, ending)))
}

/// Begins where the reader's `Last-Event-ID` says; tells whether that was the answer's end.
fn resume(follower: &mut Follower, headers: &HeaderMap) -> bool {
    let last = headers.get("last-event-id").and_then(|id| read_event_id(id.to_str().ok()?));
    last.is_some_and(|(message, had)| message == follower.current().meta().answer && follower.resume(had))
}

struct Reading {
    follower: Follower,
    access: Access,
    caller: Caller,
    ending: Ending,
    look: Interval,
}

/// The states of what is followed, each the newest when it is asked for. They end with what is followed,
/// with the key, and with the service.
fn frames(follower: Follower, access: Access, caller: Caller, ending: Ending) -> impl Stream<Item = Frame> {
    let mut look = interval(KEY_LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let reading = Reading { follower, access, caller, ending, look };
    futures_util::stream::unfold(reading, async |mut reading| {
        let frame = reading.next().await?;
        Some((frame, reading))
    })
}

impl Reading {
    async fn next(&mut self) -> Option<Frame> {
        loop {
            tokio::select! {
                snapshot = self.follower.next() => {
                    let snapshot = snapshot?;
                    return Some(Frame {
                        event: if snapshot.ending.is_some() { "completed" } else { "message" },
                        id: event_id(snapshot.meta.answer, snapshot.stamp),
                        data: wire::answer(&snapshot),
                    });
                }
                _ = self.look.tick() => {
                    if !self.access.holds(&self.caller).await {
                        return None;
                    }
                }
                () = self.ending.0.cancelled() => return None,
            }
        }
    }
}
