//! Finds the numbers, months and names of a text, in digits and in words of each language.

use std::collections::HashSet;

use crate::fold::fold_text;
use crate::stop::is_stop;
use crate::token::{TextToken, TokenKind, normal_number, tokenize_text};

/// Number words (folded) with their values.
const NUMERALS: &[(&str, u32)] = &[
    ("jedenact", 11),
    ("jedenast", 11),
    ("trinact", 13),
    ("trinast", 13),
    ("sestnact", 16),
    ("sestnast", 16),
    ("sedmnact", 17),
    ("sedemnast", 17),
    ("osmnact", 18),
    ("osemnast", 18),
    ("devatenact", 19),
    ("devatnast", 19),
    ("two", 2),
    ("thirteen", 13),
    ("fourteen", 14),
    ("sixteen", 16),
    ("seventeen", 17),
    ("eighteen", 18),
    ("nineteen", 19),
    ("seventy", 70),
    ("eighty", 80),
    ("dvaja", 2),
    ("traja", 3),
    ("styria", 4),
    ("piatich", 5),
    ("siestich", 6),
    ("sedemdesiat", 70),
    ("osemdesiat", 80),
    ("sedmdesat", 70),
    ("osmdesat", 80),
    ("dreizehn", 13),
    ("funfzehn", 15),
    ("sechzehn", 16),
    ("siebzehn", 17),
    ("achtzehn", 18),
    ("neunzehn", 19),
    ("achtzig", 80),
    ("three", 3),
    ("four", 4),
    ("five", 5),
    ("six", 6),
    ("seven", 7),
    ("eight", 8),
    ("nine", 9),
    ("ten", 10),
    ("eleven", 11),
    ("twelve", 12),
    ("fifteen", 15),
    ("twenty", 20),
    ("thirty", 30),
    ("forty", 40),
    ("fifty", 50),
    ("sixty", 60),
    ("ninety", 90),
    ("hundred", 100),
    ("dva", 2),
    ("dve", 2),
    ("dvou", 2),
    ("dvema", 2),
    ("dvoch", 2),
    ("tri", 3),
    ("troch", 3),
    ("trech", 3),
    ("trem", 3),
    ("ctyri", 4),
    ("ctyr", 4),
    ("styri", 4),
    ("styroch", 4),
    ("pet", 5),
    ("peti", 5),
    ("pat", 5),
    ("piati", 5),
    ("sest", 6),
    ("sesti", 6),
    ("siesti", 6),
    ("sedm", 7),
    ("sedmi", 7),
    ("sedem", 7),
    ("siedmi", 7),
    ("osm", 8),
    ("osmi", 8),
    ("osem", 8),
    ("osmich", 8),
    ("devet", 9),
    ("deviti", 9),
    ("devat", 9),
    ("deset", 10),
    ("deseti", 10),
    ("desat", 10),
    ("desiati", 10),
    ("dvanact", 12),
    ("dvanacti", 12),
    ("dvanast", 12),
    ("ctrnact", 14),
    ("ctrnacti", 14),
    ("strnast", 14),
    ("patnact", 15),
    ("patnacti", 15),
    ("patnast", 15),
    ("dvacet", 20),
    ("dvaceti", 20),
    ("dvadsat", 20),
    ("dvadsiatich", 20),
    ("tricet", 30),
    ("triceti", 30),
    ("tridsat", 30),
    ("tridsiatich", 30),
    ("ctyricet", 40),
    ("styridsat", 40),
    ("padesat", 50),
    ("padesati", 50),
    ("patdesiat", 50),
    ("sedesat", 60),
    ("sedesati", 60),
    ("sestdesiat", 60),
    ("devadesat", 90),
    ("sto", 100),
    ("zwei", 2),
    ("drei", 3),
    ("vier", 4),
    ("funf", 5),
    ("sechs", 6),
    ("sieben", 7),
    ("acht", 8),
    ("neun", 9),
    ("zehn", 10),
    ("elf", 11),
    ("zwolf", 12),
    ("vierzehn", 14),
    ("zwanzig", 20),
    ("dreissig", 30),
    ("vierzig", 40),
    ("funfzig", 50),
    ("sechzig", 60),
    ("siebzig", 70),
    ("neunzig", 90),
    ("hundert", 100),
];
/// Endings (folded) of Czech and Slovak numerals of at least this length: `dvanástich`, `osmdesátých`.
const NUMERAL_ENDINGS: [&str; 4] = ["i", "ich", "im", "ych"];
const INFLECTED_MIN_CHARS: usize = 6;
/// The beginnings (folded) of the word part that may follow a numeral.
const COUNTED: [&str; 12] =
    ["let", "roc", "den", "tyden", "tyzd", "mesic", "mesac", "hodin", "jahr", "tag", "monat", "stund"];
