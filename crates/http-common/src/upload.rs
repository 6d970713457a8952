//! The upload form: section 4.3 of the interface.
//!
//! Its parts come in any order. The file is received before its destination is known, and moved there once
//! the complete form is read; until then it is invisible.

use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use multer::{Field, Multipart};
use tokio::time::timeout;
use workspace::{
    AskedPath, Destination, FileName, PlacedUpload, SameName, StagedUpload, Workspace, WorkspaceEntryKind,
    WorkspaceError,
};

use crate::body::{Incoming, IncomingError, PullAllowance, discard_body};
use crate::boolean::parse_boolean;
use crate::disposition::{field_name, file_name};
use crate::limits::{
    FORM_FIELD_MAX_BYTES, FORM_HEADERS_MAX_BYTES, FORM_PARTS_MAX, UPLOAD_FLUSH_AFTER, UPLOADED_TOGETHER_MAX,
};

/// The reason why an upload was rejected.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// The body is not such a form (400).
    #[error("the body is not multipart/form-data")]
    NotAForm,
    /// The form is malformed (400).
    #[error("the form cannot be read: {0}")]
    Malformed(String),
    /// The form has too many parts (400).
    #[error("the form has too many parts: send at most {FORM_PARTS_MAX}")]
    TooManyParts,
    /// The form of a page has too many files (400).
    #[error("too many files: upload at most {UPLOADED_TOGETHER_MAX} at once")]
    TooManyFiles,
    /// A part other than the file is too large (400).
    #[error("the part {0:?} is larger than {FORM_FIELD_MAX_BYTES} bytes")]
    PartTooLarge(String),
    /// A part occurs twice (400).
    #[error("the form has several parts {0:?}: send one")]
    Duplicate(&'static str),
    /// The form has no part `file` (400).
    #[error("the part \"file\" is missing")]
    FileMissing,
    /// The part `temporary` is neither `true` nor `false` (400).
    #[error("the part \"temporary\" is invalid: use true or false")]
    InvalidTemporary,
    /// `temporary` and `destination` exclude each other (400).
    #[error("temporary and destination cannot be combined: send only one of them")]
    TemporaryWithDestination,
    /// The file exceeds the operator's limit (413).
    #[error("the file is larger than {0} bytes")]
    TooLarge(u64),
    /// The client stalled (408).
    #[error("the body did not arrive in time")]
    TooSlow,
    /// The connection broke, so no response can be sent.
    #[error("the connection closed before the body ended")]
    Broken,
    /// The workspace rejected it; its errors have their own statuses.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
}

/// A parsed form. The file is not placed yet; dropping the form removes it.
#[derive(Debug)]
pub struct UploadedForm {
    /// The content of the file.
    pub file: StagedUpload,
    /// Its name, without folders sent by the client.
    pub name: FileName,
    pub destination: Destination,
}

/// Reads an upload form and places its file.
///
/// # Errors
/// [`UploadError`]; nothing was changed.
pub async fn receive_upload(
    workspace: &Workspace,
    headers: &HeaderMap,
    body: Body,
    size_max_bytes: Option<u64>,
    stall_timeout: Duration,
) -> Result<PlacedUpload, UploadError> {
    let form = upload_form(workspace, headers, body, size_max_bytes, stall_timeout).await?;
    Ok(form.file.place_file(form.destination, form.name, SameName::Replace).await?)
}

