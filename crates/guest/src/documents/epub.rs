//! Reads electronic books: each file of the reading order is a section, in the order in which it is read.

use std::collections::{HashMap, HashSet};

use quick_xml::events::Event;

use super::archive::Archive;
use super::embedded_images::retain_recognizable;
use super::output::Writer;
use super::parts::resolve;
use super::xml::{attribute, events};
use super::{ExtractError, Extracted, Format, PAGES_MAX, html};

/// The maximum size of a part that lists others, and of a section, in bytes.
const LIST_MAX_BYTES: u64 = 4 * 1024 * 1024;
const SECTION_MAX_BYTES: u64 = 16 * 1024 * 1024;
/// The media type of drawings, which may hold text.
const SVG: &str = "image/svg+xml";

pub(super) fn extract(mut archive: Archive<'_>) -> Result<Extracted, ExtractError> {
    let container = archive.text("META-INF/container.xml", LIST_MAX_BYTES)?;
    let mut package = None;
    events(container.as_bytes(), |event| {
        if let Event::Start(element) | Event::Empty(element) = event
            && element.local_name().as_ref() == "rootfile"
        {
            package = attribute(element, "full-path");
        }
        package.is_none()
    })?;
    let package = package.ok_or_else(|| ExtractError::broken("EPUB", "it names no package"))?;
    let sections = sections(&mut archive, &package)?;
    if is_encrypted(&mut archive, &sections)? {
        return Err(ExtractError::Encrypted("EPUB"));
    }
    let mut writer = Writer::new();
    let (mut page, mut is_cut) = (0, false);
    for name in sections {
        let section = archive.beginning(&name, SECTION_MAX_BYTES + 1)?.unwrap_or_default();
        is_cut |= section.len() as u64 > SECTION_MAX_BYTES;
        let section = html::extract(&section);
        if !section.segments.is_empty() {
            page += 1;
            writer.slide(page);
            writer.append(&section);
        }
        // An image without text beside it belongs to the section before.
        if page > 0 {
            let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
            let images = section.images.iter().map(|image| resolve(folder, &decoded(&image.part)));
            images.for_each(|part| writer.image(part));
        }
        if writer.is_full() || page == PAGES_MAX {
            break;
        }
    }
    let mut extracted = writer.finish(Format::Book);
    extracted.truncated |= is_cut;
    retain_recognizable(&mut archive, &mut extracted);
    Ok(extracted)
}

/// Returns the names of the files in the reading order.
fn sections(archive: &mut Archive<'_>, package: &str) -> Result<Vec<String>, ExtractError> {
    let folder = package.rsplit_once('/').map_or("", |(folder, _)| folder);
    let list = archive.text(package, LIST_MAX_BYTES)?;
    let (mut files, mut order) = (HashMap::new(), Vec::new());
    events(list.as_bytes(), |event| {
        if let Event::Start(element) | Event::Empty(element) = event {
            match element.local_name().as_ref() {
                "item" => {
                    // Images and sounds may stand in the reading order, too.
                    let kind = attribute(element, "media-type").unwrap_or_default();
                    let is_text = !["image/", "audio/", "video/"].iter().any(|other| kind.starts_with(other));
                    if let (true, Some(id), Some(path)) =
                        (is_text || kind == SVG, attribute(element, "id"), attribute(element, "href"))
                    {
                        files.insert(id, resolve(folder, &decoded(&path)));
                    }
                }
                "itemref" => order.extend(attribute(element, "idref")),
                _ => {}
            }
        }
        order.len() <= PAGES_MAX as usize
    })?;
    // A book that names a section often would be read as often.
    let mut known = HashSet::new();
    let sections = order.iter().filter_map(|id| files.get(id).cloned());
    Ok(sections.filter(|name| known.insert(name.clone())).collect())
}

/// Returns true if a section is encrypted; many books encrypt only their fonts.
fn is_encrypted(archive: &mut Archive<'_>, sections: &[String]) -> Result<bool, ExtractError> {
    let list = archive.text("META-INF/encryption.xml", LIST_MAX_BYTES)?;
    let mut encrypted = false;
    events(list.as_bytes(), |event| {
        if let Event::Start(element) | Event::Empty(element) = event
            && element.local_name().as_ref() == "CipherReference"
            && let Some(path) = attribute(element, "URI")
        {
            let path = decoded(&path);
            encrypted |= sections.contains(&path);
        }
        !encrypted
    })?;
    Ok(encrypted)
}

/// Decodes `%20` and the like in a path.
fn decoded(path: &str) -> String {
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
        assert_eq!(decoded("a%20b%C4%8D%2520%zz%"), "a bč%20%zz%");
    }
}
