//! Sentences of a claim beside the sentences of the passages that they may stand in.

use crate::fold::fold;
use crate::sentence::sentences;
use crate::stem::stems;
use crate::stop::is_stop;
use crate::synonyms::related;
use crate::token::{Kind, Token, tokens};

use super::facts::value;

/// The minimum share of a sentence's words in a sentence with which it is compared, and the share of the best one from
/// which others are compared, too.
const OVERLAP_MIN: f64 = 0.5;
const OVERLAP_BESIDES: f64 = 0.8;
/// A sentence with fewer words with content is not compared.
const WORDS_MIN: usize = 2;

/// A word or number of a sentence.
#[derive(Debug)]
pub(super) struct Word<'a> {
    pub(super) token: Token<'a>,
    pub(super) folded: String,
    pub(super) stems: Vec<String>,
    /// The value of a number or number word.
    pub(super) value: Option<String>,
    /// False for stop words and numbers.
    pub(super) content: bool,
}

/// A sentence with its words.
#[derive(Debug)]
pub(super) struct Sentence<'a> {
    pub(super) text: &'a str,
    pub(super) words: Vec<Word<'a>>,
}

/// A sentence of the claim with those sentences of the passages that share most of its words.
#[derive(Debug)]
pub(super) struct Alignment<'a, 'b> {
    pub(super) said: &'b Sentence<'a>,
    pub(super) cited: Vec<&'b Sentence<'a>>,
}

impl<'a> Sentence<'a> {
    pub(super) fn all(text: &'a str) -> Vec<Self> {
        sentences(text).into_iter().map(|range| Self::of(&text[range])).collect()
    }

    fn of(text: &'a str) -> Self {
        let word = |token: Token<'a>| {
            let folded = fold(token.text);
            let value = value(&token).filter(|_| token.kind != Kind::Section);
            let content = value.is_none() && token.kind == Kind::Word && !is_stop(&folded);
            Word { token, stems: stems(&folded), folded, value, content }
        };
        Self { text, words: tokens(text).into_iter().map(word).collect() }
    }

    pub(super) fn content(&self) -> impl Iterator<Item = &Word<'a>> {
        self.words.iter().filter(|word| word.content)
    }

    /// Returns true if it contains the word in some form.
    pub(super) fn has(&self, word: &Word<'_>) -> bool {
        self.words.iter().any(|own| own.is(word))
    }

    /// Returns true if one of its words (folded) stands in the list.
    pub(super) fn has_any(&self, list: &str) -> bool {
        self.words.iter().any(|word| holds(list, &word.folded))
    }

    /// Returns the share of its words that the other sentence contains in some form.
    pub(super) fn overlap(&self, other: &Self) -> f64 {
        self.overlap_of(other, |_| true)
    }

    /// Returns the share of those of its words that count which the other sentence contains in some form.
    pub(super) fn overlap_of(&self, other: &Self, counts: impl Fn(&Word<'_>) -> bool) -> f64 {
        let counted = || self.content().filter(|word| counts(word));
        let met = |word: &&Word<'_>| {
            other.has(word)
                || word
                    .stems
                    .iter()
                    .flat_map(|stem| related(stem))
                    .any(|stem| other.words.iter().any(|own| own.stems.iter().any(|known| known == stem)))
        };
        #[expect(clippy::cast_precision_loss, reason = "sentences have few words")]
        let share = counted().filter(met).count() as f64 / counted().count().max(1) as f64;
        share
    }
}

impl Word<'_> {
    /// Returns true if both are forms of one word.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.stems.iter().any(|stem| other.stems.contains(stem))
    }
}

impl<'a, 'b> Alignment<'a, 'b> {
    pub(super) fn of(said: &'b Sentence<'a>, cited: &'b [Sentence<'a>]) -> Self {
        let overlaps: Vec<f64> = cited.iter().map(|cited| said.overlap(cited)).collect();
        let best = overlaps.iter().copied().fold(0.0, f64::max);
        let is_compared = |overlap: f64| overlap >= OVERLAP_MIN && overlap >= best * OVERLAP_BESIDES;
        let compared = cited.iter().zip(overlaps).filter(|(_, overlap)| is_compared(*overlap));
        let enough = said.content().count() >= WORDS_MIN;
        Self { said, cited: compared.map(|(cited, _)| cited).filter(|_| enough).collect() }
    }

    /// Returns true if the claim differs in this respect from each sentence that it may stand in.
    pub(super) fn differs(&self, is_other: impl Fn(&Sentence<'a>, &Sentence<'a>) -> bool) -> bool {
        !self.cited.is_empty() && self.cited.iter().all(|cited| is_other(self.said, cited))
    }
}

pub(super) fn holds(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|one| one == word)
}
