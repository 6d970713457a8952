//! Uploads of large files in pieces, which go on where a broken connection ended them.
//!
//! The script begins an upload, sends pieces at their offsets, and asks how much arrived when one failed. A piece is a body of
//! the size of a form, so it is complete before it is written. What has arrived is a file without a name; it is kept for an
//! hour without a piece, until the service ends, and while the account has few others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Form;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use control::Environment;
use domain::hex;
use domain::id::AccountId;
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use workspace::{AskedPath, Destination, FileName, Staging, Workspace, WorkspaceError};

use super::FilePages;
use super::change::{Outcome, UploadLimits, refused};
use crate::visit::User;

/// The most unfinished uploads of an account; a further one ends the one that was not used for the longest time.
const PER_ACCOUNT_MAX: usize = 8;
/// The most unfinished uploads of all accounts. Each holds an open file.
const ALL_MAX: usize = 512;
/// The time without a piece after which an upload may be ended.
const IDLE_MAX: Duration = Duration::from_secs(3600);

/// The unfinished uploads of this process. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct ResumableUploads(Arc<Mutex<HashMap<String, Unfinished>>>);

/// An upload of which pieces are missing.
struct Unfinished {
    account: AccountId,
    name: FileName,
    destination: Destination,
    /// The size of the whole file.
    size: u64,
    received: u64,
    /// The content so far; `None` while a piece is written.
    staging: Option<Staging>,
    used_at: Timestamp,
}

/// The reason why a piece is not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unexpected {
    /// There is no such upload, or it is another account's.
    Upload,
    /// The piece does not begin where the content ends, or another piece is being written.
    Offset { received: u64 },
}

/// The form that begins an upload.
#[derive(Deserialize)]
pub(crate) struct Beginning {
    name: String,
    size: u64,
    /// The folder; the upload folder if empty.
    #[serde(default)]
    destination: String,
}

/// A new upload.
#[derive(Serialize)]
struct Begun {
    upload: String,
}

/// The progress of an upload.
#[derive(Serialize)]
struct Progress {
    received: u64,
}

impl ResumableUploads {
    fn open(&self) -> MutexGuard<'_, HashMap<String, Unfinished>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an upload; `false` if there are too many.
    fn add(&self, id: String, upload: Unfinished) -> bool {
        let mut open = self.open();
        let now = upload.used_at;
        open.retain(|_, other| now.since(other.used_at) < IDLE_MAX);
        let own = open.iter().filter(|(_, other)| other.account == upload.account);
        let oldest = own.clone().min_by_key(|(_, other)| other.used_at).map(|(id, _)| id.clone());
        if own.count() >= PER_ACCOUNT_MAX
            && let Some(oldest) = oldest
        {
            open.remove(&oldest);
        }
        if open.len() >= ALL_MAX {
            return false;
        }
        open.insert(id, upload);
        true
    }

    /// Returns the size of what has arrived; `None` if there is no such upload of the account.
    fn received(&self, account: AccountId, id: &str) -> Option<u64> {
        self.open().get(id).filter(|upload| upload.account == account).map(|upload| upload.received)
    }

    /// Takes the content to write a piece at an offset. The piece must not exceed the file.
    fn take(&self, account: AccountId, id: &str, offset: u64) -> Result<Staging, Unexpected> {
        let mut open = self.open();
        let upload = open.get_mut(id).filter(|upload| upload.account == account);
        let upload = upload.ok_or(Unexpected::Upload)?;
        let received = upload.received;
        upload.staging.take_if(|_| offset == received).ok_or(Unexpected::Offset { received })
    }

    /// Removes an upload.
    fn remove(&self, id: &str) -> Option<Unfinished> {
        self.open().remove(id)
    }

    /// Puts the content back after a piece. Returns `true` if the file is complete.
    fn put(&self, id: &str, staging: Staging, received: u64, now: Timestamp) -> bool {
        let mut open = self.open();
        let Some(upload) = open.get_mut(id) else { return false };
        (upload.received, upload.used_at, upload.staging) = (received, now, Some(staging));
        received >= upload.size
    }
}

