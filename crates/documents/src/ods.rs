//! Reads OpenDocument workbooks (LibreOffice): cells with their shown values, notes at cells, text boxes, and images.

use std::io::Read;

use quick_xml::events::{BytesStart, Event};

use super::archive::ZipReader;
use super::book::{CELL_MAX_BYTES, COLUMNS_MAX, WorkbookWriter, format_float};
use super::odf_objects::{OdfObject, OdfObjects};
use super::parts::resolve_target;
use super::xml::{alternative_text, attribute_value, event_text, push_within, read_events};
use super::{ExtractError, Nesting, OUTPUT_MAX_BYTES};

/// The maximum number of spaces that one element may represent.
const BLANKS_MAX: usize = 64;
/// A cell covered by one that spans several.
const COVERED: &str = "table:covered-table-cell";
/// Elements whose text is left out.
const HIDDEN: [&str; 5] = [COVERED, "table:tracked-changes", "dc:creator", "dc:date", "office:binary-data"];

/// Reads the sheets into `book`.
pub(super) fn read_ods_sheets(
    archive: &mut ZipReader<'_>,
    book: &mut WorkbookWriter,
    nesting: Nesting<'_>,
) -> Result<(), ExtractError> {
    let objects = OdfObjects::from_archive(archive, nesting)?;
    let part = archive.open_part("content.xml")?;
    part.map_or_else(
        || Err(ExtractError::broken_file("ODS", "it has no content")),
        |part| read_part(part, book, objects),
    )
}

/// Reads the body of a workbook.
pub(super) fn read_part(
    part: impl Read,
    book: &mut WorkbookWriter,
    objects: OdfObjects,
) -> Result<(), ExtractError> {
    book.left_out |= objects.is_cut;
    let mut sheets = OdsReader::new(book, objects);
    read_events(part, |event| {
        match event {
            Event::Start(element) => sheets.start_element(element),
            Event::Empty(element) => {
                sheets.start_element(element);
                sheets.end_element(element.name().as_ref());
            }
            Event::End(element) => sheets.end_element(element.name().as_ref()),
            _ => {
                if let Some(text) = event_text(event) {
                    sheets.push_text(&text);
                }
            }
        }
        !sheets.is_full
    })
}

/// A cell that is being read.
#[derive(Default)]
struct OdsCell {
    text: String,
    /// The value that replaces the text if the cell has no text.
    value: String,
    /// A date, which replaces the text.
    date: Option<String>,
    /// The number of neighboring cells with this content.
    count: u32,
}

struct OdsReader<'a> {
    book: &'a mut WorkbookWriter,
    /// The row and the column from 0.
    row: u32,
    column: u32,
    /// The number of rows with the content of the current one.
    rows: u32,
    /// The cells of the current row that have content, with their columns.
    cells: Vec<(u32, String)>,
    cell: OdsCell,
    /// The text of the current paragraph or note.
    line: String,
    in_paragraph: bool,
    in_note: bool,
    /// The depth of drawings.
    drawings: u32,
    /// The depth of elements whose text is left out.
    hidden: u32,
    /// The notes and the texts of drawings of the sheet.
    beside: Vec<String>,
    beside_bytes: usize,
    /// The alternative text of a picture, while it is being read.
    alternative: Option<String>,
    objects: OdfObjects,
    is_full: bool,
}

impl<'a> OdsReader<'a> {
    fn new(book: &'a mut WorkbookWriter, objects: OdfObjects) -> Self {
        Self {
            book,
            row: 0,
            column: 0,
            rows: 1,
            cells: Vec::new(),
            cell: OdsCell::default(),
            line: String::new(),
            in_paragraph: false,
            in_note: false,
            drawings: 0,
            hidden: 0,
            beside: Vec::new(),
            beside_bytes: 0,
            alternative: None,
            objects,
            is_full: false,
        }
    }

    fn push_text(&mut self, text: &str) {
        if let Some(alternative) = &mut self.alternative {
            push_within(alternative, text, CELL_MAX_BYTES);
            return;
        }
        if self.in_paragraph && self.hidden == 0 && self.line.len() < CELL_MAX_BYTES {
            self.line.push_str(&text[..text.floor_char_boundary(text.len().min(CELL_MAX_BYTES))]);
        }
    }

    fn start_element(&mut self, element: &BytesStart<'_>) {
        let name = element.name();
        match name.as_ref() {
            name if HIDDEN.contains(&name) => {
                self.hidden += 1;
                if name == COVERED {
                    self.column =
                        self.column.saturating_add(repetition_count(element, "number-columns-repeated"));
                }
            }
            _ if self.hidden > 0 => {}
            "table:table" => {
                self.row = 0;
                self.is_full |= !self.book.begin_sheet(&attribute_value(element, "name").unwrap_or_default());
            }
            "table:table-row" => {
                self.column = 0;
                self.rows = repetition_count(element, "number-rows-repeated");
            }
            "table:table-cell" => {
                let kind = attribute_value(element, "value-type").unwrap_or_default();
                let date =
                    attribute_value(element, "date-value").filter(|date| kind == "date" && !date.is_empty());
                self.cell = OdsCell {
                    text: String::new(),
                    value: cell_value(element, &kind),
                    date: date.map(|date| date_text(&date)),
                    count: repetition_count(element, "number-columns-repeated"),
                };
            }
            "office:annotation" => self.in_note = true,
            "text:p" | "text:h" => self.in_paragraph = true,
            "text:tab" | "text:line-break" => self.push_text(" "),
            "text:s" => {
                self.push_text(&" ".repeat((repetition_count(element, "c") as usize).min(BLANKS_MAX)))
            }
            "svg:title" | "svg:desc" if self.drawings > 0 => self.alternative = Some(String::new()),
            name if name.starts_with("draw:") => {
                self.drawings += 1;
                if matches!(name, "draw:object" | "draw:object-ole") {
                    self.add_object(element);
                }
                if name == "draw:image" {
                    let part = attribute_value(element, "href").map(|href| resolve_target("", &href));
                    part.into_iter().for_each(|part| self.book.add_image(part));
                }
            }
            _ => {}
        }
    }

