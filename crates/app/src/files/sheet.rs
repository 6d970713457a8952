//! Sheets of workbooks as tables: the machine reads a row as a line whose cells are separated by tabs.

use std::ops::Range;

use super::passage::MarkedText;
use super::table::{COLUMNS_MAX, ROWS_MAX};

pub(super) struct SheetView {
    /// The name, if the page has several sheets.
    pub(super) name: Option<String>,
    pub(super) rows: Vec<SheetRow>,
    /// True if rows or columns are left out.
    pub(super) is_cut: bool,
}

/// A row that is not empty.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SheetRow {
    pub(super) cells: Vec<String>,
    /// True if it contains the cited passage.
    pub(super) is_cited: bool,
    /// True for the first row that contains the cited passage.
    pub(super) is_first_cited: bool,
}

impl SheetView {
    /// Splits the text of a sheet.
    pub(super) fn from_text(text: &MarkedText) -> Self {
        let (whole, marked) = whole_text(text);
        Self::of_part(&whole, 0..whole.len(), &marked, None)
    }

    /// Splits the text of a workbook's sheets, which begin at these places with these names. A preceding row
    /// that only repeats the heading, which the page already has, is left out.
    pub(super) fn all_of(text: &MarkedText, starts: &[(usize, String)], heading: &str) -> Vec<Self> {
        let (whole, marked) = whole_text(text);
        let ends = starts.iter().map(|(start, _)| *start).chain([whole.len()]);
        let begins =
            std::iter::once((0, None)).chain(starts.iter().map(|(start, name)| (*start, Some(name))));
        let mut sheets: Vec<_> = begins
            .zip(ends)
            .map(|((start, name), end)| Self::of_part(&whole, start..end, &marked, name.cloned()))
            .collect();
        let first = &mut sheets[0];
        if first.rows.first().is_some_and(|row| row.cells == [heading] && !row.is_cited) {
            first.rows.remove(0);
        }
        sheets.retain(|sheet| !sheet.rows.is_empty());
        let rows = sheets.iter_mut().flat_map(|sheet| &mut sheet.rows);
        rows.filter(|row| row.is_cited).skip(1).for_each(|row| row.is_first_cited = false);
        sheets
    }

    fn of_part(whole: &str, part: Range<usize>, marked: &Range<usize>, name: Option<String>) -> Self {
        let mut sheet = Self { name, rows: Vec::new(), is_cut: false };
        let mut start = part.start;
        for line in whole[part].split_inclusive('\n') {
            let end = start + line.len();
            let is_cited = start < marked.end && marked.start < end;
            start = end;
            if line.trim().is_empty() {
                continue;
            }
            if sheet.rows.len() == ROWS_MAX {
                sheet.is_cut = true;
                break;
            }
            let mut cells: Vec<_> =
                line.trim_end_matches(['\n', '\r']).split('\t').map(str::to_owned).collect();
            sheet.is_cut |= cells.len() > COLUMNS_MAX;
            cells.truncate(COLUMNS_MAX);
            let is_first_cited = is_cited && !sheet.rows.iter().any(|row| row.is_cited);
            sheet.rows.push(SheetRow { cells, is_cited, is_first_cited });
        }
        sheet
    }
}

/// Returns a text as a whole, and where it is marked.
fn whole_text(text: &MarkedText) -> (String, Range<usize>) {
    let whole = format!("{}{}{}", text.before, text.marked, text.after);
    (whole, text.before.len()..text.before.len() + text.marked.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_with_the_passage_are_marked() {
        let text = "Unit\tRent\r\nUnit 1\t31500\n\nUnit 2\t27200\nUnit 3\t0\n".to_owned();
        let sheet = SheetView::from_text(&MarkedText::with_passage(text, "31500 Unit 2 27200"));
        let rows: Vec<_> = sheet.rows.iter().map(|row| (row.cells.join("|"), row.is_cited)).collect();
        let expected =
            [("Unit|Rent", false), ("Unit 1|31500", true), ("Unit 2|27200", true), ("Unit 3|0", false)];
        assert_eq!(rows, expected.map(|(cells, is_cited)| (cells.to_owned(), is_cited)));
        let first: Vec<_> = sheet.rows.iter().map(|row| row.is_first_cited).collect();
        assert_eq!(first, [false, true, false, false]);
        let unmarked = SheetView::from_text(&MarkedText::without_mark("a\tb\nc\td".to_owned()));
        assert!(unmarked.rows.len() == 2 && unmarked.rows.iter().all(|row| !row.is_cited));
    }

    #[test]
    fn workbook_sheets_keep_names() {
        let text = "a.xlsx\n\nUnit\n7\n\nUnit\tRent\n7\t31500\n".to_owned();
        let starts = [(8, "Flats".to_owned()), (16, "Rent".to_owned())];
        let shown = |text: &MarkedText, starts: &[(usize, String)]| -> Vec<_> {
            let cells = |row: &SheetRow| {
                let mark = if row.is_first_cited { "!" } else { "" };
                format!("{mark}{}", row.cells.join("|"))
            };
            let sheets = SheetView::all_of(text, starts, "a.xlsx").into_iter();
            sheets
                .map(|sheet| (sheet.name, sheet.rows.iter().map(cells).collect::<Vec<_>>().join(" ")))
                .collect()
        };
        let named = |name: &str, rows: &str| (Some(name.to_owned()), rows.to_owned());
        let plain = MarkedText::without_mark(text.clone());
        assert_eq!(shown(&plain, &starts), [named("Flats", "Unit 7"), named("Rent", "Unit|Rent 7|31500")]);
        assert_eq!(
            shown(&plain, &[]),
            [(None, "Unit 7 Unit|Rent 7|31500".to_owned())],
            "of an earlier agent"
        );
        let marked = MarkedText::with_passage(text, "7 Unit Rent 7 31500");
        assert_eq!(shown(&marked, &starts), [named("Flats", "Unit !7"), named("Rent", "Unit|Rent 7|31500")]);
        assert!(shown(&MarkedText::default(), &[]).is_empty());
    }

    #[test]
    fn a_large_sheet_is_cut() {
        let sheet = |text: String| SheetView::from_text(&MarkedText::without_mark(text));
        let long = sheet("a\tb\n".repeat(ROWS_MAX + 1));
        assert!(long.is_cut && long.rows.len() == ROWS_MAX);
        assert!(!sheet("a\tb\n".repeat(ROWS_MAX)).is_cut);
        let wide = sheet("a\t".repeat(COLUMNS_MAX));
        assert!(wide.is_cut && wide.rows[0].cells.len() == COLUMNS_MAX);
    }
}
