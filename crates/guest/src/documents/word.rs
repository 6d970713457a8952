//! Reads Word documents: paragraphs, headings, lists with their numbers, tables as rows, footnotes at their
//! references, and pages if Word recorded the page breaks.

use std::collections::{HashMap, HashSet};
use std::io::{BufReader, Read};

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use super::archive::{Archive, unpacking};
use super::numbering::Numbering;
use super::output::Writer;
use super::{ExtractError, Extracted, Format, PAGES_MAX};

/// The maximum text of one footnote, in bytes.
const FOOTNOTE_MAX_BYTES: usize = 4 * 1024;
/// The maximum depth of tables; deeper ones become text of the cell.
const NESTING_MAX: usize = 32;

pub(super) fn extract(mut archive: Archive<'_>) -> Result<Extracted, ExtractError> {
    let headings = match archive.part("word/styles.xml")? {
        Some(part) => heading_styles(part)?,
        None => HashSet::new(),
    };
    let footnotes = match archive.part("word/footnotes.xml")? {
        Some(part) => footnotes(part)?,
        None => HashMap::new(),
    };
    let numbering = match archive.part("word/numbering.xml")? {
        Some(part) => Numbering::parse(part)?,
        None => Numbering::default(),
    };
    let has_pages = match archive.part("word/document.xml")? {
        Some(part) => notes_pages(part)?,
        None => return Err(ExtractError::broken("DOCX", "it has no text part")),
    };
    let mut body = Body::new(headings, footnotes, numbering, has_pages);
    if let Some(part) = archive.part("word/document.xml")? {
        let mut full = false;
        events(part, |event| {
            body.event(event);
            full = body.writer.is_full() || body.page > PAGES_MAX;
            !full
        })?;
    }
    Ok(body.finish())
}

/// Reads the events of a part until `each` returns `false`.
pub(super) fn events(part: impl Read, mut each: impl FnMut(&Event<'_>) -> bool) -> Result<(), ExtractError> {
    let mut reader = Reader::from_reader(BufReader::new(part));
    reader.config_mut().check_end_names = false;
    reader.config_mut().allow_unmatched_ends = true;
    let mut buffer = Vec::new();
    loop {
        match reader.read_event_into(&mut buffer) {
            Ok(Event::Eof) => return Ok(()),
            Ok(event) => {
                if !each(&event) {
                    return Ok(());
                }
            }
            Err(quick_xml::Error::Io(error)) => return Err(unpacking("XML", &error)),
            Err(error) => return Err(ExtractError::broken("XML", error)),
        }
        buffer.clear();
    }
}

/// Returns the value of an attribute by its local name.
pub(super) fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    element
        .attributes()
        .with_checks(false)
        .flatten()
        .find(|attribute| attribute.key.local_name().as_ref() == name)
        .and_then(|attribute| {
            attribute.normalized_value(XmlVersion::Implicit1_0).ok().map(std::borrow::Cow::into_owned)
        })
}

/// Returns the text of an event, with entities resolved.
pub(super) fn event_text(event: &Event<'_>) -> Option<String> {
    match event {
        Event::Text(text) => Some(text.xml10_content().into_owned()),
        Event::CData(text) => Some(text.xml10_content().into_owned()),
        Event::GeneralRef(reference) => {
            if let Ok(Some(c)) = reference.resolve_char_ref() {
                return Some(c.to_string());
            }
            let named = match &*reference.xml10_content() {
                "amp" => "&",
                "lt" => "<",
                "gt" => ">",
                "quot" => "\"",
                "apos" => "'",
                _ => return None,
            };
            Some(named.to_owned())
        }
        _ => None,
    }
}

/// Returns true if the document records where Word broke its pages when it was last saved.
fn notes_pages(part: impl Read) -> Result<bool, ExtractError> {
    let mut found = false;
    events(part, |event| {
        if let Event::Start(element) | Event::Empty(element) = event {
            found = element.local_name().as_ref() == "lastRenderedPageBreak";
        }
        !found
    })?;
    Ok(found)
}

