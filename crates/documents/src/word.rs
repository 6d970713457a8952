//! Reads Word documents: paragraphs, headings, lists with their numbers, tables as rows, footnotes, endnotes and comments
//! at their references, charts and diagrams below their paragraphs, and pages if Word recorded the page breaks. Headers
//! come first and footers last, once each.

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::path::Path;

use domain::unread::{UnreadImage, UnreadImages};
use quick_xml::events::{BytesStart, Event};

use super::archive::{ZipReader, unpack_error};
use super::embedded_images::retain_recognizable;
use super::equation::Equation;
use super::form_field::{FormField, element_sign};
use super::numbering::Numbering;
use super::output::DocumentWriter;
use super::parts::{Relation, image_targets, read_relations};
use super::word_notes::WordNotes;
use super::xml::{
    alternative_line, attribute_value, event_text, read_events, read_paragraphs, unless_broken,
};
use super::{
    DocumentFormat, ExtractBounds, ExtractError, Extracted, Nesting, PAGES_MAX, chart, embedded_files,
};

/// The maximum depth of tables; deeper ones become text of the cell.
const NESTING_MAX: usize = 32;

/// Reads the document with this main part.
pub(super) fn extract_word(
    mut archive: ZipReader<'_>,
    main: &str,
    nesting: Nesting<'_>,
) -> Result<Extracted, ExtractError> {
    let relations = read_relations(&mut archive, main)?;
    let target = |kind: &str| {
        let related = relations.iter().find(|relation| relation.kind == kind);
        related.map_or_else(|| format!("word/{kind}.xml"), |relation| relation.target.clone())
    };
    let headings =
        archive.open_part(&target("styles"))?.map_or_else(|| Ok(HashSet::new()), heading_styles)?;
    let notes = WordNotes::from_archive(&mut archive, target)?;
    let numbering = archive
        .open_part(&target("numbering"))?
        .map_or_else(|| Ok(Numbering::default()), Numbering::parse)?;
    let has_pages = match archive.open_part(main)? {
        Some(part) => notes_pages(part)?,
        None => return Err(ExtractError::broken_file("DOCX", "it has no text part")),
    };
    let embedded = WordEmbedded::from_archive(&mut archive, &relations, nesting)?;
    let mut body = WordBody::new(headings, notes, numbering, embedded, has_pages);
    write_margins(&mut archive, &relations, "header", &mut body.writer)?;
    if let Some(part) = archive.open_part(main)? {
        let mut full = false;
        read_events(part, |event| {
            body.read_event(event);
            full = body.writer.is_full() || body.page > PAGES_MAX;
            !full
        })?;
    }
    body.end_drop_cap();
    body.writer.end_heading();
    write_margins(&mut archive, &relations, "footer", &mut body.writer)?;
    let mut extracted = body.finish_document();
    retain_recognizable(&mut archive, &mut extracted);
    Ok(extracted)
}

/// Reads a document of Word 2003 that is a single XML file. Its images are not read.
pub(super) fn extract_flat(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    let content = super::text::decode_text(bytes);
    let headings = heading_styles(content.as_bytes())?;
    let has_pages = notes_pages(content.as_bytes())?;
    let (notes, numbering) = (WordNotes::default(), Numbering::default());
    let mut body = WordBody::new(headings, notes, numbering, WordEmbedded::default(), has_pages);
    let mut in_body = false;
    read_events(content.as_bytes(), |event| {
        if let Event::Start(element) = event {
            in_body |= element.local_name().as_ref() == "body";
        }
        if in_body {
            body.read_event(event);
        }
        !body.writer.is_full() && body.page <= PAGES_MAX
    })?;
    Ok(Extracted { images: Vec::new(), ..body.finish_document() })
}

