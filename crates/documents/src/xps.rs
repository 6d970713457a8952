//! Reads XPS documents: the text of each page in the order in which the page draws it.

use std::collections::HashSet;

use quick_xml::events::{BytesStart, Event};

use super::archive::{PART_MAX_BYTES, ZipReader};
use super::output::DocumentWriter;
use super::parts::{LIST_MAX_BYTES, read_relations, resolve_target};
use super::xml::{attribute_value, read_events};
use super::{DocumentFormat, ExtractError, Extracted, PAGES_MAX, text};

/// The kind of the reference to the list of the documents.
const DOCUMENTS: &str = "fixedrepresentation";
/// The part of the height of a text by which its line may rise.
const SAME_LINE: f64 = 0.4;
/// The width of a letter, of the gap beyond it that is a space, and of a step back that is a space, as fractions of the
/// height of a text.
const LETTER: f64 = 0.55;
const GAP: f64 = 0.4;
const BACK: f64 = 3.2;

/// Returns the part with the list of the documents; `None` if the archive is not an XPS document.
pub(super) fn find_document_list(archive: &mut ZipReader<'_>) -> Result<Option<String>, ExtractError> {
    const USUAL: [&str; 2] = ["FixedDocSeq.fdseq", "FixedDocumentSequence.fdseq"];
    let named = read_relations(archive, "")?.into_iter().find(|relation| relation.kind == DOCUMENTS);
    let mut names = named.map(|relation| relation.target).into_iter().chain(USUAL.map(str::to_owned));
    Ok(names.find(|name| archive.has_part(name)))
}

/// Reads a document with the list of its documents.
pub(super) fn extract_xps(mut archive: ZipReader<'_>, list: &str) -> Result<Extracted, ExtractError> {
    let mut pages = Vec::new();
    for document in list_sources(&mut archive, list, "DocumentReference")? {
        pages.extend(list_sources(&mut archive, &document, "PageContent")?);
    }
    let mut writer = DocumentWriter::new();
    let mut seen = HashSet::new();
    for (name, page) in pages.iter().filter(|name| seen.insert(name.as_str())).zip(1..=PAGES_MAX) {
        writer.begin_page(page);
        let bytes = archive.read_part_start(name, PART_MAX_BYTES)?.unwrap_or_default();
        write_page(&text::decode_text(&bytes), &mut writer)?;
        if writer.is_full() {
            break;
        }
    }
    Ok(writer.finish_document(DocumentFormat::Xps))
}

/// Returns the parts that elements of this name refer to.
fn list_sources(archive: &mut ZipReader<'_>, part: &str, name: &str) -> Result<Vec<String>, ExtractError> {
    let folder = part.rsplit_once('/').map_or("", |(folder, _)| folder);
    let list = archive.read_part_start(part, LIST_MAX_BYTES)?.unwrap_or_default();
    let mut sources = Vec::new();
    read_events(text::decode_text(&list).as_bytes(), |event| {
        if let Event::Start(element) | Event::Empty(element) = event
            && element.local_name().as_ref() == name
        {
            sources.extend(attribute_value(element, "Source").map(|source| resolve_target(folder, &source)));
        }
        sources.len() < PAGES_MAX as usize
    })?;
    Ok(sources)
}

fn write_page(page: &str, writer: &mut DocumentWriter) -> Result<(), ExtractError> {
    let mut lines = XpsLines { writer, line: String::new(), end: None };
    read_events(page.as_bytes(), |event| {
        if let Event::Start(element) | Event::Empty(element) = event
            && element.local_name().as_ref() == "Glyphs"
        {
            lines.add_glyphs(element);
        }
        !lines.writer.is_full()
    })?;
    lines.writer.add_line(&lines.line);
    Ok(())
}

/// Joins the pieces of text of a page to lines.
struct XpsLines<'a> {
    writer: &'a mut DocumentWriter,
    line: String,
    /// The vertical position of the line, and the estimated end of its text.
    end: Option<(f64, f64)>,
}

impl XpsLines<'_> {
    fn add_glyphs(&mut self, element: &BytesStart<'_>) {
        let text = attribute_value(element, "UnicodeString").unwrap_or_default();
        // Braces escape a text that begins with one.
        let text = text.strip_prefix("{}").unwrap_or(&text);
        let number =
            |name: &str| attribute_value(element, name).and_then(|number| number.parse::<f64>().ok());
        let (Some(x), Some(y)) = (number("OriginX"), number("OriginY")) else { return };
        let size = number("FontRenderingEmSize").unwrap_or(0.0).abs();
        if let Some((line, end)) = self.end {
            let is_apart = x - end > GAP * size || x < end - BACK * size;
            if (line - y).abs() > SAME_LINE * size {
                self.writer.add_line(&std::mem::take(&mut self.line));
            } else if is_apart {
                self.line.push(' ');
            }
        }
        self.line.push_str(text);
        #[expect(clippy::cast_precision_loss, reason = "it is an estimate")]
        let width = text.chars().count() as f64 * LETTER * size;
        self.end = Some((y, x + width));
    }
}
