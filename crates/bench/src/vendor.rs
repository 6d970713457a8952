//! Runs the fake vendor on a separate thread.

use std::net::SocketAddr;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;

use crate::BenchResult;
use crate::process::pin_apart;

/// The model that answers a sentence, and runs the scripts in questions.
pub(crate) const MODEL: &str = "standin";

/// A running vendor. It stops on drop.
#[derive(Debug)]
pub(crate) struct BenchVendor {
    pub(crate) base_url: String,
    pub(crate) address: SocketAddr,
    _end: oneshot::Sender<()>,
}

impl BenchVendor {
    pub(crate) fn start() -> BenchResult<Self> {
        let (end, ended) = oneshot::channel::<()>();
        let (started, starting) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let base_url = || -> BenchResult<()> {
                pin_apart()?;
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(async {
                    let vendor = test_support::start_server().await?;
                    started.send(vendor.base_url())?;
                    // No client is left to serve in either case.
                    let _ = ended.await;
                    Ok(())
                })
            };
            base_url()
        });
        let base_url = starting.recv().map_err(|_| "the fake vendor does not start")?;
        let address = base_url.trim_start_matches("http://").trim_end_matches("/v1").parse()?;
        Ok(Self { base_url, address, _end: end })
    }
}

/// Returns the current time as the fake vendor writes it into tokens.
pub(crate) fn now_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the tokens with their stamps, in order: their numbers and send times.
pub(crate) fn parse_stamps(text: &str) -> Vec<(u32, u64)> {
    let token = |word: &str| {
        let (number, micros) = word.strip_prefix('t')?.split_once('@')?;
        Some((number.parse().ok()?, micros.parse().ok()?))
    };
    text.split_whitespace().filter_map(token).collect()
}

/// Returns true if these are all tokens of an answer, each once and in order.
pub(crate) fn has_all_tokens(stamps: &[(u32, u64)], count: u32) -> bool {
    stamps.iter().map(|(number, _)| *number).eq(0..count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_read_and_counted() {
        let read = parse_stamps("t0@15 t1@20\n\nt2@31 and t");
        assert_eq!(read, [(0, 15), (1, 20), (2, 31)]);
        assert!(has_all_tokens(&read, 3) && !has_all_tokens(&read, 4) && !has_all_tokens(&read[1..], 2));
    }
}
