//! Measures how long it takes to list conversations when there are many.

use std::time::Instant;

use serde_json::json;
use tokio::task::JoinSet;

use super::block_on;
use crate::BenchResult;
use crate::bare::Bare;
use crate::http::{BenchConnection, build_request};
use crate::measurement::{Goal, Measurement, MeasurementUnit};
use crate::process::{self, CpuPlacement};
use crate::service::{BenchAccount, BenchService};
use crate::vendor::BenchVendor;

const CONVERSATIONS: usize = 100_000;
const ASKERS: usize = 256;
const PAGE: usize = 50;
const TIMES: usize = 200;
const MILLIS_MAX: f64 = 5.0;
/// The vendor accepts requests of this model and never answers.
const SILENT: &str = "stall-first";

/// Measures page 1 and page 1,000 of a hundred thousand conversations, beside a baseline server.
pub(crate) fn measure_paging() -> BenchResult<Vec<Measurement>> {
    process::run_apart(|| {
        let vendor = BenchVendor::start()?;
        let mut service = BenchService::start_on(CpuPlacement::Alone, Some(vendor.base_url.clone()))?;
        let account = service.create_account()?;
        block_on(create_conversations(&service, &account))?;
        let hello = Bare::start_role(CpuPlacement::Alone, "hello", &[])?;
        let bare = block_on(time_requests(hello.address, &build_request("GET", "/", None, None)))?;
        let page = |number: usize| {
            let path = format!("/api/v1/chats?limit={PAGE}&offset={}", (number - 1) * PAGE);
            block_on(time_requests(service.address, &build_request("GET", &path, Some(&account.key), None)))
        };
        [1, 1000]
            .into_iter()
            .map(|number| {
                let name = format!("page {number} of 100,000 conversations");
                let measurement = Measurement::new(name, MeasurementUnit::Millis, page(number)?);
                Ok(measurement.with_baseline("axum hello", bare.clone()).with_goal(Goal::AtMost(MILLIS_MAX)))
            })
            .collect()
    })
}

async fn create_conversations(service: &BenchService, account: &BenchAccount) -> BenchResult<()> {
    let body = json!({"input": "Which conversation is this?", "model": SILENT});
    let ask = build_request("POST", "/api/v1/chats", Some(&account.key), Some(&body));
    let mut askers = JoinSet::new();
    for asker in 0..ASKERS {
        let (ask, mut connection) = (ask.clone(), BenchConnection::open(service.address).await?);
        askers.spawn(async move {
            for _ in (asker..CONVERSATIONS).step_by(ASKERS) {
                connection.call_json(&ask, 202).await?;
            }
            BenchResult::Ok(())
        });
    }
    while let Some(asker) = askers.join_next().await {
        asker??;
    }
    Ok(())
}

/// Returns the duration of each call, in milliseconds.
async fn time_requests(address: std::net::SocketAddr, request: &[u8]) -> BenchResult<Vec<f64>> {
    let mut connection = BenchConnection::open(address).await?;
    let mut times = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let began = Instant::now();
        let (head, body) = connection.exchange_request(request).await?;
        if head.status != 200 || body.is_empty() {
            return Err(format!("status {} instead of 200", head.status).into());
        }
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times)
}
