//! Measures reads of completed answers per second.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::block_on;
use crate::Outcome;
use crate::bare::Bare;
use crate::http::{Connection, request};
use crate::measurement::{Goal, Measurement, Unit};
use crate::process::{self, CpuTime, Place};
use crate::service::{Service, ask, completed};
use crate::vendor::{MODEL, Vendor};

const CONNECTIONS: usize = 32;
const ROUND: Duration = Duration::from_secs(1);
const ROUNDS: usize = 5;
/// The target ratio to the baseline server.
const RATIO: f64 = 0.6;

/// Requests per second, and the server's processor time of each.
#[derive(Default)]
struct Rate {
    per_second: Vec<f64>,
    micros: Vec<f64>,
}

/// Measures `GET` of completed answers, a short and a longer one, beside a baseline server.
pub(crate) fn get_answer() -> Outcome<Vec<Measurement>> {
    process::apart(|| {
        let vendor = Vendor::start()?;
        let mut service = Service::start(Place::Alone, Some(vendor.base_url.clone()))?;
        let account = service.account()?;
        let hello = Bare::start(Place::Alone, "hello", &[])?;
        block_on(async {
            let mut connection = Connection::open(service.address).await?;
            let mut collects = Vec::new();
            for model in [MODEL, "text-200x5"] {
                let asked = ask(&mut connection, &account, model, "What does the vendor say?").await?;
                completed(&mut connection, &account, &asked).await?;
                collects.push(request("GET", &asked.path(), Some(&account.key), None));
            }
            let (word, health) = (request("GET", "/", None, None), request("GET", "/healthz", None, None));
            let (mut short, mut long, mut bare) = (Rate::default(), Rate::default(), Rate::default());
            let mut empty = Rate::default();
            for _ in 0..ROUNDS {
                load(service.address, service.pid()?, &collects[0], &mut short).await?;
                load(hello.address, hello.pid(), &word, &mut bare).await?;
                load(service.address, service.pid()?, &collects[1], &mut long).await?;
                load(service.address, service.pid()?, &health, &mut empty).await?;
            }
            Ok(measurements(short, long, empty, &bare))
        })
    })
}

fn measurements(short: Rate, long: Rate, empty: Rate, bare: &Rate) -> Vec<Measurement> {
    let rate = |name, values| {
        Measurement::new(name, Unit::PerSecond, values).beside("axum hello", bare.per_second.clone())
    };
    let cost =
        |name, values| Measurement::new(name, Unit::Micros, values).beside("axum hello", bare.micros.clone());
    vec![
        rate("GET of a short answer, 32 connections", short.per_second).goal(Goal::RatioAtLeast(RATIO)),
        cost("processor per GET of a short answer", short.micros),
        rate("GET of an answer of 200 tokens", long.per_second),
        cost("processor per GET of an answer of 200 tokens", long.micros),
        // The cost of the service's connections and layers without a key, store or answer.
        rate("GET /healthz", empty.per_second),
        cost("processor per GET /healthz", empty.micros),
    ]
}

/// Repeats one request on all connections for a round.
async fn load(address: SocketAddr, pid: u32, request: &[u8], rate: &mut Rate) -> Outcome<()> {
    let mut connections = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        let mut connection = Connection::open(address).await?;
        connection.call(request, 200).await?;
        connections.push(connection);
    }
    let nothing = request.starts_with(b"GET /healthz");
    let (before, began) = (CpuTime::of(pid)?, Instant::now());
    let mut callers = JoinSet::new();
    for mut connection in connections {
        let request = request.to_vec();
        callers.spawn(async move {
            let mut done = 0_u32;
            while began.elapsed() < ROUND {
                let (head, body) = connection.exchange(&request).await?;
                if head.status != 200 || body.is_empty() != nothing {
                    return Err(format!("status {} instead of 200", head.status).into());
                }
                done += 1;
            }
            Outcome::Ok(done)
        });
    }
    let mut done = 0.0;
    while let Some(caller) = callers.join_next().await {
        done += f64::from(caller??);
    }
    rate.per_second.push(done / began.elapsed().as_secs_f64());
    rate.micros.push(CpuTime::of(pid)?.since(&before) / 1e3 / done);
    Ok(())
}
