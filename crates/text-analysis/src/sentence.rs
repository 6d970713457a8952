//! Splits a passage into sentences, as byte ranges.

use std::ops::Range;

/// The longest label before a colon, in characters.
const LABEL_MAX_CHARS: usize = 30;
/// Abbreviations (folded) whose full stop does not end a sentence.
const ABBREVIATIONS: &[&str] = &[
    "c", "cl", "odst", "pism", "sb", "tzv", "napr", "resp", "apod", "atd", "mj", "tj", "tzn", "event", "ev",
    "par", "ing", "mgr", "mudr", "judr", "phdr", "rndr", "bc", "doc", "prof", "dr", "nar", "bytem", "tel",
    "st", "ul", "ods", "max", "min", "cca", "no", "art", "sec", "ltd", "inc", "mr", "mrs", "ms", "vs", "eg",
    "ie", "al", "para", "cls", "nr", "p", "s", "str", "vc", "vratane", "zz", "zb", "r", "a", "o", "k",
    "spol", "co", "pm", "am", "abs", "nr", "ziff", "buchst", "bzw", "ca", "vgl", "sog", "usw", "ggf", "gem",
    "bgbl", "etc", "e", "i", "fig", "approx", "u", "d", "z", "b",
];

/// Prefixes of the names of months (folded) that follow a day with a full stop: `7. Juni`, `1. ledna`.
const MONTHS: &[&str] = &[
    "jan", "feb", "mar", "apr", "mai", "maj", "jun", "jul", "aug", "sep", "okt", "oct", "nov", "dez", "dec",
    "led", "unor", "brez", "dub", "kvet", "cerv", "srp", "zari", "rij", "list", "pros",
];

/// Returns the sentences and list items of a text, in order, without surrounding white space. A line without
/// a final stop continues in the next one, unless a blank line or a list marker comes between. A row of a table is one
/// sentence.
#[must_use]
pub fn split_sentences(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut at = 0;
    let mut in_cells = has_cells(first_line(text));
    while let Some(c) = text[at..].chars().next() {
        let next = at + c.len_utf8();
        let ends = match c {
            '\n' => {
                in_cells = has_cells(first_line(&text[next..]));
                breaks_line(text, at)
            }
            _ if in_cells => false,
            '.' | '!' | '?' | ';' => ends_sentence(text, at, c),
            _ => false,
        };
        if ends {
            push_trimmed(&mut found, text, start..next);
            start = next;
        }
        at = next;
    }
    push_trimmed(&mut found, text, start..text.len());
    found
}

fn push_trimmed(found: &mut Vec<Range<usize>>, text: &str, range: Range<usize>) {
    let piece = &text[range.clone()];
    let trimmed = piece.trim();
    if trimmed.is_empty() {
        return;
    }
    let start = range.start + (piece.len() - piece.trim_start().len());
    found.push(start..start + trimmed.len());
}

/// Returns true if a line break ends a sentence: before a blank line, an item or a heading, and after a table row.
fn breaks_line(text: &str, at: usize) -> bool {
    let line_before = text[..at].rsplit('\n').next().unwrap_or_default().trim();
    let rest = &text[at + 1..];
    let line_after = rest.split('\n').next().unwrap_or_default().trim_start();
    let full = line_before.ends_with(['.', '!', '?'])
        && line_after.starts_with(char::is_uppercase)
        && !(ends_with_day(line_before) && begins_with_month(line_after));
    line_after.trim().is_empty()
        || full && !ends_with_title(line_before)
        || is_labelled(line_after)
        || line_before.is_empty()
        || is_row(line_before)
        || is_row(line_after)
        || begins_item(line_after)
        || line_before.starts_with('#')
        || line_before.ends_with(':')
        || (line_before.chars().count() < 40 && !line_after.starts_with(char::is_lowercase))
}

