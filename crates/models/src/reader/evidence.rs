//! How well passages answer a question, sentence by sentence.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use domain::citation::{NumberedPassage, Place};
use language::sentence::sentences;
use language::{Language, guess, terms};

use super::question::{Question, Word};

/// What a word counts by where it is met: in the sentence itself, next to it, elsewhere in the passage, and
/// in the passage's file.
const IN_SENTENCE: f64 = 1.0;
const NEXT_TO_IT: f64 = 0.72;
const IN_PASSAGE: f64 = 0.62;
const IN_FILE: f64 = 0.45;
/// What a related word counts against the word itself, and one that only begins alike.
const RELATED: f64 = 0.75;
const ALIKE: f64 = 0.7;
/// How much of two stems must be the same at their beginnings to be alike.
const ALIKE_MIN_SHARE: f64 = 0.7;
const ALIKE_MIN_LETTERS: usize = 5;
/// The part of the score that the search's order decides.
const ORDER: f64 = 0.22;
/// What is left of a sentence's score without the kind of thing that was asked for.
const WITHOUT_FOCUS: f64 = 0.62;
/// How far from the best sentence a quote reaches, in bytes.
const QUOTE_MAX_BYTES: usize = 600;
/// The most sentences of a quote.
const QUOTE_SENTENCES_MAX: usize = 3;

/// A passage with its best sentences.
#[derive(Debug, Clone)]
pub(super) struct Evidence<'a> {
    /// The passage.
    pub(super) passage: &'a NumberedPassage,
    /// Where its quote stands in its text.
    pub(super) quote: Range<usize>,
    /// What orders passages.
    pub(super) score: f64,
    /// Which part of the question's words it speaks of, by their weights, from 0 to 1.
    pub(super) coverage: f64,
    /// Whether it has the kind of thing that was asked for.
    pub(super) has_focus: bool,
}

/// A sentence with the stems in it.
struct Sentence {
    range: Range<usize>,
    stems: HashSet<String>,
    exact: HashSet<String>,
}

/// The passages of all results, best first.
pub(super) fn weigh<'a>(question: &Question, passages: &[&'a NumberedPassage]) -> Vec<Evidence<'a>> {
    let read: Vec<Vec<Sentence>> = passages.iter().map(|passage| sentences_of(&passage.text)).collect();
    let mut of_file: HashMap<&str, HashSet<String>> = HashMap::new();
    for (passage, sentences) in passages.iter().zip(&read) {
        let name = name_of(&passage.place);
        let stems = of_file.entry(name).or_insert_with(|| stems_of(name));
        for sentence in sentences {
            stems.extend(sentence.stems.iter().cloned());
        }
    }
    let empty = HashSet::new();
    let mut found: Vec<Evidence<'a>> = Vec::new();
    for (order, (passage, sentences)) in passages.iter().zip(&read).enumerate() {
        let file = of_file.get(name_of(&passage.place)).unwrap_or(&empty);
        if let Some(evidence) = best(question, passage, sentences, file, order) {
            found.push(evidence);
        }
    }
    found.sort_by(|one, other| {
        other.score.total_cmp(&one.score).then_with(|| one.passage.number.cmp(&other.passage.number))
    });
    found
}

fn best<'a>(
    question: &Question,
    passage: &'a NumberedPassage,
    sentences: &[Sentence],
    file: &HashSet<String>,
    order: usize,
) -> Option<Evidence<'a>> {
    let all: HashSet<String> = sentences.iter().flat_map(|sentence| sentence.stems.iter().cloned()).collect();
    #[expect(clippy::cast_precision_loss, reason = "a search gives a few dozen passages")]
    let prior = ORDER * 3.0 / (3.0 + order as f64);
    let mut best: Option<(usize, f64, f64, bool)> = None;
    for at in 0..sentences.len() {
        let (coverage, own) = coverage(question, sentences, at, &all, file);
        if own <= 0.0 {
            continue;
        }
        let text = &passage.text[sentences[at].range.clone()];
        let mut met = question.focus.met_by(text);
        if met < 1.0 {
            let next = sentences
                .get(at + 1)
                .map_or(0.0, |next| question.focus.met_by(&passage.text[next.range.clone()]));
            met = met.max(0.6 * next);
        }
        let factor = WITHOUT_FOCUS + (1.0 - WITHOUT_FOCUS) * met;
        // What the sentence itself says counts besides what stands around it.
        let score = (0.6 * coverage + 0.4 * own) * factor + prior;
        if best.is_none_or(|(_, least, ..)| score > least) {
            best = Some((at, score, coverage, met >= 0.5));
        }
    }
    let (at, score, coverage, has_focus) = best?;
    let quote = quote(question, passage, sentences, at);
    Some(Evidence { passage, quote, score, coverage, has_focus })
}

