//! Measures the latency and the cost of tokens from the vendor to the reader.

use std::net::SocketAddr;
use std::time::Instant;

use serde_json::json;
use tokio::task::JoinSet;

use super::block_on;
use crate::BenchResult;
use crate::bare::Bare;
use crate::http::{BenchConnection, build_request};
use crate::measurement::{Goal, Measurement, MeasurementUnit, percentile};
use crate::pacer::{Pacer, parse_json_stamps};
use crate::process::{self, CpuPlacement, CpuTime};
use crate::service::{BenchAccount, BenchService, ask_and_wait, ask_question, wait_for_completion};

/// Concurrent streams with a number of tokens and an interval.
pub(crate) struct Load {
    name: &'static str,
    model: &'static str,
    accounts: usize,
    streams: usize,
    tokens: u32,
    every_millis: u32,
    rounds: usize,
    added: Option<[f64; 2]>,
    /// The target of processor time per token, in microseconds.
    cpu_max: f64,
    /// The target of the delay behind the vendor at the end, in milliseconds.
    late_max: Option<f64>,
}

pub(crate) const SLOW: Load = Load {
    name: "20 x 100 tokens at 50 ms",
    model: "text-100x50",
    accounts: 1,
    streams: 20,
    tokens: 100,
    every_millis: 50,
    rounds: 3,
    added: Some([1.0, 10.0]),
    cpu_max: 40.0,
    late_max: None,
};

/// At the speed of fast vendors.
pub(crate) const FAST: Load = Load {
    name: "100 x 200 tokens at 5 ms",
    model: "text-200x5",
    accounts: 1,
    streams: 100,
    tokens: 200,
    every_millis: 5,
    rounds: 5,
    added: None,
    cpu_max: 40.0,
    late_max: None,
};

/// Fast, but few: each token wakes a processor.
pub(crate) const FEW: Load = Load { name: "20 x 200 tokens at 5 ms", streams: 20, cpu_max: 70.0, ..FAST };

/// More than one processor can forward token by token.
pub(crate) const MANY: Load = Load {
    name: "400 x 200 tokens at 5 ms",
    accounts: 4,
    streams: 400,
    rounds: 3,
    cpu_max: 25.0,
    late_max: Some(1500.0),
    ..FAST
};

/// Like [`MANY`], [`FAST`] and [`FEW`], in Markdown.
pub(crate) const MANY_MARKDOWN: Load =
    Load { name: "400 x 200 tokens of Markdown at 5 ms", model: "markdown-200x5", ..MANY };
pub(crate) const FAST_MARKDOWN: Load =
    Load { name: "100 x 200 tokens of Markdown at 5 ms", model: "markdown-200x5", cpu_max: 30.0, ..FAST };
pub(crate) const FEW_MARKDOWN: Load =
    Load { name: "20 x 200 tokens of Markdown at 5 ms", model: "markdown-200x5", cpu_max: 50.0, ..FEW };

/// Answers of two thousand tokens.
pub(crate) const LONG_MARKDOWN: Load = Load {
    name: "20 x 2,000 tokens of Markdown at 5 ms",
    model: "markdown-2000x5",
    tokens: 2000,
    rounds: 1,
    ..FEW_MARKDOWN
};

/// A model with one immediate token, which starts each machine.
const WARM_UP: &str = "text-1x0";

/// The fixed cost of an answer.
pub(crate) const ONE: Load = Load {
    name: "100 answers of one token",
    model: WARM_UP,
    accounts: 1,
    streams: 100,
    tokens: 1,
    every_millis: 0,
    rounds: 5,
    added: None,
    cpu_max: 40.0,
    late_max: None,
};

/// The result of one run.
struct TokenRun {
    /// The delay of each token from sending to reading, in microseconds.
    added: Vec<f64>,
    /// The added delay over the vendor's time.
    over_floor_millis: f64,
    micros_per_token: f64,
}

/// Measures the service and the baseline proxy in turns.
pub(crate) fn measure_tokens(load: &Load) -> BenchResult<Vec<Measurement>> {
    process::run_apart(|| {
        let vendor = Pacer::start()?;
        let mut service = BenchService::start_on(CpuPlacement::Alone, Some(vendor.base_url()))?;
        let accounts =
            (0..load.accounts).map(|_| service.create_account()).collect::<BenchResult<Vec<_>>>()?;
        let proxy = Bare::start_role(CpuPlacement::Alone, "proxy", &[&vendor.address.to_string()])?;
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        block_on(async {
            for account in &accounts {
                let mut connection = BenchConnection::open(service.address).await?;
                ask_and_wait(&mut connection, account, WARM_UP, "Is the machine there?").await?;
            }
            for _ in 0..load.rounds {
                ours.push(through_service(load, &service, &accounts).await?);
                bare.push(through_proxy(load, &proxy).await?);
            }
            Ok(())
        })?;
        Ok(token_measurements(load, &ours, &bare))
    })
}

