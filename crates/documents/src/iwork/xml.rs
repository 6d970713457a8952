//! Reads documents of Pages, Numbers and Keynote before 2013, which are XML.

use std::collections::{HashMap, HashSet};
use std::io::Read;

use flate2::read::GzDecoder;
use quick_xml::events::{BytesStart, Event};

use super::table::{format_date, format_duration};
use super::{NOTES, is_heading_name};
use crate::archive::{PART_MAX_BYTES, ZipReader};
use crate::book::{CELL_MAX_BYTES, COLUMNS_MAX, WorkbookWriter, format_float};
use crate::output::DocumentWriter;
use crate::xml::{attribute_value, event_text, push_within, read_events};
use crate::{DocumentFormat, ExtractError, Extracted, OUTPUT_MAX_BYTES, PAGES_MAX};

/// The parts with the content, and whether they are compressed once more.
const PARTS: [(&str, bool); 4] =
    [("index.xml", false), ("index.apxl", false), ("index.xml.gz", true), ("index.apxl.gz", true)];
/// Elements whose text is not shown: samples, templates, and formulas.
const HIDDEN: [&str; 6] =
    ["ghost-text", "section-prototypes", "master-slides", "prototypes", "metadata", "cell-comment-mapping"];
/// Elements whose text is written last because the file has it before the content it belongs to.
const ASIDE: [&str; 3] = ["headers", "footers", "footnotes"];
/// The maximum number of entries of a list that is kept: styles, and choices of cells.
const KEPT_MAX: usize = 100_000;
/// The longest name of a style, in bytes.
const STYLE_NAME_MAX_BYTES: usize = 256;
/// The places of cells count 256 for each row.
const ROW_PLACES: i64 = 256;

/// Returns the name of the part with the content; `None` if the archive has none.
fn part_of(archive: &ZipReader<'_>, root: &str) -> Option<(String, bool)> {
    let parts = PARTS.iter().map(|(part, packed)| (format!("{root}{part}"), *packed));
    parts.into_iter().find(|(part, _)| archive.has_part(part))
}

/// Returns true for the archive of such a document.
pub(super) fn is_root(archive: &ZipReader<'_>, root: &str) -> bool {
    archive.has_part(&format!("{root}buildVersionHistory.plist")) && part_of(archive, root).is_some()
}

/// Reads a document; `None` if the archive has no document of this kind.
pub(super) fn extract_iwork_xml(
    archive: &mut ZipReader<'_>,
    root: &str,
) -> Result<Option<Extracted>, ExtractError> {
    let Some((name, is_packed)) = part_of(archive, root) else { return Ok(None) };
    if archive.is_encrypted(&name) {
        return Err(ExtractError::Encrypted("iWork"));
    }
    let Some(part) = archive.open_part(&name)? else { return Ok(None) };
    if is_packed {
        read_document_xml(GzDecoder::new(part).take(PART_MAX_BYTES))
    } else {
        read_document_xml(part)
    }
    .map(Some)
}

fn read_document_xml(part: impl Read) -> Result<Extracted, ExtractError> {
    let mut body = IworkXmlReader::default();
    read_events(part, |event| {
        match event {
            Event::Start(element) => body.start_element(element),
            Event::Empty(element) => {
                body.start_element(element);
                body.end_element(element.local_name().as_ref());
            }
            Event::End(element) => body.end_element(element.local_name().as_ref()),
            _ => {
                if let Some(text) = event_text(event).filter(|_| body.shows_text()) {
                    push_within(&mut body.line, &text, OUTPUT_MAX_BYTES);
                }
            }
        }
        !body.is_full()
    })?;
    Ok(body.finish_document())
}

#[derive(Default)]
struct IworkXmlReader {
    /// A workbook, or else the written text.
    book: Option<WorkbookWriter>,
    writer: Option<DocumentWriter>,
    is_presentation: bool,
    slides: u32,
    /// The name of the sheet, and the texts on it.
    sheet: String,
    beside: Vec<String>,
    tables: u32,
    line: String,
    /// The depth of paragraphs, and of elements whose text is not shown or is written later.
    paragraphs: u32,
    hidden: u32,
    aside: u32,
    later: Vec<String>,
    is_heading: bool,
    in_title: bool,
    begins_notes: bool,
    in_comment: bool,
    /// The names of styles by their identifiers.
    styles: HashMap<String, String>,
    table: Option<IworkXmlTable>,
    /// The texts of choices by their identifiers.
    choices: HashMap<String, String>,
}

/// A table that is being read.
#[derive(Default)]
struct IworkXmlTable {
    name: Option<String>,
    /// True between the beginning and the end of its cells.
    has_begun: bool,
    /// The depth of elements in its cells: a cell has the depth 1.
    depth: u32,
    place: i64,
    is_next: bool,
    cell: String,
    /// The identifier of the choice that is being read.
    choice: Option<String>,
    in_choices: bool,
    row: i64,
    column: u32,
    line: String,
}

