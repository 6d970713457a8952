//! Detects the beginnings of sections and items in statutes, contracts and articles, from a single line.

/// The kind of element that begins on a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start<'a> {
    /// A section, with its heading.
    Section(&'a str),
    /// A numbered or bulleted item.
    Item,
}

/// The longest line that is a heading as a whole, in bytes.
const HEADING_MAX_BYTES: usize = 110;
/// Words that name a part of a document when a number follows, folded.
const PARTS: &[&str] = &[
    "cl",
    "clanek",
    "clanok",
    "article",
    "art",
    "section",
    "sec",
    "kapitola",
    "chapter",
    "cast",
    "part",
    "hlava",
    "oddil",
    "oddiel",
    "dil",
    "diel",
    "priloha",
    "annex",
    "appendix",
    "schedule",
    "clause",
    "paragraf",
    "titul",
    "artikel",
    "abschnitt",
    "bod",
];
/// Ordinals in words that follow such a word, folded.
const ORDINALS: &[&str] = &[
    "prvni", "prva", "prvy", "druha", "druhy", "treti", "tretia", "treti", "ctvrta", "ctvrty", "stvrta",
    "pata", "paty", "piata", "sesta", "siesta", "sedma", "siedma", "osma", "devata", "deviata", "desata",
    "desiata", "one", "two", "three", "four", "five", "six",
];

/// Detects the element that begins on this line.
pub(super) fn detect_clause_start(line: &str) -> Option<Start<'_>> {
    let line = line.trim();
    let first = line.chars().next()?;
    if first == '§' {
        let digit = line.trim_start_matches(['§', ' ', '\u{a0}']).starts_with(|c: char| c.is_ascii_digit());
        let end = sign_end(line);
        // `§ 12 odst. 1 se nepoužije` begins a sentence, not a section.
        let goes_on = line[end..].trim_start().starts_with(char::is_lowercase);
        return (digit && !goes_on).then(|| Start::Section(heading_of(line, end)));
    }
    if matches!(first, '-' | '•' | '–' | '*' | '▪' | '◦') {
        return line[first.len_utf8()..].starts_with(char::is_whitespace).then_some(Start::Item);
    }
    if let Some(end) = part_end(line) {
        return Some(Start::Section(heading_of(line, end)));
    }
    if let Some(start) = detect_numbered_start(line) {
        return Some(start);
    }
    is_capitals(line).then_some(Start::Section(line))
}

/// Returns the line as a heading: the whole line if it is short, otherwise the mark that ends at `mark_end`.
fn heading_of(line: &str, mark_end: usize) -> &str {
    let whole = line.len() <= HEADING_MAX_BYTES && !line.ends_with(['.', ';', ',']);
    if whole { line } else { &line[..mark_end] }
}

/// Returns true if a line could be a title: short and not the end of a sentence.
pub(super) fn is_title(line: &str) -> bool {
    let line = line.trim();
    line.len() <= HEADING_MAX_BYTES
        && line.chars().next().is_some_and(char::is_uppercase)
        && !line.ends_with(['.', ';', ',', ':', '!', '?'])
        && !line.contains('\t')
}

/// Returns the end of a mark such as `§ 12a` at the start of a line.
fn sign_end(line: &str) -> usize {
    let digits = line.find(|c: char| c.is_ascii_digit()).unwrap_or(0);
    line[digits..].find(|c: char| !c.is_alphanumeric()).map_or(line.len(), |end| digits + end)
}

/// Returns the end of a mark such as `Čl. 3`, `Article IV` or `ČÁST PRVNÍ` at the start of a line.
fn part_end(line: &str) -> Option<usize> {
    let word_end = line.find(|c: char| !c.is_alphabetic())?;
    if !line.starts_with(char::is_uppercase) || word_end > 16 {
        return None;
    }
    let word = text_analysis::fold_text(&line[..word_end]);
    if !PARTS.contains(&word.as_str()) {
        return None;
    }
    let rest = &line[word_end..];
    let gap = rest.len() - rest.trim_start_matches(['.', ' ', '\u{a0}', '\t']).len();
    if gap == 0 {
        return None;
    }
    let mut number_start = word_end + gap;
    if let Some(after) =
        ["č. ", "č.", "No. ", "Nr. "].iter().find_map(|sign| line[number_start..].strip_prefix(sign))
    {
        number_start = line.len() - after.len();
    }
    let number = &line[number_start..];
    let number_end =
        number.find(|c: char| !c.is_alphanumeric() && c != '.').map_or(line.len(), |end| number_start + end);
    let number = line[number_start..number_end].trim_end_matches('.');
    let counts = number.starts_with(|c: char| c.is_ascii_digit())
        || is_roman(number)
        || (number.len() == 1 && number.chars().all(|c| c.is_ascii_uppercase()))
        || (line.len() <= 60 && ORDINALS.contains(&text_analysis::fold_text(number).as_str()));
    // `Čl. 3 odst. 2 se mění` begins a sentence, not a section.
    let after = line[number_end..].trim_start_matches([' ', '\u{a0}']);
    (counts && !after.starts_with(char::is_lowercase)).then_some(number_end)
}

