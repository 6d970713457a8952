//! Reads OpenDocument texts (LibreOffice).

use std::io::Read;

use quick_xml::events::{BytesStart, Event};

use super::archive::ZipReader;
use super::embedded_images::retain_recognizable;
use super::mathml::MathEquation;
use super::odf_objects::{OdfObject, OdfObjects};
use super::output::DocumentWriter;
use super::parts::resolve_target;
use super::xml::{alternative_text, attribute_value, comment_line, event_text, push_within, read_events};
use super::{DocumentFormat, ExtractError, Extracted, Nesting, PAGES_MAX};

/// The maximum number of spaces that one element may represent.
const BLANKS_MAX: usize = 64;
/// The maximum number of comments at one line, and the maximum lengths of a comment and of its author's name, in bytes.
const COMMENTS_MAX: usize = 10_000;
const COMMENT_MAX_BYTES: usize = 64 * 1024;
const AUTHOR_MAX_BYTES: usize = 200;

/// Reads a presentation: each slide is a page.
pub(super) fn extract_slides(
    archive: ZipReader<'_>,
    nesting: Nesting<'_>,
) -> Result<Extracted, ExtractError> {
    read_open_document(archive, DocumentFormat::Presentation, nesting)
}

pub(super) fn extract_odt(archive: ZipReader<'_>, nesting: Nesting<'_>) -> Result<Extracted, ExtractError> {
    read_open_document(archive, DocumentFormat::Odt, nesting)
}

fn read_open_document(
    mut archive: ZipReader<'_>,
    format: DocumentFormat,
    nesting: Nesting<'_>,
) -> Result<Extracted, ExtractError> {
    let objects = OdfObjects::from_archive(&mut archive, nesting)?;
    let part = archive.open_part("content.xml")?;
    let mut extracted =
        part.map_or_else(|| Ok(Extracted::empty(format)), |part| read_body(part, format, objects))?;
    retain_recognizable(&mut archive, &mut extracted);
    Ok(extracted)
}

/// Reads the body of a document that is a single file, not an archive. Its images are not read.
pub(super) fn extract_flat(body: &[u8], format: DocumentFormat) -> Result<Extracted, ExtractError> {
    Ok(Extracted { images: Vec::new(), ..read_body(body, format, OdfObjects::default())? })
}

fn read_body(
    part: impl Read,
    format: DocumentFormat,
    objects: OdfObjects,
) -> Result<Extracted, ExtractError> {
    let mut body = OdtReader::new(objects);
    read_events(part, |event| {
        if body.read_equation_event(event) {
            return !body.writer.is_full();
        }
        match event {
            Event::Start(element) => body.start_element(element, true),
            Event::Empty(element) => body.start_element(element, false),
            Event::End(element) => body.end_element(element.local_name().as_ref()),
            _ => {
                if let Some(text) = event_text(event) {
                    body.push_text(&text);
                }
            }
        }
        !body.writer.is_full()
    })?;
    body.write_pending();
    let is_cut = body.is_cut;
    let mut extracted = body.writer.finish_document(format);
    extracted.truncated |= is_cut;
    Ok(extracted)
}

struct OdtReader {
    writer: DocumentWriter,
    line: String,
    row: String,
    /// The depth of paragraphs and headings; text outside them does not exist.
    paragraphs: u32,
    tables: u32,
    items: u32,
    slides: u32,
    /// True inside the frame with a slide's title.
    in_title: bool,
    /// True until the first line of a slide's notes.
    begins_notes: bool,
    /// The depth of elements whose text is left out: deletions, and dates of comments.
    hidden: u32,
    /// The comment that is being read.
    comment: Option<Comment>,
    /// True if a comment was left out, or a part of it.
    is_cut: bool,
    /// Lines that belong below the last one: comments, alternative texts of pictures, and texts of objects; and the parts
    /// of images.
    below: Vec<String>,
    images: Vec<String>,
    /// The alternative text of a picture, while it is being read.
    alternative: Option<String>,
    equation: Option<MathEquation>,
    objects: OdfObjects,
}

