//! Starts and stops a machine of each driver a hundred times, and compares the host's resources before and after.

use std::fs;
use std::io::Write;
use std::path::Path;

use super::block_on;
use super::start::{change_machine, start_machine, to_millis};
use crate::BenchResult;
use crate::measurement::{Goal, Measurement, MeasurementUnit};
use crate::process::{CpuPlacement, ProcessMemory, find_processes_in_folder};
use crate::service::{BenchAccount, BenchService};

const ROUNDS: usize = 100;
/// The rounds between two counts until nothing is added, and the maximum number of such counts: caches fill, and a
/// virtual machine is saved for all.
const WARM_UP: usize = 5;
const WARM_UPS_MAX: usize = 20;
/// The growth of the service's memory that is not a leak, in mebibytes: the allocator's slack.
const GROWTH_MAX: f64 = 8.0;

/// The endings of files that a database of SQLite has while it is open, or if its process is stopped.
const TRANSIENT: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Counts the resources of a service with one stopped machine.
#[derive(Debug, PartialEq, Eq)]
struct HeldResources {
    /// The service's open descriptors, its sockets among them.
    descriptors: usize,
    /// Processes that do not belong to the service.
    processes: usize,
    /// Files and folders of the data folder, without [`TRANSIENT`] ones.
    files: usize,
}

/// Measures starts and stops over a hundred rounds. Fails if processes, descriptors or files are left.
pub(crate) fn measure_rounds() -> BenchResult<Vec<Measurement>> {
    let mut measurements = Vec::new();
    for driver in ["sandbox", "uml", "qemu"] {
        match measure_driver_rounds(driver) {
            Ok(of_driver) => measurements.extend(of_driver),
            Err(error) if driver == "qemu" => {
                writeln!(std::io::stdout(), "qemu is not measured: {error}")?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(measurements)
}

fn measure_driver_rounds(driver: &'static str) -> BenchResult<[Measurement; 3]> {
    let mut service = BenchService::start_with(CpuPlacement::Anywhere, None, Some(driver))?;
    let account = service.create_account()?;
    let mut before = count_held_resources(&service)?;
    for _ in 0..WARM_UPS_MAX {
        run_rounds(&service, &account, WARM_UP)?;
        let warm = std::mem::replace(&mut before, count_held_resources(&service)?);
        if warm == before {
            break;
        }
    }
    let memory_before = ProcessMemory::of_process(service.pid()?)?;
    let (starts, stops) = run_rounds(&service, &account, ROUNDS)?;
    let (after, memory_after) = (count_held_resources(&service)?, ProcessMemory::of_process(service.pid()?)?);
    if before != after {
        return Err(format!("{driver}: {ROUNDS} rounds leave {after:?}, before them {before:?}").into());
    }
    let grown = memory_after.rss_mebibytes() - memory_before.rss_mebibytes();
    Ok([
        Measurement::new("start, of a hundred rounds", MeasurementUnit::Millis, starts).with_series(driver),
        Measurement::new("stop, of a hundred rounds", MeasurementUnit::Millis, stops).with_series(driver),
        Measurement::new(
            "growth of the service in a hundred rounds, Rss",
            MeasurementUnit::Mebibytes,
            vec![grown],
        )
        .with_series(driver)
        .with_goal(Goal::AtMost(GROWTH_MAX)),
    ])
}

/// Returns the times of the starts and of the stops, in milliseconds.
fn run_rounds(
    service: &BenchService,
    account: &BenchAccount,
    rounds: usize,
) -> BenchResult<(Vec<f64>, Vec<f64>)> {
    let (mut starts, mut stops) = (Vec::with_capacity(rounds), Vec::with_capacity(rounds));
    for _ in 0..rounds {
        starts.push(to_millis(block_on(start_machine(service, account))?));
        stops.push(to_millis(block_on(change_machine(service, account, "stop", "STOPPED"))?));
    }
    Ok((starts, stops))
}

fn count_held_resources(service: &BenchService) -> BenchResult<HeldResources> {
    let pid = service.pid()?;
    let others = find_processes_in_folder(&service.folder()).into_iter().filter(|process| *process != pid);
    Ok(HeldResources {
        descriptors: fs::read_dir(format!("/proc/{pid}/fd"))?.count(),
        processes: others.count(),
        files: count_folder_entries(&service.folder())?,
    })
}

/// Counts the entries of a folder and its subfolders.
fn count_folder_entries(folder: &Path) -> BenchResult<usize> {
    let mut count = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let is_transient = |ending: &&str| name.as_encoded_bytes().ends_with(ending.as_bytes());
            count += usize::from(!TRANSIENT.iter().any(is_transient));
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(count)
}
