//! The way of operators to their operations in the web application: the commands' own, in the operator's name.

use std::sync::Arc;

use domain::account::Role;
use models::{Catalog, VendorHealth};

use crate::Admin;
use crate::error::{PublicCode, UseCaseError};
use crate::sessions::SignedIn;

/// The operations of operators who are signed in. Cheap to clone.
#[derive(Clone)]
pub struct Operators {
    pub(crate) admin: Admin,
    pub(crate) catalog: Arc<Catalog>,
}

impl Operators {
    /// Returns the operations, which the audit log notes under the user's email.
    ///
    /// # Errors
    /// [`PublicCode::NotFound`] for anybody but an operator, as if there were no such operations.
    pub fn admin(&self, user: &SignedIn) -> Result<Admin, UseCaseError> {
        match user.role {
            Role::Operator => Ok(self.admin.with_actor(user.email.clone())),
            Role::Owner => Err(UseCaseError::new(PublicCode::NotFound, "not an operator")),
        }
    }

    /// Returns the health of each configured vendor, with the cause of a failure.
    ///
    /// # Errors
    /// Like [`Operators::admin`].
    pub fn vendors(&self, user: &SignedIn) -> Result<Vec<VendorHealth>, UseCaseError> {
        self.admin(user)?;
        Ok(self.catalog.vendors())
    }
}
