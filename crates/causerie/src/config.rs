//! `causerie config`: checks a file, and prints the effective settings.

use std::path::Path;

use serde_json::{Value, json};

use crate::commands::ConfigCommand;
use crate::failure::Failure;
use crate::output;
use crate::settings::{self, Effective, Invalid, Loaded, Settings, Sources};

/// Checks a file alone, or shows what holds for a service that were started here.
pub(crate) fn run(command: ConfigCommand) -> Result<(), Failure> {
    match command {
        ConfigCommand::Check { file, config, json } => check(&file.or(config).unwrap_or_default(), json),
        ConfigCommand::Instructions { folder } => {
            let failed = |error| Failure::new("NOT_WRITTEN", format!("{}: {error}", folder.display()));
            control::guide::write_builtin(&folder).map_err(failed)?;
            say(&format!(
                "{}: change what you want, and name the folder as instructions_folder",
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

fn check(file: &Path, as_json: bool) -> Result<(), Failure> {
    let loaded = Settings::load(Sources::new(Vec::new(), []).with_file(file)).map_err(invalid)?;
    let set = loaded.effective.iter().filter(|key| key.origin != settings::Origin::Default).count();
    if as_json {
        say(&json!({ "file": file.to_string_lossy(), "keys": set, "warnings": loaded.warnings }).to_string());
    } else {
        warn(&loaded);
        say(&format!("{}: {set} keys, nothing wrong", file.display()));
    }
    Ok(())
}

/// The failure of settings that do not hold.
pub(crate) fn invalid(error: Invalid) -> Failure {
    Failure::new("INVALID_CONFIGURATION", error.to_string())
}

fn print(effective: &[Effective], as_json: bool) {
    if as_json {
        let keys: Vec<Value> = effective
            .iter()
            .map(|key| json!({ "key": key.key, "value": plain(key), "origin": key.origin.to_string() }))
            .collect();
        say(&json!({ "settings": keys }).to_string());
        return;
    }
    for Effective { key, value, origin } in effective {
        match value {
            Some(value) => say(&format!("{key} = {value}  # {origin}")),
            None => say(&format!("# {key} is not set")),
        }
    }
}

/// The value as JSON, which writes texts and numbers as these settings do.
fn plain(key: &Effective) -> Value {
    let value = key.value.as_ref();
    value.map_or(Value::Null, |toml| serde_json::from_str(toml).unwrap_or_else(|_| json!(toml)))
}

fn warn(loaded: &Loaded) {
    for warning in &loaded.warnings {
        output::error_line(format_args!("causerie: {warning}"));
    }
}

fn say(line: &str) {
    output::line(line);
}
