//! Reads a document and checks that it keeps the bounds of time, text and messages.

use std::path::Path;
use std::time::Duration;

use documents::{ExtractError, Extracted, OUTPUT_MAX_BYTES, PAGES_MAX, extract_bytes};
use domain::unread::UnreadReason;

/// The most processor time of one document: far below the time after which its reader is killed. Other work of the host
/// does not count.
const TIME_MAX: Duration = Duration::from_secs(20);
/// The unit in which Linux tells processor times.
const TICKS_PER_SECOND: u64 = 100;

/// Returns the processor time of this thread.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("the thread's state");
    let (_, fields) = stat.rsplit_once(')').expect("a name in parentheses");
    // Of the program and of the kernel for it: the fields 14 and 15, and the first one here is the third.
    let ticks: u64 =
        fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("ticks")).sum();
    Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
}

/// Extracts a document, and checks its bounds.
pub(super) fn read_document(name: &str, bytes: &[u8]) -> Result<Extracted, ExtractError> {
    let before = processor_time();
    let outcome = extract_bytes(Path::new(name), bytes);
    let taken = processor_time() - before;
    assert!(taken < TIME_MAX, "{name}: {taken:?}");
    match &outcome {
        Ok(document) => {
            let bytes: usize = document.segments.iter().map(|segment| segment.text.len()).sum();
            assert!(bytes <= OUTPUT_MAX_BYTES, "{name}: {bytes} bytes");
            assert!(document.pages.is_none_or(|pages| pages <= PAGES_MAX), "{name}");
            let headings = document.segments.iter().filter_map(|segment| segment.heading.as_ref());
            assert!(headings.clone().all(|heading| heading.capacity() <= 1_000), "{name}");
            let is_odd = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
            assert!(document.segments.iter().all(|segment| !segment.text.contains(is_odd)), "{name}");
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.len() < 1_000 && !text.contains(char::is_control), "{name}: {text:?}");
        }
    }
    outcome
}

pub(super) fn document_text(document: &Extracted) -> String {
    document.segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join("\n")
}

pub(super) fn is_too_large(outcome: &Result<Extracted, ExtractError>) -> bool {
    outcome.as_ref().is_err_and(|error| error.unread_reason() == UnreadReason::TooLarge)
}

/// Nothing was read.
pub(super) trait ReadNothing {
    fn is_err_or_empty(&self) -> bool;
}

impl ReadNothing for Result<Extracted, ExtractError> {
    fn is_err_or_empty(&self) -> bool {
        self.as_ref().map_or(true, |document| document_text(document).is_empty())
    }
}