/// The share of the question's words that are met around a sentence, and in the sentence itself.
fn coverage(
    question: &Question,
    sentences: &[Sentence],
    at: usize,
    all: &HashSet<String>,
    file: &HashSet<String>,
) -> (f64, f64) {
    let mut possible = 0.0;
    let (mut around, mut own) = (0.0, 0.0);
    for word in &question.words {
        possible += word.weight;
        let in_sentence = met(word, &sentences[at].stems) * IN_SENTENCE;
        let bonus = if sentences[at].exact.contains(&word.exact) { 0.05 } else { 0.0 };
        let before = at.checked_sub(1).map_or(0.0, |before| met(word, &sentences[before].stems));
        let after = sentences.get(at + 1).map_or(0.0, |after| met(word, &after.stems));
        let share = [
            in_sentence,
            before.max(after) * NEXT_TO_IT,
            met(word, all) * IN_PASSAGE,
            met(word, file) * IN_FILE,
        ]
        .into_iter()
        .fold(0.0, f64::max);
        around += word.weight * share;
        own += word.weight * (in_sentence + bonus);
    }
    if possible > 0.0 { (around / possible, own / possible) } else { (0.0, 0.0) }
}

/// How far a word is met by a set of stems, from 0 to 1.
fn met(word: &Word, stems: &HashSet<String>) -> f64 {
    if word.stems.iter().any(|stem| stems.contains(stem)) {
        1.0
    } else if word.related.iter().any(|stem| stems.contains(stem)) {
        RELATED
    } else if word.stems.iter().any(|stem| stems.iter().any(|other| alike(stem, other))) {
        ALIKE
    } else {
        0.0
    }
}

/// Whether two stems begin alike for long enough: `najemkyn` and `najemk`.
fn alike(one: &str, other: &str) -> bool {
    let same = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    #[expect(clippy::cast_precision_loss, reason = "stems are short")]
    let share = same as f64 / one.len().max(other.len()) as f64;
    same >= ALIKE_MIN_LETTERS && share >= ALIKE_MIN_SHARE && !one.bytes().any(|b| b.is_ascii_digit())
}

/// The best sentence with those beside it that speak of words which it lacks, or that it needs to be read.
fn quote(question: &Question, passage: &NumberedPassage, sentences: &[Sentence], at: usize) -> Range<usize> {
    let (mut first, mut last) = (at, at);
    let fits = |first: usize, last: usize| {
        sentences[last].range.end - sentences[first].range.start <= QUOTE_MAX_BYTES
    };
    let mut missing: Vec<&Word> =
        question.words.iter().filter(|word| met(word, &sentences[at].stems) == 0.0).collect();
    while last - first + 1 < QUOTE_SENTENCES_MAX {
        let gain =
            |index: usize| missing.iter().filter(|word| met(word, &sentences[index].stems) > 0.0).count();
        let text = &passage.text[sentences[last].range.clone()];
        let open = text.ends_with(':') || last == at && question.focus.met_by(text) < 0.5;
        let after = (last + 1 < sentences.len() && fits(first, last + 1))
            .then(|| gain(last + 1) * 2 + usize::from(open) * 3);
        let before = (first > 0 && fits(first - 1, last)).then(|| gain(first - 1) * 2);
        match (before.unwrap_or(0), after.unwrap_or(0)) {
            (0, 0) => break,
            (before, after) if after >= before => last += 1,
            _ => first -= 1,
        }
        missing.retain(|word| {
            met(word, &sentences[first].stems) == 0.0 && met(word, &sentences[last].stems) == 0.0
        });
    }
    sentences[first].range.start..sentences[last].range.end
}

fn sentences_of(text: &str) -> Vec<Sentence> {
    let language = guess(text).unwrap_or(Language::English);
    sentences(text)
        .into_iter()
        .map(|range| {
            let mut stems = HashSet::new();
            let mut exact = HashSet::new();
            for term in terms(&text[range.clone()], language).into_iter().filter(|term| !term.stop) {
                stems.insert(term.stem);
                exact.insert(term.exact);
            }
            Sentence { range, stems, exact }
        })
        .collect()
}

/// The stems of a file's name, by the rules of every language.
fn stems_of(name: &str) -> HashSet<String> {
    [Language::Czech, Language::English]
        .into_iter()
        .flat_map(|language| terms(name, language))
        .filter(|term| !term.stop)
        .map(|term| term.stem)
        .collect()
}

/// What tells files apart: the path, or the address.
fn name_of(place: &Place) -> &str {
    match place {
        Place::File { path, .. } => path,
        Place::Web { url, .. } => url,
    }
}
