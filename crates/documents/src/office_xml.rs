//! Reads documents of Office that are a single XML file: workbooks of Excel 2003, and packages whose parts are elements (Flat OPC).

use std::io::{Cursor, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quick_xml::events::{BytesStart, Event};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::book::{COLUMNS_MAX, WorkbookWriter, format_float};
use super::number_format::NumberFormats;
use super::xml::{attribute_value, event_text, push_within, read_events};
use super::{ExtractError, Extracted, text};

/// The maximum number of parts of a package.
const PARTS_MAX: usize = 10_000;
/// The maximum number of styles of a workbook.
const STYLES_MAX: usize = 10_000;
/// The maximum text length of a cell, in bytes.
const CELL_MAX_BYTES: usize = 128 * 1024;

/// Reads a workbook of Excel 2003.
pub(super) fn extract_workbook_xml(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    let content = text::decode_text(bytes);
    let mut sheets = ExcelXmlReader::default();
    read_events(content.as_bytes(), |event| {
        match event {
            Event::Start(element) => sheets.start_element(element, true),
            Event::Empty(element) => sheets.start_element(element, false),
            Event::End(element) => sheets.end_element(element.local_name().as_ref()),
            _ => {
                if sheets.takes_text
                    && let Some(text) = event_text(event)
                {
                    push_within(&mut sheets.value, &text, CELL_MAX_BYTES);
                }
            }
        }
        !sheets.book.truncated
    })?;
    Ok(sheets.book.finish_workbook())
}

#[derive(Default)]
struct ExcelXmlReader {
    book: WorkbookWriter,
    /// The names of styles, and the codes of their formats.
    styles: Vec<(String, String)>,
    formats: Option<NumberFormats>,
    /// The place of the next cell, from 0.
    row: u32,
    column: u32,
    /// The columns of the cell, and its style.
    columns: u32,
    style: Option<usize>,
    kind: String,
    value: String,
    takes_text: bool,
    in_comment: bool,
    notes: Vec<String>,
}

impl ExcelXmlReader {
    fn start_element(&mut self, element: &BytesStart<'_>, opens: bool) {
        let number =
            |name: &str| attribute_value(element, name).and_then(|number| number.parse::<u32>().ok());
        match element.local_name().as_ref() {
            "Style" if self.styles.len() < STYLES_MAX => {
                self.styles.push((attribute_value(element, "ID").unwrap_or_default(), String::new()));
            }
            "NumberFormat" => {
                if let Some((_, code)) = self.styles.last_mut() {
                    *code = format_code(attribute_value(element, "Format").unwrap_or_default());
                }
            }
            "Worksheet" => {
                self.book.begin_sheet(&attribute_value(element, "Name").unwrap_or_default());
                (self.row, self.column) = (0, 0);
            }
            "Row" => {
                self.row = number("Index").map_or(self.row, |index| index.saturating_sub(1));
                self.column = 0;
                if !opens {
                    self.end_element("Row");
                }
            }
            "Cell" => {
                self.column = number("Index").map_or(self.column, |index| index.saturating_sub(1));
                self.columns = number("MergeAcross").unwrap_or(0).min(COLUMNS_MAX).saturating_add(1);
                let style = attribute_value(element, "StyleID");
                self.style = style.and_then(|id| self.styles.iter().position(|(known, _)| *known == id));
                if !opens {
                    self.end_element("Cell");
                }
            }
            "Comment" => self.in_comment = opens,
            "Data" => {
                self.kind = attribute_value(element, "Type").unwrap_or_default();
                self.takes_text = opens;
            }
            _ => {}
        }
    }

    fn end_element(&mut self, name: &str) {
        match name {
            "Data" => {
                self.takes_text = false;
                let value = std::mem::take(&mut self.value);
                if self.in_comment {
                    self.notes.push(value);
                } else {
                    let shown = self.format_cell_value(value);
                    self.book.add_cell(self.row, self.column, &shown);
                }
            }
            "Comment" => self.in_comment = false,
            "Cell" => self.column = self.column.saturating_add(self.columns),
            "Row" => self.row = self.row.saturating_add(1),
            "Worksheet" => {
                let notes = std::mem::take(&mut self.notes);
                if !notes.is_empty() {
                    self.book.add_notes(&notes);
                }
            }
            _ => {}
        }
    }

    /// Returns a value as its cell shows it.
    fn format_cell_value(&mut self, value: String) -> String {
        match self.kind.as_str() {
            "Number" => {
                let Ok(number) = value.trim().parse::<f64>() else { return value };
                let styles = &self.styles;
                let formats = self.formats.get_or_insert_with(|| {
                    NumberFormats::from_codes(styles.iter().map(|(_, code)| code.as_str()))
                });
                self.style
                    .and_then(|style| formats.format_number(style, number))
                    .unwrap_or_else(|| format_float(number))
            }
            "DateTime" => {
                let (date, time) = value.split_once('T').unwrap_or((&value, ""));
                let time = time.trim_end_matches(".000");
                match (date, time) {
                    ("1899-12-31" | "1899-12-30", _) => time.to_owned(),
                    (_, "" | "00:00:00") => date.to_owned(),
                    _ => format!("{date} {time}"),
                }
            }
            "Boolean" => if value.trim() == "1" { "true" } else { "false" }.to_owned(),
            _ => value,
        }
    }
}

/// Returns the code of a format; some formats have names.
fn format_code(format: String) -> String {
    match format.as_str() {
        "General" | "General Number" => String::new(),
        "Fixed" => "0.00".to_owned(),
        "Standard" => "#,##0.00".to_owned(),
        "Percent" => "0.00%".to_owned(),
        "Scientific" => "0.00E+00".to_owned(),
        _ => format,
    }
}

/// Returns a package whose parts are elements of a file as an archive.
pub(super) fn flat_opc_to_zip(bytes: &[u8]) -> Result<Vec<u8>, ExtractError> {
    let broken = |error| ExtractError::broken_file("Flat OPC", error);
    let content = text::decode_text(bytes);
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let mut rest = content.as_str();
    for _ in 0..PARTS_MAX {
        let Some((_, part)) = rest.split_once("<pkg:part ") else { break };
        let (part, after) = part.split_once("</pkg:part>").unwrap_or((part, ""));
        rest = after;
        let name = part.split_once("pkg:name=\"").and_then(|(_, name)| name.split_once('"'));
        let Some((name, _)) = name else { continue };
        let inside = |element: &str| {
            let (_, begun) = part.split_once(&format!("<pkg:{element}"))?;
            let (_, inside) = begun.split_once('>')?;
            inside.rsplit_once(&format!("</pkg:{element}>")).map(|(inside, _)| inside)
        };
        let content = if let Some(xml) = inside("xmlData") {
            xml.as_bytes().to_vec()
        } else if let Some(packed) = inside("binaryData") {
            let packed: Vec<u8> = packed.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
            STANDARD.decode(packed).unwrap_or_default()
        } else {
            continue;
        };
        // The first of two parts with the same name counts.
        if zip.start_file(name.trim_start_matches('/'), options).is_ok() {
            zip.write_all(&content).map_err(|error| ExtractError::broken_file("Flat OPC", error))?;
        }
    }
    zip.finish().map(Cursor::into_inner).map_err(broken)
}
