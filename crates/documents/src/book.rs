//! Collects the sheets of a workbook within the bounds: rows as lines with their numbers, below the names of the columns.

use std::borrow::Cow;
use std::collections::HashSet;

use encoding_rs::WINDOWS_1252;

use super::archive::ZipReader;
use super::embedded_images::{LISTED_MAX, retain_recognizable};
use super::{
    DocumentFormat, DocumentSegment, EmbeddedImage, Extracted, OUTPUT_MAX_BYTES, PAGES_MAX, columns,
};

/// The maximum number of columns of a row.
pub(super) const COLUMNS_MAX: u32 = 2048;
/// The maximum text of a cell, in bytes: the 32,767 characters that a cell of Excel may have.
pub(super) const CELL_MAX_BYTES: usize = 128 * 1024;
/// The maximum length of the context (the sheet's name and columns), in bytes.
pub(super) const HEADING_MAX_BYTES: usize = 200;

/// Collects the sheets of a workbook within the bounds.
#[derive(Default)]
pub(super) struct WorkbookWriter {
    segments: Vec<DocumentSegment>,
    sheets: u32,
    name: String,
    columns: Option<String>,
    rows: String,
    first_row: u32,
    last_row: u32,
    row: String,
    row_number: u32,
    next_column: u32,
    bytes: usize,
    /// True if nothing more is read.
    pub(super) truncated: bool,
    /// True if some of the content was left out.
    pub(super) left_out: bool,
    /// The letters of the upper half of the code page, if the reader decoded its bytes as Windows' letters.
    pub(super) letters: Option<&'static str>,
    images: Vec<EmbeddedImage>,
    /// The parts of the images.
    image_parts: HashSet<String>,
}

impl WorkbookWriter {
    /// Begins a sheet. Returns `false` when no more is read.
    pub(super) fn begin_sheet(&mut self, name: &str) -> bool {
        self.end_segment();
        if self.truncated || self.sheets >= PAGES_MAX {
            self.truncated = true;
            return false;
        }
        self.sheets += 1;
        let name = &*self.in_letters(name);
        self.name = name[..name.floor_char_boundary(name.len().min(HEADING_MAX_BYTES))]
            .replace(char::is_control, " ");
        self.columns = None;
        true
    }

    /// Adds a cell by its row and column from 0, in reading order. Returns `false` when no more is read.
    pub(super) fn add_cell(&mut self, row: u32, column: u32, value: &str) -> bool {
        let value = &*self.in_letters(value);
        let value = value.trim();
        // A damaged workbook may have cells outside of its sheets.
        if self.truncated || value.is_empty() || self.sheets == 0 {
            return !self.truncated;
        }
        if column >= COLUMNS_MAX {
            self.left_out = true;
            return !self.truncated;
        }
        let number = row.saturating_add(1);
        if number != self.row_number {
            self.end_row();
            self.row_number = number;
        }
        let fitting = &value[..value.floor_char_boundary(value.len().min(CELL_MAX_BYTES))];
        self.left_out |= fitting.len() < value.len();
        let tabs = column.saturating_sub(self.next_column) as usize;
        if self.bytes + self.row.len() + tabs + fitting.len() >= OUTPUT_MAX_BYTES {
            self.truncated = true;
            return false;
        }
        // The number of preceding tabs shows the column.
        for _ in self.next_column..column {
            self.row.push('\t');
        }
        self.next_column = column.max(self.next_column);
        self.row.extend(fitting.chars().map(|c| if c.is_control() || c.is_whitespace() { ' ' } else { c }));
        !self.truncated
    }