/// Returns the ids of paragraph styles that are headings, in any language.
fn heading_styles(part: impl Read) -> Result<HashSet<String>, ExtractError> {
    let mut found = HashSet::new();
    let mut current = String::new();
    events(part, |event| {
        if let Event::Start(element) | Event::Empty(element) = event {
            match element.local_name().as_ref() {
                "style" => current = attribute(element, "styleId").unwrap_or_default(),
                "name" => {
                    let name = attribute(element, "val").unwrap_or_default().to_lowercase();
                    if name.starts_with("heading") || name == "title" {
                        found.insert(current.clone());
                    }
                }
                "outlineLvl" if attribute(element, "val").is_some_and(|level| level != "9") => {
                    found.insert(current.clone());
                }
                _ => {}
            }
        }
        found.len() < 1000
    })?;
    Ok(found)
}

fn footnotes(part: impl Read) -> Result<HashMap<String, String>, ExtractError> {
    let mut found: HashMap<String, String> = HashMap::new();
    let mut id = None;
    let mut in_text = false;
    events(part, |event| {
        match event {
            Event::Start(element) => match element.local_name().as_ref() {
                "footnote" => {
                    // Separators have a type, notes do not.
                    id = attribute(element, "type").is_none().then(|| attribute(element, "id")).flatten();
                }
                "t" => in_text = true,
                _ => {}
            },
            Event::End(element) => match element.local_name().as_ref() {
                "t" => in_text = false,
                "p" => {
                    if let Some(note) = id.as_ref().and_then(|id| found.get_mut(id)) {
                        note.push(' ');
                    }
                }
                _ => {}
            },
            _ => {
                if in_text && let (Some(id), Some(text)) = (&id, event_text(event)) {
                    let note = found.entry(id.clone()).or_default();
                    if note.len() + text.len() <= FOOTNOTE_MAX_BYTES {
                        note.push_str(&text);
                    }
                }
            }
        }
        true
    })?;
    Ok(found)
}

/// A paragraph that is being read.
#[derive(Default)]
struct Paragraph {
    text: String,
    is_heading: bool,
    list: Option<String>,
    level: usize,
}

/// Collects the body of the document.
struct Body {
    writer: Writer,
    headings: HashSet<String>,
    footnotes: HashMap<String, String>,
    numbering: Numbering,
    paragraphs: Vec<Paragraph>,
    /// The current row of each open table, with cells separated by tabs.
    rows: Vec<String>,
    pending_notes: Vec<String>,
    in_text: bool,
    /// The depth of elements whose text is left out: moved text, and fallback versions of shapes.
    hidden: u32,
    has_pages: bool,
    page: u32,
    page_pending: bool,
}

impl Body {
    fn new(
        headings: HashSet<String>,
        footnotes: HashMap<String, String>,
        numbering: Numbering,
        has_pages: bool,
    ) -> Self {
        let mut writer = Writer::new();
        if has_pages {
            writer.page(1);
        }
        Self {
            writer,
            headings,
            footnotes,
            numbering,
            paragraphs: Vec::new(),
            rows: Vec::new(),
            pending_notes: Vec::new(),
            in_text: false,
            hidden: 0,
            has_pages,
            page: 1,
            page_pending: false,
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Start(element) => self.start(element, true),
            Event::Empty(element) => self.start(element, false),
            Event::End(element) => self.end(element.local_name().as_ref()),
            _ => {
                if self.in_text
                    && let Some(text) = event_text(event)
                {
                    self.push(&text);
                }
            }
        }
    }

    fn push(&mut self, text: &str) {
        if self.hidden == 0
            && let Some(paragraph) = self.paragraphs.last_mut()
        {
            paragraph.text.push_str(text);
        }
    }

