//! `causerie models`: the models and the health of their vendors, from the running service or else from the vendors.

use clap::Args;
use control::{Catalog, ProbeError, ServiceEnvironment, VendorHealth};
use domain::catalog::{ModelEntry, ModelStatus};
use domain::step::StepError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use settings::ServiceSettings;

use crate::error::CliError;
use crate::location::{Where, invalid_configuration_error, unusable_data_folder_error};
use crate::output::{Column, format_text, print_line, print_table, to_cell};
use crate::request::{CommandReply, ExecutionContext, OperatorRequest};
use crate::{data, socket};

/// Show the models and their health, from the running service or else from the vendors
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  causerie models\n  causerie models --data /var/lib/causerie --json")]
pub struct ModelsArgs;

impl ModelsArgs {
    /// Asks the running service or, without one, the vendors, and prints the models.
    ///
    /// # Errors
    /// Invalid settings, or a service that does not answer.
    pub async fn run(self, at: &Where) -> Result<(), CliError> {
        let sources = || settings::command_sources(at.config.as_deref(), at.setting_arguments());
        let places = settings::read_locations(sources()).map_err(invalid_configuration_error)?;
        let models = match socket::connect_service(&places.data).await {
            Some(service) => socket::ask_service(service, &ListModels).await?,
            None => {
                // A service may run that this user cannot access.
                data::check_data_folder_access(&places.data)
                    .map_err(|error| unusable_data_folder_error(&places.data, &error))?;
                let loaded = ServiceSettings::load(sources()).map_err(invalid_configuration_error)?;
                ModelList::from_vendors(&loaded.settings)
                    .await
                    .map_err(|error| CliError::new("INVALID_CONFIGURATION", error))?
            }
        };
        models.print(at.json);
        Ok(())
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct ListModels;

#[derive(Debug, Serialize, Deserialize)]
pub struct ModelList {
    pub(super) models: Vec<ListedModel>,
    pub(super) vendors: Vec<VendorState>,
    /// The reason why a vendor could not list its models.
    failure: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListedModel {
    pub(super) id: String,
    label: String,
    vendor: String,
    vendor_name: String,
    status: String,
    pub(super) default: bool,
    deprecated: bool,
    builtin: bool,
    settings: Vec<String>,
    sees_images: bool,
    pub(super) uses_tools: bool,
    context_tokens: u32,
    output_max_tokens: u32,
    price_base: f64,
    price_thousand_tokens_read: f64,
    price_thousand_tokens_written: f64,
}

impl ListedModel {
    fn new(entry: &ModelEntry, status: ModelStatus) -> Self {
        Self {
            id: entry.id.clone(),
            label: entry.label.en.clone(),
            vendor: entry.provider.as_str().to_owned(),
            vendor_name: entry.vendor_name.clone(),
            status: status.as_str().to_owned(),
            default: entry.default,
            deprecated: entry.deprecated,
            builtin: entry.builtin,
            settings: entry.settings.iter().map(|setting| setting.key.to_string()).collect(),
            sees_images: entry.sees_images,
            uses_tools: entry.uses_tools,
            context_tokens: entry.context_tokens,
            output_max_tokens: entry.output_max_tokens,
            price_base: credits_from_millis(entry.price.base_millis),
            price_thousand_tokens_read: credits_from_millis(entry.price.input_millis),
            price_thousand_tokens_written: credits_from_millis(entry.price.output_millis),
        }
    }

    /// The columns of the table.
    fn columns() -> [Column<Self>; 10] {
        let vendor_cell: fn(&Self) -> Value = |model| {
            if model.builtin { Value::from("-") } else { Value::from(model.vendor.to_lowercase()) }
        };
        [
            Column { name: "model", cell: |model| to_cell(&model.id) },
            Column { name: "vendor", cell: vendor_cell },
            Column { name: "status", cell: |model| to_cell(&model.status) },
            Column { name: "context", cell: |model| to_cell(&model.context_tokens) },
            Column { name: "output", cell: |model| to_cell(&model.output_max_tokens) },
            Column { name: "base", cell: |model| to_cell(&model.price_base) },
            Column { name: "read", cell: |model| to_cell(&model.price_thousand_tokens_read) },
            Column { name: "written", cell: |model| to_cell(&model.price_thousand_tokens_written) },
            Column { name: "settings", cell: |model| to_cell(&model.settings) },
            Column { name: "notes", cell: |model| Value::from(model.notes()) },
        ]
    }

    fn notes(&self) -> String {
        let notes = [
            (self.default, "default"),
            (self.builtin, "built in"),
            (self.deprecated, "deprecated"),
            (self.sees_images, "sees images"),
            (!self.uses_tools, "accepts no tools"),
        ];
        notes.iter().filter(|(applies, _)| *applies).map(|(_, note)| *note).collect::<Vec<_>>().join(", ")
    }
}

/// The health of a vendor of models.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VendorState {
    pub(super) vendor: String,
    pub(super) base_url: String,
    pub(super) status: String,
    /// The number of its models.
    pub(super) models: usize,
    since: Option<String>,
    /// The name of a [`ProbeError`].
    trouble: Option<String>,
    /// The server's own message.
    cause: Option<String>,
}

impl From<&VendorHealth> for VendorState {
    fn from(health: &VendorHealth) -> Self {
        let status = match health.up {
            Some(true) => ModelStatus::Up,
            Some(false) => ModelStatus::Down,
            None => ModelStatus::Unknown,
        };
        Self {
            vendor: health.provider.as_str().to_owned(),
            base_url: health.base_url.clone(),
            status: status.as_str().to_owned(),
            models: health.models,
            since: health.since.map(|since| since.to_string()),
            trouble: health.trouble.map(|trouble| ProbeError::as_str(trouble).to_owned()),
            cause: health.detail.clone(),
        }
    }
}

impl VendorState {
    /// Returns the health in one line.
    pub(super) fn health_line(&self) -> String {
        let health = format!("{}: {} at {}", self.vendor.to_lowercase(), self.status, self.base_url);
        match self.trouble_in_words() {
            None => health,
            Some(trouble) => {
                let since = self.since.as_deref().map_or_else(|| "-".to_owned(), format_text);
                format!("{health} since {since}: {trouble}")
            }
        }
    }

    /// Returns the reason why the vendor does not answer.
    pub(super) fn trouble_in_words(&self) -> Option<String> {
        let cause = self.cause.as_deref().filter(|cause| !cause.is_empty());
        let what = match self.trouble.as_deref()? {
            // The cause already states that.
            "unreachable" => return Some(cause.unwrap_or("it cannot be reached").to_owned()),
            "key" => "it does not accept the key",
            "payment" => "its account has no credit left",
            "refused" => "it refuses to list its models",
            "unreadable" => "its response is not a list of models",
            "empty" => "it lists no models",
            other => other,
        };
        Some(cause.map_or_else(|| what.to_owned(), |cause| format!("{what}: {cause}")))
    }
}

impl ModelList {
    pub(super) fn from_catalog(catalog: &Catalog, failure: Option<&StepError>) -> Self {
        let entries = catalog.model_entries();
        let models = entries.iter().map(|entry| ListedModel::new(entry, catalog.model_status(&entry.id)));
        Self {
            models: models.collect(),
            vendors: catalog.vendors_health().iter().map(VendorState::from).collect(),
            failure: failure.map(ToString::to_string),
        }
    }

    /// Asks the vendors of these settings.
    pub(super) async fn from_vendors(settings: &ServiceSettings) -> Result<Self, String> {
        let catalog = Catalog::new(settings.vendors.clone(), ServiceEnvironment::system().clock());
        let catalog = catalog.map_err(|error| error.to_string())?;
        let failure = catalog.refresh_models().await.err();
        Ok(Self::from_catalog(&catalog, failure.as_ref()))
    }

    pub(super) fn default_model(&self) -> Option<&ListedModel> {
        self.models.iter().find(|model| model.default)
    }
}

impl CommandReply for ModelList {
    fn print_for_people(&self) {
        print_table(&ListedModel::columns(), &self.models);
        print_line(
            "\nContext and output in tokens; prices in credits: base, per thousand tokens read and written.",
        );
        for vendor in &self.vendors {
            print_line(vendor.health_line());
        }
        if let Some(failure) = &self.failure {
            print_line(format_args!("model discovery failed: {failure}"));
        }
    }
}

impl OperatorRequest for ListModels {
    const NAME: &'static str = "list_models";
    type Reply = ModelList;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<ModelList, CliError> {
        Ok(ModelList::from_catalog(&context.service()?.catalog, None))
    }
}

/// Converts thousandths of credits to credits.
fn credits_from_millis(millis: u64) -> f64 {
    // Prices are far below what a double holds exactly.
    f64::from(u32::try_from(millis).unwrap_or(u32::MAX)) / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_line_explains_unreachable_vendor() {
        let mut vendor = VendorState {
            vendor: "OPENAI".to_owned(),
            base_url: "http://127.0.0.1:9/v1".to_owned(),
            status: "DOWN".to_owned(),
            models: 0,
            since: Some("2026-11-23T08:00:00.000Z".to_owned()),
            trouble: Some("unreachable".to_owned()),
            cause: Some("it cannot be reached: the connection was refused".to_owned()),
        };
        let expected = "openai: DOWN at http://127.0.0.1:9/v1 since 2026-11-23 08:00:00Z: it cannot be reached: the \
                        connection was refused";
        assert_eq!(vendor.health_line(), expected);
        vendor.trouble = Some("key".to_owned());
        vendor.cause = Some("401: no such key".to_owned());
        let line = vendor.health_line();
        assert!(line.ends_with("Z: it does not accept the key: 401: no such key"), "{line}");
        vendor.trouble = None;
        vendor.status = "UP".to_owned();
        assert_eq!(vendor.health_line(), "openai: UP at http://127.0.0.1:9/v1");
    }
}
