//! Scores how well passages answer a question, sentence by sentence.

use std::collections::HashMap;
use std::ops::Range;

use domain::citation::NumberedPassage;
use text_analysis::is_listing;
use text_analysis::literal::literal_at;

use super::ReaderPassage;
use super::focus::{Focus, number_places};
use super::question::{QueryWord, ReaderQuestion};
use super::reading::{PassageReading, ScoredSentence, SentenceKind, elementwise_max, met_by_name, name_of};

/// The weight of a word by its position, relative to 1 in the sentence itself: in the heading, in a neighbouring
/// sentence, elsewhere in the passage, and elsewhere in its file.
const IN_HEAD: f64 = 0.83;
const BEFORE_IT: f64 = 0.87;
const AFTER_IT: f64 = 0.8;
const IN_PASSAGE: f64 = 0.75;
const IN_FILE: f64 = 0.38;
/// The weight of a heading's word in the sentence's own score.
const IN_HEAD_OWN: f64 = 0.51;
/// The same in a heading of nothing but words of the question.
const IN_PURE_HEAD_OWN: f64 = 1.0;
/// The weights of a sentence's surroundings and of the sentence itself in its score.
const AROUND: f64 = 0.95;
const OWN: f64 = 0.47;
/// The weight of the search's order, and its decay.
const ORDER: f64 = 0.21;
const ORDER_FALL: f64 = 2.5;
/// The weight of a passage's nearness to the question in meaning, when documents are searched by meaning.
const NEARNESS: f64 = 0.05;
/// The minimum score of an answer and of a passage close to the question, and what each of the first words of the question
/// that the passage contains adds to it.
const ANSWER_MIN: f64 = 1.2;
const CLOSE_MIN: f64 = 0.84;
/// The same in a file that is attached to the question, which the user believes to answer it.
const CLOSE_IN_ATTACHED_MIN: f64 = 0.5;
const WORD: f64 = 0.09;
const WORDS_MAX: usize = 4;
/// The same for the words of the question itself: of a long question, less is said in one place.
const ASKED_WORD: f64 = 0.02;
const ASKED_WORDS_MAX: usize = 8;
/// The factor for a sentence without the kind of thing that the question asks for.
const WITHOUT_FOCUS: f64 = 0.68;
/// The weight of a name elsewhere in the file, which shows that the question is about this document.
const NAME_IN_FILE: f64 = 0.62;
/// The factor for a passage in another language than the question.
const OTHER_LANGUAGE: f64 = 0.74;
/// The factor for a table of contents or a list of links.
const LISTING: f64 = 0.48;
/// The bonus when the sentence starts with a word of the question and a colon.
const LABEL: f64 = 0.17;
/// The bonus when the sentence starts with the rarest word of the question, as a definition does.
const BEGINS: f64 = 0.16;
/// The factor for a short item that names something without saying anything about it, for a question and a command.
const FRAGMENT: f64 = 0.85;
const FRAGMENT_MAX_BYTES: usize = 60;
/// The bonus for an exact match.
const EXACT: f64 = 0.2;
/// The bonus for neighbouring words that stay together, and their maximum distance in words.
const CLOSE: f64 = 0.24;
const CLOSE_WORDS: usize = 2;
/// The bonus when the kind of thing that the question asks for is near the words, and the maximum distance in bytes.
const FOCUS_NEAR: f64 = 0.16;
const FOCUS_NEAR_BYTES: usize = 48;
/// The bonus for a heading of nothing but words of the question.
const HEADED: f64 = 0.36;
/// The bonus for the question's literals, and for a sentence that begins with one.
const LITERAL: f64 = 0.14;
const LITERAL_FIRST: f64 = 0.16;
/// The bonus for a label or beginning that names what the question asks the meaning of.
const EXPLAINS: f64 = 0.07;
/// The deduction for a line that only names something.
const NAME_ONLY: f64 = 0.11;
/// The bonus for a number beside the word that is counted, and the maximum distances before it and after it, in words.
const COUNTED: f64 = 0.15;
const COUNTED_BEFORE: usize = 3;
const COUNTED_AFTER: usize = 2;
/// The maximum number of rows and bytes of a table that is quoted whole.
const SMALL_ROWS_MAX: usize = 12;
const SMALL_MAX_BYTES: usize = 600;
/// The beginning of the note in place of a file inside a document that was not read.
const UNREAD_NOTE: &str = "(not read: ";