fn is_row(line: &str) -> bool {
    line.starts_with('|')
        || line.matches(" | ").count() >= 2
        || line.contains('\t')
        || line.matches(';').count() >= 3
}

fn first_line(text: &str) -> &str {
    text.split('\n').next().unwrap_or_default()
}

/// Returns true for a row whose stops are those of its cells. An item whose mark stands before a tab is none: `1.<tab>The rent`.
fn has_cells(line: &str) -> bool {
    let cells = line.split('\t').map(str::trim).filter(|cell| !cell.is_empty());
    let is_mark = |cell: &str| {
        !cell.contains(char::is_alphabetic) || !cell.contains(' ') && begins_item(&format!("{cell} "))
    };
    let has_columns = line.contains('\t') && cells.skip_while(|cell| is_mark(cell)).nth(1).is_some();
    let bars = line.matches(" | ").count();
    let has_fields = line.matches(';').count() >= 3 && !line.contains("; ");
    has_columns || has_fields || bars >= 2 || line.starts_with('|') && bars > 0
}

/// Returns true if the last word of the line is an abbreviation before a name.
fn ends_with_title(line: &str) -> bool {
    let word = line.trim_end_matches('.').rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    ABBREVIATIONS.contains(&crate::fold::fold_text(word).as_str())
}

/// Returns true if the line begins with a label: `Place: the town hall`.
fn ends_with_day(line: &str) -> bool {
    let day = line.trim_end_matches('.').rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    matches!(day.len(), 1 | 2)
}

fn begins_with_month(text: &str) -> bool {
    let word = text.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    let folded = crate::fold::fold_text(word);
    MONTHS.iter().any(|month| folded.starts_with(month))
}

fn is_labelled(line: &str) -> bool {
    line.starts_with(|c: char| c.is_uppercase() || c == '*')
        && line.split_once(": ").or_else(|| line.split_once(":** ")).is_some_and(|(label, _)| {
            label.chars().count() <= LABEL_MAX_CHARS && !label.contains(['.', ',', ';'])
        })
}

fn begins_item(line: &str) -> bool {
    if line.starts_with(['-', '•', '*', '–', '#']) {
        return true;
    }
    if let Some(number) = line.strip_prefix('§') {
        // `§ 11 se nepoužije` continues a sentence.
        let rest = number.trim_start_matches(|c: char| c.is_ascii_digit() || c.is_whitespace());
        return !rest.starts_with(char::is_lowercase);
    }
    let mark: String = line.chars().take_while(|c| !c.is_whitespace()).take(8).collect();
    let body = mark.trim_start_matches('(').trim_end_matches(['.', ')']);
    if body.len() == mark.len() || body.is_empty() {
        // `2.2 The lease` is an item, `2.2 per cent` is not.
        let rest = line[mark.len()..].trim_start();
        let numbered = body.contains('.') && body.chars().all(|c| c.is_ascii_digit() || c == '.');
        return numbered && rest.starts_with(char::is_uppercase);
    }
    body.chars().all(|c| c.is_ascii_digit() || c == '.')
        || (body.chars().count() == 1 && body.chars().all(char::is_alphabetic))
        || (body.len() <= 4 && body.chars().all(|c| matches!(c, 'I' | 'V' | 'X')))
}

fn ends_sentence(text: &str, at: usize, c: char) -> bool {
    let rest = &text[at + 1..];
    let Some(next) = rest.chars().next() else { return true };
    if !next.is_whitespace() {
        return false;
    }
    if c != '.' {
        return c != ';' || rest.starts_with('\n');
    }
    let following = rest.trim_start();
    let Some(first) = following.chars().next() else { return true };
    let word: String = text[..at]
        .chars()
        .rev()
        .take_while(|c| c.is_alphanumeric())
        .take(16)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .collect();
    if first.is_lowercase() {
        return false;
    }
    if word.is_empty() {
        return true;
    }
    if word.chars().all(|c| c.is_ascii_digit()) {
        // `1. 3. 2024`, `odst. 2. Nájemce`: a number before a digit or at a line's beginning ends no
        // sentence.
        let begins_line = begins_line(text, at - word.len());
        let in_date = word.len() <= 2 && begins_with_month(following);
        return !first.is_ascii_digit() && first != '§' && !begins_line && !in_date;
    }
    if word.len() <= 5 && word.chars().all(|c| matches!(c, 'I' | 'V' | 'X')) {
        // `IV. Sanctions` is a heading.
        return !begins_line(text, at - word.len());
    }
    let folded = crate::fold::fold_text(&word);
    !(ABBREVIATIONS.contains(&folded.as_str()) || (folded.len() == 1 && word.chars().all(char::is_uppercase)))
}

