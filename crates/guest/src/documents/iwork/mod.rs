//! Reads documents of Pages, Numbers and Keynote.
//!
//! Since 2013 they are archives of messages of Protocol Buffers (`package`, `message`); earlier ones are XML (`xml`). The numbers of
//! fields and kinds are as in the programs of 2023; those of 2013 have the same.

mod drawn;
mod message;
mod package;
mod table;
mod text;
mod xml;

use std::collections::HashSet;

use drawn::Objects;
use message::Message;
use package::Package;

use super::archive::Archive;
use super::book::Book;
use super::container::Container;
use super::embedded_images::retain_recognizable;
use super::output::Writer;
use super::{ExtractError, Extracted, Format, PAGES_MAX};

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

/// Returns the folder of the archive in which such a document lies, with its slash; `None` if the archive is none.
pub(super) fn root(archive: &mut Archive<'_>) -> Option<String> {
    if is_root(archive, "") {
        return Some(String::new());
    }
    // Archives of the folders as which macOS stores such documents.
    let files = archive.files();
    let (folder, _) = files.first()?.name.split_once('/')?;
    let root = format!("{folder}/");
    let is_one = EXTENSIONS.iter().any(|extension| folder.ends_with(extension))
        && files.iter().all(|file| file.name.starts_with(&root));
    (is_one && is_root(archive, &root)).then_some(root)
}

fn is_root(archive: &Archive<'_>, root: &str) -> bool {
    let contains = |name: &str| archive.contains(&format!("{root}{name}"));
    contains("Index/Document.iwa")
        || contains(package::INDEX) && contains("Metadata/Properties.plist")
        || xml::is_root(archive, root)
}

/// Reads a document in a folder of its archive: a workbook with its sheets, a presentation with its slides, or a text.
pub(super) fn extract(mut archive: Archive<'_>, root: &str) -> Result<Extracted, ExtractError> {
    if PASSWORD_HINTS.iter().any(|hint| archive.contains(&format!("{root}{hint}"))) {
        return Err(ExtractError::Encrypted("iWork"));
    }
    if let Some(extracted) = xml::extract(&mut archive, root)? {
        return Ok(extracted);
    }
    let package = Package::open(&mut archive, root)?;
    let Some((kind, document)) = package.get(DOCUMENT) else {
        return Err(ExtractError::broken("iWork", "it has no document"));
    };
    let mut extracted = if kind == kinds::PAGES_DOCUMENT {
        pages(&package, document)
    } else if let Some(show) = document.reference(2) {
        keynote(&package, package.message(Some(show)))
    } else {
        numbers(&package, document)
    };
    retain_recognizable(&mut archive, &mut extracted);
    Ok(extracted)
}

/// Reads a text: its body with what is anchored in it, what lies on its pages, headers and footers.
fn pages(package: &Package, document: Message<'_>) -> Extracted {
    let mut objects = Objects::new(package);
    let mut writer = Writer::new();
    if let Some(body) = document.reference(4) {
        objects.text(body, &mut writer);
    }
    let floating = package.message(document.reference(3));
    let groups = floating
        .messages(1)
        .flat_map(|page| [2, 4, 3].into_iter().flat_map(move |field| page.messages(field)));
    let drawables = groups.filter_map(|entry| entry.reference(1));
    drawables.for_each(|drawable| objects.drawable(drawable, &mut writer));
    writer.end_heading();
    let mut seen = HashSet::new();
    for text in headers_and_footers(package, document) {
        for paragraph in text::paragraphs(package, text) {
            if seen.insert(paragraph.text.clone()) {
                writer.line(&paragraph.text);
            }
        }
    }
    writer.finish(Format::Pages)
}

/// Returns the texts of the headers and footers of all sections, each once.
fn headers_and_footers(package: &Package, document: Message<'_>) -> Vec<u64> {
    let body = package.message(document.reference(4));
    let sections = body.message(17).messages(1).filter_map(|entry| entry.reference(2));
    let mut seen = HashSet::new();
    let mut texts = Vec::new();
    for section in document.references(5).chain(sections).filter(|section| seen.insert(*section)) {
        let section = package.message(Some(section));
        let templates = [23, 24, 25].into_iter().flat_map(|field| section.references(field));
        let of_template = |template: u64| {
            let template = package.message(Some(template));
            template.references(1).chain(template.references(2))
        };
        texts.extend(templates.flat_map(of_template));
        // Documents of 2013 have them in the section.
        texts.extend([3, 4].into_iter().flat_map(|field| section.references(field)));
    }
    let mut seen = HashSet::new();
    texts.retain(|text| seen.insert(*text));
    texts
}

/// Reads a presentation: each slide is a page.
fn keynote(package: &Package, show: Message<'_>) -> Extracted {
    let tree = show.message(3);
    let mut slides = Vec::new();
    let mut nodes: Vec<(u64, u32)> = tree.references(2).map(|node| (node, 0)).collect();
    if nodes.is_empty() {
        nodes.extend(tree.reference(1).map(|root| (root, 0)));
    }
    nodes.reverse();
    let mut seen = HashSet::new();
    while let Some((node, depth)) = nodes.pop() {
        if !seen.insert(node) || depth > SLIDES_DEPTH_MAX {
            continue;
        }
        let node = package.message(Some(node));
        slides.extend(node.reference(2));
        let children: Vec<u64> = node.references(1).collect();
        nodes.extend(children.into_iter().rev().map(|child| (child, depth + 1)));
    }
    let mut objects = Objects::new(package);
    let mut writer = Writer::new();
    for (slide, page) in slides.into_iter().zip(1..=PAGES_MAX) {
        let slide = package.message(Some(slide));
        writer.slide(page);
        if let Some(title) = slide.reference(5) {
            objects.title(title, &mut writer);
        }
        for field in [6, 30, 42, 7] {
            slide.references(field).for_each(|drawable| objects.drawable(drawable, &mut writer));
        }
        if let Some(note) = package.message(slide.reference(27)).reference(1) {
            objects.text_below(NOTES, note, &mut writer);
        }
        if writer.is_full() {
            break;
        }
    }
    writer.finish(Format::Presentation)
}

/// Reads a workbook: each table is a page, and a sheet without one.
fn numbers(package: &Package, document: Message<'_>) -> Extracted {
    let mut objects = Objects::new(package);
    let mut book = Book::default();
    for sheet in document.references(1) {
        let sheet = package.message(Some(sheet));
        // A sheet with a form has that of its table in it.
        let sheet = if sheet.text(1).is_some() { sheet } else { sheet.message(1) };
        if !objects.sheet(sheet, &mut book) {
            break;
        }
    }
    book.finish()
}

/// Returns true for the name of a style of titles or headings.
fn is_heading_name(name: &str) -> bool {
    let name = name.to_lowercase();
    ["heading", "title"].iter().any(|word| name.contains(word))
}
