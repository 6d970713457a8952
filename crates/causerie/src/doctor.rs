//! `causerie doctor`: tries what a service needs on this host, and says what to mend or install.
//!
//! It changes nothing: machine drivers are tried in a temporary folder. Where a service runs, the service runs the checks,
//! with its own settings. Without one they are those of the caller, so it should run as the service's user; root acts as the
//! owner of the data folder.

use control::backup::interrupted_restore;
use control::data_folder::{SchemaVersion, StartError};
use control::{Check, CheckStatus};
use serde_json::{Value, json};

use crate::commands::Where;
use crate::host_checks::{ask_vendors, failed, host, host_checks, models, passed, warned, web};
use crate::output::counted;
use crate::request::Request;
use crate::settings::{self, Settings};
use crate::{admin, data, output, socket};

/// Runs all checks and prints them. Returns true if none failed. What depends on settings is judged by the running service,
/// whose settings and variables may be others than those of the shell.
pub(crate) async fn run(at: &Where) -> bool {
    let service = match admin::places(at) {
        Ok(places) => socket::connect(&places.data).await.map(|service| (places.data, service)),
        Err(_) => None,
    };
    let loaded = Settings::load(settings::sources(at.config.as_deref(), at.arguments()));
    let mut checks = vec![match (&loaded, &service) {
        (Err(invalid), None) => failed("configuration", invalid),
        (Err(invalid), Some(_)) => warned(
            "configuration",
            format_args!("the service runs with its own; what this command reads is not valid: {invalid}"),
        ),
        (Ok(loaded), _) if !loaded.warnings.is_empty() => warned("configuration", loaded.warnings.join("; ")),
        (Ok(_), None) => passed("configuration", "valid"),
        (Ok(_), Some(_)) => {
            passed("configuration", "valid; the service runs with its own, which is judged below")
        }
    }];
    match (service, loaded) {
        (Some((data, service)), _) => {
            checks.push(host());
            checks.push(passed("service", format_args!("runs on {}", data.display())));
            checks.push(database(at, true).await);
            match ask_checks(service).await {
                Ok(found) => checks.extend(found),
                Err(why) => checks.push(failed("service_checks", why)),
            }
        }
        (None, Ok(loaded)) => checks.extend(of_settings(at, &loaded.settings).await),
        (None, Err(_)) => {}
    }
    let failures = checks.iter().filter(|check| check.status == CheckStatus::Fail).count();
    if at.json {
        output::line(json!({ "ok": failures == 0, "checks": checks }));
    } else {
        let rows: Vec<Value> = checks.iter().map(row).collect();
        output::table(&["", "check", "finding"], &rows);
        let warnings = checks.iter().filter(|check| check.status == CheckStatus::Warn).count();
        output::line(format_args!("\n{}, {}", counted(failures, "problem"), counted(warnings, "warning")));
    }
    failures == 0
}

fn row(check: &Check) -> Value {
    let mark = match check.status {
        CheckStatus::Pass => "ok",
        CheckStatus::Warn => "warning",
        CheckStatus::Fail => "PROBLEM",
    };
    json!({ "": mark, "check": check.name, "finding": check.reason.replace('\n', "; ") })
}

async fn of_settings(at: &Where, settings: &Settings) -> Vec<Check> {
    let mut checks = vec![host()];
    let data = settings.data.display();
    checks.push(match data::enter(&settings.data) {
        Ok(()) => passed("service", format_args!("none runs on {data}")),
        Err(error) => failed("service", admin::unusable(&settings.data, &error)),
    });
    checks.push(match interrupted_restore(&settings.data) {
        Some(left) => failed("database", StartError::RestoreInterrupted(left)),
        None => database(at, false).await,
    });
    checks.extend(host_checks(settings).await);
    checks.extend(models(ask_vendors(settings).await));
    checks.push(web(settings).await);
    checks
}

/// Has the running service run the checks of its settings.
async fn ask_checks(service: tokio::net::UnixStream) -> Result<Vec<Check>, String> {
    let answer = socket::ask(service, &Request::RunChecks).await.map_err(|error| error.to_string())?;
    serde_json::from_value(answer["checks"].clone()).map_err(|error| error.to_string())
}

/// Asks the service for the database; without one, reads the version of its schema alone.
async fn database(at: &Where, is_served: bool) -> Check {
    if is_served {
        return match admin::carry_out_at(at, Request::ListMachines).await {
            Ok(answer) => {
                let machines = answer["machines"].as_array().map_or(0, Vec::len);
                passed("database", format_args!("answers, {}", counted(machines, "machine")))
            }
            Err(error) => failed("database", error),
        };
    }
    let places = match admin::places(at) {
        Ok(places) => places,
        Err(error) => return failed("database", error),
    };
    if places.database.is_none() {
        match places.data.join(data::DATABASE).try_exists() {
            Ok(true) => {}
            Ok(false) => {
                let words = "there is none yet: `causerie account create` or the first start makes it";
                return warned("database", words);
            }
            Err(error) => return failed("database", admin::unusable(&places.data, &error)),
        }
    }
    match control::data_folder::schema(&places.data, places.database.as_ref()).await {
        Ok(SchemaVersion { found, known }) if found > known => failed(
            "database",
            format_args!("of a later program: its schema is {found}, this one knows {known}"),
        ),
        Ok(SchemaVersion { found, known }) if found < known => {
            passed("database", format_args!("answers; the next start migrates it from {found} to {known}"))
        }
        Ok(SchemaVersion { found, .. }) => passed("database", format_args!("answers, schema {found}")),
        Err(error) => failed("database", error),
    }
}
