//! Splits a passage into sentences and matches them with the words of a question.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use domain::citation::{NumberedPassage, PassagePlace};
use text_analysis::literal::literal_at;
use text_analysis::sentence::split_sentences;
use text_analysis::{Term, TextLanguage, detect_language, extract_terms};

use super::question::{QueryWord, ReaderQuestion};

/// The weights of a related word and of a similar stem, relative to the word itself.
const RELATED: f64 = 0.52;
const ALIKE: f64 = 0.94;
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
/// The maximum length of a line that names what the next sentence explains.
const TITLE_MAX_BYTES: usize = 64;
/// The maximum length of a question that the next sentence answers.
const QUESTION_MAX_BYTES: usize = 160;
/// The weight of a compound that ends or begins with the word, and the minimum length of the shorter stem.
const COMPOUND: f64 = 0.72;
const COMPOUND_MIN_LETTERS: usize = 5;
/// Limits the positions of a word in one sentence.
const PLACES_MAX: usize = 8;

/// The kind of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SentenceKind {
    /// A heading, or the header of a table.
    Head,
    /// A row of a table. Other rows are not about it.
    Row,
    Plain,
}

/// A sentence. The vectors have one entry for each word of the question.
pub(super) struct ScoredSentence {
    /// Its position in the passage.
    pub(super) range: Range<usize>,
    pub(super) kind: SentenceKind,
    /// The match of each word, from 0 to 1.
    pub(super) met: Vec<f64>,
    /// The words that match exactly.
    pub(super) exact: Vec<bool>,
    /// The positions of each word, without related ones: index in the sentence, and byte range.
    pub(super) places: Vec<Vec<(usize, Range<usize>)>>,
    /// Starts with a label that contains a word of the question, or follows a title that does.
    pub(super) labelled: bool,
    /// The share of the question's literals that it contains, and whether it or the title above starts with one.
    pub(super) literals: f64,
    pub(super) literal_first: bool,
}

/// A passage with its sentences.
pub(super) struct PassageReading<'a> {
    pub(super) passage: &'a NumberedPassage,
    /// The number of its first lines that are titles of a table and headings of its columns; 0 if it is not a
    /// table or has no known headings.
    pub(super) head_lines: usize,
    pub(super) sentences: Vec<ScoredSentence>,
    /// The match of each word in the headings.
    pub(super) head: Vec<f64>,
    /// The share of the question that a heading without other words covers, from 0 to 1.
    pub(super) headed: f64,
    /// The share of the words of that heading that are words of the question.
    pub(super) head_share: f64,
    /// The best match of each word in any sentence.
    pub(super) whole: Vec<f64>,
    /// The language, if it was detected.
    pub(super) language: Option<TextLanguage>,
}

