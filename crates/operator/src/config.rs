//! `causerie config`: checks a file together with the environment, and prints the effective settings.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::{Value, json};
use settings::{Effective, Loaded, ServiceSettings, SettingOrigin};

use crate::error::CliError;
use crate::location::invalid_configuration_error;
use crate::output;

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check a configuration file, together with the variables of the environment
    Check {
        /// The file
        #[arg(required_unless_present = "config")]
        file: Option<PathBuf>,
        /// The file, as for the other commands
        #[arg(long, value_name = "FILE", conflicts_with = "file")]
        config: Option<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Write the built-in instructions of models to a folder, to be edited there
    Instructions {
        /// The folder; created if missing. Existing files are not replaced
        folder: PathBuf,
    },
    /// Print a JSON Schema of the configuration file, with which editors complete and check it
    Schema,
    /// Show the effective settings and their origins
    Print {
        /// The configuration file [env: CAUSERIE_CONFIG]
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

impl ConfigCommand {
    /// Returns true if output and errors are JSON.
    pub fn as_json(&self) -> bool {
        match self {
            Self::Check { json, .. } | Self::Print { json, .. } => *json,
            Self::Instructions { .. } | Self::Schema => false,
        }
    }
}

/// Checks a file, or shows the settings that a service started here would use.
pub fn run_config_command(command: ConfigCommand) -> Result<(), CliError> {
    match command {
        ConfigCommand::Check { file, config, json } => {
            check_config_file(&file.or(config).unwrap_or_default(), json)
        }
        ConfigCommand::Instructions { folder } => {
            let failed = |error| CliError::new("NOT_WRITTEN", format!("{}: {error}", folder.display()));
            control::templates::write_builtin(&folder).map_err(failed)?;
            print_line(&format!(
                "{}: edit the files and set instructions_folder to this folder",
                folder.display()
            ));
            Ok(())
        }
        ConfigCommand::Schema => {
            print_line(&format!("{:#}", settings::configuration_schema()));
            Ok(())
        }
        ConfigCommand::Print { config, json } => {
            let loaded = ServiceSettings::load(settings::command_sources(config.as_deref(), Vec::new()))
                .map_err(invalid_configuration_error)?;
            print_warnings(&loaded);
            print_settings(&loaded.effective, json);
            Ok(())
        }
    }
}

fn check_config_file(file: &Path, as_json: bool) -> Result<(), CliError> {
    let loaded = ServiceSettings::load(settings::command_sources(Some(file), Vec::new()))
        .map_err(invalid_configuration_error)?;
    let set = loaded.effective.iter().filter(|key| matches!(key.origin, SettingOrigin::File(..))).count();
    if as_json {
        print_line(
            &json!({ "file": file.to_string_lossy(), "keys": set, "warnings": loaded.warnings }).to_string(),
        );
    } else {
        print_warnings(&loaded);
        print_line(&format!("{}: {set} keys, no problems", file.display()));
    }
    Ok(())
}

fn print_settings(effective: &[Effective], as_json: bool) {
    if as_json {
        let keys: Vec<Value> = effective
            .iter()
            .map(|key| json!({ "key": key.key, "value": setting_value_json(key), "origin": key.origin.to_string() }))
            .collect();
        print_line(&json!({ "settings": keys }).to_string());
        return;
    }
    for Effective { key, value, origin } in effective {
        match value {
            Some(value) => print_line(&format!("{key} = {value}  # {origin}")),
            None => print_line(&format!("# {key} is not set")),
        }
    }
}

/// Returns the value as JSON; the settings' texts and numbers have the same syntax.
fn setting_value_json(key: &Effective) -> Value {
    let value = key.value.as_ref();
    value.map_or(Value::Null, |toml| serde_json::from_str(toml).unwrap_or_else(|_| json!(toml)))
}

fn print_warnings(loaded: &Loaded) {
    for warning in &loaded.warnings {
        output::error_line(format_args!("causerie: {warning}"));
    }
}

fn print_line(line: &str) {
    output::print_line(line);
}