/// Begins an upload.
pub(crate) async fn begin(
    State(pages): State<FilePages>,
    State(limits): State<UploadLimits>,
    State(uploads): State<ResumableUploads>,
    State(environment): State<Environment>,
    user: User,
    Form(beginning): Form<Beginning>,
) -> Result<Response, Response> {
    let texts = user.visitor.texts;
    let principal = &user.signed_in.principal;
    let workspace = pages.files.of(principal).map_err(|error| user.failed(error))?;
    if limits.size_max_bytes.is_some_and(|most| beginning.size > most) {
        let error = texts.get("error-too-large");
        return Ok((StatusCode::PAYLOAD_TOO_LARGE, Json(Outcome::Refused { error })).into_response());
    }
    let prepared = prepare(&workspace, &beginning).await;
    let (name, destination, staging) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return Ok(refusal(&user, error)),
    };
    let id = hex::encode(&environment.bytes::<16>());
    let upload = Unfinished {
        account: principal.account(),
        name,
        destination,
        size: beginning.size,
        received: 0,
        staging: Some(staging),
        used_at: environment.now(),
    };
    if !uploads.add(id.clone(), upload) {
        let error = texts.get("error-unavailable");
        return Ok((StatusCode::SERVICE_UNAVAILABLE, Json(Outcome::Refused { error })).into_response());
    }
    Ok((StatusCode::CREATED, Json(Begun { upload: id })).into_response())
}

/// Checks what can be checked before the content arrives.
async fn prepare(
    workspace: &Workspace,
    beginning: &Beginning,
) -> Result<(FileName, Destination, Staging), WorkspaceError> {
    let name = FileName::from_upload(&beginning.name)?;
    if beginning.size == 0 {
        return Err(WorkspaceError::Empty);
    }
    let destination = match beginning.destination.as_str() {
        "" => Destination::Uploads,
        folder => {
            let asked = AskedPath::from_text(folder)?;
            workspace.find(&asked).await?;
            Destination::Folder(asked)
        }
    };
    Ok((name, destination, workspace.begin_upload().await?))
}

/// Returns how much of an upload has arrived.
pub(crate) async fn progress(
    State(uploads): State<ResumableUploads>,
    user: User,
    Path(id): Path<String>,
) -> Response {
    match uploads.received(user.signed_in.principal.account(), &id) {
        Some(received) => Json(Progress { received }).into_response(),
        None => unknown(&user),
    }
}

/// Writes a piece. The last one completes the file.
pub(crate) async fn append(
    State(uploads): State<ResumableUploads>,
    State(environment): State<Environment>,
    user: User,
    Path((id, offset)): Path<(String, u64)>,
    piece: Bytes,
) -> Response {
    let account = user.signed_in.principal.account();
    let mut staging = match uploads.take(account, &id, offset) {
        Ok(staging) => staging,
        Err(Unexpected::Upload) => return unknown(&user),
        Err(Unexpected::Offset { received }) => {
            return (StatusCode::CONFLICT, Json(Progress { received })).into_response();
        }
    };
    // If this is dropped or fails, the upload is unusable, and the script begins again.
    let written = async {
        staging.write(piece).await?;
        staging.settled().await
    };
    let received = match written.await {
        Ok(received) => received,
        Err(error) => {
            uploads.remove(&id);
            return refusal(&user, error);
        }
    };
    if !uploads.put(&id, staging, received, environment.now()) {
        return Json(Progress { received }).into_response();
    }
    let Some(Unfinished { staging: Some(staging), name, destination, size, .. }) = uploads.remove(&id) else {
        return unknown(&user);
    };
    if received > size {
        let error = user.visitor.texts.get("files-broken-off");
        return (StatusCode::BAD_REQUEST, Json(Outcome::Refused { error })).into_response();
    }
    let placed = async { staging.finish().await?.place(destination, name).await };
    match placed.await {
        Ok(stored) => (StatusCode::CREATED, Json(Outcome::of(vec![stored]))).into_response(),
        Err(error) => refusal(&user, error),
    }
}

fn refusal(user: &User, error: WorkspaceError) -> Response {
    let (status, error) = refused(user.visitor.texts, error);
    (status, Json(Outcome::Refused { error })).into_response()
}

fn unknown(user: &User) -> Response {
    let error = user.visitor.texts.get("files-broken-off");
    (StatusCode::NOT_FOUND, Json(Outcome::Refused { error })).into_response()
}