/// Reads an upload form: the parts `file`, `destination` and `temporary` in any order; others are skipped.
/// `size_max_bytes` is the operator's limit for a file; the client must make progress within each
/// `stall_timeout`.
///
/// # Errors
/// [`UploadError`]; the file was removed.
pub async fn upload_form(
    workspace: &Workspace,
    headers: &HeaderMap,
    body: Body,
    size_max_bytes: Option<u64>,
    stall_timeout: Duration,
) -> Result<UploadedForm, UploadError> {
    let mut incoming = Incoming::new(body, stall_timeout);
    let read = async {
        let boundary = form_boundary(headers)?;
        if let Some(size_max) = size_max_bytes
            && announced_length(headers) > size_max.saturating_add(others_max())
        {
            return Err(UploadError::TooLarge(size_max));
        }
        let allowance = incoming.allowance();
        let mut form = UploadFormReader::new(workspace, size_max_bytes);
        form.read_parts(Multipart::new(&mut incoming, boundary), &allowance).await?;
        form.into_form()
    };
    let read = Box::pin(read).await;
    if read.is_err() {
        incoming.allowance().set_bytes(u64::MAX);
        discard_body(&mut incoming).await;
    }
    read
}

pub(crate) fn form_boundary(headers: &HeaderMap) -> Result<String, UploadError> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    multer::parse_boundary(content_type.unwrap_or_default()).map_err(|_| UploadError::NotAForm)
}

fn announced_length(headers: &HeaderMap) -> u64 {
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    length.and_then(|length| length.parse().ok()).unwrap_or(0)
}

/// Returns the maximum number of bytes of a form besides the file.
fn others_max() -> u64 {
    FORM_PARTS_MAX as u64 * (FORM_FIELD_MAX_BYTES as u64 + FORM_HEADERS_MAX_BYTES)
}

struct UploadFormReader<'a> {
    workspace: &'a Workspace,
    size_max_bytes: Option<u64>,
    file: Option<(StagedUpload, FileName)>,
    destination: Option<Result<Option<AskedPath>, UploadError>>,
    temporary: Option<bool>,
}

impl<'a> UploadFormReader<'a> {
    fn new(workspace: &'a Workspace, size_max_bytes: Option<u64>) -> Self {
        Self { workspace, size_max_bytes, file: None, destination: None, temporary: None }
    }

    async fn read_parts(
        &mut self,
        mut form: Multipart<'_>,
        allowance: &PullAllowance,
    ) -> Result<(), UploadError> {
        for _ in 0..=FORM_PARTS_MAX {
            // The parser buffers all data until it has the part's headers.
            allowance.set_bytes(FORM_HEADERS_MAX_BYTES);
            let Some(part) = form.next_field().await? else { return Ok(()) };
            allowance.set_bytes(u64::MAX);
            self.take_part(part).await?;
        }
        Err(UploadError::TooManyParts)
    }

    async fn take_part(&mut self, part: Field<'_>) -> Result<(), UploadError> {
        let header = part.headers().get(CONTENT_DISPOSITION);
        let name = header.and_then(|header| field_name(header.as_bytes())).unwrap_or_default();
        match name.as_slice() {
            b"file" if self.file.is_some() => Err(UploadError::Duplicate("file")),
            b"file" => self.take_file(part).await,
            b"destination" if self.destination.is_some() => Err(UploadError::Duplicate("destination")),
            b"destination" => self.take_destination(&read_text(part).await?).await,
            b"temporary" if self.temporary.is_some() => Err(UploadError::Duplicate("temporary")),
            b"temporary" => {
                let text = read_text(part).await?;
                self.temporary = Some(parse_boolean(&text).ok_or(UploadError::InvalidTemporary)?);
                self.check_exclusion()
            }
            _ => skip_part(part).await,
        }
    }

    async fn take_file(&mut self, part: Field<'_>) -> Result<(), UploadError> {
        // Before a long upload.
        if let Some(Err(error)) = self.destination.take_if(|destination| destination.is_err()) {
            return Err(error);
        }
        self.file = Some(receive_file(self.workspace, part, self.size_max_bytes).await?);
        Ok(())
    }

    async fn take_destination(&mut self, text: &str) -> Result<(), UploadError> {
        self.destination = Some(checked_destination(self.workspace, text).await);
        self.check_exclusion()
    }