/// A passage with its best sentences.
#[derive(Debug, Clone)]
pub(super) struct Evidence<'a> {
    pub(super) passage: &'a NumberedPassage,
    /// The number of its first lines that are titles of a table and headings of its columns.
    pub(super) head_lines: usize,
    /// The quoted ranges of the passage's text, in order.
    pub(super) quote: Vec<Range<usize>>,
    /// The range of the best sentence.
    pub(super) best: Range<usize>,
    /// Orders the passages: by words and, if the search compared vectors, by meaning.
    pub(super) score: f64,
    /// The part of the score that comes from words.
    by_words: f64,
    /// The number of words of the question that the passage contains.
    pub(super) words: usize,
    /// The number of words of the question.
    asked_words: usize,
    /// The question names something that occurs nowhere in the found passages.
    lacks_name: bool,
}

impl Evidence<'_> {
    /// Returns true if the passage answers the question.
    pub(super) fn is_answer(&self) -> bool {
        self.confidence() >= ANSWER_MIN && !self.lacks_name
    }

    /// Returns true if the passage is worth showing when none answers the question.
    pub(super) fn is_close(&self, attached: bool) -> bool {
        self.confidence() >= if attached { CLOSE_IN_ATTACHED_MIN } else { CLOSE_MIN }
    }

    /// The more words the question has, and the passage of them, the lower its score may be.
    fn confidence(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "they are small numbers")]
        let (words, asked_words) =
            (self.words.min(WORDS_MAX) as f64, self.asked_words.min(ASKED_WORDS_MAX) as f64);
        self.by_words + WORD * words + ASKED_WORD * asked_words
    }
}

/// Scores the passages of all results and returns them best first.
pub(super) fn rank_passages<'a>(
    question: &ReaderQuestion,
    passages: &[ReaderPassage<'a>],
) -> Vec<Evidence<'a>> {
    let readings: Vec<PassageReading<'a>> =
        passages.iter().map(|found| PassageReading::from_passage(question, *found)).collect();
    let mut of_file: HashMap<&str, Vec<f64>> = HashMap::new();
    for reading in &readings {
        let place = &reading.passage.place;
        let met = of_file.entry(name_of(place)).or_insert_with(|| met_by_name(question, place));
        *met = elementwise_max(met, &reading.whole);
    }
    let lacking = Lacking::from_readings(question, &readings, of_file.values());
    let mut found: Vec<Evidence<'a>> = readings
        .iter()
        .enumerate()
        .filter_map(|(order, reading)| {
            let file = of_file.get(name_of(&reading.passage.place))?;
            let by_words = best_evidence(question, reading, file, order)?;
            let lacks_name = lacking.name || lacking.of_tables && reading.head_lines > 0;
            let score = by_words.score + NEARNESS * passages[order].nearness;
            Some(Evidence { score, lacks_name, ..by_words })
        })
        .collect();
    found.sort_by(|one, other| {
        other.score.total_cmp(&one.score).then_with(|| one.passage.number.cmp(&other.passage.number))
    });
    found
}

