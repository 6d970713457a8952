//! Stemming: removes the endings of a word.

mod english;
mod slavic;

use crate::Language;

/// The stem of a folded word. Czech and Slovak share their rules, so that a question in one of them meets
/// a document in the other as far as the words allow.
#[must_use]
pub fn stem(folded: &str, language: Language) -> String {
    match language {
        Language::Czech | Language::Slovak => slavic::stem(folded),
        Language::English => english::stem(folded),
    }
}
