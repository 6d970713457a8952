//! Sentences of a claim beside the sentences of the passages that may support them.

use crate::fold::fold_text;
use crate::sentence::split_sentences;
use crate::stem::stem_in_all_languages;
use crate::stop::is_stop;
use crate::synonyms::related_stems;
use crate::token::{TextToken, TokenKind, tokenize_text};

use super::facts::token_value;

/// The minimum share of a sentence's words in a sentence with which it is compared, and the share of the best one from
/// which others are compared, too.
const OVERLAP_MIN: f64 = 0.5;
const OVERLAP_BESIDES: f64 = 0.8;
/// A sentence with fewer words with content is not compared.
const WORDS_MIN: usize = 2;

/// A word or number of a sentence.
#[derive(Debug)]
pub(super) struct SentenceWord<'a> {
    pub(super) token: TextToken<'a>,
    pub(super) folded: String,
    pub(super) stems: Vec<String>,
    /// The value of a number or number word.
    pub(super) value: Option<String>,
    /// False for stop words and numbers.
    pub(super) content: bool,
}

/// A sentence with its words.
#[derive(Debug)]
pub(super) struct AlignedSentence<'a> {
    pub(super) text: &'a str,
    pub(super) words: Vec<SentenceWord<'a>>,
}

/// A sentence of the claim with the sentences of the passages that share most of its words.
#[derive(Debug)]
pub(super) struct Alignment<'a, 'b> {
    pub(super) said: &'b AlignedSentence<'a>,
    pub(super) cited: Vec<&'b AlignedSentence<'a>>,
}

impl<'a> AlignedSentence<'a> {
    pub(super) fn parse_all(text: &'a str) -> Vec<Self> {
        split_sentences(text).into_iter().map(|range| Self::parse(&text[range])).collect()
    }

    fn parse(text: &'a str) -> Self {
        let word = |token: TextToken<'a>| {
            let folded = fold_text(token.text);
            let value = token_value(&token).filter(|_| token.kind != TokenKind::Section);
            let content = value.is_none() && token.kind == TokenKind::Word && !is_stop(&folded);
            SentenceWord { token, stems: stem_in_all_languages(&folded), folded, value, content }
        };
        Self { text, words: tokenize_text(text).into_iter().map(word).collect() }
    }

    pub(super) fn content_words(&self) -> impl Iterator<Item = &SentenceWord<'a>> {
        self.words.iter().filter(|word| word.content)
    }

    /// Returns true if it contains the word in some form.
    pub(super) fn has_word(&self, word: &SentenceWord<'_>) -> bool {
        self.words.iter().any(|own| own.is_form_of(word))
    }

    /// Returns true if the list contains one of its words (folded).
    pub(super) fn has_any(&self, list: &str) -> bool {
        self.words.iter().any(|word| list_contains(list, &word.folded))
    }

    /// Returns the share of its words that the other sentence contains in some form.
    pub(super) fn overlap_with(&self, other: &Self) -> f64 {
        self.overlap_of(other, |_| true)
    }

    /// Returns the share of its content words that the other sentence contains in some form.
    pub(super) fn overlap_of(&self, other: &Self, counts: impl Fn(&SentenceWord<'_>) -> bool) -> f64 {
        let counted = || self.content_words().filter(|word| counts(word));
        let met = |word: &&SentenceWord<'_>| {
            other.has_word(word)
                || word
                    .stems
                    .iter()
                    .flat_map(|stem| related_stems(stem))
                    .any(|stem| other.words.iter().any(|own| own.stems.iter().any(|known| known == stem)))
        };
        #[expect(clippy::cast_precision_loss, reason = "sentences have few words")]
        let share = counted().filter(met).count() as f64 / counted().count().max(1) as f64;
        share
    }
}

impl SentenceWord<'_> {
    /// Returns true if both are forms of one word.
    pub(super) fn is_form_of(&self, other: &Self) -> bool {
        self.stems.iter().any(|stem| other.stems.contains(stem))
    }
}

impl<'a, 'b> Alignment<'a, 'b> {
    pub(super) fn new(said: &'b AlignedSentence<'a>, cited: &'b [AlignedSentence<'a>]) -> Self {
        let overlaps: Vec<f64> = cited.iter().map(|cited| said.overlap_with(cited)).collect();
        let best = overlaps.iter().copied().fold(0.0, f64::max);
        let is_compared = |overlap: f64| overlap >= OVERLAP_MIN && overlap >= best * OVERLAP_BESIDES;
        let compared = cited.iter().zip(overlaps).filter(|(_, overlap)| is_compared(*overlap));
        let enough = said.content_words().count() >= WORDS_MIN;
        Self { said, cited: compared.map(|(cited, _)| cited).filter(|_| enough).collect() }
    }

    /// Returns true if the claim differs in this respect from each sentence that may support it.
    pub(super) fn differs_everywhere(
        &self,
        is_other: impl Fn(&AlignedSentence<'a>, &AlignedSentence<'a>) -> bool,
    ) -> bool {
        !self.cited.is_empty() && self.cited.iter().all(|cited| is_other(self.said, cited))
    }
}

pub(super) fn list_contains(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|one| one == word)
}