    fn start(&mut self, element: &BytesStart<'_>, opens: bool) {
        match element.local_name().as_ref() {
            "p" if opens && self.paragraphs.len() < NESTING_MAX => self.paragraphs.push(Paragraph::default()),
            "t" => self.in_text = opens,
            // Tab stops of a paragraph have the same element name, and a position.
            "tab" if attribute(element, "val").is_none() => self.push("\t"),
            "br" | "cr" => self.push(" "),
            "noBreakHyphen" => self.push("-"),
            "Fallback" | "moveFrom" if opens => self.hidden += 1,
            "lastRenderedPageBreak" => self.page_break(),
            "footnoteReference" => {
                if let Some(note) = attribute(element, "id").and_then(|id| self.footnotes.get(&id)) {
                    self.pending_notes.push(note.clone());
                }
            }
            "tbl" if opens && self.rows.len() < NESTING_MAX => self.rows.push(String::new()),
            "pStyle" => {
                let style = attribute(element, "val").unwrap_or_default();
                let heading = self.headings.contains(&style);
                let list = self.numbering.of_style(&style);
                if let Some(paragraph) = self.paragraphs.last_mut() {
                    paragraph.is_heading |= heading;
                    if let Some((list, level)) = list {
                        paragraph.list = Some(list);
                        paragraph.level = level;
                    }
                }
            }
            "outlineLvl" => {
                if let Some(paragraph) = self.paragraphs.last_mut() {
                    paragraph.is_heading |= attribute(element, "val").is_some_and(|level| level != "9");
                }
            }
            "ilvl" => {
                let level = attribute(element, "val").and_then(|level| level.parse().ok());
                if let (Some(paragraph), Some(level)) = (self.paragraphs.last_mut(), level) {
                    paragraph.level = level;
                }
            }
            "numId" => {
                if let Some(paragraph) = self.paragraphs.last_mut() {
                    paragraph.list = attribute(element, "val").filter(|id| id != "0");
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "t" => self.in_text = false,
            "Fallback" | "moveFrom" => self.hidden = self.hidden.saturating_sub(1),
            "p" => {
                if let Some(paragraph) = self.paragraphs.pop() {
                    self.paragraph(paragraph);
                }
            }
            "tc" => {
                if let Some(row) = self.rows.last_mut() {
                    row.push('\t');
                }
            }
            "tr" => self.row(),
            "tbl" => {
                self.row();
                self.rows.pop();
            }
            _ => {}
        }
    }

    fn paragraph(&mut self, paragraph: Paragraph) {
        let mut text = paragraph.text;
        if let Some(list) = &paragraph.list
            && !text.trim().is_empty()
        {
            text = format!("{}{text}", self.numbering.next(list, paragraph.level));
        }
        if let Some(row) = self.rows.last_mut() {
            if !row.is_empty() && !row.ends_with(['\t', ' ']) {
                row.push(' ');
            }
            row.push_str(&text.replace('\t', " "));
        } else if paragraph.is_heading {
            self.writer.heading(&text);
        } else {
            self.writer.line(&text);
        }
        if self.rows.is_empty() {
            self.notes();
        }
    }

    /// Ends a row: of an outer table it is a line, of a nested table it is text of the cell.
    fn row(&mut self) {
        let Some(row) = self.rows.last_mut().map(std::mem::take) else { return };
        let outer = self.rows.len().checked_sub(2).and_then(|index| self.rows.get_mut(index));
        match outer {
            Some(cell) => {
                if !cell.is_empty() && !cell.ends_with(['\t', ' ']) {
                    cell.push(' ');
                }
                cell.push_str(row.trim().replace('\t', " ").as_str());
            }
            None => {
                self.writer.line(&row);
                self.notes();
            }
        }
    }

    fn notes(&mut self) {
        for note in std::mem::take(&mut self.pending_notes) {
            self.writer.line(&note);
        }
        if std::mem::take(&mut self.page_pending) {
            self.page += 1;
            self.writer.page(self.page);
        }
    }

    /// Handles a page break within or before a paragraph. The part of the paragraph before it stays on its page; in
    /// a table the new page begins after the row.
    fn page_break(&mut self) {
        if !self.has_pages || self.hidden > 0 {
            return;
        }
        if !self.rows.is_empty() || self.paragraphs.len() != 1 {
            self.page_pending = true;
            return;
        }
        if let Some(paragraph) = self.paragraphs.last_mut() {
            let before = std::mem::take(&mut paragraph.text);
            if !before.trim().is_empty() {
                let list = paragraph.list.take();
                let part = Paragraph { text: before, is_heading: false, list, level: paragraph.level };
                self.paragraph(part);
            }
        }
        self.page += 1;
        self.writer.page(self.page);
    }

    fn finish(self) -> Extracted {
        let mut extracted = self.writer.finish(Format::Docx);
        extracted.truncated |= self.page > PAGES_MAX;
        extracted
    }
}
