//! Splits a passage into sentences and matches them with the words of a question.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use domain::citation::{NumberedPassage, Place};
use text_analysis::sentence::sentences;
use text_analysis::{Language, Term, detect_language, terms};

use super::question::{Question, Word};

/// The weights of a related word and of a similar stem, relative to the word itself.
const RELATED: f64 = 0.6;
const ALIKE: f64 = 0.7;
/// The minimum common prefix of similar stems, as a share of the longer one and in letters.
const ALIKE_MIN_SHARE: f64 = 0.7;
const ALIKE_MIN_LETTERS: usize = 5;
/// A stem that is a prefix of another is similar from this length on, if the other is longer by at most so many
/// letters.
const GROWN_MIN_LETTERS: usize = 4;
const GROWN_BY_MAX: usize = 2;
/// The maximum number of heading lines in a passage, and the maximum length of a heading with a number and without one.
const HEADS_MAX: usize = 2;
const NUMBERED_HEAD_MAX_BYTES: usize = 64;
const HEAD_MAX_BYTES: usize = 100;
/// The maximum length of a label: `Place: the town hall`.
const LABEL_MAX_BYTES: usize = 64;
/// Limits the positions of a word in one sentence.
const PLACES_MAX: usize = 8;

/// The kind of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A heading, or the header of a table.
    Head,
    /// A row of a table. Other rows are not about it.
    Row,
    Plain,
}

/// A sentence. The vectors have one entry for each word of the question.
pub(super) struct Sentence {
    /// Its position in the passage.
    pub(super) range: Range<usize>,
    pub(super) kind: Kind,
    /// The match of each word, from 0 to 1.
    pub(super) met: Vec<f64>,
    /// The words that match exactly.
    pub(super) exact: Vec<bool>,
    /// The positions of each word, without related ones: index in the sentence, and byte range.
    pub(super) places: Vec<Vec<(usize, Range<usize>)>>,
    /// Starts with a label that contains a word of the question.
    pub(super) labelled: bool,
}

/// A passage with its sentences.
pub(super) struct Reading<'a> {
    pub(super) passage: &'a NumberedPassage,
    pub(super) sentences: Vec<Sentence>,
    /// The match of each word in the headings.
    pub(super) head: Vec<f64>,
    /// The best match of each word in any sentence.
    pub(super) whole: Vec<f64>,
    /// The language, if it was detected.
    pub(super) language: Option<Language>,
}

impl<'a> Reading<'a> {
    /// Splits a passage and matches it with a question.
    pub(super) fn of(question: &Question, found: super::FoundPassage<'a>) -> Self {
        let super::FoundPassage { passage, heading } = found;
        let text = passage.text.as_str();
        let language = detect_language(text);
        let ranges = sentences(text);
        let mut found: Vec<Sentence> = Vec::with_capacity(ranges.len());
        for (index, range) in ranges.iter().enumerate() {
            let sentence = &text[range.clone()];
            let next = ranges.get(index + 1).map(|next| &text[next.clone()]);
            let below_heads = found.iter().all(|before| before.kind == Kind::Head);
            let kind = if below_heads && index < HEADS_MAX && is_head(sentence, next) {
                Kind::Head
            } else if is_row(sentence) {
                Kind::Row
            } else {
                Kind::Plain
            };
            let terms = terms(sentence, language.unwrap_or(Language::English));
            found.push(Sentence::of(question, sentence, range.clone(), kind, &terms));
        }
        let most = |kind: Option<Kind>| {
            let these = found.iter().filter(|sentence| kind.is_none_or(|kind| sentence.kind == kind));
            these
                .fold(vec![0.0; question.words.len()], |most, sentence| elementwise_max(&most, &sentence.met))
        };
        let above = met_in(question, &terms(heading, language.unwrap_or(Language::English)));
        let head = elementwise_max(&most(Some(Kind::Head)), &above);
        let whole = elementwise_max(&most(None), &head);
        Self { passage, sentences: found, head, whole, language }
    }

    pub(super) fn text(&self, sentence: &Sentence) -> &'a str {
        &self.passage.text[sentence.range.clone()]
    }
}

