//! Renames, moves and deletes chosen files and folders, with a page for each, which is shown again after a refusal.

use askama::Template;
use axum::extract::{FromRequest, RawForm, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use workspace::{AskedPath, FileName, Workspace, WorkspaceEntryKind, WorkspaceError, WorkspacePath};

use super::FilePages;
use super::change::{change_refusal, parse_name};
use super::folder::{FolderChange, FolderRefusal, FolderView, folder_href};
use super::name_order::name_sort_key;
use crate::error;
use crate::frame::PageFrame;
use crate::links::names_of;
use crate::texts::Texts;
use crate::visit::SignedInVisitor;

/// The maximum number of files and folders of one form: the entries of one page.
const CHOSEN_MAX: usize = 200;
/// The maximum number of folders proposed as a target.
const PROPOSED_MAX: usize = 200;

/// The change of the chosen ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Arrangement {
    #[default]
    Rename,
    Move,
    Delete,
}

/// A form with chosen files and folders.
#[derive(Debug, Default)]
pub(crate) struct ChosenForm {
    arrangement: Arrangement,
    files: Vec<String>,
    /// The folder to return to.
    folder: String,
    name: Option<String>,
    /// The folder to move to.
    destination: Option<String>,
}

impl<S: Send + Sync> FromRequest<S> for ChosenForm {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let RawForm(fields) =
            RawForm::from_request(request, state).await.map_err(IntoResponse::into_response)?;
        let mut form = Self::default();
        for (name, value) in form_urlencoded::parse(&fields) {
            match (&*name, &*value) {
                ("do", "move") => form.arrangement = Arrangement::Move,
                ("do", "delete") => form.arrangement = Arrangement::Delete,
                // One more than permitted, so that the form is refused.
                ("file", _) if form.files.len() <= CHOSEN_MAX => form.files.push(value.into_owned()),
                ("folder", _) => form.folder = value.into_owned(),
                ("name", _) => form.name = Some(value.into_owned()),
                ("destination", _) => form.destination = Some(value.into_owned()),
                _ => {}
            }
        }
        if form.folder.is_empty() {
            let first = form.files.first().map(|path| AskedPath::from_text(path));
            let folder = first.and_then(|path| Some(path.meant_path().ok()?.split_name()?.0));
            form.folder = folder.unwrap_or(WorkspacePath::home()).to_string();
        }
        Ok(form)
    }
}

/// A file or folder of the form.
struct ChosenView {
    path: String,
    name: String,
    /// The reason why it was left unchanged.
    refused: Option<String>,
}

#[derive(Template)]
#[template(path = "arrange.html")]
struct ArrangePage {
    frame: PageFrame,
    arrangement: Arrangement,
    title: String,
    chosen: Vec<ChosenView>,
    folder: String,
    folder_href: String,
    name: String,
    destination: String,
    /// Folders to move to.
    proposed: Vec<String>,
    /// The reason why the name or the folder was refused.
    error: Option<String>,
}

/// Shows the page on which the chosen ones are renamed, moved or deleted.
pub(crate) async fn show_arrangement(
    State(pages): State<FilePages>,
    user: SignedInVisitor,
    form: ChosenForm,
) -> Result<Response, Response> {
    let workspace =
        pages.files.workspace_of(&user.signed_in.principal).map_err(|error| user.failure_response(error))?;
    let texts = user.visitor.texts;
    let reason = match form.files.len() {
        0 => texts.get("files-choose-first"),
        1..=CHOSEN_MAX => return pages.render_arrangement(&user, &workspace, form, Vec::new(), None).await,
        _ => texts.with("files-choose-fewer", "count", CHOSEN_MAX),
    };
    let folder = AskedPath::from_text(&form.folder);
    let refusal = FolderRefusal::Change { status: StatusCode::BAD_REQUEST, reason };
    pages.render_folder(&user, &workspace, &folder, FolderView::default(), Some(refusal)).await
}

/// Renames a file or a folder.
pub(crate) async fn rename_entry(
    State(pages): State<FilePages>,
    user: SignedInVisitor,
    form: ChosenForm,
) -> Result<Response, Response> {
    let workspace =
        pages.files.of_licensed(&user.signed_in.principal).map_err(|error| user.failure_response(error))?;
    let form = ChosenForm { arrangement: Arrangement::Rename, ..form };
    let asked = AskedPath::from_text(form.files.first().map_or("", String::as_str));
    let named = parse_name(form.name.as_deref().unwrap_or_default());
    let renamed = match named {
        Ok(name) => move_one(&workspace, &asked, None, Some(&name)).await,
        Err(error) => Err(error.into()),
    };
    match renamed {
        Ok(path) => {
            pages.index_moved(&user, &workspace, &[path]).await?;
            Ok(FolderChange::Renamed.redirect_to(&form.folder, form.files.len()))
        }
        Err(failed) => {
            let refused = change_refusal(user.visitor.texts, failed);
            pages.render_arrangement(&user, &workspace, form, Vec::new(), Some(refused)).await
        }
    }
}

