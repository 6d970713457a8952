//! Terms: the normalized tokens of the index and of queries.

use std::ops::Range;

use crate::Language;
use crate::fold::{fold, lower};
use crate::stem::stem;
use crate::stop::is_stop;
use crate::token::{Kind, normal_number, tokens};

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

/// The longest word in characters that is looked at; a longer one is cut.
pub const WORD_MAX_CHARS: usize = 64;

/// The terms of a text, stemmed as words of `language`. A section mark gives one term: `§ 12` is `par12`.
#[must_use]
pub fn terms(text: &str, language: Language) -> Vec<Term> {
    let mut found = Vec::new();
    for (position, token) in tokens(text).into_iter().enumerate() {
        let range = token.start..token.end();
        let (stem, exact, stop, number) = match token.kind {
            Kind::Number => {
                let number = normal_number(token.text);
                (number.replace('.', "p"), number, false, true)
            }
            Kind::Section => (format!("par{}", token.text), format!("§{}", token.text), false, true),
            Kind::Word => {
                let word: String = token.text.chars().take(WORD_MAX_CHARS).collect();
                let folded = fold(&word);
                let stop = is_stop(&folded);
                (stem(&folded, language), lower(&word), stop, false)
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
        let stems = |text| terms(text, Language::Czech).into_iter().map(|term| term.stem).collect::<Vec<_>>();
        assert_eq!(stems("nájemní smlouvy"), stems("NAJEMNI SMLOUVA"));
        assert_eq!(stems("§ 12"), ["par12"]);
        assert_eq!(stems("12 500"), ["12500"]);
    }
}
