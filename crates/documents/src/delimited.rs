//! Tables of values that a comma, a semicolon, a bar or a tab separates (CSV, TSV): rows as lines with tabs between the cells.

use super::book::HEADING_MAX_BYTES;
use super::{DocumentSegment, columns};

/// The characters that may separate values.
const SEPARATORS: &[u8] = b",;\t|";
/// The number of rows by which the separator is chosen, and the minimum share of them with the usual number of values.
const SAMPLE_ROWS: usize = 50;
const ALIKE_MIN: f64 = 0.7;

/// Returns the rows of a table as lines, in segments of rows on consecutive lines; `None` if no character separates its values.
pub(super) fn parse_delimited(text: &str) -> Option<Vec<DocumentSegment>> {
    let (named, text, skipped) = named_separator(text);
    let separator = named.or_else(|| detect_separator(text))?;
    let mut found: Vec<DocumentSegment> = Vec::new();
    let mut heading: Option<String> = None;
    // A row of several lines has a separate segment, because lines of text are counted as lines of the file.
    let mut next_line = None;
    for DelimitedRow { text: row, lines: (line, last_line), .. } in parse_rows(text, separator) {
        let (line, last_line) = (line.saturating_add(skipped), last_line.saturating_add(skipped));
        let heading = heading.get_or_insert_with(|| {
            let columns = row.trim().replace('\t', " | ");
            columns[..columns.floor_char_boundary(columns.len().min(HEADING_MAX_BYTES))].to_owned()
        });
        match found.last_mut() {
            Some(DocumentSegment { lines: Some((_, last)), text, .. })
                if next_line == Some(line) && last_line == line =>
            {
                *last = line;
                text.push('\n');
                text.push_str(&row);
            }
            _ => found.push(DocumentSegment {
                page: None,
                lines: Some((line, last_line)),
                heading: Some(heading.clone()),
                text: row,
                inner: None,
                columns: None,
            }),
        }
        next_line = (last_line == line).then_some(line.saturating_add(1));
    }
    columns::mark_headings(&mut found, true);
    Some(found)
}

/// Returns the separator that the first line names for Excel (`sep=;`), with the rows after it and the number of lines before them.
fn named_separator(text: &str) -> (Option<u8>, &str, u32) {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let first = first.trim_end_matches('\r').trim_matches('"');
    match first.as_bytes() {
        [b's' | b'S', b'e' | b'E', b'p' | b'P', b'=', separator] if separator.is_ascii() => {
            (Some(*separator), rest, 1)
        }
        _ => (None, text, 0),
    }
}

struct DelimitedRow {
    text: String,
    values: usize,
    /// The first and the last line.
    lines: (u32, u32),
}

/// Returns the rows that are not empty.
fn parse_rows(text: &str, separator: u8) -> impl Iterator<Item = DelimitedRow> {
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator)
        .has_headers(false)
        .flexible(true)
        .from_reader(text.as_bytes());
    let mut record = csv::StringRecord::new();
    std::iter::from_fn(move || {
        loop {
            if !reader.read_record(&mut record).ok()? {
                return None;
            }
            let cell = |value: &str| value.trim().replace(char::is_whitespace, " ");
            let row = record.iter().map(cell).collect::<Vec<_>>().join("\t");
            let row = row.trim_end();
            if row.trim_start().is_empty() {
                continue;
            }
            // The position is before the empty lines.
            let position = record.position()?;
            let rest = text.as_bytes().get(usize::try_from(position.byte()).ok()?..)?;
            let empty = rest.iter().take_while(|byte| **byte == b'\n').count();
            let breaks = record.iter().map(|value| value.matches('\n').count()).sum::<usize>();
            let line = u32::try_from(position.line()).ok()?.saturating_add(u32::try_from(empty).ok()?);
            let lines = (line, line.saturating_add(u32::try_from(breaks).ok()?));
            return Some(DelimitedRow { text: row.to_owned(), values: record.len(), lines });
        }
    })
}

/// Returns the character that separates the values: the one that gives most rows the same number.
fn detect_separator(text: &str) -> Option<u8> {
    let of = |separator: &u8| {
        let counts: Vec<usize> =
            parse_rows(text, *separator).take(SAMPLE_ROWS).map(|row| row.values).collect();
        let alike = |count: usize| counts.iter().filter(|other| **other == count).count();
        let usual = counts.iter().copied().max_by_key(|count| (alike(*count), *count))?;
        #[expect(clippy::cast_precision_loss, reason = "a few dozen rows")]
        let share = alike(usual) as f64 / counts.len() as f64;
        (usual > 1 && share >= ALIKE_MIN).then_some((share, usual, *separator))
    };
    let best = SEPARATORS
        .iter()
        .filter_map(of)
        .max_by(|one, other| one.0.total_cmp(&other.0).then_with(|| one.1.cmp(&other.1)));
    best.map(|(.., separator)| separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_delimited_any_separator() {
        for separator in [",", ";", "\t", "|"] {
            let text = "Name,Age,City\nAnna,21,Leeds\nPeter,24,York\n".replace(',', separator);
            let found = parse_delimited(&text).expect("a table");
            assert_eq!(found.len(), 1, "{separator:?}");
            assert_eq!(found[0].text, "Name\tAge\tCity\nAnna\t21\tLeeds\nPeter\t24\tYork");
            assert_eq!(found[0].lines, Some((1, 3)));
            assert_eq!(found[0].heading.as_deref(), Some("Name | Age | City"));
        }
    }

    #[test]
    fn parse_delimited_quoted_values_kept() {
        let text = "Item;Price\n\"Bread; \"\"dark\"\"\";1,20\n\n\"two\nlines\";3,50\nLast;4,00\n";
        let found = parse_delimited(text).expect("a table");
        let rows: Vec<_> = found.iter().map(|segment| (segment.text.as_str(), segment.lines)).collect();
        assert_eq!(
            rows,
            [
                ("Item\tPrice\nBread; \"dark\"\t1,20", Some((1, 2))),
                ("two lines\t3,50", Some((4, 5))),
                ("Last\t4,00", Some((6, 6))),
            ]
        );
    }

    #[test]
    fn parse_delimited_named_separator_used() {
        for (named, text) in [(';', "Bird;Price\nKingfisher;4711\n"), ('^', "Bird^Price\nKingfisher^4711\n")]
        {
            let found = parse_delimited(&format!("sep={named}\n{text}")).expect("a table");
            assert_eq!(found[0].text, "Bird\tPrice\nKingfisher\t4711");
            assert_eq!((found[0].lines, found[0].heading.as_deref()), (Some((2, 3)), Some("Bird | Price")));
        }
    }

    #[test]
    fn a_text_is_no_table() {
        for text in [
            "",
            "\n\n",
            "one column\nof words\n",
            "First, a line.\nThen another one\nand, well, more, of it.\n",
        ] {
            assert_eq!(parse_delimited(text).map(|found| found.len()), None, "{text:?}");
        }
    }
}