/// Moves files and folders to a folder. An entry that cannot be moved stays, and is shown with the reason.
pub(crate) async fn move_files(
    State(pages): State<FilePages>,
    user: SignedInVisitor,
    form: ChosenForm,
) -> Result<Response, Response> {
    let texts = user.visitor.texts;
    let workspace =
        pages.files.of_licensed(&user.signed_in.principal).map_err(|error| user.failure_response(error))?;
    let form = ChosenForm { arrangement: Arrangement::Move, ..form };
    let destination = form.destination.as_deref().unwrap_or_default().trim().to_owned();
    let asked = AskedPath::from_text(&destination);
    let is_folder = match workspace.find_entry(&asked).await {
        Ok(found) => found.kind == WorkspaceEntryKind::Folder && !destination.is_empty(),
        Err(WorkspaceError::NotFound) => false,
        Err(error) => {
            let refused = change_refusal(texts, error);
            return pages.render_arrangement(&user, &workspace, form, Vec::new(), Some(refused)).await;
        }
    };
    if !is_folder {
        let refused = (StatusCode::NOT_FOUND, texts.get("files-no-folder"));
        return pages.render_arrangement(&user, &workspace, form, Vec::new(), Some(refused)).await;
    }
    let (mut moved, mut failed) = (Vec::new(), Vec::new());
    for path in form.files.iter().take(CHOSEN_MAX) {
        match move_one(&workspace, &AskedPath::from_text(path), Some(&asked), None).await {
            Ok(path) => moved.push(path),
            Err(error) => failed.push((path.clone(), change_refusal(texts, error))),
        }
    }
    pages.index_moved(&user, &workspace, &moved).await?;
    pages.show_outcome(&user, &workspace, form, failed).await
}

/// Deletes files, and folders with their contents.
pub(crate) async fn delete_chosen(
    State(pages): State<FilePages>,
    user: SignedInVisitor,
    form: ChosenForm,
) -> Result<Response, Response> {
    let workspace =
        pages.files.workspace_of(&user.signed_in.principal).map_err(|error| user.failure_response(error))?;
    let form = ChosenForm { arrangement: Arrangement::Delete, ..form };
    let mut failed = Vec::new();
    for path in form.files.iter().take(CHOSEN_MAX) {
        match workspace.delete_path(&AskedPath::from_text(path), true).await {
            // The entry was already deleted.
            Ok(()) | Err(WorkspaceError::NotFound) => {}
            Err(error) => failed.push((path.clone(), change_refusal(user.visitor.texts, error))),
        }
    }
    pages.show_outcome(&user, &workspace, form, failed).await
}

/// Moves an entry: to another folder, under its name, or in its own one under another name.
async fn move_one(
    workspace: &Workspace,
    asked: &AskedPath,
    folder: Option<&AskedPath>,
    name: Option<&FileName>,
) -> Result<WorkspacePath, WorkspaceError> {
    let own = asked
        .meant_path()
        .ok()
        .and_then(WorkspacePath::split_name)
        .map(|(folder, _)| AskedPath::from(folder));
    let folder = folder.or(own.as_ref()).ok_or(WorkspaceError::HomeFolder)?;
    workspace.move_entry(asked, folder, name).await
}

impl FilePages {
    /// Has moved files indexed at their new paths. The machine detects moved folders by itself.
    async fn index_moved(
        &self,
        user: &SignedInVisitor,
        workspace: &Workspace,
        moved: &[WorkspacePath],
    ) -> Result<(), Response> {
        let mut files = Vec::new();
        for path in moved {
            let found = workspace.find_entry(&AskedPath::from(path.clone())).await;
            if found.is_ok_and(|found| found.kind == WorkspaceEntryKind::File) {
                files.push(path);
            }
        }
        if files.is_empty() {
            return Ok(());
        }
        let indexed = self.files.index_files(&user.signed_in.principal, &files).await;
        indexed.map_err(|error| user.failure_response(error))
    }

