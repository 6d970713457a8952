//! `causerie models`: lists the models and their status.

use control::{Catalog, Environment};

use crate::commands::Where;
use crate::error::CliError;
use crate::request::Request;
use crate::settings::{self, Settings};
use crate::{admin, config, data, model_list, output, printers, socket};

/// Asks the running service or, without one, the vendors directly.
pub(crate) async fn run(at: &Where) -> Result<(), CliError> {
    let sources = || settings::sources(at.config.as_deref(), at.arguments());
    let places = settings::places(sources()).map_err(config::invalid)?;
    let answer = match socket::connect(&places.data).await {
        Some(service) => socket::ask(service, &Request::ListModels).await?,
        None => {
            // A service may run there, for which this user cannot ask.
            data::enter(&places.data).map_err(|error| admin::unusable(&places.data, &error))?;
            let vendors = Settings::load(sources()).map_err(config::invalid)?.settings.vendors;
            let catalog = Catalog::new(vendors, Environment::system().clock())
                .map_err(|error| CliError::new("INVALID_CONFIGURATION", error.to_string()))?;
            let failure = catalog.refresh().await.err();
            model_list::to_json(&catalog, failure.as_ref())
        }
    };
    let print = if at.json { output::print } else { printers::of(&Request::ListModels) };
    print(&answer, at.json);
    Ok(())
}