fn begins_line(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end_matches(['#', '(', ' ', '*']);
    before.is_empty() || before.ends_with('\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence_texts(text: &str) -> Vec<&str> {
        split_sentences(text).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn abbreviations_and_dates_end_nothing() {
        assert_eq!(
            sentence_texts("Podle čl. 5 odst. 2 platí lhůta. Smlouva je ze dne 1. 3. 2024. Konec."),
            ["Podle čl. 5 odst. 2 platí lhůta.", "Smlouva je ze dne 1. 3. 2024.", "Konec."]
        );
        assert_eq!(
            sentence_texts("Der Antrag ist bis zum 30. Juni zu stellen."),
            ["Der Antrag ist bis zum 30. Juni zu stellen."]
        );
        assert_eq!(
            sentence_texts("podle bodů 1. a 2. §11 se použije"),
            ["podle bodů 1. a 2. §11 se použije"]
        );
        assert_eq!(
            sentence_texts("Zastoupená Ing. Janem Novákem. Dále"),
            ["Zastoupená Ing. Janem Novákem.", "Dále"]
        );
    }

    #[test]
    fn split_sentences_joins_wrapped_lines() {
        assert_eq!(
            sentence_texts(
                "Nájemce je povinen hradit nájemné vždy do pátého dne\nměsíce předem.\n2. Kauce činí 10 000 Kč."
            ),
            [
                "Nájemce je povinen hradit nájemné vždy do pátého dne\nměsíce předem.",
                "2. Kauce činí 10 000 Kč."
            ]
        );
    }

    #[test]
    fn lines_that_are_whole_stand_alone() {
        assert_eq!(
            sentence_texts("Cena je 10 000 Kč.\nUsnesení bylo přijato.\nMísto: tělocvična"),
            ["Cena je 10 000 Kč.", "Usnesení bylo přijato.", "Místo: tělocvična"]
        );
        assert_eq!(sentence_texts("## 4. Roof of the store\n\nDone."), ["## 4. Roof of the store", "Done."]);
    }

    #[test]
    fn rows_with_stops_stay_whole() {
        let rows = [
            "Benin\t29. 9.\t1.5",
            "Congo, Dem. Rep.\t1990\t3. Early. Late",
            "Player\tRec. Yards",
            "\t7\tA. Smith Jr. Who?\tLondon",
            "| Congo, Dem. Rep. | 52.1 |",
            "St. Louis. Mo | Rec. Yards | 5",
            "St. Louis. Mo;Rec. Yards;5;6",
        ];
        assert_eq!(sentence_texts(&rows.join("\n")), rows.map(str::trim));
        for text in ["1.\tThe rent is 5. It is due.", "(a)\tThe rent is 5. It is due.", "5\tRent. It is due."]
        {
            assert_eq!(sentence_texts(text).len(), 2, "{text}");
        }
    }

    #[test]
    fn rows_of_tables_stand_alone() {
        assert_eq!(sentence_texts("a | b | c\n1 | 2 | 3"), ["a | b | c", "1 | 2 | 3"]);
        assert_eq!(sentence_texts("A;b;c;d\ne;f;g;h"), ["A;b;c;d", "e;f;g;h"]);
    }
}
