//! Finds the rows of headings above the rows of a table, so that each passage of rows carries them.
//!
//! Headings are recognized by the content below them: names, years or other labels above columns of figures, or names above
//! columns of text. In a table without such a row, the first row is data.

use std::ops::Range;
use std::rc::Rc;

use super::DocumentSegment;

/// The rows of a table by which its headings are found.
const SAMPLE_ROWS: usize = 60;
/// The maximum number of titles above the headings of a table, and the longest title, in bytes.
const TITLES_MAX: usize = 4;
const TITLE_MAX_BYTES: usize = 160;
/// The maximum number of rows of headings, and the longest heading of a column, in bytes.
const HEADS_MAX: usize = 4;
const HEAD_MAX_BYTES: usize = 200;
/// The minimum share of a column's values that are figures, if it is one of figures.
const FIGURES_MIN: f64 = 0.6;
/// The same in a table of two columns, which may be a list of names and values without headings.
const FIGURES_OF_PAIRS_MIN: f64 = 0.9;
/// The minimum share of the columns that have a heading, above figures and above text.
const HEADED_MIN: f64 = 0.5;
const HEADED_TEXT_MIN: f64 = 0.8;
/// The minimum number of rows below the headings of a sheet that has no figures.
const TEXT_ROWS_MIN: usize = 2;
/// The minimum share of a table's rows that have all cells, in documents that do not mark empty cells.
const WHOLE_ROWS_MIN: f64 = 0.8;
/// The years that may be headings.
const YEARS: std::ops::RangeInclusive<u32> = 1800..=2100;

/// The headings above the rows of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    /// The titles of the table, one a line, and below them the rows of headings, with tabs between the cells.
    pub rows: Rc<str>,
    /// The lines of the segment that are such rows themselves, from 0.
    pub own: Range<usize>,
}

/// Finds the headings of the tables of a workbook, whose sheets are pages, or of a file of values. In a file of values
/// (`is_delimited`) the first row is expected to have headings.
pub(super) fn mark_headings(segments: &mut [DocumentSegment], is_delimited: bool) {
    let mut rest = segments;
    while let Some(page) = rest.first().map(|segment| segment.page) {
        let of_page = rest.iter().take_while(|segment| segment.page == page).count();
        let (sheet, others) = rest.split_at_mut(of_page);
        mark_sheet(sheet, is_delimited);
        rest = others;
    }
}

/// Splits a text of paragraphs at its tables, which have tabs between their cells. A table has headings here only if most rows
/// have all cells: in others, the column of a cell is unknown.
pub(super) fn split_tables(segment: &DocumentSegment) -> Vec<DocumentSegment> {
    let lines: Vec<&str> = segment.text.split('\n').collect();
    let part = |of: Range<usize>, columns: Option<Columns>| DocumentSegment {
        lines: segment
            .lines
            .map(|(first, _)| (first + to_line_count(of.start), first + to_line_count(of.end - 1))),
        text: lines[of].join("\n"),
        columns,
        ..segment.clone()
    };
    let mut found = Vec::new();
    let (mut from, mut at) = (0, 0);
    while at < lines.len() {
        let rows = lines[at..].iter().take_while(|line| line.contains('\t')).count();
        if let Some(columns) = of_run(&lines[at..at + rows]) {
            if from < at {
                found.push(part(from..at, None));
            }
            found.push(part(at..at + rows, Some(columns)));
            from = at + rows;
        }
        at += rows.max(1);
    }
    if found.is_empty() {
        return Vec::new();
    }
    if from < lines.len() {
        found.push(part(from..lines.len(), None));
    }
    found.retain(|part| !part.text.trim().is_empty());
    found
}

