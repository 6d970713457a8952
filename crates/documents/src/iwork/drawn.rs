//! Reads the drawn objects of pages, slides and sheets: text boxes, shapes with a text, tables, charts, and images.

use std::collections::{HashMap, HashSet};

use super::kinds;
use super::message::{ProtoMessage, ProtoValue};
use super::package::IworkPackage;
use super::table::IworkTable;
use super::text::{self, IworkParagraph};
use crate::OUTPUT_MAX_BYTES;
use crate::book::{CELL_MAX_BYTES, COLUMNS_MAX, WorkbookWriter, format_float};
use crate::output::DocumentWriter;

/// The maximum nesting depth of objects in texts of objects.
const DEPTH_MAX: u32 = 8;
/// The maximum depth of refined kinds of objects: a placeholder is a text box, which is a shape.
const REFINED_MAX: usize = 3;
/// The maximum number of rows and columns of a chart that are read.
const CHART_ROWS_MAX: usize = 200;
const CHART_COLUMNS_MAX: usize = 100;

/// Reads the objects of a document, each once.
pub(super) struct Objects<'a> {
    package: &'a IworkPackage,
    seen: HashSet<u64>,
    /// The files of images by their identifiers.
    files: HashMap<u64, &'a str>,
    depth: u32,
}

impl<'a> Objects<'a> {
    pub(super) fn new(package: &'a IworkPackage) -> Self {
        let metadata = package.first_of_kind(kinds::METADATA).unwrap_or_default();
        let files = metadata.message_fields(4);
        let files = files
            .filter_map(|file| file.number_field(1).zip(file.text_field(4).or_else(|| file.text_field(3))));
        Self { package, seen: HashSet::new(), files: files.collect(), depth: 0 }
    }

    /// Writes a text with its headings, and the anchored objects below their paragraphs.
    pub(super) fn write_text(&mut self, id: u64, writer: &mut DocumentWriter) {
        if self.depth >= DEPTH_MAX || !self.seen.insert(id) {
            return;
        }
        self.depth += 1;
        for IworkParagraph { text, is_heading, objects, comments } in text::read_paragraphs(self.package, id)
        {
            if is_heading {
                writer.add_heading(&text);
            } else {
                writer.add_line(&text);
            }
            objects.into_iter().for_each(|object| self.write_drawable(object, writer));
            comments.iter().for_each(|comment| writer.add_line(comment));
            if writer.is_full() {
                break;
            }
        }
        self.depth -= 1;
    }

    /// Writes the text of an object as a heading.
    pub(super) fn write_title(&mut self, drawable: u64, writer: &mut DocumentWriter) {
        let Some((_, object)) = self.package.get(drawable).filter(|_| self.seen.insert(drawable)) else {
            return;
        };
        let text = text_of(self.package, object).filter(|text| self.seen.insert(*text));
        writer.add_heading(&join_paragraphs(self.package, text));
    }

    /// Writes a text below a line with its kind, unless it is empty.
    pub(super) fn text_below(&mut self, label: &str, id: u64, writer: &mut DocumentWriter) {
        if !self.seen.contains(&id) && !join_paragraphs(self.package, Some(id)).is_empty() {
            writer.add_line(label);
            self.write_text(id, writer);
        }
    }

    /// Writes the content of an object.
    pub(super) fn write_drawable(&mut self, drawable: u64, writer: &mut DocumentWriter) {
        for id in ungroup_drawables(self.package, drawable, &mut self.seen) {
            let Some((kind, object)) = self.package.get(id) else { continue };
            if let Some(mut table) = IworkTable::from_object(self.package, kind, object) {
                if let Some(title) = table.shown_title() {
                    writer.add_line(title);
                }
                write_rows(&mut table, writer);
            } else if kind == kinds::CHART {
                read_chart_values(object).iter().for_each(|line| writer.add_line(line));
            } else if kind == kinds::IMAGE {
                self.image_part(object).into_iter().for_each(|part| writer.add_image(part));
            } else if let Some(text) = text_of(self.package, object) {
                self.write_text(text, writer);
            }
        }
    }

    /// Reads a sheet of a workbook: each table is a page, and other content belongs to the first one. Returns `false`
    /// when no more is read.
    pub(super) fn read_sheet(&mut self, sheet: ProtoMessage<'_>, book: &mut WorkbookWriter) -> bool {
        let package = self.package;
        let name = sheet.text_field(1).unwrap_or_default();
        let drawables: Vec<u64> =
            sheet.reference_fields(2).flat_map(|id| ungroup_drawables(package, id, &mut self.seen)).collect();
        let is_table = |id: &u64| package.get(*id).is_some_and(|(kind, _)| kinds::TABLES.contains(&kind));
        let (tables, others): (Vec<u64>, Vec<u64>) = drawables.into_iter().partition(is_table);
        let mut beside = collect_sheet_extras(self, others);
        if tables.is_empty() {
            return book.begin_sheet(name) && beside.add_to_book(book);
        }
        let is_one = tables.len() == 1;
        for (kind, object) in tables.into_iter().filter_map(|id| package.get(id)) {
            let Some(mut table) = IworkTable::from_object(package, kind, object) else { continue };
            let page = match table.name() {
                Some(table) if !is_one && table != name => format!("{name}, {table}"),
                _ => name.to_owned(),
            };
            if !book.begin_sheet(&page) {
                return false;
            }
            table.visit_cells(|row, column, text| book.add_cell(row, column, text));
            beside.add_to_book(book);
        }
        true
    }

