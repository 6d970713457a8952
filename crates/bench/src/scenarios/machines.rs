//! Measures machines of each driver: their start, stop, idle memory and tools.

use std::time::{Duration, Instant};

use serde_json::json;

use super::start::{change_machine, machines_memory, start_machine, to_millis};
use super::tools::run_tool_turn;
use super::{block_on, compare_with_sandbox};
use crate::BenchResult;
use crate::http::BenchConnection;
use crate::measurement::{Goal, Measurement, MeasurementUnit};
use crate::process::{CpuPlacement, CpuTime};
use crate::service::{BenchAccount, BenchService};
use crate::vendor::BenchVendor;

const MACHINES: usize = 10;
/// The machines of the measurement of many.
const MANY: usize = 50;
/// The time that machines are idle before their memory is read.
const IDLE: Duration = Duration::from_secs(3);
/// The time over which the processor time of idle machines is added up.
const IDLE_WATCHED: Duration = Duration::from_secs(30);

/// The number of turns whose calls are measured, after the first call of the machine.
const TURNS: usize = 5;
/// The calls that are measured, in this order, and their names: processes, an interpreter, pure computation, system
/// calls, and files of the workspace.
const COMMANDS: [(&str, &str); 10] = [
    ("sh", "true"),
    ("a hundred processes of sh", "for i in $(seq 100); do sh -c true; done"),
    ("python3", "python3 -c pass"),
    ("20 MB hashed by sha256sum", "head -c 20000000 /dev/zero | sha256sum"),
    ("200,000 system calls of dd", "dd if=/dev/zero of=/dev/null bs=1 count=100000 status=none"),
    ("1,000 files made", "mkdir m && cd m && for i in $(seq 1000); do > $i; done"),
    ("1,000 files looked at ten times", "for i in $(seq 10); do find m -size +9; done"),
    ("1,000 files removed", "rm -r m"),
    ("100 MiB written and synchronised", "dd if=/dev/zero of=big bs=1M count=100 conv=fsync status=none"),
    ("100 MiB read, and removed", "cat big > /dev/null; rm big"),
];

/// The measurements of one driver.
struct MachineFigures {
    start: Vec<f64>,
    stop: Vec<f64>,
    together: f64,
    memory: f64,
    memory_of_many: f64,
    /// The processor time of an idle machine, in hundredths of a processor.
    idle: f64,
    /// The first `python3` of each machine.
    first_python: Vec<f64>,
    /// For each of the commands.
    commands: Vec<Vec<f64>>,
}

/// Measures the drivers; the sandbox is the baseline. QEMU's processor is emulated where there is no KVM.
pub(crate) fn measure_machines() -> BenchResult<Vec<Measurement>> {
    compare_with_sandbox(measure_driver, driver_measurements)
}

fn driver_measurements(
    driver: &'static str,
    figures: MachineFigures,
    sandbox: &MachineFigures,
) -> Vec<Measurement> {
    let beside = |name: &str, unit, of_driver: Vec<f64>, of_sandbox: &[f64]| {
        Measurement::new(name, unit, of_driver)
            .with_series(driver)
            .with_baseline("sandbox", of_sandbox.to_vec())
    };
    let start_max = if driver == "qemu" { 300.0 } else { 400.0 };
    let mut measurements = vec![
        beside("start of a machine", MeasurementUnit::Millis, figures.start, &sandbox.start)
            .with_goal(Goal::AtMost(start_max)),
        beside("stop of a machine", MeasurementUnit::Millis, figures.stop, &sandbox.stop)
            .with_goal(Goal::AtMost(500.0)),
        beside(
            "start of ten machines at once",
            MeasurementUnit::Millis,
            vec![figures.together],
            &[sandbox.together],
        )
        .with_goal(Goal::AtMost(1500.0)),
        beside(
            "idle machine, one of ten, Pss",
            MeasurementUnit::Mebibytes,
            vec![figures.memory],
            &[sandbox.memory],
        ),
        beside(
            "idle machine, one of fifty, Pss",
            MeasurementUnit::Mebibytes,
            vec![figures.memory_of_many],
            &[sandbox.memory_of_many],
        )
        // Eight hundred in 16 GiB.
        .with_goal(Goal::AtMost(20.5)),
        beside("idle machine, processor time", MeasurementUnit::Percent, vec![figures.idle], &[sandbox.idle])
            .with_goal(Goal::AtMost(0.1)),
        beside("first python3", MeasurementUnit::Millis, figures.first_python, &sandbox.first_python)
            .with_goal(Goal::AtMost(400.0)),
    ];
    let commands = COMMANDS.iter().zip(figures.commands.into_iter().zip(&sandbox.commands));
    measurements.extend(
        commands.map(|((name, _), (values, of_sandbox))| {
            beside(name, MeasurementUnit::Millis, values, of_sandbox)
        }),
    );
    measurements
}

