//! The stream by which an answer grows on its page. Each event has the answer as HTML without the parts of its texts that the
//! page has from the events before. What is long comes in several events, each of which the page shows quickly.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use bytes::Bytes;
use control::live::{Follower, Snapshot};
use control::{Answers, Authenticator, UseCaseError};
use futures_util::{Stream, StreamExt};
use http_common::{Event, event_stream};
use serde::Serialize;

use crate::Ending;
use crate::answer::AnswerView;
use crate::growing::OnPage;
use crate::texts::Texts;
use crate::visit::User;

/// The data of an event.
#[derive(Serialize)]
struct Data<'a> {
    html: &'a str,
}

/// Streams an answer until its end.
pub(crate) async fn follow(
    State(answers): State<Answers>,
    State(access): State<Authenticator>,
    State(ending): State<Ending>,
    user: User,
    Path((conversation, answer)): Path<(String, String)>,
) -> Result<Response, Response> {
    let unknown = || user.failed(UseCaseError::no_conversation());
    let ids = conversation.parse().ok().zip(answer.parse().ok());
    let (conversation, answer) = ids.ok_or_else(unknown)?;
    let principal = user.signed_in.principal.clone();
    let follower = answers.follow(&principal, conversation, answer).await;
    let follower = follower.map_err(|error| user.failed(error))?;
    Ok(event_stream(events(follower, user.visitor.texts, ending), access.revoked(principal)))
}

/// Streams states, each the newest at the time of its poll. Ends when the answer has ended, and when the service shuts down.
fn events(follower: Follower, texts: Texts, ending: Ending) -> impl Stream<Item = Event> {
    let begin = (follower, OnPage::default(), None::<Arc<Snapshot>>);
    let states = futures_util::stream::unfold(begin, move |(mut follower, mut page, rest)| async move {
        let snapshot = match rest {
            Some(rest) => rest,
            None => follower.next().await?,
        };
        let event = event(texts, &snapshot, &mut page)?;
        let rest = page.is_behind().then_some(snapshot);
        Some((event, (follower, page, rest)))
    });
    states.take_until(ending.0.cancelled_owned())
}

/// Encodes a state; `None` after a failure, which ends the stream.
fn event(texts: Texts, snapshot: &Snapshot, page: &mut OnPage) -> Option<Event> {
    page.begin_event();
    let html = AnswerView::of(texts, snapshot, page).render();
    let html = html.map_err(UseCaseError::internal).ok()?;
    let data = serde_json::to_vec(&Data { html: &html }).map_err(UseCaseError::internal).ok()?;
    let name = if snapshot.ending.is_some() && !page.is_behind() { "completed" } else { "message" };
    let id = format!("{}.{}", snapshot.stamp.epoch, snapshot.stamp.revision);
    Some(Event::new(name, &id, &[Bytes::from(data)]))
}