/// Returns the headings of consecutive rows.
fn of_run(lines: &[&str]) -> Option<Columns> {
    let rows: Vec<Vec<&str>> = lines.iter().map(|line| split_cells(line)).collect();
    let count = count_heading_rows(&rows, false)?;
    let (heads, data) = rows.split_at(count);
    let width = data.iter().map(Vec::len).max().filter(|_| data.len() >= TEXT_ROWS_MIN)?;
    let whole = data.iter().filter(|row| row.len() == width).count();
    // An empty cell at the beginning of a row leaves no trace.
    let is_shifted = heads.iter().all(|head| head.len() + 1 == width);
    if !(is_shifted || heads.iter().all(|head| head.len() == width))
        || share_of(whole, data.len()) < WHOLE_ROWS_MIN
    {
        return None;
    }
    let begin = if is_shifted { "\t" } else { "" };
    let rows: Vec<String> = heads.iter().map(|head| format!("{begin}{}", head.join("\t"))).collect();
    Some(Columns { rows: rows.join("\n").into(), own: 0..count })
}

fn to_line_count(lines: usize) -> u32 {
    u32::try_from(lines).unwrap_or(u32::MAX)
}

/// The headings that apply below them, with the number of columns.
type Current = (Rc<str>, usize);

fn mark_sheet(segments: &mut [DocumentSegment], is_delimited: bool) {
    let mut current: Option<Current> = None;
    // Titles, and headings above an empty row.
    let mut waiting: Vec<(usize, bool)> = Vec::new();
    for at in 0..segments.len() {
        if segments[at].lines.is_none() {
            continue;
        }
        match RowBlock::from_text(&segments[at].text, is_delimited) {
            // A file of values has one table.
            RowBlock::Heads { .. } | RowBlock::Table { .. } | RowBlock::Rows { .. }
                if is_delimited && current.is_some() =>
            {
                let width = segment_width(&segments[at]);
                inherit_headings(&mut segments[at], width, current.as_ref());
            }
            RowBlock::Heads { is_full } => {
                // Below a table, a title before the last one is a note to that table.
                let lines: usize = waiting.iter().map(|(at, _)| segments[*at].text.lines().count()).sum();
                if current.is_some() || lines > TITLES_MAX {
                    release_waiting_rows(segments, &mut waiting, current.as_ref());
                }
                waiting.push((at, is_full));
            }
            RowBlock::Table { own, width } => {
                let rows = join_heading_rows(segments, &waiting, at, own.clone());
                carry_headings(segments, &mut waiting, &rows);
                segments[at].columns = Some(Columns { rows: Rc::clone(&rows), own });
                current = Some((rows, width));
            }
            RowBlock::Rows { width } => {
                let has_heads = waiting.iter().any(|(_, is_full)| *is_full);
                // Between the rows of a table, a single row of text is one of them.
                let is_table = current.is_none() || segments[at].text.contains('\n');
                if has_heads && is_table && has_waiting_headings(segments, &waiting, at, is_delimited) {
                    let rows = join_heading_rows(segments, &waiting, at, 0..0);
                    carry_headings(segments, &mut waiting, &rows);
                    current = Some((rows, width));
                }
                release_waiting_rows(segments, &mut waiting, current.as_ref());
                inherit_headings(&mut segments[at], width, current.as_ref());
            }
            RowBlock::Text => release_waiting_rows(segments, &mut waiting, current.as_ref()),
        }
    }
    release_waiting_rows(segments, &mut waiting, current.as_ref());
}

/// Gives rows the headings of the rows before them, unless they have more columns.
fn inherit_headings(segment: &mut DocumentSegment, width: usize, current: Option<&Current>) {
    if let Some((rows, _)) = current.filter(|(_, of)| width <= *of) {
        segment.columns = Some(Columns { rows: Rc::clone(rows), own: 0..0 });
    }
}

/// Resolves rows that waited as headings: they become rows of the table before them, or titles of nothing.
fn release_waiting_rows(
    segments: &mut [DocumentSegment],
    waiting: &mut Vec<(usize, bool)>,
    current: Option<&Current>,
) {
    for (at, _) in waiting.drain(..).filter(|(_, is_full)| *is_full) {
        let width = segment_width(&segments[at]);
        inherit_headings(&mut segments[at], width, current);
    }
}

fn segment_width(segment: &DocumentSegment) -> usize {
    segment.text.lines().take(SAMPLE_ROWS).map(|row| split_cells(row).len()).max().unwrap_or(0)
}

