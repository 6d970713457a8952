//! Operations on files and folders (section 4.3).

use axum::Extension;
use axum::body::{Body, HttpBody as _};
use axum::extract::{OriginalUri, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use control::files::UploadFailure;
use control::{Authenticator, FileService, Principal, PublicCode};
use domain::excerpt::Excerpt;
use domain::scope::Permission;
use http_common::limits::OUTGOING_IN_FLIGHT_BYTES;
use http_common::{BudgetHolder, Budgets, UploadError};
use serde::Deserialize;
use workspace::{AskedPath, Workspace};

use crate::ApiLimits;
use crate::chats::json_body;
use crate::error::{ApiError, ApiResult, Code};
use crate::extract::Parameters;
use crate::key::unauthorized_response;
use crate::openapi::parameters::{IfNoneMatchHeader, OfPath, Ranged};
use crate::openapi::{error_responses, successes};
use crate::operations::{Accepts, operation};
use crate::wire::{
    CreatedDirectoryBody, DirectoryListingBody, FileIndexingBody, UploadForm, UploadedFileBody, examples,
};

/// The prefixes of files and folders. The rest of the URL is the path in the workspace.
const FILES: &str = "/api/v1/files";
const FOLDERS: &str = "/api/v1/directories";
/// The header of `HEAD` with the state of a file's indexing.
const INDEXING_STATE: HeaderName = HeaderName::from_static("indexing-state");

operation! {
    /// Upload a file
    ///
    /// Atomically replaces an existing file of the same name; an interrupted upload leaves the old file. The
    /// parts may be sent in any order, and unknown parts are ignored.
    upload_file = post "/api/v1/files" as "uploadFile" => store_upload;
    routes: ["/api/v1/files", "/api/v1/files/"];
    needs: &[Permission::Files];
    accepts: Accepts::Form;
    transfer: true;
    schema:
        tag = "Files",
        request_body(
            content = UploadForm, content_type = "multipart/form-data",
            example = json!({"file": "(the bytes of lease.pdf)", "destination": "/contracts"}),
        ),
        responses((status = 201, description = "The file is stored", body = UploadedFileBody), error_responses::Upload),
}

pub(crate) async fn store_upload(
    State(files): State<FileService>,
    State(limits): State<ApiLimits>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Response> {
    let ApiLimits { upload_max_bytes, stall_timeout, .. } = limits;
    let receive = async |workspace: Workspace| {
        http_common::receive_upload(&workspace, &headers, body, upload_max_bytes, stall_timeout).await
    };
    let done = match files.upload_files(&principal, receive).await {
        Ok(done) => done,
        Err(UploadFailure::UseCase(error)) => return Err(error.into()),
        Err(UploadFailure::Revoked) => return Ok(unauthorized_response()),
        Err(UploadFailure::Receive(error)) => return Err(error.into()),
    };
    let uploaded =
        UploadedFileBody { name: done.name.to_string(), path: done.path.to_string(), size: done.size };
    Ok((StatusCode::CREATED, Json(uploaded)).into_response())
}

operation! {
    /// Download a file
    ///
    /// Streams the content with the file's `Content-Type`, never compressed. `HEAD` returns the same headers
    /// without the content, and in `Indexing-State` the progress of the file's indexing: its state as in a
    /// listing, then `reason`, `pages-read` and `pages` if they apply, separated by semicolons.
    download_file = get "/api/v1/files/{path}" as "downloadFile" => send_file;
    routes: ["/api/v1/files/{*path}", "/api/v1/files/"];
    needs: &[Permission::Files];
    transfer: true;
    headers: &[
        (&["200"], &["Accept-Ranges"]),
        (&["200", "206"], &["Content-Disposition", "Content-Length"]),
        (&["206", "416"], &["Content-Range"]),
        (&["200", "206", "304"], &["ETag", "Last-Modified"]),
    ];
    schema:
        tag = "Files",
        params(OfPath, Ranged, IfNoneMatchHeader),
        responses(successes::Downloaded, error_responses::Download),
}

pub(crate) async fn send_file(
    State(files): State<FileService>,
    State(access): State<Authenticator>,
    Extension(principal): Extension<Principal>,
    OriginalUri(uri): OriginalUri,
    method: Method,
    headers: HeaderMap,
) -> ApiResult<Response> {
    file_response(&files, &access, &principal, uri.path(), &method, &headers).await
}

/// Returns the file that a URL names.
pub(crate) async fn file_response(
    files: &FileService,
    access: &Authenticator,
    principal: &Principal,
    url_path: &str,
    method: &Method,
    headers: &HeaderMap,
) -> ApiResult<Response> {
    let path = parse_asked_path(url_path, FILES);
    let file = Box::pin(files.workspace_of(principal)?.open_file(&path)).await?;
    let response = match http_common::download_response(&file, method, headers) {
        Ok(mut response) => {
            if *method == Method::HEAD
                && let Some(folder) = file.path.split_name().map(|(folder, _)| folder)
            {
                let known = files.folder_indexing(principal, &folder).await?;
                let modified = file.modified.micros().div_euclid(1_000_000);
                let indexing = known.file_indexing(&file.path.to_string(), file.size, modified);
                let value = HeaderValue::try_from(FileIndexingBody::from_indexing(indexing).header_value())
                    .map_err(ApiError::internal)?;
                response.headers_mut().insert(INDEXING_STATE, value);
            }
            response
        }
        Err(refused) => {
            let range = [(header::CONTENT_RANGE, refused.content_range())];
            return Ok((range, ApiError::new(Code::RangeNotSatisfiable, refused)).into_response());
        }
    };
    // A short response is not checked again.
    if response.body().size_hint().exact().is_none_or(|size| size > OUTGOING_IN_FLIGHT_BYTES as u64) {
        return Ok(http_common::abort_response_when(response, || {
            access.clone().await_revocation(principal.clone())
        }));
    }
    Ok(response)
}

/// The query of a deletion.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeleteFileQuery {
    /// Whether to delete a folder with everything in it.
    #[param(value_type = bool, required = false, default = false, example = true)]
    recursive: Option<String>,
}

operation! {
    /// Delete a file or a folder
    ///
    /// Deleting a link deletes the link, not its target. Deleting a temporary file also deletes its folder. If
    /// both the path as written and the decoded path exist, nothing is deleted.
    delete_file = delete "/api/v1/files/{path}" as "deleteFile" => delete_path;
    routes: ["/api/v1/files/{*path}", "/api/v1/files/"];
    needs: &[Permission::Files];
    schema:
        tag = "Files",
        params(OfPath, DeleteFileQuery),
        responses((status = 204, description = "Deleted"), error_responses::DeleteFile),
}

pub(crate) async fn delete_path(
    State(files): State<FileService>,
    Extension(principal): Extension<Principal>,
    OriginalUri(uri): OriginalUri,
    Parameters(query): Parameters<DeleteFileQuery>,
) -> ApiResult<StatusCode> {
    let recursive = match query.recursive.as_deref() {
        None => false,
        Some(text) => http_common::parse_boolean(text).ok_or_else(|| {
            ApiError::bad_request(format!("recursive is {}: use true or false", Excerpt(text)))
        })?,
    };
    files.workspace_of(&principal)?.delete_path(&parse_asked_path(uri.path(), FILES), recursive).await?;
    Ok(StatusCode::NO_CONTENT)
}

operation! {
    /// List the home folder
    ///
    /// One level: folders first, then files, each sorted by name, without names that begin with a dot.
    list_home_directory = get "/api/v1/directories" as "listHomeDirectory" => list_home;
    routes: ["/api/v1/directories", "/api/v1/directories/"];
    needs: &[Permission::Files];
    schema:
        tag = "Files",
        responses((status = 200, description = "The home folder, one level", body = DirectoryListingBody, example = json!(examples::home())), error_responses::ListHome),
}

pub(crate) async fn list_home(
    files: State<FileService>,
    budgets: State<Budgets>,
    principal: Extension<Principal>,
    uri: OriginalUri,
) -> ApiResult<Response> {
    get_directory(files, budgets, principal, uri).await
}

operation! {
    /// List a folder
    ///
    /// One level: folders first, then files, each sorted by name, without names that begin with a dot. List a
    /// subfolder by another call with the `path` of its entry.
    list_directory = get "/api/v1/directories/{path}" as "listDirectory" => get_directory;
    routes: ["/api/v1/directories/{*path}"];
    needs: &[Permission::Files];
    schema:
        tag = "Files",
        params(OfPath),
        responses((status = 200, description = "The folder, one level", body = DirectoryListingBody), error_responses::ListFolder),
}

pub(crate) async fn get_directory(
    State(files): State<FileService>,
    State(budgets): State<Budgets>,
    Extension(principal): Extension<Principal>,
    OriginalUri(uri): OriginalUri,
) -> ApiResult<Response> {
    // A folder may have very many entries. Their JSON is charged to the account once it exists.
    let _place = budgets.made.acquire_permit(BudgetHolder::Account(principal.account())).await;
    let listing = files.workspace_of(&principal)?.list_folder(&parse_asked_path(uri.path(), FOLDERS)).await?;
    let indexing = files.folder_indexing(&principal, &listing.path).await?;
    let listing = DirectoryListingBody::from_listing(listing, &indexing);
    Ok(json_body(serde_json::to_vec(&listing).map_err(ApiError::internal)?))
}

operation! {
    /// Create a folder
    ///
    /// The parent folder must exist.
    create_directory = post "/api/v1/directories/{path}" as "createDirectory" => create_folder;
    routes: ["/api/v1/directories/{*path}", "/api/v1/directories/"];
    needs: &[Permission::Files];
    schema:
        tag = "Files",
        params(OfPath),
        responses((status = 201, description = "The folder is created", body = CreatedDirectoryBody), error_responses::CreateFolder),
}

pub(crate) async fn create_folder(
    State(files): State<FileService>,
    Extension(principal): Extension<Principal>,
    OriginalUri(uri): OriginalUri,
) -> ApiResult<(StatusCode, Json<CreatedDirectoryBody>)> {
    let path = files.workspace_of(&principal)?.create_folder(&parse_asked_path(uri.path(), FOLDERS)).await?;
    let path = path.to_string();
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    Ok((StatusCode::CREATED, Json(CreatedDirectoryBody { name, path })))
}

/// Returns the workspace path in a URL, as it was sent.
fn parse_asked_path(url_path: &str, prefix: &str) -> AskedPath {
    AskedPath::from_url(url_path.strip_prefix(prefix).unwrap_or_default())
}

impl From<UploadError> for ApiError {
    fn from(error: UploadError) -> Self {
        match error {
            UploadError::Workspace(error) => error.into(),
            UploadError::TooLarge(_) => Self::new(PublicCode::TooLarge, error),
            UploadError::TooSlow => Self::new(Code::TooSlow, error),
            UploadError::NotAForm
            | UploadError::Malformed(_)
            | UploadError::TooManyParts
            | UploadError::TooManyFiles
            | UploadError::PartTooLarge(_)
            | UploadError::Duplicate(_)
            | UploadError::FileMissing
            | UploadError::InvalidTemporary
            | UploadError::TemporaryWithDestination
            | UploadError::Broken => Self::bad_request(error),
        }
    }
}
