//! Measures many readers of one answer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::block_on;
use crate::BenchResult;
use crate::bare::Bare;
use crate::http::{BenchConnection, build_request};
use crate::measurement::{Goal, Measurement, MeasurementUnit};
use crate::process::{self, CpuPlacement, CpuTime, ProcessMemory};
use crate::service::{AskedQuestion, BenchAccount, BenchService, ask_and_wait, ask_question};
use crate::vendor::{BenchVendor, MODEL};

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
struct FanOutSamples {
    per_second: Vec<f64>,
    micros: Vec<f64>,
    /// The time from the last token until the last reader had the end.
    late_millis: Vec<f64>,
}

/// Measures thousands of readers of one answer, and as a baseline, readers of a state of the same size from a bare
/// server.
pub(crate) fn fan_out() -> BenchResult<Vec<Measurement>> {
    process::run_apart(|| {
        let vendor = BenchVendor::start()?;
        let mut service = BenchService::start_on(CpuPlacement::Alone, Some(vendor.base_url.clone()))?;
        let account = service.create_account()?;
        let idle = block_on(async {
            let mut connection = BenchConnection::open(service.address).await?;
            ask_and_wait(&mut connection, &account, MODEL, "Is the machine there?").await?;
            let asked = ask_question(&mut connection, &account, "stall", "Who waits?").await?;
            idle_reader(service.address, service.pid()?, &build_events_request(&asked, &account)).await
        })?;
        let (count, every) = (TOKENS.to_string(), EVERY_MILLIS.to_string());
        let fan = || Bare::start_role(CpuPlacement::Alone, "fan", &[&count, &every]);
        let events = build_request("GET", "/events", None, None);
        let idle_bare = {
            let fan = fan()?;
            block_on(idle_reader(fan.address, fan.pid(), &events))?
        };
        let mut measurements = vec![
            Measurement::new("memory of an idle reader, Rss", MeasurementUnit::Kibibytes, vec![idle])
                .with_baseline("axum watch", vec![idle_bare])
                .with_goal(Goal::AtMost(IDLE_MAX_KIBIBYTES)),
        ];
        for readers in READERS {
            let (mut ours, mut bare) = (FanOutSamples::default(), FanOutSamples::default());
            for _ in 0..ROUNDS {
                block_on(through_service(&service, &account, readers, &mut ours))?;
                block_on(through_fan(&fan()?, &events, readers, &mut bare))?;
            }
            measurements.extend(fan_out_measurements(readers, ours, bare));
        }
        Ok(measurements)
    })
}

fn fan_out_measurements(readers: usize, ours: FanOutSamples, bare: FanOutSamples) -> [Measurement; 3] {
    let beside = |what: &str, unit, of: Vec<f64>, bare: Vec<f64>| {
        Measurement::new(format!("{readers} readers: {what}"), unit, of).with_baseline("axum watch", bare)
    };
    [
        beside("deliveries", MeasurementUnit::PerSecond, ours.per_second, bare.per_second)
            .with_goal(Goal::RatioAtLeast(1.0)),
        beside("processor per delivery", MeasurementUnit::Micros, ours.micros, bare.micros),
        beside("the end, at the last one", MeasurementUnit::Millis, ours.late_millis, bare.late_millis),
    ]
}

fn build_events_request(asked: &AskedQuestion, account: &BenchAccount) -> Vec<u8> {
    build_request("GET", &format!("{}/events", asked.answer_path()), Some(&account.key), None)
}

async fn through_service(
    service: &BenchService,
    account: &BenchAccount,
    readers: usize,
    samples: &mut FanOutSamples,
) -> BenchResult<()> {
    let tokens = json!({"tokens": {"count": TOKENS, "every_ms": EVERY_MILLIS}});
    let script = json!({"steps": [{"actions": [{"wait_ms": HEAD_START_MILLIS}, tokens]}]});
    let mut connection = BenchConnection::open(service.address).await?;
    let asked = ask_question(&mut connection, account, MODEL, &format!("STANDIN {script}")).await?;
    read_all(service.address, service.pid()?, &build_events_request(&asked, account), readers, None, samples)
        .await
}