#[derive(Default)]
struct Comment {
    author: String,
    text: String,
    in_author: bool,
}

impl Comment {
    /// Appends a text. Returns false if it does not fit.
    fn push_text(&mut self, text: &str) -> bool {
        if self.in_author {
            push_within(&mut self.author, text, AUTHOR_MAX_BYTES);
            return true;
        }
        push_within(&mut self.text, text, COMMENT_MAX_BYTES)
    }
}

impl OdtReader {
    fn new(objects: OdfObjects) -> Self {
        Self {
            writer: DocumentWriter::new(),
            line: String::new(),
            row: String::new(),
            paragraphs: 0,
            tables: 0,
            items: 0,
            slides: 0,
            in_title: false,
            begins_notes: false,
            hidden: 0,
            comment: None,
            is_cut: objects.is_cut,
            below: Vec::new(),
            images: Vec::new(),
            alternative: None,
            equation: None,
            objects,
        }
    }

    /// Writes the lines that belong below the last one.
    fn write_pending(&mut self) {
        for line in std::mem::take(&mut self.below) {
            self.writer.add_line(&line);
        }
        for image in std::mem::take(&mut self.images) {
            self.writer.add_image(image);
        }
    }

    /// Puts a line below the current one.
    fn put_below(&mut self, line: String) {
        if self.below.len() >= COMMENTS_MAX {
            self.is_cut = true;
        } else {
            self.below.push(line);
        }
    }

    /// Reads an equation in the text. Returns false if the event does not belong to one.
    fn read_equation_event(&mut self, event: &Event<'_>) -> bool {
        if let Some(equation) = &mut self.equation {
            // It is not closed.
            let is_beyond = matches!(event, Event::End(element) if element.name().as_ref() == "text:p");
            let written = match is_beyond {
                true => self.equation.take().map(MathEquation::finish_equation),
                false => equation.read_event(event),
            };
            if let Some(written) = written {
                self.equation = None;
                self.line.push_str(&written);
            }
            return !is_beyond;
        }
        let begins = matches!(event, Event::Start(element) if element.local_name().as_ref() == "math");
        if begins && self.hidden == 0 && self.comment.is_none() {
            self.equation = Some(MathEquation::with_source(None));
            return true;
        }
        false
    }

    /// Adds the text of an object: an equation in place, others below the line.
    fn add_object(&mut self, element: &BytesStart<'_>) {
        match attribute_value(element, "href").and_then(|href| self.objects.take_object(&href)) {
            Some(OdfObject::Equation(line)) if self.paragraphs > 0 => self.line.push_str(&line),
            Some(OdfObject::Equation(line)) => self.put_below(line),
            Some(OdfObject::Chart(lines) | OdfObject::File(lines)) => {
                lines.into_iter().for_each(|line| self.put_below(line));
            }
            None => {}
        }
    }