/// Returns true if rows that wait are the headings of a segment.
fn has_waiting_headings(
    segments: &[DocumentSegment],
    waiting: &[(usize, bool)],
    at: usize,
    is_delimited: bool,
) -> bool {
    let above: Vec<&str> = waiting.iter().flat_map(|(at, _)| segments[*at].text.lines()).collect();
    let together = format!("{}\n{}", above.join("\n"), segments[at].text);
    matches!(RowBlock::from_text(&together, is_delimited), RowBlock::Table { own, .. } if own.end == above.len())
}

/// Returns the rows of waiting segments and of a segment's lines.
fn join_heading_rows(
    segments: &[DocumentSegment],
    waiting: &[(usize, bool)],
    at: usize,
    own: Range<usize>,
) -> Rc<str> {
    let above = waiting.iter().flat_map(|(waiting, _)| segments[*waiting].text.lines());
    let own = segments[at].text.lines().skip(own.start).take(own.len());
    let (titles, heads): (Vec<&str>, Vec<&str>) = above.chain(own).partition(|row| is_title(row));
    let titles = titles.iter().map(|title| title.trim().to_owned());
    let heads = spread_headings(heads.into_iter().map(split_cells).collect());
    titles.chain(heads.iter().map(|head| head.join("\t"))).collect::<Vec<_>>().join("\n").into()
}

/// Writes a heading that spans several columns above each of them, as far as rows below it have headings there.
fn spread_headings(mut heads: Vec<Vec<&str>>) -> Vec<Vec<&str>> {
    let last = heads.len().saturating_sub(1);
    let below = heads.last().cloned().unwrap_or_default();
    for head in &mut heads[..last] {
        head.resize(below.len().max(head.len()), "");
        for column in 1..head.len() {
            if head[column].is_empty() && below.get(column).is_some_and(|cell| !cell.is_empty()) {
                head[column] = head[column - 1];
            }
        }
    }
    heads
}

/// Marks all rows of waiting segments as headings of the rows that follow.
fn carry_headings(segments: &mut [DocumentSegment], waiting: &mut Vec<(usize, bool)>, rows: &Rc<str>) {
    for (at, _) in waiting.drain(..) {
        let own = 0..segments[at].text.lines().count();
        segments[at].columns = Some(Columns { rows: Rc::clone(rows), own });
    }
}

fn is_title(row: &str) -> bool {
    !row.trim().contains('\t')
}

/// Consecutive rows of a sheet.
#[derive(Debug, PartialEq, Eq)]
enum RowBlock {
    /// Headings in these lines, with the rows below them.
    Table {
        own: Range<usize>,
        width: usize,
    },
    /// Titles of the following rows; also headings if it is full.
    Heads {
        is_full: bool,
    },
    Rows {
        width: usize,
    },
    /// Lines of one cell.
    Text,
}

impl RowBlock {
    fn from_text(text: &str, is_delimited: bool) -> Self {
        let rows: Vec<Vec<&str>> = text.lines().take(SAMPLE_ROWS).map(split_cells).collect();
        let width = rows.iter().map(Vec::len).max().unwrap_or(0);
        let is_title = |row: &Vec<&str>| row.concat().len() <= TITLE_MAX_BYTES;
        let Some(first) = rows.iter().position(|row| count_filled_cells(row) > 1) else {
            let is_short = rows.len() <= TITLES_MAX && rows.iter().all(is_title);
            return if is_short { Self::Heads { is_full: false } } else { Self::Text };
        };
        let titles = rows[..first].iter().rev().take(TITLES_MAX).take_while(|row| is_title(row)).count();
        match count_heading_rows(&rows[first..], is_delimited) {
            None => Self::Rows { width },
            Some(heads) if first + heads == rows.len() => Self::Heads { is_full: true },
            Some(heads) => Self::Table { own: first - titles..first + heads, width },
        }
    }
}