/// Writes the lines of headers or footers, each once; page numbers are skipped.
fn write_margins(
    archive: &mut ZipReader<'_>,
    relations: &[Relation],
    kind: &str,
    writer: &mut DocumentWriter,
) -> Result<(), ExtractError> {
    let (mut parts, mut written) = (HashSet::new(), HashSet::new());
    for Relation { target, .. } in relations.iter().filter(|relation| relation.kind == kind) {
        let Some(part) = archive.open_part(target)?.filter(|_| parts.insert(target)) else { continue };
        for line in unless_broken(read_paragraphs(part))? {
            if line.contains(char::is_alphabetic) && written.insert(line.clone()) {
                writer.add_line(&line);
            }
        }
    }
    Ok(())
}

/// The parts at a place of the text, by the ids of their references.
#[derive(Default)]
struct WordEmbedded {
    /// The lines of charts and diagrams.
    drawings: HashMap<String, Vec<String>>,
    /// The parts of images.
    images: HashMap<String, String>,
    /// Documents of other formats, which Word shows inline.
    chunks: HashMap<String, Result<Extracted, String>>,
    /// True if a file was read in part.
    is_cut: bool,
}

impl WordEmbedded {
    fn from_archive(
        archive: &mut ZipReader<'_>,
        relations: &[Relation],
        nesting: Nesting<'_>,
    ) -> Result<Self, ExtractError> {
        let mut embedded = Self { images: image_targets(relations), ..Self::default() };
        let mut parts = HashSet::new();
        for Relation { id, kind, target } in relations {
            let is_read =
                matches!(kind.as_str(), "chart" | "diagramData" | "aFChunk" | "package" | "oleObject");
            if !is_read || !parts.insert(target) {
                continue;
            }
            if matches!(kind.as_str(), "package" | "oleObject") {
                let file = embedded_files::read_embedded_file(archive, target, nesting)?;
                embedded.is_cut |= file.is_cut;
                embedded.drawings.insert(id.clone(), file.lines);
                continue;
            }
            let Some(mut part) = archive.open_part(target)? else { continue };
            match kind.as_str() {
                "chart" => {
                    drop(embedded.drawings.insert(id.clone(), unless_broken(chart::read_chart_lines(part))?))
                }
                "diagramData" => {
                    drop(embedded.drawings.insert(id.clone(), unless_broken(read_paragraphs(part))?))
                }
                _ => {
                    let mut bytes = Vec::new();
                    part.read_to_end(&mut bytes).map_err(|error| unpack_error("DOCX", &error))?;
                    if nesting.take_attachment() {
                        embedded.chunks.insert(
                            id.clone(),
                            nesting.extract_inner(Path::new(target), &bytes, &ExtractBounds::default()),
                        );
                    }
                }
            }
        }
        Ok(embedded)
    }
}

/// Returns the images of a document inside this one, which are not recognized.
fn images_of(chunk: &Extracted) -> UnreadImages {
    let images = u32::try_from(chunk.images.len() + chunk.scans.len()).unwrap_or(u32::MAX);
    let mut unread = chunk.unread_images;
    unread.add_images(UnreadImage::Failed, images);
    unread
}

