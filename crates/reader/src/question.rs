//! Parses a question: its language, focus and search words.

use std::sync::Arc;

use domain::step::{CallResult, StepRequest, TranscriptItem};
use text_analysis::stem::stem_in_all_languages;
use text_analysis::{
    TextLanguage, detect_language, extract_literals, extract_terms, fold_text, synonyms::related_stems,
};

use super::focus::{Focus, asks_meaning, asks_summary, asks_total, counts_next};

const WORDS_MAX: usize = 24;
/// Bounds the single letters that count.
const LETTERS_MAX: usize = 2;
/// Longer questions are truncated.
const QUESTION_MAX_BYTES: usize = 4_096;
/// A question with at most this many significant words may depend on the previous one.
const LEANING_WORDS_MAX: usize = 2;
/// The weight of an insignificant word, relative to 1.
const WEAK: f64 = 0.34;
/// The maximum weight of a word that no document contains, relative to the rarest word that one contains.
const UNKNOWN: f64 = 1.5;
/// The weight of a verb that no document contains, relative to a noun.
const VERB: f64 = 0.53;
/// The weight of a name or number that no document contains, which has no synonyms.
const UNKNOWN_NAME: f64 = 1.68;
/// The weight of a paragraph number, which is always meant exactly.
const SECTION: f64 = 2.5;
/// The weight of a word from the previous question.
const EARLIER: f64 = 0.6;

/// Words (folded) that ask for an amount, a form or a meaning instead of naming the subject.
const WEAK_WORDS: &str = "\
    vyse vysi vyska vyske vysku castka castku castky castce suma sumu velky velka velke velikost velikosti \
    maximalni minimalni maximalny minimalny nejvyssi najvyssi nejmensi celkem celkova celkovy presne presny \
    hlavni hlavny novy nova nove novou dulezite nutne povinne zpusob sposob druh typ nazev nazov obsah \
    uroven rozsah cinnost stoji stat platit prodat byva koná kona konat stal stala stanou dostal dostala \
    dostava dostane dosahl dosiahla dosahla hrozi smeji lze nutno treba potrebuje potrebny udelat ucinit \
    amount amounts maximum minimum total quantity number size big large high old name kind type sort exactly \
    main new cost costs charged use used using required allowed possible place take given granted set level \
    job deal deals come comes needed entitled apply applies receive receives day den time cas doba dobu dobe \
    ulozit mozno znamena znamenaju dela robi rozumi rozumie stane stanou mean means meaning bedeutet bedeuten \
    hohe betrag anzahl grosse gross teuer art genau haupt neu neue kosten kostet erlaubt moglich zeit tag";

#[derive(Debug, Clone)]
pub(super) struct QueryWord {
    /// The word in lower case.
    pub(super) exact: String,
    /// Its stems in each language that it may belong to.
    pub(super) stems: Vec<String>,
    pub(super) related: Vec<String>,
    /// Its rarity, reduced for insignificant words and for words of an earlier question.
    pub(super) weight: f64,
    /// No document contains it.
    pub(super) unknown: bool,
    pub(super) weak: bool,
    /// It may be part of a compound, or one.
    pub(super) compounds: bool,
    /// It is a capitalised name, which identifies a document.
    pub(super) name: bool,
    /// It may be a verb.
    verb: bool,
}

impl QueryWord {
    /// Returns true for a paragraph number.
    pub(super) fn is_section(&self) -> bool {
        self.exact.starts_with('§')
    }

    /// Returns true for a name or number, which has no synonyms.
    pub(super) fn is_identifier(&self) -> bool {
        self.name || self.exact.contains(|c: char| c.is_ascii_digit())
    }

    /// Returns true for a word that names what a question is about, as far as its form tells.
    pub(super) fn is_noun(&self) -> bool {
        !self.weak && !self.verb && !["ed", "ing"].iter().any(|ending| self.exact.ends_with(ending))
    }
}

