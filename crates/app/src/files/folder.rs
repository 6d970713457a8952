//! The page of a folder.

use std::cmp::Reverse;

use askama::Template;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use http_common::BudgetHolder;
use machine::FolderIndexReport;
use workspace::{
    AskedPath, ListingEntry, Workspace, WorkspaceEntryKind, WorkspaceError, WorkspaceListing, WorkspacePath,
};

use super::FilePages;
use super::indexing::{IndexingView, file_indexing};
use super::name_order::name_sort_key;
use crate::error;
use crate::frame::PageFrame;
use crate::links::{file_href, name_of, shown_name};
use crate::shown_size::shown_size;
use crate::shown_time::ShownTime;
use crate::texts::Texts;
use crate::visit::SignedInVisitor;

/// The entries of one page.
const SHOWN_MAX: usize = 200;
/// Longer words are cut before names are searched for them.
const SEARCHED_MAX_CHARS: usize = 200;

/// A part of the path above the entries.
pub(super) struct Crumb {
    pub(super) name: String,
    pub(super) href: String,
}

/// An entry of the folder.
struct FolderEntryView {
    name: String,
    path: String,
    /// The page of a folder, or the preview of a file; `None` for links and other entries.
    href: Option<String>,
    /// The download of a file, or of a folder as an archive.
    download: Option<String>,
    is_folder: bool,
    size: String,
    modified: ShownTime,
    /// The progress of a file's indexing, unless it is complete.
    indexing: Option<IndexingView>,
}

/// The maximum number of files of an uploaded folder; the script has the same limit.
const FOLDER_FILES_MAX: u32 = 2000;

#[derive(Template)]
#[template(path = "folder.html")]
struct FolderPage {
    frame: PageFrame,
    crumbs: Vec<Crumb>,
    /// The workspace path, as forms send it.
    path: String,
    /// The name; `None` for the home folder.
    name: Option<String>,
    href: String,
    entries: Vec<FolderEntryView>,
    total: String,
    /// The note that a search may have more results.
    found_max: Option<String>,
    /// The queries of the pages before and after this one.
    previous: Option<String>,
    next: Option<String>,
    /// The words that names were searched for.
    searched: String,
    orders: [OrderOption; SortOrder::ALL.len()],
    refused: Option<RefusedFolder>,
    /// The reason why a change was refused.
    alert: Option<String>,
    /// The confirmation of a change.
    done: Option<String>,
}

/// An order of entries to choose.
struct OrderOption {
    word: &'static str,
    label: String,
    is_chosen: bool,
}

/// A change in the folder that was refused.
pub(super) enum FolderRefusal {
    /// A new folder: its form is shown again with the typed name.
    NewFolder { status: StatusCode, reason: String, name: String },
    /// Another change, with the reason in words.
    Change { status: StatusCode, reason: String },
}

/// The form of a new folder that was refused.
struct RefusedFolder {
    /// The reason in words.
    reason: String,
    name: String,
}

/// The order of entries. Folders come first in any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum SortOrder {
    #[default]
    Name,
    NameDown,
    Smallest,
    Largest,
    Oldest,
    Newest,
}

impl SortOrder {
    const ALL: [Self; 6] =
        [Self::Name, Self::NameDown, Self::Newest, Self::Oldest, Self::Largest, Self::Smallest];

    /// Returns its word in queries.
    const fn query_word(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::NameDown => "name-down",
            Self::Smallest => "size",
            Self::Largest => "size-down",
            Self::Oldest => "date",
            Self::Newest => "date-down",
        }
    }

    /// Returns the key of its name.
    const fn label_key(self) -> &'static str {
        match self {
            Self::Name => "files-sort-name",
            Self::NameDown => "files-sort-name-down",
            Self::Smallest => "files-sort-size",
            Self::Largest => "files-sort-size-down",
            Self::Oldest => "files-sort-date",
            Self::Newest => "files-sort-date-down",
        }
    }

    fn from_query_word(word: &str) -> Self {
        Self::ALL.into_iter().find(|order| order.query_word() == word).unwrap_or_default()
    }

    /// Sorts entries that are in the order of their paths, which decides between names of the same key.
    fn sort_entries(self, entries: &mut [ListingEntry]) {
        entries.sort_by_cached_key(|entry| name_sort_key(&entry.path.to_string()));
        match self {
            Self::Name => {}
            Self::NameDown => entries.reverse(),
            Self::Smallest => entries.sort_by_key(|entry| entry.size),
            Self::Largest => entries.sort_by_key(|entry| Reverse(entry.size)),
            Self::Oldest => entries.sort_by_key(|entry| entry.modified),
            Self::Newest => entries.sort_by_key(|entry| Reverse(entry.modified)),
        }
        entries.sort_by_key(|entry| entry.kind != WorkspaceEntryKind::Folder);
    }
}