fn token_measurements(load: &Load, ours: &[TokenRun], bare: &[TokenRun]) -> Vec<Measurement> {
    let measurement = |what: &str, unit, of: &dyn Fn(&TokenRun) -> f64| {
        let values = |runs: &[TokenRun]| runs.iter().map(of).collect::<Vec<_>>();
        Measurement::new(format!("{}: {what}", load.name), unit, values(ours))
            .with_baseline("bare proxy", values(bare))
    };
    let mut measurements: Vec<Measurement> = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)]
        .into_iter()
        .map(|(name, part)| {
            let name = format!("added {name}");
            let measurement =
                measurement(&name, MeasurementUnit::Millis, &|run| percentile(&run.added, part) / 1e3);
            match load.added {
                Some([p50, _]) if part < 0.6 => measurement.with_goal(Goal::AtMost(p50)),
                Some([_, p99]) if part > 0.95 => measurement.with_goal(Goal::AtMost(p99)),
                _ => measurement,
            }
        })
        .collect();
    let late = measurement("all done after the floor", MeasurementUnit::Millis, &|run| run.over_floor_millis);
    measurements.push(match load.late_max {
        Some(most) => late.with_goal(Goal::AtMost(most)),
        None => late,
    });
    let cpu = |what| measurement(what, MeasurementUnit::Micros, &|run: &TokenRun| run.micros_per_token);
    if load.tokens == 1 {
        // Per-token results are meaningless for a single token.
        return vec![cpu("processor per answer")];
    }
    measurements.push(cpu("processor per token").with_goal(Goal::AtMost(load.cpu_max)));
    measurements
}

async fn through_service(
    load: &Load,
    service: &BenchService,
    accounts: &[BenchAccount],
) -> BenchResult<TokenRun> {
    let mut connections = Vec::with_capacity(load.streams);
    for _ in 0..load.streams {
        connections.push(BenchConnection::open(service.address).await?);
    }
    let mut readers = JoinSet::new();
    let (before, began) = (CpuTime::of_process(service.pid()?)?, Instant::now());
    for (at, connection) in connections.into_iter().enumerate() {
        let (account, model, tokens) = (accounts[at % accounts.len()].clone(), load.model, load.tokens);
        readers.spawn(read_answer(connection, account, model, tokens));
    }
    finish_run(load, readers, &before, began, service.pid()?).await
}

async fn through_proxy(load: &Load, proxy: &Bare) -> BenchResult<TokenRun> {
    let mut readers = JoinSet::new();
    let (before, began) = (CpuTime::of_process(proxy.pid())?, Instant::now());
    for _ in 0..load.streams {
        readers.spawn(read_proxied(proxy.address, load.model, load.tokens));
    }
    finish_run(load, readers, &before, began, proxy.pid()).await
}

async fn finish_run(
    load: &Load,
    mut readers: JoinSet<BenchResult<Vec<f64>>>,
    before: &CpuTime,
    began: Instant,
    pid: u32,
) -> BenchResult<TokenRun> {
    let mut added = Vec::new();
    while let Some(reader) = readers.join_next().await {
        added.extend(reader??);
    }
    let floor = f64::from(load.tokens * load.every_millis);
    let over_floor_millis = began.elapsed().as_secs_f64() * 1e3 - floor;
    let micros_per_token = CpuTime::of_process(pid)?.nanos_since(before) / 1e3 / added.len() as f64;
    Ok(TokenRun { added, over_floor_millis, micros_per_token })
}

/// Returns the compressed bytes that a reader with zstd receives of a long answer, per byte of the vendor.
pub(crate) fn measure_compressed_stream() -> BenchResult<Vec<Measurement>> {
    const MODEL: &str = "text-10000x1";
    const TIMES_MAX: f64 = 1.5;
    process::run_apart(|| {
        let vendor = Pacer::start()?;
        let mut service = BenchService::start_on(CpuPlacement::Alone, Some(vendor.base_url()))?;
        let account = service.create_account()?;
        let times = block_on(async {
            let mut connection = BenchConnection::open(service.address).await?;
            ask_and_wait(&mut connection, &account, WARM_UP, "Is the machine there?").await?;
            let asked = ask_question(&mut connection, &account, MODEL, "What does the vendor say?").await?;
            let events = format!(
                "GET {}/events HTTP/1.1\r\nhost: bench\r\nx-api-key: {}\r\naccept-encoding: zstd\r\n\r\n",
                asked.answer_path(),
                account.key
            );
            let (head, body) = connection.exchange_request(events.as_bytes()).await?;
            let answer = wait_for_completion(&mut connection, &account, &asked).await?;
            let written = answer["text"].as_str().unwrap_or_default().len();
            if head.status != 200 || written == 0 {
                return Err("an answer cannot be followed".into());
            }
            Ok(body.len() as f64 / written as f64)
        })?;
        let name = "10,000 tokens at 1 ms read with zstd, per byte of text";
        Ok(vec![
            Measurement::new(name, MeasurementUnit::Times, vec![times]).with_goal(Goal::AtMost(TIMES_MAX)),
        ])
    })
}

