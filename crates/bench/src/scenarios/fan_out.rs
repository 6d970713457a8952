//! Measures many readers of one answer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::block_on;
use crate::Outcome;
use crate::bare::Bare;
use crate::http::{Connection, request};
use crate::measurement::{Goal, Measurement, Unit};
use crate::process::{self, CpuTime, Memory, Place};
use crate::service::{Account, Asked, Service, answered, ask};
use crate::vendor::{MODEL, Vendor};

const READERS: [usize; 2] = [1000, 5000];
/// The target for the memory of an idle reader.
const IDLE_MAX_KIBIBYTES: f64 = 20.0;
const TOKENS: u32 = 400;
const EVERY_MILLIS: u64 = 5;
/// The delay of the vendor, so that all readers are connected when it starts.
const HEAD_START_MILLIS: u64 = 4000;
const ROUNDS: usize = 2;
/// The pause before memory is measured.
const SETTLE: Duration = Duration::from_secs(1);

/// States delivered per second, and the cost of an idle reader.
#[derive(Default)]
struct Told {
    per_second: Vec<f64>,
    micros: Vec<f64>,
    /// The time from the last token until the last reader had the end.
    late_millis: Vec<f64>,
}

/// Measures thousands of readers of one answer, beside those of a baseline server's state of the same size.
pub(crate) fn fan_out() -> Outcome<Vec<Measurement>> {
    process::apart(|| {
        let vendor = Vendor::start()?;
        let mut service = Service::start(Place::Alone, Some(vendor.base_url.clone()))?;
        let account = service.account()?;
        let idle = block_on(async {
            let mut connection = Connection::open(service.address).await?;
            answered(&mut connection, &account, MODEL, "Is the machine there?").await?;
            let asked = ask(&mut connection, &account, "stall", "Who waits?").await?;
            idle_reader(service.address, service.pid()?, &events_of(&asked, &account)).await
        })?;
        let (count, every) = (TOKENS.to_string(), EVERY_MILLIS.to_string());
        let fan = || Bare::start(Place::Alone, "fan", &[&count, &every]);
        let events = request("GET", "/events", None, None);
        let idle_bare = {
            let fan = fan()?;
            block_on(idle_reader(fan.address, fan.pid(), &events))?
        };
        let mut measurements = vec![
            Measurement::new("memory of an idle reader, Rss", Unit::Kibibytes, vec![idle])
                .beside("axum watch", vec![idle_bare])
                .goal(Goal::AtMost(IDLE_MAX_KIBIBYTES)),
        ];
        for readers in READERS {
            let (mut ours, mut bare) = (Told::default(), Told::default());
            for _ in 0..ROUNDS {
                block_on(through_service(&service, &account, readers, &mut ours))?;
                block_on(through_fan(&fan()?, &events, readers, &mut bare))?;
            }
            measurements.extend(told(readers, ours, bare));
        }
        Ok(measurements)
    })
}

fn told(readers: usize, ours: Told, bare: Told) -> [Measurement; 3] {
    let beside = |what: &str, unit, of: Vec<f64>, bare: Vec<f64>| {
        Measurement::new(format!("{readers} readers: {what}"), unit, of).beside("axum watch", bare)
    };
    [
        beside("deliveries", Unit::PerSecond, ours.per_second, bare.per_second).goal(Goal::RatioAtLeast(1.0)),
        beside("processor per delivery", Unit::Micros, ours.micros, bare.micros),
        beside("the end, at the last one", Unit::Millis, ours.late_millis, bare.late_millis),
    ]
}

fn events_of(asked: &Asked, account: &Account) -> Vec<u8> {
    request("GET", &format!("{}/events", asked.path()), Some(&account.key), None)
}

async fn through_service(
    service: &Service,
    account: &Account,
    readers: usize,
    told: &mut Told,
) -> Outcome<()> {
    let tokens = json!({"tokens": {"count": TOKENS, "every_ms": EVERY_MILLIS}});
    let script = json!({"steps": [{"actions": [{"wait_ms": HEAD_START_MILLIS}, tokens]}]});
    let mut connection = Connection::open(service.address).await?;
    let asked = ask(&mut connection, account, MODEL, &format!("STANDIN {script}")).await?;
    read_all(service.address, service.pid()?, &events_of(&asked, account), readers, None, told).await
}

