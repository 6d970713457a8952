//! Sheets of workbooks as tables: the machine reads a row as a line whose cells are separated by tabs.

use super::passage::MarkedText;
use super::table::{COLUMNS_MAX, ROWS_MAX};

/// A sheet.
pub(super) struct Sheet {
    pub(super) rows: Vec<SheetRow>,
    /// True if rows or columns are left out.
    pub(super) is_cut: bool,
}

/// A row that is not empty.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SheetRow {
    pub(super) cells: Vec<String>,
    /// True if the cited passage stands in it.
    pub(super) is_cited: bool,
    /// True of the first row in which it stands.
    pub(super) is_first_cited: bool,
}

impl Sheet {
    /// Splits the text of a sheet.
    pub(super) fn of(text: &MarkedText) -> Self {
        let whole = format!("{}{}{}", text.before, text.marked, text.after);
        let marked = text.before.len()..text.before.len() + text.marked.len();
        let mut sheet = Self { rows: Vec::new(), is_cut: false };
        let mut start = 0;
        for line in whole.split_inclusive('\n') {
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

    /// Removes a first row that is a heading alone, which the page has already.
    pub(super) fn without_heading(mut self, heading: &str) -> Self {
        if self.rows.first().is_some_and(|row| row.cells == [heading] && !row.is_cited) {
            self.rows.remove(0);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_with_the_passage_are_marked() {
        let text = "Unit\tRent\r\nUnit 1\t31500\n\nUnit 2\t27200\nUnit 3\t0\n".to_owned();
        let sheet = Sheet::of(&MarkedText::mark(text, "31500 Unit 2 27200"));
        let rows: Vec<_> = sheet.rows.iter().map(|row| (row.cells.join("|"), row.is_cited)).collect();
        let expected =
            [("Unit|Rent", false), ("Unit 1|31500", true), ("Unit 2|27200", true), ("Unit 3|0", false)];
        assert_eq!(rows, expected.map(|(cells, is_cited)| (cells.to_owned(), is_cited)));
        let first: Vec<_> = sheet.rows.iter().map(|row| row.is_first_cited).collect();
        assert_eq!(first, [false, true, false, false]);
        let headed = Sheet::of(&MarkedText::plain("a.xlsx\n\nUnit\tRent\n".to_owned()));
        assert_eq!(headed.without_heading("a.xlsx").rows.len(), 1);
        let unmarked = Sheet::of(&MarkedText::plain("a\tb\nc\td".to_owned()));
        assert!(unmarked.rows.len() == 2 && unmarked.rows.iter().all(|row| !row.is_cited));
    }

    #[test]
    fn a_large_sheet_is_cut() {
        let sheet = |text: String| Sheet::of(&MarkedText::plain(text));
        let long = sheet("a\tb\n".repeat(ROWS_MAX + 1));
        assert!(long.is_cut && long.rows.len() == ROWS_MAX);
        assert!(!sheet("a\tb\n".repeat(ROWS_MAX)).is_cut);
        let wide = sheet("a\t".repeat(COLUMNS_MAX));
        assert!(wide.is_cut && wide.rows[0].cells.len() == COLUMNS_MAX);
    }
}
