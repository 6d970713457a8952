//! The built-in reader, which answers when no vendor is configured.
//!
//! It is not a language model. It searches the workspace's documents for the words of the question, through the same
//! loop and tools as any model, and quotes and cites the passages that answer it, or reports that none does and quotes
//! those closest to it. It is a pure function of the request: the same transcript always yields the same step. It quotes
//! documents but never follows instructions in them.
//!
//! # Where to look
//!
//! - The next call or the answer: here; what is asked: `question.rs`, `focus.rs`; how passages are read and ranked:
//!   `reading.rs`, `evidence.rs`; the texts of answers: `compose.rs`.
//! - Its words in each language: `vocabulary.rs`, `compose.rs`.
//! - Its score: `tests/questions`.

mod compose;
mod evidence;
mod focus;
mod question;
mod reading;
mod vocabulary;

use domain::citation::NumberedPassage;
use domain::step::{
    CallResult, Purpose, StepCall, StepEvent, StepOutcome, StepRequest, StopReason, TokenUsage,
    TranscriptItem,
};
use domain::tool::MachineTool;
use text_analysis::TextLanguage;

use compose::{LeftOut, Quote, UnsearchedReason};
use evidence::Evidence;
use question::ReaderQuestion;

/// The reader's model name.
pub const MODEL: &str = "reader";
/// The tools that search the documents and read one of them.
const SEARCH: &str = MachineTool::Search.name();
const READ: &str = MachineTool::Read.name();
const SEARCH_LIMIT: u32 = 20;
/// Limits the searches of one answer. From the third on they only wait for files to be indexed.
const SEARCHES_MAX: usize = 6;
/// Limits the attached files that are tried, one after the other, to show the beginning of one.
const READS_MAX: usize = 8;
const QUOTES_MAX: usize = 4;
/// Limits the passages that are shown when none answers the question.
const CLOSEST_MAX: usize = 3;
/// The minimum score of further quotes, relative to the best one.
const QUOTED_BESIDES: f64 = 0.7;
/// Similarities that differ by less say nothing.
const DEVIATION_MIN: f64 = 0.001;
/// Limits the text of one event; see [`split_deltas`].
const DELTA_MAX_BYTES: usize = 24;
/// The estimated bytes of a token.
const TOKEN_BYTES: usize = 4;

/// Returns one step of the reader: a tool call, or at last the answer.
#[must_use]
pub fn reader_step(request: &StepRequest) -> Vec<StepEvent> {
    let event = match ReaderQuestion::from_request(request) {
        Some(question) => next_event(request, &question),
        None => StepEvent::Text(compose::answer_nothing_found(TextLanguage::English, None, &[])),
    };
    let (stop, output) = match &event {
        StepEvent::Call(call) => (StopReason::Calls, call.arguments.len()),
        StepEvent::Text(text) => (StopReason::Done, text.len()),
        StepEvent::Reasoning(_)
        | StepEvent::WasReasoning
        | StepEvent::Noted(_)
        | StepEvent::Cited(_)
        | StepEvent::Opaque { .. }
        | StepEvent::Finished { .. } => (StopReason::Done, 0),
    };
    let usage = TokenUsage {
        input_tokens: token_estimate(request.transcript.iter().map(item_length).sum()),
        output_tokens: token_estimate(output),
        estimated: true,
        ..TokenUsage::default()
    };
    vec![event, StepEvent::Finished { stop, usage: Some(usage) }]
}

/// Splits the texts of events into small pieces, as a model would stream them. Pieces end after white space if
/// possible.
pub fn split_deltas(events: Vec<StepEvent>) -> impl Iterator<Item = StepEvent> {
    events.into_iter().flat_map(|event| match event {
        StepEvent::Text(text) => split_pieces(&text).into_iter().map(StepEvent::Text).collect(),
        other => vec![other],
    })
}

fn split_pieces(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in text.split_inclusive(char::is_whitespace) {
        match found.last_mut() {
            Some(last) if last.len() + word.len() <= DELTA_MAX_BYTES => last.push_str(word),
            _ => found.push(word.to_owned()),
        }
    }
    found
}