/// Detects `1.`, `1.2`, `1)`, `(1)`, `a)`, `(a)`, `IV.` followed by text.
fn detect_numbered_start(line: &str) -> Option<Start<'_>> {
    let mark_end = line.find(char::is_whitespace).unwrap_or(line.len());
    let mark = &line[..mark_end];
    if mark.len() > 12 {
        return None;
    }
    let body = line[mark_end..].trim_start();
    let inner = mark.trim_start_matches('(').trim_end_matches(['.', ')']);
    if inner.is_empty() {
        return None;
    }
    let closed = inner.len() < mark.len();
    let parts = inner.split('.').filter(|part| !part.is_empty()).count();
    let digits = inner.chars().all(|c| c.is_ascii_digit() || c == '.');
    if digits && (closed || parts > 1) {
        let long = inner.split('.').any(|part| part.len() > 3);
        // `1. 3. 2024` is a date, `1.234,50` and `12.50` are amounts.
        let begins_text = body.starts_with(|c: char| c.is_alphabetic() || matches!(c, '"' | '„' | '(' | '§'));
        let amount = !closed && !body.contains(char::is_whitespace);
        if long || amount || !(begins_text || body.is_empty() && closed && parts == 1) {
            return None;
        }
        let titled = parts == 1 && mark.ends_with('.') && is_title(body) && body.len() <= 80;
        let asks = body.ends_with('?') && body.len() <= HEADING_MAX_BYTES;
        return Some(if titled || asks { Start::Section(line) } else { Start::Item });
    }
    if is_roman(inner) && mark.ends_with('.') && (body.is_empty() || is_title(body)) {
        return Some(Start::Section(line));
    }
    let letter = inner.chars().count() <= 2 && inner.chars().all(char::is_alphanumeric);
    (letter && mark.ends_with(')') && !body.is_empty()).then_some(Start::Item)
}

fn is_roman(text: &str) -> bool {
    !text.is_empty() && text.len() <= 6 && text.chars().all(|c| matches!(c, 'I' | 'V' | 'X' | 'L' | 'C'))
}

/// Returns true for a short line in capitals, such as `NÁJEMNÍ SMLOUVA`.
fn is_capitals(line: &str) -> bool {
    line.len() <= HEADING_MAX_BYTES
        && !line.contains(['\t', '|', '='])
        && line.chars().filter(|c| c.is_alphabetic()).count() >= 5
        && !line.chars().any(char::is_lowercase)
        && !line.chars().any(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_seen() {
        for (line, heading) in [
            ("§ 12", "§ 12"),
            ("§ 2235 Nájem bytu", "§ 2235 Nájem bytu"),
            ("Čl. 3", "Čl. 3"),
            ("Článek IV Nájemné", "Článek IV Nájemné"),
            ("Article 5 – Termination", "Article 5 – Termination"),
            ("ČÁST PRVNÍ", "ČÁST PRVNÍ"),
            ("3. Nájemné a úhrady", "3. Nájemné a úhrady"),
            ("IV.", "IV."),
            ("NÁJEMNÍ SMLOUVA", "NÁJEMNÍ SMLOUVA"),
            ("Príloha č. 1", "Príloha č. 1"),
            ("§ 12 odst. 1 se nepoužije na nájem", ""),
        ] {
            let found = match detect_clause_start(line) {
                Some(Start::Section(heading)) => heading,
                _ => "",
            };
            assert_eq!(found, heading, "{line}");
        }
        let long = "§ 14 Nájemce je povinen platit nájemné předem na každý měsíc nebo na jiné ujednané platební období a to vždy včas.";
        assert_eq!(detect_clause_start(long), Some(Start::Section("§ 14")));
    }

    #[test]
    fn items_are_seen() {
        for line in [
            "1.2 The tenant shall pay.",
            "(1) Nájemce platí.",
            "a) voda,",
            "- teplo",
            "2. Nájemce platí předem.",
        ] {
            assert_eq!(detect_clause_start(line), Some(Start::Item), "{line}");
        }
    }

    #[test]
    fn ordinary_lines_begin_nothing() {
        for line in [
            "Nájemce platí nájemné.",
            "1. 3. 2024 nastal převod",
            "12.50 Kč",
            "2024 byl rok",
            "Čl. 3 odst. 2 se nepoužije",
            "Part of the rent is due",
            "USD",
            "-5 stupňů",
            "",
        ] {
            assert_eq!(detect_clause_start(line), None, "{line}");
        }
    }
}
