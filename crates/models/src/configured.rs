//! The operator's descriptions of models, which override or extend the vendors' lists.

use domain::catalog::{CatalogSetting, Localized, ModelEntry, ProviderName};
use domain::credits::Price;
use serde_json::{Map, Value};

/// Limits how many models can be configured.
pub const CONFIGURED_MAX: usize = 500;

/// An operator's description of a model. Absent fields fall back to the vendor's list or its defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelConfig {
    /// The identifier in questions.
    pub id: String,
    pub provider: ProviderName,
    /// The vendor's name of the model; defaults to `id`.
    pub vendor_name: Option<String>,
    pub label: Option<Localized>,
    pub description: Option<Localized>,
    /// Offers the setting for reasoning effort.
    pub reasoning_effort: Option<bool>,
    /// Sends images to the model.
    pub sees_images: Option<bool>,
    /// Price of an answer, in thousandths of a credit.
    pub base_millis: Option<u64>,
    /// Price of a thousand input tokens, in thousandths of a credit.
    pub input_millis: Option<u64>,
    /// Price of a thousand output tokens, in thousandths of a credit.
    pub output_millis: Option<u64>,
    /// The context window, input and output together.
    pub context_tokens: Option<u32>,
    /// The limit of output tokens per step.
    pub output_max_tokens: Option<u32>,
    /// Discourages the use of the model.
    pub deprecated: Option<bool>,
    /// Removes the model from the catalog.
    pub hidden: bool,
    /// Request options of this model; they override the options by vendor name.
    pub options: Map<String, Value>,
}

impl ModelConfig {
    /// Creates a description without overrides.
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

    /// Returns the vendor's name of the model.
    #[must_use]
    pub fn vendor_name(&self) -> &str {
        self.vendor_name.as_deref().unwrap_or(&self.id)
    }

    pub(crate) fn is_of(&self, entry: &ModelEntry) -> bool {
        !entry.builtin && self.provider == entry.provider && self.vendor_name() == entry.vendor_name
    }

    /// Applies the overrides to an entry.
    fn apply_overrides(&self, mut entry: ModelEntry) -> ModelEntry {
        entry.id.clone_from(&self.id);
        if let Some(label) = &self.label {
            entry.label = label.clone();
        }
        if let Some(description) = &self.description {
            entry.description = description.clone();
        }
        entry.deprecated = self.deprecated.unwrap_or(entry.deprecated);
        let offered = self.reasoning_effort.unwrap_or(!entry.settings.is_empty());
        // A deprecated model never offers the setting.
        entry.settings =
            if offered && !entry.deprecated { vec![CatalogSetting::reasoning_effort()] } else { Vec::new() };
        entry.sees_images = self.sees_images.unwrap_or(entry.sees_images);
        let price = entry.price;
        entry.price = Price {
            base_millis: self.base_millis.unwrap_or(price.base_millis),
            input_millis: self.input_millis.unwrap_or(price.input_millis),
            output_millis: self.output_millis.unwrap_or(price.output_millis),
        };
        entry.context_tokens = self.context_tokens.unwrap_or(entry.context_tokens);
        let output = self.output_max_tokens.unwrap_or(entry.output_max_tokens);
        // Output must leave room for input in the context window.
        entry.output_max_tokens = output.min(entry.context_tokens / 2).max(1);
        entry
    }
}

/// Arranges the entries: the vendors' in their order, each with its overrides, once per description; then the described
/// models that no vendor lists, created by `unlisted`. With `only`, drops entries without a description.
pub(crate) fn arrange_entries(
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
                arranged.push(one.apply_overrides(entry.clone()));
            }
        }
        if !is_configured && !only {
            arranged.push(entry);
        }
    }
    let rest = rest.into_iter().filter(|one| !one.hidden);
    arranged.extend(rest.filter_map(|one| Some(one.apply_overrides(unlisted(one)?))));
    arranged
}
