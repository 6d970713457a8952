//! `causerie doctor`: checks the requirements of a service on this host, and reports how to fix problems.
//!
//! It changes nothing: machine drivers are tried in a temporary folder. If a service runs, it runs the checks
//! itself, with its settings. Otherwise the caller's settings are used, so the command should run as the
//! service's user; root acts as the owner of the data folder.

use control::backup::interrupted_restore;
use control::data_folder::{SchemaVersion, StartError};
use control::{Check, CheckStatus};
use serde_json::{Value, json};
use settings::ServiceSettings;

use crate::checks::{
    HostChecks, ask_vendors, check_host, check_models, check_web_search, failing_check, passing_check,
    warning_check,
};
use crate::commands::Where;
use crate::output::count_with_noun;
use crate::request::AdminRequest;
use crate::{admin, data, output, socket};

/// Runs all checks and prints them. Returns true if none failed. Checks that depend on settings are run by the
/// running service, whose settings and variables may differ from the shell's.
pub async fn run_doctor(at: &Where, host_checks: HostChecks) -> bool {
    let service = match admin::load_locations_as_caller(at) {
        Ok(places) => socket::connect_service(&places.data).await.map(|service| (places.data, service)),
        Err(_) => None,
    };
    let loaded =
        ServiceSettings::load(settings::command_sources(at.config.as_deref(), at.setting_arguments()));
    let mut checks = vec![match (&loaded, &service) {
        (Err(invalid), None) => failing_check("configuration", invalid),
        (Err(invalid), Some(_)) => warning_check(
            "configuration",
            format_args!("invalid for this command; the service uses its own configuration: {invalid}"),
        ),
        (Ok(loaded), _) if !loaded.warnings.is_empty() => {
            warning_check("configuration", loaded.warnings.join("; "))
        }
        (Ok(_), None) => passing_check("configuration", "valid"),
        (Ok(_), Some(_)) => {
            passing_check("configuration", "valid; the service uses its own configuration, checked below")
        }
    }];
    match (service, loaded) {
        (Some((data, service)), _) => {
            checks.push(check_host());
            checks.push(passing_check("service", format_args!("runs on {}", data.display())));
            checks.push(check_database(at, true).await);
            match ask_checks(service).await {
                Ok(found) => checks.extend(found),
                Err(why) => checks.push(failing_check("service_checks", why)),
            }
        }
        (None, Ok(loaded)) => checks.extend(check_settings(at, &loaded.settings, host_checks).await),
        (None, Err(_)) => {}
    }
    let failures = checks.iter().filter(|check| check.status == CheckStatus::Fail).count();
    if at.json {
        output::print_line(json!({ "ok": failures == 0, "checks": checks }));
    } else {
        let rows: Vec<Value> = checks.iter().map(check_row).collect();
        output::print_table(&["", "check", "finding"], &rows);
        let warnings = checks.iter().filter(|check| check.status == CheckStatus::Warn).count();
        output::print_line(format_args!(
            "\n{}, {}",
            count_with_noun(failures, "problem"),
            count_with_noun(warnings, "warning")
        ));
    }
    failures == 0
}

fn check_row(check: &Check) -> Value {
    let mark = match check.status {
        CheckStatus::Pass => "ok",
        CheckStatus::Warn => "warning",
        CheckStatus::Fail => "PROBLEM",
    };
    json!({ "": mark, "check": check.name, "finding": check.reason.replace('\n', "; ") })
}

async fn check_settings(at: &Where, settings: &ServiceSettings, host_checks: HostChecks) -> Vec<Check> {
    let mut checks = vec![check_host()];
    let data = settings.data.display();
    checks.push(match data::check_data_folder_access(&settings.data) {
        Ok(()) => passing_check("service", format_args!("not running on {data}")),
        Err(error) => failing_check("service", admin::unusable_data_folder_error(&settings.data, &error)),
    });
    checks.push(match interrupted_restore(&settings.data) {
        Some(left) => failing_check("database", StartError::RestoreInterrupted(left)),
        None => check_database(at, false).await,
    });
    checks.extend(host_checks(settings).await);
    checks.extend(check_models(ask_vendors(settings).await));
    checks.push(check_web_search(settings).await);
    checks
}

/// Has the running service run the checks of its settings.
async fn ask_checks(service: tokio::net::UnixStream) -> Result<Vec<Check>, String> {
    let answer =
        socket::ask_service(service, &AdminRequest::RunChecks).await.map_err(|error| error.to_string())?;
    serde_json::from_value(answer["checks"].clone()).map_err(|error| error.to_string())
}

/// Checks the database through the service; without a service, reads only the version of its schema.
async fn check_database(at: &Where, is_served: bool) -> Check {
    if is_served {
        return match admin::carry_out_at(at, AdminRequest::ListMachines).await {
            Ok(answer) => {
                let machines = answer["machines"].as_array().map_or(0, Vec::len);
                passing_check("database", format_args!("answers, {}", count_with_noun(machines, "machine")))
            }
            Err(error) => failing_check("database", error),
        };
    }
    let places = match admin::load_locations_as_caller(at) {
        Ok(places) => places,
        Err(error) => return failing_check("database", error),
    };
    if places.database.is_none() {
        match places.data.join(data::DATABASE).try_exists() {
            Ok(true) => {}
            Ok(false) => {
                let words = "not created yet: run `causerie account create` or start the service";
                return warning_check("database", words);
            }
            Err(error) => {
                return failing_check("database", admin::unusable_data_folder_error(&places.data, &error));
            }
        }
    }
    match control::data_folder::schema_version(&places.data, places.database.as_ref()).await {
        Ok(SchemaVersion { found, known }) if found > known => failing_check(
            "database",
            format_args!(
                "schema {found} is newer than {known}, which this program supports: use a newer program"
            ),
        ),
        Ok(SchemaVersion { found, known }) if found < known => passing_check(
            "database",
            format_args!("answers; the next start migrates it from {found} to {known}"),
        ),
        Ok(SchemaVersion { found, .. }) => passing_check("database", format_args!("answers, schema {found}")),
        Err(error) => failing_check("database", error),
    }
}