/// The part of a folder that is shown.
#[derive(Debug, Clone, Default)]
pub(super) struct FolderView {
    /// The page, counted from 1.
    page: usize,
    /// The words that names are searched for; empty to list the folder.
    searched: String,
    order: SortOrder,
    /// The change that has led here, and the number of its files and folders.
    done: Option<(FolderChange, usize)>,
}

/// A change of files and folders that a folder confirms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FolderChange {
    Renamed,
    Moved,
    Deleted,
}

impl FolderChange {
    const ALL: [Self; 3] = [Self::Renamed, Self::Moved, Self::Deleted];

    /// Returns its word in queries.
    const fn query_word(self) -> &'static str {
        match self {
            Self::Renamed => "renamed",
            Self::Moved => "moved",
            Self::Deleted => "deleted",
        }
    }

    /// Returns the key of its confirmation.
    const fn label_key(self) -> &'static str {
        match self {
            Self::Renamed => "files-renamed",
            Self::Moved => "files-moved",
            Self::Deleted => "files-deleted",
        }
    }

    /// Leads to a folder, which confirms the change of this number of files and folders.
    pub(super) fn redirect_to(self, folder: &str, count: usize) -> Response {
        let href = folder_href(folder);
        Redirect::to(&format!("{href}?done={}&count={count}", self.query_word())).into_response()
    }
}

impl FolderView {
    pub(super) fn new(page: usize, searched: &str, order: &str) -> Self {
        let searched = searched.trim().chars().take(SEARCHED_MAX_CHARS).collect();
        Self { page, searched, order: SortOrder::from_query_word(order), done: None }
    }

    /// Adds the change that has led here, by its word.
    pub(super) fn after_change(self, word: &str, count: usize) -> Self {
        let change = FolderChange::ALL.into_iter().find(|change| change.query_word() == word);
        Self { done: change.map(|change| (change, count)), ..self }
    }

    /// Returns the query of a page of the same entries.
    fn page_query(&self, page: usize) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        if !self.searched.is_empty() {
            query.append_pair("q", &self.searched);
        }
        if self.order != SortOrder::default() {
            query.append_pair("sort", self.order.query_word());
        }
        query.append_pair("page", &page.to_string()).finish()
    }
}

impl FilePages {
    /// Shows a page of a folder's entries, with the change in it that was refused.
    pub(super) async fn render_folder(
        &self,
        user: &SignedInVisitor,
        workspace: &Workspace,
        asked: &AskedPath,
        view: FolderView,
        refusal: Option<FolderRefusal>,
    ) -> Result<Response, Response> {
        let texts = user.visitor.texts;
        // A folder may have very many entries. Few are listed at once.
        let _place =
            self.budgets.made.acquire_permit(BudgetHolder::Account(user.signed_in.principal.account())).await;
        let (listing, is_cut) = list_or_search(workspace, asked, &view.searched)
            .await
            .map_err(|error| user.failure_response(error))?;
        let principal = &user.signed_in.principal;
        let indexing = self.files.folder_indexing(principal, &listing.path).await;
        let indexing = indexing.map_err(|error| user.failure_response(error))?;
        let frame = PageFrame::load(&self.conversations, user, None).await?;
        let mut entries = Vec::from(listing.entries);
        view.order.sort_entries(&mut entries);
        let total = entries.len();
        let page = view.page.clamp(1, total.div_ceil(SHOWN_MAX).max(1));
        let shown = entries.into_iter().skip((page - 1) * SHOWN_MAX).take(SHOWN_MAX);
        let path = listing.path.to_string();
        let (status, refused, alert) = match refusal {
            None => (None, None, None),
            Some(FolderRefusal::NewFolder { status, reason, name }) => {
                (Some(status), Some(RefusedFolder { reason, name }), None)
            }
            Some(FolderRefusal::Change { status, reason }) => (Some(status), None, Some(reason)),
        };
        let orders = SortOrder::ALL.map(|order| OrderOption {
            word: order.query_word(),
            label: texts.get(order.label_key()),
            is_chosen: order == view.order,
        });
        let page = FolderPage {
            frame,
            crumbs: folder_crumbs(texts, &listing.path),
            name: listing.path.split_name().map(|_| name_of(&path)),
            href: folder_href(&path),
            entries: shown.map(|entry| FolderEntryView::from_entry(texts, entry, &path, &indexing)).collect(),
            path,
            total: texts.with("files-count", "count", total),
            found_max: is_cut.then(|| texts.with("files-search-cut", "count", total)),
            previous: (page > 1).then(|| view.page_query(page - 1)),
            next: (page * SHOWN_MAX < total).then(|| view.page_query(page + 1)),
            searched: view.searched,
            orders,
            refused,
            alert,
            done: view.done.map(|(change, count)| texts.with(change.label_key(), "count", count)),
        };
        let rendered = error::render_template(&page);
        Ok(match status {
            Some(status) => (status, rendered).into_response(),
            None => rendered,
        })
    }
}

