//! The parts of Office documents since 2007 (Open Packaging Conventions) and the references between them.

use std::collections::HashMap;

use quick_xml::events::Event;

use super::ExtractError;
use super::archive::ZipReader;
use super::xml::{attribute_value, read_events, unless_broken};

/// The maximum size of a part that lists others, in bytes.
pub(super) const LIST_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// A reference from a part to another one.
pub(super) struct Relation {
    pub(super) id: String,
    /// The last part of its type.
    pub(super) kind: String,
    /// The name of the part in the archive.
    pub(super) target: String,
}

/// Returns the name of the part with the document itself: the one that the list names, else the usual one.
pub(super) fn main_part(archive: &mut ZipReader<'_>) -> Result<Option<String>, ExtractError> {
    const USUAL: [&str; 2] = ["word/document.xml", "ppt/presentation.xml"];
    let main = read_relations(archive, "")?.into_iter().find(|relation| relation.kind == "officeDocument");
    let mut names = main.map(|relation| relation.target).into_iter().chain(USUAL.map(str::to_owned));
    Ok(names.find(|name| archive.has_part(name)))
}

/// Reads the references of a part, of the whole document if it has no name; empty if the list of them is missing.
pub(super) fn read_relations(archive: &mut ZipReader<'_>, part: &str) -> Result<Vec<Relation>, ExtractError> {
    let (folder, file) = part.rsplit_once('/').unwrap_or(("", part));
    let list =
        archive.read_part_text(&resolve_target(folder, &format!("_rels/{file}.rels")), LIST_MAX_BYTES)?;
    let mut relations = Vec::new();
    let read = read_events(list.as_bytes(), |event| {
        if let Event::Start(element) | Event::Empty(element) = event
            && let (Some(id), Some(kind), Some(target)) = (
                attribute_value(element, "Id"),
                attribute_value(element, "Type"),
                attribute_value(element, "Target"),
            )
        {
            let kind = kind.rsplit('/').next().unwrap_or_default().to_owned();
            relations.push(Relation { id, kind, target: resolve_target(folder, &target) });
        }
        true
    });
    unless_broken(read)?;
    Ok(relations)
}

/// Returns the parts of images by the identifiers of their references.
pub(super) fn image_targets(relations: &[Relation]) -> HashMap<String, String> {
    let images = relations.iter().filter(|relation| relation.kind == "image");
    images.map(|relation| (relation.id.clone(), relation.target.clone())).collect()
}

/// Resolves a path against the folder of the part that names it.
pub(super) fn resolve_target(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = match target.starts_with('/') {
        true => Vec::new(),
        false => folder.split('/').filter(|part| !part.is_empty()).collect(),
    };
    for part in target.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}
