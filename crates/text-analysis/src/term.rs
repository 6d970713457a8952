//! Terms: the normalized tokens of the index and of queries.

use std::ops::Range;

use crate::TextLanguage;
use crate::fold::{fold_text, lowercase_composed};
use crate::stem::stem_word;
use crate::stop::is_stop;
use crate::token::{TokenKind, normal_number, tokenize_text};

/// A word or number of a text with its stem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// The normalized form that all forms of the word share: letters and digits only.
    pub stem: String,
    /// The word in lower case, with diacritics.
    pub exact: String,
    /// Its byte range in the text.
    pub range: Range<usize>,
    /// True for a stop word.
    pub stop: bool,
    /// True for a number.
    pub number: bool,
    /// Its place among the text's terms.
    pub position: usize,
}

/// The longest analyzed word in characters; a longer one is cut.
pub const WORD_MAX_CHARS: usize = 64;

/// The terms of a text, stemmed as words of `language`. A section mark gives one term: `§ 12` is `par12`.
#[must_use]
pub fn extract_terms(text: &str, language: TextLanguage) -> Vec<Term> {
    let mut found = Vec::new();
    for (position, token) in tokenize_text(text).into_iter().enumerate() {
        let range = token.start..token.end();
        let (stem, exact, stop, number) = match token.kind {
            TokenKind::Number => {
                let number = normal_number(token.text);
                (number.replace('.', "p"), number, false, true)
            }
            TokenKind::Section => (format!("par{}", token.text), format!("§{}", token.text), false, true),
            TokenKind::Word => {
                let word: String = token.text.chars().take(WORD_MAX_CHARS).collect();
                let folded = fold_text(&word);
                let stop = is_stop(&folded);
                (stem_word(&folded, language), lowercase_composed(&word), stop, false)
            }
        };
        if !stem.is_empty() {
            found.push(Term { stem, exact, range, stop, number, position });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_meet() {
        let stems = |text| {
            extract_terms(text, TextLanguage::Czech).into_iter().map(|term| term.stem).collect::<Vec<_>>()
        };
        assert_eq!(stems("nájemní smlouvy"), stems("NAJEMNI SMLOUVA"));
        assert_eq!(stems("§ 12"), ["par12"]);
        assert_eq!(stems("12 500"), ["12500"]);
    }
}
