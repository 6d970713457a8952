//! Reads drawings of Visio since 2013: the text of the shapes on each page, and their data.

use std::io::Read;

use quick_xml::events::{BytesStart, Event};

use super::archive::Archive;
use super::output::Writer;
use super::parts::{LIST_MAX_BYTES, relations};
use super::xml::{attribute, event_text, events, push_within};
use super::{ExtractError, Extracted, Format, PAGES_MAX};

/// The list of the pages.
pub(super) const PAGES: &str = "visio/pages/pages.xml";
/// The most text of a shape, in bytes.
const SHAPE_MAX_BYTES: usize = 1024 * 1024;

pub(super) fn extract(mut archive: Archive<'_>) -> Result<Extracted, ExtractError> {
    let relations = relations(&mut archive, PAGES)?;
    let mut writer = Writer::new();
    for ((name, id), page) in pages(&mut archive)?.into_iter().zip(1..=PAGES_MAX) {
        writer.slide(page);
        writer.heading(&name);
        let target =
            relations.iter().find(|relation| relation.id == id).map(|relation| relation.target.as_str());
        if let Some(target) = target
            && let Some(part) = archive.part(target)?
        {
            write_page(part, &mut writer)?;
        }
        if writer.is_full() {
            break;
        }
    }
    Ok(writer.finish(Format::Drawing))
}

/// Returns the names of the pages with the identifiers of their parts.
fn pages(archive: &mut Archive<'_>) -> Result<Vec<(String, String)>, ExtractError> {
    let list = archive.text(PAGES, LIST_MAX_BYTES)?;
    let (mut pages, mut name) = (Vec::new(), String::new());
    events(list.as_bytes(), |event| {
        if let Event::Start(element) | Event::Empty(element) = event {
            match element.local_name().as_ref() {
                "Page" => name = attribute(element, "Name").unwrap_or_default(),
                "Rel" => pages.extend(attribute(element, "id").map(|id| (std::mem::take(&mut name), id))),
                _ => {}
            }
        }
        pages.len() < PAGES_MAX as usize
    })?;
    Ok(pages)
}

fn write_page(part: impl Read, writer: &mut Writer) -> Result<(), ExtractError> {
    let mut page = Page { writer, text: None, data: None };
    events(part, |event| {
        match event {
            Event::Start(element) => page.start(element),
            Event::Empty(element) => page.cell(element),
            Event::End(element) => page.end(element.local_name().as_ref()),
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
struct Page<'a> {
    writer: &'a mut Writer,
    /// The text of the current shape.
    text: Option<String>,
    /// The label and the value of the current data of a shape.
    data: Option<(String, String)>,
}

impl Page<'_> {
    fn start(&mut self, element: &BytesStart<'_>) {
        match element.local_name().as_ref() {
            "Text" => self.text = Some(String::new()),
            "Section" if attribute(element, "N").as_deref() == Some("Property") => {
                self.data = Some(Default::default());
            }
            _ => self.cell(element),
        }
    }

    fn cell(&mut self, element: &BytesStart<'_>) {
        let Some((label, value)) = self.data.as_mut().filter(|_| element.local_name().as_ref() == "Cell")
        else {
            return;
        };
        let of = match attribute(element, "N").as_deref() {
            Some("Label") => label,
            Some("Value") => value,
            _ => return,
        };
        *of = attribute(element, "V").unwrap_or_default();
    }

    fn end(&mut self, name: &str) {
        match name {
            "Text" => self.writer.lines(&self.text.take().unwrap_or_default()),
            "Row" => {
                if let Some((label, value)) = self.data.as_mut().map(std::mem::take)
                    && !label.is_empty()
                    && !value.is_empty()
                {
                    self.writer.line(&format!("{label}: {value}"));
                }
            }
            "Section" => self.data = None,
            _ => {}
        }
    }
}
