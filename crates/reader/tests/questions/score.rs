//! Scores answers and reports the results.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;

use super::exchange::ReaderAnswer;

/// A question and the place of its answer.
#[derive(Debug, Deserialize)]
pub(super) struct ScoredQuestion {
    pub(super) language: String,
    pub(super) question: String,
    /// The file that contains the answer; absent when no document does.
    pub(super) file: Option<String>,
    /// Excluded from the tuning of rules.
    kept: bool,
    #[serde(default)]
    page: Option<u32>,
    /// The text that the quote must contain.
    #[serde(default)]
    expect: String,
}

impl ScoredQuestion {
    /// Reads all questions of the set.
    pub(super) fn load_all() -> Vec<Self> {
        serde_json::from_str(include_str!("questions.json")).expect("the questions are JSON")
    }

    /// Returns the file's extension, or `none`.
    fn file_format(&self) -> &str {
        self.file.as_deref().and_then(|file| file.rsplit('.').next()).unwrap_or("none")
    }
}

/// The score of one question.
pub(super) struct Score {
    pub(super) number: usize,
    pub(super) kept: bool,
    answerable: bool,
    right: bool,
    text: String,
}

impl Score {
    /// An answer is right when its first mark refers to the file (and page) and the quote before it contains the
    /// expected text, or, without an expected file, when it says that no document contains an answer.
    pub(super) fn from_answer(number: usize, question: &ScoredQuestion, answer: ReaderAnswer) -> Self {
        let right = match (&question.file, &answer.first) {
            (None, _) => answer.declined,
            (Some(_), None) => false,
            (Some(_), _) if answer.declined => false,
            (Some(file), Some(cited)) => {
                cited.path.trim_start_matches('/') == file
                    && question.page.is_none_or(|page| cited.page == Some(page))
                    && flatten_text(&answer.quote).contains(&flatten_text(&question.expect))
            }
        };
        Self { number, kept: question.kept, answerable: question.file.is_some(), right, text: answer.text }
    }
}

/// Returns the shares of right answers to answerable and to unanswerable questions.
pub(super) fn right_shares(scores: &[&Score]) -> (f64, f64) {
    let share = |answerable: bool| {
        let these: Vec<_> = scores.iter().filter(|score| score.answerable == answerable).collect();
        let right = these.iter().filter(|score| score.right).count();
        right as f64 / these.len() as f64
    };
    (share(true), share(false))
}

/// Reports results by language, format and half, and lists the wrong answers.
pub(super) fn format_report(questions: &[ScoredQuestion], scores: &[Score]) -> String {
    let mut out = String::new();
    let mut groups: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for score in scores {
        let question = &questions[score.number];
        let kind = if score.answerable { "cited first" } else { "told as missing" };
        let half = if score.kept { "kept" } else { "tuned" };
        let by = [
            format!("{kind}, all"),
            format!("{kind}, {}", question.language),
            format!("{kind}, .{}", question.file_format()),
            format!("{kind}, {half} part"),
        ];
        for group in by {
            let entry = groups.entry(group).or_default();
            entry.0 += usize::from(score.right);
            entry.1 += 1;
        }
    }
    for (group, (right, all)) in &groups {
        let _ = writeln!(out, "{group}: {right} of {all}");
    }
    let only_tuned = std::env::var_os("READER_SHOW_KEPT").is_none();
    for score in scores.iter().filter(|score| !score.right && (!only_tuned || !score.kept)) {
        let _ = writeln!(out, "\n#{} {}\n{}", score.number, questions[score.number].question, score.text);
    }
    out
}

fn flatten_text(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