    /// Returns to the folder, or shows the refused changes.
    async fn show_outcome(
        &self,
        user: &SignedInVisitor,
        workspace: &Workspace,
        form: ChosenForm,
        failed: Vec<(String, (StatusCode, String))>,
    ) -> Result<Response, Response> {
        if failed.is_empty() {
            let change = match form.arrangement {
                Arrangement::Rename => FolderChange::Renamed,
                Arrangement::Move => FolderChange::Moved,
                Arrangement::Delete => FolderChange::Deleted,
            };
            return Ok(change.redirect_to(&form.folder, form.files.len()));
        }
        self.render_arrangement(user, workspace, form, failed, None).await
    }

    /// Shows the page of a form, with the refused files, or with the reason why its field was refused.
    async fn render_arrangement(
        &self,
        user: &SignedInVisitor,
        workspace: &Workspace,
        form: ChosenForm,
        failed: Vec<(String, (StatusCode, String))>,
        refused: Option<(StatusCode, String)>,
    ) -> Result<Response, Response> {
        let texts = user.visitor.texts;
        let status = refused.as_ref().or(failed.first().map(|(_, refused)| refused)).map(|refused| refused.0);
        let chosen = if failed.is_empty() { list_unrefused(&form.files) } else { list_refused(failed) };
        let first = chosen.first().map(|chosen| chosen.name.clone()).unwrap_or_default();
        let proposed = match form.arrangement {
            Arrangement::Move => proposed_folders(workspace, &form.folder).await,
            Arrangement::Rename | Arrangement::Delete => Vec::new(),
        };
        let page = ArrangePage {
            frame: PageFrame::load(&self.conversations, user, None).await?,
            arrangement: form.arrangement,
            title: form.arrangement.title_text(texts),
            folder_href: folder_href(&form.folder),
            name: form.name.unwrap_or_else(|| own_name(&form.files).unwrap_or(first)),
            destination: form.destination.unwrap_or_else(|| form.folder.clone()),
            folder: form.folder,
            chosen,
            proposed,
            error: refused.map(|(_, reason)| reason),
        };
        let rendered = error::render_template(&page);
        Ok(match status {
            Some(status) => (status, rendered).into_response(),
            None => rendered,
        })
    }
}

impl Arrangement {
    fn title_text(self, texts: Texts) -> String {
        texts.get(match self {
            Self::Rename => "files-rename",
            Self::Move => "files-move",
            Self::Delete => "files-delete",
        })
    }

    /// Returns the path of its form.
    const fn path(self) -> &'static str {
        match self {
            Self::Rename => crate::paths::RENAME_FILE,
            Self::Move => crate::paths::MOVE_FILES,
            Self::Delete => crate::paths::DELETE_FILES,
        }
    }
}

impl ArrangePage {
    fn is_rename(&self) -> bool {
        self.arrangement == Arrangement::Rename
    }

    fn is_move(&self) -> bool {
        self.arrangement == Arrangement::Move
    }
}

/// Returns the exact name of the first path, even if it is displayed differently.
fn own_name(files: &[String]) -> Option<String> {
    files.first()?.trim_end_matches('/').rsplit('/').next().map(str::to_owned)
}

fn list_unrefused(files: &[String]) -> Vec<ChosenView> {
    let paths: Vec<&str> = files.iter().map(String::as_str).collect();
    let view = |(path, name): (&String, String)| ChosenView { path: path.clone(), name, refused: None };
    files.iter().zip(names_of(&paths)).map(view).collect()
}

fn list_refused(failed: Vec<(String, (StatusCode, String))>) -> Vec<ChosenView> {
    let paths: Vec<&str> = failed.iter().map(|(path, _)| path.as_str()).collect();
    let names = names_of(&paths);
    let view = |((path, (_, reason)), name): ((String, (StatusCode, String)), String)| ChosenView {
        path,
        name,
        refused: Some(reason),
    };
    failed.into_iter().zip(names).map(view).collect()
}

/// Returns the folders to move to: the parents and subfolders of a folder, and the subfolders of the home folder.
async fn proposed_folders(workspace: &Workspace, folder: &str) -> Vec<String> {
    let asked = AskedPath::from_text(folder);
    let mut proposed = Vec::new();
    let mut above = asked.meant_path().ok().cloned();
    while let Some(path) = above {
        proposed.push(path.to_string());
        above = path.split_name().map(|(parent, _)| parent);
    }
    for folder in [asked, AskedPath::from_text("/")] {
        let Ok(listing) = workspace.list_folder(&folder).await else { continue };
        let folders =
            listing.entries.into_iter().take_while(|entry| entry.kind == WorkspaceEntryKind::Folder);
        proposed.extend(folders.map(|entry| entry.path.to_string()));
    }
    proposed.sort();
    proposed.dedup();
    proposed.sort_by_cached_key(|path| name_sort_key(path));
    proposed.truncate(PROPOSED_MAX);
    proposed
}
