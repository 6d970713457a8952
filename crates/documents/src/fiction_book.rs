//! Reads FictionBook, a book in one XML file: its sections are pages; sections with subsections down to the second level.

use std::collections::{HashMap, HashSet};

use quick_xml::events::{BytesStart, Event};

use super::embedded_images::{LISTED_MAX, retain_recognizable_of};
use super::output::DocumentWriter;
use super::xml::{attribute_value, event_text, read_events};
use super::{DocumentFormat, ExtractError, Extracted, PAGES_MAX, loose_images};

/// The maximum depth of sections that begin pages.
const PAGE_DEPTH: u32 = 2;
/// The name of the format in the names of its images, which have identifiers.
pub(super) const IMAGES: &str = "fb2";

/// Extracts the text of a book: its title and authors, then its bodies; bodies after the first contain the notes.
pub(super) fn extract_fiction_book(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    let text = super::text::decode_declared(bytes, "encoding=");
    let mut reading = FictionBookReader::new();
    // A damaged or truncated book is read up to the damage.
    let ended = read_events(text.as_bytes(), |event| reading.read_event(event));
    if !reading.in_body {
        return Err(ExtractError::broken_file("FictionBook", "it has no body"));
    }
    reading.end_line();
    reading.place_images();
    let is_cut = ended.is_err() || reading.page > PAGES_MAX;
    let mut extracted = reading.writer.finish_document(DocumentFormat::Book);
    extracted.truncated |= is_cut;
    let parts = extracted.images.iter().map(|image| image.part.clone()).collect();
    let images = collect_wanted_images(&text, &parts);
    retain_recognizable_of(&mut extracted, |part| loose_images::decode_base64_image(images.get(part)?));
    Ok(extracted)
}

/// Returns the image of a book with this identifier.
pub(super) fn find_fiction_book_image(bytes: &[u8], id: &str) -> Option<Vec<u8>> {
    let text = super::text::decode_declared(bytes, "encoding=");
    let part = loose_images::image_part_name(IMAGES, id);
    let images = collect_wanted_images(&text, &HashSet::from([part.clone()]));
    loose_images::decode_base64_image(images.get(&part)?)
}

/// Returns the wanted images of a book as encoded text.
fn collect_wanted_images(text: &str, wanted: &HashSet<String>) -> HashMap<String, String> {
    let mut images = HashMap::<String, String>::new();
    if wanted.is_empty() {
        return images;
    }
    let mut present = None;
    // Images of a damaged or truncated book are found up to the damage.
    let _ = read_events(text.as_bytes(), |event| {
        match event {
            Event::Start(element) if element.local_name().as_ref() == "binary" => {
                let part = attribute_value(element, "id").map(|id| loose_images::image_part_name(IMAGES, id));
                present = part.filter(|part| wanted.contains(part) && !images.contains_key(part));
            }
            Event::End(element) if element.local_name().as_ref() == "binary" => present = None,
            Event::Text(text) => {
                if let Some(part) = &present {
                    images.entry(part.clone()).or_default().push_str(&text.xml10_content());
                }
            }
            _ => {}
        }
        true
    });
    images
}

struct FictionBookReader {
    writer: DocumentWriter,
    line: String,
    /// The parts of the images on the page that begins with the next line.
    images: Vec<String>,
    page: u32,
    /// True if the text that comes next begins a page.
    begins_page: bool,
    in_body: bool,
    /// The depth of sections, and of elements whose text is not read.
    sections: u32,
    hidden: u32,
    in_title: bool,
}

impl FictionBookReader {
    fn new() -> Self {
        Self {
            writer: DocumentWriter::new(),
            line: String::new(),
            images: Vec::new(),
            page: 0,
            begins_page: true,
            in_body: false,
            sections: 0,
            hidden: 0,
            in_title: false,
        }
    }

    /// Takes an event. Returns false when no more is read.
    fn read_event(&mut self, event: &Event<'_>) -> bool {
        match event {
            Event::Start(element) => self.start_element(element),
            Event::Empty(element) => match element.local_name().as_ref() {
                "empty-line" => self.end_line(),
                "image" => self.add_image(element),
                _ => {}
            },
            Event::End(element) => self.end_element(element.local_name().as_ref()),
            event => {
                if self.hidden == 0
                    && let Some(text) = event_text(event)
                {
                    // Line breaks and tabs of the source are spaces.
                    self.line.extend(text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }));
                }
            }
        }
        !self.writer.is_full() && self.page <= PAGES_MAX
    }

    fn start_element(&mut self, element: &BytesStart<'_>) {
        let name = element.local_name();
        match name.as_ref() {
            _ if self.hidden > 0 => self.hidden += 1,
            // Images as encoded text, and the hidden fields of the description.
            "binary" | "stylesheet" | "document-info" | "publish-info" | "custom-info" | "src-title-info"
            | "genre" | "keywords" | "coverpage" | "lang" | "src-lang" | "id" | "home-page" | "email" => {
                self.hidden = 1
            }
            "body" => {
                self.in_body = true;
                self.sections = 0;
                self.new_page();
            }
            "section" => {
                self.sections += 1;
                if self.sections <= PAGE_DEPTH {
                    self.new_page();
                }
            }
            "image" => self.add_image(element),
            "title" | "subtitle" | "book-title" => {
                self.end_line();
                self.in_title = true;
            }
            "td" | "th" if !self.line.trim().is_empty() => self.line.push('\t'),
            // Parts of a name.
            "first-name" | "middle-name" | "last-name" | "nickname" => self.line.push(' '),
            name if is_block(name) && !self.in_title => self.end_line(),
            "p" => self.line.push(' '),
            _ => {}
        }
    }

    fn end_element(&mut self, name: &str) {
        match name {
            _ if self.hidden > 0 => self.hidden -= 1,
            "section" => {
                self.end_line();
                self.sections = self.sections.saturating_sub(1);
            }
            "title" | "subtitle" | "book-title" => {
                self.end_line();
                self.in_title = false;
            }
            name if is_block(name) && !self.in_title => self.end_line(),
            _ => {}
        }
    }

    /// Takes an image, which follows the line that is being read.
    fn add_image(&mut self, element: &BytesStart<'_>) {
        let address = attribute_value(element, "href").filter(|_| self.hidden == 0 && self.in_body);
        if let Some(id) = address.as_deref().and_then(|address| address.strip_prefix('#'))
            && self.images.len() < LISTED_MAX
        {
            self.images.push(loose_images::image_part_name(IMAGES, id));
        }
    }

    /// Places the images after the last line, if there is any.
    fn place_images(&mut self) {
        if self.page > 0 {
            self.images.drain(..).for_each(|part| self.writer.add_image(part));
        }
    }

    fn new_page(&mut self) {
        self.end_line();
        // Images before the first text wait for it.
        if !self.begins_page {
            self.place_images();
        }
        self.begins_page = true;
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.trim().is_empty() {
            return;
        }
        if std::mem::take(&mut self.begins_page) {
            self.page += 1;
            if self.page > PAGES_MAX {
                return;
            }
            self.writer.begin_slide(self.page);
        }
        if self.in_title {
            self.writer.add_heading(&line);
        } else {
            self.writer.add_line(&line);
        }
        self.place_images();
    }
}

/// Returns true for an element whose text is on separate lines.
fn is_block(name: &str) -> bool {
    matches!(
        name,
        "p" | "v"
            | "author"
            | "translator"
            | "annotation"
            | "epigraph"
            | "cite"
            | "poem"
            | "stanza"
            | "text-author"
            | "date"
            | "tr"
            | "table"
            | "sequence"
    )
}