fn next_event(request: &StepRequest, question: &ReaderQuestion) -> StepEvent {
    let offered = |tool: &str| request.tools.iter().any(|spec| spec.name == tool);
    let searches: Vec<&CallResult> =
        question.results.iter().filter(|result| result.tool == SEARCH).map(AsRef::as_ref).collect();
    let call = |tool: &str, arguments: serde_json::Value| {
        let id = format!("reader-{}", calls_before(request) + 1);
        StepEvent::Call(StepCall {
            id,
            tool: tool.to_owned(),
            arguments: arguments.to_string(),
            purpose: Purpose::Tool,
        })
    };
    let search = |query: &str| {
        let mut arguments = serde_json::json!({ "query": query, "limit": SEARCH_LIMIT });
        if !question.attachments.is_empty() {
            arguments["paths"] = serde_json::json!(question.attachments);
        }
        call(SEARCH, arguments)
    };
    if question.words.is_empty() || question.asks_summary {
        // Without anything to search for, show the beginning of an attachment. A search names attachments that
        // cannot be read.
        let reads: Vec<&CallResult> =
            question.results.iter().filter(|result| result.tool == READ).map(AsRef::as_ref).collect();
        let is_read = reads.iter().any(|result| !result.passages.is_empty());
        return match question.attachments.get(reads.len()) {
            Some(_) if searches.is_empty() && offered(SEARCH) => search(&question.text),
            Some(path) if !is_read && reads.len() < READS_MAX && offered(READ) => {
                call(READ, serde_json::json!({ "path": path }))
            }
            _ => StepEvent::Text(quote_beginning(question, &reads)),
        };
    }
    let found = distinct_passages(question);
    let mut ranked = evidence::rank_passages(question, &found);
    // A passage that is not about the question never hides one that is.
    ranked.sort_by_key(|evidence| !evidence.is_answer());
    let answered = ranked.first().is_some_and(Evidence::is_answer);
    if offered(SEARCH) && searches.len() < SEARCHES_MAX {
        match searches.last() {
            None => return search(&question.search_query()),
            Some(last) if !answered && is_unfinished(last) => return search(&question.search_query()),
            Some(last) if !answered && searches.len() == 1 && last.outcome == StepOutcome::Done => {
                if let Some(query) = question.narrow_query() {
                    return search(&query);
                }
            }
            Some(_) => {}
        }
    }
    StepEvent::Text(compose_answer(question, &ranked, &searches))
}

/// A passage that a search returned.
#[derive(Debug, Clone, Copy)]
struct ReaderPassage<'a> {
    passage: &'a NumberedPassage,
    /// The heading above it; empty if it has no heading or begins with it.
    heading: &'a str,
    /// The number of its first lines that are titles of a table and headings of its columns.
    head_lines: usize,
    /// How much nearer to the query it is in meaning than the others of its search, in standard deviations; 0 when the
    /// search compared no vectors.
    nearness: f64,
}

/// Returns the passages of all results without duplicates, under their first numbers.
fn distinct_passages(question: &ReaderQuestion) -> Vec<ReaderPassage<'_>> {
    let mut found: Vec<ReaderPassage<'_>> = Vec::new();
    for result in &question.results {
        let mut headings = parse_report_line(&result.text, "Headings above the passages, in order: ");
        let mut nearness = parse_nearness(&result.text).into_iter();
        let mut heads =
            parse_report_line(&result.text, "Lines of column headings that begin the passages, in order: ");
        for passage in &result.passages {
            let heading = headings.next().unwrap_or_default();
            let nearness = nearness.next().unwrap_or_default();
            let head_lines = heads.next().and_then(|lines| lines.parse().ok()).unwrap_or(0);
            let same = |known: &ReaderPassage<'_>| {
                known.passage.place == passage.place && known.passage.text == passage.text
            };
            if !found.iter().any(same) {
                found.push(ReaderPassage { passage, heading, head_lines, nearness });
            }
        }
    }
    found
}

/// Parses a line of the search's report that says something about each of its passages, in their order.
fn parse_report_line<'a>(text: &'a str, beginning: &str) -> impl Iterator<Item = &'a str> {
    let line = text.lines().find_map(|line| line.strip_prefix(beginning));
    line.unwrap_or_default().split(" | ").map(str::trim)
}

