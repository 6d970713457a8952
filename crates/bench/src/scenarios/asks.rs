//! Measures accepted questions per second. A question is accepted once it is on disk.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use super::block_on;
use crate::Outcome;
use crate::bare::Bare;
use crate::http::{Connection, request};
use crate::measurement::{Goal, Measurement, Unit};
use crate::process::{self, CpuTime, Place};
use crate::service::{Account, Service, answered};
use crate::vendor::{MODEL, Vendor};

const ASKERS: [usize; 2] = [64, 256];
const PER_SECOND_MIN: f64 = 5000.0;
const ROUND: Duration = Duration::from_secs(2);
const ROUNDS: usize = 3;
/// The vendor accepts requests of this model and never answers, so that answers stay open.
const SILENT: &str = "stall-first";

/// Measures questions per second of callers that wait for each, beside a baseline server that writes requests to a
/// file.
pub(crate) fn asks() -> Outcome<Vec<Measurement>> {
    process::apart(|| {
        let vendor = Vendor::start()?;
        let mut service = Service::start(Place::Alone, Some(vendor.base_url.clone()))?;
        let account = service.account()?;
        let file = service.folder().join("commits");
        let commit = Bare::start(Place::Alone, "commit", &[&file.to_string_lossy()])?;
        let body = json!({"input": "What is the rent, and when is it due?", "model": SILENT});
        let ask = request("POST", "/api/v1/chats", Some(&account.key), Some(&body));
        let write = request("POST", "/", None, Some(&body));
        let (mut measurements, mut accepted) = (Vec::new(), 1.0);
        block_on(async {
            let mut connection = Connection::open(service.address).await?;
            answered(&mut connection, &account, MODEL, "Is the machine there?").await?;
            // The answers that the account's machine runs are open from here on; the others wait, so only their
            // acceptance is measured.
            accepted += load(service.address, ASKERS[0], &ask).await?.0;
            for askers in ASKERS {
                let (mut ours, mut bare, mut micros) = (Vec::new(), Vec::new(), Vec::new());
                for _ in 0..ROUNDS {
                    let before = CpuTime::of(service.pid()?)?;
                    let (done, per_second) = load(service.address, askers, &ask).await?;
                    micros.push(CpuTime::of(service.pid()?)?.since(&before) / 1e3 / done);
                    accepted += done;
                    ours.push(per_second);
                    bare.push(load(commit.address, askers, &write).await?.1);
                }
                let name = |what: &str| format!("{what}, {askers} askers");
                measurements.push(
                    Measurement::new(name("questions accepted"), Unit::PerSecond, ours)
                        .beside("bare group commit", bare)
                        .goal(Goal::AtLeast(PER_SECOND_MIN)),
                );
                measurements.push(Measurement::new(name("processor per question"), Unit::Micros, micros));
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
async fn load(address: SocketAddr, askers: usize, request: &[u8]) -> Outcome<(f64, f64)> {
    let mut connections = Vec::with_capacity(askers);
    for _ in 0..askers {
        connections.push(Connection::open(address).await?);
    }
    let began = Instant::now();
    let mut asking = JoinSet::new();
    for mut connection in connections {
        let request = request.to_vec();
        asking.spawn(async move {
            let mut done = 0_u32;
            while began.elapsed() < ROUND {
                connection.call(&request, 202).await?;
                done += 1;
            }
            Outcome::Ok(done)
        });
    }
    let mut done = 0.0;
    while let Some(asker) = asking.join_next().await {
        done += f64::from(asker??);
    }
    Ok((done, done / began.elapsed().as_secs_f64()))
}

/// Checks that all accepted questions survive a kill.
async fn none_is_missing(service: &Service, account: &Account, accepted: f64) -> Outcome<()> {
    let mut connection = Connection::open(service.address).await?;
    let listed =
        connection.call(&request("GET", "/api/v1/chats?limit=1", Some(&account.key), None), 200).await?;
    let there = listed["totalCount"].as_f64().ok_or("a list tells no count")?;
    // No question was in progress when they were counted: each was awaited.
    if there == accepted {
        Ok(())
    } else {
        Err(format!("{accepted} questions were accepted, {there} are there").into())
    }
}
