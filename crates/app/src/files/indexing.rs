//! The progress of a file's indexing, in words.

use std::collections::HashMap;

use axum::extract::{RawQuery, State};
use axum::response::{Json, Response};
use domain::indexing::{FileIndexing, IndexState};
use domain::time::Timestamp;
use domain::unread::{UnreadImage, UnreadReason};
use machine::FolderIndexReport;
use serde::Serialize;
use workspace::{AskedPath, OpenFile};

use super::FilePages;
use crate::texts::Texts;
use crate::visit::SignedInVisitor;

const MICROS_PER_SECOND: i64 = 1_000_000;
/// The maximum number of files whose states the script requests at once.
const FILES_MAX: usize = 100;

/// The state of a file's indexing, as a page shows it.
pub(super) struct IndexingView {
    /// The state, by which it is styled.
    pub(super) state: &'static str,
    pub(super) text: String,
    /// The state in a few words, with the reason.
    pub(super) label: String,
    /// The reason in a sentence, if there is one.
    pub(super) title: Option<String>,
}

/// The state of a file, for the script.
#[derive(Serialize)]
pub(crate) struct FileState {
    path: String,
    state: &'static str,
    /// Empty if the file is indexed completely.
    label: String,
    title: Option<String>,
}

/// Returns the indexing progress of the files in the query. Missing files are left out.
pub(crate) async fn show_indexing_states(
    State(pages): State<FilePages>,
    user: SignedInVisitor,
    RawQuery(query): RawQuery,
) -> Result<Json<Vec<FileState>>, Response> {
    let workspace =
        pages.files.workspace_of(&user.signed_in.principal).map_err(|error| user.failure_response(error))?;
    let query = query.unwrap_or_default();
    let asked = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == "file").take(FILES_MAX);
    let (mut known, mut found) = (HashMap::new(), Vec::new());
    for (_, path) in asked {
        let Ok(file) = Box::pin(workspace.open_file(&AskedPath::from_text(&path))).await else { continue };
        let folder = file.path.split_name().map_or_else(|| file.path.clone(), |(folder, _)| folder);
        let text = folder.to_string();
        if !known.contains_key(&text) {
            let indexing = pages.files.folder_indexing(&user.signed_in.principal, &folder).await;
            known.insert(text.clone(), indexing.map_err(|error| user.failure_response(error))?);
        }
        found.push(FileState::from_file(user.visitor.texts, &file, &known[&text]));
    }
    Ok(Json(found))
}

impl FileState {
    fn from_file(texts: Texts, file: &OpenFile, known: &FolderIndexReport) -> Self {
        let path = file.path.to_string();
        let indexing = file_indexing(known, &path, file.size, file.modified);
        let state = indexing.state.code();
        let view = IndexingView::from_indexing(texts, indexing);
        let (label, title) = view.map_or_else(Default::default, |view| (view.label, view.title));
        Self { path, state, label, title }
    }
}

/// Returns the known state of a file with this size in bytes and time of change.
pub(super) fn file_indexing(
    known: &FolderIndexReport,
    path: &str,
    size: u64,
    modified: Timestamp,
) -> FileIndexing {
    known.file_indexing(path, size, modified.micros().div_euclid(MICROS_PER_SECOND))
}

impl IndexingView {
    /// Returns true if the state will change by itself.
    pub(super) fn goes_on(&self) -> bool {
        [IndexState::Pending.code(), IndexState::Indexing.code()].contains(&self.state)
    }

    /// Returns the view of a state; `None` for a completely indexed file, as most are.
    pub(super) fn from_indexing(texts: Texts, indexing: FileIndexing) -> Option<Self> {
        let (text, title) = match indexing.state {
            IndexState::Indexed => return None,
            IndexState::Pending => (texts.get("indexing-pending"), None),
            IndexState::Indexing => {
                let percent = indexing
                    .pages
                    .map_or(0, |pages| 100 * u64::from(pages.read) / u64::from(pages.of.max(1)));
                (texts.with("indexing-progress", "percent", percent), None)
            }
            IndexState::Partial => (texts.get("indexing-partial"), indexing.reason),
            IndexState::Unreadable => (texts.get("indexing-unreadable"), indexing.reason),
        };
        let short = title.filter(|_| indexing.state == IndexState::Unreadable).and_then(short_reason_key);
        let label = short.map_or_else(|| text.clone(), |key| texts.get(key));
        let title = title.map(|reason| unread_text(texts, reason));
        Some(Self { state: indexing.state.code(), text, label, title })
    }
}

/// Returns the key of the text for a reason why a file cannot be read at all.
const fn short_reason_key(reason: UnreadReason) -> Option<&'static str> {
    Some(match reason {
        UnreadReason::Encrypted => "unread-label-encrypted",
        UnreadReason::NoText => "unread-label-no-text",
        UnreadReason::UnknownForm => "unread-label-unknown-form",
        UnreadReason::TooLarge => "unread-label-too-large",
        UnreadReason::Broken => "unread-label-broken",
        UnreadReason::TooSlow => "unread-label-too-slow",
        UnreadReason::TooMuchMemory => "unread-label-too-much-memory",
        UnreadReason::Image => "unread-label-image",
        UnreadReason::Missing
        | UnreadReason::Indexing
        | UnreadReason::Long
        | UnreadReason::InnerFiles
        | UnreadReason::ScannedPages
        | UnreadReason::Images(_) => return None,
    })
}

/// Returns the reason why not all of a file can be read, in a sentence.
pub(super) fn unread_text(texts: Texts, reason: UnreadReason) -> String {
    let UnreadReason::Images(images) = reason else { return texts.get(reason_key(reason)) };
    let causes = images.by_reason().map(|(cause, count)| texts.with(image_key(cause), "count", count));
    texts.with(reason_key(reason), "causes", causes.collect::<Vec<_>>().join(", "))
}

const fn image_key(cause: UnreadImage) -> &'static str {
    match cause {
        UnreadImage::TooLarge => "unread-images-too-large",
        UnreadImage::TooSlow => "unread-images-too-slow",
        UnreadImage::TooMany => "unread-images-too-many",
        UnreadImage::Failed => "unread-images-failed",
    }
}

const fn reason_key(reason: UnreadReason) -> &'static str {
    match reason {
        UnreadReason::Encrypted => "unread-encrypted",
        UnreadReason::NoText => "unread-no-text",
        UnreadReason::UnknownForm => "unread-unknown-form",
        UnreadReason::TooLarge => "unread-too-large",
        UnreadReason::Broken => "unread-broken",
        UnreadReason::TooSlow => "unread-too-slow",
        UnreadReason::TooMuchMemory => "unread-too-much-memory",
        UnreadReason::Image => "unread-image",
        UnreadReason::Missing => "unread-missing",
        UnreadReason::Indexing => "indexing-pending",
        UnreadReason::Long => "unread-long",
        UnreadReason::InnerFiles => "unread-inner-files",
        UnreadReason::ScannedPages => "unread-scanned-pages",
        UnreadReason::Images(_) => "unread-images",
    }
}
