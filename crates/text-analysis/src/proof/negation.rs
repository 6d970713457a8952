//! Finds the negated words of a sentence, and compares them with the sentences that it cites.
//!
//! A negation word negates the words beside it. A claim contradicts a sentence if it negates words that the sentence
//! contains without negation, or vice versa. In Czech and Slovak a verb is negated by `ne`: `neplatí` contradicts `platí`.

use std::collections::HashSet;

use crate::fold::fold_text;
use crate::sentence::split_sentences;
use crate::stem::stem_in_all_languages;
use crate::{Term, TextLanguage, extract_terms};

use super::aligned::{self, list_contains};

/// Words (folded) that negate the words after them.
pub(super) const NEGATING: &str = "\
    not no never nobody none cannot neither nor nicht kein keine keinen keinem keiner keines nie niemals niemand nichts weder \
    neni nejsou nikdy nikdo zadny zadna zadne zadneho zadnou zadnych nelze nie nikto nikoho ziadny ziadna ziadne ziadneho \
    nemozno \
    nemusi nemusia nemuze nemohou nemoze nemozu nebude nebudou nebudu nesmi nesmie nesmu nema nemaji nemaju nebyl nebyla \
    nebylo nebol nebola nebolo";
/// Negation words that negate the word before them, too: `enthält nicht`.
const BACKWARD: &str = "nicht";
/// Words after a negation word that make a limit or a list of it: `no more than`, `not only`.
const LIMITING: &str = "\
    only more less later longer earlier exceed exceeding nur mehr weniger spater langer jen iba viac menej vice mene pozdeji \
    neskor";
/// Words of exceptions and conditions, whose sentences are not compared: `außer sonntags` says the same as `nicht sonntags`.
const EXCEPTING: &str = "\
    except unless without only until outside excluding free ausser ohne ausgenommen nur bis erst sofern falls soweit denn frei krome vyjma bez pouze jen leda az \
    okrem iba len pokial forbidden prohibited verboten untersagt zakazano zakazane vylouceno vylucene";
/// Words with `ne` at their beginning that negate nothing, by their beginnings.
const NE_WORDS: &str = "\
    nebo neb nej nek nemoc nemov nezbyt nebezp neboh nehod nepretr nezav nehmot neurc nedel netto nevest new nemec nechat";
/// The words beside a negation word that it negates.
const NEGATED_MAX: usize = 3;
/// The minimum share of a claim's words in a sentence with which it is compared, and the share of the best one from which
/// others are compared, too.
const OVERLAP_MIN: f64 = 0.4;
const OVERLAP_BESIDES: f64 = 0.8;
/// A claim with fewer words besides negation words is not compared.
const WORDS_MIN: usize = 2;
/// The minimum length of a word that `ne` negates.
const VERB_MIN_CHARS: usize = 3;

/// A sentence: the stems of its words, and of its negated words.
struct NegationSentence {
    /// The stems of each word in each language.
    words: Vec<Vec<String>>,
    /// The stems of these words, and the stems without the negating `ne`.
    stems: HashSet<String>,
    positives: HashSet<String>,
    /// The stems of all words, including words without content, such as `platí`.
    all: HashSet<String>,
    negated: HashSet<String>,
    excepting: bool,
}

/// Returns true if the sentence has a negation word that makes no limit.
pub(super) fn is_negating(sentence: &aligned::AlignedSentence<'_>) -> bool {
    let words = &sentence.words;
    words.iter().enumerate().any(|(at, word)| {
        let limits = words.get(at + 1).is_some_and(|next| list_contains(LIMITING, &next.folded));
        list_contains(NEGATING, &word.folded) && !limits
    })
}

/// Returns true if a sentence of the claim says the opposite of all sentences of the text that may support it.
pub(super) fn contradicts_text(claim: &str, text: &str) -> bool {
    let cited: Vec<NegationSentence> =
        split_sentences(text).into_iter().map(|range| NegationSentence::parse(&text[range])).collect();
    split_sentences(claim).into_iter().any(|range| {
        let said = NegationSentence::parse(&claim[range]);
        if said.words.len() < WORDS_MIN || said.excepting {
            return false;
        }
        let overlaps: Vec<f64> = cited.iter().map(|cited| said.overlap_with(cited)).collect();
        let best = overlaps.iter().copied().fold(0.0, f64::max);
        let compared = cited
            .iter()
            .zip(&overlaps)
            .filter(|(_, overlap)| **overlap >= OVERLAP_MIN && **overlap >= best * OVERLAP_BESIDES);
        let mut compared = compared.peekable();
        compared.peek().is_some() && compared.all(|(cited, _)| said.is_contrary_to(cited))
    })
}

