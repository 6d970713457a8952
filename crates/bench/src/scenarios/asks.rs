//! Measures accepted questions per second. A question is accepted once it is on disk.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use super::block_on;
use crate::BenchResult;
use crate::bare::Bare;
use crate::http::{BenchConnection, build_request};
use crate::measurement::{Goal, Measurement, MeasurementUnit};
use crate::process::{self, CpuPlacement, CpuTime};
use crate::service::{BenchAccount, BenchService, ask_and_wait};
use crate::vendor::{BenchVendor, MODEL};

const ASKERS: [usize; 2] = [64, 256];
const PER_SECOND_MIN: f64 = 5000.0;
const ROUND: Duration = Duration::from_secs(2);
const ROUNDS: usize = 3;
/// The vendor accepts requests of this model and never answers, so that answers stay open.
const SILENT: &str = "stall-first";

/// Measures questions per second of callers that wait for each, beside a baseline server that writes requests to a
/// file.
pub(crate) fn measure_asks() -> BenchResult<Vec<Measurement>> {
    process::run_apart(|| {
        let vendor = BenchVendor::start()?;
        let mut service = BenchService::start_on(CpuPlacement::Alone, Some(vendor.base_url.clone()))?;
        let account = service.create_account()?;
        let file = service.folder().join("commits");
        let commit = Bare::start_role(CpuPlacement::Alone, "commit", &[&file.to_string_lossy()])?;
        let body = json!({"input": "What is the rent, and when is it due?", "model": SILENT});
        let ask = build_request("POST", "/api/v1/chats", Some(&account.key), Some(&body));
        let write = build_request("POST", "/", None, Some(&body));
        let (mut measurements, mut accepted) = (Vec::new(), 1.0);
        block_on(async {
            let mut connection = BenchConnection::open(service.address).await?;
            ask_and_wait(&mut connection, &account, MODEL, "Is the machine there?").await?;
            // The answers that the account's machine runs are open from here on; the others wait, so only their
            // acceptance is measured.
            accepted += run_ask_round(service.address, ASKERS[0], &ask).await?.0;
            for askers in ASKERS {
                let (mut ours, mut bare, mut micros) = (Vec::new(), Vec::new(), Vec::new());
                for _ in 0..ROUNDS {
                    let before = CpuTime::of_process(service.pid()?)?;
                    let (done, per_second) = run_ask_round(service.address, askers, &ask).await?;
                    micros.push(CpuTime::of_process(service.pid()?)?.nanos_since(&before) / 1e3 / done);
                    accepted += done;
                    ours.push(per_second);
                    bare.push(run_ask_round(commit.address, askers, &write).await?.1);
                }
                let name = |what: &str| format!("{what}, {askers} askers");
                measurements.push(
                    Measurement::new(name("questions accepted"), MeasurementUnit::PerSecond, ours)
                        .with_baseline("bare group commit", bare)
                        .with_goal(Goal::AtLeast(PER_SECOND_MIN)),
                );
                measurements.push(Measurement::new(
                    name("processor per question"),
                    MeasurementUnit::Micros,
                    micros,
                ));
            }
            Ok(())
        })?;
        service.kill()?;
        service.restart()?;
        block_on(none_is_missing(&service, &account, accepted))?;
        Ok(measurements)
    })
}

/// Returns the number of accepted questions in a round, and per second.
async fn run_ask_round(address: SocketAddr, askers: usize, request: &[u8]) -> BenchResult<(f64, f64)> {
    let mut connections = Vec::with_capacity(askers);
    for _ in 0..askers {
        connections.push(BenchConnection::open(address).await?);
    }
    let began = Instant::now();
    let mut asking = JoinSet::new();
    for mut connection in connections {
        let request = request.to_vec();
        asking.spawn(async move {
            let mut done = 0_u32;
            while began.elapsed() < ROUND {
                connection.call_json(&request, 202).await?;
                done += 1;
            }
            BenchResult::Ok(done)
        });
    }
    let mut done = 0.0;
    while let Some(asker) = asking.join_next().await {
        done += f64::from(asker??);
    }
    Ok((done, done / began.elapsed().as_secs_f64()))
}

/// Checks that all accepted questions survive a kill.
async fn none_is_missing(service: &BenchService, account: &BenchAccount, accepted: f64) -> BenchResult<()> {
    let mut connection = BenchConnection::open(service.address).await?;
    let listed = connection
        .call_json(&build_request("GET", "/api/v1/chats?limit=1", Some(&account.key), None), 200)
        .await?;
    let there = listed["totalCount"].as_f64().ok_or("a list has no totalCount")?;
    // No question was in progress when they were counted: each was awaited.
    if there == accepted {
        Ok(())
    } else {
        Err(format!("{accepted} questions were accepted, {there} are stored").into())
    }
}
