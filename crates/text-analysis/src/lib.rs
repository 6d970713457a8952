//! Text analysis for Czech, Slovak, German and English: tokenization, folding, stemming, stop words, synonyms and language
//! detection.
//!
//! All functions are pure and need no external tables. A stem may not be a word: it only has to be equal for all forms
//! of one word, in the query and in the document.
//!
//! # Where to look
//!
//! - Stems of each language: the folder `stem`; stop words: `stop.rs`; related words: `synonyms.rs`, `related.txt`.
//! - The check of a citation: `proof.rs`, with a kind of comparison in each file of the folder `proof`.

pub mod detect_language;
pub mod fold;
pub mod listing;
pub mod literal;
pub mod proof;
pub mod sentence;
pub mod stem;
pub mod stop;
pub mod synonyms;
pub mod term;
pub mod token;

pub use detect_language::detect_language;
pub use fold::{fold_text, lowercase_composed};
pub use listing::is_listing;
pub use literal::extract_literals;
pub use term::{Term, extract_terms};

/// A language of documents and questions, with stemming and stop words: Czech, Slovak, German, English.
///
/// Labels of the catalog (`domain`) and the web application (`app`) have separate enums without German.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextLanguage {
    Czech,
    Slovak,
    German,
    English,
}

impl TextLanguage {
    /// Every language, in the order in which a tie is decided.
    pub const ALL: [Self; 4] = [Self::Czech, Self::Slovak, Self::German, Self::English];

    /// The languages that stem differently; Slovak shares the rules of Czech. A word of a query is looked up under the
    /// stem of each.
    pub const STEMMED: [Self; 3] = [Self::Czech, Self::German, Self::English];

    /// Returns the two letters of ISO 639-1.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Czech => "cs",
            Self::Slovak => "sk",
            Self::German => "de",
            Self::English => "en",
        }
    }

    /// Returns the language with this ISO 639-1 code.
    #[must_use]
    pub fn of_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|language| language.code() == code)
    }
}
