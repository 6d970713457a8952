//! Reads electronic books: each file of the reading order is a section, in the order in which it is read.

use std::collections::{HashMap, HashSet};

use quick_xml::events::Event;

use super::archive::ZipReader;
use super::embedded_images::retain_recognizable;
use super::output::DocumentWriter;
use super::parts::resolve_target;
use super::xml::{attribute_value, read_events};
use super::{DocumentFormat, ExtractError, Extracted, PAGES_MAX, html};

/// The maximum size of a part that lists others, and of a section, in bytes.
const LIST_MAX_BYTES: u64 = 4 * 1024 * 1024;
const SECTION_MAX_BYTES: u64 = 16 * 1024 * 1024;
/// The media type of drawings, which may hold text.
const SVG: &str = "image/svg+xml";

pub(super) fn extract_epub(mut archive: ZipReader<'_>) -> Result<Extracted, ExtractError> {
    let container = archive.read_part_text("META-INF/container.xml", LIST_MAX_BYTES)?;
    let mut package = None;
    read_events(container.as_bytes(), |event| {
        if let Event::Start(element) | Event::Empty(element) = event
            && element.local_name().as_ref() == "rootfile"
        {
            package = attribute_value(element, "full-path");
        }
        package.is_none()
    })?;
    let package = package.ok_or_else(|| ExtractError::broken_file("EPUB", "it names no package"))?;
    let sections = list_sections(&mut archive, &package)?;
    if is_encrypted(&mut archive, &sections)? {
        return Err(ExtractError::Encrypted("EPUB"));
    }
    let mut writer = DocumentWriter::new();
    let (mut page, mut is_cut) = (0, false);
    for name in sections {
        let section = archive.read_part_start(&name, SECTION_MAX_BYTES + 1)?.unwrap_or_default();
        is_cut |= section.len() as u64 > SECTION_MAX_BYTES;
        let section = html::extract_html(&section);
        if !section.segments.is_empty() {
            page += 1;
            writer.begin_slide(page);
            writer.append_document(&section);
        }
        // An image without text beside it belongs to the section before.
        if page > 0 {
            let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
            let images = section
                .images
                .iter()
                .map(|image| resolve_target(folder, &decode_percent_encoding(&image.part)));
            images.for_each(|part| writer.add_image(part));
        }
        if writer.is_full() || page == PAGES_MAX {
            break;
        }
    }
    let mut extracted = writer.finish_document(DocumentFormat::Book);
    extracted.truncated |= is_cut;
    retain_recognizable(&mut archive, &mut extracted);
    Ok(extracted)
}

/// Returns the names of the files in the reading order.
fn list_sections(archive: &mut ZipReader<'_>, package: &str) -> Result<Vec<String>, ExtractError> {
    let folder = package.rsplit_once('/').map_or("", |(folder, _)| folder);
    let list = archive.read_part_text(package, LIST_MAX_BYTES)?;
    let (mut files, mut order) = (HashMap::new(), Vec::new());
    read_events(list.as_bytes(), |event| {
        if let Event::Start(element) | Event::Empty(element) = event {
            match element.local_name().as_ref() {
                "item" => {
                    // The reading order may also contain images and sounds.
                    let kind = attribute_value(element, "media-type").unwrap_or_default();
                    let is_text = !["image/", "audio/", "video/"].iter().any(|other| kind.starts_with(other));
                    if let (true, Some(id), Some(path)) = (
                        is_text || kind == SVG,
                        attribute_value(element, "id"),
                        attribute_value(element, "href"),
                    ) {
                        files.insert(id, resolve_target(folder, &decode_percent_encoding(&path)));
                    }
                }
                "itemref" => order.extend(attribute_value(element, "idref")),
                _ => {}
            }
        }
        order.len() <= PAGES_MAX as usize
    })?;
    // A section that a book lists several times would be read several times.
    let mut known = HashSet::new();
    let sections = order.iter().filter_map(|id| files.get(id).cloned());
    Ok(sections.filter(|name| known.insert(name.clone())).collect())
}

/// Returns true if a section is encrypted; many books encrypt only their fonts.
fn is_encrypted(archive: &mut ZipReader<'_>, sections: &[String]) -> Result<bool, ExtractError> {
    let list = archive.read_part_text("META-INF/encryption.xml", LIST_MAX_BYTES)?;
    let mut encrypted = false;
    read_events(list.as_bytes(), |event| {
        if let Event::Start(element) | Event::Empty(element) = event
            && element.local_name().as_ref() == "CipherReference"
            && let Some(path) = attribute_value(element, "URI")
        {
            let path = decode_percent_encoding(&path);
            encrypted |= sections.contains(&path);
        }
        !encrypted
    })?;
    Ok(encrypted)
}

/// Decodes `%20` and the like in a path.
fn decode_percent_encoding(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_decoded_once() {
        assert_eq!(decode_percent_encoding("a%20b%C4%8D%2520%zz%"), "a bč%20%zz%");
    }
}