impl IworkXmlReader {
    fn writer_mut(&mut self) -> &mut DocumentWriter {
        self.writer.get_or_insert_with(DocumentWriter::new)
    }

    fn is_full(&self) -> bool {
        self.writer.as_ref().is_some_and(DocumentWriter::is_full)
            || self.book.as_ref().is_some_and(|book| book.truncated)
    }

    fn shows_text(&self) -> bool {
        self.paragraphs > 0 && self.hidden == 0
    }

    fn start_element(&mut self, element: &BytesStart<'_>) {
        let name = element.local_name();
        let name = name.as_ref();
        if self.hidden > 0 || HIDDEN.contains(&name) {
            self.hidden += 1;
            return;
        }
        if self.table.as_ref().is_some_and(|table| table.has_begun) {
            self.start_in_table(element, name);
            return;
        }
        match name {
            "document" if element.name().prefix().is_some_and(|prefix| prefix.as_ref() == "ls") => {
                self.book = Some(WorkbookWriter::default());
            }
            "presentation" => self.is_presentation = true,
            "workspace" => self.start_sheet(attribute_value(element, "workspace-name").unwrap_or_default()),
            "slide" if self.is_presentation && self.slides < PAGES_MAX => {
                self.slides += 1;
                let slide = self.slides;
                self.writer_mut().begin_slide(slide);
            }
            "title-placeholder" => self.in_title = true,
            "notes" => self.begins_notes = true,
            "annotation" => self.in_comment = true,
            "paragraphstyle" => self.keep_style(element),
            "tabular-model" => {
                let is_shown = attribute_value(element, "name-is-visible").as_deref() != Some("false");
                let name = attribute_value(element, "name").filter(|_| is_shown);
                self.table = Some(IworkXmlTable { name, ..IworkXmlTable::default() });
            }
            "datasource" => self.start_table(),
            "p" => {
                self.paragraphs += 1;
                let style = attribute_value(element, "style").and_then(|style| self.styles.get(&style));
                self.is_heading = style.is_some_and(|name| is_heading_name(name));
            }
            "tab" if self.shows_text() => self.line.push('\t'),
            "lnbr" if self.shows_text() => self.line.push(' '),
            name if ASIDE.contains(&name) => self.aside += 1,
            _ => {}
        }
    }

    fn end_element(&mut self, name: &str) {
        if self.hidden > 0 {
            self.hidden -= 1;
            return;
        }
        if self.table.as_ref().is_some_and(|table| table.has_begun) {
            self.end_in_table(name);
            return;
        }
        match name {
            "p" => self.end_paragraph(),
            "title-placeholder" => self.in_title = false,
            "notes" => self.begins_notes = false,
            "annotation" => self.in_comment = false,
            "workspace" => self.end_sheet(),
            name if ASIDE.contains(&name) => self.aside = self.aside.saturating_sub(1),
            _ => {}
        }
    }

    fn keep_style(&mut self, element: &BytesStart<'_>) {
        let named = |name: &str| attribute_value(element, name);
        let parent = || named("parent-ident").and_then(|parent| self.styles.get(&parent).cloned());
        let Some(name) = named("name").or_else(parent).filter(|name| name.len() <= STYLE_NAME_MAX_BYTES)
        else {
            return;
        };
        let ids = [named("ID"), named("ident")].into_iter().flatten();
        let ids = ids.filter(|id| id.len() <= STYLE_NAME_MAX_BYTES);
        if self.styles.len() < KEPT_MAX {
            self.styles.extend(ids.map(|id| (id, name.clone())));
        }
    }

    fn end_paragraph(&mut self) {
        self.paragraphs = self.paragraphs.saturating_sub(1);
        if self.paragraphs > 0 {
            self.line.push(' ');
            return;
        }
        let line = std::mem::take(&mut self.line);
        if line.trim().is_empty() {
            return;
        }
        if self.book.is_some() {
            self.beside.push(line);
        } else if self.aside > 0 {
            self.later.push(line);
        } else if self.in_comment {
            self.writer_mut().add_line(&format!("Comment: {}", line.trim()));
        } else if self.in_title || self.is_heading {
            self.writer_mut().add_heading(&line);
        } else {
            if std::mem::take(&mut self.begins_notes) {
                self.writer_mut().add_line(NOTES);
            }
            self.writer_mut().add_line(&line);
        }
    }

    fn start_sheet(&mut self, name: String) {
        (self.sheet, self.tables) = (name, 0);
        self.beside.clear();
    }

