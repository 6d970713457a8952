//! What the operator says about models: it changes what vendors tell, or adds to it.

use domain::catalog::{Localized, ModelEntry, ProviderName, Setting};
use domain::credits::Price;
use serde_json::{Map, Value};

/// The most models that are configured.
pub const CONFIGURED_MAX: usize = 500;

/// A model as the operator describes it. What is not said is as the vendor tells, or as holds for its other models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelConfig {
    /// What questions name it by.
    pub id: String,
    /// Which vendor answers for it.
    pub provider: ProviderName,
    /// What the vendor calls it; as `id` says when absent.
    pub vendor_name: Option<String>,
    /// Its label.
    pub label: Option<Localized>,
    /// What it is.
    pub description: Option<Localized>,
    /// Whether an effort of reasoning is offered.
    pub reasoning_effort: Option<bool>,
    /// Whether it is shown images.
    pub sees_images: Option<bool>,
    /// Credits for an answer, in thousandths.
    pub base_millis: Option<u64>,
    /// Credits for a thousand tokens read, in thousandths.
    pub input_millis: Option<u64>,
    /// Credits for a thousand tokens written, in thousandths.
    pub output_millis: Option<u64>,
    /// How many tokens it reads and writes together.
    pub context_tokens: Option<u32>,
    /// The most tokens that one step writes.
    pub output_max_tokens: Option<u32>,
    /// Whether others should be chosen in its place.
    pub deprecated: Option<bool>,
    /// Whether it is left out of the catalog.
    pub hidden: bool,
    /// What is put into its requests, over the options that hold for the vendor's name of it.
    pub options: Map<String, Value>,
}

impl ModelConfig {
    /// A model of which nothing else is said.
    #[must_use]
    pub fn new(id: impl Into<String>, provider: ProviderName) -> Self {
        Self {
            id: id.into(),
            provider,
            vendor_name: None,
            label: None,
            description: None,
            reasoning_effort: None,
            sees_images: None,
            base_millis: None,
            input_millis: None,
            output_millis: None,
            context_tokens: None,
            output_max_tokens: None,
            deprecated: None,
            hidden: false,
            options: Map::new(),
        }
    }

    /// What the vendor calls it.
    #[must_use]
    pub fn vendor_name(&self) -> &str {
        self.vendor_name.as_deref().unwrap_or(&self.id)
    }

    pub(crate) fn is_of(&self, entry: &ModelEntry) -> bool {
        !entry.builtin && self.provider == entry.provider && self.vendor_name() == entry.vendor_name
    }

    /// The entry with what the operator says in the place of what was there.
    fn change(&self, mut entry: ModelEntry) -> ModelEntry {
        entry.id.clone_from(&self.id);
        if let Some(label) = &self.label {
            entry.label = label.clone();
        }
        if let Some(description) = &self.description {
            entry.description = description.clone();
        }
        entry.deprecated = self.deprecated.unwrap_or(entry.deprecated);
        let offered = self.reasoning_effort.unwrap_or(!entry.settings.is_empty());
        // A deprecated model offers none, whatever is said.
        entry.settings =
            if offered && !entry.deprecated { vec![Setting::reasoning_effort()] } else { Vec::new() };
        entry.sees_images = self.sees_images.unwrap_or(entry.sees_images);
        let price = entry.price;
        entry.price = Price {
            base_millis: self.base_millis.unwrap_or(price.base_millis),
            input_millis: self.input_millis.unwrap_or(price.input_millis),
            output_millis: self.output_millis.unwrap_or(price.output_millis),
        };
        entry.context_tokens = self.context_tokens.unwrap_or(entry.context_tokens);
        let output = self.output_max_tokens.unwrap_or(entry.output_max_tokens);
        // What is written must leave room for what is read.
        entry.output_max_tokens = output.min(entry.context_tokens / 2).max(1);
        entry
    }
}

/// The entries as the operator wants them: the vendors' in their order, each changed as configured, and as often as it
/// is configured; then what is configured and no vendor lists, made by `unlisted`. With `only`, none that is not
/// configured.
pub(crate) fn arrange(
    configured: &[ModelConfig],
    only: bool,
    listed: Vec<ModelEntry>,
    mut unlisted: impl FnMut(&ModelConfig) -> Option<ModelEntry>,
) -> Vec<ModelEntry> {
    let rest: Vec<&ModelConfig> =
        configured.iter().filter(|one| !listed.iter().any(|entry| one.is_of(entry))).collect();
    let mut arranged = Vec::with_capacity(listed.len() + rest.len());
    for entry in listed {
        let mut is_configured = false;
        for one in configured.iter().filter(|one| one.is_of(&entry)) {
            is_configured = true;
            if !one.hidden {
                arranged.push(one.change(entry.clone()));
            }
        }
        if !is_configured && !only {
            arranged.push(entry);
        }
    }
    let rest = rest.into_iter().filter(|one| !one.hidden);
    arranged.extend(rest.filter_map(|one| Some(one.change(unlisted(one)?))));
    arranged
}
