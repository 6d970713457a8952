//! Indexes the documents of a folder and measures it: `index_documents FOLDER INDEX QUERY...`.
//!
//! Prints the time until the first query is answered over all documents, the time of the same queries afterwards, and the
//! processor time and memory that the process took. Documents are read in this process, two at a time, without the walls of
//! the machine.
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use std::error::Error;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use documents::{ExtractBounds, extract_part, passages};
use domain::unread::UnreadReason;
use protocol::tool::{SearchArguments, ToolOutput};
use search_index::{DocumentLibrary, ExtractionProblem, PIECE_MAX_BYTES, PassageBatch, Wanted};

/// Bounds one search with the indexing before it.
const TIME: Duration = Duration::from_secs(600);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(folder), Some(index)) = (arguments.next(), arguments.next()) else {
        return Err("index_documents FOLDER INDEX QUERY...".into());
    };
    let library = DocumentLibrary::new(&PathBuf::from(folder), &PathBuf::from(index));
    for query in arguments {
        for turn in ["first", "again"] {
            let begun = Instant::now();
            let found = search_library(&library, &query).await;
            println!("{query}, {turn}: {:?}, {} passages", begun.elapsed(), found.passages.len());
        }
    }
    let usage = fs::read_to_string("/proc/self/status")?;
    let memory = usage.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    let ticks: Vec<String> =
        fs::read_to_string("/proc/self/stat")?.split_whitespace().map(str::to_owned).collect();
    println!("processor time in ticks of 10 ms: user {}, system {}; {memory}", ticks[13], ticks[14]);
    Ok(())
}

async fn search_library(library: &DocumentLibrary, query: &str) -> ToolOutput {
    let arguments = SearchArguments { query: query.to_owned(), paths: Vec::new(), limit: None };
    library.search_documents(&arguments, &[], TIME, extract_batch).await
}

async fn extract_batch(wanted: Wanted) -> Result<PassageBatch, ExtractionProblem> {
    let read = tokio::task::spawn_blocking(move || {
        let (first_page, last_page) = wanted.pages.unwrap_or((1, u32::MAX));
        let until = Some(Instant::now() + wanted.time);
        let bounds = ExtractBounds { first_page, last_page, until, ..ExtractBounds::default() };
        let problem = |reason, text| ExtractionProblem { reason, text, passing: false };
        let file =
            File::open(&wanted.file).map_err(|error| problem(UnreadReason::Missing, error.to_string()))?;
        let extracted = extract_part(&wanted.file, file, &bounds)
            .map_err(|error| problem(error.unread_reason(), error.to_string()))?;
        let pieces = passages::split_passages(&extracted, PIECE_MAX_BYTES);
        Ok(PassageBatch {
            pieces,
            span: extracted.span,
            cut: extracted.truncated,
            holds_files: extracted.format.holds_files(),
            unread_files: extracted.unread_files,
            scans: extracted.scans,
            ..PassageBatch::default()
        })
    });
    read.await.expect("no document makes it panic")
}
