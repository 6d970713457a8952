//! Entries of the catalogs (sections 2.2 to 2.4).

use domain::catalog::{self, CatalogLanguage, ModelEntry, ModelStatus};
use serde::Serialize;
use utoipa::ToSchema;

use super::enums::{ModelHealth, ModelProvider};

/// A model that can answer questions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Model<'a> {
    /// The identifier by which a question refers to it.
    #[schema(examples("reader"))]
    id: &'a str,
    /// Its name in the caller's language.
    #[schema(examples("Built-in reader"))]
    label: &'a str,
    /// A description of its strengths, in the caller's language.
    #[schema(examples("No language model: finds the passages of the documents that answer the question"))]
    description: &'a str,
    #[schema(value_type = ModelProvider)]
    provider: &'static str,
    #[schema(value_type = ModelHealth)]
    status: &'static str,
    /// Whether it answers questions that do not name a model.
    #[schema(examples(true))]
    default: bool,
    /// Whether it still works but should no longer be chosen.
    #[schema(examples(false))]
    deprecated: bool,
    /// The settings that a question may set.
    settings: Vec<ModelSettingBody<'a>>,
    /// True for the built-in reader, which is not a language model; absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false, examples(true))]
    builtin: bool,
}

/// A setting of a model.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ModelSetting)]
struct ModelSettingBody<'a> {
    /// The identifier by which a question refers to it.
    #[schema(examples("reasoningEffort"))]
    key: &'a str,
    /// Its name in the caller's language.
    #[schema(examples("Reasoning effort"))]
    label: &'a str,
    /// The allowed values.
    options: Vec<ModelSettingOptionBody<'a>>,
    /// The default value.
    #[schema(examples("MEDIUM"))]
    default_value: &'a str,
}

/// An allowed value of a setting.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ModelSettingOption)]
struct ModelSettingOptionBody<'a> {
    /// The identifier by which a question refers to it.
    #[schema(examples("HIGH"))]
    value: &'a str,
    /// Its name in the caller's language.
    #[schema(examples("High"))]
    label: &'a str,
}

impl<'a> Model<'a> {
    pub(crate) fn from_entry(entry: &'a ModelEntry, status: ModelStatus, language: CatalogLanguage) -> Self {
        Self {
            id: &entry.id,
            label: entry.label.in_language(language),
            description: entry.description.in_language(language),
            provider: entry.provider.as_str(),
            status: status.as_str(),
            default: entry.default,
            deprecated: entry.deprecated,
            settings: entry
                .settings
                .iter()
                .map(|setting| ModelSettingBody::from_setting(setting, language))
                .collect(),
            builtin: entry.builtin,
        }
    }
}

impl<'a> ModelSettingBody<'a> {
    fn from_setting(setting: &'a catalog::CatalogSetting, language: CatalogLanguage) -> Self {
        let options = setting.options.iter();
        Self {
            key: &setting.key,
            label: setting.label.in_language(language),
            options: options
                .map(|option| ModelSettingOptionBody {
                    value: &option.value,
                    label: option.label.in_language(language),
                })
                .collect(),
            default_value: &setting.default_value,
        }
    }
}

/// A jurisdiction that a question can be about.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Jurisdiction<'a> {
    /// The identifier by which a question refers to it.
    #[schema(examples("CZ"))]
    pub(crate) id: &'a str,
    /// Its name in the caller's language.
    #[schema(examples("Czechia"))]
    pub(crate) label: &'a str,
}

/// A skill or an agent of a plugin.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PluginEntry)]
pub(crate) struct PluginEntryBody {
    /// The permanent identifier by which a question refers to it.
    #[schema(format = "uuid", examples("d8d27773-57ec-56f8-8913-a7972f4d3c04"))]
    id: String,
    /// Its short name, by which a question may refer to it if it is unique.
    #[schema(examples("contract-review"))]
    name: String,
    /// Its unique full name, `<plugin>:<name>`.
    #[schema(examples("causerie:contract-review"))]
    full_name: String,
    /// Its purpose, as described by its plugin.
    #[schema(examples("Reviews a contract clause by clause for one party"))]
    description: String,
}

impl From<control::catalogs::CatalogEntry> for PluginEntryBody {
    fn from(listed: control::catalogs::CatalogEntry) -> Self {
        let control::catalogs::CatalogEntry { id, name, full_name, description } = listed;
        Self { id, name, full_name, description }
    }
}
