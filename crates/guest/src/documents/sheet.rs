//! Reads workbooks: each sheet is a page; each non-empty row is a line with its row number.

use std::io::Cursor;

use calamine::{Data, DataRef, DataType, Ods, Range, Reader, Xls, Xlsb, Xlsx};
use domain::unread::UnreadImages;

use super::archive::Archive;
use super::detect::Workbook;
use super::{ExtractError, Extracted, Format, OUTPUT_MAX_BYTES, PAGES_MAX, Segment, sheet_notes};

/// The maximum number of columns of a row.
const COLUMNS_MAX: u32 = 512;
/// The maximum text of a cell, in bytes.
const CELL_MAX_BYTES: usize = 8 * 1024;
/// The maximum length of the context (the sheet's name and columns), in bytes.
const HEADING_MAX_BYTES: usize = 200;

pub(super) fn extract(bytes: &[u8], kind: Workbook) -> Result<Extracted, ExtractError> {
    let cursor = Cursor::new(bytes);
    let mut book = Book::default();
    match kind {
        Workbook::Xlsx => {
            let mut workbook = Xlsx::new(cursor).map_err(failed)?;
            // A workbook with damaged notes still has its cells.
            let notes = Archive::open(bytes).and_then(sheet_notes::read);
            let is_cut = matches!(notes, Err(ExtractError::Bomb { .. }));
            let notes = notes.unwrap_or_default();
            for name in workbook.sheet_names() {
                if !book.begin(&name) {
                    break;
                }
                // Charts and macro sheets have no cells.
                if let Ok(mut cells) = workbook.worksheet_cells_reader(&name) {
                    while let Some(cell) = cells.next_cell().map_err(failed)? {
                        let (row, column) = cell.get_position();
                        if !book.cell(row, column, &shown_ref(cell.get_value())) {
                            break;
                        }
                    }
                }
                book.notes(notes.get(&name).map_or(&[], Vec::as_slice));
            }
            book.truncated |= is_cut;
        }
        Workbook::Xlsb => book.ranges(Xlsb::new(cursor).map_err(failed)?),
        Workbook::Xls => book.ranges(Xls::new(cursor).map_err(failed)?),
        Workbook::Ods => book.ranges(Ods::new(cursor).map_err(failed)?),
    }
    Ok(book.finish())
}

fn failed(error: impl std::fmt::Display) -> ExtractError {
    let error = error.to_string();
    if error.contains("password protected") {
        return ExtractError::Encrypted("workbook");
    }
    ExtractError::broken("workbook", error)
}

#[derive(Default)]
struct Book {
    segments: Vec<Segment>,
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
    truncated: bool,
}

impl Book {
    fn ranges<'a, R: Reader<Cursor<&'a [u8]>>>(&mut self, mut workbook: R) {
        for name in workbook.sheet_names() {
            if !self.begin(&name) {
                break;
            }
            let Ok(range) = workbook.worksheet_range(&name) else { continue };
            self.range(&range);
        }
    }

    fn range(&mut self, range: &Range<Data>) {
        let (first_row, first_column) = range.start().unwrap_or_default();
        for (row, column, value) in range.used_cells() {
            let (Ok(row), Ok(column)) = (u32::try_from(row), u32::try_from(column)) else { continue };
            if !self.cell(first_row.saturating_add(row), first_column.saturating_add(column), &shown(value)) {
                break;
            }
        }
    }

    /// Begins a sheet. Returns `false` when no more is read.
    fn begin(&mut self, name: &str) -> bool {
        self.end_segment();
        if self.truncated || self.sheets >= PAGES_MAX {
            self.truncated = true;
            return false;
        }
        self.sheets += 1;
        self.name = name.replace(char::is_control, " ");
        self.columns = None;
        true
    }

    /// Adds a cell by its row and column from 0, in reading order. Returns `false` when no more is read.
    fn cell(&mut self, row: u32, column: u32, value: &str) -> bool {
        let value = value.trim();
        if value.is_empty() || column >= COLUMNS_MAX {
            return !self.truncated;
        }
        let number = row.saturating_add(1);
        if number != self.row_number {
            self.end_row();
            self.row_number = number;
        }
        // The number of preceding tabs shows the column.
        for _ in self.next_column..column {
            self.row.push('\t');
        }
        self.next_column = column.max(self.next_column);
        let fitting = &value[..value.floor_char_boundary(value.len().min(CELL_MAX_BYTES))];
        self.row.extend(fitting.chars().map(|c| if c.is_control() || c.is_whitespace() { ' ' } else { c }));
        !self.truncated
    }

