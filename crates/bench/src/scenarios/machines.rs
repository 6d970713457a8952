//! Measures machines of each driver: their start, stop, idle memory and tools.

use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::json;

use super::block_on;
use super::start::{change_machine, millis, of_machines, start_machine};
use super::tools::turn;
use crate::Outcome;
use crate::http::Connection;
use crate::measurement::{Goal, Measurement, Unit};
use crate::process::Place;
use crate::service::{Account, Service};
use crate::vendor::Vendor;

const MACHINES: usize = 10;
/// The machines of the measurement of many.
const MANY: usize = 50;
/// The time that machines are idle before their memory is read.
const IDLE: Duration = Duration::from_secs(3);

/// The turns whose calls are measured, after the first.
const TURNS: usize = 5;
/// The calls that are measured, and their names: a process, an interpreter, small files, and nothing but computing.
const COMMANDS: [(&str, &str); 4] = [
    ("sh", "true"),
    ("python3", "python3 -c pass"),
    (
        "200 files made, read, removed",
        "for i in $(seq 200); do echo $i > f$i; done; cat f* > /dev/null; rm f*",
    ),
    ("20 MB hashed by sha256sum", "head -c 20000000 /dev/zero | sha256sum"),
];

/// The measurements of one driver.
struct Figures {
    start: Vec<f64>,
    stop: Vec<f64>,
    together: f64,
    memory: f64,
    memory_of_many: f64,
    /// The first `python3` of a machine.
    first_python: f64,
    /// For each of the commands.
    commands: Vec<Vec<f64>>,
}

/// Measures the drivers; the sandbox is the baseline. QEMU's processor is emulated where there is no KVM.
pub(crate) fn machines() -> Outcome<Vec<Measurement>> {
    let sandbox = of_driver("sandbox")?;
    let mut measurements = beside_sandbox("uml", of_driver("uml")?, &sandbox);
    match of_driver("qemu") {
        Ok(qemu) => measurements.extend(beside_sandbox("qemu", qemu, &sandbox)),
        Err(error) => writeln!(std::io::stdout(), "qemu is not measured: {error}")?,
    }
    Ok(measurements)
}

fn beside_sandbox(driver: &'static str, figures: Figures, sandbox: &Figures) -> Vec<Measurement> {
    let beside = |name: &str, unit, of_driver: Vec<f64>, of_sandbox: &[f64]| {
        Measurement::new(name, unit, of_driver).series(driver).beside("sandbox", of_sandbox.to_vec())
    };
    let start_max = if driver == "qemu" { 300.0 } else { 400.0 };
    let mut measurements = vec![
        beside("start of a machine", Unit::Millis, figures.start, &sandbox.start)
            .goal(Goal::AtMost(start_max)),
        beside("stop of a machine", Unit::Millis, figures.stop, &sandbox.stop).goal(Goal::AtMost(500.0)),
        beside("start of ten machines at once", Unit::Millis, vec![figures.together], &[sandbox.together])
            .goal(Goal::AtMost(1500.0)),
        beside("idle machine, one of ten, Pss", Unit::Mebibytes, vec![figures.memory], &[sandbox.memory]),
        beside(
            "idle machine, one of fifty, Pss",
            Unit::Mebibytes,
            vec![figures.memory_of_many],
            &[sandbox.memory_of_many],
        )
        // Four hundred in 16 GiB.
        .goal(Goal::AtMost(41.0)),
        beside("first python3", Unit::Millis, vec![figures.first_python], &[sandbox.first_python])
            .goal(Goal::AtMost(400.0)),
    ];
    let commands = COMMANDS.iter().zip(figures.commands.into_iter().zip(&sandbox.commands));
    measurements.extend(
        commands.map(|((name, _), (values, of_sandbox))| beside(name, Unit::Millis, values, of_sandbox)),
    );
    measurements
}

fn of_driver(driver: &'static str) -> Outcome<Figures> {
    let vendor = Vendor::start()?;
    let mut service = Service::start_with(Place::Anywhere, Some(vendor.base_url.clone()), Some(driver))?;
    let accounts = (0..MANY).map(|_| service.account()).collect::<Outcome<Vec<_>>>()?;
    let (mut start, mut stop) = (Vec::new(), Vec::new());
    let (first, others) = accounts.split_at(MACHINES);
    for account in first {
        start.push(millis(block_on(start_machine(&service, account))?));
        stop.push(millis(block_on(change_machine(&service, account, "stop", "STOPPED"))?));
    }
    let together = millis(start_all(&service, first)?);
    std::thread::sleep(IDLE);
    let memory = of_machines(&service)?.pss_mebibytes() / MACHINES as f64;
    start_all(&service, others)?;
    std::thread::sleep(IDLE);
    let memory_of_many = of_machines(&service)?.pss_mebibytes() / MANY as f64;
    let account = first.first().ok_or("there are accounts")?;
    let (first_python, commands) = block_on(run_commands(&service, account))?;
    Ok(Figures { start, stop, together, memory, memory_of_many, first_python, commands })
}

/// Runs the commands by the tool `shell`. Returns the time of the first `python3`, then of each command, in milliseconds.
async fn run_commands(service: &Service, account: &Account) -> Outcome<(f64, Vec<Vec<f64>>)> {
    let shell = |command: &str| ("shell", json!({ "command": command }));
    let mut connection = Connection::open(service.address).await?;
    let first = turn(&mut connection, account, &[shell("python3 -c pass")]).await?;
    let calls = COMMANDS.map(|(_, command)| shell(command));
    let mut commands = vec![Vec::with_capacity(TURNS); COMMANDS.len()];
    for _ in 0..TURNS {
        for (values, value) in commands.iter_mut().zip(turn(&mut connection, account, &calls).await?) {
            values.push(value);
        }
    }
    Ok((first.first().copied().unwrap_or_default(), commands))
}

fn start_all(service: &Service, accounts: &[Account]) -> Outcome<Duration> {
    let began = Instant::now();
    block_on(async {
        let starts = accounts.iter().map(|account| start_machine(service, account));
        futures_util::future::try_join_all(starts).await
    })?;
    Ok(began.elapsed())
}
