//! Collects the text of a document within its bound.

use std::collections::HashSet;

use domain::unread::UnreadImages;

use super::embedded_images::LISTED_MAX;
use super::{DocumentFormat, DocumentSegment, EmbeddedImage, Extracted, OUTPUT_MAX_BYTES};

/// The maximum length of a heading, in bytes.
const HEADING_MAX_BYTES: usize = 200;
/// The maximum number of segments: more than the index takes passages of.
pub(super) const SEGMENTS_MAX: usize = 50_000;

/// Writes a document of paragraphs: each is one line, and lines are counted through the document. After the first
/// page begins, pages are counted instead.
#[derive(Debug)]
pub(super) struct DocumentWriter {
    segments: Vec<DocumentSegment>,
    text: String,
    heading: Option<String>,
    page: Option<u32>,
    first_line: u32,
    next_line: u32,
    bytes: usize,
    truncated: bool,
    /// True if some of the content was left out.
    left_out: bool,
    images: Vec<EmbeddedImage>,
    /// The parts of the images.
    image_parts: HashSet<String>,
    unread_files: Vec<u32>,
    unread_images: UnreadImages,
}

impl DocumentWriter {
    pub(super) fn new() -> Self {
        Self {
            segments: Vec::new(),
            text: String::new(),
            heading: None,
            page: None,
            first_line: 1,
            next_line: 1,
            bytes: 0,
            truncated: false,
            left_out: false,
            images: Vec::new(),
            image_parts: HashSet::new(),
            unread_files: Vec::new(),
            unread_images: UnreadImages::NONE,
        }
    }

    /// Returns true if the bound is reached and reading can stop.
    pub(super) const fn is_full(&self) -> bool {
        self.truncated
    }

    /// Records that something before the next line is left out. Reading continues.
    pub(super) const fn leave_out(&mut self) {
        self.left_out = true;
    }

    /// Adds a paragraph or row, trimmed. Ignores empty ones.
    pub(super) fn add_line(&mut self, line: &str) {
        let line = clean_line(line);
        if line.is_empty() || self.truncated {
            return;
        }
        let room = OUTPUT_MAX_BYTES - self.bytes;
        let fitting = &line[..line.floor_char_boundary(line.len().min(room))];
        self.truncated = fitting.len() < line.len();
        if self.next_line > self.first_line {
            self.text.push('\n');
        }
        self.text.push_str(fitting);
        self.bytes += fitting.len() + 1;
        self.truncated |= self.bytes >= OUTPUT_MAX_BYTES;
        self.next_line += 1;
    }

    /// Adds a heading: a line that begins a new segment.
    pub(super) fn add_heading(&mut self, line: &str) {
        let clean = clean_line(line);
        if clean.is_empty() {
            return;
        }
        self.close_segment();
        let end = clean.floor_char_boundary(clean.len().min(HEADING_MAX_BYTES));
        self.heading = Some(clean[..end].to_owned());
        self.add_line(line);
    }

    pub(super) fn begin_page(&mut self, page: u32) {
        self.close_segment();
        self.page = Some(page);
    }

    /// Begins a page whose text is not below the heading of the one before.
    pub(super) fn begin_slide(&mut self, page: u32) {
        self.begin_page(page);
        self.heading = None;
    }

    /// Ends the text below the last heading.
    pub(super) fn end_heading(&mut self) {
        self.close_segment();
        self.heading = None;
    }

    /// Adds an image after the last line. An image in several places counts at the first one.
    pub(super) fn add_image(&mut self, part: String) {
        let line = self.page.is_none().then(|| self.last_line());
        self.add_placed_image(EmbeddedImage { part, page: self.page, line, heading: self.heading.clone() });
    }

    /// Adds an image with its place.
    pub(super) fn add_placed_image(&mut self, image: EmbeddedImage) {
        if self.images.len() < LISTED_MAX && self.image_parts.insert(image.part.clone()) {
            self.images.push(image);
        }
    }

    /// Adds a line unless it is the same as the one before.
    pub(super) fn line_once(&mut self, line: &str) {
        if self.text.lines().next_back().is_none_or(|last| last != line) {
            self.add_line(line);
        }
    }

