//! Recognizes the rows of headings above the rows of a table by what is below them.

use std::collections::HashSet;
use std::ops::Range;

use super::cell_value::{CellValueKind, count_filled_cells, is_missing_mark, is_year, split_cells};

/// The rows of a table by which its headings are found.
pub(super) const SAMPLE_ROWS: usize = 60;
/// The most titles above the headings of a table, and the longest title, in bytes.
pub(super) const TITLES_MAX: usize = 4;
pub(super) const TITLE_MAX_BYTES: usize = 160;
/// The most rows of headings, and the longest heading of a column that is carried whole, in bytes.
const HEADS_MAX: usize = 6;
pub(super) const HEAD_MAX_BYTES: usize = 200;
/// The most rows of names and notes at the beginning of a table among which its headings are looked for.
const NOTES_MAX: usize = 12;
/// The minimum share of a column's values that are figures, if it is one of figures.
const FIGURES_MIN: f64 = 0.6;
/// The same in a table of two columns, which may be a list of names and values without headings.
const FIGURES_OF_PAIRS_MIN: f64 = 0.9;
/// The minimum share of the columns that have a heading, above figures and above text.
const HEADED_MIN: f64 = 0.5;
const HEADED_TEXT_MIN: f64 = 0.8;
/// The minimum share of the columns that have a heading, if rows above the headings are notes.
const HEADED_BELOW_NOTES_MIN: f64 = 0.9;
/// The fewest rows below the headings of a sheet that has no figures.
pub(super) const TEXT_ROWS_MIN: usize = 2;
/// The fewest headings that are numbers with different steps, as the years of which there are figures.
const RISING_MIN: usize = 5;
/// The fewest names of a row that has a few numbers, too, and their minimum share of its cells.
const NAMES_MIN: usize = 5;
const NAMES_SHARE_MIN: f64 = 0.8;
/// The names of a row by which it is known whether they are above figures.
const NAMES_SAMPLE: usize = 64;
/// The largest share of long texts among the headings of a row.
const LONG_MAX: f64 = 0.25;

/// Consecutive rows of a sheet.
#[derive(Debug, PartialEq)]
pub(super) enum RowBlock {
    /// Headings in these lines, with what they are above.
    Table {
        own: Range<usize>,
        width: usize,
        /// The headings are above figures, and this is the share of the columns that have one.
        headed_figures: Option<f64>,
    },
    /// Titles, or headings too if it is full, of what follows.
    Heads { is_full: bool },
    /// Rows without headings of their own.
    Rows { width: usize },
    /// Lines of one cell.
    Text,
}

impl RowBlock {
    pub(super) fn from_text(text: &str, is_delimited: bool) -> Self {
        let rows: Vec<Vec<&str>> = text.lines().take(SAMPLE_ROWS).map(split_cells).collect();
        Self::from_rows(&rows, is_delimited)
    }

    pub(super) fn from_rows(rows: &[Vec<&str>], is_delimited: bool) -> Self {
        let width = rows.iter().map(Vec::len).max().unwrap_or(0);
        if rows.iter().all(|row| count_filled_cells(row) <= 1) {
            let is_short = rows.len() <= TITLES_MAX && rows.iter().all(|row| is_short_row(row));
            return if is_short { Self::Heads { is_full: false } } else { Self::Text };
        }
        match find_heading_rows(rows, is_delimited) {
            None => Self::Rows { width },
            Some(found) if found.rows.end == rows.len() => Self::Heads { is_full: true },
            Some(FoundHeads { rows: Range { start, end }, headed, is_above_figures }) => {
                let titles = count_titles_before(rows, start);
                let headed_figures = is_above_figures.then_some(headed);
                Self::Table { own: start - titles..end, width, headed_figures }
            }
        }
    }
}

/// Returns the number of titles, rows of one short cell, directly before a row.
pub(super) fn count_titles_before(rows: &[Vec<&str>], before: usize) -> usize {
    let above = rows[..before].iter().rev().take(TITLES_MAX);
    above.take_while(|row| count_filled_cells(row) == 1 && is_short_row(row)).count()
}

