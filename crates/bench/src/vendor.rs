//! Runs the fake vendor on a separate thread.

use std::net::SocketAddr;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;

use crate::Outcome;
use crate::process::pin_apart;

/// The model that answers a sentence, and runs the scripts in questions.
pub(crate) const MODEL: &str = "standin";

/// A running vendor. It stops on drop.
#[derive(Debug)]
pub(crate) struct Vendor {
    pub(crate) base_url: String,
    pub(crate) address: SocketAddr,
    _end: oneshot::Sender<()>,
}

impl Vendor {
    pub(crate) fn start() -> Outcome<Self> {
        let (end, ended) = oneshot::channel::<()>();
        let (started, starting) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let base_url = || -> Outcome<()> {
                pin_apart()?;
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(async {
                    let vendor = test_support::start().await?;
                    started.send(vendor.base_url())?;
                    // There is nobody left to serve in either case.
                    let _ = ended.await;
                    Ok(())
                })
            };
            base_url()
        });
        let base_url = starting.recv().map_err(|_| "the stand-in vendor does not start")?;
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
pub(crate) fn stamps(text: &str) -> Vec<(u32, u64)> {
    let token = |word: &str| {
        let (number, micros) = word.strip_prefix('t')?.split_once('@')?;
        Some((number.parse().ok()?, micros.parse().ok()?))
    };
    text.split_whitespace().filter_map(token).collect()
}

/// Returns true if these are all tokens of an answer, each once and in order.
pub(crate) fn whole(stamps: &[(u32, u64)], count: u32) -> bool {
    stamps.iter().map(|(number, _)| *number).eq(0..count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_read_and_counted() {
        let read = stamps("t0@15 t1@20\n\nt2@31 and t");
        assert_eq!(read, [(0, 15), (1, 20), (2, 31)]);
        assert!(whole(&read, 3) && !whole(&read, 4) && !whole(&read[1..], 2));
    }
}
