//! Measures the start and the idle cost of the service.

use std::time::Duration;

use serde_json::Value;

use super::block_on;
use crate::Outcome;
use crate::bare::Bare;
use crate::http::{Connection, request};
use crate::measurement::{Goal, Measurement, Unit};
use crate::process::{Memory, Place};
use crate::service::{Account, Service, TIMEOUT};
use crate::vendor::{MODEL, Vendor};

const STARTS: usize = 20;
const IDLE: Duration = Duration::from_secs(5);
const CHECKS: usize = 3;
/// The time between the start of a service and its SIGTERM.
const SETTLE: Duration = Duration::from_millis(50);
/// The polling interval of a machine that starts or stops.
const POLL: Duration = Duration::from_millis(2);

/// Measures the time from the program's start until it answers, on a used folder.
pub(crate) fn cold_start() -> Outcome<Vec<Measurement>> {
    let mut service = Service::start(Place::Anywhere, None)?;
    let account = service.account()?;
    let without = starts(&mut service)?;
    let machine = block_on(start_machine(&service, &account))?;
    let with = starts(&mut service)?;
    let mut bare = Vec::with_capacity(STARTS);
    for _ in 0..STARTS {
        bare.push(millis(Bare::start(Place::Anywhere, "hello", &[])?.started_in));
    }
    Ok(vec![
        Measurement::new("cold start", Unit::Millis, without)
            .beside("axum hello", bare.clone())
            .goal(Goal::AtMost(50.0)),
        Measurement::new("cold start with a machine to take over", Unit::Millis, with)
            .beside("axum hello", bare)
            .goal(Goal::AtMost(50.0)),
        Measurement::new("first start of a machine", Unit::Millis, vec![millis(machine)]),
    ])
}

fn starts(service: &mut Service) -> Outcome<Vec<f64>> {
    let mut taken = Vec::with_capacity(STARTS);
    for _ in 0..STARTS {
        std::thread::sleep(SETTLE);
        service.terminate()?;
        taken.push(millis(service.restart()?));
    }
    Ok(taken)
}

/// Measures idle memory of the service, and of a machine that has answered.
pub(crate) fn idle_memory() -> Outcome<Vec<Measurement>> {
    let vendor = Vendor::start()?;
    let mut service = Service::start(Place::Anywhere, Some(vendor.base_url.clone()))?;
    let account = service.account()?;
    block_on(start_machine(&service, &account))?;
    let (mut alone, mut machine, mut hello) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..CHECKS {
        service.terminate()?;
        service.restart()?;
        let bare = Bare::start(Place::Anywhere, "hello", &[])?;
        std::thread::sleep(IDLE);
        alone.push(Memory::of(service.pid()?)?);
        hello.push(Memory::of(bare.pid())?);
        machine.push(of_machines(&service)?);
    }
    block_on(async {
        let mut connection = Connection::open(service.address).await?;
        crate::service::answered(&mut connection, &account, MODEL, "What is the rent?").await
    })?;
    let answered = [Memory::of(service.pid()?)?];
    let pss = |of: &[Memory]| of.iter().map(|memory| memory.pss_mebibytes()).collect::<Vec<_>>();
    let rss = |of: &[Memory]| of.iter().map(|memory| memory.rss_mebibytes()).collect::<Vec<_>>();
    Ok(vec![
        Measurement::new("idle service, Pss", Unit::Mebibytes, pss(&alone))
            .beside("axum hello", pss(&hello))
            .goal(Goal::AtMost(30.0)),
        Measurement::new("idle service, Rss", Unit::Mebibytes, rss(&alone)).beside("axum hello", rss(&hello)),
        Measurement::new("service after its first answer, Rss", Unit::Mebibytes, rss(&answered)),
        Measurement::new("idle machine, all its processes, Pss", Unit::Mebibytes, pss(&machine))
            .beside("axum hello", pss(&hello)),
        Measurement::new("idle machine, all its processes, Rss", Unit::Mebibytes, rss(&machine))
            .beside("axum hello", rss(&hello)),
    ])
}

pub(super) fn of_machines(service: &Service) -> Outcome<Memory> {
    let pids = service.machine_pids()?;
    if pids.is_empty() {
        return Err("the machine has no processes".into());
    }
    let mut each = pids.into_iter().map(Memory::of).collect::<Outcome<Vec<_>>>()?;
    // A kernel's processes follow one another and share their memory, so it is counted once.
    each.dedup();
    let sum = |of: fn(&Memory) -> f64| each.iter().map(of).sum();
    Ok(Memory { rss: sum(|memory| memory.rss), pss: sum(|memory| memory.pss) })
}

/// Starts the account's machine and waits until it runs. Returns the duration.
pub(super) async fn start_machine(service: &Service, account: &Account) -> Outcome<Duration> {
    change_machine(service, account, "start", "RUNNING").await
}

/// Starts or stops the account's machine and waits until it has this status. Returns the duration.
pub(super) async fn change_machine(
    service: &Service,
    account: &Account,
    action: &str,
    wanted: &str,
) -> Outcome<Duration> {
    let mut connection = Connection::open(service.address).await?;
    let began = std::time::Instant::now();
    let change = format!("/api/v1/vm/{action}");
    connection.call(&request("POST", &change, Some(&account.key), None), 202).await?;
    let look = request("GET", "/api/v1/vm", Some(&account.key), None);
    while began.elapsed() < TIMEOUT {
        let state: Value = connection.call(&look, 200).await?;
        if state["status"] == wanted {
            return Ok(began.elapsed());
        }
        tokio::time::sleep(POLL).await;
    }
    Err(format!("the machine does not become {wanted}").into())
}

pub(super) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