#[derive(Debug, Clone)]
pub(super) struct ReaderQuestion {
    /// As asked, at most [`QUESTION_MAX_BYTES`].
    pub(super) text: String,
    /// The language of the answer.
    pub(super) language: TextLanguage,
    /// The kind of the expected answer.
    pub(super) focus: Focus,
    /// Its significant words, followed by the words of the previous question if it depends on it.
    pub(super) words: Vec<QueryWord>,
    /// Options, variables, paths, file names and quoted phrases, as written.
    pub(super) literals: Vec<String>,
    /// The index of the word whose number is asked for: `členů` in `Kolik členů má výbor?`
    pub(super) counted: Option<usize>,
    /// Asks what a term means: `What is a shallow clone?`
    pub(super) asks_meaning: bool,
    /// Asks for a summary, which takes a language model.
    pub(super) asks_summary: bool,
    /// Asks for a sum over what is found: `How much is it in total?`
    pub(super) asks_total: bool,
    pub(super) attachments: Vec<String>,
    /// The results of the calls so far, oldest first.
    pub(super) results: Vec<Arc<CallResult>>,
}

impl ReaderQuestion {
    /// Parses the last question of the transcript. Returns `None` without one.
    pub(super) fn from_request(request: &StepRequest) -> Option<Self> {
        let transcript = &request.transcript;
        let at = transcript.iter().rposition(|item| matches!(item, TranscriptItem::Question { .. }))?;
        let TranscriptItem::Question { text, attachments } = &transcript[at] else { return None };
        let text = &text[..text.floor_char_boundary(QUESTION_MAX_BYTES)];
        let earlier = transcript[..at].iter().rev().find_map(|item| match item {
            TranscriptItem::Question { text, attachments } => Some((text.as_str(), attachments)),
            TranscriptItem::Step(_) | TranscriptItem::Result(_) => None,
        });
        let language =
            detect_language(text).or_else(|| detect_language(earlier?.0)).unwrap_or(TextLanguage::English);
        let mut words = significant_words(text, language, false);
        let mut attachments = attachments.clone();
        if let Some((before, files)) = earlier
            && depends_on_previous(text, &words)
        {
            let before = &before[..before.floor_char_boundary(QUESTION_MAX_BYTES)];
            let more = significant_words(before, language, true)
                .into_iter()
                .filter(|word| !words.iter().any(|own| own.stems == word.stems));
            words.extend(more.collect::<Vec<_>>());
            if attachments.is_empty() {
                attachments.clone_from(files);
            }
        }
        words.truncate(WORDS_MAX);
        let results: Vec<Arc<CallResult>> = transcript[at + 1..]
            .iter()
            .filter_map(|item| match item {
                TranscriptItem::Result(result) => Some(Arc::clone(result)),
                TranscriptItem::Question { .. } | TranscriptItem::Step(_) => None,
            })
            .collect();
        let counted = counted_word(text, &words);
        let mut question = Self {
            text: text.to_owned(),
            language,
            focus: Focus::classify_question(text),
            words,
            literals: extract_literals(text).into_iter().chain(single_letters(text, language)).collect(),
            counted,
            asks_meaning: asks_meaning(text),
            asks_summary: asks_summary(text),
            asks_total: asks_total(text),
            attachments,
            results,
        };
        question.set_weights();
        Some(question)
    }

    /// Returns the search query.
    pub(super) fn search_query(&self) -> String {
        let words = self.words.iter().map(|word| word.exact.clone());
        let literals = self.literals.iter().map(|literal| {
            if literal.contains(char::is_whitespace) { format!("\"{literal}\"") } else { literal.clone() }
        });
        words.chain(literals).collect::<Vec<_>>().join(" ")
    }

    /// Returns a narrower query of the rarest words, for passages that common words displaced. `None` when it would not
    /// be narrower.
    pub(super) fn narrow_query(&self) -> Option<String> {
        let mut known: Vec<&QueryWord> =
            self.words.iter().filter(|word| !word.unknown && !word.weak).collect();
        known.sort_by(|one, other| other.weight.total_cmp(&one.weight));
        known.truncate(2);
        let narrower = !known.is_empty() && known.len() < self.words.len();
        narrower.then(|| known.iter().map(|word| word.exact.as_str()).collect::<Vec<_>>().join(" "))
    }

