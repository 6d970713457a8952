//! `causerie config`: checks a file together with the environment, and prints the effective settings.

use std::path::Path;

use serde_json::{Value, json};

use crate::commands::ConfigCommand;
use crate::error::CliError;
use crate::output;
use crate::settings::{self, Effective, Invalid, Loaded, Origin, Settings};

/// Checks a file, or shows the settings that a service started here would use.
pub(crate) fn run(command: ConfigCommand) -> Result<(), CliError> {
    match command {
        ConfigCommand::Check { file, config, json } => check(&file.or(config).unwrap_or_default(), json),
        ConfigCommand::Instructions { folder } => {
            let failed = |error| CliError::new("NOT_WRITTEN", format!("{}: {error}", folder.display()));
            control::templates::write_builtin(&folder).map_err(failed)?;
            print_line(&format!(
                "{}: edit the files and set instructions_folder to this folder",
                folder.display()
            ));
            Ok(())
        }
        ConfigCommand::Print { config, json } => {
            let loaded = Settings::load(settings::sources(config.as_deref(), Vec::new())).map_err(invalid)?;
            warn(&loaded);
            print(&loaded.effective, json);
            Ok(())
        }
    }
}

fn check(file: &Path, as_json: bool) -> Result<(), CliError> {
    let loaded = Settings::load(settings::sources(Some(file), Vec::new())).map_err(invalid)?;
    let set = loaded.effective.iter().filter(|key| matches!(key.origin, Origin::File(..))).count();
    if as_json {
        print_line(
            &json!({ "file": file.to_string_lossy(), "keys": set, "warnings": loaded.warnings }).to_string(),
        );
    } else {
        warn(&loaded);
        print_line(&format!("{}: {set} keys, no problems", file.display()));
    }
    Ok(())
}

/// Converts invalid settings to a command failure.
pub(crate) fn invalid(error: Invalid) -> CliError {
    CliError::new("INVALID_CONFIGURATION", error.to_string())
}

fn print(effective: &[Effective], as_json: bool) {
    if as_json {
        let keys: Vec<Value> = effective
            .iter()
            .map(|key| json!({ "key": key.key, "value": plain(key), "origin": key.origin.to_string() }))
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
fn plain(key: &Effective) -> Value {
    let value = key.value.as_ref();
    value.map_or(Value::Null, |toml| serde_json::from_str(toml).unwrap_or_else(|_| json!(toml)))
}

fn warn(loaded: &Loaded) {
    for warning in &loaded.warnings {
        output::error_line(format_args!("causerie: {warning}"));
    }
}

fn print_line(line: &str) {
    output::line(line);
}
