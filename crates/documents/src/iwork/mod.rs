//! Reads documents of Pages, Numbers and Keynote.
//!
//! Since 2013 they are archives of messages of Protocol Buffers (`package`, `message`); earlier ones are XML (`xml`). The numbers
//! of fields and kinds are as in the programs of 2023; the programs of 2013 use the same.

mod drawn;
mod message;
mod package;
mod table;
mod text;
mod xml;

use std::collections::HashSet;

use drawn::Objects;
use message::ProtoMessage;
use package::IworkPackage;

use super::archive::ZipReader;
use super::book::WorkbookWriter;
use super::container::FileContainer;
use super::embedded_images::retain_recognizable;
use super::output::DocumentWriter;
use super::{DocumentFormat, ExtractError, Extracted, PAGES_MAX};

/// The numbers of the kinds of objects.
mod kinds {
    pub(super) const TEXT: [u32; 2] = [2001, 2005];
    pub(super) const DRAWABLE_ATTACHMENT: u32 = 2003;
    pub(super) const FOOTNOTE: u32 = 2008;
    pub(super) const IMAGE: u32 = 3005;
    pub(super) const GROUP: u32 = 3008;
    pub(super) const CHART: u32 = 5021;
    pub(super) const TABLE: u32 = 6000;
    pub(super) const TABLE_OF_PAGES: u32 = 6007;
    pub(super) const TABLES: [u32; 2] = [TABLE, TABLE_OF_PAGES];
    pub(super) const PAGES_DOCUMENT: u32 = 10_000;
    pub(super) const METADATA: u32 = 11_006;
}

/// The object with the document.
const DOCUMENT: u64 = 1;
/// The depth of slides that are grouped below others.
const SLIDES_DEPTH_MAX: u32 = 16;
/// The line above the speaker's notes.
const NOTES: &str = "Notes:";
/// The extensions of the documents.
const EXTENSIONS: [&str; 3] = [".pages", ".numbers", ".key"];
/// The files of a password in an encrypted document.
const PASSWORD_HINTS: [&str; 2] = [".iwph", ".iwpv2"];

/// Returns the folder of the archive in which such a document lies, with its slash; `None` if the archive is not such a
/// document.
pub(super) fn find_root_folder(archive: &mut ZipReader<'_>) -> Option<String> {
    if is_root(archive, "") {
        return Some(String::new());
    }
    // Archives of the folders as which macOS stores such documents.
    let files = archive.list_files();
    let (folder, _) = files.first()?.name.split_once('/')?;
    let root = format!("{folder}/");
    let is_one = EXTENSIONS.iter().any(|extension| folder.ends_with(extension))
        && files.iter().all(|file| file.name.starts_with(&root));
    (is_one && is_root(archive, &root)).then_some(root)
}

fn is_root(archive: &ZipReader<'_>, root: &str) -> bool {
    let contains = |name: &str| archive.has_part(&format!("{root}{name}"));
    contains("Index/Document.iwa")
        || contains(package::INDEX) && contains("Metadata/Properties.plist")
        || xml::is_root(archive, root)
}

/// Reads a document in a folder of its archive: a workbook with its sheets, a presentation with its slides, or a text.
pub(super) fn extract_iwork(mut archive: ZipReader<'_>, root: &str) -> Result<Extracted, ExtractError> {
    if PASSWORD_HINTS.iter().any(|hint| archive.has_part(&format!("{root}{hint}"))) {
        return Err(ExtractError::Encrypted("iWork"));
    }
    if let Some(extracted) = xml::extract_iwork_xml(&mut archive, root)? {
        return Ok(extracted);
    }
    let package = IworkPackage::from_archive(&mut archive, root)?;
    let Some((kind, document)) = package.get(DOCUMENT) else {
        return Err(ExtractError::broken_file("iWork", "it has no document"));
    };
    let mut extracted = if kind == kinds::PAGES_DOCUMENT {
        extract_pages(&package, document)
    } else if let Some(show) = document.reference_field(2) {
        extract_keynote(&package, package.object_message(Some(show)))
    } else {
        extract_numbers(&package, document)
    };
    retain_recognizable(&mut archive, &mut extracted);
    Ok(extracted)
}

