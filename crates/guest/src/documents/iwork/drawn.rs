//! Reads what is drawn on pages, slides and sheets: text boxes, shapes with a text, tables, charts, and images.

use std::collections::{HashMap, HashSet};

use super::kinds;
use super::message::{Message, Value};
use super::package::Package;
use super::table::Table;
use super::text::{self, Paragraph};
use crate::documents::OUTPUT_MAX_BYTES;
use crate::documents::book::{Book, CELL_MAX_BYTES, COLUMNS_MAX, float};
use crate::documents::output::Writer;

/// How deep objects stand in texts of objects.
const DEPTH_MAX: u32 = 8;
/// How many kinds of objects one refines: a placeholder is a text box, which is a shape.
const REFINED_MAX: usize = 3;
/// The most rows and columns of a chart that are read.
const CHART_ROWS_MAX: usize = 200;
const CHART_COLUMNS_MAX: usize = 100;

/// Reads the objects of a document, each once.
pub(super) struct Objects<'a> {
    package: &'a Package,
    seen: HashSet<u64>,
    /// The files of images by their identifiers.
    files: HashMap<u64, &'a str>,
    depth: u32,
}

impl<'a> Objects<'a> {
    pub(super) fn new(package: &'a Package) -> Self {
        let metadata = package.first(kinds::METADATA).unwrap_or_default();
        let files = metadata.messages(4);
        let files = files.filter_map(|file| file.number(1).zip(file.text(4).or_else(|| file.text(3))));
        Self { package, seen: HashSet::new(), files: files.collect(), depth: 0 }
    }

    /// Writes a text with its headings, and what is anchored in it below the paragraphs.
    pub(super) fn text(&mut self, id: u64, writer: &mut Writer) {
        if self.depth >= DEPTH_MAX || !self.seen.insert(id) {
            return;
        }
        self.depth += 1;
        for Paragraph { text, is_heading, objects, comments } in text::paragraphs(self.package, id) {
            if is_heading {
                writer.heading(&text);
            } else {
                writer.line(&text);
            }
            objects.into_iter().for_each(|object| self.drawable(object, writer));
            comments.iter().for_each(|comment| writer.line(comment));
            if writer.is_full() {
                break;
            }
        }
        self.depth -= 1;
    }

    /// Writes the text of an object as a heading.
    pub(super) fn title(&mut self, drawable: u64, writer: &mut Writer) {
        let Some((_, object)) = self.package.get(drawable).filter(|_| self.seen.insert(drawable)) else {
            return;
        };
        let text = text_of(self.package, object).filter(|text| self.seen.insert(*text));
        writer.heading(&joined(self.package, text));
    }

    /// Writes a text below a line that says what it is, unless it is empty.
    pub(super) fn text_below(&mut self, label: &str, id: u64, writer: &mut Writer) {
        if !self.seen.contains(&id) && !joined(self.package, Some(id)).is_empty() {
            writer.line(label);
            self.text(id, writer);
        }
    }

    /// Writes what an object shows.
    pub(super) fn drawable(&mut self, drawable: u64, writer: &mut Writer) {
        for id in leaves(self.package, drawable, &mut self.seen) {
            let Some((kind, object)) = self.package.get(id) else { continue };
            if let Some(mut table) = Table::of(self.package, kind, object) {
                if let Some(title) = table.title() {
                    writer.line(title);
                }
                write_rows(&mut table, writer);
            } else if kind == kinds::CHART {
                chart(object).iter().for_each(|line| writer.line(line));
            } else if kind == kinds::IMAGE {
                self.image(object).into_iter().for_each(|part| writer.image(part));
            } else if let Some(text) = text_of(self.package, object) {
                self.text(text, writer);
            }
        }
    }

    /// Reads a sheet of a workbook: each table is a page, and the rest stands beside the first. Returns `false` when no more is read.
    pub(super) fn sheet(&mut self, sheet: Message<'_>, book: &mut Book) -> bool {
        let package = self.package;
        let name = sheet.text(1).unwrap_or_default();
        let drawables: Vec<u64> =
            sheet.references(2).flat_map(|id| leaves(package, id, &mut self.seen)).collect();
        let is_table = |id: &u64| package.get(*id).is_some_and(|(kind, _)| kinds::TABLES.contains(&kind));
        let (tables, others): (Vec<u64>, Vec<u64>) = drawables.into_iter().partition(is_table);
        let mut beside = beside(self, others);
        if tables.is_empty() {
            return book.begin(name) && beside.add(book);
        }
        let is_one = tables.len() == 1;
        for (kind, object) in tables.into_iter().filter_map(|id| package.get(id)) {
            let Some(mut table) = Table::of(package, kind, object) else { continue };
            let page = match table.name() {
                Some(table) if !is_one && table != name => format!("{name}, {table}"),
                _ => name.to_owned(),
            };
            if !book.begin(&page) {
                return false;
            }
            table.cells(|row, column, text| book.cell(row, column, text));
            beside.add(book);
        }
        true
    }

