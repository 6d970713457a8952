//! Stemming: removes the endings of a word.

mod english;
mod slavic;

use crate::Language;

/// Returns the stem of a folded word. Czech and Slovak share their rules, so that a question in one language
/// matches documents in the other as far as their words are similar.
#[must_use]
pub fn stem(folded: &str, language: Language) -> String {
    match language {
        Language::Czech | Language::Slovak => slavic::stem(folded),
        Language::English => english::stem(folded),
    }
}
