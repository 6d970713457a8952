//! Reads drawings of Visio since 2013: the text of the shapes on each page, and their data.

use std::io::Read;

use quick_xml::events::{BytesStart, Event};

use super::archive::ZipReader;
use super::output::DocumentWriter;
use super::parts::{LIST_MAX_BYTES, read_relations};
use super::xml::{attribute_value, event_text, push_within, read_events};
use super::{DocumentFormat, ExtractError, Extracted, PAGES_MAX};

/// The list of the pages.
pub(super) const PAGES: &str = "visio/pages/pages.xml";
/// The maximum text length of a shape, in bytes.
const SHAPE_MAX_BYTES: usize = 1024 * 1024;

pub(super) fn extract_visio(mut archive: ZipReader<'_>) -> Result<Extracted, ExtractError> {
    let relations = read_relations(&mut archive, PAGES)?;
    let mut writer = DocumentWriter::new();
    for ((name, id), page) in list_pages(&mut archive)?.into_iter().zip(1..=PAGES_MAX) {
        writer.begin_slide(page);
        writer.add_heading(&name);
        let target =
            relations.iter().find(|relation| relation.id == id).map(|relation| relation.target.as_str());
        if let Some(target) = target
            && let Some(part) = archive.open_part(target)?
        {
            write_page(part, &mut writer)?;
        }
        if writer.is_full() {
            break;
        }
    }
    Ok(writer.finish_document(DocumentFormat::Drawing))
}

/// Returns the names of the pages with the identifiers of their parts.
fn list_pages(archive: &mut ZipReader<'_>) -> Result<Vec<(String, String)>, ExtractError> {
    let list = archive.read_part_text(PAGES, LIST_MAX_BYTES)?;
    let (mut pages, mut name) = (Vec::new(), String::new());
    read_events(list.as_bytes(), |event| {
        if let Event::Start(element) | Event::Empty(element) = event {
            match element.local_name().as_ref() {
                "Page" => name = attribute_value(element, "Name").unwrap_or_default(),
                "Rel" => {
                    pages.extend(attribute_value(element, "id").map(|id| (std::mem::take(&mut name), id)))
                }
                _ => {}
            }
        }
        pages.len() < PAGES_MAX as usize
    })?;
    Ok(pages)
}

fn write_page(part: impl Read, writer: &mut DocumentWriter) -> Result<(), ExtractError> {
    let mut page = VisioPage { writer, text: None, data: None };
    read_events(part, |event| {
        match event {
            Event::Start(element) => page.start_element(element),
            Event::Empty(element) => page.read_cell(element),
            Event::End(element) => page.end_element(element.local_name().as_ref()),
            _ => {
                if let (Some(shape), Some(text)) = (&mut page.text, event_text(event)) {
                    push_within(shape, &text, SHAPE_MAX_BYTES);
                }
            }
        }
        !page.writer.is_full()
    })
}

/// A page that is being read.
struct VisioPage<'a> {
    writer: &'a mut DocumentWriter,
    /// The text of the current shape.
    text: Option<String>,
    /// The label and the value of the current data of a shape.
    data: Option<(String, String)>,
}

impl VisioPage<'_> {
    fn start_element(&mut self, element: &BytesStart<'_>) {
        match element.local_name().as_ref() {
            "Text" => self.text = Some(String::new()),
            "Section" if attribute_value(element, "N").as_deref() == Some("Property") => {
                self.data = Some(Default::default());
            }
            _ => self.read_cell(element),
        }
    }

    fn read_cell(&mut self, element: &BytesStart<'_>) {
        let Some((label, value)) = self.data.as_mut().filter(|_| element.local_name().as_ref() == "Cell")
        else {
            return;
        };
        let of = match attribute_value(element, "N").as_deref() {
            Some("Label") => label,
            Some("Value") => value,
            _ => return,
        };
        *of = attribute_value(element, "V").unwrap_or_default();
    }

    fn end_element(&mut self, name: &str) {
        match name {
            "Text" => self.writer.add_lines(&self.text.take().unwrap_or_default()),
            "Row" => {
                if let Some((label, value)) = self.data.as_mut().map(std::mem::take)
                    && !label.is_empty()
                    && !value.is_empty()
                {
                    self.writer.add_line(&format!("{label}: {value}"));
                }
            }
            "Section" => self.data = None,
            _ => {}
        }
    }
}
