//! Uploads, new folders, deletions.

use std::time::Duration;

use axum::Form;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Json, Redirect, Response};
use control::UseCaseError;
use control::files::UploadFailure;
use http_common::UploadError;
use serde::{Deserialize, Serialize};
use workspace::{
    AskedPath, FileName, NameError, PlacedUpload, SpaceShortage, Workspace, WorkspaceError, WorkspacePath,
};

use super::FilePages;
use super::folder::{FolderChange, FolderRefusal, FolderView, folder_href};
use crate::error;
use crate::texts::Texts;
use crate::visit::SignedInVisitor;

/// The bounds of an upload.
#[derive(Clone, Copy)]
pub(crate) struct UploadLimits {
    /// The largest file, in bytes; `None` to leave it to the quota.
    pub(crate) size_max_bytes: Option<u64>,
    /// The time without progress after which an upload is aborted.
    pub(crate) stall_timeout: Duration,
}

/// A file that was uploaded, for the script.
#[derive(Serialize)]
pub(super) struct StoredFileView {
    name: String,
    path: String,
}

/// The response to the script.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum UploadReply {
    Stored { files: Vec<StoredFileView> },
    Refused { error: String },
}

/// Receives files. A form is redirected to the folder; the script, which accepts JSON, gets the paths of the files.
pub(crate) async fn upload_files(
    State(pages): State<FilePages>,
    State(limits): State<UploadLimits>,
    user: SignedInVisitor,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Response> {
    let UploadLimits { size_max_bytes, stall_timeout } = limits;
    let receive = async |workspace: Workspace| {
        http_common::receive_uploads(&workspace, &headers, body, size_max_bytes, stall_timeout).await
    };
    let received =
        separate_failure(&user, pages.files.upload_files(&user.signed_in.principal, receive).await)?;
    let texts = user.visitor.texts;
    let accepts_json = accepts_json(&headers);
    match received {
        Ok(stored) if accepts_json => {
            Ok((StatusCode::CREATED, Json(UploadReply::from_stored(stored))).into_response())
        }
        Ok(stored) => Ok(Redirect::to(&folder_of(&stored)).into_response()),
        Err(refused) => {
            let (status, error) = upload_refusal(texts, refused);
            if accepts_json {
                return Ok((status, Json(UploadReply::Refused { error })).into_response());
            }
            Err(error::error_page(texts, status, &error))
        }
    }
}

/// Separates the refusal of an upload, which the page or the script shows, from other failures.
#[expect(clippy::result_large_err, reason = "every failure becomes a response at once")]
pub(super) fn separate_failure<T, E>(
    user: &SignedInVisitor,
    outcome: Result<T, UploadFailure<E>>,
) -> Result<Result<T, E>, Response> {
    match outcome {
        Ok(received) => Ok(Ok(received)),
        Err(UploadFailure::Receive(refused)) => Ok(Err(refused)),
        Err(UploadFailure::UseCase(error)) => Err(user.failure_response(error)),
        Err(UploadFailure::Revoked) => Err(StatusCode::UNAUTHORIZED.into_response()),
    }
}

/// Returns true if the request comes from the script rather than a form.
fn accepts_json(headers: &HeaderMap) -> bool {
    headers.get(header::ACCEPT).is_some_and(|accepted| accepted == "application/json")
}

impl UploadReply {
    pub(super) fn from_stored(stored: Vec<PlacedUpload>) -> Self {
        let stored_file =
            |file: PlacedUpload| StoredFileView { name: file.name.to_string(), path: file.path.to_string() };
        Self::Stored { files: stored.into_iter().map(stored_file).collect() }
    }
}

/// Returns the page of the folder in which files were stored.
fn folder_of(stored: &[PlacedUpload]) -> String {
    let folder = stored.first().and_then(|file| file.path.split_name());
    folder_href(&folder.map_or_else(|| "/".to_owned(), |(folder, _)| folder.to_string()))
}

/// Returns the status and the text of a refused upload.
fn upload_refusal(texts: Texts, error: UploadError) -> (StatusCode, String) {
    match error {
        UploadError::Workspace(error) => change_refusal(texts, error),
        UploadError::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, texts.get("error-too-large")),
        UploadError::TooSlow | UploadError::Broken => {
            (StatusCode::REQUEST_TIMEOUT, texts.get("files-broken-off"))
        }
        UploadError::FileMissing => (StatusCode::BAD_REQUEST, texts.get("files-none-chosen")),
        UploadError::TooManyFiles => (
            StatusCode::BAD_REQUEST,
            texts.with("files-too-many", "count", http_common::limits::UPLOADED_TOGETHER_MAX),
        ),
        UploadError::NotAForm
        | UploadError::Malformed(_)
        | UploadError::TooManyParts
        | UploadError::PartTooLarge(_)
        | UploadError::Duplicate(_)
        | UploadError::InvalidTemporary
        | UploadError::TemporaryWithDestination => {
            (StatusCode::BAD_REQUEST, texts.with("error-invalid", "reason", error.to_string()))
        }
    }
}

