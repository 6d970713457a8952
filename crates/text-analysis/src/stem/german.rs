//! The German stemmer, on folded words: removes the endings of declension and conjugation, and `-ung`, so that a verb
//! and its noun meet (`kündigen`, `Kündigung`). Compounds stay whole.

/// The shortest stem that is left.
const STEM_MIN: usize = 4;
/// The letters after which a final `s` is an ending.
const BEFORE_S: &[u8] = b"bdfghklmnrt";
/// The letters after which a final `st` is an ending.
const BEFORE_ST: &[u8] = b"bdfghklmnt";

/// Returns the stem of a folded German word.
pub(super) fn stem_german(word: &str) -> String {
    if !word.is_ascii() || word.bytes().any(|b| b.is_ascii_digit()) {
        return word.to_owned();
    }
    let mut stem = word;
    stem = strip_ending(stem, &["ern", "em", "en", "er", "es", "e"], |_| true);
    if stem.len() == word.len() {
        stem = strip_ending(stem, &["s"], |rest| ends_with_any(rest, BEFORE_S));
        stem = strip_ending(stem, &["en", "er"], |_| true);
    }
    stem = strip_ending(stem, &["est", "en", "er"], |_| true);
    stem = strip_ending(stem, &["st"], |rest| ends_with_any(rest, BEFORE_ST));
    stem = strip_ending(stem, &["ung", "lich", "isch"], |_| true);
    stem.to_owned()
}

/// Removes the first of the endings that fits.
fn strip_ending<'a>(word: &'a str, endings: &[&str], fits: impl Fn(&str) -> bool) -> &'a str {
    let rest = endings
        .iter()
        .find_map(|ending| word.strip_suffix(ending).filter(|rest| rest.len() >= STEM_MIN && fits(rest)));
    rest.unwrap_or(word)
}

fn ends_with_any(word: &str, letters: &[u8]) -> bool {
    word.bytes().last().is_some_and(|last| letters.contains(&last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::fold_text;

    #[test]
    fn forms_meet() {
        for forms in [
            "Arbeitnehmer Arbeitnehmers Arbeitnehmern",
            "Kündigung Kündigungen kündigen",
            "Frist Fristen",
            "Urlaub Urlaubs",
            "Vertrag Vertrags Vertrages",
            "Mieter Mieters Mietern",
            "schriftlich schriftliche schriftlichen",
            "Bundespräsident Bundespräsidenten",
        ] {
            let stems: Vec<String> =
                forms.split_whitespace().map(|form| stem_german(&fold_text(form))).collect();
            assert!(stems.iter().all(|stem| *stem == stems[0]), "{forms}: {stems:?}");
        }
        assert_ne!(stem_german("mieter"), stem_german("vermieter"));
    }
}