async fn through_fan(
    fan: &Bare,
    events: &[u8],
    readers: usize,
    samples: &mut FanOutSamples,
) -> BenchResult<()> {
    read_all(fan.address, fan.pid(), events, readers, Some(build_request("POST", "/go", None, None)), samples)
        .await
}

/// Lets all readers read to the end. They are connected before the first change; `go` starts it if it does not start by
/// itself.
async fn read_all(
    address: SocketAddr,
    pid: u32,
    events: &[u8],
    readers: usize,
    go: Option<Vec<u8>>,
    samples: &mut FanOutSamples,
) -> BenchResult<()> {
    let there = Arc::new(Barrier::new(readers + 1));
    let mut reading = JoinSet::new();
    for _ in 0..readers {
        reading.spawn(read_deliveries(address, events.to_vec(), there.clone()));
    }
    tokio::select! {
        _ = there.wait() => {}
        // Until all are connected a reader only ends by failing.
        Some(failed) = reading.join_next() => {
            failed??;
            return Err("an answer ended before all readers were there".into());
        }
    }
    let before = CpuTime::of_process(pid)?;
    if let Some(go) = go {
        BenchConnection::open(address).await?.call_json(&go, 200).await?;
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
    samples.per_second.push(deliveries / took.as_secs_f64());
    samples.micros.push(CpuTime::of_process(pid)?.nanos_since(&before) / 1e3 / deliveries);
    let written = Duration::from_millis(u64::from(TOKENS - 1) * EVERY_MILLIS);
    samples.late_millis.push(took.saturating_sub(written).as_secs_f64() * 1e3);
    Ok(())
}

/// The data that one reader received after all were connected.
struct ReaderDeliveries {
    deliveries: u32,
    first: Instant,
    last: Instant,
}

async fn read_deliveries(
    address: SocketAddr,
    events: Vec<u8>,
    there: Arc<Barrier>,
) -> BenchResult<ReaderDeliveries> {
    let mut connection = BenchConnection::open(address).await?;
    let mut event = Vec::new();
    if connection.read_response_head(&events).await?.status != 200
        || !connection.read_event(&mut event).await?
    {
        return Err("an answer cannot be followed".into());
    }
    there.wait().await;
    let (mut deliveries, mut first, mut newest) = (0, None, Vec::new());
    while connection.read_event(&mut event).await? {
        first.get_or_insert_with(Instant::now);
        deliveries += 1;
        std::mem::swap(&mut event, &mut newest);
    }
    let last_token = format!(" t{}", TOKENS - 1);
    let end = String::from_utf8_lossy(&newest);
    if !end.starts_with("event: completed") || !end.contains(&last_token) {
        return Err(format!("a reader did not get the end: {end}").into());
    }
    Ok(ReaderDeliveries { deliveries, first: first.ok_or("a reader got no change")?, last: Instant::now() })
}

/// Returns the resident memory of an idle reader, in kibibytes.
async fn idle_reader(address: SocketAddr, pid: u32, events: &[u8]) -> BenchResult<f64> {
    let before = ProcessMemory::of_process(pid)?;
    let mut connections = Vec::with_capacity(READERS[0]);
    for _ in 0..READERS[0] {
        let mut connection = BenchConnection::open(address).await?;
        if connection.read_response_head(events).await?.status != 200
            || !connection.read_chunk(&mut Vec::new()).await?
        {
            return Err("an answer cannot be followed".into());
        }
        connections.push(connection);
    }
    tokio::time::sleep(SETTLE).await;
    Ok((ProcessMemory::of_process(pid)?.rss - before.rss) / READERS[0] as f64)
}
