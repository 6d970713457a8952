//! The built-in reader: the model where no vendor is configured.
//!
//! It is no language model. It searches the workspace's documents with the words of the question, through
//! the same loop and the same tools as any model, and answers with the passages that fit, quoted word for
//! word and cited; when none does, it says so. It is a pure function of the request: the same exchange
//! always gives the same step, and nothing that a document says is obeyed, only quoted.

mod compose;
mod evidence;
mod focus;
mod question;
mod reading;

use domain::citation::NumberedPassage;
use domain::step::{Call, CallResult, Item, Purpose, StepEvent, StepOutcome, StepRequest, StopReason, Usage};
use text_analysis::Language;

use compose::{Quote, Unread};
use evidence::Evidence;
use question::Question;

/// The name by which the reader is asked for as a model.
pub const MODEL: &str = "reader";
/// How many passages a search asks for.
const SEARCH_LIMIT: u32 = 12;
/// The most searches of one answer. The third and later ones only wait for files to be read.
const SEARCHES_MAX: usize = 6;
/// The most quotes of an answer.
const QUOTES_MAX: usize = 3;
/// How near to the best one a passage must come to be quoted besides.
const QUOTED_BESIDES: f64 = 0.86;
/// How much of what was asked a passage must speak of to be an answer; see [`Evidence::strength`].
const STRENGTH_MIN: f64 = 0.56;
/// The longest piece of text in one event, in bytes; see [`deltas`].
const DELTA_MAX_BYTES: usize = 24;
/// How many bytes of text count as a token.
const TOKEN_BYTES: usize = 4;

/// One step of the reader: at first the call of a tool, at last the answer.
#[must_use]
pub fn step(request: &StepRequest) -> Vec<StepEvent> {
    let event = match Question::of(request) {
        Some(question) => next(request, &question),
        None => StepEvent::Text(compose::nothing(Language::Czech, None)),
    };
    let (stop, output) = match &event {
        StepEvent::Call(call) => (StopReason::Calls, call.arguments.len()),
        StepEvent::Text(text) => (StopReason::Done, text.len()),
        StepEvent::Reasoning(_)
        | StepEvent::Cited(_)
        | StepEvent::Opaque { .. }
        | StepEvent::Finished { .. } => (StopReason::Done, 0),
    };
    let usage = Usage {
        input_tokens: tokens(request.transcript.iter().map(length).sum()),
        output_tokens: tokens(output),
        estimated: true,
        ..Usage::default()
    };
    vec![event, StepEvent::Finished { stop, usage: Some(usage) }]
}

/// The same events with their texts in small pieces, as a model would stream them. The pieces end after
/// white space where there is any.
pub fn deltas(events: Vec<StepEvent>) -> impl Iterator<Item = StepEvent> {
    events.into_iter().flat_map(|event| match event {
        StepEvent::Text(text) => pieces(&text).into_iter().map(StepEvent::Text).collect(),
        other => vec![other],
    })
}

fn pieces(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in text.split_inclusive(char::is_whitespace) {
        match found.last_mut() {
            Some(last) if last.len() + word.len() <= DELTA_MAX_BYTES => last.push_str(word),
            _ => found.push(word.to_owned()),
        }
    }
    found
}

fn next(request: &StepRequest, question: &Question) -> StepEvent {
    let offered = |tool: &str| request.tools.iter().any(|spec| spec.name == tool);
    let searches: Vec<&CallResult> =
        question.results.iter().filter(|result| result.tool == "search").map(AsRef::as_ref).collect();
    let call = |tool: &str, arguments: serde_json::Value| {
        let id = format!("reader-{}", calls_before(request) + 1);
        StepEvent::Call(Call {
            id,
            tool: tool.to_owned(),
            arguments: arguments.to_string(),
            purpose: Purpose::Tool,
        })
    };
    if question.words.is_empty() {
        // Nothing to search for: the beginning of what was attached is the best there is.
        return match question.attachments.first() {
            Some(path) if question.results.is_empty() && offered("read") => {
                call("read", serde_json::json!({ "path": path }))
            }
            _ => StepEvent::Text(beginning(question)),
        };
    }
    let search = |query: &str| {
        let mut arguments = serde_json::json!({ "query": query, "limit": SEARCH_LIMIT });
        if !question.attachments.is_empty() {
            arguments["paths"] = serde_json::json!(question.attachments);
        }
        call("search", arguments)
    };
    let found = passages(question);
    let ranked = evidence::weigh(question, &found);
    let answered = ranked.first().is_some_and(answers);
    if offered("search") && searches.len() < SEARCHES_MAX {
        match searches.last() {
            None => return search(&question.query()),
            Some(last) if !answered && is_unfinished(last) => return search(&question.query()),
            Some(last) if !answered && searches.len() == 1 && last.outcome == StepOutcome::Done => {
                if let Some(query) = question.narrow_query() {
                    return search(&query);
                }
            }
            Some(_) => {}
        }
    }
    StepEvent::Text(answer(question, &ranked, &searches))
}

/// The passages of all results, each place once, under its first number.
fn passages(question: &Question) -> Vec<&NumberedPassage> {
    let mut found: Vec<&NumberedPassage> = Vec::new();
    for passage in question.results.iter().flat_map(|result| &result.passages) {
        if !found.iter().any(|known| known.place == passage.place && known.text == passage.text) {
            found.push(passage);
        }
    }
    found
}

fn answers(evidence: &Evidence<'_>) -> bool {
    evidence.strength >= STRENGTH_MIN
}

/// Whether the search says that it has not read every file yet.
fn is_unfinished(result: &CallResult) -> bool {
    result.text.lines().any(|line| line.starts_with("Not searched yet"))
}

fn answer(question: &Question, ranked: &[Evidence<'_>], searches: &[&CallResult]) -> String {
    let Some(best) = ranked.first().filter(|best| answers(best)) else {
        let worked = searches.iter().any(|result| result.outcome == StepOutcome::Done);
        let unread = match searches.last() {
            Some(last) if worked => is_unfinished(last).then_some(Unread::Waiting),
            _ => Some(Unread::Failed),
        };
        return compose::nothing(question.language, unread);
    };
    let quotes: Vec<Quote<'_>> = ranked
        .iter()
        .take(QUOTES_MAX)
        .filter(|evidence| answers(evidence) && evidence.score >= best.score * QUOTED_BESIDES)
        .map(|evidence| Quote { passage: evidence.passage, ranges: evidence.quote.clone() })
        .collect();
    compose::quotes(question.language, &quotes)
}

/// How the attached file begins, for a question that names nothing to look for.
fn beginning(question: &Question) -> String {
    let first = question.results.iter().flat_map(|result| &result.passages).next();
    match first {
        Some(passage) => compose::quotes(question.language, &[Quote::whole(passage)]),
        None => compose::nothing(question.language, None),
    }
}

/// How many calls the exchange holds, so that each gets an id of its own.
fn calls_before(request: &StepRequest) -> usize {
    request
        .transcript
        .iter()
        .map(|item| match item {
            Item::Step(step) => step.calls().count(),
            Item::Question { .. } | Item::Result(_) => 0,
        })
        .sum()
}

fn length(item: &Item) -> usize {
    match item {
        Item::Question { text, .. } => text.len(),
        Item::Step(_) => 0,
        Item::Result(result) => {
            result.text.len() + result.passages.iter().map(|passage| passage.text.len()).sum::<usize>()
        }
    }
}

fn tokens(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(TOKEN_BYTES)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
