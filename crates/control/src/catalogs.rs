//! Skills and agents: what there is, kept up to date with the operator's folders (section 4.2 of the interface).

use std::cmp::Reverse;
use std::collections::HashMap;

use domain::id::AccountId;
use engine::Plugins;
use plugins::Skill;
use store::{Store, StoreError, skills};

/// A skill or an agent as its catalog lists it (section 2.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    /// Its identifier, a UUID.
    pub id: String,
    /// Its short name.
    pub name: String,
    /// `<plugin>:<name>`
    pub full_name: String,
    /// What it is for.
    pub description: String,
}

/// The catalogs of skills and agents. Cheap to clone.
#[derive(Clone)]
pub struct Catalogs {
    pub(crate) store: Store,
    pub(crate) plugins: Plugins,
}

impl Catalogs {
    /// The skills, those that the account has used most first, then by full name.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn skills(&self, account: AccountId) -> Result<Vec<CatalogEntry>, StoreError> {
        let uses = self.store.read(move |tx| skills::uses(tx, account)).await?;
        let uses: HashMap<String, u64> = uses.into_iter().collect();
        let library = self.plugins.library();
        let mut skills: Vec<&Skill> = library.skills.iter().collect();
        // They are sorted by full name, and those that are used alike stay so.
        skills.sort_by_key(|skill| Reverse(uses.get(&skill.name.full_name).copied().unwrap_or(0)));
        let listed = skills.into_iter().map(|skill| CatalogEntry {
            id: skill.name.id.to_string(),
            name: skill.name.name.clone(),
            full_name: skill.name.full_name.clone(),
            description: skill.description.clone(),
        });
        Ok(listed.collect())
    }

    /// The agents, by full name.
    #[must_use]
    pub fn agents(&self) -> Vec<CatalogEntry> {
        let library = self.plugins.library();
        let listed = library.agents.iter().map(|agent| CatalogEntry {
            id: agent.id.to_string(),
            name: agent.name.clone(),
            full_name: agent.full_name.clone(),
            description: agent.description.clone(),
        });
        listed.collect()
    }
}