fn is_short_row(row: &[&str]) -> bool {
    row.iter().map(|cell| cell.len()).sum::<usize>() <= TITLE_MAX_BYTES
}

/// Rows of headings.
#[derive(Debug)]
struct FoundHeads {
    rows: Range<usize>,
    /// The share of the columns that have a heading.
    headed: f64,
    is_above_figures: bool,
}

/// Finds the rows of headings in a table. Rows above the last names before the figures are notes if those name all columns.
fn find_heading_rows(rows: &[Vec<&str>], is_delimited: bool) -> Option<FoundHeads> {
    let first = rows.iter().position(|row| count_filled_cells(row) > 1)?;
    let found_at = |start: usize| {
        let (count, headed, is_above_figures) = match_heading_rows(&rows[start..], is_delimited)?;
        Some(FoundHeads { rows: start..start + count, headed, is_above_figures })
    };
    let mut best = found_at(first);
    let is_label = |at: usize| is_label_row(&rows[at], &rows[at + 1..]);
    let widest = rows.iter().map(|row| count_filled_cells(row)).max().unwrap_or(0);
    let is_note = |at: &usize| is_label(*at) || count_filled_cells(&rows[*at]) * 2 <= widest;
    let has_data = (first..rows.len().min(first + NOTES_MAX + HEADS_MAX)).any(|at| !is_label(at));
    let notes = (first..rows.len().min(first + NOTES_MAX)).take_while(is_note).count();
    let notes = if has_data { notes } else { 0 };
    for start in first + 1..first + notes {
        let Some(found) = found_at(start) else { continue };
        let is_last = found.rows.end < rows.len() && !is_label(found.rows.end);
        // Notes may fill all columns together, which the names do in fewer rows.
        let is_patchwork = |best: &FoundHeads| {
            let is_text = |cell: &&str| matches!(CellValueKind::from_cell(cell), CellValueKind::Text);
            let is_of_names = rows[start].iter().filter(|cell| !cell.is_empty()).all(is_text);
            is_of_names
                && best.rows.len() > found.rows.len()
                && best.rows.end < rows.len()
                && is_label(best.rows.end)
        };
        let is_better = best.as_ref().is_none_or(|best| {
            found.headed > best.headed || found.headed >= best.headed && is_patchwork(best)
        });
        if found.is_above_figures && is_last && is_better && found.headed >= HEADED_BELOW_NOTES_MIN {
            best = Some(found);
        }
    }
    let mut found = best?;
    found.rows.start += count_notes(&rows[found.rows.clone()]);
    // Values that a character separates have no merged cells: one alone belongs to its column.
    let belongs_to_column = |row: &Vec<&str>| count_filled_cells(row) == 1 && row[0].is_empty();
    while is_delimited
        && found.rows.start > 0
        && found.rows.len() < HEADS_MAX
        && belongs_to_column(&rows[found.rows.start - 1])
    {
        found.rows.start -= 1;
    }
    Some(found)
}

/// Returns the number of rows at the beginning of rows of headings that are notes: those below name each of the columns, and what
/// they are about.
fn count_notes(heads: &[Vec<&str>]) -> usize {
    let has = |rows: &[Vec<&str>], column: usize| {
        rows.iter().any(|row| row.get(column).is_some_and(|cell| !cell.is_empty()))
    };
    let is_note = |at: usize| {
        let (row, below) = (&heads[at], &heads[at + 1..]);
        let names: Vec<&str> = below.concat().into_iter().filter(|name| !name.is_empty()).collect();
        let distinct: HashSet<&str> = names.iter().copied().collect();
        distinct.len() == names.len()
            && row.iter().all(|cell| cell.is_empty() || CellValueKind::from_cell(cell) == CellValueKind::Text)
            && row.first().is_some_and(|cell| !cell.is_empty())
            && (0..row.len()).all(|column| row[column].is_empty() || has(below, column))
            && has(below, 0)
    };
    (0..heads.len().saturating_sub(1)).take_while(|at| is_note(*at)).count()
}

