//! Measures how soon a stop takes effect at the vendor, in the answer, and in the machine.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::block_on;
use crate::BenchResult;
use crate::bare::Bare;
use crate::http::{BenchConnection, build_request};
use crate::measurement::{Goal, Measurement, MeasurementUnit, percentile};
use crate::process::{CpuPlacement, find_processes_by_command};
use crate::service::{BenchAccount, BenchService, ask_question};
use crate::vendor::{BenchVendor, MODEL, now_micros};

/// The number of streams that are stopped.
const STREAMS: usize = 100;
/// The number of tools that are stopped.
const TOOLS: usize = 30;
/// The target for a stop, in milliseconds.
const GOAL_MILLIS: f64 = 300.0;
/// The timeout for a hanging stop.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The polling interval of a process.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// The times of one stop, in milliseconds after its request.
#[derive(Default)]
struct Stopped {
    /// Until the stopped connection to the vendor or the tool's process had ended.
    gone: f64,
    /// Until the reader had the answer's last state.
    completed: f64,
}

/// Measures stops of answers during the model's output and during a tool, beside a baseline stream that its reader
/// leaves.
pub(crate) fn measure_stop() -> BenchResult<Vec<Measurement>> {
    let vendor = BenchVendor::start()?;
    let mut service = BenchService::start_on(CpuPlacement::Anywhere, Some(vendor.base_url.clone()))?;
    let proxy = Bare::start_role(CpuPlacement::Anywhere, "proxy", &[&vendor.address.to_string()])?;
    let account = service.create_account()?;
    let (said, ran, left) = block_on(async {
        let mut stage = StopBench {
            service: BenchConnection::open(service.address).await?,
            events: BenchConnection::open(service.address).await?,
            vendor: BenchConnection::open(vendor.address).await?,
            account,
        };
        let (mut said, mut ran, mut left) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..STREAMS {
            left.push(disconnect_from_proxy(&mut stage, &proxy).await?);
            said.push(stage.stop_model_output().await?);
        }
        for number in 0..TOOLS {
            ran.push(stage.stop_running_tool(number).await?);
        }
        Ok((said, ran, left))
    })?;
    let of = |from: &[Stopped], what: fn(&Stopped) -> f64| from.iter().map(what).collect::<Vec<_>>();
    let mut measurements = Vec::new();
    let mut told = |name: &str, values: Vec<f64>, bare: Option<Vec<f64>>| {
        for (part, percent) in [(0.5, "p50"), (0.99, "p99")] {
            let at = |values: &[f64]| vec![percentile(values, part)];
            let measurement =
                Measurement::new(format!("{name}, {percent}"), MeasurementUnit::Millis, at(&values));
            let measurement = measurement.with_goal(Goal::AtMost(GOAL_MILLIS));
            measurements.push(match &bare {
                Some(bare) => measurement.with_baseline("a bare stream left", at(bare)),
                None => measurement,
            });
        }
    };
    told("stop until the vendor is let go", of(&said, |one| one.gone), Some(left));
    told("stop until the answer is completed", of(&said, |one| one.completed), None);
    told("stop until the tool's process is gone", of(&ran, |one| one.gone), None);
    told("stop of a tool until completed", of(&ran, |one| one.completed), None);
    Ok(measurements)
}

struct StopBench {
    service: BenchConnection,
    events: BenchConnection,
    vendor: BenchConnection,
    account: BenchAccount,
}

impl StopBench {
    /// Stops an answer during the model's output. It must have cost one request.
    async fn stop_model_output(&mut self) -> BenchResult<Stopped> {
        let script = json!({"steps": [{"actions": [{"tokens": {"count": 2000, "every_ms": 5}}]}]});
        let asked =
            ask_question(&mut self.service, &self.account, MODEL, &format!("STANDIN {script}")).await?;
        let mut event = self.watch_until_shown(&asked.answer_path(), "t3 ").await?;
        let before = self.vendor_requests().await?.len();
        let sent = self.send_stop(&asked.chat).await?;
        self.read_until_completed(&mut event).await?;
        let completed = millis_since(sent);
        let gone = self.measure_close_delay(before - 1, sent).await?;
        if self.vendor_requests().await?.len() != before {
            return Err("the vendor got another request after a stop".into());
        }
        Ok(Stopped { gone, completed })
    }

