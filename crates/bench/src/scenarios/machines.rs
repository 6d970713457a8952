//! Measures machines of each driver: their start, stop and idle memory.

use std::time::{Duration, Instant};

use super::block_on;
use super::start::{change_machine, millis, of_machines, start_machine};
use crate::Outcome;
use crate::measurement::{Goal, Measurement, Unit};
use crate::process::Place;
use crate::service::{Account, Service};

const MACHINES: usize = 10;
/// The machines of the measurement of many.
const MANY: usize = 50;
/// The time that machines are idle before their memory is read.
const IDLE: Duration = Duration::from_secs(3);

/// The measurements of one driver.
struct Figures {
    start: Vec<f64>,
    stop: Vec<f64>,
    together: f64,
    memory: f64,
    memory_of_many: f64,
}

/// Measures both drivers; the sandbox is the baseline.
pub(crate) fn machines() -> Outcome<Vec<Measurement>> {
    let (uml, sandbox) = (of_driver("uml")?, of_driver("sandbox")?);
    let beside = |name: &str, unit, uml: Vec<f64>, sandbox: Vec<f64>| {
        Measurement::new(name, unit, uml).beside("sandbox", sandbox)
    };
    Ok(vec![
        beside("start of a machine (uml)", Unit::Millis, uml.start, sandbox.start).goal(Goal::AtMost(400.0)),
        beside("stop of a machine (uml)", Unit::Millis, uml.stop, sandbox.stop).goal(Goal::AtMost(500.0)),
        beside(
            "start of ten machines at once (uml)",
            Unit::Millis,
            vec![uml.together],
            vec![sandbox.together],
        )
        .goal(Goal::AtMost(1500.0)),
        beside(
            "idle machine, one of ten, Pss (uml)",
            Unit::Mebibytes,
            vec![uml.memory],
            vec![sandbox.memory],
        ),
        beside(
            "idle machine, one of fifty, Pss (uml)",
            Unit::Mebibytes,
            vec![uml.memory_of_many],
            vec![sandbox.memory_of_many],
        )
        // Four hundred in 16 GiB.
        .goal(Goal::AtMost(41.0)),
    ])
}

fn of_driver(driver: &'static str) -> Outcome<Figures> {
    let mut service = Service::start_with(Place::Anywhere, None, Some(driver))?;
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
    Ok(Figures { start, stop, together, memory, memory_of_many })
}

fn start_all(service: &Service, accounts: &[Account]) -> Outcome<Duration> {
    let began = Instant::now();
    block_on(async {
        let starts = accounts.iter().map(|account| start_machine(service, account));
        futures_util::future::try_join_all(starts).await
    })?;
    Ok(began.elapsed())
}
