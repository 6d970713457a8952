//! `causerie doctor`: checks the requirements of a service on this host, and reports how to fix problems.
//!
//! It changes nothing: machine drivers are tried in a temporary folder. If a service runs, it runs the checks
//! itself, with its settings. Otherwise the caller's settings are used, so the command should run as the
//! service's user; root acts as the owner of the data folder.

mod checks;

use clap::Args;
use control::backup::interrupted_restore;
use control::data_folder::{SchemaVersion, StartError};
use control::{Check, CheckStatus};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use settings::ServiceSettings;
use tokio::net::UnixStream;

use self::checks::{check_host, check_models, check_service, check_web_search};
use super::machine::list::ListMachines;
use super::models::ModelList;
use crate::carry_out::carry_out_at;
use crate::checks::{failing_check, passing_check, warning_check};
use crate::error::CliError;
use crate::location::{Where, load_locations_as_caller, unusable_data_folder_error};
use crate::output::{Column, count_with_noun, print_line, print_table, to_cell};
use crate::request::{CommandReply, ExecutionContext, HostChecks, OperatorRequest};
use crate::{data, socket};

/// Check the requirements of a service on this host, and report how to fix problems
///
/// Exits with 1 if there is a problem. Run it as the user of the service.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  causerie doctor --data /var/lib/causerie\n  causerie doctor --config /etc/causerie/causerie.toml"
)]
pub struct DoctorArgs;

impl DoctorArgs {
    /// Runs all checks and prints them. Returns true if none failed.
    pub async fn run(self, at: &Where, host_checks: HostChecks) -> bool {
        let checks = run_all_checks(at, host_checks).await;
        let ok = checks.iter().all(|check| check.status != CheckStatus::Fail);
        DoctorReport { ok, checks }.print(at.json);
        ok
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct DoctorReport {
    ok: bool,
    checks: Vec<Check>,
}

impl CommandReply for DoctorReport {
    fn print_for_people(&self) {
        let columns: [Column<Check>; 3] = [
            Column { name: "", cell: |check| Value::from(status_mark(check.status)) },
            Column { name: "check", cell: |check| to_cell(&check.name) },
            Column { name: "finding", cell: |check| Value::from(check.reason.replace('\n', "; ")) },
        ];
        print_table(&columns, &self.checks);
        let count = |status| self.checks.iter().filter(|check| check.status == status).count();
        print_line(format_args!(
            "\n{}, {}",
            count_with_noun(count(CheckStatus::Fail), "problem"),
            count_with_noun(count(CheckStatus::Warn), "warning")
        ));
    }
}

fn status_mark(status: CheckStatus) -> &'static str {
    match status {
        CheckStatus::Pass => "ok",
        CheckStatus::Warn => "warning",
        CheckStatus::Fail => "PROBLEM",
    }
}

/// Asks the service to check its settings.
#[derive(Debug, Serialize, Deserialize)]
pub struct RunChecks;

#[derive(Debug, Serialize, Deserialize)]
pub struct FoundChecks {
    checks: Vec<Check>,
}

impl CommandReply for FoundChecks {}

impl OperatorRequest for RunChecks {
    const NAME: &'static str = "run_checks";
    type Reply = FoundChecks;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<FoundChecks, CliError> {
        let facts = context.service()?;
        let checks = Box::pin(check_service(&facts.settings, &facts.service, facts.host_checks)).await;
        Ok(FoundChecks { checks })
    }
}

/// Runs all checks. Checks that depend on settings are run by the running service, whose settings and variables may
/// differ from the shell's.
async fn run_all_checks(at: &Where, host_checks: HostChecks) -> Vec<Check> {
    let service = match load_locations_as_caller(at) {
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
    checks
}

async fn check_settings(at: &Where, settings: &ServiceSettings, host_checks: HostChecks) -> Vec<Check> {
    let mut checks = vec![check_host()];
    let data = settings.data.display();
    checks.push(match data::check_data_folder_access(&settings.data) {
        Ok(()) => passing_check("service", format_args!("not running on {data}")),
        Err(error) => failing_check("service", unusable_data_folder_error(&settings.data, &error)),
    });
    checks.push(match interrupted_restore(&settings.data) {
        Some(left) => failing_check("database", StartError::RestoreInterrupted(left)),
        None => check_database(at, false).await,
    });
    checks.extend(host_checks(settings).await);
    checks.extend(check_models(ModelList::from_vendors(settings).await));
    checks.push(check_web_search(settings).await);
    checks
}

/// Has the running service run the checks of its settings.
async fn ask_checks(service: UnixStream) -> Result<Vec<Check>, String> {
    let found = socket::ask_service(service, &RunChecks).await;
    found.map(|found| found.checks).map_err(|error| error.to_string())
}

/// Checks the database through the service; without a service, reads only the version of its schema.
async fn check_database(at: &Where, is_served: bool) -> Check {
    if is_served {
        return match carry_out_at(at, ListMachines).await {
            Ok(listed) => {
                let machines = count_with_noun(listed.machines.len(), "machine");
                passing_check("database", format_args!("answers, {machines}"))
            }
            Err(error) => failing_check("database", error),
        };
    }
    let places = match load_locations_as_caller(at) {
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
                return failing_check("database", unusable_data_folder_error(&places.data, &error));
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
