//! Checks whether the cited passages support a sentence: its quotations, numbers, dates and names, and some of its
//! words. It is compared further with the sentences of the passages that share most of its words: negations, units and
//! limits, roles of participants, obligations and permissions, order in time.
//!
//! The check does not judge meaning. A sentence that passes may still say something else about the same things; a
//! sentence that fails says something that the passages do not contain, or that they contradict.

mod aligned;
mod facts;
mod modality;
mod negation;
mod quantity;
mod roles;
mod time_order;

use std::collections::HashSet;

use crate::stem::stem_in_all_languages;
use crate::synonyms::related_stems;
use crate::{TextLanguage, detect_language, extract_terms, fold_text, token};

use aligned::{AlignedSentence, Alignment};
use facts::CitedValues;

/// The share of a sentence's words, in per cent, that the passages must contain.
const WORDS_MIN_PERCENT: usize = 34;
/// The passages must contain all words of a sentence with fewer words, if it has no number or name.
const WORDS_MIN: usize = 3;
/// The minimum number of words of a quotation; shorter ones are terms.
const QUOTE_WORDS_MIN: usize = 3;
/// Limits the text of a claim that is checked, in bytes.
const CLAIM_MAX_BYTES: usize = 8 * 1024;
/// The maximum shown length of a missing quotation, in characters.
const SHOWN_MAX_CHARS: usize = 60;

/// The first part of a claim that the passages do not contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unproven {
    /// Words in quotation marks or in a block quote.
    Quote(String),
    /// A number, in digits or words.
    Number(String),
    Date(String),
    /// A name: a capitalized word within a sentence.
    Name(String),
    /// It contradicts the sentences with its words.
    Negation,
    /// A number that has another unit or limit in the passages, or the unit has another number.
    Quantity(String),
    /// A participant to whom it attributes something that the passages attribute to another.
    Participant(String),
    /// It contradicts the order in time of the passages.
    TimeOrder,
    /// It permits something that the passages require or forbid, or requires something that they permit.
    Obligation,
    /// Most of its words, or everything comparable.
    Words,
}

impl std::fmt::Display for Unproven {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Quote(text) => write!(f, "the passage does not contain the quoted words \"{text}\""),
            Self::Number(number) => write!(f, "the passage does not contain the number {number}"),
            Self::Date(month) => write!(f, "the passage does not contain the date ({month})"),
            Self::Name(name) => write!(f, "the passage does not contain the name {name}"),
            Self::Negation => f.write_str("the passage says the opposite"),
            Self::Quantity(number) => write!(f, "the passage gives {number} another value, unit or limit"),
            Self::Participant(name) => write!(f, "the passage says this about someone other than {name}"),
            Self::TimeOrder => f.write_str("the passage gives a different order of events"),
            Self::Obligation => f.write_str("the passage differs on what must, may or must not be done"),
            Self::Words => f.write_str("the passage has too few words in common with the sentence"),
        }
    }
}