/// Asks a question and reads the answer's stream to its end. Returns the delay of each token.
async fn read_answer(
    mut connection: BenchConnection,
    account: BenchAccount,
    model: &'static str,
    tokens: u32,
) -> BenchResult<Vec<f64>> {
    let asked = ask_question(&mut connection, &account, model, "What does the vendor say?").await?;
    let events = build_request("GET", &format!("{}/events", asked.answer_path()), Some(&account.key), None);
    if connection.read_response_head(&events).await?.status != 200 {
        return Err("an answer cannot be followed".into());
    }
    let (mut seen, mut event, mut completed) = (TokenReader::default(), Vec::new(), false);
    while connection.read_event(&mut event).await? {
        completed = event.starts_with(b"event: completed");
        seen.read_new_tokens(&event, connection.read_at)?;
    }
    if !completed || seen.count != tokens {
        return Err(format!(
            "a stream is incomplete: {} of {tokens} tokens, completed: {completed}",
            seen.count
        )
        .into());
    }
    Ok(seen.added)
}

/// The progress of one reader.
#[derive(Default)]
struct TokenReader {
    added: Vec<f64>,
    count: u32,
    /// The number of bytes of the text that were read.
    offset: usize,
}

impl TokenReader {
    /// Reads the new part of an event's text. Reads nothing twice, so that reading stays cheap.
    fn read_new_tokens(&mut self, event: &[u8], read_at: u64) -> BenchResult<()> {
        const TEXT: &[u8] = b"\"text\":\"";
        let Some(at) = event.windows(TEXT.len()).position(|window| window == TEXT) else { return Ok(()) };
        let new = event.get(at + TEXT.len() + self.offset..).ok_or("a text became shorter")?;
        let end = new.iter().position(|byte| *byte == b'"').ok_or("a text does not end")?;
        let new = std::str::from_utf8(&new[..end])?;
        for (number, sent) in parse_json_stamps(new) {
            if number != self.count {
                return Err(format!("token {number} came instead of {}", self.count).into());
            }
            self.count += 1;
            self.added.push(read_at.saturating_sub(sent) as f64);
        }
        self.offset += end;
        Ok(())
    }
}

/// Reads the vendor's frames through the proxy.
async fn read_proxied(address: SocketAddr, model: &'static str, tokens: u32) -> BenchResult<Vec<f64>> {
    let mut connection = BenchConnection::open(address).await?;
    let body = json!({"model": model, "stream": true, "messages": [{"role": "user", "content": "What does the vendor say?"}]});
    if connection.read_response_head(&build_request("POST", "/stream", None, Some(&body))).await?.status
        != 200
    {
        return Err("the proxy does not answer".into());
    }
    let (mut added, mut frames) = (Vec::new(), Vec::new());
    while connection.read_chunk(&mut frames).await? {
        const CONTENT: &str = "\"content\":\"";
        // The proxy may forward a part of a frame.
        let Some(end) = frames.windows(2).rposition(|window| window == b"\n\n") else { continue };
        for content in std::str::from_utf8(&frames[..end])?.split(CONTENT).skip(1) {
            for (number, sent) in parse_json_stamps(content.split('"').next().unwrap_or_default()) {
                if number as usize != added.len() {
                    return Err(
                        format!("token {number} came through the proxy instead of {}", added.len()).into()
                    );
                }
                added.push(connection.read_at.saturating_sub(sent) as f64);
            }
        }
        frames.drain(..end);
    }
    if added.len() != tokens as usize {
        return Err(
            format!("a stream through the proxy is incomplete: {} of {tokens} tokens", added.len()).into()
        );
    }
    Ok(added)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_new_tokens_of_event() {
        let mut seen = TokenReader::default();
        seen.read_new_tokens(br#"data: {"model":"m","text":"","parts":[]}"#, 5).expect("nothing yet");
        seen.read_new_tokens(br#"data: {"model":"m","text":"t0xa t1x14","parts":["t9x1"]}"#, 30)
            .expect("two");
        seen.read_new_tokens(br#"data: {"model":"m","text":"t0xa t1x14\n\nt2x1e","parts":[]}"#, 31)
            .expect("one");
        assert_eq!((seen.count, seen.added.as_slice()), (3, [20.0, 10.0, 1.0].as_slice()));
        assert!(seen.read_new_tokens(br#"data: {"text":"t0xa t1x14\n\nt2x1e t4x28"}"#, 50).is_err());
        assert!(seen.read_new_tokens(br#"data: {"text":""}"#, 50).is_err());
    }
}
