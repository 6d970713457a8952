//! The location of the data that a command works on: data folder and database, from its arguments and the configuration.

use std::path::{Path, PathBuf};

use clap::Args;
use control::{DatabaseUrl, privileges};
use settings::DataLocations;

use crate::data;
use crate::error::CliError;

// The options of all commands. A doc comment would replace the help of the command.
#[derive(Debug, Clone, Args)]
pub struct Where {
    /// The data folder [env: CAUSERIE_DATA] [default: data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The database, if not the data folder's own: postgres://USER@HOST/NAME. Set passwords in the variable or in a
    /// file, because every user of the host can see arguments [env: CAUSERIE_DATABASE]
    #[arg(long, value_name = "URL")]
    pub database: Option<DatabaseUrl>,
    /// The configuration file that specifies data folder and database [env: CAUSERIE_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

impl Where {
    /// Returns the settings given as arguments: key, argument, value.
    pub(crate) fn setting_arguments(&self) -> Vec<(&'static str, &'static str, String)> {
        location_arguments(self.data.as_deref(), self.database.as_ref())
    }
}

/// Returns the data folder and database given as arguments.
pub fn location_arguments(
    data: Option<&Path>,
    database: Option<&DatabaseUrl>,
) -> Vec<(&'static str, &'static str, String)> {
    let data = data.map(|data| ("data", "--data", data.to_string_lossy().into_owned()));
    let database = database.map(|url| ("database.url", "--database", url.reveal().to_owned()));
    data.into_iter().chain(database).collect()
}

/// Makes root act as the owner of the data folder, so that the service can use the files that the command creates.
/// Requires a single thread.
///
/// # Errors
/// Invalid settings, or a data folder that cannot be used.
pub fn become_owner(at: &Where) -> Result<(), CliError> {
    let data = load_locations_as_caller(at)?.data;
    privileges::become_owner(&data).map_err(|error| unusable_data_folder_error(&data, &error))
}

/// Reads the locations of data folder and database as the caller, who must be able to read the settings.
pub(crate) fn load_locations_as_caller(at: &Where) -> Result<DataLocations, CliError> {
    let read = privileges::as_caller(|| {
        let sources = settings::command_sources(at.config.as_deref(), at.setting_arguments());
        settings::read_locations(sources).map_err(invalid_configuration_error)
    });
    read.map_err(|error| CliError::new("INVALID_CONFIGURATION", error.to_string()))?
}

/// Converts invalid settings to a command failure.
pub(crate) fn invalid_configuration_error(error: settings::Invalid) -> CliError {
    CliError::new("INVALID_CONFIGURATION", error.to_string())
}

/// Returns the error for an unusable data folder, with the remedy.
pub(crate) fn unusable_data_folder_error(data: &Path, error: &std::io::Error) -> CliError {
    let why = data::describe_unusable_folder(data, error);
    CliError::new("DATA_FOLDER_UNUSABLE", format!("data folder {} unusable: {why}", data.display()))
}