/// Returns the number of rows of headings at the beginning of a table's rows.
pub(super) fn count_heading_rows(rows: &[Vec<&str>], is_delimited: bool) -> Option<usize> {
    let first = rows.first().filter(|row| count_filled_cells(row) > 1 && is_label_row(row))?;
    let mut count = 1;
    while count < HEADS_MAX && rows.get(count).is_some_and(|next| is_further(&rows[..count], next)) {
        count += 1;
    }
    let (heads, data) = rows.split_at(count);
    if data.is_empty() {
        return (count < HEADS_MAX).then_some(count);
    }
    let data = &data[..data.len().min(SAMPLE_ROWS)];
    let width = data.iter().chain(heads).map(Vec::len).max().unwrap_or(0);
    let columns = (0..width).map(|column| ColumnProfile::from_rows(heads, data, column)).collect::<Vec<_>>();
    let used = columns.iter().filter(|column| column.values > 0).count();
    let headed = columns.iter().filter(|column| column.values > 0 && column.is_headed).count();
    // Years above years are not headings.
    if columns.iter().any(|column| column.date_above && column.share_of_values(column.dates) > HEADED_MIN) {
        return None;
    }
    let figures_min = if used <= 2 && !is_delimited { FIGURES_OF_PAIRS_MIN } else { FIGURES_MIN };
    let of_figures = columns
        .iter()
        .any(|column| column.is_headed && column.share_of_values(column.figures) >= figures_min);
    let share = share_of(headed, used);
    if of_figures && (used > 2 || is_delimited || data.len() >= TEXT_ROWS_MIN) {
        return (share >= HEADED_MIN).then_some(count);
    }
    let is_names = count == 1
        && first.iter().enumerate().all(|(at, cell)| {
            !cell.ends_with(['.', ';', '!']) && !first[..at].contains(cell) || cell.is_empty()
        })
        && !columns.iter().any(|column| column.repeats)
        && (is_delimited || used > 2 && data.len() >= TEXT_ROWS_MIN);
    (is_names && share >= HEADED_TEXT_MIN).then_some(count)
}

/// A column below the rows of headings.
#[derive(Default)]
struct ColumnProfile {
    is_headed: bool,
    /// A year or date is its heading.
    date_above: bool,
    /// A value is the same as the heading.
    repeats: bool,
    values: usize,
    figures: usize,
    dates: usize,
}

impl ColumnProfile {
    fn from_rows(heads: &[Vec<&str>], data: &[Vec<&str>], column: usize) -> Self {
        let above = |row: &Vec<&str>| row.get(column).copied().unwrap_or_default().to_owned();
        let names: Vec<String> = heads.iter().map(above).filter(|name| !name.is_empty()).collect();
        // A heading may span several columns.
        let spans = heads.len() > 1 && heads[0].iter().take(column).any(|cell| !cell.is_empty());
        let mut found = Self {
            is_headed: !names.is_empty() || spans,
            date_above: names
                .last()
                .is_some_and(|name| CellValueKind::from_cell(name) == CellValueKind::Date),
            ..Self::default()
        };
        for cell in data.iter().filter_map(|row| row.get(column)) {
            let value = CellValueKind::from_cell(cell);
            found.values += usize::from(value != CellValueKind::Missing);
            found.figures += usize::from(matches!(value, CellValueKind::Figure | CellValueKind::Date));
            found.dates += usize::from(value == CellValueKind::Date);
            found.repeats |= value == CellValueKind::Text && names.iter().any(|name| name == cell);
        }
        found
    }

    fn share_of_values(&self, count: usize) -> f64 {
        share_of(count, self.values)
    }
}

fn share_of(part: usize, of: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a few dozen rows and columns")]
    let share = part as f64 / of.max(1) as f64;
    share
}

/// Returns true if a row below headings continues them: it fills columns that they leave empty, or has the units.
fn is_further(heads: &[Vec<&str>], next: &[&str]) -> bool {
    if count_filled_cells(next) < 2 || !is_label_row(next) || next.iter().any(|cell| is_missing_mark(cell)) {
        return false;
    }
    let is_unit = |cell: &&&str| {
        cell.starts_with('(') && cell.ends_with(')') || matches!(**cell, "%" | "€" | "$" | "£")
    };
    let cells = next.iter().filter(|cell| !cell.is_empty());
    if cells.clone().all(|cell| is_unit(&cell)) {
        return true;
    }
    let has = |column: usize| heads.iter().any(|row| row.get(column).is_some_and(|cell| !cell.is_empty()));
    let fills = next.iter().enumerate().skip(1).any(|(column, cell)| !cell.is_empty() && !has(column));
    let below_first = next.first().is_none_or(|cell| cell.is_empty()) && has(0);
    fills || below_first
}