    /// Stops an answer while its tool runs.
    async fn stop_running_tool(&mut self, number: usize) -> BenchResult<Stopped> {
        // A sleep duration that no other process has.
        let seconds = format!("8{number:03}.{}", std::process::id());
        let call = json!({"call": {"tool": "shell", "arguments": {"command": format!("sleep {seconds}")}}});
        let script = json!({"steps": [{"actions": [call]}, {"actions": [{"say": "Too late."}]}]});
        let asked =
            ask_question(&mut self.service, &self.account, MODEL, &format!("STANDIN {script}")).await?;
        let mut event = self.watch_until_shown(&asked.answer_path(), "PENDING").await?;
        wait_until(|| !find_processes_by_command(&seconds).is_empty()).await?;
        let processes = find_processes_by_command(&seconds);
        let before = self.vendor_requests().await?.len();
        let sent = self.send_stop(&asked.chat).await?;
        let gone = async {
            let there = |pid: &u32| std::path::Path::new(&format!("/proc/{pid}")).exists();
            wait_until(|| !processes.iter().any(there)).await?;
            Ok(millis_since(sent))
        };
        let over = async {
            read_to_completion(&mut self.events, &mut event).await?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(millis_since(sent))
        };
        let (gone, completed): (BenchResult<f64>, _) = tokio::join!(gone, over);
        let stopped = Stopped { gone: gone?, completed: completed? };
        if self.vendor_requests().await?.len() != before {
            return Err("the vendor got another request after a stop".into());
        }
        Ok(stopped)
    }

    /// Opens the answer's stream and reads until a state contains this text.
    async fn watch_until_shown(&mut self, path: &str, shown: &str) -> BenchResult<Vec<u8>> {
        let open = build_request("GET", &format!("{path}/events"), Some(&self.account.key), None);
        let mut event = Vec::new();
        let shows = async {
            self.events.read_response_head(&open).await?;
            while self.events.read_event(&mut event).await? {
                if event.windows(shown.len()).any(|window| window == shown.as_bytes()) {
                    return BenchResult::Ok(());
                }
            }
            Err("an answer ended before it was stopped".into())
        };
        timeout(TIMEOUT, shows).await??;
        Ok(event)
    }

    async fn read_until_completed(&mut self, event: &mut Vec<u8>) -> BenchResult<()> {
        read_to_completion(&mut self.events, event).await
    }

    /// Stops the answer. Returns the send time.
    async fn send_stop(&mut self, chat: &str) -> BenchResult<u64> {
        let stop =
            build_request("POST", &format!("/api/v1/chats/{chat}/stop"), Some(&self.account.key), None);
        let sent = now_micros();
        self.service.call_json(&stop, 202).await?;
        Ok(sent)
    }

    async fn vendor_requests(&mut self) -> BenchResult<Vec<Value>> {
        let asked =
            self.vendor.call_json(&build_request("GET", "/standin/requests", None, None), 200).await?;
        Ok(asked.as_array().cloned().unwrap_or_default())
    }

    /// Returns the time from `since` until the vendor saw this request's connection close.
    async fn measure_close_delay(&mut self, number: usize, since: u64) -> BenchResult<f64> {
        timeout(TIMEOUT, async {
            loop {
                let seen = self.vendor_requests().await?;
                let one = seen.get(number).ok_or("a request is missing")?;
                if let Some(ended) = one["endedMicros"].as_u64() {
                    return Ok(ended.saturating_sub(since) as f64 / 1e3);
                }
                sleep(POLL_INTERVAL).await;
            }
        })
        .await?
    }
}

/// Streams from the same vendor through a baseline proxy, and disconnects.
async fn disconnect_from_proxy(stage: &mut StopBench, proxy: &Bare) -> BenchResult<f64> {
    let script = json!({"steps": [{"actions": [{"tokens": {"count": 2000, "every_ms": 5}}]}]});
    let body = json!({"model": MODEL, "stream": true,
        "messages": [{"role": "user", "content": format!("STANDIN {script}")}]});
    let mut reader = BenchConnection::open(proxy.address).await?;
    reader.read_response_head(&build_request("POST", "/stream", None, Some(&body))).await?;
    let mut came = Vec::new();
    while !came.windows(3).any(|window| window == b"t3 ") {
        reader.read_chunk(&mut came).await?;
    }
    let number = stage.vendor_requests().await?.len() - 1;
    let since = now_micros();
    drop(reader);
    stage.measure_close_delay(number, since).await
}

async fn read_to_completion(events: &mut BenchConnection, event: &mut Vec<u8>) -> BenchResult<()> {
    timeout(TIMEOUT, async {
        loop {
            if !events.read_event(event).await? {
                return Err("a stream ended without its last state".into());
            }
            if event.starts_with(b"event: completed") {
                // The end of the stream, so that its connection can be reused.
                return if events.read_event(event).await? {
                    Err("something follows the last state".into())
                } else {
                    Ok(())
                };
            }
        }
    })
    .await?
}

async fn wait_until(look: impl Fn() -> bool) -> BenchResult<()> {
    timeout(TIMEOUT, async {
        while !look() {
            sleep(POLL_INTERVAL).await;
        }
    })
    .await
    .map_err(|_| "a process does not begin or end".into())
}

fn millis_since(sent: u64) -> f64 {
    now_micros().saturating_sub(sent) as f64 / 1e3
}
