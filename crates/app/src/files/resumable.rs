//! Uploads of large files in pieces, which resume after a broken connection or a restart of the service.
//!
//! The script starts an upload, sends pieces at their offsets, and asks for the received size after a failure.
//! A piece has at most the size of a form, so it is complete before it is written. Its acknowledgement means
//! that it is on disk: the workspace keeps unfinished uploads, within its limits.

use axum::Form;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use serde::{Deserialize, Serialize};
use workspace::{AnnouncedUpload, AppendOutcome, Workspace, WorkspaceError};

use super::FilePages;
use super::change::{UploadLimits, UploadReply, change_refusal, separate_failure};
use crate::visit::SignedInVisitor;

/// The form that begins an upload.
#[derive(Deserialize)]
pub(crate) struct Beginning {
    name: String,
    size: u64,
    /// The folder; the upload folder if empty.
    #[serde(default)]
    destination: String,
    /// The time at which the file was last modified, in milliseconds since 1970.
    modified: Option<i64>,
    /// A digest of samples of the content.
    digest: Option<String>,
    /// Present to keep an existing file of the same name.
    #[serde(default, rename = "keep-both")]
    keep_both: Option<String>,
}

/// A started upload, possibly from an earlier attempt.
#[derive(Serialize)]
struct Begun {
    upload: String,
    received: u64,
}

/// The progress of an upload.
#[derive(Serialize)]
struct ResumableProgress {
    received: u64,
}

/// Starts an upload, or finds the unfinished upload of the same file.
pub(crate) async fn begin_upload(
    State(pages): State<FilePages>,
    State(limits): State<UploadLimits>,
    user: SignedInVisitor,
    Form(beginning): Form<Beginning>,
) -> Result<Response, Response> {
    let workspace =
        pages.files.of_licensed(&user.signed_in.principal).map_err(|error| user.failure_response(error))?;
    if limits.size_max_bytes.is_some_and(|most| beginning.size > most) {
        let error = user.visitor.texts.get("error-too-large");
        return Ok((StatusCode::PAYLOAD_TOO_LARGE, Json(UploadReply::Refused { error })).into_response());
    }
    let announced = AnnouncedUpload {
        name: beginning.name,
        folder: Some(beginning.destination).filter(|folder| !folder.is_empty()),
        size: beginning.size,
        modified: beginning.modified,
        digest: beginning.digest,
        keeps_both: beginning.keep_both.is_some(),
    };
    Ok(match workspace.begin_resumable(announced).await {
        Ok(begun) => {
            (StatusCode::CREATED, Json(Begun { upload: begun.id, received: begun.received })).into_response()
        }
        Err(error) => refusal_response(&user, error),
    })
}

/// Returns the received size of an upload.
pub(crate) async fn show_upload_progress(
    State(pages): State<FilePages>,
    user: SignedInVisitor,
    Path(id): Path<String>,
) -> Result<Response, Response> {
    let workspace =
        pages.files.workspace_of(&user.signed_in.principal).map_err(|error| user.failure_response(error))?;
    Ok(match workspace.resumable_received(&id).await {
        Ok(Some(received)) => Json(ResumableProgress { received }).into_response(),
        Ok(None) => unknown_upload_response(&user),
        Err(error) => refusal_response(&user, error),
    })
}

/// Cancels an upload and removes its received data.
pub(crate) async fn cancel_upload(
    State(pages): State<FilePages>,
    user: SignedInVisitor,
    Path(id): Path<String>,
) -> Result<Response, Response> {
    let workspace =
        pages.files.workspace_of(&user.signed_in.principal).map_err(|error| user.failure_response(error))?;
    Ok(match workspace.cancel_resumable(&id).await {
        Ok(true) => StatusCode::NO_CONTENT.into_response(),
        Ok(false) => unknown_upload_response(&user),
        Err(error) => refusal_response(&user, error),
    })
}

/// Writes a piece. The last one completes the file.
pub(crate) async fn append_piece(
    State(pages): State<FilePages>,
    user: SignedInVisitor,
    Path((id, offset)): Path<(String, u64)>,
    piece: Bytes,
) -> Result<Response, Response> {
    let append = async |workspace: Workspace| workspace.append_piece(&id, offset, piece).await;
    Ok(match separate_failure(&user, pages.files.upload_files(&user.signed_in.principal, append).await)? {
        Ok(AppendOutcome::Received(received)) => Json(ResumableProgress { received }).into_response(),
        Ok(AppendOutcome::Stored(stored)) => {
            (StatusCode::CREATED, Json(UploadReply::from_stored(vec![stored]))).into_response()
        }
        Ok(AppendOutcome::Conflict { received }) => {
            (StatusCode::CONFLICT, Json(ResumableProgress { received })).into_response()
        }
        Ok(AppendOutcome::TooLong) => {
            let error = user.visitor.texts.get("files-broken-off");
            (StatusCode::BAD_REQUEST, Json(UploadReply::Refused { error })).into_response()
        }
        Ok(AppendOutcome::Unknown) => unknown_upload_response(&user),
        Err(error) => refusal_response(&user, error),
    })
}

fn refusal_response(user: &SignedInVisitor, error: WorkspaceError) -> Response {
    let (status, error) = change_refusal(user.visitor.texts, error);
    (status, Json(UploadReply::Refused { error })).into_response()
}

fn unknown_upload_response(user: &SignedInVisitor) -> Response {
    let error = user.visitor.texts.get("files-broken-off");
    (StatusCode::NOT_FOUND, Json(UploadReply::Refused { error })).into_response()
}