impl<'a> PassageReading<'a> {
    /// Splits a passage and matches it with a question.
    pub(super) fn from_passage(question: &ReaderQuestion, found: super::ReaderPassage<'a>) -> Self {
        let super::ReaderPassage { passage, heading, head_lines, .. } = found;
        let text = passage.text.as_str();
        let language = detect_language(text);
        let ranges = if head_lines > 0 { line_ranges(text) } else { split_sentences(text) };
        let mut found: Vec<ScoredSentence> = Vec::with_capacity(ranges.len());
        for (index, range) in ranges.iter().enumerate() {
            let sentence = &text[range.clone()];
            let next = ranges.get(index + 1).map(|next| &text[next.clone()]);
            let below_heads = found.iter().all(|before| before.kind == SentenceKind::Head);
            let kind = if head_lines > 0 {
                if index < head_lines { SentenceKind::Head } else { SentenceKind::Row }
            } else if below_heads && index < HEADS_MAX && is_head(sentence, next) {
                SentenceKind::Head
            } else if is_row(sentence) {
                let first = found.last().is_none_or(|before| before.kind != SentenceKind::Row);
                if first && next.is_some_and(is_row) && is_head(sentence, next) {
                    SentenceKind::Head
                } else {
                    SentenceKind::Row
                }
            } else {
                SentenceKind::Plain
            };
            let terms = extract_terms(sentence, language.unwrap_or(TextLanguage::English));
            found.push(ScoredSentence::from_terms(question, sentence, range.clone(), kind, &terms));
        }
        // From the end, so that a title counts for the sentence below it alone.
        for index in (1..found.len()).rev() {
            let (above, from_here) = found.split_at_mut(index);
            let (title, sentence) = (&above[index - 1], &mut from_here[0]);
            if title.kind != SentenceKind::Row
                && sentence.kind == SentenceKind::Plain
                && is_title(&text[title.range.clone()])
            {
                if title.kind == SentenceKind::Plain {
                    for (own, above) in sentence.met.iter_mut().zip(&title.met) {
                        *own = own.max(*above);
                    }
                    sentence.labelled |= title.met.iter().any(|met| *met >= RELATED);
                }
                sentence.literals = sentence.literals.max(title.literals);
                sentence.literal_first |= title.literal_first;
            }
        }
        let most = |kind: Option<SentenceKind>| {
            let these = found.iter().filter(|sentence| kind.is_none_or(|kind| sentence.kind == kind));
            these
                .fold(vec![0.0; question.words.len()], |most, sentence| elementwise_max(&most, &sentence.met))
        };
        let above = met_in(question, &extract_terms(heading, language.unwrap_or(TextLanguage::English)));
        let head = elementwise_max(&most(Some(SentenceKind::Head)), &above);
        let whole = elementwise_max(&most(None), &head);
        let heads = found.iter().filter(|sentence| sentence.kind == SentenceKind::Head);
        let headed = heads
            .map(|head| &text[head.range.clone()])
            .chain([heading])
            .map(|head| {
                heading_match(question, &extract_terms(head, language.unwrap_or(TextLanguage::English)))
            })
            .fold((0.0, 0.0), |most, this| if this.0 > most.0 { this } else { most });
        let (headed, head_share) = headed;
        Self { passage, head_lines, sentences: found, head, headed, head_share, whole, language }
    }

    pub(super) fn sentence_text(&self, sentence: &ScoredSentence) -> &'a str {
        &self.passage.text[sentence.range.clone()]
    }

    /// Returns a row below the headings of its columns.
    pub(super) fn with_heads(&self, row: &ScoredSentence) -> String {
        let heads = self.sentences.iter().take(self.head_lines).map(|head| self.sentence_text(head));
        heads.chain([self.sentence_text(row)]).collect::<Vec<_>>().join("\n")
    }
}

impl ScoredSentence {
    fn from_terms(
        question: &ReaderQuestion,
        text: &str,
        range: Range<usize>,
        kind: SentenceKind,
        terms: &[Term],
    ) -> Self {
        let mut stems: HashMap<&str, Vec<(usize, Range<usize>)>> = HashMap::new();
        let mut exact: HashSet<&str> = HashSet::new();
        for term in terms.iter().filter(|term| !term.stop) {
            stems.entry(&term.stem).or_default().push((term.position, term.range.clone()));
            exact.insert(&term.exact);
        }
        let places = |word: &QueryWord| {
            let found = word.stems.iter().filter_map(|stem| stems.get(stem.as_str())).flatten();
            found.take(PLACES_MAX).cloned().collect()
        };
        let labelled = match kind {
            SentenceKind::Row => is_about(question, text, &stems),
            SentenceKind::Head | SentenceKind::Plain => sentence_label(text).is_some_and(|label| {
                question.words.iter().any(|word| {
                    let found =
                        word.stems.iter().chain(&word.related).filter_map(|stem| stems.get(stem.as_str()));
                    found.flatten().any(|(_, range)| range.end <= label.len())
                })
            }),
        };
        let has: Vec<bool> =
            question.literals.iter().map(|literal| literal_at(text, literal).is_some()).collect();
        #[expect(clippy::cast_precision_loss, reason = "a question has few literals")]
        let literals = has.iter().filter(|has| **has).count() as f64 / has.len().max(1) as f64;
        Self {
            range,
            kind,
            met: question
                .words
                .iter()
                .map(|word| match_word(word, |stem| stems.contains_key(stem), stems.keys()))
                .collect(),
            exact: question.words.iter().map(|word| exact.contains(word.exact.as_str())).collect(),
            places: question.words.iter().map(places).collect(),
            labelled,
            literals,
            literal_first: question.literals.iter().any(|literal| {
                literal_at(text, literal).is_some_and(|at| !text[..at].contains(char::is_alphanumeric))
            }),
        }
    }
}

