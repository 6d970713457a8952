//! Which machine drivers the built binary can run on this host, for tests that need a certain one.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use test_support::drivers::{self, DriverTrial};

use crate::service;

/// A missing program, so that a trial skips the other drivers.
const NONE: &str = "/no/program";

/// Returns true if a test can have services with this driver. Otherwise prints the reason, and records that the test is
/// not run.
///
/// # Panics
/// Panics if the driver is expected here and does not run.
#[must_use]
pub fn can_run(driver: &str) -> bool {
    drivers::can_run(&doctor_trial(driver))
}

/// Returns the trial of a driver, by the binary's `doctor`.
#[must_use]
pub fn doctor_trial(driver: &str) -> DriverTrial<'_> {
    DriverTrial { driver, by: "service", program: doctor_command, outcome: check_machines }
}

fn doctor_command(driver: &str, folder: &Path) -> Result<Command, String> {
    let mut command = Command::new(service::service_binary());
    command.env_clear().envs(service::inherited_variables());
    command.args(["doctor", "--json", "--data"]).arg(folder.join("data"));
    command.env("TMPDIR", folder).env("CAUSERIE_MACHINE_DRIVER", driver);
    if driver != "qemu" {
        command.env("CAUSERIE_MACHINE_QEMU", NONE);
    }
    if driver != "uml" {
        command.env("CAUSERIE_MACHINE_KERNEL", NONE);
    }
    Ok(command)
}

/// Reads the result of `doctor` for the set driver.
fn check_machines(output: &Output) -> Result<(), String> {
    let said: Value =
        serde_json::from_slice(&output.stdout).map_err(|_| format!("doctor ended with {}", output.status))?;
    let check = said["checks"].as_array().into_iter().flatten().find(|check| check["name"] == "machines");
    let check = check.ok_or("doctor has no check of machines")?;
    if check["status"] == "pass" {
        return Ok(());
    }
    Err(check["reason"].as_str().unwrap_or("doctor gives no reason").to_owned())
}
