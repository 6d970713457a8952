//! `/v1/files`: files of the account's workspace. An upload is a temporary one, and the id of a file has its path.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::HttpBody as _;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use control::files::UploadFailure;
use control::{Authenticator, FileService, Principal, UseCaseError};
use domain::scope::Permission::Files;
use domain::time::Timestamp;
use http_common::limits::OUTGOING_IN_FLIGHT_BYTES;
use http_common::{BudgetHolder, HeldShares, RateLimiter, UploadError};
use serde_json::{Value, json};
use workspace::{
    AskedPath, Destination, ListingEntry, OpenFile, SameName, Workspace, WorkspaceEntryKind, WorkspaceError,
};

use crate::chat::json_response;
use crate::error::{OpenAiError, OpenAiResult};
use crate::paging::{PageQuery, list_body, no_such_entry};
use crate::path_ids::id_after;
use crate::sent_files::{TEMPORARY, encode_file_id, path_in_file_id};

/// The path before the ids of files.
const PATH: &str = "/v1/files/";
/// The purpose of each file: that of an upload is not kept.
const PURPOSE: &str = "user_data";

/// The parts of the service that files use. Cheap to clone.
#[derive(Clone)]
pub(crate) struct FilesState {
    pub(crate) access: Authenticator,
    pub(crate) files: FileService,
    pub(crate) guard: Arc<RateLimiter>,
    /// The operator's limit for one file, in bytes.
    pub(crate) upload_max_bytes: Option<u64>,
    /// The time within which a client must make progress.
    pub(crate) stall_timeout: Duration,
}

