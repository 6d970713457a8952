//! Checks whether a sentence stands in the passages that it cites: what it quotes, its numbers, dates and names, and
//! some of its words.
//!
//! It is no judgement of meaning. A sentence that passes may still say something else about the same numbers; one that
//! does not pass says something that nobody finds in the passages.

mod facts;
mod negation;

use std::collections::HashSet;

use crate::stem::stems;
use crate::synonyms::related;
use crate::{Language, detect_language, fold, terms};

use facts::Values;

/// The share of a sentence's words, in per cent, that have to stand in the passages.
const WORDS_MIN_PERCENT: usize = 34;
/// A sentence with fewer words is checked by its numbers and names alone.
const WORDS_MIN: usize = 3;
/// The fewest words of a quotation; shorter ones are terms.
const QUOTE_WORDS_MIN: usize = 3;
/// Limits the text of a claim that is checked, in bytes.
const CLAIM_MAX_BYTES: usize = 8 * 1024;
/// Limits what is shown of a missing quotation, in characters.
const SHOWN_MAX_CHARS: usize = 60;

/// The first thing of a claim that does not stand in the passages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unproven {
    /// Words in quotation marks or in a block quote.
    Quote(String),
    /// A number, in digits or words.
    Number(String),
    /// A month.
    Date(String),
    /// A name: a capitalized word within a sentence.
    Name(String),
    /// It says the contrary of the sentences with its words.
    Negation,
    /// Most of its words, or all there is to compare.
    Words,
}

impl std::fmt::Display for Unproven {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Quote(text) => write!(f, "the passage does not contain the quoted words \"{text}\""),
            Self::Number(number) => write!(f, "the passage does not contain the number {number}"),
            Self::Date(month) => write!(f, "the passage does not contain the date ({month})"),
            Self::Name(name) => write!(f, "the passage does not contain the name {name}"),
            Self::Negation => f.write_str("the passage says the contrary"),
            Self::Words => f.write_str("the passage has too few words in common with the sentence"),
        }
    }
}

/// Checks a claim (Markdown without marks) against the texts that it cites together.
///
/// # Errors
///
/// Returns the first thing that does not stand in them.
pub fn prove(claim: &str, passages: &[&str]) -> Result<(), Unproven> {
    let claim = plain(&claim[..claim.floor_char_boundary(CLAIM_MAX_BYTES)]);
    let cited: String = passages.iter().map(|passage| letters(passage)).collect();
    let mut quoted = false;
    for quote in quotations(&claim) {
        quoted = true;
        if !cited.contains(&letters(quote)) {
            return Err(Unproven::Quote(quote.trim().chars().take(SHOWN_MAX_CHARS).collect()));
        }
    }
    let said: String = claim.lines().filter(|line| !line.starts_with('>')).collect::<Vec<_>>().join("\n");
    let text = passages.join("\n");
    let values = Values::of(&text);
    if let Some(number) = facts::numbers(&said).into_iter().find(|number| !values.has(number)) {
        return Err(Unproven::Number(number.shown));
    }
    if let Some(month) = facts::months(&said).into_iter().find(|month| !values.has_month(month.number)) {
        return Err(Unproven::Date(month.shown));
    }
    let (language, cited_language) = (detect_language(&said), detect_language(&text));
    // German writes every noun with a capital.
    let names =
        if language == Some(Language::German) { facts::full_names(&said) } else { facts::names(&said) };
    let words: HashSet<String> =
        terms(&text, Language::English).iter().map(|term| fold(&term.exact)).collect();
    if let Some(name) = names.iter().find(|name| !name.is_in(&words)) {
        return Err(Unproven::Name(name.shown.clone()));
    }
    let compared = quoted || !facts::numbers(&said).is_empty() || !names.is_empty();
    let share = share(&said, &text);
    if !quoted && share.is_some() && negation::contradicts(&said, &text) {
        return Err(Unproven::Negation);
    }
    match share {
        Some(percent) if percent >= WORDS_MIN_PERCENT || quoted => Ok(()),
        Some(_) if language == cited_language || language.is_none() || cited_language.is_none() => {
            Err(Unproven::Words)
        }
        _ if compared => Ok(()),
        _ => Err(Unproven::Words),
    }
}

