//! The workspace of a principal's account (section 4.3 of the interface).

use domain::scope::Permission;
use workspace::{Workspace, Workspaces};

use crate::error::UseCaseError;
use crate::principal::Principal;

/// The workspaces of all accounts. Cheap to clone.
#[derive(Clone)]
pub struct Files {
    pub(crate) workspaces: Workspaces,
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
}