/// Stores an upload as a temporary file.
pub(crate) async fn upload_file(
    State(state): State<FilesState>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> OpenAiResult<Response> {
    state.access.authorize(&principal, &[Files], "uploadFile")?;
    let _transfer =
        state.guard.budgets.transfers.take_share(BudgetHolder::Account(principal.account()), 1)?;
    let (parts, body) = request.into_parts();
    let receive = async |workspace: Workspace| {
        let (size_max, stall) = (state.upload_max_bytes, state.stall_timeout);
        let form = http_common::upload_form(&workspace, &parts.headers, body, size_max, stall).await?;
        let placed = form.file.place_file(Destination::Temporary, form.name, SameName::KeepBoth).await;
        placed.map_err(UploadError::from)
    };
    let placed = match state.files.upload_files(&principal, receive).await {
        Ok(placed) => placed,
        Err(UploadFailure::UseCase(error)) => return Err(error.into()),
        Err(UploadFailure::Revoked) => return Err(OpenAiError::invalid_key()),
        Err(UploadFailure::Receive(error)) => return Err(error.into()),
    };
    let id = encode_file_id(&placed.path.to_string());
    let file = state.open_file(&principal, &id).await?;
    Ok(json_response(file_body(&file).to_string()))
}

/// Lists the temporary files, those that came inside messages included.
pub(crate) async fn list_files(
    State(state): State<FilesState>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> OpenAiResult<Response> {
    state.access.authorize(&principal, &[Files], "listFiles")?;
    let page = PageQuery::parse(request.uri().query())?;
    let workspace = state.files.workspace_of(&principal)?;
    let folders = folder_entries(&workspace, TEMPORARY).await?;
    let mut folders: Vec<ListingEntry> =
        folders.into_iter().filter(|entry| entry.kind == WorkspaceEntryKind::Folder).collect();
    folders.sort_by(|one, other| (one.modified, &one.path).cmp(&(other.modified, &other.path)));
    if !page.is_ascending {
        folders.reverse();
    }
    // The folder of the last file before the page is where the page begins.
    let mut after = page.after.as_deref();
    let from = match after {
        None => 0,
        Some(id) => {
            let path = path_in_file_id(id).ok_or_else(|| no_such_entry(id))?;
            let is_inside = |folder: &ListingEntry| path.starts_with(&format!("{}/", folder.path));
            folders.iter().position(is_inside).ok_or_else(|| no_such_entry(id))?
        }
    };
    let mut found = Vec::new();
    for folder in &folders[from..] {
        let inside = folder_entries(&workspace, &folder.path.to_string()).await?;
        let inside = inside.into_iter().filter(|entry| entry.kind == WorkspaceEntryKind::File);
        let inside: Vec<Value> = inside.map(|entry| entry_body(&entry)).collect();
        let known = after.take().map(|id| inside.iter().position(|file| file["id"] == id));
        let skipped = known.map_or(0, |known| known.map_or(inside.len(), |at| at + 1));
        found.extend(inside.into_iter().skip(skipped));
        if found.len() > page.limit {
            break;
        }
    }
    let has_more = found.len() > page.limit;
    found.truncate(page.limit);
    Ok(json_response(list_body(found, has_more).to_string()))
}

/// Returns what is known of a file.
pub(crate) async fn find_file(
    State(state): State<FilesState>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> OpenAiResult<Response> {
    state.access.authorize(&principal, &[Files], "findFile")?;
    let file = state.open_file(&principal, id_after(&request, PATH)).await?;
    Ok(json_response(file_body(&file).to_string()))
}

/// Sends the content of a file.
pub(crate) async fn send_content(
    State(state): State<FilesState>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> OpenAiResult<Response> {
    state.access.authorize(&principal, &[Files], "downloadFile")?;
    let holder = BudgetHolder::Account(principal.account());
    let transfer = state.guard.budgets.transfers.take_share(holder, 1)?;
    let file = state.open_file(&principal, id_after(&request, PATH)).await?;
    let response = match http_common::download_response(&file, request.method(), request.headers()) {
        Ok(response) => response,
        Err(refused) => {
            let range = [(header::CONTENT_RANGE, refused.content_range())];
            return Ok((range, OpenAiError::range_not_satisfiable(refused)).into_response());
        }
    };
    // A short content is not checked again.
    let size = response.body().size_hint().exact();
    let mut response = if size.is_none_or(|size| size > OUTGOING_IN_FLIGHT_BYTES as u64) {
        http_common::abort_response_when(response, || {
            state.access.clone().await_revocation(principal.clone())
        })
    } else {
        response
    };
    HeldShares::hold_share(response.extensions_mut(), transfer);
    Ok(response)
}

/// Deletes a file.
pub(crate) async fn delete_file(
    State(state): State<FilesState>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> OpenAiResult<Response> {
    state.access.authorize(&principal, &[Files], "deleteFile")?;
    let id = id_after(&request, PATH);
    // A folder is no file here, and stays.
    let file = state.open_file(&principal, id).await?;
    let path = AskedPath::from_text(&file.path.to_string());
    let workspace = state.files.workspace_of(&principal)?;
    workspace.delete_path(&path, false).await.map_err(|error| refusal_of(id, error))?;
    Ok(json_response(json!({"id": id, "object": "file", "deleted": true}).to_string()))
}

impl FilesState {
    async fn open_file(&self, principal: &Principal, id: &str) -> OpenAiResult<OpenFile> {
        let path = path_in_file_id(id).ok_or_else(|| OpenAiError::not_found("file", id))?;
        let workspace = self.files.workspace_of(principal)?;
        let opened = Box::pin(workspace.open_file(&AskedPath::from_text(&path))).await;
        opened.map_err(|error| refusal_of(id, error))
    }
}

/// Returns the error of a file with this id.
fn refusal_of(id: &str, error: WorkspaceError) -> OpenAiError {
    match error {
        WorkspaceError::NotFound | WorkspaceError::IsFolder | WorkspaceError::NotAFile => {
            OpenAiError::not_found("file", id)
        }
        error => UseCaseError::from(error).into(),
    }
}

/// Lists a folder; one that is missing is empty.
async fn folder_entries(workspace: &Workspace, path: &str) -> OpenAiResult<Vec<ListingEntry>> {
    match workspace.list_folder(&AskedPath::from_text(path)).await {
        Ok(listing) => Ok(listing.entries.into()),
        Err(WorkspaceError::NotFound | WorkspaceError::NotAFolder) => Ok(Vec::new()),
        Err(error) => Err(UseCaseError::from(error).into()),
    }
}

fn file_body(file: &OpenFile) -> Value {
    body_of(&file.path.to_string(), &file.name, file.size, file.modified)
}

fn entry_body(entry: &ListingEntry) -> Value {
    body_of(&entry.path.to_string(), &entry.name, entry.size, entry.modified)
}

fn body_of(path: &str, name: &str, size: u64, modified: Timestamp) -> Value {
    json!({"id": encode_file_id(path), "object": "file", "bytes": size,
        "created_at": modified.micros().div_euclid(1_000_000), "expires_at": null, "filename": name,
        "purpose": PURPOSE, "status": "processed", "status_details": null})
}

impl From<UploadError> for OpenAiError {
    fn from(error: UploadError) -> Self {
        match error {
            UploadError::Workspace(error) => UseCaseError::from(error).into(),
            UploadError::TooLarge(_) => Self::of_body(StatusCode::PAYLOAD_TOO_LARGE, "too_large", error),
            UploadError::TooSlow => Self::of_body(StatusCode::REQUEST_TIMEOUT, "too_slow", error),
            UploadError::FileMissing | UploadError::Duplicate(_) => Self::invalid_field("file", error),
            UploadError::NotAForm
            | UploadError::Malformed(_)
            | UploadError::TooManyParts
            | UploadError::TooManyFiles
            | UploadError::PartTooLarge(_)
            | UploadError::InvalidTemporary
            | UploadError::TemporaryWithDestination
            | UploadError::Broken => Self::invalid(error),
        }
    }
}