/// The prefixes (folded) of each month's names. Ambiguous ones, such as `may` and `mar`, are whole words after `=`.
const MONTHS: [&str; 12] = [
    "januar leden ledna lednu",
    "februar unor",
    "march brezen brezn marec =marca =marci =marz =maerz",
    "april duben dubn",
    "=may =mai =maj =maja =maji kveten kvetn",
    "june =jun =juna =juni cerven =cervna =cervnu",
    "july =jul =jula =juli cervenec cervence cervenci",
    "august srpen srpn",
    "septemb =zari",
    "octob oktob rijen rijn",
    "novemb listopad",
    "decemb dezemb prosinec prosinc",
];
/// The shortest prefix by which a name is found again in another form, in characters.
const NAME_PREFIX_MIN_CHARS: usize = 3;
/// The number of letters at the end of a name that may differ.
const NAME_ENDING_MAX_CHARS: usize = 3;

/// Endings (folded) of German nouns that are rare in names.
const NOUN_ENDINGS: [&str; 15] = [
    "ung", "ungen", "heit", "keit", "schaft", "tion", "tionen", "tat", "ment", "zeit", "recht", "tag",
    "tage", "jahr", "geld",
];
/// Codes of currencies, which represent their names.
pub(super) const CURRENCIES: [&str; 6] = ["czk", "eur", "usd", "gbp", "chf", "pln"];

/// A number of a claim.
#[derive(Debug)]
pub(super) struct ClaimNumber {
    pub(super) shown: String,
    value: String,
}

/// A month of a claim.
#[derive(Debug)]
pub(super) struct Month {
    pub(super) shown: String,
    /// From 1.
    pub(super) number: usize,
}

/// A capitalized word of a claim.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) shown: String,
    folded: String,
}

/// The numbers and months of the cited texts.
#[derive(Debug)]
pub(super) struct CitedValues {
    numbers: HashSet<String>,
    months: HashSet<usize>,
}

impl CitedValues {
    pub(super) fn from_text(text: &str) -> Self {
        let mut numbers = HashSet::new();
        for token in tokenize_text(text) {
            numbers.extend(token_value(&token).or_else(|| counted_value(&fold_text(token.text))));
            // The parts of dates and of numbers with points: `2024-03-01`, `1.3.2024`, `2.1`.
            let parts = token.text.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
            numbers.extend(parts.map(trim_zeros));
        }
        let named = find_months(text).into_iter().map(|month| month.number);
        Self { numbers, months: named.chain(months_in_digits(text)).collect() }
    }

    pub(super) fn has_number(&self, number: &ClaimNumber) -> bool {
        self.numbers.contains(&number.value)
    }

    /// Returns true if the number is one of these months of dates in digits, and is found here, possibly by its name.
    pub(super) fn has_dated(&self, number: &ClaimNumber, dated: &[usize]) -> bool {
        number.value.parse().is_ok_and(|month| dated.contains(&month) && self.months.contains(&month))
    }

    pub(super) fn has_month(&self, month: usize) -> bool {
        self.months.contains(&month)
    }
}

/// Returns the numbers of a claim, except the numbers of list items.
pub(super) fn claim_numbers(claim: &str) -> Vec<ClaimNumber> {
    let number = |token: TextToken<'_>| {
        let line = claim[..token.start].rsplit('\n').next().unwrap_or_default();
        let is_item = line.trim().is_empty() && claim[token.end()..].starts_with(['.', ')']);
        let value = token_value(&token).filter(|_| !is_item)?;
        Some(ClaimNumber { shown: token.text.to_owned(), value })
    };
    tokenize_text(claim).into_iter().filter_map(number).collect()
}

pub(super) fn find_months(text: &str) -> Vec<Month> {
    let month = |token: TextToken<'_>| {
        let folded = fold_text(token.text);
        let is = |name: &str| match name.strip_prefix('=') {
            Some(word) => folded == word,
            None => folded.starts_with(name),
        };
        // `července` begins like `června`, so the longer name is checked first.
        let found = MONTHS.iter().rposition(|names| names.split_whitespace().any(is))?;
        let ambiguous = folded == "may" && !token.text.starts_with('M');
        (!ambiguous).then(|| Month { shown: token.text.to_owned(), number: found + 1 })
    };
    let words = tokenize_text(text).into_iter().filter(|token| token.kind == TokenKind::Word);
    words.filter_map(month).collect()
}

