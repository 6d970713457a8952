//! The page of a folder.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use control::FolderIndexing;
use http_common::Holder;
use workspace::{AskedPath, Entry, EntryKind, Workspace, WorkspacePath};

use super::FilePages;
use super::indexing::{IndexingView, indexed};
use crate::error;
use crate::frame::Frame;
use crate::links::{file_href, name_of, shown_name};
use crate::shown_size::shown_size;
use crate::shown_time::ShownTime;
use crate::texts::Texts;
use crate::visit::User;

/// The entries of one page.
const SHOWN_MAX: usize = 200;

/// A part of the path above the entries.
pub(super) struct Crumb {
    pub(super) name: String,
    pub(super) href: String,
}

/// An entry of the folder.
struct EntryView {
    name: String,
    path: String,
    /// The page of a folder, the preview of a file; `None` for links and other things.
    href: Option<String>,
    /// The download of a file, or of a folder as an archive.
    download: Option<String>,
    is_folder: bool,
    size: String,
    modified: ShownTime,
    /// How far the indexing of a file has come, unless it is done.
    indexing: Option<IndexingView>,
}

/// The most files of a folder that is uploaded; the script has the same bound.
const FOLDER_FILES_MAX: u32 = 2000;

#[derive(Template)]
#[template(path = "folder.html")]
struct FolderPage {
    frame: Frame,
    crumbs: Vec<Crumb>,
    /// The workspace path, as forms send it.
    path: String,
    /// The name; `None` for the home folder.
    name: Option<String>,
    href: String,
    entries: Vec<EntryView>,
    total: String,
    previous: Option<usize>,
    next: Option<usize>,
    refused: Option<RefusedFolder>,
}

/// A new folder that was refused: its form is shown again.
pub(super) struct RefusedFolder {
    pub(super) status: StatusCode,
    /// The reason in words.
    pub(super) reason: String,
    /// The name as it was typed.
    pub(super) name: String,
}

impl FilePages {
    /// Shows a page of a folder's entries, counted from 1, with the form of a new folder in it that was refused.
    pub(super) async fn folder(
        &self,
        user: &User,
        workspace: &Workspace,
        asked: &AskedPath,
        page: usize,
        refused: Option<RefusedFolder>,
    ) -> Result<Response, Response> {
        let texts = user.visitor.texts;
        // A folder may have very many entries. Few are listed at once.
        let _place = self.budgets.made.enter(Holder::Account(user.signed_in.principal.account())).await;
        let listing = workspace.list(asked).await.map_err(|error| user.failed(error))?;
        let principal = &user.signed_in.principal;
        let indexing = self.files.indexing(principal, &listing.path).await;
        let indexing = indexing.map_err(|error| user.failed(error))?;
        let frame = Frame::load(&self.conversations, user, None).await?;
        let total = listing.entries.len();
        let page = page.clamp(1, total.div_ceil(SHOWN_MAX).max(1));
        let shown = listing.entries.into_iter().skip((page - 1) * SHOWN_MAX).take(SHOWN_MAX);
        let path = listing.path.to_string();
        let status = refused.as_ref().map(|refused| refused.status);
        let page = FolderPage {
            frame,
            crumbs: crumbs(texts, &listing.path),
            name: listing.path.split().map(|_| name_of(&path)),
            href: folder_href(&path),
            path,
            entries: shown.map(|entry| EntryView::of(texts, entry, &indexing)).collect(),
            total: texts.with("files-count", "count", total),
            previous: (page > 1).then(|| page - 1),
            next: (page * SHOWN_MAX < total).then_some(page + 1),
            refused,
        };
        let rendered = error::rendered(&page);
        Ok(match status {
            Some(status) => (status, rendered).into_response(),
            None => rendered,
        })
    }
}

impl EntryView {
    fn of(texts: Texts, entry: Entry, indexing: &FolderIndexing) -> Self {
        let path = entry.path.to_string();
        let href = folder_href(&path);
        let (shown, download) = match entry.kind {
            EntryKind::File => (Some(format!("{href}?view")), Some(href)),
            EntryKind::Folder => (Some(href.clone()), Some(format!("{href}?archive"))),
            // What it leads to may be a file.
            EntryKind::Link => (Some(href.clone()), Some(href)),
            EntryKind::Other => (None, None),
        };
        let is_file = entry.kind == EntryKind::File;
        let indexing = is_file.then(|| indexed(indexing, &path, entry.size, entry.modified));
        Self {
            name: shown_name(&entry.name),
            path,
            indexing: indexing.and_then(|indexing| IndexingView::of(texts, indexing)),
            href: shown,
            download,
            is_folder: entry.kind == EntryKind::Folder,
            size: if is_file { shown_size(texts, entry.size) } else { String::new() },
            modified: ShownTime::time(texts, entry.modified),
        }
    }
}

/// Returns the address of a folder's page, or of a file.
pub(super) fn folder_href(path: &str) -> String {
    if path == "/" { crate::paths::FILES.to_owned() } else { file_href(path) }
}

/// Returns the folders above a path, and the entry itself, from the home folder on.
pub(super) fn crumbs(texts: Texts, path: &WorkspacePath) -> Vec<Crumb> {
    let mut crumbs = Vec::new();
    let mut at = Some(path.clone());
    while let Some(path) = at {
        let shown = path.to_string();
        let parent = path.split().map(|(parent, _)| parent);
        let name = if parent.is_some() { name_of(&shown) } else { texts.get("files-home") };
        crumbs.push(Crumb { name, href: folder_href(&shown) });
        at = parent;
    }
    crumbs.reverse();
    crumbs
}
