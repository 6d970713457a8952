//! Reads the objects inside OpenDocument files: equations, charts, workbooks and texts of LibreOffice, and files of other programs.

use std::collections::HashMap;

use quick_xml::events::Event;

use super::archive::ZipReader;
use super::book::WorkbookWriter;
use super::mathml::MathEquation;
use super::parts::resolve_target;
use super::xml::{read_events, unless_broken};
use super::{DocumentFormat, ExtractError, Extracted, Nesting, embedded_files, ods, odt};

/// The maximum number of objects of a document, and the maximum text length of one, in lines.
const OBJECTS_MAX: usize = 500;
const LINES_MAX: usize = 10_000;
/// The maximum size of an object, in bytes.
const OBJECT_MAX_BYTES: u64 = 16 * 1024 * 1024;
/// The part of an object that has its content.
const CONTENT: &str = "/content.xml";
/// The beginning of the name of an object of another program, which is a file without an extension.
const FOREIGN: &str = "Object ";

/// An object inside a document.
#[derive(Debug)]
pub(super) enum OdfObject {
    /// An equation, on one line.
    Equation(String),
    /// The titles and values of a chart.
    Chart(Vec<String>),
    /// Another document, with its name.
    File(Vec<String>),
}

/// The objects of a document by the names of their parts.
#[derive(Debug, Default)]
pub(super) struct OdfObjects {
    objects: HashMap<String, OdfObject>,
    /// True if an object was left out, or a part of one.
    pub(super) is_cut: bool,
}

impl OdfObjects {
    pub(super) fn from_archive(
        archive: &mut ZipReader<'_>,
        nesting: Nesting<'_>,
    ) -> Result<Self, ExtractError> {
        let mut objects = Self::default();
        for name in archive.part_names() {
            let of_office = name.strip_suffix(CONTENT);
            let is_foreign = name.starts_with(FOREIGN) && !name.contains('/');
            if of_office.is_none() && !is_foreign {
                continue;
            }
            if objects.objects.len() >= OBJECTS_MAX {
                objects.is_cut = true;
                break;
            }
            let Some(object) = of_office else {
                let file = unless_broken(embedded_files::read_embedded_file(archive, &name, nesting))?;
                objects.is_cut |= file.is_cut;
                objects.objects.insert(name, OdfObject::File(file.lines));
                continue;
            };
            let content = archive.read_part_start(&name, OBJECT_MAX_BYTES)?.unwrap_or_default();
            objects.is_cut |= content.len() as u64 >= OBJECT_MAX_BYTES;
            let read = unless_broken(read_object(object, &content, nesting).map(Some))?;
            if let Some((read, is_cut)) = read {
                objects.is_cut |= is_cut;
                objects.objects.insert(object.to_owned(), read);
            }
        }
        Ok(objects)
    }

    /// Takes the object that an element refers to; each object is shown once.
    pub(super) fn take_object(&mut self, href: &str) -> Option<OdfObject> {
        self.objects.remove(&resolve_target("", href).replace("%20", " "))
    }
}

/// The kinds of content of an object.
#[derive(Clone, Copy, Default, PartialEq)]
enum OdfObjectKind {
    Equation,
    Chart,
    Workbook,
    #[default]
    Other,
}

/// Reads an object, and returns it with true if it was read in part.
fn read_object(name: &str, content: &[u8], nesting: Nesting<'_>) -> Result<(OdfObject, bool), ExtractError> {
    let document = match detect_object_kind(content)? {
        OdfObjectKind::Equation => return Ok((OdfObject::Equation(read_equation(content)?), false)),
        OdfObjectKind::Chart => {
            let (lines, is_cut) = lines_of(&odt::extract_flat(content, DocumentFormat::Odt)?);
            return Ok((OdfObject::Chart(lines), is_cut));
        }
        _ if !nesting.take_attachment() => Err(embedded_files::TOO_MANY),
        OdfObjectKind::Workbook => {
            let mut book = WorkbookWriter::default();
            ods::read_part(content, &mut book, OdfObjects::default())?;
            Ok(book.finish_workbook())
        }
        OdfObjectKind::Other => Ok(odt::extract_flat(content, DocumentFormat::Odt)?),
    };
    let mut lines = vec![embedded_files::embedded_file_title(name)];
    let is_cut = match document {
        Ok(document) => {
            let (text, is_cut) = lines_of(&document);
            lines.extend(text);
            is_cut
        }
        Err(why) => {
            lines.push(why.to_owned());
            false
        }
    };
    Ok((OdfObject::File(lines), is_cut))
}

fn detect_object_kind(content: &[u8]) -> Result<OdfObjectKind, ExtractError> {
    let mut kind = None;
    read_events(content, |event| {
        if let Event::Start(element) | Event::Empty(element) = event {
            kind = match element.name().as_ref() {
                "office:chart" => Some(OdfObjectKind::Chart),
                "office:spreadsheet" => Some(OdfObjectKind::Workbook),
                "office:text" | "office:presentation" | "office:drawing" => Some(OdfObjectKind::Other),
                _ => (element.local_name().as_ref() == "math").then_some(OdfObjectKind::Equation),
            };
        }
        kind.is_none()
    })?;
    Ok(kind.unwrap_or_default())
}

fn read_equation(content: &[u8]) -> Result<String, ExtractError> {
    let (mut equation, mut line) = (None::<MathEquation>, None);
    read_events(content, |event| {
        match (&mut equation, event) {
            (Some(equation), event) => line = equation.read_event(event),
            (None, Event::Start(element)) if element.local_name().as_ref() == "math" => {
                equation = Some(MathEquation::with_source(None));
            }
            _ => {}
        }
        line.is_none()
    })?;
    Ok(line.or_else(|| equation.map(MathEquation::finish_equation)).unwrap_or_default())
}

/// Returns the lines of a document, and true if they are not all.
fn lines_of(document: &Extracted) -> (Vec<String>, bool) {
    let mut texts = document.segments.iter().flat_map(|segment| segment.text.lines());
    let lines: Vec<String> = texts.by_ref().take(LINES_MAX).map(str::to_owned).collect();
    (lines, document.truncated || texts.next().is_some())
}