    /// Ends a sheet: its texts belong to its last table.
    fn end_sheet(&mut self) {
        let lines = std::mem::take(&mut self.beside);
        let (is_empty, name) = (self.tables == 0, &self.sheet);
        if let Some(book) = &mut self.book {
            if is_empty {
                book.begin_sheet(name);
            }
            book.add_notes(&lines);
        }
    }

    fn start_table(&mut self) {
        let table = self.table.get_or_insert_default();
        table.has_begun = true;
        self.tables += 1;
        let name = table.name.clone();
        if let Some(book) = &mut self.book {
            let page = match &name {
                Some(name) if *name != self.sheet => format!("{}, {name}", self.sheet),
                _ => self.sheet.clone(),
            };
            book.begin_sheet(&page);
        } else if let Some(name) = name {
            self.writer_mut().add_line(&name);
        }
    }

    fn start_in_table(&mut self, element: &BytesStart<'_>, name: &str) {
        let Some(table) = &mut self.table else { return };
        table.depth += 1;
        let named = |name: &str| attribute_value(element, name);
        let number = |name: &str| named(name).and_then(|number| number.parse::<f64>().ok());
        if table.depth == 1 {
            let step = named("ct").and_then(|step| step.parse().ok());
            table.place += step.unwrap_or(i64::from(table.is_next)).clamp(0, i64::from(u32::MAX));
            table.is_next = true;
            table.cell.clear();
        }
        let value = match name {
            "menu-choices" => {
                table.in_choices = true;
                None
            }
            "t" if table.in_choices => {
                table.choice = named("ID");
                None
            }
            "ct" if table.in_choices => {
                let choice = table.choice.take().zip(named("s")).filter(|_| self.choices.len() < KEPT_MAX);
                self.choices.extend(choice);
                None
            }
            "ct" => named("s"),
            "proxied-cell-ref" => named("IDREF").and_then(|id| self.choices.get(&id).cloned()),
            "n" | "rn" if !table.in_choices => number("v").map(format_float),
            "du" | "rdu" => number("v").map(format_duration),
            "d" | "rd" => number("cell-date").or_else(|| number("v")).map(format_date),
            "rb" => named("v").map(|value| value.to_uppercase()),
            "p" => {
                self.paragraphs += 1;
                None
            }
            _ => None,
        };
        if let Some(value) = value {
            push_within(&mut table.cell, &value, CELL_MAX_BYTES);
        }
    }

    fn end_in_table(&mut self, name: &str) {
        let Some(table) = &mut self.table else { return };
        match name {
            "datasource" if table.depth == 0 => {
                let line = std::mem::take(&mut table.line);
                self.table = None;
                if self.book.is_none() {
                    self.writer_mut().add_line(&line);
                }
                return;
            }
            "menu-choices" => table.in_choices = false,
            "p" => {
                self.paragraphs = self.paragraphs.saturating_sub(1);
                let text = std::mem::take(&mut self.line);
                push_within(&mut table.cell, &text, CELL_MAX_BYTES);
                push_within(&mut table.cell, " ", CELL_MAX_BYTES);
            }
            _ => {}
        }
        table.depth = table.depth.saturating_sub(1);
        if table.depth == 0 && !table.cell.trim().is_empty() {
            self.end_cell();
        }
    }

    fn end_cell(&mut self) {
        let Some(table) = &mut self.table else { return };
        let text = std::mem::take(&mut table.cell);
        let row = table.place / ROW_PLACES;
        let column = u32::try_from(table.place % ROW_PLACES).unwrap_or(0).min(COLUMNS_MAX);
        if let Some(book) = &mut self.book {
            book.add_cell(u32::try_from(row).unwrap_or(u32::MAX), column, &text);
            return;
        }
        let ended = (row != table.row).then(|| std::mem::take(&mut table.line));
        if ended.is_some() {
            (table.row, table.column) = (row, 0);
        }
        table.line.extend(std::iter::repeat_n('\t', column.saturating_sub(table.column) as usize));
        table.column = column;
        push_within(&mut table.line, &text.trim().replace(char::is_whitespace, " "), OUTPUT_MAX_BYTES);
        if let Some(line) = ended {
            self.writer_mut().add_line(&line);
        }
    }

    fn finish_document(mut self) -> Extracted {
        if let Some(book) = self.book {
            return book.finish_workbook();
        }
        let mut seen = HashSet::new();
        let later = std::mem::take(&mut self.later);
        let format = if self.is_presentation { DocumentFormat::Presentation } else { DocumentFormat::Pages };
        let writer = self.writer_mut();
        if !later.is_empty() {
            writer.end_heading();
        }
        later.iter().filter(|line| seen.insert(line.as_str())).for_each(|line| writer.add_line(line));
        self.writer.unwrap_or_else(DocumentWriter::new).finish_document(format)
    }
}
