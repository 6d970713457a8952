//! A passage as the reader sees it: its sentences, and which words of the question each of them has.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use domain::citation::{NumberedPassage, Place};
use text_analysis::sentence::sentences;
use text_analysis::{Language, Term, detect_language, terms};

use super::question::{Question, Word};

/// What a related word counts against the word itself, and one that only begins alike.
const RELATED: f64 = 0.6;
const ALIKE: f64 = 0.7;
/// How much of two stems must be the same at their beginnings to be alike.
const ALIKE_MIN_SHARE: f64 = 0.7;
const ALIKE_MIN_LETTERS: usize = 5;
/// A stem that is the whole beginning of another is alike from this length on, and this much may follow it.
const GROWN_MIN_LETTERS: usize = 4;
const GROWN_BY_MAX: usize = 2;
/// How many lines at a passage's beginning may be headings, and the greatest length in bytes of one that
/// begins with a number and of one that does not.
const HEADS_MAX: usize = 2;
const NUMBERED_HEAD_MAX_BYTES: usize = 64;
const HEAD_MAX_BYTES: usize = 100;
/// The longest label, in bytes: `Place: the town hall`.
const LABEL_MAX_BYTES: usize = 64;
/// How many places of a word in one sentence are looked at.
const PLACES_MAX: usize = 8;

/// What a sentence is to those around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The heading of what follows, or the head of a table.
    Head,
    /// A row of a table: what stands in other rows is not about it.
    Row,
    /// A sentence.
    Plain,
}

/// A sentence; the lists have an entry for each word of the question.
pub(super) struct Sentence {
    /// Where it stands in the passage.
    pub(super) range: Range<usize>,
    /// What it is.
    pub(super) kind: Kind,
    /// How far it has each word, from 0 to 1.
    pub(super) met: Vec<f64>,
    /// Whether it has each word to the letter.
    pub(super) exact: Vec<bool>,
    /// Where it has each word, not related ones: which word of the sentence it is, and its bytes.
    pub(super) places: Vec<Vec<(usize, Range<usize>)>>,
    /// Whether it begins with a label that has a word of the question.
    pub(super) labelled: bool,
}

/// A passage with its sentences.
pub(super) struct Reading<'a> {
    /// The passage.
    pub(super) passage: &'a NumberedPassage,
    /// Its sentences, in order.
    pub(super) sentences: Vec<Sentence>,
    /// How far its headings have each word of the question.
    pub(super) head: Vec<f64>,
    /// How far any of its sentences has each word.
    pub(super) whole: Vec<f64>,
    /// The language that it is written in, if that shows.
    pub(super) language: Option<Language>,
}

impl<'a> Reading<'a> {
    /// Reads a passage for the question's words.
    pub(super) fn of(question: &Question, passage: &'a NumberedPassage) -> Self {
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
        let (head, whole) = (most(Some(Kind::Head)), most(None));
        Self { passage, sentences: found, head, whole, language }
    }

    /// The text of a sentence.
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

/// How far each word of the question stands in a file's name, by the rules of every language.
pub(super) fn met_by_name(question: &Question, place: &Place) -> Vec<f64> {
    let stems: HashSet<String> = [Language::Czech, Language::English]
        .into_iter()
        .flat_map(|language| terms(name_of(place), language))
        .filter(|term| !term.stop)
        .map(|term| term.stem)
        .collect();
    let names: Vec<&str> = stems.iter().map(String::as_str).collect();
    question.words.iter().map(|word| met(word, |stem| stems.contains(stem), names.iter())).collect()
}

/// What tells files apart: the path, or the address.
pub(super) fn name_of(place: &Place) -> &str {
    match place {
        Place::File { path, .. } => path,
        Place::Web { url, .. } => url,
    }
}

/// The greater of two lists, entry by entry.
pub(super) fn elementwise_max(one: &[f64], other: &[f64]) -> Vec<f64> {
    one.iter().zip(other).map(|(a, b)| a.max(*b)).collect()
}

/// How far a word is met by a set of stems, from 0 to 1.
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

/// Whether two stems begin alike for long enough: `najemkyn` and `najemk`.
fn alike(one: &str, other: &str) -> bool {
    let same = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let (shorter, longer) = (one.len().min(other.len()), one.len().max(other.len()));
    #[expect(clippy::cast_precision_loss, reason = "stems are short")]
    let share = same as f64 / longer as f64;
    let grown = same >= GROWN_MIN_LETTERS && same == shorter && longer - shorter <= GROWN_BY_MAX;
    (grown || same >= ALIKE_MIN_LETTERS && share >= ALIKE_MIN_SHARE)
        && !one.bytes().any(|b| b.is_ascii_digit())
}

/// The label that a sentence begins with.
fn label(text: &str) -> Option<&str> {
    let (label, _) = text.split_once(": ").or_else(|| text.split_once(":** "))?;
    (label.len() <= LABEL_MAX_BYTES).then_some(label)
}

/// Whether a line at a passage's beginning only names what follows.
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
