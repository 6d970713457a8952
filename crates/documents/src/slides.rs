//! Reads presentations: each slide is a page with its title as the heading, tables as rows, the speaker's notes, and comments.

use std::collections::{HashMap, HashSet};
use std::io::Read;

use quick_xml::events::{BytesStart, Event};

use super::archive::ZipReader;
use super::embedded_images::retain_recognizable;
use super::equation::Equation;
use super::output::DocumentWriter;
use super::parts::{LIST_MAX_BYTES, Relation, image_targets, read_relations};
use super::xml::{
    alternative_line, attribute_value, comment_line, event_text, read_events, read_paragraphs, unless_broken,
};
use super::{DocumentFormat, ExtractError, Extracted, Nesting, PAGES_MAX, chart, embedded_files};

/// The maximum number of authors of comments, and the maximum name of one, in bytes.
const AUTHORS_MAX: usize = 10_000;
const AUTHOR_MAX_BYTES: usize = 200;
/// The depth of comments: a comment and a reply.
const COMMENTS_DEPTH_MAX: usize = 2;
/// The maximum text length of the comments of a slide, in bytes.
const COMMENTS_MAX_BYTES: usize = 1024 * 1024;
/// The line above the speaker's notes.
const NOTES: &str = "Notes:";

/// Reads a presentation of PowerPoint since 2007, with the presentation's own part.
pub(super) fn extract_pptx(
    mut archive: ZipReader<'_>,
    main: &str,
    nesting: Nesting<'_>,
) -> Result<Extracted, ExtractError> {
    let mut writer = DocumentWriter::new();
    let authors = read_comment_authors(&mut archive, main)?;
    let mut commented = HashSet::new();
    for (name, page) in list_slides(&mut archive, main)?.into_iter().zip(1..=PAGES_MAX) {
        writer.begin_slide(page);
        let relations = read_relations(&mut archive, &name)?;
        let images = image_targets(&relations);
        write_part(&mut archive, &mut writer, &name, Some(images))?;
        for Relation { target, kind, .. } in &relations {
            let read = match kind.as_str() {
                "diagramData" => read_paragraphs,
                "chart" => chart::read_chart_lines,
                "package" | "oleObject" => {
                    let file = embedded_files::read_embedded_file(&mut archive, target, nesting)?;
                    file.lines.iter().for_each(|line| writer.add_line(line));
                    if file.is_cut {
                        writer.leave_out();
                    }
                    continue;
                }
                _ => continue,
            };
            if let Some(part) = archive.open_part(target)? {
                unless_broken(read(part))?.iter().for_each(|line| writer.add_line(line));
            }
        }
        if let Some(notes) = relations.iter().find(|relation| relation.kind == "notesSlide") {
            write_part(&mut archive, &mut writer, &notes.target, None)?;
        }
        for Relation { target, .. } in relations.iter().filter(|relation| relation.kind == "comments") {
            if commented.insert(target.clone())
                && let Some(part) = archive.open_part(target)?
            {
                unless_broken(read_comments(part, &authors))?.iter().for_each(|line| writer.add_line(line));
            }
        }
        if writer.is_full() {
            break;
        }
    }
    let mut extracted = writer.finish_document(DocumentFormat::Presentation);
    retain_recognizable(&mut archive, &mut extracted);
    Ok(extracted)
}

/// Writes the paragraphs of a slide with its images, or of its notes if no images are given.
fn write_part(
    archive: &mut ZipReader<'_>,
    writer: &mut DocumentWriter,
    name: &str,
    images: Option<HashMap<String, String>>,
) -> Result<(), ExtractError> {
    let Some(part) = archive.open_part(name)? else { return Ok(()) };
    let mut slide = Slide::new(writer, images.is_none());
    slide.images = images.unwrap_or_default();
    read_events(part, |event| slide.read_event(event))
}

/// Returns the names of the authors of comments by their ids.
fn read_comment_authors(
    archive: &mut ZipReader<'_>,
    main: &str,
) -> Result<HashMap<String, String>, ExtractError> {
    let mut authors = HashMap::new();
    for Relation { target, .. } in read_relations(archive, main)?
        .iter()
        .filter(|relation| matches!(relation.kind.as_str(), "commentAuthors" | "authors"))
    {
        let Some(part) = archive.open_part(target)? else { continue };
        let read = read_events(part, |event| {
            if let Event::Start(element) | Event::Empty(element) = event
                && let (Some(id), Some(mut name)) =
                    (attribute_value(element, "id"), attribute_value(element, "name"))
            {
                name.truncate(name.floor_char_boundary(AUTHOR_MAX_BYTES));
                authors.insert(id, name);
            }
            authors.len() < AUTHORS_MAX
        });
        unless_broken(read)?;
    }
    Ok(authors)
}

