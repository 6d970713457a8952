//! Tells the values of a table's cells apart: figures, dates, texts, and marks of missing values.

/// The years that may be headings.
const YEARS: std::ops::RangeInclusive<u32> = 1800..=2100;

/// Returns the cells of a row, each without surrounding spaces.
pub(super) fn split_cells(row: &str) -> Vec<&str> {
    row.split('\t').map(str::trim).collect()
}

pub(super) fn count_filled_cells(row: &[&str]) -> usize {
    row.iter().filter(|cell| !cell.is_empty()).count()
}

/// Returns true for what stands in place of a value.
pub(super) fn is_missing_mark(cell: &str) -> bool {
    matches!(
        cell,
        "-" | "–" | "—" | "." | ".." | "..." | "…" | ":" | "x" | "n/a" | "N/A" | "NA" | "n. a." | "*"
    )
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CellValueKind {
    Missing,
    Text,
    Figure,
    /// A year or a date.
    Date,
}

impl CellValueKind {
    pub(super) fn from_cell(cell: &str) -> Self {
        if cell.is_empty() || is_missing_mark(cell) {
            return Self::Missing;
        }
        if is_date(cell) {
            return Self::Date;
        }
        let sign = |c: char| {
            matches!(c, '+' | '-' | '−' | '(' | ')' | '%' | '<' | '>' | '~' | '€' | '$' | '£')
                || c.is_whitespace()
        };
        let number = cell.trim_matches(sign);
        let number = ["Kč", "CZK", "EUR", "USD", "GBP"].iter().fold(number, |number, unit| {
            number.trim_start_matches(unit).trim_end_matches(unit).trim_matches(sign)
        });
        let is_number = number.starts_with(|c: char| c.is_ascii_digit())
            && number.chars().all(|c| {
                c.is_ascii_digit() || matches!(c, '.' | ',' | '\'' | '’' | ' ' | '\u{a0}' | '\u{202f}')
            })
            || number.parse::<f64>().is_ok_and(f64::is_finite);
        if is_number { Self::Figure } else { Self::Text }
    }
}

/// Returns true for a whole number that is a year of recent times.
pub(super) fn is_year(number: i64) -> bool {
    u32::try_from(number).is_ok_and(|year| YEARS.contains(&year))
}

/// Returns true for a year or a date.
fn is_date(cell: &str) -> bool {
    if cell.len() == 4 && cell.parse().is_ok_and(is_year) {
        return true;
    }
    let day = cell.split([' ', 'T']).next().unwrap_or_default();
    let time = &cell[day.len()..];
    let numbers: Vec<&str> = day.split(['-', '.', '/']).collect();
    let is_number =
        |part: &&str| !part.is_empty() && part.len() <= 4 && part.bytes().all(|b| b.is_ascii_digit());
    numbers.len() == 3
        && numbers.iter().all(is_number)
        && numbers.iter().any(|part| part.len() == 4)
        && time.chars().all(|c| c.is_ascii_digit() || matches!(c, ' ' | 'T' | ':' | '.'))
}
