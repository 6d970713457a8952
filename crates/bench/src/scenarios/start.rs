//! Measures the start and the idle cost of the service.

use std::time::Duration;

use serde_json::Value;

use super::block_on;
use crate::BenchResult;
use crate::bare::Bare;
use crate::http::{BenchConnection, build_request};
use crate::measurement::{Goal, Measurement, MeasurementUnit};
use crate::process::{CpuPlacement, ProcessMemory};
use crate::service::{BenchAccount, BenchService, TIMEOUT};
use crate::vendor::{BenchVendor, MODEL};

const STARTS: usize = 20;
const IDLE: Duration = Duration::from_secs(5);
const CHECKS: usize = 3;
/// The time between the start of a service and its SIGTERM.
const SETTLE: Duration = Duration::from_millis(50);
/// The polling interval of a machine that starts or stops.
const POLL: Duration = Duration::from_millis(2);

/// Measures the time from the program's start until it answers, on a used folder.
pub(crate) fn cold_start() -> BenchResult<Vec<Measurement>> {
    let mut service = BenchService::start_on(CpuPlacement::Anywhere, None)?;
    let account = service.create_account()?;
    let without = time_starts(&mut service)?;
    let machine = block_on(start_machine(&service, &account))?;
    let with = time_starts(&mut service)?;
    let mut bare = Vec::with_capacity(STARTS);
    for _ in 0..STARTS {
        bare.push(to_millis(Bare::start_role(CpuPlacement::Anywhere, "hello", &[])?.started_in));
    }
    Ok(vec![
        Measurement::new("cold start", MeasurementUnit::Millis, without)
            .with_baseline("axum hello", bare.clone())
            .with_goal(Goal::AtMost(50.0)),
        Measurement::new("cold start with a machine to take over", MeasurementUnit::Millis, with)
            .with_baseline("axum hello", bare)
            .with_goal(Goal::AtMost(50.0)),
        Measurement::new("first start of a machine", MeasurementUnit::Millis, vec![to_millis(machine)]),
    ])
}

fn time_starts(service: &mut BenchService) -> BenchResult<Vec<f64>> {
    let mut taken = Vec::with_capacity(STARTS);
    for _ in 0..STARTS {
        std::thread::sleep(SETTLE);
        service.terminate()?;
        taken.push(to_millis(service.restart()?));
    }
    Ok(taken)
}

/// Measures idle memory of the service, and of a machine that has answered.
pub(crate) fn idle_memory() -> BenchResult<Vec<Measurement>> {
    let vendor = BenchVendor::start()?;
    let mut service = BenchService::start_on(CpuPlacement::Anywhere, Some(vendor.base_url.clone()))?;
    let account = service.create_account()?;
    block_on(start_machine(&service, &account))?;
    let (mut alone, mut machine, mut hello) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..CHECKS {
        service.terminate()?;
        service.restart()?;
        let bare = Bare::start_role(CpuPlacement::Anywhere, "hello", &[])?;
        std::thread::sleep(IDLE);
        alone.push(ProcessMemory::of_process(service.pid()?)?);
        hello.push(ProcessMemory::of_process(bare.pid())?);
        machine.push(machines_memory(&service)?);
    }
    block_on(async {
        let mut connection = BenchConnection::open(service.address).await?;
        crate::service::ask_and_wait(&mut connection, &account, MODEL, "What is the rent?").await
    })?;
    let answered = [ProcessMemory::of_process(service.pid()?)?];
    let pss = |of: &[ProcessMemory]| of.iter().map(|memory| memory.pss_mebibytes()).collect::<Vec<_>>();
    let rss = |of: &[ProcessMemory]| of.iter().map(|memory| memory.rss_mebibytes()).collect::<Vec<_>>();
    Ok(vec![
        Measurement::new("idle service, Pss", MeasurementUnit::Mebibytes, pss(&alone))
            .with_baseline("axum hello", pss(&hello))
            .with_goal(Goal::AtMost(30.0)),
        Measurement::new("idle service, Rss", MeasurementUnit::Mebibytes, rss(&alone))
            .with_baseline("axum hello", rss(&hello)),
        Measurement::new("service after its first answer, Rss", MeasurementUnit::Mebibytes, rss(&answered)),
        Measurement::new("idle machine, all its processes, Pss", MeasurementUnit::Mebibytes, pss(&machine))
            .with_baseline("axum hello", pss(&hello)),
        Measurement::new("idle machine, all its processes, Rss", MeasurementUnit::Mebibytes, rss(&machine))
            .with_baseline("axum hello", rss(&hello)),
    ])
}

pub(super) fn machines_memory(service: &BenchService) -> BenchResult<ProcessMemory> {
    let pids = service.machine_pids()?;
    if pids.is_empty() {
        return Err("the machine has no processes".into());
    }
    let mut each = pids.into_iter().map(ProcessMemory::of_process).collect::<BenchResult<Vec<_>>>()?;
    // A kernel's processes follow one another and share their memory, so it is counted once.
    each.dedup();
    let sum = |of: fn(&ProcessMemory) -> f64| each.iter().map(of).sum();
    Ok(ProcessMemory { rss: sum(|memory| memory.rss), pss: sum(|memory| memory.pss) })
}

/// Starts the account's machine and waits until it runs. Returns the duration.
pub(super) async fn start_machine(service: &BenchService, account: &BenchAccount) -> BenchResult<Duration> {
    change_machine(service, account, "start", "RUNNING").await
}

/// Starts or stops the account's machine and waits until it has this status. Returns the duration.
pub(super) async fn change_machine(
    service: &BenchService,
    account: &BenchAccount,
    action: &str,
    wanted: &str,
) -> BenchResult<Duration> {
    let mut connection = BenchConnection::open(service.address).await?;
    let began = std::time::Instant::now();
    let change = format!("/api/v1/vm/{action}");
    connection.call_json(&build_request("POST", &change, Some(&account.key), None), 202).await?;
    let look = build_request("GET", "/api/v1/vm", Some(&account.key), None);
    while began.elapsed() < TIMEOUT {
        let state: Value = connection.call_json(&look, 200).await?;
        if state["status"] == wanted {
            return Ok(began.elapsed());
        }
        tokio::time::sleep(POLL).await;
    }
    Err(format!("the machine does not become {wanted}").into())
}

pub(super) fn to_millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