/// Returns the comments of a slide, each before its replies.
fn read_comments(part: impl Read, authors: &HashMap<String, String>) -> Result<Vec<String>, ExtractError> {
    let (mut lines, mut replies, mut in_text, mut bytes) = (Vec::new(), Vec::new(), false, 0);
    // A comment, and the reply inside it, with their authors.
    let mut open: Vec<(String, String)> = Vec::new();
    read_events(part, |event| {
        match event {
            Event::Start(element) | Event::Empty(element) => match element.local_name().as_ref() {
                "cm" | "reply" if open.len() < COMMENTS_DEPTH_MAX && matches!(event, Event::Start(_)) => {
                    let author =
                        attribute_value(element, "authorId").and_then(|id| authors.get(&id).cloned());
                    open.push((author.unwrap_or_default(), String::new()));
                }
                "text" | "t" => in_text = matches!(event, Event::Start(_)),
                "br" => open.iter_mut().last().into_iter().for_each(|(_, text)| text.push(' ')),
                _ => {}
            },
            Event::End(element) => match element.local_name().as_ref() {
                "text" | "t" => in_text = false,
                "p" => open.iter_mut().last().into_iter().for_each(|(_, text)| text.push(' ')),
                name @ ("cm" | "reply") => {
                    let comment = open.pop().filter(|(_, text)| !text.trim().is_empty());
                    let line = comment.map(|(author, text)| comment_line(&author, &text));
                    // The file has replies before the comment that they reply to.
                    if name == "cm" {
                        lines.extend(line);
                        lines.append(&mut replies);
                    } else {
                        replies.extend(line);
                    }
                }
                _ => {}
            },
            _ => {
                if in_text && let (Some((_, comment)), Some(text)) = (open.last_mut(), event_text(event)) {
                    bytes += text.len();
                    comment.push_str(&text);
                }
            }
        }
        bytes <= COMMENTS_MAX_BYTES
    })?;
    lines.append(&mut replies);
    Ok(lines)
}

/// Returns the names of the slides' parts in their order.
fn list_slides(archive: &mut ZipReader<'_>, main: &str) -> Result<Vec<String>, ExtractError> {
    let relations = read_relations(archive, main)?;
    let list = archive.read_part_text(main, LIST_MAX_BYTES)?;
    let mut ids = Vec::new();
    read_events(list.as_bytes(), |event| {
        if let Event::Start(element) | Event::Empty(element) = event
            && element.local_name().as_ref() == "sldId"
        {
            // It has two attributes `id`, and the second one is the relation's.
            for attribute in element.attributes().with_checks(false).flatten() {
                if attribute.key.as_ref() == "r:id" {
                    ids.push(attribute.value.to_string());
                }
            }
        }
        ids.len() < PAGES_MAX as usize
    })?;
    let target = |id: &String| relations.iter().find(|one| one.id == *id).map(|one| one.target.clone());
    Ok(ids.iter().filter_map(target).collect())
}

/// The text of a slide or of its notes.
struct Slide<'a> {
    writer: &'a mut DocumentWriter,
    line: String,
    row: Option<String>,
    /// The kind of the placeholder that the current shape fills.
    placeholder: String,
    is_notes: bool,
    has_notes: bool,
    in_text: bool,
    equation: Option<Equation>,
    /// The parts of images by the identifiers of their references.
    images: HashMap<String, String>,
}

impl<'a> Slide<'a> {
    fn new(writer: &'a mut DocumentWriter, is_notes: bool) -> Self {
        Self {
            writer,
            line: String::new(),
            row: None,
            placeholder: String::new(),
            is_notes,
            has_notes: false,
            in_text: false,
            equation: None,
            images: HashMap::new(),
        }
    }

    fn read_event(&mut self, event: &Event<'_>) -> bool {
        if let Some(equation) = &mut self.equation {
            match event {
                Event::Start(element) => equation.start_element(element, true),
                Event::Empty(element) => equation.start_element(element, false),
                Event::End(element) => {
                    if let Some(written) = equation.end_element(element.local_name().as_ref()) {
                        self.line.push_str(&written);
                        self.equation = None;
                    }
                }
                _ => event_text(event).iter().for_each(|text| equation.push_text(text)),
            }
            return !self.writer.is_full();
        }
        match event {
            Event::Start(element) if Equation::is_begun_by(element) => {
                self.equation = Some(Equation::new());
            }
            Event::Start(element) => self.start_element(element),
            Event::Empty(element) => {
                self.start_element(element);
                self.in_text = false;
            }
            Event::End(element) => self.end_element(element.local_name().as_ref()),
            _ if self.in_text => self.line.extend(event_text(event)),
            _ => {}
        }
        !self.writer.is_full()
    }

    fn start_element(&mut self, element: &BytesStart<'_>) {
        match element.local_name().as_ref() {
            "sp" => self.placeholder.clear(),
            "ph" => self.placeholder = attribute_value(element, "type").unwrap_or_else(|| "body".to_owned()),
            "t" => self.in_text = true,
            "br" | "tab" => self.line.push(' '),
            "tr" => self.row = Some(String::new()),
            "cNvPr" if !self.is_notes => {
                alternative_line(element).iter().for_each(|line| self.writer.add_line(line));
            }
            "blip" => {
                let part = attribute_value(element, "embed").and_then(|id| self.images.get(&id));
                if let Some(part) = part {
                    self.writer.add_image(part.clone());
                }
            }
            _ => {}
        }
    }

    fn end_element(&mut self, name: &str) {
        match name {
            "t" => self.in_text = false,
            "p" => self.end_paragraph(),
            "tc" => {
                if let Some(row) = &mut self.row {
                    row.push('\t');
                }
            }
            "tr" => {
                if let Some(row) = self.row.take() {
                    self.writer.add_line(row.trim_end_matches('\t'));
                }
            }
            _ => {}
        }
    }

    fn end_paragraph(&mut self) {
        let line = std::mem::take(&mut self.line);
        // Numbers of slides, dates and footers repeat on each.
        if line.trim().is_empty()
            || matches!(self.placeholder.as_str(), "sldNum" | "dt" | "ftr" | "hdr" | "sldImg")
        {
            return;
        }
        if let Some(row) = &mut self.row {
            if !row.is_empty() && !row.ends_with('\t') {
                row.push(' ');
            }
            row.push_str(line.trim());
        } else if self.is_notes {
            if !self.has_notes {
                self.writer.add_line(NOTES);
            }
            self.has_notes = true;
            self.writer.add_line(&line);
        } else if matches!(self.placeholder.as_str(), "title" | "ctrTitle") {
            self.writer.add_heading(&line);
        } else {
            self.writer.add_line(&line);
        }
    }
}