/// Returns the number of rows of headings at the beginning of a table's rows.
pub(super) fn count_heading_rows(rows: &[Vec<&str>], is_delimited: bool) -> Option<usize> {
    match_heading_rows(rows, is_delimited).map(|(count, ..)| count)
}

/// Returns the number of rows of headings at the beginning of a table's rows, the share of the columns that have one, and whether
/// they are above figures.
fn match_heading_rows(rows: &[Vec<&str>], is_delimited: bool) -> Option<(usize, f64, bool)> {
    let first = rows.first().filter(|row| count_filled_cells(row) > 1 && is_label_row(row, &rows[1..]))?;
    let mut count = 1;
    while count < HEADS_MAX
        && rows.get(count).is_some_and(|next| is_further(&rows[..count], next, &rows[count + 1..]))
    {
        count += 1;
    }
    let (heads, data) = rows.split_at(count);
    if data.is_empty() {
        return (count < HEADS_MAX).then_some((count, 1.0, false));
    }
    let data = &data[..data.len().min(SAMPLE_ROWS)];
    let width = data.iter().chain(heads).map(Vec::len).max().unwrap_or(0);
    let columns = (0..width).map(|column| ColumnProfile::from_rows(heads, data, column)).collect::<Vec<_>>();
    let used = columns.iter().filter(|column| column.values > 0).count();
    let headed = columns.iter().filter(|column| column.values > 0 && column.is_headed).count();
    // Years above years are no headings. Among figures some may look like years.
    let below_dates = columns.iter().filter(|column| column.date_above);
    let of_dates =
        below_dates.clone().filter(|column| column.share_of_values(column.dates) > HEADED_MIN).count();
    if of_dates > 0 && share_of(of_dates, below_dates.count()) > HEADED_MIN {
        return None;
    }
    let figures_min = if used <= 2 && !is_delimited { FIGURES_OF_PAIRS_MIN } else { FIGURES_MIN };
    let of_figures = columns
        .iter()
        .any(|column| column.is_headed && column.share_of_values(column.figures) >= figures_min);
    let share = share_of(headed, used);
    let named = share_of(columns.iter().filter(|column| column.values > 0 && column.is_named).count(), used);
    if of_figures && (used > 2 || is_delimited || data.len() >= TEXT_ROWS_MIN) {
        return (share >= HEADED_MIN).then_some((count, named, true));
    }
    let is_names = count == 1
        && first.iter().enumerate().all(|(at, cell)| {
            !cell.ends_with(['.', ';', '!']) && !first[..at].contains(cell) || cell.is_empty()
        })
        && !columns.iter().any(|column| column.repeats)
        && (is_delimited || used > 2 && data.len() >= TEXT_ROWS_MIN);
    (is_names && share >= HEADED_TEXT_MIN).then_some((count, named, false))
}

