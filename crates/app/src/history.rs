//! The history: all conversations, search by words, renaming, pinning, deleting.

use askama::Template;
use axum::Form;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use control::conversations::ConversationChange;
use control::history::{FoundPiece, HistoryEntry};
use control::{Conversations, History};
use serde::Deserialize;

use crate::frame::Frame;
use crate::shown_time::ShownTime;
use crate::texts::Texts;
use crate::visit::User;
use crate::{conversation, error, paths};

/// The conversations of one page.
const SHOWN_MAX: usize = 50;
/// The characters of a search that count.
const SEARCHED_MAX_CHARS: usize = 200;

/// A conversation in the history.
struct EntryView {
    href: String,
    title: String,
    model: String,
    modified: ShownTime,
    key: Option<String>,
    is_pinned: bool,
    is_open: bool,
    /// The passage with searched words.
    passage: Vec<FoundPiece>,
}

#[derive(Template)]
#[template(path = "history.html")]
struct HistoryPage {
    frame: Frame,
    searched: String,
    entries: Vec<EntryView>,
    /// The address of the next page.
    next: Option<String>,
    is_indexing: bool,
}

/// The query of the page.
#[derive(Deserialize)]
pub(crate) struct Search {
    #[serde(default)]
    q: String,
    /// The number of conversations to pass over.
    #[serde(default)]
    from: usize,
}

/// The use cases of the page.
#[derive(Clone)]
pub(crate) struct HistoryPages {
    pub(crate) history: History,
    pub(crate) conversations: Conversations,
}

/// Shows a page of the history.
pub(crate) async fn show(
    State(pages): State<HistoryPages>,
    user: User,
    Query(search): Query<Search>,
) -> Result<Response, Response> {
    let texts = user.visitor.texts;
    let searched: String = search.q.trim().chars().take(SEARCHED_MAX_CHARS).collect();
    let found = pages.history.page(&user.signed_in.principal, &searched, search.from, SHOWN_MAX).await;
    let found = found.map_err(|error| user.failed(error))?;
    let next = found.more.then(|| {
        let from = search.from.saturating_add(SHOWN_MAX).to_string();
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs([("q", searched.as_str()), ("from", from.as_str())])
            .finish();
        format!("{}?{query}", paths::HISTORY)
    });
    Ok(error::rendered(&HistoryPage {
        frame: Frame::load(&pages.conversations, &user, None).await?,
        searched,
        entries: found.entries.into_iter().map(|entry| EntryView::of(texts, entry)).collect(),
        next,
        is_indexing: found.is_indexing,
    }))
}

impl EntryView {
    fn of(texts: Texts, entry: HistoryEntry) -> Self {
        let summary = entry.summary;
        Self {
            href: paths::conversation(summary.id),
            title: summary.title,
            model: summary.model,
            modified: ShownTime::time(texts, summary.modified_at),
            key: entry.key_name,
            is_pinned: summary.pinned,
            is_open: summary.open_answer.is_some(),
            passage: entry.passage,
        }
    }
}

/// The form that changes a conversation.
#[derive(Deserialize)]
pub(crate) struct ChangeForm {
    title: Option<String>,
    /// `on` or `off`.
    pinned: Option<String>,
    /// The page to return to.
    #[serde(default)]
    next: String,
}

/// Renames a conversation, pins it, or removes its pin.
pub(crate) async fn change(
    State(conversations): State<Conversations>,
    user: User,
    Path(id): Path<String>,
    Form(form): Form<ChangeForm>,
) -> Result<Response, Response> {
    let id = conversation::id(&id).map_err(|error| user.failed(error))?;
    let pinned = form.pinned.map(|pinned| pinned == "on");
    let change = ConversationChange { title: form.title, pinned };
    let changed = conversations.patch(&user.signed_in.principal, id, change).await;
    changed.map_err(|error| user.failed(error))?;
    let own = paths::conversation(id);
    Ok(Redirect::to(paths::own(&form.next).unwrap_or(&own)).into_response())
}