/// Returns the status and the text of a refused change.
pub(super) fn change_refusal(texts: Texts, error: WorkspaceError) -> (StatusCode, String) {
    let key = match error {
        WorkspaceError::Empty => "files-empty-file",
        WorkspaceError::AlreadyExists => "files-exists",
        WorkspaceError::IntoItself => "files-into-itself",
        WorkspaceError::InvalidName(NameError::Missing) => "files-no-name",
        WorkspaceError::InvalidName(NameError::TooLong) => "files-long-name",
        WorkspaceError::InvalidName(NameError::NotAllowed) | WorkspaceError::InvalidPath(_) => {
            "files-bad-name"
        }
        WorkspaceError::QuotaExceeded(shortage) => match shortage {
            SpaceShortage::Bytes(_) | SpaceShortage::Files(_) => "files-full",
            SpaceShortage::FileTooLarge(_) => "files-over-quota",
            SpaceShortage::Disk => "files-disk-full",
        },
        other => {
            let error = UseCaseError::from(other);
            return (error::status_of_kind(error.kind()), error::error_text(texts, &error));
        }
    };
    (error::status_of_kind(UseCaseError::from(error).kind()), texts.get(key))
}

/// The form of a new folder.
#[derive(Deserialize)]
pub(crate) struct NewFolder {
    folder: String,
    name: String,
}

/// The created folder, for the script.
#[derive(Serialize)]
struct MadeFolder {
    path: String,
}

/// Creates a folder and shows it. The script, which accepts JSON, gets its path.
pub(crate) async fn create_folder(
    State(pages): State<FilePages>,
    user: SignedInVisitor,
    headers: HeaderMap,
    Form(new): Form<NewFolder>,
) -> Result<Response, Response> {
    let texts = user.visitor.texts;
    let workspace =
        pages.files.of_licensed(&user.signed_in.principal).map_err(|error| user.failure_response(error))?;
    match make_folder(&workspace, &new).await {
        Ok(path) if accepts_json(&headers) => {
            Ok((StatusCode::CREATED, Json(MadeFolder { path })).into_response())
        }
        Ok(path) => Ok(Redirect::to(&folder_href(&path)).into_response()),
        Err(error) => {
            let folder = AskedPath::from_text(&new.folder);
            let (status, reason) = change_refusal(texts, error);
            let refused = FolderRefusal::NewFolder { status, reason, name: new.name };
            pages.render_folder(&user, &workspace, &folder, FolderView::default(), Some(refused)).await
        }
    }
}

/// Parses the typed name of a file or folder.
pub(super) fn parse_name(typed: &str) -> Result<FileName, NameError> {
    let name = typed.trim();
    if name.contains(['/', '\\']) {
        return Err(NameError::NotAllowed);
    }
    FileName::from_upload(name)
}

async fn make_folder(workspace: &Workspace, new: &NewFolder) -> Result<String, WorkspaceError> {
    let name = parse_name(&new.name)?;
    let folder = workspace.find_entry(&AskedPath::from_text(&new.folder)).await?.path;
    let path = AskedPath::from(folder.in_folder(&name));
    Ok(workspace.create_folder(&path).await?.to_string())
}

/// The form of a deletion.
#[derive(Deserialize)]
pub(crate) struct FileDeletionForm {
    path: String,
    /// Set to delete only a folder that is empty; another one stays.
    #[serde(default, rename = "if-empty")]
    if_empty: Option<String>,
}

/// Deletes a file, or a folder with its contents, and shows the parent folder.
pub(crate) async fn delete_path(
    State(pages): State<FilePages>,
    user: SignedInVisitor,
    Form(deletion): Form<FileDeletionForm>,
) -> Result<Response, Response> {
    let workspace =
        pages.files.workspace_of(&user.signed_in.principal).map_err(|error| user.failure_response(error))?;
    let asked = AskedPath::from_text(&deletion.path);
    let deleted = if deletion.if_empty.is_none() {
        workspace.delete_path(&asked, true).await
    } else {
        match workspace.delete_empty_folder(&asked).await {
            Err(WorkspaceError::NotEmpty | WorkspaceError::NotAFolder | WorkspaceError::NotFound) => Ok(()),
            done => done,
        }
    };
    deleted.map_err(|error| user.failure_response(error))?;
    let folder = asked.meant_path().ok().and_then(WorkspacePath::split_name).map(|(folder, _)| folder);
    Ok(FolderChange::Deleted.redirect_to(&folder.unwrap_or(WorkspacePath::home()).to_string(), 1))
}