    /// Returns the number of the last line; 1 before the first.
    pub(super) fn last_line(&self) -> u32 {
        self.next_line.saturating_sub(1).max(1)
    }

    /// Returns the heading of the present line.
    pub(super) fn present_heading(&self) -> Option<String> {
        self.heading.clone()
    }

    /// Counts a file inside the document that is not read, or not whole.
    pub(super) fn unread_file(&mut self, number: u32) {
        self.unread_files.push(number);
    }

    /// Counts images that are not recognized.
    pub(super) fn unread_images(&mut self, images: UnreadImages) {
        self.unread_images.add_all(images);
    }

    /// Adds each line of a text.
    pub(super) fn add_lines(&mut self, text: &str) {
        text.lines().for_each(|line| self.add_line(line));
    }

    /// Adds the text of another document, with its headings.
    pub(super) fn append_document(&mut self, document: &Extracted) {
        self.left_out |= document.truncated;
        for segment in &document.segments {
            for (number, line) in segment.text.lines().enumerate() {
                if number == 0 && segment.heading.as_deref().is_some_and(|heading| line.starts_with(heading))
                {
                    self.add_heading(line);
                } else {
                    self.add_line(line);
                }
            }
        }
    }

    /// Adds the text of a document inside this one, or the line that says why it is not read.
    pub(super) fn add_embedded_document(&mut self, document: &Result<Extracted, String>) {
        match document {
            Ok(document) => self.append_document(document),
            Err(why) => self.add_line(why),
        }
    }

    fn close_segment(&mut self) {
        self.truncated |= self.segments.len() >= SEGMENTS_MAX;
        if self.next_line > self.first_line {
            let lines = self.page.is_none().then_some((self.first_line, self.next_line - 1));
            self.segments.push(DocumentSegment {
                page: self.page,
                lines,
                heading: self.heading.clone(),
                text: std::mem::take(&mut self.text),
                inner: None,
                columns: None,
            });
        }
        self.first_line = self.next_line;
    }

    pub(super) fn finish_document(mut self, format: DocumentFormat) -> Extracted {
        self.close_segment();
        let lines = self.page.is_none().then_some(self.next_line - 1);
        Extracted {
            segments: self.segments,
            pages: self.page,
            lines,
            truncated: self.truncated || self.left_out,
            images: self.images,
            unread_files: self.unread_files,
            unread_images: self.unread_images,
            ..Extracted::empty(format)
        }
    }
}

/// Removes control characters and collapses spaces; retains tabs.
pub(super) fn clean_line(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for c in line.chars() {
        match c {
            '\t' => {
                out.truncate(out.trim_end_matches(' ').len());
                out.push('\t');
            }
            '\u{ad}' | '\u{feff}' | '\u{200b}' => {}
            _ if c.is_whitespace() || c.is_control() => {
                if !out.ends_with([' ', '\t']) {
                    out.push(' ');
                }
            }
            _ => out.push(c),
        }
    }
    out.trim_matches([' ', '\t']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn add_heading_begins_segment() {
        let mut writer = DocumentWriter::new();
        writer.add_line("  first \u{1b}[31m line ");
        writer.add_heading("Title");
        writer.add_line("");
        writer.add_line("body");
        let extracted = writer.finish_document(DocumentFormat::Html);
        assert_eq!(extracted.lines, Some(3));
        assert_eq!(extracted.segments[0].text, "first [31m line");
        assert_eq!(extracted.segments[1].lines, Some((2, 3)));
        assert_eq!(extracted.segments[1].heading.as_deref(), Some("Title"));
        assert_eq!(extracted.segments[1].text, "Title\nbody");
    }

    #[test]
    fn document_writer_text_bounded() {
        let mut writer = DocumentWriter::new();
        let line = "č".repeat(1024 * 1024);
        for _ in 0..8 {
            writer.add_line(&line);
        }
        assert!(writer.is_full());
        let extracted = writer.finish_document(DocumentFormat::Html);
        assert!(extracted.truncated);
        assert!(
            extracted.segments.iter().map(|segment| segment.text.len()).sum::<usize>() <= OUTPUT_MAX_BYTES
        );
    }
}
