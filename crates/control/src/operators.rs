//! The operations of operators in the web application: the same as those of the commands, in the operator's name.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::account::AccountRole;
use models::{Catalog, VendorHealth};
pub use plugins::Notice;

use crate::error::{PublicCode, UseCaseError};
use crate::sessions::SignedIn;
use crate::{Admin, Plugins};

/// The plugins that are in use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PluginOverview {
    /// The parts of each plugin, by its name.
    pub plugins: BTreeMap<String, PluginParts>,
    /// The problems that were found in plugins.
    pub notices: Vec<Notice>,
    /// The number of further problems.
    pub notices_left_out: usize,
}

/// The number of the parts of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PluginParts {
    pub skills: usize,
    pub agents: usize,
    pub servers: usize,
}

/// The operations of operators who are signed in. Cheap to clone.
#[derive(Clone)]
pub struct Operators {
    pub(crate) admin: Admin,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) plugins: Plugins,
}

impl Operators {
    /// Returns the operations, which the audit log notes under the user's email.
    ///
    /// # Errors
    /// [`PublicCode::NotFound`] for anyone who is not an operator, as if the operations did not exist.
    pub fn admin_for(&self, user: &SignedIn) -> Result<Admin, UseCaseError> {
        match user.role {
            AccountRole::Operator => Ok(self.admin.with_actor(user.email.clone())),
            AccountRole::Owner => Err(UseCaseError::new(PublicCode::NotFound, "not an operator")),
        }
    }

    /// Returns the health of each configured vendor, with the cause of a failure.
    ///
    /// # Errors
    /// Like [`Operators::admin`].
    pub fn vendors_health(&self, user: &SignedIn) -> Result<Vec<VendorHealth>, UseCaseError> {
        self.admin_for(user)?;
        Ok(self.catalog.vendors_health())
    }

    /// Returns the plugins that are in use, with the problems that were found in them.
    ///
    /// # Errors
    /// Like [`Operators::admin`].
    pub fn plugin_overview(&self, user: &SignedIn) -> Result<PluginOverview, UseCaseError> {
        self.admin_for(user)?;
        let library = self.plugins.library();
        let mut plugins = BTreeMap::<String, PluginParts>::new();
        for skill in &library.skills {
            plugins.entry(skill.plugin.clone()).or_default().skills += 1;
        }
        for agent in &library.agents {
            let plugin = agent.full_name.split(':').next().unwrap_or_default();
            plugins.entry(plugin.to_owned()).or_default().agents += 1;
        }
        for server in &library.servers {
            plugins.entry(server.plugin.clone()).or_default().servers += 1;
        }
        let (notices, notices_left_out) = (library.notices.clone(), library.notices_left_out);
        Ok(PluginOverview { plugins, notices, notices_left_out })
    }
}
