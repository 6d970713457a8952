//! The workspace of a principal's account (section 4.3 of the interface), and the indexing of its documents.

use bytes::Bytes;
use domain::id::AccountId;
use domain::scope::Permission;
use machine::preview::{CitedOnPage, DocumentPreview, PageRequest, PreviewRequest, Viewer};
use machine::{FolderIndexReport, GuestConnection, GuestConnectionError, Machines, SupervisorError};
use workspace::{AppendOutcome, PlacedUpload, Workspace, WorkspacePath, Workspaces};

use crate::access::Authenticator;
use crate::error::UseCaseError;
use crate::principal::Principal;
use crate::workspaces_marker::WorkspacesMarker;

/// The workspaces of all accounts. Cheap to clone.
#[derive(Clone)]
pub struct FileService {
    pub(crate) workspaces: Workspaces,
    pub(crate) machines: Machines,
    pub(crate) marker: WorkspacesMarker,
    pub(crate) access: Authenticator,
}

/// The outcome of an upload that may have stored files.
pub trait UploadOutcome {
    fn stored_files(&self) -> &[PlacedUpload];
}

impl UploadOutcome for PlacedUpload {
    fn stored_files(&self) -> &[PlacedUpload] {
        std::slice::from_ref(self)
    }
}

impl UploadOutcome for Vec<PlacedUpload> {
    fn stored_files(&self) -> &[PlacedUpload] {
        self
    }
}

/// A piece, of which the last one completes the file.
impl UploadOutcome for AppendOutcome {
    fn stored_files(&self) -> &[PlacedUpload] {
        match self {
            Self::Stored(stored) => stored.stored_files(),
            Self::Received(_) | Self::Conflict { .. } | Self::TooLong | Self::Unknown => &[],
        }
    }
}

/// The reason why an upload stored nothing; `E` is the reason of the face that received it.
#[derive(Debug)]
pub enum UploadFailure<E> {
    /// The principal may not upload, or the service cannot store anything now.
    UseCase(UseCaseError),
    /// The principal became invalid while the body arrived.
    Revoked,
    /// The body was not received or not stored.
    Receive(E),
}

impl<E> From<UseCaseError> for UploadFailure<E> {
    fn from(error: UseCaseError) -> Self {
        Self::UseCase(error)
    }
}

impl FileService {
    pub(crate) fn new(
        workspaces: &Workspaces,
        machines: &Machines,
        marker: &WorkspacesMarker,
        access: &Authenticator,
    ) -> Self {
        let (workspaces, machines) = (workspaces.clone(), machines.clone());
        Self { workspaces, machines, marker: marker.clone(), access: access.clone() }
    }

    /// Returns the workspace of the principal's account. Its operations fail with
    /// [`WorkspaceError`](workspace::WorkspaceError), which converts into [`UseCaseError`].
    ///
    /// # Errors
    /// [`PublicCode::KeyScope`](crate::PublicCode::KeyScope); [`PublicCode::Unavailable`](crate::PublicCode::Unavailable) if
    /// the file system of the workspaces is not available.
    pub fn workspace_of(&self, principal: &Principal) -> Result<Workspace, UseCaseError> {
        principal.require_any(&[Permission::Files])?;
        self.marker.check_marker()?;
        Ok(self.workspaces.workspace_for(principal.account()))
    }

    /// Returns the workspace of the principal's account, for a change that adds or moves entries.
    ///
    /// # Errors
    /// Those of [`Self::workspace_of`], and [`UseCaseError::licence_ended`].
    pub fn of_licensed(&self, principal: &Principal) -> Result<Workspace, UseCaseError> {
        principal.require_licence()?;
        self.workspace_of(principal)
    }