/// Checks a claim (Markdown without marks) against the texts that it cites together.
///
/// # Errors
///
/// Returns the first part that they do not contain.
pub fn prove_claim(claim: &str, passages: &[&str]) -> Result<(), Unproven> {
    let claim = strip_markdown(&claim[..claim.floor_char_boundary(CLAIM_MAX_BYTES)]);
    let cited: String = passages.iter().map(|passage| fold_letters(passage)).collect();
    let mut quoted = false;
    for quote in extract_quotations(&claim) {
        let stands = cited.contains(&fold_letters(quote));
        quoted |= stands;
        if !stands && is_long(quote) {
            return Err(Unproven::Quote(quote.trim().chars().take(SHOWN_MAX_CHARS).collect()));
        }
    }
    let said: String = claim.lines().filter(|line| !line.starts_with('>')).collect::<Vec<_>>().join("\n");
    let text = passages.join("\n");
    let values = CitedValues::from_text(&text);
    let dated = facts::months_in_digits(&said);
    let is_missing =
        |number: &facts::ClaimNumber| !values.has_number(number) && !values.has_dated(number, &dated);
    if let Some(number) = facts::claim_numbers(&said).into_iter().find(is_missing) {
        return Err(Unproven::Number(number.shown));
    }
    if let Some(month) = facts::find_months(&said).into_iter().find(|month| !values.has_month(month.number)) {
        return Err(Unproven::Date(month.shown));
    }
    let (language, cited_language) = (detect_language(&said), detect_language(&text));
    // German writes every noun with a capital.
    let names = if language == Some(TextLanguage::German) {
        facts::full_names(&said)
    } else {
        facts::claim_names(&said)
    };
    let words: HashSet<String> =
        extract_terms(&text, TextLanguage::English).iter().map(|term| fold_text(&term.exact)).collect();
    if let Some(name) = names.iter().find(|name| !name.is_in(&words)) {
        return Err(Unproven::Name(name.shown.clone()));
    }
    let compared = quoted || !facts::claim_numbers(&said).is_empty() || !names.is_empty();
    let share = word_share(&said, &text);
    let compared_by_meaning = !quoted && !stands_verbatim(&said, &text);
    if compared_by_meaning && share.is_some() && negation::contradicts_text(&said, &text) {
        return Err(Unproven::Negation);
    }
    if compared_by_meaning && let Some(changed) = find_change(&said, &text, language.or(cited_language)) {
        return Err(changed);
    }
    match share {
        Some(percent) if percent >= WORDS_MIN_PERCENT || quoted => Ok(()),
        Some(_) if language == cited_language || language.is_none() || cited_language.is_none() => {
            Err(Unproven::Words)
        }
        None if compared || all_stand(&said, &text) => Ok(()),
        Some(_) if compared => Ok(()),
        _ => Err(Unproven::Words),
    }
}

/// Returns the change that the sentences of the claim make to the sentences that may support them.
fn find_change(claim: &str, text: &str, language: Option<TextLanguage>) -> Option<Unproven> {
    let (said, cited) = (AlignedSentence::parse_all(claim), AlignedSentence::parse_all(text));
    let alignments: Vec<Alignment<'_, '_>> = said.iter().map(|said| Alignment::new(said, &cited)).collect();
    let participant = |language| {
        alignments.iter().find_map(|alignment| roles::find_changed_participant(alignment, language))
    };
    let quantity = quantity::find_changed_quantity(&alignments, &cited).map(Unproven::Quantity);
    quantity
        .or_else(|| language.and_then(participant).map(Unproven::Participant))
        .or_else(|| alignments.iter().any(time_order::is_changed).then_some(Unproven::TimeOrder))
        .or_else(|| alignments.iter().any(modality::is_changed).then_some(Unproven::Obligation))
}

/// Returns true if the text contains the words of the claim one after another.
fn stands_verbatim(claim: &str, text: &str) -> bool {
    let words = |text: &str| {
        let words = token::tokenize_text(text).into_iter().map(|token| fold_text(token.text));
        words.fold(" ".to_owned(), |line, word| line + &word + " ")
    };
    words(text).contains(&words(claim))
}

/// Returns the share of the claim's words, in per cent, that the text contains in some form; `None` for few words.
fn word_share(claim: &str, text: &str) -> Option<usize> {
    let (met, words) = count_met_words(claim, text);
    (words >= WORDS_MIN).then(|| met * 100 / words)
}

/// Returns true if the text contains all words of the claim in some form.
fn all_stand(claim: &str, text: &str) -> bool {
    let (met, words) = count_met_words(claim, text);
    words > 0 && met == words
}

/// Returns how many of the claim's words the text contains in some form, and how many it has.
fn count_met_words(claim: &str, text: &str) -> (usize, usize) {
    let forms = |text: &str| -> Vec<Vec<String>> {
        let words =
            extract_terms(text, TextLanguage::English).into_iter().filter(|term| !term.stop && !term.number);
        words.map(|term| stem_in_all_languages(&fold_text(&term.exact))).collect()
    };
    let known: HashSet<String> = forms(text).into_iter().flatten().collect();
    let words = forms(claim);
    let is_met = |word: &&Vec<String>| {
        word.iter().any(|stem| {
            known.contains(stem) || related_stems(stem).iter().any(|other| known.contains(*other))
        })
    };
    (words.iter().filter(is_met).count(), words.len())
}

