//! Measures how soon an answer resumes after the service was killed.

use std::time::Instant;

use serde_json::{Value, json};

use super::block_on;
use crate::BenchResult;
use crate::bare::Bare;
use crate::http::{BenchConnection, build_request};
use crate::measurement::{Goal, Measurement, MeasurementUnit};
use crate::process::CpuPlacement;
use crate::service::{
    AskedQuestion, BenchAccount, BenchService, ask_and_wait, ask_question, wait_for_completion,
};
use crate::vendor::{BenchVendor, MODEL, has_all_tokens, now_micros, parse_stamps};

const KILLS: usize = 10;
const TOKENS: u32 = 400;
const EVERY_MILLIS: u64 = 5;
/// The number of tokens that are read before the kill.
const READ_BEFORE: usize = 100;

/// Measures the time from `kill -9`, with an immediate restart, to the first new token that a reader sees.
pub(crate) fn kill_resume() -> BenchResult<Vec<Measurement>> {
    let vendor = BenchVendor::start()?;
    let mut service = BenchService::start_on(CpuPlacement::Anywhere, Some(vendor.base_url.clone()))?;
    let account = service.create_account()?;
    block_on(async {
        let mut connection = BenchConnection::open(service.address).await?;
        ask_and_wait(&mut connection, &account, MODEL, "Is the machine there?").await
    })?;
    let (mut ours, mut healthy) = (Vec::with_capacity(KILLS), Vec::with_capacity(KILLS));
    for _ in 0..KILLS {
        let asked = block_on(ask_and_read(&service, &account))?;
        let (killed_at, began) = (now_micros(), Instant::now());
        service.kill()?;
        service.restart()?;
        healthy.push(began.elapsed().as_secs_f64() * 1e3);
        block_on(read_until(&service, &account, &asked, |stamps| {
            stamps.iter().any(|(_, sent)| *sent > killed_at)
        }))?;
        ours.push(began.elapsed().as_secs_f64() * 1e3);
        block_on(check_complete_answer(&service, &account, &asked))?;
    }
    let bare = (0..KILLS).map(|_| restart_proxy(&vendor)).collect::<BenchResult<Vec<_>>>()?;
    Ok(vec![
        Measurement::new("kill -9 and restart to the answer going on", MeasurementUnit::Millis, ours)
            .with_baseline("bare proxy asked anew", bare)
            .with_goal(Goal::AtMost(2000.0)),
        Measurement::new("of that until the service is healthy", MeasurementUnit::Millis, healthy),
    ])
}

async fn ask_and_read(service: &BenchService, account: &BenchAccount) -> BenchResult<AskedQuestion> {
    let script = json!({"steps": [{"actions": [{"tokens": {"count": TOKENS, "every_ms": EVERY_MILLIS, "stamp": true}}]}]});
    let mut connection = BenchConnection::open(service.address).await?;
    let asked = ask_question(&mut connection, account, MODEL, &format!("STANDIN {script}")).await?;
    read_until(service, account, &asked, |stamps| stamps.len() >= READ_BEFORE).await?;
    Ok(asked)
}

/// Follows the answer until its tokens satisfy the condition.
async fn read_until(
    service: &BenchService,
    account: &BenchAccount,
    asked: &AskedQuestion,
    wanted: impl Fn(&[(u32, u64)]) -> bool,
) -> BenchResult<()> {
    let mut connection = BenchConnection::open(service.address).await?;
    let events = build_request("GET", &format!("{}/events", asked.answer_path()), Some(&account.key), None);
    if connection.read_response_head(&events).await?.status != 200 {
        return Err("an answer cannot be followed".into());
    }
    let mut event = Vec::new();
    while connection.read_event(&mut event).await? {
        let data = event.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"data: "));
        let state: Value = data.map(serde_json::from_slice).transpose()?.unwrap_or_default();
        if wanted(&parse_stamps(state["text"].as_str().unwrap_or_default())) {
            return Ok(());
        }
    }
    Err("an answer ended before it went on".into())
}

async fn check_complete_answer(
    service: &BenchService,
    account: &BenchAccount,
    asked: &AskedQuestion,
) -> BenchResult<()> {
    let mut connection = BenchConnection::open(service.address).await?;
    let answer = wait_for_completion(&mut connection, account, asked).await?;
    let text = answer["text"].as_str().unwrap_or_default();
    if has_all_tokens(&parse_stamps(text), TOKENS) {
        Ok(())
    } else {
        Err(format!("an answer is incomplete: {text}").into())
    }
}

/// Measures the minimum of a restart: a baseline proxy is killed, restarted and asked for a stream.
fn restart_proxy(vendor: &BenchVendor) -> BenchResult<f64> {
    let address = vendor.address.to_string();
    let before = Bare::start_role(CpuPlacement::Anywhere, "proxy", &[&address])?;
    let began = Instant::now();
    drop(before);
    let proxy = Bare::start_role(CpuPlacement::Anywhere, "proxy", &[&address])?;
    block_on(async {
        let mut connection = BenchConnection::open(proxy.address).await?;
        let body = json!({"model": "text-200x5", "stream": true, "messages": [{"role": "user", "content": "Go on."}]});
        connection.read_response_head(&build_request("POST", "/stream", None, Some(&body))).await?;
        let mut frames = Vec::new();
        while connection.read_chunk(&mut frames).await? {
            if frames.windows(5).any(|window| window == b"\"t0@1") {
                return Ok(began.elapsed().as_secs_f64() * 1e3);
            }
        }
        Err("the proxy forwards nothing".into())
    })
}