    /// Fails if the file is temporary and has a destination, whether that exists or not.
    fn check_exclusion(&self) -> Result<(), UploadError> {
        match (self.temporary, &self.destination) {
            (Some(true), Some(Ok(Some(_)) | Err(_))) => Err(UploadError::TemporaryWithDestination),
            _ => Ok(()),
        }
    }

    fn into_form(self) -> Result<UploadedForm, UploadError> {
        let destination = match self.destination.transpose()?.flatten() {
            Some(folder) => Destination::Folder(folder),
            None if self.temporary == Some(true) => Destination::Temporary,
            None => Destination::Uploads,
        };
        let (file, name) = self.file.ok_or(UploadError::FileMissing)?;
        Ok(UploadedForm { file, name, destination })
    }
}

/// Receives the file of a part, without a place yet.
pub(crate) async fn receive_file(
    workspace: &Workspace,
    mut part: Field<'_>,
    size_max_bytes: Option<u64>,
) -> Result<(StagedUpload, FileName), UploadError> {
    let header = part.headers().get(CONTENT_DISPOSITION);
    let name = header.and_then(|header| file_name(header.as_bytes()));
    let name = FileName::from_upload(name.unwrap_or_default()).map_err(WorkspaceError::from)?;
    let mut staging = workspace.begin_upload().await?;
    let mut size = 0u64;
    loop {
        let next = match timeout(UPLOAD_FLUSH_AFTER, part.chunk()).await {
            Ok(next) => next?,
            // A stalled upload releases its memory.
            Err(_) => {
                staging.flush_batch().await?;
                part.chunk().await?
            }
        };
        let Some(bytes) = next else { break };
        size = size.saturating_add(bytes.len() as u64);
        if let Some(size_max) = size_max_bytes.filter(|size_max| size > *size_max) {
            return Err(UploadError::TooLarge(size_max));
        }
        staging.write_chunk(bytes).await?;
    }
    Ok((staging.finish_upload().await?, name))
}

/// Checks the destination before the file if it comes first, so that an error is reported before a long upload. An empty
/// field counts as absent.
pub(crate) async fn checked_destination(
    workspace: &Workspace,
    text: &str,
) -> Result<Option<AskedPath>, UploadError> {
    if text.is_empty() {
        return Ok(None);
    }
    let asked = AskedPath::from_text(text);
    let found = workspace.find_entry(&asked).await?;
    if found.kind == WorkspaceEntryKind::Folder {
        Ok(Some(asked))
    } else {
        Err(WorkspaceError::NotAFolder.into())
    }
}

/// Reads a part within the bounds of a field and drops it.
pub(crate) async fn skip_part(part: Field<'_>) -> Result<(), UploadError> {
    text_bytes(part).await.map(drop)
}

pub(crate) async fn read_text(part: Field<'_>) -> Result<String, UploadError> {
    String::from_utf8(text_bytes(part).await?)
        .map_err(|_| UploadError::Malformed("a part is not UTF-8".to_owned()))
}

async fn text_bytes(mut part: Field<'_>) -> Result<Vec<u8>, UploadError> {
    let mut text = Vec::new();
    while let Some(bytes) = part.chunk().await? {
        if text.len() + bytes.len() > FORM_FIELD_MAX_BYTES {
            return Err(UploadError::PartTooLarge(
                part.name().unwrap_or_default().chars().take(40).collect(),
            ));
        }
        text.extend_from_slice(&bytes);
    }
    Ok(text)
}

impl From<multer::Error> for UploadError {
    fn from(error: multer::Error) -> Self {
        match error {
            multer::Error::StreamReadFailed(cause) => match cause.downcast_ref() {
                Some(IncomingError::Idle) => Self::TooSlow,
                Some(IncomingError::TooMuch) => {
                    Self::Malformed(format!("no part within {FORM_HEADERS_MAX_BYTES} bytes"))
                }
                Some(IncomingError::Broken(_)) | None => Self::Broken,
            },
            other => Self::Malformed(other.to_string()),
        }
    }
}
