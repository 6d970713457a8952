//! Reads workbooks: each sheet is a page; each non-empty row is a line with its row number.

use std::io::Cursor;

use calamine::{Data, DataType, ExcelDateTime, Reader, Style, Xls, XlsOptions, Xlsb, Xlsx};

use quick_xml::events::Event;

use super::archive::ZipReader;
use super::book::{WorkbookWriter, format_float};
use super::detect::Workbook;
use super::number_format::NumberFormats;
use super::odf_objects::OdfObjects;
use super::sheet_notes::{self, SheetExtras};
use super::xls_formats::{CellFormats, TextEncoding};
use super::xml::{read_events, unless_broken};
use super::{ExtractError, Extracted, Nesting, ods, xml_encoding};

/// The day after the last one that Excel knows, from the beginning of its time.
const DAYS_MAX: f64 = 2_958_466.0;
/// The maximum number of bytes that the styles of a workbook may take when each has the longest text of them.
const STYLES_MAX_BYTES: u64 = 256 * 1024 * 1024;

pub(super) fn extract_workbook(
    bytes: &[u8],
    kind: Workbook,
    nesting: Nesting<'_>,
) -> Result<Extracted, ExtractError> {
    let mut book = WorkbookWriter::default();
    match kind {
        Workbook::Xlsx => return extract_xlsx(bytes, nesting),
        Workbook::Ods => {
            let mut archive = ZipReader::from_bytes(bytes)?;
            ods::read_ods_sheets(&mut archive, &mut book, nesting)?;
            return Ok(book.finish_with_images(&mut archive));
        }
        Workbook::Xlsb => {
            let in_utf8 = xml_encoding::in_utf8(bytes)?;
            let bytes = in_utf8.as_deref().unwrap_or(bytes);
            let workbook = Xlsb::new(Cursor::new(bytes)).map_err(workbook_error)?;
            read_sheet_ranges(&mut book, workbook, &CellFormats::default());
        }
        Workbook::Xls => {
            let encoding = TextEncoding::from_workbook(bytes);
            let mut options = XlsOptions::default();
            options.force_codepage = encoding.code_page();
            let workbook = Xls::new_with_options(Cursor::new(bytes), options).map_err(workbook_error)?;
            book.letters = encoding.upper_letters();
            read_sheet_ranges(&mut book, workbook, &CellFormats::from_workbook(bytes));
        }
    }
    Ok(book.finish_workbook())
}

/// Reads the body of a workbook of LibreOffice that is a single file, not an archive. Its images are not read.
pub(super) fn extract_flat(body: &[u8]) -> Result<Extracted, ExtractError> {
    let mut book = WorkbookWriter::default();
    ods::read_part(body, &mut book, OdfObjects::default())?;
    Ok(Extracted { images: Vec::new(), ..book.finish_workbook() })
}

fn extract_xlsx(bytes: &[u8], nesting: Nesting<'_>) -> Result<Extracted, ExtractError> {
    let in_utf8 = xml_encoding::in_utf8(bytes)?;
    let bytes = in_utf8.as_deref().unwrap_or(bytes);
    let mut archive = ZipReader::from_bytes(bytes)?;
    check_styles(&mut archive)?;
    let mut workbook = Xlsx::new(Cursor::new(bytes)).map_err(workbook_error)?;
    let mut book = WorkbookWriter::default();
    // A workbook with damaged notes still has its cells.
    let beside = sheet_notes::read_sheet_extras(&mut archive, nesting);
    let is_cut = matches!(beside, Err(ExtractError::Bomb { .. }));
    let beside = beside.unwrap_or_default();
    let mut formats = None;
    for name in workbook.sheet_names() {
        if !book.begin_sheet(&name) {
            break;
        }
        // Charts and macro sheets have no cells.
        if let Ok(mut cells) = workbook.worksheet_cells_reader(&name) {
            let formats = formats.get_or_insert_with(|| {
                NumberFormats::from_codes(cells.styles().iter().map(style_format_code))
            });
            while let Some((cell, style)) = cells.next_cell_with_style_id().map_err(workbook_error)? {
                let (row, column) = cell.get_position();
                let value = Data::from(cell.get_value().clone());
                let formatted = cell_number(&value).and_then(|number| formats.format_number(style, number));
                if !book.add_cell(row, column, &formatted.unwrap_or_else(|| format_cell(&value))) {
                    break;
                }
            }
        }
        if let Some(SheetExtras { lines, images, is_cut }) = beside.get(&name) {
            book.left_out |= is_cut;
            book.add_notes(lines);
            images.iter().for_each(|image| book.add_image(image.clone()));
        }
    }
    book.truncated |= is_cut;
    Ok(book.finish_with_images(&mut archive))
}