    /// Sets the words' weights by their rarity, which the first search reports.
    fn set_weights(&mut self) {
        let search = self.results.iter().find(|result| result.tool == super::SEARCH);
        let Some((total, counts)) = search.map(|result| parse_frequencies(&result.text)) else { return };
        let mut rarest_known: f64 = 0.0;
        for word in &mut self.words {
            let Some((_, passages)) = counts.iter().find(|(counted, _)| *counted == word.exact) else {
                continue;
            };
            word.unknown = *passages < 0.5;
            word.weight *= (1.0 + (total - passages + 0.5).max(0.5) / (passages + 0.5)).ln();
            if !word.unknown {
                rarest_known = rarest_known.max(word.weight);
            }
        }
        // A word that no document contains is hardly more significant than the rarest word that one contains; a verb,
        // which has many synonyms, is less significant, and a name more.
        for word in self.words.iter_mut().filter(|word| word.unknown && rarest_known > 0.0) {
            let factor = if word.verb {
                VERB
            } else if word.is_identifier() {
                UNKNOWN_NAME
            } else {
                1.0
            };
            word.weight = word.weight.min(rarest_known * UNKNOWN) * factor;
        }
    }
}

/// Returns true for a word that may be a verb: in German, which writes nouns with a capital, one without, else one with an
/// ending of Czech or Slovak verbs.
fn is_verb(word: &str, language: TextLanguage) -> bool {
    if language == TextLanguage::German {
        return word.starts_with(char::is_lowercase);
    }
    const ENDINGS: &[&str] = &[
        "at", "it", "et", "out", "al", "ala", "alo", "ali", "il", "ila", "ilo", "ili", "el", "ela", "elo",
        "uje", "uji", "uju", "eji", "aji", "aju", "eju", "ite", "ate", "ete", "eme", "ime", "ame",
    ];
    let folded = fold_text(word);
    folded.len() > 4 && ENDINGS.iter().any(|ending| folded.ends_with(ending))
}

/// Returns the significant words of a text, without duplicates.
fn significant_words(text: &str, language: TextLanguage, earlier: bool) -> Vec<QueryWord> {
    // German writes every noun with a capital.
    let names = language != TextLanguage::German;
    let mut found: Vec<QueryWord> = Vec::new();
    for term in extract_terms(text, TextLanguage::Czech).into_iter().filter(|term| !term.stop) {
        let folded = fold_text(&term.exact);
        let stems = if term.number { vec![term.stem] } else { stem_in_all_languages(&folded) };
        if found.iter().any(|word| word.stems == stems) {
            continue;
        }
        let mut related: Vec<String> =
            stems.iter().flat_map(|stem| related_stems(stem)).map(str::to_owned).collect();
        related.retain(|stem| !stems.contains(stem));
        let weak = WEAK_WORDS.split_whitespace().any(|word| word == folded);
        let section = term.exact.starts_with('§');
        let weight = if weak {
            WEAK
        } else if section {
            SECTION
        } else {
            1.0
        } * if earlier { EARLIER } else { 1.0 };
        let begins = text[..term.range.start].trim_end().is_empty();
        let name =
            names && !begins && !term.number && text[term.range.clone()].starts_with(char::is_uppercase);
        let compounds = language == TextLanguage::German && !term.number;
        let verb = is_verb(&text[term.range], language);
        let exact = term.exact;
        found.push(QueryWord { exact, stems, related, weight, unknown: false, weak, compounds, name, verb });
    }
    found
}

/// Returns the single capitals that name one of several: of `Who teaches class B?` the letter. Digits are words anyway.
fn single_letters(text: &str, language: TextLanguage) -> impl Iterator<Item = String> {
    let words = text.split_whitespace().skip(1);
    let words = words.map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    let names = words.filter(move |word| {
        let mut letters = word.chars();
        let only = letters.next().filter(|_| letters.next().is_none());
        // The pronoun "I" is not a name.
        only.is_some_and(|only| only.is_ascii_uppercase())
            && !(language == TextLanguage::English && *word == "I")
    });
    names.take(LETTERS_MAX).map(str::to_owned)
}