/// Scores a passage by its best sentence. Returns `None` when it contains no word of the question.
fn best_evidence<'a>(
    question: &ReaderQuestion,
    reading: &PassageReading<'a>,
    file: &[f64],
    order: usize,
) -> Option<Evidence<'a>> {
    let heads_only = reading.sentences.iter().all(|sentence| sentence.kind == SentenceKind::Head);
    let mut scored: Vec<(usize, f64, f64)> = reading
        .sentences
        .iter()
        .enumerate()
        .filter(|(_, sentence)| heads_only || sentence.kind != SentenceKind::Head)
        // A note of the agent in place of a file inside the document.
        .filter(|(_, sentence)| !reading.sentence_text(sentence).contains(UNREAD_NOTE))
        .filter_map(|(at, sentence)| {
            Some((at, score_sentence(question, reading, file, at)?, form_bonus(question, reading, sentence)))
        })
        .collect();
    // Stable, so the first of equals comes first.
    scored.sort_by(|one, other| (other.1 + other.2).total_cmp(&(one.1 + one.2)));
    let (at, mut strength, form) = *scored.first()?;
    // Users prefer an answer in the language of their question.
    if reading.language.is_some_and(|language| language != question.language) {
        strength *= OTHER_LANGUAGE;
    }
    if is_listing(&reading.passage.text) {
        strength *= LISTING;
    }
    let words = reading.whole.iter().filter(|met| **met > 0.0).count();
    #[expect(clippy::cast_precision_loss, reason = "a search gives a few dozen passages")]
    let by_words = strength + form + ORDER * ORDER_FALL / (ORDER_FALL + order as f64);
    Some(Evidence {
        passage: reading.passage,
        head_lines: reading.head_lines,
        quote: quote_ranges(reading, at),
        best: reading.sentences[at].range.clone(),
        score: by_words,
        by_words,
        words,
        asked_words: question.words.len(),
        lacks_name: false,
    })
}

/// Tells whether the subject of a question occurs nowhere: then passages that share its other words answer
/// another question.
#[derive(Debug, Clone, Copy)]
struct Lacking {
    /// A name, a number, or a letter that names one of several.
    name: bool,
    /// Any word but a verb. Tables, unlike texts, have the same words as questions about them.
    of_tables: bool,
}

impl Lacking {
    fn from_readings<'f>(
        question: &ReaderQuestion,
        readings: &[PassageReading<'_>],
        of_file: impl Iterator<Item = &'f Vec<f64>> + Clone,
    ) -> Self {
        let is_met = |index: usize| of_file.clone().any(|met| met[index] > 0.0);
        let words = question.words.iter().enumerate();
        let lacking =
            || words.clone().filter(|(index, word)| word.unknown && !is_met(*index)).map(|(_, word)| word);
        let has =
            |letter: &str| readings.iter().any(|reading| literal_at(&reading.passage.text, letter).is_some());
        let letter = |literal: &&String| literal.chars().count() == 1;
        Self {
            name: lacking().any(QueryWord::is_identifier)
                || question.literals.iter().filter(letter).any(|letter| !has(letter)),
            of_tables: lacking().any(QueryWord::is_noun),
        }
    }
}

/// Scores a sentence. Returns `None` when neither it nor its surroundings contain a word of the question.
fn score_sentence(
    question: &ReaderQuestion,
    reading: &PassageReading<'_>,
    file: &[f64],
    at: usize,
) -> Option<f64> {
    let sentence = &reading.sentences[at];
    let (around, own) = word_coverage(question, reading, file, at);
    if around <= 0.0 {
        return None;
    }
    let mut focus = question.focus.met_by(reading.sentence_text(sentence));
    if focus < 1.0 && reading.head_lines > 0 {
        // The meaning of a figure, such as a year or a currency, is in the heading above it.
        focus = focus.max(question.focus.met_by(&reading.with_heads(sentence)));
    }
    if focus < 1.0 && sentence.kind == SentenceKind::Plain {
        let next = reading.sentences.get(at + 1).filter(|next| next.kind == SentenceKind::Plain);
        focus = focus.max(next.map_or(0.0, |next| question.focus.met_by(reading.sentence_text(next))));
    }
    let label = if sentence.labelled { LABEL } else { 0.0 };
    let text = reading.sentence_text(sentence);
    let fragment = if is_fragment(text) || is_question(text) || is_code(text) { FRAGMENT } else { 1.0 };
    let own = own + focus_near(question, reading, sentence) + label;
    let begins = if begins_with_rarest(question, sentence) { BEGINS } else { 0.0 };
    Some(
        fragment * (AROUND * around + OWN * (own + begins)) * (WITHOUT_FOCUS + (1.0 - WITHOUT_FOCUS) * focus),
    )
}

