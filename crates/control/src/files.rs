//! The workspace of a principal's account (section 4.3 of the interface), and the indexing of its documents.

use domain::scope::Permission;
use machine::{FolderIndexing, Machines};
use workspace::{Workspace, WorkspacePath, Workspaces};

use crate::error::UseCaseError;
use crate::principal::Principal;

/// The workspaces of all accounts. Cheap to clone.
#[derive(Clone)]
pub struct Files {
    pub(crate) workspaces: Workspaces,
    pub(crate) machines: Machines,
}

impl Files {
    /// Returns the workspace of the principal's account. Its operations fail with
    /// [`WorkspaceError`](workspace::WorkspaceError), which converts into [`UseCaseError`].
    ///
    /// # Errors
    /// [`PublicCode::KeyScope`](crate::PublicCode::KeyScope).
    pub fn of(&self, principal: &Principal) -> Result<Workspace, UseCaseError> {
        principal.require(&[Permission::Files])?;
        Ok(self.workspaces.of(principal.account()))
    }

    /// Has files that the principal uploaded indexed, which may start the account's machine. Returns before they are.
    ///
    /// # Errors
    /// [`PublicCode::KeyScope`](crate::PublicCode::KeyScope).
    pub async fn index(&self, principal: &Principal, paths: &[&WorkspacePath]) -> Result<(), UseCaseError> {
        principal.require(&[Permission::Files])?;
        let paths = paths.iter().map(ToString::to_string).collect();
        self.machines.files_changed(principal.account(), paths).await;
        Ok(())
    }

    /// Returns what is known of the indexing of the files in a folder.
    ///
    /// # Errors
    /// [`PublicCode::KeyScope`](crate::PublicCode::KeyScope).
    pub async fn indexing(
        &self,
        principal: &Principal,
        folder: &WorkspacePath,
    ) -> Result<FolderIndexing, UseCaseError> {
        principal.require(&[Permission::Files])?;
        Ok(self.machines.documents(principal.account(), folder.to_string()).await)
    }
}