impl Sentence {
    fn of(question: &Question, text: &str, range: Range<usize>, kind: Kind, terms: &[Term]) -> Self {
        let mut stems: HashMap<&str, Vec<(usize, Range<usize>)>> = HashMap::new();
        let mut exact: HashSet<&str> = HashSet::new();
        for term in terms.iter().filter(|term| !term.stop) {
            stems.entry(&term.stem).or_default().push((term.position, term.range.clone()));
            exact.insert(&term.exact);
        }
        let places = |word: &Word| {
            let found = word.stems.iter().filter_map(|stem| stems.get(stem.as_str())).flatten();
            found.take(PLACES_MAX).cloned().collect()
        };
        let label = label(text).map_or(0, str::len);
        let labels = |word: &Word| {
            let found = word.stems.iter().chain(&word.related).filter_map(|stem| stems.get(stem.as_str()));
            found.flatten().any(|(_, range)| range.end <= label)
        };
        Self {
            range,
            kind,
            met: question
                .words
                .iter()
                .map(|word| met(word, |stem| stems.contains_key(stem), stems.keys()))
                .collect(),
            exact: question.words.iter().map(|word| exact.contains(word.exact.as_str())).collect(),
            places: question.words.iter().map(places).collect(),
            labelled: label > 0 && question.words.iter().any(labels),
        }
    }
}

/// Matches the words of the question with a file's name, in every language.
pub(super) fn met_by_name(question: &Question, place: &Place) -> Vec<f64> {
    let terms: Vec<Term> =
        Language::STEMMED.into_iter().flat_map(|language| terms(name_of(place), language)).collect();
    met_in(question, &terms)
}

/// Matches the words of the question with terms.
fn met_in(question: &Question, terms: &[Term]) -> Vec<f64> {
    let stems: HashSet<&str> =
        terms.iter().filter(|term| !term.stop).map(|term| term.stem.as_str()).collect();
    let names: Vec<&str> = stems.iter().copied().collect();
    question.words.iter().map(|word| met(word, |stem| stems.contains(stem), names.iter())).collect()
}

/// Returns what identifies a file: its path or URL.
pub(super) fn name_of(place: &Place) -> &str {
    match place {
        Place::File { path, .. } => path,
        Place::Web { url, .. } => url,
    }
}

/// Returns the elementwise maximum.
pub(super) fn elementwise_max(one: &[f64], other: &[f64]) -> Vec<f64> {
    one.iter().zip(other).map(|(a, b)| a.max(*b)).collect()
}

/// Matches a word with a set of stems, from 0 to 1.
fn met<'s>(
    word: &Word,
    has: impl Fn(&str) -> bool,
    mut all: impl Iterator<Item = &'s &'s str> + Clone,
) -> f64 {
    if word.stems.iter().any(|stem| has(stem)) {
        1.0
    } else if word.related.iter().any(|stem| has(stem)) {
        RELATED
    } else if all.any(|other| word.stems.iter().any(|stem| alike(stem, other))) {
        ALIKE
    } else {
        0.0
    }
}

/// Returns true when two stems have a long common prefix: `najemkyn` and `najemk`.
fn alike(one: &str, other: &str) -> bool {
    let same = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let (shorter, longer) = (one.len().min(other.len()), one.len().max(other.len()));
    #[expect(clippy::cast_precision_loss, reason = "stems are short")]
    let share = same as f64 / longer as f64;
    let grown = same >= GROWN_MIN_LETTERS && same == shorter && longer - shorter <= GROWN_BY_MAX;
    (grown || same >= ALIKE_MIN_LETTERS && share >= ALIKE_MIN_SHARE)
        && !one.bytes().any(|b| b.is_ascii_digit())
}

/// Returns the label at the start of a sentence.
fn label(text: &str) -> Option<&str> {
    let (label, _) = text.split_once(": ").or_else(|| text.split_once(":** "))?;
    (label.len() <= LABEL_MAX_BYTES).then_some(label)
}

/// Returns true when a line at the start of a passage is a heading.
fn is_head(line: &str, next: Option<&str>) -> bool {
    let Some(next) = next else { return false };
    if is_row(line) {
        return is_row(next) && !line.bytes().any(|b| b.is_ascii_digit());
    }
    let numbered = line.starts_with(|c: char| c.is_ascii_digit() || c == '(');
    let bound = if numbered { NUMBERED_HEAD_MAX_BYTES } else { HEAD_MAX_BYTES };
    let short = line.len() <= bound && !line.ends_with(['.', '!', '?', ';', ',']) && !line.contains(": ");
    line.starts_with('#') || short && !is_row(next)
}

fn is_row(line: &str) -> bool {
    line.contains('\t') || line.matches(';').count() >= 3 || line.matches('|').count() >= 2
}
