//! The stream by which an answer grows on its page. Each event has the answer as HTML, without the parts of its
//! texts that the page already has from earlier events. A long answer is sent in several events, so that the
//! page can show each quickly.
//!
//! A page whose last answer is complete waits for the next one by a stream of a single event.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use bytes::Bytes;
use control::{AnswerService, Authenticator, UseCaseError};
use domain::credits::Credits;
use domain::id::{ConversationId, MessageId};
use futures_util::{Stream, StreamExt};
use http_common::{SseEvent, event_stream};
use live::{Follower, Snapshot};
use serde::Serialize;

use crate::AppShutdown;
use crate::answer::AnswerView;
use crate::growing::OnPage;
use crate::texts::Texts;
use crate::visit::SignedInVisitor;

/// The data of an event.
#[derive(Serialize)]
struct EventData<'a> {
    html: &'a str,
}

/// Streams an answer until its end.
pub(crate) async fn stream_answer(
    State(answers): State<AnswerService>,
    State(access): State<Authenticator>,
    State(ending): State<AppShutdown>,
    user: SignedInVisitor,
    Path((conversation, answer)): Path<(String, String)>,
) -> Result<Response, Response> {
    let (conversation, answer) =
        parse_answer_ids(&conversation, &answer).map_err(|error| user.failure_response(error))?;
    let principal = user.signed_in.principal.clone();
    let follower = answers.follow_answer(&principal, conversation, answer).await;
    let follower = follower.map_err(|error| user.failure_response(error))?;
    let cost = {
        let principal = principal.clone();
        // Without it, the page shows the answer after a reload.
        move || {
            let (answers, principal) = (answers.clone(), principal.clone());
            async move { answers.answer_cost(&principal, conversation, answer).await.ok().flatten() }
        }
    };
    let states = answer_events(follower, user.visitor.texts, cost);
    Ok(event_stream(states.take_until(ending.0.cancelled_owned()), access.await_revocation(principal)))
}

/// Waits until another answer is the latest of the conversation, and sends one event. The stream ends without
/// an event if the conversation is deleted.
pub(crate) async fn stream_later_answer(
    State(answers): State<AnswerService>,
    State(access): State<Authenticator>,
    State(ending): State<AppShutdown>,
    user: SignedInVisitor,
    Path((conversation, answer)): Path<(String, String)>,
) -> Result<Response, Response> {
    let (conversation, answer) =
        parse_answer_ids(&conversation, &answer).map_err(|error| user.failure_response(error))?;
    let principal = user.signed_in.principal.clone();
    let follower = answers.follow_conversation(&principal, conversation).await;
    let mut follower = follower.map_err(|error| user.failure_response(error))?;
    let later = futures_util::stream::once(async move {
        let latest = follower.answer_after(answer).await?;
        Some(SseEvent::new("later", &latest.to_string(), &[Bytes::from_static(b"{}")]))
    });
    let later = later.filter_map(std::future::ready);
    Ok(event_stream(later.take_until(ending.0.cancelled_owned()), access.await_revocation(principal)))
}

/// Parses the identifiers of a path. An answer id that is not a UUID does not exist.
fn parse_answer_ids(conversation: &str, answer: &str) -> Result<(ConversationId, MessageId), UseCaseError> {
    let ids = conversation.parse().ok().zip(answer.parse().ok());
    ids.ok_or_else(UseCaseError::no_conversation)
}

/// Streams states, each the newest at the time of its poll. Ends when the answer has ended, with its cost.
fn answer_events<C>(follower: Follower, texts: Texts, cost: impl Fn() -> C) -> impl Stream<Item = SseEvent>
where
    C: Future<Output = Option<Credits>>,
{
    let begin = (follower, OnPage::default(), None::<Arc<Snapshot>>);
    futures_util::stream::unfold((begin, cost), move |((mut follower, mut page, rest), cost)| async move {
        let snapshot = match rest {
            Some(rest) => rest,
            None => follower.next_snapshot().await?,
        };
        let paid = if snapshot.ending.is_some() { cost().await } else { None };
        let event = encode_event(texts, &snapshot, paid, &mut page)?;
        let rest = page.is_behind().then_some(snapshot);
        Some((event, ((follower, page, rest), cost)))
    })
}

/// Encodes a state; `None` after a failure, which ends the stream.
fn encode_event(
    texts: Texts,
    snapshot: &Snapshot,
    cost: Option<Credits>,
    page: &mut OnPage,
) -> Option<SseEvent> {
    page.begin_event();
    let html = AnswerView::from_snapshot(texts, snapshot, cost, page).render();
    let html = html.map_err(UseCaseError::internal).ok()?;
    let data = serde_json::to_vec(&EventData { html: &html }).map_err(UseCaseError::internal).ok()?;
    let name = if snapshot.ending.is_some() && !page.is_behind() { "completed" } else { "message" };
    let id = format!("{}.{}", snapshot.stamp.epoch, snapshot.stamp.revision);
    Some(SseEvent::new(name, &id, &[Bytes::from(data)]))
}
