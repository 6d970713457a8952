//! The catalogs that a question may choose from: models, jurisdictions, skills and agents (section 4.2 of the interface).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use domain::catalog::{CatalogJurisdiction, ModelEntry, ModelStatus};
use domain::scope::Permission::{self, Ask, Read};
use engine::Plugins;
use models::Catalog;
use plugins::Skill;
use store::{Store, skills};

use crate::error::UseCaseError;
use crate::principal::Principal;

/// The permissions of which one is required to see the catalogs.
const ANY_OF: &[Permission] = &[Read, Ask];

/// A skill or an agent (section 2.4 of the interface).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    /// Its identifier, a UUID.
    pub id: String,
    pub name: String,
    /// `<plugin>:<name>`
    pub full_name: String,
    pub description: String,
}

/// The catalogs. Cheap to clone.
#[derive(Clone)]
pub struct Catalogs {
    pub(crate) store: Store,
    pub(crate) plugins: Plugins,
    pub(crate) models: Arc<Catalog>,
    pub(crate) jurisdictions: Arc<Vec<CatalogJurisdiction>>,
}

impl Catalogs {
    pub(crate) fn new(
        store: &Store,
        plugins: &Plugins,
        models: &Arc<Catalog>,
        jurisdictions: &Arc<Vec<CatalogJurisdiction>>,
    ) -> Self {
        let (models, jurisdictions) = (models.clone(), jurisdictions.clone());
        Self { store: store.clone(), plugins: plugins.clone(), models, jurisdictions }
    }

    /// Lists the models.
    ///
    /// # Errors
    /// [`UseCaseError`].
    pub fn list_models(&self, principal: &Principal) -> Result<Arc<Vec<ModelEntry>>, UseCaseError> {
        principal.require_any(ANY_OF)?;
        Ok(self.models.model_entries())
    }

    /// Returns the recent health of a model's calls.
    #[must_use]
    pub fn model_status(&self, id: &str) -> ModelStatus {
        self.models.model_status(id)
    }

    /// Lists the jurisdictions.
    ///
    /// # Errors
    /// [`UseCaseError`].
    pub fn list_jurisdictions(
        &self,
        principal: &Principal,
    ) -> Result<Arc<Vec<CatalogJurisdiction>>, UseCaseError> {
        principal.require_any(ANY_OF)?;
        Ok(self.jurisdictions.clone())
    }

    /// Lists the skills: by the account's number of uses, then by full name.
    ///
    /// # Errors
    /// [`UseCaseError`].
    pub async fn list_skills(&self, principal: &Principal) -> Result<Vec<CatalogEntry>, UseCaseError> {
        principal.require_any(ANY_OF)?;
        let account = principal.account();
        let uses = self.store.read(move |tx| skills::list_skill_uses(tx, account)).await;
        let uses = uses.map_err(UseCaseError::internal)?;
        let uses: HashMap<String, u64> = uses.into_iter().collect();
        let library = self.plugins.library();
        let mut skills: Vec<&Skill> = library.skills.iter().collect();
        // The library is sorted by full name, and the sort is stable.
        skills.sort_by_key(|skill| Reverse(uses.get(&skill.name.full_name).copied().unwrap_or(0)));
        let listed = skills.into_iter().map(|skill| CatalogEntry {
            id: skill.name.id.to_string(),
            name: skill.name.name.clone(),
            full_name: skill.name.full_name.clone(),
            description: skill.description.clone(),
        });
        Ok(listed.collect())
    }

    /// Lists the agents by full name.
    ///
    /// # Errors
    /// [`UseCaseError`].
    pub fn list_agents(&self, principal: &Principal) -> Result<Vec<CatalogEntry>, UseCaseError> {
        principal.require_any(ANY_OF)?;
        let library = self.plugins.library();
        let listed = library.agents.iter().map(|agent| CatalogEntry {
            id: agent.id.to_string(),
            name: agent.name.clone(),
            full_name: agent.full_name.clone(),
            description: agent.description.clone(),
        });
        Ok(listed.collect())
    }
}