/// Returns the months of dates in digits: `1. 3. 2024`, `2024-03-01`, `15.04.2023`.
pub(super) fn months_in_digits(text: &str) -> Vec<usize> {
    let mut runs: Vec<(&str, usize)> = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let digits = &rest[start..];
        let length = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let joined = rest[..start].chars().all(|c| matches!(c, '.' | '-' | '/' | ' ' | '\u{a0}'));
        let before = runs.last().map_or(0, |(_, run)| *run);
        runs.push((&digits[..length], if joined { before + 1 } else { 1 }));
        rest = &digits[length..];
    }
    let month = |date: &[(&str, usize)]| {
        let [(first, _), (month, _), (last, run)] = date else { return None };
        let is_date = *run >= 3 && (first.len() == 4) != (last.len() == 4);
        month.parse().ok().filter(|_| is_date)
    };
    runs.windows(3).filter_map(month).collect()
}

/// Returns the capitalized words that do not begin a sentence.
pub(super) fn claim_names(claim: &str) -> Vec<Name> {
    let name = |token: TextToken<'_>| {
        let before = claim[..token.start].trim_end_matches(['"', '“', '„', '(', ' ', '*']);
        let begins =
            before.is_empty() || before.ends_with(['.', '!', '?', ':', ';', '\n', '-', '–', '—', '|']);
        let folded = fold_text(token.text);
        let capital = token.kind == TokenKind::Word && token.text.starts_with(char::is_uppercase);
        let is_name = capital && !begins && token.text.chars().count() > 1 && !is_stop(&folded);
        let is_month = !find_months(token.text).is_empty() || CURRENCIES.contains(&folded.as_str());
        (is_name && !is_month).then(|| Name { shown: token.text.to_owned(), folded })
    };
    tokenize_text(claim).into_iter().filter_map(name).collect()
}

/// Returns the names of people in a German claim: two capitalized words together if the second is not a usual noun, and
/// words after `Frau` and `Herr`. A single capitalized word may be any noun.
pub(super) fn full_names(claim: &str) -> Vec<Name> {
    let capital = |token: &TextToken<'_>| {
        token.kind == TokenKind::Word
            && token.text.starts_with(char::is_uppercase)
            && token.text.chars().count() > 2
    };
    let tokens = tokenize_text(claim);
    let mut found = Vec::new();
    for pair in tokens.windows(2) {
        let [first, second] = pair else { continue };
        let together = claim.get(first.end()..second.start) == Some(" ") && capital(second);
        let addressed = matches!(first.text, "Frau" | "Herr" | "Herrn");
        let folded = fold_text(second.text);
        let is_noun = NOUN_ENDINGS.iter().any(|ending| folded.ends_with(ending))
            || !find_months(second.text).is_empty();
        if together && (addressed || capital(first) && !is_stop(&fold_text(first.text)) && !is_noun) {
            found.push(Name { shown: second.text.to_owned(), folded });
        }
    }
    found
}

impl Name {
    /// Returns true if the words contain the name in some form.
    pub(super) fn is_in(&self, words: &HashSet<String>) -> bool {
        let length = self.folded.chars().count();
        let kept = length.saturating_sub(NAME_ENDING_MAX_CHARS).max(NAME_PREFIX_MIN_CHARS);
        let prefix: String = self.folded.chars().take(kept).collect();
        let longest = length + NAME_ENDING_MAX_CHARS;
        words.contains(&self.folded)
            || length > NAME_PREFIX_MIN_CHARS
                && words.iter().any(|word| word.starts_with(&prefix) && word.chars().count() <= longest)
    }
}

/// Returns the value of a number, a number word, or the digits at the start of a word (`36h`).
pub(super) fn token_value(token: &TextToken<'_>) -> Option<String> {
    match token.kind {
        TokenKind::Number | TokenKind::Section => Some(trim_zeros(&normal_number(token.text))),
        TokenKind::Word => {
            let digits: String = token.text.chars().take_while(char::is_ascii_digit).collect();
            if !digits.is_empty() {
                return Some(trim_zeros(&digits));
            }
            let folded = fold_text(token.text);
            let is = |word: &str| {
                folded.strip_prefix(word).is_some_and(|ending| {
                    ending.is_empty()
                        || word.len() >= INFLECTED_MIN_CHARS && NUMERAL_ENDINGS.contains(&ending)
                })
            };
            NUMERALS.iter().find(|(word, _)| is(word)).map(|(_, value)| value.to_string())
        }
    }
}

/// Returns the number at the beginning of a word that counts years, days and the like: `pětiletý`, `dreijährig`.
fn counted_value(folded: &str) -> Option<String> {
    let counts = |word: &str| {
        folded.strip_prefix(word).is_some_and(|rest| COUNTED.iter().any(|counted| rest.starts_with(counted)))
    };
    NUMERALS.iter().find(|(word, _)| counts(word)).map(|(_, value)| value.to_string())
}

/// Removes zeros that do not change the value: `03`, `5.50`.
fn trim_zeros(number: &str) -> String {
    let number =
        if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    let whole = number.trim_start_matches('0');
    if whole.is_empty() || whole.starts_with('.') { format!("0{whole}") } else { whole.to_owned() }
}
