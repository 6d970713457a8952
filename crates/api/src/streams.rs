//! Event streams (section 6).

use std::sync::Arc;
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
use measure::Held;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::Ending;
use crate::chats::{conversation_id, message_id};
use crate::error::Answered;
use crate::extract::Named;
use crate::figures::Figures;
use crate::openapi::parameters::{OfChat, OfMessage, Resumed};
use crate::openapi::{refusals, successes};
use crate::wire::{self, event_id, event_word, read_event_id};

/// How often the key of an open stream is looked at again: a revoked one ends it within twice this.
const KEY_LOOK_EVERY: Duration = Duration::from_secs(2);

/// Streams one answer
///
/// Each event has the whole state of the answer and supersedes those before: `message` while it is in progress, at
/// last `completed`, which ends the stream. `data` is an `Answer` in one line of JSON, `id` what `Last-Event-ID`
/// takes. The present state comes at once; of an answer that is done, `completed` alone. A comment comes every ten
/// seconds; a reader that takes nothing for a minute is let go. A stream that ends without `completed` was cut:
/// connect again.
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
    State(figures): State<Arc<Figures>>,
    Extension(caller): Extension<Caller>,
    Named((chat, message)): Named<(String, String)>,
    headers: HeaderMap,
) -> Answered<Response> {
    let (conversation, message) = (conversation_id(&chat)?, message_id(&message)?);
    let mut follower = answers.follow(caller.account, conversation, message).await?;
    if resume(&mut follower, &headers) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(event_stream(frames(follower, access, caller, ending, figures.answer_streams.hold())))
}

/// Streams a conversation through its questions
///
/// Each event has the whole state of an answer and supersedes those before: `message` while it is in progress,
/// `completed` when it is done; then the next question's answer follows. `data` is an `Answer` in one line of JSON,
/// `id` what `Last-Event-ID` takes. The present state of the latest answer comes at once, which may be completed long
/// since: compare its `id`. The stream stays open until the conversation is deleted. A comment comes every ten
/// seconds; a reader that takes nothing for a minute is let go.
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
    State(figures): State<Arc<Figures>>,
    Extension(caller): Extension<Caller>,
    Named(chat): Named<String>,
    headers: HeaderMap,
) -> Answered<Response> {
    let mut follower = answers.watch(caller.account, conversation_id(&chat)?).await?;
    resume(&mut follower, &headers);
    Ok(event_stream(frames(follower, access, caller, ending, figures.chat_streams.hold())))
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
    /// Counts as an open stream.
    _held: Held,
    look: Interval,
    rest: Rest,
}

/// The states of what is followed, each the newest when it is asked for. They end with what is followed,
/// with the key, and with the service.
fn frames(
    follower: Follower,
    access: Access,
    caller: Caller,
    ending: Ending,
    held: Held,
) -> impl Stream<Item = Frame> {
    let mut look = interval(KEY_LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let reading = Reading { follower, access, caller, ending, _held: held, look, rest: Rest::default() };
    futures_util::stream::unfold(reading, async |mut reading| {
        let frame = reading.next().await?;
        Some((frame, reading))
    })
}

impl Reading {
    async fn next(&mut self) -> Option<Frame> {
        self.rest.take().await;
        loop {
            tokio::select! {
                snapshot = self.follower.next() => {
                    let snapshot = snapshot?;
                    self.rest.after(snapshot.stamp.revision);
                    return Some(Frame {
                        event: event_word(snapshot.ending.is_some()),
                        id: event_id(snapshot.meta.answer, snapshot.stamp),
                        data: snapshot.encoded(wire::answer).to_vec(),
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

/// The rest between two states of a reader: none while it keeps up, so that each change is sent at once; some
/// milliseconds when changes come faster than the service can tell them, so that it tells fewer.
#[derive(Debug, Default)]
struct Rest {
    now: Duration,
    revision: u64,
}

impl Rest {
    const FIRST: Duration = Duration::from_millis(4);
    const LONGEST: Duration = Duration::from_millis(32);
    /// A rest that takes this much longer than it should shows that the processors are busy.
    const OVERRUN: Duration = Duration::from_millis(3);

    async fn take(&mut self) {
        if self.now.is_zero() {
            return;
        }
        let began = tokio::time::Instant::now();
        tokio::time::sleep(self.now).await;
        self.now = Self::following(self.now, began.elapsed());
    }

    /// Takes note of the revision that was told: one that skipped others shows that the reader was behind.
    fn after(&mut self, revision: u64) {
        if self.now.is_zero() && self.revision > 0 && revision > self.revision + 1 {
            self.now = Self::FIRST;
        }
        self.revision = revision;
    }

    /// The rest after one of `planned` that took `taken`: longer on a busy machine, else shorter, then none.
    fn following(planned: Duration, taken: Duration) -> Duration {
        if taken > planned + Self::OVERRUN {
            return (planned * 2).min(Self::LONGEST);
        }
        let shorter = planned / 2;
        if shorter < Self::FIRST / 2 { Duration::ZERO } else { shorter }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_rests_only_when_it_was_behind_and_ever_less_on_an_idle_machine() {
        let mut rest = Rest::default();
        for revision in [7, 8, 9] {
            rest.after(revision);
            assert_eq!(rest.now, Duration::ZERO);
        }
        rest.after(12);
        assert_eq!(rest.now, Rest::FIRST);
        let shorter = Rest::following(rest.now, rest.now);
        assert_eq!(Rest::following(shorter, shorter), Duration::ZERO);
        let mut longer = rest.now;
        for _ in 0..10 {
            longer = Rest::following(longer, longer + 2 * Rest::OVERRUN);
        }
        assert_eq!(longer, Rest::LONGEST);
    }
}