    fn end_row(&mut self) {
        let row = std::mem::take(&mut self.row);
        self.next_column = 0;
        let row = row.trim_end();
        if row.is_empty() || self.truncated {
            return;
        }
        if self.bytes + row.len() >= OUTPUT_MAX_BYTES {
            self.truncated = true;
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
            self.columns = Some(row.trim_start().replace('\t', " | "));
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
        self.segments.push(Segment {
            page: Some(self.sheets),
            lines: Some((self.first_row, self.last_row)),
            heading: Some(heading),
            text,
        });
    }

    /// Adds the lines that stand beside the cells of the sheet.
    fn notes(&mut self, lines: &[String]) {
        self.end_segment();
        let line = |line: &String| line.replace(|c: char| c.is_control() || c.is_whitespace(), " ");
        let text = lines.iter().map(line).collect::<Vec<_>>().join("\n");
        self.truncated |= self.bytes + text.len() >= OUTPUT_MAX_BYTES;
        if text.is_empty() || self.truncated {
            return;
        }
        self.bytes += text.len();
        let heading = Some(self.name[..self.name.floor_char_boundary(HEADING_MAX_BYTES)].to_owned());
        self.segments.push(Segment { page: Some(self.sheets), lines: None, heading, text });
    }

    fn end_segment(&mut self) {
        self.end_row();
        self.push_segment();
        self.row_number = 0;
    }

    fn finish(mut self) -> Extracted {
        self.end_segment();
        Extracted {
            format: Format::Workbook,
            segments: self.segments,
            pages: Some(self.sheets),
            lines: None,
            truncated: self.truncated,
            notes: Vec::new(),
            scans: Vec::new(),
            images: Vec::new(),
            unread_images: UnreadImages::NONE,
            span: None,
        }
    }
}

fn shown_ref(value: &DataRef<'_>) -> String {
    shown(&Data::from(value.clone()))
}

/// Formats a value as a person would write it; dates as ISO 8601.
fn shown(value: &Data) -> String {
    match value {
        Data::Empty => String::new(),
        Data::Float(number) => float(*number),
        Data::DateTime(time) if time.is_datetime() => {
            let (year, month, day, hour, minute, second, _) = time.to_ymd_hms_milli();
            if hour == 0 && minute == 0 && second == 0 {
                format!("{year:04}-{month:02}-{day:02}")
            } else if time.as_f64() < 1.0 {
                format!("{hour:02}:{minute:02}:{second:02}")
            } else {
                format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
            }
        }
        Data::DateTime(time) => {
            let seconds = (time.as_f64() * 86_400.0).round();
            format!(
                "{}:{:02}:{:02}",
                (seconds / 3600.0).trunc(),
                (seconds / 60.0).trunc() % 60.0,
                seconds % 60.0
            )
        }
        other => other.as_string().unwrap_or_else(|| other.to_string()),
    }
}

/// Formats a number without binary rounding noise: 0.1 + 0.2 is 0.3.
fn float(number: f64) -> String {
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
            [float(45000.0), float(0.1 + 0.2), float(-0.0), float(1234.5)],
            ["45000", "0.3", "0", "1234.5"]
        );
    }

    #[test]
    fn gaps_part_segments_and_rows_keep_their_numbers() {
        let mut book = Book::default();
        assert!(book.begin("Ceník"));
        for (row, column, value) in
            [(0, 0, "Byt"), (0, 1, "Cena"), (1, 0, "A"), (1, 2, "x"), (9, 1, "later\ncell")]
        {
            assert!(book.cell(row, column, value));
        }
        let extracted = book.finish();
        assert_eq!(extracted.segments[0].text, "Byt\tCena\nA\t\tx");
        assert_eq!(extracted.segments[0].lines, Some((1, 2)));
        assert_eq!(extracted.segments[1].text, "\tlater cell");
        assert_eq!(extracted.segments[1].lines, Some((10, 10)));
        assert_eq!(extracted.segments[1].heading.as_deref(), Some("Ceník: Byt | Cena"));
        assert_eq!(extracted.pages, Some(1));
    }
}