/// Returns true for a row of names, or of years, dates or numbers that count up: `Country`, `2019`, `2020`.
fn is_label_row(row: &[&str]) -> bool {
    let cells: Vec<&str> = row.iter().copied().filter(|cell| !cell.is_empty()).collect();
    if cells.first().is_none_or(|first| first.ends_with(':'))
        || cells.iter().any(|cell| cell.len() > HEAD_MAX_BYTES)
    {
        return false;
    }
    let values: Vec<CellValueKind> = cells.iter().map(|cell| CellValueKind::from_cell(cell)).collect();
    let numbers: Vec<&str> = cells
        .iter()
        .zip(&values)
        .filter(|(_, value)| **value != CellValueKind::Text)
        .map(|(cell, _)| *cell)
        .collect();
    if numbers.is_empty() {
        return true;
    }
    if values.iter().all(|value| matches!(value, CellValueKind::Text | CellValueKind::Date)) {
        return numbers.windows(2).all(|pair| pair[0] < pair[1])
            || numbers.windows(2).all(|pair| pair[0] > pair[1]);
    }
    let counted: Option<Vec<i64>> = numbers.iter().map(|number| number.parse().ok()).collect();
    counted.is_some_and(|counted| {
        counted.len() >= 3
            && counted
                .windows(2)
                .all(|pair| pair[1] > pair[0] && pair[1] - pair[0] == counted[1] - counted[0])
    })
}

/// Returns the cells of a row, each without surrounding spaces.
pub(super) fn split_cells(row: &str) -> Vec<&str> {
    row.split('\t').map(str::trim).collect()
}

fn count_filled_cells(row: &[&str]) -> usize {
    row.iter().filter(|cell| !cell.is_empty()).count()
}

