//! Measures the pages of the web application for an owner with a long history.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use tokio::task::JoinSet;

use super::block_on;
use crate::BenchResult;
use crate::http::BenchConnection;
use crate::measurement::{Goal, Measurement, MeasurementUnit, percentile};
use crate::process::CpuPlacement;
use crate::service::{BenchAccount, BenchService, ask_and_wait};
use crate::vendor::{BenchVendor, MODEL};

const CONVERSATIONS: usize = 10_000;
const ASKERS: usize = 16;
const LOADS: usize = 500;
const PASSWORD: &str = "correct horse";
/// The pages. On one of them, a word is searched in the history.
const PAGES: [&str; 7] =
    ["/", "/history", "/history?q=rent", "/history?q=4711", "/files", "/credits", "/credits/ledger"];
const P99_MAX_MILLIS: f64 = 20.0;

/// Measures the time from the request of a page to its last byte, at the 99th percentile.
pub(crate) fn measure_pages() -> BenchResult<Vec<Measurement>> {
    let vendor = BenchVendor::start()?;
    let mut service = BenchService::start_on(CpuPlacement::Anywhere, Some(vendor.base_url.clone()))?;
    let account = service.create_account()?;
    service.admin_typing(
        &["account", "set-password", "--account", &account.email, "--password-stdin"],
        PASSWORD,
    )?;
    block_on(fill_history(&service, &account))?;
    let cookie = sign_in(&service, &account)?;
    block_on(async {
        let mut connection = BenchConnection::open(service.address).await?;
        let mut measurements = Vec::with_capacity(PAGES.len());
        for path in PAGES {
            let request = format!("GET {path} HTTP/1.1\r\nhost: bench\r\ncookie: {cookie}\r\n\r\n");
            let mut taken = Vec::with_capacity(LOADS);
            for _ in 0..LOADS {
                let began = Instant::now();
                let (head, _) = connection.exchange_request(request.as_bytes()).await?;
                taken.push(began.elapsed().as_secs_f64() * 1e3);
                if head.status != 200 {
                    return Err(format!("{path}: status {}", head.status).into());
                }
            }
            let values = vec![percentile(&taken, 0.99)];
            measurements.push(
                Measurement::new(format!("page {path}, p99"), MeasurementUnit::Millis, values)
                    .with_goal(Goal::AtMost(P99_MAX_MILLIS)),
            );
        }
        Ok(measurements)
    })
}

async fn fill_history(service: &BenchService, account: &BenchAccount) -> BenchResult<()> {
    let mut askers = JoinSet::new();
    for asker in 0..ASKERS {
        let (address, account) = (service.address, account.clone());
        askers.spawn(async move {
            let mut connection = BenchConnection::open(address).await?;
            for number in (asker..CONVERSATIONS).step_by(ASKERS) {
                let question = format!("What is the rent of flat {number}, and when is it due?");
                ask_and_wait(&mut connection, &account, MODEL, &question).await?;
            }
            BenchResult::Ok(())
        });
    }
    askers.join_all().await.into_iter().collect()
}

/// Signs the owner in and returns the session's cookie.
fn sign_in(service: &BenchService, account: &BenchAccount) -> BenchResult<String> {
    let body = format!("email={}&password={}", account.email.replace('@', "%40"), PASSWORD.replace(' ', "+"));
    let request = format!(
        "POST /sign-in HTTP/1.1\r\nhost: bench\r\norigin: http://bench\r\nconnection: close\r\n\
         content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(service.address)?;
    stream.write_all(request.as_bytes())?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    let cookie = response.lines().find_map(|line| line.strip_prefix("set-cookie: ")?.split(';').next());
    Ok(cookie.ok_or_else(|| format!("sign-in failed: {response}"))?.to_owned())
}
