//! The form of a page that uploads many files at once.

use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_DISPOSITION;
use multer::{Field, Multipart};
use workspace::{Destination, PlacedUpload, SameName, Workspace};

use crate::body::{Incoming, PullAllowance, discard_body};
use crate::disposition::{field_name, file_name};
use crate::limits::{FORM_HEADERS_MAX_BYTES, FORM_PARTS_MAX, UPLOADED_TOGETHER_MAX};
use crate::upload::{UploadError, checked_destination, form_boundary, read_text, receive_file, skip_part};

/// Reads a form with files of the name `file`, and places each as soon as it is received: in the folder named
/// by a preceding part `destination`, otherwise in the upload folder. A file of the same name is replaced,
/// unless a part `keep-both` precedes them. Fields in which no file was chosen are skipped. At most
/// [`UPLOADED_TOGETHER_MAX`] files; for the other arguments see [`receive_upload`](crate::receive_upload).
///
/// # Errors
/// [`UploadError`], [`UploadError::FileMissing`] if no file was chosen. Files that were placed before remain.
pub async fn receive_uploads(
    workspace: &Workspace,
    headers: &HeaderMap,
    body: Body,
    size_max_bytes: Option<u64>,
    stall_timeout: Duration,
) -> Result<Vec<PlacedUpload>, UploadError> {
    let mut incoming = Incoming::new(body, stall_timeout);
    let read = async {
        let boundary = form_boundary(headers)?;
        let allowance = incoming.allowance();
        let mut files = UploadFilesReader {
            workspace,
            size_max_bytes,
            destination: Destination::Uploads,
            same_name: SameName::Replace,
            placed: Vec::new(),
        };
        files.read_parts(Multipart::new(&mut incoming, boundary), &allowance).await?;
        if files.placed.is_empty() { Err(UploadError::FileMissing) } else { Ok(files.placed) }
    };
    let read = Box::pin(read).await;
    if read.is_err() {
        incoming.allowance().set_bytes(u64::MAX);
        discard_body(&mut incoming).await;
    }
    read
}

struct UploadFilesReader<'a> {
    workspace: &'a Workspace,
    size_max_bytes: Option<u64>,
    destination: Destination,
    same_name: SameName,
    placed: Vec<PlacedUpload>,
}

impl UploadFilesReader<'_> {
    async fn read_parts(
        &mut self,
        mut form: Multipart<'_>,
        allowance: &PullAllowance,
    ) -> Result<(), UploadError> {
        for _ in 0..UPLOADED_TOGETHER_MAX + FORM_PARTS_MAX {
            // The parser buffers all data until it has the part's headers.
            allowance.set_bytes(FORM_HEADERS_MAX_BYTES);
            let Some(part) = form.next_field().await? else { return Ok(()) };
            allowance.set_bytes(u64::MAX);
            self.take_part(part).await?;
        }
        Err(UploadError::TooManyFiles)
    }

    async fn take_part(&mut self, part: Field<'_>) -> Result<(), UploadError> {
        let header = part.headers().get(CONTENT_DISPOSITION);
        let name = header.and_then(|header| field_name(header.as_bytes())).unwrap_or_default();
        let is_unnamed =
            header.and_then(|header| file_name(header.as_bytes())).is_none_or(|name| name.is_empty());
        match name.as_slice() {
            b"file" if is_unnamed => skip_part(part).await,
            b"file" if self.placed.len() == UPLOADED_TOGETHER_MAX => Err(UploadError::TooManyFiles),
            b"file" => {
                let (file, name) = receive_file(self.workspace, part, self.size_max_bytes).await?;
                self.placed.push(file.place_file(self.destination.clone(), name, self.same_name).await?);
                Ok(())
            }
            b"destination" => {
                let asked = checked_destination(self.workspace, &read_text(part).await?).await?;
                self.destination = asked.map_or(Destination::Uploads, Destination::Folder);
                Ok(())
            }
            b"keep-both" => {
                self.same_name = SameName::KeepBoth;
                skip_part(part).await
            }
            _ => skip_part(part).await,
        }
    }
}