/// Returns the lines of a text, without surrounding white space.
fn line_ranges(text: &str) -> Vec<Range<usize>> {
    let mut at = 0;
    let mut found = Vec::new();
    for line in text.split('\n') {
        let (begin, trimmed) = (line.len() - line.trim_start().len(), line.trim());
        found.push(at + begin..at + begin + trimmed.len());
        at += line.len() + 1;
    }
    found
}

/// Matches the words of the question with a file's name, in every language.
pub(super) fn met_by_name(question: &ReaderQuestion, place: &PassagePlace) -> Vec<f64> {
    let terms: Vec<Term> = TextLanguage::STEMMED
        .into_iter()
        .flat_map(|language| extract_terms(name_of(place), language))
        .collect();
    met_in(question, &terms)
}

/// Matches the words of the question with terms.
fn met_in(question: &ReaderQuestion, terms: &[Term]) -> Vec<f64> {
    let stems: HashSet<&str> =
        terms.iter().filter(|term| !term.stop).map(|term| term.stem.as_str()).collect();
    let names: Vec<&str> = stems.iter().copied().collect();
    question.words.iter().map(|word| match_word(word, |stem| stems.contains(stem), names.iter())).collect()
}

/// Returns the share of the question that a heading covers, reduced by its other words, and the share of its
/// words that are words of the question.
fn heading_match(question: &ReaderQuestion, terms: &[Term]) -> (f64, f64) {
    let stems: HashSet<&str> =
        terms.iter().filter(|term| !term.stop && !term.number).map(|term| term.stem.as_str()).collect();
    let is_own = |stem: &&&str| {
        let mut words = question.words.iter().flat_map(|word| word.stems.iter().chain(&word.related));
        words.any(|own| own == **stem || are_alike(own, stem))
    };
    #[expect(clippy::cast_precision_loss, reason = "a heading has few words")]
    let of_heading = stems.iter().filter(is_own).count() as f64 / stems.len().max(1) as f64;
    let (mut possible, mut said) = (0.0, 0.0);
    for word in &question.words {
        let is_met = match_word(word, |stem| stems.contains(stem), stems.iter()) > 0.0;
        // A name that is not in the heading is the document's.
        possible += if is_met || !word.name { word.weight } else { 0.0 };
        said += if is_met { word.weight } else { 0.0 };
    }
    if possible > 0.0 { (of_heading * of_heading * said / possible, of_heading) } else { (0.0, 0.0) }
}

/// Returns what identifies a file: its path or URL.
pub(super) fn name_of(place: &PassagePlace) -> &str {
    match place {
        PassagePlace::File { path, .. } => path,
        PassagePlace::Web { url, .. } => url,
    }
}

/// Returns the elementwise maximum.
pub(super) fn elementwise_max(one: &[f64], other: &[f64]) -> Vec<f64> {
    one.iter().zip(other).map(|(a, b)| a.max(*b)).collect()
}

