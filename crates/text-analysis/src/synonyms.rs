//! Synonyms in contracts, statutes, minutes and price lists, across the languages, so that a question does not
//! have to match the wording of a document.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::TextLanguage;
use crate::fold::fold_text;
use crate::stem::stem_word;

/// One group a line; Czech, Slovak, English and German words after `cs`, `sk`, `en` and `de`.
const GROUPS: &str = include_str!("related.txt");

/// The groups of each stem, and the stems of each group.
struct Groups {
    of_stem: HashMap<String, Vec<usize>>,
    stems: Vec<Vec<String>>,
}

static GROUPED: LazyLock<Groups> = LazyLock::new(|| {
    let mut grouped = Groups { of_stem: HashMap::new(), stems: Vec::new() };
    for line in GROUPS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut language = TextLanguage::Czech;
        let mut members: Vec<String> = Vec::new();
        for word in line.split_whitespace() {
            match TextLanguage::of_code(word) {
                Some(named) => language = named,
                None => members.push(stem_word(&fold_text(word), language)),
            }
        }
        members.sort_unstable();
        members.dedup();
        for member in &members {
            grouped.of_stem.entry(member.clone()).or_default().push(grouped.stems.len());
        }
        grouped.stems.push(members);
    }
    grouped
});

/// Returns the stems related to this one, without itself, in a fixed order.
#[must_use]
pub fn related_stems(stem: &str) -> Vec<&'static str> {
    let Some(groups) = GROUPED.of_stem.get(stem) else { return Vec::new() };
    let mut found: Vec<&'static str> = groups
        .iter()
        .flat_map(|group| GROUPED.stems[*group].iter().map(String::as_str))
        .filter(|other| *other != stem)
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_meet() {
        let rent = stem_word("rent", TextLanguage::English);
        assert!(related_stems(&rent).contains(&stem_word("najemne", TextLanguage::Czech).as_str()));
        assert!(related_stems("kx").is_empty());
    }
}
