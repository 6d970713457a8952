//! Streams many steps at once from the fake vendor in the same process, and reports token latency and CPU time.
//! Arguments: streams, tokens of each, milliseconds between tokens; defaults 400, 200 and 5.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use domain::step::{StepEvent, StepRequest, TranscriptItem};
use futures_util::{StreamExt, future};
use models::{VendorClient, VendorConfig, WireFormat};

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the figures are what it is run for")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse::<u64>().ok());
    let (streams, tokens, every_ms) =
        (arguments.next().unwrap_or(400), arguments.next().unwrap_or(200), arguments.next().unwrap_or(5));
    let standin = test_support::start_server().await?;
    let config = VendorConfig { base_url: Some(standin.base_url()), ..VendorConfig::default() };
    let provider = VendorClient::new(WireFormat::ChatCompletions, &config)?;
    let request = StepRequest {
        images: Vec::new(),
        model: format!("text-{tokens}x{every_ms}"),
        instructions: String::new(),
        transcript: vec![TranscriptItem::Question { text: "Hello".to_owned(), attachments: vec![] }],
        tools: vec![],
        settings: vec![],
        output_max_tokens: 1000,
    };
    let begun = Instant::now();
    let one = async || {
        let mut late = Vec::new();
        let mut events = provider.stream_step(request.clone());
        while let Some(event) = events.next().await {
            if let Ok(StepEvent::Text(text)) = event {
                let sent = text
                    .trim()
                    .split_once('@')
                    .and_then(|(_, at)| at.parse().ok())
                    .map(Duration::from_micros);
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                late.extend(sent.map(|sent| now.saturating_sub(sent)));
            }
        }
        late
    };
    let mut late: Vec<Duration> = future::join_all((0..streams).map(|_| one())).await.concat();
    late.sort_unstable();
    let at =
        |share: usize| late.get(late.len().saturating_sub(1) * share / 1000).copied().unwrap_or_default();
    println!(
        "{} of {} tokens in {:?} (at least {:?}); late by p50 {:?}, p99 {:?}, most {:?}",
        late.len(),
        streams * tokens,
        begun.elapsed(),
        Duration::from_millis(tokens * every_ms),
        at(500),
        at(990),
        at(1000)
    );
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks: u64 =
        stat.split_whitespace().skip(13).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    println!(
        "{} us of processor time a token, the stand-in's included",
        ticks * 10_000 / (streams * tokens).max(1)
    );
    Ok(())
}