/// Returns the share of the claim's words, in per cent, that the text contains in some form; `None` for few words.
fn share(claim: &str, text: &str) -> Option<usize> {
    let forms = |text: &str| -> Vec<Vec<String>> {
        let words = terms(text, Language::English).into_iter().filter(|term| !term.stop && !term.number);
        words.map(|term| stems(&fold(&term.exact))).collect()
    };
    let known: HashSet<String> = forms(text).into_iter().flatten().collect();
    let words = forms(claim);
    let met = |word: &&Vec<String>| {
        word.iter()
            .any(|stem| known.contains(stem) || related(stem).iter().any(|other| known.contains(*other)))
    };
    (words.len() >= WORDS_MIN).then(|| words.iter().filter(met).count() * 100 / words.len())
}

/// Removes the marks of Markdown's emphasis and its escapes.
fn plain(markdown: &str) -> String {
    let mut out = String::with_capacity(markdown.len());
    let mut chars = markdown.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            '*' | '`' | '#' => {}
            _ => out.push(c),
        }
    }
    out
}

/// Returns the lines of block quotes, and what stands in quotation marks.
fn quotations(claim: &str) -> Vec<&str> {
    let lines = claim.lines().filter_map(|line| line.strip_prefix('>'));
    let mut found: Vec<&str> = lines.map(|line| line.trim().trim_end_matches('…')).collect();
    for line in claim.lines().filter(|line| !line.starts_with('>')) {
        let mut rest = line;
        while let Some(open) = rest.find(['"', '“', '„', '«']) {
            let mark = rest[open..].chars().next().unwrap_or('"');
            let inside = &rest[open + mark.len_utf8()..];
            let closing: &[char] = match mark {
                '„' => &['“', '”'],
                '“' => &['”'],
                '«' => &['»'],
                _ => &['"'],
            };
            let Some(close) = inside.find(closing) else { break };
            found.push(&inside[..close]);
            rest = &inside[close..];
            rest = &rest[rest.chars().next().map_or(0, char::len_utf8)..];
        }
    }
    found.retain(|quote| quote.split_whitespace().count() >= QUOTE_WORDS_MIN);
    found
}

/// Returns the folded letters and digits, so that line breaks, hyphens and marks do not matter.
fn letters(text: &str) -> String {
    fold(text).chars().filter(|c| c.is_alphanumeric()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: &str = "§ 4 Rent\nThe monthly rent is 18,500 crowns, payable to Jana Nováková by the fifth day. The lease \
        was signed on 2024-03-01. Notice takes three months.";

    #[test]
    fn what_stands_in_the_passage_is_proven() {
        for claim in [
            "The rent is 18 500 crowns a month.",
            "It was signed on 1 March 2024, and the notice of the lease takes 3 months.",
            "The rent goes to Jana Nováková.",
            "The lease says that it is \"payable to Jana Nováková by the fifth day\".",
            "> The monthly rent is 18,500 crowns, payable",
        ] {
            assert_eq!(prove(claim, &[LEASE]), Ok(()), "{claim}");
        }
    }

    #[test]
    fn what_does_not_stand_there_is_named() {
        for (claim, missing) in [
            ("The rent is 19,500 crowns a month.", Unproven::Number("19,500".to_owned())),
            ("The notice of the lease takes six months.", Unproven::Number("six".to_owned())),
            ("The lease was signed on 1 April 2024.", Unproven::Date("April".to_owned())),
            ("The rent is paid to Petr Svoboda.", Unproven::Name("Petr".to_owned())),
            ("It is \"payable to anyone at all\".", Unproven::Quote("payable to anyone at all".to_owned())),
            ("The tenant may keep two small dogs indoors.", Unproven::Number("two".to_owned())),
            ("Smoking inside the building is strictly forbidden.", Unproven::Words),
        ] {
            assert_eq!(prove(claim, &[LEASE]), Err(missing), "{claim}");
        }
    }
}