    /// Returns the part of the archive with an image.
    fn image(&self, image: Message<'_>) -> Option<String> {
        let file = self.files.get(&image.message(11).number(1)?)?;
        Some(self.package.part(file))
    }
}

/// Writes a table: its rows as lines, with tabs between the cells.
fn write_rows(table: &mut Table<'_>, writer: &mut Writer) {
    let (mut line, mut last, mut next_column) = (String::new(), 0, 0);
    table.cells(|row, column, text| {
        if column >= COLUMNS_MAX {
            return true;
        }
        if row != last {
            writer.line(&line);
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
    writer.line(&line);
}

/// Texts and images beside the tables of a sheet.
struct Beside {
    lines: Vec<String>,
    images: Vec<String>,
}

impl Beside {
    /// Adds it to a page, once. Returns true.
    fn add(&mut self, book: &mut Book) -> bool {
        book.notes(&std::mem::take(&mut self.lines));
        std::mem::take(&mut self.images).into_iter().for_each(|part| book.image(part));
        true
    }
}

fn beside(objects: &mut Objects<'_>, drawables: Vec<u64>) -> Beside {
    let mut beside = Beside { lines: Vec::new(), images: Vec::new() };
    for (kind, object) in drawables.into_iter().filter_map(|id| objects.package.get(id)) {
        match kind {
            kinds::CHART => beside.lines.extend(chart(object)),
            kinds::IMAGE => beside.images.extend(objects.image(object)),
            _ => {
                let text = text_of(objects.package, object).filter(|text| objects.seen.insert(*text));
                let paragraphs = text.map(|text| text::paragraphs(objects.package, text));
                let lines = paragraphs.into_iter().flatten().map(|paragraph| paragraph.text);
                beside.lines.extend(lines.filter(|line| !line.trim().is_empty()));
            }
        }
    }
    beside
}

/// Returns an object, or those of a group, that were not seen before.
fn leaves(package: &Package, drawable: u64, seen: &mut HashSet<u64>) -> Vec<u64> {
    let (mut leaves, mut open) = (Vec::new(), vec![drawable]);
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        match package.get(id) {
            Some((kinds::GROUP, group)) => {
                let children: Vec<u64> = group.references(2).collect();
                open.extend(children.into_iter().rev());
            }
            Some(_) => leaves.push(id),
            None => {}
        }
    }
    leaves
}

/// Returns the text of a text box or shape, or of an object that refines one.
fn text_of(package: &Package, object: Message<'_>) -> Option<u64> {
    let mut object = object;
    for _ in 0..REFINED_MAX {
        let is_text = |id: &u64| package.get(*id).is_some_and(|(kind, _)| kinds::TEXT.contains(&kind));
        if let Some(text) = [4, 2].into_iter().find_map(|field| object.reference(field).filter(is_text)) {
            return Some(text);
        }
        object = object.message(1);
    }
    None
}

/// Returns a text on one line.
fn joined(package: &Package, text: Option<u64>) -> String {
    let paragraphs = text.into_iter().flat_map(|text| text::paragraphs(package, text));
    let lines: Vec<String> = paragraphs.map(|paragraph| paragraph.text).collect();
    lines.join(" ").trim().to_owned()
}

/// Returns the values that a chart shows: a line with the names of the columns, and one for each row.
fn chart(object: Message<'_>) -> Vec<String> {
    let chart = object.message(10_000);
    // Samples of the program are no content.
    if chart.number(6) == Some(1) {
        return Vec::new();
    }
    let grid = chart.message(7);
    let names = |field: u32| grid.all(field).map(|name| String::from_utf8_lossy(name).into_owned());
    let columns: Vec<String> = names(2).take(CHART_COLUMNS_MAX).collect();
    let rows = grid.messages(3).zip(names(1)).take(CHART_ROWS_MAX).map(|(row, name)| {
        let values = row.messages(1).take(CHART_COLUMNS_MAX).map(|value| {
            let number = value.fields().find_map(|(field, value)| match value {
                Value::Double(number) if field == 1 => Some(number),
                _ => None,
            });
            number.map(float).unwrap_or_default()
        });
        std::iter::once(name).chain(values).collect::<Vec<_>>().join("\t")
    });
    let head = (!columns.is_empty()).then(|| format!("\t{}", columns.join("\t")));
    head.into_iter().chain(rows).collect()
}