/// Returns true for a placeholder of a value.
fn is_missing_mark(cell: &str) -> bool {
    matches!(
        cell,
        "-" | "–" | "—" | "." | ".." | "..." | "…" | ":" | "x" | "n/a" | "N/A" | "NA" | "n. a." | "*"
    )
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CellValueKind {
    Missing,
    Text,
    Figure,
    /// A year or a date.
    Date,
}

impl CellValueKind {
    fn from_cell(cell: &str) -> Self {
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

/// Returns true for a year or a date.
fn is_date(cell: &str) -> bool {
    if cell.len() == 4 && cell.parse().is_ok_and(|year| YEARS.contains(&year)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of_sheet(text: &str) -> RowBlock {
        RowBlock::from_text(text, false)
    }

    fn own_heading_lines(text: &str) -> Option<Range<usize>> {
        match of_sheet(text) {
            RowBlock::Table { own, .. } => Some(own),
            _ => None,
        }
    }

    #[test]
    fn sheet_headings_detected_above_figures() {
        for (heads, text) in [
            (0..1, "Country\tPopulation\tArea\nNorway\t5 400 000\t385,207\nSweden\t10 500 000\t450,295"),
            (0..1, "Country\t2019\t2020\t2021\nNorway\t5.3\t5.4\t5.4\nSweden\t10.2\t10.3\t10.4"),
            (0..1, "\t2024-01-01\t2024-02-01\nRent\t900\t950\nWater\t30\t35"),
            (0..2, "Table 1: Births (thousands)\nRegion\tBoys\tGirls\nNorth\t1.5\t1.4"),
            (
                0..2,
                "Region\t2019\t\t2020\t\n\tBoys\tGirls\tBoys\tGirls\nNorth\t1\t2\t3\t4\nSouth\t2\t2\t2\t2",
            ),
            (0..2, "Region\tBoys\tGirls\n\t(thousands)\t(%)\nNorth\t1\t2\nSouth\t3\t4"),
            (0..1, "Age\t0\t1\t2\t3\nNorth\t11\t12\t13\t15\nSouth\t21\t22\t23\t29"),
            (0..1, "Class\tTeacher\tRoom\nA\tSmith\tHall B\nB\tJones\tHall C"),
        ] {
            assert_eq!(own_heading_lines(text), Some(heads), "{text}");
        }
    }

    #[test]
    fn rows_of_data_are_no_headings() {
        for text in [
            "Rent\t900\nDeposit\t1800\nNotice\t3",
            "Tenant\tJan Novák\nRent\t900\nStreet\tDlouhá\nDeposit\t1800",
            "Tenant:\tJan Novák\tborn\nRent:\t900\t\nDeposit:\t1800\t",
            "Olympics\tLondon\t2012\nOlympics\tRio\t2016",
            "Norway\tOslo\t5.4\nSweden\tStockholm\t10.4",
            "a.b\tA first sentence.\tAnother one.\nc.d\tA sentence.\tAnd one more.\ne\tText.\tText.",
        ] {
            assert!(matches!(of_sheet(text), RowBlock::Rows { .. }), "{text}: {:?}", of_sheet(text));
        }
    }

    #[test]
    fn mark_headings_waits_for_rows() {
        assert_eq!(of_sheet("Table 1: Births"), RowBlock::Heads { is_full: false });
        assert_eq!(of_sheet("Region\tBoys\tGirls"), RowBlock::Heads { is_full: true });
        assert_eq!(of_sheet(&"A long note. ".repeat(20)), RowBlock::Text);
        let segment = |text: &str, first: u32| DocumentSegment {
            page: Some(1),
            lines: Some((first, first + text.lines().count() as u32 - 1)),
            heading: None,
            text: text.to_owned(),
            inner: None,
            columns: None,
        };
        let mut segments = [
            segment("Births", 1),
            segment("Region\tBoys", 3),
            segment("North\t15\nSouth\t20", 5),
            segment("Isles\t3", 9),
            segment("Source: the office", 11),
        ];
        mark_headings(&mut segments, false);
        let marked: Vec<_> = segments
            .iter()
            .map(|segment| segment.columns.as_ref().map(|columns| (&*columns.rows, columns.own.clone())))
            .collect();
        let rows = "Births\nRegion\tBoys";
        assert_eq!(
            marked,
            [Some((rows, 0..1)), Some((rows, 0..1)), Some((rows, 0..0)), Some((rows, 0..0)), None]
        );
    }

    #[test]
    fn split_tables_separates_paragraphs() {
        let text = "Births in the north.\nRegion\tBoys\tGirls\nNorth\t1\t2\nSouth\t3\t4\nAfter it.";
        let segment = DocumentSegment {
            page: None,
            lines: Some((11, 15)),
            heading: None,
            text: text.to_owned(),
            inner: None,
            columns: None,
        };
        let parts = split_tables(&segment);
        let shown: Vec<_> = parts
            .iter()
            .map(|part| {
                (part.lines, part.columns.as_ref().map(|columns| (&*columns.rows, columns.own.clone())))
            })
            .collect();
        assert_eq!(
            shown,
            [
                (Some((11, 11)), None),
                (Some((12, 14)), Some(("Region\tBoys\tGirls", 0..1))),
                (Some((15, 15)), None)
            ]
        );
        let stub = text.replace("Region\t", "");
        let parts = split_tables(&DocumentSegment { text: stub, ..segment.clone() });
        assert_eq!(&*parts[1].columns.as_ref().unwrap().rows, "\tBoys\tGirls");
        for none in [text.replace("North\t1\t2", "North\t1"), text.replace('\t', " ")] {
            assert!(split_tables(&DocumentSegment { text: none, ..segment.clone() }).is_empty());
        }
    }

    #[test]
    fn mark_headings_delimited_first_row() {
        for text in ["name,mail\nAnna,a@b.cz\n", "year,population\n2019,5\n2020,6\n"] {
            let text = text.replace(',', "\t");
            assert!(
                matches!(
                    RowBlock::from_text(&text, true),
                    RowBlock::Table { own: Range { start: 0, end: 1 }, .. }
                ),
                "{text}"
            );
        }
    }
}