/// Returns the shares of the question's words that the surroundings of a sentence and the sentence itself contain.
fn word_coverage(
    question: &ReaderQuestion,
    reading: &PassageReading<'_>,
    file: &[f64],
    at: usize,
) -> (f64, f64) {
    let sentence = &reading.sentences[at];
    let is_row = sentence.kind == SentenceKind::Row;
    let beside = |index: Option<usize>| {
        index
            .and_then(|index| reading.sentences.get(index))
            .filter(|beside| beside.kind == SentenceKind::Plain && !is_row)
    };
    let (before, after) = (beside(at.checked_sub(1)), beside(Some(at + 1)));
    let in_head_own = IN_HEAD_OWN + (IN_PURE_HEAD_OWN - IN_HEAD_OWN) * reading.head_share.powi(2);
    let (mut around, mut own) = (WeightedShare::default(), WeightedShare::default());
    for (index, word) in question.words.iter().enumerate() {
        let here = sentence.met[index];
        let next = f64::max(
            before.map_or(0.0, |before| before.met[index] * BEFORE_IT),
            after.map_or(0.0, |after| after.met[index] * AFTER_IT),
        );
        let head = reading.head[index];
        let in_passage = if is_row { 0.0 } else { reading.whole[index] };
        let in_file = file[index] * if word.name { NAME_IN_FILE } else { IN_FILE };
        let places = [here, head * IN_HEAD, next, in_passage * IN_PASSAGE, in_file];
        // Around it, that many words are met counts more than which.
        around.add_weight(word.weight.sqrt(), places.into_iter().fold(0.0, f64::max));
        let exact = if sentence.exact[index] { EXACT } else { 0.0 };
        let head_own = if word.is_section() { head } else { head * in_head_own };
        let file_own = if word.name { in_file } else { 0.0 };
        // In the sentence itself rare words count most.
        own.add_weight(word.weight.powf(1.5), (here + exact).max(head_own).max(file_own));
    }
    (around.of_all(), own.of_all() + closeness_bonus(sentence))
}

/// Returns true when a sentence starts with the question's rarest word.
fn begins_with_rarest(question: &ReaderQuestion, sentence: &ScoredSentence) -> bool {
    let words = question.words.iter().zip(&sentence.places).filter(|(word, _)| !word.unknown);
    let rarest = words.max_by(|one, other| one.0.weight.total_cmp(&other.0.weight));
    rarest.is_some_and(|(_, places)| places.iter().any(|(index, _)| *index <= 1))
}

/// Returns true for a short item of a list, without an end: `1. název a sídlo spolku,`.
fn is_fragment(text: &str) -> bool {
    text.len() <= FRAGMENT_MAX_BYTES && text.ends_with(',')
}

/// Returns true for a question, whose answer is in the next sentence.
fn is_question(text: &str) -> bool {
    text.ends_with('?')
}

/// Returns true for a command or its output, which shows something without saying what it is.
fn is_code(text: &str) -> bool {
    text.starts_with("$ ") || text.starts_with("% ") || text.starts_with("```")
}

/// Returns true for a short line without an end that does not contain the kind of thing that the question asks for: a title,
/// an entry of a list.
fn is_name(question: &ReaderQuestion, text: &str) -> bool {
    text.len() <= FRAGMENT_MAX_BYTES
        && text.ends_with(char::is_alphabetic)
        && (question.focus == Focus::Open || question.focus.met_by(text) < 1.0)
}

#[derive(Default)]
struct WeightedShare {
    possible: f64,
    met: f64,
}

impl WeightedShare {
    fn add_weight(&mut self, weight: f64, share: f64) {
        self.possible += weight;
        self.met += weight * share;
    }