/// Returns true if the document records where Word broke its pages when it was last saved.
fn notes_pages(part: impl Read) -> Result<bool, ExtractError> {
    let mut found = false;
    read_events(part, |event| {
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
    read_events(part, |event| {
        if let Event::Start(element) | Event::Empty(element) = event {
            match element.local_name().as_ref() {
                "style" => current = attribute_value(element, "styleId").unwrap_or_default(),
                "name" => {
                    let name = attribute_value(element, "val").unwrap_or_default().to_lowercase();
                    if name.starts_with("heading") || name == "title" {
                        found.insert(current.clone());
                    }
                }
                "outlineLvl" if attribute_value(element, "val").is_some_and(|level| level != "9") => {
                    found.insert(current.clone());
                }
                _ => {}
            }
        }
        found.len() < 1000
    })?;
    Ok(found)
}

/// A paragraph that is being read.
#[derive(Default)]
struct WordParagraph {
    text: String,
    is_heading: bool,
    list: Option<String>,
    level: usize,
    /// True for the large initial of the next paragraph.
    is_drop_cap: bool,
}

/// Collects the body of the document.
struct WordBody {
    writer: DocumentWriter,
    headings: HashSet<String>,
    notes: WordNotes,
    numbering: Numbering,
    embedded: WordEmbedded,
    paragraphs: Vec<WordParagraph>,
    /// The initial of the next paragraph, which stands in a frame before it.
    drop_cap: String,
    /// The current row of each open table, with cells separated by tabs.
    rows: Vec<String>,
    pending_notes: Vec<String>,
    /// The parts of the images of the current paragraph or row.
    pending_images: Vec<String>,
    form_field: Option<FormField>,
    /// The equation that is being read.
    equation: Option<Equation>,
    /// True if the text of the current field repeats the value of its form field, and while it is left out.
    repeats: bool,
    in_repetition: bool,
    in_text: bool,
    /// The depth of elements whose text is left out: moved text, and fallback versions of shapes.
    hidden: u32,
    has_pages: bool,
    page: u32,
    /// The page breaks in the cell that is being read, and the maximum in a cell of its row, which is the number of pages
    /// that the row adds.
    breaks_in_cell: u32,
    breaks_in_row: u32,
}

impl WordBody {
    fn new(
        headings: HashSet<String>,
        notes: WordNotes,
        numbering: Numbering,
        embedded: WordEmbedded,
        has_pages: bool,
    ) -> Self {
        let mut writer = DocumentWriter::new();
        if has_pages {
            writer.begin_page(1);
        }
        Self {
            writer,
            headings,
            notes,
            numbering,
            embedded,
            paragraphs: Vec::new(),
            drop_cap: String::new(),
            rows: Vec::new(),
            pending_notes: Vec::new(),
            pending_images: Vec::new(),
            form_field: None,
            equation: None,
            repeats: false,
            in_repetition: false,
            in_text: false,
            hidden: 0,
            has_pages,
            page: 1,
            breaks_in_cell: 0,
            breaks_in_row: 0,
        }
    }

    fn read_event(&mut self, event: &Event<'_>) {
        if self.equation.is_some() {
            return self.equation_event(event);
        }
        match event {
            Event::Start(element) => self.start_element(element, true),
            Event::Empty(element) => self.start_element(element, false),
            Event::End(element) => self.end_element(element.local_name().as_ref()),
            _ => {
                if self.in_text
                    && let Some(text) = event_text(event)
                {
                    self.push_text(&text);
                }
            }
        }
    }

    fn equation_event(&mut self, event: &Event<'_>) {
        let Some(equation) = &mut self.equation else { return };
        let written = match event {
            Event::Start(element) => {
                equation.start_element(element, true);
                None
            }
            Event::Empty(element) => {
                equation.start_element(element, false);
                None
            }
            Event::End(element) => equation.end_element(element.local_name().as_ref()),
            _ => {
                event_text(event).iter().for_each(|text| equation.push_text(text));
                None
            }
        };
        if let Some(written) = written {
            self.equation = None;
            self.push_text(&written);
        }
    }

    fn push_text(&mut self, text: &str) {
        let is_outermost = self.paragraphs.len() == 1;
        if self.hidden == 0
            && let Some(paragraph) = self.paragraphs.last_mut()
        {
            if is_outermost && !text.trim().is_empty() {
                paragraph.text.push_str(&std::mem::take(&mut self.drop_cap));
            }
            paragraph.text.push_str(text);
        }
    }

    fn start_element(&mut self, element: &BytesStart<'_>, opens: bool) {
        match element.local_name().as_ref() {
            "p" if opens && self.paragraphs.len() < NESTING_MAX => {
                self.paragraphs.push(WordParagraph::default())
            }
            "t" => self.in_text = opens,
            "oMath" if opens => self.equation = Some(Equation::new()),
            "Fallback" | "moveFrom" if opens => self.hidden += 1,
            "lastRenderedPageBreak" => self.page_break(),
            "footnoteReference" | "endnoteReference" | "commentReference" => {
                self.pending_notes.extend(self.notes.take_note(element));
            }
            name @ ("ddList" | "checkBox") if opens => {
                self.form_field = Some(FormField::from_element_name(name))
            }
            "fldChar" => self.field_mark(&attribute_value(element, "fldCharType").unwrap_or_default()),
            "tab" | "br" | "cr" | "noBreakHyphen" | "sym" => {
                let sign = element_sign(element);
                sign.into_iter().for_each(|sign| self.push_text(sign.encode_utf8(&mut [0; 4])));
            }
            name @ ("default" | "result" | "checked" | "listEntry") => {
                if let Some(field) = &mut self.form_field {
                    field.set_property(name, attribute_value(element, "val"));
                }
            }
            "docPr" | "cNvPr" => self.alternative_text(element),
            "OLEObject" => self.embedded_file(element),
            "chart" => self.add_drawing(element, "id"),
            "relIds" => self.add_drawing(element, "dm"),
            "altChunk" => {
                let chunk = attribute_value(element, "id").and_then(|id| self.embedded.chunks.remove(&id));
                if let Some(chunk) = chunk {
                    self.writer.add_embedded_document(&chunk);
                    self.writer.unread_images(chunk.map_or(UnreadImages::NONE, |chunk| images_of(&chunk)));
                }
            }
            // In drawings, also of earlier versions.
            "blip" => self.add_image(attribute_value(element, "embed")),
            "imagedata" => self.add_image(attribute_value(element, "id")),
            "tbl" if opens && self.rows.len() < NESTING_MAX => {
                self.end_drop_cap();
                self.rows.push(String::new());
            }
            "framePr" => {
                // Word 2003 writes it with a hyphen.
                let kind =
                    attribute_value(element, "dropCap").or_else(|| attribute_value(element, "drop-cap"));
                if let Some(paragraph) = self.paragraphs.last_mut() {
                    paragraph.is_drop_cap = kind.is_some_and(|kind| kind != "none");
                }
            }
            "pStyle" => {
                let style = attribute_value(element, "val").unwrap_or_default();
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
                    paragraph.is_heading |= attribute_value(element, "val").is_some_and(|level| level != "9");
                }
            }
            "ilvl" => {
                let level = attribute_value(element, "val").and_then(|level| level.parse().ok());
                if let (Some(paragraph), Some(level)) = (self.paragraphs.last_mut(), level) {
                    paragraph.level = level;
                }
            }
            "numId" => {
                if let Some(paragraph) = self.paragraphs.last_mut() {
                    paragraph.list = attribute_value(element, "val").filter(|id| id != "0");
                }
            }
            _ => {}
        }
    }

    /// Leaves out the text of a field between its marks if it repeats the value of a form field.
    fn field_mark(&mut self, kind: &str) {
        match kind {
            "begin" => self.repeats = false,
            "separate" if self.repeats && !self.in_repetition => {
                self.in_repetition = true;
                self.hidden += 1;
            }
            "end" if self.in_repetition => {
                (self.in_repetition, self.repeats) = (false, false);
                self.hidden = self.hidden.saturating_sub(1);
            }
            _ => {}
        }
    }

    /// Puts the lines of a chart or diagram below the paragraph.
    fn add_drawing(&mut self, element: &BytesStart<'_>, reference: &str) {
        let lines = attribute_value(element, reference).and_then(|id| self.embedded.drawings.remove(&id));
        self.pending_notes.extend(lines.unwrap_or_default());
    }

    /// Puts the alternative text of a picture below the paragraph.
    fn alternative_text(&mut self, element: &BytesStart<'_>) {
        if self.hidden == 0
            && let Some(line) = alternative_line(element)
            && !self.pending_notes.contains(&line)
        {
            self.pending_notes.push(line);
        }
    }

    /// Puts the text of a file inside the document below the paragraph.
    fn embedded_file(&mut self, element: &BytesStart<'_>) {
        if attribute_value(element, "ProgID").is_none_or(|program| !program.starts_with("Equation")) {
            self.add_drawing(element, "id");
        }
    }

    fn add_image(&mut self, reference: Option<String>) {
        if self.hidden == 0 {
            self.pending_images.extend(reference.and_then(|id| self.embedded.images.get(&id)).cloned());
        }
    }

    fn end_element(&mut self, name: &str) {
        match name {
            "t" => self.in_text = false,
            "Fallback" | "moveFrom" => self.hidden = self.hidden.saturating_sub(1),
            "ddList" | "checkBox" => {
                if let Some(field) = self.form_field.take() {
                    self.push_text(field.display_text());
                    self.repeats = true;
                }
            }
            "p" => match self.paragraphs.pop() {
                Some(paragraph) if paragraph.is_drop_cap => self.drop_cap.push_str(&paragraph.text),
                Some(paragraph) => self.write_paragraph(paragraph),
                None => {}
            },
            "tc" => {
                self.end_drop_cap();
                if let Some(row) = self.rows.last_mut() {
                    row.push('\t');
                }
                if self.rows.len() == 1 {
                    // The cells of a row are on one line.
                    self.breaks_in_row = self.breaks_in_row.max(std::mem::take(&mut self.breaks_in_cell));
                }
            }
            "tr" => self.end_row(),
            "tbl" => {
                self.end_row();
                self.rows.pop();
            }
            _ => {}
        }
    }

    /// Writes an initial that no paragraph follows.
    fn end_drop_cap(&mut self) {
        let text = std::mem::take(&mut self.drop_cap);
        if !text.is_empty() {
            self.write_paragraph(WordParagraph { text, ..WordParagraph::default() });
        }
    }

    fn write_paragraph(&mut self, paragraph: WordParagraph) {
        let mut text = paragraph.text;
        if let Some(list) = &paragraph.list
            && !text.trim().is_empty()
        {
            text = format!("{}{text}", self.numbering.next_number(list, paragraph.level));
        }
        if let Some(row) = self.rows.last_mut() {
            if !row.is_empty() && !row.ends_with(['\t', ' ']) {
                row.push(' ');
            }
            row.push_str(&text.replace('\t', " "));
        } else if paragraph.is_heading {
            self.writer.add_heading(&text);
        } else {
            self.writer.add_line(&text);
        }
        if self.rows.is_empty() {
            self.write_pending();
        }
    }

    /// Ends a row: of an outer table it is a line, of a nested table it is text of the cell.
    fn end_row(&mut self) {
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
                self.writer.add_line(&row);
                self.write_pending();
            }
        }
    }

    fn write_pending(&mut self) {
        for image in std::mem::take(&mut self.pending_images) {
            self.writer.add_image(image);
        }
        for note in std::mem::take(&mut self.pending_notes) {
            self.writer.add_line(&note);
        }
        let breaks = std::mem::take(&mut self.breaks_in_row).max(std::mem::take(&mut self.breaks_in_cell));
        if breaks > 0 {
            self.page = self.page.saturating_add(breaks);
            self.writer.begin_page(self.page);
        }
    }

    /// Handles a page break within or before a paragraph. The part of the paragraph before it stays on its page; in
    /// a table the new page begins after the row.
    fn page_break(&mut self) {
        if !self.has_pages || self.hidden > 0 {
            return;
        }
        if !self.rows.is_empty() || self.paragraphs.len() != 1 {
            self.breaks_in_cell = self.breaks_in_cell.saturating_add(1);
            return;
        }
        if let Some(paragraph) = self.paragraphs.last_mut() {
            let before = std::mem::take(&mut paragraph.text);
            if !before.trim().is_empty() {
                let list = paragraph.list.take();
                let part =
                    WordParagraph { text: before, list, level: paragraph.level, ..WordParagraph::default() };
                self.write_paragraph(part);
            }
        }
        self.page += 1;
        self.writer.begin_page(self.page);
    }

    fn finish_document(mut self) -> Extracted {
        self.end_drop_cap();
        let is_cut = self.notes.is_cut || self.embedded.is_cut;
        let mut extracted = self.writer.finish_document(DocumentFormat::Docx);
        extracted.truncated |= self.page > PAGES_MAX || is_cut;
        extracted
    }
}
