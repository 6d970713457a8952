//! Downloads a folder as a ZIP archive. The archive is generated while it is sent and is never completely in
//! memory. Hidden entries and links are left out.

use std::collections::VecDeque;
use std::io;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use domain::time::Timestamp;
use futures_util::{TryStreamExt, stream};
use http_common::{BudgetHolder, BudgetShare, Until, attachment_header};
use workspace::{AskedPath, FileStream, Workspace, WorkspaceEntryKind, WorkspaceError, WorkspacePath};

use super::FilePages;
use super::zip::{BYTES_MAX, ENTRIES_MAX, ZipWriter};
use crate::error;
use crate::visit::{SignedInVisitor, rate_limit_page};

/// An entry of the future archive.
struct Archived {
    /// The name in the archive: the path from the folder on.
    name: String,
    path: WorkspacePath,
    is_folder: bool,
    modified: Timestamp,
}

impl Archived {
    /// Returns its size in memory, including its record in the archive's directory.
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + 3 * self.name.len() + self.path.as_bytes().len()
    }
}

/// The reason why no archive is created.
enum ArchiveRefusal {
    TooLarge,
    Workspace(WorkspaceError),
}

impl FilePages {
    /// Sends a folder as an archive.
    pub(super) async fn send_archive(
        &self,
        user: &SignedInVisitor,
        workspace: &Workspace,
        asked: &AskedPath,
    ) -> Result<Response, Response> {
        let principal = &user.signed_in.principal;
        let found = {
            let _place = self.budgets.made.acquire_permit(BudgetHolder::Account(principal.account())).await;
            list_archived(workspace, asked).await
        };
        let (folder, entries) = found.map_err(|refusal| match refusal {
            ArchiveRefusal::TooLarge => {
                let text = user.visitor.texts.get("files-archive-too-large");
                error::error_page(user.visitor.texts, StatusCode::PAYLOAD_TOO_LARGE, &text)
            }
            ArchiveRefusal::Workspace(error) => user.failure_response(error),
        })?;
        // The list is in memory until the archive is sent, to a client that may be slow.
        let bytes: usize = entries.iter().map(Archived::memory_bytes).sum();
        let held =
            self.budgets.body_bytes.take_share(BudgetHolder::Account(principal.account()), bytes as u64);
        let held = held.map_err(|_| rate_limit_page(user.visitor.texts))?;
        let name = folder.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("files");
        let archive = ArchiveStream {
            workspace: workspace.clone(),
            entries,
            zip: ZipWriter::default(),
            current: None,
            is_finished: false,
            _held: held,
        };
        let pieces = stream::try_unfold(archive, |mut archive| async move {
            Ok::<_, io::Error>(archive.next_bytes().await?.map(|piece| (piece, archive)))
        });
        let body =
            Until::new(Body::from_stream(pieces), self.access.clone().await_revocation(principal.clone()));
        let headers = [
            (header::CONTENT_TYPE, HeaderValue::from_static("application/zip")),
            (header::CONTENT_DISPOSITION, attachment_header(&format!("{name}.zip"))),
            (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox")),
        ];
        Ok((headers, Body::new(body)).into_response())
    }
}

/// Returns the path of the folder and what is in it, folders before their contents.
async fn list_archived(
    workspace: &Workspace,
    asked: &AskedPath,
) -> Result<(String, VecDeque<Archived>), ArchiveRefusal> {
    let root = workspace.list_folder(asked).await.map_err(ArchiveRefusal::Workspace)?;
    let folder = root.path.to_string();
    let prefix = if root.path.is_home() { 1 } else { folder.len() + 1 };
    let (mut found, mut bytes, mut listings) = (VecDeque::new(), 0u64, vec![root]);
    while let Some(listing) = listings.pop() {
        for entry in listing.entries {
            let is_folder = match entry.kind {
                WorkspaceEntryKind::Folder => true,
                WorkspaceEntryKind::File => false,
                WorkspaceEntryKind::Link | WorkspaceEntryKind::Other => continue,
            };
            bytes = bytes.saturating_add(entry.size);
            if found.len() == ENTRIES_MAX || bytes > BYTES_MAX {
                return Err(ArchiveRefusal::TooLarge);
            }
            let shown = entry.path.to_string();
            let name = shown.get(prefix..).unwrap_or(&shown).to_owned();
            found.push_back(Archived { name, path: entry.path.clone(), is_folder, modified: entry.modified });
            if is_folder {
                match workspace.list_folder(&entry.path.into()).await {
                    Ok(inner) => listings.push(inner),
                    // It was removed or replaced in the meantime.
                    Err(WorkspaceError::NotFound | WorkspaceError::NotAFolder) => {}
                    Err(WorkspaceError::TooManyEntries(_)) => return Err(ArchiveRefusal::TooLarge),
                    Err(other) => return Err(ArchiveRefusal::Workspace(other)),
                }
            }
        }
    }
    Ok((folder, found))
}

/// An archive that is being sent.
struct ArchiveStream {
    workspace: Workspace,
    entries: VecDeque<Archived>,
    zip: ZipWriter,
    /// The file that is being sent.
    current: Option<FileStream>,
    is_finished: bool,
    /// The share of the account's memory that the entries take.
    _held: BudgetShare,
}

impl ArchiveStream {
    /// Returns the next bytes; `None` at the end. An error breaks the download off, so that it never looks complete.
    async fn next_bytes(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some(file) = &mut self.current {
                let Some(bytes) = file.try_next().await? else {
                    self.current = None;
                    return Ok(Some(self.zip.end_file().into()));
                };
                self.zip.count_content(&bytes);
                return Ok(Some(bytes));
            }
            let Some(entry) = self.entries.pop_front() else {
                return Ok(if std::mem::replace(&mut self.is_finished, true) {
                    None
                } else {
                    Some(self.zip.end_archive().into())
                });
            };
            if entry.is_folder {
                return Ok(Some(self.zip.add_folder(&entry.name, entry.modified).into()));
            }
            match Box::pin(self.workspace.open_file(&entry.path.into())).await {
                Ok(file) if self.zip.len().saturating_add(file.size) > BYTES_MAX => {
                    return Err(io::Error::other("the files grew beyond the size of an archive"));
                }
                Ok(file) => {
                    self.current = Some(file.stream_range(0..file.size));
                    return Ok(Some(self.zip.begin_file(&entry.name, entry.modified).into()));
                }
                // It was removed or replaced in the meantime.
                Err(WorkspaceError::NotFound | WorkspaceError::IsFolder | WorkspaceError::NotAFile) => {}
                Err(other) => return Err(io::Error::other(other)),
            }
        }
    }
}