/// Returns the index of the first word after one that asks for a number.
fn counted_word(text: &str, words: &[QueryWord]) -> Option<usize> {
    let terms = extract_terms(text, TextLanguage::Czech);
    let asks = terms.iter().position(|term| counts_next(&fold_text(&term.exact)))?;
    terms[asks + 1..].iter().find_map(|term| words.iter().position(|word| word.exact == term.exact))
}

/// Returns true when a question depends on the previous one: `A co kauce?`, `And when does it end?`
fn depends_on_previous(text: &str, words: &[QueryWord]) -> bool {
    let telling = words.iter().filter(|word| !word.weak).count();
    let folded = fold_text(text);
    let first = folded.split_whitespace().next().unwrap_or_default();
    let refers = folded.split(|c: char| !c.is_alphanumeric()).any(|word| {
        matches!(
            word,
            "to" | "it"
                | "its"
                | "they"
                | "them"
                | "that"
                | "jeho"
                | "jeji"
                | "jej"
                | "ten"
                | "ta"
                | "tam"
                | "tomu"
                | "toho"
                | "ji"
                | "ho"
                | "he"
                | "she"
                | "there"
                | "this"
                | "these"
                | "those"
        )
    });
    telling == 0
        || telling <= LEANING_WORDS_MAX
            && (matches!(first, "a" | "ale" | "and" | "but" | "what's") && text.len() < 80
                || refers
                || folded.starts_with("what about")
                || folded.starts_with("how about"))
}

/// Parses the search's report of the number of passages and each word's frequency: `Passages with each word (of 231):
/// lhůta 14, kočka 0.`
fn parse_frequencies(text: &str) -> (f64, Vec<(String, f64)>) {
    let line = text.lines().next().unwrap_or_default();
    let Some((head, list)) = line.split_once("): ") else { return (0.0, Vec::new()) };
    let total = head.rsplit("(of ").next().and_then(|count| count.parse().ok()).unwrap_or(0.0);
    let words = list
        .trim_end_matches('.')
        .split(", ")
        .filter_map(|entry| {
            let (word, count) = entry.rsplit_once(' ')?;
            Some((word.to_owned(), count.parse().ok()?))
        })
        .collect();
    (total, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_the_search() {
        let (total, words) =
            parse_frequencies("Passages with each word (of 231): lhůta 14, § 0.\nNo passage fits.");
        assert!((total - 231.0).abs() < f64::EPSILON);
        assert_eq!(words, [("lhůta".to_owned(), 14.0), ("§".to_owned(), 0.0)]);
    }

    #[test]
    fn single_capitals_name_one_of_several() {
        let letters = |text: &str| single_letters(text, TextLanguage::English).collect::<Vec<_>>();
        assert_eq!(letters("Who teaches class B?"), ["B"]);
        assert_eq!(letters("What is in hall B, row 3?"), ["B"]);
        assert!(letters("A question that I ask about a hall").is_empty());
    }

    #[test]
    fn lowercase_german_words_may_be_verbs() {
        let verbs = |text: &str, language: TextLanguage| -> Vec<String> {
            let words = significant_words(text, language, false).into_iter().filter(|word| word.verb);
            words.map(|word| word.exact).collect()
        };
        assert_eq!(
            verbs("Wie viele Urlaubstage bekommt ein Jugendlicher?", TextLanguage::German),
            ["bekommt"]
        );
        assert_eq!(verbs("Kdo schvaluje přijetí člena?", TextLanguage::Czech), ["schvaluje"]);
    }

    #[test]
    fn short_question_depends_on_previous() {
        let leaning =
            |text: &str| depends_on_previous(text, &significant_words(text, TextLanguage::Czech, false));
        assert!(leaning("A co kauce?"));
        assert!(leaning("And when does it end?"));
        assert!(!leaning("Jaká je výpovědní doba nájmu bytu v Olomouci?"));
    }
}