/// A column below the rows of headings.
#[derive(Default)]
struct ColumnProfile {
    is_headed: bool,
    /// It has a heading of its own.
    is_named: bool,
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
            is_named: !names.is_empty(),
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

pub(super) fn share_of(part: usize, of: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a few dozen rows and columns")]
    let share = part as f64 / of.max(1) as f64;
    share
}

/// Returns true if a row below headings continues them: it fills columns that they leave empty, or has the units.
fn is_further(heads: &[Vec<&str>], next: &[&str], below: &[Vec<&str>]) -> bool {
    if count_filled_cells(next) < 2 || !is_label_row(next, below) {
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
    let is_first_empty = next.first().is_none_or(|cell| cell.is_empty());
    // Only a row of names above figures names the first column last: others are data of a column without a name.
    let names_first = !is_first_empty && !has(0) && is_above_figures(next, below);
    fills || is_first_empty && has(0) || names_first
}

/// Returns true if most names of a row after the first are above columns of figures.
fn is_above_figures(row: &[&str], below: &[Vec<&str>]) -> bool {
    let below = &below[..below.len().min(SAMPLE_ROWS)];
    let named = |column: &usize| !row[*column].is_empty();
    let of_figures = |column: &usize| {
        let profile = ColumnProfile::from_rows(&[], below, *column);
        profile.share_of_values(profile.figures) >= FIGURES_MIN
    };
    let names: Vec<usize> = (1..row.len()).filter(named).take(NAMES_SAMPLE).collect();
    !names.is_empty()
        && share_of(names.iter().filter(|column| of_figures(column)).count(), names.len()) > HEADED_MIN
}

/// Returns true for a row of names, or of years, dates or numbers that count up: `Country`, `2019`, `2020`.
fn is_label_row(row: &[&str], below: &[Vec<&str>]) -> bool {
    let cells: Vec<&str> = row.iter().copied().filter(|cell| !cell.is_empty()).collect();
    let long = cells.iter().filter(|cell| cell.len() > HEAD_MAX_BYTES).count();
    if cells.is_empty() || share_of(long, cells.len()) > LONG_MAX {
        return false;
    }
    // A single mark of a missing value is a name: `*`, `x`.
    let marks = cells.iter().filter(|cell| is_missing_mark(cell)).count();
    let kind = |cell: &str| match CellValueKind::from_cell(cell) {
        CellValueKind::Missing if marks == 1 && matches!(cell, "*" | "x") => CellValueKind::Text,
        kind => kind,
    };
    let values: Vec<CellValueKind> = cells.iter().map(|cell| kind(cell)).collect();
    let numbers: Vec<&str> = cells
        .iter()
        .zip(&values)
        .filter(|(_, value)| **value != CellValueKind::Text)
        .map(|(cell, _)| *cell)
        .collect();
    // A name before a colon has its value beside it, not below.
    if cells[0].ends_with(':') && numbers.len() < 2 {
        return false;
    }
    if numbers.is_empty() {
        return true;
    }
    if values.iter().all(|value| matches!(value, CellValueKind::Text | CellValueKind::Date))
        && (numbers.windows(2).all(|pair| pair[0] < pair[1])
            || numbers.windows(2).all(|pair| pair[0] > pair[1]))
    {
        return true;
    }
    let names = cells.len() - numbers.len();
    if names >= NAMES_MIN
        && share_of(names, cells.len()) >= NAMES_SHARE_MIN
        && !values.contains(&CellValueKind::Missing)
        && is_above_figures(row, below)
    {
        return true;
    }
    let is_counted = |counted: &[i64]| {
        counted.len() >= 3
            && counted
                .windows(2)
                .all(|pair| pair[1] > pair[0] && pair[1] - pair[0] == counted[1] - counted[0])
    };
    rising_numbers(&cells).is_some_and(|rising| {
        rising.len() == numbers.len()
            && (is_counted(&rising) || rising.len() >= RISING_MIN && !has_rising_rows(&rising, below))
    })
}

/// Returns the whole numbers of a row if they rise.
fn rising_numbers(cells: &[&str]) -> Option<Vec<i64>> {
    let numbers: Vec<i64> = cells.iter().filter_map(|cell| cell.parse().ok()).collect();
    numbers.windows(2).all(|pair| pair[0] < pair[1]).then_some(numbers)
}

/// Returns true if rows below rising numbers are like them, so that these are figures. Those that rise to a year of recent times
/// count as headings unless the rows below do as well.
fn has_rising_rows(rising: &[i64], below: &[Vec<&str>]) -> bool {
    let is_to_year = |numbers: &[i64]| numbers.last().is_some_and(|last| is_year(*last));
    let to_year = is_to_year(rising);
    let is_like = |row: &&Vec<&str>| {
        rising_numbers(row)
            .is_some_and(|numbers| numbers.len() >= RISING_MIN && (!to_year || is_to_year(&numbers)))
    };
    let below = &below[..below.len().min(SAMPLE_ROWS)];
    below.is_empty() || below.iter().filter(is_like).count() * 2 > below.len()
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
            // A name may be a mark that stands for a missing value elsewhere.
            (0..1, "Player\tPoints\t*\nAnna\t15\t3\nEve\t20\t4"),
            (0..1, "x\ty\n1\t2\n3\t5"),
            // The last row names the first column.
            (
                0..2,
                "\tWeighted\tStudent\t\nCountry\tresponse\trate\tall\nNorway\t95\t93\t90\nSweden\t98\t97\t91",
            ),
            // Years before 1800, with different steps.
            (
                0..1,
                "Area\tSource\t1\t1000\t1500\t1700\t1820\t2010\nNorway\tA\t400\t420\t610\t722\t801\t41000\n\
                 Sweden\tB\t400\t410.5\t610\t700\t819\t39000",
            ),
            (0..1, "Servers in:\t2007\t2008\nClosets\t1,505\t1,580\nRooms\t1,512\t1,586"),
            // A few figures stand beside the names.
            (0..1, "Player\tPG\tSG\tSF\tPF\tTotal\t1.17\nAnna\t1\t2\t3\t4\t10\t5\nEve\t2\t2\t2\t2\t8\t6"),
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
            // Figures that rise in each row.
            "1\t100\t200\n2\t101\t201\n3\t102\t202",
            "1\t4\t9\t17\t26\n2\t5\t11\t19\t31\n3\t8\t12\t22\t40",
            "1850\t1855\t1861\t1870\t1899\n1851\t1853\t1862\t1877\t1901\n1830\t1845\t1860\t1871\t1880",
            "a.b\tA first sentence.\tAnother one.\nc.d\tA sentence.\tAnd one more.\ne\tText.\tText.",
        ] {
            assert!(matches!(of_sheet(text), RowBlock::Rows { .. }), "{text}: {:?}", of_sheet(text));
        }
    }

