//! Reads the content beside the cells on the sheets of a workbook since 2007: text boxes, notes at cells,
//! images with their alternative texts, and files inside the workbook.

use std::collections::{HashMap, HashSet};
use std::io::Read;

use quick_xml::events::Event;

use super::archive::ZipReader;
use super::parts::{LIST_MAX_BYTES, Relation, read_relations};
use super::xml::{alternative_line, attribute_value, event_text, read_events};
use super::{ExtractError, Nesting, OUTPUT_MAX_BYTES, PAGES_MAX, embedded_files};

/// The part that lists the sheets.
const WORKBOOK: &str = "xl/workbook.xml";

/// The content of a sheet beside the cells.
#[derive(Default)]
pub(super) struct SheetExtras {
    /// The text boxes, notes, texts of images, and files.
    pub(super) lines: Vec<String>,
    /// The parts of images.
    pub(super) images: Vec<String>,
    /// True if a part was left out, or read in part.
    pub(super) is_cut: bool,
}

/// Returns the content beside the cells of each sheet that has any, by the sheet's name.
pub(super) fn read_sheet_extras(
    archive: &mut ZipReader<'_>,
    nesting: Nesting<'_>,
) -> Result<HashMap<String, SheetExtras>, ExtractError> {
    let (mut found, mut parts, mut bytes) = (HashMap::<String, SheetExtras>::new(), HashSet::new(), 0);
    for (name, sheet) in list_sheets(archive)? {
        for Relation { kind, target, .. } in read_relations(archive, &sheet)? {
            let is_file = matches!(kind.as_str(), "package" | "oleObject");
            if !(is_file || matches!(kind.as_str(), "drawing" | "comments")) || !parts.insert(target.clone())
            {
                continue;
            }
            let beside = found.entry(name.clone()).or_default();
            if bytes > OUTPUT_MAX_BYTES {
                beside.is_cut = true;
                continue;
            }
            let lines = if is_file {
                let file = embedded_files::read_embedded_file(archive, &target, nesting)?;
                beside.is_cut |= file.is_cut;
                file.lines
            } else {
                let Some(part) = archive.open_part(&target)? else { continue };
                if kind == "drawing" { read_drawing_texts(part)? } else { read_cell_notes(part)? }
            };
            bytes += lines.iter().map(String::len).sum::<usize>();
            beside.lines.extend(lines);
            if kind == "drawing" {
                let related = read_relations(archive, &target)?.into_iter();
                let images = related.filter(|relation| relation.kind == "image");
                beside.images.extend(images.map(|image| image.target));
            }
        }
    }
    Ok(found)
}

/// Returns the texts of a drawing: the alternative texts of its pictures, and the paragraphs of its shapes.
fn read_drawing_texts(part: impl Read) -> Result<Vec<String>, ExtractError> {
    let (mut lines, mut line, mut in_text, mut bytes) = (Vec::<String>::new(), String::new(), false, 0);
    read_events(part, |event| {
        match event {
            Event::Start(element) | Event::Empty(element) => match element.local_name().as_ref() {
                "t" => in_text = matches!(event, Event::Start(_)),
                "tab" | "br" => line.push(' '),
                "cNvPr" => {
                    // A drawing may have the same picture for older programs, too.
                    let text = alternative_line(element).filter(|text| lines.last() != Some(text));
                    bytes += text.as_ref().map_or(0, String::len);
                    lines.extend(text);
                }
                _ => {}
            },
            Event::End(element) => match element.local_name().as_ref() {
                "t" => in_text = false,
                "p" if line.trim().is_empty() => line.clear(),
                "p" => lines.push(std::mem::take(&mut line)),
                _ => {}
            },
            _ => {
                if in_text && let Some(text) = event_text(event) {
                    bytes += text.len();
                    line.push_str(&text);
                }
            }
        }
        bytes <= OUTPUT_MAX_BYTES
    })?;
    Ok(lines)
}

/// Returns the names of the sheets with their parts.
fn list_sheets(archive: &mut ZipReader<'_>) -> Result<Vec<(String, String)>, ExtractError> {
    let targets: HashMap<String, String> = read_relations(archive, WORKBOOK)?
        .into_iter()
        .map(|relation| (relation.id, relation.target))
        .collect();
    let list = archive.read_part_text(WORKBOOK, LIST_MAX_BYTES)?;
    let mut sheets = Vec::new();
    read_events(list.as_bytes(), |event| {
        if let Event::Start(element) | Event::Empty(element) = event
            && element.local_name().as_ref() == "sheet"
            && let (Some(name), Some(id)) = (attribute_value(element, "name"), attribute_value(element, "id"))
            && let Some(target) = targets.get(&id)
        {
            sheets.push((name, target.clone()));
        }
        sheets.len() < PAGES_MAX as usize
    })?;
    Ok(sheets)
}

/// Returns the notes of a sheet, each with its cell.
fn read_cell_notes(part: impl Read) -> Result<Vec<String>, ExtractError> {
    let (mut notes, mut note, mut in_text, mut bytes) = (Vec::new(), String::new(), false, 0);
    read_events(part, |event| {
        match event {
            Event::Start(element) => match element.local_name().as_ref() {
                "comment" => note = format!("{}: ", attribute_value(element, "ref").unwrap_or_default()),
                name => in_text = name == "t",
            },
            Event::End(element) => {
                in_text = false;
                if element.local_name().as_ref() == "comment" {
                    notes.push(std::mem::take(&mut note));
                }
            }
            _ => {
                if in_text && let Some(text) = event_text(event) {
                    bytes += text.len();
                    note.push_str(&text);
                }
            }
        }
        bytes <= OUTPUT_MAX_BYTES
    })?;
    Ok(notes)
}