/// Removes the marks of Markdown's emphasis and its escapes.
fn strip_markdown(markdown: &str) -> String {
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

/// Returns true if a quotation has enough words that the passage must contain it.
fn is_long(quote: &str) -> bool {
    quote.split_whitespace().count() >= QUOTE_WORDS_MIN
}

/// Returns the lines of block quotes that are not empty, and long texts in quotation marks.
fn extract_quotations(claim: &str) -> Vec<&str> {
    let lines = claim.lines().filter_map(|line| line.strip_prefix('>'));
    let lines = lines.map(|line| line.trim().trim_end_matches('…'));
    let mut found: Vec<&str> = lines.filter(|line| line.contains(char::is_alphanumeric)).collect();
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
            found.extend(Some(&inside[..close]).filter(|quote| is_long(quote)));
            rest = &inside[close..];
            rest = &rest[rest.chars().next().map_or(0, char::len_utf8)..];
        }
    }
    found
}

/// Returns the folded letters and digits, so that line breaks, hyphens and marks do not matter.
fn fold_letters(text: &str) -> String {
    fold_text(text).chars().filter(|c| c.is_alphanumeric()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: &str = "§ 4 Rent\nThe monthly rent is 18,500 crowns, payable to Jana Nováková by the fifth day. The lease \
        was signed on 2024-03-01. Notice takes three months. The tenant shall inform the landlord of repairs. The deposit is \
        refunded after the inspection. The tenant may keep a dog.";

    #[test]
    fn prove_claim_in_passage_succeeds() {
        for claim in [
            "The rent is 18 500 crowns a month.",
            "It was signed on 1 March 2024, and the notice of the lease takes 3 months.",
            "The rent goes to Jana Nováková.",
            "The landlord is informed of repairs by the tenant.",
            "After the inspection the deposit is refunded.",
            "The tenant must inform the landlord of repairs.",
            "The lease says that it is \"payable to Jana Nováková by the fifth day\".",
            "> The monthly rent is 18,500 crowns, payable",
        ] {
            assert_eq!(prove_claim(claim, &[LEASE]), Ok(()), "{claim}");
        }
    }

    #[test]
    fn prove_claim_accepts_short_block_quotes() {
        let people = "Name,Age\nAnna,21\nEva,31";
        assert_eq!(prove_claim("> Name,Age  \n> **Anna,21**", &[people]), Ok(()));
        assert_eq!(prove_claim("> Peter,22", &[people]), Err(Unproven::Words));
    }

    #[test]
    fn prove_claim_names_missing_part() {
        for (claim, missing) in [
            ("The rent is 19,500 crowns a month.", Unproven::Number("19,500".to_owned())),
            ("The notice of the lease takes six months.", Unproven::Number("six".to_owned())),
            ("The lease was signed on 1 April 2024.", Unproven::Date("April".to_owned())),
            ("The rent is paid to Petr Svoboda.", Unproven::Name("Petr".to_owned())),
            ("It is \"payable to anyone at all\".", Unproven::Quote("payable to anyone at all".to_owned())),
            ("The tenant may keep two small dogs indoors.", Unproven::Number("two".to_owned())),
            ("Smoking inside the building is strictly forbidden.", Unproven::Words),
            ("Notice takes three weeks.", Unproven::Quantity("three".to_owned())),
            (
                "The landlord shall inform the tenant of repairs.",
                Unproven::Participant("landlord".to_owned()),
            ),
            ("The deposit is refunded before the inspection.", Unproven::TimeOrder),
            ("The tenant must keep a dog.", Unproven::Obligation),
        ] {
            assert_eq!(prove_claim(claim, &[LEASE]), Err(missing), "{claim}");
        }
    }
}