    #[test]
    fn lone_rows_wait_as_titles() {
        assert_eq!(of_sheet("Table 1: Births"), RowBlock::Heads { is_full: false });
        assert_eq!(of_sheet("Region\tBoys\tGirls"), RowBlock::Heads { is_full: true });
        assert_eq!(of_sheet(&"A long note. ".repeat(20)), RowBlock::Text);
    }

    #[test]
    fn notes_above_headings_are_none() {
        let table = "Name\tWork\tAge\tBorn\nAnna\tactor\t69\t1947-01-08\nEve\twriter\t60\t1956-10-21\nIda\tpainter\t51\t1965-01-02";
        for (notes, titles) in [
            ("Many people", 1),
            ("Many people\nwrite\t\t\tnotes\nat\tthe\ttop\nor\tmerge\t\tcells", 0),
            ("For the sake\n\tof order\t\tin the\nwhich\t\tis\tfine\nI will\tnot", 0),
            ("#NAME?\t#NAME?\nDataset: people", 1),
        ] {
            let at = notes.lines().count();
            assert_eq!(own_heading_lines(&format!("{notes}\n{table}")), Some(at - titles..at + 1), "{notes}");
        }
        let export = "#NAME?\t#NAME?\t#NAME?\nDataset: people\nSense\t\t\t0 - 6\t7 - 10\nSex\tAge\tSchool\n\
                      Male\tyoung\tnone\t12\t37\n\t\tsome\t30\t190\n\told\tnone\t9\t11";
        assert_eq!(own_heading_lines(export), Some(1..4));
    }

    #[test]
    fn long_heading_does_not_hide_others() {
        let long = "how the estimates were made ".repeat(20);
        let text = format!("Area\t{long}\t2009\t2010\nNorway\tA\t400\t420\nSweden\tB\t401\t433");
        assert_eq!(own_heading_lines(&text), Some(0..1));
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