    /// Adds the text of an object. A chart has the values of cells.
    fn add_object(&mut self, element: &BytesStart<'_>) {
        let object = attribute_value(element, "href").and_then(|href| self.objects.take_object(&href));
        match object {
            Some(OdfObject::Equation(line)) => self.add_extra_line(line),
            Some(OdfObject::File(lines)) => lines.into_iter().for_each(|line| self.add_extra_line(line)),
            Some(OdfObject::Chart(_)) | None => {}
        }
    }

    fn end_element(&mut self, name: &str) {
        match name {
            "svg:title" | "svg:desc" => {
                let text = self.alternative.take();
                if let Some(text) = text.as_deref().and_then(alternative_text) {
                    self.add_extra_line(format!("Picture: {text}"));
                }
            }
            name if HIDDEN.contains(&name) => self.hidden = self.hidden.saturating_sub(1),
            _ if self.hidden > 0 => {}
            "text:p" | "text:h" => self.end_paragraph(),
            "office:annotation" => {
                self.in_note = false;
                let note = format!("{}: {}", cell_name(self.row, self.column), self.line.trim());
                self.line.clear();
                self.add_extra_line(note);
            }
            "table:table-cell" => self.end_cell(),
            "table:table-row" => self.end_row(),
            "table:table" => self.book.add_notes(&std::mem::take(&mut self.beside)),
            name if name.starts_with("draw:") => self.drawings = self.drawings.saturating_sub(1),
            _ => {}
        }
    }

    fn end_paragraph(&mut self) {
        self.in_paragraph = false;
        if self.in_note {
            self.line.push(' ');
            return;
        }
        let line = std::mem::take(&mut self.line);
        if self.drawings > 0 {
            self.add_extra_line(line);
        } else if self.cell.text.len() < CELL_MAX_BYTES {
            if !self.cell.text.is_empty() {
                self.cell.text.push(' ');
            }
            self.cell.text.push_str(&line);
        }
    }

    fn add_extra_line(&mut self, line: String) {
        if line.trim().is_empty() {
            return;
        }
        if self.beside_bytes > OUTPUT_MAX_BYTES {
            self.book.left_out = true;
        } else {
            self.beside_bytes += line.len();
            self.beside.push(line);
        }
    }

    fn end_cell(&mut self) {
        let OdsCell { text, value, date, count } = std::mem::take(&mut self.cell);
        let shown = date.unwrap_or(if text.trim().is_empty() { value } else { text });
        let end = self.column.saturating_add(count);
        if !shown.trim().is_empty() {
            self.cells.extend((self.column..end.min(COLUMNS_MAX + 1)).map(|column| (column, shown.clone())));
        }
        self.column = end;
    }

    fn end_row(&mut self) {
        let cells = std::mem::take(&mut self.cells);
        let end = self.row.saturating_add(self.rows);
        let rows = if cells.is_empty() { end..end } else { self.row..end };
        for row in rows {
            if !cells.iter().all(|(column, text)| self.book.add_cell(row, *column, text)) {
                self.is_full = true;
                break;
            }
        }
        self.row = end;
    }
}

/// Returns a number of repetitions, at least 1.
fn repetition_count(element: &BytesStart<'_>, name: &str) -> u32 {
    attribute_value(element, name).and_then(|count| count.parse().ok()).unwrap_or(1).max(1)
}

/// Returns the value of a cell as it might be shown; most programs write the text, too.
fn cell_value(element: &BytesStart<'_>, kind: &str) -> String {
    let of = |name: &str| attribute_value(element, name).unwrap_or_default();
    match kind {
        "string" => of("string-value"),
        "boolean" => of("boolean-value"),
        // A duration of XML Schema: `PT02H30M00S`.
        "time" => of("time-value").trim_start_matches("PT").to_lowercase(),
        "percentage" => match of("value").parse::<f64>() {
            Ok(share) => format!("{}%", format_float(share * 100.0)),
            Err(_) => of("value"),
        },
        "currency" => format!("{} {}", of("value"), of("currency")),
        _ => of("value"),
    }
}

/// Formats a date as in the other workbooks: `2024-03-05`, `2024-03-05 10:30:00`.
fn date_text(date: &str) -> String {
    let (day, time) = date.split_once('T').unwrap_or((date, ""));
    match time.split('.').next().unwrap_or_default() {
        "" | "00:00:00" => day.to_owned(),
        time => format!("{day} {time}"),
    }
}

/// Returns the name of a cell: `B3`.
fn cell_name(row: u32, column: u32) -> String {
    let mut name = (u64::from(row) + 1).to_string();
    let mut left = u64::from(column) + 1;
    while left > 0 {
        left -= 1;
        name.insert(0, char::from(b'A' + (left % 26) as u8));
        left /= 26;
    }
    name
}
