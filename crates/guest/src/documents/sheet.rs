//! Reads workbooks: each sheet is a page; each non-empty row is a line with its row number.

use std::io::Cursor;

use calamine::{Data, DataType, Reader, Style, Xls, Xlsb, Xlsx};

use super::archive::Archive;
use super::book::Book;
use super::detect::Workbook;
use super::number_format::NumberFormats;
use super::sheet_notes::{self, Beside};
use super::xls_formats::CellFormats;
use super::{ExtractError, Extracted, ods};

pub(super) fn extract(bytes: &[u8], kind: Workbook) -> Result<Extracted, ExtractError> {
    let mut book = Book::default();
    match kind {
        Workbook::Xlsx => return xlsx(bytes),
        Workbook::Ods => {
            let mut archive = Archive::open(bytes)?;
            ods::read(&mut archive, &mut book)?;
            return Ok(book.finish_with_images(&mut archive));
        }
        Workbook::Xlsb => {
            let workbook = Xlsb::new(Cursor::new(bytes)).map_err(failed)?;
            ranges(&mut book, workbook, &CellFormats::default());
        }
        Workbook::Xls => {
            let workbook = Xls::new(Cursor::new(bytes)).map_err(failed)?;
            ranges(&mut book, workbook, &CellFormats::read(bytes));
        }
    }
    Ok(book.finish())
}

fn xlsx(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    let mut workbook = Xlsx::new(Cursor::new(bytes)).map_err(failed)?;
    let mut archive = Archive::open(bytes)?;
    let mut book = Book::default();
    // A workbook with damaged notes still has its cells.
    let beside = sheet_notes::read(&mut archive);
    let is_cut = matches!(beside, Err(ExtractError::Bomb { .. }));
    let beside = beside.unwrap_or_default();
    let mut formats = None;
    for name in workbook.sheet_names() {
        if !book.begin(&name) {
            break;
        }
        // Charts and macro sheets have no cells.
        if let Ok(mut cells) = workbook.worksheet_cells_reader(&name) {
            let formats = formats.get_or_insert_with(|| NumberFormats::of(cells.styles().iter().map(code)));
            while let Some((cell, style)) = cells.next_cell_with_style_id().map_err(failed)? {
                let (row, column) = cell.get_position();
                let value = Data::from(cell.get_value().clone());
                let formatted = number(&value).and_then(|number| formats.shown(style, number));
                if !book.cell(row, column, &formatted.unwrap_or_else(|| shown(&value))) {
                    break;
                }
            }
        }
        if let Some(Beside { lines, images }) = beside.get(&name) {
            book.notes(lines);
            images.iter().for_each(|image| book.image(image.clone()));
        }
    }
    book.truncated |= is_cut;
    Ok(book.finish_with_images(&mut archive))
}

/// Returns the format code of a style of cells.
fn code(style: &Style) -> &str {
    style.number_format.as_ref().map_or("", |format| format.format_code.as_str())
}

fn ranges<'a, R: Reader<Cursor<&'a [u8]>>>(book: &mut Book, mut workbook: R, formats: &CellFormats) {
    for (sheet, name) in workbook.sheet_names().into_iter().enumerate() {
        if !book.begin(&name) {
            break;
        }
        let Ok(range) = workbook.worksheet_range(&name) else { continue };
        let (first_row, first_column) = range.start().unwrap_or_default();
        for (row, column, value) in range.used_cells() {
            let (Ok(row), Ok(column)) = (u32::try_from(row), u32::try_from(column)) else { continue };
            let place = (first_row.saturating_add(row), first_column.saturating_add(column));
            let formatted = number(value).and_then(|number| formats.shown(sheet, place, number));
            if !book.cell(place.0, place.1, &formatted.unwrap_or_else(|| shown(value))) {
                break;
            }
        }
    }
}

fn failed(error: impl std::fmt::Display) -> ExtractError {
    let error = error.to_string();
    if error.contains("password protected") {
        return ExtractError::Encrypted("workbook");
    }
    ExtractError::broken("workbook", error)
}

/// Returns the value of a cell if it is a number.
fn number(value: &Data) -> Option<f64> {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "numbers of workbooks have that precision")]
        Data::Int(number) => Some(*number as f64),
        Data::Float(number) => Some(*number),
        _ => None,
    }
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
}
