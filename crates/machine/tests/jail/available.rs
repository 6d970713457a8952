//! Which kinds of machines this host can run.

use std::path::Path;
use std::process::Command;

use machine::{OwnKernel, find_qemu};
use test_support::drivers::{self, DriverTrial};

use crate::site::{DriverKind, find_kernel, probe_agent_path};

/// Returns true if this host can run such machines. Otherwise prints the reason, and records that the test is not run.
pub(crate) fn can_run(kind: DriverKind) -> bool {
    let by = "tests-agent";
    drivers::can_run(&DriverTrial {
        driver: kind.driver_name(),
        by,
        program: probe_command,
        outcome: drivers::by_status,
    })
}

/// Runs the driver's self-test with the tests' agent, in this folder.
fn probe_command(driver: &str, folder: &Path) -> Result<Command, String> {
    let kinds = [DriverKind::Sandbox, DriverKind::Uml, DriverKind::Qemu];
    let kind = kinds.into_iter().find(|kind| kind.driver_name() == driver).expect("a driver of the tests");
    let mut command = Command::new(probe_agent_path());
    command.arg("probe").arg(folder);
    if let Some(kernel) = find_kernel(kind)? {
        let file = folder.join("kernel.json");
        let json = serde_json::to_vec(&kernel).map_err(|error| error.to_string())?;
        std::fs::write(&file, json).map_err(|error| error.to_string())?;
        command.arg(file);
        // A later trial detects changes of the program.
        match kernel {
            OwnKernel::UserModeLinux(kernel) => command.arg(kernel.program()),
            OwnKernel::Qemu(_) => command.args(find_qemu(None)),
        };
    }
    Ok(command)
}
