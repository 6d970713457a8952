//! Stemming: removes the endings of a word.

mod english;
mod german;
mod slavic;

use std::collections::HashMap;

use crate::TextLanguage;

/// The stem of each irregular form.
type Irregular = HashMap<&'static str, &'static str>;

/// Indexes lists of a stem with its forms. A form of two stems has the first.
fn by_form(stems: &[(&'static str, &[&'static str])]) -> Irregular {
    let mut found = Irregular::new();
    for (stem, forms) in stems {
        for form in *forms {
            found.entry(form).or_insert(stem);
        }
    }
    found
}

/// Returns the distinct stems of a folded word in each language, for a query whose language may differ from the
/// document's.
#[must_use]
pub fn stem_in_all_languages(folded: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::with_capacity(TextLanguage::STEMMED.len());
    for language in TextLanguage::STEMMED {
        let stem = stem_word(folded, language);
        if !found.contains(&stem) {
            found.push(stem);
        }
    }
    found
}

/// Returns the stem of a folded word. Czech and Slovak share their rules, so that a question in one language
/// matches documents in the other as far as their words are similar.
#[must_use]
pub fn stem_word(folded: &str, language: TextLanguage) -> String {
    match language {
        TextLanguage::Czech | TextLanguage::Slovak => slavic::stem_slavic(folded),
        TextLanguage::German => german::stem_german(folded),
        TextLanguage::English => english::stem_english(folded),
    }
}