    /// Returns a text in the letters of the code page.
    fn in_letters<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(letters) = self.letters.filter(|_| !text.is_ascii()) else { return Cow::Borrowed(text) };
        let bytes = WINDOWS_1252.encode(text).0;
        let letter = |byte: &u8| match byte.checked_sub(0x80) {
            Some(upper) => letters.chars().nth(usize::from(upper)).unwrap_or(char::REPLACEMENT_CHARACTER),
            None => char::from(*byte),
        };
        Cow::Owned(bytes.iter().map(letter).collect())
    }

    fn end_row(&mut self) {
        let row = std::mem::take(&mut self.row);
        self.next_column = 0;
        let row = row.trim_end();
        if row.is_empty() {
            return;
        }
        // Empty rows separate segments, so that lines correspond to rows of the sheet.
        if !self.rows.is_empty() && self.row_number != self.last_row + 1 {
            self.push_segment();
        }
        if self.rows.is_empty() {
            self.first_row = self.row_number;
        } else {
            self.rows.push('\n');
        }
        if self.columns.is_none() {
            let columns = row.trim_start();
            let end = columns.floor_char_boundary(columns.len().min(HEADING_MAX_BYTES));
            self.columns = Some(columns[..end].replace('\t', " | "));
        }
        self.rows.push_str(row);
        self.bytes += row.len() + 1;
        self.last_row = self.row_number;
    }

    fn push_segment(&mut self) {
        let text = std::mem::take(&mut self.rows);
        if text.is_empty() {
            return;
        }
        let mut heading = self.name.clone();
        if let Some(columns) = &self.columns {
            heading = format!("{heading}: {columns}");
        }
        heading.truncate(heading.floor_char_boundary(HEADING_MAX_BYTES));
        self.segments.push(DocumentSegment {
            page: Some(self.sheets),
            lines: Some((self.first_row, self.last_row)),
            heading: Some(heading),
            text,
            inner: None,
            columns: None,
        });
    }

    /// Adds the lines beside the cells of the sheet.
    pub(super) fn add_notes(&mut self, lines: &[String]) {
        self.end_segment();
        let line = |line: &String| line.replace(|c: char| c.is_control() || c.is_whitespace(), " ");
        let mut text = lines.iter().map(line).collect::<Vec<_>>().join("\n");
        let room = OUTPUT_MAX_BYTES.saturating_sub(self.bytes);
        if text.len() > room {
            self.truncated = true;
            text.truncate(text.floor_char_boundary(room));
        }
        if text.is_empty() || self.sheets == 0 {
            return;
        }
        self.bytes += text.len();
        self.segments.push(DocumentSegment {
            page: Some(self.sheets),
            lines: None,
            heading: self.sheet_heading(),
            text,
            inner: None,
            columns: None,
        });
    }

    /// Adds an image of the sheet. An image in several places counts at the first one.
    pub(super) fn add_image(&mut self, part: String) {
        if self.sheets > 0 && self.images.len() < LISTED_MAX && self.image_parts.insert(part.clone()) {
            let heading = self.sheet_heading();
            self.images.push(EmbeddedImage { part, page: Some(self.sheets), line: None, heading });
        }
    }

    /// Returns the name of the sheet.
    fn sheet_heading(&self) -> Option<String> {
        Some(self.name.clone())
    }

    fn end_segment(&mut self) {
        self.end_row();
        self.push_segment();
        self.row_number = 0;
    }

    /// Ends the workbook and keeps its recognizable images.
    pub(super) fn finish_with_images(self, archive: &mut ZipReader<'_>) -> Extracted {
        let mut extracted = self.finish_workbook();
        retain_recognizable(archive, &mut extracted);
        extracted
    }

    pub(super) fn finish_workbook(mut self) -> Extracted {
        self.end_segment();
        columns::mark_headings(&mut self.segments, false);
        Extracted {
            segments: self.segments,
            pages: Some(self.sheets),
            truncated: self.truncated || self.left_out,
            images: self.images,
            ..Extracted::empty(DocumentFormat::Workbook)
        }
    }
}

/// Formats a number without binary rounding noise: 0.1 + 0.2 is 0.3.
pub(super) fn format_float(number: f64) -> String {
    let rounded = format!("{number:.10}");
    let trimmed = rounded.trim_end_matches('0').trim_end_matches('.');
    if number.abs() > 1e15 || (number != 0.0 && number.abs() < 1e-6) {
        return number.to_string();
    }
    if trimmed == "-0" { "0".to_owned() } else { trimmed.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_written() {
        assert_eq!(
            [format_float(45000.0), format_float(0.1 + 0.2), format_float(-0.0), format_float(1234.5)],
            ["45000", "0.3", "0", "1234.5"]
        );
    }

    #[test]
    fn add_cell_gap_splits_segments() {
        let mut book = WorkbookWriter::default();
        assert!(book.begin_sheet("Ceník"));
        for (row, column, value) in
            [(0, 0, "Byt"), (0, 1, "Cena"), (1, 0, "A"), (1, 2, "x"), (9, 1, "later\ncell")]
        {
            assert!(book.add_cell(row, column, value));
        }
        let extracted = book.finish_workbook();
        assert_eq!(extracted.segments[0].text, "Byt\tCena\nA\t\tx");
        assert_eq!(extracted.segments[0].lines, Some((1, 2)));
        assert_eq!(extracted.segments[1].text, "\tlater cell");
        assert_eq!(extracted.segments[1].lines, Some((10, 10)));
        assert_eq!(extracted.segments[1].heading.as_deref(), Some("Ceník: Byt | Cena"));
        assert_eq!(extracted.pages, Some(1));
    }

    #[test]
    fn finish_workbook_left_out_truncated() {
        let long = "x".repeat(CELL_MAX_BYTES);
        for (column, value, whole) in [
            (0, long.as_str(), true),
            (COLUMNS_MAX - 1, "far", true),
            (COLUMNS_MAX, "farther", false),
            (0, &format!("{long}x"), false),
        ] {
            let mut book = WorkbookWriter::default();
            assert!(
                book.begin_sheet("Log") && book.add_cell(0, column, value) && book.add_cell(1, 0, "below")
            );
            let extracted = book.finish_workbook();
            assert_eq!(!extracted.truncated, whole, "column {column}, {} bytes", value.len());
            assert!(extracted.segments.iter().any(|segment| segment.text.ends_with("below")));
        }
    }
}
