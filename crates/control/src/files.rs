//! The workspace of a principal's account (section 4.3 of the interface), and the indexing of its documents.

use bytes::Bytes;
use domain::id::AccountId;
use domain::scope::Permission;
use machine::preview::{CitedOnPage, DocumentPreview, PageRequest, PreviewRequest, Viewer};
use machine::{FolderIndexReport, GuestConnection, GuestConnectionError, Machines, SupervisorError};
use workspace::{Workspace, WorkspacePath, Workspaces};

use crate::error::UseCaseError;
use crate::principal::Principal;
use crate::workspaces_marker::WorkspacesMarker;

/// The workspaces of all accounts. Cheap to clone.
#[derive(Clone)]
pub struct FileService {
    pub(crate) workspaces: Workspaces,
    pub(crate) machines: Machines,
    pub(crate) marker: WorkspacesMarker,
}

impl FileService {
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

    /// Requests the indexing of files that the principal uploaded, which may start the account's machine. Does not wait
    /// for it.
    ///
    /// # Errors
    /// [`PublicCode::KeyScope`](crate::PublicCode::KeyScope).
    pub async fn index_uploads(
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