    fn push_text(&mut self, text: &str) {
        if let Some(alternative) = &mut self.alternative {
            push_within(alternative, text, COMMENT_MAX_BYTES);
            return;
        }
        if let Some(comment) = self.comment.as_mut().filter(|_| self.hidden == 0) {
            self.is_cut |= !comment.push_text(text);
        } else if self.paragraphs > 0 && self.hidden == 0 {
            // Line breaks in the file are spaces; tabs are elements.
            self.line.extend(text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }));
        }
    }

    fn start_element(&mut self, element: &BytesStart<'_>, opens: bool) {
        if let Some(comment) = &mut self.comment {
            match element.local_name().as_ref() {
                "creator" if opens => comment.in_author = true,
                "date" | "creator-initials" | "date-string" if opens => self.hidden += 1,
                "s" | "tab" | "line-break" => {
                    comment.push_text(" ");
                }
                _ => {}
            }
            return;
        }
        match element.local_name().as_ref() {
            "annotation" if opens => self.comment = Some(Comment::default()),
            "p" | "h" if opens => {
                if self.items > 0 && self.paragraphs == 0 && self.line.is_empty() {
                    self.line.push_str("- ");
                }
                self.paragraphs += 1;
            }
            "tab" => self.line.push('\t'),
            "line-break" => self.line.push(' '),
            "s" => {
                let count =
                    attribute_value(element, "c").and_then(|count| count.parse().ok()).unwrap_or(1_usize);
                self.line.extend(std::iter::repeat_n(' ', count.min(BLANKS_MAX)));
            }
            "note-body" if opens => self.line.push_str(" ("),
            "note-citation" | "tracked-changes" | "binary-data" if opens => self.hidden += 1,
            "list-item" if opens => self.items += 1,
            "page" if opens && self.slides < PAGES_MAX => {
                self.write_pending();
                self.slides += 1;
                self.begins_notes = false;
                self.writer.begin_slide(self.slides);
            }
            "frame" if opens => self.in_title = attribute_value(element, "class").as_deref() == Some("title"),
            "notes" if opens => self.begins_notes = true,
            "page-number" if opens => self.hidden += 1,
            "table" if opens => self.tables += 1,
            "title" | "desc" if opens && element.name().as_ref().starts_with("svg:") => {
                self.alternative = Some(String::new());
            }
            "object" | "object-ole" if self.hidden == 0 => self.add_object(element),
            "image" if self.hidden == 0 => {
                self.images.extend(attribute_value(element, "href").map(|path| resolve_target("", &path)));
            }
            _ => {}
        }
    }

    fn end_element(&mut self, name: &str) {
        if let Some(comment) = &mut self.comment {
            match name {
                "creator" => comment.in_author = false,
                "date" | "creator-initials" | "date-string" => self.hidden = self.hidden.saturating_sub(1),
                "p" => {
                    comment.push_text(" ");
                }
                "annotation" => {
                    let Comment { author, text, .. } = self.comment.take().unwrap_or_default();
                    if !text.trim().is_empty() {
                        self.put_below(comment_line(&author, &text));
                    }
                }
                _ => {}
            }
            return;
        }
        match name {
            "title" | "desc" if self.alternative.is_some() => {
                let text = self.alternative.take().filter(|_| self.hidden == 0);
                let line = text.as_deref().and_then(alternative_text).map(|text| format!("Picture: {text}"));
                if let Some(line) = line.filter(|line| self.below.last() != Some(line)) {
                    self.put_below(line);
                }
            }
            "p" | "h" => {
                self.paragraphs = self.paragraphs.saturating_sub(1);
                if self.paragraphs > 0 {
                    self.line.push(' ');
                    return;
                }
                let line = std::mem::take(&mut self.line);
                if self.begins_notes && !line.trim().is_empty() {
                    self.begins_notes = false;
                    self.writer.add_line("Notes:");
                }
                if self.tables > 0 {
                    self.row.push_str(line.trim_start_matches("- ").replace('\t', " ").trim());
                    self.row.push(' ');
                } else if name == "h" || self.in_title {
                    self.writer.add_heading(line.trim_start_matches("- "));
                } else if line != "- " {
                    self.writer.add_line(&line);
                }
                if self.tables == 0 {
                    self.write_pending();
                }
            }
            "frame" => self.in_title = false,
            "page-number" => self.hidden = self.hidden.saturating_sub(1),
            "note-body" => {
                self.line.truncate(self.line.trim_end().len());
                self.line.push(')');
            }
            "note-citation" | "tracked-changes" | "binary-data" => {
                self.hidden = self.hidden.saturating_sub(1);
            }
            "list-item" => self.items = self.items.saturating_sub(1),
            "table-cell" if self.tables == 1 => self.row.push('\t'),
            "table-row" if self.tables == 1 => {
                let row = std::mem::take(&mut self.row);
                self.writer.add_line(&row);
                self.write_pending();
            }
            "table" => self.tables = self.tables.saturating_sub(1),
            _ => {}
        }
    }
}