/// Reads a text: its body with anchored objects, the objects on its pages, headers and footers.
fn extract_pages(package: &IworkPackage, document: ProtoMessage<'_>) -> Extracted {
    let mut objects = Objects::new(package);
    let mut writer = DocumentWriter::new();
    if let Some(body) = document.reference_field(4) {
        objects.write_text(body, &mut writer);
    }
    let floating = package.object_message(document.reference_field(3));
    let groups = floating
        .message_fields(1)
        .flat_map(|page| [2, 4, 3].into_iter().flat_map(move |field| page.message_fields(field)));
    let drawables = groups.filter_map(|entry| entry.reference_field(1));
    drawables.for_each(|drawable| objects.write_drawable(drawable, &mut writer));
    writer.end_heading();
    let mut seen = HashSet::new();
    for text in headers_and_footers(package, document) {
        for paragraph in text::read_paragraphs(package, text) {
            if seen.insert(paragraph.text.clone()) {
                writer.add_line(&paragraph.text);
            }
        }
    }
    writer.finish_document(DocumentFormat::Pages)
}

/// Returns the texts of the headers and footers of all sections, each once.
fn headers_and_footers(package: &IworkPackage, document: ProtoMessage<'_>) -> Vec<u64> {
    let body = package.object_message(document.reference_field(4));
    let sections = body.message_field(17).message_fields(1).filter_map(|entry| entry.reference_field(2));
    let mut seen = HashSet::new();
    let mut texts = Vec::new();
    for section in document.reference_fields(5).chain(sections).filter(|section| seen.insert(*section)) {
        let section = package.object_message(Some(section));
        let templates = [23, 24, 25].into_iter().flat_map(|field| section.reference_fields(field));
        let of_template = |template: u64| {
            let template = package.object_message(Some(template));
            template.reference_fields(1).chain(template.reference_fields(2))
        };
        texts.extend(templates.flat_map(of_template));
        // Documents of 2013 have them in the section.
        texts.extend([3, 4].into_iter().flat_map(|field| section.reference_fields(field)));
    }
    let mut seen = HashSet::new();
    texts.retain(|text| seen.insert(*text));
    texts
}

/// Reads a presentation: each slide is a page.
fn extract_keynote(package: &IworkPackage, show: ProtoMessage<'_>) -> Extracted {
    let tree = show.message_field(3);
    let mut slides = Vec::new();
    let mut nodes: Vec<(u64, u32)> = tree.reference_fields(2).map(|node| (node, 0)).collect();
    if nodes.is_empty() {
        nodes.extend(tree.reference_field(1).map(|root| (root, 0)));
    }
    nodes.reverse();
    let mut seen = HashSet::new();
    while let Some((node, depth)) = nodes.pop() {
        if !seen.insert(node) || depth > SLIDES_DEPTH_MAX {
            continue;
        }
        let node = package.object_message(Some(node));
        slides.extend(node.reference_field(2));
        let children: Vec<u64> = node.reference_fields(1).collect();
        nodes.extend(children.into_iter().rev().map(|child| (child, depth + 1)));
    }
    let mut objects = Objects::new(package);
    let mut writer = DocumentWriter::new();
    for (slide, page) in slides.into_iter().zip(1..=PAGES_MAX) {
        let slide = package.object_message(Some(slide));
        writer.begin_slide(page);
        if let Some(title) = slide.reference_field(5) {
            objects.write_title(title, &mut writer);
        }
        for field in [6, 30, 42, 7] {
            slide.reference_fields(field).for_each(|drawable| objects.write_drawable(drawable, &mut writer));
        }
        if let Some(note) = package.object_message(slide.reference_field(27)).reference_field(1) {
            objects.text_below(NOTES, note, &mut writer);
        }
        if writer.is_full() {
            break;
        }
    }
    writer.finish_document(DocumentFormat::Presentation)
}

/// Reads a workbook: each table is a page, and a sheet without one.
fn extract_numbers(package: &IworkPackage, document: ProtoMessage<'_>) -> Extracted {
    let mut objects = Objects::new(package);
    let mut book = WorkbookWriter::default();
    for sheet in document.reference_fields(1) {
        let sheet = package.object_message(Some(sheet));
        // A sheet with a form contains the sheet of its table.
        let sheet = if sheet.text_field(1).is_some() { sheet } else { sheet.message_field(1) };
        if !objects.read_sheet(sheet, &mut book) {
            break;
        }
    }
    book.finish_workbook()
}

/// Returns true for the name of a style of titles or headings.
fn is_heading_name(name: &str) -> bool {
    let name = name.to_lowercase();
    ["heading", "title"].iter().any(|word| name.contains(word))
}