fn measure_driver(driver: &'static str) -> BenchResult<MachineFigures> {
    let vendor = BenchVendor::start()?;
    let mut service =
        BenchService::start_with(CpuPlacement::Anywhere, Some(vendor.base_url.clone()), Some(driver))?;
    let accounts = (0..MANY).map(|_| service.create_account()).collect::<BenchResult<Vec<_>>>()?;
    let (mut start, mut stop) = (Vec::new(), Vec::new());
    let (first, others) = accounts.split_at(MACHINES);
    for account in first {
        start.push(to_millis(block_on(start_machine(&service, account))?));
        stop.push(to_millis(block_on(change_machine(&service, account, "stop", "STOPPED"))?));
    }
    let together = to_millis(start_all(&service, first)?);
    std::thread::sleep(IDLE);
    let memory = machines_memory(&service)?.pss_mebibytes() / MACHINES as f64;
    let idle = idle_percent(&service)? / MACHINES as f64;
    start_all(&service, others)?;
    std::thread::sleep(IDLE);
    let memory_of_many = machines_memory(&service)?.pss_mebibytes() / MANY as f64;
    let first_python = block_on(first_calls(&service, first, "python3 -c pass"))?;
    let account = first.first().ok_or("there are accounts")?;
    let commands = block_on(run_commands(&service, account))?;
    Ok(MachineFigures { start, stop, together, memory, memory_of_many, idle, first_python, commands })
}

/// Returns the processor time that all machines take while they are idle, in hundredths of a processor.
fn idle_percent(service: &BenchService) -> BenchResult<f64> {
    let pids = service.machine_pids()?;
    let before = pids.iter().map(|pid| CpuTime::of_process(*pid)).collect::<BenchResult<Vec<_>>>()?;
    std::thread::sleep(IDLE_WATCHED);
    let mut nanos = 0.0;
    for (pid, before) in pids.iter().zip(&before) {
        nanos += CpuTime::of_process(*pid)?.nanos_since(before);
    }
    Ok(nanos / IDLE_WATCHED.as_nanos() as f64 * 100.0)
}

/// Runs a command as the first call of each machine by the tool `shell`. Returns its times in milliseconds.
async fn first_calls(
    service: &BenchService,
    accounts: &[BenchAccount],
    command: &str,
) -> BenchResult<Vec<f64>> {
    let mut connection = BenchConnection::open(service.address).await?;
    let mut values = Vec::with_capacity(accounts.len());
    for account in accounts {
        values.extend(run_tool_turn(&mut connection, account, &[shell_call(command)]).await?);
    }
    Ok(values)
}

/// Runs the commands by the tool `shell`. Returns the times of each in milliseconds.
async fn run_commands(service: &BenchService, account: &BenchAccount) -> BenchResult<Vec<Vec<f64>>> {
    let mut connection = BenchConnection::open(service.address).await?;
    let calls = COMMANDS.map(|(_, command)| shell_call(command));
    let mut commands = vec![Vec::with_capacity(TURNS); COMMANDS.len()];
    for _ in 0..TURNS {
        for (values, value) in commands.iter_mut().zip(run_tool_turn(&mut connection, account, &calls).await?)
        {
            values.push(value);
        }
    }
    Ok(commands)
}

fn shell_call(command: &str) -> (&'static str, serde_json::Value) {
    ("shell", json!({ "command": command }))
}

fn start_all(service: &BenchService, accounts: &[BenchAccount]) -> BenchResult<Duration> {
    let began = Instant::now();
    block_on(async {
        let starts = accounts.iter().map(|account| start_machine(service, account));
        futures_util::future::try_join_all(starts).await
    })?;
    Ok(began.elapsed())
}