/// Lists a folder, or the results of a search in and below it. Returns whether more entries may exist.
async fn list_or_search(
    workspace: &Workspace,
    asked: &AskedPath,
    searched: &str,
) -> Result<(WorkspaceListing, bool), WorkspaceError> {
    if searched.is_empty() {
        return Ok((workspace.list_folder(asked).await?, false));
    }
    let found = workspace.search_entries(asked, searched).await?;
    Ok((found.listing, found.is_cut))
}

impl FolderEntryView {
    /// Creates the view of an entry of a folder, or of one below it, whose name then has its folders.
    fn from_entry(texts: Texts, entry: ListingEntry, folder: &str, indexing: &FolderIndexReport) -> Self {
        let path = entry.path.to_string();
        let relative = path.strip_prefix(folder).map(|below| below.trim_start_matches('/'));
        let below = relative.filter(|relative| relative.contains('/'));
        let name = below.map_or_else(|| shown_name(&entry.name), shown_name);
        let is_below = below.is_some();
        let href = folder_href(&path);
        let (shown, download) = match entry.kind {
            WorkspaceEntryKind::File => (Some(format!("{href}?view")), Some(href)),
            WorkspaceEntryKind::Folder => (Some(href.clone()), Some(format!("{href}?archive"))),
            // Its target may be a file.
            WorkspaceEntryKind::Link => (Some(href.clone()), Some(href)),
            WorkspaceEntryKind::Other => (None, None),
        };
        let is_file = entry.kind == WorkspaceEntryKind::File;
        // Only the states of the folder itself are known.
        let indexing =
            (is_file && !is_below).then(|| file_indexing(indexing, &path, entry.size, entry.modified));
        Self {
            name,
            path,
            indexing: indexing.and_then(|indexing| IndexingView::from_indexing(texts, indexing)),
            href: shown,
            download,
            is_folder: entry.kind == WorkspaceEntryKind::Folder,
            size: if is_file { shown_size(texts, entry.size) } else { String::new() },
            modified: ShownTime::from_time(texts, entry.modified),
        }
    }
}

/// Returns the address of a folder's page, or of a file.
pub(super) fn folder_href(path: &str) -> String {
    if path == "/" { crate::paths::FILES.to_owned() } else { file_href(path) }
}

/// Returns the folders above a path, and the entry itself, from the home folder on.
pub(super) fn folder_crumbs(texts: Texts, path: &WorkspacePath) -> Vec<Crumb> {
    let mut crumbs = Vec::new();
    let mut at = Some(path.clone());
    while let Some(path) = at {
        let shown = path.to_string();
        let parent = path.split_name().map(|(parent, _)| parent);
        let name = if parent.is_some() { name_of(&shown) } else { texts.get("files-home") };
        crumbs.push(Crumb { name, href: folder_href(&shown) });
        at = parent;
    }
    crumbs.reverse();
    crumbs
}