    /// Receives files into the workspace of the principal's account by `receive`, and requests their indexing. An upload may
    /// take hours, and ends when the principal becomes invalid. Cancel safe if `receive` is.
    ///
    /// # Errors
    /// [`UploadFailure`]; it holds the errors of [`Self::of_licensed`].
    pub async fn upload_files<T: UploadOutcome, E>(
        &self,
        principal: &Principal,
        receive: impl AsyncFnOnce(Workspace) -> Result<T, E>,
    ) -> Result<T, UploadFailure<E>> {
        let workspace = self.of_licensed(principal)?;
        let received = tokio::select! {
            received = Box::pin(receive(workspace)) => received.map_err(UploadFailure::Receive)?,
            () = self.access.clone().await_revocation(principal.clone()) => return Err(UploadFailure::Revoked),
        };
        let paths: Vec<_> = received.stored_files().iter().map(|file| &file.path).collect();
        if !paths.is_empty() {
            self.index_files(principal, &paths).await?;
        }
        Ok(received)
    }

    /// Requests the indexing of files that the principal stored or moved, which may start the account's machine. Does not wait
    /// for it.
    ///
    /// # Errors
    /// [`PublicCode::KeyScope`](crate::PublicCode::KeyScope).
    pub async fn index_files(
        &self,
        principal: &Principal,
        paths: &[&WorkspacePath],
    ) -> Result<(), UseCaseError> {
        principal.require_any(&[Permission::Files])?;
        let paths = paths.iter().map(ToString::to_string).collect();
        self.machines.files_changed(principal.account(), paths).await;
        Ok(())
    }

    /// Returns the known indexing state of the files in a folder.
    ///
    /// # Errors
    /// [`PublicCode::KeyScope`](crate::PublicCode::KeyScope).
    pub async fn folder_indexing(
        &self,
        principal: &Principal,
        folder: &WorkspacePath,
    ) -> Result<FolderIndexReport, UseCaseError> {
        principal.require_any(&[Permission::Files])?;
        Ok(self.machines.documents_in_folder(principal.account(), folder.to_string()).await)
    }

    /// Returns the text of a document for its owner, from a page on, which the account's machine reads, and the place
    /// of a passage on its page. `None` if no machine can read it now, and without a licence, which a machine needs.
    ///
    /// # Errors
    /// [`PublicCode::KeyScope`](crate::PublicCode::KeyScope).
    pub async fn preview_document(
        &self,
        principal: &Principal,
        path: &WorkspacePath,
        first_page: u32,
        cited: Option<CitedOnPage>,
    ) -> Result<Option<DocumentPreview>, UseCaseError> {
        principal.require_any(&[Permission::Files])?;
        if !principal.is_licensed() {
            return Ok(None);
        }
        let request = PreviewRequest { path: path.to_string(), first_page, cited };
        let asked = self
            .of_machine(principal.account(), async move |machine| machine.request_preview(&request).await);
        Ok(asked.await)
    }

    /// Returns a page of a PDF or an image as a PNG or JPEG, which the account's machine draws. `None` if it cannot, and
    /// without a licence.
    ///
    /// # Errors
    /// [`PublicCode::KeyScope`](crate::PublicCode::KeyScope).
    pub async fn page_picture(
        &self,
        principal: &Principal,
        path: &WorkspacePath,
        page: u32,
    ) -> Result<Option<Bytes>, UseCaseError> {
        principal.require_any(&[Permission::Files])?;
        if !principal.is_licensed() {
            return Ok(None);
        }
        let request = PageRequest { path: path.to_string(), page, viewer: Viewer::Person };
        let asked =
            self.of_machine(principal.account(), async move |machine| machine.page_picture(&request).await);
        Ok(asked.await)
    }

    /// Asks the account's machine, which does not become idle meanwhile. A failure is logged.
    async fn of_machine<T>(
        &self,
        account: AccountId,
        ask: impl AsyncFnOnce(GuestConnection) -> Result<T, GuestConnectionError>,
    ) -> Option<T> {
        let asked = async {
            let _turn = self.machines.register_turn(account).await?;
            let machine = self.machines.for_preview(account).await?;
            Ok::<_, SupervisorError>(ask(machine).await)
        };
        match asked.await {
            Ok(Ok(reply)) => Some(reply),
            Ok(Err(error)) => {
                tracing::debug!(%account, %error, "document rendering failed");
                None
            }
            Err(error) => {
                tracing::debug!(%account, %error, "document rendering failed: no machine");
                None
            }
        }
    }
}