/// Matches a word with a set of stems, from 0 to 1.
fn match_word<'s>(
    word: &QueryWord,
    has: impl Fn(&str) -> bool,
    mut all: impl Iterator<Item = &'s &'s str> + Clone,
) -> f64 {
    if word.stems.iter().any(|stem| has(stem)) {
        1.0
    } else if word.related.iter().any(|stem| has(stem)) {
        RELATED
    } else if all.clone().any(|other| word.stems.iter().any(|stem| are_alike(stem, other))) {
        ALIKE
    } else if word.compounds && all.any(|other| word.stems.iter().any(|stem| is_compound(stem, other))) {
        COMPOUND
    } else {
        0.0
    }
}

/// Returns true when one stem is a long part of the other, at its end or beginning: `arbeitsspeich`, `speich`.
fn is_compound(one: &str, other: &str) -> bool {
    let (shorter, longer) = if one.len() < other.len() { (one, other) } else { (other, one) };
    shorter.len() >= COMPOUND_MIN_LETTERS
        && longer.len() >= shorter.len() + 3
        && (longer.ends_with(shorter) || longer.starts_with(shorter))
        && !longer.bytes().any(|b| b.is_ascii_digit())
}

/// Returns true when two stems have a long common prefix: `najemkyn` and `najemk`.
fn are_alike(one: &str, other: &str) -> bool {
    let same = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let (shorter, longer) = (one.len().min(other.len()), one.len().max(other.len()));
    #[expect(clippy::cast_precision_loss, reason = "stems are short")]
    let share = same as f64 / longer as f64;
    let grown = same >= GROWN_MIN_LETTERS && same == shorter && longer - shorter <= GROWN_BY_MAX;
    (grown || same >= ALIKE_MIN_LETTERS && share >= ALIKE_MIN_SHARE)
        && !one.bytes().any(|b| b.is_ascii_digit())
}

/// Returns true for a row whose first cell consists of words of the question.
fn is_about(question: &ReaderQuestion, row: &str, stems: &HashMap<&str, Vec<(usize, Range<usize>)>>) -> bool {
    let cells = row.split(['\t', '|', ';']);
    let Some(cell) = cells.map(str::trim).find(|cell| cell.contains(char::is_alphabetic)) else {
        return false;
    };
    let start = row.find(cell).unwrap_or_default();
    let end = start + cell.len();
    let mut of_cell = stems
        .iter()
        .filter(|(_, places)| places.iter().any(|(_, range)| range.start >= start && range.end <= end))
        .peekable();
    of_cell.peek().is_some()
        && of_cell.all(|(stem, _)| {
            question.words.iter().any(|word| {
                word.stems.iter().chain(&word.related).any(|own| own == stem)
                    || word.stems.iter().any(|own| are_alike(own, stem))
            })
        })
}

/// Returns true for a line that names what the next sentence explains: `HISTSIZE`, `3.13.1. Purpose`, and for a question
/// that the next sentence answers, as in lists of frequent questions.
fn is_title(line: &str) -> bool {
    if line.ends_with('?') {
        return line.len() <= QUESTION_MAX_BYTES;
    }
    line.len() <= TITLE_MAX_BYTES
        && line.contains(char::is_alphabetic)
        && !line.ends_with(['.', '!', '?', ';', ',', ':'])
        && !line.contains('\n')
}

/// Returns the label at the start of a sentence.
fn sentence_label(text: &str) -> Option<&str> {
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

/// Returns true for a heading with its number before a tab: `5<tab>File allocation tables`.
fn is_numbered_head(line: &str) -> bool {
    line.split_once('\t').is_some_and(|(number, title)| {
        number.starts_with(|c: char| c.is_ascii_digit())
            && number.chars().all(|c| c.is_ascii_digit() || c == '.')
            && title.starts_with(char::is_alphabetic)
            && !title.contains(|c: char| c == '\t' || c.is_ascii_digit())
    })
}

fn is_row(line: &str) -> bool {
    line.contains('\t') && !is_numbered_head(line)
        || line.matches(';').count() >= 3
        || line.matches('|').count() >= 2
}
