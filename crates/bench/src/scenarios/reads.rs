//! Measures reads of completed answers per second.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::block_on;
use crate::BenchResult;
use crate::bare::Bare;
use crate::http::{BenchConnection, build_request};
use crate::measurement::{Goal, Measurement, MeasurementUnit};
use crate::process::{self, CpuPlacement, CpuTime};
use crate::service::{BenchService, ask_question, wait_for_completion};
use crate::vendor::{BenchVendor, MODEL};

const CONNECTIONS: usize = 32;
const ROUND: Duration = Duration::from_secs(1);
const ROUNDS: usize = 5;
/// The target ratio to the baseline server.
const RATIO: f64 = 0.6;

/// Requests per second, and the server's processor time of each.
#[derive(Default)]
struct RequestRate {
    per_second: Vec<f64>,
    micros: Vec<f64>,
}

/// Measures `GET` of completed answers, a short and a longer one, beside a baseline server.
pub(crate) fn get_answer() -> BenchResult<Vec<Measurement>> {
    process::run_apart(|| {
        let vendor = BenchVendor::start()?;
        let mut service = BenchService::start_on(CpuPlacement::Alone, Some(vendor.base_url.clone()))?;
        let account = service.create_account()?;
        let hello = Bare::start_role(CpuPlacement::Alone, "hello", &[])?;
        block_on(async {
            let mut connection = BenchConnection::open(service.address).await?;
            let mut collects = Vec::new();
            for model in [MODEL, "text-200x5"] {
                let asked =
                    ask_question(&mut connection, &account, model, "What does the vendor say?").await?;
                wait_for_completion(&mut connection, &account, &asked).await?;
                collects.push(build_request("GET", &asked.answer_path(), Some(&account.key), None));
            }
            let (word, health) =
                (build_request("GET", "/", None, None), build_request("GET", "/healthz", None, None));
            let (mut short, mut long, mut bare) =
                (RequestRate::default(), RequestRate::default(), RequestRate::default());
            let mut empty = RequestRate::default();
            for _ in 0..ROUNDS {
                run_read_round(service.address, service.pid()?, &collects[0], &mut short).await?;
                run_read_round(hello.address, hello.pid(), &word, &mut bare).await?;
                run_read_round(service.address, service.pid()?, &collects[1], &mut long).await?;
                run_read_round(service.address, service.pid()?, &health, &mut empty).await?;
            }
            Ok(read_measurements(short, long, empty, &bare))
        })
    })
}

fn read_measurements(
    short: RequestRate,
    long: RequestRate,
    empty: RequestRate,
    bare: &RequestRate,
) -> Vec<Measurement> {
    let rate = |name, values| {
        Measurement::new(name, MeasurementUnit::PerSecond, values)
            .with_baseline("axum hello", bare.per_second.clone())
    };
    let cost = |name, values| {
        Measurement::new(name, MeasurementUnit::Micros, values)
            .with_baseline("axum hello", bare.micros.clone())
    };
    vec![
        rate("GET of a short answer, 32 connections", short.per_second).with_goal(Goal::RatioAtLeast(RATIO)),
        cost("processor per GET of a short answer", short.micros),
        rate("GET of an answer of 200 tokens", long.per_second),
        cost("processor per GET of an answer of 200 tokens", long.micros),
        // The cost of the service's connections and layers without a key, store or answer.
        rate("GET /healthz", empty.per_second),
        cost("processor per GET /healthz", empty.micros),
    ]
}

/// Repeats one request on all connections for a round.
async fn run_read_round(
    address: SocketAddr,
    pid: u32,
    request: &[u8],
    rate: &mut RequestRate,
) -> BenchResult<()> {
    let mut connections = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        let mut connection = BenchConnection::open(address).await?;
        connection.call_json(request, 200).await?;
        connections.push(connection);
    }
    let nothing = request.starts_with(b"GET /healthz");
    let (before, began) = (CpuTime::of_process(pid)?, Instant::now());
    let mut callers = JoinSet::new();
    for mut connection in connections {
        let request = request.to_vec();
        callers.spawn(async move {
            let mut done = 0_u32;
            while began.elapsed() < ROUND {
                let (head, body) = connection.exchange_request(&request).await?;
                if head.status != 200 || body.is_empty() != nothing {
                    return Err(format!("status {} instead of 200", head.status).into());
                }
                done += 1;
            }
            BenchResult::Ok(done)
        });
    }
    let mut done = 0.0;
    while let Some(caller) = callers.join_next().await {
        done += f64::from(caller??);
    }
    rate.per_second.push(done / began.elapsed().as_secs_f64());
    rate.micros.push(CpuTime::of_process(pid)?.nanos_since(&before) / 1e3 / done);
    Ok(())
}
