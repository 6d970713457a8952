//! `causerie models`: lists the models and their status.

use control::{Catalog, ServiceEnvironment};
use settings::ServiceSettings;

use crate::commands::Where;
use crate::error::CliError;
use crate::request::AdminRequest;
use crate::{admin, config, data, model_list, output, printers, socket};

/// Asks the running service or, without one, the vendors directly.
pub async fn run_models_command(at: &Where) -> Result<(), CliError> {
    let sources = || settings::command_sources(at.config.as_deref(), at.setting_arguments());
    let places = settings::read_locations(sources()).map_err(config::invalid_configuration_error)?;
    let answer = match socket::connect_service(&places.data).await {
        Some(service) => socket::ask_service(service, &AdminRequest::ListModels).await?,
        None => {
            // A service may run that this user cannot access.
            data::check_data_folder_access(&places.data)
                .map_err(|error| admin::unusable_data_folder_error(&places.data, &error))?;
            let vendors = ServiceSettings::load(sources())
                .map_err(config::invalid_configuration_error)?
                .settings
                .vendors;
            let catalog = Catalog::new(vendors, ServiceEnvironment::system().clock())
                .map_err(|error| CliError::new("INVALID_CONFIGURATION", error.to_string()))?;
            let failure = catalog.refresh_models().await.err();
            model_list::to_json(&catalog, failure.as_ref())
        }
    };
    let print = if at.json { output::print_object } else { printers::printer_for(&AdminRequest::ListModels) };
    print(&answer, at.json);
    Ok(())
}