    /// Returns the part of the archive with an image.
    fn image_part(&self, image: ProtoMessage<'_>) -> Option<String> {
        let file = self.files.get(&image.message_field(11).number_field(1)?)?;
        Some(self.package.data_part_name(file))
    }
}

/// Writes a table: its rows as lines, with tabs between the cells.
fn write_rows(table: &mut IworkTable<'_>, writer: &mut DocumentWriter) {
    let (mut line, mut last, mut next_column) = (String::new(), 0, 0);
    table.visit_cells(|row, column, text| {
        if column >= COLUMNS_MAX {
            return true;
        }
        if row != last {
            writer.add_line(&line);
            line.clear();
            (last, next_column) = (row, 0);
        }
        line.extend(std::iter::repeat_n('\t', column.saturating_sub(next_column) as usize));
        next_column = column;
        let text = &text[..text.floor_char_boundary(text.len().min(CELL_MAX_BYTES))];
        line.push_str(&text.replace(char::is_whitespace, " "));
        // Cells of a damaged table may share one long text.
        line.len() < OUTPUT_MAX_BYTES && !writer.is_full()
    });
    writer.add_line(&line);
}

/// Texts and images beside the tables of a sheet.
struct IworkSheetExtras {
    lines: Vec<String>,
    images: Vec<String>,
}

impl IworkSheetExtras {
    /// Adds it to a page, once. Returns true.
    fn add_to_book(&mut self, book: &mut WorkbookWriter) -> bool {
        book.add_notes(&std::mem::take(&mut self.lines));
        std::mem::take(&mut self.images).into_iter().for_each(|part| book.add_image(part));
        true
    }
}

fn collect_sheet_extras(objects: &mut Objects<'_>, drawables: Vec<u64>) -> IworkSheetExtras {
    let mut beside = IworkSheetExtras { lines: Vec::new(), images: Vec::new() };
    for (kind, object) in drawables.into_iter().filter_map(|id| objects.package.get(id)) {
        match kind {
            kinds::CHART => beside.lines.extend(read_chart_values(object)),
            kinds::IMAGE => beside.images.extend(objects.image_part(object)),
            _ => {
                let text = text_of(objects.package, object).filter(|text| objects.seen.insert(*text));
                let paragraphs = text.map(|text| text::read_paragraphs(objects.package, text));
                let lines = paragraphs.into_iter().flatten().map(|paragraph| paragraph.text);
                beside.lines.extend(lines.filter(|line| !line.trim().is_empty()));
            }
        }
    }
    beside
}

/// Returns an object, or the objects of a group, except the ones seen before.
fn ungroup_drawables(package: &IworkPackage, drawable: u64, seen: &mut HashSet<u64>) -> Vec<u64> {
    let (mut leaves, mut open) = (Vec::new(), vec![drawable]);
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        match package.get(id) {
            Some((kinds::GROUP, group)) => {
                let children: Vec<u64> = group.reference_fields(2).collect();
                open.extend(children.into_iter().rev());
            }
            Some(_) => leaves.push(id),
            None => {}
        }
    }
    leaves
}

/// Returns the text of a text box or shape, or of an object that refines one.
fn text_of(package: &IworkPackage, object: ProtoMessage<'_>) -> Option<u64> {
    let mut object = object;
    for _ in 0..REFINED_MAX {
        let is_text = |id: &u64| package.get(*id).is_some_and(|(kind, _)| kinds::TEXT.contains(&kind));
        if let Some(text) = [4, 2].into_iter().find_map(|field| object.reference_field(field).filter(is_text))
        {
            return Some(text);
        }
        object = object.message_field(1);
    }
    None
}

/// Returns a text on one line.
fn join_paragraphs(package: &IworkPackage, text: Option<u64>) -> String {
    let paragraphs = text.into_iter().flat_map(|text| text::read_paragraphs(package, text));
    let lines: Vec<String> = paragraphs.map(|paragraph| paragraph.text).collect();
    lines.join(" ").trim().to_owned()
}

/// Returns the values that a chart shows: a line with the names of the columns, and one for each row.
fn read_chart_values(object: ProtoMessage<'_>) -> Vec<String> {
    let chart = object.message_field(10_000);
    // Samples of the program are not content.
    if chart.number_field(6) == Some(1) {
        return Vec::new();
    }
    let grid = chart.message_field(7);
    let names = |field: u32| grid.bytes_fields(field).map(|name| String::from_utf8_lossy(name).into_owned());
    let columns: Vec<String> = names(2).take(CHART_COLUMNS_MAX).collect();
    let rows = grid.message_fields(3).zip(names(1)).take(CHART_ROWS_MAX).map(|(row, name)| {
        let values = row.message_fields(1).take(CHART_COLUMNS_MAX).map(|value| {
            let number = value.fields().find_map(|(field, value)| match value {
                ProtoValue::Double(number) if field == 1 => Some(number),
                _ => None,
            });
            number.map(format_float).unwrap_or_default()
        });
        std::iter::once(name).chain(values).collect::<Vec<_>>().join("\t")
    });
    let head = (!columns.is_empty()).then(|| format!("\t{}", columns.join("\t")));
    head.into_iter().chain(rows).collect()
}