    fn of_all(&self) -> f64 {
        if self.possible > 0.0 { self.met / self.possible } else { 0.0 }
    }
}

/// Computes the bonus for a sentence in which the kind of thing that the question asks for is near its words.
fn focus_near(question: &ReaderQuestion, reading: &PassageReading<'_>, sentence: &ScoredSentence) -> f64 {
    if question.focus == Focus::Open || sentence.kind != SentenceKind::Plain {
        return 0.0;
    }
    let text = reading.sentence_text(sentence);
    let mut near = WeightedShare::default();
    for (word, places) in question.words.iter().zip(&sentence.places) {
        let is_near = places.iter().any(|(_, range)| {
            let start = text.floor_char_boundary(range.start.saturating_sub(FOCUS_NEAR_BYTES));
            let end = text.floor_char_boundary(range.end + FOCUS_NEAR_BYTES);
            question.focus.met_by(&text[start..end]) >= 1.0
        });
        near.add_weight(word.weight, if is_near { 1.0 } else { 0.0 });
    }
    FOCUS_NEAR * near.of_all()
}

/// Computes the bonus for the form in which a sentence answers: its heading, its beginning, what it names as written, and
/// what it counts.
fn form_bonus(question: &ReaderQuestion, reading: &PassageReading<'_>, sentence: &ScoredSentence) -> f64 {
    let explains = question.asks_meaning && (sentence.labelled || begins_with_rarest(question, sentence));
    HEADED * reading.headed
        + LITERAL * sentence.literals
        + if sentence.literal_first { LITERAL_FIRST } else { 0.0 }
        + if explains { EXPLAINS } else { 0.0 }
        + counted_bonus(question, reading, sentence)
        - if sentence.kind == SentenceKind::Plain && is_name(question, reading.sentence_text(sentence)) {
            NAME_ONLY
        } else {
            0.0
        }
}

/// Computes the bonus for a number beside the word that the question counts.
fn counted_bonus(question: &ReaderQuestion, reading: &PassageReading<'_>, sentence: &ScoredSentence) -> f64 {
    let Some(counted) = question.counted else { return 0.0 };
    let numbers = number_places(reading.sentence_text(sentence));
    let beside = sentence.places[counted].iter().any(|(at, _)| {
        numbers.iter().any(|(number, digits)| {
            (1..=COUNTED_BEFORE).contains(&at.saturating_sub(*number))
                || *digits && (1..=COUNTED_AFTER).contains(&number.saturating_sub(*at))
        })
    });
    if beside { COUNTED } else { 0.0 }
}

/// Computes the bonus for words that are neighbours both in the question and in the sentence.
fn closeness_bonus(sentence: &ScoredSentence) -> f64 {
    let pairs = sentence.places.windows(2).filter(|pair| {
        pair[0].iter().any(|(one, _)| pair[1].iter().any(|(other, _)| one.abs_diff(*other) <= CLOSE_WORDS))
    });
    #[expect(clippy::cast_precision_loss, reason = "a question has few words")]
    let share = pairs.count() as f64 / sentence.places.len().max(2) as f64;
    CLOSE * share
}

/// Returns the ranges that are quoted: the whole passage, or of a table that is not small the row that answers, below the header.
fn quote_ranges(reading: &PassageReading<'_>, at: usize) -> Vec<Range<usize>> {
    let sentences = &reading.sentences;
    let is_small = reading.head_lines > 0
        && sentences.len() <= reading.head_lines + SMALL_ROWS_MAX
        && reading.passage.text.len() <= SMALL_MAX_BYTES;
    if sentences[at].kind == SentenceKind::Row && !is_small {
        let head = sentences.iter().take(at).filter(|sentence| sentence.kind == SentenceKind::Head);
        return head.map(|head| head.range.clone()).chain([sentences[at].range.clone()]).collect();
    }
    std::iter::once(0..reading.passage.text.len()).collect()
}