async fn through_fan(fan: &Bare, events: &[u8], readers: usize, told: &mut Told) -> Outcome<()> {
    read_all(fan.address, fan.pid(), events, readers, Some(request("POST", "/go", None, None)), told).await
}

/// Lets all readers read to the end. They are connected before the first change; `go` starts it if it does not start by
/// itself.
async fn read_all(
    address: SocketAddr,
    pid: u32,
    events: &[u8],
    readers: usize,
    go: Option<Vec<u8>>,
    told: &mut Told,
) -> Outcome<()> {
    let there = Arc::new(Barrier::new(readers + 1));
    let mut reading = JoinSet::new();
    for _ in 0..readers {
        reading.spawn(read(address, events.to_vec(), there.clone()));
    }
    tokio::select! {
        _ = there.wait() => {}
        // Until all are connected a reader only ends by failing.
        Some(failed) = reading.join_next() => {
            failed??;
            return Err("an answer ended before all readers were there".into());
        }
    }
    let before = CpuTime::of(pid)?;
    if let Some(go) = go {
        Connection::open(address).await?.call(&go, 200).await?;
    }
    let (mut deliveries, mut first, mut last) = (0.0, None, None);
    while let Some(reader) = reading.join_next().await {
        let read = reader??;
        deliveries += f64::from(read.deliveries);
        first = first.min(Some(read.first)).or(Some(read.first));
        last = last.max(Some(read.last));
    }
    let (Some(first), Some(last)) = (first, last) else { return Err("nobody read".into()) };
    let took = last - first;
    told.per_second.push(deliveries / took.as_secs_f64());
    told.micros.push(CpuTime::of(pid)?.since(&before) / 1e3 / deliveries);
    let written = Duration::from_millis(u64::from(TOKENS - 1) * EVERY_MILLIS);
    told.late_millis.push(took.saturating_sub(written).as_secs_f64() * 1e3);
    Ok(())
}

/// The data that one reader received after all were connected.
struct Read {
    deliveries: u32,
    first: Instant,
    last: Instant,
}

async fn read(address: SocketAddr, events: Vec<u8>, there: Arc<Barrier>) -> Outcome<Read> {
    let mut connection = Connection::open(address).await?;
    let mut event = Vec::new();
    if connection.begin(&events).await?.status != 200 || !connection.event(&mut event).await? {
        return Err("an answer cannot be followed".into());
    }
    there.wait().await;
    let (mut deliveries, mut first, mut newest) = (0, None, Vec::new());
    while connection.event(&mut event).await? {
        first.get_or_insert_with(Instant::now);
        deliveries += 1;
        std::mem::swap(&mut event, &mut newest);
    }
    let last_token = format!(" t{}", TOKENS - 1);
    let end = String::from_utf8_lossy(&newest);
    if !end.starts_with("event: completed") || !end.contains(&last_token) {
        return Err(format!("a reader did not get the end: {end}").into());
    }
    Ok(Read { deliveries, first: first.ok_or("a reader got no change")?, last: Instant::now() })
}

/// Returns the resident memory of an idle reader, in kibibytes.
async fn idle_reader(address: SocketAddr, pid: u32, events: &[u8]) -> Outcome<f64> {
    let before = Memory::of(pid)?;
    let mut connections = Vec::with_capacity(READERS[0]);
    for _ in 0..READERS[0] {
        let mut connection = Connection::open(address).await?;
        if connection.begin(events).await?.status != 200 || !connection.chunk(&mut Vec::new()).await? {
            return Err("an answer cannot be followed".into());
        }
        connections.push(connection);
    }
    tokio::time::sleep(SETTLE).await;
    Ok((Memory::of(pid)?.rss - before.rss) / READERS[0] as f64)
}
