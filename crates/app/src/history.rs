//! The history: all conversations, search by words, renaming, pinning, deleting.

use askama::Template;
use axum::Form;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use control::conversations::ConversationChange;
use control::history::{FoundPiece, HistoryEntry};
use control::{Conversations, HistoryService};
use serde::Deserialize;

use crate::frame::PageFrame;
use crate::shown_time::ShownTime;
use crate::texts::Texts;
use crate::visit::SignedInVisitor;
use crate::{conversation, error, paths};

/// The conversations of one page.
const SHOWN_MAX: usize = 50;
/// The characters of a search that count.
const SEARCHED_MAX_CHARS: usize = 200;

/// A conversation in the history.
struct HistoryEntryView {
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
struct HistoryListPage {
    frame: PageFrame,
    searched: String,
    entries: Vec<HistoryEntryView>,
    /// The address of the next page.
    next: Option<String>,
    is_indexing: bool,
}

/// The query of the page.
#[derive(Deserialize)]
pub(crate) struct HistoryQuery {
    #[serde(default)]
    q: String,
    /// The number of conversations to skip.
    #[serde(default)]
    from: usize,
}

/// The use cases of the page.
#[derive(Clone)]
pub(crate) struct HistoryPages {
    pub(crate) history: HistoryService,
    pub(crate) conversations: Conversations,
}

/// Shows a page of the history.
pub(crate) async fn show_history(
    State(pages): State<HistoryPages>,
    user: SignedInVisitor,
    Query(search): Query<HistoryQuery>,
) -> Result<Response, Response> {
    let texts = user.visitor.texts;
    let searched: String = search.q.trim().chars().take(SEARCHED_MAX_CHARS).collect();
    let found =
        pages.history.history_page(&user.signed_in.principal, &searched, search.from, SHOWN_MAX).await;
    let found = found.map_err(|error| user.failure_response(error))?;
    let next = found.more.then(|| {
        let from = search.from.saturating_add(SHOWN_MAX).to_string();
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs([("q", searched.as_str()), ("from", from.as_str())])
            .finish();
        format!("{}?{query}", paths::HISTORY)
    });
    Ok(error::render_template(&HistoryListPage {
        frame: PageFrame::load(&pages.conversations, &user, None).await?,
        searched,
        entries: found.entries.into_iter().map(|entry| HistoryEntryView::from_entry(texts, entry)).collect(),
        next,
        is_indexing: found.is_indexing,
    }))
}

impl HistoryEntryView {
    fn from_entry(texts: Texts, entry: HistoryEntry) -> Self {
        let summary = entry.summary;
        Self {
            href: paths::conversation_path(summary.id),
            title: summary.title,
            model: summary.model,
            modified: ShownTime::from_time(texts, summary.modified_at),
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
pub(crate) async fn change_conversation(
    State(conversations): State<Conversations>,
    user: SignedInVisitor,
    Path(id): Path<String>,
    Form(form): Form<ChangeForm>,
) -> Result<Response, Response> {
    let id = conversation::parse_conversation_id(&id).map_err(|error| user.failure_response(error))?;
    let pinned = form.pinned.map(|pinned| pinned == "on");
    let change = ConversationChange { title: form.title, pinned };
    let changed = conversations.update_conversation(&user.signed_in.principal, id, change).await;
    changed.map_err(|error| user.failure_response(error))?;
    let own = paths::conversation_path(id);
    Ok(Redirect::to(paths::own_address(&form.next).unwrap_or(&own)).into_response())
}
