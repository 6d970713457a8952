//! Measures how long it takes to list conversations when there are many.

use std::time::Instant;

use serde_json::json;
use tokio::task::JoinSet;

use super::block_on;
use crate::Outcome;
use crate::bare::Bare;
use crate::http::{Connection, request};
use crate::measurement::{Goal, Measurement, Unit};
use crate::process::{self, Place};
use crate::service::{Account, Service};
use crate::vendor::Vendor;

const CONVERSATIONS: usize = 100_000;
const ASKERS: usize = 256;
const PAGE: usize = 50;
const TIMES: usize = 200;
const MILLIS_MAX: f64 = 5.0;
/// The vendor accepts requests of this model and never answers.
const SILENT: &str = "stall-first";

/// Measures page 1 and page 1,000 of a hundred thousand conversations, beside a baseline server.
pub(crate) fn paging() -> Outcome<Vec<Measurement>> {
    process::apart(|| {
        let vendor = Vendor::start()?;
        let mut service = Service::start(Place::Alone, Some(vendor.base_url.clone()))?;
        let account = service.account()?;
        block_on(fill(&service, &account))?;
        let hello = Bare::start(Place::Alone, "hello", &[])?;
        let bare = block_on(times(hello.address, &request("GET", "/", None, None)))?;
        let page = |number: usize| {
            let path = format!("/api/v1/chats?limit={PAGE}&offset={}", (number - 1) * PAGE);
            block_on(times(service.address, &request("GET", &path, Some(&account.key), None)))
        };
        [1, 1000]
            .into_iter()
            .map(|number| {
                let name = format!("page {number} of 100,000 conversations");
                let measurement = Measurement::new(name, Unit::Millis, page(number)?);
                Ok(measurement.beside("axum hello", bare.clone()).goal(Goal::AtMost(MILLIS_MAX)))
            })
            .collect()
    })
}

async fn fill(service: &Service, account: &Account) -> Outcome<()> {
    let body = json!({"input": "Which conversation is this?", "model": SILENT});
    let ask = request("POST", "/api/v1/chats", Some(&account.key), Some(&body));
    let mut askers = JoinSet::new();
    for asker in 0..ASKERS {
        let (ask, mut connection) = (ask.clone(), Connection::open(service.address).await?);
        askers.spawn(async move {
            for _ in (asker..CONVERSATIONS).step_by(ASKERS) {
                connection.call(&ask, 202).await?;
            }
            Outcome::Ok(())
        });
    }
    while let Some(asker) = askers.join_next().await {
        asker??;
    }
    Ok(())
}

/// Returns the duration of each call, in milliseconds.
async fn times(address: std::net::SocketAddr, request: &[u8]) -> Outcome<Vec<f64>> {
    let mut connection = Connection::open(address).await?;
    let mut times = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let began = Instant::now();
        let (head, body) = connection.exchange(request).await?;
        if head.status != 200 || body.is_empty() {
            return Err(format!("status {} instead of 200", head.status).into());
        }
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times)
}