/// Fails if the styles expand too much: the library copies font and format for each cell style.
fn check_styles(archive: &mut ZipReader<'_>) -> Result<(), ExtractError> {
    let (mut longest, mut count) = (0, 0_u64);
    if let Some(part) = archive.open_part("xl/styles.xml")? {
        let read = read_events(part, |event| {
            if let Event::Start(element) | Event::Empty(element) = event {
                longest = longest.max(element.len() as u64);
                count += u64::from(element.local_name().as_ref() == "xf");
            }
            longest.saturating_mul(count) <= STYLES_MAX_BYTES
        });
        unless_broken(read)?;
    }
    if longest.saturating_mul(count) <= STYLES_MAX_BYTES {
        Ok(())
    } else {
        Err(ExtractError::Bomb { bound: STYLES_MAX_BYTES })
    }
}

/// Returns the format code of a style of cells.
fn style_format_code(style: &Style) -> &str {
    style.number_format.as_ref().map_or("", |format| format.format_code.as_str())
}

fn read_sheet_ranges<'a, R: Reader<Cursor<&'a [u8]>>>(
    book: &mut WorkbookWriter,
    mut workbook: R,
    formats: &CellFormats,
) {
    for (sheet, name) in workbook.sheet_names().into_iter().enumerate() {
        if !book.begin_sheet(&name) {
            break;
        }
        let Ok(range) = workbook.worksheet_range(&name) else { continue };
        let (first_row, first_column) = range.start().unwrap_or_default();
        for (row, column, value) in range.used_cells() {
            let (Ok(row), Ok(column)) = (u32::try_from(row), u32::try_from(column)) else { continue };
            let place = (first_row.saturating_add(row), first_column.saturating_add(column));
            let formatted = cell_number(value).and_then(|number| formats.format_number(sheet, place, number));
            if !book.add_cell(place.0, place.1, &formatted.unwrap_or_else(|| format_cell(value))) {
                break;
            }
        }
    }
}

fn workbook_error(error: impl std::fmt::Display) -> ExtractError {
    let error = error.to_string();
    if error.contains("password protected") {
        return ExtractError::Encrypted("workbook");
    }
    ExtractError::broken_file("workbook", error)
}

/// Returns the value of a cell if it is a number.
fn cell_number(value: &Data) -> Option<f64> {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "numbers of workbooks have that precision")]
        Data::Int(number) => Some(*number as f64),
        Data::Float(number) => Some(*number),
        _ => None,
    }
}

/// Formats a value as a person would write it; dates as ISO 8601.
fn format_cell(value: &Data) -> String {
    match value {
        Data::Empty => String::new(),
        Data::Float(number) => format_float(*number),
        Data::DateTime(time) => shown_time(*time),
        other => other.as_string().unwrap_or_else(|| other.to_string()),
    }
}

/// Formats a date, a time of day, or a duration.
pub(super) fn shown_time(time: ExcelDateTime) -> String {
    let days = time.as_f64();
    // Numbers that are not dates, regardless of their format.
    if !(0.0..DAYS_MAX).contains(&days.abs()) || (time.is_datetime() && days < 0.0) {
        return format_float(days);
    }
    if !time.is_datetime() {
        let sign = if days < 0.0 { "-" } else { "" };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "within the largest date"
        )]
        let seconds = (days.abs() * 86_400.0).round() as u64;
        return format!("{sign}{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    }
    let (year, month, day, hour, minute, second, milli) = time.to_ymd_hms_milli();
    if days < 1.0 {
        let fraction = if milli > 0 { format!(".{milli:03}") } else { String::new() };
        format!("{hour:02}:{minute:02}:{second:02}{fraction}")
    } else if hour == 0 && minute == 0 && second == 0 {
        format!("{year:04}-{month:02}-{day:02}")
    } else {
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    }
}