/// Standardizes the similarities that the search reports: how far they spread depends on the model of embeddings.
fn parse_nearness(text: &str) -> Vec<f64> {
    let similarities: Vec<Option<f64>> = parse_report_line(text, "Similarity to the query, in order: ")
        .map(|similarity| similarity.parse().ok().filter(|cosine: &f64| (-1.0..=1.0).contains(cosine)))
        .collect();
    let known: Vec<f64> = similarities.iter().flatten().copied().collect();
    #[expect(clippy::cast_precision_loss, reason = "a search gives a few dozen passages")]
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let average = mean(&known);
    let squares: Vec<f64> = known.iter().map(|cosine| (cosine - average).powi(2)).collect();
    let deviation = mean(&squares).sqrt();
    let standardized = |similarity: Option<f64>| match similarity {
        Some(cosine) if deviation >= DEVIATION_MIN => (cosine - average) / deviation,
        _ => 0.0,
    };
    similarities.into_iter().map(standardized).collect()
}

/// Returns true when the search reports that some files are not indexed yet.
fn is_unfinished(result: &CallResult) -> bool {
    result.text.lines().any(|line| line.starts_with("Not searched yet"))
}

fn compose_answer(question: &ReaderQuestion, ranked: &[Evidence<'_>], searches: &[&CallResult]) -> String {
    let Some(best) = ranked.first().filter(|best| best.is_answer()) else {
        let worked = searches.iter().any(|result| result.outcome == StepOutcome::Done);
        let unread = match searches.last() {
            Some(last) if worked => is_unfinished(last).then_some(UnsearchedReason::Waiting),
            _ => Some(UnsearchedReason::Failed),
        };
        let attached = !question.attachments.is_empty();
        let closest = ranked.iter().filter(|evidence| evidence.is_close(attached)).take(CLOSEST_MAX);
        return compose::answer_nothing_found(question.language, unread, &evidence_quotes(closest));
    };
    let fits = |other: &&Evidence<'_>| other.score >= best.score * QUOTED_BESIDES;
    let quoted = ranked.iter().take(QUOTES_MAX).filter(fits);
    let fitting = ranked.iter().filter(fits).filter(|other| other.is_answer()).count();
    let left_out = LeftOut { fitting, asks_total: question.asks_total };
    compose::answer_from_quotes(question.language, &evidence_quotes(quoted), left_out)
}

fn evidence_quotes<'a>(ranked: impl Iterator<Item = &'a Evidence<'a>>) -> Vec<Quote<'a>> {
    let quote = |evidence: &'a Evidence<'a>| Quote {
        passage: evidence.passage,
        head_lines: evidence.head_lines,
        ranges: evidence.quote.clone(),
        best: evidence.best.clone(),
    };
    ranked.map(quote).collect()
}

/// Quotes the beginning of the attached file that was read, for a question without search words.
fn quote_beginning(question: &ReaderQuestion, reads: &[&CallResult]) -> String {
    let first = reads.iter().flat_map(|result| &result.passages).next();
    if question.asks_summary {
        return compose::no_summary(question.language, first.map(Quote::from_passage).as_ref());
    }
    match first {
        Some(passage) => compose::answer_from_quotes(
            question.language,
            &[Quote::from_passage(passage)],
            LeftOut::default(),
        ),
        None => compose::answer_nothing_found(question.language, None, &[]),
    }
}

/// Counts the calls of the transcript, to create unique identifiers.
fn calls_before(request: &StepRequest) -> usize {
    request
        .transcript
        .iter()
        .map(|item| match item {
            TranscriptItem::Step(step) => step.tool_calls().count(),
            TranscriptItem::Question { .. } | TranscriptItem::Result(_) => 0,
        })
        .sum()
}

fn item_length(item: &TranscriptItem) -> usize {
    match item {
        TranscriptItem::Question { text, .. } => text.len(),
        TranscriptItem::Step(_) => 0,
        TranscriptItem::Result(result) => {
            result.text.len() + result.passages.iter().map(|passage| passage.text.len()).sum::<usize>()
        }
    }
}

fn token_estimate(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(TOKEN_BYTES)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