impl NegationSentence {
    fn parse(text: &str) -> Self {
        let terms: Vec<(Term, String)> = extract_terms(text, TextLanguage::English)
            .into_iter()
            .map(|term| {
                let folded = fold_text(&term.exact);
                (term, folded)
            })
            .collect();
        let is_content =
            |(term, folded): &&(Term, String)| !term.stop && !term.number && !list_contains(NEGATING, folded);
        let mut negated = HashSet::new();
        for (at, (_, folded)) in terms.iter().enumerate() {
            let limits = terms.get(at + 1).is_some_and(|(_, next)| list_contains(LIMITING, next));
            if !list_contains(NEGATING, folded) || limits {
                continue;
            }
            let after = terms[at + 1..].iter().filter(is_content).take(NEGATED_MAX);
            let before = terms[..at]
                .iter()
                .rev()
                .filter(is_content)
                .take(usize::from(list_contains(BACKWARD, folded)));
            negated.extend(after.chain(before).flat_map(|(_, folded)| stem_in_all_languages(folded)));
        }
        let words: Vec<Vec<String>> =
            terms.iter().filter(is_content).map(|(_, folded)| stem_in_all_languages(folded)).collect();
        Self {
            stems: words.iter().flatten().cloned().collect(),
            positives: words.iter().filter_map(|word| positive_stems(word)).flatten().collect(),
            words,
            all: terms.iter().flat_map(|(_, folded)| stem_in_all_languages(folded)).collect(),
            negated,
            excepting: terms.iter().any(|(_, folded)| list_contains(EXCEPTING, folded)),
        }
    }

    /// Returns the share of its words that the other sentence contains, negated or not.
    fn overlap_with(&self, other: &Self) -> f64 {
        let met = |word: &&Vec<String>| {
            other.has_word(word)
                || positive_stems(word).is_some_and(|word| other.has_word(&word))
                || other.has_negative(word)
        };
        #[expect(clippy::cast_precision_loss, reason = "sentences have few words")]
        let share = self.words.iter().filter(met).count() as f64 / self.words.len().max(1) as f64;
        share
    }

    fn has_word(&self, word: &[String]) -> bool {
        word.iter().any(|stem| self.stems.contains(stem))
    }

    /// Returns true if the sentence contains the verb with `ne` before it.
    fn has_negative(&self, word: &[String]) -> bool {
        word.iter().any(|stem| self.positives.contains(stem))
    }

    fn is_contrary_to(&self, other: &Self) -> bool {
        if other.excepting {
            return false;
        }
        self.negates_what_stands_in(other)
            || other.negates_what_stands_in(self)
            || self.has_negative_of(other)
            || other.has_negative_of(self)
    }

    /// Returns true if it negates words of the other sentence that the other one does not negate.
    fn negates_what_stands_in(&self, other: &Self) -> bool {
        self.negated.iter().any(|stem| other.stems.contains(stem)) && self.negated.is_disjoint(&other.negated)
    }

    /// Returns true if it contains a verb with `ne` that the other sentence contains without it.
    fn has_negative_of(&self, other: &Self) -> bool {
        self.words.iter().any(|word| {
            let stands =
                |sentence: &Self, word: &[String]| word.iter().any(|stem| sentence.all.contains(stem));
            !stands(other, word)
                && positive_stems(word).is_some_and(|word| stands(other, &word) && !stands(self, &word))
        })
    }
}

/// Returns the stems of a word without the `ne` that negates it.
fn positive_stems(word: &[String]) -> Option<Vec<String>> {
    let stems: Vec<String> = word
        .iter()
        .filter_map(|stem| Some((stem, stem.strip_prefix("ne")?)))
        .filter(|(_, rest)| rest.chars().count() >= VERB_MIN_CHARS)
        .filter(|(stem, _)| !NE_WORDS.split_whitespace().any(|start| stem.starts_with(start)))
        .map(|(_, rest)| rest)
        .map(str::to_owned)
        .collect();
    (!stems.is_empty()).then_some(stems)
}
