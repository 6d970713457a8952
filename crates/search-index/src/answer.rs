//! The answer of a search: the passages found, how often each word occurs in the documents, and the files that were not
//! searched.

use documents::passages::{page_name, shown_rows};
use domain::unread::{UNREAD_MAX, UnreadFile, UnreadReason};
use protocol::embedding::QueryVector;
use protocol::tool::{FoundPassage, FoundUnread, PASSAGE_MAX_BYTES, ToolOutput};

use super::rank::{Ranked, query_terms, rank_passages};
use super::store::{Index, IndexError};
use super::{FILES_MAX, SearchScope, Update};

/// The maximum number of unread files that are listed.
const NAMED_MAX: usize = 5;
/// The maximum number of unreadable documents that one search checks against its scope.
const PROBLEMS_MAX: usize = 5_000;
/// The longest heading that is listed, in bytes.
const HEADING_SHOWN_MAX_BYTES: usize = 120;
/// The maximum number of query words that are listed with their counts.
const WORDS_SHOWN_MAX: usize = 24;

pub(super) fn search_index(
    index: &Index,
    (query, vector): (&str, Option<&QueryVector>),
    scope: &SearchScope,
    update: &Update,
    limit: usize,
) -> Result<ToolOutput, IndexError> {
    let words = query_terms(index, query)?;
    let literals = text_analysis::extract_literals(query);
    let ranked = rank_passages(index, (&words, &literals), vector, scope, limit)?;
    let counts: Vec<String> =
        words.iter().take(WORDS_SHOWN_MAX).map(|word| format!("{} {}", word.word, word.passages)).collect();
    let mut text = format!("Passages with each word (of {}): {}.", index.passage_count()?, counts.join(", "));
    if ranked.is_empty() {
        text.push_str("\nNo passage matches.");
    }
    let mut problems = index.list_unreadable(PROBLEMS_MAX)?;
    problems.retain(|problem| !problem.hidden || scope.is_wanted(&problem.path));
    problems.sort_by_key(|problem| !scope.is_wanted(&problem.path));
    if !problems.is_empty() {
        let named: Vec<String> = problems
            .iter()
            .take(NAMED_MAX)
            .map(|problem| format!("{} ({})", problem.path, problem.text))
            .collect();
        text.push_str(&format!("\nNot readable: {}.", named.join("; ")));
    }
    describe_update(&mut text, update);
    describe_headings(&mut text, &ranked);
    describe_columns(&mut text, &ranked);
    if let Some(vector) = vector {
        describe_similarities(&mut text, index, vector, &ranked)?;
    }
    let waiting = update.waiting.iter().map(|(path, _)| (path, UnreadReason::Indexing));
    let unread = problems.iter().map(|problem| (&problem.path, problem.reason)).chain(waiting);
    let unread = unread
        .filter(|(path, _)| scope.is_wanted(path))
        .take(UNREAD_MAX)
        .map(|(path, reason)| FoundUnread::from(&UnreadFile { path: path.clone(), reason }));
    let passages = ranked
        .into_iter()
        .map(|ranked| FoundPassage {
            page_name: page_name(&ranked.candidate.path, ranked.candidate.page, &ranked.candidate.heading),
            path: ranked.candidate.path,
            page: ranked.candidate.page,
            lines: ranked.candidate.lines,
            text: truncate_passage(shown_rows(&ranked.candidate.columns, &ranked.candidate.text)),
            ..FoundPassage::default()
        })
        .collect();
    Ok(ToolOutput { text, passages, unread: unread.collect(), ..ToolOutput::default() })
}

fn describe_update(text: &mut String, update: &Update) {
    if !update.waiting.is_empty() {
        let named: Vec<String> = update
            .waiting
            .iter()
            .take(NAMED_MAX)
            .map(|(path, todo)| match todo.reached {
                _ if todo.images > 0 => {
                    format!("{path} (all but the text in {} images searched)", todo.images)
                }
                Some((read, of)) => format!("{path} ({read} of {of} pages searched)"),
                None => path.clone(),
            })
            .collect();
        text.push_str(&format!(
            "\nNot searched yet, {} files: {}{}. Search again to continue.",
            update.waiting.len(),
            named.join(", "),
            if update.waiting.len() > NAMED_MAX { ", ..." } else { "" }
        ));
    }
    if update.cut {
        text.push_str(&format!(
            "\nThe workspace holds too many files: only {FILES_MAX} of them are searched."
        ));
    }
}

/// Adds the headings above the passages, in their order, unless the passages begin with them.
fn describe_headings(text: &mut String, ranked: &[Ranked]) {
    let heading = |ranked: &Ranked| {
        let candidate = &ranked.candidate;
        let begins =
            candidate.text.lines().next().is_some_and(|line| line.contains(candidate.heading.trim()));
        let heading = if begins {
            ""
        } else {
            &candidate.heading[..candidate.heading.floor_char_boundary(HEADING_SHOWN_MAX_BYTES)]
        };
        heading.replace(['\n', '|'], " ")
    };
    let headings: Vec<String> = ranked.iter().map(heading).collect();
    if headings.iter().any(|heading| !heading.is_empty()) {
        text.push_str(&format!("\nHeadings above the passages, in order: {}", headings.join(" | ")));
    }
}

/// Adds how many lines at the beginning of the passages are headings of their columns, in their order.
fn describe_columns(text: &mut String, ranked: &[Ranked]) {
    let lines: Vec<usize> = ranked.iter().map(|ranked| ranked.candidate.columns.lines().count()).collect();
    if lines.iter().any(|lines| *lines > 0) {
        let lines: Vec<String> = lines.iter().map(usize::to_string).collect();
        text.push_str(&format!(
            "\nLines of column headings that begin the passages, in order: {}",
            lines.join(" | ")
        ));
    }
}

/// Adds how near the passages are to the query in meaning, in their order: cosines, `-` of a passage without a vector.
fn describe_similarities(
    text: &mut String,
    index: &Index,
    QueryVector { model, components, .. }: &QueryVector,
    ranked: &[Ranked],
) -> Result<(), IndexError> {
    let passages: Vec<i64> = ranked.iter().map(|ranked| ranked.candidate.id).collect();
    let similarities = index.passage_similarities(model, components, &passages)?;
    if similarities.iter().any(Option::is_some) {
        let shown =
            |similarity: &Option<f32>| similarity.map_or("-".to_owned(), |cosine| format!("{cosine:.3}"));
        let shown: Vec<String> = similarities.iter().map(shown).collect();
        text.push_str(&format!("\nSimilarity to the query, in order: {}", shown.join(" | ")));
    }
    Ok(())
}

/// Returns the answer of a search that failed.
pub(super) fn failed_search(why: &str) -> ToolOutput {
    ToolOutput { failed: true, text: why.to_owned(), ..ToolOutput::default() }
}

fn truncate_passage(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(PASSAGE_MAX_BYTES));
    text
}
